"""One relation of a database, to look at: rows, pages, lookups, Arrow, and how it shows itself.

Invariant: a view reads the last committed epoch each time it is asked; it keeps no rows. Rows are
tuples, or objects of the class that the view was asked for (`facts.typed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Generic

from deltafix.diagnostics import plural
from deltafix.facts.delta import Delta
from deltafix.facts.relation_delta import SHOWN, RelationDelta, html_table
from deltafix.facts.schema import Row, Schema
from deltafix.facts.typed import R, maker
from deltafix.facts.values import Value, show_value

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.engine.reading import Reading


class RelationView(Generic[R]):
    """Made by `Database.relation`. Anything that reads `__arrow_c_stream__` takes it.

    `pyarrow.table(view)`, `polars.DataFrame(view)`, `duckdb.from_arrow(pyarrow.table(view))`.

    Attributes:
        name: the relation's name.
    """

    def __init__(self, db: Reading, name: str, cls: type[R] | None) -> None:
        self._db = db
        self.name = name
        self._cls = cls
        self._last_maker: tuple[Schema, Callable[[Row], R]] | None = None
        self._maker()

    @property
    def schema(self) -> Schema:
        """The relation's schema. Raises UnknownRelationError once an edit of rules took it away."""
        return self._db.instance.schema(self.name)

    def rows(self) -> list[R]:
        """All rows, sorted."""
        return self._objects(self._db.rows(self.name))

    def page(self, offset: int, limit: int) -> list[R]:
        """Rows in the order in which they lie, from `offset` on. O(rows of the relation)."""
        return self._objects(self._tuples(offset, limit))

    def select(self, /, **values: Value) -> list[R]:
        """Rows with these values in the columns of these names, sorted: `edge.select(x="a")`.

        Costs what `Database.select` does: O(rows found) where the rules index the columns. Raises
        FactError for a column that is not there, TypeMismatchError for a value of another type.
        """
        schema = self.schema
        pattern: list[Value | EllipsisType] = [...] * schema.arity
        for index, value in zip(schema.places(values), values.values(), strict=True):
            pattern[index] = schema.check_value(schema.columns[index], 0, value)
        return self._objects(self._db.select(self.name, pattern))

    def delta(self, delta: Delta) -> RelationDelta[R]:
        """The part of a delta that is of this relation; its rows are of this view's class. O(1)."""
        part = delta[self.name]  # it may be gone with its rules since
        make = self._maker_for(part.schema)
        return part if make is None else part.of_class(make)  # type: ignore[return-value]  # R is Row

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, in no particular order."""
        return self._db.to_arrow(self.name)

    def batches(self, rows: int = 1 << 20) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches of up to so many rows, in no particular order.

        For relations of many rows: no more than one batch is made at a time, O(rows) of it. All are
        of one epoch. Raises FactError for `rows` below 1, TransactionError once another epoch was
        committed, UnknownRelationError; each when the next batch is asked for.
        """
        return self._db.batches(self.name, rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self._db.count(self.name)

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows())

    def __contains__(self, row: object) -> bool:
        return self._db.contains(self.name, row)

    def __repr__(self) -> str:
        return f"<{self.schema.show()}: {plural(len(self), 'row')}>"

    def _repr_html_(self) -> str:
        lines = (map(show_value, row) for row in self._tuples(0, SHOWN))
        caption = f"{self.schema.show()}: {plural(len(self), 'row')}"
        return html_table(caption, self.schema.names, lines, len(self) - SHOWN)

    def _tuples(self, offset: int, limit: int) -> list[Row]:
        values, codes = self._db.committed(self.name)
        return values.rows(self.schema, codes[offset : offset + limit])

    def _objects(self, rows: Iterable[Row]) -> list[R]:
        make = self._maker()
        return list(rows if make is None else map(make, rows))  # type: ignore[arg-type]  # R is Row

    def _maker(self) -> Callable[[Row], R] | None:
        return self._maker_for(self.schema)

    def _maker_for(self, schema: Schema) -> Callable[[Row], R] | None:
        """What makes the objects; the class is checked anew after an edit of rules."""
        if self._cls is None:
            return None
        if self._last_maker is None or self._last_maker[0] is not schema:
            self._last_maker = schema, maker(schema, self._cls)
        return self._last_maker[1]
