"""A pipeline in shards on a standalone cluster, of which something is killed in every epoch.

An executor, its Python, a worker, or the driver, which writes outputs and commits, is killed while
inputs are read, when they are netted, between supersteps, behind what is written, behind the
commit, or behind what is published; the disk is full; the store of an output fails, or is late.
Sees: an epoch that ends wrong, twice, or never. Asserted after each: one epoch more. In the end:
state, delta logs and a database's table are recomputation from all that was said, each change in
them once.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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
PHASES = ("read", "netted", "stepped", "prepared", "committed", "published")
FIRST = [
    ("executor", "stepped"), ("python", "read"), ("disk is full", "read"), ("worker", "stepped"),
    ("store fails", "read"), ("store is late", "read"), ("driver", "committed"),
]  # fmt: skip
ALL = [
    *product(KILLS, PHASES[:3]), *product(["driver"], PHASES), *product(["driver"], PHASES),
    *product(["disk is full"], PHASES[:4]), ("store fails", "read"), ("store fails", "prepared"),
    ("store is late", "read"),
]  # fmt: skip
COUNT = int(os.environ.get("DELTAFIX_CLUSTER", len(FIRST)))
LINEAR = "stands(x, z) :- stands(x, y), member(y, z)."
NAMES = "abcdefghijkl"
CROSSING = "stands(x, z) :- stands(x, y), stands(y, z)."
"""The same relation, derived in supersteps: no column of it is kept."""


def test_whatever_is_killed_or_fails_nothing_is_lost_and_nothing_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: Counter[str], store: Server
) -> None:
    rng = Random("cluster")
    monkeypatch.setenv("DELTAFIX_STORE_TIMEOUT", "3")
    with small_disk_at(tmp_path / "disk", "64m") as disk, cluster(tmp_path) as here:
        folder = disk or tmp_path / "disk"
        job = job_at(folder, store)
        run = Run(here, folder, store, rng)
        try:
            run.driver.go()
            assert run.driver.answer() == {"epoch": 1}, "the outputs are new"
            for at, (what, phase) in enumerate(schedule(rng, has_disk=disk is not None), start=2):
                say(job, rng)
                struck = run.epoch(what, phase)
                judged[f"{what}, {phase}" if struck else "too late to strike"] += 1
                assert head(folder) == at, (what, phase)
        finally:
            run.driver.kill()
        check(job, monkeypatch)


class Run:
    """A pipeline on a cluster, epoch by epoch."""

    def __init__(self, here: Cluster, folder: Path, store: Server, rng: Random) -> None:
        self._here = here
        self._folder = folder
        self._store = store
        self._rng = rng
        self._log = folder.parent / "driver.log"
        self.driver = self._start()

    def epoch(self, what: str, phase: str) -> bool:
        """An epoch in which something is done to it; whether it was in time."""
        reached = waiting_for(phase, self._folder)
        self.driver.go()
        delays = [0, 0.1, 0.2, 0.4, 0.8] if phase == "read" else [0, 0, 0.01, 0.05, 0.2]
        struck = strike(self.driver, reached, self._rng.choice(delays))
        if what == "driver":
            self.driver.kill()
            self.driver = self._start()
            self.driver.go()
        elif what in KILLS:
            KILLS[what](self._here, self._rng.randrange(2))
        else:
            with failing(what, self._folder, self._store):
                said = self.driver.answer()
            if "error" in said:
                assert what != "store is late", said
                assert said["error"] in {"DF301", "DF500"}, said
            self.driver.go()
        said = self.driver.answer()
        assert "epoch" in said, (said, self._log.read_text()[-4000:])
        return struck

    def _start(self) -> Driver:
        return Driver(self._here, self._folder, self._log)


def schedule(rng: Random, *, has_disk: bool) -> list[tuple[str, str]]:
    """What is done, and when."""
    plan = list(FIRST)
    while len(plan) < COUNT:
        plan += rng.sample(ALL, len(ALL))
    return [one for one in plan[:COUNT] if has_disk or one[0] != "disk is full"]


def job_at(folder: Path, store: Server) -> Job:
    """The job, one output going into a table and one into a store."""
    folder.mkdir(exist_ok=True)
    job = Job(folder)
    assert LINEAR in TEXT
    (folder / "access.dl").write_text(TEXT.replace(LINEAR, CROSSING))
    url = f"sqlite:///{folder}/access.db"
    direct(job, f'sink = "sql"\nurl = "{url}"\ntable = "can"\nmode = "append"')
    job.places["stands"] = store.url()
    text = job.toml.read_text().replace('"out/stands"', json.dumps(job.places["stands"]))
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


def head(folder: Path) -> int:
    """The last epoch that was committed."""
    found = shards_head(folder / "state")
    return 0 if found is None else int(found["epoch"])


def waiting_for(phase: str, folder: Path) -> Callable[[], bool]:
    """Whether an epoch has come to a phase, asked again and again."""
    before = head(folder)

    def files(place: str) -> set[tuple[str, int]]:
        return {(path.name, path.stat().st_ino) for path in folder.glob(place) if path.exists()}

    place = {
        "netted": "state/shards/net-*/*",
        "stepped": "state/shards/epoch-*/step-*.dfx",
        "prepared": "state/outputs/can/delta-*.parquet*",
        "published": "state/outputs/can/manifest.json",
    }.get(phase, "")
    there = files(place) if place else set()
    if phase == "read":
        return lambda: True
    if phase == "committed":
        return lambda: head(folder) > before
    return lambda: bool(files(place) - there)


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


@contextmanager
def failing(what: str, folder: Path, store: Server) -> Iterator[None]:
    """In the block, there is no room, or the store answers errors, or late."""
    ballast = folder / "ballast"
    if what == "disk is full":
        with ballast.open("wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC
    else:
        store.fault = lambda *_: "fails" if what == "store fails" else time.sleep(0.2) or ""
    try:
        yield
    finally:
        ballast.unlink(missing_ok=True)
        store.fault = lambda *_: ""


def check(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is in the end."""
    monkeypatch.setattr(pipelines, "KEEPER", "shards")
    monkeypatch.setattr(pipelines, "SHARDS", 2)
    with job.open() as pipeline:
        assert list(pipeline.drain()) == []
        job.check(pipeline)
        view = set(pipeline.maintainer.db.rows("can"))
        lines = (job.folder / "state" / "epochs.jsonl").read_text().splitlines()
        assert len(lines) == pipeline.maintainer.epoch
    with closing(sqlite3.connect(job.folder / "access.db")) as db:
        rows = db.execute("SELECT sign, who, doc, epoch FROM can").fetchall()
    assert replayed((sign, (who, doc), epoch) for sign, who, doc, epoch in rows) == view
