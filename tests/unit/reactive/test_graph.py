"""One pass per epoch: who is visited, in what order, what is told, and what an error leaves."""

from __future__ import annotations

import pytest

from deltafix.errors import (
    MissingRowError,
    OperatorError,
    ReactiveError,
    ReducerError,
    SubscriberError,
    TransactionError,
    TypeMismatchError,
)
from deltafix.reactive import Collection, Count, Min, Sum, reducer


def test_a_node_whose_input_did_not_change_is_not_visited():
    sales, users = Collection.input(name="sales"), Collection.input(name="users")
    totals = sales.reduce(Sum(), name="totals")
    names = users.map_values(str.title, name="names")
    both = totals.join(names, name="both")
    with sales.transaction() as tx:
        tx.insert("ann", 3)
        tx.on(users).insert("ann", "ann")
    assert sales.last_epoch.visited == ("totals", "names", "both")
    sales.insert("ann", 4)
    assert sales.last_epoch.visited == ("totals", "both")
    assert (totals.visits, names.visits, both.visits) == (2, 1, 2)


def test_a_change_that_cancels_out_stops_where_it_does():
    source = Collection.input()
    parity = source.reduce(Sum(), name="sum").map_values(lambda v: v % 2, name="parity")
    after = parity.reduce(Count(), name="after")
    source.insert("k", 1)
    with source.transaction() as tx:
        tx.insert("k", 2)
    assert source.last_epoch.visited == ("sum", "parity")
    assert (parity.get("k"), after.visits) == (1, 1)


def test_an_epoch_without_net_changes_does_not_pass():
    source = Collection.input()
    total = source.reduce(Sum())
    source.insert("k", 1)
    with source.transaction() as tx:
        tx.insert("k", 5)
        tx.delete("k", 5)
    assert (source.epoch, total.visits) == (1, 1)


def test_a_diamond_sees_both_sides_of_the_same_epoch_and_tells_once():
    source = Collection.input()
    low, high = source.reduce(Min()), source.reduce(Sum())
    pairs = low.join(high, lambda key, a, b: (a, b))
    seen = []
    pairs.subscribe(lambda delta: seen.append((delta.removed, delta.added)))
    source.insert("k", 4)
    source.insert("k", 3)
    assert seen == [([], [("k", (4, 4))]), ([("k", (4, 4))], [("k", (3, 7))])]
    assert pairs.visits == 2


def test_a_failing_function_rolls_everything_back_and_is_named_with_key_and_value():
    source = Collection.input(name="orders")
    total = source.reduce(Sum())
    source.insert("a", 1)

    def invert(value):
        return 100 // value

    inverted = source.map_values(invert)
    told = []
    total.subscribe(told.append)
    tx = source.transaction()
    tx.insert("a", 7)
    tx.insert("b", 0)
    with pytest.raises(OperatorError) as caught:
        tx.commit()
    assert (caught.value.operator, caught.value.key, caught.value.value) == (
        "map_values(invert)",
        "b",
        0,
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "'b'" in str(caught.value)
    assert source.to_dict() == {"a": [1]}
    assert total.to_dict() == {"a": [1]}
    assert inverted.to_dict() == {"a": [100]}
    assert (told, source.epoch) == ([], 1)
    source.check_invariants()
    source.insert("a", 2)
    assert total.get("a") == 3


def test_a_failing_reducer_names_the_value_that_fails_among_good_ones():
    source = Collection.input()
    total = source.reduce(Sum())
    tx = source.transaction()
    tx.insert("k", 1)
    tx.insert("k", "two")
    tx.insert("k", 3)
    with pytest.raises(OperatorError) as caught:
        tx.commit()
    assert (caught.value.key, caught.value.value) == ("k", "two")
    assert total.to_dict() == {}
    source.check_invariants()


def test_a_missing_field_is_reported_with_the_value():
    source = Collection.input()
    source.reduce(Sum("amount"))
    with pytest.raises(OperatorError, match="amount") as caught:
        source.insert("k", 3)
    assert caught.value.value == 3


def test_deleting_what_is_not_there_names_it_and_changes_nothing():
    source = Collection.input(name="orders")
    source.insert("k", 1)
    with pytest.raises(MissingRowError, match=r"9 at key 'k'"):
        source.delete("k", 9)
    with pytest.raises(MissingRowError, match="key 'z'"):
        source.delete("z")
    tx = source.transaction()
    tx.insert("k", 2)
    tx.delete("k", 1)
    with pytest.raises(MissingRowError):
        tx.delete("k", 1)
    tx.rollback()
    with pytest.raises(MissingRowError):
        source.update("k", 8, 8)
    assert source.to_dict() == {"k": [1]}
    source.check_invariants()


def test_an_impure_function_is_caught_when_a_kept_result_leaves():
    source = Collection.input()
    calls = iter(range(100))
    impure = source.map_values(lambda value: next(calls))
    impure.values("k")
    source.insert("k", "x")
    with pytest.raises(OperatorError, match="same"):
        source.delete("k", "x")
    assert source.to_dict() == {"k": ["x"]}


def test_an_impure_function_is_caught_by_a_reduction_whose_key_never_came():
    source = Collection.input()
    keys = iter("ab")
    counted = source.group(lambda key, value: next(keys)).reduce(Count())
    source.insert("k", "x")
    with pytest.raises(OperatorError, match="never came"):
        source.delete("k", "x")
    assert counted.to_dict() == {"a": [1]}


def test_types_are_checked_at_the_door():
    source = Collection.input(key=str, value=(int, float), name="sales")
    with pytest.raises(TypeMismatchError, match=r"sales: the key 3 is int, not str"):
        source.insert(3, 1)
    with pytest.raises(TypeMismatchError, match=r"not int or float"):
        source.insert("k", "1")
    with pytest.raises(TypeMismatchError, match="hashed"):
        Collection.input().insert("k", [1])
    assert len(source) == 0


def test_a_transaction_is_all_or_nothing_and_ends_once():
    source = Collection.input()
    tx = source.transaction()

    def fail():
        with tx:
            tx.insert("k", 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert source.to_dict() == {}
    with pytest.raises(TransactionError):
        tx.insert("k", 1)
    first = source.transaction()
    with pytest.raises(TransactionError):
        source.transaction()
    with pytest.raises(TransactionError):
        source.insert("k", 1)
    first.insert("k", 2)
    assert first.commit() == 1
    assert source.get("k") == 2


def test_a_transaction_reaches_only_inputs_of_its_graph():
    left, right = Collection.input(), Collection.input()
    with left.transaction() as tx, pytest.raises(TransactionError, match="separate"):
        tx.on(right)
    joined = left.join(right)
    with left.transaction() as tx:
        tx.insert("k", 1)
        tx.on(right).insert("k", 2)
        with pytest.raises(TransactionError, match="not an input"):
            tx.on(joined)
    assert joined.get("k") == (1, 2)
    with left.transaction(), pytest.raises(TransactionError):
        left.join(Collection.input())


def test_subscribers_hear_epochs_in_order_also_when_one_of_them_commits():
    source = Collection.input()
    echo = Collection.input()
    source.join(echo)
    heard = []

    def copy(delta):
        heard.append(("copy", delta.epoch))
        if delta.epoch == 1:
            source.insert("k", 2)

    source.subscribe(copy)
    source.subscribe(lambda delta: heard.append(("log", delta.epoch)))
    source.insert("k", 1)
    assert heard == [("copy", 1), ("log", 1), ("copy", 2), ("log", 2)]


def test_a_failing_subscriber_does_not_undo_the_epoch_nor_silence_others():
    source = Collection.input()
    heard = []

    def broken(delta):
        raise ValueError("no disk")

    source.subscribe(broken)
    with source.subscribe(heard.append), pytest.raises(SubscriberError, match="no disk"):
        source.insert("k", 1)
    assert len(heard) == 1
    assert source.to_dict() == {"k": [1]}


def test_closing_a_subscription_ends_it_and_initial_sends_what_is_there():
    source = Collection.input()
    source.insert("k", 1)
    heard = []
    subscription = source.subscribe(lambda delta: heard.append(list(delta)), initial=True)
    source.insert("k", 1)
    subscription.close()
    subscription.close()
    source.insert("k", 1)
    assert heard == [[("k", 1, 1)], [("k", 1, 1)]]
    assert subscription.closed


def test_an_operator_function_may_not_change_or_read_its_own_graph():
    source = Collection.input()
    total = source.reduce(Sum())
    source.map_values(lambda value: source.insert("other", value), name="writes")
    with pytest.raises(OperatorError, match="own graph"):
        source.insert("k", 1)
    assert total.to_dict() == {}
    other = Collection.input()
    other.map_values(lambda value: other.get("k"), name="reads")
    with pytest.raises(OperatorError, match="own graph"):
        other.insert("k", 1)


def test_an_operator_that_fails_on_what_is_there_is_not_added():
    source = Collection.input()
    source.insert("k", "x")
    nodes = len(source._node.graph.nodes)
    with pytest.raises(OperatorError, match="'x'"):
        source.reduce(Sum())
    assert len(source._node.graph.nodes) == nodes
    source.insert("k", "y")
    assert source.values("k") == ["x", "y"]


def test_operators_added_late_start_from_what_is_there():
    source = Collection.input()
    source.insert("k", 3)
    source.insert("k", 4)
    total = source.map_values(lambda v: v * 10).reduce(Sum())
    assert total.get("k") == 70
    source.delete("k", 3)
    assert total.get("k") == 40


def test_get_refuses_to_choose_among_several_values():
    source = Collection.input()
    source.insert("k", 1)
    source.insert("k", 1)
    with pytest.raises(ReactiveError, match="2 values"):
        source.get("k")
    assert source.get("z", "none") == "none"
    assert ("k" in source, "z" in source, len(source)) == (True, False, 2)


def test_a_reducer_that_claims_too_much_is_named():
    source = Collection.input()
    source.reduce(reducer(0, lambda a, v: a + v, lambda a, v: None, name="liar"))
    source.insert("k", 1)
    source.insert("k", 2)
    with pytest.raises(OperatorError, match="liar is declared well-formed"):
        source.delete("k", 1)
    with pytest.raises(ReducerError, match="call it"):
        source.reduce(Sum)


def test_explain_prints_the_operators_as_a_tree():
    source = Collection.input(name="sales")
    view = source.filter(lambda k, v: v > 0, name="positive").reduce(Sum("amount"))
    assert view.explain() == "reduce(Sum('amount'))\n  positive\n    sales"


def test_signed_counts_are_applied_as_one_epoch():
    source = Collection.input(key=str)
    total = source.reduce(Sum())
    assert source.apply({"a": {3: 2, 5: 1}, "b": {1: 1}, "c": {7: 0}}) == 1
    assert total.to_dict() == {"a": [11], "b": [1]}
    with pytest.raises(MissingRowError, match="5 at key 'a'"):
        source.apply({"b": {1: -1}, "a": {5: -2}})
    assert source.to_dict() == {"a": [3, 3, 5], "b": [1]}
    assert source.apply({"c": {7: 0}}) == 1
    with pytest.raises(TypeMismatchError):
        source.apply({3: {1: 1}})
    source.check_invariants()
