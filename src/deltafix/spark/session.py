"""The one place that configures Spark: a classic session, quiet, with the Java it can find.

Invariant: whoever needs Spark in deltafix gets it from `spark_session`; a session that somebody
else has already started (a notebook, a cluster) is used as it is and never stopped here. The
process environment is as before once the session stands.
This module does not move data: see `ingest`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deltafix.errors import SparkMissingError
from deltafix.spark.java import find_java, wrap_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOCAL", "OPTIONS", "spark_session"]

OPTIONS: Mapping[str, str] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""What every session is started with; the caller's own options come on top."""

LOCAL: Mapping[str, str] = {
    # Nobody looks at the web page of a job that lasts seconds; its port may be taken.
    "spark.ui.enabled": "false",
    # Local sessions talk to themselves: never bind or look up a public name.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Two small stages do not need 200 shuffle partitions.
    "spark.sql.shuffle.partitions": "8",
}
"""What sessions on this machine are started with besides."""

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""What spark-submit puts into the environment of a Python program: its JVM runs already."""


@contextmanager
def spark_session(
    *, master: str = "local[*]", options: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A Spark session for the length of a `with` block.

    The active session is used if there is one; otherwise one is started (5 to 20 s) and stopped
    at the end. `options` are Spark settings by their full names; `spark.master` among them, or
    given to spark-submit, goes before `master`. Raises SparkMissingError without pyspark,
    JavaNotFoundError without a Java 17+.
    """
    try:
        from pyspark import SparkContext  # noqa: PLC0415  an extra, and a second to import
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise SparkMissingError(
            "Spark is not installed: `pip install 'deltafix[spark]'`, or run without it: --local, "
            'or runner = "local" in a pipeline file'
        ) from error
    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        active = SparkSession.builder.getOrCreate()  # it is active in another thread
    if active is not None:
        yield active
        return
    chosen = dict(options or {})
    submitted = _SUBMITTED in os.environ
    if not submitted:
        chosen = {"spark.master": master, "spark.app.name": "deltafix", **_quiet(), **chosen}
    local = chosen.get("spark.master", "").startswith("local")
    with tempfile.TemporaryDirectory(prefix="deltafix-java-") as folder:
        around: dict[str, str] = {}
        if not submitted:
            # Workers are this very interpreter, so that they find deltafix and what it needs.
            around = {"JAVA_HOME": str(wrap_java(find_java(), Path(folder)))}
            around |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
        if local:
            around["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = SparkSession.builder
        for name, value in {**OPTIONS, **(LOCAL if local else {}), **chosen}.items():
            builder = builder.config(name, value)
        with _environment(**around):
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


def _quiet() -> dict[str, str]:
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log}"}


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
