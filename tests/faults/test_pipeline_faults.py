"""What can happen to a pipeline: it is killed at any step, the disk is full, a batch comes again.

One job runs everywhere: change files of two inputs, bad rows among them, more rows than an epoch
takes, a compaction in the middle. Invariant asserted after every fault, by `Job.check`: the state
is recomputation from what the files say, and the outputs' deltas, applied in order, are the views.
"""

from __future__ import annotations

import itertools
import resource
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.faults.killing import Full, Halted, Killer, forking, halting, killed
from tests.support import pipelines
from tests.support.amount import FUZZED, cases
from tests.support.pipelines import TEXT, Job, rows_of

import deltafix
from deltafix.errors import DeltafixError, SinkError, StateError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline import sink
from deltafix.pipeline.batches import Batches, Rows
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.keeper import peek_marks, shards_head
from deltafix.pipeline.maintainer import CONES, Maintainer
from deltafix.pipeline.manifest import read_deltas, read_view
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.signed import Signed, signed_table
from deltafix.spark import keeping
from deltafix.store import disk

ROOM = 12_000
"""Bytes of memory that `auto` has: it moves the job's state to shards on the way."""
KILLS = 3 if JIT_DISABLED else cases(15, fuzz=240)
PIPELINE = 'rows_per_epoch = 6\nbad_rows = "quarantine"\non_change = "maintain"'
STARTED = TEXT + 'can("root", 7).\n'
"""Its first epoch has a row already."""
CHANGED = (
    TEXT.replace("stands(x, t), grant", "member(x, t), grant")
    + """
.decl open(doc: number)
open(d) :- grant(_, d).
can("guest", d) :- open(d).
"""
)


def prepare(folder: Path, text: str = STARTED) -> Job:
    """The job, with everything it will ever be told."""
    job = Job(folder, text=text, pipeline=PIPELINE)
    (folder / "keeper").write_text(pipelines.KEEPER)
    rng = Random("pipeline faults")
    for _ in range(5):
        changes = []
        for _ in range(rng.randrange(2, 6)):
            row = (rng.choice("abcd"), rng.choice("abcd"))
            held = job.rows["member"] | {one for _, one in changes}
            changes.append(("-" if row in held and rng.random() < 0.5 else "+", row))
        job.say("member", *[(s, r) for n, (s, r) in enumerate(changes) if r not in
                            {one for _, one in changes[:n]}])  # fmt: skip
        job.say("grant", *(("+", (rng.choice("abcd"), rng.randrange(9))) for _ in range(2)))
    job.write("grant", [("-", ("nobody", 1)), ("?", ("a", 1)), ("+", ("a", "x"))])
    return job


@pytest.fixture
def keeper(request, monkeypatch) -> str:
    """Who keeps the rows of the job; in a process that is to be killed too."""
    monkeypatch.setattr(pipelines, "KEEPER", request.param)
    monkeypatch.setattr(keeping, "room_for_state", lambda: ROOM)
    monkeypatch.setattr(sink, "LINK", 1)  # what shards wrote becomes files of logs
    return request.param


keepers = pytest.mark.parametrize("keeper", ["driver", "shards", "auto"], indirect=True)


@pytest.fixture
def runner() -> Iterator[subprocess.Popen[str]]:
    """A process that runs the job to be killed."""
    with forking("tests.faults.test_pipeline_faults") as process:
        yield process


def run(folder: Path) -> None:
    """Everything there is to do, with a compaction on the way."""
    pipelines.KEEPER = (folder / "keeper").read_text()
    keeping.room_for_state = lambda: ROOM
    sink.LINK = 1
    go(Job(folder, text=STARTED, pipeline=PIPELINE))


def go(job: Job) -> None:
    """The same, of a job that knows what it was told."""
    with job.open() as pipeline:
        for epoch in pipeline.drain():
            if epoch.epoch == 3:
                pipeline.compact()


def steps(job: Job, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What running a job does to the disk."""
    with monkeypatch.context() as patch:
        counter = Killer(-1, "die")
        patch.setattr(disk, "os", counter)
        go(job)
    return counter.seen


def finish(job: Job) -> None:
    """Run to the end, then check everything, the quarantine too."""
    go(job)
    with job.open() as pipeline:
        assert list(pipeline.drain()) == []
        job.check(pipeline)
        assert pipeline.maintainer.quarantine.counts() == {"grant": 3}
    in_shards = shards_head(job.folder / "state") is not None
    assert in_shards == (pipelines.KEEPER != "driver")


@keepers
def test_agree_after_a_kill_at_any_step_of_an_epoch(keeper, memory, runner, monkeypatch) -> None:
    seen = steps(prepare(memory / "count"), monkeypatch)
    assert {"pwrite", "fsync", "replace"} <= set(seen)
    assert len(seen) > 100
    rng = Random("kills")
    origin = prepare(memory / "origin").folder
    kills = KILLS if keeper == "driver" else -(-KILLS // 2)
    for number in range(kills):
        # Spread over all steps and modes; and every other time recovery is killed as well.
        at = (number * len(seen)) // kills + rng.randrange(max(1, len(seen) // kills))
        mode = rng.choice(["die", "tear", "late"])
        folder = memory / f"{number}"
        shutil.copytree(origin, folder)
        assert killed(runner, folder, at, mode), (at, len(seen))
        if number % 2:
            killed(runner, folder, rng.randrange(25), rng.choice(["die", "tear", "late"]))
        job = prepare(folder)
        finish(job)
        shutil.rmtree(folder)


@keepers
def test_agree_after_a_kill_at_any_step_of_the_first_epoch(keeper, memory) -> None:
    """It has what holds without inputs; outputs that have it by then are not new any more."""
    for at in itertools.count():
        job = Job(memory / str(at), text=STARTED, pipeline=PIPELINE)
        halted = True
        with suppress(Halted), halting(at, "die"):
            go(job)
            halted = False
        job.run()
        shutil.rmtree(job.folder)
        if not halted:
            break
    assert at > 15


@pytest.mark.parametrize("keeper", ["auto", "shards"])
def test_what_holds_without_rows_is_told_once_where_shards_are_laid_out_before_them(
    keeper, tmp_path, monkeypatch
) -> None:
    """By a state that moves to shards with its first rows, or to another number of them."""
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    monkeypatch.setattr(keeping, "_outgrown", lambda _, rows: "it must" if rows else "")
    # Rows that inputs bound are waited with until there are some.
    job = Job(tmp_path, text=STARTED + 'can(x, d + 1) :- can(x, d), !grant("end", d), d < 9.\n')
    job.run()
    monkeypatch.setattr(pipelines, "SHARDS", pipelines.SHARDS - 1)
    job.say("member", ("+", ("a", "b")))
    job.run()
    assert shards_head(tmp_path / "state") is not None


def test_agree_after_a_kill_at_any_step_of_a_change_of_rules(memory, monkeypatch) -> None:
    origin = prepare(memory / "origin").folder
    go(prepare(origin))
    before = rows_of(read_view(origin / "out" / "can")[1])
    rules = peek_marks(origin / "state")[CONES]
    shutil.copytree(origin, memory / "count")
    job = prepare(memory / "count", CHANGED)
    seen = steps(job, monkeypatch)
    finish(job)
    after = rows_of(read_view(job.folder / "out" / "can")[1])
    assert before - after
    assert after - before
    committed = set()
    for at in range(0, len(seen), 7 if JIT_DISABLED else 1):
        for mode in ("die", "tear", "late"):
            folder = memory / f"{at}"
            shutil.copytree(origin, folder)
            job = prepare(folder, CHANGED)
            with halting(at, mode), suppress(Halted):
                go(job)
            committed.add(peek_marks(folder / "state")[CONES] != rules)
            finish(job)
            shutil.rmtree(folder)
    assert committed == {True, False}


@keepers
def test_a_full_disk_fails_the_epoch_cleanly_and_it_succeeds_when_there_is_room(
    keeper, memory, monkeypatch
) -> None:
    origin = prepare(memory / "origin").folder
    for at in range(14, 60, 15 if JIT_DISABLED else 2):
        folder = memory / f"{at}"
        shutil.copytree(origin, folder)
        job = prepare(folder)
        full = Full(at)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", full)
            with pytest.raises(DeltafixError, match="No space left"):  # noqa: SIM117
                with job.open() as pipeline:
                    list(pipeline.drain())
            full.room = True
            # The very same pipeline goes on where that is possible, else a new one.
            with job.open() as pipeline:
                list(pipeline.drain())
        finish(job)


@keepers
def test_an_open_pipeline_goes_on_when_there_is_room_again(keeper, tmp_path, monkeypatch) -> None:
    job = prepare(tmp_path / "job")
    with job.open() as pipeline:
        pipeline.step()
        before = pipeline.maintainer.epoch
        for at in range(8):
            full = Full(at)
            with monkeypatch.context() as patch:
                patch.setattr(disk, "os", full)
                with pytest.raises((SinkError, StateError), match="No space left"):
                    while pipeline.step() is not None:
                        pass
                full.room = True
            assert pipeline.maintainer.epoch >= before
        list(pipeline.drain())
        job.check(pipeline)


def test_a_real_limit_on_file_sizes_is_a_full_disk(tmp_path) -> None:
    job = Job(tmp_path)
    job.say("member", *(("+", (f"{n}" * 60, "core")) for n in range(100)))
    with job.open() as pipeline:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        try:
            with pytest.raises(DeltafixError, match="File too large"):
                pipeline.step()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert pipeline.maintainer.db.count("member") == 0
        pipeline.step()
        job.check(pipeline)


def test_a_small_disk_that_is_full(small_disk, tmp_path) -> None:
    job = Job(tmp_path / "job")
    toml = job.toml.read_text().replace('"state"', f'"{small_disk}/state"')
    job.toml.write_text(toml)
    job.say("member", ("+", ("ada", "core")))
    with job.open() as pipeline:
        list(pipeline.drain())
        job.say("member", *(("+", (f"{n}" * 60, "core")) for n in range(100)))
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space"), filler.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
        with pytest.raises(DeltafixError, match="No space left"):
            pipeline.step()
        assert pipeline.maintainer.db.count("member") == 1
        filler.unlink()
        list(pipeline.drain())
        job.check(pipeline)


def test_batches_of_no_rows_and_of_many_each_once(tmp_path) -> None:
    count = 2_000_000 if FUZZED else 20_000
    program = deltafix.Program.parse(".decl edge(x: number, y: number)\n.input edge")
    rng = np.random.default_rng(3)
    edges = np.unique(rng.integers(0, count, (count, 2)), axis=0)
    table = pa.table({"x": edges[:, 0], "y": edges[:, 1]})
    taken = table.append_column("sign", pa.array(np.repeat(np.int8(-1), len(edges))))
    table = table.append_column("sign", pa.array(np.repeat(np.int8(1), len(edges))))
    output = [OutputConfig("edge", tmp_path / "out", "delta+snapshot")]

    def apply(batch: int, rows: pa.Table) -> list[Epoch]:
        maintainer = Maintainer(program, tmp_path / "state", output)
        try:
            batches = Batches(maintainer, "q", policies=defaultdict(Policy), limit=count // 3)
            schema = maintainer.db.schemas["edge"]
            said = signed_table(schema, rows.select(["x", "y"]), rows.column("sign"))
            return batches.apply(batch, {"edge": Rows(Signed(schema, said))})
        finally:
            maintainer.close()

    first = apply(0, table)
    assert len(first) == -(-len(edges) // (count // 3))
    assert [sum(epoch.out["edge"]) for epoch in apply(1, table.slice(0, 0))] == [0]
    # Epoch 1, which opening made, is handed out with the first batch.
    assert [epoch.replayed for epoch in apply(0, table)] == [True] * (1 + len(first))
    at, rows = read_view(tmp_path / "out")
    assert (at, rows.num_rows) == (2 + len(first), len(edges))
    last = apply(2, pa.concat_tables([taken, taken.slice(0, 0)]))
    assert sum(epoch.given[1] for epoch in last) == len(edges)
    assert read_view(tmp_path / "out")[1].num_rows == 0
    assert read_deltas(tmp_path / "out").num_rows == 2 * len(edges)
