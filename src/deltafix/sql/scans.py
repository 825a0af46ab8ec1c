"""A pass over a whole table, column by column: what is asked of one column is asked once a value.

Invariant: what is found is what looking at row after row finds, in `logical_order`. Which rows a
pass is over is said elsewhere (`sql.reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from deltafix.facts.logical import logical_order
from deltafix.facts.ordered import OrderedRows, ordered
from deltafix.facts.values import Value
from deltafix.sql.text import exp
from deltafix.sql.types import Column, SqlValue, decode

Test: TypeAlias = tuple[tuple[int, ...], Callable[[Any], Any]]
"""The places of the columns that a condition reads, and what it is of a row."""


def passing(
    table: OrderedRows[Value], shape: Sequence[Column], tests: Sequence[Test]
) -> OrderedRows[Value]:
    """The rows of the engine for which each test is true.

    A test is asked of rows that those before it leave. O(rows); of a test on one column, a call for
    each of its values, else one for each row.
    """
    for read, test in tests:
        if len(read) == 1:
            fits = _by_value(table, shape, read[0], test)
        else:
            columns = [
                (_decoded(table, shape, place), table.places[place].tolist())
                if place in read
                else None
                for place in range(len(shape))
            ]
            fits = np.fromiter(
                (
                    test([None if one is None else one[0][one[1][n]] for one in columns]) is True
                    for n in range(table.count)
                ),
                np.bool_,
                table.count,
            )
        table = table.where(fits)
    return table


def _by_value(
    table: OrderedRows[Value], shape: Sequence[Column], place: int, test: Callable[[Any], Any]
) -> Any:
    fits = np.zeros(len(table.values[place]), dtype=np.bool_)
    row: list[SqlValue] = [None] * len(shape)
    for number, value in _decoded(table, shape, place).items():
        row[place] = value
        fits[number] = test(row) is True
    return fits[table.places[place]]


def _decoded(table: OrderedRows[Value], shape: Sequence[Column], place: int) -> dict[int, SqlValue]:
    """The values of a column that occur, by where they stand among those it has."""
    values, column = table.values[place], shape[place]
    used = np.unique(table.places[place]).tolist()
    return {number: decode(values[number], column) for number in used}


def shown(
    table: OrderedRows[Value], shape: Sequence[Column], places: Sequence[int]
) -> OrderedRows[SqlValue]:
    """Columns of rows of the engine as rows of SQL, in their order."""
    columns = {place: _ranked(table, shape, place) for place in dict.fromkeys(places)}
    chosen = [columns[place] for place in places]
    return ordered([values for values, _ in chosen], [own for _, own in chosen], table.count)


def _ranked(
    table: OrderedRows[Value], shape: Sequence[Column], place: int
) -> tuple[list[SqlValue], Any]:
    """The values of a column that occur, ascending, and where among them each row has its own."""
    found = _decoded(table, shape, place)
    used, values = [*found], [*found.values()]
    order = sorted(range(len(values)), key=_key(values))
    ranks = np.zeros(len(table.values[place]), dtype=np.int32)
    ranks[[used[number] for number in order]] = np.arange(len(order), dtype=np.int32)
    return [values[number] for number in order], ranks[table.places[place]]


def _key(values: list[SqlValue]) -> Callable[[int], Any]:
    """What the values are ordered by: themselves, where that is `logical_order`."""
    plain = not any(value is None or isinstance(value, float | tuple) for value in values)
    return values.__getitem__ if plain else lambda number: logical_order((values[number],))


def sorted_by(table: OrderedRows[SqlValue], place: int, node: exp.Ordered) -> OrderedRows[SqlValue]:
    """Rows of SQL by one of their columns; what is equal there stays as it was."""
    ranks = table.places[place].astype(np.int64)
    keys = -ranks if node.args.get("desc") else ranks
    values = table.values[place]
    if values and values[-1] is None:  # NULL is last in `logical_order`
        first = node.args.get("nulls_first")
        keys[ranks == len(values) - 1] = -len(values) if first else len(values)
    return table.where(np.argsort(keys, kind="stable"))
