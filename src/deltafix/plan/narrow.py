"""Arithmetic on words of 32 bits, in terms of that on 64: `.pragma "word-size" "32"`.

What a functor or an aggregate gives is cut to 32 bits, with its sign for numbers; shifts count
modulo 32, and an unsigned shift sees 32 bits; a text or a float that no 32 bits hold has no value
as a whole number; `as` between those and floats reads the bits of a float of single precision.
Invariant: values that fit 32 bits are not touched by the cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from deltafix.facts.values import RANGES, BaseType
from deltafix.plan.clause import Apply, Argument, Code, Compare, Literal, Match, Slot

if TYPE_CHECKING:
    from deltafix.plan.flatten import Flattening

NARROW: Final = 32
_MASK: Final = (1 << 32) - 1
_SHIFTS: Final = ("bshl", "bshr", "bshru")
_WHOLE: Final = ("min", "max", "ord", "range")
"""Functors that give one of their arguments, or no arithmetic result."""

_HALF: Final = (Code(NARROW, "number"),)
_CUTS: Final = {("bshr", _HALF): ("bshl", _HALF), ("band", (Code(_MASK, "unsigned"),)): None}
"""By functor and second argument of a cut's last literal, those of the one before it."""

_READ: Final = ("to_number", "to_unsigned")
KINDS: Final[tuple[BaseType, ...]] = ("number", "unsigned")
_BOUNDS: Final = {
    (op, Code(bound, kind))
    for kind in KINDS
    for op, bound in zip((">=", "<="), RANGES[NARROW][kind], strict=True)
}
"""How what `_READ` gives is bounded."""


def narrow_call(outer: Flattening, call: Apply, kind: BaseType) -> Iterator[Literal]:
    """A call with a result of type `kind`, as words of 32 bits have it."""
    target, functor = call.target, call.functor
    of = call.types[0] if call.types else kind
    if functor == "as" and of != kind and "float" in (of, kind):
        yield Apply(target, "as32", call.args, call.types, kind)
        return
    if kind not in RANGES[NARROW]:
        yield call
        return
    if functor in _READ and of in ("symbol", "float"):
        least, most = RANGES[NARROW][kind]
        yield call
        yield Compare(">=", kind, target, Code(least, kind))
        yield Compare("<=", kind, target, Code(most, kind))
        return
    given = list(call.args)
    if functor in _SHIFTS:
        given[1] = count = outer.fresh(kind)
        yield _apply(count, "band", call.args[1], Code(NARROW - 1, kind), kind)
    if functor == "bshru":
        given[0] = low = outer.fresh(kind)
        yield _apply(low, "band", call.args[0], Code(_MASK, kind), kind)
    if functor in _WHOLE or functor[0] in "@[$":
        yield call
        return
    whole = outer.fresh(kind)
    yield Apply(whole, functor, tuple(given), call.types, kind)
    yield from cut(outer, target, whole, kind)


def cut(outer: Flattening, target: Slot, whole: Slot, kind: BaseType) -> Iterator[Literal]:
    """`target` as the last 32 bits of `whole`, of type number or unsigned."""
    if kind == "unsigned":
        yield _apply(target, "band", whole, Code(_MASK, kind), kind)
        return
    high = outer.fresh(kind)
    yield _apply(high, "bshl", whole, Code(NARROW, kind), kind)
    yield _apply(target, "bshr", high, Code(NARROW, kind), kind)


def cut_value(value: int, kind: BaseType) -> int:
    """What `cut` makes of a value of type number or unsigned."""
    least, _ = RANGES[NARROW][kind]
    return ((value - least) & _MASK) + least


def cut_reads(body: Iterable[Literal]) -> dict[Literal, Apply | Match | None]:
    """How the literals of cuts read: the last as what is cut, with its value; the others not.

    What is cut is a call, or the row of an aggregate. The bounds of what `to_number` gives are not
    read either.
    """
    calls: dict[Argument, Apply] = {}
    folded: dict[Argument | None, Match] = {}
    read: dict[Literal, Apply | Match | None] = {}
    for part in body:
        if isinstance(part, Apply):
            calls[part.target] = part
        elif isinstance(part, Match):
            folded[part.args[-1] if part.args else None] = part
        elif isinstance(part, Compare) and (part.op, part.right) in _BOUNDS:
            call = calls.get(part.left)
            if call is not None and call.functor in _READ:
                read[part] = None
    for last in calls.values():
        cut_by = last.functor, last.args[1:]
        if cut_by not in _CUTS:
            continue
        steps, value = [], last.args[0]
        if (before := _CUTS[cut_by]) is not None:
            step = calls.get(value)
            if step is None or before != (step.functor, step.args[1:]):
                continue
            steps, value = [step], step.args[0]
        if not (isinstance(value, Slot) and value.name.startswith("$")):
            continue
        whole = calls.get(value) or folded.get(value)
        if whole is not None:
            read.update(dict.fromkeys((*steps, whole)))
            if isinstance(whole, Apply):
                read[last] = replace(whole, target=last.target)
            else:
                read[last] = replace(whole, args=(*whole.args[:-1], last.target))
    return read


def _apply(target: Slot, functor: str, left: Argument, right: Argument, kind: BaseType) -> Apply:
    return Apply(target, functor, (left, right), (kind, kind), kind)
