"""The Spark session of a source: the one at hand, or one started when it is first needed.

Also how what Spark says becomes an error of a pipeline: one line, whatever way it came. Invariant:
nothing that Spark raises, in Python or in its JVM, leaves `spark_errors` as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from deltafix.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LiveSpark", "spark_errors"]


class LiveSpark:
    """Holds a session from its first use to `close`, which stops it only if it was started here."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._stack = ExitStack()
        self._session: SparkSession | None = None
        self._options = options

    def session(self) -> SparkSession:
        """The session. Raises SparkMissingError, JavaNotFoundError, PipelineError."""
        if self._session is None:
            from deltafix.spark.session import spark_session  # noqa: PLC0415  Spark is an extra

            with spark_errors("Spark cannot be started", "; what it printed says why"):
                self._session = self._stack.enter_context(spark_session(options=self._options))
        return self._session

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._session = None
        self._stack.close()


@contextmanager
def spark_errors(start: str, hint: str = "", **values: Any) -> Iterator[None]:
    """Raise PipelineError for what Spark raises: `start`, its first line, and a `hint`."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  comes with Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415  Spark is an extra

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{start}: {_reason(error)}{hint}", **values) from error


def _reason(error: Any) -> str:
    """The first line of what went wrong; of the innermost cause, where the JVM wrapped it."""
    cause = getattr(error, "java_exception", None)
    if cause is None:
        return str(error).strip().split("\n", 1)[0]
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).split("\n", 1)[0]
