"""The engine under a connection: it has the rules of the catalog as soon as somebody reads.

A catalog that has changed makes the engine `stale`; the next look at it edits its rules, for what
the views derive. What CREATEs in a row have made waits until then. Invariants: the engine has every
table and view of the catalog whenever `_engine` gives it; an edit that is refused leaves both as
they were. Rows and transactions are `sql.transactions`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from deltafix.engine.connect import connect as connect_engine
from deltafix.engine.database import Database
from deltafix.errors import (
    BudgetError,
    EndlessDataError,
    FactError,
    FunctorError,
    LimitError,
    SqlError,
    SqlOperationalError,
    SqlProgrammingError,
    StateError,
)
from deltafix.sql import durable
from deltafix.sql.catalog import Catalog
from deltafix.sql.changes import Change
from deltafix.sql.steps import NOTHING, Step, as_changes, defined
from deltafix.sql.text import TOO_DEEP, exp
from deltafix.sql.types import as_sql, decode

if TYPE_CHECKING:
    from deltafix.engine.transaction import Transaction
    from deltafix.facts.schema import Row
    from deltafix.rules.ast import Program, RelationDecl
    from deltafix.sql.builder import Relation
    from deltafix.sql.reading import Asked
    from deltafix.sql.text import Statement


ABORTED: Final = "ROLLBACK ends it; it can be run again from BEGIN"
"""The way out of a transaction that an error has rolled back."""

BOUNDS: Final = ("max_rows", "max_rounds", "max_recursion", "timeout", "threads")
"""What bounds an epoch; SET sets them."""

MAX_RECURSION: Final = 10_000_000
"""The `max_recursion` of a connection: a counter gets there in some ten seconds and 400 MB."""


class Maintained:
    """A catalog, and the engine that keeps its views; `Connection` has the rest."""

    def __init__(self, path: str | Path, dialect: str, settings: Mapping[str, Any]) -> None:
        self.dialect = dialect
        self.catalog = Catalog()
        self.asked: dict[tuple[Any, ...], Asked] = {}  # queries by their text (`reading`)
        self._settings = {"max_recursion": MAX_RECURSION, **settings}
        self._db: Database | None = None
        self._known = Catalog()  # what the engine has
        self._stale = True
        self._made: list[Statement] = []  # what CREATEs made that the engine does not follow yet
        self._open = False
        self._aborted: str | None = None  # by what error the open transaction was
        self._steps: list[Step] = []  # of the open transaction
        self._closed = False
        self._path = path
        self._durable = str(path) != ":memory:"

    @property
    def bounds(self) -> dict[str, Any]:
        """What one epoch may take, by its settings; a SELECT may take as much."""
        return {name: self._settings[name] for name in BOUNDS if name in self._settings}

    def set_bound(self, name: str, value: Any) -> None:
        """Set one of `BOUNDS` for the epochs that follow."""
        self._settings[name] = value
        if self._db is not None:
            self._db.bound(replace(self._db.budget, **{name: value}))

    def _engine(self) -> Database:
        """The engine with the rules of now."""
        if self._db is None:
            functions = self.catalog.functions()

            def program_of(marks: Mapping[str, Any]) -> Program:
                if durable.CATALOG in marks:
                    mark = marks[durable.CATALOG]
                    self.catalog.restored(durable.catalog_of(mark, self.catalog))
                self._known = self.catalog.without(marks.get(durable.WITHOUT, ()))
                functions.update(self._known.functions())
                return self._program(self._known)

            try:
                self._db = connect_engine(
                    program_of,
                    self._path,
                    functors=functions,
                    reducers=self.catalog.reducers,
                    **self._settings,
                )
            except StateError as error:
                if "differences" not in error.values or self.catalog.definitions:
                    raise
                message = f"{self._path} is a state of rules, and not of SQL: "
                message += f"deltafix.connect(PROGRAM, {str(self._path)!r}) opens it"
                raise StateError(message, **error.values) from None
            if self._durable:
                self._recover(self._db)
            self._db.settle()  # what holds without rows is there before them, in no delta
            self._stale = False
        elif self._stale:
            self._define(self._db)
        return self._db

    def _program(self, catalog: Catalog) -> Program:
        """The program of a catalog; for a state folder it says what its functions follow from."""
        program = catalog.program()
        if not self._durable:
            return program
        from deltafix.sql.program import maker  # noqa: PLC0415  it reads all of deltafix

        source = json.dumps([maker(), durable.catalog_mark(catalog)])
        return replace(program, made_by=hashlib.sha256(source.encode()).hexdigest())

    def _recover(self, db: Any) -> None:
        """Take back what a process left that ended in a transaction; end its definition first."""
        if durable.WITHOUT in db.marks or durable.REMADE in db.marks:
            rows = durable.rows_of(db.marks.get(durable.REMADE, {}))
            self._reach(db, self.catalog.copy(), rows)
        with db.unbounded():
            for mark in durable.left(db.marks):
                step = db.marks[mark]
                if isinstance(step, list):
                    before = durable.catalog_of(step[0], self.catalog)
                    self._reach(db, before, durable.rows_of(step[1]), done=mark)
                else:
                    durable.take_back(db, mark)
        durable.count_on(db, self.catalog)

    def _define(
        self,
        db: Database,
        rows: Mapping[str, list[Row]] = MappingProxyType({}),
        among: Collection[str] = (),
        renamed: Mapping[str, str] = MappingProxyType({}),
    ) -> Step:
        """Have the engine follow the catalog, as a step of the open transaction if there is one.

        `rows` are those of tables that are made anew, some of them `renamed`: new names by old
        ones. `among` are the views that may have other rows then. Returns what is to be told of
        it, outside BEGIN. Where it fails all is as before. Alone and without either it costs what
        the rules derive, else all rows that go and come, too.
        """
        before, after, count = self._known, self.catalog.copy(), len(self._steps)
        was, now = before.relations, after.relations
        changing = {*rows, *among, *(was.keys() ^ now.keys() if self._open else ())} - {*renamed}
        lost = [name for name in before.tables if name in rows or name not in now]
        if not self._open and not changing:
            lost = []  # one epoch, which stands or does not
        old = {name: db.rows(name) for name in {*lost, *(changing & was.keys())}}
        step = Step(catalog=before, rows={name: old[name] for name in lost}, renamed=renamed)
        called = {new: name for name, new in renamed.items()}
        try:
            mark = ""
            if self._open:
                self._steps, mark = [*self._steps, step], f"{durable.UNDO}{count}"
            tx = self._reach(db, after, rows, mark=mark, step=step)
            changes: Mapping[str, Change] = {
                name: Change(
                    old.get(earlier, ()),
                    was[earlier].columns if earlier in was else (),
                    db.rows(name) if name in now else (),
                    now[name].columns if name in now else (),
                )
                for name, earlier in ((name, called.get(name, name)) for name in changing)
            }
            if not self._open:
                return Step(changed=changes) if changing or tx is None else Step(tx)
            changes = {**as_changes(None if tx is None else tx.delta, now), **changes}
            self._steps = defined(self._steps, changes, after)
        except BaseException:
            self._undefine(db, step, count)
            raise
        return NOTHING

    def _undefine(self, db: Database, step: Step, count: int) -> None:
        """Let a definition not have been, of which a part may be done; no Ctrl-C stops that."""
        before, interrupt = step.catalog or self._known, None
        while self._known is not before or self._steps[count:]:
            try:
                if self._known is not before:
                    with db.unbounded():
                        self._reach(db, before, step.rows, done=f"{durable.UNDO}{count}")
                self._steps = self._steps[:count]
            except KeyboardInterrupt as error:
                interrupt = error
        self._forget_made()
        if interrupt is not None:
            raise interrupt

    def _reach(
        self,
        db: Database,
        catalog: Catalog,
        rows: Mapping[str, list[Row]] = MappingProxyType({}),
        *,
        mark: str = "",
        step: Step = NOTHING,
        done: str = "",
    ) -> Transaction | None:
        """Have the engine a catalog in which the tables of `rows` have these, and no others.

        What gets other columns goes first, with all that reads it, and comes again when the engine
        has forgotten the ones there were; a state folder notes the rows meanwhile. The first epoch
        notes as `mark` how a step is undone, the last one takes the mark `done` away. Doing this
        twice is doing it once. Returns the epoch where it was one.
        """
        marks: dict[str, Any] = {}
        if self._durable:
            marks = {durable.CATALOG: durable.catalog_mark(catalog), durable.WITHOUT: None}
            if rows:
                marks[durable.REMADE] = durable.rows_mark(rows)
            if mark and step.catalog is not None:
                marks[mark] = durable.definition_mark(step.catalog, step.rows)
        behind = changed_behind(self._known, catalog, rows)
        if behind:
            remaining = catalog.without({*behind, *rows})
            missing = sorted(catalog.relations.keys() - remaining.relations.keys())
            self._follow(db, remaining, {**marks, durable.WITHOUT: missing} if marks else {})
            db.compact()
        if done and not rows:
            marks[done] = None
        try:
            tx = self._follow(db, catalog, marks)
        except FactError:
            # A name that was dropped has come back with other columns, and the engine knows the
            # old ones: rebuilt from the rows there are, it does not.
            db.compact()
            tx = self._follow(db, catalog, marks)
        if rows:  # which were there
            with db.unbounded(), db.transaction() as refill:
                for name, some in rows.items():
                    refill.insert(name, some)
                self._note(refill, {durable.REMADE: None, **({done: None} if done else {})})
        self.catalog.restored(catalog)
        self._stale, self._made = False, []
        return None if behind or rows else tx

    def _follow(self, db: Database, catalog: Catalog, marks: Mapping[str, Any]) -> Transaction:
        """Edit the engine's rules, and take the rows of tables away that are there no more."""
        known, tx = self._known, None
        self._known = known.beside(catalog)  # an interrupt may come when it is either
        try:
            with db.transaction() as tx:
                for name in (known.tables.keys() - catalog.tables.keys()) & {*db.schemas}:
                    tx.delete(name, db.rows(name))
                tx.change_program(self._program(catalog), catalog.functions())
                self._note(tx, marks)
        except BaseException:
            if tx is None or not tx.is_committed:
                self._known = known
            raise
        self._known = catalog
        return tx

    def _note(self, tx: Any, marks: Mapping[str, Any]) -> None:
        """Set marks of a state folder."""
        for name, value in marks.items() if self._durable else ():
            tx.mark(name, value)

    def _forget_made(self) -> None:
        """Let what the engine does not follow yet not have been made."""
        if self._db is not None:
            self.catalog.restored(self._known)
            self._stale = False
        self._made = []

    @contextmanager
    def mapped(self, statement: Statement) -> Iterator[None]:
        """Errors of computing a value inside are errors of SQL; a view without end is named."""
        try:
            yield
        except (BudgetError, EndlessDataError, FunctorError, LimitError, RecursionError) as error:
            mapped = self._mapped(statement, error)
            if mapped is None:
                raise
            raise mapped from error

    def _mapped(self, statement: Statement, error: BaseException) -> Exception | None:
        """An error of the engine as one of SQL; None for any other, and for one that says it.

        What takes more of Python's stack than there is, to plan it or to compute it, is one, too.
        """
        if isinstance(error, BudgetError):
            relations: Any = error.values.get("relations", ())
            views = {*relations} & {*self.catalog.views}
            reason = str(error).partition(", in `")[0]
            way_out = "bound its recursion"
            if error.values.get("limit") == "max_recursion":
                more = 10 * self._settings["max_recursion"]
                way_out += f" by a WHERE in its step, or SET max_recursion = {more}"
            if not views and relations and not {*relations} & {*self.catalog.relations}:
                is_made = isinstance(statement.node, exp.Create)  # and is there no more
                where = f"view {relations[0]!r}" if is_made else "this query"
                return BudgetError(f"{reason}, in {where}; rolled back: {way_out}", relations=())
            if not views:
                return None
            view = min(views)
            message = f"{reason}, in view {view!r}; rolled back: {way_out}, or DROP VIEW {view}"
            return BudgetError(message, relations=relations)
        if isinstance(error, EndlessDataError):
            return self._endless(error)
        if isinstance(error, LimitError):
            subject, has, rest = str(error).partition(" has ")
            if not has or "." not in subject:  # a table of that name
                return statement.operational(str(error))
            way_out = (
                "a query of WITH is written out where it is read: make views of what is joined"
            )
            return statement.operational(f"a part of this statement has {rest}", way_out)
        cause = error.__cause__
        if isinstance(error, RecursionError) or (
            isinstance(error, FunctorError) and isinstance(cause, RecursionError)
        ):
            return statement.error(SqlProgrammingError, TOO_DEEP[0], None, TOO_DEEP[1])
        if (
            isinstance(error, FunctorError)
            and isinstance(cause, ArithmeticError | ValueError | None)
            and not isinstance(cause, SqlError)
        ):
            called, relations = error.values.get("functor"), error.values.get("relations", ())
            callers = (
                name
                for name, view in self.catalog.views.items()
                if called in view.builder.functions or name in relations
            )
            caller = next(callers, None)
            reason, _, way_out = str(cause or error).partition("; rolled back")  # of rules: one
            reason = reason if cause is not None else reason.rpartition(", in `")[0]
            reason = reason if caller is None else f"{reason}, in view {caller!r}"
            reason += way_out
            if caller is not None and isinstance(statement.node, exp.Commit):
                statement = self.catalog.views[caller].builder.statement  # COMMIT says no place
            if not self._open:
                return statement.data(f"{reason}; the transaction was rolled back")
            if self._aborted is not None:
                return statement.data(f"{reason}; the transaction was rolled back", None, ABORTED)
            return statement.data(reason)
        return None

    def _endless(self, error: EndlessDataError) -> EndlessDataError:
        """A key of USING KEY without a best value, in terms of SQL."""
        owners = {
            relation.name: (f"view {name!r}", relation)
            for name, view in self.catalog.views.items()
            for relation in view.builder.relations
        }
        owner, relation = owners.get(error.cycle[0][0], ("this query", None))
        rows = [list(row) for _, row in error.cycle]
        key = ""
        if relation is not None:
            rows = [[*map(decode, row, relation.columns)] for row in rows]
            columns = zip(relation.columns, rows[0][:-1], strict=False)
            key = " AND ".join(f"{column.name} = {as_sql(value)}" for column, value in columns)
        ways = ", from ".join(as_sql(row[-1]) for row in (rows[0], rows[-1]))
        message = (
            f"USING KEY in {owner} has no best value{' for ' * bool(key)}{key}: it is {ways} by "
            "way of itself, and so on without end; rolled back: leave out the rows on the way "
            "round, which make it better"
        )
        return EndlessDataError(message, error.cycle, relations=error.values["relations"])

    def _require_open(self) -> None:
        if self._closed:
            raise SqlOperationalError("the connection is closed")


def changed_behind(before: Catalog, after: Catalog, rows: Iterable[str] = ()) -> set[str]:
    """What has other columns in the next catalog, or is made anew with `rows`, and what reads it.

    Nothing where the engine has none of that yet.
    """
    was, now = before.relations, after.relations

    def shape(relation: Relation) -> tuple[RelationDecl, list[str]]:
        return relation.declaration, [column.type.code for column in relation.columns]

    changed = {name for name in was.keys() & now.keys() if shape(was[name]) != shape(now[name])}
    changed.update(rows)
    for catalog in (before, after):
        for name, view in catalog.views.items():
            if view.reads & changed:
                changed.add(name)
    return changed if changed & was.keys() else set()
