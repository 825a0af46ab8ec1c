"""Making formulae smaller without changing what they mean.

One function, `simplify`: constants are folded, double negations dropped, conjunctions and
disjunctions flattened, their repeated parts dropped and contradictions found, quantifiers over
variables that do not occur removed. Invariant: same free tuples on every interpretation with a
non-empty universe (∃x.⊤ is ⊥ over an empty one). Parts keep the order they were written in.
"""

from __future__ import annotations

from deltafix.changes import formula as f


def simplify(formula: f.Formula) -> f.Formula:
    """An equivalent formula, usually smaller; O(size²) in the widest conjunction."""
    match formula:
        case f.And():
            return _junction(f.And, formula)
        case f.Or():
            return _junction(f.Or, formula)
        case f.Not(body):
            return _negation(simplify(body))
        case f.Exists(variable, body):
            inner = simplify(body)
            return f.Exists(variable, inner) if variable in f.free_variables(inner) else inner
        case f.Forall(variable, body):
            inner = simplify(body)
            return f.Forall(variable, inner) if variable in f.free_variables(inner) else inner
        case f.Aggregate() | f.Connected():
            return f.with_parts(formula, map(simplify, f.children(formula)))
        case f.Test(op, left, right) if left == right and (
            isinstance(left, str) or isinstance(right, f.Constant)
        ):
            return f.Truth(op in ("=", "<=", ">="))
        case f.Truth() | f.Relation() | f.Test():
            return formula
        case _:
            raise f.unknown(formula)


def _negation(body: f.Formula) -> f.Formula:
    match body:
        case f.Truth(value):
            return f.Truth(not value)
        case f.Not(inner):
            return inner
        case _:
            return f.Not(body)


def _parts(kind: type[f.And] | type[f.Or], formula: f.Formula) -> list[f.Formula]:
    if isinstance(formula, kind):
        return [*_parts(kind, formula.left), *_parts(kind, formula.right)]
    done = simplify(formula)
    return _parts_of_simple(kind, done)


def _parts_of_simple(kind: type[f.And] | type[f.Or], formula: f.Formula) -> list[f.Formula]:
    if isinstance(formula, kind):
        return [
            *_parts_of_simple(kind, formula.left),
            *_parts_of_simple(kind, formula.right),
        ]
    return [formula]


def _junction(kind: type[f.And] | type[f.Or], formula: f.Formula) -> f.Formula:
    """One rule for ∧ and, with ⊤ and ⊥ swapped, for ∨."""
    unit, absorbing = (f.TOP, f.BOTTOM) if kind is f.And else (f.BOTTOM, f.TOP)
    other = f.Or if kind is f.And else f.And
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
    return f.conjunction(*kept) if kind is f.And else f.disjunction(*kept)
