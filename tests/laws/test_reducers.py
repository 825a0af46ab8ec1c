"""Every built-in reducer keeps its laws; every way to break one is found and said."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import ReducerError
from deltafix.reactive import (
    ApproxDistinct,
    ApproxQuantile,
    Bag,
    Collection,
    Count,
    Distinct,
    First,
    HeavyHitters,
    Histogram,
    Last,
    Max,
    Mean,
    Median,
    Mergeable,
    Min,
    Partial,
    Quantile,
    Sum,
    TopK,
    Union,
    Variance,
    WellFormed,
    check_reducer,
    contramap,
    enriched,
    group_of,
    product,
    reducer,
    scaled,
    where,
)

BUILT_IN = (
    Count(),
    Sum(),
    Mean(),
    Variance(),
    Variance(ddof=1, root=True),
    Min(),
    Max(),
    Min(partial=True),
    Max(partial=True),
    First(),
    First(by=abs),
    Last(),
    TopK(2),
    TopK(2, by=lambda value: -value, largest=False),
    Distinct(),
    ApproxDistinct(precision=4),
    ApproxQuantile(0.5),
    ApproxQuantile(1, error=0.25),
    HeavyHitters(0.3, depth=2),
    Median(),
    Quantile(0.9, interpolate=False),
    Histogram([-1, 0.5, 3]),
    Union(),
    product(Sum(), Min(), Count()),
    product(Sum(), Min(partial=True)),
    contramap(Sum(), lambda value: value * value),
    where(Mean(), lambda value: value > 0),
    scaled(Sum(), lambda value: int(abs(value)) % 3),
    enriched(product(Sum(), Count()), lambda parts: parts[0] / parts[1] if parts[1] else None),
    group_of(Sum(), lambda value: value % 2),
    group_of(Min(partial=True), lambda value: value % 2),
)
OF_ANY_FLOAT = [r for r in BUILT_IN if not r.name.startswith(("scaled", "group"))]
"""Those without a function of their own that takes no NaN."""
INTEGERS = (0, 1, 2, 3, 5, -4, 3, 2**70)
CORNERS = (math.nan, math.inf, -math.inf, 0.0, 2.5, -1e308, 1)
FLOATS = (0.1, 0.2, 1e16, -1e16, 3.0, 0.5, -7.25)


@pytest.mark.parametrize("built_in", BUILT_IN, ids=lambda built_in: built_in.name)
def test_law_built_in_reducers_on_integers(built_in):
    assert check_reducer(built_in, INTEGERS, cases=30).require()


@pytest.mark.parametrize("built_in", BUILT_IN, ids=lambda built_in: built_in.name)
def test_law_built_in_reducers_on_floats(built_in):
    assert check_reducer(built_in, FLOATS, cases=30).require()


@pytest.mark.parametrize("built_in", OF_ANY_FLOAT, ids=lambda built_in: built_in.name)
def test_law_built_in_reducers_on_corners(built_in):
    assert check_reducer(built_in, CORNERS, cases=60).require()


def test_law_sums_of_nan_and_infinities_and_decimals():
    assert check_reducer(Sum(), [math.nan, math.inf, -math.inf, 0.1, 2]).require()
    assert check_reducer(Sum(), [Decimal("0.1"), Decimal("1e30"), 2]).require()
    assert check_reducer(Distinct(), ["a", None, (1, 2), "b"]).require()


@settings(max_examples=40)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_law_sum_is_well_formed_on_any_floats(values):
    assert check_reducer(Sum(), values, cases=10).require()


EQUAL = (1, 1.0, True, 0.5, Decimal("0.5"), Fraction(1, 2), (1, 2.0), (1.0, 2), 0, -0.0, 1e300)


def test_law_sketches_put_equal_values_into_one_place():
    for made in (ApproxDistinct(precision=4), HeavyHitters(0.3, depth=2)):
        assert check_reducer(made, EQUAL, cases=60).require()
        for one in EQUAL:
            for other in EQUAL:
                if one == other:
                    assert made.same(made.add(made.initial, one), made.add(made.initial, other))


def test_a_merge_that_loses_something_is_found_with_the_smallest_example():
    class Forgetful(Mergeable):
        initial = 0

        def add(self, acc, value):
            return acc + value

        def remove(self, acc, value):
            return acc - value

        def merge(self, left, right):
            return left

    assert str(check_reducer(HeavyHitters(), [1])).startswith(
        "HeavyHitters 0.01 (): mergeable, 7 laws"
    )
    example = _only(check_reducer(Forgetful(), [3, 5]), "merging adds up")
    assert example.added == (3,)
    assert "merging what nothing gives with what 3 gives is 0" in example.sentence


def test_the_kind_follows_from_the_parts():
    for made in (Sum(), Min(), product(Sum(), Min()), where(Min(), bool), group_of(Count(), None)):
        assert isinstance(made, WellFormed)
        assert not isinstance(made, Partial)
    least = Min(partial=True)
    for made in (
        least,
        product(Sum(), least),
        contramap(least, abs),
        where(least, bool),
        scaled(least, abs),
        enriched(least, str),
        group_of(least, None),
    ):
        assert isinstance(made, Partial)
        assert not isinstance(made, WellFormed)


def _only(report, law):
    return next(example for example in report.broken if example.law == law)


def test_a_minimum_that_forgets_nothing_is_found_with_the_smallest_example():
    report = check_reducer(reducer(math.inf, min, lambda acc, value: acc), [7, 5, 3])
    example = _only(report, "remove undoes add")
    assert example.sentence == "after adding 3, removing 3 leaves 3; recomputing gives inf"
    assert example.added == (3,)
    assert not report
    with pytest.raises(ReducerError, match="removing 3 leaves 3"):
        report.require()


def test_the_example_of_the_paper_is_the_sentence_when_one_value_is_handled():
    def remove(acc, value):
        return acc[:-1] and acc

    kept = reducer((), lambda acc, value: (min((*acc, value)),) * (len(acc) + 1), remove)
    sentence = _only(check_reducer(kept, [3, 5]), "remove undoes add").sentence
    assert sentence == ("after adding 3 and 3, removing 3 leaves (3, 3); recomputing gives (3,)")


def test_plain_float_sums_are_found_out():
    report = check_reducer(reducer(0.0, lambda a, v: a + v, lambda a, v: a - v), [1e16, 0.1])
    assert _only(report, "remove undoes add").sentence == (
        "after adding 0.1 and 1e+16, removing 1e+16 leaves 0.0; recomputing gives 0.1"
    )


def test_a_fold_that_depends_on_order_is_found():
    report = check_reducer(
        reducer("", lambda acc, value: acc + value, lambda acc, value: acc.replace(value, "", 1)),
        "ab",
    )
    assert _only(report, "add commutes").sentence == (
        "from the start, adding 'a' and then 'b' gives 'ab'; adding 'b' and then 'a' gives 'ba'"
    )


def test_removals_that_depend_on_order_are_found():
    def remove(acc, value):
        return (acc[0] - 1, value)

    report = check_reducer(reducer((0, None), lambda a, v: (a[0] + 1, a[1]), remove), [1, 2])
    assert "removing 1 and then 2" in _only(report, "remove commutes").sentence


def test_accumulators_changed_in_place_are_found():
    def add(acc, value):
        acc.append(value)
        acc.sort()
        return acc

    def remove(acc, value):
        return [other for place, other in enumerate(acc) if place != acc.index(value)]

    report = check_reducer(reducer([], add, remove), [2, 1])
    assert [example.law for example in report.broken] == ["accumulators are values"]
    assert report.broken[0].sentence == (
        "from the start, adding 1 changes the accumulator [] in place, to [1]"
    )


def test_none_from_a_well_formed_reducer_is_found_and_counted_from_a_partial_one():
    add, remove = min, lambda acc, value: None if value == acc else acc
    liar = check_reducer(reducer(math.inf, add, remove), [1, 2])
    assert "only a Partial reducer" in liar.broken[0].sentence
    honest = check_reducer(reducer(math.inf, add, remove, partial=True), [1, 2])
    assert honest
    assert honest.recomputations > 0
    assert "recomputations asked for" in str(honest)


def test_an_apply_that_disagrees_with_add_is_found():
    class Fast(WellFormed):
        initial = 0

        def add(self, acc, value):
            return acc + value

        def remove(self, acc, value):
            return acc - value

        def apply(self, acc, changes):
            return acc + sum(changes)

    report = check_reducer(Fast(), [1, 2])
    assert [example.law for example in report.broken] == ["splitting changes nothing"]
    assert "at once gives" in report.broken[0].sentence


def test_a_reducer_that_raises_is_broken_not_a_crash():
    report = check_reducer(Sum("amount"), [1])
    assert "AttributeError" in report.broken[0].sentence


def test_drift_that_only_long_scripts_show_is_found():
    # Right up to twelve values held: no small multiset shows it, a longer script does.
    class Capped(WellFormed):
        initial = (0, 0)

        def add(self, acc, value):
            return (acc[0] + 1, max(acc[1], acc[0] + 1))

        def remove(self, acc, value):
            return (acc[0] - 1, acc[1] if acc[1] > 5 else acc[0] - 1)

        def same(self, left, right):
            return left == right or max(left[1], right[1]) < 6

    report = check_reducer(Capped(), [1])
    assert not report
    assert "recomputing gives" in str(report)


def test_bad_calls_are_named():
    with pytest.raises(ReducerError, match="at least one value"):
        check_reducer(Sum(), [])
    with pytest.raises(ReducerError, match="takes a reducer"):
        check_reducer(sum, [1])
    with pytest.raises(ReducerError, match="function"):
        reducer(0, None, min)
    for bad in (
        lambda: TopK(0),
        lambda: Quantile(1.5),
        lambda: Histogram([]),
        lambda: Histogram([2, 1]),
        lambda: ApproxDistinct(precision=3),
        lambda: ApproxQuantile(1.5),
        lambda: ApproxQuantile(0.5, error=0.3),
        lambda: HeavyHitters(0),
        lambda: HeavyHitters(depth=17),
        lambda: HeavyHitters().add(Bag(), {1}),
        lambda: Variance(ddof=-1),
        product,
        lambda: product(Sum(), sum),
        lambda: scaled(Sum(), lambda value: -1).add(0, 3),
    ):
        with pytest.raises(ReducerError):
            bad()


def test_drift_is_reported_by_a_sampled_verification():
    wrong = reducer(0, lambda acc, value: acc + value, lambda acc, value: acc, name="wrong")
    source = Collection.input()
    view = source.reduce(wrong, verify="sample", sample=0.5)
    source.insert("k", 1)
    source.insert("k", 2)
    assert view.drifts == []
    source.delete("k", 1)
    with pytest.warns(RuntimeWarning, match="keeps 6, recomputing gives 5"):
        source.insert("k", 3)
    assert source.last_epoch.drifted == 1
    assert (view.drifts[0].key, view.drifts[0].kept, view.drifts[0].recomputed) == ("k", 6, 5)
    checked = source.reduce(Sum(), verify="all")
    source.insert("k", 4)
    assert checked.drifts == []
