"""Change actions made from change actions: products, disjoint unions, maps, functions.

Invariant: a combinator keeps what its parts have. The result is complete if every part is, is
ordered if every part is, and keeps every law its parts keep. Single-value actions are in
`instances`; derivatives of projections, injections and evaluation are in `derivative`.

Source: Fixing incremental computation, sections 2.3.3 (products and sums) and 4.1 (pointwise).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from deltafix.changes.action import ChangeAction

__all__ = ["Tagged", "disjoint_union", "maps", "pointwise", "product"]

A = TypeVar("A")
B = TypeVar("B")
D = TypeVar("D")
E = TypeVar("E")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value of a disjoint union: which summand it comes from (0 or 1), and the value."""

    side: int
    value: Any


def _componentwise(
    tests: Sequence[Callable[[Any, Any], bool]],
) -> Callable[[tuple[Any, ...], tuple[Any, ...]], bool]:
    return lambda left, right: all(
        test(x, y) for test, x, y in zip(tests, left, right, strict=True)
    )


def _if_every(
    tests: Sequence[Callable[[Any, Any], bool] | None],
) -> Callable[[tuple[Any, ...], tuple[Any, ...]], bool] | None:
    """Componentwise test over tuples, or None if a component has none."""
    present = [test for test in tests if test is not None]
    return _componentwise(present) if len(present) == len(tests) else None


def product(
    *parts: ChangeAction[Any, Any],
) -> ChangeAction[tuple[Any, ...], tuple[Any, ...]]:
    """A₁ × … × Aₙ: tuples changed componentwise by tuples of changes of the same length."""
    minuses = [part.minus for part in parts if part.minus is not None]

    def minus(to: tuple[Any, ...], frm: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(m(x, y) for m, x, y in zip(minuses, to, frm, strict=True))

    def fits(tests: Sequence[Callable[[object], bool]]) -> Callable[[object], bool]:
        def test(value: object) -> bool:
            return (
                isinstance(value, tuple)
                and len(value) == len(tests)
                and all(t(v) for t, v in zip(tests, value, strict=True))
            )

        return test

    return ChangeAction(
        name=" × ".join(part.name for part in parts) or "unit",
        zero=tuple(part.zero for part in parts),
        combine=lambda d, e: tuple(
            part.combine(x, y) for part, x, y in zip(parts, d, e, strict=True)
        ),
        apply=lambda a, d: tuple(part.apply(x, y) for part, x, y in zip(parts, a, d, strict=True)),
        minus=minus if len(minuses) == len(parts) else None,
        leq=_if_every([part.leq for part in parts]),
        change_leq=_if_every([part.change_leq for part in parts]),
        equal=_componentwise([part.equal for part in parts]),
        equal_change=_componentwise([part.equal_change for part in parts]),
        is_value=fits([part.is_value for part in parts]),
        is_change=fits([part.is_change for part in parts]),
    )


def disjoint_union(
    left: ChangeAction[A, D], right: ChangeAction[B, E]
) -> ChangeAction[Tagged, tuple[D, E]]:
    """A + B: a value of one summand; a change carries one change for each and uses its own.

    Never complete (no change crosses over) unless a summand is empty, so it has no minus.
    """
    parts: tuple[ChangeAction[Any, Any], ChangeAction[Any, Any]] = (left, right)

    def equal(first: Tagged, second: Tagged) -> bool:
        return first.side == second.side and parts[first.side].equal(first.value, second.value)

    def is_value(value: object) -> bool:
        return (
            isinstance(value, Tagged)
            and value.side in (0, 1)
            and parts[value.side].is_value(value.value)
        )

    return ChangeAction(
        name=f"{left.name} + {right.name}",
        zero=(left.zero, right.zero),
        combine=lambda d, e: (left.combine(d[0], e[0]), right.combine(d[1], e[1])),
        apply=lambda a, d: Tagged(a.side, parts[a.side].apply(a.value, d[a.side])),
        equal=equal,
        equal_change=lambda d, e: left.equal_change(d[0], e[0]) and right.equal_change(d[1], e[1]),
        is_value=is_value,
        is_change=lambda d: (
            isinstance(d, tuple) and len(d) == 2 and left.is_change(d[0]) and right.is_change(d[1])
        ),
    )


def maps(inner: ChangeAction[A, D], default: A) -> ChangeAction[Mapping[K, A], Mapping[K, D]]:
    """Maps from keys to values of `inner`, changed key by key.

    A key that is absent from a map stands for `default`; one that is absent from a change stands
    for the zero change. Entries equal to those are dropped, so equal maps compare equal.
    Cost of `apply`: O(size of the map + size of the change).
    """

    def kept(entries: Iterable[tuple[K, A]]) -> Mapping[K, A]:
        return MappingProxyType({k: v for k, v in entries if not inner.equal(v, default)})

    def kept_changes(entries: Iterable[tuple[K, D]]) -> Mapping[K, D]:
        return MappingProxyType({k: d for k, d in entries if not inner.equal_change(d, inner.zero)})

    def apply(a: Mapping[K, A], change: Mapping[K, D]) -> Mapping[K, A]:
        out = dict(a)
        for key, d in change.items():
            out[key] = inner.apply(out.get(key, default), d)
        return kept(out.items())

    def combine(first: Mapping[K, D], then: Mapping[K, D]) -> Mapping[K, D]:
        out = dict(first)
        for key, d in then.items():
            out[key] = inner.combine(out.get(key, inner.zero), d)
        return kept_changes(out.items())

    def minus(to: Mapping[K, A], frm: Mapping[K, A]) -> Mapping[K, D]:
        keys = dict.fromkeys((*frm, *to))
        return kept_changes(
            (k, inner.difference(to.get(k, default), frm.get(k, default))) for k in keys
        )

    def everywhere(
        test: Callable[[Any, Any], bool], absent: Any
    ) -> Callable[[Mapping[K, Any], Mapping[K, Any]], bool]:
        return lambda left, right: all(
            test(left.get(k, absent), right.get(k, absent)) for k in left.keys() | right.keys()
        )

    def is_map(test: Callable[[object], bool]) -> Callable[[object], bool]:
        return lambda value: isinstance(value, Mapping) and all(map(test, value.values()))

    return ChangeAction(
        name=f"maps to {inner.name}",
        zero=MappingProxyType({}),
        combine=combine,
        apply=apply,
        minus=minus if inner.complete else None,
        leq=None if inner.leq is None else everywhere(inner.leq, default),
        change_leq=None if inner.change_leq is None else everywhere(inner.change_leq, inner.zero),
        equal=everywhere(inner.equal, default),
        equal_change=everywhere(inner.equal_change, inner.zero),
        is_value=is_map(inner.is_value),
        is_change=is_map(inner.is_change),
    )


def pointwise(
    target: ChangeAction[B, E], points: Sequence[A]
) -> ChangeAction[Callable[[A], B], Callable[[A], E]]:
    """Functions A -> B changed pointwise: `(f ⊕ δf)(x) = f(x) ⊕ δf(x)`.

    Well defined as an action on differentiable functions when `target` is complete (the source's
    first criterion); complete itself in that case.

    Args:
        target: The action on results.
        points: Where functions are compared; all of A if equality is to be exact.
    """

    def everywhere(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        return lambda f, g: all(test(f(x), g(x)) for x in points)

    def minus(to: Callable[[A], B], frm: Callable[[A], B]) -> Callable[[A], E]:
        return lambda x: target.difference(to(x), frm(x))

    return ChangeAction(
        name=f"functions to {target.name}",
        zero=lambda _: target.zero,
        combine=lambda d, e: lambda x: target.combine(d(x), e(x)),
        apply=lambda f, d: lambda x: target.apply(f(x), d(x)),
        minus=minus if target.complete else None,
        leq=None if target.leq is None else everywhere(target.leq),
        change_leq=None if target.change_leq is None else everywhere(target.change_leq),
        equal=everywhere(target.equal),
        equal_change=everywhere(target.equal_change),
        is_value=callable,
        is_change=callable,
    )
