"""Signed rows: a relation's rows with +1 or -1, as one Arrow table, and their net change.

A signed table has the relation's columns with their Arrow types, no nulls, then `SIGN` (int8) and,
where a source tells versions, `VERSION` (int64). Symbols may be dictionary-encoded, no value twice
in a dictionary: text is then compared and looked up once per value, not per row. Invariant: `net`
of a table and of the same rows in any other order is the same set of changes when rows are counted;
when the last word wins, it is the order of the source that decides, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from deltafix.facts.arrow import arrow_schema, to_numpy
from deltafix.facts.groups import code_rows, group_rows
from deltafix.facts.schema import Schema
from deltafix.pipeline.fold import net_sums

__all__ = ["CAME", "SIGN", "VERSION", "Bad", "Signed", "net", "plain", "signed_table"]

SIGN = "+/-"
"""The column of signs; no relation has a column of this name, as it is no identifier."""

VERSION = "+/- version"
"""The column of versions, likewise."""

CAME = "+/- came"
"""In net changes that are not counted: whether some sign of the row was +1."""

_PLACE = "+/- place"


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot be taken: why, where it came from, and what it was."""

    reason: str
    origin: str
    row: Any


@dataclass(slots=True)
class Signed:
    """Signed rows of one relation as read: the good ones as a table, the others one by one.

    `ordered` tells whether the order of the table is that of the changes.
    """

    schema: Schema
    table: pa.Table
    bad: list[Bad] = field(default_factory=list)
    ordered: bool = True

    @property
    def rows(self) -> int:
        """How many rows were read."""
        return int(self.table.num_rows) + len(self.bad)


def signed_table(
    schema: Schema, rows: pa.Table, sign: Any, version: pa.ChunkedArray | None = None
) -> pa.Table:
    """A signed table from checked rows and a sign for all, or an array of signs."""
    signs = pa.repeat(pa.scalar(sign, pa.int8()), rows.num_rows) if isinstance(sign, int) else sign
    fields = [
        pa.field(field.name, column.type, nullable=False)
        for field, column in zip(arrow_schema(schema), rows.columns, strict=True)
    ]
    table = pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))
    table = table.append_column(SIGN, signs)
    return table if version is None else table.append_column(VERSION, version)


def plain(schema: Schema, table: pa.Table) -> pa.Table:
    """The table with the relation's columns as text where they were dictionary-encoded."""
    for place, wanted in enumerate(arrow_schema(schema)):
        if pa.types.is_dictionary(table.column(place).type):
            table = table.set_column(place, wanted, table.column(place).cast(wanted.type))
    return table


def net(schema: Schema, table: pa.Table, *, counted: bool) -> pa.Table:
    """One row per distinct row that changes, `SIGN` telling how. O(n log n).

    `counted`: signs are summed, and `SIGN` (int64) may be any number but 0. Otherwise the last
    sign of a row in the table's order is its sign (int8), so a row put in twice and taken out
    once is out: a relation is a set; a row with `CAME` was put in on the way. Rows come in no
    particular order.
    """
    names = list(schema.names)
    if counted:
        return net_sums(table, names, SIGN)
    signs = table.column(SIGN)
    given = to_numpy(signs)
    if (given > 0).all():
        came = pa.array(np.ones(len(given), dtype=np.bool_))
        return table.select([*names, SIGN]).append_column(CAME, came)  # giving twice is once
    # The last sign is the lowest bit of the largest place.
    marked = np.arange(table.num_rows, dtype=np.int64) * 2 + (given > 0)
    coded = code_rows([table.column(name) for name in names])
    if coded is None:
        marks = plain(schema, table.select(names)).append_column(_PLACE, pa.array(marked))
        marks = marks.append_column(CAME, signs)
        last = marks.group_by(names, use_threads=False).aggregate([(_PLACE, "max"), (CAME, "max")])
        rows, ends = last.select(names), to_numpy(last.column(f"{_PLACE}_max"))
        highest = to_numpy(last.column(f"{CAME}_max"))
    else:
        places, starts = group_rows(coded)
        ends = np.maximum.reduceat(marked[places], starts)
        highest = np.maximum.reduceat(given[places], starts)
        rows = table.select(names).take(pa.array(ends >> 1))
    changes = rows.append_column(SIGN, pa.array(((ends & 1) * 2 - 1).astype(np.int8)))
    return changes.append_column(CAME, pa.array(highest > 0))
