"""One relation of a database, to look at: pages of rows, Arrow, and how it shows itself.

Invariant: a view reads the last committed epoch each time it is asked; it keeps no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Final

from deltafix.facts.schema import Row, Schema, show_value

if TYPE_CHECKING:
    from deltafix.engine.reading import Reading

__all__ = ["RelationView"]

_SHOWN: Final = 20


class RelationView:
    """Made by `Database.relation`. Anything that reads `__arrow_c_stream__` takes it.

    `pyarrow.table(view)`, `polars.DataFrame(view)`, `duckdb.from_arrow(pyarrow.table(view))`.
    """

    def __init__(self, db: Reading, schema: Schema) -> None:
        self._db = db
        self.schema = schema

    @property
    def name(self) -> str:
        """The relation's name."""
        return self.schema.relation

    def page(self, offset: int, limit: int) -> list[Row]:
        """Rows in the order in which they lie, from `offset` on. O(rows of the relation)."""
        codes = self._db._committed(self.name)[offset : offset + limit]
        return self._db._codes.rows(self.schema, codes)

    def to_arrow(self) -> Any:
        """The rows as an Arrow table, in no particular order."""
        return self._db.to_arrow(self.name)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self._db.count(self.name)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._db.rows(self.name))

    def __contains__(self, row: Row) -> bool:
        return self._db.contains(self.name, row)

    def __repr__(self) -> str:
        return f"<{self.schema.show()}: {len(self):,} rows>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.schema.names)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(show_value(value))}</td>' for value in row)}</tr>"
            for row in self.page(0, _SHOWN)
        )
        more = f"<p>… {len(self) - _SHOWN:,} more</p>" if len(self) > _SHOWN else ""
        caption = escape(f"{self.schema.show()}: {len(self):,} rows")
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{more}"
        )
