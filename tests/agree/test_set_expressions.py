"""oracle_*: random expressions of set operators, maintained under random edits.

The judge evaluates each operator by its definition (`random_sets`). Sees: an operator, a nested or
mutual `lfp`, or a difference inside one whose rules mean another set, or drift under edits.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.generators.random_sets import REDUCERS, VALUES, WIDTHS, meant, random_set, written

import deltafix
from deltafix.rules.operators import lfp

PROGRAMS = 12
EDITS = 6


@pytest.mark.parametrize("seed", range(10))
def test_oracle_set_expressions_are_maintained(seed):
    rng = Random(seed)
    kinds: set[str] = set()
    for _ in range(PROGRAMS):
        node = random_set(rng, rng.choice((1, 2)), 4)
        kinds |= kinds_of(node)
        program = program_of(node)
        rows: dict[str, set] = {name: set() for name in WIDTHS}
        with deltafix.connect(program, reducers=REDUCERS) as db:
            for _ in range(EDITS):
                with db.transaction() as tx:
                    for name, width in WIDTHS.items():
                        gone = {row for row in rows[name] if rng.random() < 0.3}
                        new = {
                            tuple(rng.choices(range(VALUES), k=width))
                            for _ in range(rng.randint(0, 3))
                        }
                        tx.delete(name, sorted(gone))
                        tx.insert(name, sorted(new))
                        rows[name] = (rows[name] - gone) | new
                assert set(db.rows("out")) == meant(node, rows), program.show()
    assert len(kinds) > 8


def program_of(node: tuple) -> deltafix.Program:
    with deltafix.Program() as program:
        env = {"r": program.relation("r", a=int), "e": program.relation("e", a=int, b=int)}
        lfp(lambda _: written(node, env), name="out")
    return program


def kinds_of(node: tuple) -> set[str]:
    parts = [part for part in node[1:] if isinstance(part, tuple) and part]
    inner = (kinds_of(part) for part in parts if isinstance(part[0], str) and len(part) > 1)
    return {node[0]}.union(*inner)
