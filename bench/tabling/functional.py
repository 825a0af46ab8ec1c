"""Experiment 4: an interpreter for a small pure functional language, inputs changed.

The interpreter is four tabled clauses per construct over expression terms; the program interpreted
sums a balanced tree of inputs, skipping negative ones. Adaptive evaluation (Acar, Blelloch, Harper)
would evaluate anew what reads the changed input: the calls on one path of the tree. `adaptive`
counts them by evaluating on its own, with the same sharing of equal calls.
"""

from __future__ import annotations

from random import Random

from bench.tabling.measure import Edit, Experiment

__all__ = ["PROGRAM", "adaptive", "experiment"]

PROGRAM = """
:- table eval/3, test/3, apply/3.
:- dynamic input/2, function/2.
eval(num(N), _, N).
eval(param(0), [V|_], V).
eval(param(1), [_, V|_], V).
eval(in(E), Env, V) :- eval(E, Env, I), input(I, V).
eval(add(A, B), Env, V) :- eval(A, Env, X), eval(B, Env, Y), V is X + Y.
eval(half(A, B), Env, V) :- eval(A, Env, X), eval(B, Env, Y), V is (X + Y) // 2.
eval(if(C, T, _), Env, V) :- test(C, Env, true), eval(T, Env, V).
eval(if(C, _, E), Env, V) :- test(C, Env, false), eval(E, Env, V).
eval(call(F, A, B), Env, V) :- eval(A, Env, X), eval(B, Env, Y), apply(F, [X, Y], V).
test(equal(A, B), Env, true) :- eval(A, Env, X), eval(B, Env, Y), X =:= Y.
test(equal(A, B), Env, false) :- eval(A, Env, X), eval(B, Env, Y), X =\\= Y.
test(less(A, B), Env, true) :- eval(A, Env, X), eval(B, Env, Y), X < Y.
test(less(A, B), Env, false) :- eval(A, Env, X), eval(B, Env, Y), X >= Y.
apply(F, Args, V) :- function(F, Body), eval(Body, Args, V).
function(sum, if(equal(param(0), param(1)),
    if(less(in(param(0)), num(0)), num(0), in(param(0))),
    add(call(sum, param(0), half(param(0), param(1))),
        call(sum, add(half(param(0), param(1)), num(1)), param(1))))).
"""


def experiment(inputs: int, edits: int, seed: int = 4) -> Experiment:
    """`inputs` numbers (a power of two), of which one at a time changes."""
    rng = Random(seed)
    values = [rng.randint(-50, 100) for _ in range(inputs)]
    facts = [("input", i, v) for i, v in enumerate(values)]
    script = []
    for at in rng.choices(range(inputs), k=edits):
        old = values[at]
        values[at] = rng.randint(-50, 100)
        if values[at] != old:
            script.append(Edit([("input", at, values[at])], [("input", at, old)]))
    goal = f"apply(sum, [0, {inputs - 1}], V)"
    return Experiment(
        "functional interpreter", f"{inputs} inputs", PROGRAM, list(facts), [goal], script
    )


def adaptive(experiment: Experiment) -> int:
    """Applications an adaptive evaluator would make anew over all edits.

    It re-evaluates an application iff a read below it returned another value; an application whose
    value stays as it was does not wake its caller.
    """
    values = {fact[1]: fact[2] for fact in experiment.facts}
    high = len(values) - 1
    count = 0
    for edit in experiment.edits:
        at, new = edit.insert[0][1], edit.insert[0][2]
        changed = max(values[at], 0) != max(new, 0)
        values[at] = new
        low, top, depth = 0, high, 1
        while low < top:
            middle = (low + top) // 2
            low, top = (low, middle) if at <= middle else (middle + 1, top)
            depth += 1
        count += depth if changed else 1
    return count
