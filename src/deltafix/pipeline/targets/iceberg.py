"""An Iceberg table, written in this process by `pyiceberg` through any of its catalogs.

The epoch stands in the summary of the snapshot and, for when that has expired, in a property of the
table, both set in the very commit that changes the rows: all are there or none. A commit that meets
another one is not tried again on top of it, as pyiceberg would: the next look finds out whose it
was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from deltafix.errors import ConfigError, MissingDependencyError
from deltafix.facts.groups import present
from deltafix.facts.schema import Schema
from deltafix.pipeline.targets.ancestry import EPOCH, OUTPUT, Ancestor, held, note
from deltafix.pipeline.targets.target import EpochRows, decimals, failing, whole

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.expressions import (
        AlwaysTrue,
        And,
        BooleanExpression,
        EqualTo,
        IsNaN,
        IsNull,
        NotNull,
        Or,
    )
    from pyiceberg.table import Table, TableProperties
    from pyiceberg.table.metadata import TableMetadata
except ImportError as _error:
    raise MissingDependencyError(
        "Iceberg tables need the package pyiceberg: `pip install 'deltafix[iceberg]'`"
    ) from _error

FEW = 200
"""So many removed rows are named one by one; more of them, and the table is written anew."""


class IcebergTarget:
    """The table `table` (`namespace.name`) of a catalog; `merge` keeps the view in it."""

    def __init__(
        self, schema: Schema, table: str, name: str, *, merge: bool, catalog: str,
        options: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._schema = schema
        for column in schema.columns:
            kind = None if column.logical is None else column.logical.arrow
            if kind is not None and _has_lists_of_structs(kind):
                message = (
                    f"column {column.name!r} of {schema.relation} is {column.logical}: where an "
                    "array of structs is NULL, pyiceberg writes empty ones; give its elements as "
                    'rows of a view, by UNNEST, or say runner = "spark"'
                )
                raise ConfigError(message, key="sink", value="iceberg")
        self._table_name = table
        self._name = name
        self._merge = merge
        self._settings = (catalog, dict(options))
        self._catalog: Catalog | None = None

    def epoch(self) -> int | None:
        """As `Target.epoch`."""
        with self._failing():
            table = self._table()
            if table is None:
                return None
            held = self._held(table)
            if held is None and self._merge and table.scan().count():
                raise whole(self._called, f"{table.scan().count():,} rows")
        return held

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`."""
        added = decimals(self._schema, rows.added if self._merge else rows.signed)
        # No condition of Iceberg's names a nested value.
        few = 0 if any(pa.types.is_nested(field.type) for field in added.schema) else FEW
        with self._failing():
            table = self._table() or self._created(added.schema)
            at = self._held(table)
            if at is not None and at >= rows.epoch:
                return
            mark = {OUTPUT: self._name, EPOCH: str(rows.epoch)}
            alone = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
            table.metadata = table.metadata.model_copy(update={"properties": alone})
            with table.transaction() as tx:
                if self._merge and rows.removed.num_rows > few:
                    left = _without(table.scan().to_arrow(), decimals(self._schema, rows.removed))
                    tx.overwrite(
                        pa.concat_tables([left.cast(added.schema), added]),
                        AlwaysTrue(), snapshot_properties=mark,
                    )  # fmt: skip
                else:
                    if self._merge and rows.removed.num_rows:
                        tx.delete(
                            _any_of(decimals(self._schema, rows.removed)), snapshot_properties=mark
                        )
                    if added.num_rows:
                        tx.append(added, snapshot_properties=mark)
                snapshot = next(_ancestry(tx.table_metadata), None)
                tx.set_properties({self._name: note(rows.epoch, snapshot)})

    def _held(self, table: Table) -> int | None:
        return held(self._called, self._name, _ancestry(table.metadata), table.properties)

    def _table(self) -> Table | None:
        if self._catalog is None:
            name, options = self._settings
            self._catalog = load_catalog(name, **options)
        try:
            return self._catalog.load_table(self._table_name)
        except NoSuchTableError:
            return None

    def _created(self, shape: pa.Schema) -> Table:
        assert self._catalog is not None  # noqa: S101  it was asked for the table
        self._catalog.create_namespace_if_not_exists(self._table_name.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(self._table_name, schema=shape)

    @property
    def _called(self) -> str:
        return f"Iceberg table {self._table_name}"

    def _failing(self) -> Any:
        # pyiceberg's errors have no common class, and a catalog's driver has its own.
        return failing(self._called, Exception)

    def close(self) -> None:
        """Nothing is held."""


def _ancestry(metadata: TableMetadata) -> Iterator[Ancestor]:
    """The current snapshot and those before it, as far as they are there."""
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        operation = "" if snapshot.summary is None else snapshot.summary.operation.value
        parent = snapshot.parent_snapshot_id
        sequence = snapshot.sequence_number or 0
        yield Ancestor(snapshot.snapshot_id, sequence, parent, operation, summary)
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)


def _any_of(rows: pa.Table) -> BooleanExpression:
    """The condition that a row is one of these; a balanced tree, for readers that recurse."""
    fields = {field.name: field for field in rows.schema}
    conditions = [
        reduce(And, [_is(fields[name], value) for name, value in row.items()])
        for row in rows.to_pylist()
    ]
    while len(conditions) > 1:
        conditions = [reduce(Or, conditions[at : at + 2]) for at in range(0, len(conditions), 2)]
    return conditions[0]


def _is(field: pa.Field, value: Any) -> BooleanExpression:
    """That a column is a value: true or false, as rows of which it is unknown would go, too."""
    if value is None:
        return IsNull(field.name)
    condition: BooleanExpression
    if value != value:  # noqa: PLR0124  NaN
        condition = IsNaN(field.name)
    else:
        condition = EqualTo(field.name, value.isoformat() if isinstance(value, date) else value)
    return And(NotNull(field.name), condition) if field.nullable else condition


def _has_lists_of_structs(kind: pa.DataType) -> bool:
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    is_one = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)
    return is_one or any(map(_has_lists_of_structs, inner))


def _without(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """The rows that are not `gone`; NULLs are equal here, as they are in no join."""
    gone = gone.select(rows.column_names).cast(rows.schema)
    signs = np.repeat(np.array([1, -1], np.int8), [rows.num_rows, gone.num_rows])
    return present(pa.concat_tables([rows, gone]), signs)
