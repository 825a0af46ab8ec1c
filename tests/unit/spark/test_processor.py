"""A reducer as a StatefulProcessor, its state in dictionaries: no JVM, the real processor."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from pyspark.sql import Row

from deltafix.errors import FactError, MissingRowError
from deltafix.facts.values import settled
from deltafix.reactive import Count, Mean, Median, Min, Sum, Union, enriched, product
from deltafix.spark.processor import ReducerProcessor

REDUCERS = (
    Sum(),
    Count(),
    Mean(),
    Min(),
    Min(partial=True),
    Median(),
    product(Sum(), Min(partial=True)),
    enriched(Union(), lambda bag: bag.total),
)


class Value:
    """A ValueState."""

    def __init__(self) -> None:
        self.held = None

    def get(self):
        return self.held

    def update(self, value) -> None:
        self.held = value

    def clear(self) -> None:
        self.held = None


class Map:
    """A MapState: keys by their bytes, and given back as other objects than were put in."""

    def __init__(self) -> None:
        self.held: dict = {}

    def containsKey(self, key) -> bool:  # noqa: N802  Spark's names
        return repr(key) in self.held

    def getValue(self, key):  # noqa: N802
        return self.held[repr(key)][1]

    def updateValue(self, key, value) -> None:  # noqa: N802
        self.held[repr(key)] = (key, value)

    def removeKey(self, key) -> None:  # noqa: N802
        del self.held[repr(key)]

    def iterator(self):
        return iter([(tuple(map(fresh, key)), value) for key, value in self.held.values()])


def fresh(value):
    """A number as Spark gives it: one NaN is not another."""
    return float(repr(value)) if isinstance(value, float) else value


class Desk:
    """A processor over states by key, as `transformWithState` keeps them."""

    def __init__(self, processor) -> None:
        self.processor = processor
        self.states: dict = {}

    def test(self, key, rows):
        self.states.setdefault(key, {})
        here = self.states[key]

        class Handle:
            def getValueState(self, name, schema):  # noqa: N802  Spark's name
                return here.setdefault(name, Value())

            def getMapState(self, name, key, value):  # noqa: N802
                return here.setdefault(name, Map())

        self.processor.init(Handle())
        return list(self.processor.handleInputRows((key,), iter(rows), None))


def _send(tester, key, *rows):
    given = [Row(value=fresh(value), sign=sign) for value, sign in rows]
    return [(row.key, row.value, row.sign) for row in tester.test(key, given)]


def test_signed_rows_give_signed_results():
    tester = Desk(ReducerProcessor(Sum(), value_type="long"))
    assert _send(tester, "a", (3, 1), (5, 1), (7, 1)) == [("a", 15, 1)]
    assert _send(tester, "a", (5, -1), (2, 1)) == [("a", 15, -1), ("a", 12, 1)]
    assert _send(tester, "b", (1, 1), (1, -1)) == []
    assert _send(tester, "a", (2, 1), (2, -1)) == []
    assert _send(tester, "a", (3, -1), (7, -1), (2, -1)) == [("a", 12, -1)]


@pytest.mark.parametrize("odd", [(), (math.nan, 0.0, -0.0), (math.nan, math.inf, -math.inf)])
@pytest.mark.parametrize("reducer", REDUCERS, ids=lambda reducer: reducer.name)
def test_oracle_results_equal_a_fold_of_what_is_held(reducer, odd):
    chance = random.Random(5)
    pool = [0.1, 1e16, 2.0, -3.5, *odd]
    tester = Desk(ReducerProcessor(reducer, value_type="double"))
    held, shown = [], {}
    for _ in range(40):
        rows = []
        for _ in range(chance.randint(1, 4)):
            if held and chance.random() < 0.45:
                rows.append((held.pop(chance.randrange(len(held))), -1))
            else:
                held.append(chance.choice(pool))
                rows.append((held[-1], 1))
        told = _send(tester, "k", *rows)
        assert len({repr(value) for _, value, _ in told}) == len(told)  # what stays is not told
        for _, value, sign in told:
            shown[repr(value)] = shown.get(repr(value), 0) + sign
        counts = Counter(map(settled, held))
        wanted = {repr(settled(reducer.finish(reducer.fold(counts)))): 1} if held else {}
        assert {value: count for value, count in shown.items() if count} == wanted


def test_only_what_needs_the_values_keeps_them():
    plain = Desk(ReducerProcessor(Sum(), value_type="long"))
    _send(plain, "k", (3, 1), (0.5, 1))
    assert plain.states["k"]["accumulator"].get()[1] == 2
    partial = Desk(ReducerProcessor(Min(partial=True), value_type="long"))
    _send(partial, "k", (3, 1), (5, 1))
    assert list(partial.states["k"]["values"].iterator()) == [((3,), (1,)), ((5,), (1,))]
    assert _send(partial, "k", (3, -1)) == [("k", 3, -1), ("k", 5, 1)]


def test_deletes_of_what_is_absent_fail():
    plain = Desk(ReducerProcessor(Sum(), value_type="long"))
    with pytest.raises(MissingRowError, match="more left than came"):
        _send(plain, "k", (3, -1))
    partial = Desk(ReducerProcessor(Min(partial=True), value_type="long"))
    _send(partial, "k", (3, 1))
    with pytest.raises(MissingRowError, match="5 at key 'k'"):
        _send(partial, "k", (5, -1))


def test_bad_rows_go_out_with_a_reason_or_fail():
    def send(tester, *rows):
        given = [Row(value=value, sign=sign) for value, sign in rows]
        return [(row.value, row.sign, row.reason) for row in tester.test("k", given)]

    lenient = Desk(ReducerProcessor(Sum(), value_type="long", bad_rows="quarantine"))
    assert send(lenient, (3, 1), (9, -1), (None, 1), (8, None)) == [
        (None, 1, "no value"),
        (None, 0, "no sign of the value 8"),
        (None, -1, "delete of the absent value 9"),
        (3, 1, None),
    ]
    # An addition and a removal of one batch are net before anything is called absent.
    assert send(lenient, (9, -1), (9, 1), (3, -2), (4, 1)) == [
        (None, -2, "delete of the absent value 3"),
        (3, -1, None),
        (7, 1, None),
    ]
    strict = Desk(ReducerProcessor(Sum(), value_type="long"))
    for row in ((None, 1), (8, None)):
        with pytest.raises(FactError, match="bad row at key 'k': no"):
            strict.test("k", [Row(value=row[0], sign=row[1])])
    with pytest.raises(FactError, match="'fail' or 'quarantine'"):
        ReducerProcessor(Sum(), bad_rows="drop")
