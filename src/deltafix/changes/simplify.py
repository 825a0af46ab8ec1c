"""Making formulae smaller without changing what they mean.

One function, `simplify`: constants are folded, double negations dropped, conjunctions and
disjunctions flattened, their repeated parts dropped and contradictions found, quantifiers over
variables that do not occur removed. Invariant: same free tuples on every interpretation with a
non-empty universe (∃x.⊤ is ⊥ over an empty one). Parts keep the order they were written in.
"""

from __future__ import annotations

from deltafix.changes.formula import (
    BOTTOM,
    TOP,
    Aggregate,
    And,
    Connected,
    Constant,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Relation,
    Test,
    Truth,
    children,
    conjunction,
    disjunction,
    free_variables,
    unknown,
    with_parts,
)


def simplify(formula: Formula) -> Formula:
    """An equivalent formula, usually smaller; O(size²) in the widest conjunction."""
    match formula:
        case And():
            return _junction(And, formula)
        case Or():
            return _junction(Or, formula)
        case Not(body):
            return _negation(simplify(body))
        case Exists(variable, body):
            inner = simplify(body)
            return Exists(variable, inner) if variable in free_variables(inner) else inner
        case Forall(variable, body):
            inner = simplify(body)
            return Forall(variable, inner) if variable in free_variables(inner) else inner
        case Aggregate() | Connected():
            return with_parts(formula, map(simplify, children(formula)))
        case Test(op, left, right) if left == right and (
            isinstance(left, str) or isinstance(right, Constant)
        ):
            return Truth(op in ("=", "<=", ">="))
        case Truth() | Relation() | Test():
            return formula
        case _:
            raise unknown(formula)


def _negation(body: Formula) -> Formula:
    match body:
        case Truth(value):
            return Truth(not value)
        case Not(inner):
            return inner
        case _:
            return Not(body)


def _parts(kind: type[And] | type[Or], formula: Formula) -> list[Formula]:
    if isinstance(formula, kind):
        return [*_parts(kind, formula.left), *_parts(kind, formula.right)]
    done = simplify(formula)
    return _parts_of_simple(kind, done)


def _parts_of_simple(kind: type[And] | type[Or], formula: Formula) -> list[Formula]:
    if isinstance(formula, kind):
        return [
            *_parts_of_simple(kind, formula.left),
            *_parts_of_simple(kind, formula.right),
        ]
    return [formula]


def _junction(kind: type[And] | type[Or], formula: Formula) -> Formula:
    """One rule for ∧ and, with ⊤ and ⊥ swapped, for ∨."""
    unit, absorbing = (TOP, BOTTOM) if kind is And else (BOTTOM, TOP)
    other = Or if kind is And else And
    kept = [part for part in dict.fromkeys(_parts(kind, formula)) if part != unit]
    present = set(kept)
    if absorbing in present or any(_negation(part) in present for part in kept):
        return absorbing
    # absorption: in `p ∧ (p ∨ q)` the second part says nothing new
    kept = [
        part
        for part in kept
        if not (
            isinstance(part, other)
            and any(inner in present for inner in _parts_of_simple(other, part))
        )
    ]
    return conjunction(*kept) if kind is And else disjunction(*kept)
