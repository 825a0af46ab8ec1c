"""One worked program for each chapter of the manual, run unchanged and then edited.

Sees: a construct that is accepted and evaluates to other rows than the chapter promises, and one
that is right at first and wrong after rows come and go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.errors import BudgetError


class Chapter(NamedTuple):
    """A program, its given rows, and the rows that relations must then have."""

    text: str
    given: dict[str, set[tuple[Any, ...]]]
    rows: dict[str, set[tuple[Any, ...]]]
    functors: Mapping[str, Any] = MappingProxyType({})


CHAPTERS = {
    "reachability": Chapter(
        """
.decl line(from: symbol, to: symbol)
.input line
.decl reach(from: symbol, to: symbol)
.output reach
reach(x, y) :- line(x, y).
reach(x, z) :- line(x, y), reach(y, z).
""",
        {"line": {("Ulm", "Bonn"), ("Bonn", "Kiel"), ("Kiel", "Bonn")}},
        {
            "reach": {
                ("Ulm", "Bonn"),
                ("Ulm", "Kiel"),
                ("Bonn", "Kiel"),
                ("Bonn", "Bonn"),
                ("Kiel", "Bonn"),
                ("Kiel", "Kiel"),
            }
        },
    ),
    "same generation": Chapter(
        """
.type Person <: symbol
.decl parent(child: Person, parent: Person)
.input parent
.decl person(x: Person)
person(x) :- parent(x, _) ; parent(_, x).
.decl cousin(x: Person, y: Person)
.output cousin
cousin(x, x) :- person(x).
cousin(x, y) :- parent(x, a), cousin(a, b), parent(y, b).
.decl peers(x: Person, y: Person)
.output peers
peers(x, y) :- cousin(x, y), x < y.
""",
        {"parent": {("ann", "eve"), ("bob", "eve"), ("cat", "ann"), ("dan", "bob")}},
        {"peers": {("ann", "bob"), ("cat", "dan")}},
    ),
    "mutual recursion": Chapter(
        """
.decl next(x: number, y: number)
.input next
.decl even, odd(x: number)
.output even, odd
even(0).
odd(y) :- even(x), next(x, y).
even(y) :- odd(x), next(x, y).
""",
        {"next": {(0, 1), (1, 2), (2, 3), (3, 4)}},
        {"even": {(0,), (2,), (4,)}, "odd": {(1,), (3,)}},
    ),
    "negation": Chapter(
        """
.decl page(x: symbol)
.decl link(x: symbol, y: symbol)
.input page, link
.decl linked(x: symbol)
linked(y) :- link(_, y).
.decl orphan(x: symbol)
.output orphan
orphan(x) :- page(x), !linked(x).
""",
        {"page": {("home",), ("faq",), ("old",)}, "link": {("home", "faq"), ("old", "home")}},
        {"orphan": {("old",)}},
    ),
    "aggregates and their witnesses": Chapter(
        """
.decl offer(shop: symbol, item: symbol, cents: number)
.input offer
.decl items(item: symbol)
items(i) :- offer(_, i, _).
.decl cheapest(item: symbol, cents: number)
.output cheapest
cheapest(i, c) :- items(i), c = min p : { offer(_, i, p) }.
.decl dearest(shop: symbol, item: symbol, cents: number)
.output dearest
dearest(s, i, c) :- c = max p : { offer(s, i, p) }.
.decl figures(offers: number, total: number, mean: float)
.output figures
figures(n, t, m) :- n = count : { offer(_, _, _) }, t = sum p : { offer(_, _, p) },
    m = mean p : { offer(_, _, p) }.
""",
        {"offer": {("A", "tea", 300), ("B", "tea", 250), ("B", "jam", 400), ("C", "jam", 400)}},
        {
            "cheapest": {("tea", 250), ("jam", 400)},
            "dearest": {("B", "jam", 400), ("C", "jam", 400)},
            "figures": {(4, 1350, 337.5)},
        },
    ),
    "records as lists": Chapter(
        """
.type Path = [last: symbol, before: Path]
.decl step(x: symbol, y: symbol)
.input step
.decl walk(p: Path, length: number)
walk([x, nil], 1) :- step(x, _).
walk([y, p], n + 1) :- walk(p, n), p = [x, _], step(x, y), n < 3.
.decl three(x: symbol, y: symbol, z: symbol)
.output three
three(x, y, z) :- walk([z, [y, [x, nil]]], 3).
""",
        {"step": {("a", "b"), ("b", "c"), ("b", "d")}},
        {"three": {("a", "b", "c"), ("a", "b", "d")}},
    ),
    "expressions as an algebraic data type": Chapter(
        """
.type Expr = Num { n: number } | Add { l: Expr, r: Expr } | Neg { e: Expr } | Zero {}
.decl expr(e: Expr)
expr($Add($Num(2), $Neg($Num(5)))).
expr($Add($Zero(), $Num(1))).
expr(l), expr(r) :- expr($Add(l, r)).
expr(e) :- expr($Neg(e)).
.decl value(e: Expr, v: number)
value($Zero(), 0).
value(e, n) :- expr(e), e = $Num(n).
value(e, x + y) :- expr(e), e = $Add(l, r), value(l, x), value(r, y).
value(e, -x) :- expr(e), e = $Neg(i), value(i, x).
.decl sums(v: number)
.output sums
sums(v) :- value($Add(_, _), v).
""",
        {},
        {"sums": {(-3,), (1,)}},
    ),
    "components": Chapter(
        """
.comp Graph<Node> {
    .decl arc(x: Node, y: Node)
    .decl reach(x: Node, y: Node) overridable
    reach(x, y) :- arc(x, y).
    reach(x, z) :- reach(x, y), arc(y, z).
}
.comp Undirected<Node> : Graph<Node> { arc(y, x) :- arc(x, y). }
.comp Direct : Graph<symbol> { .override reach reach(x, y) :- arc(x, y). }
.init roads = Undirected<number>
.init flights = Direct
roads.arc(1, 2).
flights.arc("ULM", "KEL"). flights.arc("KEL", "BON").
.decl out(x: number, y: number)
.decl fly(x: symbol, y: symbol)
.output out, fly
out(x, y) :- roads.reach(x, y).
fly(x, y) :- flights.reach(x, y).
""",
        {},
        {
            "out": {(1, 1), (1, 2), (2, 1), (2, 2)},
            "fly": {("ULM", "KEL"), ("KEL", "BON")},
        },
    ),
    "shortest paths by subsumption": Chapter(
        """
.decl road(x: symbol, y: symbol, km: number)
.input road
.decl far(x: symbol, y: symbol, km: number)
.output far
far(x, y, d) :- road(x, y, d).
far(x, z, d + e) :- far(x, y, d), road(y, z, e).
far(x, y, more) <= far(x, y, less) :- less < more.
""",
        {"road": {("a", "b", 1), ("b", "c", 1), ("a", "c", 5), ("c", "b", 1)}},
        {
            "far": {
                ("a", "b", 1),
                ("a", "c", 2),
                ("b", "b", 2),
                ("b", "c", 1),
                ("c", "b", 1),
                ("c", "c", 2),
            }
        },
    ),
    "equivalences": Chapter(
        """
.decl assign(x: symbol, y: symbol)
.input assign
.decl alias(x: symbol, y: symbol) eqrel
.output alias
alias(x, y) :- assign(x, y).
""",
        {"assign": {("p", "q"), ("r", "q"), ("s", "t")}},
        {
            "alias": {(x, y) for x in "pqr" for y in "pqr"} | {(x, y) for x in "st" for y in "st"},
        },
    ),
    "user functors": Chapter(
        """
.functor gcd(x: number, y: number): number
.functor initial(s: symbol): symbol
.decl pair(x: number, y: number)
.decl name(s: symbol)
.input pair, name
.decl coprime(x: number, y: number)
.decl letter(s: symbol)
.output coprime, letter
coprime(x, y) :- pair(x, y), @gcd(x, y) = 1.
letter(@initial(s)) :- name(s).
""",
        {"pair": {(4, 9), (4, 6), (5, 7)}, "name": {("ada",), ("alan",), ("grace",)}},
        {"coprime": {(4, 9), (5, 7)}, "letter": {("a",), ("g",)}},
        {"gcd": math.gcd, "initial": lambda s: s[:1]},
    ),
    "pragma: words of 32 bits": Chapter(
        """
.pragma "word-size" "32"
.decl n(x: number)
.input n
.decl twice(x: number)
.output twice
twice(x + x) :- n(x).
""",
        {"n": {(3,), (2**31 - 1,)}},
        {"twice": {(6,), (-2,)}},
    ),
    "string functors": Chapter(
        """
.decl file(path: symbol)
.input file
.decl shown(s: symbol, length: number)
.output shown
shown(cat("<", substr(p, 0, 3), ">"), strlen(p)) :- file(p), match("[a-z]+[.]py", p).
.decl year(y: number)
.output year
year(to_number(substr(p, 4, 4))) :- file(p), contains("log-", p).
.decl label(s: symbol)
.output label
label(cat("n", to_string(y + 1))) :- year(y).
""",
        {"file": {("main.py",), ("log-2021",), ("Log.py",)}},
        {"shown": {("<mai>", 7)}, "year": {(2021,)}, "label": {("n2022",)}},
    ),
    "range": Chapter(
        """
.decl span(low: number, high: number)
.input span
.decl inside(x: number)
.decl down(x: number)
.output inside, down
inside(x) :- span(l, h), x = range(l, h).
down(x) :- span(l, h), x = range(h, l, -2).
""",
        {"span": {(1, 4), (3, 6)}},
        {"inside": {(1,), (2,), (3,), (4,), (5,)}, "down": {(4,), (2,), (6,)}},
    ),
    "a lattice": Chapter(
        """
.type Sign <: number
.functor join_sign(x: Sign, y: Sign): Sign
.lattice Sign<> { Bottom -> 0, Lub -> @join_sign(_, _) }
.decl set(v: symbol, s: Sign)
.decl copy(to: symbol, from: symbol)
.input set, copy
.decl sign(v: symbol, s: Sign<>)
.output sign
sign(v, s) :- set(v, s).
sign(v, s) :- copy(v, w), sign(w, s).
""",
        {
            "set": {("x", 1), ("y", 2), ("z", 1)},
            "copy": {("u", "x"), ("u", "y"), ("w", "u"), ("t", "z")},
        },
        {
            "sign": {("x", 1), ("y", 2), ("z", 1), ("u", 3), ("w", 3), ("t", 1)},
        },
        {"join_sign": lambda a, b: a | b},
    ),
}


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapters_program_has_its_rows_and_keeps_them_under_edits(name: str) -> None:
    chapter = CHAPTERS[name]
    with deltafix.connect(chapter.text, functors=chapter.functors) as db:
        with db.transaction() as tx:
            for relation, rows in chapter.given.items():
                tx.insert(relation, rows)
        for relation, rows in chapter.rows.items():
            assert set(db.rows(relation)) == rows
        for relation, rows in chapter.given.items():
            for row in sorted(rows):
                with db.transaction() as tx:
                    tx.delete(relation, [row])
                left = {**chapter.given, relation: rows - {row}}
                expected = evaluate(db.program, left, functors=chapter.functors)
                for shown in chapter.rows:
                    assert set(db.rows(shown)) == expected[shown]
                with db.transaction() as tx:
                    tx.insert(relation, [row])
        for relation, rows in chapter.rows.items():
            assert set(db.rows(relation)) == rows
        db.check_invariants()


SPANNING = """
.decl arc(x: symbol, y: symbol)
.input arc
.decl tree(parent: symbol, child: symbol) choice-domain child
.output tree
tree("root", y) :- arc("root", y).
tree(x, y) :- tree(_, x), arc(x, y), y != "root".
"""


def test_a_choice_domain_keeps_a_spanning_tree() -> None:
    arcs = {("root", "a"), ("root", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("d", "a")}
    with deltafix.connect(SPANNING) as db:
        with db.transaction() as tx:
            tx.insert("arc", arcs)
        for gone in sorted(arcs):
            with db.transaction() as tx:
                tx.delete("arc", [gone])
            tree, left = db.rows("tree"), arcs - {gone}
            reached, before = {"root"}, None
            while before != reached:
                before, reached = reached, reached | {y for x, y in left if x in reached}
            assert {child for _, child in tree} == reached - {"root"}
            assert len(tree) == len(reached) - 1
            assert set(tree) <= left
            with db.transaction() as tx:
                tx.insert("arc", [gone])


def test_limitsize_refuses_the_epoch_that_would_pass_it() -> None:
    text = ".decl n(x: number)\n.input n\n.decl m(x: number)\n.limitsize m(n=2)\n"
    text += "m(x) :- n(x).\nm(x) :- m(x), n(x).\n"
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("n", [(1,), (2,)])
        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.insert("n", [(3,)])
        assert db.rows("m") == [(1,), (2,)]
        assert db.rows("n") == [(1,), (2,)]
