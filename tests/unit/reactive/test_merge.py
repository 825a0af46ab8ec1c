"""Signed tables merged by columns agree with the same rows one by one.

Two graphs of the same operators take the same epochs: one by `apply_table` with the way of columns
open to every batch, one by `apply` with dictionaries. After each epoch both hold the same, told
their subscribers the same, and satisfy their invariants.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pyarrow as pa
import pytest

from deltafix.errors import FactError, MissingRowError, OperatorError, TypeMismatchError
from deltafix.reactive import Collection, Count, Max, Mean, Median, Min, Sum, merge, product
from deltafix.reactive.merge import Merge

REDUCERS = [
    Count(),
    Sum(),
    Mean(),
    Min(),
    Max(),
    Min(partial=True),
    Median(),
    product(Sum(), Min()),
]
VALUES = {
    "int": (pa.int64(), lambda rng: rng.randrange(-2, 4)),
    "far": (pa.int64(), lambda rng: rng.choice([-(2**63), 2**63 - 1, 0, 5])),
    "small": (pa.int8(), lambda rng: rng.randrange(3)),
    "float": (pa.float64(), lambda rng: rng.choice([0.5, -1.25, 1e300, 0.0])),
    "text": (pa.string(), lambda rng: rng.choice(["", "a", "ä"])),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
}
KEYS = {
    "text": (pa.string(), lambda rng: rng.choice("abcdef")),
    "int": (pa.int32(), lambda rng: rng.randrange(6)),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
}


@pytest.fixture(autouse=True)
def open_to_all(monkeypatch):
    """Merge batches of any size into states of any size; count how many were."""
    taken = Counter()
    of = Merge.of.__func__

    def counted(cls, *args):
        found = of(cls, *args)
        taken[found is not None] += 1
        return found

    monkeypatch.setattr(merge, "_FEW", 0)
    monkeypatch.setattr(merge, "_SHARE", 1 << 40)
    monkeypatch.setattr(Merge, "of", classmethod(counted))
    return taken


class Twin:
    """The same operators twice: `rows` takes dictionaries, `table` takes tables."""

    def __init__(self, reducers):
        self.sides = []
        for _ in range(2):
            source = Collection.input()
            views = [source.reduce(reducer) for reducer in reducers]
            views.append(source.reduce(Count(), verify="all"))
            views.append(source.map_values(str).distinct())
            told = []
            for place, view in enumerate([source, *views]):
                view.subscribe(partial(_note, told, place))
            self.sides.append((source, views, told))

    def check(self):
        (rows, views, told), (table, same, heard) = self.sides
        assert _held(table) == _held(rows)
        for one, other in zip(views, same, strict=True):
            assert _held(other) == _held(one), one
        assert sorted(heard) == sorted(told)
        told.clear()
        heard.clear()
        table.check_invariants()


def _note(told, place, delta):
    told.append((place, _signed(delta)))


def _held(collection):
    return sorted(((repr(k), repr(v)) for k, v in collection.items()))


def _signed(delta):
    return sorted((repr(key), repr(value), count) for key, value, count in delta)


def _table(batch, key_type, value_type):
    keys, values, signs = zip(*batch, strict=True) if batch else ((), (), ())
    return pa.table(
        {
            "k": pa.array(keys, key_type),
            "v": pa.array(values, value_type),
            "s": pa.array(signs, pa.int16()),
        }
    )


def _sums(batch):
    sums = Counter()
    for key, value, sign in batch:
        sums[key, value] += sign
    changes = {}
    for (key, value), count in sums.items():
        changes.setdefault(key, {})[value] = count
    return changes


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("keys", KEYS)
def test_random_epochs_agree_with_rows_one_by_one(keys, values, open_to_all):
    rng = Random(f"merge {keys} {values}")
    key_type, draw_key = KEYS[keys]
    value_type, draw = VALUES[values]
    reducers = REDUCERS if values not in ("text", "bool") else [Count(), Min(), Max()]
    twin = Twin(reducers)
    (rows, *_), (table, *_) = twin.sides
    held = Counter()
    for turn in range(40):
        batch = [
            (draw_key(rng), draw(rng), rng.choice([1, 1, 2, 0])) for _ in range(rng.randrange(9))
        ]
        there = list(held.elements())
        rng.shuffle(there)
        batch += [(*pair, -1) for pair in there[: rng.randrange(len(there) + 1)]]
        if rng.random() < 0.15:  # more is taken than is there
            key, value = draw_key(rng), draw(rng)
            batch.append((key, value, -held[key, value] - rng.randrange(5, 9)))
        rng.shuffle(batch)
        made = _table(batch, key_type, value_type)
        sums = _sums(batch)
        short = {
            (key, value)
            for key, counts in sums.items()
            for value, count in counts.items()
            if held[key, value] + count < 0
        }
        if short:
            with pytest.raises(MissingRowError) as found:
                table.apply_table(made, key="k", values="v", sign="s")
            places = found.value.values["rows"]
            assert places == [at for at, (*pair, _) in enumerate(batch) if tuple(pair) in short]
            key, value, _ = batch[places[0]]
            there = held[key, value]
            wanted = f"cannot delete {value!r} at key {key!r}"
            assert str(found.value).startswith(wanted)
            assert f"it is there {there} time" in str(found.value) or not there
            with pytest.raises(MissingRowError):
                rows.apply(sums)
        else:
            assert table.apply_table(made, key="k", values="v", sign="s") == len(batch)
            rows.apply(sums)
            for key, counts in sums.items():
                for value, count in counts.items():
                    held[key, value] += count
            held = +held
            if there and turn % 3 == 0:  # single rows between tables make keys live
                key, value = rng.choice(list(held.elements()) or [(draw_key(rng), None)])
                if value is not None and draw(rng) != value:
                    new = draw(rng)
                    for source, *_ in twin.sides:
                        source.update(key, value, new)
                    if new != value:
                        held[key, value] -= 1
                        held[key, new] += 1
                        held = +held
            elif held and turn % 3 == 1:  # a key that columns hold is emptied, and comes back
                key, _ = rng.choice(list(held))
                for source, *_ in twin.sides:
                    source.delete(key)
                held = Counter({pair: n for pair, n in held.items() if pair[0] != key})
        twin.check()
    assert open_to_all[True] > 10


def test_several_columns_are_named_tuples_in_both_ways(open_to_all):
    twin = Twin([Sum("n"), Min("n"), Count()])
    (rows, *_), (table, *_) = twin.sides
    rng = Random("several")
    for _ in range(10):
        held = list(rows.items())
        batch = [(rng.choice("ab"), (rng.choice("xy"), rng.randrange(3)), 1) for _ in range(6)]
        batch += [(key, tuple(value), -1) for key, value in rng.sample(held, len(held) // 2)]
        made = pa.table(
            {
                "k": [key for key, _, _ in batch],
                "who": [value[0] for _, value, _ in batch],
                "n": [value[1] for _, value, _ in batch],
                "sign": [sign for _, _, sign in batch],
            }
        )
        table.apply_table(made, key="k")
        row = type(next(value for _, value in table.items()))
        assert row._fields == ("who", "n")
        rows.apply(
            {k: {row(*v): n for v, n in counts.items()} for k, counts in _sums(batch).items()}
        )
        twin.check()
        key, value = next(iter(rows.items()))
        for source, *_ in twin.sides:  # keys that are live are merged all the same
            source.update(key, value, row("z", 9))
        twin.check()
    assert open_to_all == {True: 10}


def _apply(source, batch, value_type=None):
    source.apply_table(_table(batch, pa.string(), value_type), key="k", values="v", sign="s")


@pytest.mark.parametrize("odd", [float("nan"), None, 2**64 - 1], ids=["nan", "null", "unsigned"])
def test_what_columns_cannot_compare_goes_one_by_one(odd, open_to_all):
    source = Collection.input()
    counts = source.reduce(Count())
    kind = pa.uint64() if odd == 2**64 - 1 else pa.float64()
    _apply(source, [("a", odd, 2), ("b", 1, 1)], kind)
    assert counts.to_dict() == {"a": [2], "b": [1]}
    _apply(source, [("b", 1, -1), ("a", 1, 1)], kind)
    assert counts.to_dict() == {"a": [3]}
    assert open_to_all[kind == pa.uint64()] == 2
    source.check_invariants()


def test_values_of_another_type_keep_theirs(open_to_all):
    source = Collection.input()
    sums = source.reduce(Sum())
    source.insert("a", 1.0)
    source.insert("b", True)
    _apply(source, [("a", 1, 1), ("c", 2, 1)], pa.int64())
    assert open_to_all == {False: 1}
    assert repr(sums.get("a")) == "2.0"
    assert source.to_dict()["a"] == [1.0, 1.0]
    _apply(source, [("b", 1, -1), ("a", 1, -2)], pa.int64())
    assert sums.to_dict() == {"c": [2]}


def test_an_error_of_any_operator_puts_columns_and_entries_back():
    source = Collection.input()
    sums, least = source.reduce(Sum()), source.reduce(Min())
    bad = source.map_values(lambda value: 1 // value)
    total = bad.reduce(Sum())
    heard = []
    _apply(source, [("a", 3, 1), ("b", 1, 2)], pa.int64())
    source.update("a", 3, 4)
    sums.subscribe(heard.append)
    before = [view.to_dict() for view in (source, sums, least, total)]
    with pytest.raises(OperatorError, match="failed at key 'c' on value 0"):
        _apply(source, [("a", 4, -1), ("b", 2, 1), ("c", 0, 1)], pa.int64())
    assert [view.to_dict() for view in (source, sums, least, total)] == before
    assert heard == []
    source.check_invariants()
    _apply(source, [("a", 4, -1), ("b", 2, 1)], pa.int64())
    assert [view.to_dict() for view in (sums, least, total)] == [{"b": [4]}, {"b": [1]}, {"b": [2]}]
    source.check_invariants()


def test_small_epochs_on_large_states_touch_no_other_key(monkeypatch, open_to_all):
    monkeypatch.setattr(merge, "_SHARE", 2)
    source = Collection.input()
    sums = source.reduce(Sum())
    _apply(source, [(f"k{place}", place, 1) for place in range(100)], pa.int64())
    assert open_to_all == {True: 1}
    segment, untouched, live = source._input.kept.parts()
    assert (len(segment), len(untouched), live) == (100, 100, {})
    _apply(source, [("k1", 5, 1), ("k2", 2, -1)], pa.int64())
    assert open_to_all == {True: 1, False: 1}
    assert source._input.kept.parts()[0] is segment
    assert (len(untouched), sums.get("k1"), "k2" in sums) == (98, 6, False)


def test_tables_that_are_none_of_signed_rows_are_refused_by_name():
    source = Collection.input(key=str)
    sums = source.reduce(Sum())
    good = _table([("a", 1, 1)], pa.string(), pa.int64())
    with pytest.raises(FactError, match="expected a pyarrow Table or RecordBatch, not list"):
        source.apply_table([("a", 1, 1)], key="k")
    with pytest.raises(FactError, match="no column 'sign'; its columns are 'k', 'v', 's'"):
        source.apply_table(good, key="k", values="v")
    with pytest.raises(FactError, match="'v' of signs holds string, not integers"):
        text = good.set_column(1, "v", pa.array(["x"]))
        source.apply_table(text, key="k", values="s", sign="v")
    with pytest.raises(FactError, match="'s' of signs holds nulls"):
        nulls = good.set_column(2, "s", pa.array([None], pa.int8()))
        source.apply_table(nulls, key="k", values="v", sign="s")
    with pytest.raises(FactError, match="'k' is the key and holds nulls"):
        source.apply_table(_table([(None, 1, 1)], pa.string(), pa.int64()), key="k", sign="s")
    with pytest.raises(TypeMismatchError, match="the key 1 is int, not str"):
        source.apply_table(_table([(1, 1, 1)], pa.int64(), pa.int64()), key="k", sign="s")
    assert sums.to_dict() == {}
    epoch = source.epoch
    assert source.apply_table(good.slice(0, 0), key="k", values="v", sign="s") == 0
    assert source.apply_table(good, key="k", values="v", sign="s") == 1
    assert (source.epoch, sums.to_dict()) == (epoch + 1, {"a": [1]})
