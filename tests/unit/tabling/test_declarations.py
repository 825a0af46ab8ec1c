"""Declarations, and the predicates that have no place in a pure program: refused by name."""

import pytest

from deltafix.errors import BudgetError, PrologError, RefusedPredicateError, UnknownPredicateError
from deltafix.tabling import Tables
from deltafix.tabling.builtins import _REFUSED, LIBRARY

from .paper import answers


@pytest.mark.parametrize(
    "line",
    [
        ":- table p/2.",
        ":- table p/2 as incremental.",
        ":- table p/2, q/1 as incremental.",
        ":- table (p/2, q/1) as (incremental, variant).",
        ":- table([p/2]).",
        ":- table p(_, _).",
    ],
)
def test_tables_are_declared_in_every_form(line):
    tables = Tables(line + "\np(1, 2).")
    assert tables.program.predicates["p", 2].tabled
    assert answers(tables, "p(1, X)") == ["p(1, 2)"]
    assert tables.insert("p(1, 3)").lines() == ["p(1, A): +p(1, 3)"]


@pytest.mark.parametrize("word", ["dynamic", "volatile", "discontiguous"])
def test_a_declared_predicate_is_known_before_it_has_a_clause_and_may_change(word):
    tables = Tables(f":- table p/1.\n:- {word} e/1, f/2.\np(X) :- e(X).")
    assert answers(tables, "p(X)") == []
    assert not tables.program.predicates["e", 1].tabled
    assert tables.insert("e(1)").lines() == ["p(A): +p(1)"]
    assert tables.replace("e(1)", "e(2)").lines() == ["p(A): +p(2)", "p(A): -p(1)"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (":- table p/2 as subsumptive.", "variant tables"),
        (":- dynamic p.", "name/arity"),
        (":- table p/X.", "name/arity"),
        (":- initialization(main).", "`:- initialization/1` is not part of the subset"),
        (":- use_module(library(lists)).", "help: leave it out: nothing is loaded"),
        (":- table p(_, _, min).", "answer subsumption of p/3 is not in"),
        (":- table p(a).", "name/arity"),
    ],
)
def test_other_declarations_are_refused_with_their_line(line, says):
    with pytest.raises(PrologError, match=says) as caught:
        Tables("a.\n\n" + line)
    assert caught.value.diagnostics[0].span.line == 3


@pytest.mark.parametrize(
    ("name", "arity"), [(name, arities[0]) for name, (arities, _) in _REFUSED.items()]
)
def test_every_impure_predicate_is_refused_by_name_with_what_to_write_instead(name, arity):
    goal = f"'{name}'({', '.join('abcdefgh'[:arity])})" if arity else f"'{name}'"
    if name == "!":
        goal = "!"
    with pytest.raises(RefusedPredicateError) as caught:
        Tables(f"ok.\np(X) :- q(X), {goal}.\n")
    (found,) = caught.value.diagnostics
    assert found.code == "DF711"
    assert found.message.startswith(name)
    assert (found.span.line, found.span.column) == (2, 15)
    assert found.help == _REFUSED[name][1]


GOALS = {  # what SWI-Prolog's manual says of them
    "member": ("member(X, [a, b])", ["member(a, [a, b])", "member(b, [a, b])"]),
    "memberchk": ("memberchk(b, [a, b])", ["memberchk(b, [a, b])"]),
    "append": ("append([a], [b], L)", ["append([a], [b], [a, b])"]),
    "select": ("select(a, [a, b], L)", ["select(a, [a, b], [b])"]),
    "last": ("last([a, b], X)", ["last([a, b], b)"]),
    "length": ("length([a, b], N)", ["length([a, b], 2)"]),
    "sum_list": ("sum_list([3, 4], N)", ["sum_list([3, 4], 7)"]),
}


@pytest.mark.parametrize(("name", "arity"), LIBRARY)
def test_of_a_predicate_over_lists_the_error_has_clauses_that_do(name, arity):
    goal, wanted = GOALS[name]
    with pytest.raises(UnknownPredicateError) as caught:
        answers(Tables("ok."), goal)
    (found,) = caught.value.diagnostics
    assert f"{name}/{arity}" in found.message
    _, stated, _ = found.help.split("`")
    assert answers(Tables(stated), goal) == wanted


def test_a_name_that_is_close_has_as_many_arguments_or_is_the_same():
    tables = Tables("edge(a, b).")
    for goal, help_ in {
        "edge(a)": "did you mean edge/2?",
        "egde(a, X)": "did you mean edge/2?",
        "foo(X)": "give it a clause",
        "bet(X)": "give it a clause",
    }.items():
        with pytest.raises(UnknownPredicateError) as caught:
            answers(tables, goal)
        assert caught.value.diagnostics[0].help.startswith(help_)


def test_a_built_in_that_never_ends_is_stopped_by_the_timeout():
    tables = Tables("p(X) :- between(1, inf, X), X < 0.", timeout=0.05)
    with pytest.raises(BudgetError, match=r"timeout=0\.05"):
        list(tables.query("p(X)"))
    assert tables.calls == 0
