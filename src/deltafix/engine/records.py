"""Constructed values by number: what a column of records holds in the kernel.

Records of one field that is none have no number: they are coded as the field is (`engine.codes`).

A value's number stands for its branch and the codes of its fields, so equal values have one number
and a list shares its tail with every list that ends in it. Invariant: `values[number]` is the value
and never changes; `nil` is 0. Nothing here recurses: values may be nested as deep as memory allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltafix.facts.values import Branch, Value, canonical


class Records:
    """The constructed values of a database."""

    def __init__(self) -> None:
        self.values: list[Value] = [None]
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, value: Value) -> int:
        """The number of a value that fits its type, entered if new. O(size)."""
        if not isinstance(value, tuple | Branch):
            return 0
        stack: list[tuple[Value, Iterator[Value], list[Value | _Part]]] = []
        stack.append((value, _fields(value), []))
        while True:
            whole, rest, parts = stack[-1]
            for field in rest:
                if isinstance(field, tuple | Branch):
                    stack.append((field, _fields(field), []))
                    break
                parts.append(canonical(field) if isinstance(field, float) else field)
            else:
                number = self._entered(whole.name if isinstance(whole, Branch) else "", parts)
                stack.pop()
                if not stack:
                    return number
                stack[-1][2].append(_Part(number))

    def to_json(self) -> list[list[Any]]:
        """The values in the order of their numbers, `nil` left out: branch, then fields.

        A constructed field is a list of its number, so no depth of values is a depth of lists.
        """
        return [
            [branch, *([p.number] if isinstance(p, _Part) else p[1] for p in parts)]
            for branch, *parts in self._numbers
        ]

    def restore(self, saved: list[list[Any]]) -> None:
        """Become what `to_json` gave. Raises LookupError, TypeError or ValueError."""
        self.values, self._numbers = [None], {}
        for branch, *fields in saved:
            parts = [_Part(f[0]) if isinstance(f, list) else f for f in fields]
            self._entered(branch, [canonical(p) if isinstance(p, float) else p for p in parts])

    def _entered(self, branch: str, parts: list[Value | _Part]) -> int:
        """The number of a value whose constructed fields have theirs."""
        # 1 and 1.0 are equal in Python, and not one value here.
        key = (branch, *(part if isinstance(part, _Part) else (type(part), part) for part in parts))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            fields = tuple(self.values[p.number] if isinstance(p, _Part) else p for p in parts)
            self.values.append(Branch(branch, fields) if branch else fields)
        return number


class _Part:
    """A field that has its number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Part) and other.number == self.number

    def __hash__(self) -> int:
        return hash(("record", self.number))


def _fields(value: tuple[Value, ...] | Branch) -> Iterator[Value]:
    return iter(value.fields if isinstance(value, Branch) else value)
