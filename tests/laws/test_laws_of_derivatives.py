"""The derivative law for every way derivatives are made, and the sandwich in both directions."""

from __future__ import annotations

from itertools import product as points_of
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltafix.changes import (
    Derivative,
    SetChange,
    Tagged,
    between,
    booleans,
    compose,
    derivative,
    disjoint_union,
    greatest_derivative,
    integers,
    least_derivative,
    minus_derivative,
    naturals,
    pair,
    pointwise,
    precise_derivative,
    product,
    sets,
)
from deltafix.changes.derivative import (
    cases,
    constant,
    evaluation_first,
    evaluation_second,
    from_partials,
    identity,
    injection,
    partial_first,
    partial_second,
    projection,
)
from deltafix.changes.laws import derivative_law, sandwich_law
from deltafix.changes.sets import all_set_changes, all_subsets, kernel_leq
from deltafix.errors import ChangeError, IncompleteActionError, LawError
from deltafix.testing import check_derivative

small = st.integers(-5, 5)
VALUES = list(all_subsets("ab"))
CHANGES = list(all_set_changes("ab"))
ab = frozenset("ab")

square = derivative(
    lambda a: a * a, integers(), integers(), lambda a, d: 2 * a * d + d * d, "square"
)
triple = derivative(lambda a: 3 * a, integers(), integers(), lambda _, d: 3 * d, "triple")
ints = (integers(), integers())
times = from_partials(
    lambda ab: ab[0] * ab[1],
    lambda _, da, b: da * b,
    lambda a, _, db: a * db,
    sources=ints,
    target=integers(),
    name="times",
)
pairs = st.tuples(small, small)
tagged = st.builds(Tagged, st.integers(0, 1), small)
parity = derivative(
    lambda n: n % 2 == 1,
    naturals(),
    booleans(),
    lambda n, d: (d % 2 == 1 and n % 2 == 0, d % 2 == 1 and n % 2 == 1),
    "odd",
)

MADE: dict[str, tuple[Derivative[Any, Any, Any, Any], Any, Any]] = {
    "given rule": (square, small, small),
    "chain rule": (compose(triple, square), small, small),
    "chain rule, other way": (square.then(triple).then(square), small, small),
    "minus": (minus_derivative(abs, integers(), integers()), small, small),
    "pair": (pair(square, triple), small, small),
    "identity": (identity(integers()), small, small),
    "constant": (constant(7, integers(), integers()), small, small),
    "from partials": (times, pairs, pairs),
    "first partial": (partial_first(times, ints, 4), small, small),
    "second partial": (partial_second(times, ints, 4), small, small),
    "projection": (projection(1, *ints), pairs, pairs),
    "injection": (injection(1, *ints), small, small),
    "cases": (cases(square, triple), tagged, pairs),
    "pair after cases": (
        compose(times, pair(cases(square, triple), cases(triple, square))),
        tagged,
        pairs,
    ),
    "into booleans": (parity, st.integers(0, 9), st.integers(0, 9)),
}


@pytest.mark.parametrize("name", MADE)
def test_made_derivatives_keep_the_law(name: str) -> None:
    made, values, changes = MADE[name]
    report = check_derivative(made, values=values, changes=changes, regular=True, max_examples=25)
    assert report.laws == ("derivative_law", "regular_law")


def test_updated_reaches_the_new_result_without_calling_the_function() -> None:
    calls: list[int] = []

    def counted(a: int) -> int:
        calls.append(a)
        return 3 * a

    f = derivative(counted, integers(), integers(), lambda _, d: 3 * d)
    result = f.function(5)
    for step in range(10):
        result = f.updated(result, 5 + step, 1)
    assert result == 45
    assert calls == [5]


def test_a_wrong_rule_is_told_as_a_sentence() -> None:
    with pytest.raises(LawError) as caught:
        check_derivative(
            Derivative(lambda a: a * a, lambda a, d: 2 * a * d, *ints, "square"),
            values=small,
            changes=small,
        )
    assert str(caught.value) == (
        "square breaks the law derivative_law (`f(a ⊕ d) = f(a) ⊕ f'(a, d)`): at 0, square is 0; "
        "when the argument changes by (1), the derivative says (0), which makes 0, but square is "
        "then 1"
    )
    assert caught.value.example == (0, 1)


def test_a_plain_function_needs_its_rule_and_actions() -> None:
    with pytest.raises(ChangeError, match="with its rule, source= and target="):
        check_derivative(lambda a: a, values=small, changes=small)


def test_no_minus_operator_no_minus_derivative() -> None:
    with pytest.raises(IncompleteActionError, match="naturals has no minus operator"):
        derivative(lambda n: n, naturals(), naturals())


# --- sets: least, precise, greatest, and everything between ---------------------------------


def _complement(a: frozenset[str]) -> frozenset[str]:
    return ab - a


def _both(a: frozenset[str]) -> frozenset[str]:
    return ab if len(a) == 2 else frozenset()


FUNCTIONS = [lambda a: a, _complement, _both, lambda _: frozenset("a")]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_derivatives_of_a_set_function_are_exactly_those_in_the_sandwich(function: Any) -> None:
    """Corollary of section 3.2, at every point of a universe of two, against every candidate."""
    low = least_derivative(function, sets(), sets(), ab)
    high = greatest_derivative(function, sets(), sets())
    inside = 0
    for a, d in points_of(VALUES, CHANGES):
        for candidate in CHANGES:
            claimed = Derivative(function, lambda _a, _d, c=candidate: c, sets(), sets())
            fits = between(low, claimed, high, a, d)
            assert fits == bool(derivative_law(claimed, a, d))
            assert sandwich_law(low, claimed, high, a, d)
            inside += fits
    assert len(VALUES) * len(CHANGES) <= inside < len(VALUES) * len(CHANGES) ** 2


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_precise_derivative_is_least_in_the_kernel_order(function: Any) -> None:
    precise = precise_derivative(function, sets(), sets())
    low = least_derivative(function, sets(), sets(), ab)
    high = greatest_derivative(function, sets(), sets())
    for made in (low, precise, high):
        assert check_derivative(made, values=VALUES, changes=CHANGES).exhaustive
    more = 0
    for a, d in points_of(VALUES, CHANGES):
        for candidate in CHANGES:
            if between(low, lambda _a, _d, c=candidate: c, high, a, d):
                assert kernel_leq(precise(a, d), candidate)
                more += not kernel_leq(candidate, precise(a, d))
    assert more


def test_the_kernel_order_is_the_order_of_what_is_touched() -> None:
    """By the definition, over three atoms; the source's condition is not necessary."""
    values, changes = list(all_subsets("abc")), list(all_set_changes("abc"))
    kernels = {
        change: {(a, b) for a in values for b in values if change.apply(a) == change.apply(b)}
        for change in changes
    }
    apart = 0
    for low, high in points_of(changes, changes):
        assert kernel_leq(low, high) == (kernels[low] <= kernels[high])
        halves = low.added <= high.added and low.removed <= high.removed
        assert kernel_leq(low, high) or not halves
        apart += halves != kernel_leq(low, high)
    assert apart
    adds, removes = SetChange.of("a"), SetChange.of((), "a")
    assert kernels[adds] == kernels[removes]


def test_a_candidate_outside_the_sandwich_is_refused() -> None:
    low = least_derivative(_complement, sets(), sets(), ab)
    high = greatest_derivative(_complement, sets(), sets())
    at, change = frozenset[str](), SetChange.of("a")
    assert between(low, lambda _a, _d: SetChange.of("b", "a"), high, at, change)
    assert not between(low, lambda _a, _d: SetChange(), high, at, change)


def test_between_needs_an_order_on_changes() -> None:
    f = constant(Tagged(0, 1), integers(), disjoint_union(*ints))
    with pytest.raises(IncompleteActionError, match="no order on changes"):
        between(f, f, f, 1, 1)


# --- functions as values ---------------------------------------------------------------------


@given(small, small, small, small)
def test_both_derivatives_of_evaluation_agree_with_the_new_function(
    a: int, da: int, slope: int, shift: int
) -> None:
    """ev'₁ and ev'₂: `(f ⊕ δf)(a ⊕ da) = f(a) ⊕ ev'((f, a), (δf, da))`."""
    space = pointwise(integers(), range(-10, 11))

    def function_change(x: int) -> int:
        return slope * x + shift

    changed = space.apply(square.function, function_change)
    changed_derivative = minus_derivative(changed, integers(), integers())
    want = changed(a + da)
    assert square.function(a) + evaluation_first(square, a, function_change, da) == want
    assert (
        square.function(a) + evaluation_second(changed_derivative, a, function_change, da) == want
    )


def test_products_of_incomplete_actions_are_incomplete() -> None:
    assert product(integers(), integers()).complete
    assert not product(integers(), naturals()).complete
    assert pointwise(integers(), [1]).complete
    assert not disjoint_union(integers(), integers()).complete
