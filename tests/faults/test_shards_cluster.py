"""A pipeline in shards on a standalone cluster, of which something is killed in every epoch.

An executor, its Python, a worker, or the driver, which writes outputs and commits, is killed while
inputs are read, when they are netted, between supersteps, in the middle of an exchange, behind what
is written, behind the commit, behind what is published, or while the target takes the epoch; the
disk is full; the store answers errors, answers late, or does late what it answered with an error,
also when the driver that asked is dead. The state is on a disk or in the store; the views go to a
database's table, a log in the store, tables of Delta and Iceberg, PostgreSQL and Kafka.
Sees: an epoch that ends wrong, twice, or never. Asserted after each: one epoch more, or two where
more was said in between. In the end: state, delta logs and what the targets hold are recomputation
from all that was said, each change in them once.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from random import Random

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from examples.cluster.standalone import Cluster, cluster
from pyiceberg.catalog import load_catalog
from tests.connectors.broker import Broker
from tests.connectors.jars import jars, needs
from tests.connectors.test_kafka_target import changes, messages, new_topic, section
from tests.faults.killing import small_disk_at
from tests.servers.cluster import PATIENCE, Driver, kill_executor, kill_python, kill_worker
from tests.servers.postgres import Postgres
from tests.servers.s3 import Server
from tests.support import pipelines
from tests.support.pipelines import TEXT, Job
from tests.targets.job import direct, replayed

from deltafix.pipeline.keeper import shards_head

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = {"executor": kill_executor, "python": kill_python, "worker": kill_worker}
PLACES = {
    "read": "",
    "netted": "state/shards/net-*/*",
    "stepped": "state/shards/epoch-*/step-*",
    "exchanged": "state/shards/epoch-*/parcels-*/*",
    "prepared": "state/outputs/can/delta-*.parquet*",
    "committed": "state/shards/manifest.json",
    "published": "state/outputs/can/manifest.json",
    "delivered": "",
}
"""The phases of an epoch, and the files by whose coming each is known."""
STORE = {"store fails": "fails", "store is late": "", "store does it later": "late"}
"""How it answers."""
FIRST = {
    "disk": [
        ("executor", "stepped"), ("disk is full", "read"), ("worker", "stepped"),
        ("store fails", "read"), ("python", "exchanged"), ("store is late", "read"),
        ("driver", "committed"),
    ],
    "store": [("store does it later", "read"), ("driver and store", "committed")],
}  # fmt: skip
ALL = {
    "disk": [
        *product(KILLS, PLACES), *product(["driver"], PLACES), *product(["disk is full"], PLACES),
        *product(STORE, ["read", "prepared", "committed"]),
    ],
    "store": [*product([*KILLS, "driver", "driver and store", *STORE], PLACES)],
}  # fmt: skip
COUNT = int(os.environ.get("DELTAFIX_CLUSTER", "0"))
RUNS = [
    pytest.param("disk", "lakes", marks=[needs("delta"), needs("iceberg"), needs("sqlite")]),
    pytest.param("store", "servers", marks=needs("broker")),
]
if COUNT:
    RUNS += [pytest.param("disk", "database"), pytest.param("store", "database")]
LINEAR = "stands(x, z) :- stands(x, y), member(y, z)."
NAMES = "abcdefghijkl"
CROSSING = "stands(x, z) :- stands(x, y), stands(y, z)."
"""The same relation, derived in supersteps: no column of it is kept."""


@pytest.mark.parametrize(("kept", "targets"), RUNS)
def test_whatever_is_killed_or_fails_nothing_is_lost_and_nothing_done_twice(
    kept: str,
    targets: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    judged: Counter[str],
    store: Server,
) -> None:
    monkeypatch.setenv("DELTAFIX_STORE_TIMEOUT", "3")
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk_at(tmp_path / "disk", "64m"))
        folder = disk or tmp_path / "disk"
        folder.mkdir(exist_ok=True)
        made = {"database": database, "lakes": lakes, "servers": servers}[targets](folder, stack)
        here = stack.enter_context(cluster(tmp_path))
        run = Run(here, folder, store, kept, made)
        try:
            run.driver.go()
            assert run.driver.answer() == {"epoch": 1}, "the outputs are new"
            for what, phase in schedule(run.rng, kept, has_disk=disk is not None):
                before = run.head()
                say(run.job, run.rng)
                struck, more = run.epoch(what, phase)
                judged[
                    f"{kept}, {targets}: {what}, {phase}" if struck else "too late to strike"
                ] += 1
                assert 1 <= run.head() - before <= 1 + more, (what, phase)
                print(time.strftime("%T"), what, phase, struck, run.head(), flush=True)
        finally:
            run.driver.kill()
        store.settle()
        run.check(monkeypatch)


class Run:
    """A pipeline on a cluster, epoch by epoch; its state is `kept` on a disk or in a store."""

    def __init__(
        self, here: Cluster, folder: Path, store: Server, kept: str, targets: Targets
    ) -> None:
        self._here = here
        self._folder = folder
        self._store = store
        self._log = folder.parent / "driver.log"
        self._seen: set[str] = set()
        self._answer: Callable[[str], str] = lambda method: ""
        store.fault = self._fault
        self._targets = targets
        self.rng = Random(f"cluster, {kept}{targets.seed}")
        self.job = job_at(folder, store, kept, targets)
        self._state = folder / "state" if kept == "disk" else f"{self.job.places['']}/state"
        self.driver = self._start()

    def epoch(self, what: str, phase: str) -> tuple[bool, bool]:
        """An epoch in which something is done to it; whether it was in time, and more was said."""
        reached = self._waiting_for(phase)
        more = False
        self.driver.go()
        delays = [0, 0.1, 0.2, 0.4, 0.8] if phase == "read" else [0, 0, 0.01, 0.05, 0.2]
        struck = strike(self.driver, reached, self.rng.choice(delays))
        if what.startswith("driver"):
            if what == "driver and store":
                self._answer = as_method("late")
                time.sleep(self.rng.choice([0, 0.05, 0.2, 0.8]))
            self.driver.kill()
            self._answer = as_method("")
            self._settle_sometimes()
            self.driver = self._start()
            self.driver.go()
            self._settle_sometimes()
        elif what in KILLS:
            KILLS[what](self._here, self.rng.randrange(2))
        else:
            with self._failing(what):
                said = self.driver.answer()
            if "error" in said:
                assert what != "store is late", said
                assert said["error"] in {"DF300", "DF301", "DF500", "DF654"}, said
            if self.rng.random() < 0.5:
                say(self.job, self.rng)  # an attempt that failed is not the one that follows
                more = True
            self._settle_sometimes()
            self.driver.go()
        said = self.driver.answer()
        assert "epoch" in said, (said, self._log.read_text()[-4000:])
        self._settle_sometimes()
        return struck, more

    def head(self) -> int:
        """The last epoch that was committed."""
        found = shards_head(self._state)
        return 0 if found is None else int(found["epoch"])

    def check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What there is in the end."""
        monkeypatch.setattr(pipelines, "KEEPER", "shards")
        monkeypatch.setattr(pipelines, "SHARDS", 2)
        del self.job.places[""]
        toml = self.job.toml
        toml.write_text(toml.read_text().replace(*self._targets.opened, 1))
        with self.job.open() as pipeline:
            assert list(pipeline.drain()) == []
            self.job.check(pipeline)
            assert pipeline.maintainer.db.layout.shuffles, "it went through supersteps"
            views = {name: set(pipeline.maintainer.db.rows(name)) for name in self._targets.rows}
            epochs = [one["epoch"] for one in pipeline.maintainer.journal.backwards()]
            assert epochs == [*range(pipeline.maintainer.epoch, 0, -1)]
        assert {name: replayed(rows()) for name, rows in self._targets.rows.items()} == views

    def _start(self) -> Driver:
        return Driver(self._here, self._folder, self._log, self._targets.options)

    def _fault(self, method: str, path: str) -> str:
        """What the store does with a request; it is noted."""
        if method == "PUT":
            self._seen.add(path.partition("/state/")[2] and "state/" + path.partition("/state/")[2])
        return self._answer(method)

    def _settle_sometimes(self) -> None:
        if self.rng.random() < 0.4:
            self._store.settle()

    def _waiting_for(self, phase: str) -> Callable[[], bool]:
        """Whether an epoch has come to a phase, asked again and again."""
        place = self._targets.delivered if phase == "delivered" else PLACES[phase]
        if not place:
            return lambda: True

        def files() -> set[tuple[str, int, int]]:
            found = set()
            for path in self._folder.glob(place):
                with suppress(FileNotFoundError):
                    about = path.stat()
                    found.add((path.name, about.st_ino, about.st_mtime_ns))
            return found

        there = files()
        self._seen.clear()
        return lambda: bool(files() - there) or any(fnmatch(one, place) for one in [*self._seen])

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """In the block, there is no room, or the store answers errors, or late."""
        ballast = self._folder / "ballast"
        if what == "disk is full":
            with ballast.open("wb", buffering=0) as stream:
                try:
                    while True:
                        stream.write(bytes(4096))
                except OSError as error:
                    assert error.errno == errno.ENOSPC
        elif what == "store is late":
            self._answer = lambda method: time.sleep(0.1) or ""
        else:
            self._answer = as_method(STORE[what])
        try:
            yield
        finally:
            ballast.unlink(missing_ok=True)
            self._answer = as_method("")


Signed = Iterable[tuple[int, tuple[object, ...], int]]
"""Signs, rows, and the epochs of which they are."""


@dataclass(frozen=True)
class Targets:
    """Where views go.

    Attributes:
        sections: what the pipeline says of each.
        rows: what is there of each.
        delivered: the files by whose coming it is known that an epoch has come.
        options: settings of Spark's session.
        seed: of what is done to the run.
        opened: what of the sections says it to Spark, and how it is said without.
    """

    sections: Mapping[str, str]
    rows: Mapping[str, Callable[[], Signed]]
    delivered: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    seed: str = ""
    opened: tuple[str, str] = ("", "")


def database(folder: Path, stack: ExitStack) -> Targets:
    """A table of a database in a file."""
    del stack

    def rows() -> Signed:
        with closing(sqlite3.connect(folder / "access.db")) as db:
            found = db.execute("SELECT sign, who, doc, epoch FROM can").fetchall()
        return [(sign, (who, doc), epoch) for sign, who, doc, epoch in found]

    url = f"sqlite:///{folder}/access.db"
    section = f'sink = "sql"\nurl = "{url}"\ntable = "can"\nmode = "append"'
    return Targets({"can": section}, {"can": rows}, "access.db*")


def lakes(folder: Path, stack: ExitStack) -> Targets:
    """A table of Delta and one of Iceberg, which Spark writes and others read."""
    del stack
    uri, ice = f"{folder.parent}/own.db", f"file://{folder}/ice"
    here = {"type": "sql", "uri": f"sqlite:///{uri}", "warehouse": ice}

    def of(table: pa.Table) -> Signed:
        found = zip(*table.to_pydict().values(), strict=True)
        return [(sign, tuple(row), epoch) for *row, sign, epoch in found]

    def delta() -> Signed:
        return of(DeltaTable(folder / "can").to_pyarrow_table())

    def iceberg() -> Signed:
        return of(load_catalog("own", **here).load_table("db.stands").scan().to_arrow())

    sections = {
        "can": f'sink = "delta"\npath = "{folder}/can"\nmode = "append"',
        "stands": 'sink = "iceberg"\ncatalog = "own"\ntable = "db.stands"\nmode = "append"',
    }
    options = {
        "spark.jars": ",".join(
            str(path) for name in ("delta", "iceberg", "sqlite") for path in jars(name)
        ),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.own": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.own.type": "jdbc",
        "spark.sql.catalog.own.uri": f"jdbc:sqlite:{uri}?busy_timeout=60000",
        "spark.sql.catalog.own.warehouse": ice,
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "2",
    }
    rows = {"can": delta, "stands": iceberg}
    said = ", ".join(f"{key} = {json.dumps(value)}" for key, value in here.items())
    opened = (sections["stands"], f"{sections['stands']}\noptions = {{ {said} }}")
    return Targets(sections, rows, "can/_delta_log/*.json", options, ", lakes", opened)


def servers(folder: Path, stack: ExitStack) -> Targets:
    """A table of PostgreSQL and a topic of Kafka."""
    postgres = stack.enter_context(Postgres())
    broker = stack.enter_context(Broker(folder.parent))
    topic = new_topic(broker.servers)

    def table() -> Signed:
        with psycopg.connect(postgres.uri) as db:
            found = db.execute("SELECT sign, who, doc, epoch FROM can").fetchall()
        return [(sign, (who, doc), epoch) for sign, who, doc, epoch in found]

    def told() -> Signed:
        found = [one for message in messages(broker.servers, topic) for one in changes(message)]
        assert len({(epoch, at) for epoch, at, _, _ in found}) == len(found), "one came twice"
        return [(sign, row, epoch) for epoch, _, sign, row in found]

    sections = {
        "can": f'sink = "postgres"\ndsn = "{postgres.uri}"\ntable = "can"\nmode = "append"',
        "stands": section(broker.servers, topic),
    }
    return Targets(sections, {"can": table, "stands": told}, seed=", servers")


def as_method(what: str) -> Callable[[str], str]:
    """Fails in a way; what it is not asked to do later, it does not fail to read later."""
    return lambda method: what if method == "PUT" or what != "late" else ""


def schedule(rng: Random, kept: str, *, has_disk: bool) -> list[tuple[str, str]]:
    """What is done, and when: of `COUNT`, as much to each run."""
    plan, many = list(FIRST[kept]), COUNT // len(RUNS)
    while len(plan) < many:
        plan += rng.sample(ALL[kept], len(ALL[kept]))
    plan = plan[: many or None]
    return [one for one in plan if has_disk or one[0] != "disk is full"]


def job_at(folder: Path, store: Server, kept: str, targets: Targets) -> Job:
    """The job; an output that goes to no target is in the store."""
    assert LINEAR in TEXT
    job = Job(folder, text=TEXT.replace(LINEAR, CROSSING))
    for view, said in targets.sections.items():
        direct(job, said, view)
    job.places[""] = store.url()
    text = job.toml.read_text()
    if "stands" in job.places:
        job.places["stands"] = f"{job.places['']}/stands"
        text = text.replace('"out/stands"', json.dumps(job.places["stands"]))
    if kept == "store":
        text = text.replace('state = "state"', f'state = "{job.places[""]}/state"')
    job.toml.write_text(text)
    return job


def say(job: Job, rng: Random) -> None:
    """Some changes of each relation; both outputs change."""
    held = job.rows["member"]
    pairs = {(rng.choice(NAMES), rng.choice(NAMES)) for _ in range(rng.randrange(1, 4))}
    gone = rng.sample(sorted(held), len(held) // 8) + sorted(pairs & held)
    come = [("+", pair) for pair in sorted(pairs - held)]
    new = (f"new {job.files}", rng.choice(NAMES))
    job.say("member", ("+", new), *come, *(("-", one) for one in sorted({*gone})))
    teams = sorted({team for _, team in held})
    old = [("-", one) for one in sorted(job.rows["grant"])[:2] if len(job.rows["grant"]) > 9]
    job.say("grant", ("+", (rng.choice(teams), job.files)), *old)


def strike(driver: Driver, reached: Callable[[], bool], delay: float) -> bool:
    """Wait for the moment, and a bit; False if the epoch was over before."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if reached():
            time.sleep(delay)
            return driver.is_silent()
        if not driver.is_silent():
            return False
    raise AssertionError("the epoch is stuck")
