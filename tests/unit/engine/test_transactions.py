"""Transactions: what they take, what they refuse, and that a refusal leaves no trace."""

from __future__ import annotations

import itertools
import math
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generators.strategies import REDUCERS
from tests.support.interrupt import Interrupt, InterruptAtCall

import deltafix
from deltafix.engine import query, reading
from deltafix.errors import (
    BudgetError,
    CancelledError,
    FactError,
    MissingRowError,
    TransactionError,
    TypeMismatchError,
    UnknownRelationError,
)
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.jit import JIT_DISABLED

PATH = """
.decl edge(x: symbol, y: symbol)
.decl path(x: symbol, y: symbol)
.input edge
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
NUMBERS = PATH.replace("symbol", "number")


@pytest.fixture
def db() -> deltafix.Database:
    db = deltafix.connect(PATH)
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c")])
    return db


def state(db: deltafix.Database) -> tuple[object, ...]:
    db.check_invariants()
    return db.epoch, db.rows("edge"), db.rows("path")


def test_the_delta_is_net_and_signed(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.delete("edge", [("b", "c")])
        tx.insert("edge", [("b", "d")])
    assert tx.delta.show().split("\n") == [
        '-edge("b", "c")', '+edge("b", "d")',
        '-path("a", "c")', '-path("b", "c")', '+path("a", "d")', '+path("b", "d")',
    ]  # fmt: skip


def test_a_delta_stays_readable_after_later_epochs(db: deltafix.Database) -> None:
    with db.transaction() as first:
        first.delete("edge", [("b", "c")])
    with db.transaction() as tx:
        tx.insert("edge", [(f"n{i}", f"n{i + 1}") for i in range(50)])
    assert sorted(first.delta["path"].removed) == [("a", "c"), ("b", "c")]


@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (lambda tx: tx.insert("edgy", [("a", "b")]), UnknownRelationError, "did you mean 'edge'"),
        (lambda tx: tx.insert("edge", [("a",)]), FactError, "edge"),
        (lambda tx: tx.insert("edge", [("a", 1)]), TypeMismatchError, "str"),
        (lambda tx: tx.delete("edge", [("a", "z")]), MissingRowError, 'edge("a", "z")'),
        (lambda tx: tx.delete("path", [("a", "c")]), MissingRowError, "not a given row"),
        (lambda tx: tx.delete("edge", [("a", "b"), ("a", "b")]), MissingRowError, '"a", "b"'),
    ],
)
def test_a_bad_edit_is_named_and_leaves_no_trace(db, edit, error, words) -> None:
    before = state(db)
    with pytest.raises(error, match=re.escape(words)), db.transaction() as tx:
        tx.insert("edge", [("c", "d")])
        edit(tx)
    assert state(db) == before


def test_a_row_that_follows_from_rules_is_told_to_and_no_prompt_reads_of_parameters(db) -> None:
    with pytest.raises(MissingRowError) as refused, db.transaction() as tx:
        tx.delete("path", [("a", "b"), ("a", "c")])
    assert str(refused.value) == (
        'cannot delete path("a", "b"): it is not a given row; what follows from rules goes with '
        "what it follows from"
    )
    assert refused.value.__notes__ == [
        "It is row 0 of this call, which deleted nothing; in a transaction with "
        'missing="ignore" such rows are left out.'
    ]


def test_missing_rows_can_be_ignored(db: deltafix.Database) -> None:
    with db.transaction(missing="ignore") as tx:
        assert tx.delete("edge", [("a", "z"), ("a", "b")]) == 1
    assert tx.delta["edge"].removed == [("a", "b")]
    with pytest.raises(ValueError, match="ignore"):
        db.transaction(missing="whatever")


def test_transactions_end_once_and_do_not_nest(db: deltafix.Database) -> None:
    tx = db.transaction()
    with pytest.raises(TransactionError, match="open"):
        db.transaction()
    with pytest.raises(TransactionError, match="commit"):
        _ = tx.delta
    tx.rollback()
    with pytest.raises(TransactionError, match="rolled back"):
        tx.insert("edge", [("x", "y")])
    db.close()
    with pytest.raises(TransactionError, match="closed"):
        db.transaction()


def test_rows_come_as_tables_arrays_and_tuples() -> None:
    expected = [(1, 2), (2, 3)]
    for rows in (
        expected,
        iter(expected),
        np.array(expected),
        np.array(expected, dtype=np.uint8),
        pa.table({"x": [1, 2], "y": [2, 3]}),
    ):
        with deltafix.connect(NUMBERS) as db:
            with db.transaction() as tx:
                assert tx.insert("edge", rows) == 2
            assert db.rows("edge") == expected
            assert db.count("path") == 3


def test_a_batch_with_duplicates_loads_each_row_once() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(-50, 50, (20_000, 2))
    rows[:10] = 2**40
    expected = sorted(set(map(tuple, rows.tolist())))
    text = ".decl r(x: number, y: number)\n.decl s(y: number)\n.input r\ns(y) :- r(5, y)."
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("r", [(5, 7), (2**40, 2**40)])
            assert tx.insert("r", rows) == len(set(expected) - {(5, 7), (2**40, 2**40)})
        db.check_invariants()
        assert db.rows("r") == sorted({*expected, (5, 7)})
        assert db.rows("s") == sorted({(y,) for x, y in [*expected, (5, 7)] if x == 5})


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_rows": 10}, "max_rows=10 .*: bound its recursion or raise max_rows$"),
        ({"max_rounds": 10}, "max_rounds=10 .*: bound its recursion or raise max_rounds$"),
    ],
)
def test_a_budget_rolls_back_and_names_the_setting(limits, words) -> None:
    with deltafix.connect(PATH, **limits) as db:
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c")])
        before = state(db)
        with pytest.raises(BudgetError, match=words), db.transaction() as tx:
            tx.delete("edge", [("a", "b")])
            tx.insert("edge", [(f"n{i}", f"n{i + 1}") for i in range(30)])
        assert state(db) == before
        with db.transaction() as tx:
            tx.insert("edge", [("c", "d")])
        assert ("a", "d") in db.rows("path")


def test_a_timeout_rolls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltafix.engine.run.SLICE", 1000)
    with deltafix.connect(NUMBERS, timeout=1e-9) as db:
        with pytest.raises(BudgetError, match=r"raise timeout$"), db.transaction() as tx:
            tx.insert("edge", [(i, (i + 1) % 60) for i in range(60)])
        assert db.count("path") == db.count("edge") == 0
        db.check_invariants()


def test_cancel_stops_an_epoch_from_another_thread() -> None:
    with deltafix.connect(NUMBERS) as db:
        seen: list[BaseException] = []
        started = threading.Event()

        def write() -> None:
            try:
                with db.transaction() as tx:
                    tx.insert("edge", np.random.default_rng(0).integers(0, 3000, (9000, 2)))
                    started.set()
            except CancelledError as error:
                seen.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        started.wait()
        while writer.is_alive():
            db.cancel()
            writer.join(0.001)
        assert [type(error) for error in seen] == [CancelledError]
        assert db.count("edge") == 0
        db.check_invariants()


def test_readers_see_the_last_epoch_while_a_writer_works() -> None:
    with deltafix.connect(NUMBERS) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        committed = db.rows("path")
        tx = db.transaction()
        tx.insert("edge", [(3, 4)])
        found: list[object] = []
        reader = threading.Thread(
            target=lambda: found.extend(
                [
                    db.rows("path"),
                    db.count("edge"),
                    db.contains("edge", (3, 4)),
                    db.select("path", (1, None)),
                ]
            )
        )
        reader.start()
        reader.join()
        assert found == [committed, 2, False, [(1, 2), (1, 3)]]
        tx.commit()
        assert db.contains("path", (1, 4))


def test_memory_is_reused_after_everything_is_deleted() -> None:
    edges = [(i, (i * 7) % 60) for i in range(60)]
    with deltafix.connect(NUMBERS) as db:
        sizes = []
        for _ in range(4):
            with db.transaction() as tx:
                tx.insert("edge", edges)
            with db.transaction() as tx:
                tx.delete("edge", edges)
            assert db.count("path") == 0
            sizes.append({name: db.memory()[name]["total"] for name in db.schemas})
        assert sizes[1:] == [sizes[0]] * 3


def test_compacting_an_emptied_database_gives_its_memory_back() -> None:
    with deltafix.connect(NUMBERS) as new:
        floor = new.memory()["<arena>"]["taken"]
    edges = [(2 * i, 2 * i + 1) for i in range(1000 if JIT_DISABLED else 4000)]
    with deltafix.connect(NUMBERS) as db:
        with db.transaction() as tx:
            tx.insert("edge", edges)
        epoch, paths = db.epoch, db.rows("path")
        db.compact()
        assert (db.epoch, db.rows("path")) == (epoch, paths)
        with db.transaction() as tx:
            tx.delete("edge", edges)
        assert db.memory()["<arena>"]["taken"] > 1.5 * floor
        db.compact()
        assert db.memory()["<arena>"]["taken"] <= 1.5 * floor
        with db.transaction() as tx:
            tx.insert("edge", edges)
        assert db.rows("path") == paths
        db.check_invariants()


PRODUCT = """
.decl a(x: number)
.input a
.decl triple(x: number)
triple(x) :- a(x), a(y), a(z), x + y + z = -1.
"""


def test_a_timeout_stops_within_one_huge_join() -> None:
    # One row joins with 9,000,000 pairs: the run must come back in the middle of it.
    with deltafix.connect(PRODUCT) as db, db.transaction() as tx:
        tx.insert("a", [(n,) for n in range(3)])
    with deltafix.connect(PRODUCT, timeout=0.001) as db:
        with pytest.raises(BudgetError, match="timeout"), db.transaction() as tx:
            tx.insert("a", [(n,) for n in range(3000)])
        assert db.count("a") == 0
        db.check_invariants()


def test_a_join_goes_on_where_its_quota_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
    .decl a(x: number)
    .input a
    .decl sum(x: number)
    sum(x + y) :- a(x), a(y).
    """
    rows = [(n * n,) for n in range(12)]
    monkeypatch.setattr("deltafix.engine.run.SLICE", 5)
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("a", rows)
        assert set(db.rows("sum")) == {(x + y,) for (x,) in rows for (y,) in rows}
        with db.transaction() as tx:
            tx.delete("a", rows[3:9])
        left = rows[:3] + rows[9:]
        assert set(db.rows("sum")) == {(x + y,) for (x,) in left for (y,) in left}
        db.check_invariants()


@pytest.mark.parametrize("is_compact", [False, True])
def test_what_tables_outgrow_is_given_back_while_an_epoch_runs(
    monkeypatch: pytest.MonkeyPatch, is_compact: bool
) -> None:
    """Between slices, when no other thread reads; and not at the end alone."""
    monkeypatch.setattr("deltafix.engine.run.SLICE", 1000)
    given_back: list[tuple[int, bool]] = []
    with deltafix.connect(NUMBERS) as db:
        if is_compact:
            with db.transaction() as tx:
                tx.insert("edge", [(-1, -2)])
            db.compact()
            with db.transaction() as tx:
                tx.delete("edge", [(-1, -2)])
        arena, release = db.instance.arena, Arena.release

        def noted(self: Arena, *, keep: bool = False) -> None:
            if blocks := int(self.cells[at.DEAD + 1]):
                given_back.append((blocks, db.instance.gate.locked()))
            release(self, keep=keep)

        monkeypatch.setattr(Arena, "release", noted)
        with db.transaction() as tx:
            tx.insert("edge", [(i, (i + 1) % 120) for i in range(120)])
        assert db.count("path") == 120 * 120
        assert len(given_back) > 2
        assert all(locked for _, locked in given_back)
        assert arena.cells[at.DEAD + 1] == arena.cells[at.DIRTY] == 0
        db.check_invariants()


def test_large_epochs_use_the_same_memory_again() -> None:
    """Each took blocks of its own before: addresses were used up after some thousand epochs."""
    edges = [(i, (i + 1) % 60) for i in range(60)]
    taken = []
    with deltafix.connect(NUMBERS) as db:
        cells = db.instance.arena.cells
        cells[at.LEAST_BLOCK], cells[at.SHARE_FROM], cells[at.BATCH_FROM] = 16, 1, 0
        for epoch in range(12):
            with db.transaction() as tx:
                (tx.delete if epoch % 2 else tx.insert)("edge", edges)
            assert db.count("path") == (0 if epoch % 2 else 3600)
            db.check_invariants()
            taken.append(int(cells[at.BUMP]))
    assert len(set(taken[4:])) == 1


def test_a_profile_names_the_seconds_of_each_stratum() -> None:
    with deltafix.connect(NUMBERS, profile=True) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        epoch = db.last_epoch
        assert set(epoch.strata) <= {", ".join(s.relations) for s in db.plan.stages}
        assert epoch.strata
        assert 0 < sum(epoch.strata.values()) <= epoch.seconds


def test_a_pattern_is_read_through_an_index_unless_a_writer_is_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scans: list[int] = []
    plain = query.codes_where

    def counted(*arguments: int) -> object:
        scans.append(1)
        return plain(*arguments)

    monkeypatch.setattr(query, "codes_where", counted)
    with deltafix.connect(NUMBERS) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(n, n + 1) for n in range(40)])
        expected = [(7, n) for n in range(8, 41)]
        indexed = db.plan.indexes["path"][0][0]
        pattern = [None, None]
        pattern[indexed] = 7
        wanted = expected if indexed == 0 else [(n, 7) for n in range(7)]
        assert db.select("path", pattern) == wanted
        assert not scans
        with db.transaction() as tx:
            tx.delete("edge", [(7, 8)])
            done = []
            reader = threading.Thread(target=lambda: done.append(db.select("path", pattern)))
            reader.start()
            reader.join()
        assert done == [wanted]
        assert scans == [1]


def test_memory_is_told_by_index() -> None:
    program = """
    .decl e(x: number, y: number)
    .input e
    .decl two(x: number, z: number)
    two(x, z) :- e(x, y), e(y, z).
    """
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("e", [(n, n + 1) for n in range(1000)])
        parts = dict(db.memory()["e"])
        total = parts.pop("total")
        assert {"index [0]", "index [1]"} <= parts.keys()
        assert total == sum(parts.values())


@pytest.mark.parametrize("missing", ["error", "ignore"])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_oracle_edits_that_are_refused_in_between_change_nothing(missing: str, seed: int) -> None:
    """What a caught error leaves behind: the transaction as it was before that call."""
    rng = Random(seed)
    held: set[tuple[int, int]] = set()
    with deltafix.connect(NUMBERS) as db:
        for _ in range(4):
            before = set(held)
            with db.transaction(missing=missing) as tx:
                for _ in range(rng.randrange(1, 6)):
                    # Rows twice in one call, rows that are missing, rows that only follow.
                    rows = [
                        (rng.randrange(3), rng.randrange(3)) for _ in range(rng.randrange(1, 4))
                    ]
                    if rng.random() < 0.5:
                        assert tx.insert("edge", rows) == len(set(rows) - held)
                        held |= set(rows)
                    elif missing == "ignore":
                        assert tx.delete("edge", rows) == len(set(rows) & held)
                        held -= set(rows)
                    elif len(set(rows)) == len(rows) and held.issuperset(rows):
                        assert tx.delete("edge", rows) == len(rows)
                        held -= set(rows)
                    else:
                        with pytest.raises(MissingRowError):
                            tx.delete("edge", rows)
                    assert tx.given("edge", sorted(held)).all()
            assert set(db.rows("edge")) == held
            assert set(tx.delta["edge"].added) == held - before
            assert set(tx.delta["edge"].removed) == before - held
            db.check_invariants()


def test_given_rows_are_found_by_keys_through_an_index_or_not() -> None:
    rng = Random(3)
    program = """
    .decl r(a: number, b: symbol, c: number) index-on c, (a, b, c)
    .decl k(a: number, b: symbol)
    .decl j(a: number, b: symbol)
    j(a, b) :- k(a, b), r(a, b, _).
    """
    with deltafix.connect(program) as db:
        assert db.plan.indexes["r"] == ((2,), (0, 1))  # a whole row is found without one
        rows: set = set()
        asked: dict = {}
        for _ in range(12):
            with db.transaction(missing="ignore") as tx:
                new = {(rng.randrange(-9, 300), rng.choice("xyz"), rng.randrange(2))
                       for _ in range(rng.choice((0, 5, 800)))}  # fmt: skip
                old = {row for row in rows if rng.random() < 0.3}
                rows = (rows - old) | new
                tx.delete("r", list(old))
                tx.insert("r", list(new))
                assert set(rows_of(tx.given_rows("r"))) == rows
                for names in (("a", "b"), ("b",), ("c",), ("c", "b", "a")):
                    for many in (0, 1, 2, 400):
                        drawn = {"a": range(-9, 300), "b": "xyzq", "c": range(3)}
                        keys = {tuple(rng.choice(drawn[name]) for name in names)
                                for _ in range(many)}  # fmt: skip
                        kinds = {"a": pa.int64(), "b": pa.string(), "c": pa.int64()}
                        table = pa.Table.from_pylist(
                            [dict(zip(names, key, strict=True)) for key in keys],
                            pa.schema([(name, kinds[name]) for name in names]),
                        )
                        places = ["abc".index(name) for name in names]
                        wanted = {row for row in rows if tuple(row[at] for at in places) in keys}
                        found = list(rows_of(tx.given_rows("r", table)))
                        assert len(found) == len(wanted)
                        assert set(found) == wanted
                        asked[names] = keys, wanted
                with pytest.raises(TransactionError, match="transaction open"):
                    db.semijoin("r", ["a"], [(1,)])
            for names, (keys, wanted) in asked.items():
                assert sorted(db.semijoin("r", names, keys)) == sorted(wanted)
        with pytest.raises(FactError, match=r"no column 'aa' \(did you mean 'a'\?\)"):
            db.semijoin("r", ["aa"], [(1,)])
        with pytest.raises(TypeMismatchError):
            db.semijoin("r", ["a"], [("x",)])
        for wrong in ("x", 5, (1, 2)):
            with pytest.raises(FactError, match=r"a key is a tuple of \(a\), not"):
                db.semijoin("r", ["a"], [wrong])
        assert db.to_arrow("r", ["c", "a"]).column_names == ["c", "a"]
        with db.transaction() as tx, pytest.raises(FactError, match=r"j.* has rules"):
            tx.given_rows("j")


def rows_of(table: pa.Table) -> list:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


MIXED = """
.type Pair = [left: number, right: Pair]
.decl given(i: number, u: unsigned, f: float, s: symbol)
.decl pair(p: Pair, f: float)
.decl some()
.input given
pair([i, nil], f) :- given(i, _, f, _).
some() :- given(_, _, _, _).
"""


@pytest.mark.parametrize("count", [1, 2, 4, 5, 7, 8, 30])
def test_a_delta_of_any_size_has_the_rows_that_came_and_went(count: int) -> None:
    """Few rows are read one by one and many by column: both give every type the same."""
    floats = [0.0, 1.5, float("inf"), -2.25, 5e-324, 1e300]
    rows = [(n * -(10**9), 2**64 - 1 - n, floats[n % 6] + n, f"\u00e4{n}") for n in range(count)]
    rows[0] = (2**63 - 1, 2**30, float("nan"), "")
    with deltafix.connect(MIXED) as db:
        for sign in ("insert", "delete"):
            before = {name: db.rows(name) for name in db.schemas}
            with db.transaction() as tx:
                getattr(tx, sign)("given", rows)
            after = {name: db.rows(name) for name in db.schemas}
            filled, empty = (after, before) if sign == "insert" else (before, after)
            assert {name: len(found) for name, found in filled.items()} == {
                "given": count, "pair": count, "some": 1,
            }  # fmt: skip
            assert list(tx.delta) == list(db.schemas)
            for name, part in tx.delta.items():
                came, went = part.added, part.removed
                if sign == "delete":
                    came, went = went, came
                # By what they print, since a NaN is not equal to itself.
                assert (repr(came), went) == (repr(filled[name]), [])
                assert part.to_arrow().num_rows == len(part) == len(filled[name])
            assert not any(empty.values())


@pytest.mark.parametrize("count", [1, 3, 16, 17, 80])
def test_coded_rows_stay_what_they_are(count: int) -> None:
    """Few rows were coded into one array that the next edit wrote over: (5, 6) went in for them."""
    rows = [(n, n + 1) for n in range(count)]
    with deltafix.connect(".decl e(x: number, y: number)  .input e  .output e") as db:
        with db.transaction() as tx:
            coded = tx.coded("e", rows)
            tx.insert("e", [(5 + n, 6) for n in range(count)])
            tx.delete("e", [(5 + n, 6) for n in range(count)])
            tx.insert("e", coded)
        assert db.rows("e") == rows


EVERY_TYPE = """
.type Pair = [x: number, s: symbol]
.decl e(n: number, u: unsigned, f: float, s: symbol, p: Pair)  .input e  .output e
"""
VALUES = (
    (0, 1, -1, 2**30, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)),
    (0, 2**30 - 1, 2**30, 2**63, 2**64 - 1),
    (0.0, -0.0, 1.5, math.nan, math.inf, 3),
    ("", "a", "é", "\x00", "a" * 300),
    (None, (1, "a"), (-(2**63), "é")),
)
WRONG = (
    (2**63, -(2**63) - 1, 1.0, "1", None, True),
    (-1, 2**64, False, "x"),
    ("1.0", None, 2**53 + 1),
    (1, b"a", None, "\ud800"),
    (1, (1,), (1, 2), ("a", 1), (2**63, "a")),
)


@pytest.mark.parametrize("count", [1, 2, 16, 17])
def test_few_rows_and_many_go_in_and_come_out_alike(count: int) -> None:
    """By the door for few rows and by the one for many: equal rows, equal errors."""
    rng = Random(count)
    with deltafix.connect(EVERY_TYPE) as few, deltafix.connect(EVERY_TYPE) as many:
        for _ in range(40):
            rows = [tuple(map(rng.choice, VALUES)) for _ in range(count)]
            column = rng.randrange(5)
            wrong = (*rows[-1][:column], rng.choice(WRONG[column]), *rows[-1][column + 1 :])
            told = []
            for db, door in ((few, list), (many, iter)):  # an iterator is checked column by column
                with db.transaction(missing="ignore") as tx:
                    tx.insert("e", door(rows))
                    with pytest.raises(TypeMismatchError) as caught:
                        tx.insert("e", door([*rows[:-1], wrong]))
                told.append(str(caught.value))
            assert told[0] == told[1]
            assert repr(few.rows("e")) == repr(many.rows("e"))
            with few.transaction() as tx, many.transaction() as ty:
                gone = few.rows("e")[: rng.randrange(4)]
                tx.delete("e", gone)
                ty.delete("e", iter(gone))
            few.check_invariants()


@pytest.mark.parametrize("kind", [Interrupt, InterruptAtCall])
@pytest.mark.parametrize("ends", ["begins", "is rolled back", "is committed", "is read beside"])
def test_an_interrupt_of_a_transaction_keeps_nobody_out(
    kind: type[Interrupt], ends: str, tmp_path: Path
) -> None:
    program = deltafix.Program.parse(".decl edge(x: number)\n.input edge")
    db = deltafix.connect(program, tmp_path / "state")
    inserted: list[deltafix.Delta] = []

    def write() -> None:
        with db.transaction() as tx:
            tx.insert("edge", [(len(inserted),)])
        inserted.append(tx.delta)

    for place in itertools.count():
        tx = None
        if ends in ("is rolled back", "is committed"):
            tx = db.transaction()
            tx.insert("edge", [(-1 - place,)])
        with suppress(KeyboardInterrupt), kind(place, "engine") as interrupt:
            if ends == "is read beside":
                db.select("edge", (1,))
            elif tx is None:
                tx = db.transaction()
            elif ends == "is committed":
                tx.commit()
            else:
                tx.rollback()
        if tx is not None and ends != "is committed":
            with suppress(deltafix.errors.TransactionError):  # it may have been, or not
                tx.rollback()
        elif tx is not None and tx._state == "open":
            tx.rollback()
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(20)
        assert len(inserted) == place + 1
        assert inserted[place]["edge"].added == [(place,)]
        if not interrupt.came:
            break
    assert place > 5
    db.close()


@pytest.mark.parametrize("kind", [Interrupt, InterruptAtCall])
def test_an_interrupt_behind_a_commit_leaves_the_next_epoch_nothing_to_read(
    kind: type[Interrupt],
) -> None:
    """What the strata of an epoch had read of its changes was taken for those of the next one."""
    text = """
        .decl edge(x: number, y: number)
        .input edge
        .functor xor(y: number): number
        .decl all(x: number, v: number)
        all(x, v) :- edge(x, _), v = @@xor y : { edge(x, y) }.
    """
    with deltafix.connect(text, reducers=REDUCERS) as db:
        for place in itertools.count():
            tx = db.transaction()
            tx.insert("edge", [(0, 1), (1, 2), (0, 3)])
            with suppress(KeyboardInterrupt), kind(place, "engine/stages.py") as interrupt:
                tx.commit()
            stood = int(tx.is_committed)
            with db.transaction(missing="ignore") as tx:
                tx.delete("edge", [(0, 3), (1, 2)])
                tx.insert("edge", [(0, 2), (3, 4)])
            left = db.rows("edge")
            assert db.rows("all") == [(0, stood ^ 2), (3, 4)], place
            db.check_invariants()
            with db.transaction() as tx:
                tx.delete("edge", left)
            if not interrupt.came:
                break
    assert place > 10


def test_a_delta_of_few_wide_rows_has_them_whole() -> None:
    """They are read in one call if they fit into its room, and else as many are."""
    width = 40
    columns = ", ".join(f"c{n}: number" for n in range(width))
    program = f".decl wide({columns})\n.input wide\n.decl last(x: number)\n.output last\n"
    program += f"last(x) :- wide({'_, ' * (width - 1)}x)."
    with deltafix.connect(program) as db:
        for count in (1, 2, 3, 4, 7):
            rows = [(*range(width - 1), 1000 * count + n) for n in range(count)]
            with db.transaction() as tx:
                tx.insert("wide", rows)
            assert tx.delta["wide"].added == rows
            assert tx.delta["last"].added == [row[-1:] for row in rows]
            with db.transaction() as tx:
                tx.delete("wide", rows)
            assert (tx.delta["wide"].added, tx.delta["wide"].removed) == ([], rows)


def test_a_count_is_not_read_while_a_commit_tells_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with deltafix.connect(NUMBERS) as db:
        cell = reading.relation_cell
        locked = []

        def noted(*args: Any) -> int:
            locked.append(db.instance.gate.locked())
            return cell(*args)

        monkeypatch.setattr(reading, "relation_cell", noted)
        assert db.count("path") == len(db.relation("path")) == 0
        assert locked == [True, True]


def test_rows_that_are_read_are_those_before_a_compact_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = ".decl p(x: symbol)\n.input p"
    reads: list[Callable[[deltafix.Database], list[Any]]] = [
        lambda db: db.rows("p"),
        lambda db: list(db.ordered("p")),
        lambda db: [(x,) for x in db.to_arrow("p").column("x").to_pylist()],
        lambda db: db.relation("p").page(0, 9),
    ]
    for read in reads:
        with deltafix.connect(program) as db:
            with db.transaction() as tx:
                tx.insert("p", [("a",), ("b",), ("c",)])
            with db.transaction() as tx:
                tx.delete("p", [("a",)])
            committed = db.committed

            def and_compact(relation: str) -> Any:
                with monkeypatch.context() as patch:
                    patch.setattr(db, "committed", committed)  # noqa: B023  read at once
                    found = committed(relation)  # noqa: B023
                    db.compact()
                return found

            monkeypatch.setattr(db, "committed", and_compact)
            assert sorted(read(db)) == [("b",), ("c",)]


RULES = ("path(y, x) :- edge(x, y).", "edge2(x, z) :- edge(x, y), edge(y, z).",
         "path(x, x) :- edge(x, _).", "last(m) :- m = max x : { edge(x, _) }.")  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_deltas_that_are_read_later_say_what_their_epoch_did(seed: int) -> None:
    rng = Random(seed)
    text = (
        NUMBERS
        + ".decl edge2(x: number, y: number)\n.decl last(x: number)\n.output path, edge2, last"
    )
    with deltafix.connect(text) as db:
        held: list[tuple[Any, dict[str, tuple[set, set]]]] = []
        added: list[str] = []
        read = 0
        for _ in range(60):
            before = {name: set(db.rows(name)) for name in db.schemas}
            there = sorted(before["edge"])
            ends = rng.choice(("commit", "commit", "commit", "roll back", "compact"))
            if ends == "compact":
                db.compact()
                continue
            tx = db.transaction()
            tx.delete("edge", rng.sample(there, rng.randrange(len(there) + 1)) if rng.random() < 0.5
                      else there[: rng.randrange(2)])  # fmt: skip
            most = rng.choice((1, 3, 40))
            tx.insert("edge", [(rng.randrange(7), rng.randrange(7)) for _ in range(most)])
            new = list(added)
            if rng.random() < 0.3:
                rule = rng.choice(RULES)
                (tx.remove_rule if rule in new else tx.add_rule)(rule)
                (new.remove if rule in new else new.append)(rule)
            if ends == "roll back":
                tx.rollback()
                continue
            tx.commit() if rng.random() < 0.1 else tx.__exit__(None, None, None)
            added = new
            after = {name: set(db.rows(name)) for name in db.schemas}
            held.append((tx, {n: (before[n] - after[n], after[n] - before[n]) for n in after}))
            del tx
            while held and rng.random() < 0.45:
                late, said = held.pop(rng.randrange(len(held)))
                read += 1
                for name, (gone, come) in said.items():
                    part = late.delta.get(name)
                    found = (part.removed, part.added) if part is not None else ([], [])
                    assert tuple(map(sorted, found)) == (sorted(gone), sorted(come)), name
        assert read > 10


def test_a_load_that_is_held_is_not_copied_by_the_edit_after_it() -> None:
    with deltafix.connect(NUMBERS.replace(".input edge", ".input edge\n.output path")) as db:
        with db.transaction() as load:
            load.insert("edge", [(i, i + 1) for i in range(100)])
        with db.transaction() as edit:
            edit.insert("edge", [(500, 501)])
        assert load._changes is not None
        assert load._changes._sides is None
        assert edit._changes is not None
        with db.transaction() as last:
            last.delete("edge", [(500, 501)])
        assert load._changes._sides is not None
        assert len(load.delta["edge"].added) == 100
        assert edit.delta["edge"].added == [(500, 501)]
