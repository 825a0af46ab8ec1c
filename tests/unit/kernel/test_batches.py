"""Heads that wait: same rows and counts as one after another, and nothing left behind."""

from __future__ import annotations

from random import Random

import pytest

import deltafix
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED

# As plain Python a buffer of the usual size takes ten seconds to walk, an edit as long as a load.
NODES, EDITS = (12, 5) if JIT_DISABLED else (30, 12)
WIDE = 3 << 14 if JIT_DISABLED else 6 << 20

CLOSURE = """
.decl edge(x: number, y: number)  .input edge
.decl path(x: number, y: number)  .output path
.decl ends(x: number, n: number)  .output ends
.decl twice(x: number)            .output twice
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
ends(x, n) :- edge(x, _), n = count : { path(x, _) }.
twice(x) :- path(x, y), path(y, x).
"""


def load(edges, *, start: int, cells: int, **bounds) -> deltafix.Database:
    """The closure of the edges, where heads wait from `start` created rows on."""
    db = deltafix.connect(CLOSURE, **bounds)
    db.instance.arena.cells[at.BATCH_FROM] = start
    db.instance.arena.cells[at.BATCH_CELLS] = cells
    with db.transaction() as tx:
        tx.insert("edge", edges)
    return db


def is_idle(db: deltafix.Database) -> bool:
    """Whether no head waits and no buffer is held."""
    relations = range(len(db.plan.relations))
    buffers = [relation_cell(db.instance.arena, r, at.R_BATCH) for r in relations]
    return not db.instance.arena.cells[at.BATCH] and not any(buffers)


@pytest.mark.parametrize("cells", [1, 3 * 256 * 5, WIDE])
@pytest.mark.parametrize("start", [0, 40])
def test_batches_of_any_size_give_what_one_after_another_gives(start: int, cells: int) -> None:
    rng = Random(f"{start} {cells}")
    edges = sorted({(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(2 * NODES)})
    with (
        load(edges, start=1 << 40, cells=cells) as single,
        load(edges, start=start, cells=cells) as batched,
    ):
        for _ in range(EDITS):
            assert is_idle(batched)
            batched.check_invariants()
            for name in ("path", "ends", "twice"):
                assert batched.rows(name) == single.rows(name)
            assert batched.last_epoch.changed == single.last_epoch.changed
            edit = rng.choice(edges)
            for db in (single, batched):
                with db.transaction() as tx:
                    if edit in db.rows("edge"):
                        tx.delete("edge", [edit])
                    else:
                        tx.insert("edge", [edit])
        assert single.last_epoch.epoch == batched.last_epoch.epoch == EDITS + 1


def test_a_load_finds_each_derivation_once_in_batches_too() -> None:
    """Counters of an evaluation from nothing do not depend on when heads are counted."""
    edges = [(x, (x * 7 + k) % 40) for x in range(40) for k in (1, 2, 5)]
    figures = []
    for start in (1 << 40, 0):
        with load(edges, start=start, cells=4000) as db:
            epoch = db.last_epoch
            figures.append((epoch.derivations, epoch.taken, dict(epoch.rules)))
    assert figures[0] == figures[1]


CHANGED = {
    "a view": """
        .decl a(x: number, y: number) .input a
        .decl b(x: number)            .input b
        .decl c(x: number, y: number) .output c
        c(x, y) :- b(x), a(x, y), b(y).
        c(y, x) :- b(x), a(x, y), !b(y).
    """,
    "recursion": """
        .decl a(x: number, y: number) .input a
        .decl b(x: number)            .input b
        .decl c(x: number, y: number) .output c
        c(x, y) :- a(x, y), b(x).
        c(x, z) :- c(x, y), a(y, z), b(y), c(y, z).
        c(y, x) :- c(x, y), b(y).
    """,
}


@pytest.mark.parametrize("cells", [1, 4000])
@pytest.mark.parametrize("text", CHANGED.values(), ids=CHANGED)
def test_what_a_change_derives_waits_where_it_takes_nothing_away(text: str, cells: int) -> None:
    rng = Random(cells)
    pairs = sorted({(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(4 * NODES)})
    found = []
    for start in (1 << 40, 0):
        with deltafix.connect(text, threads=1) as db:
            db.instance.arena.cells[at.BATCH_CELLS] = cells
            room = (
                int(db.instance.arena.cells[at.RELS])
                + db.instance.linked.ids["c"] * at.RSZ
                + at.R_BATCH_ROOM
            )
            db.instance.arena.cells[at.BATCH_FROM] = 1 << 40
            with db.transaction() as tx:
                tx.insert("a", pairs[::2])
                tx.insert("b", [(x,) for x in range(0, NODES, 5)])
            db.instance.arena.cells[at.BATCH_FROM] = start
            seen = []
            for came, gone in ((range(0, NODES, 2), []), (range(NODES), pairs[:4])):
                with db.transaction() as tx:
                    tx.insert("a", pairs[1::2] if gone else [])
                    tx.insert("b", [(x,) for x in came])
                    tx.delete("a", gone[::2])
                db.check_invariants()
                epoch = db.last_epoch
                seen.append((tx.delta, epoch.derivations, epoch.taken, dict(epoch.rules)))
                assert bool(db.instance.arena.cells[room]) == (start == 0), "heads waited"
                assert is_idle(db)
            found.append((seen, db.rows("c")))
    assert found[0] == found[1]


def test_a_load_over_its_bound_leaves_no_head_waiting() -> None:
    ring = [(x, (x + 1) % 30) for x in range(30)]
    with deltafix.connect(CLOSURE, max_rows=300) as db:
        db.instance.arena.cells[at.BATCH_FROM] = 0
        db.instance.arena.cells[at.BATCH_CELLS] = 4000
        with pytest.raises(BudgetError, match="max_rows=300"), db.transaction() as tx:
            tx.insert("edge", ring)
        assert is_idle(db)
        assert db.rows("path") == []
        with db.transaction() as tx:
            tx.insert("edge", ring[:10])
        assert len(db.rows("path")) == 55
        db.check_invariants()


LAST = """
.decl a(x: number)  .input a
.decl b(x: number)  .output b
.decl c(x: number)  .output c
b(x + 1), c(x + 1) :- a(x).
b(x) :- b(x), a(x), x > 99.
"""


@pytest.mark.parametrize("most", range(1, 10))
def test_a_bound_that_the_last_heads_of_all_pass_holds(most: int) -> None:
    """They were counted when nothing came behind: the epoch stood, and the next one failed."""
    with deltafix.connect(LAST, max_rows=most) as db:
        db.instance.arena.cells[at.BATCH_FROM] = 0
        with pytest.raises(BudgetError, match=f"max_rows={most} new"), db.transaction() as tx:
            tx.insert("a", [(x,) for x in range(5)])
        assert db.rows("b") == db.rows("a") == []
        with db.transaction() as tx:
            tx.delete("a", [])
        db.check_invariants()


def test_a_batch_makes_room_before_it_fills_a_part_of_the_table() -> None:
    """Heads of one partition share a part of the key table: without room it is one long run."""
    product = "p(x, y) :- a(x), a(y). .decl p(x: number, y: number) .decl a(x: number) .input a"
    with deltafix.connect(product) as db:
        db.instance.arena.cells[at.BATCH_FROM] = 0
        with db.transaction() as tx:
            tx.insert("a", [(7 * x,) for x in range(120)])
        relation = db.instance.linked.ids["p"]
        start = relation_cell(db.instance.arena, relation, at.R_PK)
        slots = db.instance.arena.cells[
            start : start + relation_cell(db.instance.arena, relation, at.R_PKCAP)
        ]
        homes = ((slots >> 32) * len(slots)) >> at.HASH_BITS
        away = [place - home for place, home in enumerate(homes.tolist()) if slots[place]]
        assert max(away) < 50  # without room made first it is 68; a product of 1,000: 6.5 s for 0.3
        assert db.count("p") == 120 * 120


def test_buffers_are_no_larger_than_what_their_relations_hold() -> None:
    """Of many relations in one stratum, most are small: a wide buffer for each costs its pages."""
    relations = 30
    text = [".decl edge(x: number, y: number) .input edge"]
    for k in range(relations):
        text.append(f".decl r{k}(x: number, y: number) .output r{k}")
        text.append(f"r{k}(y, x) :- r{(k + 1) % relations}(x, y), x < {100 + 100 * (k % 2)}.")
    text.append("r0(x, y) :- edge(x, y).")
    taken = []
    for start in (1 << 40, 1):
        with deltafix.connect("\n".join(text)) as db:
            db.instance.arena.cells[at.BATCH_FROM] = start
            before = int(db.instance.arena.cells[at.BUMP])
            with db.transaction() as tx:
                tx.insert("edge", [(x, x % 90) for x in range(2_000)])
            assert (db.count("r0"), db.count("r1")) == (2_000, 200)
            db.check_invariants()
            taken.append(int(db.instance.arena.cells[at.BUMP]) - before)
    least = 256 * 16 * 3 * 2  # words: partitions, entries, cells
    assert taken[1] - taken[0] < 2 * relations * least
