"""Arithmetic on words of 32 bits, in terms of that on 64: `.pragma "word-size" "32"`.

What a functor or an aggregate gives is cut to 32 bits, with its sign for numbers; shifts count
modulo 32, and an unsigned shift sees 32 bits; a text or a float that no 32 bits hold has no value
as a whole number; `as` between those and floats reads the bits of a float of single precision.
Invariant: values that fit 32 bits are not touched by the cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from deltafix.facts.values import RANGES, BaseType
from deltafix.plan.clause import Apply, Argument, Code, Compare, Literal, Slot

if TYPE_CHECKING:
    from deltafix.plan.flatten import Flattening

NARROW: Final = 32
_MASK: Final = (1 << 32) - 1
_SHIFTS: Final = ("bshl", "bshr", "bshru")
_WHOLE: Final = ("min", "max", "ord", "range")
"""Functors that give one of their arguments, or no arithmetic result."""

_Step: TypeAlias = tuple[str, tuple[Argument, ...]]
_HALF: Final = (Code(NARROW, "number"),)
_CUTS: Final[dict[_Step, tuple[_Step, ...]]] = {
    ("bshr", _HALF): (("bshl", _HALF), ("", ())),
    ("band", (Code(_MASK, "unsigned"),)): (("", ()),),
}
"""By the last literal of a cut, those before it (functor and second argument), last first."""


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
    if functor in ("to_number", "to_unsigned") and of in ("symbol", "float"):
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


def cut_calls(body: Iterable[Literal]) -> dict[Literal, Apply | None]:
    """How the literals of a cut read: the last as the call with the value cut, the others not."""
    calls = {call.target: call for call in body if isinstance(call, Apply)}
    read: dict[Literal, Apply | None] = {}
    for last in calls.values():
        steps = [last]
        for functor, other in _CUTS.get((last.functor, last.args[1:]), ()):
            value = steps[-1].args[0]
            step = calls.get(value) if isinstance(value, Slot) else None
            if step is None or (functor and (functor, other) != (step.functor, step.args[1:])):
                break
            steps.append(step)
        else:
            if len(steps) > 1 and steps[-1].target.name.startswith("$"):
                read.update(dict.fromkeys(steps[1:]))
                read[last] = replace(steps[-1], target=last.target)
    return read


def _apply(target: Slot, functor: str, left: Argument, right: Argument, kind: BaseType) -> Apply:
    return Apply(target, functor, (left, right), (kind, kind), kind)
