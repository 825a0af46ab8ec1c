"""A table of PostgreSQL: rows and the epoch's mark in one transaction of the database.

The marks are the table `deltafix_epochs`, one row an output, beside the output's table. Its row is
locked while an epoch is applied, so of two writers the second waits, and then finds the epoch.
Invariant: what an epoch takes away was in the table, and what it brings was not; where that does
not hold, somebody else changed the table, and it is refused rather than left wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deltafix.errors import ConfigError, MissingDependencyError, SinkError
from deltafix.facts.schema import Column, Schema
from deltafix.facts.values import CONSTRUCTED
from deltafix.pipeline.sink import beside
from deltafix.pipeline.targets.target import EpochRows, failing, whole

try:
    import psycopg
    from psycopg import sql
except ImportError as _error:
    raise MissingDependencyError(
        "PostgreSQL needs the package psycopg: `pip install 'deltafix[postgres]'`"
    ) from _error

_TYPES = {
    "number": "bigint",
    "unsigned": "numeric(20)",
    "float": "double precision",
    "symbol": "text",
    **dict.fromkeys(CONSTRUCTED, "text"),
}


_LOGICAL = {
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}


_OF_TEXTS = {"UUID": "uuid", "UUID[]": "uuid[]"}
"""What Arrow has as texts and PostgreSQL has not, by SQL's name."""


def _type(column: Column) -> str:
    """A column's type, and that it has no NULLs where it has none."""
    if column.logical is None:
        shown = _TYPES[column.type]
    else:
        shown = _OF_TEXTS.get(column.logical.name) or _named(column.logical.arrow)
    return shown + ("" if column.nullable else " NOT NULL")


def _named(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{_named(kind.value_type)}[]"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return _LOGICAL[kind]


class PostgresTarget:
    """The table `table` (`name` or `schema.name`); `merge` keeps the view in it.

    Args:
        schema: the view.
        dsn: where the database is, as libpq takes it; what it leaves out comes from `PG…`.
        table: made with the first epoch if it is not there.
        name: this output, in the marks.
        merge: whether the table is the view; else it gets signed rows.
        key: columns that tell rows of the view apart. An epoch that replaces a row of a key then
            updates it.
    """

    def __init__(
        self, schema: Schema, dsn: str, table: str, name: str, *, merge: bool, key: Sequence[str]
    ) -> None:
        for column in schema.columns:
            kind = None if column.logical is None else column.logical.arrow
            inner = kind.value_type if kind is not None and pa.types.is_list(kind) else kind
            if inner is not None and pa.types.is_nested(inner):
                message = (
                    f"column {column.name!r} of {schema.relation} is {column.logical}, which "
                    "tables there have not: give its parts as columns, or as rows, by UNNEST"
                )
                raise ConfigError(message, key="sink", value="postgres")
        self._schema = schema
        self._dsn = dsn
        self._called = f"table {table}"
        self._name = f"{name} {table}"
        self._merge = merge
        self._key = list(key)
        self._names = [*schema.names, *(() if merge else beside(schema.names))]
        parts = table.split(".")
        self._table = sql.Identifier(*parts)
        self._marks = sql.Identifier(*parts[:-1], "deltafix_epochs")
        self._open: psycopg.Connection[Any] | None = None

    def epoch(self) -> int | None:
        """As `Target.epoch`."""
        with self._failing():
            db = self._connection()
            with db.transaction():
                row = None
                if self._exists(db, self._marks) and self._exists(db, self._table):
                    query = "SELECT epoch FROM {marks} WHERE output = %s"
                    row = self._run(db, query, [self._name]).fetchone()
                if row is None and self._merge and self._exists(db, self._table):
                    (count,) = self._run(db, "SELECT count(*) FROM {table}").fetchone()
                    if count:
                        raise whole(self._called, f"{count:,} rows")
        return None if row is None else int(row[0])

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`."""
        with self._failing():
            db = self._connection()
            with db.transaction():
                if self._begin(db) >= rows.epoch:
                    return
                if not self._merge:
                    self._copy(db, "{table}", rows.signed, self._names)
                elif self._key:
                    self._upsert(db, rows)
                else:
                    self._remove(db, rows.removed)
                    self._copy(db, "{table}", rows.added, self._names)
                query = "UPDATE {marks} SET epoch = %s WHERE output = %s"
                self._run(db, query, [rows.epoch, self._name])

    def close(self) -> None:
        """As `Target.close`."""
        if self._open is not None:
            self._open.close()
            self._open = None

    # --- one epoch -----------------------------------------------------------------------------

    def _begin(self, db: Any) -> int:
        """Make what is not there, and lock this output's mark; returns its epoch, or -1.

        The mark of a table that somebody dropped is none.
        """
        fresh = not self._exists(db, self._table)
        self._run(
            db,
            "CREATE TABLE IF NOT EXISTS {marks} (output text PRIMARY KEY, epoch bigint NOT NULL)",
        )
        self._run(db, "CREATE TABLE IF NOT EXISTS {table} ({columns})")
        query = "INSERT INTO {marks} VALUES (%s, -1) ON CONFLICT DO NOTHING"
        self._run(db, query, [self._name])
        query = "SELECT epoch FROM {marks} WHERE output = %s FOR UPDATE"
        if fresh:
            self._run(db, "UPDATE {marks} SET epoch = -1 WHERE output = %s", [self._name])
        return int(self._run(db, query, [self._name]).fetchone()[0])

    def _remove(self, db: Any, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self._beside(db, "gone", rows)
        done = self._run(db, "DELETE FROM {table} t USING gone WHERE {same}").rowcount
        if done != rows.num_rows:
            raise self._changed(f"{rows.num_rows - done} of {rows.num_rows} rows to remove are not")

    def _upsert(self, db: Any, rows: EpochRows) -> None:
        """Rows of one key that go and come are an update."""
        self._beside(db, "gone", rows.removed)
        self._beside(db, "come", rows.added)
        (both,) = self._run(
            db, "SELECT count(*) FROM {table} t JOIN gone ON {same} WHERE {replaced}"
        ).fetchone()
        query = "DELETE FROM {table} t USING gone WHERE {same} AND NOT {replaced}"
        done = self._run(db, query).rowcount + both
        if done != rows.removed.num_rows:
            missing = rows.removed.num_rows - done
            raise self._changed(f"{missing} of {rows.removed.num_rows} rows to remove are not")
        # Not ON CONFLICT: where a column of the key may be NULL, no index of the table is unique.
        (taken,) = self._run(db, "SELECT count(*) FROM {table} t JOIN come ON {met}").fetchone()
        query = "SELECT count(*) - count(DISTINCT ROW({key})) FROM come"
        (twice,) = self._run(db, query).fetchone()
        if taken + twice != both:
            key = ", ".join(self._key)
            raise self._changed(
                f"{taken + twice - both} rows to add have the key ({key}) of others that are"
            )
        self._run(db, "UPDATE {table} t SET {set} FROM come WHERE {met}")
        self._run(
            db,
            "INSERT INTO {table} ({names}) SELECT {names} FROM come "
            "WHERE NOT EXISTS (SELECT FROM gone WHERE {again})",
        )

    def _changed(self, what: str) -> SinkError:
        return SinkError(
            f"{self._called}: {what} there: somebody else has changed it, or its key is none; "
            "nothing of the epoch is there",
            path=self._called,
        )

    def _beside(self, db: Any, name: str, rows: pa.Table) -> None:
        self._run(db, "CREATE TEMP TABLE " + name + " ({plain}) ON COMMIT DROP")
        self._copy(db, name, rows, self._names)

    def _copy(self, db: Any, table: str, rows: pa.Table, names: Sequence[str]) -> None:
        if not rows.num_rows:
            return
        query = self._sql("COPY " + table + " ({names}) FROM STDIN")
        columns = [column.to_pylist() for column in rows.select(list(names)).columns]
        with db.cursor() as cursor, cursor.copy(query) as copy:
            for row in zip(*columns, strict=True):
                copy.write_row(row)

    # --- SQL -----------------------------------------------------------------------------------

    def _sql(self, text: str) -> sql.Composed:
        def joined(between: str, parts: list[str], names: Sequence[str]) -> sql.Composable:
            form = "".join(parts)
            return sql.SQL(between).join(
                sql.SQL(form).format(name=sql.Identifier(name)) for name in names
            )

        kinds = {column.name: _type(column) for column in self._schema.columns}
        if not self._merge:
            beside = ("smallint NOT NULL", "bigint NOT NULL")
            kinds |= dict(zip(self._names[-2:], beside, strict=True))
        plain = sql.SQL(", ").join(
            sql.SQL("{} " + kinds[name]).format(sql.Identifier(name)) for name in self._names
        )
        columns: sql.Composable = plain
        nullable = {column.name for column in self._schema.columns if column.nullable}
        if self._merge and not nullable & {*(self._key or self._schema.names)}:
            key = joined(", ", ["{name}"], self._key or self._schema.names)
            columns = sql.SQL("{}, PRIMARY KEY ({})").format(plain, key)

        def alike(left: str, right: str, names: Sequence[str]) -> sql.Composable:
            return sql.SQL(" AND ").join(
                sql.SQL(
                    f"{left}.{{name}} {'IS NOT DISTINCT FROM' if name in nullable else '='} "
                    f"{right}.{{name}}"
                ).format(name=sql.Identifier(name))
                for name in names
            )

        again = alike("come", "gone", self._key)
        replaced = sql.SQL("EXISTS (SELECT FROM come WHERE {})").format(again)
        rest = [name for name in self._schema.names if name not in self._key] or self._key
        return sql.SQL(text).format(
            table=self._table, marks=self._marks, plain=plain, columns=columns,
            names=joined(", ", ["{name}"], self._names),
            same=alike("t", "gone", self._schema.names), replaced=replaced,
            again=again, met=alike("t", "come", self._key),
            key=joined(", ", ["{name}"], self._key),
            set=joined(", ", ["{name} = come.{name}"], rest),
        )  # fmt: skip

    def _run(self, db: Any, text: str, values: Sequence[Any] = ()) -> Any:
        return db.execute(self._sql(text), values)

    def _exists(self, db: Any, table: sql.Identifier) -> bool:
        row = db.execute("SELECT to_regclass(%s)", [table.as_string(db)]).fetchone()
        return row is not None and row[0] is not None

    def _connection(self) -> psycopg.Connection[Any]:
        if self._open is None or self._open.closed:
            self._open = psycopg.connect(self._dsn, autocommit=True)
        return self._open

    def _failing(self) -> Any:
        return failing(self._called, psycopg.Error, OSError)
