"""How rows sort: by columns, each one way or the other, with NULLs first or last.

One noun: a `Way` is how one column sorts. Invariant: `ranked` puts rows in the order that
`engine.folds.columns` finds in their codes. Values are the engine's: a NULL is None, and one that
may be NULL stands in a tuple of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from deltafix.facts.values import ABOVE
from deltafix.reducers.ordered import placed

__all__ = ["Way", "ranked"]


class _Descending:
    """A value that sorts the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]  # a part of a sort key, never a value


class _Below:
    """What NaN is where numbers descend, as their negatives: less than each of these."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __gt__(self, other: object) -> bool:
        return False


_BELOW: Final = _Below()


def _turned(value: Any) -> Any:
    """A value as it is placed where values descend; numbers need no call to be compared."""
    if type(value) in (int, float):
        return -value or 0
    return _BELOW if value is ABOVE else _Descending(value)


class Way(NamedTuple):
    """How a column sorts; as text a part of the name of a reducer that sorts so."""

    nullable: bool
    descending: bool = False
    nulls_first: bool = False
    is_plain: bool = False
    """Whether its values are ordered as they are."""

    @property
    def turned(self) -> Way:
        """The other way round."""
        return self._replace(descending=not self.descending, nulls_first=not self.nulls_first)

    def __str__(self) -> str:
        return f"{'ad'[self.descending]}{'lf'[self.nulls_first]}"


def ranked(ways: Sequence[Way]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The sort key of rows of the engine's values, which sort column by column."""
    if all(way.is_plain and not (way.nullable or way.descending) for way in ways):
        return tuple

    def key(row: Sequence[Any]) -> tuple[Any, ...]:
        parts: list[Any] = []
        for value, (nullable, descending, nulls_first, _) in zip(row, ways, strict=True):
            bare = value
            if nullable:
                parts.append((value is None) is not nulls_first)
                bare = 0 if value is None else value[0]
            kind = type(bare)
            if kind is not int and kind is not str:
                bare = placed(bare)
            parts.append(_turned(bare) if descending else bare)
        return tuple(parts)

    return key
