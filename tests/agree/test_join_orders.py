"""agree_*: the variants of a clause that share what each found, and each planned alone.

Sees: what an order of one variant leaves for the next that is not its own: states, indexes that a
re-derivation found, checks that the head's variables let run.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.generators.strategies import FEATURES, random_program

from deltafix.datalog.program import Program
from deltafix.errors import ProgramError
from deltafix.plan.build import lower
from deltafix.plan.depend import layers
from deltafix.plan.derive import pivots
from deltafix.plan.ir import HEAD
from deltafix.plan.order import Indexes, Variants, unique, variant
from deltafix.rules.check import typed

PROGRAMS = 30


def copied(indexes: Indexes) -> Indexes:
    columns = {name: list(found) for name, found in indexes.columns.items()}
    return Indexes(columns, indexes.unique)


def test_agree_variants_of_a_clause_are_those_that_are_planned_alone() -> None:
    rng = Random("orders")
    shared = nodes = 0
    for _ in range(PROGRAMS):
        try:
            core = lower(typed(random_program(rng, rng.choice([1, 2, 3]), FEATURES)))
            ordered = layers(core)
        except ProgramError:
            continue
        indexes = Indexes({}, unique(core.relations, core.folds))
        for layer in ordered:
            for clause in layer.clauses if layer.plain else ():
                variants = Variants(layer, clause, indexes)
                triggers: list[int | None] = [position for position, _ in pivots(clause.body)]
                rng.shuffle(triggers)
                for trigger in (*triggers, HEAD, *triggers[:1], None):
                    before = copied(indexes)
                    together, alone = variants.of(trigger), variant(layer, clause, trigger, before)
                    assert together == alone, (str(clause), trigger)
                    assert indexes.columns == before.columns, (str(clause), trigger)
                    nodes += len(together.nodes)
                shared += len(triggers) > 2
    assert shared > 100
    assert nodes > 1000


@pytest.mark.parametrize("width", [3, 6])
def test_what_may_come_next_is_found_once_for_what_is_known(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a cycle of atoms one is found by nothing, by either end, or by both."""
    parts = ", ".join(f"e{n}(x{n}, x{(n + 1) % width})" for n in range(width))
    declared = " ".join(f".decl e{n}(x: number, y: number) .input e{n}" for n in range(width))
    core = lower(typed(Program.parse(f"{declared} .decl h(x: number) .output h h(x0) :- {parts}.")))
    (layer,) = (layer for layer in layers(core) if layer.clauses)
    made: list[int] = []
    find = Variants.way

    def way(self: Variants, position: int, *given: object, **more: object) -> object:
        made.append(position)
        return find(self, position, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Variants, "way", way)
    variants = Variants(layer, layer.clauses[0], Indexes())
    for trigger in range(width):
        variants.of(trigger)
    assert len(made) <= 4 * width
