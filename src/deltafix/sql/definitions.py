"""Definitions: CREATE, DROP and ALTER, and the engine that follows them.

Making or dropping a view edits the engine's rules, for what the view derives; ALTER TABLE has a
table go and come again. Invariants: a definition that fails leaves catalog and engine as they were;
what becomes of the catalog is decided by `sql.catalog` and `sql.altering`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from deltafix.errors import SqlError
from deltafix.sql import durable
from deltafix.sql.altering import Altered, altered
from deltafix.sql.builder import Builder
from deltafix.sql.catalog import Catalog, require_made
from deltafix.sql.changes import Bag
from deltafix.sql.editing import Editing
from deltafix.sql.integrity import require_sound
from deltafix.sql.query import check_clauses
from deltafix.sql.text import Statement, Wrong, exp
from deltafix.sql.types import SqlValue, decode_rows

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.facts.delta import Delta
    from deltafix.rules.ast import RelationDecl


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
            raise statement.wrong(message, named, "DROP it first, or choose another name")
        self._require_no_edits(statement)
        if self._durable:
            durable.check(statement, self.dialect)
        if replaces:
            self._replace(statement)
            return 0
        before = self.catalog.copy()
        try:
            self.catalog.define(statement, self.dialect)
        except BaseException:
            self.catalog.restored(before)
            raise
        self._stale = True
        if self._db is not None:
            self._made.append(statement)
            if self._before_made is None:
                self._before_made = before
        return 0

    def _follow_made(self, wrong: Wrong | None) -> None:
        """Have the engine follow the tables and views that CREATEs in a row have made.

        All at once, since it looks at every rule each time; where that fails one after another, so
        that the error is that of a statement, and those before it stand.
        """
        made = list(self._made)
        if not made:
            return
        try:
            with self.mapped(made[0]):
                self._engine()
        except Exception as error:
            if len(made) > 1:
                self._make_again(made, wrong)
            elif wrong is None or not isinstance(error, SqlError):
                raise
            else:
                wrong(error, made[0].sql)

    def _make_again(self, made: Sequence[Statement], wrong: Wrong | None) -> None:
        """Run CREATEs one after another, each followed; what listened to one that fails is gone."""
        try:
            for statement in made:
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
            changed = self.catalog.replace(statement, self.dialect)
            self._stale = True
            if self._db is None:
                return
            with self.mapped(statement):
                self._last = [self._changed(self._db, before, changed)]
        except BaseException:
            self.catalog.restored(before)
            self._stale = True
            raise
        self._untold = self._untold_with(self._last)
        self._tell()

    def _changed(
        self, db: Database, before: Catalog, changed: Sequence[str]
    ) -> Delta | Mapping[str, Bag]:
        """Follow a catalog in which views are others than before, and say what that changes."""

        def shape(catalog: Catalog, name: str) -> tuple[RelationDecl, list[str]]:
            relation = catalog.views[name].relation
            return relation.declaration, [column.type.code for column in relation.columns]

        if all(shape(before, one) == shape(self.catalog, one) for one in changed):
            return self._follow(db).delta
        # Rows of other columns, or that mean other values: those before go, and the engine forgets
        # their relations.
        found = {one: Counter[tuple[SqlValue, ...]]() for one in self.catalog.views}
        for one, bag in found.items():
            bag.subtract(decode_rows(db.rows(one), before.views[one].relation.columns))
        after, self.catalog.views = (
            self.catalog.views,
            {one: view for one, view in before.views.items() if one not in changed},
        )
        try:
            self._follow(db)
            self.catalog.views = after
            db.compact()
            self._follow(db)
        except BaseException:
            self.catalog.restored(before)
            db.compact()
            self._follow(db)
            raise
        for one, bag in found.items():
            bag.update(decode_rows(db.rows(one), after[one].relation.columns))
        return found

    def _drop(self, statement: Statement, node: exp.Drop) -> int:
        known = ("tables", "kind", "exists", "materialized")
        check_clauses(Builder(statement, "", {}), node, known)
        for table in node.args["tables"]:
            name = table.name
            there = self.catalog.tables if node.args["kind"] == "TABLE" else self.catalog.views
            if name not in there:
                if node.args.get("exists"):
                    continue
                raise statement.unknown(node.args["kind"].lower(), name, list(there), table)
            readers = self.catalog.readers(name)
            if readers:
                message = f"{name} is read by {', '.join(readers)}"
                raise statement.wrong(message, table, f"DROP VIEW {readers[-1]} first")
            tables = {one.relation.name for one, _ in self.catalog.referring(name)} - {name}
            if tables:
                message = f"{name} is referred to by {', '.join(sorted(tables))}"
                raise statement.wrong(message, table, f"DROP TABLE {min(tables)} first")
            self._require_no_edits(statement)
            before: dict[str, Any] = dict(there)
            defined = dict(self.catalog.definitions)
            del there[name], self.catalog.definitions[name]
            self._stale = True
            try:
                if self._db is not None:
                    with self.mapped(statement):
                        self._engine()
            except BaseException:
                there.clear()
                there.update(before)
                self.catalog.definitions = defined
                raise
            self._forget_unknown()
        return 0

    def _alter(self, statement: Statement, node: exp.Alter) -> int:
        self._require_no_edits(statement)
        change = altered(self.catalog, statement, node)
        if change is None:
            return 0
        if self._db is None:
            self.catalog.restored(change.after)
            self._stale = True
        else:
            with self.mapped(statement):
                self._change_table(self._engine(), statement, change)
        self._last = []
        self._forget_unknown()
        return 0

    def _change_table(self, db: Database, statement: Statement, change: Altered) -> None:
        """Have the engine a table of other columns, by way of none of that name.

        A state folder notes the rows meanwhile, and what is to become of them.
        """
        old = db.rows(change.old)
        new = change.rows(old, partial(require_sound, self, statement))
        if not change.behind:
            self.catalog.restored(change.after)
            try:
                self._follow(db)
            except BaseException:
                self.catalog.restored(change.before)
                self._stale = True
                raise
            return
        try:
            self._replace_table(db, change, change.after, {change.new: new})
        except BaseException:
            while True:
                try:
                    self._replace_table(db, change, change.before, {change.old: old})
                except KeyboardInterrupt:  # a second Ctrl-C: the rows are to be somewhere
                    continue
                break
            raise

    def _require_no_edits(self, statement: Statement) -> None:
        if self._open and self._journal:
            message = "a definition inside a transaction with edits"
            raise statement.operational(message, "COMMIT first: a definition cannot be undone")
        self._settle_edits(last=True)
        self._epochs.clear()  # of edits that were refused: they come to nothing
