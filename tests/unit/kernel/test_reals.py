"""Sums and means of floats in the kernel, against fractions rounded once.

Sees: a sum that drifts as values come and go, one rounded twice, limbs out of reach, a block that
a rollback has not given back, infinities that stay. Runs also as plain Python and with bounds
checked.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import deltafix
import deltafix.sql
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.kernel.reals import add_real, own_block, real_value

ROUNDS = 8 if JIT_DISABLED else 50
RULES = """
.decl v(k: number, i: number, x: float)    .input v
.decl total(k: number, t: float)           .output total
.decl mean(k: number, t: float)            .output mean
.decl all(t: float)                        .output all
.decl twice(t: float)                      .output twice
total(k, t) :- v(k, _, _), t = sum x : { v(k, _, x) }.
mean(k, t) :- v(k, _, _), t = mean x : { v(k, _, x) }.
all(sum x : { v(_, _, x) }).
twice(t) :- t = mean y : { v(_, _, x), y = x + x }.
"""
ODD = (
    math.inf, -math.inf, math.nan, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7e308, -1.7e308,
    1e16, -1e16, 0.1, 0.0,
)  # fmt: skip


def rounded(values: list[float], count: int = 1) -> float:
    """Their sum by `count`, rounded once, as IEEE has it for NaNs and infinities."""
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= {*values}:
        return math.nan
    for one in (math.inf, -math.inf):
        if one in values:
            return one
    exact = sum(map(Fraction, values), Fraction(0)) / count
    try:
        return exact.numerator / exact.denominator + 0.0
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def bits(value: float) -> int:
    return 0 if math.isnan(value) else 1 + struct.unpack("Q", struct.pack("d", value))[0]


def value(rng: Random) -> float:
    if rng.random() < 0.05:
        return rng.choice(ODD)
    if rng.random() < 0.6:
        return rng.choice((round(rng.uniform(-1000, 1000), 2), float(rng.randrange(-5, 5))))
    found = struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0]
    return found if math.isfinite(found) else rng.choice(ODD)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, max_size=12), st.lists(FINITE, max_size=6), st.integers(1, 1 << 31))
@example([5e-324], [], 2)
@example([5e-324] * 3, [], 2)
@example([2.0**-1022, -(2.0**-1074)], [], 3)
@example([1.7976931348623157e308, 1e292], [], 1)
@example([2.0**53, 1.0, 1.0], [], 1)
@example([2.0**53, 1.0, 5e-324], [], 1)
@example([1e16, 0.1], [1e16], 1)
def test_a_sum_is_that_of_what_is_left_rounded_once(kept, gone, count) -> None:
    arena = Arena(1 << 24)
    words, cells = arena.words, arena.cells
    cell = arena.block(16) // 2
    patterns = [(np.float64(one + 0.0).view(np.int64), one) for one in (*kept, *gone)]
    for pattern, _ in patterns:
        add_real(words, cells, cell, int(pattern), 1)
    before = int(real_value(cells, cell, 1))
    copy = int(own_block(words, cells, int(cells[cell + 2])))
    held, cells[cell + 2] = int(cells[cell + 2]), copy
    for pattern, one in patterns:
        if one in gone:
            add_real(words, cells, cell, int(pattern), -1)
    left = [one for _, one in patterns if one not in gone]
    for number in (1, count):
        found = np.int64(real_value(cells, cell, number)).view(np.float64)
        assert bits(float(found)) == bits(rounded(left, number))
    cells[cell + 2] = held  # what an epoch changed was its own
    assert int(real_value(cells, cell, 1)) == before


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_random_groups_are_exact_after_any_edits(seed: int, tmp_path: Path) -> None:
    rng = Random(f"reals {seed}")
    db = deltafix.connect(RULES, path=tmp_path / "state")
    rows: dict[tuple[int, int], float] = {}
    number = 0
    for _ in range(ROUNDS):
        went = rng.sample(sorted(rows), min(len(rows), rng.choice((0, 1, 3, len(rows) // 2))))
        came = {}
        for _ in range(rng.choice((1, 2, 30))):
            number += 1
            came[rng.choice((0, 0, 1, 2, rng.randrange(30))), number] = value(rng)
        tx = db.transaction()
        tx.delete("v", [(*key, rows[key]) for key in went])
        tx.insert("v", [(*key, one) for key, one in came.items()])
        if rng.random() < 0.2:
            tx.rollback()
        else:
            tx.commit()
            rows = {key: one for key, one in (rows | came).items() if key not in went}
        groups: dict[int, list[float]] = {}
        for (k, _), one in rows.items():
            groups.setdefault(k, []).append(one)
        totals = {k: bits(rounded(found)) for k, found in groups.items()}
        means = {k: bits(rounded(found, len(found))) for k, found in groups.items()}
        assert {k: bits(one) for k, one in db.rows("total")} == totals
        assert {k: bits(one) for k, one in db.rows("mean")} == means
        assert [bits(one) for (one,) in db.rows("all")] == [bits(rounded([*rows.values()]))]
        twice = [one + one for one in rows.values()]
        shown = [bits(rounded(twice, len(twice)))] if rows else []
        assert [bits(one) for (one,) in db.rows("twice")] == shown
        db.check_invariants()
        if rng.random() < 0.1:
            db.close()
            db = deltafix.connect(RULES, path=tmp_path / "state")
    db.close()


def test_what_came_and_went_leaves_no_memory_behind() -> None:
    """Blocks of groups that grow, shrink, go and are rolled back are taken again."""
    db = deltafix.connect(RULES)
    taken = []
    rows = [(k, n, (1e-300, 0.1, 1e300)[(k + n) % 4 % 3]) for k in range(40) for n in range(3)]
    for _ in range(8):
        with db.transaction() as tx:
            tx.insert("v", rows)
        tx = db.transaction()
        tx.delete("v", rows[::2])
        tx.rollback()
        with db.transaction() as tx:
            tx.delete("v", rows)
        taken.append(int(db.instance.arena.cells[at.BUCKET_TOP]))
    assert taken[-1] == taken[2]


def test_sql_adds_doubles_with_nulls_exactly() -> None:
    rng = Random("doubles")
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, x DOUBLE)")
        db.execute(
            "CREATE MATERIALIZED VIEW a AS "
            "SELECT g, SUM(x) AS s, AVG(x) AS m, COUNT(x) AS n, SUM(x * 2) AS d FROM t GROUP BY g"
        )
        rows: dict[int, tuple] = {}
        for epoch in range(12):
            came = {
                n: (rng.randrange(4), None if rng.random() < 0.4 else rng.uniform(-1e9, 1e-9))
                for n in range(epoch * 50, epoch * 50 + 20)
            }
            went = rng.sample(sorted(rows), len(rows) // 3)
            db.insert("t", [(n, *row) for n, row in came.items()])
            for n in went:
                db.execute("DELETE FROM t WHERE id = ?", [n])
            rows = {n: row for n, row in (rows | came).items() if n not in went}
            wanted = set()
            for g in {g for g, _ in rows.values()}:
                found = [x for own, x in rows.values() if own == g and x is not None]
                total, count = math.fsum(found), len(found)
                mean = rounded(found, count) if found else None
                twice = math.fsum(2 * x for x in found)
                wanted.add((g, *((total, mean, count, twice) if found else (None, None, 0, None))))
            assert set(db.execute("SELECT * FROM a").fetchall()) == wanted
            db.engine.check_invariants()
