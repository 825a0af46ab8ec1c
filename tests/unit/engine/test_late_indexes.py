"""Indexes that rules bring to relations with rows: filled when one asks, and exact from then on.

Sees: an index that is filled for nothing, one that misses rows which came, went or were taken back
while it was late, and readers that find nothing in one.
"""

from __future__ import annotations

from random import Random

import pytest

import deltafix
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED

FIRST = """
.decl line(order: number, item: number) .input line
.decl item(number: number, kind: number) .input item
"""
MOST = 6000
"""Rows that an epoch may make."""
JOIN = ".decl sold(order: number, kind: number)\nsold(o, k) :- line(o, i), item(i, k), k > 2."


def late(db: deltafix.Database, relation: str) -> dict[tuple[int, ...], bool]:
    """By columns whether each index of a relation is late."""
    cells, number = db.instance.arena.cells, db.instance.linked.ids[relation]
    first = relation_cell(db.instance.arena, number, at.R_IDX)
    starts = (int(cells[at.IDXS]) + (first + n) * at.XSZ for n in range(1 << 10))
    return {
        columns: bool(cells[start + at.X_LATE])
        for columns, start in zip(db.plan.indexes[relation], starts, strict=False)
    }


def joined(lines: set[tuple], items: set[tuple]) -> list[tuple]:
    return sorted({(o, k) for o, i in lines for j, k in items if i == j and k > 2})


def loaded(rng: Random, count: int) -> tuple[deltafix.Database, set[tuple], set[tuple]]:
    """A database with rows, to which a rule came."""
    lines = {(n, rng.randrange(40)) for n in range(count)}
    items = {(n, rng.randrange(6)) for n in range(40)}
    db = deltafix.connect(FIRST, max_rows=MOST)
    with db.transaction() as tx:
        tx.insert("line", sorted(lines))
        tx.insert("item", sorted(items))
    with db.transaction() as tx:
        tx.add_rule(JOIN)
    return db, lines, items


def test_an_index_that_only_edits_ask_is_filled_by_the_first_of_them() -> None:
    db, lines, items = loaded(Random(1), 5000)
    with db:
        assert db.rows("sold") == joined(lines, items)
        asked = [*late(db, "line").values(), *late(db, "item").values()]
        assert sorted(asked) == [False, True]  # the rule was evaluated by the other
        (relation,) = [name for name in ("line", "item") if True in late(db, name).values()]
        new = (7, 99) if relation == "item" else (99, 7)
        other = "line" if relation == "item" else "item"
        with db.transaction() as tx:  # of the relation itself: it asks the other one
            tx.insert(relation, [new])
        assert True in late(db, relation).values()
        row = (5001, 7) if other == "line" else (8, 5)
        with db.transaction() as tx:
            tx.insert(other, [row])
        assert True not in late(db, relation).values()
        held = {"line": lines, "item": items}
        held[relation].add(new)
        held[other].add(row)
        assert db.rows("sold") == joined(lines, items)
        db.check_invariants()


@pytest.mark.parametrize("seed", range(4))
def test_oracle_edits_reads_and_rollbacks_around_late_indexes(seed: int) -> None:
    rng = Random(seed)
    db, lines, items = loaded(rng, rng.choice([3, 60, 600]))
    held = {"line": lines, "item": items}
    with db:
        for _ in range(60):
            name = rng.choice(["line", "item"])
            row = (rng.randrange(700), rng.randrange(41))
            if name == "item":
                row = (row[1], rng.randrange(6))
            tx = db.transaction(missing="ignore")
            if rng.random() < 0.5:
                tx.insert(name, [row])
            elif rng.random() < 0.9 and held[name]:
                row = rng.choice(sorted(held[name]))
                tx.delete(name, [row])
            else:
                tx.delete(name, sorted(held[name]))
            if rng.random() < 0.3:
                tx.rollback()
            else:
                tx.commit()
                held[name] = {*db.rows(name)}
            assert db.rows("sold") == joined(held["line"], held["item"])
            value = rng.randrange(41)
            found = db.select("line", (..., value))
            assert sorted(found) == sorted(one for one in held["line"] if one[1] == value)
            db.check_invariants()
            if rng.random() < 0.1:
                with pytest.raises(BudgetError):
                    _too_many(db)
                db.check_invariants()
            if rng.random() < 0.1:  # late again: the rule's indexes come anew
                with db.transaction() as tx:
                    tx.remove_rule(JOIN.partition("\n")[2])
                with db.transaction() as tx:
                    tx.add_rule(JOIN.partition("\n")[2])


def _too_many(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.insert("item", [(50, 5)])
        tx.insert("line", [(9000 + n, 50) for n in range(MOST + 1)])


def test_a_first_load_leaves_no_index_to_the_edits() -> None:
    rng = Random(2)
    with deltafix.connect(FIRST + JOIN + "\n.output sold\n") as db:
        with db.transaction() as tx:
            tx.insert("line", [(n, rng.randrange(40)) for n in range(3000)])
            tx.insert("item", [(n, rng.randrange(6)) for n in range(40)])
        for name in ("line", "item", "sold"):
            assert True not in late(db, name).values()


@pytest.mark.parametrize("before", [[], [(7, 8), (8, 9)]], ids=["rows that came", "all rows"])
def test_rows_that_go_in_the_transaction_that_brings_an_index_leave_it_too(before) -> None:
    """They stand in the table till the commit, which took them out of an index that had none."""
    with deltafix.connect(".decl e(x: number, y: number) .input e .decl r(x: number)") as db:
        with db.transaction() as tx:
            tx.insert("e", before)
        with db.transaction() as tx:
            tx.add_rule("r(x) :- e(x, 9).")
            tx.insert("e", [(2, 3)])
            tx.delete("e", [*before, (2, 3)])
        db.check_invariants()
        with db.transaction() as tx:
            tx.add_rule("r(y) :- r(x), e(x, y).")
        for row in ((4, 9), (4, 5), (6, 4)):
            with db.transaction() as tx:
                tx.insert("e", [row])
        assert db.rows("r") == [(4,), (5,), (9,)]
        db.check_invariants()


@pytest.mark.skipif(JIT_DISABLED, reason="70,000 rows take minutes there")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("keys", [300, 40_000])
def test_an_index_of_few_keys_and_one_of_many_are_filled_alike(keys: int, threads: int) -> None:
    """Rows of few keys are counted by key; a thread gives that up at the 32,769th."""
    rows = [(n, n * n % keys) for n in range(70_000)]
    groups: dict[int, list[tuple[int]]] = {}
    for n, key in rows:
        groups.setdefault(key, []).append((n,))
    with deltafix.connect(
        ".decl e(x: number, y: number) .input e\n.decl f(y: number) .input f\n"
        ".decl r(x: number) .output r\nr(x) :- f(y), e(x, y).",
        threads=threads,
    ) as db:
        with db.transaction() as tx:
            tx.insert("e", rows)
            tx.insert("f", [(1,)])
        for key in (0, 4, 9):
            before = db.rows("r")
            with db.transaction() as tx:
                tx.insert("f", [(key,)])
            assert db.rows("r") == sorted({*before, *groups[key]})
            assert db.last_epoch.derivations == len(groups[key])
        with db.transaction() as tx:
            tx.delete("e", [(n, key) for n, key in rows if key in (4, 9)])
        assert db.rows("r") == sorted({*groups[0], *groups[1]})
        db.check_invariants()
