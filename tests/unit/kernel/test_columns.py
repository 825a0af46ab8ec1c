"""Rows evaluated a block at a time find what one row after another finds, and ask for no more."""

from __future__ import annotations

from random import Random

import pytest
from tests.generators.colliding import colliding

import deltafix
from deltafix import Program
from deltafix.errors import FunctorError
from deltafix.kernel import layout as at
from deltafix.kernel.aside import (
    VALUES,
    forget_aside,
    is_aside,
    must_ask,
    next_pile,
    set_aside,
    take_back,
)
from deltafix.kernel.jit import JIT_DISABLED

ROWS = 150 if JIT_DISABLED else 300
DECLARED = """
.decl a(x: number, y: number) .input a
.decl b(x: number, y: number) .input b
.decl k(x: number, y: number) .input k
.decl m(x: number, y: number) .input m
.decl s(x: number, t: symbol) .input s
.decl u(x: unsigned, y: number) .input u
.decl r(x: number, y: float) .input r
.functor twice(x: number): number
"""
# k and m have one row for each x, b has several; (0, 3) is in a and k; a value of 0 or 7 is divided
# by, or is missing
BODIES = {
    "sums and products": "a(x, y), z = x * y + 3 - y, z % 3 != 1",
    "a quotient without a value": "a(x, y), z = (x - 15) / (y - 7)",
    "by a power of two": "a(x, y), z = (x - 15) / 8, w = (y - 15) * 5 / 1, w != z",
    "beyond 32 bits": "a(x, y), z = x * 4000000000 * y, z > 9000000000",
    "wraps around": "a(x, y), z = (x + 1) * 4611686018427387904 * (y + 1) / 3",
    "other functors": "a(x, y), z = max(x, y) - min(x, 4) + (x bxor y) + x ^ 2 - (x lor y)",
    "unsigned": "u(v, y), x = to_number(v / 3), z = to_number(v - 1), v >= 2",
    "floats": "r(x, f), f * 2.0 > to_float(x), y = to_number(f), z = to_number(f / 0.5 - 1.0)",
    "texts": 's(x, t), t > "c", t != "d", y = x, z = x',
    "a text computed": 's(x, t), v = cat(t, "!"), v < "f!", y = strlen(v), z = x',
    "one variable twice": "a(x, x), y = x, z = x",
    "a constant in a row": "a(x, 3), y = 3, z = x + 1",
    "an absent row": "a(x, y), !b(x, y), z = x",
    "tested, not bound": "a(x, y), z = 5, x + y = 9 + z",
    "a function": "a(x, y), y < 5, z = @twice(x + y), z > 4",
    "a function after a literal": "a(x, y), k(x, v), v < 9, z = @twice(v)",
    "one row each": "a(x, y), k(x, v), k(v, z), z > y",
    "one row each of several": "a(x, y), k(x, v), m(y, w), w < 4, z = v + w",
    "by the whole row": "a(x, y), k(x, y), z = x * 2",
    "several rows": "a(x, y), y < 20, b(y, z), z != 4",
    "several rows behind one": "a(x, y), k(x, v), v > 3, b(v, z)",
    "several rows of two, of which each row chooses": "a(x, y), b(x, z), b(y, w), z != w",
    "several rows behind several": "a(x, v), v < 9, b(v, y), y > 3, b(y, z), z != x",
    "several rows that are compared": "a(x, y), b(y, z), b(z, x)",
    "more than frames": "a(x, u), b(u, v), v < 5, b(v, w), w > 20, b(w, y), b(y, q), b(q, z)",
    "several rows that are computed with": "a(x, v), b(v, w), y = v * w, b(w, q), z = q - y, z > 0",
    "a function behind several rows": "a(x, v), v < 9, b(v, y), z = @twice(x + y), z < 40",
    "no column in common": "a(x, y), x > 20, k(z, 3)",
    "no column in common behind several rows": "a(x, v), v < 9, b(v, y), k(z, y), k(q, 3), q < z",
    "what is joined is computed": "a(x, y), v = (x + y) / 2, k(v, z)",
}


def _facts(random: Random) -> dict[str, list[tuple[object, ...]]]:
    def pairs(count: int) -> list[tuple[object, ...]]:
        return sorted({(random.randrange(30), random.randrange(30)) for _ in range(count)})

    return {
        "a": sorted({*pairs(ROWS), (0, 3)}),
        "b": pairs(ROWS // 2),
        "k": [(x, random.randrange(30) if x else 3) for x in range(27)],
        "m": [(x, random.randrange(9)) for x in range(25)],
        "s": [(x, random.choice("abcdefg")) for x in range(ROWS)],
        "u": [(x, y) for x in (0, 1, 5, 2**31, 2**64 - 1) for y in range(20)],
        "r": [(x, random.choice((0.5, -1.0, 3.0, 1e10, 7.25))) for x in range(100)],
    }


SHARED = ("texts", "an absent row", "several rows", "several rows that are compared")
"""Bodies that make no values, and begin with a relation of some blocks."""
LATE = ("one row each", "several rows", "several rows of two, of which each row chooses")
"""Bodies that look into an index, not by a key."""


@pytest.mark.parametrize("name", BODIES)
def test_blocks_find_what_edits_find(name: str) -> None:
    """A load evaluates the rule from its tables; edits of a few rows each go row by row.

    A load that lanes share, too, whose batches are full after a few heads; three matches fill a
    frame there. And a rule that comes to its tables, whose indexes are late: all rows wait for one
    that is gone through, few, or none.
    """
    body = BODIES[name]
    declared = f"{DECLARED} .decl out(x: number, y: number, z: number) .output out\n"
    rule = f"out(x, y, z) :- {body}."
    facts = _facts(Random(body))
    asked: list[list[int]] = []
    shown = []
    ways = ((1000, 0, -1), (7, 0, -1), (1000, 3, -1), (1000, 0, 0), (1000, 0, 3))
    for step, lanes, share in ways:
        calls: list[int] = []

        def twice(x: int, calls: list[int] = calls) -> int:
            calls.append(x)
            return x * 2

        text = declared if share >= 0 else declared + rule
        with deltafix.connect(Program.parse(text), functors={"twice": twice}) as db:
            cells = db.instance.arena.cells
            if share >= 0:
                cells[at.SCAN_FROM], cells[at.SCAN_SHARE] = 0, share
                cells[at.MATCHES] = Random(body).choice((1, 3, at.BLOCK))
            if lanes:
                for cell, value in (
                    (at.LANES, lanes), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0), (at.BATCH_CELLS, 40),
                    (at.MATCHES, 3),
                ):  # fmt: skip
                    cells[cell] = value
            for relation, rows in reversed(facts.items()):
                width = step if f" {relation}(" in f" {body}" else len(rows)
                for first in range(0, len(rows), width):
                    with db.transaction() as tx:
                        tx.insert(relation, rows[first : first + width])
            if share >= 0:
                with db.transaction() as tx:
                    tx.add_rule(rule)
                if share == 0 and name in LATE:
                    assert cells[at.ASIDE_ROW] > 0
            if step == 1000:
                assert cells[at.N_BOUND] > 0
            if lanes and name in SHARED:
                assert any(cells[at.LANE_CELLS * n + at.N_BOUND] > 0 for n in range(1, 1 + lanes))
            db.check_invariants()
            shown.append(db.rows("out"))
        asked.append(sorted(calls))
    assert shown[0]
    assert shown == [shown[0]] * 5
    assert asked == [asked[0]] * 5


def test_two_keys_of_one_hash_are_found_by_the_block() -> None:
    """A slot has a hash of 31 bits: of 150,000 keys some nine are another one's."""
    keys = [key for group in colliding()[:4] for key in group]
    text = """
    .decl a(x: number, y: number) .input a
    .decl k(x: number, y: number) .input k
    .decl out(x: number, z: number) .output out
    out(x, z) :- a(x, _), k(x, z).
    """
    with deltafix.connect(Program.parse(text)) as db:
        with db.transaction() as tx:
            tx.insert("k", [(key, -key) for key in keys[1:]])
            tx.insert("k", [(-key, key) for key in range(1, 1000)])
            tx.insert("a", [(key, y) for key in keys for y in range(20)])
        cells = db.instance.arena.cells
        assert not any(cells[at.LITERALS : at.LITERALS + at.MOST_LITERALS])  # no row had several
        assert db.rows("out") == sorted((key, -key) for key in keys[1:])


def test_an_index_that_is_not_filled_does_not_end_the_block() -> None:
    """Another literal is looked up by its key first; few rows are left for what is filled then."""
    text = """
    .decl a(x: number, y: number) .input a
    .decl k(x: number, y: number) .input k
    .decl b(x: number, y: number) .input b
    .decl out(x: number, z: number) .output out
    out(x, z) :- a(x, _), k(x, z), z < 0.
    """
    with deltafix.connect(Program.parse(text)) as db:
        with db.transaction() as tx:
            tx.insert("a", [(x, x % 7) for x in range(2000)])
            tx.insert("k", [(x, x + 1) for x in range(1995, 5000)])
            tx.insert("b", [(x % 7, x) for x in range(9000)])
        with db.transaction() as tx:
            rule = "got(x, z) :- a(x, y), k(x, w), b(y, z), z < 7, z < w."
            tx.add_rule(f".decl got(x: number, z: number) .output got {rule}")
        cells = db.instance.arena.cells
        assert cells[at.PASSED] == 0  # no row went on by itself
        assert 5 * 9000 // 7 < db.last_epoch.probed < 5 * 9000 // 7 + 20
        assert db.rows("got") == [(x, x % 7) for x in range(1995, 2000)]


@pytest.mark.parametrize("matches", [1, 5, at.BLOCK])
@pytest.mark.parametrize("lanes", [0, 2])
def test_each_row_of_a_block_goes_on_where_it_has_the_fewest(lanes: int, matches: int) -> None:
    """Half of the rows have 50 in one literal and one in the other, half the other way round.

    A block that chose one literal for all would look at 25 a row.
    """
    text = """
    .decl a(x: number, y: number) .input a
    .decl b(x: number, z: number) .input b
    .decl c(y: number, z: number) .input c
    .decl out(x: number, y: number, z: number) .output out
    out(x, y, z) :- a(x, y), b(x, z), c(y, z).
    """
    half = 20 if JIT_DISABLED else 200
    few = [(x, 0) for x in range(half)] + [(x, z) for x in range(half, 2 * half) for z in range(50)]
    with deltafix.connect(Program.parse(text)) as db:
        cells = db.instance.arena.cells
        cells[at.LANES], cells[at.SHARE_FROM], cells[at.MATCHES] = lanes, 1, matches
        with db.transaction() as tx:
            tx.insert("b", few)
            tx.insert("c", few)
            tx.insert("a", [(x, 2 * half - 1 - x) for x in range(2 * half)])
        assert db.count("out") == 2 * half
        assert db.last_epoch.probed == 2 * 2 * half
        assert cells[at.PASSED] == 0
        assert cells[at.FRAME] == cells[at.VECTORS]


WAITING = """
.decl a(x: number, y: number) .input a
.decl b(x: number, y: number, z: number) .input b
"""


@pytest.mark.parametrize("matches", [1, 7, at.BLOCK])
def test_few_rows_wait_for_a_table_and_its_index_stays_empty(matches: int) -> None:
    """Its rows are gone through once; only those that a row waits for are looked at.

    Keys of one hash, keys that many rows wait for, rows that went, and a second table behind.
    """
    rng = Random(matches)
    keys = [key for group in colliding()[:3] for key in group]
    count = 400 if JIT_DISABLED else 4000
    facts = {
        "a": [(key, y) for key in keys[1:] for y in range(5)] + [(-y, y) for y in range(20)],
        "b": [(rng.choice((*keys, rng.randrange(-40, 900))), n, n % 50) for n in range(count)],
    }
    gone = set(facts["b"][::5])
    with deltafix.connect(Program.parse(WAITING)) as db:
        cells = db.instance.arena.cells
        cells[at.SCAN_FROM], cells[at.SCAN_SHARE], cells[at.MATCHES] = 0, 0, matches
        with db.transaction() as tx:
            for name, rows in facts.items():
                tx.insert(name, rows)
        with db.transaction() as tx:
            tx.delete("b", sorted(gone))
        with db.transaction() as tx:
            tx.add_rule(".decl out(x: number, y: number, n: number) .output out")
            tx.add_rule("out(x, y, n) :- a(x, y), b(x, n, z), z > 9.")
        held = [row for row in facts["b"] if row not in gone]
        found = [(x, y, n, z) for x, y in facts["a"] for key, n, z in held if key == x]
        assert db.rows("out") == sorted((x, y, n) for x, y, n, z in found if z > 9)
        assert db.last_epoch.probed == len(found)
        assert cells[at.PASSED] == 0
        (late,) = _late(db, "b")
        assert late == 1
        db.check_invariants()
        with db.transaction() as tx:  # an edit asks for a key
            tx.insert("a", [(keys[0], 7)])
        new = sorted((keys[0], 7, n) for key, n, z in held if key == keys[0] and z > 9)
        assert tx.delta["out"].added == new


def _late(db: deltafix.Database, name: str) -> list[int]:
    """X_LATE of a relation's indexes."""
    cells = db.instance.arena.cells
    rb = int(cells[at.RELS]) + db.instance.linked.ids[name] * at.RSZ
    first = int(cells[at.IDXS]) + int(cells[rb + at.R_IDX]) * at.XSZ
    count = int(cells[rb + at.R_NIDX])
    return [int(cells[first + n * at.XSZ + at.X_LATE]) for n in range(count)]


@pytest.mark.parametrize(("share", "filled"), [(2, True), (0, False)])
def test_where_many_rows_wait_the_index_is_filled(share: int, filled: bool) -> None:
    """All rows of a find 2 in b; of the first kind more than a quarter of b's rows wait."""
    with deltafix.connect(Program.parse(WAITING)) as db:
        cells = db.instance.arena.cells
        cells[at.SCAN_FROM], cells[at.SCAN_SHARE] = 0, share
        with db.transaction() as tx:
            tx.insert("a", [(x, x + 1) for x in range(300)])
            tx.insert("b", [(n // 2, n, n % 3) for n in range(800)])
        with db.transaction() as tx:
            tx.add_rule(".decl out(x: number, n: number) .output out")
            tx.add_rule("out(y, n) :- a(x, y), b(x, n, _).")
        assert db.rows("out") == [(n // 2 + 1, n) for n in range(600)]
        assert (0 in _late(db, "b")) == filled
        assert cells[at.PASSED] == 0


@pytest.mark.parametrize("calls", [1, 1 << 14])
def test_rows_whose_values_are_asked_for_go_on_as_blocks(calls: int) -> None:
    """One call a pair behind a literal with several rows; then a table that is looked up by it."""
    text = """
    .decl a(x: number, y: number) .input a
    .decl b(x: number, y: number, z: number) .input b
    .decl k(x: number, y: number) .input k
    .functor twice(x: number): number
    .decl out(x: number, z: number) .output out
    out(x, v) :- a(x, y), b(y, n, _), w = @twice(n), w > 3, k(w, v), @twice(v) > 8.
    """
    asked: list[int] = []

    def twice(x: int) -> int:
        asked.append(x)
        return 2 * x

    with deltafix.connect(Program.parse(text), functors={"twice": twice}) as db:
        cells = db.instance.arena.cells
        cells[at.ASK_CALLS] = calls
        size = 100 if JIT_DISABLED else 1000
        with db.transaction() as tx:
            tx.insert("k", [(2 * n, n) for n in range(0, 2 * size, 3)])
            tx.insert("b", [(n // 2, n, 0) for n in range(2 * size)])
            tx.insert("a", [(x, x) for x in range(size)])
        values = [n for n in range(2 * size) if n % 3 == 0 and n > 1]
        assert db.rows("out") == sorted((n // 2, n) for n in values if n > 4)
        assert sorted(asked) == sorted({*range(2 * size)})
        assert cells[at.PASSED] == 0


def test_what_was_read_of_a_pile_is_not_kept_while_others_wait() -> None:
    """Rows that wait again, for a second function, would else have a pile grow with the table."""
    with deltafix.connect(WAITING + ".decl c(x: number) c(x) :- a(x, y), b(y, x, _).") as db:
        words, cells = db.instance.arena.words, db.instance.arena.cells
        cells[at.FRAME] = cells[at.VECTORS]
        lengths = []
        for _ in range(5):
            for _ in range(3):
                set_aside(words, cells, VALUES, 1, 0, 0, 0, 0)
            must_ask(cells, 0)
            lengths.append(int(cells[VALUES + 1]))
            set_aside(words, cells, VALUES, 1, 0, 0, 0, 0)  # one waits again
            assert next_pile(cells, 0) == VALUES
            assert take_back(cells, VALUES) < 0
        assert lengths[1:] == [lengths[1]] * 4
        forget_aside(cells)
        assert is_aside(cells) == 0


def test_a_call_that_fails_leaves_no_row_waiting() -> None:
    """The epoch is taken back, and the next one begins with no row of it."""
    text = """
    .decl a(x: number) .input a
    .functor f(x: number): number
    .decl out(x: number) .output out
    out(@f(x)) :- a(x).
    """
    held = [True]

    def f(x: int) -> int:
        if held[0]:
            raise RuntimeError("not now")
        return x + 1

    with deltafix.connect(Program.parse(text), functors={"f": f}) as db:
        rows = [(x,) for x in range(200)]
        with pytest.raises(FunctorError, match="not now"), db.transaction() as tx:
            tx.insert("a", rows)
        db.check_invariants()
        held[0] = False
        with db.transaction() as tx:
            tx.insert("a", rows[:100])
        assert db.rows("out") == [(x + 1,) for x in range(100)]
