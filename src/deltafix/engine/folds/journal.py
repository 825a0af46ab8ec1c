"""A value per group that an epoch can take back.

Invariant: `now` is the working state; what a group held when the epoch began is noted before its
first change, so `undo` puts exactly that back.
"""

from __future__ import annotations

from collections.abc import KeysView
from typing import Generic, TypeVar

from deltafix.engine.folds.groups import Key

T = TypeVar("T")


class Journal(Generic[T]):
    """Group -> value; a group without a value is absent."""

    def __init__(self) -> None:
        self.now: dict[Key, T] = {}
        self._before: dict[Key, T | None] = {}

    @property
    def touched(self) -> KeysView[Key]:
        """The groups that were looked at or changed in the epoch."""
        return self._before.keys()

    def touch(self, key: Key) -> T | None:
        """The value of a group that may change next."""
        held = self.now.get(key)
        self._before.setdefault(key, held)
        return held

    def put(self, key: Key, value: T | None) -> None:
        """Give a group its value; None: it has none."""
        self.touch(key)
        if value is None:
            self.now.pop(key, None)
        else:
            self.now[key] = value

    def keep(self) -> None:
        """The epoch was committed."""
        self._before.clear()

    def undo(self) -> None:
        """The epoch was rolled back."""
        for key, old in self._before.items():
            if old is None:
                self.now.pop(key, None)
            else:
                self.now[key] = old
        self._before.clear()
