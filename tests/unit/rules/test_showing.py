from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generators.strategies import programs

from deltafix.datalog.load import analyse
from deltafix.datalog.program import Program
from deltafix.rules.ast import Atom, Comparison
from deltafix.rules.functors import INFIX
from deltafix.rules.show import show_term
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var

leaves = st.one_of(
    st.sampled_from([Var("x"), Var("y")]),
    st.integers(-(2**63), 2**63 - 1).map(Const),
    st.integers(0, 2**64 - 1).map(lambda v: Const(v, "unsigned")),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda v: Const(v, "float")),
    st.text(st.characters(codec="utf-8"), max_size=8).map(lambda v: Const(v, "symbol")),
)


def larger(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.builds(Call, st.sampled_from(sorted(INFIX)), pairs),
        st.builds(Call, st.sampled_from(["neg", "bnot", "lnot"]), st.tuples(inner)),
        st.builds(Call, st.sampled_from(["max", "cat"]), pairs),
        st.builds(Aggregate, st.just("sum"), inner, st.builds(Atom, st.just("a"), pairs)),
    )


@given(st.recursive(leaves, larger, max_leaves=12))
@settings(max_examples=300, deadline=None)
def test_any_term_reads_back_as_itself(term: Term) -> None:
    found = analyse(f"a(z) :- z = {show_term(term)}.")
    body = found.program.rules[0].body
    assert isinstance(body, Comparison)
    assert body.right == term


@given(programs(size=4))
@settings(max_examples=100, deadline=None)
def test_any_program_reads_back_as_itself(program: Program) -> None:
    assert Program.parse(program.show()) == program
    named = [replace(rule, name=f"r{n}" * (n % 2)) for n, rule in enumerate(program.rules)]
    called = replace(program, rules=tuple(named))
    assert Program.parse(called.show()) == called


def test_everything_that_a_program_holds_is_shown() -> None:
    text = """\
.pragma "a" "b\\"c"
.type T <: number
.type U = T | number
.decl a(x: T, y: symbol) brie
.decl n()
.decl b(x: number, y: symbol)
.decl c()
.input a(IO="file", delimiter="\\t")
.limitsize a(n="5")
a(1, "x\\\\y").
n() :- true.
b(x, y), c() :- a(x, y), (n() ; !n()), !(a(_, y), x != 2) ; false, match("a*", y).
"""
    shown = Program.parse(text).show()
    assert shown == text.replace("n() :- true.", "n().")
