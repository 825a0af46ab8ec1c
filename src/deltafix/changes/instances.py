"""Change actions over single values: numbers, booleans, words, multisets, and the two extremes.

What lives here are leaves; actions made from other actions (products, unions, maps, functions)
are in `combined`, sets in `sets`. Invariant: each constructor returns a `ChangeAction` that keeps
every law it has fields for; `tests/laws/test_laws_of_actions.py` asks them all.

Source: Fixing incremental computation, sections 2.1 (examples) and 3.2 (Boolean algebras).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from deltafix.changes.action import ChangeAction

__all__ = [
    "BooleanChange",
    "boolean_algebra",
    "booleans",
    "empty_action",
    "full_action",
    "integers",
    "join_action",
    "meet_action",
    "multiset",
    "multisets",
    "naturals",
    "semiautomaton",
    "words",
]

A = TypeVar("A")
D = TypeVar("D")
L = TypeVar("L")
T = TypeVar("T", bound=Hashable)
BooleanChange: TypeAlias = tuple[bool, bool]
"""(turn on, turn off), never both."""


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def naturals() -> ChangeAction[int, int]:
    """(ℕ, ℕ, +): numbers that only grow. Not complete, so it has no minus operator."""
    return ChangeAction(
        name="naturals",
        zero=0,
        combine=operator.add,
        apply=operator.add,
        leq=operator.le,
        change_leq=operator.le,
        is_value=_is_natural,
        is_change=_is_natural,
    )


def integers() -> ChangeAction[int, int]:
    """(ℤ, ℤ, +): complete, with `b ⊖ a = b - a`; a group, so changes are unique."""
    return ChangeAction(
        name="integers",
        zero=0,
        combine=operator.add,
        apply=operator.add,
        minus=operator.sub,
        leq=operator.le,
        change_leq=operator.le,
        is_value=_is_integer,
        is_change=_is_integer,
    )


def boolean_algebra(
    name: str,
    *,
    bottom: L,
    join: Callable[[L, L], L],
    meet: Callable[[L, L], L],
    complement: Callable[[L], L],
) -> ChangeAction[L, tuple[L, L]]:
    """L⋈ over any Boolean algebra: changes are pairs (p, q) with `p ∧ q = ⊥`.

    `a ⊕ (p, q) = (a ∨ p) ∧ ¬q`; minus is the precise one, `(b ∧ ¬a, a ∧ ¬b)`.
    """

    def without(left: L, right: L) -> L:
        return meet(left, complement(right))

    def combine(first: tuple[L, L], then: tuple[L, L]) -> tuple[L, L]:
        (p, q), (r, s) = first, then
        return join(without(p, s), r), join(without(q, r), s)

    def leq(low: L, high: L) -> bool:
        return join(low, high) == high

    def is_change(change: object) -> bool:
        return isinstance(change, tuple) and len(change) == 2 and meet(*change) == bottom

    return ChangeAction(
        name=name,
        zero=(bottom, bottom),
        combine=combine,
        apply=lambda a, change: without(join(a, change[0]), change[1]),
        minus=lambda to, frm: (without(to, frm), without(frm, to)),
        leq=leq,
        change_leq=lambda low, high: leq(low[0], high[0]) and leq(high[1], low[1]),
        is_change=is_change,
    )


def booleans() -> ChangeAction[bool, BooleanChange]:
    """The two truth values under (turn on, turn off): three changes, complete."""
    return boolean_algebra(
        "booleans",
        bottom=False,
        join=operator.or_,
        meet=operator.and_,
        complement=operator.not_,
    )


def join_action(
    name: str, *, bottom: L, join: Callable[[L, L], L], leq: Callable[[L, L], bool]
) -> ChangeAction[L, L]:
    """(L, L, ∨): a join semilattice under growth alone. Not complete."""
    return ChangeAction(name=name, zero=bottom, combine=join, apply=join, leq=leq, change_leq=leq)


def meet_action(
    name: str, *, top: L, meet: Callable[[L, L], L], leq: Callable[[L, L], bool]
) -> ChangeAction[L, L]:
    """(L, L, ∧): a meet semilattice under shrinking alone. Not complete, not thin."""
    return ChangeAction(name=name, zero=top, combine=meet, apply=meet, leq=leq, change_leq=leq)


def words() -> ChangeAction[tuple[T, ...], tuple[T, ...]]:
    """(A*, A*, ++): finite words changed by appending words. Not complete."""

    def is_word(value: object) -> bool:
        return isinstance(value, tuple)

    return ChangeAction(
        name="words",
        zero=(),
        combine=operator.add,
        apply=operator.add,
        is_value=is_word,
        is_change=is_word,
    )


def multiset(counts: Mapping[T, int] | Iterable[T]) -> Mapping[T, int]:
    """A signed multiset: element -> non-zero count, read-only. An iterable counts occurrences."""
    out: dict[T, int] = {}
    pairs = counts.items() if isinstance(counts, Mapping) else ((x, 1) for x in counts)
    for element, count in pairs:
        total = out.get(element, 0) + count
        if total:
            out[element] = total
        else:
            out.pop(element, None)
    return MappingProxyType(out)


def multisets() -> ChangeAction[Mapping[T, int], Mapping[T, int]]:
    """Signed counts per element under addition: a group, hence complete.

    Values and changes are those of `multiset`: no stored zero, so equality is equality of counts.
    """

    def scaled_sum(left: Mapping[T, int], right: Mapping[T, int], sign: int) -> Mapping[T, int]:
        out = dict(left)
        for element, count in right.items():
            total = out.get(element, 0) + sign * count
            if total:
                out[element] = total
            else:
                out.pop(element, None)
        return MappingProxyType(out)

    def add(left: Mapping[T, int], right: Mapping[T, int]) -> Mapping[T, int]:
        return scaled_sum(left, right, 1)

    def leq(low: Mapping[T, int], high: Mapping[T, int]) -> bool:
        return all(low.get(x, 0) <= high.get(x, 0) for x in low.keys() | high.keys())

    def is_multiset(value: object) -> bool:
        return isinstance(value, Mapping) and all(_is_integer(n) and n for n in value.values())

    return ChangeAction(
        name="multisets",
        zero=multiset(()),
        combine=add,
        apply=add,
        minus=lambda to, frm: scaled_sum(to, frm, -1),
        leq=leq,
        change_leq=leq,
        is_value=is_multiset,
        is_change=is_multiset,
    )


def empty_action(*, zero: D, combine: Callable[[D, D], D]) -> ChangeAction[Any, D]:
    """The coarsest action on any set: a monoid of changes, none of which does anything."""
    return ChangeAction(name="empty action", zero=zero, combine=combine, apply=lambda a, _: a)


def full_action(
    points: Sequence[A],
) -> ChangeAction[A, Callable[[A], A]]:
    """The finest action on a set: every function is a change, applied by calling it.

    Args:
        points: The values on which two changes are compared; all of them, if the set is small.
    """

    def compose(first: Callable[[A], A], then: Callable[[A], A]) -> Callable[[A], A]:
        return lambda a: then(first(a))

    def same(left: Callable[[A], A], right: Callable[[A], A]) -> bool:
        return all(left(point) == right(point) for point in points)

    return ChangeAction(
        name="full action",
        zero=lambda a: a,
        combine=compose,
        apply=lambda a, change: change(a),
        minus=lambda to, frm: lambda a: to if a == frm else a,
        equal_change=same,
        is_change=callable,
    )


def semiautomaton(step: Callable[[A, T], A]) -> ChangeAction[A, tuple[T, ...]]:
    """States under input words: a free monoid of letters acting through `step`."""

    def run(state: A, letters: tuple[T, ...]) -> A:
        for letter in letters:
            state = step(state, letter)
        return state

    return ChangeAction(name="semiautomaton", zero=(), combine=operator.add, apply=run)
