"""What can happen to the files of shards: killed at any write, rename or sync; the disk is full.

One script runs everywhere: a load, changes, compactions, a recomputation. Invariant
asserted after every fault: the folder opened again is at the last acknowledged epoch or at the one
at work, wholly, and equals recomputation by one engine; the rest of the script then runs as ever.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from tests.faults.killing import Full, Killer, forking, killed
from tests.support.amount import cases

import deltafix
from deltafix.errors import StateError
from deltafix.facts.delta import Delta
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.spark.shards import ShardedDatabase, database, epoch, resident
from deltafix.store import disk

KILLS = 3 if JIT_DISABLED else cases(15, fuzz=210)
PROGRAM = deltafix.Program.parse("""
.decl edge(x: number, y: number)
.decl root(x: number)
.decl reach(x: number)
.decl dead(x: number)
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
dead(x) :- edge(x, _), !reach(x).
""")
EPOCHS = 7
RECOMPUTED = 6


def edits(number: int) -> dict[str, tuple[list, list]]:
    """What an epoch of the script does."""
    rng = Random(f"shards {number}")
    edges = [(n, (n * 7 + k) % 30) for n in range(30) for k in range(2)]
    if number == 1:
        return {"edge": (edges, []), "root": ([(0,)], [])}
    gone = rng.sample(edges, 3)
    return {"edge": ([(rng.randrange(30), 30 + number)], gone), "root": ([(number,)], [])}


def open_shards(folder: Path, number: int) -> ShardedDatabase:
    way = "recompute" if number in (1, RECOMPUTED) else "driver"
    return ShardedDatabase(PROGRAM, shards=2, state=folder, executor=way)


def run(folder: Path, until: int = EPOCHS) -> None:
    """The script from where the folder stands; acknowledges each epoch beside it."""
    with mock.patch.object(epoch, "_COMPACT", 3000), mock.patch.object(database, "LOAD", 0):
        at = 0
        while at < until:
            resident.forget(str(folder))
            with open_shards(folder, at + 1) as db:
                at = db.epoch
                if at < until and (at + 1 in (1, RECOMPUTED)) == (db._executor == "recompute"):
                    db.apply(Delta.of(edits(at + 1), db.schemas.values()))
                    at = db.epoch
                    with folder.with_suffix(".said").open("a") as said:
                        said.write(f"{at}\n")


def check(folder: Path, at: int | None = None) -> int:
    """The folder holds what one engine makes of its epochs; returns which it is at."""
    resident.forget(str(folder))
    with ShardedDatabase(PROGRAM, shards=2, state=folder, executor="driver") as db:
        found = db.epoch
        one = deltafix.connect(PROGRAM)
        for number in range(1, found + 1):
            with one.transaction(missing="ignore") as tx:
                for name, (come, gone) in edits(number).items():
                    tx.delete(name, gone)
                    tx.insert(name, come)
        for name in one.schemas:
            assert db.rows(name) == one.rows(name), (found, name)
    assert at is None or found == at
    return found


@pytest.fixture
def runner() -> Iterator[subprocess.Popen[str]]:
    """A process that runs the epochs to be killed."""
    with forking("tests.faults.test_shards_faults") as process:
        yield process


def steps(folder: Path) -> list[str]:
    counter = Killer(-1, "die")
    with mock.patch.object(disk, "os", counter):
        run(folder)
    return counter.seen


def test_agree_after_a_kill_at_any_step_of_the_shards_commit(memory, runner) -> None:
    seen = steps(memory / "count")
    assert {"pwrite", "fsync", "replace"} <= set(seen)
    assert len(seen) > 200
    check(memory / "count", EPOCHS)
    rng = Random("shards killed")
    for number in range(KILLS):
        at = (number * len(seen)) // KILLS + rng.randrange(max(1, len(seen) // KILLS))
        folder = memory / f"{number}"
        assert killed(runner, folder, at, rng.choice(["die", "tear", "late"])), (at, len(seen))
        if not folder.exists():
            continue
        said = folder.with_suffix(".said")
        acknowledged = int(said.read_text().split()[-1]) if said.exists() else 0
        assert check(folder) in (acknowledged, acknowledged + 1)
        run(folder)
        check(folder, EPOCHS)
        assert len(list(folder.glob("epoch-*"))) <= EPOCHS + 1
        shutil.rmtree(folder)


def test_a_full_disk_fails_an_epoch_of_shards_cleanly(memory) -> None:
    for before in (0, 2):
        origin, counter = memory / f"origin-{before}", Full(1 << 60)
        with open_shards(origin, 1):
            pass  # epoch 0
        run(origin, before)
        shutil.copytree(origin, memory / "count", dirs_exist_ok=True)
        with (
            mock.patch.object(database, "LOAD", 0),
            open_shards(memory / "count", before + 1) as db,
            mock.patch.object(disk, "os", counter),
        ):
            db.apply(Delta.of(edits(before + 1), db.schemas.values()))
        assert counter.seen > 20
        for at in range(0, counter.seen, counter.seen // 7):
            folder = memory / f"{before}-{at}"
            shutil.copytree(origin, folder)
            full = Full(at)
            with mock.patch.object(database, "LOAD", 0), open_shards(folder, before + 1) as db:
                wanted = Delta.of(edits(before + 1), db.schemas.values())
                rows = db.rows("reach")
                with (
                    mock.patch.object(disk, "os", full),
                    pytest.raises(StateError, match="No space left"),
                ):
                    db.apply(wanted)
                assert (db.epoch, db.rows("reach")) == (before, rows)
                db.apply(wanted)
            check(folder, before + 1)
            shutil.rmtree(folder)
        shutil.rmtree(memory / "count")


def test_a_small_disk_that_is_full_of_other_things(small_disk) -> None:
    folder = small_disk / "state"
    run(folder, 2)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space") as full, filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    assert full.value.errno == errno.ENOSPC
    resident.forget(str(folder))
    with open_shards(folder, 3) as db:
        folders = set(folder.glob("epoch-*"))
        with pytest.raises(StateError, match="No space left"):
            db.apply(Delta.of(edits(3), db.schemas.values()))
        assert db.epoch == 2
        assert set(folder.glob("epoch-*")) == folders, "a failed attempt gives its room back"
        filler.unlink()
        db.apply(Delta.of(edits(3), db.schemas.values()))
    check(folder, 3)


@pytest.mark.parametrize("lost", ["journal", "changes", "part"])
@pytest.mark.parametrize("number", [1, 2])
def test_workers_without_the_common_folder_are_found_out_before_a_commit(
    number, lost, tmp_path, monkeypatch
) -> None:
    folder = tmp_path / "state"
    run(folder, number - 1)
    real = epoch.Attempt._note

    def elsewhere(self, notes) -> None:
        for note in notes:
            changes = [folder / path for path, *_ in note["changes"].values()]
            for path in changes if lost == "changes" else [folder / note["file"]]:
                if lost == "part":
                    path.write_bytes(path.read_bytes()[:-1])
                else:
                    path.unlink()
        real(self, notes)

    with monkeypatch.context() as patch:
        patch.setattr(epoch.Attempt, "_note", elsewhere)
        with pytest.raises(StateError, match="must be one folder, at the same path on the driver"):
            run(folder, number)
    check(folder, number - 1)
    run(folder, number)
    check(folder, number)
