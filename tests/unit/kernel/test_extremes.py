"""`min` and `max` in the kernel, against Python's over the rows that there are.

Sees: a best value that stays when its last row is gone, next ones that are forgotten, doubled or
kept beyond their bound, an order that is not the type's, groups looked through for nothing, blocks
that outlive a rollback. Runs also as plain Python and with bounds checked: sizes follow.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from random import Random

import pytest

import deltafix
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED

ROUNDS = 8 if JIT_DISABLED else 60
ROWS = 150 if JIT_DISABLED else 700
RULES = """
.decl v(k: number, i: number, x: KIND)     .input v
.decl least(k: number, x: KIND)            .output least
.decl most(k: number, x: KIND)             .output most
.decl first(x: KIND)                       .output first
.decl last(x: KIND)                        .output last
.decl asked(k: number)                     .input asked
.decl none(k: number)                      .output none
least(k, m) :- v(k, _, _), m = min x : { v(k, _, x) }.
most(k, m) :- v(k, _, _), m = max x : { v(k, _, x) }.
first(m) :- m = min x : { v(_, _, x) }.
last(m) :- m = max x : { v(_, _, x) }.
none(k) :- asked(k), !least(k, _).
"""


def number(rng: Random) -> int:
    near = rng.choice((0, 0, 1 << 30, 1 << 31, 1 << 32, 1 << 63)) * rng.choice((-1, 1))
    return max(-(1 << 63), min((1 << 63) - 1, near + rng.randrange(-40, 41)))


def real(rng: Random) -> float:
    odd = (math.inf, -math.inf, 0.0, 5e-324, -5e-324, 1e308)
    return rng.choice(odd) if rng.random() < 0.2 else rng.choice((1, -1, 1e-9)) * rng.randrange(50)


def text(rng: Random) -> str:
    return "".join(rng.choice("ab\u00e9\U0001f600") for _ in range(rng.randrange(6)))


VALUES = {
    "number": number,
    "unsigned": lambda rng: number(rng) % (1 << 64),
    "float": real,
    "symbol": text,
}


def key(value):
    """Python's order of texts and numbers is ours; of the two zeros there is one."""
    return value + 0.0 if isinstance(value, float) else value


def check(db: deltafix.Database, rows: set[tuple], asked: set[int]) -> None:
    groups: dict[int, list] = {}
    for k, _, x in rows:
        groups.setdefault(k, []).append(x)
    every = [x for _, _, x in rows]
    assert set(db.rows("least")) == {(k, min(found, key=key)) for k, found in groups.items()}
    assert set(db.rows("most")) == {(k, max(found, key=key)) for k, found in groups.items()}
    assert db.rows("first") == ([(min(every, key=key),)] if every else [])
    assert db.rows("last") == ([(max(every, key=key),)] if every else [])
    assert {k for (k,) in db.rows("none")} == asked - groups.keys()
    db.check_invariants()


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_random_groups_that_lose_their_best(seed: int, kind: str, tmp_path: Path):
    """Groups of one row to hundreds; runs of the best go, and come back, also in one epoch."""
    rng = Random(f"{seed} {kind}")
    db = deltafix.connect(RULES.replace("KIND", kind), path=tmp_path / "state")
    db.instance.arena.cells[at.PARTS_FROM] = rng.choice((0, 1 << 17))
    rows: set[tuple] = set()
    asked: set[int] = set()
    number = 0
    for epoch in range(ROUNDS):
        went: set[tuple] = set()
        came: set[tuple] = set()
        for _ in range(rng.choice((1, 1, 3))):
            k = rng.choice((0, 0, 1, 2, rng.randrange(40)))
            own = sorted((row for row in rows if row[0] == k), key=lambda row: key(row[2]))
            many = rng.choice((1, 1, 2, 20, len(own)))
            went.update(rng.choice((own[:many], own[-many:], rng.sample(own, len(own) // 3), [])))
            for _ in range(rng.choice((0, 1, 2, ROWS // 2 if len(own) < ROWS else 1))):
                number += 1
                came.add((k, number, VALUES[kind](rng)))
        if rng.random() < 0.3:  # the same value, in another row
            came.update((k, number := number + 1, x) for k, _, x in sorted(went, key=str)[:3])
        tx = db.transaction()
        tx.delete("v", sorted(went, key=str))
        tx.insert("v", sorted(came, key=str))
        tx.insert("asked", [(epoch,)])
        if rng.random() < 0.2:
            tx.rollback()
        elif rng.random() < 0.2:
            tx.prepared = _fail  # when it has run
            with pytest.raises(ZeroDivisionError):
                tx.commit()
        else:
            tx.commit()
            rows, asked = (rows - went) | came, asked | {epoch}
        check(db, rows, asked)
        if rng.random() < 0.1:
            db.close()
            db = deltafix.connect(RULES.replace("KIND", kind), path=tmp_path / "state")
            check(db, rows, asked)
    db.close()


def _fail(_: object) -> None:
    raise ZeroDivisionError


def test_not_a_number_is_above_infinity_as_everywhere() -> None:
    db = deltafix.connect(RULES.replace("KIND", "float"))
    other = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]
    with db.transaction() as tx:
        tx.insert("v", [(1, 1, math.nan), (1, 2, math.inf), (1, 3, other), (1, 4, -1.0)])
    ((_, greatest),) = db.rows("most")
    assert math.isnan(greatest)
    assert db.rows("least") == [(1, -1.0)]
    with db.transaction() as tx:
        tx.delete("v", [(1, 1, math.nan), (1, 3, math.nan)])
    assert db.rows("most") == [(1, math.inf)]
    db.check_invariants()


@pytest.mark.parametrize(("rows", "room"), [(60, 1), (1000, 63)])
def test_a_group_is_looked_through_for_as_many_of_the_best_as_a_block_holds(rows: int, room: int):
    """The best goes again and again: each look finds the next, of a large group the next 62."""
    db = deltafix.connect(RULES.replace("KIND", "number"))
    with db.transaction() as tx:
        tx.insert("v", [(k, n, n) for n in range(rows) for k in (0, 1)])
    looks = 0
    for n in range(min(rows - 1, 200)):
        with db.transaction() as tx:
            tx.delete("v", [(0, n, n)])
        assert tx.delta["least"].added == [(0, n + 1)]
        # The changed row comes by the rules and five folds; a look at the group has all of it.
        looks += db.last_epoch.probed >= (rows - n) // 2
        assert db.last_epoch.probed < 2 * rows + 64
    assert looks == -(-min(rows - 1, 200) // room) if room > 1 else looks >= rows - 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["number", "symbol"])
def test_what_comes_before_the_bound_of_a_full_block_moves_it(kind: str, seed: int) -> None:
    """Rows come next to the best, beside the bound and behind it, until the block is full."""
    rng = Random(f"full {seed}")
    value = (lambda n: f"{n:05}") if kind == "symbol" else (lambda n: n)
    db = deltafix.connect(RULES.replace("KIND", kind))
    rows = {(0, n, value(n)) for n in range(0, 4000, 25)}
    with db.transaction() as tx:
        tx.insert("v", sorted(rows))
    for epoch in range(ROUNDS):
        best = sorted(rows, key=lambda row: row[2])
        ordered = sorted({int(row[2]) for row in best})
        near = rng.choice((0, 30, 60, 61, 61, 62))
        low, high = (ordered[min(near + more, len(ordered) - 1)] for more in (0, 1))
        count = rng.choice((1, 2, 9))
        came = {(0, 4000 + 100 * epoch + n, value(rng.randint(low, high))) for n in range(count)}
        went = rng.choice((best[:1], best[-1:], best[:9], rng.sample(best[:70], 5)))
        went = set(went if epoch == 0 or rng.random() < 0.3 else [])
        with db.transaction() as tx:
            tx.delete("v", sorted(went))
            tx.insert("v", sorted(came))
        rows = (rows - went) | came
        check(db, rows, set())


@pytest.mark.skipif(JIT_DISABLED, reason="many rows")
def test_a_large_group_keeps_more_of_the_best() -> None:
    rng = Random("large")
    values = rng.sample(range(1 << 40), 20_000)
    db = deltafix.connect(RULES.replace("KIND", "number"))
    with db.transaction() as tx:
        tx.insert("v", [(0, n, x) for n, x in enumerate(values)])
    ordered = sorted(range(len(values)), key=values.__getitem__)
    looks = 0
    for place, n in enumerate(ordered[:2100]):
        with db.transaction() as tx:
            tx.delete("v", [(0, n, values[n])])
        looks += db.last_epoch.probed > 10_000
        if place % 300 == 0:
            db.check_invariants()
        assert db.rows("least") == [(0, values[ordered[place + 1]])]
    assert looks == 3
