"""Constructors run the other way: a known value gives its fields, known fields give their value.

`x = [R](v)` and `v = [R].0(x)` say the same of a record of one field, so whichever of `x` and `v`
is known first gives the other, and what reads that is looked up instead of scanned. Invariant: a
call binds what the literal would let through, and nothing is left out: the literal tests what it
bound. So whoever evaluates the clause in another order finds its functors asked for already.
Which literals can run as they stand is `plan.order`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from deltafix.plan.clause import Apply, Literal, Slot


def turned(literal: Literal, others: Iterable[Literal], known: Set[Slot]) -> tuple[Apply, ...]:
    """Calls that bind what a literal waits for; none: nothing does yet.

    `others` are the literals that wait beside it: a value is made once all its fields are known,
    and each of those is read by a literal of its own.
    """
    if not isinstance(literal, Apply) or literal.functor[0] not in "[$":
        return ()
    return _made(literal, others, known) if literal.fields else _read(literal, known)


def _read(literal: Apply, known: Set[Slot]) -> tuple[Apply, ...]:
    """The fields of a value that is known."""
    if literal.target not in known:
        return ()
    width, name = len(literal.args), literal.functor
    places = {arg: n for n, arg in enumerate(literal.args) if isinstance(arg, Slot)}
    return tuple(
        Apply(slot, f"{name}.{n}", (literal.target,), ("record",), literal.types[n], width)
        for slot, n in places.items()
        if slot not in known
    )


def _made(literal: Apply, others: Iterable[Literal], known: Set[Slot]) -> tuple[Apply, ...]:
    """The value whose fields are all known."""
    (source,) = literal.args
    if not isinstance(source, Slot) or source in known:
        return ()
    fields = {
        other.functor: other
        for other in others
        if isinstance(other, Apply) and other.args == (source,) and other.target in known
    }
    name, _, _ = literal.functor.rpartition(".")
    found = [fields.get(f"{name}.{n}") for n in range(literal.fields)]
    read = [one for one in found if one is not None]
    if len(read) < len(found):
        return ()
    kinds = tuple(one.result for one in read)
    return (Apply(source, name, tuple(one.target for one in read), kinds, "record"),)
