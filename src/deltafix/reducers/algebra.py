"""Reducers from reducers: product, contramap, where, group_of, scaled, enriched.

Each combinator gives a well-formed reducer when its parts are, and a partial one when a part is:
by construction, as the law of the whole is the law of the parts. The type says which it is, so
`product(Sum(), Min())` is a `WellFormed` to mypy too.

    spend = enriched(product(Sum("amount"), Count()), lambda parts: parts[0] / parts[1])

Invariant: a combinator adds no state that additions alone determine differently from removals; a
None from a part («recompute») becomes None of the whole. User functions given here must be pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias, TypeVar, cast, overload

from deltafix.errors import ReducerError
from deltafix.reducers.reducer import Field, Partial, Reducer, WellFormed, getter

__all__ = ["contramap", "enriched", "group_of", "product", "scaled", "where"]

AnyReducer: TypeAlias = Reducer[Any, Any, Any]
AnyWellFormed: TypeAlias = WellFormed[Any, Any, Any]
AnyPartial: TypeAlias = Partial[Any, Any, Any]
Kind = TypeVar("Kind", AnyWellFormed, AnyPartial)


def _checked(what: str, *parts: object) -> None:
    for part in parts:
        if not isinstance(part, Reducer):
            raise ReducerError(f"{what} is made of reducers, not {part!r}")


class _Product(Reducer[Any, tuple[Any, ...], tuple[Any, ...]]):
    def __init__(self, parts: tuple[AnyReducer, ...]) -> None:
        self.parts = parts

    @property
    def initial(self) -> tuple[Any, ...]:
        return tuple(part.initial for part in self.parts)

    @property
    def name(self) -> str:
        return f"product({', '.join(part.name for part in self.parts)})"

    def add(self, acc: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        return tuple(part.add(own, value) for part, own in zip(self.parts, acc, strict=True))

    def remove(self, acc: tuple[Any, ...], value: Any) -> Any:
        return _all_or_none(
            [part.remove(own, value) for part, own in zip(self.parts, acc, strict=True)]
        )

    def apply(self, acc: tuple[Any, ...], changes: Mapping[Any, int]) -> Any:
        return _all_or_none(
            [part.apply(own, changes) for part, own in zip(self.parts, acc, strict=True)]
        )

    def finish(self, acc: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part.finish(own) for part, own in zip(self.parts, acc, strict=True))

    def same(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
        return all(
            part.same(mine, theirs)
            for part, mine, theirs in zip(self.parts, left, right, strict=True)
        )


def _all_or_none(accs: list[Any]) -> tuple[Any, ...] | None:
    return None if any(acc is None for acc in accs) else tuple(accs)


class _WellFormedProduct(_Product, WellFormed[Any, tuple[Any, ...], tuple[Any, ...]]):
    pass


class _PartialProduct(_Product, Partial[Any, tuple[Any, ...], tuple[Any, ...]]):
    pass


class _Over(Reducer[Any, Any, Any]):
    """One reducer, whose values or results are seen through functions."""

    def __init__(self, inner: AnyReducer, label: str) -> None:
        self.inner = inner
        self._label = label

    @property
    def initial(self) -> Any:
        return self.inner.initial

    @property
    def name(self) -> str:
        return self._label

    def finish(self, acc: Any) -> Any:
        return self.inner.finish(acc)

    def same(self, left: Any, right: Any) -> bool:
        return self.inner.same(left, right)


class _Weighted(_Over):
    """Passes each value on as `read(value)`, `weight(value)` times: contramap, where, scaled."""

    def __init__(
        self,
        inner: AnyReducer,
        label: str,
        read: Callable[[Any], Any] | None,
        weight: Callable[[Any], int],
    ) -> None:
        super().__init__(inner, label)
        self._read = read
        self._weight = weight

    def _times(self, value: Any) -> int:
        weight = self._weight(value)
        if isinstance(weight, int) and weight >= 0:
            return int(weight)
        raise ReducerError(
            f"{self._label}: the weight of {value!r} must be a whole number, 0 or more, "
            f"not {weight!r}"
        )

    def _inner_changes(self, value: Any, count: int) -> dict[Any, int]:
        times = self._times(value) * count
        return {value if self._read is None else self._read(value): times} if times else {}

    def add(self, acc: Any, value: Any) -> Any:
        return self.inner.apply(acc, self._inner_changes(value, 1))

    def remove(self, acc: Any, value: Any) -> Any:
        return self.inner.apply(acc, self._inner_changes(value, -1))

    def apply(self, acc: Any, changes: Mapping[Any, int]) -> Any:
        passed: dict[Any, int] = {}
        for value, count in changes.items():
            for item, times in self._inner_changes(value, count).items():
                total = passed.get(item, 0) + times
                if total:
                    passed[item] = total
                else:
                    del passed[item]
        return self.inner.apply(acc, passed) if passed else acc


class _WellFormedWeighted(_Weighted, WellFormed[Any, Any, Any]):
    pass


class _PartialWeighted(_Weighted, Partial[Any, Any, Any]):
    pass


class _Enriched(_Over):
    def __init__(self, inner: AnyReducer, label: str, finish: Callable[[Any], Any]) -> None:
        super().__init__(inner, label)
        self._then = finish

    def add(self, acc: Any, value: Any) -> Any:
        return self.inner.add(acc, value)

    def remove(self, acc: Any, value: Any) -> Any:
        return self.inner.remove(acc, value)

    def apply(self, acc: Any, changes: Mapping[Any, int]) -> Any:
        return self.inner.apply(acc, changes)

    def finish(self, acc: Any) -> Any:
        return self._then(self.inner.finish(acc))


class _WellFormedEnriched(_Enriched, WellFormed[Any, Any, Any]):
    pass


class _PartialEnriched(_Enriched, Partial[Any, Any, Any]):
    pass


_Groups: TypeAlias = dict[Any, tuple[int, Any]]


class _GroupOf(Reducer[Any, _Groups, tuple[tuple[Any, Any], ...]]):
    """State: group -> (how many values, accumulator); groups without values are left out."""

    def __init__(self, inner: AnyReducer, by: Field, label: str) -> None:
        self.inner = inner
        self._by = getter(by)
        self._label = label

    @property
    def initial(self) -> _Groups:
        return {}

    @property
    def name(self) -> str:
        return self._label

    def add(self, acc: _Groups, value: Any) -> Any:
        return self.apply(acc, {value: 1})

    def remove(self, acc: _Groups, value: Any) -> Any:
        return self.apply(acc, {value: -1})

    def apply(self, acc: _Groups, changes: Mapping[Any, int]) -> Any:
        parts: dict[Any, dict[Any, int]] = {}
        for value, count in changes.items():
            group = value if self._by is None else self._by(value)
            parts.setdefault(group, {})[value] = count
        groups = acc.copy()
        for group, part in parts.items():
            size, own = groups.get(group, (0, self.inner.initial))
            size += sum(part.values())
            if size < 0:
                raise KeyError(group)
            if size == 0:
                groups.pop(group, None)
                continue
            changed = self.inner.apply(own, part)
            if changed is None:
                return None
            groups[group] = (size, changed)
        return groups

    def finish(self, acc: _Groups) -> tuple[tuple[Any, Any], ...]:
        pairs = [(group, self.inner.finish(own)) for group, (_, own) in acc.items()]
        # Groups may not compare; their type and text then give an order that is the same each run.
        try:
            pairs.sort(key=lambda pair: pair[0])
        except TypeError:
            pairs.sort(key=lambda pair: (type(pair[0]).__name__, repr(pair[0])))
        return tuple(pairs)

    def same(self, left: _Groups, right: _Groups) -> bool:
        return left.keys() == right.keys() and all(
            size == right[group][0] and self.inner.same(own, right[group][1])
            for group, (size, own) in left.items()
        )


class _WellFormedGroupOf(_GroupOf, WellFormed[Any, _Groups, tuple[tuple[Any, Any], ...]]):
    pass


class _PartialGroupOf(_GroupOf, Partial[Any, _Groups, tuple[tuple[Any, Any], ...]]):
    pass


@overload
def product(*parts: AnyWellFormed) -> AnyWellFormed: ...  # type: ignore[overload-overlap]  # no partial
@overload
def product(*parts: AnyWellFormed | AnyPartial) -> AnyPartial: ...
def product(*parts: AnyReducer) -> AnyReducer:
    """Several reducers over the same values at once; the result is the tuple of their results."""
    _checked("a product", *parts)
    if not parts:
        raise ReducerError("a product needs at least one reducer")
    if any(isinstance(part, Partial) for part in parts):
        return _PartialProduct(parts)
    return _WellFormedProduct(parts)


def contramap(inner: Kind, read: Callable[[Any], Hashable]) -> Kind:
    """`inner` over `read(value)` instead of the value."""
    return _weighted("contramap", inner, read, _once)


def where(inner: Kind, test: Callable[[Any], bool]) -> Kind:
    """`inner` over the values for which `test(value)` is true.

    A key none of whose values pass keeps `inner`'s result over nothing; `Collection.filter` drops
    such keys instead.
    """
    return _weighted("where", inner, None, lambda value: bool(test(value)))


def scaled(inner: Kind, weight: Callable[[Any], int]) -> Kind:
    """`inner` with each value counted `weight(value)` times, a whole number from 0 up."""
    return _weighted("scaled", inner, None, weight)


def enriched(inner: Kind, finish: Callable[[Any], Any]) -> Kind:
    """`inner` with its result passed through `finish`: an algebraic aggregate (paper, 4.2)."""
    _checked("enriched", inner)
    label = f"enriched({inner.name})"
    class_ = _PartialEnriched if isinstance(inner, Partial) else _WellFormedEnriched
    return cast("Kind", class_(inner, label, finish))


def group_of(inner: Kind, by: Field) -> Kind:
    """`inner` per group within each key; the result is sorted `(group, result)` pairs.

    O(groups of the key) a change, for copying them; with many groups, make the group part of the
    key and use `Collection.group` instead.
    """
    _checked("group_of", inner)
    label = f"group_of({inner.name})"
    class_ = _PartialGroupOf if isinstance(inner, Partial) else _WellFormedGroupOf
    return cast("Kind", class_(inner, by, label))


def _once(_: Any) -> int:
    return 1


def _weighted(
    what: str,
    inner: Kind,
    read: Callable[[Any], Any] | None,
    weight: Callable[[Any], int],
) -> Kind:
    _checked(what, inner)
    label = f"{what}({inner.name})"
    class_ = _PartialWeighted if isinstance(inner, Partial) else _WellFormedWeighted
    return cast("Kind", class_(inner, label, read, weight))
