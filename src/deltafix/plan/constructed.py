"""Records and branches as functors: `[Pair]` makes one, `[Pair].0` reads its first field.

A constructor whose variables are known elsewhere is a value to make; any other is a pattern, and
each of its fields is read from the value at hand. Reading a field of `nil`, or of another branch,
has no value, so the pattern does not hold. Invariant: a pattern reads at least one field, or
compares the whole value where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltafix.plan.clause import Apply, Code, Compare, Slot
from deltafix.rules.ast import Comparison
from deltafix.rules.scope import grounded_by
from deltafix.rules.terms import BaseType, Call, Const, Term, Var, Wildcard, constant
from deltafix.rules.walk import is_constructor, occurrences, subterms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltafix.plan.flatten import Flattening

__all__ = ["as_constant", "field_types", "has_wildcard", "is_value", "unpack"]


def as_constant(term: Term) -> Term:
    """The term, or the constant it is: a constructor over constants."""
    if not is_constructor(term):
        return term
    try:
        return Const(constant(term), "record")
    except ValueError:
        return term


def is_value(outer: Flattening, term: Term, part: Comparison) -> bool:
    """Whether a constructor's variables are known without the equation it stands in."""
    if any(isinstance(inner, Wildcard) for inner in subterms(term)):
        return False
    rest = [other for other in outer.case if other is not part]
    return set(occurrences(term)) <= grounded_by(rest, occurrences(outer.whole))


def field_types(outer: Flattening, term: Call) -> tuple[BaseType, ...]:
    """Base types of a constructor's fields."""
    schemas = outer.made.schemas
    if term.functor.startswith("["):
        fields = schemas.constructed[term.functor[1:-1]][""]
    else:
        name = term.functor[1:]
        fields = schemas.constructed[schemas.branches[name]][name]
    return tuple(outer.program.base_type(kind) for _, kind in fields)


def unpack(outer: Flattening, value: Slot, pattern: Call) -> None:
    """Append the literals that hold where `value` was made by the pattern's constructor."""
    kinds = field_types(outer, pattern)
    if not pattern.args:
        outer.body.append(Compare("=", "record", value, Code(constant(pattern), "record")))
    read = False
    for place, (arg, kind) in enumerate(zip(pattern.args, kinds, strict=True)):
        last = place == len(kinds) - 1
        if isinstance(arg, Wildcard) and (read or not last):
            continue
        read = True
        field = Slot(arg.name) if isinstance(arg, Var) else outer.fresh(kind)
        outer.types[field.name] = kind
        functor = f"{pattern.functor}.{place}"
        outer.body.append(Apply(field, functor, (value,), ("record",), kind))
        _fit(outer, field, arg, kind)


def _fit(outer: Flattening, field: Slot, arg: Term, kind: BaseType) -> None:
    """A field that was read against what the pattern says of it."""
    arg = as_constant(arg)
    if isinstance(arg, Call) and is_constructor(arg):
        unpack(outer, field, arg)
    elif not isinstance(arg, Var | Wildcard):
        outer.body.append(Compare("=", kind, field, outer.argument(arg, kind)))


def has_wildcard(terms: Iterable[Term]) -> bool:
    """Whether `_` stands in one of the terms, also inside a record."""
    return any(isinstance(inner, Wildcard) for term in terms for inner in subterms(term))
