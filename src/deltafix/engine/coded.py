"""Rows as codes: what an edit of many rows is made of, with no Python object for each row.

Invariant: codes mean what the `Codes` beside them say, and mean it for as long as those live, also
behind a `compact` of their database, which then has others (`Reading.recoded`). A column that may
hold `nil` has the codes of one that may not, and `NIL` besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deltafix.engine.codes import ORDERED_FROM, Codes
from deltafix.errors import FactError
from deltafix.facts.schema import Row, Schema
from deltafix.facts.values import sorted_rows
from deltafix.kernel.arena import Words
from deltafix.kernel.values import NIL

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CodedRows", "Ints", "Mask", "distinct", "numbered", "places_among", "without_nil"]

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class CodedRows:
    """Rows of one relation as codes (n, arity); `tables` are those the codes belong to."""

    schema: Schema
    codes: Words
    tables: Codes

    def __len__(self) -> int:
        return len(self.codes)

    def where(self, chosen: Mask | Ints) -> CodedRows:
        """The rows under a mask of n bools, in their order, or those at some places."""
        return CodedRows(self.schema, self.codes[chosen], self.tables)

    @property
    def nothing(self) -> CodedRows:
        """None of the rows."""
        return CodedRows(self.schema, self.codes[:0], self.tables)

    def flat(self, schema: Schema, tables: Codes) -> Words:
        """The codes row after row. Raises FactError for another relation or database."""
        if tables is not self.tables or schema.relation != self.schema.relation:
            message = (
                f"{schema.relation}: the rows were coded for {self.schema.relation}"
                + ("" if tables is self.tables else " of another database")
                + "; code them with this transaction's coded(relation, rows)"
            )
            raise FactError(message, relation=schema.relation, value=self.schema.relation)
        return np.ascontiguousarray(self.codes).reshape(-1)

    def rows(self) -> list[Row]:
        """The rows as tuples of Python values, in their order. O(cells)."""
        return self.tables.rows(self.schema, self.codes)

    def in_order(self) -> list[Row]:
        """The rows as tuples, sorted."""
        if len(self.codes) < ORDERED_FROM:
            return sorted_rows(self.schema.types, self.rows())
        return list(self.tables.ordered(self.schema, self.codes))


def numbered(*tables: Words) -> list[Ints]:
    """Each row of some tables (n, columns) of codes as one integer, equal where the rows are.

    `columns` is the same for all, and more than 0. O(rows) for up to two, else O(rows log rows).
    """
    both = np.concatenate(tables)
    codes = both[:, 0].astype(np.int64)
    for column in range(1, both.shape[1]):
        if column > 1:
            codes = np.unique(codes, return_inverse=True)[1].reshape(len(both))
        codes = (codes << 32) + (both[:, column].astype(np.int64) & 0xFFFFFFFF)
    ends: Sequence[int] = np.cumsum([len(table) for table in tables[:-1]]).tolist()
    return np.split(codes, ends)


def distinct(rows: Words) -> Words:
    """Each row once. O(rows log rows)."""
    if not len(rows):
        return rows
    (numbers,) = numbered(rows)
    _, firsts = np.unique(numbers, return_index=True)
    return rows[firsts]


def without_nil(rows: Words) -> Words:
    """The rows in which no column is `nil`."""
    present: Words = rows[(rows != NIL).all(axis=1)]
    return present


def places_among(rows: Words, others: Words) -> Ints:
    """Where among others, no two of which are equal, each row is; -1 for none. O(rows log rows)."""
    if not len(others):
        return np.full(len(rows), -1, np.int64)
    mine, theirs = numbered(rows, others)
    order = np.argsort(theirs, kind="stable")
    nearest = order[np.minimum(np.searchsorted(theirs[order], mine), len(others) - 1)]
    return np.where(theirs[nearest] == mine, nearest, -1)
