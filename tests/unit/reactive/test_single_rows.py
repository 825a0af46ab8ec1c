"""Epochs of a single value take a shorter way; nobody can tell, but for the time."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from deltafix.errors import MissingRowError, OperatorError, TypeMismatchError
from deltafix.reactive import (
    Collection,
    Count,
    Last,
    Mean,
    Median,
    Min,
    Sum,
    TopK,
    Union,
    reducer,
)


def _refuse_13(acc, value):
    if value == 13:
        raise ValueError("unlucky")
    return acc + 1


REDUCERS = {
    "sum": Sum(),
    "least": Min(),
    "least_again": Min(partial=True),
    "mean": Mean(),
    "median": Median(),
    "last": Last(),
    "top": TopK(2),
    "bag": Union(),
    "superstitious": reducer(0, _refuse_13, lambda acc, value: acc - 1, name="superstitious"),
}


def _graph(table=None):
    """An input, its reductions, and what their subscribers and the input's were told."""
    source = Collection.input(key=str)
    views = {name: source.reduce(made) for name, made in REDUCERS.items()}
    told = {name: [] for name in ("source", *views)}
    for name, view in (("source", source), *views.items()):
        view.subscribe(
            lambda delta, told=told[name]: told.append((delta.epoch, sorted(delta, key=repr)))
        )
    if table is not None:
        source.load(table, key="k")
    return source, views, told


def _by_row(source, call, key, *values):
    getattr(source, call)(key, *values)


def _by_transaction(source, call, key, *values):
    with source.transaction() as tx:
        if call == "update":
            tx.delete(key, values[0])
            tx.insert(key, values[1])
        else:
            getattr(tx, call)(key, *values)


@pytest.mark.parametrize("seed", range(6))
def test_oracle_single_rows_do_what_transactions_of_one_change_do(seed):
    chance = random.Random(seed)
    table = None
    if seed % 2:
        keys, values = chance.choices("abc", k=12), [chance.randint(0, 5) for _ in range(12)]
        table = pa.table({"k": keys, "v": values})
    fast, slow = _graph(table), _graph(table)
    # A dependent that is no reduction: the ordinary pass.
    slow[0].map_values(lambda value: value)
    for _ in range(120):
        key = chance.choice("abcd")
        held = fast[0].values(key)
        call = chance.choice(("insert", "delete", "update", "set"))
        new = chance.choice((0, 1, 2, 3, 4, 5, 13))
        old = chance.choice(held) if held and chance.random() < 0.9 else 99
        given = {"insert": (new,), "delete": (old,), "update": (old, new), "set": (new,)}[call]
        if call == "set" and chance.random() < 0.7:
            given = (new, chance.randint(0, 3))
        errors = []
        for graph, way in ((fast, _by_row), (slow, _by_transaction)):
            try:
                way(graph[0], call, key, *given)
            except (OperatorError, MissingRowError) as error:
                errors.append(type(error))
        assert len(errors) in (0, 2)
        assert len(set(errors)) < 2
        assert fast[0].epoch == slow[0].epoch
        assert fast[2] == slow[2]
        for name, view in fast[1].items():
            assert view.to_dict() == slow[1][name].to_dict(), name
    fast[0].check_invariants()
    assert all(fast[2].values())


def test_the_short_way_visits_reductions_only_and_makes_no_pass(monkeypatch):
    source = Collection.input()
    total, least = source.reduce(Sum(), name="total"), source.reduce(Min(), name="least")
    source.insert("k", 3)
    monkeypatch.setattr(type(source._node.graph), "run", None)
    source.insert("k", 5)
    source.update("k", 3, 7)
    source.set("new", 1)
    source.set("new", 2)
    source.set("new", 2)
    source.delete("k", 7)
    with source.transaction() as tx:
        tx.insert("k", 4)
        tx.delete("k", 5)
    assert source.last_epoch.visited == ("total", "least")
    assert (total.to_dict(), least.to_dict()) == ({"k": [4], "new": [2]},) * 2
    assert (source.epoch, total.visits) == (7, 7)


def test_a_dependent_that_comes_later_ends_the_short_way():
    source = Collection.input()
    total = source.reduce(Sum())
    source.insert("k", 1)
    doubled = total.map_values(lambda value: value * 2)
    source.insert("k", 2)
    assert doubled.to_dict() == {"k": [6]}
    late = source.filter(lambda key, value: value > 1)
    source.update("k", 1, 5)
    assert (late.to_dict(), doubled.to_dict()) == ({"k": [2, 5]}, {"k": [14]})


def test_the_last_reduction_to_fail_takes_the_others_back():
    source = Collection.input()
    total = source.reduce(Sum())
    count = source.reduce(Count())
    source.reduce(REDUCERS["superstitious"])
    told = []
    total.subscribe(told.append)
    with pytest.raises(OperatorError, match="unlucky") as caught:
        source.insert("k", 13)
    assert (caught.value.key, caught.value.value) == ("k", 13)
    source.insert("k", 3)
    for change in (lambda: source.insert("k", 13), lambda: source.update("k", 3, 13)):
        with pytest.raises(OperatorError):
            change()
        assert source.to_dict() == total.to_dict() == {"k": [3]}
        assert count.to_dict() == {"k": [1]}
    assert (source.epoch, len(told)) == (1, 1)
    source.check_invariants()


def test_what_cannot_be_hashed_is_named_and_changes_nothing():
    source = Collection.input(name="sales")
    source.reduce(Count())
    source.insert("k", 1)
    for change in (
        lambda: source.insert("k", [1]),
        lambda: source.insert([1], 1),
        lambda: source.update("k", 1, [2]),
        lambda: source.update("k", [1], 2),
        lambda: source.delete("k", [1]),
        lambda: source.set("k", [1]),
        lambda: source.set([1], "k"),
    ):
        with pytest.raises(TypeMismatchError, match="hashed"):
            change()
    assert source.to_dict() == {"k": [1]}


def test_reading_a_loaded_table_leaves_it_as_it_is():
    source = Collection.input()
    once = source.distinct()
    total = source.reduce(Sum())
    source.load(pa.table({"k": ["a", "b", "a"], "v": [1, 2, 1]}), key="k")
    assert [(key, source.values(key)) for key, _ in source.items()] == [
        ("a", [1, 1]),
        ("a", [1, 1]),
        ("b", [2]),
    ]
    assert (once.to_dict(), len(source)) == ({"a": [1], "b": [2]}, 3)
    late = source.distinct() & source
    assert late.to_dict() == once.to_dict()
    source.update("a", 1, 4)
    assert (total.to_dict(), once.to_dict()) == ({"a": [5], "b": [2]}, {"a": [1, 4], "b": [2]})
    source.check_invariants()
