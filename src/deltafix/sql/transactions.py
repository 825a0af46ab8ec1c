"""Transactions of a connection: edits that wait, epochs of the engine, and who is told of them.

Edits wait until something reads, or the transaction commits: then they are one epoch of the engine.
ROLLBACK forgets what waits and undoes the steps since BEGIN, epochs and definitions (`sql.steps`).
What cannot be undone alone (the error of a view, which may come of any edit that waited; an
interrupt inside an edit) aborts a transaction that BEGIN opened: all of it is undone at once, and
every statement is refused until ROLLBACK or COMMIT ends it. Invariants: a statement that fails
changes nothing; nothing that follows BEGIN is committed without it; subscribers hear of a
transaction once, net, after its commit; an interrupt finds all of a commit done, or nothing. Which
rows an edit has is not known here.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from deltafix.errors import (
    FunctorError,
    SqlAbortedError,
    SqlOperationalError,
    SubscriberError,
)
from deltafix.facts.values import require_callback
from deltafix.sql import durable
from deltafix.sql.changes import Subscription, ViewDelta, view_delta
from deltafix.sql.maintained import ABORTED, Maintained
from deltafix.sql.pending import Pending
from deltafix.sql.steps import Step
from deltafix.sql.text import Statement, exp

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.sql.builder import Relation
    from deltafix.sql.rows import CodedEdit, Edit


_COMMIT: Final = Statement("COMMIT", 0, len("COMMIT"), exp.Commit(), explain="")
"""What errors of `commit` show."""


class Transactions(Maintained):
    """Edits since BEGIN, how they are undone, and subscriptions."""

    def __init__(self, path: str | Path, dialect: str, settings: Mapping[str, Any]) -> None:
        super().__init__(path, dialect, settings)
        self._turn = Turn()
        self.commits = 0
        """How many transactions with changes are final; an interrupt may come right behind one."""
        self._pending = Pending()
        self._journal: list[Edit | CodedEdit] = []
        self._undoing: int | None = None  # the engine's epoch before the last step is undone
        self._ending: int | None = None  # the engine's epoch before a COMMIT's
        self._last: list[Step] = []
        self._subscriptions: list[Subscription] = []
        self._watchers: list[Callable[[list[ViewDelta]], object]] = []
        self._untold: list[Any] = []  # who is to hear what: a subscription or watcher, and epochs
        if self._durable:
            self._engine()

    @property
    def in_transaction(self) -> bool:
        """Whether BEGIN opened a transaction, `aborted` or not."""
        return self._open

    @property
    def aborted(self) -> str | None:
        """What rolled the open transaction back, which is to be ended; None if nothing did."""
        return self._aborted

    def _require_sound(self, statement: Statement | None = None, so: str = "") -> None:
        """Refuse what comes in an aborted transaction. Raises SqlAbortedError."""
        if self._aborted is None:
            return
        message = f"{so}the transaction was rolled back by an error: {self._aborted}"
        way_out = "run it again from BEGIN" if so else ABORTED
        if statement is None:
            raise SqlAbortedError(f"{message}; {way_out}")
        raise statement.error(SqlAbortedError, message, None, way_out)

    def begin(self) -> None:
        """Open a transaction: until `commit`, nothing is told to subscribers."""
        with self._turn:
            self._require_open()
            self._require_sound()
            if self._open:
                message = "a transaction is open already; COMMIT or ROLLBACK it first"
                raise SqlOperationalError(message)
            self._open = True

    def commit(self) -> None:
        """Make the changes since BEGIN final, and tell subscribers. Without BEGIN a no-op.

        Raises SqlAbortedError for an `aborted` transaction, and the error of a view for edits that
        it cannot take; then nothing was committed, and the transaction has ended.
        """
        with self._turn:
            self._require_open()
            with self.mapped(_COMMIT):
                self._commit()

    def _commit(self, statement: Statement | None = None) -> None:
        try:
            if self._aborted is not None:
                try:
                    self._require_sound(statement, "nothing was committed: ")
                finally:
                    self.rollback()
            self._settle_edits(last=True)
            if self._journal or self._steps:  # else what changed last is what changed last
                self._end_steps()
            self._open = False
        except KeyboardInterrupt:
            self.rollback()
            raise

    def _end_steps(self) -> None:
        """They are final: forget how they are undone, and tell of them."""
        self._open = False
        self._journal.clear()
        if any(step.catalog is not None for step in self._steps):
            self._forget_unknown()
        self._hear(self._steps)

    def _hear(self, last: list[Step]) -> None:
        """Have something be what a transaction changed, and tell of it."""
        untold = self._untold_with(last)
        commits = self.commits + 1  # an interrupt finds all of it done, or nothing
        self._last, self._steps, self._untold, self.commits = last, [], untold, commits
        self._ending = None
        self._tell()

    def rollback(self) -> None:
        """Undo the changes since BEGIN. Without BEGIN a no-op.

        After an interrupt that came behind the commit in a state folder, they stay, and are told.
        """
        with self._turn:
            self._require_open()
            self._undo_all()

    def _abort(self, error: BaseException) -> None:
        """Undo the changes since BEGIN for an error; what BEGIN opened is to be ended by others."""
        if self._open and self._aborted is None:  # first of all, so that nothing is committed
            cause = error.__cause__ if isinstance(error, FunctorError) else None
            self._aborted = str(cause or error).partition("\n")[0] or "interrupted"
        self._undo_all(self._aborted)

    def _undo_all(self, aborted: str | None = None) -> None:
        interrupt = None
        while True:
            try:
                self._roll_back(aborted)
            except KeyboardInterrupt as error:  # a second Ctrl-C: half of it would be neither
                interrupt = error
            else:
                break
        if interrupt is not None:
            raise interrupt

    def _roll_back(self, aborted: str | None) -> None:
        """One go at it: whatever was done before is not done again."""
        self._journal.clear()
        self._pending.clear()
        if self._db is not None:
            self._db.abandon()
        if self._is_final:
            self._end_steps()
        if self._open:
            self._forget_made()
        while self._steps:
            db = self._engine()
            with db.unbounded():
                self._undo_step(db, self._steps[-1])
            self._steps, self._undoing = self._steps[:-1], None
        self._open, self._aborted, self._ending = aborted is not None, aborted, None
        self._forget_unknown()
        self._tell()

    def _undo_step(self, db: Database, step: Step) -> None:
        mark = f"{durable.UNDO}{len(self._steps) - 1}"
        if step.epoch is None:
            self._rename({new: old for old, new in step.renamed.items()})
            self._reach(db, step.catalog or self._known, step.rows, done=mark)
            return
        if self._undoing is None:
            self._undoing = db.epoch
        if db.epoch == self._undoing:
            with db.transaction() as tx:
                tx.take_back(step.epoch, self.catalog.tables.keys())
                self._note(tx, {mark: None})

    @property
    def _is_final(self) -> bool:
        """Whether the folder has committed the steps: a kill could cut undoing them in two."""
        if self._ending is None or not (self._durable and self._steps):
            return False
        return self._engine().epoch > self._ending

    def _undo(self, mark: int) -> None:
        """Take back edits from a point on, where they are noted; the engine's are the caller's."""
        try:
            while len(self._journal) > mark:
                self._pending.take_back(self._journal.pop())
        except BaseException as error:
            self._abort(error)
            raise

    def _settle_edits(self, *, last: bool = False) -> None:
        """Make the waiting edits one epoch. An error aborts the transaction, or ends the `last`.

        A state folder keeps the way back with each epoch but the `last` of the transaction, whose
        record commits them all.
        """
        if not (self._pending or (last and self._durable and self._steps)):
            return
        tx = None
        try:
            db = self._engine()
            marks: dict[str, Any] = {}
            steps = len(self._steps) if self._durable else 0
            if last:
                self._ending = db.epoch
                marks = {f"{durable.UNDO}{number}": None for number in range(steps)}
            elif self._durable:
                marks = {f"{durable.UNDO}{steps}": durable.written(self._pending.rows())}
            with db.transaction() as tx:
                self._pending.apply(db, tx)
                self._note(tx, marks)
            self._steps.append(Step(tx))
            self._pending.clear()
        except BaseException as error:
            stands = tx is not None and tx.is_committed
            if stands and all(step.epoch is not tx for step in self._steps):
                self._steps.append(Step(tx))  # an interrupt came when it stands
            if last:
                self.rollback()
            else:
                self._abort(error)
            raise

    def compact(self) -> None:
        """Give back what deletes and definitions left behind: rebuild from the tables' rows.

        See `Database.compact`: O(the tables and views), as loading them is; nobody hears of it, and
        a state folder has a new snapshot and an image. Raises SqlOperationalError within BEGIN, or
        when the connection is closed, and StateError where the folder cannot be written.
        """
        with self._turn:
            self._require_open()
            self._require_sound()
            if self._open:
                raise SqlOperationalError("a transaction is open; COMMIT or ROLLBACK it first")
            self._engine().compact()

    @property
    def engine(self) -> Database:
        """The engine's database, for its figures and invariants; do not edit through it."""
        self._settle_edits()
        return self._engine()

    def _untold_with(self, last: list[Step]) -> list[Any]:
        listeners = (*self._subscriptions, *self._watchers)
        return [*self._untold, *((listener, last) for listener in listeners)]

    def _tell(self) -> None:
        """Tell of each transaction those who were not told of it, in their order.

        Raises SubscriberError for what one of them raised, when all were told.
        """
        failures: list[tuple[str, Exception]] = []
        while self._untold:
            listener, last = self._untold[0]
            if isinstance(listener, Subscription):
                tell: Callable[[Any], object] = listener.tell
                relation = self.catalog.relation(listener.view)  # None: it is gone meanwhile
                news: Any = (
                    () if relation is None else view_delta(relation, [step.news for step in last])
                )
            else:
                tell = listener
                relations = self.catalog.relations.values()
                heard = [step.news for step in last]
                news = [delta for view in relations if (delta := view_delta(view, heard))]
            if not news:
                self._untold.pop(0)
                continue
            try:
                # One line: an interrupt finds it told, or leaves it to a rollback with the others.
                tell((self._untold.pop(0), news)[1])
            except Exception as error:  # others must hear of it all the same
                of = listener.view if isinstance(listener, Subscription) else "the database"
                failures.append((of, error))
        if failures:
            of, reason = failures[0]
            raise SubscriberError(of, reason, "the transaction") from reason

    def delta(self, view: str) -> ViewDelta:
        """What the last committed transaction changed in a view or table.

        A CREATE is one, and changes no row that was there.
        """
        return view_delta(self._relation(view), [step.news for step in self._last])

    def subscribe(
        self, view: str, callback: Callable[[ViewDelta], object] | None = None
    ) -> Subscription:
        """Hear of every later transaction that changes a view or table, after its commit.

        What a callback raises comes to who committed as SubscriberError, when all were told. It
        goes on where a table is renamed, under the new name, and ends where one is dropped.
        """
        self._relation(view)
        if callback is not None:
            require_callback(callback, "a ViewDelta")
        subscription = Subscription(self, view, callback)
        self._subscriptions.append(subscription)
        return subscription

    def watch(self, callback: Callable[[list[ViewDelta]], object]) -> Callable[[], None]:
        """Hear of later transactions, after their commit: what changed in all tables and views.

        Those made later are among them. Returns what ends it. O(rows changed) for each.
        """
        require_callback(callback, "a list of ViewDelta")
        self._watchers.append(callback)

        def close() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return close

    def forget(self, subscription: Subscription) -> None:
        """End a subscription. Idempotent."""
        self._subscriptions = [kept for kept in self._subscriptions if kept is not subscription]

    def _rename(self, renamed: Mapping[str, str]) -> None:
        """Have subscriptions follow what has another name, by its old one."""
        for subscription in self._subscriptions:
            subscription.view = renamed.get(subscription.view, subscription.view)

    def _forget_unknown(self) -> None:
        """End the subscriptions to what there is no more, when that is final."""
        if not self._open:
            known = self.catalog.relations
            self._subscriptions = [
                subscription for subscription in self._subscriptions if subscription.view in known
            ]

    def _relation(self, name: str) -> Relation:
        relation = self.catalog.relation(name)
        if relation is None:
            statement = Statement(name, 0, len(name), exp.Null(), explain="")
            raise statement.unknown("view", name, list(self.catalog.relations), None)
        return relation


class Turn(RLock):  # type: ignore[misc]  # final to mypy alone
    """The thread that is in a connection. Another one is refused meanwhile, and waits for nothing.

    Its statements would be a part of this one's, whose reads and undoing take no notice of them. A
    lock, since its `__exit__` is one call: an interrupt could come as one of Python's began.
    """

    __slots__ = ()

    def __enter__(self) -> bool:  # type: ignore[override]  # it waits for nothing
        taken: list[bool] = []
        try:
            taken.extend(map(self.acquire, (False,)))  # behind it an interrupt finds it noted
        except KeyboardInterrupt:
            if taken == [True]:
                self.release()
            raise
        if not taken[0]:
            message = (
                "another thread is using this connection; threads that share one hold a lock of "
                "theirs, from BEGIN to COMMIT"
            )
            raise SqlOperationalError(message)
        return True


class Transaction:
    """The statement inside is a transaction of its own, or a part of the open one, undone alone.

    In an aborted one it is refused. Errors of computing a value are errors of SQL, as by `mapped`.
    A class: each generator of a context manager was a twentieth of an INSERT.
    """

    __slots__ = ("_alone", "_connection", "_mark", "_statement")

    def __init__(self, connection: Transactions, statement: Statement) -> None:
        connection._require_sound(statement)
        self._connection, self._statement = connection, statement
        self._alone, self._mark = not connection._open, len(connection._journal)

    def __enter__(self) -> Self:
        return self

    def end(self) -> None:
        """Commit what is a transaction of its own: the last that is done inside.

        Not in `__exit__`: an interrupt that came as that began would leave the edits waiting.
        """
        if self._alone:
            with self._connection._turn:
                self._connection._commit()

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error is None:
            return
        connection = self._connection
        if self._alone:
            connection.rollback()
        elif len(connection._journal) > self._mark:
            connection._undo(self._mark)
        mapped = connection._mapped(self._statement, error)
        if mapped is not None:
            raise mapped from error
