"""The managed fixpoint: the worked stories, transactions, any hashable element, refusals."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.interrupt import InterruptAtCall

from deltafix.engine import run
from deltafix.errors import (
    BudgetError,
    CancelledError,
    ChangeError,
    InternalError,
    MissingRowError,
    NotInFixpointError,
    TransactionError,
)
from deltafix.fixpoint import Change, FixpointDelta, FullFixpoint, ManagedFixpoint
from deltafix.kernel import layout


def _managed(*edges: str) -> ManagedFixpoint[str]:
    return ManagedFixpoint("R", [(edge[0], edge[1]) for edge in edges])


def _proof_lengths(fixpoint: ManagedFixpoint[str]) -> dict[str, int]:
    return {node: len(fixpoint.why(node)) - 1 for node in fixpoint}


# --- sections 4.2 to 4.5 of the source, as in test_worked_examples ---------------------------


def test_section_4_2_expansion() -> None:
    fixpoint = _managed("RA", "AB", "AD", "BC", "DB", "EF")
    assert _proof_lengths(fixpoint) == {"R": 0, "A": 1, "B": 2, "C": 3, "D": 2}
    assert fixpoint.add_step("R", "E") == Change(frozenset("EF"))
    assert _proof_lengths(fixpoint) == {"R": 0, "A": 1, "B": 2, "C": 3, "D": 2, "E": 1, "F": 2}


def test_section_4_3_contraction() -> None:
    fixpoint = _managed("RA", "AB", "AD", "BC", "DB", "RE", "EF")
    assert fixpoint.remove_step("A", "D") == Change(removed=frozenset("D"))
    assert set(fixpoint) == set("RABCEF")
    assert fixpoint.last_report.retracted == 1


def test_section_4_4_contraction_with_a_cycle() -> None:
    fixpoint = _managed("RA", "AB", "BA")
    assert fixpoint.rank("R") < fixpoint.rank("A") < fixpoint.rank("B")
    assert fixpoint.remove_step("R", "A") == Change(removed=frozenset("AB"))


def test_section_4_5_re_derivation_and_the_counter_example_that_follows_it() -> None:
    fixpoint = _managed("RB", "RC", "CB", "BC")
    assert not fixpoint.remove_step("R", "B")
    assert fixpoint.rank("R") < fixpoint.rank("C") < fixpoint.rank("B")
    assert fixpoint.why("B") == ("R", "C", "B")
    assert (fixpoint.last_report.reranked, fixpoint.last_report.touched) == (1, 1)
    assert fixpoint.remove_step("R", "C") == Change(removed=frozenset("BC"))
    fixpoint.check_invariants()


# --- against the full fixpoint ---------------------------------------------------------------

node = st.integers(0, 7)
edit = st.tuples(st.sampled_from(["pair", "base"]), node, node)


@settings(max_examples=60)
@given(st.lists(st.lists(edit, min_size=1, max_size=5), max_size=10), st.booleans())
def test_agree_with_the_full_fixpoint_through_transactions(scripts, small_arrays) -> None:
    managed: ManagedFixpoint[int] = ManagedFixpoint()
    pairs: dict[int, dict[int, None]] = {x: {} for x in range(8)}
    full = FullFixpoint((), lambda x: pairs[x])
    for script in scripts:
        base_before, pairs_before = set(full.base), {(x, y) for x in pairs for y in pairs[x]}
        base = set(base_before)
        with managed.transaction() as tx:
            for kind, x, y in script:
                if kind == "base":
                    (managed.remove_base if x in base else managed.add_base)(x)
                    base ^= {x}
                elif y in pairs[x]:
                    managed.remove_step(x, y)
                    del pairs[x][y]
                elif small_arrays:
                    managed.add_steps(np.array([[x, y]]))
                    pairs[x][y] = None
                else:
                    managed.add_step(x, y)
                    pairs[x][y] = None
        pairs_after = {(x, y) for x in pairs for y in pairs[x]}
        want = full.apply(
            FixpointDelta.of(
                base - base_before,
                base_before - base,
                pairs_after - pairs_before,
                pairs_before - pairs_after,
            )
        )
        assert tx.change == want
        assert set(managed) == set(full)
        assert managed.base == full.base
        assert set(managed.steps()) == pairs_after
        assert (len(managed), managed.step_count) == (len(full), len(pairs_after))
        managed.check_invariants()
        for element in managed:
            proof = managed.why(element)
            ranks = [managed.rank(x) for x in proof]
            assert ranks == sorted(set(ranks))
            assert proof[0] in base
            assert proof[-1] == element


# --- elements, transactions, cost ------------------------------------------------------------


def test_any_hashable_element_works_also_mixed() -> None:
    key = frozenset({1})
    fixpoint: ManagedFixpoint[object] = ManagedFixpoint(
        [("a", 1)], [(("a", 1), key), (key, None), (None, 2**80)]
    )
    assert set(fixpoint) == {("a", 1), key, None, 2**80}
    assert fixpoint.why(2**80) == (("a", 1), key, None, 2**80)
    assert "nowhere" not in fixpoint


def test_an_edit_that_changes_nothing_is_no_error_when_added_twice() -> None:
    fixpoint = _managed("RA")
    assert not fixpoint.add_step("R", "A")
    assert not fixpoint.add_base("R")
    assert fixpoint.step_count == 1


def test_a_transaction_that_raises_leaves_no_trace() -> None:
    fixpoint = _managed("RA", "AB")
    ranks = {node: fixpoint.rank(node) for node in fixpoint}
    tx = fixpoint.transaction()

    def edits_and_a_failure() -> None:
        with tx:
            fixpoint.remove_step("R", "A")
            fixpoint.add_step("R", "X")
            fixpoint.add_base("Z")
            assert set(fixpoint) == set("RAB")  # readers see the committed state
            raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        edits_and_a_failure()
    assert {node: fixpoint.rank(node) for node in fixpoint} == ranks
    assert set(fixpoint.steps()) == {("R", "A"), ("A", "B")}
    with pytest.raises(TransactionError, match="the transaction is rolled back"):
        _ = tx.change
    fixpoint.check_invariants()


def test_a_transaction_is_net_and_says_its_change_once_committed() -> None:
    fixpoint = _managed("RA", "AB")
    with fixpoint.transaction() as tx:
        assert not fixpoint.remove_step("R", "A")
        assert not fixpoint.add_step("R", "B")
        with pytest.raises(TransactionError, match="they do not nest"):
            fixpoint.transaction()
        with pytest.raises(TransactionError, match="the transaction is open"):
            _ = tx.change
        with pytest.raises(TransactionError, match="why asks for a settled state"):
            fixpoint.why("R")
    assert tx.change == Change(removed=frozenset("A"))
    with pytest.raises(TransactionError, match="ended already"):
        tx.rollback()
    with fixpoint.transaction() as tx:
        fixpoint.add_step("R", "Q")
        tx.rollback()
    assert "Q" not in fixpoint


def test_removing_what_is_not_there_is_refused_by_name() -> None:
    fixpoint = _managed("RA")
    with pytest.raises(MissingRowError, match=r"the pair \('A', 'R'\) is not there"):
        fixpoint.remove_step("A", "R")
    with pytest.raises(MissingRowError, match=r"the pair \('Q', 'R'\) is not there"):
        fixpoint.remove_step("Q", "R")
    with pytest.raises(MissingRowError, match="'A' is not in the base"):
        fixpoint.remove_base("A")
    with pytest.raises(NotInFixpointError, match="'Q' is not in the fixpoint"):
        fixpoint.why("Q")
    assert set(fixpoint) == {"R", "A"}


def test_arrays_of_another_shape_are_refused_with_the_valid_one() -> None:
    fixpoint: ManagedFixpoint[int] = ManagedFixpoint([0])
    with pytest.raises(ChangeError, match=r"shape \(3,\) and type int64; valid are .* \(n, 2\)"):
        fixpoint.add_steps(np.arange(3))
    with pytest.raises(ChangeError, match="type float64"):
        fixpoint.add_steps(np.zeros((2, 2)))
    assert fixpoint.step_count == 0


def test_growth_is_bounded_on_request_and_the_setting_is_named() -> None:
    chain = [(x, x + 1) for x in range(100)]
    fixpoint = ManagedFixpoint([200], chain, max_rows=10)
    with pytest.raises(BudgetError, match="max_rows=10"):
        fixpoint.add_base(0)
    assert set(fixpoint) == {200}
    assert fixpoint.add_base(95).added == frozenset(range(95, 101))
    fixpoint.check_invariants()


def _slow() -> ManagedFixpoint[int]:
    """A fixpoint whose updates look at the clock after a few derivations."""
    fixpoint = ManagedFixpoint([200], [(x, x + 1) for x in range(100)], timeout=5)
    fixpoint._state.arena.cells[layout.QUOTA] = 3
    return fixpoint


def test_an_update_over_its_time_is_undone_and_names_the_setting(monkeypatch) -> None:
    fixpoint = _slow()
    clock = iter(range(1, 100, 6))
    monkeypatch.setattr(run.time, "perf_counter", lambda: next(clock))
    with pytest.raises(BudgetError, match="longer than timeout=5 s"):
        fixpoint.add_base(0)
    assert set(fixpoint) == {200}
    fixpoint.check_invariants()


def test_an_update_can_be_cancelled_and_is_undone(monkeypatch) -> None:
    fixpoint = _slow()

    def now() -> int:
        fixpoint.cancel()
        return 0

    monkeypatch.setattr(run.time, "perf_counter", now)
    with pytest.raises(CancelledError, match="cancelled; rolled back"):
        fixpoint.add_base(0)
    assert set(fixpoint) == {200}
    monkeypatch.undo()
    assert len(fixpoint.add_base(0).added) == 101  # the next one is not cancelled


def test_invariants_notice_a_support_that_is_counted_wrong() -> None:
    fixpoint = _managed("RA", "AB")
    words = fixpoint._state.arena.words
    at_row = int(fixpoint._state._cell(fixpoint._row("B"))) * 2
    words[at_row + layout.SUPPORT] += 1
    with pytest.raises(InternalError, match="'B' has 1 supports, 2 counted"):
        fixpoint.check_invariants()


def test_cutting_the_end_of_a_long_chain_touches_only_the_end() -> None:
    chain = np.stack([np.arange(5_000), np.arange(1, 5_001)], axis=1)
    fixpoint = ManagedFixpoint([0], chain)
    assert len(fixpoint) == 5_001
    assert fixpoint.remove_step(4_990, 4_991).removed == frozenset(range(4_991, 5_001))
    report = fixpoint.last_report
    assert (report.retracted, report.revived) == (10, 0)
    assert report.derivations < 40
    assert len(fixpoint.why(4_990)) == 4_991


def test_compact_forgets_elements_that_are_gone_and_keeps_the_rest() -> None:
    fixpoint: ManagedFixpoint[int] = ManagedFixpoint([0], [(x, x + 1) for x in range(50)])
    for x in range(10, 50):
        fixpoint.remove_step(x, x + 1)
    before = set(fixpoint)
    assert len(fixpoint._elements) == 51
    fixpoint.compact()
    assert len(fixpoint._elements) == 11
    assert set(fixpoint) == before
    assert fixpoint.base == {0}
    fixpoint.check_invariants()


def test_importing_the_package_does_not_load_the_kernel() -> None:
    code = (
        "import sys, deltafix.fixpoint as f; entries = 'deltafix.kernel.entries'; "
        "print(entries in sys.modules, hasattr(f, 'nothing')); "
        "f.ManagedFixpoint; print(entries in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


def test_compacting_is_not_bounded_by_what_one_update_may_add() -> None:
    fx = ManagedFixpoint([0], max_rows=2)
    for n in range(20):
        fx.add_step(n, n + 1)
    fx.compact()
    assert (len(fx), fx.step_count, fx.base) == (21, 20, {0})
    fx.add_step(7, 30)
    with pytest.raises(BudgetError):
        fx.add_steps([(7, 31), (31, 32), (32, 33)])
    assert (len(fx), fx.step_count) == (22, 21)
    fx.check_invariants()


@pytest.mark.parametrize("ends", ["a block", "a rollback", "an edit"])
def test_what_an_interrupt_has_left_is_no_part_of_the_next_update(ends: str) -> None:
    fx = ManagedFixpoint([0], [(5, 6)])
    for place in count():
        before, tx = set(fx.steps()), None
        with suppress(KeyboardInterrupt), InterruptAtCall(place, "fixpoint") as interrupt:
            if ends == "an edit":
                fx.add_step(0, 1)
            elif ends == "a block":
                with fx.transaction():
                    fx.add_step(0, 1)
            else:
                tx = fx.transaction()
                fx.add_step(0, 1)
                tx.rollback()
        tx, stands = None, set(fx.steps())
        assert stands in (before, before | {(0, 1)})
        fx.remove_step(5, 6)
        assert set(fx.steps()) == stands - {(5, 6)}
        fx.add_step(5, 6)
        if (0, 1) in stands:
            fx.remove_step(0, 1)
        fx.check_invariants()
        if not interrupt.came:
            break
    assert place > 5
