"""The planner's delta rules are those of `changes.conjunction`, literal by literal.

`plan.derive` says of each body position which state it sees in the variant of a trigger; so does
`conjunction_terms`, whose law (each derivation counted once) is checked against the evaluator.
"""

from __future__ import annotations

import pytest

from deltafix import Program
from deltafix.changes import conjunction_terms
from deltafix.plan.build import plan
from deltafix.plan.clause import Absent, Match
from deltafix.plan.depend import layers
from deltafix.plan.derive import sees, triggers_below, triggers_within
from deltafix.plan.ir import Sees
from deltafix.plan.normalize import normalize
from deltafix.rules.check import typed

PROGRAM = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl c(x: number)
.decl p(x: number, y: number)
.decl q(x: number)
.input a
.input b
.input c
.output q
p(x, y) :- a(x, y).
p(x, z) :- p(x, y), a(y, z), p(z, z), b(x, z).
q(x) :- a(x, y), !c(y), p(y, x), x < y, b(y, x).
"""
READS = {
    Sees.LOWER_BEFORE: "old",
    Sees.SAME_BEFORE: "old",
    Sees.LOWER_AFTER: "new",
    Sees.SAME_AFTER: "new",
}


def _clauses():
    core = normalize(typed(Program.parse(PROGRAM)))
    return [(layer, clause) for layer in layers(core) for clause in layer.clauses]


@pytest.mark.parametrize(("layer", "clause"), _clauses(), ids=lambda value: str(value)[:40])
def test_every_variant_of_every_clause_is_a_term_of_the_conjunction(layer, clause) -> None:
    changing = [k for k, literal in enumerate(clause.body) if isinstance(literal, Match | Absent)]
    terms = conjunction_terms([isinstance(clause.body[k], Absent) for k in changing])
    triggers = sorted([*triggers_below(layer, clause), *triggers_within(layer, clause)])
    assert triggers == changing  # one variant per literal that can change: one per term
    for term, trigger in zip(terms, triggers, strict=True):
        planned = [
            "delta" if k == trigger else READS[sees(layer, clause, trigger, k)] for k in changing
        ]
        assert tuple(planned) == term.reads
        assert term.flips == isinstance(clause.body[trigger], Absent)


def test_the_plan_holds_exactly_these_variants() -> None:
    built = plan(typed(Program.parse(PROGRAM)))
    variants = sum(len(stage.lower) + len(stage.same) for stage in built.stages)
    assert variants == sum(
        sum(isinstance(literal, Match | Absent) for literal in clause.body)
        for _, clause in _clauses()
    )
