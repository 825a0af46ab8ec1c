"""A connection: statements in, rows and exact deltas out.

Life: made by `connect`; statements run one at a time, each its own transaction unless BEGIN opened
one; then `close`. Edits wait until something reads, or the transaction commits: then they are one
epoch of the engine. ROLLBACK forgets what waits and undoes the epochs since BEGIN. Invariants:
what is read is what the statements before it say; a statement that fails changes nothing;
subscribers hear of a transaction once, net, after its commit. Making or dropping a view edits the
engine's rules, for what the view derives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

from deltafix.doing import hearer, tell
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
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row
from deltafix.rules.ast import Program, RelationDecl
from deltafix.rules.show import show_rule
from deltafix.sql import durable, edits, reading
from deltafix.sql.again import remembered
from deltafix.sql.altering import ALTERS, Altered, altered
from deltafix.sql.builder import Builder, Relation
from deltafix.sql.catalog import Catalog, Key, Table, check_rules, created, require_made
from deltafix.sql.changes import Bag, Subscription, ViewDelta, view_delta
from deltafix.sql.cursor import Cursor
from deltafix.sql.integrity import (
    actions,
    is_sound,
    net,
    require_end,
    require_keys,
    require_references,
    require_sound,
)
from deltafix.sql.merging import merge
from deltafix.sql.parameters import Parameters, bound
from deltafix.sql.pending import Pending
from deltafix.sql.query import check_clauses, relation
from deltafix.sql.rows import Edit, among_given, checked, given, replaced
from deltafix.sql.scope import Scope
from deltafix.sql.text import DIALECTS, Statement, Wrong, exp
from deltafix.sql.types import TEXT, Column, SqlValue, decode_rows
from deltafix.sql.why import Reason, why, why_not

if TYPE_CHECKING:
    from deltafix.engine.transaction import Transaction
    from deltafix.sql.columns import Batch

__all__ = ["Connection"]


class Connection:
    """Made by `deltafix.sql.connect`. A context manager: commits, or rolls back on an error."""

    def __init__(self, path: str | Path, dialect: str, settings: Mapping[str, Any]) -> None:
        self.dialect = dialect
        self.catalog = Catalog()
        self._settings = dict(settings)
        self._db: Database | None = None
        self._held: set[str] = set()  # the tables that the engine knows
        self._stale = True
        self._made: list[Statement] = []  # what CREATEs made that the engine does not follow yet,
        self._before_made: Catalog | None = None  # and the catalog before them
        self.commits = 0
        """How many transactions with changes are final; an interrupt may come right behind one."""
        self._open = False
        self._closed = False
        self._pending = Pending()
        self._journal: list[Edit] = []
        self._epochs: list[Delta] = []
        self._undoing: int | None = None  # the engine's epoch before the last of these is undone
        self._last: list[Delta | Mapping[str, Bag]] = []
        self._subscriptions: list[Subscription] = []
        self._watchers: list[Callable[[list[ViewDelta]], object]] = []
        self._untold: list[Any] = []  # who is to hear what: a subscription or watcher, and epochs
        self._path = path
        self._durable = str(path) != ":memory:"
        if self._durable:
            self._engine()

    # --- statements ----------------------------------------------------------------------------

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
        """Run one statement for each row of parameters."""
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
        statement, found = self._edited("INSERT INTO", table)
        with _Transaction(self, statement):
            return self._edit(statement, given(statement, found, rows, columns))

    def replace(self, table: str, rows: Any) -> int:
        """Make these the rows of a table, given as to `insert`; returns how many differ.

        Only rows that differ are deleted and inserted, so views follow by the difference. Reads the
        table once; O(its rows + the new ones).

        Raises:
            SqlProgrammingError, SqlDataError, SqlIntegrityError: as `insert`; nothing has changed.
        """
        statement, found = self._edited("REPLACE", table)
        with _Transaction(self, statement):
            there = self.rows_of(found.relation.name)
            return self._edit(statement, replaced(statement, found, rows, there))

    def _edited(self, verb: str, table: str) -> tuple[Statement, Table]:
        """A table that is edited without a statement, and one for errors."""
        self._require_open()
        text = f"{verb} {table}"
        statement = Statement(text, 0, len(text), exp.Null(), explain="")
        found = self.catalog.tables.get(table)
        if found is None:
            raise statement.unknown("table", table, list(self.catalog.tables), None)
        return statement, found

    def run(
        self, sql: str, parameters: Parameters, path: str | None, wrong: Wrong | None = None
    ) -> Iterator[Any]:
        """The result of each statement of a text: a `reading.Result`, or a number of rows.

        `wrong` is told of a statement's error, and the next one follows; without it, it is raised.
        """
        self._require_open()
        try:
            for statement in remembered(sql, self.dialect, path, wrong):
                if hearer() is not None:  # a script's INSERT may be a megabyte of words
                    tell(" ".join(statement.sql.split()))
                node = statement.node
                if not isinstance(node, exp.Create) or node.args.get("replace"):
                    self._follow_made(wrong)
                try:
                    with bound(statement, parameters) as one:
                        result = self._run(one)
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
        self._require_open()
        (statement,) = remembered(sql, self.dialect)
        total = 0
        with _Transaction(self, statement):
            for row in rows:
                with bound(statement, row) as one:
                    result = self._one(one)
                total += result if isinstance(result, int) else 0
        self._follow_made(None)
        return total

    def _run(self, statement: Statement) -> Any:
        node = statement.node
        if isinstance(node, exp.Transaction | exp.Commit | exp.Rollback):
            return self._control(statement)
        with _Transaction(self, statement):
            return self._one(statement)

    def _one(self, statement: Statement) -> Any:
        if statement.explain:
            return self._explain(statement)
        node = statement.node
        if isinstance(node, exp.Insert | exp.Update | exp.Delete):
            edit = edits.edit_of(self, statement)
            count, shown = self._edit(statement, edit), node.args.get("returning")
            return count if shown is None else edits.returned(statement, edit, shown)
        if isinstance(node, exp.Merge):
            return self._edit(statement, merge(self, statement, node))
        for kind, method in _STATEMENTS.items():
            if isinstance(node, kind):
                return method(self, statement, node)
        if isinstance(node, exp.Query | exp.Values):
            return reading.select(self, statement, node)
        if statement.verb.startswith("ALTER"):
            raise statement.refused(f"{statement.verb} like this", node, ALTERS)
        way_out = (
            "statements are CREATE TABLE, CREATE MATERIALIZED VIEW, ALTER TABLE, DROP, INSERT, "
            "UPDATE, DELETE, TRUNCATE, MERGE, SELECT, EXPLAIN, BEGIN, COMMIT, ROLLBACK"
        )
        raise statement.refused(f"the statement {statement.verb}", node, way_out)

    # --- transactions --------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Whether BEGIN opened a transaction."""
        return self._open

    def begin(self) -> None:
        """Open a transaction: until `commit`, nothing is told to subscribers."""
        self._require_open()
        if self._open:
            raise SqlOperationalError("a transaction is open already; COMMIT or ROLLBACK it first")
        self._open = True

    def commit(self) -> None:
        """Make the changes since BEGIN final, and tell subscribers. Without BEGIN a no-op."""
        self._require_open()
        try:
            self._settle_edits(last=True)
            if self._journal:  # else what changed last is what changed last
                self._end_epochs()
            self._open = False
        except KeyboardInterrupt:
            self.rollback()
            raise

    def _end_epochs(self) -> None:
        """They are final: forget how they are undone, and tell of them."""
        self._open = False
        self._journal.clear()
        last: list[Delta | Mapping[str, Bag]] = [*self._epochs]
        untold = self._untold_with(last)
        commits = self.commits + 1  # an interrupt finds all of it done, or nothing
        self._last, self._epochs, self._untold, self.commits = last, [], untold, commits
        self._tell()

    def _untold_with(self, last: list[Delta | Mapping[str, Bag]]) -> list[Any]:
        hearing = (*self._subscriptions, *self._watchers)
        return [*self._untold, *((one, last) for one in hearing)]

    def _tell(self) -> None:
        """Tell of each transaction those who were not told of it, in their order."""
        while self._untold:
            one, last = self._untold[0]
            if isinstance(one, Subscription):
                tell: Callable[[Any], object] = one.tell
                told: Any = view_delta(self.catalog.relations[one.view], last)
                is_news = bool(told)
            else:
                tell, is_news = one, True
                relations = self.catalog.relations.values()
                told = [delta for there in relations if (delta := view_delta(there, last))]
            self._untold = self._untold[1:]  # an interrupt leaves the others to a rollback
            if is_news:
                tell(told)

    def rollback(self) -> None:
        """Undo the changes since BEGIN. Without BEGIN a no-op.

        After an interrupt that came behind the commit in a state folder, they stay, and are told.
        """
        self._require_open()
        interrupt = None
        while True:
            try:
                self._roll_back()
            except KeyboardInterrupt as error:  # a second Ctrl-C: half of it would be neither
                interrupt = error
            else:
                break
        if interrupt is not None:
            raise interrupt

    def _roll_back(self) -> None:
        """One go at it: whatever was done before is not done again."""
        self._journal.clear()
        self._pending.clear()
        if self._db is not None:
            self._db._abandon()
        if self._is_final:
            self._end_epochs()
        while self._epochs:
            delta, db = self._epochs[-1], self._engine()
            if self._undoing is None:
                self._undoing = db.epoch
            if db.epoch == self._undoing:
                with db.transaction() as tx:
                    for name in self.catalog.tables.keys() & set(delta):
                        tx.delete(name, delta[name].added)
                        tx.insert(name, delta[name].removed)
                    self._forget_undo(tx, len(self._epochs) - 1)
            self._epochs, self._undoing = self._epochs[:-1], None
        self._open = False
        self._tell()

    def _control(self, statement: Statement) -> int:
        node = statement.node
        check_clauses(Builder(statement, "", {}), node, ())
        if isinstance(node, exp.Transaction):
            if self._open:
                raise statement.operational("a transaction is open already", "COMMIT it first")
            self.begin()
            return 0
        if not self._open:
            raise statement.operational("no transaction is open", "BEGIN opens one")
        if isinstance(node, exp.Commit):
            with self.mapped(statement):
                self.commit()
        else:
            self.rollback()
        return 0

    @property
    def _is_final(self) -> bool:
        """Whether the folder has committed the epochs: a kill could cut undoing them in two."""
        if not (self._durable and self._epochs) or self._undoing is not None:
            return False
        db: Any = self._engine()
        return f"{durable.UNDO}0" not in db.marks

    def _undo(self, mark: int) -> None:
        """Take back edits from a point on, where they are noted; the engine's are the caller's."""
        try:
            while len(self._journal) > mark:
                self._pending.take_back(self._journal.pop())
        except BaseException:
            self.rollback()
            raise

    # --- edits ---------------------------------------------------------------------------------

    def _edit(self, statement: Statement, edit: Edit) -> int:
        """Make an edit, and those that follow from it; `_Transaction` undoes what is refused."""
        try:
            return self._make_all(statement, edit)
        except SqlError:
            raise
        except BaseException:
            self.rollback()  # an interrupt may leave half of a row's edit behind
            raise

    def _truncate(self, statement: Statement, node: exp.TruncateTable) -> int:
        found = edits.truncate(self, statement, node)
        try:
            for edit in found:
                self._make(statement, edit)
        except SqlError:
            raise
        except BaseException:
            self.rollback()  # as above
            raise
        return sum(len(edit.removed) for edit in found)

    def _make_all(self, statement: Statement, edit: Edit) -> int:
        table, removed, added, replaced, _ = edit
        if not isinstance(added, list):
            if self._take_batch(table, added):
                self._journal.append(edit)
                return len(added)
            added = list(added)  # by row, which names the one that breaks a key
            edit = Edit(table, removed, added, replaced)
        made = [edit]
        with among_given(edit, edit):
            self._make(statement, edit)
        chains = [0]  # how many edits of keys in a row each is the end of
        for cause, chain in zip(made, chains, strict=True):  # which grow
            require_end(statement, cause, chain)
            for action in actions(self, statement, cause, made):
                with among_given(action, edit):
                    self._make(statement, checked(statement, action))
                made.append(action)
                chains.append(chain + 1 if action.replaced else 0)
        for one in net(made):
            with among_given(one, edit):
                require_references(self, statement, one)
        return len(removed) + len(added) - len(replaced)

    def _make(self, statement: Statement, edit: Edit) -> None:
        """Note the rows that an edit removes and adds. Raises SqlIntegrityError: none are."""
        table, removed, added, *_ = edit
        self._pending.add(table, removed, ())
        try:
            require_keys(self, statement, table, added)
        except SqlError:
            self._pending.add(table, (), removed)
            raise
        self._pending.add(table, (), added)
        self._journal.append(edit)

    def _take_batch(self, table: Table, batch: Batch) -> bool:
        """Let many rows wait by column; False, and nothing, where one would break a key."""
        name = table.relation.name
        if any(map(self._pending.waits, (name, *(one.table for one in table.foreign)))):
            self._settle_edits()
        if not is_sound(self._engine(), self.catalog, table, batch):
            return False
        self._pending.add_batch(batch)
        return True

    def rows_with(
        self, table: Table, key: Key, values: Iterable[tuple[Any, ...]]
    ) -> dict[tuple[Any, ...], Row]:
        """The rows that have these values of a key, by value; edits that wait are included.

        O(values), or one pass over the table where they are many.
        """
        if self._pending.by_column(table.relation.name):
            self._settle_edits()
        edited, found, asked = self._pending.keyed(table, key), dict[tuple[Any, ...], Row](), []
        for value in values:
            if value not in edited:
                asked.append(value)
            elif (row := edited[value]) is not None and None not in value:
                found[value] = row
        name = table.relation.name
        if asked and self._db is not None and name in self._held and self._engine().count(name):
            sure = (value for value in asked if None not in value)
            names = [table.relation.columns[place].name for place in key.places]
            found.update((key.of(row), row) for row in self._engine().semijoin(name, names, sure))
        return found

    def rows_at(
        self, table: Table, places: Sequence[int], values: Collection[tuple[Any, ...]]
    ) -> list[Row]:
        """The rows that have one of these values at some places; edits that wait are included.

        O(values + rows found) where the places are a key's, of this table or of one that it refers
        to; or one pass over the table where they are many.
        """
        name = table.relation.name
        waiting = self._pending.few(name)
        if waiting is None:
            self._settle_edits()
            waiting = {}
        found: list[Row] = []
        if self._db is not None and name in self._held:
            names = [table.relation.columns[place].name for place in places]
            found = self._engine().semijoin(name, names, values)
        if waiting:
            found = [row for row in found if row not in waiting]
            for row, sign in waiting.items():
                if sign > 0 and tuple([row[place] for place in places]) in values:
                    found.append(row)
        return found

    def _settle_edits(self, *, last: bool = False) -> None:
        """Make the waiting edits one epoch. On an error the whole transaction is rolled back.

        A state folder keeps the way back with each epoch but the `last` of the transaction, whose
        record commits them all.
        """
        if not (self._pending or (last and self._durable and self._epochs)):
            return
        tx = None
        try:
            with self._engine().transaction() as tx:
                self._pending.apply(tx)
                if last:
                    self._forget_undo(tx, 0)
                elif self._durable:
                    note: Any = tx
                    come = durable.written(self._pending.rows())
                    note.mark(f"{durable.UNDO}{len(self._epochs)}", come)
            self._epochs.append(tx.delta)
            self._pending.clear()
        except BaseException:
            stood = None if tx is None or not tx.is_committed else tx.delta
            if stood is not None and all(one is not stood for one in self._epochs):
                self._epochs.append(stood)  # an interrupt may come when the epoch stands
            self.rollback()
            raise

    def _forget_undo(self, tx: Any, start: int) -> None:
        """Take the marks away that say how an open transaction is undone, from an epoch on."""
        for number in range(start, len(self._epochs) if self._durable else 0):
            tx.mark(f"{durable.UNDO}{number}", None)

    # --- definitions ---------------------------------------------------------------------------

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

    def _forget_made(self) -> None:
        """Let what the engine does not follow yet not have been made."""
        if self._before_made is not None:
            self.catalog.restored(self._before_made)
            self._made, self._before_made = [], None

    def _forget_unknown(self) -> None:
        """End the subscriptions to what there is no more."""
        there = self.catalog.relations
        self._subscriptions = [one for one in self._subscriptions if one.view in there]

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
        new = change.rows(old)
        require_sound(self, statement, change.required, new)
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

    def _require_no_edits(self, statement: Statement) -> None:
        if self._open and self._journal:
            message = "a definition inside a transaction with edits"
            raise statement.operational(message, "COMMIT first: a definition cannot be undone")
        self._settle_edits(last=True)
        self._epochs.clear()  # of edits that were refused: they come to nothing

    # --- the engine ----------------------------------------------------------------------------

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

    def rows_of(self, name: str) -> list[Row]:
        """The engine's rows of a table or view, as they are for the next statement."""
        self._settle_edits()
        return self._engine().rows(name)

    def lookup(self, found: Relation, fixed: Mapping[int, Any]) -> Iterable[Row]:
        """The engine's rows with these values: by a key in O(1), else by a pattern."""
        table = self.catalog.tables.get(found.name)
        for key in table.keys if table is not None else ():
            if table is not None and all(place in fixed for place in key.places):
                return self.rows_with(table, key, [tuple(fixed[n] for n in key.places)]).values()
        self._settle_edits()
        if not fixed:
            return self._engine().rows(found.name)
        width = len(found.all_columns)
        return self._engine().select(found.name, [fixed.get(place, ...) for place in range(width)])

    @property
    def engine(self) -> Database:
        """The engine's database, for its figures and invariants; do not edit through it."""
        self._settle_edits()
        return self._engine()

    # --- results -------------------------------------------------------------------------------

    def _explain(self, statement: Statement) -> reading.Result:
        node = statement.node
        if statement.explain != "EXPLAIN":
            is_there = statement.explain == "EXPLAIN WHY"
            found = why(self, statement) if is_there else why_not(self, statement)
            shown = [line for part in found for line in str(part).split("\n")]
            if not shown:
                shown = ["there is no such row; EXPLAIN WHY NOT says what keeps a row out"]
            return reading.Result(
                (Column("why", TEXT, nullable=False),), [(line,) for line in shown]
            )
        query = node.args.get("expression") if isinstance(node, exp.Create) else node
        if not isinstance(query, exp.Query):
            raise statement.refused("EXPLAIN of this", node, "EXPLAIN a SELECT or a CREATE VIEW")
        builder = Builder(statement, "view", self.catalog.relations)
        relation(builder, query, Scope(statement), "view")
        check_rules(statement, builder, self.catalog)
        lines: list[tuple[SqlValue, ...]] = [(show_rule(rule),) for rule in builder.rules]
        return reading.Result((Column("rule", TEXT, nullable=False),), lines)

    def why(self, query: str, parameters: Parameters = ()) -> list[Reason]:
        """A proof for each row of a query, `SELECT * FROM view WHERE ...`; as EXPLAIN WHY.

        Raises SqlRefusedError for a query of more than one table or view.
        """
        self._require_open()
        (statement,) = remembered(query, self.dialect)
        with bound(statement, parameters) as one, self.mapped(one):
            return list(why(self, one))

    def delta(self, view: str) -> ViewDelta:
        """What the last committed transaction changed in a view or table."""
        return view_delta(self._relation(view), self._last)

    def subscribe(
        self, view: str, callback: Callable[[ViewDelta], object] | None = None
    ) -> Subscription:
        """Hear of every later transaction that changes a view or table, after its commit."""
        self._relation(view)
        found = Subscription(self, view, callback)
        self._subscriptions.append(found)
        return found

    def watch(self, callback: Callable[[list[ViewDelta]], object]) -> Callable[[], None]:
        """Hear of every later transaction, after its commit: what changed in all tables and views.

        Those made later are among them. Returns what ends it. O(rows changed) for each.
        """
        self._watchers.append(callback)

        def close() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return close

    def forget(self, subscription: Subscription) -> None:
        """End a subscription. Idempotent."""
        self._subscriptions = [one for one in self._subscriptions if one is not subscription]

    def _relation(self, name: str) -> Relation:
        known = self.catalog.relations
        if name not in known:
            statement = Statement(name, 0, len(name), exp.Null(), explain="")
            raise statement.unknown("view", name, list(known), None)
        return known[name]

    # --- life ----------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise SqlOperationalError("the connection is closed")

    def close(self) -> None:
        """Roll an open transaction back, and give the folder back or forget all. Idempotent."""
        if not self._closed and self._db is not None:
            try:
                if self._durable and self._epochs:
                    self.rollback()
            finally:
                self._db.close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._closed:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()


class _Transaction:
    """The statement inside is a transaction of its own, or a part of the open one, undone alone.

    Errors of computing a value are errors of SQL, as by `mapped`. A class: each generator of a
    context manager was a twentieth of an INSERT.
    """

    __slots__ = ("_alone", "_connection", "_mark", "_statement")

    def __init__(self, connection: Connection, statement: Statement) -> None:
        self._connection, self._statement = connection, statement
        self._alone, self._mark = not connection._open, len(connection._journal)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error is not None:
            self._fail(error)
        elif self._alone:
            try:
                self._connection.commit()
            except BaseException as failed:
                self._fail(failed)
                raise

    def _fail(self, error: BaseException) -> None:
        connection = self._connection
        if self._alone:
            connection.rollback()
        elif len(connection._journal) > self._mark:
            connection._undo(self._mark)
        said = connection._said(self._statement, error)
        if said is not None:
            raise said from error


_STATEMENTS: Mapping[Any, Callable[[Connection, Statement, Any], Any]] = MappingProxyType(
    {
        exp.Alter: Connection._alter,
        exp.Create: Connection._create,
        exp.Drop: Connection._drop,
        exp.TruncateTable: Connection._truncate,
    }
)


def open_connection(path: str | Path, dialect: str, settings: Mapping[str, Any]) -> Connection:
    """See `deltafix.sql.connect`."""
    if dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}; one of {', '.join(DIALECTS)}")
    return Connection(path, dialect, settings)
