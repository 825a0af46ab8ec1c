"""The one place that configures Spark: a classic session, quiet, with the Java it can find.

Invariant: whoever needs Spark in deltafix gets it from `spark_session`; a session that somebody
else has already started (a notebook, a cluster) is used as it is and never stopped here, and one
that was started here outlives neither its `with` nor the process. The process environment is as
before once the session stands.
This module does not move data: see `ingest`.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

from deltafix.doing import tell
from deltafix.errors import SparkMissingError
from deltafix.interrupt import end_at_once
from deltafix.spark.java import find_java, wrap_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415  an extra, and a second to import
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise SparkMissingError from error
    active = SparkSession.getActiveSession()
    if active is None and SparkContext._active_spark_context is not None:
        active = SparkSession.builder.getOrCreate()  # it is active in another thread
    if active is not None:
        _ship_if_asked(active)
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
            # Workers here are this very interpreter; those of a cluster may have one of their own.
            from_environment = "" if local else os.environ.get("PYSPARK_PYTHON", "")
            workers = chosen.get("spark.pyspark.python") or from_environment or sys.executable
            around = {"JAVA_HOME": str(wrap_java(find_java(), Path(folder)))}
            around |= {"PYSPARK_PYTHON": workers, "PYSPARK_DRIVER_PYTHON": sys.executable}
        if local:
            around["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings = SparkConf().setAll(
            list({**OPTIONS, **(LOCAL if local else {}), **chosen}.items())
        )
        tell("starting Spark")
        heard = signal.getsignal(signal.SIGINT)
        with _environment(**around):
            end_at_once()
            SparkContext.getOrCreate(settings)
            end_at_once()  # PySpark has set a handler of its own
            session = SparkSession.builder.config(conf=settings).getOrCreate()
        tell("")
        ending = ExitStack()
        ending.callback(_hand_back, heard)
        ending.callback(session.stop)
        # At the end of the process at the latest: once Python has stopped its threads, stopping
        # the session waits for one of them, forever.
        atexit.register(ending.close)
        try:
            _ship_if_asked(session)
            yield session
        finally:
            atexit.unregister(ending.close)
            ending.close()


def _hand_back(heard: Any) -> None:
    """Give Ctrl-C back: PySpark's handler asks the session that has ended, which is an error."""
    now = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and getattr(now, "__module__", "").startswith("pyspark"):
        signal.signal(signal.SIGINT, heard)


SHIP = "spark.deltafix.ship"
"""The setting of a session that has the package shipped; in a pipeline file `deltafix.ship`."""

_SHIPPED: set[str] = set()
"""Applications whose workers have this package."""


def _ship_if_asked(session: SparkSession) -> None:
    if session.conf.get(SHIP, "false") == "true":
        ship(session)


def ship(session: SparkSession) -> None:
    """Have this very package on the workers of a cluster that have none. Idempotent.

    It goes before one that they have, for the length of the application. What deltafix needs
    (numba, numpy, pyarrow, pandas, google-re2 for patterns) they have to have. The kernel goes
    along as it was compiled here; executors on another kind of processor compile it anew: 20 s of
    processor. Does nothing where the workers are those of a `local` master.
    """
    from deltafix.kernel.native import cache_folder  # noqa: PLC0415  numpy and LLVM

    # An archive, since Spark unpacks those into a folder on the workers' path: the kernel's cache
    # of compiled code asks for files, which a zip on the path has not.
    context = session.sparkContext
    if context.applicationId in _SHIPPED or re.match(r"local(\[|$)", context.master):
        return
    folder = Path(tempfile.mkdtemp(prefix="deltafix-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors may come at any time
    archive = folder / "deltafix.zip"
    package = Path(__file__).parents[1]
    with ZipFile(archive, "w", ZIP_DEFLATED) as stream:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                stream.write(path, path.relative_to(package))
        for path in cache_folder().glob("kernel-*.o"):  # as in a wheel
            stream.write(path, f"kernel/objects/{path.name}")
    context.addArchive(f"{archive}#{package.name}")
    _SHIPPED.add(context.applicationId)


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
