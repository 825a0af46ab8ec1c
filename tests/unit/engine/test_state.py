"""State folders: what they keep, what they refuse, and the work they do; crashes: tests/faults."""

from __future__ import annotations

import gc
import math
import re
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.generators.strategies import (
    FEATURES,
    FOLDS,
    REDUCERS,
    random_program,
    random_script,
    replay,
)
from tests.judges.oracle import evaluate

import deltafix
from deltafix.engine.state import log
from deltafix.engine.state import state as base
from deltafix.engine.state.log import read_log
from deltafix.engine.state.snapshot import read_snapshot
from deltafix.errors import (
    BudgetError,
    ProgramError,
    StateError,
    StateInUseError,
    TransactionError,
)
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.store import disk

PATH = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
PROGRAMS = 2 if JIT_DISABLED else 15


def commit(db: deltafix.Database, *edges: tuple[int, int]) -> None:
    with db.transaction() as tx:
        tx.insert("edge", list(edges))


def contents(db: deltafix.Database) -> tuple[object, ...]:
    db.check_invariants()
    return db.epoch, {name: db.rows(name) for name in db.schemas}


# --- what is kept --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_oracle_a_state_opened_again_at_any_epoch_equals_recomputation(seed, tmp_path) -> None:
    rng = Random(f"state {seed}")
    while True:
        program = random_program(rng, rng.choice([1, 2, 3]), FEATURES)
        try:
            db = deltafix.connect(program, tmp_path / "s", fsync="never", reducers=REDUCERS)
            break
        except ProgramError as refused:
            assert {found.code for found in refused.diagnostics} == {"DF171"}
    script = random_script(rng, program, epochs=8, edits=5)
    for number, (epoch, inputs) in enumerate(zip(script, replay(program, script), strict=True)):
        with db.transaction() as tx:
            for sign, name, row in epoch:
                (tx.insert if sign == "+" else tx.delete)(name, [row])
        turn = rng.choice(["go on", "open again", "compact"])
        if turn == "compact":
            db.compact()
        if turn != "go on":
            db.close()
            db = deltafix.connect(program, tmp_path / "s", fsync="never", reducers=REDUCERS)
        db.check_invariants()
        assert db.epoch == number + 1
        expected = evaluate(program, inputs, reducers=FOLDS)
        assert {name: set(db.rows(name)) for name in db.schemas} == expected
    db.close()


def test_values_of_every_type_come_back(tmp_path) -> None:
    text = (
        ".decl r(a: number, b: unsigned, c: float, d: symbol)\n.decl flag()\n.input r\n.input flag"
    )
    rows = [
        (-(2**63), 2**64 - 1, math.inf, "\u00e4\n\t\U0001f600"),
        (2**63 - 1, 2**63, -0.5, ""),
        (0, 0, 1e-300, "\0"),
    ]
    with deltafix.connect(text, tmp_path / "s") as db, db.transaction() as tx:
        tx.insert("r", rows)
        tx.insert("flag", [()])
    with deltafix.connect(text, tmp_path / "s") as db:
        assert (db.rows("r"), db.rows("flag")) == (sorted(rows), [()])
        db.compact()
        with db.transaction() as tx:
            tx.delete("flag", [()])
    with deltafix.connect(text, tmp_path / "s") as db:
        assert (db.rows("r"), db.rows("flag")) == (sorted(rows), [])


def test_a_nan_comes_back(tmp_path) -> None:
    text = ".decl r(a: float)\n.input r"
    with deltafix.connect(text, tmp_path / "s") as db, db.transaction() as tx:
        tx.insert("r", [(math.nan,)])
    with deltafix.connect(text, tmp_path / "s") as db, db.transaction() as tx:
        assert tx.insert("r", [(math.nan,)]) == 0


def test_rows_given_to_a_derived_relation_stay_given(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        commit(db, (1, 2))
        with db.transaction() as tx:
            tx.insert("path", [(1, 2), (7, 8)])
    with deltafix.connect(PATH, tmp_path / "s") as db:
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
        assert db.rows("path") == [(1, 2), (7, 8)]
        with db.transaction() as tx:
            tx.delete("path", [(1, 2)])
        assert db.rows("path") == [(7, 8)]


def test_a_batch_of_many_rows_comes_back(tmp_path) -> None:
    rows = np.random.default_rng(0).integers(-(2**40), 2**40, (300 if JIT_DISABLED else 9000, 2))
    text = ".decl edge(x: number, y: number)\n.input edge"
    with deltafix.connect(text, tmp_path / "s") as db:
        with db.transaction() as tx:
            tx.insert("edge", rows)
        with db.transaction() as tx:
            tx.delete("edge", rows[:100])
        expected = db.rows("edge")
    with deltafix.connect(text, tmp_path / "s") as db:
        db.check_invariants()
        assert db.rows("edge") == expected == sorted(map(tuple, rows[100:].tolist()))


def test_every_committed_epoch_is_numbered_also_an_empty_one(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        with db.transaction():
            pass
        commit(db, (1, 2))
        with db.transaction():
            pass
    with deltafix.connect(PATH, tmp_path / "s") as db:
        assert db.epoch == 3
        commit(db, (2, 3))
        assert db.epoch == 4


def test_a_rolled_back_transaction_leaves_no_byte(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s", max_rows=50) as db:
        commit(db, (1, 2))
        before = (tmp_path / "s" / "log").read_bytes()
        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.insert("edge", [(i, i + 1) for i in range(30)])
        with pytest.raises(ZeroDivisionError), db.transaction() as tx:
            tx.insert("edge", [(1, 1)])
            1 // 0  # noqa: B018  the error is the point
        assert (tmp_path / "s" / "log").read_bytes() == before
        commit(db, (2, 3))
    with deltafix.connect(PATH, tmp_path / "s") as db:
        assert db.rows("edge") == [(1, 2), (2, 3)]


# --- the work ------------------------------------------------------------------------------------


def test_the_log_holds_net_given_edits_and_nothing_derived(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        commit(db, *[(i, i + 1) for i in range(20)])
        with db.transaction() as tx:
            tx.insert("edge", [(3, 4), (90, 91)])
            tx.delete("edge", [(90, 91), (5, 6)])
            tx.insert("edge", [(95, 96)])
    frames = read_log(tmp_path / "s" / "log").frames
    noted = [
        [(e["relation"], e["added"], e["rows"]) for e in frame.meta["edits"]] for frame in frames
    ]
    assert noted == [[("edge", True, 20)], [("edge", False, 1), ("edge", True, 1)]]


def test_opening_without_an_image_is_one_epoch_from_scratch(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        for i in range(10):
            commit(db, (i, i + 1))
    (tmp_path / "s" / "image").unlink()
    with deltafix.connect(PATH, tmp_path / "s") as db:
        report = db.last_epoch
    # 10 edges and 55 pairs, each derived once, whatever the ten epochs before did.
    assert (report.epoch, report.changed, report.derivations) == (10, 65, 55)


def syncs(monkeypatch) -> list[int]:
    seen: list[int] = []
    real = disk.sync
    monkeypatch.setattr(disk, "sync", lambda fd: (seen.append(fd), real(fd)))
    return seen


@pytest.mark.parametrize(("policy", "expected"), [("always", 5), ("interval", 0), ("never", 0)])
def test_the_policy_says_when_commits_sync(policy, expected, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log, "INTERVAL", 3600)
    with deltafix.connect(PATH, tmp_path / "s", fsync=policy) as db:
        seen = syncs(monkeypatch)
        for i in range(5):
            commit(db, (i, i + 1))
        assert len(seen) == expected
        waiting = db._state._log._timer
        assert (waiting is not None) == (policy == "interval")
        if waiting is not None:
            waiting.function()
            assert len(seen) == 1
        seen.clear()
    assert len(seen) == (policy == "interval")


def test_what_waits_is_synced_without_another_commit(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log, "INTERVAL", 0)
    with deltafix.connect(PATH, tmp_path / "s", fsync="interval") as db:
        synced = threading.Event()
        monkeypatch.setattr(disk, "sync", lambda fd: synced.set())
        commit(db, (1, 2))
        assert synced.wait(60)


def test_compaction_replaces_the_log_by_a_snapshot(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        for i in range(5):
            commit(db, (i, i + 1))
        with db.transaction() as tx:
            tx.delete("edge", [(0, 1)])
        db.compact()
        expected = contents(db)
        snapshot, records = read_files(tmp_path / "s")
        assert (snapshot.epoch, records.base, records.frames) == (6, 6, [])
        assert [e["rows"] for frame in snapshot.frames for e in frame.meta["edits"]] == [4]
        tx = db.transaction()
        with pytest.raises(TransactionError, match="open"):
            db.compact()
        tx.rollback()
    with deltafix.connect(PATH, tmp_path / "s") as db:
        assert contents(db) == expected
        commit(db, (50, 51))
    assert [frame.epoch for frame in read_files(tmp_path / "s")[1].frames] == [7]
    with pytest.raises(TransactionError, match="closed"):
        db.compact()


def read_files(path: Path):
    return read_snapshot(path / "snapshot"), read_log(path / "log")


def test_a_log_that_outgrows_the_snapshot_is_compacted_by_itself(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(base, "COMPACT_LEAST", 4000)
    bases = set()
    with deltafix.connect(PATH.replace("path(x, z)", "// "), tmp_path / "s") as db:
        for i in range(60):
            commit(db, (i, i + 1))
            snapshot, records = read_files(tmp_path / "s")
            bases.add(snapshot.epoch)
            assert records.end < max(4000, 2 * snapshot.size) + 1000
        expected = contents(db)
    assert 4 <= len(bases) <= 12
    with deltafix.connect(PATH.replace("path(x, z)", "// "), tmp_path / "s") as db:
        assert contents(db) == expected


# --- who may open it -----------------------------------------------------------------------------


def test_a_second_connect_names_the_owner_and_changes_nothing(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        commit(db, (1, 2))
        before = (tmp_path / "s" / "log").read_bytes()
        with pytest.raises(StateInUseError, match=r"process \d+ on .*, since 2.*this process"):
            deltafix.connect(PATH, tmp_path / "s")
        assert (tmp_path / "s" / "log").read_bytes() == before
        commit(db, (2, 3))
    with deltafix.connect(PATH, tmp_path / "s") as db:
        assert db.count("edge") == 2


def test_the_command_line_of_another_process_is_refused_too(tmp_path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from deltafix.store.lock import Lock\n"
        "try: Lock(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    with deltafix.connect(PATH, tmp_path / "s"):
        command = [sys.executable, "-c", code, str(tmp_path / "s" / "lock")]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        owner = db_owner(tmp_path / "s")
    assert found.startswith("StateInUseError")
    assert owner in found


def db_owner(path: Path) -> str:
    return re.search(r'"pid": (\d+)', (path / "lock").read_text())[1]


def test_a_dropped_database_gives_its_folder_back(tmp_path) -> None:
    db = deltafix.connect(PATH, tmp_path / "s")
    commit(db, (1, 2))
    del db
    gc.collect()
    with deltafix.connect(PATH, tmp_path / "s") as again:
        assert again.rows("edge") == [(1, 2)]


def test_a_failed_connect_gives_the_folder_back(tmp_path) -> None:
    other = PATH.replace("number", "symbol")
    with deltafix.connect(PATH, tmp_path / "s"):
        pass
    with deltafix.connect(other, tmp_path / "s") as db:  # no row is there that it could misread
        commit(db, ("a", "b"))
    with pytest.raises(StateError, match=r"edge\(x: symbol, y: symbol\) of the state is edge"):
        deltafix.connect(PATH, tmp_path / "s")
    with deltafix.connect(other, tmp_path / "s") as db:
        assert db.rows("edge") == [("a", "b")]
        with db.transaction() as tx:
            tx.delete("edge", [("a", "b")])
    with deltafix.connect(PATH, tmp_path / "s") as db:
        assert db.rows("edge") == []


def test_a_program_that_is_refused_makes_no_folder(tmp_path) -> None:
    with pytest.raises(ProgramError):
        deltafix.connect("p(x) :- q(x).", tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            PATH.replace("edge(x: number, y: number)", "edge(x: number, y: symbol)").replace(
                "path(x: number, y: number)", "path(x: number, y: symbol)"
            ).replace("path(x, z) :- path(x, y), edge(y, z).", ""),
            "edge(x: number, y: number) of the state is edge(x: number, y: symbol)",
        ),
        (".decl other(x: number)\n.input other", "edge(x: number, y: number) of the state is not"),
        (
            ".decl edge(x: number, y: number)\n.input edge",
            "given rows of path(x: number, y: number), which the program has not declared",
        ),
    ],
)  # fmt: skip
def test_the_state_of_another_program_is_refused_by_relation(text, words, tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        commit(db, (1, 2))
        with db.transaction() as tx:
            tx.insert("path", [(5, 6)])
    before = [(tmp_path / "s" / name).read_bytes() for name in ("snapshot", "log")]
    with pytest.raises(StateError, match=re.escape(words)):
        deltafix.connect(text, tmp_path / "s")
    assert [(tmp_path / "s" / name).read_bytes() for name in ("snapshot", "log")] == before


def test_changed_rules_over_the_same_inputs_are_rebuilt(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        commit(db, (1, 2), (2, 3))
        assert db.recovered == ()
    changed = PATH + ".decl back(x: number, y: number)\nback(y, x) :- path(x, y).\n"
    changed += ".decl extra(x: number)\n.input extra\n"
    with deltafix.connect(changed, tmp_path / "s") as db:
        assert "the program has changed" in db.recovered[0]
        assert (db.epoch, db.rows("back")) == (1, [(2, 1), (3, 1), (3, 2)])
        with db.transaction() as tx:
            tx.insert("extra", [(1,)])
    with deltafix.connect(changed, tmp_path / "s") as db:
        assert db.recovered == ()
        assert (db.epoch, db.rows("extra")) == (2, [(1,)])
    with pytest.raises(StateError, match=re.escape("extra(x: number) of the state is not")):
        deltafix.connect(PATH, tmp_path / "s")


def test_bounds_of_an_epoch_do_not_keep_a_state_shut_but_bound_new_rules(tmp_path) -> None:
    with deltafix.connect(PATH, tmp_path / "s", max_rows=25) as db:
        for i in range(10):
            commit(db, (i, i + 1))
        total = db.count("path")
    assert total == 55
    with deltafix.connect(PATH, tmp_path / "s", max_rows=25) as db:
        assert db.count("path") == total
        with pytest.raises(BudgetError, match="max_rows=25"):
            commit(db, *[(100 + i, 101 + i) for i in range(10)])
    grows = PATH + "path(x, y + 1) :- path(x, y)."
    with pytest.raises(BudgetError, match="max_rows=25"):
        deltafix.connect(grows, tmp_path / "s", max_rows=25)
    with deltafix.connect(PATH, tmp_path / "s") as db:
        assert db.count("path") == total


def test_a_state_whose_program_calls_functions_of_python_is_derived_and_says_so(tmp_path) -> None:
    text = ".decl n(x: number)\n.input n\n.decl m(x: number)\n.functor f(x: number): number\n"
    text += "m(@f(x)) :- n(x).\n"
    for turn, added in enumerate((1, 1, 2)):
        functors = {"f": lambda x, added=added: x + added}
        with deltafix.connect(text, tmp_path / "s", functors=functors) as db:
            if not turn:
                with db.transaction() as tx:
                    tx.insert("n", [(1,), (2,)])
            assert db.rows("m") == [(1 + added,), (2 + added,)]
            assert bool(db.recovered) == bool(turn)
            assert all("it calls @f" in told for told in db.recovered)
        assert not (tmp_path / "s" / "image").exists()


def test_few_changed_rows_leave_the_image_as_it_is(tmp_path, monkeypatch) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        commit(db, *[(i, i + 1) for i in range(60)])
    image = tmp_path / "s" / "image"
    for change, rewritten in (((500, 501), False), ((60, 61), True)):
        before = image.stat().st_ino
        with deltafix.connect(PATH, tmp_path / "s") as db:
            commit(db, change)
        assert (image.stat().st_ino != before) == rewritten
        with deltafix.connect(PATH, tmp_path / "s") as db:
            assert db.recovered == ()
            # The edges since the image, and what follows from them, are all that is done.
            assert db.last_epoch.derivations == (0 if rewritten else 1)
            assert contents(db)[1]["path"] == sorted(
                {
                    (x, y)
                    for x in range(db.count("edge") - 1)
                    for y in range(x + 1, db.count("edge"))
                }
                | {(500, 501)}
            )


def test_a_compaction_in_a_commit_leaves_no_image_that_the_log_does_not_reach(
    tmp_path, monkeypatch
) -> None:
    with deltafix.connect(PATH, tmp_path / "s") as db:
        commit(db, (1, 2))
    assert (tmp_path / "s" / "image").exists()
    monkeypatch.setattr(base, "COMPACT_LEAST", 0)
    with deltafix.connect(PATH, tmp_path / "s") as db:
        while read_snapshot(tmp_path / "s" / "snapshot").epoch == 0:
            commit(db, (db.epoch, db.epoch + 1))
        assert not (tmp_path / "s" / "image").exists()
    with deltafix.connect(PATH, tmp_path / "s") as db:
        assert (db.recovered, db.last_epoch.derivations) == ((), 0)


def test_constructed_values_and_counted_ones_come_back(tmp_path) -> None:
    text = """
    .type List = [head: number, tail: List]
    .type Tree = Leaf {} | Node {left: Tree, label: symbol, weight: float}
    .decl n(x: number)
    .decl list(l: List)
    .decl tree(t: Tree)
    .decl numbered(i: number, x: number)
    .input n
    list(nil).
    list([x, [x, nil]]) :- n(x).
    tree($Leaf()).
    tree($Node($Node($Leaf(), "ä", 1), "b", 2.5)).
    numbered(autoinc(), x) :- n(x).
    """
    with deltafix.connect(text, tmp_path / "s") as db:
        for x in (5, 1, 3):
            with db.transaction() as tx:
                tx.insert("n", [(x,)])
        before = contents(db)
    with deltafix.connect(text, tmp_path / "s") as db:
        assert (contents(db), db.last_epoch.derivations) == (before, 0)
        with db.transaction() as tx:
            tx.delete("n", [(5,)])
            tx.insert("n", [(4,)])
        assert db.rows("numbered") == [(1, 1), (2, 3), (3, 4)]
        assert ((4, (4, None)),) in db.rows("list")


def test_paths_that_are_no_state_are_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateError, match=r"cannot be used .*/file is a file; name a folder"):
            deltafix.connect(PATH, path)
    with pytest.raises(StateError, match="holds other files"):
        deltafix.connect(PATH, tmp_path / "full")
    assert sorted(p.name for p in (tmp_path / "full").iterdir()) == ["notes.txt"]
    with pytest.raises(ValueError, match="always, interval, never"):
        deltafix.connect(PATH, tmp_path / "s", fsync="sometimes")


def test_a_log_whose_snapshot_is_gone_is_never_begun_again(tmp_path) -> None:
    with deltafix.connect(PATH, path=tmp_path / "s") as db:
        commit(db, (1, 2))
    (tmp_path / "s" / "snapshot").unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    with pytest.raises(StateError, match="the snapshot it rests on is gone"):
        deltafix.connect(PATH, path=tmp_path / "s")
    assert {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()} == before


def test_a_state_whose_log_has_lost_its_name_takes_no_more_epochs(tmp_path, monkeypatch) -> None:
    """Compaction put a new log in place and cannot read it: what went to the old one would go."""

    def refuse(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    with deltafix.connect(PATH, path=tmp_path / "s") as db:
        commit(db, (1, 2))
        with monkeypatch.context() as patch:
            patch.setattr("deltafix.engine.state.folder.read_log", refuse)
            with pytest.raises(StateError, match="no more epochs are taken"):
                db.compact()
        with pytest.raises(StateError, match="no more epochs are taken"):
            commit(db, (2, 3))
        assert db.rows("edge") == [(1, 2)]
    with deltafix.connect(PATH, path=tmp_path / "s") as db:
        assert contents(db) == (1, {"edge": [(1, 2)], "path": [(1, 2)]})
        commit(db, (2, 3))
