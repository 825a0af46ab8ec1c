"""The laws of formulae and their derivatives, asked on one interpretation at a time.

Each predicate compares a symbolic answer with the naive evaluator's. Invariant: as in
`deltafix.changes.laws`, a predicate answers for one point and a false `Verdict` carries a sentence.
What is true on *every* interpretation is the business of `symbolic`.

Source: Fixing incremental computation, sections 4.2 and 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from deltafix.changes.counted import DeltaTerm
from deltafix.changes.evaluate import Interpretation, evaluate
from deltafix.changes.formula import Formula, conjunction
from deltafix.changes.formula_derivative import STANDARD, Rules, differentiate, next_of
from deltafix.changes.laws import HOLDS, Verdict, show
from deltafix.changes.sets import SetChange
from deltafix.changes.simplify import simplify
from deltafix.errors import ChangeError


def _change(
    formula: Formula, schema: Sequence[str], given: Interpretation, rules: Rules
) -> SetChange[tuple[Hashable, ...]]:
    halves = differentiate(formula, rules=rules)
    return SetChange(evaluate(halves.up, schema, given), evaluate(halves.down, schema, given))


def formula_derivative_law(
    formula: Formula, schema: Sequence[str], given: Interpretation, rules: Rules = STANDARD
) -> Verdict:
    """`⟦T⟧(R ⊕ δR) = ⟦T⟧(R) ⊕ (⟦↑T⟧, ⟦↓T⟧)`, and the two halves are disjoint."""
    now, after = evaluate(formula, schema, given), evaluate(next_of(formula), schema, given)
    try:
        change = _change(formula, schema, given, rules)
    except ChangeError as error:
        return Verdict(False, f"the derivative of {formula} is not a change: {error}")
    if change.apply(now) == after:
        return HOLDS
    return Verdict(
        False,
        f"{formula} holds of {show(now)} before and {show(after)} after, but its derivative "
        f"says {show(change)}",
    )


def precise_law(
    formula: Formula, schema: Sequence[str], given: Interpretation, rules: Rules
) -> Verdict:
    """`⟦↑T⟧` was absent and `⟦↓T⟧` was present, if the relations' changes are like that."""
    now = evaluate(formula, schema, given)
    change = _change(formula, schema, given, rules)
    if change.added.isdisjoint(now) and change.removed <= now:
        return HOLDS
    return Verdict(
        False, f"{formula} holds of {show(now)}, and its derivative says idly {show(change)}"
    )


def next_law(formula: Formula, schema: Sequence[str], given: Interpretation) -> Verdict:
    """`⟦X(T)⟧(R, δR) = ⟦T⟧(R ⊕ δR)`."""
    moved = Interpretation(
        given.universe,
        {
            name: given.changes[name].apply(rows) if name in given.changes else rows
            for name, rows in given.relations.items()
        },
    )
    left, right = evaluate(next_of(formula), schema, given), evaluate(formula, schema, moved)
    if left == right:
        return HOLDS
    return Verdict(False, f"X({formula}) is {show(left)}, its value after the change {show(right)}")


def simplify_law(formula: Formula, schema: Sequence[str], given: Interpretation) -> Verdict:
    """`⟦simplify(T)⟧ = ⟦T⟧`."""
    left = evaluate(simplify(formula), schema, given)
    right = evaluate(formula, schema, given)
    if left == right:
        return HOLDS
    return Verdict(
        False, f"{formula} is {show(right)}, but simplified to {simplify(formula)} {show(left)}"
    )


def counted_once(
    terms: Sequence[DeltaTerm],
    literals: Sequence[Formula],
    schema: Sequence[str],
    given: Interpretation,
) -> Verdict:
    """Over all terms, each derivation that comes or goes is counted once, and no other one.

    A derivation is a binding of the whole schema; the terms' additions count +1 and their
    removals -1. Asked of precise changes of the relations.
    """
    body = conjunction(*literals)
    before = evaluate(body, schema, given)
    after = evaluate(next_of(body), schema, given)
    counted: Counter[tuple[Hashable, ...]] = Counter()

    for term in terms:
        up, down = term.formulae(literals)
        for sign, rows in ((1, evaluate(up, schema, given)), (-1, evaluate(down, schema, given))):
            for row in rows:
                counted[row] += sign

    for row in after ^ before:
        if counted[row] != (1 if row in after else -1):
            return Verdict(
                False, f"the derivation {show(row)} of {body} is counted {counted[row]} times"
            )
    idle = [row for row, count in counted.items() if count and row not in after ^ before]
    if idle:
        return Verdict(False, f"the derivation {show(idle[0])} of {body} is counted idly")
    return HOLDS
