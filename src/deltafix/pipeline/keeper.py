"""Who keeps the rows of a pipeline: an engine in this process (`Driver`), or somebody else.

A keeper opens an epoch, in which rows are judged and edited, tells its Delta when it stands and is
not durable yet (`prepared`), and commits rows and marks in one step. `deltafix.spark.shards.kept`
has the other keeper, whose rows are in shards. Invariant: what a pipeline says and writes does not
depend on its keeper; rows are in one place: where there is a manifest of shards, there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

import deltafix
from deltafix.engine.state.durable import DurableDatabase, DurableTransaction
from deltafix.engine.state.identity import Identity
from deltafix.engine.state.marks import Marks, set_marks
from deltafix.engine.state.reading import read_state
from deltafix.engine.state.rows import left
from deltafix.errors import StateError
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row, Schema
from deltafix.pipeline.augment import Additions
from deltafix.pipeline.keyed import drop_tombstones
from deltafix.pipeline.policy import Policy, apply
from deltafix.pipeline.signed import Signed
from deltafix.pipeline.times import COUNTS, Times
from deltafix.rules.ast import Program
from deltafix.rules.tables import users_of
from deltafix.store.folder import Folder, Head, LocalFolder, ReplacedError, Where, folder_at

SHARDS = "shards"
"""The folder inside a state's folder where its shards are, if it is kept in shards."""


EXECUTOR = "pipeline/executor"
"""The mark that says who keeps the rows, and why."""


class Relations(Protocol):
    """A database as a pipeline sees it: marks and rows as of the last epoch."""

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Those of its relations."""

    @property
    def epoch(self) -> int:
        """The last one."""

    @property
    def name(self) -> str:
        """What tells this state from all others."""

    @property
    def generation(self) -> int:
        """How often it was opened, where writers fence each other off; else 0."""

    @property
    def marks(self) -> Mapping[str, Any]:
        """What was noted beside the rows."""

    @property
    def recovered(self) -> Sequence[str]:
        """What was mended or noticed on opening, in words."""

    def settle(self) -> None:
        """Derive what the program gives without rows, where nothing was derived yet."""

    def rows(self, relation: str) -> list[Row]:
        """The rows of a relation, sorted."""

    def count(self, relation: str) -> int:
        """How many rows a relation has."""

    def to_arrow(self, relation: str) -> pa.Table:
        """The rows of a relation."""

    def select(self, relation: str, pattern: Any) -> list[Row]:
        """Rows that fit a pattern."""

    def compact(self) -> None:
        """Make the state's files small."""

    def close(self) -> None:
        """Give the state back. Idempotent."""


class Said(NamedTuple):
    """What an input says of a relation, how it is judged, and the version that it has reached."""

    signed: Signed
    policy: Policy
    reached: int | None = None


class Open(Protocol):
    """An epoch that is open.

    Attributes:
        prepared: called with its Delta when it stands and nothing of it is durable yet; what it
            raises undoes the epoch.
        views: the relations of that Delta; None for all.
    """

    prepared: Callable[[Delta], None] | None
    views: Collection[str] | None

    def mark(self, name: str, value: Any) -> None:
        """Note a JSON value under a name; None takes the mark away."""

    def change_program(self, program: Program) -> None:
        """Have another program from this epoch on; raises ProgramChangedError where it cannot."""

    def judge(self, said: Sequence[Said]) -> list[tuple[int, int]]:
        """Apply signed rows, each of a relation of its own, as their policies say.

        Returns (rows that came to be given, rows that ceased to) of each; bad rows are moved to
        `Signed.bad`. At most once in an epoch.
        """


class Keeper(Protocol):
    """Keeps the rows of a pipeline. `db` has them and closes them; `why` says where, and why."""

    @property
    def why(self) -> str:
        """Where the rows are kept, and why there."""

    @property
    def db(self) -> Relations:
        """The rows and marks."""

    @property
    def touched(self) -> int:
        """Facts that the last epoch took up."""

    def begin(self, *, careful: bool = True) -> AbstractContextManager[Open]:
        """An epoch, committed at the end of the block, or as if it had never been.

        Without `careful`, it may raise RecheckError and is then to be tried again with it.
        """

    def tables(self, relation: str) -> Iterable[pa.Table]:
        """The rows of a relation in the last epoch, in parts as large as memory has to be."""

    def grown(self, rows: int) -> Keeper:
        """Who keeps the rows when so many more are to come: itself, or another, then it is closed.

        Raises StateError; the state is where it was.
        """

    def history(self) -> Iterator[Marks]:
        """What the last epochs marked, as far as it is known, ascending."""


Keep = Callable[[Program, Folder, str, Additions], Keeper]
"""Opens a keeper: the program, the state's folder, how to sync, what inputs add to the rules."""


class Driver:
    """The engine in this process, its given rows and marks in the state's folder.

    Raises StateError for a state that is kept in shards, and what `deltafix.connect` raises.
    """

    def __init__(
        self,
        program: Program,
        folder: Folder,
        fsync: str,
        additions: Additions,
        why: str = "the runner is local",
    ) -> None:
        self.why = f"driver: {why}"
        self._folder = folder
        self._additions = additions
        self._times: dict[str, Times] = {}
        self._dropped: dict[str, int] = {}
        self._require_here()
        claim(folder, "driver")
        db = deltafix.connect(program, str(folder), fsync=fsync, physical=True, **users_of(program))
        assert isinstance(db, DurableDatabase)  # noqa: S101  a path is given
        self.db = db
        try:
            self._require_here()  # it may have been moved before the folder was locked
        except BaseException:
            db.close()
            raise

    @property
    def touched(self) -> int:
        """As `Keeper.touched`."""
        return self.db.last_epoch.touched

    def tables(self, relation: str) -> Iterable[pa.Table]:
        """As `Keeper.tables`: the engine has them all."""
        return [self.db.to_arrow(relation)]

    def grown(self, rows: int) -> Keeper:
        """As `Keeper.grown`: it stays, whatever comes."""
        del rows
        return self

    @contextmanager
    def begin(self, *, careful: bool = True) -> Iterator[Open]:
        """As `Keeper.begin`."""
        before = self.db.epoch
        try:
            with self.db.transaction(missing="ignore") as tx:
                yield _Opened(tx, self._times_of, self._dropped, careful=careful)
        finally:
            for times in self._times.values():  # an interrupt may come when the epoch stands
                times.settle(committed=self.db.epoch > before)

    def history(self) -> Iterator[Marks]:
        """As `Keeper.history`."""
        contents = read_state(self._folder)
        yield from contents[1].marks(0) if contents else ()
        yield dict(self.db.marks)

    def _times_of(self, relation: str) -> Times | None:
        if relation not in self._additions.counted:
            return None
        if relation not in self._times:
            self._times[relation] = Times(self.db.rows(relation + COUNTS))
        return self._times[relation]

    def _require_here(self) -> None:
        if shards_head(self._folder) is not None:
            message = (
                f"{self._folder} is kept in shards, and rows do not come back from there; open it "
                'with executor = "shards" or "auto", and runner = "spark"'
            )
            raise StateError(message, path=str(self._folder))


class _Opened:
    """An open transaction as an epoch; see `Open`."""

    def __init__(
        self,
        tx: DurableTransaction,
        times_of: Callable[[str], Times | None],
        dropped: dict[str, int],
        *,
        careful: bool,
    ) -> None:
        self._tx = tx
        self._dropped = dropped
        self._times_of = times_of
        self._careful = careful
        self.mark = tx.mark
        self.change_program = tx.change_program

    @property
    def prepared(self) -> Callable[[Delta], None] | None:
        return self._tx.prepared

    @prepared.setter
    def prepared(self, function: Callable[[Delta], None] | None) -> None:
        self._tx.prepared = function

    @property
    def views(self) -> Collection[str] | None:
        return self._tx.views

    @views.setter
    def views(self, names: Collection[str] | None) -> None:
        self._tx.views = names

    def judge(self, said: Sequence[Said]) -> list[tuple[int, int]]:
        """As `Open.judge`."""
        counts = []
        for changes in said:
            times = self._times_of(changes.signed.schema.relation)
            counts.append(
                apply(self._tx, changes.signed, changes.policy, times, careful=self._careful)
            )
        below = due(said, self._dropped)
        for relation, sequence in below.items():
            drop_tombstones(self._tx, relation, sequence)
        self._dropped |= below
        return counts


def due(said: Sequence[Said], dropped: Mapping[str, int]) -> dict[str, int]:
    """Below which sequence deletes of keys are forgotten now, by relation.

    No row can be older than that without being late. They are looked at when as much time has
    passed since they were `dropped` as they are kept for: about twice each.
    """
    bounds = {}
    for signed, policy, reached in said:
        if reached is None or policy.late == "apply" or not policy.keying.sequence:
            continue
        below, last = reached - policy.lateness, dropped.get(signed.schema.relation)
        if policy.keying.key and (last is None or below - last > policy.lateness):
            bounds[signed.schema.relation] = below
    return bounds


def claim(folder: Folder, keeper: str) -> None:
    """Be what keeps a state in an object store: who begins it decides, for good.

    No lock keeps two apart there that begin one state at once, one with the driver, one with
    shards: whoever puts the file `shards/keeper` has it. Does nothing on a disk, where there is a
    lock, and rows may move to shards. Raises StateError if the state is another keeper's.
    """
    if isinstance(folder, LocalFolder):
        return
    try:
        begun = keeper == "driver" or not folder.exists("log")
        head = Head(folder / SHARDS, "keeper")
        if head.data is None and begun:
            with suppress(ReplacedError):
                head.replace(keeper.encode())
                return
            head = Head(folder / SHARDS, "keeper")
    except OSError as error:
        message = f"{folder}: the state cannot be opened: {error}"
        raise StateError(message, path=str(folder)) from error
    if head.data != keeper.encode():
        message = (
            f"{folder}: this state was begun with the other executor, and what is in an object "
            f'store stays there: executor = "{keeper}" needs a state of its own'
        )
        raise StateError(message, path=str(folder))


def shards_head(state: Where) -> dict[str, Any] | None:
    """What the manifest of a state's shards says; None for a state that is not kept in shards.

    Raises StateError for one that cannot be read.
    """
    folder = folder_at(state) / SHARDS
    try:
        looked = folder.look("manifest.json")
        if looked is None:
            return None
        manifest: dict[str, Any] = json.loads(looked[0])
        return {**manifest, "marks": dict(manifest["marks"]), "epoch": int(manifest["epoch"])}
    except (OSError, ValueError, LookupError, TypeError) as damage:
        message = f"{folder}/manifest.json: not a manifest of shards: {damage}"
        raise StateError(message, path=f"{folder}/manifest.json") from None


def peek_marks(state: Where) -> Marks:
    """The marks of a state; as `peek`."""
    return peek(state).marks


class Peek(NamedTuple):
    """What a state folder holds, of one that is kept in shards without its program.

    `name` tells the state from all others, and is empty if there is none yet; `has_rows` says
    whether rows of a relation are given; in shards, whether any are.
    """

    name: str
    marks: Marks
    program: Identity | None
    has_rows: Callable[[str], bool]


def peek(state: Where) -> Peek:
    """Look at a state folder without opening it. Nothing is there if there is none yet.

    Raises StateError for damage, as opening it would.
    """
    head = shards_head(state)
    if head is not None:
        return Peek(head["name"], head["marks"], None, lambda _: bool(head["given"]))
    contents = read_state(state)
    if contents is None:
        return Peek("", {}, None, lambda _: False)
    snapshot, records = contents
    marks = snapshot.marks
    for changed in records.marks(snapshot.epoch):
        set_marks(marks, changed)
    rows = left(str(state), chain(snapshot.frames, records.after(snapshot.epoch)))
    program = records.program(snapshot.epoch, snapshot.identity)
    return Peek(snapshot.state, marks, program, lambda name: bool(rows[name]))
