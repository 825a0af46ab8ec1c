# ruff: noqa: B015  `head <= body` states a rule
from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import pytest

from deltafix import connect
from deltafix.datalog.program import Program
from deltafix.errors import ProgramError
from deltafix.rules.dsl import (
    call,
    contains,
    count,
    match,
    max_of,
    mean_of,
    min_of,
    sum_of,
    unsigned,
    variables,
)
from deltafix.rules.show import show_rule

x, y, z, _ = variables("x y z _")


def test_both_doors_give_the_same_program() -> None:
    with Program() as p:
        edge, path = p.relation("edge", x=int, y=int), p.relation("path", x=int, y=int)
        path(x, y) <= edge(x, y)
        path(x, z) <= path(x, y) & edge(y, z)
        p.input(edge, IO="file")
        p.output(path, "edge")
    assert p == Program.parse("""
        .decl edge(x: number, y: number) .decl path(x: number, y: number)
        .input edge(IO=file) .output path, edge
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
    """)
    assert Program.parse(p.show()) == p


def test_every_construct_has_a_python_spelling() -> None:
    with Program() as p:
        name = p.type("Name", str)
        e = p.relation("e", a=int, b=int)
        s = p.relation("s", n=name)
        o = p.relation("o", a=int, b=int)
        f, u, flag = p.relation("f", v=float), p.relation("u", v="unsigned"), p.relation("flag")
        e(1, 2) <= True
        p.facts(s, [("a",), ("b",)])
        (o(x, y), flag()) <= e(y, x) & ~e(x, ...) & (x != y)
        o(x, z) <= (e(x, y) | e(y, x)) & (z == (x + y * 2 - 1) % 5) & ~(e(z, y) & (y < x))
        f(z) <= f(x) & (z == -x / 2.0) & (x**2 >= 1.5)
        u(x) <= u(x) & (x < unsigned(7))
        s(z) <= s(x) & (z == call("as", call("cat", x, "!"), "Name")) & match("a.*", x) & contains(
            "b", x
        )
        o(x, z) <= e(x, _) & (z == count(e(x, _)) + sum_of(y, e(x, y)))
        o(x, z) <= (x == min_of(y, e(y, _))) & (z == max_of(y, e(y, _)))
        f(z) <= (z == mean_of(y, e(y, _)))
        p.printsize(e)
        p.limitsize(e, 5)
    assert (
        p.show()
        == """\
.type Name <: symbol
.decl e(a: number, b: number)
.decl s(n: Name)
.decl o(a: number, b: number)
.decl f(v: float)
.decl u(v: unsigned)
.decl flag()
.printsize e
.limitsize e(n="5")
e(1, 2).
s("a").
s("b").
o(x, y), flag() :- e(y, x), !e(x, _), x != y.
o(x, z) :- (e(x, y) ; e(y, x)), z = (x + y * 2 - 1) % 5, !(e(z, y), y < x).
f(z) :- f(x), z = -x / 2.0, x ^ 2 >= 1.5.
u(x) :- u(x), x < 7u.
s(z) :- s(x), z = as(cat(x, "!"), Name), match("a.*", x), contains("b", x).
o(x, z) :- e(x, _), z = count : { e(x, _) } + sum y : { e(x, y) }.
o(x, z) :- x = min y : { e(y, _) }, z = max y : { e(y, _) }.
f(z) :- z = mean y : { e(y, _) }.
"""
    )
    assert Program.parse(p.show()) == p


MISUSE: list[tuple[str, Callable[..., object]]] = [
    ("with parentheses", lambda e: e(x, y) <= e(x, y) & x < y),
    ("with parentheses", lambda e: e(x, y) <= (x < y & e(x, y))),
    ("do not chain", lambda e: e(x, y) <= e(x, y) <= e(y, x)),
    ("instead of and", lambda e: e(x, y) <= (e(x, y) and e(y, x))),
    ("instead of and", lambda e: e(x, y) <= (not e(x, y))),
    ("do not chain", lambda e: e(x, y) <= e(x, y) & (1 < x < 5)),
    ("head", lambda e: e(x, y) < e(x, y)),
    ("with parentheses", lambda e: e(x, y) <= x),
    ("no literal", lambda e: e(x, y) <= 3),
    ("no term", lambda e: e(x, [1])),
    ("no text form", lambda e: e(x, float("nan"))),
    ("inside a term", lambda e: e(x, e(x, y))),
    ("neither true nor false", lambda e: bool(x)),
]


@pytest.mark.parametrize(("words", "misuse"), MISUSE)
def test_what_python_would_read_differently_is_an_error(
    words: str, misuse: Callable[..., object]
) -> None:
    p = Program()
    with pytest.raises(TypeError, match=words), p:
        misuse(p.relation("e", a=int, b=int))
    assert p.rules == ()


def test_errors_point_into_the_python_file() -> None:
    def write() -> None:
        with Program() as p:
            e = p.relation("e", a=int, b=int)
            e(x, "one") <= e(x, y, z)
            e(x, y) <= e(x, z)

    with pytest.raises(ProgramError) as caught:
        write()
    found = caught.value.diagnostics
    assert [item.code for item in found] == ["DF112", "DF130"]
    assert all(item.span.path == __file__ for item in found)
    assert 'e(x, "one") <= e(x, y, z)' in str(caught.value)


def test_a_rule_is_named() -> None:
    with Program() as p:
        edge = p.relation("edge", x=int, y=int)
        x, y = variables("x y")
        (edge(x, y) <= edge(y, x)).named("back")
        edge(1, 2)
        _ = edge(x, x) <= edge(x, y)
    assert {name: show_rule(rule) for name, rule in p.named.items()} == {
        "back": "edge(x, y) :- edge(y, x)."
    }
    with pytest.raises(ProgramError, match=r"DF111.*rule `back`"), Program() as p:
        edge = p.relation("edge", x=int, y=int)
        (edge(x, y) <= edge(y, x)).named("back")
        (edge(x, x) <= edge(y, x)).named("back")


def test_a_complete_program_takes_no_more_rules() -> None:
    with Program() as p:
        e = p.relation("e", a=int)
    with pytest.raises(ProgramError, match="with"):
        e(x) <= e(x)
    with pytest.raises(ProgramError, match="with"):
        p.relation("f", a=int)
    with pytest.raises(ProgramError, match="complete"):
        p.__enter__()
    assert p.relation("e").arity == 1
    with pytest.raises(KeyError):
        p.relation("f")


def test_column_types_are_checked_where_they_are_written() -> None:
    with pytest.raises(TypeError, match="valid: int, float, str, bool, date"), Program() as p:
        p.relation("e", a=list)
    with pytest.raises(TypeError, match="or 'decimal"), Program() as p:
        p.relation("e", a=Decimal)


@pytest.mark.parametrize(
    ("names", "way"), [("n", '(n,) = deltafix.vars("n")'), ("x _", '(x, _) = deltafix.vars("x _")')]
)
def test_variables_that_were_not_unpacked_are_told_so(names, way):
    together = variables(names)
    with Program() as program:
        edge = program.relation("edge", x=int)
        program.input(edge)
        with pytest.raises(TypeError, match="unpack it: ") as caught:
            edge(together)
        assert str(caught.value).endswith(way)
        (x,) = variables("x")
        names = "eq ne lt le gt ge add sub mul truediv mod pow"
        for combine in (getattr(operator, name) for name in names.split()):
            for pair in ((together, 2), (2, together), (x, together), (together, together)):
                with pytest.raises(TypeError) as caught:
                    combine(*pair)
                assert str(caught.value).endswith(way)
        joined = (partial(one, edge(x)) for one in (operator.and_, operator.or_))
        for combine in (operator.neg, *joined):
            with pytest.raises(TypeError):
                combine(together)
        program.relation("other", x=int)(*together[:1]) <= edge(*together[:1])


@pytest.mark.parametrize(
    "use",
    [
        lambda db, e: db.rows(e),
        lambda db, e: db.count(e),
        lambda db, e: db.select(e, [1]),
        lambda db, e: db.contains(e, (1,)),
        lambda db, e: db.to_arrow(e),
        lambda db, e: db.relation(e),
        lambda db, e: db.watch(e),
        lambda db, e: db.why(e, (1,)),
        lambda db, e: db.why_not(e, (1,)),
        lambda db, e: db.transaction().insert(e, [(1,)]),
        lambda db, e: db.transaction().delete(e, [(1,)]),
    ],
)
def test_a_relation_object_in_place_of_its_name_is_told_the_name(use):
    with Program() as program:
        edge = program.relation("edge", x=int)
        program.input(edge)
    wanted = pytest.raises(TypeError, match="as text, not as Relation: write 'edge'")
    with connect(program) as db, wanted:
        use(db, edge)


def test_rows_in_place_of_a_delta_are_told_how_they_go_in():
    with connect(".decl edge(x: number) .input edge") as db:
        with pytest.raises(TypeError, match=r"not dict; in a transaction, tx\.insert"):
            db.apply({"edge": [(1,)]})
        assert db.rows("edge") == []


@pytest.mark.parametrize(
    ("write", "way"),
    [
        (lambda edge, x: edge(f"{x}!"), "a term is no text, nor part of one"),
        (lambda edge, x: edge(str(x) + "!"), "a term is no text, nor part of one"),
        (lambda edge, x: edge(x) == edge("a"), r"a rule is written head\(\.\.\) <= body"),
        (lambda edge, x: edge(x) != edge("a"), r"a rule is written head\(\.\.\) <= body"),
    ],
)
def test_what_python_would_make_text_or_a_truth_of_is_refused(write, way):
    with Program() as program:
        edge = program.relation("edge", x=str)
        program.input(edge)
        (x,) = variables("x")
        with pytest.raises(TypeError, match=way):
            write(edge, x)
    assert repr(x) == "TermExpr(Var(name='x'))"


def test_a_path_in_place_of_a_program_is_told_how_it_is_read():
    with pytest.raises(ProgramError, match=r"deltafix.Program.from_file\('rules.dl'\)"):
        connect("rules.dl")


def test_a_program_that_is_being_written_is_not_run_and_one_plan_serves_all_who_run_it() -> None:
    with Program() as p:
        edge, path = p.relation("edge", x=int, y=int), p.relation("path", x=int, y=int)
        x, y = variables("x y")
        _ = path(x, y) <= edge(x, y)
        with pytest.raises(ProgramError, match="its `with` block has not ended"):
            connect(p)
    with connect(p) as one, connect(p) as other:
        assert one.plan is other.plan
        with one.transaction() as tx:
            tx.insert("edge", [(1, 2)])
        with other.transaction() as tx:
            tx.add_rule("path(y, x) :- edge(x, y).")
            tx.insert("edge", [(3, 4)])
        with connect(p) as third:
            assert third.plan is one.plan
            assert (one.rows("path"), other.rows("path"), third.rows("path")) == (
                [(1, 2)], [(3, 4), (4, 3)], [],
            )  # fmt: skip
