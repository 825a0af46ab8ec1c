"""A database: a program, its maintained relations, transactions in, deltas out.

Life: `connect` plans and links the program and runs epoch 0 over the program's own facts, unless
inputs can bound what these derive: then the first commit does, or whoever reads before it
(`settle`); then transactions, one at a time; then `close`. Invariant: whoever reads between
transactions finds in every derived relation exactly what its rules give for the facts at hand.
Readers see the last committed epoch, also while a writer works in another thread.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from deltafix.closing import Closing
from deltafix.collector import held_back
from deltafix.doing import tell
from deltafix.engine.changes import ChangedRows, Changes, Edited
from deltafix.engine.instance import Instance
from deltafix.engine.outside import Users
from deltafix.engine.reading import Reading
from deltafix.engine.relation import RelationView
from deltafix.engine.run import (
    STRATEGIES,
    Budget,
    is_in_doubt,
    set_budget,
    stopped,
)
from deltafix.engine.state.edits import truth_changes
from deltafix.engine.store import relation_cell
from deltafix.engine.threads import whole
from deltafix.engine.transaction import Transaction
from deltafix.engine.watch import Watch, Watchers
from deltafix.errors import BudgetError, FunctorError, TransactionError
from deltafix.facts.delta import Delta
from deltafix.facts.relation_delta import RelationDelta, html_table
from deltafix.facts.schema import Row
from deltafix.facts.typed import R
from deltafix.facts.values import require_callback
from deltafix.kernel import layout as at
from deltafix.kernel.entries import commit, delete_rows, insert_rows, rollback
from deltafix.plan.build import prepared
from deltafix.plan.normalize import Core
from deltafix.rules.ast import Program

if TYPE_CHECKING:
    from deltafix.engine.rule_edits import RuleEdit, RuleEpoch

_NOTHING_EDITED = Edited()

_AUTO_SHARE = 0.3
"""`auto` recomputes when at least this share of the given rows changes (bench: batch)."""


def _nobody() -> None:
    """Whose transaction is open."""


class _AtEnd:
    """A thread's own: when it ends, a transaction that it leaves open is rolled back.

    No other thread can give the writer's lock back.
    """

    def __init__(self, db: Database) -> None:
        self._db = weakref.ref(db)

    def __del__(self) -> None:
        db = self._db()
        left = None if db is None else db._dropped or db._open()
        if left is not None and left.is_own:
            left.rollback()


class Database(Closing, Reading):
    """Made by `connect`. A context manager; closing twice is fine.

    With `core`, its clauses are run and the program only declares: relations, types, functors.
    """

    def __init__(
        self,
        program: Program,
        *,
        strategy: str,
        budget: Budget,
        users: Users,
        profile: bool = False,
        core: Core | None = None,
        gate: threading.Lock | None = None,
        physical: bool = False,
    ) -> None:
        self.strategy = strategy
        self._profile = profile
        with held_back():  # plans stay
            self._prepared = prepared(program, core)  # held: others of this program use it
            self.instance = Instance(
                program, self._prepared, users, gate or threading.Lock(), physical=physical
            )
        cells = self.instance.arena.cells
        cells[at.BY_STRATUM] = int(profile)
        if strategy != "auto":
            cells[at.SCHEDULE] = STRATEGIES[strategy]
        self.bound(budget)
        # What must succeed before an epoch is seen; None in memory, which pays only for asking.
        self._before_commit: Callable[[], None] | None = None
        self._rules: RuleEpoch | None = None
        self.writer = threading.RLock()
        # Weak: a transaction that its user has dropped is rolled back, and keeps nobody out.
        self._open: Callable[[], Transaction | None] = _nobody
        self._changed_with_rules: ChangedRows | None = None  # of relations that go, too
        self._dropped: Transaction | None = None  # its own thread is to roll it back
        self._mine = threading.local()
        self._watchers = Watchers()
        self._kept = set[weakref.ref[Changes]]()  # of many rows, some of them in the arena
        self._itself = weakref.ref(self)
        self.closed = False
        self._is_noticed = True  # whether a commit counts an epoch and is told to watchers
        self.epoch = -1
        self._seconds = 0.0
        self._load()

    # --- transactions ----------------------------------------------------------------------

    def transaction(self, *, missing: str = "error") -> Transaction:
        """Begin a transaction; as a context manager it commits on a clean exit.

        Args:
            missing: what deleting an absent row does: `"error"` or `"ignore"`.

        Raises:
            TransactionError: the database is closed, or this thread has one open already.
        """
        return Transaction(self, missing)

    def apply(self, delta: Delta, *, missing: str = "error") -> Delta:
        """Apply a Delta of given rows as one transaction; returns what it changed.

        An epoch's delta has derived rows, too, which would be given rows from then on: take `only`
        the relations whose rows are given, `db.apply(delta.inverse().only("edge"))`.
        """
        if not isinstance(delta, Delta):
            message = f"apply takes a Delta, as an epoch gives it, not {type(delta).__name__}"
            raise TypeError(f"{message}; in a transaction, tx.insert(relation, rows) takes rows")
        with self.transaction(missing=missing) as tx:
            for name, part in delta.items():
                tx.delete(name, part.removed)
                tx.insert(name, part.added)
        return tx.delta

    def cancel(self) -> None:
        """Stop the epoch of the transaction that is open, from any thread: CancelledError there."""
        self.instance.arena.cells[at.CANCEL] = 1

    @overload
    def watch(
        self, relation: None = None, callback: Callable[[Delta], object] | None = None
    ) -> Watch[Delta]: ...

    @overload
    def watch(
        self, relation: str, callback: Callable[[RelationDelta[Row]], object] | None = None
    ) -> Watch[RelationDelta[Row]]: ...

    @overload
    def watch(
        self,
        relation: RelationView[R],
        callback: Callable[[RelationDelta[R]], object] | None = None,
    ) -> Watch[RelationDelta[R]]: ...

    def watch(
        self,
        relation: str | RelationView[Any] | None = None,
        callback: Callable[[Any], object] | None = None,
    ) -> Watch[Any]:
        """Hear of every later epoch that changes a relation, after its commit.

        `db.watch("path", callback)` calls back with its RelationDelta, in the thread that
        commits and before other threads' epochs; `async for delta in db.watch("path")` gives the
        same to a loop. A view (`db.relation("path", Path)`) in place of the name gives rows of its
        class. Without a relation the whole Delta is told. `close` ends a watch, and so does the end
        of a `with` block.

        Raises UnknownRelationError, and TypeMismatchError for what cannot be called; a commit
        raises SubscriberError for what a callback raised.
        """
        if self.closed:
            raise TransactionError("the database is closed")
        if callback is not None:
            require_callback(callback, "a delta")
        if relation is not None and not isinstance(relation, RelationView):
            relation = self.relation(relation)
        watch: Watch[Any] = Watch(self._watchers, relation, callback, self.epoch)
        self._watchers.add(watch)
        return watch

    @property
    def recovered(self) -> tuple[str, ...]:
        """What was mended or noticed in the state folder, in words; empty in memory."""
        return ()

    def compact(self) -> None:
        """Give back what deletes and edits of rules left behind: rebuild from the given rows.

        Tables never shrink while they are edited (freed rows are used again), an edit of rules
        leaves indexes and tables that no rule needs any more, and a value of a row that went stays
        known. A state then has a new snapshot and an image too, and its log begins anew. O(state),
        as loading it is; no epoch is counted and nobody hears of one.

        Raises TransactionError while this thread has a transaction open or after `close`, and
        StateError if a state cannot be written.
        """
        tx = self.transaction()
        try:
            if not self.instance.is_unrun:
                self._become(self._anew())
        finally:
            tx.rollback()

    def _anew(self) -> Database:
        """A database in memory with this one's rules and settings; nothing has run in it."""
        instance = self.instance
        return _Unrun(
            self.program, strategy=self.strategy, profile=self._profile,
            budget=Budget(threads=self.budget.threads),
            users=instance.users.declared_by(instance.program),
            physical=instance.physical,
            gate=instance.gate,  # readers stay with it, and the run that is taken over asks for it
        )  # fmt: skip

    def _become(self, fresh: Database) -> None:
        """Take the place of a database of the same rules, which is given this one's rows."""
        known = self.schemas
        strata = fresh.instance.strata
        strata.prefer(lambda n: known[n].encoded(self.rows(n)) if n in known else ())
        with fresh.transaction() as tx:
            for name in self.schemas:
                tx.copy(name, self, given=True)
        instance = fresh.instance
        set_budget(instance.arena, self.budget)  # the rows came within it epoch by epoch

        def swap() -> None:
            with instance.gate:
                self.instance = instance
                self._begun = instance.arena.numbers[at.EPOCHS], self.epoch  # the open transaction

        whole(swap)

    # --- life --------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the state; watches end. Idempotent."""
        self.closed = True
        self._watchers.close()

    def __repr__(self) -> str:
        if self.instance.is_unrun:
            return f"<Database epoch {self.epoch}: not run yet>"
        sizes = ", ".join(f"{name}: {self.count(name):,}" for name in self.schemas)
        return f"<Database epoch {self.epoch}: {sizes}>"

    def _repr_html_(self) -> str:
        ruled = {head.relation for rule in self.program.rules for head in rule.heads}
        lines = (
            (schema.show(), "by rules" if name in ruled else "given", self._size(name))
            for name, schema in self.schemas.items()
        )
        caption = f"Database, epoch {self.epoch}"
        return html_table(caption, ("relation", "rows come", "rows"), lines, 0)

    def _size(self, name: str) -> str:
        return "not run yet" if self.instance.is_unrun else f"{self.count(name):,}"

    # --- used by transactions -----------------------------------------------------------------

    def _begin(self, transaction: Transaction) -> None:
        opened = weakref.ref(transaction)
        # No interrupt comes between a with-statement and its lock, as one does behind `acquire`.
        with self.writer:
            if self.closed:  # meanwhile, perhaps
                raise TransactionError("the database is closed")
            if self._open is not _nobody:
                self._require_no_edits()
            if not hasattr(self._mine, "at_end"):
                self._mine.at_end = _AtEnd(self)
            # Before anything is open: a rollback forgets them.
            if self._kept:
                held = ((reference, reference()) for reference in self._kept)
                self._kept = {
                    reference for reference, kept in held if kept and kept.keep(self.epoch)
                }
            numbers = self.instance.arena.numbers
            numbers[at.CANCEL] = 0  # one that came too late for an earlier epoch
            self._begun = numbers[at.EPOCHS], self.epoch
            transaction._state = "open"
            transaction._opened = self._open = opened
            self.writer.acquire()  # beyond the block: one that comes here finds the lock taken

    def _require_no_edits(self) -> None:
        """See `Reading`."""
        if self._dropped is not None:
            self._dropped.rollback()
        if self._open() is not None:
            raise TransactionError("this thread has a transaction open; commit or roll it back")

    def _end(self, transaction: Transaction) -> None:
        """Give the writer's lock back, unless that was done: an interrupt has it done again."""
        if self._open is transaction._opened:
            self._open, self._dropped = _nobody, None
            self.writer.release()

    def abandon(self) -> None:
        """End a transaction whose begin was interrupted, so that nobody has it."""
        transaction = self._open()
        if transaction is not None:
            transaction.rollback()

    def _commit(self, transaction: Transaction) -> None:
        began = time.perf_counter()
        instance = self.instance
        arena = instance.arena
        rules = self._rules
        self._changed_with_rules = None
        if self.strategy == "auto":
            arena.cells[at.SCHEDULE] = self._schedule()
        if instance.is_unrun:
            self._first_epoch()
        else:
            self._epoch()
        tell("")
        if instance.limits.limits:
            instance.limits.check()
        if rules is not None:
            rules.prepare()
        if transaction.prepared is not None:
            transaction.prepared(self._coming(transaction.views))
        if self._before_commit is not None:
            self._before_commit()
        edited = _NOTHING_EDITED
        if rules is not None:
            edited = Edited(rules.given, self.program)
        elif transaction.edits_ruled:
            edited = Edited(instance.given_changes())
        instance.ran = instance.run.size
        instance.recomputed = () if rules is None else rules.recomputed
        self._coming_edits = edited
        with instance.gate:
            commit(arena.words, arena.cells)
            self._stand(transaction)
        self._seconds = time.perf_counter() - began

    def _coming(self, views: Collection[str] | None) -> Delta:
        """The Delta of the epoch that stands and is not committed yet."""
        instance, rules = self.instance, self._rules
        if rules is None:
            known, numbers = instance.schemas, instance.linked.ids
        else:
            known, numbers = rules.seen, rules.numbers
        chosen = known if views is None else views
        schemas = {numbers[name]: schema for name, schema in known.items() if name in chosen}
        sides: dict[str, list[list[Row] | Any]] = {}
        for change in truth_changes(instance.arena, schemas):
            pair = sides.setdefault(change.schema.relation, [[], []])
            pair[change.added] = instance.codes.table(change.schema, change.codes)
            if not change.schema.arity:
                pair[change.added] = [()]
        parts = [RelationDelta(known[name], new, old) for name, (old, new) in sides.items()]
        return Delta(parts, known.values(), epoch=self.epoch + 1)

    @property
    def _stands(self) -> bool:
        """Whether the kernel has committed the epoch of the open transaction."""
        return self.instance.arena.numbers[at.EPOCHS] != self._begun[0]

    def _stand(self, transaction: Transaction) -> None:
        """Follow the kernel's commit, within the gate; the transaction has what it changed.

        An interrupt may come at any line behind that commit: whoever catches it does this again,
        for doing it twice is doing it once.
        """
        instance = self.instance
        if instance.strata.ran:
            instance.strata.keep()
        if self._rules is not None:
            self._rules.finish()
        instance.is_unrun = False
        self.epoch = epoch = self._begun[1] + self._is_noticed
        instance.arena.release()
        rows = self._changed_with_rules or instance.changed
        transaction._changes = changes = Changes(rows, epoch, self._coming_edits, self._itself)
        if changes.few is None:
            self._kept.add(weakref.ref(changes))

    def _commit_rules(self, transaction: Transaction, edits: Sequence[RuleEdit]) -> None:
        from deltafix.engine.rule_edits import RuleEpoch  # noqa: PLC0415  the parser

        began = time.perf_counter()
        with held_back():  # plans stay
            RuleEpoch(self, edits).begin()
        self._commit(transaction)
        self._seconds = time.perf_counter() - began

    def _rollback(self) -> None:
        instance = self.instance
        arena = instance.arena
        with instance.gate:
            rollback(arena.words, arena.cells)
            instance.strata.undo()
            if self._rules is not None:
                self._rules.undo()
            arena.release()

    def _schedule(self) -> int:
        arena, linked = self.instance.arena, self.instance.linked
        changed = given = 0
        for name in self.schemas:
            relation = linked.ids[name]
            changed += relation_cell(arena, relation, at.R_CHANGED + 1)
            if not relation_cell(arena, relation, at.R_RULES):
                given += relation_cell(arena, relation, at.R_WAS)
        return at.RECOMPUTE if changed > given * _AUTO_SHARE else at.WAVEFRONT

    def bound(self, budget: Budget) -> None:
        """Have other bounds for the epochs that follow."""
        self.budget = budget
        set_budget(self.instance.arena, budget)

    @contextmanager
    def unbounded(self) -> Iterator[None]:
        """Epochs inside have no bounds: for rows that are put back, which came within them."""
        budget = self.budget
        self.bound(Budget(threads=budget.threads))
        try:
            yield
        finally:
            self.bound(budget)

    def _epoch(self) -> None:
        """Run the program. Raises errors with the relations that were computed then."""
        instance = self.instance
        try:
            try:
                instance.run.epoch(self.budget)
            except FunctorError:
                if not is_in_doubt(instance.arena):
                    raise
                self._recompute()
        except (BudgetError, FunctorError) as error:
            raise stopped(instance.arena, instance.limits.linked, error) from error.__cause__

    def _recompute(self) -> None:
        """Run the epoch from its start again, with nothing retracted in it: all rows hold."""
        instance, rules = self.instance, self._rules
        arena = instance.arena
        edits = instance.given_changes() if rules is None else rules.given
        whole(self._rollback)
        for edit in edits:
            change = insert_rows if edit.added else delete_rows
            codes = np.ascontiguousarray(edit.codes).reshape(-1)
            number = instance.linked.given(edit.schema.relation)
            change(arena.words, arena.cells, codes, number, len(edit.codes))
        schedule = arena.cells[at.SCHEDULE]
        arena.cells[at.SCHEDULE] = at.RECOMPUTE
        try:
            if rules is not None:
                rules.begin()
            instance.run.epoch(self.budget)
        finally:
            arena.cells[at.SCHEDULE] = schedule
        arena.cells[at.C_ABANDONED] += 1

    def _first_epoch(self) -> None:
        """Run every rule from scratch, the text's facts too."""
        program = self.instance.run.program
        starts = program[int(program[1]) :][: int(program[0])]
        program[starts + at.T_FRESH] = 1
        try:
            self._epoch()
        finally:
            program[starts + at.T_FRESH] = 0

    def _load(self) -> None:
        """Epoch 0, or the promise of one."""
        self.epoch = 0
        if not self.plan.bounded:
            self.settle()

    def settle(self) -> None:
        """See `Reading`."""
        if not self.instance.is_unrun:
            return
        with self.writer:
            if not self.instance.is_unrun or self.closed:
                return
            if self._open() is not None:
                message = (
                    "nothing holds yet: the first epoch runs when this transaction commits, "
                    "because its rows may bound what the rules derive; read after the commit"
                )
                raise TransactionError(message)
            with self._unnoticed():
                self.transaction().commit()

    @contextmanager
    def _unnoticed(self) -> Iterator[None]:
        """The epoch inside is the one that `connect` left open: no number, no log, nobody told."""
        self._is_noticed = False
        try:
            yield
        finally:
            self._is_noticed = True


class _Unrun(Database):
    """A database that evaluates nothing until it is given rows."""

    def _load(self) -> None:
        self.epoch = 0
