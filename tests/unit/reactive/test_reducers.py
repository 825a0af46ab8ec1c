"""Results of the built-in reducers against plain Python over the same multisets."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter, namedtuple
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import FactError, OperatorError, TypeMismatchError
from deltafix.reactive import (
    ApproxDistinct,
    ApproxQuantile,
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
    Min,
    Quantile,
    Sum,
    TopK,
    Union,
    Variance,
    contramap,
    enriched,
    group_of,
    product,
    scaled,
    where,
)

Sale = namedtuple("Sale", "shop amount")


def _result(made, values):
    counts = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return made.finish(made.fold(counts))


@settings(max_examples=50)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=30))
def test_agree_results_with_plain_python(values):
    ordered = sorted(values)
    assert _result(Count(), values) == len(values)
    assert _result(Sum(), values) == sum(values)
    assert _result(Mean(), values) == statistics.fmean(values)
    assert _result(Variance(), values) == pytest.approx(statistics.pvariance(values), rel=1e-15)
    assert _result(Median(), values) == statistics.median(values)
    assert (_result(Min(), values), _result(Max(), values)) == (ordered[0], ordered[-1])
    assert _result(Min(partial=True), values) == ordered[0]
    assert _result(TopK(3), values) == tuple(ordered[::-1][:3])
    assert _result(Distinct(), values) == len(set(values))
    assert _result(Union(), values).total == len(values)
    assert sum(_result(Histogram([0, 10]), values)) == len(values)
    assert _result(Quantile(0.25, interpolate=False), values) == ordered[(len(values) - 1) // 4]


def test_reducers_read_fields_by_name_position_and_function():
    sales = [Sale("a", 5), Sale("b", 7)]
    assert _result(Sum("amount"), sales) == 12
    assert _result(Sum(1), sales) == 12
    assert _result(Sum(lambda sale: sale.amount * 2), sales) == 24
    assert _result(First(by="amount"), sales) == sales[0]
    assert _result(Last(by="amount"), sales) == sales[1]
    assert _result(TopK(1, by="amount"), sales) == (sales[1],)
    assert _result(group_of(Sum("amount"), "shop"), sales) == (("a", 5), ("b", 7))
    assert (Sum("amount").name, Sum().name, Min("x").name) == ("Sum('amount')", "Sum()", "Min('x')")


def test_combinators_compute_what_they_say():
    assert _result(product(Sum(), Count()), [3, 4]) == (7, 2)
    assert _result(contramap(Sum(), abs), [3, -4]) == 7
    assert _result(contramap(Count(), abs), [3, -3]) == 2
    assert _result(where(Sum(), lambda value: value > 0), [3, -4]) == 3
    assert (
        _result(
            scaled(Mean("amount"), lambda sale: 2 if sale.shop == "a" else 1),
            [
                Sale("a", 1),
                Sale("b", 4),
            ],
        )
        == 2.0
    )
    assert _result(enriched(Sum(), str), [3, 4]) == "7"
    assert _result(group_of(Count(), type), [1, "a", 2]) == (
        (int, 2),
        (str, 1),
    )


def test_quantiles_interpolate_as_documented():
    assert _result(Quantile(0.9), [1, 2, 3, 4, 5]) == pytest.approx(4.6)
    assert _result(Quantile(0.1), list(range(11))) == 1
    assert _result(Median(interpolate=False), ["a", "b", "c", "d"]) == "b"


def test_histogram_bins_are_closed_below():
    assert _result(Histogram([0, 10]), [-1, 0, 5, 10, 11]) == (1, 2, 2)


def test_variance_has_no_cancellation_and_says_when_it_is_undefined():
    assert _result(Variance(), [1e9, 1e9 + 1]) == 0.25
    assert _result(Variance(ddof=1), [1e9, 1e9 + 1]) == 0.5
    assert _result(Variance(root=True), [1.0, 3.0]) == 1.0
    assert _result(Variance(ddof=1), [1.0]) is None
    assert math.isnan(_result(Variance(), [math.inf, 1.0]))
    assert math.isnan(_result(Variance(), [math.nan, 1]))
    with pytest.raises(TypeError):
        _result(Variance(), ["a"])


def test_approximate_distinct_counts_are_near_and_forget_exactly():
    made = ApproxDistinct(precision=12)
    acc = made.fold(dict.fromkeys(range(20_000), 1))
    assert abs(made.finish(acc) - 20_000) < 20_000 * 0.05
    half = made.apply(acc, dict.fromkeys(range(10_000), -1))
    assert made.same(half, made.fold(dict.fromkeys(range(10_000, 20_000), 1)))
    assert made.finish(made.fold({"a": 3, "b": 1})) == 2


@pytest.mark.parametrize("error", [0.25, 0.01, 1e-6])
def test_oracle_approximate_quantiles_lie_within_their_error_and_forget_exactly(error):
    chance = random.Random(7)
    held = [chance.choice([-1, 1]) * 10 ** chance.uniform(-12, 12) for _ in range(400)]
    held += [0.0, 3, Fraction(1, 3), 10**400, -(10**400), math.inf, 2**70, 5e-324]
    for q in (0, 0.01, 0.3, 0.5, 0.77, 0.99, 1):
        made, exact = ApproxQuantile(q, error=error), Quantile(q, interpolate=False)
        acc = made.initial
        for value in held:
            acc = made.add(acc, value)
        left = held[:]
        while left:
            wanted = exact.finish(exact.fold(Counter(left)))
            got = made.finish(acc)
            if abs(wanted) >= 10**400:
                assert got == (math.inf if wanted > 0 else -math.inf)
            else:
                assert abs(got - wanted) <= error * abs(wanted) + 2.3e-308
            for _ in range(min(37, len(left))):
                acc = made.remove(acc, left.pop(chance.randrange(len(left))))
        assert acc == made.initial
    assert math.isnan(made.finish(made.add(made.initial, math.nan)))


def test_oracle_heavy_hitters_are_found_with_counts_that_are_never_low():
    chance = random.Random(3)
    made = HeavyHitters(0.02)
    common = ["a", 7, 0.1, None, ("t", 1), "né", Fraction(1, 3), -5]
    held = [one for place, one in enumerate(common) for _ in range(400 + 100 * place)]
    held += [chance.randrange(10**6) for _ in range(4_000)]
    chance.shuffle(held)
    half = len(held) // 2
    parts = [made.fold(Counter(part)) for part in (held[:half], held[half:])]
    whole = made.merge(*parts)
    assert made.same(whole, made.merge(*reversed(parts)))
    less = made.apply(whole, {one: -count for one, count in Counter(held[half:]).items()})
    assert made.same(less, parts[0])
    for acc, kept in ((whole, held), (less, held[:half])):
        true = Counter(kept)
        hits = dict(made.finish(acc))
        assert {one for one, count in true.items() if count >= 0.02 * len(kept)} <= hits.keys()
        assert all(0 <= often - true[one] < 0.02 * len(kept) for one, often in hits.items())
        assert len(acc) <= 5 * 200
        assert list(hits.values()) == sorted(hits.values(), reverse=True)
    assert made.finish(made.initial) == ()


def test_a_sketch_of_parts_is_that_of_the_whole_and_a_row_goes_by_an_equal_one():
    source = Collection.input()
    views = [source.reduce(made) for made in (ApproxDistinct(), HeavyHitters(0.5))]
    source.insert("k", 1)
    source.insert("k", (2, 0.5))
    source.delete("k", 1.0)
    source.delete("k", (2.0, Fraction(1, 2)))
    assert [view.to_dict() for view in views] == [{}, {}]
    made = ApproxDistinct()
    parts = [made.fold(dict.fromkeys(range(n, n + 3_000), 1)) for n in (0, 2_000, 4_000)]
    whole = made.merge(made.merge(parts[0], parts[1]), parts[2])
    assert abs(made.finish(whole) - 7_000) < 7_000 * 0.05
    assert made.same(whole, made.merge(parts[0], made.merge(parts[2], parts[1])))


def test_money_that_comes_and_goes_leaves_nothing():
    source = Collection.input()
    total = source.reduce(Sum())
    source.insert("k", 0.1)
    source.insert("k", 1e16)
    source.delete("k", 1e16)
    assert total.get("k") == 0.1


def _loaded(table, **options):
    source = Collection.input()
    views = {
        "count": source.reduce(Count()),
        "sum": source.reduce(Sum()),
        "mean": source.reduce(Mean()),
        "min": source.reduce(Min()),
        "max": source.reduce(Max(partial=True)),
        "median": source.reduce(Median()),
        "variance": source.reduce(Variance()),
        "doubled": source.map_values(lambda value: value * 2).reduce(Sum()),
    }
    source.load(table, **options)
    return source, views


_NUMBERS = st.one_of(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1)), max_size=30),
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.one_of(
                st.floats(-1e3, 1e3),
                st.sampled_from([5e-324, -5e-324, 1e300, -1e300, 0.0, 2.0**-1060]),
            ),
        ),
        max_size=30,
    ),
)


@settings(max_examples=60)
@given(_NUMBERS, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 29)), max_size=10))
def test_agree_loaded_tables_with_rows_one_by_one(rows, edits):
    kind = pa.float64() if rows and isinstance(rows[0][1], float) else pa.int64()
    table = pa.table(
        {
            "k": pa.array([key for key, _ in rows], pa.int64()),
            "v": pa.array([value for _, value in rows], kind),
        }
    )
    source, views = _loaded(table, key="k")
    slow, slow_views = Collection.input(), {}
    slow_views = {
        name: (slow.map_values(lambda value: value * 2).reduce(Sum()))
        if name == "doubled"
        else slow.reduce(view._node.reducer)
        for name, view in views.items()
    }
    for key, value in rows:
        slow.insert(key, value)
    for key, place in edits:
        for aimed in (source, slow):
            if place < len(rows):
                at, value = rows[place]
                if value in aimed.values(at):
                    aimed.delete(at, value)
            else:
                aimed.insert(key, 1 if kind == pa.int64() else 0.5)
    for name, view in views.items():
        assert view.to_dict() == slow_views[name].to_dict(), name
    source.check_invariants()


def test_a_loaded_table_is_rolled_back_when_a_reducer_fails_on_it():
    source = Collection.input()
    total = source.reduce(Sum())
    even = source.filter(lambda key, value: 6 // value, name="fails on 0").reduce(Count())
    table = pa.table({"k": ["a", "b"], "v": [1, 0]})
    with pytest.raises(OperatorError, match="fails on 0") as caught:
        source.load(table, key="k")
    assert (caught.value.key, caught.value.value) == ("b", 0)
    assert (source.to_dict(), total.to_dict(), even.to_dict()) == ({}, {}, {})
    assert source.load(table.slice(0, 1), key="k") == 1
    assert (total.to_dict(), even.to_dict()) == ({"a": [1]}, {"a": [1]})


def test_a_table_of_several_columns_gives_named_rows():
    source = Collection.input(key=str)
    totals = source.reduce(Sum("amount"))
    shops = source.reduce(Distinct("shop"))
    table = pa.table({"k": ["x", "y", "x"], "shop": ["a", "b", "c"], "amount": [1.5, 2.0, 3.0]})
    told = []
    totals.subscribe(lambda delta: told.append(sorted(delta)))
    source.load(table, key="k")
    assert totals.to_dict() == {"x": [4.5], "y": [2.0]}
    assert shops.to_dict() == {"x": [2], "y": [1]}
    assert told == [[("x", 4.5, 1), ("y", 2.0, 1)]]
    assert source.values("y")[0].shop == "b"
    source.load(table.slice(0, 1), key="k")
    assert totals.get("x") == 6.0
    assert len(source) == 4
    assert totals.to_arrow().to_pydict() == {
        "key": ["x", "y"],
        "value": [6.0, 2.0],
        "count": [1, 1],
    }
    source.check_invariants()


def test_bad_tables_are_named():
    source = Collection.input(key=str, value=int, name="sales")
    table = pa.table({"k": ["x", None], "v": [1, 2]})
    with pytest.raises(FactError, match="'z'"):
        source.load(table, key="z")
    with pytest.raises(FactError, match="nulls"):
        source.load(table, key="k")
    with pytest.raises(FactError, match="RecordBatch"):
        source.load([("x", 1)], key="k")
    with pytest.raises(FactError, match="no column to take values from"):
        source.load(table.select(["k"]), key="k")
    with pytest.raises(TypeMismatchError, match="is int, not str"):
        source.load(pa.table({"k": [1], "v": [1]}), key="k")
    with pytest.raises(TypeMismatchError, match="is float, not int"):
        source.load(pa.table({"k": ["x"], "v": [1.0]}), key="k")
    with pytest.raises(FactError, match="attributes"):
        source.load(pa.table({"k": ["x"], "a b": [1], "c": [2]}), key="k")
    assert len(source) == 0
    assert source.load(pa.RecordBatch.from_pydict({"k": ["x"], "v": [1]}), key="k") == 1
    assert source.load(table.slice(0, 0), key="k") == 0


def test_a_null_in_a_column_is_named_by_the_reducer_that_meets_it():
    source = Collection.input()
    source.reduce(Sum())
    with pytest.raises(OperatorError, match="None") as caught:
        source.load(pa.table({"k": ["x", "x"], "v": [1, None]}), key="k")
    assert caught.value.key == "x"
    assert len(source) == 0
