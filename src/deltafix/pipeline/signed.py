"""Signed rows: a relation's rows with a sign, in the order in which they are said, as a table.

A signed table has the relation's columns with their Arrow types, no nulls, then `SIGN` (a whole
number other than 0: n times the row put in, or taken out) and, where a source tells versions,
`VERSION` (int64; `Keying.versions` where a sequence has more columns). Symbols may be
dictionary-encoded, no value twice in a dictionary: text is then compared and looked up once per
value, not per row. What rows mean one after another is for `policy` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.arrow import arrow_schema, settled_columns, to_numpy
from deltafix.facts.groups import group_columns
from deltafix.facts.schema import Schema

SIGN = "+/-"
"""The column of signs; no relation has a column of this name, as it is no identifier."""

VERSION = "+/- version"
"""The column of versions, likewise."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot be taken: why, where it came from, and what it was."""

    reason: str
    origin: str
    row: Any


class Span(NamedTuple):
    """Rows side by side that one file or message brought, by their numbers there."""

    origin: str
    numbers: Any  # an array
    called: str = "row"


@dataclass(slots=True)
class Signed:
    """Signed rows of one relation as read: the good ones as a table, the others one by one.

    `spans` say where the rows of the table come from, in their order, where that is known.
    """

    schema: Schema
    table: pa.Table
    bad: list[Bad] = field(default_factory=list)
    spans: tuple[Span, ...] = ()

    @property
    def good(self) -> int:
        """How many rows the table has."""
        return int(self.table.num_rows)

    @property
    def removed(self) -> int:
        """How many of those take rows away."""
        return int(np.count_nonzero(to_numpy(self.table.column(SIGN)) < 0))

    @property
    def rows(self) -> int:
        """How many rows were read."""
        return self.good + len(self.bad)

    @property
    def has_versions(self) -> bool:
        """Whether rows may still be late: which are is told by their versions."""
        return VERSION in self.table.column_names

    def head(self, limit: int) -> Signed:
        """The first rows, without bad ones."""
        return self.part(0, limit, [])

    def part(self, start: int, size: int, bad: list[Bad]) -> Signed:
        """Some rows side by side, and bad ones."""
        spans, first = [], 0  # the first row of a span
        for span in self.spans:
            numbers = span.numbers[max(0, start - first) : max(0, start + size - first)]
            first += len(span.numbers)
            spans += [span._replace(numbers=numbers)] if len(numbers) else []
        return Signed(self.schema, self.table.slice(start, size), bad, tuple(spans))

    def keep(self, mask: Any) -> None:
        """Leave only some rows, by an array of truths."""
        spans, start = [], 0
        for span in self.spans:
            kept = mask[start : start + len(span.numbers)]
            start += len(span.numbers)
            spans.append(span._replace(numbers=span.numbers[kept]))
        self.table, self.spans = self.table.filter(pa.array(mask)), tuple(spans)

    def place(self, index: int) -> str:
        """Where a row of the table comes from; else whose row it is."""
        for span in self.spans:
            if index < len(span.numbers):
                return f"{span.origin}, {span.called} {span.numbers[index]}"
            index -= len(span.numbers)
        return self.schema.relation

    def copy(self) -> Signed:
        """The same rows, of which some can be set aside."""
        return Signed(self.schema, self.table, [*self.bad], self.spans)


def join(parts: Sequence[Signed]) -> Signed:
    """Parts of one relation as one, in their order; they stay as they are."""
    if len(parts) == 1:
        return parts[0].copy()
    tables = [part.table for part in parts]
    if any(table.schema != tables[0].schema for table in tables):
        tables = [plain(part.schema, part.table) for part in parts]
    bad = [row for part in parts for row in part.bad]
    spans = [span for part in parts for span in part.spans]
    is_known = all(part.spans or not part.good for part in parts)
    return Signed(parts[0].schema, pa.concat_tables(tables), bad, tuple(spans if is_known else ()))


def signed_table(schema: Schema, rows: pa.Table, sign: Any) -> pa.Table:
    """A signed table from checked rows and a sign for all, or an array of signs.

    Floats have one zero and one NaN from here on: rows are told apart by columns.
    """
    rows = settled_columns(rows)
    signs = pa.repeat(pa.scalar(sign, pa.int8()), rows.num_rows) if isinstance(sign, int) else sign
    fields = [
        pa.field(field.name, column.type, nullable=False)
        for field, column in zip(arrow_schema(schema), rows.columns, strict=True)
    ]
    table = pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))
    return table.append_column(SIGN, signs)


def plain(schema: Schema, table: pa.Table) -> pa.Table:
    """The table with the relation's columns as text where they were dictionary-encoded."""
    for index, column in enumerate(arrow_schema(schema)):
        if pa.types.is_dictionary(table.column(index).type):
            table = table.set_column(index, column, table.column(index).cast(column.type))
    return table


def difference(
    schema: Schema, held: pa.Table, wanted: pa.Table, times: pa.Table | None = None
) -> pa.Table:
    """The signed rows that turn what is held into what is wanted, rows to take out first.

    Both are sets: a row that is wanted twice is wanted. With `times`, the rows held more than once
    and how often, they are bags. O(rows).
    """
    names = list(schema.names)
    parts = [signed_table(schema, held, -1), signed_table(schema, plain(schema, wanted), 1)]
    if times is not None:
        again = pc.subtract(1, times.column(times.num_columns - 1))
        parts.append(signed_table(schema, times.select(names), again))
        whole = pa.concat_tables(parts, promote_options="permissive")
        return net_sums(whole, names, SIGN).sort_by(SIGN)
    bounds = pa.concat_tables(parts).group_by(names, use_threads=False)
    bounds = bounds.aggregate([(SIGN, "min"), (SIGN, "max")])
    low, high = bounds.column(f"{SIGN}_min"), bounds.column(f"{SIGN}_max")
    sides = []
    for test, sign in ((pc.less(high, 0), -1), (pc.greater(low, 0), 1)):
        sides.append(signed_table(schema, bounds.filter(test).select(names), sign))
    return pa.concat_tables(sides)


def net_sums(table: pa.Table, names: Sequence[str], sign: str) -> pa.Table:
    """The columns `names` of each distinct row, and `sign` (int64) its sum; zeros left out.

    The columns hold no nulls. O(n log n).
    """
    if not table.num_rows:
        return table.select(list(names)).append_column(sign, pa.array([], pa.int64()))
    signs = to_numpy(table.column(sign)).astype(np.int64)
    order, starts = group_columns([table.column(name) for name in names])
    totals = np.add.reduceat(signs[order], starts)
    firsts = np.minimum.reduceat(order, starts)
    kept = totals != 0
    firsts, totals = firsts[kept], totals[kept]
    again = np.argsort(firsts)
    rows = table.select(list(names)).take(pa.array(firsts[again]))
    return rows.append_column(sign, pa.array(totals[again]))
