"""Lazy functions that ask themselves at other keys, follow changes and keep what they need.

Sees: an answer that is old after an edit, an edit that closes a cycle and leaves something behind,
and keys that are called although nothing that they asked changed.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from deltafix.errors import LazyCycleError, OperatorError, ReactiveError
from deltafix.reactive import Collection

PARITY = 3


def _worth(call):
    """Numbers count themselves, ("see", k) the worth of k, ("if", k, m) that of m if k is odd."""
    total = 0
    for value in call.values:
        if isinstance(value, int):
            total += value
        elif value[0] == "see":
            total += sum(call.ask(value[1]))
        elif sum(call.ask(value[1])) % 2:
            total += sum(call.ask(value[2]))
    return [total % PARITY] if total % PARITY else []


class _LoopError(Exception):
    pass


def _from_scratch(held, key, path=()):
    if key in path:
        raise _LoopError
    total = 0
    for value in held.get(key, ()):
        if isinstance(value, int):
            total += value
            continue
        first = _from_scratch(held, value[1], (*path, key))
        if value[0] == "see":
            total += first
        elif first % 2:
            total += _from_scratch(held, value[2], (*path, key))
    return total % PARITY


def _edited(held, chance):
    """One change of the held values, as (key, values before, values after)."""
    key = chance.randrange(8)
    before = held.get(key, [])
    after = [value for value in before if chance.random() < 0.6]
    for _ in range(chance.choice([0, 1, 1, 2])):
        one, other = chance.randrange(8), chance.randrange(8)
        after.append(chance.choice([1, 2, ("see", one), ("see", other), ("if", one, other)]))
    return key, before, after


@pytest.mark.parametrize("seed", range(12))
def test_oracle_lazies_that_ask_each_other_under_random_edits(seed):
    chance = random.Random(seed)
    source = Collection.input()
    lazy = source.lazy(_worth)
    after_it = lazy.map_values(lambda value: -value)
    held, watches, told = {}, {}, {}
    after_it.subscribe(
        lambda delta: [
            told.__setitem__((key, value), told.get((key, value), 0) + count)
            for key, value, count in delta
        ]
    )
    refused = 0
    for _ in range(150):
        if chance.random() < 0.3:
            key = chance.randrange(8)
            if key in watches:
                watches.pop(key).close()
            else:
                try:
                    watches[key] = lazy.watch(key)
                except LazyCycleError as error:
                    assert error.cycle[0] == error.cycle[-1]
                    with pytest.raises(_LoopError):
                        _from_scratch(held, key)
        key, before, after = _edited(held, chance)
        changed = {**held, key: after}
        try:
            with source.transaction() as tx:
                for value in before:
                    tx.delete(key, value)
                for value in after:
                    tx.insert(key, value)
            held = changed
        except LazyCycleError:
            refused += 1
            with pytest.raises(_LoopError):
                for one in watches:
                    _from_scratch(changed, one)
        for one in range(8):
            if one in watches or chance.random() < 0.3:
                try:
                    wanted = _from_scratch(held, one)
                except _LoopError:
                    assert one not in watches
                    with pytest.raises(LazyCycleError):
                        lazy.values(one)
                    continue
                assert lazy.values(one) == ([wanted] if wanted else [])
        source.check_invariants()
        assert {pair: count for pair, count in told.items() if count} == {
            (one, -_from_scratch(held, one)): 1 for one in watches if _from_scratch(held, one)
        }
    assert refused


def test_only_the_keys_that_asked_for_what_changed_are_called():
    source = Collection.input()
    lazy = source.lazy(_worth)
    for key in range(1, 200):
        source.insert(key, ("see", key - 1))
    source.insert(0, 1)
    source.insert(1_000, ("see", 0))
    with lazy.watch(100), lazy.watch(1_000):
        before = lazy.computed
        source.insert(150, 1)  # nobody asked it
        assert lazy.computed == before
        source.insert(60, 1)
        assert lazy.computed - before == 41
        assert lazy.values(100) == [2]
        before = lazy.computed
        with source.transaction() as tx:  # the key changes, its result does not
            tx.delete(30, ("see", 29))
            tx.insert(30, 1)
        assert lazy.computed - before == 1
        source.check_invariants()


def test_a_call_follows_changes_in_their_own_size_by_what_it_kept():
    looked = []

    def total(call):
        """The sum of a key's numbers and of the totals of the keys it names."""
        if call.changes is None:
            values = [(value, 1) for value in call.values]
            call.kept = (0, frozenset())
        else:
            values = list(call.changes.items())
        looked.append((call.key, len(values)))
        own, named = call.kept
        for value, count in values:
            if isinstance(value, int):
                own += value * count
            elif count > 0:
                named |= {value}
            else:
                named -= {value}
        call.kept = (own, named)
        return [own + sum(sum(call.ask(name)) for name in sorted(named))]

    source = Collection.input()
    lazy = source.lazy(total)
    for number in range(1_000):
        source.insert("a", number)
    source.insert("sum", "a")
    with lazy.watch("sum"):
        looked.clear()
        source.insert("a", 5)
        assert looked == [("a", 1), ("sum", 0)]
        assert lazy.values("sum") == [sum(range(1_000)) + 5]
        looked.clear()
        source.insert("b", 7)
        source.insert("sum", "b")
        assert looked == [("sum", 1), ("b", 1)]
        source.delete("sum", "a")
        assert lazy.values("sum") == [7]
        with pytest.raises(LazyCycleError, match=r"'b' -> 'sum' -> 'b'|'sum' -> 'b' -> 'sum'"):
            source.insert("b", "sum")
        assert lazy.values("sum") == [7]
        source.insert("b", 1)
        assert lazy.values("sum") == [8]
        source.check_invariants()


def test_what_changed_at_an_asked_key_is_told():
    told = []

    def copied(call):
        if call.key == "copy":
            change = call.changes_of("whole")
            told.append(change)
            return call.ask("whole")
        return call.values

    source = Collection.input()
    lazy = source.lazy(copied)
    source.insert("whole", 1)
    source.insert("whole", 2)
    with lazy.watch("copy"):
        with source.transaction() as tx:
            tx.delete("whole", 1)
            tx.insert("whole", 3)
        source.insert("copy", 0)
        assert told == [None, {1: -1, 3: 1}, {}]
        assert sorted(lazy.values("copy")) == [2, 3]


@pytest.mark.parametrize("length", [49, 50, 51, 5_000])
def test_a_chain_of_any_length_is_followed_and_its_cycle_shown(length):
    source = Collection.input()
    lazy = source.lazy(_worth)
    for key in range(length):
        source.insert(key, ("see", key + 1))
    source.insert(length, 1)
    with lazy.watch(0):
        assert lazy.values(0) == [1]
        assert lazy.computed <= 2 * (length + 1)
        source.update(length, 1, 2)
        assert lazy.values(0) == [2]
        with pytest.raises(LazyCycleError) as caught:
            source.insert(length, ("see", 0))
        cycle = caught.value.cycle
        assert len(cycle) == length + 2
        assert cycle[0] == cycle[-1]
        assert {(one + 1) % (length + 1) for one in cycle[:-1]} == set(cycle[:-1])
        assert all((a + 1) % (length + 1) == b for a, b in pairwise(cycle))
        assert lazy.values(0) == [2]
        source.check_invariants()


def test_an_error_of_an_asked_key_cannot_be_swallowed_and_a_call_ends():
    calls = []

    def careless(call):
        calls.append(call)
        if call.key == "bad":
            return [1 // len(call.values)]
        try:
            return call.ask("bad")
        except Exception:
            return [0]

    source = Collection.input()
    lazy = source.lazy(careless)
    with pytest.raises(OperatorError, match="key 'bad'"):
        lazy.values("a")
    source.insert("bad", 1)
    assert lazy.values("a") == [1]
    with lazy.watch("a"):
        with pytest.raises(OperatorError, match="ZeroDivisionError"):
            source.delete("bad", 1)
        assert (lazy.values("a"), source.to_dict()) == ([1], {"bad": [1]})
    with pytest.raises(ReactiveError, match="is over"):
        calls[-1].ask("bad")


def test_a_function_may_not_read_what_it_would_not_follow():
    source = Collection.input()
    around = source.lazy(lambda call: around.values("b") if call.key == "a" else call.values)
    with pytest.raises(OperatorError, match=r"use call\.ask"):
        around.values("a")
    plain = source.lazy(lambda call: call.values)
    source.insert("x", 1)
    reading = source.map_values(lambda value: plain.values("x") and value)
    with pytest.raises(OperatorError, match="join the collection"):
        source.insert("x", 2)
    assert (plain.values("x"), source.to_dict()) == ([1], {"x": [1]})
    assert reading.to_dict() == {"x": [1]}


def test_what_nobody_watches_is_let_go_beyond_a_bound(monkeypatch):
    monkeypatch.setattr("deltafix.reactive.lazy._CACHED", 10)
    source = Collection.input()
    lazy = source.lazy(_worth)
    source.insert("w", ("see", "x"))
    source.insert("x", 1)
    with lazy.watch("w"):
        for key in range(25):
            assert lazy.values(key) == []
        before = lazy.computed
        assert (lazy.values("w"), lazy.values("x"), lazy.values(24)) == ([1], [1], [])
        assert lazy.computed == before
        assert lazy.values(0) == []
        assert lazy.computed == before + 1
        source.check_invariants()
