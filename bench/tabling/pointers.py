"""Experiment 2: Andersen's points-to analysis, flow-insensitive; constraints deleted and restored.

Here order cannot help (supports are many and acyclic ones easily found), so what is measured is
what keeping order costs: `local` against `deletes_first`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from bench.points_to import extract
from bench.tabling.measure import Edit, Experiment

__all__ = ["PROGRAM", "experiment"]

PROGRAM = """
:- table pt/2, assign/2, callee/2.
:- dynamic addr/2, copy/2, load/2, store/2, dcall/2, icall/2, actual/3, param/3, result/2, ret/2.
assign(P, Q) :- copy(P, Q).
callee(S, F) :- dcall(S, F).
callee(S, F) :- icall(S, V), pt(V, F).
assign(P, A) :- callee(S, F), actual(S, I, A), param(F, I, P).
assign(R, Q) :- callee(S, F), result(S, R), ret(F, Q).
pt(P, O) :- addr(P, O).
pt(P, O) :- assign(P, Q), pt(Q, O).
pt(P, O) :- load(P, Q), pt(Q, R), pt(R, O).
pt(R, O) :- store(P, Q), pt(P, R), pt(Q, O).
"""


def experiment(units: list[tuple[str, Path]], edits: int, seed: int = 2) -> Experiment:
    """`edits` random constraints (address-of, copy, load, store) deleted and restored."""
    rows, _, _ = extract(units)
    facts: list[tuple[Any, ...]] = []
    for relation, table in rows.items():
        name = "actual" if relation == "arg" else relation  # arg/3 is built into every Prolog
        facts += [(name, *(int(value) for value in row)) for row in table]
    facts = list(dict.fromkeys(facts))
    chosen = [fact for fact in facts if fact[0] in ("addr", "copy", "load", "store")]
    script: list[Edit] = []
    for fact in Random(seed).choices(chosen, k=edits):
        script += [Edit([], [fact]), Edit([fact], [])]
    return Experiment(
        "points-to", f"{len(facts)} constraints", PROGRAM, facts, ["pt(P, O)"], script
    )
