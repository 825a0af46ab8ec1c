"""A pass over many rows, column by column: what is asked of one column is asked once a value.

Rows are codes of the engine, and stay that: conditions choose among them, and what is computed of
them is codes again. Invariant: what is found is what looking at row after row finds. Which rows a
pass is over is said elsewhere (`sql.reading`); what numpy computes, `sql.vectors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np

from deltafix.engine.coded import CodedRows, Ints, Mask, numbered
from deltafix.engine.codes import Codes, occurring
from deltafix.facts.logical import logical_order
from deltafix.facts.ordered import OrderedRows, ordered
from deltafix.facts.values import OPTIONAL
from deltafix.kernel.arena import Words
from deltafix.kernel.values import NIL
from deltafix.sql.casts import assigned
from deltafix.sql.literals import Compute
from deltafix.sql.scalar import Scalars
from deltafix.sql.text import exp
from deltafix.sql.types import DOUBLE, Column, SqlValue, decode
from deltafix.sql.vectors import ByValueError, Numbers, as_kind, numbers, truth

__all__ = ["MANY", "Columns", "Test", "assign", "moved", "passing", "shown", "sorted_by", "stored"]

MANY = 256
"""Rows from which on they are looked at by column: of fewer, numpy's calls cost more."""

_OPTIONAL: Final = {field: kind for kind, field in OPTIONAL.items()}


@dataclass(frozen=True, slots=True)
class Test:
    """A condition: what it says, and what it is of a row."""

    scalars: Scalars
    node: exp.Expr
    compute: Compute

    @classmethod
    def of(cls, scalars: Scalars, node: exp.Expr) -> Test:
        """What a node says."""
        return cls(scalars, node, scalars.compile(node).compute)

    def fits(self, columns: Columns) -> Mask:
        """For which rows it is true. Raises what it does of one of them.

        O(rows), and where Python is asked, a call for each list of values of what it reads.
        """
        try:
            return truth(self.scalars, self.node, columns)
        except ByValueError:
            read = _read(self.scalars, self.node, columns)
            values, indexes = columns.by_value(read, self.compute)
            fits: Mask = np.array([value is True for value in values], np.bool_)[indexes]
            return fits


class Columns:
    """Columns of some rows, as codes.

    Attributes:
        shape: what SQL says of each.
        codes: of each, an array (rows,).
    """

    def __init__(self, shape: Sequence[Column], codes: Sequence[Words], tables: Codes) -> None:
        self.shape, self.codes, self.tables = shape, codes, tables

    @classmethod
    def of(cls, rows: CodedRows, shape: Sequence[Column]) -> Columns:
        """The first columns of some rows."""
        return cls(shape, [rows.codes[:, position] for position in range(len(shape))], rows.tables)

    def __len__(self) -> int:
        return len(self.codes[0])

    def where(self, chosen: Mask | Ints) -> Columns:
        """Of the rows under a mask, or at some places."""
        return Columns(self.shape, [codes[chosen] for codes in self.codes], self.tables)

    def null(self, position: int) -> Mask | None:
        """Which values of a column are NULL; None where it has none."""
        if not self.shape[position].nullable:
            return None
        is_null = self.codes[position] == NIL
        return is_null if is_null.any() else None

    def numbers(self, position: int) -> Numbers:
        """A column of numbers, 0 where it is NULL. Raises ByValueError for any other."""
        kind = self.shape[position].type
        if kind.base == "symbol":
            raise ByValueError
        null, codes = self.null(position), self.codes[position]
        values = self.tables.decode_numbers(kind.base, codes if null is None else codes * ~null)
        return Numbers(kind, values, null)

    def values(self, position: int) -> tuple[list[SqlValue], Words]:
        """The values of a column that occur, and where among them each row has its own."""
        column, (used, indexes) = self.shape[position], occurring(self.codes[position])
        kind = _OPTIONAL[column.type.base] if column.nullable else column.type.base
        return [decode(value, column) for value in self.tables.decode(kind, used)], indexes

    def by_value(self, read: Sequence[int], compute: Compute) -> tuple[list[Any], Ints]:
        """What a function is of the lists of values that occur in some columns, and as `values`.

        Raises what it raises, of one of the rows. O(rows); a call for each list.
        """
        row: list[SqlValue] = [None] * len(self.shape)
        columns = [self.values(position) for position in read]
        if not columns:
            return [compute(row)], np.zeros(len(self), np.int64)
        keys = columns[0][1].astype(np.int64)
        firsts = np.arange(len(columns[0][0]))
        if len(columns) > 1:
            stacked = np.stack([indexes for _, indexes in columns], axis=1).astype(np.int32)
            (keys,) = numbered(stacked)
            _, firsts, keys = np.unique(keys, return_index=True, return_inverse=True)
            picked = stacked[firsts].T.tolist()
        else:
            picked = [firsts.tolist()]
        computed = []
        for indexes in zip(*picked, strict=True):
            for position, (values, _), index in zip(read, columns, indexes, strict=True):
                row[position] = values[index]
            computed.append(compute(row))
        return computed, keys.reshape(len(self))


def passing(rows: CodedRows, shape: Sequence[Column], tests: Sequence[Test]) -> CodedRows:
    """The rows of the engine for which each test is true.

    A test is asked of rows that those before it leave. O(rows). Raises what a test of a row does.
    """
    for test in tests:
        if not len(rows):
            break
        try:
            rows = rows.where(test.fits(Columns.of(rows, shape)))
        except (ValueError, ArithmeticError):
            for row in rows.in_order():  # the first of them is the one to be told of
                test.compute([decode(*pair) for pair in zip(row, shape, strict=False)])
            raise
    return rows


def assign(scalars: Scalars, node: exp.Expr, column: Column, columns: Columns) -> Words:
    """The codes of what an expression gives a column of the engine, of each row.

    Raises ByValueError where a row is to be named: the value of one is none of the column's.
    """
    node = node.unnest()
    leaf = scalars.leaf(node)
    if leaf is not None:
        return moved(columns, leaf.compute(range(len(columns.shape))), column)
    scalar = scalars.compile(node)
    try:
        if column.type.base != "symbol" and scalar.type.base != "symbol":
            return _as_codes(numbers(scalars, node, columns), column, columns)
    except ByValueError:
        pass
    try:
        values, indexes = columns.by_value(_read(scalars, node, columns), scalar.compute)
    except (ValueError, ArithmeticError):
        raise ByValueError from None
    return stored(values, column, columns.tables)[indexes]


def moved(columns: Columns, position: int, column: Column) -> Words:
    """The codes of one of some columns as those of another one. Raises ByValueError as `assign`."""
    given, codes = columns.shape[position], columns.codes[position]
    if given.type.code == column.type.code and _has_room(column, given):
        if given.nullable and not column.nullable and columns.null(position) is not None:
            raise ByValueError
        return codes
    try:
        if column.type.base != "symbol":
            return _as_codes(columns.numbers(position), column, columns)
    except ByValueError:
        pass
    values, indexes = columns.values(position)
    return stored(values, column, columns.tables)[indexes]


def stored(values: Sequence[SqlValue], column: Column, tables: Codes) -> Words:
    """The codes of values of SQL for a column. Raises ByValueError where one is none of its."""
    bare, codes = [], np.full(len(values), NIL, np.int32)
    present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    if not (column.nullable or present.all()):
        raise ByValueError
    write = column.type.write
    for value in values:
        if value is None:
            continue
        written = write(value)
        try:
            bare.append(write(assigned(value, column.type)) if written is None else written)
        except (ValueError, ArithmeticError):
            raise ByValueError from None
        if bare[-1] is None:
            raise ByValueError
    codes[present] = tables.encode(column.type.base, bare)
    return codes


def _has_room(column: Column, given: Column) -> bool:
    """Whether all values of one column are values of another one, of types of one code."""
    kind, other = column.type, given.type
    return kind is other or (
        not kind.is_nested and kind.bits >= other.bits and kind.digits >= other.digits
    )


def _as_codes(numbers: Numbers, column: Column, columns: Columns) -> Words:
    """Numbers as the codes of a column. Raises ByValueError where one is none of its."""
    if numbers.null is not None and not column.nullable:
        raise ByValueError
    kind = column.type
    values = np.atleast_1d(np.asarray(as_kind(numbers, kind).values))
    dtype = np.float64 if kind is DOUBLE else np.int64
    codes = columns.tables.encode_numbers(kind.base, values.astype(dtype))
    codes = np.broadcast_to(codes, len(columns))
    return codes if numbers.null is None else np.where(numbers.null, np.int32(NIL), codes)


def _read(scalars: Scalars, node: exp.Expr, columns: Columns) -> list[int]:
    """The places of the columns that an expression reads, ascending."""
    leaves = [scalars.leaf(column) for column in node.find_all(exp.Column)]
    every = range(len(columns.shape))
    return sorted({leaf.compute(every) for leaf in leaves if leaf is not None})


def shown(
    rows: CodedRows, shape: Sequence[Column], positions: Sequence[int]
) -> OrderedRows[SqlValue]:
    """Columns of rows of the engine as rows of SQL, in their order."""
    columns = Columns.of(rows, shape)
    ranked = {position: _ranked(*columns.values(position)) for position in dict.fromkeys(positions)}
    chosen = [ranked[position] for position in positions]
    return ordered([values for values, _ in chosen], [own for _, own in chosen], len(rows))


def _ranked(values: list[SqlValue], indexes: Words) -> tuple[list[SqlValue], Words]:
    """Values that occur, ascending, and where among them each row has its own."""
    order = sorted(range(len(values)), key=_key(values))
    ranks = np.zeros(len(values), dtype=np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return [values[number] for number in order], ranks[indexes]


def _key(values: list[SqlValue]) -> Callable[[int], Any]:
    """What the values are ordered by: themselves, where that is `logical_order`.

    UUIDs by their numbers: 100,000 in 0.06 s, where Python's comparison of them took 0.35.
    """
    if any(isinstance(value, UUID) for value in values[:2]):  # one of two is there: they differ
        keys = [(True, 0) if value is None else (False, value.int) for value in values]  # type: ignore[union-attr]
        return keys.__getitem__
    plain = not any(value is None or isinstance(value, float | tuple) for value in values)
    return values.__getitem__ if plain else lambda number: logical_order((values[number],))


def sorted_by(
    table: OrderedRows[SqlValue], position: int, node: exp.Ordered
) -> OrderedRows[SqlValue]:
    """Rows of SQL by one of their columns; what is equal there stays as it was."""
    ranks = table.places[position].astype(np.int64)
    keys = -ranks if node.args.get("desc") else ranks
    values = table.values[position]
    if values and values[-1] is None:  # NULL is last in `logical_order`
        first = node.args.get("nulls_first")
        keys[ranks == len(values) - 1] = -len(values) if first else len(values)
    return table.where(np.argsort(keys, kind="stable"))
