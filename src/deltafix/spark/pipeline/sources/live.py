"""The Spark session of a source: the one at hand, or one started when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LiveSpark"]


class LiveSpark:
    """Holds a session from its first use to `close`, which stops it only if it was started here."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._stack = ExitStack()
        self._session: SparkSession | None = None
        self._options = options

    def session(self) -> SparkSession:
        """The session. Raises SparkMissingError, JavaNotFoundError."""
        if self._session is None:
            from deltafix.spark.session import spark_session  # noqa: PLC0415  Spark is an extra

            self._session = self._stack.enter_context(spark_session(options=self._options))
        return self._session

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._session = None
        self._stack.close()
