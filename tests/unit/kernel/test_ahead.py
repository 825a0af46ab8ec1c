"""Probes of rows to come: of slots, buckets and rows that the join will visit, and of no others.

The functions run as plain Python here, and what they ask for is written down.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import deltafix
from deltafix.kernel import ahead
from deltafix.kernel import layout as at
from deltafix.kernel.index import bucket_start, idx_find
from deltafix.kernel.keys import hash_words

# From a row of `left` one rule goes on in `near` or in `far`, whichever has fewer rows for x.
TEXT = """
.decl left(x: number, y: number)   .input left
.decl near(x: number, y: number)   .input near
.decl far(x: number, y: number)    .input far
.decl out(x: number, y: number)    .output out
out(x, y) :- left(x, y).
out(y, z) :- out(x, y), near(x, z), far(x, z).
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cells that were asked for, in order."""
    cells: list[int] = []
    monkeypatch.setattr(ahead, "prefetch", lambda array, cell: cells.append(int(cell)))
    return cells


class Loaded:
    """An open database, its row numbers, and where they lie."""

    def __init__(self) -> None:
        self.rows = {
            "left": [(x, x + 20) for x in range(12)],
            # x = 7: one row near and four far; 8: the other way round; 9: none far
            "near": [(7, 1), *((8, n) for n in range(4)), (9, 1), (9, 2)],
            "far": [*((7, n) for n in range(4)), (8, 1)],
        }
        self.db = deltafix.connect(TEXT)
        with self.db.transaction() as tx:
            for name, rows in self.rows.items():
                tx.insert(name, rows)
        self.words, self.cells = self.db.instance.arena.words, self.db.instance.arena.cells
        self.program = self.db.instance.linked.program
        stages = self.program[self.program[1] :][: self.program[0]]
        self.out = self.db.instance.linked.ids["out"]
        (self.stage,) = (t for t in stages if self.program[t + at.T_RECURSIVE])
        rb = self.cells[at.RELS] + self.out * at.RSZ
        self.indexes = int(self.cells[rb + at.R_NIDX])
        self.cells[at.AHEAD_FROM] = 0
        ahead.forget_probes(self.cells)

    def a_row(self, x: int) -> tuple[int, int]:
        """A row of `left`, and so of `out`, from x."""
        return next(row for row in self.rows["left"] if row[0] == x)

    def row_cell(self, name: str, row: int) -> int:
        rb = self.cells[at.RELS] + self.db.instance.linked.ids[name] * at.RSZ
        return int(self.cells[rb + at.R_ROWS] + row * self.cells[rb + at.R_STRIDE]) >> 1

    def number(self, name: str, row: tuple[int, int]) -> int:
        rb = self.cells[at.RELS] + self.db.instance.linked.ids[name] * at.RSZ
        for number in range(int(self.cells[rb + at.R_N])):
            cell = self.row_cell(name, number)
            columns = self.words[2 * cell + at.COLS :][:2]
            if tuple(columns.tolist()) == row and self.cells[cell] & at.NOW:
                return number
        raise LookupError(row)

    def slot(self, name: str, x: int) -> int:
        """The slot of `x` in the index by the first column, or -1."""
        rb = self.cells[at.RELS] + self.db.instance.linked.ids[name] * at.RSZ
        index = int(self.cells[rb + at.R_IDX])
        self.words[at.KEY] = x
        h = hash_words(self.words, at.KEY, 1)
        return int(idx_find(self.words, self.cells, index, at.KEY, h))

    def bucket(self, name: str, x: int) -> int:
        slot = self.slot(name, x)
        return bucket_start(self.cells, (int(self.cells[slot]) & 0xFFFFFFFF) - 1)

    def ask_slots(self, row: tuple[int, int]) -> None:
        """Make the first probes of a row of `out`, as number 5 of those to come."""
        start = int(self.program[self.program[self.stage + at.T_SAME]])
        rules = int(self.program[start])
        ahead._ask_slots(
            self.words, self.cells, self.program, 5, start + 1, rules, self.out,
            self.number("out", row),
        )  # fmt: skip

    def cells_of(self, name: str, x: int) -> set[int]:
        pairs = [row for row in self.rows[name] if row[0] == x]
        return {self.row_cell(name, self.number(name, row)) for row in pairs}


def delta_rule(loaded: Loaded) -> int:
    """The delta rule for a row of `out`."""
    start = int(loaded.program[loaded.program[loaded.stage + at.T_SAME]])
    return int(loaded.program[start + 1])


@pytest.fixture
def loaded() -> Iterator[Loaded]:
    found = Loaded()
    yield found
    found.db.close()


@pytest.mark.parametrize(("x", "shorter", "longer"), [(7, "near", "far"), (8, "far", "near")])
def test_probes_go_on_in_the_literal_that_the_join_will_choose(
    loaded: Loaded, asked: list[int], x: int, shorter: str, longer: str
) -> None:
    loaded.ask_slots(loaded.a_row(x))
    # The slot of the hash itself; that of the key may be one of those behind it.
    for cell, name in zip(asked[loaded.indexes :], ("near", "far"), strict=True):
        assert 0 <= loaded.slot(name, x) - cell < 16
    asked.clear()
    ahead._ask_buckets(loaded.words, loaded.cells, 5)
    # One row has no bucket: it is asked for. The row itself is alone with its keys.
    own = {loaded.row_cell("out", loaded.number("out", loaded.a_row(x)))}
    assert set(asked) == loaded.cells_of(shorter, x) | own
    assert len(loaded.cells_of(longer, x)) == 4
    asked.clear()
    ahead._ask_rows(loaded.words, loaded.cells, 5)
    assert asked == []


def test_a_bucket_is_asked_for_before_its_rows(loaded: Loaded, asked: list[int]) -> None:
    with loaded.db.transaction() as tx:
        loaded.rows["near"] += [(7, 2), (7, 3)]
        tx.insert("near", [(7, 2), (7, 3)])
    loaded.ask_slots(loaded.a_row(7))
    asked.clear()
    ahead._ask_buckets(loaded.words, loaded.cells, 5)
    assert asked[-1] == loaded.bucket("near", 7) >> 1
    asked.clear()
    ahead._ask_rows(loaded.words, loaded.cells, 5)
    assert set(asked) == loaded.cells_of("near", 7)


@pytest.mark.parametrize("x", [9, 11])
def test_nothing_is_asked_for_where_a_literal_has_no_row(
    loaded: Loaded, asked: list[int], x: int
) -> None:
    loaded.ask_slots(loaded.a_row(x))
    assert len(asked) == loaded.indexes + 2
    asked.clear()
    ahead._ask_buckets(loaded.words, loaded.cells, 5)
    assert asked == [loaded.row_cell("out", loaded.number("out", loaded.a_row(x)))]
    asked.clear()
    ahead._ask_rows(loaded.words, loaded.cells, 5)
    assert asked == []


def test_probes_of_another_row_are_not_followed(loaded: Loaded, asked: list[int]) -> None:
    loaded.ask_slots(loaded.a_row(7))
    asked.clear()
    ahead._ask_buckets(loaded.words, loaded.cells, 5 + at.RING_ROWS)
    ahead.forget_probes(loaded.cells)
    ahead._ask_buckets(loaded.words, loaded.cells, 5)
    assert asked == []


def test_the_slots_of_all_rows_of_a_literal_are_asked_for_together(
    loaded: Loaded, asked: list[int]
) -> None:
    """Four rows of `far` are tried against `near`, whose whole key is bound then."""
    start = delta_rule(loaded)
    node = int(loaded.program[start + at.V_NODE])
    candidates = loaded.program[loaded.program[node + 3] :][: loaded.program[node + 2]]
    far = loaded.db.instance.linked.ids["far"]
    (candidate,) = (c for c in candidates.tolist() if loaded.program[c + at.K_REL] == far)
    slot = loaded.slot("far", 7)
    level = int(loaded.cells[at.STACK])
    ref = (int(loaded.cells[slot]) & 0xFFFFFFFF) - 1
    loaded.cells[level : level + 5] = (candidate, 1, 0, 4, ref)
    loaded.words[loaded.cells[at.VARS] :][:4] = 7
    ahead.ask_children(loaded.words, loaded.cells, loaded.program, level)
    rb = loaded.cells[at.RELS] + loaded.db.instance.linked.ids["near"] * at.RSZ
    table, cap = int(loaded.cells[rb + at.R_PK]), int(loaded.cells[rb + at.R_PKCAP])
    homes = []
    for row in loaded.rows["far"][:4]:
        loaded.words[at.KEY : at.KEY + 2] = row
        homes.append(table + ((hash_words(loaded.words, at.KEY, 2) * cap) >> at.HASH_BITS))
    assert sorted(asked) == sorted(homes)


def test_small_indexes_are_left_to_the_cache(loaded: Loaded, asked: list[int]) -> None:
    loaded.cells[at.AHEAD_FROM] = 1 << 14
    loaded.ask_slots(loaded.a_row(7))
    assert asked == []
