"""One side of a change: rows as tuples, as an Arrow table, or as a loader not yet called.

Invariant: a side loads at most once and never changes; tuples and tables are made only when asked
for, so a large delta that leaves as Arrow never becomes Python objects. What the rows mean (added
or removed, of which epoch) is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from deltafix.facts.ordered import OrderedRows
from deltafix.facts.schema import Row, Schema
from deltafix.facts.values import sorted_rows

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

Rows: TypeAlias = "Iterable[Row] | pa.Table | Callable[[], Iterable[Row] | pa.Table]"
"""Where a side's rows come from: tuples, a checked Arrow table, or a loader that returns one."""


class Side:
    """Rows of one relation. Life: given -> loaded (once) -> rows and/or table cached.

    `tabled` loads them as a table, where that need not go by way of tuples.
    """

    __slots__ = ("_count", "_given", "_rows", "_schema", "_table", "_tabled")

    def __init__(
        self,
        schema: Schema,
        given: Rows,
        count: int | None,
        tabled: Callable[[], pa.Table] | None = None,
    ) -> None:
        self._schema = schema
        self._given: Rows | None = given
        self._tabled = tabled
        self._count = count
        self._rows: list[Row] | None = [] if type(given) is tuple and not given else None
        self._table: pa.Table | None = None

    def _load(self) -> None:
        source = self._given  # once: another thread may have loaded it by the next look
        if source is None:
            return
        given: Any = source() if callable(source) else source
        if type(given) in (list, tuple) and len(given) < 2:
            self._rows = [*given]
            self._count = len(given)
        elif hasattr(given, "num_columns"):
            self._table = given
            self._count = given.num_rows
        else:
            is_sorted = isinstance(given, OrderedRows)
            self._rows = list(given) if is_sorted else sorted_rows(self._schema.types, given)
            self._count = len(self._rows)
        self._given = self._tabled = None

    @property
    def rows(self) -> list[Row]:
        """As tuples, sorted; made on first use, do not modify."""
        if self._rows is not None:
            return self._rows
        self._load()
        if self._rows is None:
            from deltafix.facts.arrow import rows_from_table  # noqa: PLC0415  pyarrow is slow

            rows = rows_from_table(self._table, self._schema)
            self._rows = sorted_rows(self._schema.types, rows)
        return self._rows

    @property
    def table(self) -> pa.Table:
        """As an Arrow table with the schema's columns, in no particular order."""
        if self._tabled is not None:
            self._given = self._tabled
        self._load()
        if self._table is None:
            from deltafix.facts.arrow import table_from_rows  # noqa: PLC0415  pyarrow is slow

            self._table = table_from_rows(self._schema, self.rows)
        return self._table

    @property
    def files(self) -> Sequence[tuple[Path, int]]:
        """Files of a delta log that hold this side and the other of its relation, with their rows.

        Empty where there are none.
        """
        return ()

    def tables(self) -> Iterator[pa.Table]:
        """The rows as tables; a side that reads files has one of them in memory at a time."""
        yield self.table

    def without(self, others: Side) -> Side:
        """The rows that others do not have; this side itself where one of them is empty."""
        if not len(self) or not len(others):
            return self
        gone = set(others.rows)
        return Side(self._schema, [row for row in self.rows if row not in gone], None)

    def joined(self, others: Side) -> Side:
        """The rows of both, which have none in common; one of them where the other is empty."""
        if not len(self) or not len(others):
            return self if len(self) else others
        return Side(self._schema, [*self.rows, *others.rows], None)

    def __len__(self) -> int:
        if self._count is None:
            self._load()
        return self._count or 0
