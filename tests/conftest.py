"""What every test gets: Hypothesis profiles, fast tests first, plain terminal output."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from deltafix.collector import seldom
from deltafix.rules import whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.servers.hdfs import Hdfs
    from tests.servers.postgres import Postgres
    from tests.servers.s3 import Server

# CI must not fail by chance on code it did not see change: it runs the same examples every time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(autouse=True)
def _few_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What random programs draw for their disjunctions ends with the test (`strategies`)."""
    monkeypatch.setattr(whole, "MOST", whole.MOST)


# Behind `nohup ... &` it is ignored, by all processes that tests start and interrupt, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Images of states are sealed with the user's key: tests, and processes they start, have their own.
os.environ["DELTAFIX_IMAGE_KEY"] = "tests"

# Jobs of tests last for seconds: Java's second compiler cost as much as all else that it did. The
# classes are `make test`'s; where they are not there, or not of this Java, it reads its own.
_CLASSES = Path(__file__).parents[1] / "build" / "classes.jsa"
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-XX:InitialRAMPercentage=25 -XX:MetaspaceSize=256m "
    f'"-XX:SharedArchiveFile={_CLASSES}" -Xlog:cds*=off',
)

# PySpark's own: it asks pandas for a deprecated name, and leaves sockets to the collector.
_PYSPARK = ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning")

# How scopes begin, those that take longest first: all else fits in beside them.
_FIRST = ("connectors", "spark", "tests/faults/", "tests/agree/")


def _scope(nodeid: str) -> str:
    """Which tests one process has: those of connectors, of the Spark session, or of a file.

    The session's has all that asks the namenode, too, which takes 20 s to start.
    """
    if nodeid.startswith("tests/connectors/"):
        return "connectors"
    shared = re.search(r"^tests/spark/|::.*spark|test_hdfs_faults|store/test_folder", nodeid)
    return "spark" if shared else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share tests among processes by `_scope`.

    By name, which is all that the process knows that shares them out (groups by marker, xdist's
    own, put every other test alone).
    """
    from xdist.scheduler import LoadScopeScheduling

    def rank(scope: str) -> int:
        return next((n for n, start in enumerate(_FIRST) if scope.startswith(start)), len(_FIRST))

    class BySession(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
            super()._assign_work_unit(node)

    return BySession(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests after fast ones and Spark tests last; `make fuzz` raises example counts.

    Of Spark tests, those of connectors first: their session has jars of its own. What was asked to
    run longer has no limit of time.
    """
    items.sort(
        key=lambda item: (
            item.get_closest_marker("spark") is not None,
            "connectors" not in item.path.parts,
            item.get_closest_marker("slow") is not None,
        )
    )
    for item in items:
        asks = {"spark", "hdfs", "common"} & {*item.fixturenames}
        if asks and _scope(item.nodeid) not in ("connectors", "spark"):
            raise pytest.UsageError(
                f"{item.nodeid} asks for {', '.join(asks)}, which a second process would start: "
                "its name is to say spark, or its file to be in tests/spark"
            )
        if item.get_closest_marker("spark") is not None:
            for warning in _PYSPARK:
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))
    examples = os.environ.get("DELTAFIX_EXAMPLES")
    if examples is None:
        return
    for item in items:
        item.add_marker(pytest.mark.timeout(0))
        test = getattr(item, "function", None)
        # An explicit @settings beats a profile, so the count is raised on the test itself.
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            raised = settings(chosen, max_examples=int(examples), derandomize=False)
            test._hypothesis_internal_use_settings = raised


_UNFREEZE = gc.unfreeze


def pytest_collection_finish() -> None:
    """Leave what is loaded by now to itself: half a million objects in each full collection."""
    gc.collect()
    gc.freeze()
    gc.unfreeze = lambda: None  # a language server, or a bench, that ended gave all of it back
    seldom()  # collections took 15 % of the processor, and 5 % so


def pytest_unconfigure() -> None:
    """As before: what extensions hold is freed, or they say at exit that it leaked."""
    gc.unfreeze = _UNFREEZE
    gc.unfreeze()


_JUDGED: Counter[str] = Counter()


@pytest.fixture
def judged() -> Counter[str]:
    """What random tests count; `make fuzz` prints it, so that it is known how many cases ran."""
    return _JUDGED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many random cases were judged, where more of them were asked for."""
    if _JUDGED and "DELTAFIX_EXAMPLES" in os.environ:
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(_JUDGED.items()))
        terminalreporter.write_line(f"judged: {counts}")


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests: starting one costs more than most of them."""
    from deltafix.spark.session import spark_session

    with spark_session(master="local[2]") as session:
        yield session
    gc.collect()  # PySpark leaves sockets to the collector: while warnings of that are ignored


@pytest.fixture(
    params=[
        "local",
        "local shards",
        pytest.param("spark", marks=pytest.mark.spark),
    ]
)
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Pipelines of `support.pipelines` are opened on this runner, their rows kept as it says."""
    name, _, keeper = request.param.partition(" ")
    if name == "spark":
        request.getfixturevalue("spark")
    monkeypatch.setattr("tests.support.pipelines.RUNNER", name)
    monkeypatch.setattr("tests.support.pipelines.KEEPER", keeper or "driver")
    return str(request.param)


@pytest.fixture(scope="session")
def warm_kernel() -> None:
    """Compile the kernel before commands run, so that none of them says that it does."""
    import_module("deltafix.engine.database")


@pytest.fixture
def memory(tmp_path) -> Iterator[Path]:
    """A folder in memory where there is one: what a kill leaves does not wait for the disk."""
    shared = Path("/dev/shm")  # noqa: S108
    if not os.access(shared, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL on loopback. Started once; it ends with the session."""
    wheel = sys.platform == "linux" and sys.version_info < (3, 13)
    if "CI" not in os.environ or not wheel:
        pytest.importorskip("pgserver", reason="no PostgreSQL: pgserver has no wheel here")
        pytest.importorskip("psycopg", reason="no client: pip install 'deltafix[postgres]'")
    from tests.servers.postgres import Postgres

    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres(postgres_server: Postgres) -> str:
    """Where it is."""
    return postgres_server.uri


@pytest.fixture(scope="session")
def _s3() -> Iterator[Server]:
    if "CI" not in os.environ:
        pytest.importorskip("moto", reason="no S3 server: see the test group")
        pytest.importorskip("obstore", reason="no client of S3: pip install 'deltafix[s3]'")
    from tests.servers.s3 import Server

    with Server() as server:
        yield server


@pytest.fixture
def store(_s3: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An S3 server on loopback, which the environment names."""
    for name, value in _s3.settings.items():
        monkeypatch.setenv(name, value)
    yield _s3
    _s3.fault = lambda method, path: ""
    _s3.settle()


@pytest.fixture(scope="session")
def _hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    from tests.servers.hdfs import Hdfs

    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture
def hdfs(_hdfs: Hdfs) -> Iterator[Hdfs]:
    """A namenode and a datanode on loopback."""
    yield _hdfs
    _hdfs.fault = lambda op, path: ""
    _hdfs.settle()


@pytest.fixture(params=["disk", "s3", "hdfs"])
def common(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder for shards, which Spark's driver and workers see: its path, or its URL."""
    if request.param == "disk":
        return str(tmp_path / "common")
    if request.param == "hdfs":
        return str(request.getfixturevalue("hdfs").url())
    store, context = request.getfixturevalue("store"), request.getfixturevalue("spark").sparkContext
    monkeypatch = request.getfixturevalue("monkeypatch")
    for name, value in store.settings.items():
        monkeypatch.setitem(context.environment, name, value)
    return str(store.url())
