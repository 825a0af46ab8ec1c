"""Definitions: CREATE, DROP and ALTER, and the engine that follows them.

Making or dropping a view edits the engine's rules, for what the view derives; ALTER TABLE has a
table go and come again. In an open transaction a definition is a step of it, done at once.
Invariants: one that fails leaves catalog and engine as they were; what becomes of the catalog is
decided by `sql.catalog` and `sql.altering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from deltafix.errors import SqlError
from deltafix.sql import durable
from deltafix.sql.altering import altered
from deltafix.sql.catalog import Catalog, created, require_made, require_plan
from deltafix.sql.editing import Editing
from deltafix.sql.integrity import require_sound
from deltafix.sql.maintained import changed_behind
from deltafix.sql.parsing import Wrong
from deltafix.sql.text import Statement, exp


class Definitions(Editing):
    """Tables and views, made and unmade."""

    def _create(self, statement: Statement, node: exp.Create) -> int:
        named = require_made(statement, node)
        name = named.name
        replaces = bool(node.args.get("replace")) and name in self.catalog.views
        if name in self.catalog.relations and not replaces:
            if node.args.get("exists"):
                return 0
            message = f"there is a table or view {name!r} already"
            way_out = "write IF NOT EXISTS to leave it as it is, or choose another name"
            kind = "VIEW" if name in self.catalog.views else "TABLE"
            loses = "" if kind == "VIEW" else ", which takes its rows away"
            raise statement.wrong(message, named, f"{way_out}; DROP {kind} {name}{loses}")
        self._edits_first()
        if self._durable:
            durable.check(statement, self.dialect)
        if replaces:
            self._replace(statement)
            return 0
        before = self.catalog.copy()
        try:
            self.catalog.define(statement, self.dialect)
            if name in self.catalog.views:
                require_plan(statement, self.catalog.views[name])
        except BaseException:
            self.catalog.restored(before)
            raise
        self._stale = True
        if self._db is not None:
            self._made.append(statement)
        return 0

    def _follow_made(self, wrong: Wrong | None) -> None:
        """Have the engine follow the tables and views that CREATEs in a row have made.

        All at once, since it looks at every rule each time; where that fails one after another, so
        that the error is that of a statement, and those before it stand.
        """
        statements = list(self._made)
        if not statements:
            return
        try:
            with self.mapped(statements[0]):
                self._engine()
            if not self._open:  # a transaction that changed no row that was there
                self._last = []
        except Exception as error:
            if len(statements) > 1:
                self._make_again(statements, wrong)
            elif wrong is None or not isinstance(error, SqlError):
                raise
            else:
                wrong(error, statements[0].sql)

    def _make_again(self, statements: Sequence[Statement], wrong: Wrong | None) -> None:
        """Run CREATEs one after another, each followed; what listened to one that fails is gone."""
        try:
            for statement in statements:
                try:
                    self._create(statement, cast("exp.Create", statement.node))
                except SqlError as refused:
                    if wrong is None:
                        raise
                    wrong(refused, statement.sql)
                self._follow_made(wrong)
        finally:
            self._forget_unknown()

    def _replace(self, statement: Statement) -> None:
        """Make a view another one: what it changes, in it and in others, is a delta to be told."""
        if self._db is not None:
            self._engine()
        before = self.catalog.copy()
        try:
            self.catalog.replace(statement, self.dialect)
            require_plan(statement, self.catalog.views[created(statement.node).name])
            self._stale = True
            if self._db is None:
                return
            with self.mapped(statement):
                behind = changed_behind(before, self.catalog)
                step = self._define(self._db, among=behind & self.catalog.views.keys())
        except BaseException:
            self.catalog.restored(before)
            raise
        if not self._open:
            self._hear([step])

    def _drop(self, statement: Statement, node: exp.Drop) -> int:
        """DROP of tables or views: all of them, or none."""
        args = ("tables", "kind", "exists", "materialized", "restrict", "cascade")
        statement.require_only(node, args)
        self._edits_first()
        before = self.catalog.copy()
        try:
            for table in node.args["tables"]:
                self._forget(statement, node, table, before)
            if self._stale and self._db is not None:
                with self.mapped(statement):
                    self._engine()
        except BaseException:
            self.catalog.restored(before)
            raise
        self._forget_unknown()
        return 0

    def _forget(
        self, statement: Statement, node: exp.Drop, table: exp.Table, before: Catalog
    ) -> None:
        """Take a table or a view out of the catalog, with CASCADE the views that read it, too.

        What else the statement names is no reader of it.
        """
        name, kind = table.name, node.args["kind"]
        named = {other.name for other in node.args["tables"]}
        registry = before.tables if kind == "TABLE" else before.views
        if name not in registry and not node.args.get("exists"):
            raise statement.unknown(kind.lower(), name, list(registry), table)
        if name not in registry or name not in self.catalog.definitions:
            return  # or it went with another one
        cascades = bool(node.args.get("cascade"))
        readers = [reader for reader in self.catalog.readers(name) if reader not in named]
        if readers and not cascades:
            message = f"{name} is read by {', '.join(readers)}"
            way_out = f"DROP VIEW {readers[-1]} first, or write DROP {kind} {name} CASCADE"
            raise statement.wrong(message, table, way_out)
        tables = {other.relation.name for other, _ in self.catalog.referring(name)} - named
        if tables:
            message = f"{name} is referred to by {', '.join(sorted(tables))}"
            raise statement.wrong(message, table, f"DROP TABLE {min(tables)} first")
        gone = {name}
        for reader, view in self.catalog.views.items():  # a view stands behind what it reads
            if cascades and view.reads & gone:
                gone.add(reader)
        for one in gone:
            self.catalog.views.pop(one, None)
            del self.catalog.definitions[one]
        self.catalog.tables.pop(name, None)
        self._stale = True

    def _alter(self, statement: Statement, node: exp.Alter) -> int:
        self._edits_first()
        change = altered(self.catalog, statement, node)
        if change is None:
            return 0
        renamed = {change.old: change.new} if change.old != change.new else {}
        if self._db is None:
            self.catalog.restored(change.after)
            self._stale = True
            self._rename(renamed)
            return 0
        db, before = self._engine(), self.catalog.copy()
        with self.mapped(statement):
            new = change.rows(db.rows(change.old), partial(require_sound, self, statement))
            self.catalog.restored(change.after)
            try:
                step = self._define(db, {change.new: new} if change.behind else {}, (), renamed)
            except BaseException:
                self.catalog.restored(before)
                raise
        self._rename(renamed)
        if not self._open:
            self._forget_unknown()
            self._hear([step])
        return 0

    def _edits_first(self) -> None:
        """In an open transaction: have what waits be a step before that of a definition."""
        if self._open:
            self._settle_edits()
            self._pending.clear()  # what came to nothing may be about a table that goes
            if self._db is None:
                self._engine()
