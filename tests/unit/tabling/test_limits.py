"""What bounds a run: memory for depth, `max_answers` and `timeout` for all else; nothing leaks."""

import gc

import pytest

from deltafix.collector import held_back
from deltafix.errors import BudgetError
from deltafix.tabling import Tables, agenda

CHAIN = ":- table r/2.\nr(X, Y) :- e(X, Y).\nr(X, Y) :- e(X, Z), r(Z, Y).\n"
DOUBLING = (
    ":- table d/2.\n:- dynamic go/0.\nd(0, t(_, _)).\nd(N, t(X, X)) :- go, d(M, X), N is M + 1.\n"
)


def test_a_hundred_thousand_calls_deep_needs_no_recursion():
    depth = 100_000
    tables = Tables(CHAIN)
    tables.update(insert=[("e", n, n + 1) for n in range(depth)])
    assert tables.holds(f"r(0, {depth})")
    assert tables.calls == depth + 1
    assert tables.delete(("e", 10, 11)).lines() == [f"r(0, {depth}): -r(0, {depth})"]
    assert tables.last.marked == 11


@pytest.mark.parametrize("ground", [True, False])
def test_terms_that_double_at_every_step_cost_their_distinct_subterms(ground):
    """Found by seed 17: a term of 2^300 subterms, 300 of them distinct."""
    text = DOUBLING.replace("t(_, _)", "t(a, a)") if ground else DOUBLING
    tables = Tables(text, max_answers=300)
    assert [s["N"] for s in tables.query("d(N, _)")] == [0]
    with pytest.raises(BudgetError, match="max_answers=300"):
        tables.insert("go")
    tables.check_invariants()
    assert [s["N"] for s in tables.query("d(N, _)")] == [0]
    tables.consult(":- table same/2.\nsame(X, X).")
    assert not tables.holds("same(t(t(A, A), t(A, A)), t(t(B, c), t(d, B)))")


def test_doubled_terms_with_variables_unify():
    double = "X0"
    for _ in range(6):
        double = f"t({double}, {double})"
    tables = Tables(f":- table p/1, q/2.\np({double}).\nq(A, B) :- p(A), p(B), A = B.")
    (solution,) = tables.query("q(A, B)")
    assert solution["A"] is solution["B"]


def test_the_collector_is_held_back_inside_a_run_and_not_while_the_caller_reads():
    tables = Tables(":- table nat/1.\nnat(z).\nnat(s(X)) :- nat(X).", max_answers=50)
    numbers = tables.query("nat(X)")
    assert gc.isenabled()
    next(numbers)
    assert gc.isenabled()
    with pytest.raises(BudgetError):
        list(numbers)
    assert gc.isenabled()
    gc.disable()
    try:
        with held_back():
            assert not gc.isenabled()
        assert not gc.isenabled()  # as the caller had it
    finally:
        gc.enable()


def test_abolished_tables_and_their_terms_are_freed():
    tables = Tables(CHAIN)
    tables.update(insert=[("e", n, n + 1) for n in range(200)])
    assert tables.holds("r(0, 200)")
    gc.collect()
    full = sum(type(o).__module__ == "deltafix.tabling.table" for o in gc.get_objects())
    assert tables.abolish() == 201
    gc.collect()
    left = sum(type(o).__module__ == "deltafix.tabling.table" for o in gc.get_objects())
    assert full - left > 200 * 4  # calls, their roots, consumers, answers and supports
    assert tables.holds("r(0, 200)")


def test_the_clock_is_looked_at_one_step_in_64(monkeypatch):
    looks = []
    monkeypatch.setattr(agenda, "monotonic", lambda: looks.append(1) or 0.0)
    budget = agenda.Budget(timeout=1.0)
    budget.start()
    for _ in range(640):
        budget.tick()
    assert len(looks) == 1 + 10
