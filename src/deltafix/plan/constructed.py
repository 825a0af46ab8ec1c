"""Records and branches as functors: `[Pair]` makes one, `[Pair].0` reads its first field.

In an equation a constructor whose variables are known without it is a value to make; any other is
a pattern (`patterns` says which), and each of its fields is read from the value at hand. Reading
a field of `nil`, or of another branch, has no value, so the pattern does not hold. Invariant: a
pattern reads at least one field, or compares the whole value where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltafix.facts.values import BaseType
from deltafix.plan.clause import Apply, Code, Compare, Slot
from deltafix.rules.ast import Comparison, Formula
from deltafix.rules.infer import term_type
from deltafix.rules.scope import grounded_by, needed
from deltafix.rules.terms import Call, Const, Term, Var, Wildcard, constant
from deltafix.rules.walk import is_constructor

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

    from deltafix.plan.flatten import Flattening


def as_constant(term: Term) -> Term:
    """The term, or the constant it is: a constructor over constants."""
    if not is_constructor(term):
        return term
    try:
        return Const(constant(term))
    except ValueError:
        return term


def patterns(
    case: Sequence[Formula], total: Counter[str], shared: Iterable[str]
) -> dict[int, Term]:
    """The equations of a conjunction that take a value apart: by position, the constructor.

    Equations may ground each other, `x = [a, b], y = [a, b]`, so they are settled one by one: one
    whose variables are all known makes a value, and grounds what it is compared with; else the
    first one whose other side is known is a pattern. What the scope around has bound (`shared`)
    counts only where nothing else goes on. At most quadratic in the equations.
    """
    waiting: dict[int, tuple[tuple[Term, Term], ...]] = {}
    settled: list[Formula] = []
    for position, part in enumerate(case):
        sides = _constructors(part)
        if sides:
            waiting[position] = sides
        else:
            settled.append(part)
    taken: dict[int, Term] = {}
    given: frozenset[str] = frozenset()
    while waiting:
        step = _next(waiting, grounded_by(settled, total, given), total)
        if step is None:
            if given:  # no order gives every variable a value: not a checked program
                break
            given = frozenset(shared)
            continue
        position, pattern = step
        del waiting[position]
        settled.append(case[position])
        if pattern is not None:
            taken[position] = pattern
    return taken


def _constructors(part: Formula) -> tuple[tuple[Term, Term], ...]:
    """The sides of an equation that are constructors, each with the side across from it."""
    if not isinstance(part, Comparison) or part.op != "=":
        return ()
    left, right = as_constant(part.left), as_constant(part.right)
    return tuple((a, b) for a, b in ((left, right), (right, left)) if is_constructor(a))


def _next(
    waiting: Mapping[int, tuple[tuple[Term, Term], ...]],
    known: frozenset[str],
    total: Counter[str],
) -> tuple[int, Term | None] | None:
    """The equation to settle next, and its pattern; None for a value to make. None: no more."""
    for position, sides in waiting.items():
        if all(needed(side, total) <= known for side, _ in sides):
            return position, None
    for position, sides in waiting.items():
        for side, across in sides:
            if not needed(side, total) <= known and needed(across, total) <= known:
                return position, side
    return None


def field_types(outer: Flattening, term: Call) -> tuple[BaseType, ...]:
    """Base types of a constructor's fields."""
    schemas = outer.draft.schemas
    if term.functor.startswith("["):
        fields = schemas.constructed[term.functor[1:-1]][""]
    else:
        name = term.functor[1:]
        fields = schemas.constructed[schemas.branches[name]][name]
    return tuple(outer.program.base_type(kind) for _, kind in fields)


def unpack(outer: Flattening, value: Slot, pattern: Call) -> None:
    """Append the literals that hold where `value` was made by the pattern's constructor."""
    kinds = field_types(outer, pattern)
    whole = term_type(pattern, outer.types, outer.program)
    if not pattern.args:
        outer.body.append(Compare("=", whole, value, Code(constant(pattern), whole)))
    read = False
    for index, (arg, kind) in enumerate(zip(pattern.args, kinds, strict=True)):
        last = index == len(kinds) - 1
        if isinstance(arg, Wildcard) and (read or not last):
            continue
        read = True
        field = Slot(arg.name) if isinstance(arg, Var) else outer.fresh(kind)
        outer.types[field.name] = kind
        functor = f"{pattern.functor}.{index}"
        outer.body.append(Apply(field, functor, (value,), (whole,), kind, len(kinds)))
        _fit(outer, field, arg, kind)


def _fit(outer: Flattening, field: Slot, arg: Term, kind: BaseType) -> None:
    """A field that was read against what the pattern says of it."""
    arg = as_constant(arg)
    if isinstance(arg, Call) and is_constructor(arg):
        unpack(outer, field, arg)
    elif not isinstance(arg, (Var, Wildcard)):
        outer.body.append(Compare("=", kind, field, outer.argument(arg, kind)))


def has_wildcard(terms: Iterable[Term]) -> bool:
    """Whether `_` stands in one of the terms, also inside a record; an aggregate's are its own."""
    return any(
        isinstance(term, Wildcard)
        or (isinstance(term, Call) and is_constructor(term) and has_wildcard(term.args))
        for term in terms
    )
