"""Where the printed algorithm is not followed, and the stories of faults the fuzz found."""

import pytest
from tests.agree.tabling_programs import check_trace

from deltafix.tabling import Tables, Trace
from deltafix.tabling.update import STRATEGIES

from .paper import FIGURE_6, answers, processed, traced

REACH = """
:- table r/2.
:- dynamic e/2.
r(X, Y) :- e(X, Y).
r(X, Y) :- r(X, Z), e(Z, Y).
"""


def test_deviation_1_rederiving_an_answer_lets_those_that_stand_on_it_try_again():
    """x (ordinal 2) may be re-derived only after y (ordinal 3), whose turn comes later."""
    edges = (
        "e(1,m). e(m,x). e(m,w). e(w,y). e(y,x). e(1,c1). e(c1,c2). e(c2,c3). e(c3,c4). e(c4,y)."
    )
    tables, trace = traced(REACH + edges, {}, "r(1, X)")
    delta = tables.delete("e(1, m)")
    assert delta.lines() == ["r(1, A): -r(1, m)", "r(1, A): -r(1, w)"]
    events = processed(trace)
    name = {
        line.split(" = ")[1].split(" ord")[0]: line.split()[1]
        for line in trace.lines
        if " = r(" in line
    }
    assert not name  # no new answers: x and y are the old ones, brought back
    assert tables.last.rederived == 2
    tries = [event for event in events if event.startswith("may_rederive")]
    assert len(tries) == 1 + 4 - 1  # m has no support left; x is tried twice, w and y once
    tables.check_invariants()


def test_deviation_2_a_support_of_equal_ordinal_but_earlier_birth_is_acyclic():
    tables, trace = traced(REACH + "e(1, a). e(1, b). e(a, b).", {}, "r(1, X)")
    assert not tables.delete("e(1, b)")
    assert tables.last.marked == 0
    assert trace.lines == []


def test_deviation_4_no_may_rederive_for_an_answer_without_any_support_left():
    tables, trace = traced(FIGURE_6, {}, "r(1, Y)")
    tables.delete("e(1, 3)")
    assert processed(trace) == ["mark(a1)"]


def test_an_unreachable_cycle_does_not_keep_itself_alive():
    """The known error of counting alone, and of ranks that restart at 0 (design.md)."""
    tables = Tables(REACH + "e(r, b). e(r, c). e(c, b). e(b, c).")
    assert answers(tables, "r(r, X)") == ["r(r, b)", "r(r, c)"]
    assert not tables.delete("e(r, b)")
    assert tables.delete("e(r, c)").lines() == ["r(r, A): -r(r, b)", "r(r, A): -r(r, c)"]
    tables.check_invariants()


def test_a_long_chain_of_calls_renumbers_labels_and_still_completes():
    """Found by seed 59: renumbering left open components out of the agenda."""
    text = ":- table p/1.\np(z).\np(s(X)) :- p(X), q(X).\nq(_)."
    goal = "p(" + "s(" * 300 + "z" + ")" * 300 + ")"
    tables = Tables(text)
    assert len(list(tables.query(goal))) == 1
    assert len(tables.goals()) == 1
    tables.check_invariants()


def test_truth_follows_when_a_support_goes_and_the_answer_stays():
    """Found by seed 116: r(0) loses its fact-based support and keeps the one on its own absence."""
    tables = Tables(
        """
        :- table r/1.
        e(0, 0). f(1). g(1, 0). g(0, 1).
        r(Z) :- e(W, Z), g(1, Z), \\+ r(Z).
        r(Z) :- g(Z, Y), f(1).
        """
    )
    assert {str(s): s.truth for s in tables.query("r(A)")} == {"r(1)": "true", "r(0)": "true"}
    assert tables.delete("f(1)").lines() == ["r(A): -r(1)", "r(A): ~r(0)"]
    assert {str(s): s.truth for s in tables.query("r(A)")} == {"r(0)": "undefined"}


def test_a_complete_call_negated_for_the_first_time_counts_as_it_stands():
    """Found by seed 150: p(1, 1) was complete before anyone negated it."""
    tables = Tables(":- table p/1, q/1.\np(1). f(1). f(2).\nq(X) :- f(X), \\+ p(X).")
    assert answers(tables, "p(1)") == ["p(1)"]
    assert answers(tables, "q(X)") == ["q(2)"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_calls_that_merge_while_an_answer_is_marked_do_not_hold_it_up(strategy):
    """p(0, 3) calls q(3, A), which had used p(0, 1): marked by then, and now of one component."""
    tables = Tables(
        """
        :- table p/2, q/2.
        :- dynamic e/2.
        p(X, Y) :- e(X, Y).
        p(X, Y) :- p(X, Z), e(Z, Y).
        p(X, Y) :- p(X, Z), q(Z, Y).
        q(X, Y) :- g(X, Z), p(Z, Y).
        e(0, 1). g(3, 0).
        """,
        strategy=strategy,
    )
    assert answers(tables, "p(0, A)") == ["p(0, 1)"]
    assert answers(tables, "q(3, A)") == ["q(3, 1)"]
    delta = tables.update(insert=["e(0, 2)", "e(2, 3)"], delete=["e(0, 1)"])
    tables.check_invariants()
    assert delta.lines() == [
        f"{goal}: {change}" for goal, name in (("p(0, A)", "p(0"), ("q(3, A)", "q(3"))
        for change in (f"+{name}, 2)", f"+{name}, 3)", f"-{name}, 1)")
    ]  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_answer_marked_before_calls_merge_is_not_consumed_until_it_holds_again(strategy):
    """Found in closures: q(1, A) was of another component when it was to hand q(4, 4) on."""
    tables = Tables(
        """
        :- table p/2, q/2.
        e(4, 1). g(4, 4).
        p(X, Z) :- q(X, Y), q(Y, Z).
        q(X, Y) :- e(X, Y).
        q(X, Y) :- g(X, Y).
        q(X, Z) :- q(X, Y), g(Y, Z).
        """,
        strategy=strategy,
    )
    assert answers(tables, "p(A, A)") == ["p(4, 4)"]
    rule = "q(X, Z) :- q(X, Y), p(Y, Z)"
    tables.update(insert=[rule, "e(1, 4)"], delete=["q(X, Y) :- g(X, Y)"])
    tables.check_invariants()
    assert answers(tables, "p(A, A)") == ["p(1, 1)", "p(4, 4)"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_answer_that_rises_in_a_merge_is_not_raised_by_its_own_support(strategy):
    """Found in closures: p(1, 3) stands on q(3, 1), and on itself by an edge to itself."""
    trace = Trace()
    tables = Tables(
        """
        :- table p/2, q/2.
        e(3, 3). e(0, 1). e(2, 0). g(3, 2). g(0, 0). g(1, 1). g(3, 3).
        q(W, X) :- g(X, Y), g(Y, Z), g(Z, W).
        q(X, W) :- q(X, Y), e(Y, Z), g(Z, W).
        p(X, Z) :- p(X, Y), g(Y, Z).
        p(Y, X) :- q(X, Y).
        """,
        strategy=strategy,
        trace=trace,
    )
    assert answers(tables, "p(1, 0)") == ["p(1, 0)"]
    tables.insert("q(X, Z) :- e(X, Y), p(Y, Z)")
    tables.check_invariants()
    check_trace(tables, trace)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_event_delayed_twice_waits_for_its_answer_and_for_its_consumer(strategy):
    """Found in closures: of a consumer and its answer, both marked, one holds before the other."""
    tables = Tables(
        """
        :- table p/2, q/2.
        e(3, 3). e(3, 5). g(2, 5).
        p(X, Z) :- p(X, Y), q(Y, Z).
        p(X, Y) :- q(X, Y).
        q(X, Y) :- e(X, Y).
        """,
        strategy=strategy,
    )
    assert answers(tables, "p(B, B)") == ["p(3, 3)"]
    joining = ["q(Y, X) :- g(X, Y)", "q(W, X) :- e(X, Y), e(Y, Z), p(Z, W)"]
    tables.update(insert=joining, delete=["q(X, Y) :- e(X, Y)"])
    tables.check_invariants()


def test_only_calls_on_the_cycle_become_one_component():
    """c lies between a and b in the order, and is called by the cycle without being on it."""
    tables = Tables(
        ":- table a/0, b/0, c/0.\n:- dynamic d/0.\nb :- a.\nb :- c.\na :- d, b.\nc :- e.\ne."
    )
    assert tables.holds("b")
    assert tables.insert("d").lines() == []
    component = {str(g.predicate.key[0]): g.component for g in tables._forest.generators}
    assert component["a"] is component["b"] is not component["c"]
    tables.check_invariants()
