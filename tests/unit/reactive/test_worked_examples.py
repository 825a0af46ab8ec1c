"""The worked examples of the Skip reduce paper, section 6, with its numbers."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from deltafix.reactive import Collection, Count, Mean, Min, Sum, Union, check_reducer, reducer


def _epoch(source, removed, added, key="k"):
    with source.transaction() as tx:
        for value in removed:
            tx.delete(key, value)
        for value in added:
            tx.insert(key, value)


def test_sum_of_3_5_7_less_5_plus_2_is_12():
    source = Collection.input(key=str, value=int)
    total = source.reduce(Sum())
    deltas = []
    total.subscribe(lambda delta: deltas.append(list(delta)))
    _epoch(source, [], [3, 5, 7])
    assert total.get("k") == 15
    _epoch(source, [5], [2])
    assert total.get("k") == 12
    assert deltas == [[("k", 15, 1)], [("k", 15, -1), ("k", 12, 1)]]


def test_the_sum_step_itself_removes_first_and_then_adds():
    steps = []

    def add(acc, value):
        steps.append(("add", acc, value))
        return acc + value

    def remove(acc, value):
        steps.append(("remove", acc, value))
        return acc - value

    source = Collection.input()
    total = source.reduce(reducer(0, add, remove))
    _epoch(source, [], [3, 5, 7])
    steps.clear()
    _epoch(source, [5], [2])
    assert steps == [("remove", 15, 5), ("add", 10, 2)]
    assert total.get("k") == 12


def test_count_of_x_y_z_less_y_plus_w_stays_3_and_tells_nobody():
    source = Collection.input(key=str, value=str)
    count = source.reduce(Count())
    deltas = []
    _epoch(source, [], ["x", "y", "z"])
    count.subscribe(deltas.append)
    _epoch(source, ["y"], ["w"])
    assert count.get("k") == 3
    assert deltas == []
    assert count.visits == 2


def test_average_is_sum_and_count_with_a_quotient():
    source = Collection.input()
    by_hand = reducer(
        (0, 0),
        lambda acc, value: (acc[0] + value, acc[1] + 1),
        lambda acc, value: (acc[0] - value, acc[1] - 1),
    )
    state = source.reduce(by_hand)
    average = state.map_values(lambda acc: acc[0] / acc[1])
    built_in = source.reduce(Mean())
    _epoch(source, [], [3, 5, 7])
    assert state.get("k") == (15, 3)
    assert average.get("k") == built_in.get("k") == 5.0
    _epoch(source, [5], [2])
    assert state.get("k") == (12, 3)
    assert average.get("k") == built_in.get("k") == 4.0
    _epoch(source, [3, 7], [])
    assert average.get("k") == built_in.get("k") == 2.0


def test_min_of_3_and_5_without_5_is_3_and_without_3_is_recomputed_to_5():
    by_hand = reducer(
        inf, min, lambda acc, value: None if value == acc else acc, partial=True, name="min"
    )
    for made, recomputations in ((by_hand, 1), (Min(partial=True), 1), (Min(), 0)):
        source = Collection.input()
        least = source.reduce(made)
        _epoch(source, [], [3, 5])
        assert least.get("k") == 3
        _epoch(source, [5], [])
        assert (least.get("k"), source.last_epoch.recomputed) == (3, 0)
        _epoch(source, [], [5])
        _epoch(source, [3], [])
        assert (least.get("k"), source.last_epoch.recomputed) == (5, recomputations)


class Fragment(NamedTuple):
    nodes: tuple[str, ...]
    roots: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]


def test_an_edge_that_two_files_contribute_outlives_one_of_them():
    files = Collection.input(key=str, value=Fragment)
    edges = files.map(lambda path, fragment: [((), edge) for edge in fragment.edges])
    everything = edges.reduce(Union())
    known = edges.distinct()
    deltas = []
    known.subscribe(lambda delta: deltas.append(list(delta)))
    shared = Fragment(("main", "f"), ("main",), (("main", "f"),))
    with files.transaction() as tx:
        tx.set("a.py", shared)
        tx.set("b.py", shared)
    assert everything.get(())[("main", "f")] == 2
    files.delete("b.py")
    assert everything.get(())[("main", "f")] == 1
    files.delete("a.py")
    assert everything.get(()) is None
    assert deltas == [[((), ("main", "f"), 1)], [((), ("main", "f"), -1)]]


def test_a_changed_file_flows_as_its_difference_only():
    files = Collection.input(key=str, value=Fragment)
    edges = files.map(lambda path, fragment: [((), edge) for edge in fragment.edges])
    deltas = []
    edges.subscribe(lambda delta: deltas.append(sorted(delta)))
    files.set("a.py", Fragment((), (), (("m", "f"), ("f", "g"))))
    files.set("a.py", Fragment((), (), (("m", "f"), ("f", "h"))))
    assert deltas[1] == [((), ("f", "g"), -1), ((), ("f", "h"), 1)]
    files.set("a.py", Fragment((), (), (("f", "h"), ("m", "f"))))
    assert len(deltas) == 2


def test_an_average_kept_without_its_count_is_no_reducer():
    alone = reducer(0.0, lambda a, v: (a + v) / 2, lambda a, v: 2 * a - v, name="average alone")
    report = check_reducer(alone, [4, 8])
    assert not report
    assert "adding 4 and then 8 gives 5.0; adding 8 and then 4 gives 4.0" in str(report)


def _dead_code():
    """The paper's 6.6: one collection of files, and what is dead in all of them together."""
    files = Collection.input(key=str, value=Fragment, name="files")
    edges = files.map(lambda path, fragment: [((), edge) for edge in fragment.edges])
    nodes = files.map(lambda path, fragment: [((), node) for node in fragment.nodes]).distinct()
    roots = files.map(lambda path, fragment: [((), root) for root in fragment.roots])
    reach = edges.fixpoint(None, roots=roots)
    dead = nodes - reach
    deltas = []
    dead.subscribe(lambda delta: deltas.append(sorted(delta, key=repr)))
    return files, dead, deltas


def test_dead_code_of_files_that_contribute_the_same_edge():
    files, dead, deltas = _dead_code()
    with files.transaction() as tx:
        tx.set("a.py", Fragment(("main", "f", "g"), ("main",), (("main", "f"), ("f", "g"))))
        tx.set("b.py", Fragment(("f", "h"), (), (("main", "f"),)))
    assert deltas == [[((), "h", 1)]]
    # The edge main -> f leaves a.py and stays in b.py: nothing dies.
    files.set("a.py", Fragment(("main", "f", "g"), ("main",), (("f", "g"),)))
    assert dead.values(()) == ["h"]
    assert len(deltas) == 1
    # Now it leaves b.py too: f and g die in one epoch, told once.
    files.set("b.py", Fragment(("f", "h"), (), ()))
    assert deltas[1:] == [[((), "f", 1), ((), "g", 1)]]
    # A root in another file brings them back; a node that no file declares any more is not dead.
    files.set("c.py", Fragment((), ("f",), ()))
    files.delete("b.py")
    assert deltas[2:] == [[((), "f", -1), ((), "g", -1)], [((), "h", -1)]]
    assert dead.to_dict() == {}
    files.check_invariants()


def test_a_cycle_that_nothing_reaches_is_dead_where_counting_references_keeps_it():
    # The printed sketch of 6.6 marks a node unreachable when its count of reachable predecessors
    # drops to 0: after R > B leaves, B and C still count each other.
    files, dead, deltas = _dead_code()
    cycle = (("B", "C"), ("C", "B"))
    files.set("a.py", Fragment(("R", "B", "C"), ("R",), (("R", "B"), *cycle)))
    assert dead.to_dict() == {}
    files.set("a.py", Fragment(("R", "B", "C"), ("R",), cycle))
    assert deltas == [[((), "B", 1), ((), "C", 1)]]
