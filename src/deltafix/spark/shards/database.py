"""A database in shards: deltas in, deltas out, state larger than one machine.

The same engine runs in every shard; Spark places them, carries their messages, and runs again what
fails (`onspark`); files hold the state (`files`). Invariant: after `apply` returns, the epoch it
ran is committed, and the shards' relations together are what the rules give for the given rows;
after it raises, the state is that of the epoch before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from deltafix import errors
from deltafix.closing import Closing
from deltafix.engine.bind import bound, require_reducers
from deltafix.engine.outside import Users
from deltafix.engine.state.marks import Marks
from deltafix.facts.arrow import ARROW_TYPES, rows_from_table, table_from_rows
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row, Schema, unknown_relation
from deltafix.facts.values import CONSTRUCTED, sorted_rows, write_value
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.signed import Signed
from deltafix.reducers.aggregate import UserReducer
from deltafix.rules.ast import Program
from deltafix.rules.schemas import row_schemas
from deltafix.spark.filed import Filed, NetFolder
from deltafix.spark.scans import pieces_of
from deltafix.spark.shards.balance import is_uneven, outgrown
from deltafix.spark.shards.carry import adopted, carried, spec_of
from deltafix.spark.shards.choose import LOAD, Choice, Sizes, choose, recomputed
from deltafix.spark.shards.epoch import Attempt, Executor
from deltafix.spark.shards.files import Ledger, Manifest, new_manifest, require_same
from deltafix.spark.shards.frames import (
    Said,
    changes_frame,
    frame_bytes,
    gathered,
    local_table,
    messages_frame,
    parcels_in,
    parcels_of,
    read_delta,
)
from deltafix.spark.shards.here import Here, Making, make_engines
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.onspark import OnSpark, Warming, planless, united
from deltafix.spark.shards.reading import counted, frame_of, tables_of
from deltafix.spark.shards.resident import Changed, Spec, forget, read_rows, task_error
from deltafix.spark.shards.schedule import Work
from deltafix.spark.shards.step import First, Parcel
from deltafix.spark.shards.whole import plan_layout
from deltafix.spark.wire import signed
from deltafix.store.folder import Folder, LocalFolder, Where, folder_at
from deltafix.store.lock import Lock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WARMED = 8 << 20
"""Bytes of shards from which on the engines of a load are made ahead of the first change."""

_LOG = logging.getLogger("deltafix.spark.shards")


class ShardedDatabase(Closing):
    """A program's relations, kept by shards. One writer at a time; close it.

    Args:
        program: a Program, or its text.
        spark: a classic session; None runs every epoch in this process.
        shards: how many; a folder keeps the number it was made with.
        state: a folder that this process and all workers see, by path or URL. In an object store
            the newest opener has it, and those before are told at their next epoch.
        executor: `auto` chooses per epoch (`choose`), the others force it.
        functors: as in `deltafix.connect`; workers must be able to import the functions.
        reducers: likewise.
        seats: says where rows are judged, for who has them judged (`seat`).
        around: the folder of the state whose shards these are, locked by who calls. A state on a
            disk that an engine kept is taken over, and shards of another program or number are
            laid out anew; without it, both are refused.
        noted: marks that are set when a state is taken over.

    Attributes:
        epoch: the last committed one.
        choice: where that epoch ran and why, None before the first.
        work: what it cost: supersteps, messages, bytes.

    Raises:
        ProgramError: the program is not valid, or has a construct that shards do not run (DF190).
        StateError: the folder is damaged, or of another program or number of shards.
        StateInUseError: another database has the folder.
    """

    def __init__(
        self,
        program: Program | str,
        spark: SparkSession | None = None,
        *,
        shards: int = 4,
        state: Where,
        executor: Literal["auto", "driver", "shards", "recompute"] = "auto",
        functors: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        reducers: Mapping[str, UserReducer] = MappingProxyType({}),
        seats: Callable[[Layout], Layout] = lambda layout: layout,
        around: Folder | None = None,
        noted: Mapping[str, Any] = MappingProxyType({}),
        physical: bool = False,
    ) -> None:
        if isinstance(program, str):
            from deltafix.datalog.program import Program as Text  # noqa: PLC0415  the parser

            program = Text.parse(program)
        if shards < 1:
            raise ValueError(f"shards={shards}; it takes 1 or more")
        if executor not in ("auto", "driver", "shards", "recompute"):
            known = "auto, driver, shards, recompute"
            raise ValueError(f"unknown executor {executor!r}; one of {known}")
        if executor == "shards" and spark is None:
            raise ValueError("executor='shards' needs a Spark session")
        self.program = program
        self._folder = folder_at(state)
        if isinstance(self._folder, LocalFolder):
            self._folder = LocalFolder(self._folder.path.absolute())
        layout = seats(plan_layout(program))
        bound(program, functors)
        require_reducers(reducers)
        schemas = {n: schema for n, schema in row_schemas(program).items() if n in layout.given}
        logical = next((schema for schema in schemas.values() if schema.has_logical), None)
        if logical is not None and not physical:
            message = (
                f"{logical.show()} has logical types: `deltafix.spark.maintain` and pipelines "
                "convert its columns; physical=True has them as the engine does"
            )
            raise errors.ProgramError(message)
        self._declared = schemas
        self.schemas: Mapping[str, Schema] = MappingProxyType(
            {name: schema.physical for name, schema in schemas.items()}
        )
        columns = {name: schema.names for name, schema in self.schemas.items()}
        users = Users(dict(functors), dict(reducers))
        self._seats = seats
        self._manifest = new_manifest(program, layout, shards)
        digest = self._manifest.program
        self._spec = Spec(str(self._folder), layout, shards, columns, users, digest)
        self.choice: Choice | None = None
        self._derived = {head.relation for rule in program.rules for head in rule.heads}
        self.work = Work()
        self._spark = spark
        self._session = None if spark is None else planless(spark)
        self._executor = executor
        self._lock: Lock | None = None
        if isinstance(self._folder, LocalFolder):
            self._folder.path.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self._folder.path / "lock")
        self._closed = False
        self._warming: Warming | Making | None = None
        self._is_cold = self._is_uneven = False
        try:
            with self._stored():
                self._open(around, noted)
        except BaseException:
            self._release()
            raise

    def _open(self, around: Folder | None, noted: Mapping[str, Any]) -> None:
        self._ledger = Ledger(self._folder)
        manifest = self._ledger.manifest
        if manifest is not None and manifest.heavy:
            self._lay_out(manifest.heavy)
        elif manifest is None and around is not None:
            self._adopt(around, noted)
        if not self._manifest.files:
            same = partial(require_same, self._folder, wanted=self._manifest)
            begun = replace(self._manifest, epoch=0)
            self._ledger.take(begun, same if around is None else lambda committed: None)
            if self._ledger.manifest is not None:
                self._take(self._ledger.manifest)
        NetFolder.sweep(self._folder, self.generation)
        if not self.layout.bounded:
            self.settle()

    @contextmanager
    def _stored(self) -> Iterator[None]:
        try:
            yield
        except errors.DeltafixError:
            raise
        except OSError as error:
            message = f"{self._folder}: the shards cannot be opened: {error}"
            raise errors.StateError(message, path=str(self._folder)) from error

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _lay_out(self, heavy: tuple[int, ...]) -> bool:
        """Have a layout whose shards share the rows of keys, and no rows yet; whether one fits.

        It does not where what inputs say of their own keys would be in more than one shard.
        """
        try:
            layout = self._seats(plan_layout(self.program, heavy))
        except errors.ConfigError as error:
            _LOG.warning("%s: keys that have outgrown a shard stay in it: %s", self._folder, error)
            return False
        self._manifest = new_manifest(self.program, layout, self.shards)
        self._spec = replace(self._spec, layout=layout, program=self._manifest.program)
        return True

    @property
    def layout(self) -> Layout:
        """Which rows belong where, and what each shard runs."""
        return self._spec.layout

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 is that of the program's own facts, if it has run."""
        return max(self._manifest.epoch, 0)

    @property
    def marks(self) -> Mapping[str, Any]:
        """What was noted beside the rows, as of the last epoch."""
        return MappingProxyType(self._manifest.marks)

    @property
    def name(self) -> str:
        """What tells this state from all others, from its beginning on."""
        return self._manifest.name

    @property
    def generation(self) -> int:
        """How often a state in an object store was opened; 0 on a disk, which has a lock."""
        return self._manifest.generation

    @property
    def recovered(self) -> tuple[str, ...]:
        """Nothing is mended on opening: a manifest is whole or not there."""
        return ()

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self._spec.shards

    # --- changes ---------------------------------------------------------------------------

    @overload
    def apply(self, changes: Delta) -> Delta: ...
    @overload
    def apply(self, changes: Mapping[str, DataFrame]) -> dict[str, DataFrame]: ...
    def apply(self, changes: Delta | Mapping[str, Any]) -> Delta | dict[str, DataFrame]:
        """Apply changes of given rows as one epoch; returns what it changed, in every relation.

        A row added that is there, or removed that is not, is a no-op. A Delta gives a Delta.
        Frames by relation, with the relation's columns and optionally `sign` (1 or -1; 1 when
        there is none), give frames with `sign`, one per changed relation, which are read from
        the epoch's files: use them before the next `apply`. A row that occurs more than once in
        a frame counts with the sum of its signs.

        Raises UnknownRelationError, FactError, TypeMismatchError; StateError where files could
        not be written (a full disk); SparkJobError when Spark has given up a task. The state is
        then as before.
        """
        if self._closed:
            raise errors.TransactionError("the database is closed")
        for name in changes:
            self._require(name)
        if isinstance(changes, Delta):
            return self._apply_delta(changes)
        return self._apply_frames(changes)

    def _apply_delta(self, changes: Delta) -> Delta:
        edits = {
            name: local_table(self.schemas[name], part.to_arrow()) for name, part in changes.items()
        }
        removed = sum(len(part.removed) for part in changes.values())
        added = sum(len(part.added) for part in changes.values())
        changed = added + removed
        first = self.first()
        given = None if first else changes.keys()
        messages = First([*first, *parcels_of(self._spec, edits)])
        with self.attempt(messages, changed, removed) as attempt:
            self.finish(attempt, changed, given)
            delta = self.delta(attempt)
            self.commit(attempt, added - removed, {})
        return delta

    def _apply_frames(self, changes: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        if self._spark is None:
            raise ValueError("frames need a Spark session: ShardedDatabase(program, spark, ...)")
        sizes = self._sizes(None, frame_bytes(changes.values()))
        if self._choose(sizes).executor == "driver":
            tables = {
                name: local_table(self.schemas[name], gathered(frame))
                for name, frame in changes.items()
            }
            changed = sum(table.num_rows for table in tables.values())
            grown = sum(pa.compute.sum(t.column("sign")).as_py() or 0 for t in tables.values())
            first = First([*self.first(), *parcels_of(self._spec, tables)])
            pieces_of_views = self._run(first, changed, grown)
        else:
            pieces_of_views = self._run(self._first_of(changes), None, None)
        return {
            name: changes_frame(self._spark, self.schemas[name], self._folder, pieces)
            for name, pieces in pieces_of_views.items()
        }

    def _first_of(self, changes: Mapping[str, DataFrame]) -> First:
        """The messages of frames: tasks read files, and Spark reads all else."""
        makers: list[Callable[[], Iterator[Parcel]]] = []
        sent: list[DataFrame] = []
        for name, frame in changes.items():
            schema = self.schemas[name]
            pieces = pieces_of(frame)
            if pieces is None:
                sent.append(messages_frame(self._spec, schema, frame))
            else:
                makers += (partial(parcels_in, self._spec, schema, piece) for piece in pieces)
        return First(self.first(), makers, united(self._session, sent))

    def settle(self) -> None:
        """Derive what the program's own facts give, if nothing has been derived yet.

        A program whose inputs can bound what follows from its facts is left alone until the first
        `apply`, as `connect` does; whoever reads before calls this.
        """
        if not self._manifest.files:
            self._manifest = replace(self._manifest, epoch=self.epoch - 1)
            self._run(First(self._seeds()), 0, 0)

    def first(self) -> list[Parcel]:
        """The program's facts, where they wait for the first changes."""
        if self._manifest.files:
            return []
        self._manifest = replace(self._manifest, epoch=self.epoch)  # nothing is written for it
        return self._seeds()

    @property
    def nets(self) -> Callable[[], NetFolder] | None:
        """Makes what executors leave net rows in for the next epoch.

        None where the driver takes them.
        """
        if self._choose(self._sizes(0, None)).executor == "driver":
            return None
        return partial(NetFolder, self._folder, self.generation)

    def to_judges(
        self,
        first: Sequence[Parcel],
        rows: Sequence[tuple[Signed, Keying]],
        *,
        in_place: bool,
    ) -> First:
        """First messages, and signed rows as messages to who judges them (`Said`).

        Rows in files are read where the epoch runs.
        """
        here = self._choose(self._sizes(sum(part.good for part, _ in rows), None))
        parcels, makers = [*first], list[Callable[[], Iterator[Parcel]]]()
        for part, keying in rows:
            said = Said(self._spec, part.schema, keying, in_place)
            if isinstance(part, Filed) and here.executor != "driver":
                makers += (partial(said.parcels_in, file) for file in part.files)
            else:
                parcels += said.parcels(part.table)
        return First(parcels, makers)

    def delta(self, attempt: Attempt, views: Collection[str] | None = None) -> Delta:
        """What an attempt that was run changes in some relations (None: in all)."""
        parts = [
            read_delta(self.schemas[name], self._folder, pieces)
            for name, pieces in attempt.changes.items()
            if views is None or name in views
        ]
        return Delta(parts, self.schemas.values(), epoch=self.epoch + 1)

    def _seeds(self) -> list[Parcel]:
        edits: dict[str, pa.Table] = {}
        for name, rows in self.layout.seeds.items():
            types = self.layout.types[self.layout.given[name][0].name]
            schema = Schema.of(name, [f"c{n}" for n in range(len(types))], types)
            edits[name] = signed(table_from_rows(schema, rows), types, 1)
        return list(parcels_of(self._spec, edits))

    def _take(self, manifest: Manifest) -> None:
        """Go on with a folder's manifest, or begin with its given rows, at the same epoch."""
        wanted = self._manifest
        if (manifest.program, manifest.shards) == (wanted.program, wanted.shards):
            self._manifest = manifest
            return
        self._carry(spec_of(str(self._folder), manifest, self._declared), manifest)

    def _carry(self, old: Spec, manifest: Manifest) -> None:
        """Begin with the given rows of another layout, at its epoch."""
        wanted = self._manifest
        new = replace(
            wanted, epoch=manifest.epoch, name=manifest.name, marks=manifest.marks,
            generation=manifest.generation, owner=manifest.owner,
        )  # fmt: skip
        if not manifest.files:
            self._begin(new, None)
        else:
            carry = partial(carried, old, self._spec, manifest.files)
            self._begin(new, First((), [partial(carry, [n]) for n in range(old.shards)]))

    def _adopt(self, around: Folder, noted: Mapping[str, Any]) -> None:
        """Take over what an engine has kept, at its epoch."""
        taken = adopted(around, self._declared)
        if taken is None:
            return
        rows = [
            parcel for name, table in taken.rows for parcel in parcels_of(self._spec, {name: table})
        ]
        new = replace(
            self._manifest, epoch=taken.epoch, name=taken.name, marks={**taken.marks, **noted}
        )
        self._begin(new, First(rows) if rows else None)

    def _begin(self, new: Manifest, rows: First | None) -> None:
        """Begin at a manifest's epoch with given rows, in one step; None: there are none.

        What the program's facts give is not waited with behind an epoch: that told it already.
        """
        if rows is None and self.layout.bounded and not new.epoch:
            self._ledger.commit(new)
            self._manifest = new
            return
        self._manifest = replace(new, epoch=new.epoch - 1)
        rows = rows or First()
        self._run(First([*self._seeds(), *rows.here], rows.makers), None, None)

    # --- reading -----------------------------------------------------------------------------

    def read(self, relation: str) -> DataFrame:
        """A relation as a frame of the last committed epoch, read by the workers when it is used.

        Use it before the next `apply`. Raises UnknownRelationError.
        """
        self._require(relation)
        self.settle()
        if self._spark is None:
            raise ValueError("frames need a Spark session; see `rows` and `to_arrow`")
        return frame_of(self._spark, self._spec, self._manifest.files, self.schemas[relation])

    def to_arrow(self, relation: str) -> pa.Table:
        """A relation of the last committed epoch as an Arrow table, gathered in this process."""
        return pa.concat_tables(self.tables(relation))

    def tables(self, relation: str) -> Iterator[pa.Table]:
        """The same in parts, of which one at a time is in this process.

        Where workers have the shards, they leave the rows in files beside them until all were
        taken. Raises UnknownRelationError, StateError, SparkJobError.
        """
        self._require(relation)
        self.settle()
        if self._choose(self._sizes(0, None)).executor != "driver" and self._spark is not None:
            nets = NetFolder(self._folder, self.generation)
            schema = self.schemas[relation]
            yield from tables_of(self._spark, self._spec, self._manifest.files, schema, nets)
            return
        self._warmed()
        make_engines(self._spec, self._manifest.files)
        for number in range(self._spec.shards):
            files = self._manifest.files.get(number, [])
            table = read_rows(self._spec, files, number, relation)
            if table is not None:
                yield table

    def rows(self, relation: str) -> list[Row]:
        """The rows of a relation in the last committed epoch, sorted, gathered in this process."""
        table, schema = self.to_arrow(relation), self.schemas[relation]
        if not schema.arity:
            return [()] * table.num_rows
        return sorted_rows(schema.types, rows_from_table(table, schema))

    def count(self, relation: str) -> int:
        """How many rows a relation has. O(shards), once they are in this process."""
        return sum(part.num_rows for part in self.tables(relation))

    def select(self, relation: str, pattern: Sequence[Any]) -> list[Row]:
        """The rows that fit a pattern, as `deltafix.Database.select` has it, gathered here."""
        self._require(relation)
        schema = self.schemas[relation]
        parts = []
        for part in self.tables(relation):
            table = part
            for name, column, value in zip(schema.names, schema.columns, pattern, strict=True):
                is_record = column.type in CONSTRUCTED
                if value is not ... and (value is not None or is_record):
                    written = write_value(value) if is_record else value
                    wanted = pa.scalar(written, ARROW_TYPES[column.type])
                    table = table.filter(pc.equal(table.column(name), wanted))
            parts.append(table)
        return sorted_rows(schema.types, rows_from_table(pa.concat_tables(parts), schema))

    # --- life --------------------------------------------------------------------------------

    def compact(self) -> None:
        """Write every shard whole, in one file. Raises StateError."""
        if not self._manifest.files:
            return
        now = self._manifest
        self._manifest = replace(now, epoch=now.epoch - 1)
        try:
            with self.attempt(First(), 0) as attempt:
                attempt.compact()
                self.commit(attempt, 0, {})
        except BaseException:
            self._manifest = now
            raise

    def balance(self) -> int:
        """Have all shards share the rows of keys that one shard has too many of; how many.

        Does nothing unless one shard was much larger than the others when all were last written
        whole. Else all is derived anew from the given rows, as for another number of shards.
        Pipelines call it after each epoch; rules, rows and the epoch are as before. Where such a
        key is joined, one literal's rows of it are spread, and every shard has those of the others
        (fragment and replicate: Epstein, Stonebraker and Wong, SIGMOD 1978, DOI
        10.1145/509252.509283). Groups of an aggregate stay together. Raises as `apply` does.
        """
        if not self._is_uneven:
            return 0
        before = self._spec, self._manifest
        outgrown_keys = outgrown(
            counted(self._spark, self._spec, self._manifest.files), self.shards
        )
        heavy = tuple(sorted({*self.layout.heavy, *outgrown_keys}))
        self._is_uneven = False
        if heavy == self.layout.heavy or not self._lay_out(heavy):
            return 0
        self._end_warming()
        try:
            self._carry(*before)
        except BaseException:
            self._spec, self._manifest = before
            self._is_uneven = True
            raise
        _LOG.info("%s: all shards share %d keys", self._folder, len(heavy))
        return len(outgrown_keys)

    def close(self) -> None:
        """Give the folder back. Idempotent."""
        if not self._closed:
            self._closed = True
            self._end_warming()
            forget(str(self._folder))
            self._release()

    # --- an epoch ----------------------------------------------------------------------------

    def _run(
        self, first: First, changed: int | None, grown: int | None
    ) -> dict[str, list[Changed]]:
        """An epoch; `changed` and `grown` (more rows by) are None for frames nobody counted."""
        with self.attempt(first, changed) as attempt:
            self.finish(attempt, changed)
            if grown is None:
                grown = self._grown(attempt.changes)
            self.commit(attempt, grown, {})
        return attempt.changes

    @contextmanager
    def attempt(self, first: First, changed: int | None, removed: int = 0) -> Iterator[Attempt]:
        """An attempt at an epoch with these first messages, of which some take rows away.

        What the block raises undoes it. Raises StateError where files could not be written,
        SparkJobError where Spark gave up.
        """
        began = time.perf_counter()
        choice = self._choose(self._sizes(changed, None, removed))
        executor: Executor
        if self._session is None or (choice.executor == "driver" and not first.is_away):
            self._warmed()
            executor = Here(self._spec, first)
        else:
            executor = OnSpark(self._session, self._spec, first)
        attempt = Attempt(self._spec, self._manifest, executor, choice, self._ledger)
        try:
            yield attempt
        except errors.DeltafixError:
            attempt.discard()
            self._ledger.require_ours(self._manifest)
            raise
        except OSError as error:
            attempt.discard()
            raise task_error(self._spec, error) from error
        except BaseException:
            attempt.discard()
            raise
        finally:
            executor.close()
        _LOG.info(
            "epoch %d on %s; %d supersteps, %d messages, %d bytes, %.2f s",
            self.epoch, self.choice, self.work.supersteps, self.work.messages, self.work.bytes,
            time.perf_counter() - began,
        )  # fmt: skip

    def finish(
        self, attempt: Attempt, changed: int | None, given: Collection[str] | None = None
    ) -> None:
        """Run an attempt to its end, which is not committed yet; `given` as for `Attempt.run`."""
        choice = attempt.choice
        recompute = choice.executor == "recompute"
        given = None if recompute else given
        # A bounded program has rows of no given ones, and a load derives these as well.
        if self._loads(changed, recompute) and attempt.load(None if self.layout.bounded else given):
            attempt.choice = choice._replace(why=f"{choice.why}; all derived anew, in a load")
        else:
            attempt.run(recompute=recompute, given=given)

    def goes_on(self, changed: int, removed: int) -> bool:
        """Whether an epoch of so many changes goes on from the shards' rows: nothing is anew."""
        recompute = self._choose(self._sizes(changed, None, removed)).executor == "recompute"
        return not recompute and not self._loads(changed, recompute)

    def commit(self, attempt: Attempt, grown: int, marks: Marks) -> None:
        """Commit an attempt and marks; `grown`: more given rows by."""
        self._manifest = attempt.commit(grown, marks)
        self.choice, self.work = attempt.choice, attempt.work
        self._is_cold = attempt.loaded and self._manifest.base >= _WARMED
        if attempt.whole:
            self._is_uneven = is_uneven(attempt.whole)

    def warm(self, *, wait: bool = False) -> None:
        """Have the engines of a large load made beside all else, if the last epoch was one.

        Else the next change makes them. They are made where small changes run: by workers, or by
        threads of the driver. Call it when what the load gave was taken: Spark runs one job after
        another. `wait` until all are made.
        """
        if self._is_cold:
            self._end_warming()
            by_workers = self._choose(self._sizes(1, None)).executor != "driver"
            if by_workers and self._session is not None:
                self._warming = Warming(self._session, self._spec, self._manifest.files)
            else:
                self._warming = Making(self._spec, self._manifest.files)
        self._is_cold = False
        if wait and self._warming is not None:
            self._warming.wait()

    def _warmed(self) -> None:
        """Wait for engines that are made for this process."""
        if isinstance(self._warming, Making):
            self._warming.wait()

    def _end_warming(self) -> None:
        if self._warming is not None:
            self._warming.close()
            self._warming = None

    def _grown(self, changes: Mapping[str, list[Changed]]) -> int:
        """By how many rows the relations without rules have grown, as the epoch's files say."""
        given = (pieces for name, pieces in changes.items() if name not in self._derived)
        return sum(piece.added - piece.removed for pieces in given for piece in pieces)

    def _sizes(self, changed: int | None, frames: int | None, removed: int = 0) -> Sizes:
        before = self._manifest
        return Sizes(before.given, changed, before.base + before.log, frames, removed)

    def _choose(self, sizes: Sizes) -> Choice:
        if self._executor == "auto":
            choice = choose(sizes, spark=self._spark is not None)
        else:
            choice = Choice(self._executor, "asked for")
        anew = recomputed(sizes) if choice.executor == "shards" else None
        return anew if anew is not None and self.layout.shuffles else choice

    def _loads(self, changed: int | None, recompute: bool) -> bool:
        """Whether an epoch is to be a load: all is derived, and enough to make engines later."""
        large = changed is None or changed >= LOAD
        return large and self.layout.shuffles and (recompute or not self._manifest.given)

    def _require(self, relation: str) -> None:
        if relation not in self.schemas:
            raise unknown_relation(relation, self.schemas)
