"""Tables as the user meets them: queries, updates, limits, dropping, errors that leave no trace."""

from contextlib import suppress
from functools import partial
from itertools import count

import pytest
from tests.support.interrupt import InterruptAtCall

import deltafix
from deltafix.errors import (
    BudgetError,
    EvaluationError,
    MissingRowError,
    PrologError,
    RefusedPredicateError,
    SourceError,
    TransactionError,
    UnknownPredicateError,
    UnsafeNegationError,
)
from deltafix.tabling import Tables, open_tables

from .paper import answers

REACH = ":- table r/2.\nr(X, Y) :- e(X, Y).\nr(X, Y) :- r(X, Z), e(Z, Y).\n"
EDGES = "e(1, 2). e(2, 3). e(3, 1). e(3, 4).\n"


def right(text: str) -> str:
    return text.replace("r(X, Z), e(Z, Y)", "e(X, Z), r(Z, Y)")


@pytest.mark.parametrize(
    "rules",
    [
        REACH,
        right(REACH),
        REACH.replace("r(X, Z), e(Z, Y)", "r(X, Z), r(Z, Y)"),
        ":- table r/2, s/2.\nr(X, Y) :- e(X, Y).\n"
        "r(X, Y) :- s(X, Z), e(Z, Y).\ns(X, Y) :- r(X, Y).\n",
    ],
    ids=["left", "right", "double", "mutual"],
)
def test_recursion_of_every_shape_terminates(rules):
    tables = Tables(rules + EDGES)
    assert answers(tables, "r(1, X)") == [f"r(1, {n})" for n in (1, 2, 3, 4)]
    assert tables.delete("e(3, 1)").lines() == ["r(1, A): -r(1, 1)"]
    tables.check_invariants()


def test_solutions_are_mappings_of_python_values():
    tables = Tables('p(1, a, 2.5, "text", [x, y]).')
    (solution,) = tables.query("p(A, B, C, D, E)")
    assert dict(solution) | {"E": str(solution["E"])} == {
        "A": 1, "B": "a", "C": 2.5, "D": "text", "E": "[x, y]",
    }  # fmt: skip
    assert str(solution) == 'p(1, a, 2.5, "text", [x, y])'
    with pytest.raises(KeyError):
        solution["F"]


def test_a_query_is_lazy_and_one_given_up_leaves_nothing_behind():
    tables = Tables(":- table nat/1.\nnat(z).\nnat(s(X)) :- nat(X).")
    numbers = tables.query("nat(X)")
    assert [str(next(numbers)) for _ in range(3)] == ["nat(z)", "nat(s(z))", "nat(s(s(z)))"]
    numbers.close()
    assert tables.calls == 0
    tables.check_invariants()


def test_a_change_under_an_open_query_is_an_error_of_the_query():
    tables = Tables(REACH + EDGES)
    found = tables.query("r(1, X)")
    next(found)
    tables.insert("e(4, 5)")
    with pytest.raises(TransactionError, match="open"):
        list(found)
    assert "r(1, 5)" in answers(tables, "r(1, X)")


def test_update_sees_deletes_and_inserts_together_and_reports_net_changes():
    tables = Tables(REACH + EDGES)
    answers(tables, "r(1, X)")
    assert not tables.update(insert=[("e", 1, 2)], delete=["e(1, 2)"])
    delta = tables.update(insert=["e(1, 3)", "e(4, 5)"], delete=["e(2, 3)"])
    assert delta.lines() == ["r(1, A): +r(1, 5)"]
    assert repr(delta["r(1, A)"].added[0]) == "r(1, 5)"


def test_rules_change_like_facts():
    tables = Tables(REACH + EDGES)
    answers(tables, "r(4, X)")
    assert tables.insert("r(X, Y) :- e(Y, X)").lines() == [
        "r(4, A): +r(4, 1)", "r(4, A): +r(4, 2)", "r(4, A): +r(4, 3)", "r(4, A): +r(4, 4)",
    ]  # fmt: skip
    assert len(tables.delete("r(A, B) :- e(B, A)")["r(4, A)"].removed) == 4
    tables.check_invariants()


def test_a_rule_replaced_by_one_that_says_the_same_marks_nothing():
    """The second half of an update is seen before the first is carried out."""
    tables = Tables(REACH + EDGES)
    answers(tables, "r(1, X)")
    assert not tables.replace("r(X, Y) :- e(X, Y)", "r(X, Y) :- e(X, Y), X \\= none")
    assert (tables.last.marked, tables.last.answers_inserted) == (0, 0)
    assert tables.last.supports_inserted == tables.last.supports_deleted == 1
    tables.check_invariants()


def test_a_fact_base_becomes_derived_with_its_first_rule():
    tables = Tables(REACH + EDGES)
    answers(tables, "r(1, X)")
    delta = tables.insert("e(X, Y) :- f(X, Y)", "f(4, 9)")
    assert delta.lines() == ["r(1, A): +r(1, 9)"]
    assert tables.delete("f(4, 9)").lines() == ["r(1, A): -r(1, 9)"]
    tables.check_invariants()


def test_disjunctions_are_clauses_of_one_rule():
    tables = Tables(
        ":- table p/1.\np(X) :- (a(X) ; b(X)), (X > 1 ; X = 0).\na(0). a(2). b(3). b(1)."
    )
    assert answers(tables, "p(X)") == ["p(0)", "p(2)", "p(3)"]
    tables.delete("p(X) :- (a(X) ; b(X)), (X > 1 ; X = 0)")
    assert answers(tables, "p(X)") == []


def test_lists_and_arithmetic():
    tables = Tables(
        """
        :- table len/2, app/3 as incremental.
        len([], 0).
        len([_ | T], N) :- len(T, M), N is M + 1.
        app([], L, L).
        app([H | T], L, [H | R]) :- app(T, L, R).
        """
    )
    assert answers(tables, "len([a, b, c], N)") == ["len([a, b, c], 3)"]
    assert answers(tables, "app(X, [c], [a, b, c])") == ["app([a, b], [c], [a, b, c])"]
    assert [s["N"] for s in tables.query("len([" + "x, " * 2000 + "x], N)")] == [2001]


def test_facts_with_variables_answer_goals():
    tables = Tables(":- table q/2.\np(X, X). p(1, Y).\nq(A, B) :- p(A, B), d(A).\nd(7).")
    assert answers(tables, "q(A, B)") == ["q(7, 7)"]
    assert tables.insert("d(1)").lines() == ["q(A, B): +q(1, 1)", "q(A, B): +q(1, A)"]
    tables.check_invariants()


def test_win_move_is_true_false_and_undefined():
    tables = Tables(
        ":- table win/1.\nwin(X) :- move(X, Y), \\+ win(Y).\n"
        "move(a, b). move(b, a). move(b, c). move(c, d). move(e, f). move(f, e)."
    )
    truth = {str(s): s.truth for s in tables.query("win(X)")}
    undefined = dict.fromkeys(("win(a)", "win(b)", "win(e)", "win(f)"), "undefined")
    assert truth == {"win(c)": "true", **undefined}
    assert not tables.holds("win(e)")
    delta = tables.insert("move(f, g)")
    assert delta.lines() == ["win(A): -win(e)", "win(A): ~win(f)", "win(e): -win(e)"]
    tables.check_invariants()


def test_stratified_negation_follows_both_ways():
    tables = Tables(
        REACH + ":- table lost/1.\nlost(X) :- node(X), \\+ r(1, X).\n" + EDGES
        + "node(1). node(4). node(5)."
    )  # fmt: skip
    assert answers(tables, "lost(X)") == ["lost(5)"]
    assert tables.insert("e(4, 5)").lines() == ["lost(A): -lost(5)"]
    assert tables.delete("e(3, 4)").lines() == ["lost(A): +lost(4)", "lost(A): +lost(5)"]


RUNAWAY = ":- table n/1.\n:- dynamic go/0.\nn(0).\nn(Y) :- go, n(X), Y is X + 1.\n"


@pytest.mark.parametrize("limit", [{"max_answers": 200}, {"timeout": 0.2}])
def test_a_runaway_update_stops_and_takes_everything_back(limit):
    tables = Tables(RUNAWAY, **limit)
    assert answers(tables, "n(X)") == ["n(0)"]
    with pytest.raises(BudgetError, match=next(iter(limit))):
        tables.insert("go")
    tables.check_invariants()
    assert answers(tables, "n(X)") == ["n(0)"]
    assert "go" not in tables.program.show().replace("go/0", "").replace(":- go", "")
    assert tables.insert("n(7)").lines() == ["n(A): +n(7)"]


def test_an_update_that_stops_while_an_answer_is_marked_leaves_it_as_it_was():
    tables = Tables(
        """
        :- table n/1.
        :- dynamic go/0.
        n(0). e(1000).
        n(X) :- e(X).
        n(Y) :- n(X), go, Y is X + 1.
        """,
        max_answers=200,
    )
    assert answers(tables, "n(X)") == ["n(0)", "n(1000)"]
    with pytest.raises(BudgetError):
        tables.update(insert=["go"], delete=["e(1000)"])
    assert tables.last.marked == 1
    tables.check_invariants()
    assert answers(tables, "n(X)") == ["n(0)", "n(1000)"]
    assert tables.delete("e(1000)").lines() == ["n(A): -n(1000)"]


def test_a_runaway_query_leaves_complete_tables_alone():
    tables = Tables(REACH + EDGES + RUNAWAY + "go.", max_answers=100)
    before = answers(tables, "r(1, X)")
    with pytest.raises(BudgetError):
        list(tables.query("n(X)"))
    assert tables.calls == 1
    assert answers(tables, "r(1, X)") == before
    tables.check_invariants()


@pytest.mark.parametrize("strategy", ["local", "deletes_first", "inserts_first", "dred", "scratch"])
def test_an_error_in_the_middle_of_an_update_takes_it_back(strategy):
    tables = Tables(
        REACH + EDGES + ":- table s/2.\ns(X, Z) :- r(X, Y), Z is Y + 1.", strategy=strategy
    )
    before = answers(tables, "s(1, Z)"), sorted(tables.program.show().split("\n"))
    with pytest.raises(EvaluationError) as caught:
        tables.update(insert=["e(4, oops)", "e(4, 8)"], delete=["e(3, 1)"])
    assert "Z is Y + 1" in str(caught.value)
    tables.check_invariants()
    after = answers(tables, "s(1, Z)"), sorted(tables.program.show().split("\n"))
    assert after == before
    assert tables.insert("e(4, 8)").lines() == ["s(1, A): +s(1, 9)"]


@pytest.mark.parametrize(
    ("text", "goal", "error", "names"),
    [
        ("p(X) :- q(X), Y is X + Z, r(Y). q(1). r(1).", "p(A)", EvaluationError, "Y is X + Z"),
        ("p(X) :- q(X), 1 < X / 0. q(1).", "p(A)", EvaluationError, "division by zero"),
        ("p(X) :- \\+ q(X). q(1).", "p(A)", UnsafeNegationError, "\\+ q(X)"),
        ("p(X) :- qq(X). q(1).", "p(A)", UnknownPredicateError, "did you mean"),
        ("pa(X) :- q(X). q(1).", "paa(A)", UnknownPredicateError, "pa/1"),
    ],
)
def test_errors_while_running_name_clause_and_literal(text, goal, error, names):
    tables = Tables(text)
    with pytest.raises(error) as caught:
        list(tables.query(goal))
    assert names in str(caught.value)
    assert caught.value.diagnostics[0].span.line == 1
    tables.check_invariants()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("p :- !.", "cut"), ("p :- (a -> b ; c).", "->"), ("p :- findall(X, q(X), L).", "findall"),
        ("p :- assertz(q).", "insert"), ("p :- write(x).", "write"),
    ],
)  # fmt: skip
def test_impure_predicates_are_refused_by_name(text, names):
    with pytest.raises(RefusedPredicateError) as caught:
        Tables("a. b. c.\n" + text)
    assert names in str(caught.value)
    assert caught.value.diagnostics[0].span.line == 2


@pytest.mark.parametrize(
    "text",
    ["1 :- p.", "X :- p.", "p :- X.", "p :- 3.", "p :- \\+ (a, b).", "X = 1.", ":- module(m, []).",
     ":- table p.", ":- op(1300, xfx, foo)."],
)  # fmt: skip
def test_what_is_no_clause_of_the_subset_is_an_error_and_changes_nothing(text):
    tables = Tables("a.")
    program = tables.program
    before = program.show(), list(program.predicates), vars(program.operators.copy())
    with pytest.raises(PrologError):
        tables.consult(
            ":- op(700, xfx, ==>). :- op(0, xfx, is). :- table t/1. :- dynamic d/2.\n"
            f"b ==> c.\nnew(1).\n{text}"
        )
    assert (program.show(), list(program.predicates), vars(program.operators)) == before
    tables.check_invariants()


def test_deleting_what_is_not_there():
    tables = Tables(EDGES)
    with pytest.raises(MissingRowError, match=r"e\(9, 9\)"):
        tables.delete("e(9, 9)")
    assert not tables.update(delete=["e(9, 9)"], missing="ignore")


def test_clauses_are_deleted_by_a_pattern_of_their_heads():
    tables = Tables(
        ":- table r/2.\n:- dynamic e/2.\nr(X, Y) :- e(X, Y).\nr(X, X) :- e(X, _).\nr(9, 9).\n"
        "e(1, 2). e(1, 3). e(2, 1). e(X, 7). e(f(Y), Y)."
    )
    goal = "r(1, X)"
    assert answers(tables, goal) == ["r(1, 1)", "r(1, 2)", "r(1, 3)", "r(1, 7)"]
    assert not tables.retractall("e(3, 4)")
    assert tables.retractall("e(f(_), 8)", "e(1, 2)").lines() == ["r(1, A): -r(1, 2)"]
    assert [str(c) for c in tables.changed[1]] == ["e(f(Y), Y).", "e(1, 2)."]
    both = tables.update(insert=["e(1, 3)", "e(1, 4)"], retractall="e(1, _)")
    assert both.lines() == ["r(1, A): +r(1, 4)", "r(1, A): -r(1, 7)"]  # e(A, 7) had fitted
    assert sorted(map(str, tables.changed[0])) == ["e(1, 4)."]
    assert tables.retractall("r(Z, Z)").lines() == [f"r(1, A): -r(1, {n})" for n in (1, 3, 4)]
    tables.check_invariants()
    assert ":- dynamic e/2." in tables.program.show()
    assert [str(c) for c in tables.program.clauses.values()] == ["e(1, 3).", "e(2, 1).", "e(1, 4)."]


@pytest.mark.parametrize(
    ("head", "error"),
    [
        ("ee(_)", UnknownPredicateError),
        ("X", PrologError),
        ("e(1, 2) :- a", PrologError),
        ("X = 1", PrologError),
        ("e(1,", PrologError),
    ],
)
def test_a_pattern_that_is_no_head_is_an_error_and_changes_nothing(head, error):
    tables = Tables(EDGES)
    with pytest.raises(error):
        tables.update(insert="e(7, 7)", retractall=head)
    assert tables.program.show() == EDGES.replace(". ", ".\n")


def test_the_text_of_a_program_keeps_what_is_declared_and_what_is_known():
    text = ":- table 'P'/1.\n:- dynamic e/1.\n:- dynamic f/2.\n'P'(X) :- e(X), g(X).\nf(1, 2).\n"
    tables = Tables(text + "g(1).")
    tables.delete("g(1)")
    shown = tables.program.show()
    assert sorted(shown.splitlines()) == sorted([*text.splitlines(), ":- dynamic g/1."])
    again = Tables(shown)
    assert again.program.show() == shown
    assert answers(again, "'P'(X)") == []


def test_files_are_consulted_and_their_names_are_in_errors(tmp_path):
    good, bad = tmp_path / "good.pl", tmp_path / "bad.pl"
    good.write_text(REACH + EDGES)
    bad.write_text("p :- q(.\n")
    assert len(answers(Tables.from_file(good), "r(1, X)")) == 4
    with pytest.raises(PrologError, match=r"bad\.pl:1:"):
        Tables.from_file(bad)
    with pytest.raises(SourceError):
        Tables.from_file(tmp_path / "none.pl")


def test_tables_are_dropped_with_what_uses_them_or_when_nothing_does():
    tables = Tables(right(REACH) + EDGES)
    answers(tables, "r(1, X)")
    assert tables.calls == 4
    assert tables.collect() == 0
    tables.delete("e(3, 4)")
    assert tables.collect() == 1  # r(4, X)
    assert tables.abolish("r(2, X)") == 3  # all three call each other
    assert (tables.calls, tables.answers) == (0, 0)
    answers(tables, "r(1, X)")
    tables.release("r(1, X)")
    assert tables.collect() == 3
    assert not any(rule.affects for c in tables.program.clauses.values() for rule in c.rules)
    tables.check_invariants()


def test_the_kernel_route_answers_and_reports_like_the_term_route():
    term = open_tables(REACH + EDGES)
    fast = open_tables(REACH + EDGES, engine="auto", connect=deltafix.connect)
    assert fast.route == "kernel"
    edits = [
        (["e(4, 5)"], ["e(3, 1)"]), (["r(X, Y) :- e(Y, X)"], []), ([], ["e(2, 3)"]),
        (["e(5, f(1))"], []), (["e(2, 3)"], ["e(4, 5)"]),
    ]  # fmt: skip
    for goal in ("r(1, X)", "r(X, X)"):
        assert answers(term, goal) == answers(fast, goal)
    for insert, delete in edits:
        assert fast.update(insert, delete).lines() == term.update(insert, delete).lines()
        assert answers(term, "r(1, X)") == answers(fast, "r(1, X)")
    assert fast.route == "term"
    assert "f(1)" in fast.reason


def test_the_kernel_route_follows_an_edit_of_clauses_for_what_it_changes():
    chain = " ".join(f"e({n}, {n + 1})." for n in range(1, 100))
    text = f"{REACH} :- dynamic jump/2. {chain}"
    fast = open_tables(text, engine="kernel", connect=deltafix.connect)
    assert len(answers(fast, "r(1, X)")) == 99
    db, reports = fast._kernel.db, []
    db.watch(callback=lambda _: reports.append(db.last_epoch))
    delta = fast.update(["r(X, Y) :- jump(X, Y)", "jump(1, 0)"], [])
    assert delta.lines() == ["r(1, A): +r(1, 0)"]
    assert fast.update([], ["r(X, Y) :- jump(X, Y)"]).lines() == ["r(1, A): -r(1, 0)"]
    assert sum(one.derivations + one.retracted for one in reports) < 5
    assert answers(fast, "r(X, 1)") == []  # another pattern: the rules that it needs come, too
    assert fast._kernel.db is db
    fast.close()


def test_the_kernel_route_asks_for_a_pattern_even_if_rules_ask_a_more_general_one():
    """Found by seed 52: q(A, 1) was read off q's free pattern, which nothing asked for."""
    text = (
        ":- table p/1, q/2.\nq(X, Y) :- g(X, Y).\n"
        "p(X) :- f(X), q(_, _).\ng(1, 1). g(2, 3). f(9) :- none. :- dynamic none/0."
    )
    fast = open_tables(text, engine="kernel", connect=deltafix.connect)
    assert answers(fast, "p(5)") == []
    assert answers(fast, "q(A, 1)") == ["q(1, 1)"]


def test_the_kernel_route_refuses_by_name_what_it_cannot_run():
    text = "p(X) :- q(Y), X is Y + 1. q(1)."
    opened = open_tables(text, engine="kernel", connect=deltafix.connect)
    with pytest.raises(PrologError, match="built-in is/2"):
        list(opened.query("p(X)"))
    with pytest.raises(ValueError, match="connect"):
        open_tables("p.", engine="auto")
    with pytest.raises(ValueError, match="none of"):
        open_tables("p.", engine="fast")


CLOSURE = """
:- table r/2, s/1.
:- dynamic e/2, f/1.
r(X, Y) :- e(X, Y).
r(X, Y) :- r(X, Z), e(Z, Y).
s(X) :- f(X), r(X, X), \\+ r(X, 4).
e(1, 2). e(2, 1). f(1). f(2).
"""
EDIT = {"insert": ["e(2, 4)", "r(X, Y) :- e(Y, X)"], "delete": ["e(2, 1)"]}
BACK = {"insert": EDIT["delete"], "delete": EDIT["insert"]}


@pytest.mark.parametrize(
    ("open_", "step"),
    [(Tables, 17), (partial(open_tables, engine="auto", connect=deltafix.connect), 67)],
)
def test_an_interrupted_query_or_update_leaves_tables_that_are_whole(open_, step) -> None:
    """A node that an interrupt had let wait, and nobody could find, stood on a table for good."""
    auto = open_(CLOSURE)
    tables = getattr(auto, "tables", auto)
    goals = ("s(X)", "r(1, X)")

    def known() -> list[list[str]]:
        return [sorted(map(str, auto.query(goal))) for goal in goals]

    before = known()
    auto.update(**EDIT)
    after = known()
    auto.update(**BACK)
    came = 0
    for place in count(0, step):
        tables.abolish("r(1, X)")
        asked, edited = (InterruptAtCall(place, "tabling") for _ in range(2))
        with suppress(KeyboardInterrupt), asked:
            list(tables.query("s(X)"))
        with suppress(KeyboardInterrupt), edited:
            auto.update(**EDIT)
        stands = "e(2, 4)." in map(str, tables.program.clauses.values())
        assert known() == (after if stands else before), place
        auto.update(**EDIT if not stands else BACK)
        assert known() == (before if stands else after), place
        if not stands:
            auto.update(**BACK)
        came += asked.came
        if not (asked.came or edited.came):
            break
    assert came > 10
    auto.update(**EDIT)
    assert known() == after
