"""The counting fixpoint: right on acyclic problems, and clear about cycles."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import CycleError, InternalError, StepContractError
from deltafix.fixpoint import Change, CountingFixpoint, FixpointDelta, FullFixpoint

node = st.integers(0, 7)
pairs_of_any_kind = st.sets(st.tuples(node, node), max_size=14)
toggles = st.lists(st.sets(st.tuples(node, node), min_size=1, max_size=4), max_size=8)


class Graph:
    """A caller's relation: toggling pairs gives the delta to apply."""

    def __init__(self, pairs) -> None:
        self.successors: dict[int, dict[int, None]] = defaultdict(dict)
        for x, y in pairs:
            self.successors[x][y] = None

    def step(self, x: int) -> list[int]:
        return list(self.successors[x])

    def toggle(self, pairs) -> FixpointDelta[int]:
        added, removed = [], []
        for x, y in sorted(pairs):
            if y in self.successors[x]:
                del self.successors[x][y]
                removed.append((x, y))
            else:
                self.successors[x][y] = None
                added.append((x, y))
        return FixpointDelta.of((), (), added, removed)


@settings(max_examples=80)
@given(pairs_of_any_kind, toggles)
def test_agree_with_the_full_fixpoint_on_acyclic_relations(pairs, scripts) -> None:
    graph = Graph((x, y) for x, y in pairs if x < y)
    base = {0, 3}
    counting, full = CountingFixpoint(base, graph.step), FullFixpoint(base, graph.step)
    for script in scripts:
        delta = graph.toggle((x, y) for x, y in script if x < y)
        assert counting.apply(delta) == full.apply(delta)
        assert set(counting) == set(full)
        counting.check_invariants()
        for element in counting:
            assert counting.why(element)[-1] == element
            assert counting.derivation_count(element) >= full.supports(element)


def _has_cycle(graph: Graph, reached) -> bool:
    """Whether `step` has a cycle among these elements (depth-first, the slow twin)."""
    state: dict[int, int] = {}

    def visit(x: int) -> bool:
        if state.get(x) == 2:
            return False
        if state.get(x) == 1:
            return True
        state[x] = 1
        found = any(visit(y) for y in graph.successors[x])
        state[x] = 2
        return found

    return any(visit(x) for x in reached)


@settings(max_examples=80)
@given(pairs_of_any_kind, toggles)
def test_oracle_cycles_are_refused_and_only_cycles(pairs, scripts) -> None:
    """Acyclic in this order, then any pair may come: an error means a cycle, none means none."""
    graph = Graph((y, x) for x, y in pairs if x < y)
    counting = CountingFixpoint({7, 4}, graph.step)
    for script in scripts:
        before = {x: counting.rank(x) for x in counting}
        delta = graph.toggle(script)
        reached = set(FullFixpoint({7, 4}, graph.step))
        try:
            counting.apply(delta)
        except CycleError:
            assert _has_cycle(graph, reached | before.keys())
            assert {x: counting.rank(x) for x in counting} == before
            graph.toggle(script)
        else:
            assert not _has_cycle(graph, reached)
            assert set(counting) == reached
            counting.check_invariants()


@settings(max_examples=60)
@given(pairs_of_any_kind, toggles)
def test_agree_after_handing_over_to_the_full_fixpoint(pairs, scripts) -> None:
    graph = Graph(pairs)
    counting = CountingFixpoint({0}, graph.step, on_cycle="full")
    full = FullFixpoint({0}, graph.step)
    for script in scripts:
        delta = graph.toggle(script)
        assert counting.apply(delta) == full.apply(delta)
        assert set(counting) == set(full)
        assert len(counting) == len(full)
        counting.check_invariants()


def test_the_cycle_is_shown() -> None:
    graph = Graph([(0, 1), (1, 2), (2, 3)])
    counting = CountingFixpoint({0}, graph.step)
    delta = graph.toggle([(3, 1)])
    with pytest.raises(CycleError) as caught:
        counting.apply(delta)
    assert str(caught.value) == (
        "step has a cycle: 3 -> 1 -> 2 -> 3; counting derivations is right only without cycles. "
        'Use FullFixpoint, or on_cycle="full"'
    )
    assert set(counting) == {0, 1, 2, 3}
    assert counting.derivation_count(1) == 1


@pytest.mark.parametrize(
    ("pairs", "cycle"),
    [([(0, 0)], "0 -> 0"), ([(0, 1), (1, 2), (2, 1)], "1 -> 2 -> 1")],
)
def test_a_cycle_in_the_first_build_is_refused(pairs, cycle) -> None:
    with pytest.raises(CycleError, match=f"step has a cycle: {cycle};"):
        CountingFixpoint({0}, Graph(pairs).step)


def test_handing_over_happens_once_and_says_so() -> None:
    graph = Graph([(0, 1), (1, 2)])
    counting = CountingFixpoint({0}, graph.step, on_cycle="full")
    assert counting.counts
    assert not counting.apply(graph.toggle([(2, 1)]))
    assert not counting.counts
    assert counting.apply(graph.toggle([(0, 1)])) == Change(removed=frozenset({1, 2}))
    assert counting.why(0) == (0,)


def test_a_removal_looks_only_at_what_goes() -> None:
    graph = Graph([(x, x + 1) for x in range(1000)] + [(0, 900)])
    counting = CountingFixpoint({0}, graph.step)
    assert counting.derivation_count(900) == 2
    counting.apply(graph.toggle([(899, 900)]))
    assert counting.last_report.step_calls == 0
    change = counting.apply(graph.toggle([(888, 889)]))
    assert change.removed == frozenset(range(889, 900))
    assert counting.last_report.step_calls == 11


def test_an_added_pair_that_overtakes_raises_only_what_follows() -> None:
    graph = Graph([(0, 1), (0, 10), (10, 11), (11, 12), (12, 13), (1, 2)])
    counting = CountingFixpoint({0}, graph.step)
    assert counting.rank(13) == 4
    counting.apply(graph.toggle([(13, 1)]))
    assert [counting.rank(x) for x in (1, 2)] == [5, 6]
    assert counting.last_report.step_calls == 2


def test_what_is_not_in_the_base_cannot_leave_it_and_failures_undo() -> None:
    graph = Graph([(0, 1)])
    counting = CountingFixpoint({0}, graph.step)
    with pytest.raises(StepContractError, match="removes 5 from the base"):
        counting.apply(FixpointDelta.of(removed_base=[5]))
    with pytest.raises(KeyError):
        counting.derivation_count(5)

    def broken(x: int) -> list[int]:
        raise OSError("no answer")

    counting._step = broken
    with pytest.raises(OSError, match="no answer"):
        counting.apply(FixpointDelta.of(removed_base=[0]))
    counting._step = graph.step
    assert set(counting) == {0, 1}
    counting.check_invariants()


def test_invariants_notice_a_caller_who_did_not_tell() -> None:
    graph = Graph([(0, 1)])
    counting = CountingFixpoint({0}, graph.step)
    graph.toggle([(1, 2)])
    with pytest.raises(InternalError, match="differs from a recount"):
        counting.check_invariants()
    backwards = CountingFixpoint({0}, graph.step)
    graph.toggle([(2, 1)])
    with pytest.raises(InternalError, match=r"the pair \(2, 1\) is not rising"):
        backwards.check_invariants()
    assert list(backwards) == [0, 1, 2]


def test_base_elements_come_and_go_with_their_derivations() -> None:
    graph = Graph([(0, 1)])
    counting = CountingFixpoint({0}, graph.step)
    assert not counting.apply(FixpointDelta.of(added_base=[1]))
    assert counting.derivation_count(1) == 2
    assert counting.apply(FixpointDelta.of([5], [0])) == Change(frozenset({5}), frozenset({0}))
    assert list(counting) == [1, 5]
