"""A table of any database with transactions, by SQLAlchemy and the driver that its URL names.

Not by Spark's JDBC writer: there each partition commits for itself, so an epoch could be there in
part, and no mark could be there with it. Here rows and mark, a row of `deltafix_epochs`, are one
transaction, and its first statement moves the mark from below this epoch to it: of two writers of
one epoch, the database lets one past. Not here: PostgreSQL's own ways (`postgres`: COPY, updates by
key).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from deltafix.errors import ConfigError, MissingDependencyError, SinkError
from deltafix.facts.schema import Column, Schema
from deltafix.pipeline.sink import beside
from deltafix.pipeline.targets.target import EpochRows, failing, whole

try:
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
except ImportError as _error:
    raise MissingDependencyError(
        'sink = "sql" needs the package SQLAlchemy, and the driver of the database: '
        "`pip install 'deltafix[sqlalchemy]'`"
    ) from _error

_KEY_LENGTH = 255
"""Of texts in a primary key: MySQL, Oracle and others index no text without a length."""


class SqlTarget:
    """The table `table` (`name` or `schema.name`); `merge` keeps the view in it.

    Args:
        schema: the view.
        url: where the database is, and by which driver, as SQLAlchemy takes it.
        table: made with the first epoch if it is not there.
        name: this output, in the marks.
        merge: whether the table is the view; else it gets signed rows.
        key: the primary key of a table that is made; all columns unless given.

    Raises ConfigError for a URL that is none, MissingDependencyError for a missing driver.
    """

    def __init__(
        self, schema: Schema, url: str, table: str, name: str, *, merge: bool, key: Sequence[str]
    ) -> None:
        try:
            self._engine = sa.create_engine(url, hide_parameters=True, poolclass=sa.NullPool)
        except ImportError as error:
            message = f"output {schema.relation}: the driver of its url is not installed: {error}"
            raise MissingDependencyError(message) from error
        except ArgumentError as error:
            message = f'output {schema.relation}: its url is none, as in "mysql+pymysql://host/db"'
            raise ConfigError(message, key="url") from error
        self._called = f"table {table}"
        self._name = f"{name} {table}"
        self._merge = merge
        space, _, plain = table.rpartition(".")
        data = sa.MetaData(schema=space or None)
        self._marks = sa.Table(
            "deltafix_epochs", data,
            sa.Column("output", sa.String(_KEY_LENGTH), primary_key=True),
            sa.Column("epoch", sa.BigInteger, nullable=False),
        )  # fmt: skip
        keys = set(key or schema.names) if merge else set[str]()
        if any(column.nullable for column in schema.columns if column.name in keys):
            keys = set()  # no database has NULLs in a primary key
        columns = [
            sa.Column(
                column.name,
                _type(schema.relation, column, column.name in keys),
                nullable=column.nullable,
                primary_key=column.name in keys,
                autoincrement=False,
            )
            for column in schema.columns
        ]
        if not merge:
            kinds = (sa.SmallInteger, sa.BigInteger)
            columns += [
                sa.Column(name, kind, nullable=False)
                for name, kind in zip(beside(schema.names), kinds, strict=True)
            ]
        self._table = sa.Table(plain, data, *columns)

    def epoch(self) -> int | None:
        """As `Target.epoch`."""
        with self._failing(), self._engine.connect() as db:
            if not self._exists(db, self._table):
                return None
            held = self._held(db) if self._exists(db, self._marks) else None
            if held is None and self._merge:
                count = db.scalar(sa.select(sa.func.count()).select_from(self._table))
                if count:
                    raise whole(self._called, f"{count:,} rows")
        return held

    def apply(self, rows: EpochRows) -> None:
        """As `Target.apply`."""
        marks = self._marks.c
        move = self._marks.update().where(marks.output == self._name, marks.epoch < rows.epoch)
        with self._failing():
            self._make()
            with self._engine.begin() as db:
                if not db.execute(move.values(epoch=rows.epoch)).rowcount:
                    return
                if self._merge:
                    self._remove(db, rows.removed)
                self._add(db, rows.added if self._merge else rows.signed)

    def close(self) -> None:
        """As `Target.close`."""
        self._engine.dispose()

    # --- one epoch -----------------------------------------------------------------------------

    def _make(self) -> None:
        """Make what is not there. The mark of a table that somebody dropped is none."""
        with self._engine.begin() as db:  # many databases commit a CREATE by itself
            exists = self._exists(db, self._table)
            if exists and self._exists(db, self._marks) and self._held(db) is not None:
                return
            self._marks.create(db, checkfirst=True)
        if not exists:
            mine = self._marks.update().where(self._marks.c.output == self._name)
            with self._engine.begin() as db:
                db.execute(mine.values(epoch=-1))
        with suppress(IntegrityError), self._engine.begin() as db:  # it may be there
            db.execute(self._marks.insert(), {"output": self._name, "epoch": -1})
        with self._engine.begin() as db:
            self._table.create(db, checkfirst=True)

    def _remove(self, db: sa.Connection, rows: pa.Table) -> None:
        same = []
        for column in self._table.c:
            old_value = sa.bindparam(f"old {column.name}", type_=column.type)
            same.append(
                column.is_not_distinct_from(old_value) if column.nullable else column == old_value
            )
        query = self._table.delete().where(*same)
        old = [{f"old {key}": value for key, value in row.items()} for row in rows.to_pylist()]
        if not old:
            return
        if db.dialect.supports_sane_multi_rowcount:
            done = db.execute(query, old).rowcount
        else:
            done = sum(db.execute(query, row).rowcount for row in old)
        if done != len(old):
            message = (
                f"{self._called}: {done} rows went with {len(old)} to remove: somebody else has "
                "changed it, or it takes different texts for one; nothing of the epoch is there"
            )
            raise SinkError(message, path=self._called)

    def _add(self, db: sa.Connection, rows: pa.Table) -> None:
        if rows.num_rows:
            db.execute(self._table.insert(), rows.to_pylist())

    # --- the database --------------------------------------------------------------------------

    def _held(self, db: sa.Connection) -> int | None:
        marks = self._marks.c
        epoch = db.scalar(sa.select(marks.epoch).where(marks.output == self._name))
        return None if epoch is None or epoch < 0 else int(epoch)

    @staticmethod
    def _exists(db: sa.Connection, table: sa.Table) -> bool:
        return sa.inspect(db).has_table(table.name, schema=table.schema)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        with failing(self._called, SQLAlchemyError, OverflowError):
            try:
                yield
            except DBAPIError as error:
                text = " ".join(str(error.orig).split())
                raise SinkError(f"{self._called}: {text}", path=self._called) from error


class _Exact(sa.TypeDecorator[Any]):
    """A DECIMAL; text in SQLite, which has none, and would round it."""

    impl = sa.Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> Any:
        """The type in a database."""
        kind: Any = sa.Text() if dialect.name == "sqlite" else self.impl
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        """A value on its way there."""
        return str(value) if value is not None and dialect.name == "sqlite" else value


_LOGICAL = {
    pa.int16(): sa.SmallInteger(),
    pa.int32(): sa.Integer(),
    pa.int64(): sa.BigInteger(),
    pa.float64(): sa.Double(),
    pa.bool_(): sa.Boolean(),
    pa.binary(): sa.LargeBinary(),
    pa.date32(): sa.Date(),
    pa.timestamp("us"): sa.DateTime(),
    pa.timestamp("us", "UTC"): sa.DateTime(timezone=True),
}


def _type(view: str, column: Column, in_key: bool) -> Any:
    kind: Any = column.type
    if column.logical is not None and column.logical.arrow != pa.string():
        kind = column.logical.arrow
        if pa.types.is_decimal(kind):
            return _Exact(kind.precision, kind.scale)
        if pa.types.is_nested(kind):
            message = (
                f"column {column.name!r} of {view} is {column.logical}, which not every database "
                'has: say sink = "postgres", or give its elements as rows of a view, by UNNEST'
            )
            raise ConfigError(message, key="sink", value="sql")
        return _LOGICAL[kind]
    if kind == "number":
        return sa.BigInteger()
    if kind == "unsigned":  # SQLite would take decimals for floats
        return sa.Numeric(20, 0).with_variant(sa.BigInteger(), "sqlite")
    if kind == "float":
        return sa.Double()
    short = sa.String(_KEY_LENGTH).with_variant(sa.Text(), "sqlite", "postgresql")
    return short if in_key else sa.Text()
