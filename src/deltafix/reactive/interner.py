"""Numbers for values of any type, so that the kernel can compare them.

Invariant: a value that some row holds has one number, and no other value has it; a number is free
again when the last row that holds its value is gone, so an empty input keeps no memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Interner:
    """value <-> number, with rows counted as holders."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._values: list[Any] = []
        self._holders: list[int] = []
        self._free: list[int] = []

    def take(self, value: Any) -> int:
        """The number of a value, given out now if it has none. O(1)."""
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number] = value
            else:
                number = len(self._values)
                self._values.append(value)
                self._holders.append(0)
            self._numbers[value] = number
        return number

    def value(self, number: int) -> Any:
        """The value that has this number."""
        return self._values[number]

    def hold(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Count these rows of numbers as holders."""
        for row in rows:
            for number in row:
                self._holders[number] += 1

    def release(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Uncount these rows, and free what nobody holds any more."""
        for row in rows:
            for number in row:
                self._holders[number] -= 1
                if not self._holders[number]:
                    self._drop(number)

    def drop_unheld(self) -> None:
        """Free the numbers given out for rows that were taken back."""
        for number in list(self._numbers.values()):
            if not self._holders[number]:
                self._drop(number)

    def _drop(self, number: int) -> None:
        del self._numbers[self._values[number]]
        self._values[number] = None
        self._free.append(number)

    def __len__(self) -> int:
        return len(self._numbers)
