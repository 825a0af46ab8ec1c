"""A connection: statements in, rows and exact deltas out.

Life: made by `connect`; statements run one at a time, each its own transaction unless BEGIN opened
one; then `close`. What it is made of, each of which knows those before it: the engine
(`sql.maintained`), transactions (`sql.transactions`), edits (`sql.editing`), definitions
(`sql.definitions`). Invariants: what is read is what the statements before it say; a statement that
fails changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from deltafix.diagnostics import suggest
from deltafix.doing import hearer, tell
from deltafix.engine.connect import require_settings
from deltafix.errors import SqlError, SqlIntegrityError, SqlProgrammingError, StateInUseError
from deltafix.facts.relation_delta import html_table
from deltafix.rules.show import show_rule
from deltafix.sql import edits, reading, scans
from deltafix.sql.again import remembered
from deltafix.sql.altering import ALTERS
from deltafix.sql.builder import Builder
from deltafix.sql.catalog import check_rules, compiled, created
from deltafix.sql.cursor import Cursor
from deltafix.sql.definitions import Definitions
from deltafix.sql.maintained import BOUNDS
from deltafix.sql.merging import merge
from deltafix.sql.parameters import Parameters, bound
from deltafix.sql.parsing import Wrong
from deltafix.sql.query import relation
from deltafix.sql.rows import CodedEdit, given, replaced
from deltafix.sql.scope import Scope
from deltafix.sql.tables import Table
from deltafix.sql.text import DIALECTS, Rules, Statement, exp
from deltafix.sql.transactions import Transaction
from deltafix.sql.types import TEXT, Column, SqlValue

if TYPE_CHECKING:
    from deltafix.sql.why import Reason

__all__ = ["Connection"]


class Connection(Definitions):
    """Made by `deltafix.sql.connect`. A context manager: commits, or rolls back on an error."""

    def cursor(self) -> Cursor:
        """A new cursor."""
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = (), *, path: str | None = None) -> Cursor:
        """Run every statement of a text; the cursor has the result of the last.

        Args:
            sql: statements, separated by semicolons.
            parameters: values for `?` in order, or for `:name` by name.
            path: the name of the text in errors.

        Raises:
            SqlError: a subclass says what is wrong; statements before it have been run.
        """
        return self.cursor().execute(sql, parameters, path=path)

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> Cursor:
        """Run one statement for each row of parameters, all of them or none.

        Raises SqlProgrammingError for a text of several statements, or none.
        """
        return self.cursor().executemany(sql, rows)

    def insert(self, table: str, rows: Any, columns: Sequence[str] = ()) -> int:
        """Insert rows, faster than by statements; returns how many.

        Args:
            table: a table's name.
            rows: tuples or lists with a Python value for each of `columns`, or dicts and objects
                of a dataclass with values by name, where what a dict leaves out has its default; or
                an Arrow table, or what exports itself as one (a frame of polars or pandas), with
                columns of these names.
            columns: the columns given, all of them in their order if none is named (of a frame:
                those it has); others have their default, or are NULL.

        Raises:
            SqlProgrammingError: an unknown table or column; what is no row, named from 0.
            SqlDataError: a value that is not of its column's type.
            SqlIntegrityError: a row that breaks NOT NULL or a key; nothing is inserted.
        """
        with self._turn:
            statement, target = self._edited("INSERT INTO", table)
            with Transaction(self, statement) as own:
                count = self._edit(statement, given(statement, target, rows, columns))
                own.end()
            return count

    def replace(self, table: str, rows: Any) -> int:
        """Make these all of the rows of a table, given as to `insert`; returns how many differ.

        The rows before go, unless they are among these: that is not INSERT OR REPLACE, which puts
        rows beside the others, each in the place of the one of its key. Only rows that differ are
        deleted and inserted, so views follow by the difference. Reads the table
        once; O(its rows + the new ones).

        Raises:
            SqlProgrammingError, SqlDataError, SqlIntegrityError: as `insert`; nothing has changed.
        """
        return self.replace_all({table: rows})

    def replace_all(self, tables: Mapping[str, Any]) -> int:
        """Make these the rows of tables, by name, all at once; returns how many differ.

        As `replace`, but references are looked at when all rows are in, and no ON DELETE or ON
        UPDATE changes one of these tables: their rows have been said.

        Raises:
            SqlProgrammingError, SqlDataError, SqlIntegrityError: as `insert`; nothing has changed.
        """
        with self._turn:
            if not tables:
                return 0
            targets = {name: self._edited("REPLACE", name) for name in tables}
            statement, _ = next(iter(targets.values()))
            with Transaction(self, statement) as own:
                replacements = []
                for name, (of, table) in targets.items():
                    try:
                        replacements.append(replaced(of, table, tables[name], self.rows_of(name)))
                    except SqlIntegrityError as error:
                        error.table = name
                        raise
                count = self._edit(statement, *replacements, whole=True)
                own.end()
            return count

    def _edited(self, verb: str, table: str) -> tuple[Statement, Table]:
        """A table that is edited without a statement, and one for errors."""
        self._require_open()
        text = f"{verb} {table}"
        statement = Statement(text, 0, len(text), exp.Null(), explain="", dialect=self.dialect)
        self._require_sound(statement)  # the table may have been made in the transaction
        named = exp.Table(this=exp.to_identifier(table, quoted=True))
        return statement, edits.edited_table(self, statement, named)

    def run(
        self,
        sql: str,
        parameters: Parameters,
        path: str | None,
        wrong: Wrong | None = None,
        kinds: tuple[type[exp.Expr], ...] = (exp.Expr,),
    ) -> Iterator[Any]:
        """The result of each statement of a text: a `reading.Result`, or a number of rows.

        `wrong` is told of a statement's error, and the next one follows; without it, it is raised.
        Statements of other `kinds` are passed over.
        """
        with self._turn:
            self._require_open()
            try:
                for statement in remembered(sql, self.dialect, path, wrong):
                    if hearer() is not None:  # a script's INSERT may be a megabyte of words
                        # Of a text of one statement whoever hears may be counting more.
                        of = len(statement.text) if statement.start else 0
                        tell(" ".join(statement.sql.split()), statement.start, of)
                    node = statement.node
                    if not isinstance(node, kinds):
                        continue
                    if not isinstance(node, exp.Create) or node.args.get("replace"):
                        self._follow_made(wrong)
                    try:
                        with bound(statement, parameters) as with_values:
                            result = self._run(with_values)
                    except SqlError as error:
                        if wrong is None:
                            raise
                        wrong(error, statement.sql)
                    else:
                        yield result
            except KeyboardInterrupt:
                self._forget_made()
                self._forget_unknown()
                raise
            finally:
                self._follow_made(wrong)

    def run_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        """Run one statement for each row of parameters, as one transaction."""
        with self._turn:
            self._require_open()
            statement = self._only(sql)
            total, rows = 0, [*rows]
            with Transaction(self, statement) as own:
                edit = edits.many(self, statement, rows) if len(rows) >= scans.MANY else None
                if edit is not None and self.take(edit):
                    total, rows = edit.size, []
                for row in rows:
                    with bound(statement, row) as with_values:
                        result = self._execute(with_values)
                    total += result if isinstance(result, int) else 0
                own.end()
            self._follow_made(None)
            return total

    def _only(self, sql: str) -> Statement:
        """The statement of a text that has one."""
        found = [*islice(remembered(sql, self.dialect), 2)]
        if len(found) != 1:
            message = f"one statement is run here, and this text has {'more' if found else 'none'}"
            raise SqlProgrammingError(message)
        return found[0]

    def _run(self, statement: Statement) -> Any:
        node = statement.node
        if type(node) in _CONTROL:
            return self._control(statement)
        with Transaction(self, statement) as own:
            result = self._execute(statement)
            own.end()
        return result

    def _execute(self, statement: Statement) -> Any:
        if statement.explain:
            return self._explain(statement)
        node = statement.node
        method = _STATEMENTS.get(type(node))
        if method is not None:
            return method(self, statement, node)
        if isinstance(node, exp.Query | exp.Values):
            return reading.select(self, statement, node)
        if statement.verb.startswith("ALTER"):
            raise statement.refused(f"{statement.verb} like this", node, ALTERS)
        close = suggest(statement.verb, _VERBS)
        way_out = f"did you mean {close}?" if close else f"statements are {', '.join(_VERBS)}"
        raise statement.refused(f"the statement {statement.verb}", node, way_out)

    def _control(self, statement: Statement) -> int:
        node = statement.node
        if isinstance(node, exp.Transaction):
            self._require_sound(statement)
            if self._open:
                raise statement.operational("a transaction is open already", "COMMIT it first")
            self.begin()
            return 0
        if not self._open:
            raise statement.operational("no transaction is open", "BEGIN opens one")
        if isinstance(node, exp.Commit):
            with self.mapped(statement):
                self._commit(statement)
        else:
            self.rollback()
        return 0

    def _edit_by(self, statement: Statement, node: Any) -> int | reading.Result:
        edit, shown = edits.edit_of(self, statement), node.args.get("returning")
        if shown is None:
            return self._edit(statement, edit)
        if isinstance(edit, CodedEdit):
            edit = edit.by_row_again()
        self._edit(statement, edit)
        return edits.returned(statement, edit, shown)

    def _merge(self, statement: Statement, node: exp.Merge) -> int:
        return self._edit(statement, merge(self, statement, node))

    def _truncate(self, statement: Statement, node: exp.TruncateTable) -> int:
        truncations = edits.truncate(self, statement, node)
        for edit in truncations:
            self.take(edit, alone=True)
        return sum(edit.size for edit in truncations)

    def _set(self, statement: Statement, node: exp.Set) -> int:
        """SET a bound of the epochs that follow."""
        for item in node.expressions:
            pair = item.this
            target, value = (
                (pair.this, pair.expression) if isinstance(pair, exp.EQ) else (item, item)
            )
            name = target.name
            if item.args.get("kind") or name not in BOUNDS:
                way_out = f"leave it out; SET takes {', '.join(BOUNDS)}"
                close = suggest(name, BOUNDS)
                way_out = f"did you mean {close}?" if close else way_out
                raise statement.refused(f"SET of {target.sql(self.dialect)}", node, way_out)
            number: float | None = None
            if not isinstance(value, exp.Null):
                is_number = isinstance(value, exp.Literal) and not value.is_string
                if (
                    not is_number
                    or not (value.is_int or name == "timeout")
                    or not float(value.this)
                ):
                    kind = "seconds" if name == "timeout" else "a whole number above 0"
                    message = f"{value.sql(self.dialect)} is no bound"
                    raise statement.wrong(message, value, f"{name} takes {kind}, or NULL for none")
                number = int(value.this) if value.is_int else float(value.this)
            self.set_bound(name, number)
        return 0

    def _explain(self, statement: Statement) -> reading.Result:
        node = statement.node
        if statement.explain != "EXPLAIN":
            from deltafix.sql.why import why, why_not  # noqa: PLC0415  a twentieth of a start

            is_there = statement.explain == "EXPLAIN WHY"
            if is_there:
                shown = [line for reason in why(self, statement) for line in reason.lines()]
            else:
                shown = list(why_not(self, statement))
            if not shown:
                shown = ["there is no such row; EXPLAIN WHY NOT says what keeps a row out"]
            return reading.Result(
                (Column("why", TEXT, nullable=False),), [(line,) for line in shown]
            )
        query = node.args.get("expression") if isinstance(node, exp.Create) else node
        if not isinstance(query, exp.Query | Rules):
            raise statement.refused("EXPLAIN of this", node, "EXPLAIN a SELECT or a CREATE VIEW")
        builder = Builder(statement, "view", self.catalog.relations)
        if isinstance(node, exp.Create) and isinstance(query, Rules):
            compiled(builder, node, created(node).name)
        else:
            relation(builder, query, Scope(statement), "view")
        check_rules(statement, builder, self.catalog)
        lines: list[tuple[SqlValue, ...]] = [(show_rule(rule),) for rule in builder.rules]
        return reading.Result((Column("rule", TEXT, nullable=False),), lines)

    def why(self, query: str, parameters: Parameters = ()) -> list[Reason]:
        """A proof for each row of a query, `SELECT * FROM view WHERE ...`; as EXPLAIN WHY.

        Raises SqlRefusedError for a query of more than one table or view.
        """
        from deltafix.sql.why import why  # noqa: PLC0415  as above

        with self._turn:
            self._require_open()
            statement = self._only(query)
            self._require_sound(statement)
            with bound(statement, parameters) as with_values, self.mapped(with_values):
                return list(why(self, with_values))

    def close(self) -> None:
        """Roll an open transaction back, and give the folder back or forget all. Idempotent."""
        with self._turn:
            if not self._closed and self._db is not None:
                try:
                    if self._durable and self._steps:
                        self.rollback()
                finally:
                    self._db.close()
            self._closed = True

    def __repr__(self) -> str:
        return f"<Connection {', '.join(self.catalog.relations) or 'without tables'}>"

    def _repr_html_(self) -> str:
        lines = []
        for name, source in self.catalog.relations.items():
            columns = ", ".join(
                f"{column.name} {column.type.name}{'' if column.nullable else ' NOT NULL'}"
                for column in source.columns
            )
            kind = "table" if name in self.catalog.tables else "view"
            lines.append((kind, f"{name}({columns})", f"{self.engine.count(name):,}"))
        return html_table("Connection", ("", "columns", "rows"), lines, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._closed:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()


_STATEMENTS: Mapping[Any, Callable[[Connection, Statement, Any], Any]] = MappingProxyType(
    {
        exp.Alter: Connection._alter,
        exp.Create: Connection._create,
        exp.Delete: Connection._edit_by,
        exp.Drop: Connection._drop,
        exp.Insert: Connection._edit_by,
        exp.Merge: Connection._merge,
        exp.Set: Connection._set,
        exp.TruncateTable: Connection._truncate,
        exp.Update: Connection._edit_by,
    }
)
_VERBS = (
    "CREATE TABLE", "CREATE VIEW", "CREATE MATERIALIZED VIEW", "ALTER TABLE", "DROP", "INSERT",
    "UPDATE", "DELETE", "TRUNCATE", "MERGE", "SELECT", "EXPLAIN", "SET", "BEGIN", "COMMIT",
    "ROLLBACK",
)  # fmt: skip
_CONTROL = frozenset((exp.Transaction, exp.Commit, exp.Rollback))


def open_connection(path: str | Path, dialect: str, settings: Mapping[str, Any]) -> Connection:
    """See `deltafix.sql.connect`."""
    if dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}; one of {', '.join(DIALECTS)}")
    for name, value in settings.items():
        if name not in _SETTINGS:
            close = suggest(name, ["dialect", *_SETTINGS, *_FOLDER])
            if close in _FOLDER:
                way_out = f"the folder is the first argument: connect({str(value)!r})"
            elif close is not None:
                way_out = f"did you mean {close!r}?"
            else:
                way_out = f"there are: dialect, {', '.join(_SETTINGS)}"
            raise TypeError(f"connect() of SQL takes no {name!r}; {way_out}")
    require_settings(**{name: settings[name] for name in _CHECKED if name in settings})
    try:
        return Connection(path, dialect, settings)
    except StateInUseError as error:
        owner: Any = error.values.get("owner", {})
        if owner.get("pid") != os.getpid():
            raise
        message = f"{error}; `with` of a SQL connection commits and does not close it: db.close()"
        raise StateInUseError(message, **error.values) from None


_CHECKED = ("strategy", "fsync", "threads")
_SETTINGS = tuple(dict.fromkeys((*BOUNDS, *_CHECKED)))
_FOLDER = ("state", "path", "folder", "file", "database", "db")
"""What others call the argument that has the folder."""
