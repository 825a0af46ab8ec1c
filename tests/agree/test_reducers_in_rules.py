"""Reducers as aggregates in rules (`@@name v : { ... }`): the same objects as collections take.

Sees: a reducer whose groups drift under edits, that gives another value in a rule than a fold of
the group's values gives, and groups that survive a rolled back epoch.
"""

from __future__ import annotations

import random
import re

import pytest

import deltafix
from deltafix.errors import FunctorError, InternalError, ReducerError
from deltafix.reactive import (
    ApproxDistinct,
    ApproxQuantile,
    Collection,
    Count,
    Distinct,
    First,
    HeavyHitters,
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
    enriched,
    product,
    reducer,
    scaled,
    where,
)
from deltafix.reducers.aggregate import Several


class Highest(TopK, Several):
    """Each of the highest values is a row."""


class Ends(TopK, Several):
    """The two highest pairs, each a row."""


class Nothing(TopK, Several):
    """A group that is there, of no rows."""

    def finish(self, acc):
        return ()


NUMBERS = {
    "highest": (Highest(3), "number"),
    "none": (Nothing(1), "number"),
    "count": (Count(), "number"),
    "sum": (Sum(), "number"),
    "mean": (Mean(), "float"),
    "variance": (Variance(), "float"),
    "deviation": (Variance(root=True), "float"),
    "least": (Min(), "number"),
    "least_again": (Min(partial=True), "number"),
    "most": (Max(), "number"),
    "median": (Median(), "float"),
    "lower_median": (Median(interpolate=False), "number"),
    "ninth": (Quantile(0.9), "float"),
    "distinct": (Distinct(), "number"),
    "about": (ApproxDistinct(), "number"),
    "near": (ApproxQuantile(0.5), "float"),
    "commonest": (enriched(HeavyHitters(0.1), lambda hits: hits[0][0]), "number"),
    "first": (First(), "number"),
    "last": (Last(), "number"),
    "second": (enriched(TopK(2), lambda top: top[-1]), "number"),
    "occurrences": (enriched(Union(), lambda bag: bag.total), "number"),
    "range": (enriched(product(Min(), Max()), lambda ends: ends[1] - ends[0]), "number"),
    "positive": (where(Count(), lambda value: value > 0), "number"),
    "twice": (scaled(Sum(), lambda value: 2), "number"),
    "xor": (reducer(0, lambda a, v: a ^ v, lambda a, v: a ^ v, name="xor"), "number"),
    "product": (
        reducer(
            1,
            lambda a, v: a * v % 1_000_003,
            lambda a, v: None,
            partial=True,
            name="product",
        ),
        "number",
    ),
}


def _program(results, kind):
    """One relation per reducer, over groups of `sale(shop, row, v)`."""
    lines = [
        f".decl sale(shop: symbol, row: number, v: {kind})",
        ".input sale",
        ".decl shop(s: symbol)",
        "shop(s) :- sale(s, _, _).",
    ]
    for name, result in results.items():
        lines += [
            f".functor {name}(v: {kind}): {result}",
            f".decl {name}_of(s: symbol, r: {result})",
            f".output {name}_of",
            f"{name}_of(s, r) :- shop(s), r = @@{name} v : {{ sale(s, _, v) }}.",
        ]
    return "\n".join(lines)


def _edited(made, kind, values, seed, epochs=25):
    """Random epochs of edits; after each, what the rules say and what a fold of the rows says."""
    chance = random.Random(seed)
    program = _program({name: result for name, (_, result) in made.items()}, kind)
    reducers = {name: one for name, (one, _) in made.items()}
    held, number = {}, 0
    with deltafix.connect(program, reducers=reducers) as db:
        for _ in range(epochs):
            gone = chance.sample(sorted(held), chance.randint(0, min(3, len(held))))
            came = {}
            for _ in range(chance.randint(0, 4)):
                number += 1
                came[number] = (chance.choice("abc"), chance.choice(values))
            with db.transaction() as tx:
                tx.delete("sale", [(held[n][0], n, held[n][1]) for n in gone])
                tx.insert("sale", [(shop, n, v) for n, (shop, v) in came.items()])
            held = {n: row for n, row in held.items() if n not in gone} | came
            yield db, held
        db.check_invariants()


def _recomputed(one, held):
    found = {}
    for shop, value in held.values():
        counts = found.setdefault(shop, {})
        counts[value] = counts.get(value, 0) + 1
    values = ((shop, one.finish(one.fold(counts))) for shop, counts in found.items())
    if isinstance(one, Several):
        return sorted({(shop, value) for shop, several in values for value in several})
    return sorted(values)


@pytest.mark.parametrize("seed", range(3))
def test_oracle_every_reducer_of_numbers_is_an_aggregate_in_rules(seed):
    for db, held in _edited(NUMBERS, "number", range(-3, 6), seed):
        for name, (one, _) in NUMBERS.items():
            assert db.rows(f"{name}_of") == _recomputed(one, held), name


RECORDS = """
.type Pair = [v: number, row: number]
.decl sale(shop: symbol, row: number, v: number)  .input sale
.decl shop(s: symbol)
.functor ends(p: Pair): Pair
.decl opened(s: symbol, v: number, row: number)  .output opened
.decl tested(s: symbol, v: number, row: number)  .output tested
.decl of_all(v: number, row: number)  .output of_all
.decl one_field(s: symbol, v: number)  .output one_field
.decl whole(s: symbol, v: number, row: number)  .output whole
.decl made(s: symbol, v: number, row: number)  .output made
shop(s) :- sale(s, _, _).
opened(s, v, n) :- shop(s), [v, n] = @@ends [w, m] : { sale(s, m, w) }.
tested(s, v, n) :- shop(s), [v, n] = @@ends [w, m] : { sale(s, m, w), w > 0 }.
of_all(v, n) :- [v, n] = @@ends [w, m] : { sale(_, m, w) }.
one_field(s, v) :- shop(s), [v, _] = @@ends [w, m] : { sale(s, m, w) }.
whole(s, v, n) :- shop(s), p = @@ends [w, m] : { sale(s, m, w) }, p = [v, n], v = v.
made(s, v, n) :- shop(s), [v, n] = @@ends [w + 0, m] : { sale(s, m, w) }.
"""


@pytest.mark.parametrize("seed", range(4))
def test_oracle_records_that_a_reducer_takes_and_gives(seed):
    chance = random.Random(seed)

    def ends(rows):
        found = {}
        for shop, row, v in rows:
            found.setdefault(shop, []).append((v, row))
        return {(shop, *p) for shop, some in found.items() for p in sorted(some)[-2:]}

    with deltafix.connect(RECORDS, reducers={"ends": Ends(2)}) as db:
        asked = sorted(memo.functor for memo in db.instance.linked.memos.values())
        assert asked == ["[Pair]", "[Pair].0", "[Pair].1"], "for `made` and `whole` alone"
        held, number = set(), 0
        for epoch in range(30):
            size = 200 if epoch == 3 else 4
            gone = set(chance.sample(sorted(held), min(len(held), chance.randint(0, size))))
            came = set()
            for _ in range(chance.randint(0, size)):
                number += 1
                came.add((chance.choice("abc"), number, chance.randrange(-5, 9)))
            with db.transaction() as tx:
                tx.delete("sale", gone)
                tx.insert("sale", came)
            held = held - gone | came
            wanted = ends(held)
            for name in ("opened", "whole", "made"):
                assert set(db.rows(name)) == wanted, name
            assert set(db.rows("one_field")) == {(s, v) for s, v, _ in wanted}
            assert set(db.rows("tested")) == ends(row for row in held if row[2] > 0)
            everyone = sorted((v, row) for _, row, v in held)
            assert set(db.rows("of_all")) == set(everyone[-2:])
        db.check_invariants()


@pytest.mark.parametrize("seed", range(2))
def test_oracle_sums_of_floats_in_rules_leave_nothing_behind(seed):
    made = {
        name: (one, "float")
        for name, one in {
            "sum": Sum(),
            "mean": Mean(),
            "variance": Variance(),
            "median": Median(),
            "least": Min(partial=True),
        }.items()
    }
    for db, held in _edited(made, "float", [0.1, 0.2, 1e16, -1e16, 3.5], seed):
        for name, (one, _) in made.items():
            assert db.rows(f"{name}_of") == _recomputed(one, held), name


def test_oracle_reducers_of_symbols_in_rules():
    made = {
        "first": (First(), "symbol"),
        "last": (Last(), "symbol"),
        "longest": (Max(len), "number"),
        "distinct": (Distinct(), "number"),
        "commonest": (enriched(HeavyHitters(0.1), lambda hits: hits[0][0]), "symbol"),
        "joined": (enriched(Union(), lambda bag: "+".join(sorted(bag))), "symbol"),
    }
    for db, held in _edited(made, "symbol", ["a", "bb", "ba", "", "ccc"], 5):
        for name, (one, _) in made.items():
            assert db.rows(f"{name}_of") == _recomputed(one, held), name


def test_a_rule_and_a_collection_give_the_same_deltas():
    total = Sum()
    source = Collection.input(key=str)
    told = []
    source.reduce(total).subscribe(lambda delta: told.append(sorted(delta)))
    with deltafix.connect(_program({"sum": "number"}, "number"), reducers={"sum": total}) as db:
        for number, (key, value) in enumerate([("k", 3), ("k", 5), ("k", 7), ("j", 2)]):
            source.insert(key, value)
            with db.transaction() as tx:
                tx.insert("sale", [(key, number, value)])
            delta = tx.delta["sum_of"]
            signed = [(*row, -1) for row in delta.removed] + [(*row, 1) for row in delta.added]
            assert told[-1] == sorted(signed)
        with db.transaction() as tx:
            tx.delete("sale", [("k", 1, 5)])
            tx.insert("sale", [("k", 9, 2)])
        assert (tx.delta["sum_of"].removed, tx.delta["sum_of"].added) == ([("k", 15)], [("k", 12)])


def test_a_result_that_does_not_fit_the_declared_type_rolls_the_epoch_back():
    program = _program({"top": "number"}, "number")
    with deltafix.connect(program, reducers={"top": TopK(2)}) as db:
        tx = db.transaction()
        tx.insert("sale", [("a", 1, 3)])
        with pytest.raises(FunctorError, match=r"top gave \(3,\), which is no number"):
            tx.commit()
        assert db.rows("sale") == db.rows("top_of") == []
    with deltafix.connect(program, reducers={"top": Variance(ddof=1)}) as db:
        tx = db.transaction()
        tx.insert("sale", [("a", 1, 3)])
        with pytest.raises(FunctorError, match="gave None"):
            tx.commit()
        db.check_invariants()


def test_a_reducer_that_raises_rolls_the_epoch_back_and_the_groups_with_it():
    def refuse(acc, value):
        if value == 13:
            raise ValueError("unlucky")
        return acc + value

    made = reducer(0, refuse, lambda acc, value: acc - value, name="superstitious")
    with deltafix.connect(_program({"sum": "number"}, "number"), reducers={"sum": made}) as db:
        with db.transaction() as tx:
            tx.insert("sale", [("a", 1, 3), ("b", 2, 4)])
        tx = db.transaction()
        tx.insert("sale", [("a", 3, 5), ("b", 4, 13)])
        tx.delete("sale", [("a", 1, 3)])
        with pytest.raises(FunctorError, match="unlucky"):
            tx.commit()
        assert db.rows("sum_of") == [("a", 3), ("b", 4)]
        with db.transaction() as tx:
            tx.insert("sale", [("a", 5, 1)])
        assert db.rows("sum_of") == [("a", 4), ("b", 4)]
        db.check_invariants()


def test_a_missing_reducer_is_named_when_connecting():
    with pytest.raises(FunctorError, match=r"folds with .*sum.*reducers=[^;]*$"):
        deltafix.connect(_program({"sum": "number"}, "number"))
    with pytest.raises(FunctorError, match=r"reducers=\.\.\.\); given: suum, x$"):
        given = {"x": Sum(), "suum": Sum()}
        deltafix.connect(_program({"sum": "number"}, "number"), reducers=given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (max, "<built-in function max>; deltafix.reactive.reducer(initial, add, remove) makes"),
        (sum, "deltafix.reactive.reducer(initial, add, remove) makes one"),
        (Sum, "write Sum(), one that the class makes"),
        (3, "is no reducer: 3;"),
    ],
)
def test_what_is_no_reducer_is_refused_when_connecting(given, says):
    with pytest.raises(ReducerError, match=re.escape(says)) as caught:
        deltafix.connect(_program({"sum": "number"}, "number"), reducers={"sum": given})
    assert str(caught.value).startswith("reducers['sum'] is no reducer")


def test_a_reducer_that_breaks_its_laws_is_found_by_the_invariants():
    wrong = reducer(0, lambda acc, value: acc + value, lambda acc, _: acc)
    with deltafix.connect(_program({"sum": "number"}, "number"), reducers={"sum": wrong}) as db:
        with db.transaction() as tx:
            tx.insert("sale", [("a", 1, 3), ("a", 2, 4)])
        db.check_invariants()
        with db.transaction() as tx:
            tx.delete("sale", [("a", 1, 3)])
        with pytest.raises(InternalError, match="differ from a fold of all rows"):
            db.check_invariants()
