"""Sections 4.2 to 4.5 of the level-1 source, with their ranks, told as stories.

The source's ranks are BFS distances from the base; ours are positions in a total order. The
printed number is the length of the proof by lowest supports, which both orders share here.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from deltafix.fixpoint import Change, Fixpoint, FixpointDelta, FullFixpoint


class Graph:
    """Edges as the caller's own relation."""

    def __init__(self, *edges: str) -> None:
        self.successors: dict[str, dict[str, None]] = defaultdict(dict)
        self.calls: list[str] = []
        for edge in edges:
            self.add(edge)

    def add(self, edge: str) -> tuple[str, str]:
        self.successors[edge[0]][edge[1]] = None
        return edge[0], edge[1]

    def remove(self, edge: str) -> tuple[str, str]:
        del self.successors[edge[0]][edge[1]]
        return edge[0], edge[1]

    def step(self, node: str) -> list[str]:
        self.calls.append(node)
        return list(self.successors[node])


def _printed_ranks(fixpoint: Fixpoint[str] | FullFixpoint[str]) -> dict[str, int]:
    return {node: len(fixpoint.why(node)) - 1 for node in fixpoint}


def _rises(fixpoint: FullFixpoint[str], *nodes: str) -> bool:
    ranks = [fixpoint.rank(node) for node in nodes]
    return ranks == sorted(set(ranks))


SETUP = ("RA", "AB", "AD", "BC", "DB")


@pytest.mark.parametrize("kind", [Fixpoint, FullFixpoint])
def test_section_4_1_setup(kind) -> None:
    graph = Graph(*SETUP)
    fixpoint = kind({"R"}, graph.step)
    assert _printed_ranks(fixpoint) == {"R": 0, "A": 1, "B": 2, "C": 3, "D": 2}
    assert sorted(fixpoint, key=fixpoint.rank) == ["R", "A", "B", "D", "C"]


@pytest.mark.parametrize("kind", [Fixpoint, FullFixpoint])
def test_section_4_2_expansion(kind) -> None:
    """R → E is added, and E leads to F: two new elements, at 1 and 2, and two step calls."""
    graph = Graph(*SETUP, "EF")
    fixpoint = kind({"R"}, graph.step)
    graph.calls.clear()
    assert fixpoint.added_step(*graph.add("RE")) == Change(frozenset("EF"))
    ranks = _printed_ranks(fixpoint)
    assert (ranks["E"], ranks["F"]) == (1, 2)
    assert set(fixpoint) == set("RABCDEF")
    assert graph.calls == ["E", "F"]


def test_section_4_3_contraction() -> None:
    """A → D is removed: D goes; B keeps its other support, and nobody asks about C."""
    graph = Graph(*SETUP, "RE", "EF")
    fixpoint = FullFixpoint({"R"}, graph.step)
    assert fixpoint.supports("B") == 1  # D came later than B, so D → B supports nothing
    graph.calls.clear()
    assert fixpoint.removed_step(*graph.remove("AD")) == Change(removed=frozenset("D"))
    assert set(fixpoint) == set("RABCEF")
    assert graph.calls == ["D"]
    assert fixpoint.last_report.retracted == 1
    fixpoint.check_invariants()


def test_section_4_4_contraction_with_a_cycle() -> None:
    """R → A is removed: A and B derive each other, but B is above A and cannot support it."""
    graph = Graph("RA", "AB", "BA")
    fixpoint = FullFixpoint({"R"}, graph.step)
    assert _printed_ranks(fixpoint) == {"R": 0, "A": 1, "B": 2}
    assert _rises(fixpoint, "R", "A", "B")
    assert fixpoint.supports("A") == 1
    change = fixpoint.removed_step(*graph.remove("RA"))
    assert change == Change(removed=frozenset("AB"))
    assert set(fixpoint) == {"R"}
    assert fixpoint.last_report.revived == 0


def test_section_4_5_re_derivation() -> None:
    """R → B is removed: B is suspended at its stale rank, and comes back above C."""
    graph = Graph("RB", "RC", "CB")
    fixpoint = FullFixpoint({"R"}, graph.step)
    assert _printed_ranks(fixpoint) == {"R": 0, "B": 1, "C": 1}
    assert _rises(fixpoint, "R", "B", "C")  # the printed tie of B and C is broken by arrival
    assert fixpoint.removed_step(*graph.remove("RB")) == Change()
    assert _printed_ranks(fixpoint) == {"R": 0, "C": 1, "B": 2}
    assert _rises(fixpoint, "R", "C", "B")
    report = fixpoint.last_report
    assert (report.retracted, report.revived, report.changed) == (1, 1, 0)
    fixpoint.check_invariants()


def test_known_error_ranks_restarted_at_0_keep_an_unreachable_cycle() -> None:
    """The source's counter-example: its `expand` gives B rank 0 again, and B → C then supports C.

    Base {R}; edges R>B, R>C, C>B, B>C; delete R>B, then R>C: B and C must go.
    """
    graph = Graph("RB", "RC", "CB", "BC")
    fixpoint = FullFixpoint({"R"}, graph.step)
    assert fixpoint.removed_step(*graph.remove("RB")) == Change()
    assert _rises(fixpoint, "R", "C", "B")  # B above C, which revived it, and not at 0
    assert fixpoint.supports("C") == 1
    assert fixpoint.removed_step(*graph.remove("RC")) == Change(removed=frozenset("BC"))
    assert set(fixpoint) == {"R"}


@pytest.mark.parametrize("kind", [Fixpoint, FullFixpoint])
def test_known_error_expansion_from_the_base_alone_misses_a_pair_of_known_elements(kind) -> None:
    """`base \\ current` is empty here, so the source's `expand` would add nothing."""
    graph = Graph("RA", "XY")
    fixpoint = kind({"R"}, graph.step)
    assert fixpoint.added_step(*graph.add("AX")) == Change(frozenset("XY"))
    assert fixpoint.added_step(*graph.add("RX")) == Change()


def test_known_error_members_of_a_cycle_do_not_have_equal_ranks() -> None:
    graph = Graph("RA", "AB", "BC", "CA")
    fixpoint = FullFixpoint({"R"}, graph.step)
    assert len({fixpoint.rank(node) for node in "ABC"}) == 3
    assert len({len(fixpoint.why(node)) for node in "ABC"}) == 3  # BFS distances differ as well


def test_known_error_counting_alone_keeps_an_unreachable_cycle() -> None:
    """The first note and the reducer sketch do: A and B count each other for ever."""
    graph = Graph("RA", "AB", "BA")
    fixpoint = FullFixpoint({"R"}, graph.step)
    graph.remove("RA")
    alive = {node for node in "AB" if any(node in graph.successors[other] for other in "AB")}
    assert alive == {"A", "B"}  # a count of derivations from live elements never reaches 0
    fixpoint.apply(FixpointDelta.of(removed_step=[("R", "A")]))
    assert set(fixpoint) == {"R"}
