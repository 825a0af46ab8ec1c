"""Iceberg tables through the package `pyiceberg`, in this process: no Spark, no jars.

When there is a new snapshot, all its rows are diffed with those that are given. Mark:
`iceberg/<input>` = the snapshot whose rows are in, 0 for a table that has none. Invariant: the mark
moves when all of a difference is in, so a look that gave a part of it is followed by one that gives
the rest, or what a newer snapshot makes of it.
"""

from __future__ import annotations

from typing import Any, Final

from deltafix.errors import MissingDependencyError, PipelineError
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.sources.single import Single

NO_SNAPSHOT: Final = 0


class IcebergTable(Single):
    """A source of an Iceberg table (`source = "iceberg"`)."""

    merges = True  # rows are compared as sets, or counted: never one by one

    def poll(self, state: State, limit: int) -> Portion | None:
        """What differs from the rows that are given."""
        mark = f"iceberg/{self.name}"
        table = self._table()
        current = table.current_snapshot()
        version = NO_SNAPSHOT if current is None else int(current.snapshot_id)
        if version == state.marks.get(mark):
            return None
        portion = self.whole(state, table.scan().to_arrow(), self._origin, limit)
        if not portion.more:
            portion.marks[mark] = version
        return portion

    def close(self) -> None:
        """Nothing is held."""

    @property
    def _table_name(self) -> str:
        return f"{self.values['catalog']}.{self.values['table']}"

    @property
    def _origin(self) -> str:
        return f"input {self.name}: {self._table_name}"

    def _table(self) -> Any:
        try:
            from pyiceberg.catalog import load_catalog  # noqa: PLC0415  an optional package
        except ImportError as error:
            message = f"input {self.name} needs pyiceberg: pip install 'deltafix[iceberg]'"
            raise MissingDependencyError(message, extra="iceberg") from error
        try:
            catalog = load_catalog(self.values["catalog"], **self.values["options"])
            return catalog.load_table(self.values["table"])
        except Exception as error:  # its errors have no common class, and catalogs have their own
            message = f"{self._origin} cannot be read: {' '.join(str(error).split())}"
            raise PipelineError(message, input=self.name, table=self._table_name) from error
