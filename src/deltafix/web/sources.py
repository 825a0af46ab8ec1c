"""What is served: the relations of a database of rules, or the tables and views of one of SQL.

Lives here: the one face that the page and the live door see of either. Invariant: rows are told in
the words of the language they are of (facts, or SQL's values; never an engine's row of a SQL
table), and whoever holds `lock` sees rows and the epoch that they are of. Edits go through the
language's own door, so keys, conditions and types hold as they do there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from deltafix.engine.database import Database
from deltafix.errors import FactError, LiveError, UnknownRelationError
from deltafix.facts.json_rows import json_values, read_value
from deltafix.facts.logical import logical_order
from deltafix.facts.schema import Schema, show_row
from deltafix.web.json_values import SAFE, object_of, read_sql, whole_text, write_sql

if TYPE_CHECKING:
    from deltafix.facts.schema import Column, Row
    from deltafix.sql import Connection
    from deltafix.sql.types import Column as SqlColumn

Kind: TypeAlias = Literal["table", "view", "input", "derived"]


class Part(Protocol):
    """What came and went in one relation."""

    @property
    def added(self) -> Sequence[Any]:
        """The rows that came."""

    @property
    def removed(self) -> Sequence[Any]:
        """The rows that went."""


Changed: TypeAlias = Callable[[int, Mapping[str, Part]], object]
Write: TypeAlias = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Served:
    """A relation as it is served.

    Attributes:
        columns: the name of each, its type as the language writes it, whether NULL is in it.
        shape: another object, or an unequal one, once the name means something else.
    """

    name: str
    kind: Kind
    columns: tuple[tuple[str, str, bool], ...]
    is_graph: bool
    shape: object

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        columns = [{"name": n, "type": kind, "nullable": null} for n, kind, null in self.columns]
        return {"name": self.name, "kind": self.kind, "columns": columns}


class RuleSource:
    """A database of rules. Its lock is the engine's own, so any thread may edit it."""

    language: Final = "rules"

    def __init__(self, db: Database) -> None:
        self.db = db
        self.lock = db.writer
        self.reading: Any = nullcontext()  # the engine has its readers wait for as little as it can

    @property
    def engine(self) -> Database:
        """The database."""
        return self.db

    @property
    def epoch(self) -> int:
        """The epoch of what is read."""
        return self.db.epoch

    def relations(self) -> dict[str, Served]:
        """What there is, by name."""
        return {name: self._served(schema) for name, schema in self.db.schemas.items()}

    def relation(self, name: str) -> Served:
        """One relation. Raises UnknownRelationError."""
        return self._served(self.db.relation(name).schema)

    def _served(self, schema: Schema) -> Served:
        name = schema.relation
        columns = tuple((column.name, str(column.type), False) for column in schema.columns)
        is_graph = schema.arity == 2
        kind: Kind = "derived" if name in self.db.instance.ruled else "input"
        return Served(name, kind, columns, is_graph, schema)

    def count(self, name: str) -> int:
        """How many rows a relation has."""
        return self.db.count(name)

    def rows(self, name: str) -> Sequence[Row]:
        """All rows of a relation."""
        return self.db.rows(name)

    def fact(self, name: str, row: Row) -> str:
        """A row as a page shows it and asks for it again."""
        return show_row(name, row)

    def writer(self, name: str, part: Any = None) -> Write:
        """What writes rows as the live door sends them; of a `part` as its relation was then."""
        schema: Schema = self.db.relation(name).schema if part is None else part.schema
        return lambda row: _write_rule(row, schema)

    def wanted(self, name: str, given: Any) -> dict[str, Any]:
        """Values by column as `writer` writes them. Raises FactError, UnknownRelationError."""
        schema = self.db.relation(name).schema
        row = object_of(given, schema.names, f"{name} takes {schema.show()}")
        values: dict[str, Any] = {}
        for column in schema.columns:
            if column.name in row:
                single = Schema(name, (column,))
                value = _rule_value(row[column.name], column, name)
                values |= _write_rule((value,), single)
        return values

    def watch(self, callback: Changed) -> Callable[[], None]:
        """Be told of each epoch; the answer ends that."""
        return self.db.watch(callback=lambda delta: callback(delta.epoch or 0, delta)).close

    @contextmanager
    def editing(self) -> Iterator[_RuleEdits]:
        """One transaction, undone where an error leaves it."""
        with self.lock, self.db.transaction() as tx:
            yield _RuleEdits(self.db, tx)


class _RuleEdits:
    """Edits inside of a transaction, a row each."""

    def __init__(self, db: Database, tx: Any) -> None:
        self._db = db
        self._tx = tx

    def insert(self, name: str, given: Any) -> int:
        """Insert a row given by column; how many are new."""
        return int(self._tx.insert(name, [self._row(name, given)]))

    def delete(self, name: str, given: Any) -> int:
        """Delete a row given by column. Raises MissingRowError if it is not there."""
        return int(self._tx.delete(name, [self._row(name, given)]))

    def update(self, name: str, _: Any) -> int:
        """Refused: no column of a relation says which row is meant."""
        message = f"an update is of a table of SQL; delete the row of {name}, and insert the other"
        raise LiveError(message)

    def _row(self, name: str, given: Any) -> Row:
        schema = self._db.relation(name).schema
        row = object_of(given, schema.names, f"{name} takes {schema.show()}")
        missing = [column for column in schema.names if column not in row]
        if missing:
            message = f"the row has no value for {missing[0]!r}; {name} takes {schema.show()}"
            raise FactError(message, relation=name, value=given)
        return tuple(_rule_value(row[column.name], column, name) for column in schema.columns)


def _write_rule(row: Row, schema: Schema) -> dict[str, Any]:
    values: dict[str, Any] = json_values(row, schema, as_objects=True)
    return {
        column: whole_text(value) if type(value) is int else value
        for column, value in values.items()
    }


def _rule_value(given: Any, column: Column, where: str) -> Any:
    is_logical = column.of is not None and column.of.inner != "number"
    is_whole = column.shape is None and column.type in ("number", "unsigned") and not is_logical
    if is_whole and isinstance(given, str) and SAFE.fullmatch(given):
        given = int(given)
    return read_value(given, column, where)


class SqlSource:
    """A connection of SQL. One thread at a time uses it: whoever holds `lock`."""

    language: Final = "sql"

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.lock = threading.RLock()
        self.reading: Any = self.lock

    @property
    def engine(self) -> Database:
        """The engine's database, for its plan and figures."""
        return self.connection.engine

    @property
    def epoch(self) -> int:
        """The epoch of what is read. Raises LiveError inside of a transaction: it has none."""
        if self.connection.in_transaction:
            message = "a transaction is open; who opens one holds the server's lock until COMMIT"
            raise LiveError(message)
        return self.connection.engine.epoch

    def relations(self) -> dict[str, Served]:
        """What there is, by name."""
        return {name: self.relation(name) for name in self.connection.catalog.relations}

    def relation(self, name: str) -> Served:
        """One table or view. Raises UnknownRelationError."""
        catalog = self.connection.catalog
        relation = catalog.relations.get(name)
        if relation is None:
            known = ", ".join(catalog.relations) or "none"
            message = f"there is no table or view {name!r}; there are: {known}"
            raise UnknownRelationError(message, relation=name)
        columns = tuple(
            (column.name, column.type.name, column.nullable) for column in relation.columns
        )
        kind: Kind = "table" if name in catalog.tables else "view"
        return Served(name, kind, columns, is_graph=False, shape=_Same(relation))

    def count(self, name: str) -> int:
        """How many rows a table or view has."""
        return self.connection.engine.count(name)

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """All rows, as often as they are there."""
        from deltafix.sql.types import decode_rows, shown_rows  # noqa: PLC0415  an extra

        columns = self.connection.catalog.relations[name].columns
        decoded = decode_rows(self.connection.rows_of(name), columns)
        return shown_rows(sorted(decoded, key=logical_order), columns)

    def fact(self, name: str, row: Sequence[Any]) -> str:
        """A row as EXPLAIN WHY names it: `edge: a = 1 AND b IS NULL`."""
        from deltafix.sql.parameters import equalities  # noqa: PLC0415  an extra
        from deltafix.sql.text import shown_name  # noqa: PLC0415

        dialect = self.connection.dialect
        conditions = equalities(self._by_column(self._columns(name), row), dialect)
        return f"{shown_name(name, dialect)}: {conditions}"

    def writer(self, name: str, part: Any = None) -> Write:
        """What writes rows as the live door sends them; of a `part` as its relation was then."""
        names = self._columns(name) if part is None else part.columns

        def write(row: Sequence[Any]) -> dict[str, Any]:
            return {
                column: write_sql(value) for column, value in self._by_column(names, row).items()
            }

        return write

    def _columns(self, name: str) -> tuple[str, ...]:
        return tuple(column.name for column in self.connection.catalog.relations[name].columns)

    def _by_column(self, names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
        """A row's values; by place if it is of the columns that there were before a definition."""
        if len(names) != len(row):
            names = [f"column{number}" for number in range(1, len(row) + 1)]
        return dict(zip(names, row, strict=True))

    def wanted(self, name: str, given: Any) -> dict[str, Any]:
        """Values by column as `writer` writes them. Raises FactError, UnknownRelationError."""
        from deltafix.sql.types import decode, encode, shown  # noqa: PLC0415  an extra

        self.relation(name)
        columns = self.connection.catalog.relations[name].columns
        row = _row_of(name, columns, given)
        values = {}
        for column in columns:
            if column.name in row:  # through the engine and back: 1.5 is 1.50 there
                could = replace(column, nullable=True)
                kept = encode(row[column.name], column.type, nullable=True)
                values[column.name] = write_sql(shown(decode(kept, could)))
        return values

    def watch(self, callback: Changed) -> Callable[[], None]:
        """Be told of each transaction; the answer ends that."""
        return self.connection.watch(
            lambda deltas: callback(self.epoch, {delta.view: delta for delta in deltas})
        )

    @contextmanager
    def editing(self) -> Iterator[_TableEdits]:
        """One transaction, undone where an error leaves it."""
        db = self.connection
        with self.lock:
            db.begin()
            try:
                yield _TableEdits(db)
                db.commit()
            except BaseException:
                db.rollback()
                raise


class _TableEdits:
    """Edits inside of a transaction, a row each."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def insert(self, name: str, given: Any) -> int:
        """Insert a row given by column; columns that it leaves out have their default."""
        row = self._row(name, given)
        return self._db.insert(name, [row])

    def update(self, name: str, given: Any) -> int:
        """Set the other columns of the row that has this primary key; 0 if there is none."""
        from deltafix.sql.text import shown_name  # noqa: PLC0415  an extra

        row, dialect = self._row(name, given), self._db.dialect
        table = self._db.catalog.tables[name]
        primary = [key for key in table.keys if key.kind == "PRIMARY KEY"]
        if not primary:
            message = f"{name} has no PRIMARY KEY to say which row; delete it, and insert the other"
            raise FactError(message, relation=name)
        key = [table.relation.columns[index].name for index in primary[0].positions]
        others = [column for column in row if column not in key]
        if not others or any(column not in row for column in key):
            message = f"an update of {name} has its key ({', '.join(key)}), and columns to set"
            raise FactError(message, relation=name, value=given)
        sets, conditions = (
            [f"{shown_name(column, dialect)} = ?" for column in names] for names in (others, key)
        )
        where = " AND ".join(conditions)
        text = f"UPDATE {shown_name(name, dialect)} SET {', '.join(sets)} WHERE {where}"  # noqa: S608
        return self._db.execute(text, [row[column] for column in (*others, *key)]).rowcount

    def delete(self, name: str, given: Any) -> int:
        """Delete the rows that have these values, as DELETE does; how many there were."""
        from deltafix.sql.text import shown_name  # noqa: PLC0415  an extra

        row, dialect = self._row(name, given), self._db.dialect
        if not row:
            raise FactError(f"no column is given: every row of {name} would go", relation=name)
        parts = [
            f"{shown_name(column, dialect)} " + ("IS NULL" if value is None else "= ?")
            for column, value in row.items()
        ]
        text = f"DELETE FROM {shown_name(name, dialect)} WHERE {' AND '.join(parts)}"  # noqa: S608
        return self._db.execute(
            text, [value for value in row.values() if value is not None]
        ).rowcount

    def _row(self, name: str, given: Any) -> dict[str, Any]:
        table = self._db.catalog.tables.get(name)
        if table is None:
            known = ", ".join(self._db.catalog.tables) or "none"
            what = "a view follows from tables" if name in self._db.catalog.views else "unknown"
            message = f"{name!r} is no table ({what}); tables are: {known}"
            raise UnknownRelationError(message, relation=name)
        return _row_of(name, table.relation.columns, given)


def _row_of(name: str, declared: Sequence[SqlColumn], given: Any) -> dict[str, Any]:
    """SQL's values of a row, or of a part of one, of JSON. Raises FactError."""
    columns = {column.name: column for column in declared}
    signature = ", ".join(f"{column.name} {column.type.name}" for column in declared)
    row = object_of(given, tuple(columns), f"{name} takes ({signature})")
    return {column: read_sql(value, columns[column]) for column, value in row.items()}


class _Same:
    """Equal to itself's object alone: a view made anew is another one."""

    def __init__(self, held: object) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._held is other._held

    def __hash__(self) -> int:
        return id(self._held)


Source: TypeAlias = RuleSource | SqlSource


def served(db: Database | Connection) -> Source:
    """The face of a database."""
    return RuleSource(db) if isinstance(db, Database) else SqlSource(db)
