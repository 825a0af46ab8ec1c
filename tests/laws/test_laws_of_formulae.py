"""Formula derivatives against the naive evaluator, on random formulae and interpretations."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judges.formula_laws import (
    counted_once,
    formula_derivative_law,
    next_law,
    precise_law,
    simplify_law,
)

from deltafix.changes import (
    COUNTED,
    PRECISE,
    STANDARD,
    Interpretation,
    SetChange,
    conjunction_terms,
)
from deltafix.changes.counted import Counting
from deltafix.changes.formula import (
    BOTTOM,
    TOP,
    Aggregate,
    And,
    Constant,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Relation,
    Test,
    children,
    free_variables,
    relation_names,
)
from deltafix.changes.formula_derivative import differentiate

UNIVERSE = (0, 1)
SCHEMA = ("x", "y")
arguments = st.one_of(st.sampled_from(SCHEMA), st.sampled_from(UNIVERSE).map(Constant))
relations = st.one_of(
    st.builds(Relation, st.just("R"), st.tuples(arguments)),
    st.builds(Relation, st.sampled_from(["S", "T"]), st.tuples(arguments, arguments)),
)
leaves = st.one_of(
    st.sampled_from([TOP, BOTTOM]),
    relations,
    st.builds(Test, st.sampled_from(["=", "<", "!="]), st.sampled_from(SCHEMA), arguments),
)


def _larger(parts: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    return st.one_of(
        st.builds(And, parts, parts),
        st.builds(Or, parts, parts),
        st.builds(Not, parts),
        st.builds(Exists, st.sampled_from(SCHEMA), parts),
        st.builds(Forall, st.sampled_from(SCHEMA), parts),
        st.builds(
            Aggregate,
            st.just("x"),
            st.sampled_from(["count", "sum", "min", "max"]),
            st.just("p"),
            st.just(("y",)),
            parts,
            st.just(Relation("S", ("y", "p"))),
        ),
    )


formulae = st.recursive(leaves, _larger, max_leaves=6)


@st.composite
def interpretations(draw: st.DrawFn, *, precise: bool = False) -> Interpretation:
    """Rows of R/1, S/2, T/2 over two values, and disjoint changes (precise ones on request)."""
    rows: dict[str, frozenset[tuple[Hashable, ...]]] = {}
    changes: dict[str, SetChange[tuple[Hashable, ...]]] = {}
    for name, width in (("R", 1), ("S", 2), ("T", 2)):
        every = st.frozensets(st.tuples(*[st.sampled_from(UNIVERSE)] * width))
        rows[name], added, removed = draw(every), draw(every), draw(every)
        if precise:
            added, removed = added - rows[name], removed & rows[name]
        changes[name] = SetChange(added - removed, removed - added)
    return Interpretation(UNIVERSE, rows, changes)


@settings(max_examples=60)
@given(formulae, interpretations(), st.sampled_from([STANDARD, PRECISE]))
def test_oracle_both_rule_tables_give_disjoint_derivatives(formula, at, rules) -> None:
    verdict = formula_derivative_law(formula, SCHEMA, at, rules)
    assert verdict, verdict.sentence


@settings(max_examples=50)
@given(formulae, interpretations())
def test_oracle_next_is_the_formula_read_after_the_change(formula, at) -> None:
    verdict = next_law(formula, SCHEMA, at)
    assert verdict, verdict.sentence


@settings(max_examples=50)
@given(formulae, interpretations(precise=True))
def test_oracle_precise_rules_add_and_remove_nothing_idly(formula, at) -> None:
    verdict = precise_law(formula, SCHEMA, at, PRECISE)
    assert verdict, verdict.sentence


@settings(max_examples=60)
@given(formulae, interpretations())
def test_oracle_simplifying_keeps_the_meaning(formula, at) -> None:
    verdict = simplify_law(formula, SCHEMA, at)
    assert verdict, verdict.sentence


MIRRORED = {**COUNTED, And: Counting(1, "new", "old")}
"""What deletions would have, processed one row at a time."""

literals = st.one_of(relations, relations.map(Not))


@settings(max_examples=50)
@given(
    st.lists(literals, min_size=1, max_size=4),
    interpretations(precise=True),
    st.sampled_from([COUNTED, MIRRORED]),
)
def test_oracle_the_delta_rules_of_a_body_count_each_derivation_once(body, at, counted) -> None:
    """With counts, not only as sets: the reason why a planner takes these and not the ∧ rule."""
    terms = conjunction_terms(body, counted)
    verdict = counted_once(terms, body, SCHEMA, at)
    assert verdict, verdict.sentence


def test_mixing_the_two_conventions_counts_twice_or_never() -> None:
    body = [Relation("R", ("x",)), Relation("S", ("x", "y"))]
    at = Interpretation(
        UNIVERSE,
        {"R": frozenset(), "S": frozenset()},
        {"R": SetChange.of([(0,)]), "S": SetChange.of([(0, 1)])},
    )
    old, new = (conjunction_terms(body, counted) for counted in (COUNTED, MIRRORED))
    assert counted_once(old, body, SCHEMA, at)
    assert counted_once(new, body, SCHEMA, at)
    twice, never = (old[0], new[1]), (new[0], old[1])
    assert "is counted 2 times" in counted_once(twice, body, SCHEMA, at).sentence
    assert "is counted 0 times" in counted_once(never, body, SCHEMA, at).sentence


def test_the_delta_rules_print_as_one_writes_them() -> None:
    r, s = Relation("R", ("x",)), Relation("S", ("x",))
    terms = conjunction_terms([r, Not(s), r])
    assert [str(term) for term in terms] == [
        "+ Δ1, X(2), X(3)",
        "- 1, Δ2, X(3)",
        "+ 1, 2, Δ3",
    ]
    mirrored = conjunction_terms([r, Not(s), r], MIRRORED)
    assert [str(term) for term in mirrored] == ["+ Δ1, 2, 3", "- X(1), Δ2, 3", "+ X(1), X(2), Δ3"]


def test_replacing_each_recursive_call_by_its_delta_is_not_a_derivative() -> None:
    """The folklore rule the introduction warns of: it breaks under negation."""
    wrong = {
        **STANDARD,
        Not: replace(
            STANDARD[Not], up=lambda f, d: Not(d.up(f.body)), down=lambda f, d: Not(d.down(f.body))
        ),
    }
    at = Interpretation(UNIVERSE, {"R": frozenset()}, {"R": SetChange.of([(0,)])})
    verdict = formula_derivative_law(Not(Relation("R", ("x",))), ("x",), at, wrong)
    assert not verdict
    assert "¬R(x)" in verdict.sentence


def test_the_generator_reaches_every_kind_of_formula() -> None:
    """The property tests above are worth something only if their formulae are varied."""
    seen: set[str] = set()

    @settings(max_examples=200, derandomize=True, database=None)
    @given(formulae)
    def look(formula: Formula) -> None:
        pending = [formula]
        while pending:
            part = pending.pop()
            seen.add(type(part).__name__)
            pending.extend(children(part))
        assert free_variables(formula) <= {"x", "y"}
        assert relation_names(formula) <= {"R", "S", "T"}
        differentiate(formula)

    look()
    assert seen == {
        "Truth", "Relation", "Test", "And", "Or", "Not", "Exists", "Forall", "Aggregate",
    }  # fmt: skip


@pytest.mark.parametrize("state", ["up", "down", "next"])
def test_a_derivative_is_not_differentiated_again_by_accident(state) -> None:
    with pytest.raises(ValueError, match="itself part of a derivative"):
        differentiate(Relation("R", ("x",), state))


def test_broken_laws_are_told_as_sentences() -> None:
    r, at = Relation("R", ("x",)), Interpretation(UNIVERSE, {"R": frozenset({(0,)})}, {})
    grows = Interpretation(UNIVERSE, {"R": frozenset()}, {"R": SetChange.of([(0,)])})
    body = replace(STANDARD[Not], up=lambda f, _: f.body, down=lambda f, _: f.body)
    both = {**STANDARD, Not: body}
    assert "is not a change" in formula_derivative_law(Not(r), ("x",), at, both).sentence
    idle = precise_law(
        Or(r, r),
        ("x",),
        Interpretation(UNIVERSE, {"R": frozenset({(0,)})}, {"R": SetChange.of([(0,)])}),
        STANDARD,
    )
    assert "says idly add {(0,)}" in idle.sentence
    twice = conjunction_terms([r]) * 2
    assert "is counted 2 times" in counted_once(twice, [r], ("x",), grows).sentence
