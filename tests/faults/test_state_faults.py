"""What can happen to a state folder: every step fails, or is the last; files are cut and flipped.

One script runs everywhere: epoch `n` applies `edits(n)`, so what the folder must hold after any
epoch is known. Invariant asserted after every fault: the state opened again is that of the last
acknowledged epoch, or of the one at work, never anything else, and equals recomputation.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.judges.oracle import evaluate
from tests.support.amount import cases

import deltafix
from deltafix.engine.state.image import SEAL_SIZE, VARIABLE
from deltafix.engine.state.log import read_log
from deltafix.errors import StateError, StateInUseError, StateVersionError
from deltafix.kernel.arena import Arena
from deltafix.kernel.image import PAGE
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.store import disk
from deltafix.store.frame import check_preamble, pack, read

TEXT = """
.decl edge(x: number, y: symbol)
.decl seed(y: symbol)
.decl both(x: number, z: number)
.input edge
.input seed
both(x, z) :- edge(x, y), edge(z, y), seed(y).
both(x, z) :- both(x, y), both(y, z).
"""
PROGRAM = deltafix.Program.parse(TEXT)
DECLARED = ".decl lone(x: number)\nlone(x) :- edge(x, _), !both(x, _)."
ADDED = "both(x, x) :- edge(x, y), !seed(y)."
EPOCHS = 6
COMPACT_AFTER = 3

Edits = list[tuple[str, str, tuple]]


@cache
def edits(epoch: int) -> Edits:
    """What an epoch of the script does; deletes name rows that are there."""
    rng = Random(f"faults {epoch}")
    before = given(epoch - 1)
    found: Edits = []
    for name, row in rng.sample(sorted(before), min(len(before), rng.randrange(2))):
        found.append(("-", name, row))
    for _ in range(rng.randrange(1, 4)):
        symbol = rng.choice("abc")
        row = ("edge", (rng.randrange(5), symbol)) if rng.random() < 0.7 else ("seed", (symbol,))
        if row not in before and ("+", *row) not in found:
            found.append(("+", *row))
    return found


GIVEN: list[frozenset[tuple[str, tuple]]] = [frozenset()]


def given(epoch: int) -> frozenset[tuple[str, tuple]]:
    """The given rows after an epoch of the script."""
    while len(GIVEN) <= epoch:
        rows = set(GIVEN[-1])
        for sign, name, row in edits(len(GIVEN)):
            (rows.add if sign == "+" else rows.remove)((name, row))
        GIVEN.append(frozenset(rows))
    return GIVEN[epoch]


def commit(db: deltafix.Database, *, rules: bool = False) -> None:
    """The next epoch of the script; with `rules`, of the one that edits rules as well."""
    epoch = db.epoch + 1
    with db.transaction() as tx:
        if rules and epoch == 1:
            tx.add_rule(DECLARED)
        if rules and epoch % 2 == 0:
            (tx.add_rule if epoch % 4 else tx.remove_rule)(ADDED)
        for sign, name, row in edits(epoch):
            (tx.insert if sign == "+" else tx.delete)(name, [row])


@cache
def program_of(epoch: int, *, rules: bool) -> deltafix.Program:
    """The program after an epoch of the script."""
    said = (TEXT, DECLARED * (epoch > 0), ADDED * (epoch % 4 in (2, 3)))
    return deltafix.Program.parse("\n".join(said)) if rules else PROGRAM


def check(db: deltafix.Database, *, rules: bool = False) -> None:
    """The database is what the script's epoch of its number gives, all of it recomputed."""
    db.check_invariants()
    inputs: dict[str, set[tuple]] = {"edge": set(), "seed": set()}
    for name, row in given(db.epoch):
        inputs[name].add(row)
    expected = evaluate(program_of(db.epoch, rules=rules), inputs)
    assert {name: set(db.rows(name)) for name in db.schemas} == expected


def connect(path: Path | str, fsync: str = "always") -> deltafix.Database:
    return deltafix.connect(PROGRAM, path, fsync=fsync)


class Dead(BaseException):
    """The machine stopped here: nothing after this happens."""


class Fault:
    """Stands for `os` in `disk`: the step of number `at` goes wrong, and perhaps all later ones.

    `fail`: one error, nothing done. `full`: this step and all later ones fail, a write half done.
    `die`: nothing happens from here on. `tear`: half of the write happens, then nothing.
    `late`: the step happens, then nothing. `images` are the steps that write an image.
    """

    STEPS = ("pwrite", "fsync", "replace", "ftruncate")

    def __init__(self, at: int, mode: str) -> None:
        self.at = at
        self.mode = mode
        self.seen: list[str] = []
        self.images: set[int] = set()
        self.healed = False

    def __getattr__(self, name: str):
        real = getattr(os, name)
        return self.step(name, real) if name in self.STEPS else real

    def step(self, name: str, real):
        def run(*args):
            number = len(self.seen)
            self.seen.append(name)
            about = args[0] if name == "replace" else os.readlink(f"/proc/self/fd/{args[0]}")
            if Path(about).name == "image.new":
                self.images.add(number)
            if self.healed or number < self.at or (number > self.at and self.mode == "fail"):
                return real(*args)
            half = name == "pwrite" and number == self.at
            if half and self.mode in ("tear", "full"):
                real(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
            if number == self.at and self.mode == "late":
                real(*args)
            if self.mode in ("fail", "full"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise Dead

        return run


class Volatile(Fault):
    """As `Fault`; also knows what a disk may hold of a file if the power goes now.

    What was written since the last sync that succeeded may have reached the disk, or not: in
    `may_hold` are the file as it was then and all that it has been since.
    """

    def __init__(self, file: Path, at: int, mode: str) -> None:
        super().__init__(at, mode)
        self.file = file
        self.may_hold = [file.read_bytes()]

    def step(self, name: str, real):
        run = super().step(name, real)

        def noted(*args):
            try:
                found = run(*args)
                if name == "fsync" and os.fstat(args[0]).st_ino == self.file.stat().st_ino:
                    self.may_hold.clear()
                return found
            finally:
                self.may_hold.append(self.file.read_bytes())

        return noted


def run_script(path: Path, acknowledged: list[int], *, rules: bool = False) -> None:
    """Open, commit every epoch, compact once, close; notes each epoch that was acknowledged."""
    with connect(path) as db:
        acknowledged.append(0)
        while db.epoch < EPOCHS:
            commit(db, rules=rules)
            acknowledged.append(db.epoch)
            if db.epoch == COMPACT_AFTER:
                db.compact()


def steps_of_the_script(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, rules: bool = False
) -> Fault:
    with monkeypatch.context() as patch:
        counter = Fault(10**9, "fail")
        patch.setattr(disk, "os", counter)
        run_script(path, [], rules=rules)
    return counter


def test_the_script_takes_every_kind_of_step(tmp_path, monkeypatch) -> None:
    script = steps_of_the_script(tmp_path / "s", monkeypatch)
    seen = script.seen
    # The folder is made, and its name synced. Beginning and compaction: two files written, synced,
    # named, their folder synced; then a write and a sync per epoch. Compaction and the end leave
    # an image each, which is never synced.
    assert seen.count("replace") == 6
    assert {seen[number] for number in script.images} == {"pwrite", "replace"}
    assert seen.count("fsync") == 1 + 8 + EPOCHS
    assert seen.count("pwrite") >= 4 + EPOCHS


@pytest.mark.parametrize("mode", ["die", "tear", "late"])
def test_a_stop_at_any_step_leaves_the_last_epoch_or_the_one_at_work(
    mode, tmp_path, monkeypatch
) -> None:
    steps = steps_of_the_script(tmp_path / "count", monkeypatch).seen
    for at in range(0, len(steps), 7 if JIT_DISABLED else 1):
        path = tmp_path / f"{at}"
        acknowledged: list[int] = [-1]
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", Fault(at, mode))
            with pytest.raises(Dead):
                run_script(path, acknowledged)
        with connect(path) as db:
            assert db.epoch in (max(acknowledged[-1], 0), acknowledged[-1] + 1), (at, steps[at])
            check(db)
            commit(db)
            check(db)


@pytest.mark.parametrize("mode", ["tear", "late", "fail"])
def test_edited_rules_are_there_with_their_epoch_or_not_at_all(mode, tmp_path, monkeypatch) -> None:
    script = steps_of_the_script(tmp_path / "count", monkeypatch, rules=True)
    steps, imaged = script.seen, 0
    assert {steps[number] for number in script.images} == {"pwrite", "replace"}
    for at in range(0, len(steps), 7 if JIT_DISABLED else 1):
        path = tmp_path / f"{at}"
        acknowledged: list[int] = [-1]
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", Fault(at, mode))
            with suppress(Dead, StateError):
                run_script(path, acknowledged, rules=True)
        last = acknowledged[-1]
        assert at < 2 or last < EPOCHS or mode == "fail" or at in script.images, steps[at]
        whole = last == EPOCHS and (path / "image").exists()
        with connect(path) as db:
            assert not whole or (db.recovered, db.last_epoch.derivations) == ((), 0)
            imaged += whole
            assert db.epoch in (max(last, 0), last + 1), (at, steps[at])
            check(db, rules=True)
            commit(db, rules=True)
            check(db, rules=True)
    assert imaged or mode == "tear"  # torn before it is named, an image is none


@pytest.mark.parametrize("mode", ["fail", "full"])
def test_an_error_at_any_step_rolls_back_and_the_script_goes_on_when_there_is_room(
    mode, tmp_path, monkeypatch
) -> None:
    script = steps_of_the_script(tmp_path / "count", monkeypatch)
    steps = script.seen
    for at in range(0, len(steps), 7 if JIT_DISABLED else 1):
        path = tmp_path / f"{at}"
        acknowledged: list[int] = []
        fault = Fault(at, mode)
        # Nothing rests on an image: without one all goes on.
        failing = {at} if mode == "fail" else set(range(at, len(steps)))
        goes_on = failing <= script.images
        expected = nullcontext() if goes_on else pytest.raises(StateError, match="No space left")
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", fault)
            with expected:
                run_script(path, acknowledged)
            fault.healed = True
            with connect(path) as db:
                # An error is not a stop: what was not acknowledged is not there, unless even
                # the cut failed, which the error said.
                done = max([0, *acknowledged])
                assert db.epoch == done or (mode == "full" and db.epoch == done + 1), steps[at]
                check(db)
                while db.epoch < EPOCHS:
                    commit(db)
                check(db)


def test_an_epoch_that_cannot_be_written_is_rolled_back_in_the_open_database(
    tmp_path, monkeypatch
) -> None:
    with connect(tmp_path / "s") as db:
        commit(db)
        before = (tmp_path / "s" / "log").read_bytes()
        for step in range(2):  # the write, the sync
            with monkeypatch.context() as patch:
                patch.setattr(disk, "os", Fault(step, "fail"))
                with pytest.raises(StateError, match=r"epoch 2 .*No space left.*rolled back"):
                    commit(db)
            assert db.epoch == 1
            check(db)
            assert (tmp_path / "s" / "log").read_bytes() == before
        commit(db)
        check(db)
    with connect(tmp_path / "s") as db:
        assert (db.epoch, db.recovered) == (2, ())
        check(db)


@pytest.mark.parametrize("more", range(2))
def test_what_was_rolled_back_stays_so_when_the_power_goes(more, tmp_path, monkeypatch) -> None:
    steps: list[str] = []
    for at in range(100):
        state = tmp_path / f"{at}"
        with connect(state) as db:
            commit(db)
            volatile = Volatile(state / "log", at, "fail")
            with monkeypatch.context() as patch:
                patch.setattr(disk, "os", volatile)
                with suppress(StateError):
                    commit(db)
                    break
                steps.append(volatile.seen[at])
                for _ in range(more):
                    commit(db)
            known = db.epoch
        assert known == 1 + more
        for number, held in enumerate(volatile.may_hold):
            copy = tmp_path / f"{at}.{number}"
            shutil.copytree(state, copy, ignore=shutil.ignore_patterns("lock"))
            (copy / "log").write_bytes(held)
            with connect(copy) as db:
                assert db.epoch == known, steps
                check(db)
    assert set(steps) == {"pwrite", "fsync"}


def test_a_log_that_cannot_even_be_cut_is_cut_before_the_next_epoch(tmp_path, monkeypatch) -> None:
    with connect(tmp_path / "s") as db:
        commit(db)
        size = (tmp_path / "s" / "log").stat().st_size
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", Fault(0, "full"))
            for _ in range(2):
                with pytest.raises(StateError, match="tried again before the next epoch"):
                    commit(db)
                assert db.epoch == 1
                check(db)
        torn = (tmp_path / "s" / "log").read_bytes()
        assert len(torn) > size
        commit(db)
    with connect(tmp_path / "s") as db:
        assert (db.epoch, db.recovered) == (2, ())
        check(db)
    (tmp_path / "s" / "log").write_bytes(torn)
    with connect(tmp_path / "s") as db:
        assert "torn tail" in db.recovered[0]
        assert db.epoch == 1
        check(db)


def test_a_file_size_limit_tears_a_real_write(tmp_path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with connect(tmp_path / "s") as db:
        for _ in range(5):
            commit(db)
        size = (tmp_path / "s" / "log").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
        try:
            with pytest.raises(StateError, match="File too large"):
                commit(db)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (tmp_path / "s" / "log").stat().st_size == size
        check(db)
        commit(db)
    with connect(tmp_path / "s") as db:
        assert (db.epoch, db.recovered) == (6, ())
        check(db)


def test_a_failed_automatic_compaction_is_told_and_the_epoch_stands(tmp_path, monkeypatch) -> None:
    def full(path, pieces):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("deltafix.engine.state.state.COMPACT_LEAST", 0)
    with connect(tmp_path / "s") as db:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "create", full)
            while db.epoch < EPOCHS:
                commit(db)
                check(db)
        told = db.recovered
        assert told[0].startswith("not compacted after epoch")
        # It is tried again when the log has doubled, not with every epoch.
        assert 1 <= len(told) < EPOCHS - 1
    with connect(tmp_path / "s") as db:
        assert db.epoch == EPOCHS
        check(db)
        while read_log(tmp_path / "s" / "log").base == 0:
            commit(db)
        check(db)


@pytest.mark.parametrize("mode", ["fail", "full"])
def test_what_is_acknowledged_after_a_failed_compaction_is_there(
    mode, tmp_path, monkeypatch
) -> None:
    counter = Fault(10**9, "fail")
    with connect(tmp_path / "count") as db, monkeypatch.context() as patch:
        commit(db)
        patch.setattr(disk, "os", counter)
        db.compact()
        patch.undo()
    for at in range(len(counter.seen)):
        with connect(tmp_path / f"{at}") as db, monkeypatch.context() as patch:
            commit(db)
            fault = Fault(at, mode)
            patch.setattr(disk, "os", fault)
            with suppress(StateError):  # the last steps only put the old log away
                db.compact()
            fault.healed = True
            acknowledged = db.epoch
            for _ in range(2):
                with suppress(StateError):
                    commit(db)
                    acknowledged = db.epoch
            check(db)
        with connect(tmp_path / f"{at}") as db:
            assert db.epoch == acknowledged, (at, counter.seen[at])
            check(db)


def test_an_interrupt_behind_the_kernels_commit_keeps_log_and_readers_together(
    tmp_path, monkeypatch
) -> None:
    from deltafix.engine import database

    def interrupted(words, cells) -> None:
        real(words, cells)
        raise KeyboardInterrupt

    real = database.commit
    with connect(tmp_path / "s") as db:
        commit(db)
        with monkeypatch.context() as patch:
            patch.setattr(database, "commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                commit(db)
        assert db.epoch == 2
        check(db)
        commit(db)
    with connect(tmp_path / "s") as db:
        assert db.epoch == 3
        check(db)


def test_a_failed_sync_between_commits_is_not_forgotten(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("deltafix.engine.state.log.INTERVAL", 3600)
    with connect(tmp_path / "s", fsync="interval") as db:
        commit(db)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", Fault(0, "fail"))
            db._state._log.sync_now()
        with pytest.raises(StateError, match="may not be on the disk"):
            commit(db)
        assert db.epoch == 1
        check(db)


def test_a_forked_child_cannot_write(tmp_path) -> None:
    with connect(tmp_path / "s") as db:
        commit(db)
        db._state._lock._pid += 1  # what a child sees: a lock that another process took
        for edit in (lambda: commit(db), db.compact):
            with pytest.raises(StateError, match="forked"):
                edit()
        db._state._lock._pid -= 1
        check(db)
        commit(db)


@pytest.mark.parametrize("mode", ["die", "late", "fail"])
def test_a_stop_while_a_changed_program_is_noted_loses_nothing(mode, tmp_path, monkeypatch) -> None:
    changed = deltafix.Program.parse(TEXT + ".decl more(x: number)\nmore(x) :- both(x, _).")
    for at in range(100):
        path = tmp_path / f"{at}"
        with connect(path) as db:
            for _ in range(EPOCHS):
                commit(db)
        fault = Fault(at, mode)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", fault)
            with suppress(Dead, StateError), deltafix.connect(changed, path) as db:
                assert db.epoch == EPOCHS
        for program in (changed, PROGRAM):
            with deltafix.connect(program, path) as db:
                assert db.epoch == EPOCHS
                assert {row for row in given(EPOCHS) if row[0] == "edge"} == {
                    ("edge", row) for row in db.rows("edge")
                }
        if len(fault.seen) <= at:
            break
    assert at >= 6


# --- damaged files -------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path) -> Path:
    path = tmp_path / "s"
    with connect(path) as db:
        for _ in range(EPOCHS):
            commit(db)
            if db.epoch == 1:
                db.compact()
    return path


def test_a_log_cut_anywhere_opens_at_its_last_whole_record(state) -> None:
    data = (state / "log").read_bytes()
    records = read_log(state / "log")
    ends = [frame.end for frame in records.frames]
    header = read(data, check_preamble(data, "log", "log")).end
    borders = [header, *ends]
    near = {border + step for border in borders for step in (-1, 0, 1, 30)}
    for place in sorted(place for place in near if header <= place <= len(data)):
        (state / "log").write_bytes(data[:place])
        whole = sum(end <= place for end in ends)
        with connect(state) as db:
            assert db.epoch == records.base + whole
            assert any("torn tail" in told for told in db.recovered) == (place not in borders)
            check(db)
        assert (state / "log").stat().st_size == borders[whole]
    for place in (0, 5, 20, header - 1):
        (state / "log").write_bytes(data[:place])
        with pytest.raises(StateError):
            connect(state)


def test_zeros_behind_the_log_are_a_torn_tail(state) -> None:
    with (state / "log").open("ab") as stream:
        stream.write(bytes(500))
    with connect(state) as db:
        assert db.epoch == EPOCHS
        assert "500 bytes after epoch 6" in db.recovered[0]
        check(db)
    with connect(state) as db:
        assert db.recovered == ()


def test_a_flipped_bit_in_the_log_never_gives_a_wrong_state(state) -> None:
    data = (state / "log").read_bytes()
    records = read_log(state / "log")
    ends = [frame.end for frame in records.frames]
    rng = Random("bits")
    for place in [*range(16), *rng.sample(range(len(data)), 40), len(data) - 1]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        (state / "log").write_bytes(flipped)
        good = records.base + sum(end <= place for end in ends)
        if good == EPOCHS - 1:  # the last record: a flipped bit cannot be told from a torn write
            with connect(state) as db:
                assert "torn tail" in db.recovered[0]
                assert db.epoch == good
                check(db)
        else:
            with pytest.raises(StateError) as refused:
                connect(state)
            assert (state / "log").read_bytes() == flipped
            if refused.value.values.get("epoch") is not None:
                assert refused.value.values["epoch"] == good
                assert f"last good epoch is {good}" in str(refused.value)


def test_the_advice_of_a_damaged_log_works(state) -> None:
    data = bytearray((state / "log").read_bytes())
    records = read_log(state / "log")
    data[records.frames[1].end - 3] ^= 4
    (state / "log").write_bytes(data)
    with pytest.raises(StateError, match="cutting the file to") as refused:
        connect(state)
    os.truncate(state / "log", refused.value.values["byte"])
    with connect(state) as db:
        assert db.epoch == refused.value.values["epoch"] == records.base + 1
        check(db)


def test_a_damaged_snapshot_is_refused_wherever_the_damage_is(state) -> None:
    data = (state / "snapshot").read_bytes()
    rng = Random("snapshot")
    for place in [*range(16), *rng.sample(range(len(data)), 40)]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        (state / "snapshot").write_bytes(flipped)
        says = "of format" if place in range(12, 16) else r"last good epoch is (1|unknown)"
        with pytest.raises(StateError, match=says):
            connect(state)
    for place in rng.sample(range(len(data)), 10):
        (state / "snapshot").write_bytes(data[:place])
        with pytest.raises(StateError, match="damaged"):
            connect(state)
    (state / "snapshot").write_bytes(data)
    with connect(state) as db:
        check(db)


@pytest.mark.parametrize("name", ["snapshot", "log"])
def test_a_state_of_another_format_is_refused_as_such_and_left_alone(name, state) -> None:
    earlier = bytearray((state / name).read_bytes())
    earlier[12:16] = (1).to_bytes(4, "little")
    (state / name).write_bytes(earlier)
    with pytest.raises(StateVersionError, match=f"{name}: a {name} of format 1, and") as refused:
        connect(state)
    assert refused.value.code == "DF502"
    assert refused.value.values == {"path": str(state / name), "format": 1}
    assert "damaged" not in str(refused.value)
    assert (state / name).read_bytes() == earlier


def test_an_image_of_another_format_is_told_of_and_not_used(state) -> None:
    earlier = bytearray((state / "image").read_bytes())
    earlier[12] ^= 3
    (state / "image").write_bytes(earlier)
    with connect(state) as db:
        assert db.recovered == ("derived without an image: it is of format 1",)
        check(db)


@pytest.mark.parametrize(
    ("meta", "body"),
    [
        ({}, b""),
        ({"edits": [{"relation": "edge"}]}, b""),
        ({"edits": [{"relation": "edge", "added": True, "rows": 1, "bytes": 9}]}, b"no stream"),
        ({"edits": [{"relation": "edge", "added": True, "rows": -1, "bytes": -1}]}, b""),
        ({"edits": [{"relation": "nowhere", "added": True, "rows": 1, "bytes": 0}]}, b""),
        ({"edits": 7}, b""),
        ([], b""),
        (7, b""),
    ],
)
def test_a_record_that_was_forged_is_refused(meta, body, state) -> None:
    with (state / "log").open("ab") as stream:
        stream.writelines(pack(EPOCHS + 1, meta, [body]))
        stream.writelines(pack(EPOCHS + 2, {"edits": []}))
    with pytest.raises(StateError):
        connect(state)


@pytest.mark.parametrize("name", ["snapshot", "log", "lock", "image"])
def test_a_folder_in_a_files_place_is_refused(name, state) -> None:
    (state / name).unlink()
    (state / name).mkdir()
    with pytest.raises(StateError, match=r"cannot be (used as a state|removed)"):
        connect(state)


@pytest.mark.parametrize("lost", ["snapshot", "log"])
def test_a_lost_file_is_refused(lost, state) -> None:
    (state / lost).unlink()
    with pytest.raises(StateError, match=r"gone; the last good epoch is 1"):
        connect(state)


@pytest.mark.parametrize("holds", ["records", "a base", "a torn write"])
def test_a_log_that_says_anything_is_refused_without_its_snapshot(holds, tmp_path) -> None:
    with connect(tmp_path / "s") as db:
        if holds != "a torn write":
            commit(db)
        if holds == "a base":
            db.compact()
    if holds == "a torn write":
        with (tmp_path / "s" / "log").open("ab") as log:
            log.write(b"torn")
    (tmp_path / "s" / "snapshot").unlink()
    with pytest.raises(StateError, match=r"gone; the last good epoch is \d"):
        connect(tmp_path / "s")


def test_files_of_two_states_are_refused(state, tmp_path) -> None:
    with connect(tmp_path / "other") as db:
        for _ in range(2):
            commit(db)
        db.compact()
    (state / "log").write_bytes((tmp_path / "other" / "log").read_bytes())
    with pytest.raises(StateError, match="two different states"):
        connect(state)


def test_an_old_snapshot_under_a_new_log_is_refused(state) -> None:
    old = (state / "snapshot").read_bytes()
    with connect(state) as db:
        db.compact()
    (state / "snapshot").write_bytes(old)
    with pytest.raises(StateError, match="begins after epoch 6, but the snapshot is of epoch 1"):
        connect(state)


# --- damaged images ------------------------------------------------------------------------------

DERIVED = "derived without an image: "


def opens_derived(state: Path, words: str = "") -> None:
    """The state opens as it was, by deriving, and says why; the image is gone."""
    with connect(state) as db:
        assert db.epoch == EPOCHS
        (told,) = db.recovered
        assert told.startswith(DERIVED)
        assert words in told
        assert db.last_epoch.derivations > 0
        check(db)
        assert not (state / "image").exists()


def borders_of(image: Path) -> list[int]:
    """Where the parts of an image begin, and where the last one ends."""
    data = image.read_bytes()
    start = check_preamble(data, "image", "image")
    frame = read(data, start + SEAL_SIZE)
    place = -(-frame.end // PAGE) * PAGE
    found = [0, start, start + SEAL_SIZE, frame.end - len(frame.body), frame.end, place]
    lengths = [-(-size // PAGE) * PAGE for size in frame.meta["tables"].values()]
    for size in [*lengths, *(size for _, size in frame.meta["extents"])]:
        place += size
        found.append(place)
    assert place == len(data)
    return found


def test_a_state_with_an_image_is_opened_without_work(state) -> None:
    with connect(state) as db:
        assert (db.epoch, db.recovered) == (EPOCHS, ())
        assert (db.last_epoch.derivations, db.last_epoch.changed) == (0, 0)
        check(db)
        commit(db)
        check(db)


def test_a_flipped_bit_anywhere_in_an_image_is_found(state) -> None:
    image = state / "image"
    borders = borders_of(image)
    data = image.read_bytes()
    rng = Random("image")
    places = {place + step for place in borders for step in (-1, 0)} - {-1, len(data)}
    places |= {rng.randrange(*part) for part in pairwise(borders) if part[0] < part[1]}
    for place in sorted(places)[:: 9 if JIT_DISABLED else 1]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        image.write_bytes(flipped)
        opens_derived(state)


def test_an_image_cut_anywhere_is_found(state) -> None:
    image = state / "image"
    data = image.read_bytes()
    near = {place + step for place in borders_of(image) for step in (-1, 0, 1)}
    lengths = sorted(length for length in near if 0 <= length < len(data))
    for length in lengths[:: 9 if JIT_DISABLED else 1]:
        image.write_bytes(data[:length])
        opens_derived(state)
    image.write_bytes(data + bytes(1))
    opens_derived(state, f"it has {len(data) + 1} bytes, not {len(data)}")


def test_pages_that_a_power_cut_left_as_zeros_are_found(state) -> None:
    image = state / "image"
    data = image.read_bytes()
    for place in range(0, len(data), PAGE)[:: 9 if JIT_DISABLED else 1]:
        if any(data[place : place + PAGE]):
            image.write_bytes(data[:place] + bytes(PAGE) + data[place + PAGE :])
            opens_derived(state)


def test_an_image_of_another_key_is_not_believed(state, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "somebody else's")
    opens_derived(state, "another user's key")


def test_the_key_of_images_is_made_once_for_its_user_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    for name in ("one", "two"):
        with connect(tmp_path / name) as db:
            commit(db)
        with connect(tmp_path / name) as db:
            assert (db.recovered, db.last_epoch.derivations) == ((), 0)
    (key,) = (tmp_path / "home" / "deltafix").iterdir()
    assert (key.name, key.stat().st_size, key.stat().st_mode & 0o777) == ("image.key", 32, 0o600)


def test_without_a_place_for_a_key_there_are_no_images(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with connect(tmp_path / "s") as db:
        commit(db)
        db.compact()
    assert "no image after epoch 1" in db.recovered[0]
    assert not (tmp_path / "s" / "image").exists()


def test_an_image_of_another_state_is_not_taken(state, tmp_path) -> None:
    with connect(tmp_path / "other") as db:
        for _ in range(EPOCHS):
            commit(db)
    shutil.copy(tmp_path / "other" / "image", state / "image")
    opens_derived(state, "of another state")


def test_an_image_from_before_the_snapshot_is_not_taken(state) -> None:
    old = (state / "image").read_bytes()
    with connect(state) as db:
        commit(db)
        db.compact()
        with db.transaction() as tx:  # back to what the script has at the epoch of the image
            for sign, name, row in edits(EPOCHS + 1):
                (tx.delete if sign == "+" else tx.insert)(name, [row])
    (state / "image").write_bytes(old)
    with connect(state) as db:
        assert db.recovered == (
            f"{DERIVED}it is of epoch {EPOCHS}, and the log goes on from epoch {EPOCHS + 1} "
            f"to {EPOCHS + 2}",
        )
        assert db.epoch == EPOCHS + 2


def test_an_image_of_an_epoch_that_the_log_lost_is_not_taken(state) -> None:
    records = read_log(state / "log")
    os.truncate(state / "log", records.frames[-2].end)
    with connect(state) as db:
        assert f"it is of epoch {EPOCHS}" in db.recovered[0]
        assert db.epoch == EPOCHS - 1
        check(db)
        with db.transaction() as tx:  # another epoch of the number that the lost one had
            tx.insert("edge", [(77, "z")])
    with connect(state) as db:
        assert (db.epoch, db.recovered) == (EPOCHS, ())
        assert (77, "z") in db.rows("edge")


def test_an_image_behind_the_log_is_brought_up_to_date(state) -> None:
    old = (state / "image").read_bytes()
    with connect(state) as db:
        for _ in range(3):
            commit(db)
    (state / "image").write_bytes(old)
    with connect(state) as db:
        assert (db.epoch, db.recovered) == (EPOCHS + 3, ())
        check(db)
        commit(db)
        check(db)


def test_an_image_that_cannot_be_mapped_leaves_an_arena_to_derive_in(state, monkeypatch) -> None:
    real = Arena.map_file
    seen = 0

    def fails(arena: Arena, *place: int) -> None:
        nonlocal seen
        seen += 1
        if seen > 2:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        real(arena, *place)

    monkeypatch.setattr(Arena, "map_file", fails)
    opens_derived(state, "it cannot be mapped")
    assert seen == 3


def test_an_epoch_that_could_not_even_be_rolled_back_is_in_no_image(state, monkeypatch) -> None:
    from deltafix.engine import database

    def fails(*_: object) -> None:
        raise MemoryError("no room")

    (state / "image").unlink()
    with connect(state) as db:
        with monkeypatch.context() as patch:
            patch.setattr(database, "rollback", fails)
            tx = db.transaction()
            tx.insert("edge", [(99, "a")])
            tx.prepared = fails
            with pytest.raises(MemoryError):
                tx.commit()
        db.close()
        assert "an epoch was left half-way" in db.recovered[0]
    assert not (state / "image").exists()
    with connect(state) as db:
        assert (db.epoch, db.recovered) == (EPOCHS, ())
        check(db)


def test_images_of_linked_files_are_not_followed(state) -> None:
    (state / "image").rename(state / "elsewhere")
    (state / "image").symlink_to(state / "elsewhere")
    opens_derived(state, "it cannot be read")
    assert (state / "elsewhere").exists()


# --- killed processes ----------------------------------------------------------------------------

WRITERS = """
import os, signal, sys
from pathlib import Path
from tests.faults import test_state_faults as script
for line in sys.stdin:
    path, acknowledgements = line.split()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        db = script.connect(Path(path))
        while True:
            script.commit(db, rules=True)
            os.write(writer, b"%d\\n" % db.epoch)
            if db.epoch % 5 == 0:
                db.compact()
    os.close(writer)
    seen = b""
    while seen.count(b"\\n") < int(acknowledgements):
        seen += os.read(reader, 1 << 16)
    print("running", child, flush=True)
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while data := os.read(reader, 1 << 16):
        seen += data
    os.close(reader)
    print("killed", seen.split()[-1].decode(), flush=True)
    script.given(int(seen.split()[-1]))  # the next writer inherits the script so far
"""


@pytest.fixture
def writers(tmp_path) -> Iterator[subprocess.Popen[str]]:
    """A process that forks writers on demand; it has the engine loaded, so each costs little."""
    root = Path(__file__).resolve().parent.parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"},
    ) as process:
        yield process
        process.stdin.close()
        process.wait()


def ask(writers: subprocess.Popen[str], line: str) -> list[str]:
    writers.stdin.write(line + "\n")
    writers.stdin.flush()
    return writers.stdout.readline().split()


def test_killed_writers_lose_nothing_acknowledged(tmp_path, writers) -> None:
    rng = Random("kill")
    path = tmp_path / "s"
    kills = 2 if JIT_DISABLED else cases(10)
    reached = 0
    for _ in range(kills):
        said, owner = ask(writers, f"{path} {rng.randrange(1, 12)}")
        assert said == "running"
        with pytest.raises(StateInUseError, match=f"process {owner} on"):
            connect(path)
        said, last = ask(writers, "kill")
        assert said == "killed"
        with connect(path) as db:
            assert db.epoch in (int(last), int(last) + 1)
            check(db, rules=True)
            assert db.epoch > reached
            reached = db.epoch
