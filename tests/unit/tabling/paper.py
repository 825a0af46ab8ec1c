"""The paper's programs with its names for their parts, shared by the golden tests."""

from textwrap import dedent

from deltafix.tabling import Tables, Trace
from deltafix.tabling.table import LEVEL, rank_of
from deltafix.tabling.trace import answer_term
from deltafix.tabling.writer import show

FIGURE_1 = """
:- table r/2.
r(X, Y) :- e(X, Y).
r(X, Y) :- e(X, Z), r(Z, Y).
e(1, 2). e(2, 3). e(3, 4). e(4, 3).
"""

FIGURE_2 = """
:- table r/2.
:- dynamic d/2.
r(X, Y) :- e(X, Y).
r(X, Y) :- r(X, Z), e(Z, Y).
r(X, Y) :- d(X, Z), r(Z, Y).
e(1, 2). e(1, 3). e(2, 3). e(3, 4). e(2, 4). e(2, 5). e(4, 2).
"""

# The paper names c1 to c7, s1 to s7, a1 to a4 and f1 to f10; c7 is the goal over d/2.
FIGURE_2_NAMES = {
    "r(1, A)": "p1",
    "<r(1, A), r(1, A), e(1, A), []>": "c1",
    "<r(1, A), r(1, A), r(1, B), [e(B, A)]>": "c2",
    "<r(1, A), r(1, A), e(2, A), []>": "c3",
    "<r(1, A), r(1, A), e(3, A), []>": "c4",
    "<r(1, A), r(1, A), e(4, A), []>": "c5",
    "<r(1, A), r(1, A), e(5, A), []>": "c6",
    "<r(1, A), r(1, A), d(1, B), [r(B, A)]>": "c7",
    "<r(1, A), r(1, A), r(1, A), []>": "c8",
    "r(1, 2)": "a1",
    "r(1, 3)": "a2",
    "r(1, 4)": "a3",
    "r(1, 5)": "a4",
    "e(1, 2)": "f1",
    "e(1, 3)": "f2",
    "e(2, 3)": "f3",
    "e(3, 4)": "f4",
    "e(2, 4)": "f5",
    "e(2, 5)": "f6",
    "e(4, 2)": "f7",
    "e(1, 5)": "f8",
    "e(2, 6)": "f9",
    "d(1, 1)": "f10",
}

FIGURE_6 = """
:- table r/2.
r(X, Y) :- e(X, Y).
r(X, Y) :- e(X, Z), r(Z, Y).
e(1, 3). e(2, 3). e(2, 4).
"""

FIGURE_6_NAMES = {
    "r(1, A)": "p2",
    "r(2, A)": "p3",
    "r(3, A)": "p4",
    "r(4, A)": "p5",
    "r(1, 3)": "a1",
    "r(2, 3)": "a2",
    "r(2, 4)": "a3",
    "e(1, 3)": "f1",
    "e(2, 3)": "f2",
    "e(2, 4)": "f3",
    "e(1, 2)": "f4",
    "e(4, 3)": "f5",
    "<r(1, A), r(1, A), e(1, A), []>": "c1",
    "<r(1, A), r(1, A), e(1, B), [r(B, A)]>": "c2",
    "<r(1, A), r(1, A), r(3, A), []>": "c3",
    "<r(2, A), r(2, A), e(2, A), []>": "c4",
    "<r(2, A), r(2, A), e(2, B), [r(B, A)]>": "c5",
    "<r(2, A), r(2, A), r(3, A), []>": "c6",
    "<r(2, A), r(2, A), r(4, A), []>": "c7",
    "<r(3, A), r(3, A), e(3, A), []>": "c8",
    "<r(3, A), r(3, A), e(3, B), [r(B, A)]>": "c9",
    "<r(4, A), r(4, A), e(4, A), []>": "c10",
    "<r(4, A), r(4, A), e(4, B), [r(B, A)]>": "c11",
}

FIGURE_7 = """
:- table r/2.
r(X, Y) :- e(X, Y).
r(X, Y) :- e(X, Z), r(Z, Y).
e(1, 2). e(2, 3).
"""

FIGURE_7_NAMES = {
    "r(1, A)": "p2",
    "r(2, A)": "p3",
    "r(3, A)": "p4",
    "r(1, 2)": "a1",
    "r(1, 3)": "a2",
    "r(2, 3)": "a3",
    "e(2, 1)": "f3",
    "<r(1, A), r(1, A), r(2, A), []>": "c3",
    "<r(2, A), r(2, A), e(2, A), []>": "c4",
    "<r(2, A), r(2, A), e(2, B), [r(B, A)]>": "c5",
    "<r(2, A), r(2, A), r(1, A), []>": "c9",
}


def traced(program: str, names: dict[str, str], *goals: str) -> tuple[Tables, Trace]:
    """A program with its goals asked, and a trace that starts after that."""
    trace = Trace(names)
    tables = Tables(program, trace=trace)
    for goal in goals:
        for _ in tables.query(goal):
            pass
    trace.lines.clear()
    return tables, trace


def answers(tables: Tables, goal: str) -> list[str]:
    """The sorted answers of a goal."""
    return sorted(map(str, tables.query(goal)))


def ordinal_of_support(tables: Tables, answer: str) -> int:
    """The ordinal of the first support of an answer of some call."""
    for generator in tables._forest.generators:
        for found in generator.answers.values():
            if show(answer_term(found)) == answer:
                return rank_of(next(iter(found.supports))) // LEVEL
    raise KeyError(answer)


def processed(trace: Trace) -> list[str]:
    """The events in the order they were processed, without ordinals."""
    return [line.split(" ord=")[0] for line in trace.lines if not line.startswith(" ")]


def block(text: str) -> list[str]:
    """The lines of an indented golden text."""
    return dedent(text).strip("\n").split("\n")
