"""Rows, key tables and indexes through the kernel's doors, against a set of tuples.

Runs also as plain Python and with bounds checked (.ci/run): sizes follow.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import chain, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generators.colliding import colliding

import deltafix
from deltafix.engine.invariants import free_buckets
from deltafix.engine.lanes import Lanes
from deltafix.engine.store import codes_where
from deltafix.kernel import keys
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.entries import commit, delete_rows, insert_rows, lookup, rollback
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.kernel.keys import hash_words

SIZE = 400 if JIT_DISABLED else 6000
# Indexes by each column and by pairs: every rule below asks for another one.
TEXT = """
.decl r(a: number, b: number, c: number)
.decl k(a: number)
.decl p(a: number)
.input r
.input k
p(c) :- k(a), r(a, _, c).
p(c) :- k(b), r(_, b, c).
p(b) :- k(c), r(_, b, c).
p(c) :- k(a), k(b), r(a, b, c), a < b.
"""


class Table:
    """The relation `r` of an open database, edited below the transaction layer."""

    def __init__(self) -> None:
        self.db = deltafix.connect(TEXT)
        self.arena: Arena = self.db.instance.arena
        self.number = self.db.instance.linked.ids["r"]

    def edit(self, door, rows: list[tuple[int, ...]]) -> int:
        flat = np.array(rows, dtype=np.int32).reshape(-1)
        return int(door(self.arena.words, self.arena.cells, flat, self.number, len(rows)))

    def commit(self) -> None:
        Lanes(self.arena, nullcontext()).fill()  # as an epoch does before it runs
        commit(self.arena.words, self.arena.cells)

    def rollback(self) -> None:
        rollback(self.arena.words, self.arena.cells)

    def rows(self) -> set[tuple[int, ...]]:
        self.db.check_invariants()
        return set(map(tuple, codes_where(self.arena, self.number, at.WAS).tolist()))

    def has(self, row: tuple[int, ...]) -> bool:
        key = np.array(row, dtype=np.int32)
        return lookup(self.arena.words, self.arena.cells, key, self.number, 0, at.WAS) >= 0


def rows_of(rng: Random, count: int, spread: int) -> list[tuple[int, ...]]:
    return [tuple(rng.randrange(spread) for _ in range(3)) for _ in range(count)]


@pytest.mark.parametrize("spread", [3, 12, 10**6])
def test_oracle_batches_in_and_out(spread: int) -> None:
    """Large batches go in by sorted hash, small ones row by row; both leave the same tables."""
    rng = Random(spread)
    table = Table()
    model: set[tuple[int, ...]] = set()
    for count in (SIZE, 1, SIZE // 3, 7, 2 * SIZE):
        batch = rows_of(rng, count, spread)
        assert table.edit(insert_rows, batch) == len(set(batch) - model)
        model |= set(batch)
        table.commit()
        assert table.rows() == model
        gone = rng.sample(sorted(model), len(model) // 2)
        assert table.edit(delete_rows, gone) == len(gone)
        model -= set(gone)
        table.commit()
        assert table.rows() == model
    for row in [*rng.sample(sorted(model), min(20, len(model))), (-1, -1, -1)]:
        assert table.has(row) == (row in model)


def test_oracle_a_rollback_puts_everything_back() -> None:
    rng = Random(5)
    table = Table()
    first = rows_of(rng, SIZE, 9)
    table.edit(insert_rows, first)
    table.commit()
    clock = int(table.arena.cells[at.CLOCK])
    for _ in range(3):
        table.edit(delete_rows, first[: SIZE // 2])
        table.edit(insert_rows, rows_of(rng, SIZE, 40))
        table.edit(insert_rows, first[:10])
        table.rollback()
        assert table.rows() == set(first)
        assert int(table.arena.cells[at.CLOCK]) == clock


def test_rows_that_left_are_used_again() -> None:
    table = Table()
    rows = rows_of(Random(1), SIZE, 10**6)
    sizes = set()
    for _ in range(4):
        table.edit(insert_rows, rows)
        table.commit()
        sizes.add(
            int(table.arena.cells[int(table.arena.cells[at.RELS]) + table.number * at.RSZ + at.R_N])
        )
        table.edit(delete_rows, rows)
        table.commit()
    assert sizes == {len(set(rows))}
    assert table.rows() == set()


ROWS = st.tuples(*[st.integers(0, 2)] * 3)


@settings(max_examples=15 if JIT_DISABLED else 60)
@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(ROWS, min_size=1, max_size=8), st.booleans()), max_size=12
    )
)
def test_oracle_any_sequence_of_edits(script) -> None:
    table = Table()
    model: set[tuple[int, ...]] = set()
    for adds, batch, commits in script:
        after = model | set(batch) if adds else model - set(batch)
        table.edit(insert_rows if adds else delete_rows, batch)
        if commits:
            table.commit()
            model = after
        else:
            table.rollback()
        assert table.rows() == model


def _hashed(count: int, least: float, most: float) -> list[tuple[int, ...]]:
    """Rows whose hashes are in a part of all hashes."""
    rng = np.random.default_rng(count)
    found: set[tuple[int, ...]] = set()
    while len(found) < count:
        rows = rng.integers(0, 10**6, (3, 50_000), dtype=np.int32)
        share = hash_words(rows, 0, 3) / 2**at.HASH_BITS
        found |= {*map(tuple, rows[:, (share >= least) & (share < most)].T.tolist())}
    return sorted(found)[:count]


@pytest.mark.parametrize(
    ("rows", "stays"),
    [
        pytest.param(_hashed(4000, 0, 1), {True}, id="even"),
        pytest.param(_hashed(3200, 0, 1) + _hashed(600, 15 / 16, 1), {True}, id="wraps"),
        pytest.param(_hashed(3600, 15 / 16, 1), {False}, id="run"),
    ],
)
def test_a_key_table_grows_where_it_lies(rows: list[tuple[int, ...]], stays: set[bool]) -> None:
    """Unless too many rows of like hashes stand in one run; either way every row is found."""
    table = Table()
    cells = table.arena.cells
    relation = int(cells[at.RELS]) + table.number * at.RSZ
    grown = set()
    for begin in range(0, len(rows), 50):
        where, cap, room = cells[[relation + f for f in (at.R_PK, at.R_PKCAP, at.R_PKROOM)]]
        table.edit(insert_rows, rows[begin : begin + 50])
        if cap < int(cells[relation + at.R_PKCAP]) <= room and cap > 2048:
            grown.add(bool(cells[relation + at.R_PK] == where))
        table.commit()
        assert table.rows() == set(rows[: begin + 50])
    assert grown == stays
    assert all(map(table.has, rows[::7]))


@pytest.mark.parametrize(("least", "most", "stays"), [(0, 2048, True), (15 / 16, 100, False)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_parts_of_a_growth_share_nothing(
    least: float, most: int, stays: bool, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever is done first, and where one has too many rows of like hashes."""
    monkeypatch.setattr(keys, "_STRETCH", 100)
    monkeypatch.setattr(keys, "_MOST", most)
    table = Table()
    rows = _hashed(3600, least, 1)
    for begin in range(0, len(rows), 400):
        table.edit(insert_rows, rows[begin : begin + 400])
    table.commit()
    cells = table.arena.cells
    relation = int(cells[at.RELS]) + table.number * at.RSZ
    cells[relation + at.R_PKROOM] = 2 * cells[relation + at.R_PKCAP]
    where, cap, used = cells[[relation + f for f in (at.R_PK, at.R_PKCAP, at.R_PKUSED)]].tolist()
    growth = keys.open_growth(cells, table.number, cap * 4 // 5 - used + 1, len(order))
    stretches = 0
    while keys.next_stretch(cells, growth):
        stretches += 1
        for part in order:
            keys.spread_part(cells, growth, part)
    assert (stretches > 10) == stays == bool(cells[relation + at.R_PK] == where)
    assert int(cells[relation + at.R_PKCAP]) >= cap * 3 // 2
    assert table.rows() == set(rows)
    assert all(map(table.has, rows))


def test_no_block_that_is_handed_back_reaches_into_another() -> None:
    """Pages of a block handed back are zeroed: a word too many would take rows or slots with it."""
    table = Table()
    cells = table.arena.cells
    cells[at.LEAST_BLOCK] = 16  # small ones are handed back, too
    relation = int(cells[at.RELS]) + table.number * at.RSZ
    first = int(cells[relation + at.R_IDX])
    rng = Random(4)
    for _ in range(6):
        table.edit(insert_rows, rows_of(rng, SIZE, 10**6))
        table.commit()
    blocks = [
        (
            int(cells[relation + at.R_ROWS]),
            int(cells[relation + at.R_CAP] * cells[relation + at.R_STRIDE]),
        ),
        (2 * int(cells[relation + at.R_PK]), 2 * int(cells[relation + at.R_PKROOM])),
    ]
    for number in range(first, first + int(cells[relation + at.R_NIDX])):
        index = int(cells[at.IDXS]) + number * at.XSZ
        blocks.append((2 * int(cells[index + at.X_SLOTS]), 4 * int(cells[index + at.X_CAP])))
    handed_back = [
        block[:2]
        for kind, size in ((at.DEAD, 2), (at.FREE, 3))
        for block in cells[int(cells[kind]) :][: size * int(cells[kind + 1])]
        .reshape(-1, size)
        .tolist()
        if block[1]
    ]
    assert handed_back
    ordered = sorted([*blocks, *map(tuple, handed_back)])
    assert all(start + words <= after for (start, words), (after, _) in pairwise(ordered))
    assert sum(ordered[-1]) <= cells[at.BUMP]


def test_the_first_vectors_of_an_arena_lie_apart() -> None:
    arena = Arena(1 << 28)
    cells = arena.cells
    blocks = [(2 * int(cells[at.DEAD]), 4 * int(cells[at.DEAD + 2]))]
    for vector in (at.Q, at.J, at.HEAP, at.OPEN, at.WIDE, at.SYM):
        blocks.append((2 * int(cells[vector]), 2 * int(cells[vector + 2])))
    for table in (at.WIDE_SLOTS, at.SYM_SLOTS):
        start = int(cells[table])
        blocks.append((2 * start, 2 * (1 + int(cells[start]))))
    blocks.sort()
    ends = [start + words for start, words in blocks]
    assert all(end <= start for end, (start, _) in zip(ends, blocks[1:], strict=False))
    assert ends[-1] <= cells[at.BUMP]


def test_keys_of_one_hash_are_kept_apart() -> None:
    """In an index that is filled, in one that has one of them, and in one that has both."""
    groups = colliding()
    assert len(groups) > 2
    rng = Random(2)
    numbers = [*chain.from_iterable(groups), *range(50)] * 40
    table = Table()
    rows = [(a, rng.randrange(9), n) for n, a in enumerate(numbers)]
    first = [group[0] for group in groups]
    before = [row for row in rows if row[0] in first][: SIZE // 50]
    table.edit(insert_rows, before)
    table.commit()
    table.edit(insert_rows, rows)
    table.commit()
    assert table.rows() == {*rows}
    for batch in (rows, [row for row in rows if row[0] in first], rows):
        fresh = Table()
        with fresh.db.transaction() as tx:
            tx.insert("r", batch)
            tx.insert("k", [(a,) for a in {*chain.from_iterable(groups)}])
        fresh.db.check_invariants()
        keys = {*chain.from_iterable(groups)}
        assert set(fresh.db.rows("p")) >= {(c,) for a, _, c in batch if a in keys}


def _late(db: deltafix.Database) -> dict[tuple[int, ...], int]:
    """How late each index of `r` is, by its columns."""
    cells = db.instance.arena.cells
    rb = int(cells[at.RELS]) + db.instance.linked.ids["r"] * at.RSZ
    first = int(cells[at.IDXS]) + int(cells[rb + at.R_IDX]) * at.XSZ
    keys = db.instance.linked.plan.indexes["r"]
    return {key: int(cells[first + n * at.XSZ + at.X_LATE]) for n, key in enumerate(keys)}


@pytest.mark.parametrize("seed", range(4))
def test_a_late_index_is_filled_by_the_lookups_that_ask_it(seed: int) -> None:
    """One lookup an epoch: none pays for all of it, each has its rows, and four make it whole."""
    rng = Random(seed)
    rules = TEXT.partition("p(c)")[0]
    rows = {(rng.randrange(40), rng.randrange(40), n) for n in range(SIZE // 4)}
    db = deltafix.connect(rules)
    db.instance.arena.cells[at.PARTS_FROM] = 0
    with db.transaction() as tx:
        tx.insert("r", sorted(rows))
    with db.transaction() as tx:
        tx.add_rule("p(c) :- k(a), r(a, _, c).")
    assert _late(db) == {(0,): 1}
    while late := _late(db)[0,]:
        a = rng.randrange(40)
        few = sorted(rng.sample(sorted(rows), 3))
        new = sorted((a, 0, SIZE + rng.randrange(SIZE)) for _ in range(3))
        cancelled = rng.random() < 0.3
        tx = db.transaction()
        tx.delete("r", few)
        tx.insert("r", new)
        tx.insert("k", [(a,)])
        if cancelled:
            tx.rollback()
        else:
            tx.commit()
            rows = (rows - set(few)) | set(new)
        db.check_invariants()
        found = set() if cancelled else {(c,) for x, _, c in rows if x == a}
        assert set(db.rows("p")) == found
        if not cancelled:
            done, entered = _late(db)[0,] - at.PART, max(late - at.PART, 0)
            assert done < 0 or 0 < done - entered <= len(rows) // 8 + 8
            with db.transaction() as tx:
                tx.delete("k", [(a,)])
    with db.transaction() as tx:
        tx.insert("k", [(1,), (2,)])
    assert set(db.rows("p")) == {(c,) for x, _, c in rows if x in {1, 2}}


def test_rows_that_enter_together_take_buckets_that_others_outgrew() -> None:
    """In each eighth of the rows 20 keys come and those that came before outgrow their buckets."""
    db = deltafix.connect(TEXT.partition("p(c)")[0])
    arena = db.instance.arena
    arena.cells[at.PARTS_FROM] = 0
    keys = [key for part in range(8) for key in 2 * [part] + 4 * [part - 1] for _ in range(20)]
    rows = [(20 * key + n % 20, 0, n) for n, key in enumerate(keys)]
    with db.transaction() as tx:
        tx.insert("r", rows)
    with db.transaction() as tx:
        tx.add_rule("p(c) :- k(a), r(a, _, c).")
    epochs = 0
    while _late(db)[0,]:
        with db.transaction() as tx:
            tx.insert("k", [(1_000 + epochs,)])
        db.check_invariants()
        epochs += 1
    assert epochs == 8
    # New ones alone would be 20 of two units and 20 of four in each epoch, 960 units.
    assert arena.cells[at.BUCKET_TOP] <= 740
    assert 0 < sum(units for _, units in free_buckets(arena)) <= 100
    with db.transaction() as tx:
        tx.insert("k", [(a,) for a in range(-20, 160)])
    assert len(db.rows("p")) == len(rows)


def test_many_lookups_of_an_epoch_fill_a_late_index_after_few_looks_at_all_rows() -> None:
    db = deltafix.connect(TEXT.partition("p(c)")[0])
    db.instance.arena.cells[at.PARTS_FROM] = 0
    with db.transaction() as tx:
        tx.insert("r", [(n % 40, n % 7, n) for n in range(SIZE // 4)])
    with db.transaction() as tx:
        tx.add_rule("p(c) :- k(a), r(a, _, c).")
    with db.transaction() as tx:
        tx.insert("k", [(a,) for a in range(20)])
    assert _late(db) == {(0,): 0}
    assert set(db.rows("p")) == {(n,) for n in range(SIZE // 4) if n % 40 < 20}
    # As if each had been looked up: rows of other keys are not counted.
    assert db.last_epoch.probed == db.count("p")


@pytest.mark.parametrize("turned", [False, True])
def test_keys_of_one_hash_at_the_end_of_an_index_keep_their_order(turned: bool) -> None:
    """A key with many rows is in the last slot, one with few in the first; then the slots grow.

    Where what was counted for the rows that come was another key's, a bucket lay in the next one.
    """
    slots, most = 32, SIZE // 10
    pairs = colliding(1_000_000, (1 << at.HASH_BITS) * (slots - 1) // slots)
    assert pairs
    hashes = hash_words([np.arange(1_000)], 0, 1) * slots >> at.HASH_BITS
    others = np.flatnonzero((hashes > 2) & (hashes < slots // 2))[:18].tolist()
    for pair in pairs:
        many, few = reversed(pair) if turned else pair
        keys = [many] * 9 + [few] + [others[n % 18] for n in range(most - 9)]
        keys += [few] * 3 + [3_000_000 + n for n in range(most - 2)]
        keys += [3_000_000 + n for n in range(8 * most - 8 - len(keys))]
        db = deltafix.connect(TEXT.partition("p(c)")[0])
        db.instance.arena.cells[at.PARTS_FROM] = 0
        with db.transaction() as tx:
            tx.insert("r", [(key, 0, n) for n, key in enumerate(keys)])
        with db.transaction() as tx:
            tx.add_rule("p(c) :- k(a), r(a, _, c).")
        while _late(db)[0,]:
            with db.transaction() as tx:
                tx.insert("k", [(-1 - _late(db)[0,],)])
            db.check_invariants()
        asked = {many, few, *others}
        with db.transaction() as tx:
            tx.insert("k", [(a,) for a in asked])
        assert set(db.rows("p")) == {(n,) for n, key in enumerate(keys) if key in asked}
