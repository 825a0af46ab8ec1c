"""Programs in the shape of the manual's pages on components, inlining and magic sets.

Written for this suite; each uses a construct the way the manual describes it, unchanged.
"""

from __future__ import annotations

import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.datalog.format import format_program
from deltafix.datalog.program import Program

PROGRAMS = {
    "a component is a namespace": (
        """
.comp Box {
    .type Weight = number
    .decl content(x: Weight)
    content(42).
}
.init blue = Box
.decl out(x: number)
out(x) :- blue.content(x).
""",
        "out",
        {(42,)},
    ),
    "types are bound when instantiated": (
        """
.comp Box<T> { .decl content(x: T) }
.init n = Box<number>
.init s = Box<symbol>
n.content(33).
s.content("thirty-three").
.decl out(x: number, y: symbol)
out(x, y) :- n.content(x), s.content(y).
""",
        "out",
        {(33, "thirty-three")},
    ),
    "bases are parametrised by parameters": (
        """
.comp A<K, V> { .decl k(x: K) .decl v(x: V) k(1). v("one"). }
.comp B<V> : A<number, V> { .decl w(x: V) w(x) :- v(x). }
.comp C : B<symbol> { w("two"). }
.init c = C
.decl out(x: symbol)
out(x) :- c.w(x).
""",
        "out",
        {("one",), ("two",)},
    ),
    "a parameter is a component whose relations are used": (
        """
.comp Even { .decl has(x: number) has(0). has(2). }
.comp Odd { .decl has(x: number) has(1). has(3). }
.comp Both<One, Other> {
    .init one = One
    .init other = Other
    .decl sum(x: number)
    sum(x + y) :- one.has(x), other.has(y).
}
.init b = Both<Even, Odd>
.decl out(x: number)
out(x) :- b.sum(x).
""",
        "out",
        {(1,), (3,), (5,)},
    ),
    "a nested component sees what is around it": (
        """
.comp Outer {
    .decl base(x: number)
    base(7).
    .comp Inner { .decl got(x: number) got(x) :- base(x). }
    .comp Twice : Inner { got(x + x) :- base(x). }
    .init i = Twice
}
.init o = Outer
.decl out(x: number)
out(x) :- o.i.got(x).
""",
        "out",
        {(7,), (14,)},
    ),
    "an override leaves out what was inherited": (
        """
.comp Graph {
    .decl edge(x: number, y: number)
    .decl next(x: number, y: number) overridable
    edge(1, 2). edge(2, 3).
    next(x, y) :- edge(x, y).
}
.comp Back : Graph { .override next next(x, y) :- edge(y, x). }
.init b = Back
.decl out(x: number, y: number)
out(x, y) :- b.next(x, y).
""",
        "out",
        {(2, 1), (3, 2)},
    ),
    "hints change nothing but the work": (
        """
.pragma "magic-transform" "*"
.decl query(x: number) no_magic
query(1).
.decl a(x: number, y: number) inline
a(x, y) :- b(x, z), b(z, y).
.decl b(x: number, y: number) no_inline brie
b(1, 2). b(2, 3). b(3, 4).
.decl out(y: number)
.output out
out(y) :- query(x), a(x, y).
""",
        "out",
        {(3,)},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_manuals_shape_runs_unchanged(name: str) -> None:
    text, relation, rows = PROGRAMS[name]
    program = Program.parse(text)
    assert evaluate(program, {})[relation] == rows
    assert Program.parse(format_program(text)) == program
    with deltafix.connect(program) as db:
        assert set(db.rows(relation)) == rows
