from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generators.strategies import random_program

from deltafix.datalog.format import format_program
from deltafix.datalog.lexer import tokenize
from deltafix.datalog.program import Program
from deltafix.datalog.source import Source
from deltafix.errors import ProgramError

MESSY = """
// header


.decl  edge( x:number ,y:number)  brie // edges
.input edge( IO = file , filename="a.csv" )
.decl path(x:number,y:number)/* block
   two lines */
#define  TWO(a,b)   path(a,b)
#ifdef X
garbage   here (
#endif
.rule   a.base path(x,y):-edge(x,y).
path(x , z):-path(x,y),edge(y,z),x*-1<3,z=y - -2 , n=count:{edge(_,x)}.
TWO(x,y) :- edge(x,y),   // first
   // second
   !edge( y , x ) , ( edge(x,_) ; edge(_,x) ).
.output path
"""

NEAT = """\
// header

.decl edge(x: number, y: number) brie  // edges
.input edge(IO=file, filename="a.csv")
.decl path(x: number, y: number)  /* block
   two lines */
#define  TWO(a,b)   path(a,b)
#ifdef X
garbage   here (
#endif
.rule a.base
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), x * -1 < 3, z = y - -2, n = count : { edge(_, x) }.
TWO(x, y) :-
    edge(x, y),  // first
    // second
    !edge(y, x),
    (edge(x, _) ; edge(_, x)).
.output path
"""


def comments(text: str) -> list[list[str]]:
    tokens = tokenize(Source(text), comments=True)[0]
    return [token.text.split() for token in tokens if token.kind == "comment"]


def test_layout_comments_and_preprocessor_lines() -> None:
    assert format_program(MESSY) == NEAT


def test_a_neat_text_stays_as_it_is() -> None:
    assert format_program(NEAT) == NEAT


def test_a_broken_program_is_not_rearranged() -> None:
    with pytest.raises(ProgramError):
        format_program(".decl a(x: number)\na(1)")


def test_a_long_rule_gets_a_line_per_literal() -> None:
    literals = [f"edge(x, {'y' * 20}{i})" for i in range(5)]
    text = format_program(
        ".decl edge(x: number, y: number) .decl a(x: number) a(x) :- " + ", ".join(literals) + "."
    )
    body = [f"    {line}," for line in literals[:-1]]
    assert text.split("\n")[2:-1] == ["a(x) :-", *body, f"    {literals[-1]}."]


def messed(text: str, rng: Random) -> str:
    """The same tokens with random space and comments between."""
    out = []
    for token in tokenize(Source(text))[0]:
        plain = rng.random() < 0.85
        spaces = (" ", "  ", "\n", "\n\n\n")
        notes = (
            " // c\n",
            "\n// own\n",
            " /* b */ ",
            " /*x*/\n",
            "\n/* m\n l */\n",
            " //\n\n//e\n",
        )
        out += [token.text, rng.choice(spaces if plain else notes)]
    return "".join(out)


@given(st.integers(0, 100_000))
@settings(max_examples=80, deadline=None)
def test_formatting_keeps_program_and_comments_and_is_idempotent(seed: int) -> None:
    rng = Random(seed)
    text = messed(random_program(rng, rng.randint(1, 5)).source or "", rng)
    neat = format_program(text)
    assert Program.parse(neat) == Program.parse(text)
    assert comments(neat) == comments(text)
    assert format_program(neat) == neat


def test_declarations_are_laid_out_as_the_documentation_writes_them() -> None:
    neat = (
        ".type P = [x: number, rest: P]\n"
        ".type T = Leaf {} | Node { left: T, x: number }\n"
        ".type E <: number\n"
        ".functor g(x: number, y: number): number\n"
        ".lattice number<> { Bottom -> 0, Lub -> @g(_, _) }\n"
        ".decl r(x: number, d: number <min>)\n"
        ".decl v(x: number, v: number<>)\n"
    )
    messy = neat.replace("x: number", "x :number").replace("<min>", "< min >")
    messy = messy.replace("number<>", "number <>").replace("{}", "{ }")
    assert format_program(neat) == format_program(messy) == neat
