"""Iteration, its two partial derivatives, and least fixpoints with theirs, on finite lattices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.changes import (
    SetChange,
    derivative,
    integers,
    iterate,
    lfp,
    lfp_change,
    minus_derivative,
    precise_derivative,
    sets,
)
from deltafix.changes.fixpoint import iterate_change_in_f, iterate_change_in_n
from deltafix.changes.laws import factoring_law, fixpoint_law, least_law, lfp_change_law
from deltafix.changes.sets import all_subsets
from deltafix.errors import BudgetError, ChangeError

NODES = range(5)
edge = st.tuples(st.sampled_from(NODES), st.sampled_from(NODES))
graphs = st.frozensets(edge, max_size=8)
EMPTY: frozenset[int] = frozenset()
SETS: Any = sets(NODES)
EVERYTHING = SetChange(EMPTY, frozenset(NODES))


def _step(graph: frozenset[tuple[int, int]]) -> Any:
    """Reachability from 0, as a function on sets of nodes."""
    return lambda s: frozenset({0}) | {y for x, y in graph if x in s}


def _linear(graph: frozenset[tuple[int, int]]) -> Any:
    """The same, with a rule that looks only at what is new; growth only."""
    return derivative(
        _step(graph), SETS, SETS, lambda _, d: SetChange(frozenset(_step(graph)(d.added)) - {0})
    )


@settings(max_examples=60)
@given(graphs)
def test_lfp_by_increments_is_the_least_fixpoint(graph) -> None:
    f = precise_derivative(_step(graph), SETS, SETS)
    run = lfp(f, EMPTY)
    assert fixpoint_law(f, run.value)
    for other in all_subsets(NODES):
        verdict = least_law(f, run.value, other)
        assert verdict, verdict.sentence


@settings(max_examples=60)
@given(graphs)
def test_round_n_holds_the_nth_iterate_and_a_change_to_the_next(graph) -> None:
    f = precise_derivative(_step(graph), SETS, SETS)
    for at in lfp(f, EMPTY).rounds:
        assert at.value == iterate(f.function, at.number, EMPTY)
        assert SETS.apply(at.value, at.change) == iterate(f.function, at.number + 1, EMPTY)


@settings(max_examples=60)
@given(graphs)
def test_semi_naive_calls_the_function_once_and_meets_each_element_once(graph) -> None:
    met: list[int] = []

    def rule(_: Any, change: Any) -> Any:
        met.extend(change.added)
        return SetChange(_step(graph)(change.added) - {0} - frozenset(met))

    calls: list[Any] = []

    def function(value: Any) -> Any:
        calls.append(value)
        return _step(graph)(value)

    run = lfp(derivative(function, SETS, SETS, rule), EMPTY)
    assert run.value == lfp(precise_derivative(_step(graph), SETS, SETS), EMPTY).value
    assert calls == [EMPTY]
    assert sorted(met) == sorted(run.value)


@settings(max_examples=60)
@given(graphs, st.integers(0, 4), st.integers(0, 4))
def test_partial_derivative_of_iterate_in_n(graph, n, m) -> None:
    f = minus_derivative(_step(graph), SETS, SETS)
    change = iterate_change_in_n(f, n, m, EMPTY)
    start = iterate(f.function, n, EMPTY)
    assert SETS.apply(start, change) == iterate(f.function, n + m, EMPTY)


def _function_change(old, new) -> Any:
    return lambda value: SETS.difference(_step(new)(value), _step(old)(value))


@settings(max_examples=60)
@given(graphs, graphs, st.integers(0, 5))
def test_partial_derivative_of_iterate_in_f(old, new, n) -> None:
    f = minus_derivative(_step(old), SETS, SETS)
    change = iterate_change_in_f(f, _function_change(old, new), n, EMPTY)
    start = iterate(f.function, n, EMPTY)
    assert SETS.apply(start, change) == iterate(_step(new), n, EMPTY)


@settings(max_examples=60)
@given(graphs, graphs)
def test_the_derivative_of_lfp_from_the_least_change_is_a_derivative(old, new) -> None:
    """Theorem "Derivatives of least fixpoint operators": from ⊥ of the change order, always."""
    before = lfp(precise_derivative(_step(old), SETS, SETS), EMPTY).value
    after = precise_derivative(_step(new), SETS, SETS)
    run = lfp_change(after, before, _function_change(old, new), start=EVERYTHING)
    verdict = lfp_change_law(SETS, before, run.value, lfp(after, EMPTY).value)
    assert verdict, verdict.sentence


@settings(max_examples=60)
@given(graphs, graphs)
def test_from_the_zero_change_it_ends_at_a_fixpoint_no_smaller_or_says_that_it_never_ends(
    old, new
) -> None:
    """Theorem "Pseudo-derivatives": some fixpoint of the new function, where there is an end."""
    before = lfp(precise_derivative(_step(old), SETS, SETS), EMPTY).value
    after = precise_derivative(_step(new), SETS, SETS)
    try:
        run = lfp_change(after, before, _function_change(old, new), start=SetChange())
    except ChangeError:
        assert before - lfp(after, EMPTY).value  # only where something has to go
        return
    reached = SETS.apply(before, run.value)
    assert fixpoint_law(after, reached)
    assert lfp(after, EMPTY).value <= reached


def test_from_the_zero_change_a_cut_off_cycle_can_swing_for_ever() -> None:
    """1 goes, 2 comes because 1 was there, 1 comes because 2 was there, and so on."""
    old, new = frozenset({(0, 1)}), frozenset({(1, 2), (2, 1)})
    before = lfp(precise_derivative(_step(old), SETS, SETS), EMPTY).value
    after = precise_derivative(_step(new), SETS, SETS)
    with pytest.raises(ChangeError, match="comes back to the change of an earlier round"):
        lfp_change(after, before, _function_change(old, new), start=SetChange())
    right = lfp_change(after, before, _function_change(old, new), start=EVERYTHING)
    assert SETS.apply(before, right.value) == frozenset({0})


def test_from_the_zero_change_an_orphaned_cycle_stays() -> None:
    """Why ranks exist: 1 and 2 support each other, so nothing at all changes for `adjust`."""
    old, new = frozenset({(0, 1), (1, 2), (2, 1)}), frozenset({(1, 2), (2, 1)})
    before = lfp(precise_derivative(_step(old), SETS, SETS), EMPTY).value
    after = precise_derivative(_step(new), SETS, SETS)
    change = _function_change(old, new)
    assert lfp_change(after, before, change, start=SetChange()).value == SetChange()
    assert lfp(after, EMPTY).value == frozenset({0})
    right = lfp_change(after, before, change, start=EVERYTHING)
    assert SETS.apply(before, right.value) == frozenset({0})


def test_a_function_without_a_fixpoint_ends_at_its_bound_with_the_setting_named() -> None:
    grow = derivative(lambda n: n + 1, integers(), integers(), lambda _, d: d)
    with pytest.raises(BudgetError, match=r"no fixpoint after 7 rounds; the bound is max_rounds=7"):
        lfp(grow, 0, max_rounds=7)
    with pytest.raises(BudgetError, match="max_rounds=4"):
        lfp_change(grow, 0, lambda _: 1, start=0, max_rounds=4)


def test_the_linear_rule_is_enough_while_the_value_only_grows() -> None:
    graph = frozenset({(0, 1), (1, 2), (3, 4)})
    run = lfp(_linear(graph), EMPTY)
    assert run.value == frozenset({0, 1, 2})
    assert [sorted(at.change.added) for at in run.rounds] == [[0], [1], [2], []]


@settings(max_examples=60)
@given(graphs, graphs)
def test_a_fixpoint_over_another_is_the_fixpoint_of_both(graph, other) -> None:
    """Two graphs: what the first reaches are the roots of the second."""
    first = precise_derivative(_step(graph), SETS, SETS)

    def second(roots) -> Any:
        step = _step(other)
        return precise_derivative(lambda s: (step(s) - {0}) | roots, SETS, SETS)

    verdict = factoring_law(first, second, (EMPTY, EMPTY))
    assert verdict, verdict.sentence


def test_a_second_function_that_is_not_monotone_in_the_first_set_breaks_the_law() -> None:
    first = precise_derivative(_step(frozenset({(0, 1)})), SETS, SETS)

    def second(roots) -> Any:  # what is there while 1 is not, stays there
        return precise_derivative(
            lambda s: s | (frozenset({2}) if 1 not in roots else EMPTY), SETS, SETS
        )

    verdict = factoring_law(first, second, (EMPTY, EMPTY))
    assert not verdict
    assert "together they are ({0, 1}, {2}), one after the other ({0, 1}, {})" in verdict.sentence
