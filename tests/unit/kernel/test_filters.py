"""filters: rows pass over the rules in which no row meets them, and over no others.

Sees: a missing bit (a row that is not derived), and filters that keep nothing away.
"""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest

import deltafix
from deltafix.engine import link, tables
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED

KINDS = 12
NODES = 20 if JIT_DISABLED else 60
PROGRAM = "\n".join(
    [
        ".decl step(x: number, y: number) .input step",
        ".decl p(x: number, y: number) .output p",
        "p(x, y) :- step(x, y).",
        *(
            f".decl e{k}(x: number, y: number) .input e{k}\n"
            f"p({k}, z) :- p(x, y), e{k}(y, z), x != {k + NODES}."
            for k in range(KINDS)
        ),
    ]
)


def connect(many: int, cells: int = 1 << 10) -> deltafix.Database:
    """The program, with filters where so many rules ask by a column, of so many cells at first."""
    with patch.object(link, "_MANY", many), patch.object(tables, "_FILTER_CELLS", cells):
        return deltafix.connect(PROGRAM)


def given(rng: Random) -> dict[str, list[tuple[int, int]]]:
    """Steps, and for each rule few rows: most rows of `p` meet none of them."""
    rows = {"step": [(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(NODES)]}
    for k in range(KINDS):
        rows[f"e{k}"] = [(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(2)]
    return rows


@pytest.mark.parametrize("cells", [2, 1 << 10])
def test_filters_change_no_row_and_spare_most_looks(cells: int) -> None:
    rng = Random(f"filters {cells}")
    rows = given(rng)
    with connect(KINDS, cells) as with_filters, connect(KINDS + 1) as without:
        looks = []
        for db in (with_filters, without):
            assert bool(db.instance.arena.cells[at.N_FILTERS]) == (db is with_filters)
            with db.transaction() as tx:
                for name, some in rows.items():
                    tx.insert(name, some)
            looks.append(int(db.instance.arena.cells[at.C_TRIED]))
        assert looks[0] * 2 < looks[1]
        for _ in range(20):
            name = rng.choice(sorted(rows))
            row = (rng.randrange(NODES), rng.randrange(NODES))
            for db in (with_filters, without):
                with db.transaction() as tx:
                    (tx.delete if row in db.rows(name) else tx.insert)(name, [row])
                db.check_invariants()
            assert with_filters.rows("p") == without.rows("p")


def test_a_filter_grows_with_the_keys_and_keeps_them() -> None:
    with connect(KINDS, 2) as db:
        for first in range(0, 200, 40):
            with db.transaction() as tx:
                tx.insert("e0", [(1000 + first + n, 7) for n in range(40)])
            db.check_invariants()
        start = int(db.instance.arena.cells[at.FILTERS])
        assert int(db.instance.arena.cells[start + at.FILTER_CAP]) >= 200
        with db.transaction() as tx:
            tx.insert("step", [(NODES + 2, 1000 + n) for n in range(200)])
        assert (0, 7) in db.rows("p")
        assert db.count("p") == 201


def test_an_edit_of_rules_gives_a_filter_to_an_index_with_rows() -> None:
    with connect(KINDS + 1) as db:
        with db.transaction() as tx:
            tx.insert("e3", [(n, 5) for n in range(30)])
            tx.insert("step", [(70, 29)])
        assert not db.instance.arena.cells[at.N_FILTERS]
        with patch.object(link, "_MANY", KINDS + 1), db.transaction() as tx:
            tx.add_rule("p(90, z) :- p(_, y), e3(y, z).")
        assert db.instance.arena.cells[at.N_FILTERS]
        db.check_invariants()
        with db.transaction() as tx:
            tx.insert("step", [(71, n) for n in range(30)])
        assert {(3, 5), (90, 5)} <= set(db.rows("p"))
        db.check_invariants()
