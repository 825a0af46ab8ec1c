"""Each operator by example, and all of them against recomputation on random edit scripts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import OperatorError, ReactiveError, ReducerError
from deltafix.reactive import (
    Collection,
    Count,
    Max,
    Mean,
    Median,
    Min,
    Sum,
    TopK,
    Union,
    Variance,
    product,
)


def _filled(rows):
    source = Collection.input()
    with source.transaction() as tx:
        for key, value in rows:
            tx.insert(key, value)
    return source


def _sorted(collection):
    return {key: sorted(values) for key, values in collection.to_dict().items()}


def test_map_takes_one_pair_or_many():
    source = _filled([("a", 1), ("b", 2)])
    one = source.map(lambda key, value: (key.upper(), value))
    many = source.map(lambda key, value: [(key, value), ("all", value)])
    none = source.map(lambda key, value: [])
    assert one.to_dict() == {"A": [1], "B": [2]}
    assert _sorted(many) == {"a": [1], "b": [2], "all": [1, 2]}
    assert none.to_dict() == {}


@pytest.mark.parametrize("image", [3, None, [3], [("k",)], [("k", 1, 2)], [("k", [1])]])
def test_map_says_what_is_not_a_pair(image):
    source = Collection.input()
    source.map(lambda key, value: image)
    with pytest.raises(OperatorError, match="at key 'k' on value 'v'"):
        source.insert("k", "v")
    assert source.to_dict() == {}


def test_flat_map_takes_a_generator():
    def words(key, line):
        for word in line.split():
            yield word, key

    index = _filled([(1, "to be or not"), (2, "to do")]).flat_map(words)
    assert _sorted(index) == {"to": [1, 2], "be": [1], "or": [1], "not": [1], "do": [2]}


def test_filter_slice_group_and_map_values():
    source = _filled([("a", 1), ("b", 2), ("c", 3), ("c", 4)])
    assert source.filter(lambda key, value: value > 2).to_dict() == {"c": [3, 4]}
    assert source.slice("b", "c").to_dict() == {"b": [2]}
    assert source.slice(stop="b").to_dict() == {"a": [1]}
    assert source.slice("c").to_dict() == {"c": [3, 4]}
    odd = source.group(lambda key, value: value % 2 == 1, name="odd")
    assert _sorted(odd) == {True: [1, 3], False: [2, 4]}
    assert source.map_values(lambda value: -value).to_dict()["c"] == [-3, -4]


def test_join_multiplies_multiplicities_and_changes_on_both_sides_at_once():
    left, right = Collection.input(), Collection.input()
    pairs = left.join(right)
    with left.transaction() as tx:
        tx.insert("k", "a", 2)
        tx.on(right).insert("k", 1, 3)
    assert pairs.values("k") == [("a", 1)] * 6
    with left.transaction() as tx:
        tx.delete("k", "a")
        tx.insert("k", "b")
        tx.on(right).delete("k", 1)
        tx.on(right).insert("k", 2)
    assert sorted(pairs.values("k")) == [
        ("a", 1),
        ("a", 1),
        ("a", 2),
        ("b", 1),
        ("b", 1),
        ("b", 2),
    ]
    left.check_invariants()


def test_a_collection_joins_with_itself():
    source = _filled([("k", 1), ("k", 2)])
    pairs = source.join(source)
    source.delete("k", 1)
    source.insert("k", 3)
    assert sorted(pairs.values("k")) == [(2, 2), (2, 3), (3, 2), (3, 3)]
    source.check_invariants()


def test_semi_and_anti_join_follow_keys_that_come_and_go_on_either_side():
    orders, customers = Collection.input(), Collection.input()
    known, unknown = orders.semi_join(customers), orders.anti_join(customers)
    orders.insert("ann", 1)
    assert (known.to_dict(), unknown.to_dict()) == ({}, {"ann": [1]})
    with orders.transaction() as tx:
        tx.insert("ann", 2)
        tx.on(customers).insert("ann", "Ann")
    assert (known.to_dict(), unknown.to_dict()) == ({"ann": [1, 2]}, {})
    told = []
    known.subscribe(told.append)
    customers.insert("ann", "Annie")
    assert told == []
    with orders.transaction() as tx:
        tx.delete("ann", 1)
        tx.on(customers).delete("ann")
    assert (known.to_dict(), unknown.to_dict()) == ({}, {"ann": [2]})
    assert sorted(told[0]) == [("ann", 1, -1), ("ann", 2, -1)]
    orders.check_invariants()


def test_set_operations_give_each_value_once_and_merge_gives_all():
    left, right = _filled([("k", 1), ("k", 1), ("k", 2)]), _filled([("k", 2), ("k", 3)])
    assert _sorted(left | right) == {"k": [1, 2, 3]}
    assert _sorted(left & right) == {"k": [2]}
    assert _sorted(left - right) == {"k": [1]}
    assert _sorted(left + right) == {"k": [1, 1, 2, 2, 3]}
    assert _sorted(left.distinct()) == {"k": [1, 2]}


def test_a_difference_changes_only_when_the_last_copy_goes():
    nodes, live = Collection.input(), Collection.input()
    dead = nodes - live
    told = []
    dead.subscribe(lambda delta: told.append(list(delta)))
    with nodes.transaction() as tx:
        tx.insert((), "f", 2)
    nodes.delete((), "f")
    nodes.delete((), "f")
    assert told == [[((), "f", 1)], [((), "f", -1)]]


def test_top_k_sends_only_what_enters_and_leaves_the_top():
    scores = Collection.input()
    best = scores.top_k(2, by=1)
    told = []
    with scores.transaction() as tx:
        for name, points in (("ann", 5), ("bob", 7), ("cy", 3)):
            tx.insert("game", (name, points))
    best.subscribe(lambda delta: told.append((delta.removed, delta.added)))
    assert _sorted(best) == {"game": [("ann", 5), ("bob", 7)]}
    scores.insert("game", ("dee", 6))
    scores.insert("game", ("eve", 1))
    scores.delete("game", ("bob", 7))
    assert told == [
        ([("game", ("ann", 5))], [("game", ("dee", 6))]),
        ([("game", ("bob", 7))], [("game", ("ann", 5))]),
    ]
    assert _sorted(scores.top_k(1, by=1, largest=False)) == {"game": [("eve", 1)]}


def test_lazy_computes_for_readers_only_and_keeps_watched_keys_up_to_date():
    source = _filled([("a", 1), ("b", 2), ("c", 3)])
    lazy = source.lazy(lambda call: [sum(call.values)], name="lazy sum")
    after = lazy.map_values(lambda value: value * 10)
    told = []
    after.subscribe(lambda delta: told.append(list(delta)))
    assert lazy.computed == 0
    assert (lazy.get("a"), lazy.get("a"), lazy.computed) == (1, 1, 1)
    source.insert("a", 5)
    assert lazy.computed == 1
    assert (lazy.get("a"), lazy.computed) == (6, 2)
    with lazy.watch("b") as first, lazy.watch("b"):
        assert told == [[("b", 20, 1)]]
        source.insert("b", 1)
        assert lazy.to_dict() == {"b": [3]}
        assert told[1] == [("b", 20, -1), ("b", 30, 1)]
        first.close()
        source.insert("c", 1)
        source.check_invariants()
    assert told[2] == [("b", 30, -1)]
    assert lazy.to_dict() == {}


def test_lazy_rolls_back_with_its_epoch_and_names_the_key():
    source = _filled([("a", 1)])
    lazy = source.lazy(lambda call: [10 // sum(call.values)])
    with lazy.watch("a"):
        with pytest.raises(OperatorError, match="key 'a'"):
            source.update("a", 1, 0)
        assert (lazy.get("a"), source.to_dict()) == (10, {"a": [1]})
        source.check_invariants()
    with pytest.raises(ReactiveError):
        source.lazy(lambda call: [1, 2]).get("a")


def test_operators_take_collections_only():
    with pytest.raises(ReactiveError, match="Collection"):
        Collection.input().join([1])
    with pytest.raises(ReducerError, match="verify"):
        Collection.input().reduce(Sum(), verify="always")


def _views(source, other):
    pairs = source.join(other, lambda key, a, b: a * b)
    shifted = source.map(lambda key, value: [(value % 3, value), (key, -value)])
    return {
        "shifted": shifted,
        "totals": shifted.reduce(Sum()),
        "product": pairs.reduce(product(Count(), Min(partial=True), Max())),
        "mean": (source + other).reduce(Mean()).reduce(Union()),
        "variance": (source + pairs).reduce(Variance()),
        "median": shifted.filter(lambda key, value: value != 1).reduce(Median()),
        "dead": source - other,
        "both": (source & other).reduce(TopK(2)),
        "any": source | other,
        "semi": shifted.semi_join(other),
        "anti": source.anti_join(shifted.slice(1, 3)),
        "top": shifted.top_k(2),
        "self": source.join(source).group(lambda key, value: value[0]),
    }


_EDITS = st.lists(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.integers(0, 3), st.integers(-2, 4)),
        min_size=1,
        max_size=5,
    ),
    max_size=8,
)


@settings(max_examples=60)
@given(_EDITS)
def test_oracle_every_operator_equals_recomputation_after_every_epoch(epochs):
    source, other = Collection.input(), Collection.input()
    views = _views(source, other)
    followed = {name: {} for name in views}
    for name, view in views.items():

        def follow(delta, held=followed[name]):
            for key, value, count in delta:
                total = held.get((key, value), 0) + count
                assert total >= 0
                held[key, value] = total

        view.subscribe(follow)
    for epoch in epochs:
        with source.transaction() as tx:
            for which, deletes, key, value in epoch:
                aimed, held = (tx, source) if which else (tx.on(other), other)
                if deletes and value in held.values(key) and (which, key, value) not in epoch:
                    try:
                        aimed.delete(key, value)
                    except LookupError:
                        aimed.insert(key, value)
                else:
                    aimed.insert(key, value)
        source.check_invariants()
    again, again_other = Collection.input(), Collection.input()
    fresh = _views(again, again_other)
    with again.transaction() as tx:
        for key, value in source.items():
            tx.insert(key, value)
        for key, value in other.items():
            tx.on(again_other).insert(key, value)
    for name, view in views.items():
        wanted = _multiset(fresh[name])
        assert _multiset(view) == wanted, name
        assert {pair: n for pair, n in followed[name].items() if n} == wanted, name


def _multiset(collection):
    counts = {}
    for pair in collection.items():
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def test_oracle_one_big_transaction_equals_many_small_ones():
    chance = random.Random(7)
    rows = [(chance.randrange(5), chance.randrange(9)) for _ in range(200)]
    one, other = Collection.input(), Collection.input()
    many, many_other = Collection.input(), Collection.input()
    big, small = _views(one, other), _views(many, many_other)
    with one.transaction() as tx:
        for place, (key, value) in enumerate(rows):
            (tx if place % 2 else tx.on(other)).insert(key, value)
            if place % 3 == 0:
                (tx if place % 2 else tx.on(other)).delete(key, value)
    for place, (key, value) in enumerate(rows):
        aimed = many if place % 2 else many_other
        aimed.insert(key, value)
        if place % 3 == 0:
            aimed.delete(key, value)
    for name, view in big.items():
        assert _multiset(view) == _multiset(small[name]), name
    assert one.epoch == 1
    assert many.epoch > 200
