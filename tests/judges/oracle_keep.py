"""What a relation keeps of the rows derived for it, as functions of sets of rows.

`before` is what it held after the last round. Only `choice` looks at it on its own: inside
recursion a row that was chosen stays chosen.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.judges.oracle_values import order

__all__ = ["choice", "equivalence", "lattice"]


def equivalence(rows: set) -> set:
    """The least equivalence relation, on the values that occur, that contains the pairs."""
    home: dict[object, set] = {}
    for left, right in rows:
        both = home.setdefault(left, {left}) | home.setdefault(right, {right})
        for value in both:
            home[value] = both
    return {(a, b) for a, group in home.items() for b in group}


def choice(before: set, derived: set, keys: list[tuple[int, ...]]) -> set:
    """What was there, then of the new rows the least of each value of a key, key after key.

    Without recursion there is nothing before. Within it this is one of many choices.
    """
    rows = set(derived)
    if before:
        for key in keys:
            taken = {tuple(row[i] for i in key) for row in before}
            rows = {row for row in rows if tuple(row[i] for i in key) not in taken}
    for key in keys:
        least: dict[tuple, tuple] = {}
        for row in sorted(rows, key=lambda row: tuple(map(order, row))):
            least.setdefault(tuple(row[i] for i in key), row)
        rows = set(least.values())
    return before | rows


def lattice(rows: set, joins: dict[int, Callable], least: dict[int, tuple]) -> set:
    """One row per key, its other columns joined; rows with a bottom say nothing."""
    held: dict[tuple, dict[int, object]] = {}
    for row in rows:
        if any(least[i] and least[i][0] == row[i] for i in joins):
            continue
        key = tuple(value for i, value in enumerate(row) if i not in joins)
        values = held.setdefault(key, {i: row[i] for i in joins})
        for i, join in joins.items():
            values[i] = join(values[i], row[i])
    found = set()
    for key, values in held.items():
        rest = iter(key)
        arity = len(key) + len(joins)
        found.add(tuple(values[i] if i in joins else next(rest) for i in range(arity)))
    return found
