"""Counts, sums and means of whole numbers in the kernel.

Sees: a mean rounded twice, totals that wrap around before they are read, groups that stay when
their rows are gone, Python asked where the kernel can answer, state that survives a rollback.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import deltafix
import deltafix.sql
from deltafix.engine import run
from deltafix.engine.stages import Strata
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError, DeltafixError
from deltafix.kernel import fold
from deltafix.kernel import layout as at
from deltafix.kernel.fold import _quotient
from deltafix.kernel.jit import JIT_DISABLED

ROUNDS = 6 if JIT_DISABLED else 40
LEAST, MOST = -(1 << 63), (1 << 63) - 1

TOTALS = """
.decl n(k: number, i: number, v: number)      .input n
.decl u(k: number, i: number, v: unsigned)    .input u
.decl of_n(k: number, c: number, s: number, m: float)    .output of_n
.decl of_u(k: number, s: unsigned, m: float)             .output of_u
.decl all(c: number, s: number)                          .output all
.decl none(k: number)                                    .output none
of_n(k, count : { n(k, _, _) }, sum v : { n(k, _, v) }, m) :-
    n(k, _, _), m = mean v : { n(k, _, v) }.
of_u(k, sum v : { u(k, _, v) }, m) :- u(k, _, _), m = mean v : { u(k, _, v) }.
all(count : { n(_, _, _) }, sum v : { n(_, _, v) }).
none(k) :- u(k, _, _), 0 = count : { n(k, _, _) }.
"""


def wrapped(total: int, *, signed: bool) -> int:
    total %= 1 << 64
    return total - (1 << 64) if signed and total >> 63 else total


def naive(rows: set[tuple], *, signed: bool) -> dict[int, tuple]:
    groups: dict[int, list[int]] = defaultdict(list)
    for key, _, value in rows:
        groups[key].append(value)
    return {
        k: (len(v), wrapped(sum(v), signed=signed), float(Fraction(sum(v), len(v))))
        for k, v in groups.items()
    }


def check(db: deltafix.Database, n: set[tuple], u: set[tuple]) -> None:
    signed, unsigned = naive(n, signed=True), naive(u, signed=False)
    assert {row[0]: row[1:] for row in db.rows("of_n")} == signed
    assert {row[0]: row[1:] for row in db.rows("of_u")} == {k: v[1:] for k, v in unsigned.items()}
    assert db.rows("all") == [(len(n), wrapped(sum(v for *_, v in n), signed=True))]
    assert db.rows("none") == [(k,) for k in sorted(unsigned.keys() - signed.keys())]
    db.check_invariants()


def value(rng: Random, *, signed: bool) -> int:
    """Small, at the ends of codes, of floats that are exact, or of 64 bits; next to one another."""
    near = rng.choice((0, 1 << 30, 1 << 31, 1 << 32, 1 << 53, 1 << 62, 1 << 63, 1 << 64))
    found = rng.choice((-1, 1)) * near + rng.randrange(-3, 4)
    return max(LEAST, min(MOST, found)) if signed else found % (1 << 64)


@given(
    st.integers(LEAST << 30, MOST << 30) | st.integers(-5, 5),
    st.integers(1, (1 << 62) - 1) | st.integers(1, 5),
)  # fmt: skip
@example((1 << 53) - 1, 3)
@example(-(1 << 53), 3)
@example((1 << 54) + 2, 2)  # half way between two floats
@example(-(1 << 54) - 2, 2)
@example((1 << 94) - 1, 1)
@example(-(1 << 62) - 1, 1)
@example(0, 1 << 61)
@example(-1, (1 << 62) - 1)
def test_law_a_mean_is_rounded_once(total: int, count: int) -> None:
    assert _quotient(total >> 32, total & 0xFFFFFFFF, count) == float(Fraction(total, count))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slice_", [3, run.SLICE])
def test_oracle_totals_of_values_of_any_size(
    seed: int, slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SLICE", slice_)  # a run stops in the middle of a fold, and goes on
    rng = Random(seed)
    held: dict[str, set[tuple]] = {"n": set(), "u": set()}
    with deltafix.connect(TOTALS) as db:
        check(db, held["n"], held["u"])
        for epoch in range(ROUNDS):
            with db.transaction() as tx:
                for name, rows in held.items():
                    share = rng.choice((0, 0.2, 1))
                    gone = {row for row in sorted(rows) if rng.random() < share}
                    came = {
                        (rng.randrange(4), i, value(rng, signed=name == "n"))
                        for i in range(rng.randrange(6))
                    }
                    tx.delete(name, sorted(gone))
                    tx.insert(name, sorted(came))
                    if epoch % 5 < 4:
                        held[name] = (rows - gone) | came
                if epoch % 5 == 4:
                    tx.rollback()
            check(db, held["n"], held["u"])


def test_groups_without_rows_are_forgotten() -> None:
    with deltafix.connect(TOTALS) as db:
        for key in range(50):
            with db.transaction() as tx:
                tx.insert("n", [(key, 1, 7)])
                tx.delete("n", [(key - 1, 1, 7)] if key else [])
        groups = [db.instance.linked.groups(fold) for fold in db.instance.linked.folds.values()]
        assert len(groups) == 7  # two rules count the same
        assert max(relation_cell(db.instance.arena, one, at.R_N) for one in groups) <= 2
        check(db, {(49, 1, 7)}, set())


def test_python_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with deltafix.connect(TOTALS) as db:
        monkeypatch.setattr(Strata, "run", None)
        with db.transaction() as tx:
            tx.insert("n", [(k, i, i) for k in range(300) for i in range(3)])
        with db.transaction() as tx:
            tx.insert("n", [(7, 9, 5)])
        assert tx.delta["of_n"].added == [(7, 4, 8, 2.0)]
        assert db.last_epoch.derivations < 10
        assert db.last_epoch.touched < 40


def test_an_epoch_that_fails_behind_its_folds_leaves_the_groups_as_they_were() -> None:
    program = TOTALS + (
        ".decl twice(a: number, b: number)  .output twice\n"
        "twice(a, b) :- of_n(_, a, _, _), of_n(_, b, _, _), u(_, _, _).\n"
        "twice(i, j) :- u(_, i, _), u(_, j, _).\n"
    )
    n, u = {(1, 1, 3), (1, 2, MOST), (2, 1, LEAST)}, {(3, 1, 5)}
    with deltafix.connect(program, max_rows=40) as db:
        with db.transaction() as tx:
            tx.insert("n", sorted(n))
            tx.insert("u", sorted(u))
        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.delete("n", [(1, 1, 3), (2, 1, LEAST)])
            tx.insert("n", [(5, 1, 1)])
            tx.insert("u", [(k, k, k) for k in range(30)])
        check(db, n, u)
        with db.transaction() as tx:
            tx.delete("n", [(2, 1, LEAST)])
        check(db, n - {(2, 1, LEAST)}, u)


def test_a_fold_begins_anew_with_its_rule() -> None:
    """Also where the epoch in which it does is refused, and where the rule goes and comes back."""
    rule = "first(k, sum v : { n(k, _, v) }) :- n(k, _, _)."
    other = "first(k, sum v : { n(k, v, _) }) :- n(k, _, _)."
    program = TOTALS + ".decl first(k: number, s: number)  .output first\n"
    n = {(k, i, 10 * k + i) for k in range(3) for i in range(3)}
    sums = [(k, sum(10 * k + i for i in range(3))) for k in range(3)]
    with deltafix.connect(program, max_rows=60) as db:
        with db.transaction() as tx:
            tx.insert("n", sorted(n))
        for _ in range(2):
            with db.transaction() as tx:
                tx.add_rule(rule)
            assert db.rows("first") == sums
            with db.transaction() as tx:
                tx.remove_rule(rule)
                tx.add_rule(other)
            assert db.rows("first") == [(k, 3) for k in range(3)]
            with pytest.raises(BudgetError), db.transaction() as tx:
                tx.replace_rule(other, rule)
                tx.insert("u", [(k, 0, 0) for k in range(90)])
                tx.insert("n", [(k, 0, 0) for k in range(90)])
            assert db.rows("first") == [(k, 3) for k in range(3)]
            check(db, n, set())
            with db.transaction() as tx:
                tx.remove_rule(other)
            assert db.rows("first") == []
        check(db, n, set())


def test_many_groups_enter_the_indexes_of_what_is_shown_sorted() -> None:
    """Also where the epoch fails behind them, and where they come to groups that are there."""
    program = """
    .decl n(k: number, v: number)    .input n
    .decl ask(k: number)             .input ask
    .decl told(k: number, s: number)  .output told
    .decl all(k: number, l: number)   .output all
    told(k, s) :- ask(k), n(k, _), s = sum v : { n(k, v) }.
    all(k, l) :- ask(k), ask(l).
    """
    few, many = range(3), range(fold._MANY + 1)
    with deltafix.connect(program, max_rows=4 * len(many)) as db:

        def capacity() -> int:
            arena, linked = db.instance.arena, db.instance.linked
            (made,) = linked.folds.values()
            cells = arena.cells
            index = relation_cell(arena, linked.ids[made.relation], at.R_IDX)
            return int(cells[int(cells[at.IDXS]) + index * at.XSZ + at.X_CAP])

        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.insert("ask", [(k,) for k in range(200)])
            tx.insert("n", [(k, k) for k in many])
        db.check_invariants()
        with db.transaction() as tx:
            tx.insert("ask", [(k,) for k in few])
            tx.insert("n", [(k, k + v) for k in many for v in (0, 1)])
        assert capacity() == len(many) * 3 // 2  # twice the last one, row by row
        assert db.rows("told") == [(k, 2 * k + 1) for k in few]
        db.check_invariants()
        with db.transaction() as tx:
            tx.delete("n", [(1, 1)])
        assert db.rows("told") == [(0, 1), (1, 2), (2, 5)]
        db.check_invariants()
        with db.transaction() as tx:
            tx.delete("n", [(k, k + v) for k in many for v in (0, 1) if (k, v) != (1, 0)])
        assert db.rows("told") == []
        db.check_invariants()


def test_a_sum_beyond_its_type_is_an_error_and_nothing_is_changed() -> None:
    with deltafix.sql.connect() as db:
        db.execute(
            "CREATE TABLE t (k INTEGER, n BIGINT, d DECIMAL(18, 2));"
            "CREATE VIEW v AS SELECT k, SUM(n) AS n, SUM(d) AS d FROM t GROUP BY k"
        )
        db.execute("INSERT INTO t VALUES (1, ?, 1), (2, ?, 2), (3, 5, 0)", [MOST, LEAST])
        before = sorted(db.execute("SELECT * FROM v").fetchall())
        assert [row[:2] for row in before] == [(1, MOST), (2, LEAST), (3, 5)]
        for key, more in ((1, 1), (2, -1), (1, MOST)):
            with pytest.raises(
                DeltafixError, match=f"SUM is {(MOST if key == 1 else LEAST) + more}"
            ):
                db.execute("INSERT INTO t VALUES (?, ?, 0), (3, 1, 0)", [key, more])
            assert sorted(db.execute("SELECT * FROM v").fetchall()) == before
        large = "9999999999999999.99"
        with pytest.raises(DeltafixError, match=r"SUM is 10000000000000000\.99"):
            db.execute("INSERT INTO t VALUES (1, 0, ?)", [large])
        db.execute("DELETE FROM t WHERE k = 1")
        db.execute("INSERT INTO t VALUES (1, 4, 0), (1, ?, 0)", [-MOST])
        assert sorted(db.execute("SELECT k, n FROM v").fetchall())[0] == (1, 4 - MOST)
