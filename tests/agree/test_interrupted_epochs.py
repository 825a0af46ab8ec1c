"""Transactions that Ctrl-C ends at any line, beside a twin that makes those that stand.

Sees: an epoch that stands for the kernel and not for Python, or the other way round: rows, the
epoch's number, marks, rules, what watchers hear and what `is_committed` says.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.support.amount import cases
from tests.support.interrupt import Interrupt

import deltafix
import deltafix.sql
from deltafix import Program
from deltafix.engine import lanes
from deltafix.errors import FunctorError, TransactionError
from deltafix.kernel import layout as at

SEEDS = cases(2, per=200)
PROGRAM = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl out(x: number, n: number)
out(x, n) :- edge(x, _), n = count : { edge(x, _) }.
.decl far(x: number, y: number, d: number <min>)
far(x, y, 1) :- edge(x, y).
far(x, z, d + 1) :- far(x, y, d), edge(y, z), d < 9.
.decl leaf(x: number)
leaf(y) :- edge(_, y), !edge(y, _).
.decl back(x: number, y: number)
.decl loop(x: number)
"""
RULES = (
    "back(y, x) :- path(x, y).",
    "loop(x) :- path(x, x).",
    "path(x, y) :- edge(y, x), x < 2.",
)


def _rows(db: Any) -> dict[str, list[Any]]:
    return {name: sorted(db.rows(name)) for name in db.schemas}


class _Edit:
    """One transaction: what it deletes and inserts, the mark it sets, the rules it edits."""

    def __init__(self, random: Random, given: set[tuple[int, int]], rules: list[str]) -> None:
        self.removed = [row for row in sorted(given) if random.random() < 0.2]
        size = random.choice((1, 1, 3, 8))
        rows = {(random.randrange(6), random.randrange(6)) for _ in range(size)}
        self.added = sorted(rows - given)
        self.mark = random.randrange(1000)
        self.rule = random.choice(RULES) if random.random() < 0.15 else None
        self.adds = self.rule not in rules

    def make(self, tx: Any) -> None:
        tx.delete("edge", self.removed)
        tx.insert("edge", self.added)
        if hasattr(tx, "mark"):
            tx.mark("n", self.mark)
        if self.rule is not None and self.adds:
            tx.add_rule(self.rule)
        elif self.rule is not None:
            tx.remove_rule(self.rule)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupted_epoch_stands_or_never_was(
    threads: int, seed: int, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "_MANY", 2)
    random, seen = Random(f"interrupted {threads} {seed}"), Counter[str]()
    program = Program.parse(PROGRAM)
    paths = [tmp_path / "one", tmp_path / "twin"] if seed % 2 else []
    db, twin = (deltafix.connect(program, *paths[n : n + 1]) for n in range(2))
    heard: tuple[list[Any], list[Any]] = ([], [])
    for one, said in zip((db, twin), heard, strict=True):
        one.watch(callback=said.append)
    given: set[tuple[int, int]] = set()
    rules: list[str] = []
    lines = {True: 10**9, False: 10**9}
    for _ in range(120):
        edit, tx = _Edit(random, given, rules), None
        for cell, value in ((at.LANES, threads), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0)):
            db.instance.arena.cells[cell] = value
        usual = lines[edit.rule is None]
        early, late = random.randrange(usual), usual - random.randrange(min(usual, 150))
        interrupt = Interrupt(random.choice((early, late, late, 10**9)), "")
        before = interrupt.after
        try:
            with interrupt, db.transaction() as tx:
                edit.make(tx)
        except KeyboardInterrupt:
            pass
        if not interrupt.came:  # the last lines of a transaction are behind the kernel's commit
            lines[edit.rule is None] = before - interrupt.after
        stands = tx is not None and tx.is_committed
        came = "interrupted" if interrupt.came else "whole"
        seen[f"{came}, {'stands' if stands else 'gone'}"] += 1
        if stands:
            with twin.transaction() as other:
                edit.make(other)
            assert tx.delta == other.delta
            given = given - set(edit.removed) | set(edit.added)
            if edit.rule is not None:
                (rules.append if edit.adds else rules.remove)(edit.rule)
        tx = None
        assert db.epoch == twin.epoch
        assert _rows(db) == _rows(twin)
        assert getattr(db, "marks", {}) == getattr(twin, "marks", {})
        assert [one.epoch for one in heard[0]] == [one.epoch for one in heard[1]]
        assert heard[0][-3:] == heard[1][-3:]
        db.check_invariants()
    db.close()
    twin.close()
    if paths:
        with deltafix.connect(program, paths[0]) as db, deltafix.connect(program, paths[1]) as twin:
            assert _rows(db) == _rows(twin)
            assert (db.epoch, dict(db.marks)) == (twin.epoch, dict(twin.marks))
    assert seen["interrupted, gone"] > 20
    assert seen["interrupted, stands"]
    assert seen["whole, stands"] > 5


REFUSED = """
.functor even(x: number): number
.decl e(x: number)
.input e
.decl r(x: number)
r(@even(x)) :- e(x).
.decl least(x: number, v: number)
least(0, x) :- e(x).
least(x, v) :- least(x, v), e(v).
least(x, v) <= least(x, w) :- w < v.
"""


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("ends", ["an error", "an error with rules", "a block", "a rollback"])
def test_a_rollback_is_whole_whatever_interrupts_it(ends: str, is_kept: bool, tmp_path) -> None:
    def even(x: int) -> int:
        if x % 2:
            raise ValueError("odd")
        return x

    def refused() -> None:
        with db.transaction() as tx:
            tx.insert("e", [(2,), (3 if "error" in ends else 4,)])
            if "rules" in ends:
                tx.add_rule("r(x + 100) :- e(x).")
            if ends == "a rollback":
                tx.rollback()
            elif ends == "a block":
                raise FunctorError("left")

    path = [tmp_path / "state"] if is_kept else []
    with deltafix.connect(REFUSED, *path, functors={"even": even}) as db:
        with db.transaction() as tx:
            tx.insert("e", [(6,)])
        tx = None
        before, came = _rows(db), 0
        for _ in range(2):  # the first time takes more lines
            interrupt = Interrupt(10**9, "engine")
            with contextlib.suppress(FunctorError), interrupt:
                refused()
        lines = 10**9 - interrupt.after
        for line in range(lines - 40, lines):
            interrupt = Interrupt(line, "engine")
            with contextlib.suppress(FunctorError, KeyboardInterrupt), interrupt:
                refused()
            came += interrupt.came
            assert _rows(db) == before
            db.check_invariants()
        assert came > 30
        with db.transaction() as tx:
            tx.insert("e", [(8,)])
        assert tx.delta["e"].added == [(8,)]


def test_a_dropped_transaction_is_rolled_back_and_keeps_nobody_out() -> None:
    db = deltafix.connect(PROGRAM)
    tx = db.transaction()
    tx.insert("edge", [(1, 2)])
    with pytest.raises(TransactionError, match="open"):
        db.transaction()
    del tx
    with db.transaction() as tx:
        tx.insert("edge", [(3, 4)])
    assert db.rows("edge") == [(3, 4)]


@pytest.mark.parametrize("seed", range(8))
def test_sql_told_of_interrupted_statements_adds_up_to_its_rows(seed: int, tmp_path) -> None:
    random, seen = Random(f"interrupted sql {seed}"), Counter[str]()
    db = deltafix.sql.connect(tmp_path / "s" if seed % 4 == 1 else ":memory:")
    db.execute(
        "CREATE TABLE t (k INT, v INT); CREATE VIEW w AS SELECT k, SUM(v) s FROM t GROUP BY k"
    )
    told: dict[str, Counter[Any]] = {"t": Counter(), "w": Counter()}
    for name, bag in told.items():

        def hear(delta: Any, bag: Counter[Any] = bag) -> None:
            bag.update(delta.added)
            bag.subtract(delta.removed)

        db.subscribe(name, hear)
    usual = 1000
    for _ in range(70):
        statement = random.choice((
            *["INSERT INTO t VALUES ({}, {})"] * 3, "DELETE FROM t WHERE k = {}", "SELECT * FROM w",
            "UPDATE t SET v = v + 1 WHERE k = {}", "COMMIT" if db.in_transaction else "BEGIN",
        )).format(random.randrange(3), random.randrange(9))  # fmt: skip
        late = usual - random.randrange(min(usual, 300))
        interrupt = Interrupt(random.choice((random.randrange(usual), late, 10**9)), "")
        before = interrupt.after
        try:
            with interrupt:
                db.execute(statement)
        except KeyboardInterrupt:
            seen[statement[:6]] += 1
        if not interrupt.came:
            usual = max(10, before - interrupt.after)
        if db.aborted is not None:
            seen["aborted"] += 1
            db.rollback()
        if not db.in_transaction:
            for name, bag in told.items():
                assert +bag == Counter(db.execute(f"SELECT * FROM {name}").fetchall()), statement
    assert seen.total() > 10
