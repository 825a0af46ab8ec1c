"""The full and simple fixpoints against recomputation, their cost in step calls, and refusals."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import BudgetError, InternalError, NotInFixpointError, StepContractError
from deltafix.fixpoint import Change, Fixpoint, FixpointDelta, FullFixpoint

NODES = 7


class Relation:
    """A caller's relation with counted calls in both directions."""

    def __init__(self) -> None:
        self.forward: dict[int, dict[int, None]] = defaultdict(dict)
        self.backward: dict[int, dict[int, None]] = defaultdict(dict)
        self.calls: list[int] = []

    def set(self, x: int, y: int, present: bool) -> bool:
        """Make the pair present or absent; whether that changed anything."""
        if (y in self.forward[x]) == present:
            return False
        if present:
            self.forward[x][y] = self.backward[y][x] = None
        else:
            del self.forward[x][y], self.backward[y][x]
        return True

    def step(self, x: int) -> list[int]:
        self.calls.append(x)
        return list(self.forward[x])

    def inverse(self, y: int) -> list[int]:
        return list(self.backward[y])

    def reach(self, base: set[int]) -> set[int]:
        found, pending = set(base), list(base)
        while pending:
            for y in self.forward[pending.pop()]:
                if y not in found:
                    found.add(y)
                    pending.append(y)
        return found


node = st.integers(0, NODES - 1)
edits = st.lists(
    st.lists(
        st.one_of(
            st.tuples(st.just("pair"), node, node, st.booleans()),
            st.tuples(st.just("base"), node, node, st.booleans()),
        ),
        min_size=1,
        max_size=4,
    ),
    max_size=12,
)


def _delta(relation: Relation, base: set[int], script) -> FixpointDelta[int]:
    """Carry a script out on relation and base; the net delta."""
    pairs: dict[tuple[int, int], bool] = {}
    bases: dict[int, bool] = {}
    for kind, x, y, present in script:
        if kind == "pair":
            if relation.set(x, y, present) and pairs.pop((x, y), None) is None:
                pairs[x, y] = present
        elif (x in base) != present:
            base ^= {x}
            if bases.pop(x, None) is None:
                bases[x] = present
    return FixpointDelta.of(
        [x for x, present in bases.items() if present],
        [x for x, present in bases.items() if not present],
        [pair for pair, present in pairs.items() if present],
        [pair for pair, present in pairs.items() if not present],
    )


@settings(max_examples=60)
@given(st.sets(st.tuples(node, node), max_size=14), st.sets(node, max_size=2), edits, st.booleans())
def test_oracle_every_update_equals_recomputation(pairs, base, scripts, with_inverse) -> None:
    relation = Relation()
    for x, y in pairs:
        relation.set(x, y, True)
    inverse = relation.inverse if with_inverse else None
    fixpoint = FullFixpoint(base, relation.step, inverse, validate=True)
    for script in scripts:
        before = set(fixpoint)
        change = fixpoint.apply(_delta(relation, base, script))
        after = relation.reach(base)
        assert set(fixpoint) == after
        assert change == Change(frozenset(after - before), frozenset(before - after))
        fixpoint.check_invariants()
        for element in fixpoint:
            proof = fixpoint.why(element)
            assert proof[0] in base
            assert proof[-1] == element
            assert all(y in relation.forward[x] for x, y in pairwise(proof))


@settings(max_examples=60)
@given(st.sets(st.tuples(node, node), max_size=14), edits)
def test_agree_one_delta_and_its_parts_lead_to_the_same_set(pairs, scripts) -> None:
    relations = [Relation(), Relation()]
    for relation in relations:
        for x, y in pairs:
            relation.set(x, y, True)
    bases: list[set[int]] = [{0}, {0}]
    whole = FullFixpoint(bases[0], relations[0].step)
    parts = FullFixpoint(bases[1], relations[1].step)
    whole.apply(_delta(relations[0], bases[0], [edit for script in scripts for edit in script]))
    for script in scripts:
        for edit in script:
            parts.apply(_delta(relations[1], bases[1], [edit]))
    assert set(whole) == set(parts)


@settings(max_examples=60)
@given(st.sets(st.tuples(node, node), max_size=10), st.lists(st.tuples(node, node), max_size=8))
def test_oracle_the_simple_fixpoint_grows_like_recomputation(pairs, added) -> None:
    relation = Relation()
    for x, y in pairs:
        relation.set(x, y, True)
    fixpoint = Fixpoint({0}, relation.step)
    for x, y in added:
        before = set(fixpoint)
        relation.set(x, y, True)
        change = fixpoint.added_step(x, y)
        assert set(fixpoint) == relation.reach({0})
        assert change == Change(frozenset(set(fixpoint) - before))
        fixpoint.check_invariants()
    assert [fixpoint.rank(x) for x in fixpoint] == list(range(len(fixpoint)))


# --- cost: counted, not timed ----------------------------------------------------------------


def _chain(length: int) -> Relation:
    relation = Relation()
    for x in range(length):
        relation.set(x, x + 1, True)
    return relation


def test_construction_calls_step_once_per_element() -> None:
    relation = _chain(1000)
    FullFixpoint({0}, relation.step)
    assert sorted(relation.calls) == list(range(1001))


def test_a_pair_between_known_elements_costs_no_step_call() -> None:
    relation = _chain(1000)
    fixpoint = FullFixpoint({0}, relation.step)
    relation.calls.clear()
    relation.set(0, 500, True)
    assert not fixpoint.added_step(0, 500)
    relation.set(500, 501, False)
    relation.set(0, 501, True)
    assert not fixpoint.apply(FixpointDelta.of(added_step=[(0, 501)], removed_step=[(500, 501)]))
    assert relation.calls == []
    assert fixpoint.last_report.touched == 0


def test_cutting_the_end_of_a_chain_touches_only_the_end() -> None:
    relation = _chain(1000)
    fixpoint = FullFixpoint({0}, relation.step)
    relation.calls.clear()
    relation.set(989, 990, False)
    change = fixpoint.removed_step(989, 990)
    assert change.removed == frozenset(range(990, 1001))
    assert sorted(relation.calls) == list(range(990, 1001))
    assert fixpoint.last_report.touched == fixpoint.last_report.changed == 11


def test_a_revived_element_spares_everything_after_it() -> None:
    """Repair in rank order: 1 comes back just above 2, below the 1,000 elements behind it."""
    relation = Relation()
    for x, y in ((0, 1), (0, 2), (2, 1), *((x, x + 1) for x in range(3, 1000)), (1, 3)):
        relation.set(x, y, True)
    fixpoint = FullFixpoint({0}, relation.step)
    relation.calls.clear()
    relation.set(0, 1, False)
    assert not fixpoint.removed_step(0, 1)
    report = fixpoint.last_report
    assert (report.retracted, report.revived, report.step_calls) == (1, 1, 1)
    assert fixpoint.rank(2) < fixpoint.rank(1) < fixpoint.rank(3)


def test_touched_stays_close_to_changed_on_a_random_graph() -> None:
    """The figure to drive down: 400 random deletions, all retractions against those that stay."""
    draw = random.Random(7)
    size, relation = 2000, Relation()
    pairs = list({(int(size * draw.random() ** 2), draw.randrange(size)) for _ in range(6000)})
    for x, y in pairs:
        relation.set(x, y, True)
    fixpoint = FullFixpoint(range(5), relation.step, relation.inverse)
    live = [pair for pair in pairs if pair[0] in fixpoint]
    draw.shuffle(live)
    retracted = revived = removed = calls = 0
    for x, y in live[:400]:
        relation.set(x, y, False)
        fixpoint.removed_step(x, y)
        report = fixpoint.last_report
        retracted += report.retracted
        revived += report.revived
        removed += report.removed
        calls += report.step_calls
    fixpoint.check_invariants()
    assert set(fixpoint) == relation.reach(set(range(5)))
    assert retracted == revived + removed == calls
    assert 400 > retracted > removed > 20


# --- refusals, each leaving the state as it was ----------------------------------------------


def _state(fixpoint: FullFixpoint[int]) -> dict[int, tuple[int, int]]:
    return {x: (fixpoint.rank(x), fixpoint.supports(x)) for x in fixpoint}


CONTRACT = [
    ("silent addition", lambda r: r.set(1, 5, True), FixpointDelta.of(), r"add the pair \(1, 5\)"),
    ("silent removal", lambda r: r.set(1, 2, False), FixpointDelta.of(), r"remove the pair \(1, 2"),
    (
        "untrue addition",
        lambda r: None,
        FixpointDelta.of(added_step=[(1, 5)]),
        r"adds the pair \(1, 5\), but step\(1\) does not give 5",
    ),
    (
        "old addition",
        lambda r: None,
        FixpointDelta.of(added_step=[(1, 2)]),
        r"adds the pair \(1, 2\), which was there before",
    ),
    (
        "untrue removal",
        lambda r: None,
        FixpointDelta.of(removed_step=[(1, 2)]),
        r"removes the pair \(1, 2\), but step\(1\) still gives 2",
    ),
    (
        "removal of nothing",
        lambda r: None,
        FixpointDelta.of(removed_step=[(1, 5)]),
        r"removes the pair \(1, 5\), which was not there before",
    ),
]


@pytest.mark.parametrize(("change", "delta", "message"), [c[1:] for c in CONTRACT],
                         ids=[c[0] for c in CONTRACT])  # fmt: skip
def test_validate_names_the_pair_of_an_inaccurate_delta(change, delta, message) -> None:
    relation = _chain(3)
    fixpoint = FullFixpoint({0}, relation.step, validate=True)
    before = _state(fixpoint)
    change(relation)
    with pytest.raises(StepContractError, match=message):
        fixpoint.apply(delta)
    assert _state(fixpoint) == before


def test_validate_names_the_pair_of_an_unstable_step() -> None:
    answers = iter([[1], [], [1], []])
    with pytest.raises(StepContractError, match=r"violating pair: \(0, 1\)"):
        FullFixpoint({0}, lambda x: next(answers, ()) if x == 0 else (), validate=True)


def test_validate_names_the_pair_a_wrong_inverse_misses() -> None:
    relation = _chain(2)
    with pytest.raises(StepContractError, match=r"step\(0\) gives 1, but step_inverse\(1\) does"):
        FullFixpoint({0}, relation.step, lambda _: [], validate=True)


def test_a_delta_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(StepContractError, match=r"step pair \(1, 2\) is both added and removed"):
        FixpointDelta.of((), (), [(1, 2)], [(1, 2)])
    fixpoint = FullFixpoint({0}, _chain(2).step)
    with pytest.raises(StepContractError, match="removes 9 from the base, where it is not"):
        fixpoint.remove_base(9)
    assert fixpoint.base == frozenset({0})


@pytest.mark.parametrize("fails_at", [101, 105])
def test_a_step_that_raises_undoes_the_whole_update(fails_at) -> None:
    relation = _chain(20)
    for x in range(100, 110):
        relation.set(x, x + 1, True)
    broken = True

    def step(x: int) -> list[int]:
        if broken and x == fails_at:
            raise OSError("no answer")
        return relation.step(x)

    fixpoint = FullFixpoint({0}, step)
    before = _state(fixpoint)
    relation.set(3, 4, False)
    relation.set(3, 100, True)
    delta = FixpointDelta.of((), (), [(3, 100)], [(3, 4)])
    with pytest.raises(OSError, match="no answer"):
        fixpoint.apply(delta)
    assert _state(fixpoint) == before
    broken = False
    assert fixpoint.apply(delta).added == frozenset(range(100, 111))
    fixpoint.check_invariants()


@pytest.mark.parametrize("kind", [Fixpoint, FullFixpoint])
def test_growth_is_bounded_on_request_and_the_setting_is_named(kind) -> None:
    fixpoint = kind({0}, lambda x: [x + 1] if x not in (3,) else [], max_elements=10)
    assert len(fixpoint) == 4
    with pytest.raises(BudgetError, match="max_elements=10"):
        fixpoint.add_base(100)
    assert sorted(fixpoint) == [0, 1, 2, 3]
    assert fixpoint.last_report is not None


@pytest.mark.parametrize("kind", [Fixpoint, FullFixpoint])
def test_questions_about_absent_elements_are_refused_by_name(kind) -> None:
    fixpoint = kind({"a"}, lambda _: [])
    with pytest.raises(NotInFixpointError, match="'b' is not in the fixpoint"):
        fixpoint.rank("b")
    with pytest.raises(KeyError):
        fixpoint.why("b")
    assert "b" not in fixpoint
    assert repr(fixpoint) == f"{kind.__name__}(1 elements)"


def test_invariants_notice_a_caller_who_did_not_tell() -> None:
    relation = _chain(5)
    full, simple = FullFixpoint({0}, relation.step), Fixpoint({0}, relation.step)
    relation.set(2, 9, True)
    with pytest.raises(InternalError, match="9 differs from recomputation"):
        full.check_invariants()
    with pytest.raises(InternalError, match="9 differs from recomputation"):
        simple.check_invariants()


def test_the_kept_inverse_is_empty_again_when_everything_is_gone() -> None:
    """Memory goes back to the baseline: no entry for a pair outlives its elements."""
    relation = _chain(50)
    fixpoint = FullFixpoint({0}, relation.step)
    assert len(fixpoint._inverse) == 50
    fixpoint.remove_base(0)
    assert len(fixpoint) == 0
    assert fixpoint._inverse == {}


def test_base_elements_stay_when_their_derivations_go_and_the_other_way_round() -> None:
    relation = _chain(2)
    fixpoint = FullFixpoint({0, 1}, relation.step)
    assert fixpoint.supports(2) == 1
    relation.set(0, 1, False)
    assert not fixpoint.removed_step(0, 1)
    relation.set(0, 1, True)
    assert not fixpoint.added_step(0, 1)
    assert not fixpoint.remove_base(1)
    assert set(fixpoint) == {0, 1, 2}
    assert fixpoint.remove_base(0).removed == frozenset({0, 1, 2})
