"""Signed multisets per key: the state of a collection, and what changes in it.

Two nouns. `Changes` maps a key to {value: count}, counts signed and never zero, keys never empty:
that is the only thing that runs along an edge of the graph. `State` is the same with positive
counts: what a collection holds. `State.apply(changes)` is Definition 10 of the Skip reduce paper,
with its side condition checked: only what is there can be removed.

Invariant: both are net. A `State` takes over whole tables lazily: keys of a loaded `Segment` are
turned into dictionaries when they first change.

A loaded table is held by several operators, which share its dictionary of keys: a holder notes one
byte a key that it has changed, and a key is there or in its own dictionary, never in both. Copying
the dictionary for each would take longer than sorting the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from deltafix.errors import MissingRowError

if TYPE_CHECKING:
    from deltafix.reactive.columns import Segment
    from deltafix.reactive.merge import Merge


Counts: TypeAlias = dict[Any, int]
Changes: TypeAlias = "dict[Any, Counts] | Segment | Merge"

_NONE: Mapping[Any, int] = {}

ABSENT: Any = object()
"""Stands for no value where None may be one."""


def add_change(changes: dict[Any, Counts], key: Any, value: Any, count: int) -> None:
    """Count `value` at `key` by `count` more, keeping the changes net."""
    counts = changes.get(key)
    if counts is None:
        changes[key] = {value: count}
        return
    total = counts.get(value, 0) + count
    if total:
        counts[value] = total
        return
    del counts[value]
    if not counts:
        del changes[key]


def summed(rows: Iterable[tuple[Any, Any, int]]) -> dict[Any, Counts]:
    """Rows (key, value, positive count) as key -> {value: count}."""
    sums: dict[Any, Counts] = {}
    for key, value, count in rows:
        counts = sums.setdefault(key, {})
        counts[value] = counts.get(value, 0) + count
    return sums


def negated(changes: Mapping[Any, Mapping[Any, int]]) -> dict[Any, Counts]:
    """The changes that undo these."""
    return {
        key: {value: -count for value, count in counts.items()} for key, counts in changes.items()
    }


class State:
    """key -> multiset of values, with O(1) updates per changed value."""

    __slots__ = ("_before", "_live", "_loaded", "_segment")

    def __init__(self) -> None:
        self._live: dict[Any, Counts] = {}
        self._segment: Segment | None = None
        self._loaded: Untouched | None = None
        self._before: tuple[dict[Any, Counts], Segment | None, Untouched | None] | None = None

    def at(self, key: Any) -> Mapping[Any, int]:
        """The counts at a key, empty if it has none. A view: do not keep it over an epoch."""
        counts = self._live.get(key)
        if counts is not None:
            return counts
        if self._segment is None or self._loaded is None:
            return _NONE
        code = self._loaded.get(key)
        return _NONE if code is None else self._segment.counts(code)

    def _thaw(self, key: Any) -> Counts | None:
        """The counts of a key that was not live, made live if they are in the loaded table."""
        if self._segment is None or self._loaded is None:
            return None
        code = self._loaded.take(key)
        if code is None:
            return None
        counts = self._live[key] = self._segment.counts(code)
        return counts

    def apply(self, changes: dict[Any, Counts]) -> None:
        """Apply net changes.

        Raises MissingRowError, with the state as before, if one removes what is not there.
        """
        live = self._live
        for key, change in changes.items():
            counts = live.get(key)
            if counts is None:
                counts = self._thaw(key)
                if counts is None:
                    counts = live[key] = {}
            for value, count in change.items():
                total = counts.get(value, 0) + count
                if total > 0:
                    counts[value] = total
                elif total == 0:
                    del counts[value]
                else:
                    held = counts.get(value, 0)
                    self._revert_up_to(changes, key, value)
                    raise MissingRowError(missing_message(key, value, held, -count))
            if not counts:
                del live[key]

    def replace(self, key: Any, gone: Any, come: Any) -> None:
        """As `apply`, of one value that leaves and another that comes; either may be `ABSENT`.

        Raises MissingRowError, and TypeError for what cannot be hashed, with the state as before.
        """
        counts = self._live.get(key)
        if counts is None:
            counts = self._thaw(key)
            if counts is None:
                if gone is not ABSENT:
                    raise MissingRowError(missing_message(key, gone, 0, 1))
                self._live[key] = {come: 1}
                return
        if gone is ABSENT:
            counts[come] = counts.get(come, 0) + 1
            return
        held = counts.get(gone)
        if held is None:
            raise MissingRowError(missing_message(key, gone, 0, 1))
        if come is not ABSENT:
            counts[come] = counts.get(come, 0) + 1
        if held > 1:
            counts[gone] = held - 1
        else:
            del counts[gone]
            if not counts:
                del self._live[key]

    def _revert_up_to(self, changes: dict[Any, Counts], last: Any, value: Any) -> None:
        """Undo what `apply` has done before it met `value` at key `last`."""
        undo: dict[Any, Counts] = {}
        for key, change in changes.items():
            done: Counts = {}
            for item, count in change.items():
                if key is last and item is value:
                    break
                done[item] = -count
            if done:
                undo[key] = done
            if key is last:
                break
        if not self._live[last]:
            del self._live[last]
        self.apply(undo)

    def adopt(self, segment: Segment) -> None:
        """Be what a table holds, in the place of everything held; `settle` or `disown` follows."""
        self._before = (self._live, self._segment, self._loaded)
        self._live, self._segment, self._loaded = {}, segment, Untouched(segment.codes)

    def settle(self) -> None:
        """The epoch stands: forget what was there before `adopt`."""
        self._before = None

    def disown(self) -> None:
        """Undo `adopt`."""
        if self._before is not None:
            self._live, self._segment, self._loaded = self._before
            self._before = None

    def parts(self) -> tuple[Segment | None, Untouched | None, dict[Any, Counts]]:
        """The table, those of its keys that are as they were loaded, and all other keys."""
        return self._segment, self._loaded, self._live

    def rows(self) -> Iterator[tuple[Any, Any, int]]:
        """(key, value, count) of everything held."""
        for key, counts in self._live.items():
            for value, count in counts.items():
                yield key, value, count
        if self._segment is not None and self._loaded is not None:
            for key, code in self._loaded.items():
                for value, count in self._segment.counts(code).items():
                    yield key, value, count

    def __len__(self) -> int:
        """How many keys hold a value."""
        return len(self._live) + (len(self._loaded) if self._loaded is not None else 0)

    def check_invariants(self) -> None:
        """Raise AssertionError if a count is not positive or a key is kept without values."""
        for key, counts in self._live.items():
            if not counts or any(count <= 0 for count in counts.values()):
                raise AssertionError(f"key {key!r} holds {counts}")
            if self._loaded is not None and self._loaded.get(key) is not None:
                raise AssertionError(f"key {key!r} is held twice")


def missing_message(key: Any, value: Any, held: int, wanted: int) -> str:
    """What MissingRowError says: `wanted` are taken away of `held`."""
    presence = "it is not there" if not held else f"it is there {held} time{'s' * (held > 1)}"
    times = "" if wanted - held == 1 and not held else f" {wanted} times"
    return f"cannot delete {value!r} at key {key!r}{times}: {presence}"


class Untouched:
    """key -> code in the loaded table, of the keys not taken yet. False when none is left."""

    __slots__ = ("_left", "codes", "taken")

    def __init__(self, codes: dict[Any, int]) -> None:
        self.codes = codes
        self.taken = bytearray(len(codes))
        """By code: 1 where the key is the holder's."""
        self._left = len(codes)

    def take(self, key: Any) -> int | None:
        """The code of a key, which is the holder's from now on; None if it is not here."""
        code = self.codes.get(key)
        if code is None or self.taken[code]:
            return None
        self.taken[code] = 1
        self._left -= 1
        return code

    def get(self, key: Any) -> int | None:
        """The code of a key that stays here; None if it is not here."""
        code = self.codes.get(key)
        return None if code is None or self.taken[code] else code

    def items(self) -> Iterator[tuple[Any, int]]:
        """(key, code) of all that are here."""
        if self._left:
            taken = self.taken
            for key, code in self.codes.items():
                if not taken[code]:
                    yield key, code

    def __len__(self) -> int:
        return self._left
