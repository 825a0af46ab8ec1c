"""Constructed values by number: what a column of records holds in the kernel.

A value's number stands for its branch and the codes of its fields, so equal values have one number
and a list shares its tail with every list that ends in it. Invariant: `values[number]` is the value
and never changes; `nil` is 0. Nothing here recurses: values may be nested as deep as memory allows.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltafix.facts.values import Branch, Value, canonical

__all__ = ["Records"]


class Records:
    """The constructed values of a database."""

    def __init__(self) -> None:
        self.values: list[Value] = [None]
        self._numbers: dict[tuple[object, ...], int] = {}

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
                number = self._entered(whole, parts)
                stack.pop()
                if not stack:
                    return number
                stack[-1][2].append(_Part(number))

    def _entered(self, value: Value, parts: list[Value | _Part]) -> int:
        """The number of a value whose constructed fields have theirs."""
        branch = value.name if isinstance(value, Branch) else ""
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
