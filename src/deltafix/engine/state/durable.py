"""A database whose given rows outlive the process.

The same engine, with five moments of its own: `_load` (memory from the image, then the epochs since
it; or given rows from the folder, everything derived from them in one epoch), `_commit` (the record
goes to the log when the kernel has found that the epoch stands, before anyone can see it),
`_stand` and `_rollback` (the marks count; what was written is cut off), and the end of a
transaction (compaction, when the log is full). Invariant: the epoch that readers see is the epoch
of the folder.

An image of the state is left at the end of `compact` and of `close`, off the path of commits; after
edits of rules it has a catalog, by which the program is linked to it. One that is not to be used is
told of and removed, so that no later epoch of the same number is taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from deltafix.engine.bind import called, folded
from deltafix.engine.codes import Codes
from deltafix.engine.database import Database
from deltafix.engine.instance import seen_schemas
from deltafix.engine.link import link
from deltafix.engine.outside import Users
from deltafix.engine.run import Budget
from deltafix.engine.state.catalog import Catalog
from deltafix.engine.state.folder import StateFolder
from deltafix.engine.state.identity import Identity, digest_of
from deltafix.engine.state.image import (
    Moment,
    RefusedError,
    is_half_way,
    open_image,
    origin,
    origin_in_steps,
    write_image,
)
from deltafix.engine.state.marks import Marks, check_mark, set_marks
from deltafix.engine.state.objects import StateObjects
from deltafix.engine.state.rows import GivenRows
from deltafix.engine.state.state import State
from deltafix.engine.tables import Memo
from deltafix.engine.transaction import Transaction
from deltafix.errors import StateError
from deltafix.facts.schema import Schema
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena
from deltafix.kernel.entries import delete_rows, insert_rows
from deltafix.plan.normalize import Core
from deltafix.rules.ast import Program
from deltafix.store import disk
from deltafix.store.folder import LocalFolder, folder_at

if TYPE_CHECKING:
    from deltafix.engine.rule_edits import RuleEpoch


def _program_of(path: str, known: Identity) -> Program:
    try:
        return known.program()
    except ValueError as error:
        raise StateError(f"{path}: the state cannot be opened: {error}", path=path) from error


class DurableTransaction(Transaction):
    """A transaction on a state folder.

    Attributes:
        marks: what it sets beside the rows.
    """

    def __init__(self, db: DurableDatabase, missing: str) -> None:
        self.marks: Marks = {}
        super().__init__(db, missing)

    def mark(self, name: str, value: Any) -> None:
        """Note a JSON value under a name, committed with the epoch; None takes the mark away.

        Raises TypeError or ValueError for a value that JSON cannot say.
        """
        self.marks[name] = check_mark(value)


class DurableDatabase(Database):
    """Made by `connect(program, path)`. Close it: the folder is locked as long as it lives."""

    def __init__(
        self,
        program: Program | Callable[[Mapping[str, Any]], Program],
        path: str | Path,
        fsync: str,
        *,
        strategy: str,
        budget: Budget,
        users: Users,
        profile: bool,
        physical: bool = False,
    ) -> None:
        self._edited: Identity | None = None
        folder = folder_at(path)
        state: State
        if isinstance(folder, LocalFolder):
            state = StateFolder(folder.path, fsync)
        else:
            state = StateObjects(folder)
        self._state = state
        try:
            if not isinstance(program, Program):
                program = program(state.marks)
            self._base = digest_of(program)
            known = state.known
            if known is not None and known.base == self._base and known.is_edited:
                program = _program_of(state.path, known)
            super().__init__(
                program, strategy=strategy, budget=budget, users=users, profile=profile,
                physical=physical,
            )  # fmt: skip
        except BaseException:
            state.close()
            raise

    def transaction(self, *, missing: str = "error") -> DurableTransaction:
        """Begin a transaction, which can set marks and hear of its Delta before it commits."""
        return DurableTransaction(self, missing)

    @property
    def marks(self) -> Mapping[str, Any]:
        """What was noted beside the rows, as of the last epoch; see `DurableTransaction.mark`."""
        return MappingProxyType(self._state.marks)

    @property
    def name(self) -> str:
        """What tells this state from all others, from its beginning on."""
        return self._state.name

    @property
    def generation(self) -> int:
        """How often a state in an object store was opened; 0 on a disk. Tells attempts apart."""
        return self._state.generation

    @property
    def same_program(self) -> bool:
        """Whether the state was last used by the very same program."""
        return self._state.same_program

    @property
    def recovered(self) -> tuple[str, ...]:
        """What was mended or noticed, in words: a torn tail, a changed program, no compaction."""
        return tuple(self._state.recovered)

    def compact(self) -> None:
        """As in memory; then write a new snapshot and an image, and begin a new log."""
        with self.writer:
            super().compact()
            self._state.compact(self.instance.given_rows())
            if not self.instance.is_unrun:
                self._images.write()

    def close(self) -> None:
        """Leave an image, sync as the policy says and give the folder back. Idempotent."""
        with self.writer:
            first, idle = not self.closed, self._open() is None
            super().close()
            try:
                if first and idle and not self.instance.is_unrun:
                    self._images.leave()
            finally:
                self._state.close()

    # --- the five moments ----------------------------------------------------------------------

    def _load(self) -> None:
        self._ready = False
        schemas = seen_schemas(self.program, self.instance.linked)
        identity = Identity.of(self.program, schemas, self._base)
        state = self._state
        state.take(identity, schemas, self.instance.codes)
        self._images = self._images_of(self)
        imaged = self._images.open(self.instance.core)
        if self._images.catalog is not None:
            self._link_by(self._images.catalog)
        if imaged is not None:
            self.instance.is_unrun = False
            self.instance.strata.cool()
        self._rebuild(state, imaged)
        self._images.note()
        self.epoch = state.epoch
        if not state.same_program:
            state.compact(self.instance.given_rows())
            self._images.drop()
        self._ready = True
        self._before_commit = self._log_epoch

    def _images_of(self, unrun: Database) -> Images:
        """Those of this state, in the memory of a database of its program that has not run."""
        instance = unrun.instance
        arena, codes = instance.arena, instance.codes
        return Images(
            self._state,
            arena,
            codes,
            origin=origin(
                f"{self._state.program.digest} {self.program.made_by}",
                instance.linked,
                arena,
                codes,
            ),
            users=self._asked,
            made_by=lambda: self.program.made_by,
            catalog=lambda: Catalog.of(self.program, self.instance.core, self.instance.linked),
        )

    def _become(self, fresh: Database) -> None:
        images = self._images_of(fresh)
        super()._become(fresh)
        self._images, self._state.codes = images, self.instance.codes

    def _asked(self) -> list[str]:
        """Functions of Python that the program calls, and those whose values are remembered.

        Those that the program's text stands for are not among them: they are the same in every
        process. Of a text that there is no more others may come to have their names.
        """
        memos = (
            table.functor
            for table in self.instance.linked.tables.numbers
            if isinstance(table, Memo)
        )
        remembered = {name[1:] for name in memos if name.startswith("@")}
        if self.program.made_by:
            declared = {functor.name for functor in self.program.functors}
            return [f"@{name}" for name in sorted(remembered - declared)]
        names = {*called(self.program), *remembered}
        return [f"@{name}" for name in (*sorted(names), *folded(self.program))]

    def _link_by(self, catalog: Catalog) -> None:
        """Link the program to the arena that an image has laid, whose rules were edited."""
        instance = self.instance
        core, plan = catalog.planned(instance.core)
        linked = link(plan, catalog.laid_out(instance.arena), instance.codes)
        instance.link(self.program, core, linked)

    def _rebuild(self, state: State, imaged: int | None) -> None:
        """Take in what the files hold; `imaged` is the epoch up to which that has been done."""
        by_relation: dict[str, list[GivenRows]] = {}
        for given in state.given(imaged):
            by_relation.setdefault(given.schema.relation, []).append(given)
        bounds = self.budget
        if state.same_program:
            # It was within its bounds epoch by epoch; all of it at once need not be.
            self.bound(Budget(threads=bounds.threads))
        if by_relation or (imaged is None and (state.epoch or not self.plan.bounded)):
            with self.transaction():
                for edits in by_relation.values():
                    self._replay(edits[0].schema, edits)
        self.bound(bounds)

    def _replay(self, schema: Schema, edits: list[GivenRows]) -> None:
        """Apply one relation's edits in order: encoded at once, applied in runs of one sign."""
        import pyarrow as pa  # noqa: PLC0415  as everywhere: only where tables are

        counts = np.array([edit.count for edit in edits])
        table = pa.concat_tables([edit.table for edit in edits])
        codes = self.instance.codes.encode_table(schema, table)
        signs = np.repeat([edit.added for edit in edits], counts)
        turns = np.flatnonzero(signs[1:] != signs[:-1]) + 1
        arena, number = self.instance.arena, self.instance.linked.given(schema.relation)
        borders: list[int] = [0, *turns.tolist(), len(signs)]
        for start, end in pairwise(borders):
            door: Any = insert_rows if start < end and signs[start] else delete_rows
            part = codes[start * schema.arity : end * schema.arity]
            door(arena.words, arena.cells, part, number, end - start)

    @contextmanager
    def _unnoticed(self) -> Iterator[None]:
        self._ready, before = False, self._before_commit
        self._before_commit = None
        try:
            with super()._unnoticed():
                yield
        finally:
            self._ready, self._before_commit = True, before

    def _log_epoch(self) -> None:
        rules = self._rules
        given = self.instance.given_changes() if rules is None else rules.given
        self._edited = None if rules is None else self._edited_by(rules)
        open_ = self._open()
        if not isinstance(open_, DurableTransaction):
            self._state.append(self.epoch + 1, given, {}, self._edited)
            return
        self._state.append(self.epoch + 1, given, open_.marks, self._edited)

    def _edited_by(self, rules: RuleEpoch) -> Identity:
        """The program as it is behind an edit of its rules; one given whole is opened with."""
        whole = [edit.part for edit in rules.edits if edit.whole]
        base = digest_of(whole[-1]) if whole else self._state.program.base
        return Identity.of(rules.program, seen_schemas(rules.program, rules.linked), base)

    def _stand(self, transaction: Transaction) -> None:
        super()._stand(transaction)
        if not self._ready:
            return
        if isinstance(transaction, DurableTransaction):
            set_marks(self._state.marks, transaction.marks)
        if self._edited is not None:
            self._state.edited(self._edited)

    def _rollback(self) -> None:
        super()._rollback()
        if self._ready:
            self._state.undo(self.epoch)

    def _end(self, transaction: Transaction) -> None:
        try:
            if self._ready and transaction.is_committed and self._open is transaction._opened:
                self._images.note()
                if self._edited is not None:
                    self._images.edited()
                if self._state.is_full:
                    self._compact_quietly()
        finally:
            super()._end(transaction)

    def _compact_quietly(self) -> None:
        """The epoch is committed: a compaction that fails is told, and tried again later."""
        try:
            self._state.compact(self.instance.given_rows())
            self._images.drop()
        except StateError as error:
            self._state.recovered.append(f"not compacted after epoch {self.epoch}: {error}")


_BEHIND = 256
"""An image that lacks fewer than one row in so many is left as it is: replaying them is nothing."""


class Images:
    """The image of an open state.

    Args:
        state: the state; one without a place for an image never has one.
        arena: the database's, which has no rows yet.
        codes: the database's.
        origin: what an image has to agree on (`image.origin`), of the program as it was opened.
        users: functions of Python that it calls, or has called, and that may be others when it is
            opened again; with any, there is no image.
        made_by: gives what made the others (`Program`).
        catalog: gives that of the arena, or None if the program alone would not be planned alike.

    Attributes:
        catalog: of the image that the database was opened from, if its rules were edited: the
            program is then to be linked to the arena by it.
    """

    def __init__(
        self,
        state: State,
        arena: Arena,
        codes: Codes,
        *,
        origin: str,
        users: Callable[[], Sequence[str]],
        made_by: Callable[[], str],
        catalog: Callable[[], Catalog | None],
    ) -> None:
        self._state = state
        self._arena = arena
        self._codes = codes
        self._origin = origin
        self._users = users
        self._made_by = made_by
        self._behind = 0
        self._epoch: int | None = None
        self.catalog: Catalog | None = None
        self._catalog = catalog
        self._in_steps = False

    def open(self, alone: Core) -> int | None:
        """Become what the image says; the epoch that it is of, or None: derive everything.

        `alone` is the program's own core.

        What speaks against an image is told in the state's `recovered`. Raises StateError if it
        cannot be removed.
        """
        state = self._state
        if state.image is None:
            return None
        try:
            if state.epoch and (users := self._users()):
                raise RefusedError(_foreign(users))
            if state.same_program and state.image.exists():
                wanted = Moment(state.name, state.epoch, self._origin)
                moment = open_image(
                    state.image, wanted, state.base, self._arena, self._codes,
                    in_steps=lambda known: self._origin_of(known) if known.fits(alone) else "",
                )  # fmt: skip
                self._epoch, self.catalog = moment.epoch, moment.catalog
                self._in_steps = moment.catalog is not None
        except RefusedError as refused:
            state.recovered.append(f"derived without an image: {refused}")
            try:
                disk.remove(state.image)
            except OSError as error:
                message = f"{state.image} is not to be used, and cannot be removed: {error}"
                raise StateError(message, path=str(state.image)) from error
        return self._epoch

    def edited(self) -> None:
        """Another plan was laid out in the arena: from now on images have a catalog."""
        self.drop()
        self._in_steps = True

    def note(self) -> None:
        """An epoch was committed."""
        self._behind += int(self._arena.cells[at.N_CHANGED])

    def leave(self) -> None:
        """At the end: write an image, unless the one that is there is good enough. O(state)."""
        if self._epoch is None or self._behind * _BEHIND > self._rows():
            self.write()

    def write(self) -> None:
        """Write an image of this epoch. O(state). What prevents it is told in `recovered`."""
        path, epoch = self._state.image, self._state.epoch
        if path is None or epoch == self._epoch or not self._state.is_ours or self._users():
            return
        if is_half_way(self._arena):
            self._state.recovered.append(
                f"no image after epoch {epoch}: an epoch was left half-way"
            )
            return
        moment = self._moment()
        if moment is None:
            message = f"no image after epoch {epoch}: planned alone, the program has another plan"
            self._state.recovered.append(message)
            return
        try:
            write_image(path, moment, self._arena, self._codes)
        except OSError as error:
            self._state.recovered.append(f"no image after epoch {epoch}: {error}")
            return
        self._epoch, self._behind = epoch, 0

    def drop(self) -> None:
        """Remove any: the snapshot is of a later epoch or of another program now."""
        self._epoch = None
        if self._state.image is not None:
            with suppress(OSError):  # its epoch says that it is too old
                disk.remove(self._state.image)

    def _moment(self) -> Moment | None:
        state = self._state
        if not self._in_steps:
            return Moment(state.name, state.epoch, self._origin)
        catalog = self._catalog()
        if catalog is None:
            return None
        return Moment(state.name, state.epoch, self._origin_of(catalog), catalog)

    def _origin_of(self, catalog: Catalog) -> str:
        return origin_in_steps(f"{self._state.program.digest} {self._made_by()}", catalog)

    def _rows(self) -> int:
        cells = self._arena.cells
        first, count = int(cells[at.RELS]), int(cells[at.N_RELS])
        return int(cells[first + at.R_WAS : first + count * at.RSZ : at.RSZ].sum())


def _foreign(functions: Iterable[str]) -> str:
    return f"functions of Python may have changed since, and it calls {', '.join(functions)}"
