"""A Delta table, written in this process by the package `deltalake`.

The epoch stands in the commit itself, as the table's own transaction mark (`txn`: this output's
name and the epoch), so rows and mark are there together or not at all; of two writers that apply
the same epoch, Delta refuses the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltafix.errors import MissingDependencyError
from deltafix.facts.schema import Schema
from deltafix.pipeline.targets.target import EpochRows, decimals, failing, whole

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import DeltaError, TableNotFoundError
except ImportError as _error:
    raise MissingDependencyError(
        "Delta tables need the package deltalake: `pip install 'deltafix[delta]'`"
    ) from _error


class DeltaTarget:
    """The table at `path`; `merge` keeps the view in it, else it gets signed rows."""

    def __init__(
        self, schema: Schema, path: str, name: str, *, merge: bool, options: Mapping[str, str]
    ) -> None:
        self._schema = schema
        self._path = path
        self._name = name
        self._merge = merge
        self._options = dict(options)

    def epoch(self) -> int | None:
        """As `Target.epoch`."""
        with self._failing():
            table = self._table()
            version = None if table is None else table.transaction_version(self._name)
            if table is not None and version is None and self._merge and table.count():
                raise whole(self._path, f"{table.count():,} rows")
        return None if version is None else int(version)

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`."""
        signed = decimals(self._schema, rows.signed)
        shape = decimals(self._schema, rows.added).schema if self._merge else signed.schema
        with self._failing():
            table = self._table() or DeltaTable.create(
                self._path, shape, storage_options=self._options
            )
            version = table.transaction_version(self._name)
            if version is not None and version >= rows.epoch:
                return
            mark = CommitProperties(app_transactions=[Transaction(self._name, rows.epoch)])
            if self._merge and rows.removed.num_rows:
                self._change(table, signed, mark)
            else:
                new = decimals(self._schema, rows.added) if self._merge else signed
                write_deltalake(table, new, mode="append", commit_properties=mark)

    def _change(self, table: DeltaTable, signed: Any, mark: CommitProperties) -> None:
        columns = {f"`{name}`": f"s.`{name}`" for name in self._schema.names}
        nullable = {column.name for column in self._schema.columns if column.nullable}
        same = " AND ".join(
            f"(t.{name} = {source} OR (t.{name} IS NULL AND {source} IS NULL))"
            if name[1:-1] in nullable
            else f"t.{name} = {source}"
            for name, source in columns.items()
        )
        sign = f"s.`{signed.column_names[-2]}`"
        (
            table.merge(signed, same, source_alias="s", target_alias="t", commit_properties=mark)
            .when_matched_delete(f"{sign} < 0")
            .when_not_matched_insert(columns, predicate=f"{sign} > 0")
            .execute()
        )

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._path, storage_options=self._options)
        except TableNotFoundError:
            return None

    def _failing(self) -> Any:
        return failing(f"Delta table {self._path}", DeltaError, OSError, ValueError)

    def close(self) -> None:
        """Nothing is held."""
