"""Experiment 3: a tabled chart parser, left-recursive, under token edits.

Positions are names, not numbers: a token is an edge from one position to the next, so an edit in
the middle moves nothing. Statements of one line each make the work of an edit its line's.
"""

from __future__ import annotations

from random import Random
from typing import Any

from bench.tabling.measure import Edit, Experiment

__all__ = ["PROGRAM", "experiment"]

PROGRAM = """
:- table expr/2, term/2, factor/2, program/2.
:- dynamic token/3.
program(I, J) :- expr(I, K), token(K, ';', J).
program(I, J) :- program(I, K), expr(K, L), token(L, ';', J).
expr(I, J) :- term(I, J).
expr(I, J) :- expr(I, K), token(K, '+', L), term(L, J).
expr(I, J) :- expr(I, K), token(K, '-', L), term(L, J).
term(I, J) :- factor(I, J).
term(I, J) :- term(I, K), token(K, '*', L), factor(L, J).
factor(I, J) :- token(I, num, J).
factor(I, J) :- token(I, id, J).
factor(I, J) :- token(I, '(', K), expr(K, L), token(L, ')', J).
"""


def experiment(tokens: int, edits: int, seed: int = 3) -> Experiment:
    """About `tokens` tokens in statements of 5 to 25; operators replaced, operands inserted."""
    rng = Random(seed)
    kinds: list[str] = []
    while len(kinds) < tokens:
        kinds += _expression(rng, rng.randint(2, 8))
        kinds.append(";")
    facts: list[tuple[Any, ...]] = [("token", i, kind, i + 1) for i, kind in enumerate(kinds)]
    operators = [i for i, kind in enumerate(kinds) if kind in "+-*"]
    script: list[Edit] = []
    fresh = len(kinds) + 1
    for at in rng.choices(operators, k=edits):
        old = ("token", at, kinds[at], at + 1)
        if rng.random() < 0.5:
            new = [("token", at, rng.choice([k for k in "+-*" if k != kinds[at]]), at + 1)]
        else:
            new = [("token", at, "+", fresh), ("token", fresh, "id", fresh + 1)]
            new.append(("token", fresh + 1, kinds[at], at + 1))
            fresh += 2
        script += [Edit(list(new), [old]), Edit([old], list(new))]
    size = f"{len(kinds)} tokens"
    return Experiment("parsing", size, PROGRAM, facts, ["program(0, J)"], script)


def _expression(rng: Random, operands: int) -> list[str]:
    out: list[str] = []
    for number in range(operands):
        if number:
            out.append(rng.choice("+-*"))
        if rng.random() < 0.15:
            out += ["(", rng.choice(("num", "id")), rng.choice("+-*"), "id", ")"]
        else:
            out.append(rng.choice(("num", "id")))
    return out
