"""Rows searched a block at a time find what rows one after another find, at the same cost."""

from __future__ import annotations

from random import Random

import pytest

import deltafix
from deltafix.engine import link, tables
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED

ROWS = 200 if JIT_DISABLED else 500
BODIES = {
    "one literal": "a(x, y), b(y, z)",
    "the shortest of several": "a(x, y), b(y, z), b(x, z)",
    "a constant in the row": "a(x, y), b(y, z), a(3, x)",
    "one variable twice": "a(x, x), b(x, z), y = x",
    "a comparison first": "a(x, y), x < y, b(y, z)",
    "a value bound first": "a(x, y), z = y + 1, b(y, z)",
    "an absent row first": "a(x, y), !b(x, y), b(y, z)",
    "by its key": "a(x, y), b(y, x), z = 1",
    "no column in common": "a(x, y), c(z)",
    "nothing else": "a(x, y), z = 7",
    "a constant in the key": "a(x, y), b(y, 4), z = 4",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=[*BODIES])
def test_blocks_find_what_rows_find(body: str) -> None:
    text = f"""
    .decl a(x: number, y: number) .input a
    .decl b(x: number, y: number) .input b
    .decl c(x: number) .input c
    .decl out(x: number, y: number, z: number) .output out
    out(x, y, z) :- {body}.
    """
    rng = Random(body)
    facts = {
        "a": sorted({(rng.randrange(30), rng.randrange(30)) for _ in range(ROWS)}),
        "b": sorted({(rng.randrange(30), rng.randrange(30)) for _ in range(ROWS // 2)}),
        "c": [(1,), (2,)],
    }
    found = []
    for lanes in (0, 1, 3):
        with deltafix.connect(text) as db:
            cells = db.instance.arena.cells
            cells[at.LANES], cells[at.SHARE_FROM] = lanes, 1
            cells[at.BATCH_FROM] = cells[at.AHEAD_FROM] = 0
            with db.transaction() as tx:
                for name, rows in facts.items():
                    tx.insert(name, rows)
            work = cells[[at.C_TRIED, at.C_PROBED, at.C_DERIVATIONS]].tolist()
            found.append((db.rows("out"), work))
            db.check_invariants()
    assert found[0][0]
    assert found[0] == found[1] == found[2]


def test_filters_leave_rules_out_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six rules ask by the same column: what none of their indexes has is not searched for."""
    monkeypatch.setattr(link, "_MANY", 6)
    monkeypatch.setattr(tables, "_FILTER_CELLS", 2)
    rules = "".join(
        f".decl k{n}(x: number, y: number) .input k{n} out(x, z) :- a(x, y), k{n}(y, z)."
        f"a(x, z) :- a(x, y), k{n}(y, z), z < 3."
        for n in range(6)
    )
    text = f".decl a(x: number, y: number) .input a .decl out(x: number, y: number) {rules}"
    found = []
    for lanes in (0, 1):
        with deltafix.connect(text) as db:
            cells = db.instance.arena.cells
            cells[at.LANES], cells[at.SHARE_FROM], cells[at.BATCH_FROM] = lanes, 1, 0
            with db.transaction() as tx:
                for n in range(6):
                    tx.insert(f"k{n}", [(n, 10 * n + z) for z in range(4)])
                tx.insert("a", [(x, x % 40) for x in range(ROWS)])
            found.append(set(db.rows("out")))
            tried = int(cells[at.C_TRIED])
    assert found[0] == found[1]
    assert len(found[0]) > ROWS // 10
    assert tried < 6 * ROWS
