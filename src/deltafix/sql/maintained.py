"""The engine under a connection: it has the rules of the catalog as soon as somebody reads.

A catalog that has changed makes the engine `stale`; the next look at it edits its rules, for what
the views derive. What CREATEs in a row have made waits until then. Invariants: the engine has every
table and view of the catalog whenever `_engine` gives it; an edit that is refused leaves both as
they were. Rows and transactions are `sql.transactions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltafix.engine.connect import connect as connect_engine
from deltafix.engine.database import Database
from deltafix.errors import (
    BudgetError,
    FactError,
    FunctorError,
    SqlDataError,
    SqlError,
    SqlOperationalError,
)
from deltafix.sql import durable
from deltafix.sql.catalog import Catalog, created

if TYPE_CHECKING:
    from deltafix.engine.transaction import Transaction
    from deltafix.facts.schema import Row
    from deltafix.rules.ast import Program
    from deltafix.sql.altering import Altered
    from deltafix.sql.text import Statement


class Maintained:
    """A catalog, and the engine that keeps its views; `Connection` has the rest."""

    def __init__(self, path: str | Path, dialect: str, settings: Mapping[str, Any]) -> None:
        self.dialect = dialect
        self.catalog = Catalog()
        self._settings = dict(settings)
        self._db: Database | None = None
        self._held: set[str] = set()  # the tables that the engine knows
        self._stale = True
        self._made: list[Statement] = []  # what CREATEs made that the engine does not follow yet,
        self._before_made: Catalog | None = None  # and the catalog before them
        self._closed = False
        self._path = path
        self._durable = str(path) != ":memory:"

    def _engine(self) -> Database:
        """The engine with the rules of now."""
        if self._db is None:
            functions = self.catalog.functions()

            def program_of(marks: Mapping[str, Any]) -> Program:
                made = [(one, durable.read(one)) for one in durable.definitions(marks)]
                later = durable.bare_tables(one for _, one in made)
                for one, statement in made:
                    self.catalog.times[created(statement.node).name] = one.times
                    self.catalog.define(statement, one.dialect, seen=one.seen, later=later)
                there = self.catalog.without(marks.get(durable.WITHOUT, ()))
                functions.update(there.functions())
                return there.program()

            self._db = connect_engine(
                program_of,
                self._path,
                functors=functions,
                reducers=self.catalog.reducers,
                **self._settings,
            )
            if self._durable:
                self._recover(self._db)
            self._db.settle()  # what holds without rows is there before them, in no delta
            self._held, self._stale = {*self.catalog.tables}, False
        elif self._stale:
            try:
                self._follow_rules(self._db)
            except BaseException:
                self._forget_made()
                raise
        return self._db

    def _recover(self, db: Any) -> None:
        """Take back what a process left that ended in a transaction, and end its ALTER TABLE."""
        rows = durable.altered(db.marks)
        if rows:
            self._become(db, self.catalog, rows)
        durable.recover(db, self.catalog)

    def _follow_rules(self, db: Database) -> None:
        try:
            self._follow(db)
        except FactError:
            # A name that was dropped has come back with other columns, and the engine knows the
            # old ones: rebuilt from the rows there are, it does not.
            db.compact()
            self._follow(db)

    def _follow(self, db: Database) -> Transaction:
        """Edit the engine's rules, and take the rows of dropped tables away."""
        with db.transaction() as tx:
            for name in self._held - self.catalog.tables.keys():
                tx.delete(name, db.rows(name))
            tx.change_program(self.catalog.program(), self.catalog.functions())
            if self._durable:
                note: Any = tx
                note.mark(durable.CATALOG, durable.catalog_mark(self.catalog))
        self._held, self._stale = {*self.catalog.tables}, False
        self._made, self._before_made = [], None
        return tx

    def _forget_made(self) -> None:
        """Let what the engine does not follow yet not have been made."""
        if self._before_made is not None:
            self.catalog.restored(self._before_made)
            self._made, self._before_made = [], None

    def _replace_table(
        self, db: Database, change: Altered, catalog: Catalog, rows: Mapping[str, list[Row]]
    ) -> None:
        ((name, some),) = rows.items()
        with db.transaction() as tx:
            for one in {change.old, change.new} & {*db.schemas}:
                tx.delete(one, db.rows(one))
            there = catalog.without({*change.behind, change.old, change.new})
            tx.change_program(there.program(), there.functions())
            if self._durable:
                note: Any = tx
                note.mark(durable.CATALOG, durable.catalog_mark(catalog))
                note.mark(durable.WITHOUT, sorted({*change.behind, name}))
                note.mark(durable.ALTERED, durable.altered_mark(name, some))
        db.compact()  # the engine forgets the columns that there were
        self._become(db, catalog, rows)

    def _become(self, db: Database, catalog: Catalog, rows: Mapping[str, list[Row]]) -> None:
        """Have the engine follow a catalog with tables that it does not know, and their rows."""
        note: Any
        with db.transaction() as note:
            note.change_program(catalog.program(), catalog.functions())
            if self._durable:
                note.mark(durable.WITHOUT, None)
        with db.transaction() as note:
            for name, some in rows.items():
                note.insert(name, some)
            if self._durable:
                note.mark(durable.ALTERED, None)
        self.catalog.restored(catalog)
        self._held, self._stale = {*catalog.tables}, False

    @contextmanager
    def mapped(self, statement: Statement) -> Iterator[None]:
        """Errors of computing a value inside are errors of SQL; a view without end is named."""
        try:
            yield
        except (BudgetError, FunctorError) as error:
            said = self._said(statement, error)
            if said is None:
                raise
            raise said from error

    def _said(self, statement: Statement, error: BaseException) -> Exception | None:
        """An error of the engine as one of SQL; None for any other, and for one that says it."""
        if isinstance(error, BudgetError):
            found: Any = error.values.get("relations", ())
            views = {*found} & {*self.catalog.views}
            if not views:
                return None
            view = min(views)
            said = re.sub(", in `.*(?=; rolled back)", f", in view {view!r}", str(error))
            message = f"{said}: bound its recursion, or DROP VIEW {view}"
            return BudgetError(message, relations=found)
        cause = error.__cause__
        if (
            isinstance(error, FunctorError)
            and isinstance(cause, ArithmeticError | ValueError)
            and not isinstance(cause, SqlError)
        ):
            return statement.error(SqlDataError, f"{cause}; the transaction was rolled back")
        return None

    def _require_open(self) -> None:
        if self._closed:
            raise SqlOperationalError("the connection is closed")
