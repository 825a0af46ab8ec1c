"""A pipeline in shards on a standalone cluster, of which something is killed in every epoch.

An executor, its Python, a worker, or the driver, which writes outputs and commits, is killed while
inputs are read, when they are netted, between supersteps, in the middle of an exchange, behind what
is written, behind the commit, behind what is published, or while the target takes the epoch; the
disk is full; the store answers errors, answers late, or does late what it answered with an error,
also when the driver that asked is dead. The state is on a disk or in the store.
Sees: an epoch that ends wrong, twice, or never. Asserted after each: one epoch more, or two where
more was said in between. In the end: state, delta logs and a database's table are recomputation
from all that was said, each change in them once.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from random import Random

import pytest
from examples.cluster.standalone import Cluster, cluster
from tests import pipelines
from tests.cluster import PATIENCE, Driver, kill_executor, kill_python, kill_worker
from tests.faults.killing import small_disk_at
from tests.pipelines import TEXT, Job
from tests.s3 import Server
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
    "delivered": "access.db*",
}
"""The phases of an epoch, and the files by whose coming each is known."""
STORE = {"store fails": "fails", "store is late": "", "store does it later": "late"}
"""How it answers."""
FIRST = {
    "disk": [
        ("executor", "stepped"), ("python", "read"), ("disk is full", "read"),
        ("worker", "stepped"), ("store fails", "read"), ("python", "exchanged"),
        ("store is late", "read"), ("driver", "committed"),
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
LINEAR = "stands(x, z) :- stands(x, y), member(y, z)."
NAMES = "abcdefghijkl"
CROSSING = "stands(x, z) :- stands(x, y), stands(y, z)."
"""The same relation, derived in supersteps: no column of it is kept."""


@pytest.mark.parametrize("kept", ["disk", "store"])
def test_whatever_is_killed_or_fails_nothing_is_lost_and_nothing_done_twice(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: Counter[str], store: Server
) -> None:
    monkeypatch.setenv("DELTAFIX_STORE_TIMEOUT", "3")
    with small_disk_at(tmp_path / "disk", "64m") as disk, cluster(tmp_path) as here:
        run = Run(here, disk or tmp_path / "disk", store, kept)
        try:
            run.driver.go()
            assert run.driver.answer() == {"epoch": 1}, "the outputs are new"
            for what, phase in schedule(run.rng, kept, has_disk=disk is not None):
                before = run.head()
                say(run.job, run.rng)
                struck, more = run.epoch(what, phase)
                judged[f"{kept}: {what}, {phase}" if struck else "too late to strike"] += 1
                assert 1 <= run.head() - before <= 1 + more, (what, phase)
                print(time.strftime("%T"), what, phase, struck, run.head(), flush=True)
        finally:
            run.driver.kill()
        store.settle()
        run.check(monkeypatch)


class Run:
    """A pipeline on a cluster, epoch by epoch; its state is `kept` on a disk or in a store."""

    def __init__(self, here: Cluster, folder: Path, store: Server, kept: str) -> None:
        self._here = here
        self._folder = folder
        self._store = store
        self._log = folder.parent / "driver.log"
        self._seen: set[str] = set()
        self._answer: Callable[[str], str] = lambda method: ""
        store.fault = self._fault
        self.rng = Random(f"cluster, {kept}")
        self.job = job_at(folder, store, kept)
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
        with self.job.open() as pipeline:
            assert list(pipeline.drain()) == []
            self.job.check(pipeline)
            assert pipeline.maintainer.db.layout.shuffles, "it went through supersteps"
            view = set(pipeline.maintainer.db.rows("can"))
            epochs = [one["epoch"] for one in pipeline.maintainer.journal.backwards()]
            assert epochs == [*range(pipeline.maintainer.epoch, 0, -1)]
        with closing(sqlite3.connect(self._folder / "access.db")) as db:
            rows = db.execute("SELECT sign, who, doc, epoch FROM can").fetchall()
        assert replayed((sign, (who, doc), epoch) for sign, who, doc, epoch in rows) == view

    def _start(self) -> Driver:
        return Driver(self._here, self._folder, self._log)

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
        place = PLACES[phase]
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


def as_method(what: str) -> Callable[[str], str]:
    """Fails in a way; what it is not asked to do later, it does not fail to read later."""
    return lambda method: what if method == "PUT" or what != "late" else ""


def schedule(rng: Random, kept: str, *, has_disk: bool) -> list[tuple[str, str]]:
    """What is done, and when: of `COUNT`, half with a state on a disk, half in a store."""
    plan = list(FIRST[kept])
    while len(plan) < COUNT // 2:
        plan += rng.sample(ALL[kept], len(ALL[kept]))
    plan = plan[: COUNT // 2 or None]
    return [one for one in plan if has_disk or one[0] != "disk is full"]


def job_at(folder: Path, store: Server, kept: str) -> Job:
    """The job, one output going into a table and one into a store."""
    folder.mkdir(exist_ok=True)
    assert LINEAR in TEXT
    job = Job(folder, text=TEXT.replace(LINEAR, CROSSING))
    url = f"sqlite:///{folder}/access.db"
    direct(job, f'sink = "sql"\nurl = "{url}"\ntable = "can"\nmode = "append"')
    job.places[""] = store.url()
    job.places["stands"] = f"{job.places['']}/stands"
    text = job.toml.read_text().replace('"out/stands"', json.dumps(job.places["stands"]))
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
