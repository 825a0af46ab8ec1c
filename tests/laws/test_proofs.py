"""Each derivative rule is proved by z3 for all relations, and a wrong rule is found."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.judges.formula_laws import formula_derivative_law

from deltafix.changes import PRECISE, STANDARD, Interpretation, differentiate, next_of
from deltafix.changes.counted import COUNTED, Counting
from deltafix.changes.formula import Aggregate, And, Exists, Forall, Not, Or, Relation, exists
from deltafix.changes.sets import SetChange
from deltafix.changes.simplify import simplify
from deltafix.changes.symbolic import (
    RULE_SHAPES,
    equivalent,
    prove,
    prove_counts,
    prove_rules,
    rule_table,
)

pytest.importorskip("z3", reason="the extra deltafix[proofs]")


@pytest.mark.parametrize(("rules", "count"), [(STANDARD, 36), (PRECISE, 40)])
def test_every_rule_is_proved_for_all_relations(rules, count) -> None:
    proofs = prove_rules(rules)
    assert [proof for proof in proofs if not proof] == []
    assert len(proofs) == count
    assert {proof.rule for proof in proofs} == set(RULE_SHAPES)


def test_the_rules_marked_imprecise_are_exactly_the_imprecise_ones() -> None:
    """† in the figure stands on ↑∨ and ↑∃; by duality ↓∀, and ↑ of aggregates."""
    imprecise = {
        (name, claim)
        for name, shape in RULE_SHAPES.items()
        for claim in ("precise up", "precise down")
        if not prove(shape, claim)
    }
    assert imprecise == {
        ("∨", "precise up"),
        ("∃", "precise up"),
        ("∀", "precise down"),
        ("aggregate", "precise up"),
    }
    marked = {
        (name, f"precise {side}")
        for name, shape in RULE_SHAPES.items()
        for side, precise in (
            ("up", STANDARD[type(shape)].up_precise),
            ("down", STANDARD[type(shape)].down_precise),
        )
        if not precise
    }
    assert marked == imprecise


WRONG = {
    # the product rule without X: both sides new is missed
    "∧": {And: replace(STANDARD[And], up=lambda f, d: Or(
        And(d.up(f.left), f.right), And(f.left, d.up(f.right))))},
    # the dual of ↓∧ without the guard: what the other side still holds is removed
    "∨": {Or: replace(STANDARD[Or], down=lambda f, d: Or(d.down(f.left), d.down(f.right)))},
    # negation that forgets to swap
    "¬": {Not: replace(STANDARD[Not], up=STANDARD[Not].down, down=STANDARD[Not].up)},
    # ↓∃ without re-reading the new state: the other witnesses are forgotten
    "∃": {Exists: replace(
        STANDARD[Exists], down=lambda f, d: Exists(f.variable, d.down(f.body)))},
    # ∀ as if it were ∃
    "∀": {Forall: replace(
        STANDARD[Forall], up=lambda f, d: Exists(f.variable, d.up(f.body)))},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_deliberately_wrong_rule_is_found_with_a_small_counterexample(name) -> None:
    rules = {**STANDARD, **WRONG[name]}
    shape = RULE_SHAPES[name]
    proof = prove(shape, "derivative", rules=rules, name=name)
    assert not proof
    assert proof.counterexample is not None
    # at most two values are needed, and the sentence says where it goes wrong
    assert proof.counterexample.startswith(("values 0..0;", "values 0..1;"))
    assert "the derivative adds" in proof.counterexample
    # the other rules are still proved
    others = RULE_SHAPES.keys() - {name, "aggregate"}
    assert all(prove(RULE_SHAPES[other], rules=rules) for other in others)


def test_the_source_aggregate_rule_is_found_wrong() -> None:
    """Section 4.3 prints `∃vs.(T ∧ ↑U) ∧ agg`; groups that lose members get no new result."""
    printed = replace(
        STANDARD[Aggregate],
        up=lambda f, d: And(exists((*f.over, f.value), And(f.domain, d.up(f.body))), d.next(f)),
    )
    rules = {**STANDARD, Aggregate: printed}
    assert not prove(RULE_SHAPES["aggregate"], "derivative", rules=rules)
    # the same without z3: the larger of two rows goes, and nothing says the maximum is now 1
    largest = Aggregate("r", "max", "p", ("y",), Relation("T", ("y",)), Relation("U", ("y", "p")))
    at = Interpretation(
        (1, 2),
        {"T": frozenset({(1,), (2,)}), "U": frozenset({(1, 1), (2, 2)})},
        {"U": SetChange.of((), [(2, 2)])},
    )
    assert not formula_derivative_law(largest, ("r",), at, rules)
    assert formula_derivative_law(largest, ("r",), at, STANDARD)


def test_next_pushed_inwards_is_the_source_definition_of_next() -> None:
    for shape in RULE_SHAPES.values():
        change = differentiate(shape, simplified=False)
        assert equivalent(next_of(shape), And(Or(shape, change.up), Not(change.down)))


def test_simplified_derivatives_are_equivalent_to_the_plain_ones() -> None:
    for shape in RULE_SHAPES.values():
        plain, simple = differentiate(shape, simplified=False), differentiate(shape)
        assert equivalent(plain.up, simple.up)
        assert equivalent(plain.down, simple.down)
    assert not equivalent(RULE_SHAPES["∧"], RULE_SHAPES["∨"])
    assert equivalent(simplify(Not(Not(RULE_SHAPES["∃"]))), RULE_SHAPES["∃"])


def test_every_entry_of_the_counts_is_proved_for_all_numbers_of_derivations() -> None:
    proofs = prove_counts()
    assert [proof for proof in proofs if not proof] == []
    assert [proof.rule for proof in proofs] == [kind.__name__ for kind in COUNTED]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (And, Counting(1, "old", "old")),  # two parts that are both new are missed
        (And, Counting(1, "new", "new")),  # and are found twice
        (And, Counting(-1, "old", "new")),
        (Or, Counting(0)),
        (Not, Counting(1)),
        (Exists, Counting(-1)),
        (Relation, Counting(0)),
    ],
)
def test_a_wrong_count_is_found_with_a_small_counterexample(kind, wrong) -> None:
    refuted = [proof for proof in prove_counts({**COUNTED, kind: wrong}) if not proof]
    assert [proof.rule for proof in refuted] == [kind.__name__]
    assert "the count changes by" in refuted[0].counterexample
    counts = re.findall(r"= (\d+)", refuted[0].counterexample)
    assert set(counts) <= {"0", "1"}


def test_the_table_of_the_documentation_is_printed_from_the_entries() -> None:
    page = (Path(__file__).parents[2] / "docs/concepts/derivatives.md").read_text("utf-8")
    assert rule_table() in page
    assert rule_table().count("†") == 4
