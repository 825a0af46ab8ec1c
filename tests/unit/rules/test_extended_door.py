"""Constructed types, functors and merges of rows from Python: the same program as from text."""

# ruff: noqa: B015  `head <= body` is a statement here

from __future__ import annotations

import pytest

import deltafix
from deltafix.errors import FunctorError, ProgramError, TypeMismatchError
from deltafix.reactive import Sum
from deltafix.rules.dsl import call, min_of, unsigned

TEXT = """
.type Pair = [x: number, y: symbol]
.type Tree = Leaf {} | Node {l: Tree, r: Tree}
.functor twice(x: number): number
.functor both(a: number, b: number): number
.lattice number<> { Bottom -> 0, Lub -> @both(_, _) }
.decl e(x: number, p: Pair)
.decl t(x: Tree)
.decl same(x: number, y: number) eqrel
.decl one(x: number, y: number) choice-domain x, (x, y) index-on y
.decl dist(x: number, d: number <min>, u: number <max>)
.decl bits(x: number, b: number<>)
.decl best(x: number, y: number)
same(x, y) :- e(x, [y, "a"]).
one(x, @twice(x)) :- e(x, nil).
dist(x, y, y) :- e(x, [y, _]).
bits(x, x) :- e(x, _).
t(x) :- t($Node(x, $Leaf())).
best(x, s) :- e(x, _), s = @@twice y : { e(x, [y, _]) }.
best(x, a) <= best(x, b) :- b < a.
"""


def written() -> deltafix.Program:
    with deltafix.Program() as p:
        pair = p.record("Pair", x=int, y=str)
        p.union("Tree", Leaf={}, Node={"l": "Tree", "r": "Tree"})
        twice = p.functor("twice", x=int, returns=int)
        p.lattice("number", bottom=0, lub=p.functor("both", a=int, b=int, returns=int))
        e = p.relation("e", x=int, p=pair)
        t = p.relation("t", x="Tree")
        same = p.relation("same", x=int, y=int)
        one = p.relation("one", x=int, y=int)
        dist = p.relation("dist", x=int, d=deltafix.Min(int), u=deltafix.Max(int))
        bits = p.relation("bits", x=int, b=deltafix.Lattice("number"))
        best = p.relation("best", x=int, y=int)
        x, y, a, b, s = deltafix.vars("x y a b s")
        p.equivalence(same)
        p.choose(one, "x", ("x", "y"))
        p.index(one, "y")
        same(x, y) <= e(x, (y, "a"))
        one(x, twice(x)) <= e(x, None)
        dist(x, y, y) <= e(x, (y, ...))
        bits(x, x) <= e(x, ...)
        t(x) <= t(deltafix.branch("Node", x, deltafix.branch("Leaf")))
        best(x, s) <= e(x, ...) & (s == deltafix.reduce_of("twice", y, e(x, (y, ...))))
        p.subsume(best(x, a), best(x, b), b < a)
    return p


def test_both_doors_give_one_program() -> None:
    assert deltafix.Program.parse(TEXT) == written()
    assert deltafix.Program.parse(written().show()) == written()


def test_records_and_branches_go_in_and_come_out() -> None:
    text = ".type L = [h: number, t: L] .decl l(x: L) .decl s(x: L) s(t) :- l([_, t])."
    db = deltafix.connect(text)
    deep = None
    for number in range(50_000):
        deep = (number, deep)
    with db.transaction() as tx:
        tx.insert("l", [((1, (2, None)),), ((7, None),)])
    assert db.rows("s") == [((2, None),), (None,)]
    assert db.query("l([7, nil])") == [((7, None),)]
    assert tx.delta["s"].to_arrow().column(0).to_pylist() == ["[2, nil]", "nil"]
    with db.transaction() as tx:
        tx.insert("l", [(deep,)])
    assert db.count("s") == 3
    with pytest.raises(TypeMismatchError, match=r"L takes a tuple \(h: number, t: L\) or None"):
        db.transaction().insert("l", [((1, 2, 3),)])
    assert db.count("l") == 3


def test_functors_are_checked_when_bound_and_when_called() -> None:
    text = ".functor f(x: number): number .decl a(x: number) .decl b(x: number) b(@f(x)) :- a(x)."
    with pytest.raises(FunctorError, match="the program calls @f; pass it"):
        deltafix.connect(text)
    with pytest.raises(FunctorError, match="did you mean 'f'"):
        deltafix.connect(text, functors={"ff": abs})
    with pytest.raises(FunctorError, match="its function does not fit"):
        deltafix.connect(text, functors={"f": lambda x, y: x})
    db = deltafix.connect(text, functors={"f": lambda x: 10 // x if x else "none"})
    with db.transaction() as tx:
        tx.insert("a", [(5,)])
    with (
        pytest.raises(FunctorError, match=r"@f\(0\) gave 'none', but number takes"),
        db.transaction() as tx,
    ):
        tx.insert("a", [(0,), (2,)])
    assert (db.rows("a"), db.rows("b")) == ([(5,)], [(2,)])


SMALL = """
.pragma "word-size" "32"
.pragma "legacy"
.type Node <: number
.type Any = Node | number
.functor total(x: number): number
.decl n(x: Any, v: number)
.decl u(x: unsigned, y: number)
.decl least(x: number, v: number)
.decl folded(s: number)
.input n
.limitsize u(n=100)
u(as(x, unsigned), y) :- n(x, _), y = range(0, x).
least(x, m) :- m = min v : { n(x, v) }.
folded(s) :- s = @@total v : { n(_, v) }.
u(3u, 1).
"""


def test_what_text_says_in_small_words_python_says_too() -> None:
    with deltafix.Program() as p:
        p.pragma("word-size", "32")
        p.pragma("legacy")
        kind = p.type("Any", p.type("Node", int), int)
        p.functor("total", x=int, returns=int)
        n = p.relation("n", x=kind, v=int)
        u = p.relation("u", x="unsigned", y=int)
        least, folded = p.relation("least", x=int, v=int), p.relation("folded", s=int)
        x, y, v, m, s = deltafix.vars("x y v m s")
        p.input(n)
        p.limitsize(u, n=100)
        u(call("as", x, "unsigned"), y) <= n(x, ...) & (y == call("range", 0, x))
        least(x, m) <= (m == min_of(v, n(x, v)))
        folded(s) <= (s == deltafix.reduce_of("total", v, n(..., v)))
        u(unsigned(3), 1) <= True
    assert p == deltafix.Program.parse(SMALL)
    assert deltafix.Program.parse(p.show()) == p
    with deltafix.connect(p, reducers={"total": Sum()}) as db:
        with db.transaction() as tx:
            tx.insert("n", [(2, 7), (1, 9), (5, 7)])
        assert db.rows("least") == [(2, 7), (5, 7)]
        assert db.rows("u") == [(1, 0), (2, 0), (2, 1), (3, 1), *((5, y) for y in range(5))]
        assert db.rows("folded") == [(23,)]


def test_a_type_without_a_base_or_of_an_unknown_one_is_refused() -> None:
    with pytest.raises(ProgramError, match="needs a base type"), deltafix.Program() as p:
        p.type("T")
    with pytest.raises(ProgramError, match="did you mean 'number'"), deltafix.Program() as p:
        p.type("T", int, "numbr")
