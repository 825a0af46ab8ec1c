"""A database in shards: deltas in, deltas out, state larger than one machine.

The same engine runs in every shard; Spark places them, carries their messages, and runs again what
fails (`onspark`); files hold the state (`files`). Invariant: after `apply` returns, the epoch it
ran is committed, and the shards' relations together are what the rules give for the given rows;
after it raises, the state is that of the epoch before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import pyarrow as pa
from pyarrow import parquet

from deltafix.diagnostics import suggest
from deltafix.engine.bind import bound
from deltafix.engine.folds.users import UserReducer
from deltafix.engine.outside import Users
from deltafix.errors import StateError, TransactionError, UnknownRelationError
from deltafix.facts.arrow import rows_from_table, table_from_rows
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row, Schema
from deltafix.facts.values import sorted_rows
from deltafix.paths import local_path
from deltafix.rules.ast import Program
from deltafix.rules.schemas import row_schemas
from deltafix.spark.shards.bulkrules import bulk_rules
from deltafix.spark.shards.choose import LOAD, Choice, Sizes, choose
from deltafix.spark.shards.epoch import Attempt, Executor
from deltafix.spark.shards.files import open_manifest
from deltafix.spark.shards.frames import (
    for_spark,
    frame_bytes,
    local_table,
    messages_frame,
    messages_of,
    read_delta,
    sign_column,
)
from deltafix.spark.shards.here import Here
from deltafix.spark.shards.onspark import MESSAGES, OnSpark, from_messages, planless
from deltafix.spark.shards.planning import plan_layout
from deltafix.spark.shards.resident import Message, Spec, forget, read_rows
from deltafix.spark.shards.schedule import Work
from deltafix.spark.shards.wire import signed
from deltafix.store.lock import Lock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ShardedDatabase"]

_LOG = logging.getLogger("deltafix.spark.shards")


class ShardedDatabase:
    """A program's relations, kept by shards. One writer at a time; close it.

    Args:
        program: a Program, or its text.
        spark: a classic session; None runs every epoch in this process.
        shards: how many; a folder keeps the number it was made with.
        state: a folder that this process and all workers see.
        executor: `auto` chooses per epoch (`choose`), the others force it.
        functors: as in `deltafix.connect`; workers must be able to import the functions.
        reducers: likewise.

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
        state: str | Path,
        executor: Literal["auto", "driver", "shards", "recompute"] = "auto",
        functors: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        reducers: Mapping[str, UserReducer] = MappingProxyType({}),
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
        self.layout = plan_layout(program)
        bound(program, functors)
        self.schemas: Mapping[str, Schema] = MappingProxyType(
            {
                name: schema
                for name, schema in row_schemas(program).items()
                if name in self.layout.given
            }
        )
        self.choice: Choice | None = None
        self._derived = {head.relation for rule in program.rules for head in rule.heads}
        self._loadable = bulk_rules(self.layout) is not None
        self.work = Work()
        self._spark = spark
        self._session = None if spark is None else planless(spark)
        self._executor = executor
        self._folder = local_path(state).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self._folder / "lock")
        try:
            self._manifest = open_manifest(self._folder, self.layout, shards)
            columns = {name: schema.names for name, schema in self.schemas.items()}
            users = Users(dict(functors), dict(reducers))
            self._spec = Spec(str(self._folder), self.layout, shards, columns, users)
            if not self.layout.bounded:
                self.settle()
        except BaseException:
            self._lock.release()
            raise

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 is that of the program's own facts, if it has run."""
        return max(self._manifest.epoch, 0)

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
        not be written (a full disk); whatever Spark raises when a task failed four times. The
        state is then as before.
        """
        if self._lock is None:
            raise TransactionError("the database is closed")
        for name in changes:
            self._require(name)
        if isinstance(changes, Delta):
            return self._apply_delta(changes)
        return self._apply_frames(changes)

    def _apply_delta(self, changes: Delta) -> Delta:
        edits = {
            name: local_table(self.schemas[name], part.to_arrow()) for name, part in changes.items()
        }
        changed = sum(len(part) for part in changes.values())
        grown = sum(len(part.added) - len(part.removed) for part in changes.values())
        found = self._run([*self._first(), *messages_of(self._spec, edits)], changed, grown)
        parts = [
            read_delta(self.schemas[name], [self._folder / path for path, _ in pieces])
            for name, pieces in found.items()
        ]
        return Delta(parts, self.schemas.values(), epoch=self.epoch)

    def _apply_frames(self, changes: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        if self._spark is None:
            raise ValueError("frames need a Spark session: ShardedDatabase(program, spark, ...)")
        sizes = self._sizes(None, frame_bytes(changes.values()))
        if self._choose(sizes).executor == "driver":
            tables = {
                name: local_table(self.schemas[name], frame.toArrow())
                for name, frame in changes.items()
            }
            changed = sum(table.num_rows for table in tables.values())
            grown = sum(pa.compute.sum(t.column("sign")).as_py() or 0 for t in tables.values())
            found = self._run([*self._first(), *messages_of(self._spec, tables)], changed, grown)
        else:
            first = self._frame(self._first())
            for name, frame in changes.items():
                first = first.unionAll(messages_frame(self._spec, self.schemas[name], frame))
            found = self._run(first, None, None)
        return {
            name: self._spark.read.parquet(*(str(self._folder / path) for path, _ in pieces))
            for name, pieces in found.items()
        }

    def settle(self) -> None:
        """Derive what the program's own facts give, if nothing has been derived yet.

        A program whose inputs can bound what follows from its facts is left alone until the first
        `apply`, as `connect` does; whoever reads before calls this.
        """
        if not self._manifest.files:
            self._manifest = replace(self._manifest, epoch=-1)
            self._run(self._seeds(), 0, 0)

    def _first(self) -> list[Message]:
        """The program's facts, where they wait for the first changes."""
        if self._manifest.files:
            return []
        self._manifest = replace(self._manifest, epoch=0)  # nothing is written for it
        return self._seeds()

    def _seeds(self) -> list[Message]:
        edits: dict[str, pa.Table] = {}
        for name, rows in self.layout.seeds.items():
            types = self.layout.types[self.layout.given[name][0].name]
            schema = Schema.of(name, [f"c{n}" for n in range(len(types))], types)
            edits[name] = signed(table_from_rows(schema, rows), types, 1)
        return list(messages_of(self._spec, edits))

    # --- reading -----------------------------------------------------------------------------

    def read(self, relation: str) -> DataFrame:
        """A relation as a frame of the last committed epoch, read by the workers when it is used.

        Use it before the next `apply`. Raises UnknownRelationError.
        """
        self._require(relation)
        self.settle()
        if self._spark is None:
            raise ValueError("frames need a Spark session; see `rows` and `to_arrow`")
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  an extra

        shape = for_spark(self.schemas[relation])
        shards = self._spark.range(self._spec.shards)
        placed = shards.repartitionById(self._spec.shards, shards.id.cast("int"))
        task = partial(_read_part, self._spec, self._manifest.files, relation, shape)
        return placed.mapInArrow(task, from_arrow_schema(shape))

    def to_arrow(self, relation: str) -> pa.Table:
        """A relation of the last committed epoch as an Arrow table, gathered in this process."""
        self._require(relation)
        self.settle()
        found = [
            read_rows(self._spec, self._manifest.files.get(n, []), n, relation)
            for n in range(self._spec.shards)
        ]
        return pa.concat_tables([table for table in found if table is not None])

    def rows(self, relation: str) -> list[Row]:
        """The rows of a relation in the last committed epoch, sorted, gathered in this process."""
        table, schema = self.to_arrow(relation), self.schemas[relation]
        if not schema.arity:
            return [()] * table.num_rows
        return sorted_rows(schema.types, rows_from_table(table, schema))

    # --- life --------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the folder back. Idempotent."""
        if self._lock is not None:
            forget(str(self._folder))
            self._lock.release()
            self._lock = None  # type: ignore[assignment]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- an epoch ----------------------------------------------------------------------------

    def _run(
        self, first: list[Message] | DataFrame, changed: int | None, grown: int | None
    ) -> dict[str, list[tuple[str, int]]]:
        """An epoch; `changed` and `grown` (more rows by) are None for frames nobody counted."""
        began = time.perf_counter()
        choice = self._choose(self._sizes(changed, None))
        here = choice.executor == "driver" or self._spark is None
        if here and isinstance(first, list):
            executor: Executor = Here(self._spec, first)
        else:
            executor = OnSpark(self._spec, self._frame(first) if isinstance(first, list) else first)
        attempt = Attempt(self._spec, self._manifest, executor)
        recompute = choice.executor == "recompute"
        try:
            if self._loads(changed, recompute) and attempt.load():
                choice = choice._replace(why=f"{choice.why}; all derived anew, by columns")
            else:
                attempt.run(recompute=recompute)
            if grown is None:
                grown = self._grown(attempt.changes)
            self._manifest = attempt.commit(grown)
        except StateError:
            attempt.discard()
            raise
        except OSError as error:
            attempt.discard()
            message = f"{self._folder}: the epoch could not be written: {error}; nothing changed"
            raise StateError(message, path=str(self._folder)) from error
        except BaseException:
            attempt.discard()
            raise
        finally:
            executor.close()
        self.choice, self.work = choice, attempt.work
        _LOG.info(
            "epoch %d on %s; %d supersteps, %d messages, %d bytes, %.2f s",
            self.epoch, choice, self.work.supersteps, self.work.messages, self.work.bytes,
            time.perf_counter() - began,
        )  # fmt: skip
        return attempt.changes

    def _grown(self, changes: Mapping[str, list[tuple[str, int]]]) -> int:
        """By how many rows the relations without rules have grown, as the epoch's files say."""
        total = 0
        for name, pieces in changes.items():
            if name not in self._derived:
                column = sign_column(self.schemas[name])
                for path, _ in pieces:
                    signs = parquet.read_table(self._folder / path, columns=[column])
                    total += int(pa.compute.sum(signs.column(0)).as_py() or 0)
        return total

    def _sizes(self, changed: int | None, frames: int | None) -> Sizes:
        before = self._manifest
        return Sizes(before.given, changed, before.base + before.log, frames)

    def _choose(self, sizes: Sizes) -> Choice:
        if self._executor != "auto":
            return Choice(self._executor, "asked for")
        return choose(sizes, spark=self._spark is not None)

    def _loads(self, changed: int | None, recompute: bool) -> bool:
        """Whether an epoch is to be a load: all is derived, and enough that columns pay."""
        large = changed is None or changed >= LOAD
        return self._loadable and large and (recompute or not self._manifest.given)

    def _frame(self, messages: list[Message]) -> DataFrame:
        """Messages as a frame, and one without bytes for every shard, so that every shard runs."""
        assert self._session is not None  # noqa: S101  who asks has looked
        wake = [(number, b"") for number in range(self._spec.shards)]
        table = pa.Table.from_batches(from_messages([*wake, *messages]))
        return self._session.createDataFrame(table, MESSAGES)

    def _require(self, relation: str) -> None:
        if relation not in self.schemas:
            hint = suggest(relation, list(self.schemas))
            known = ", ".join(self.schemas) or "none"
            message = f"unknown relation {relation!r}; the program declares {known}"
            raise UnknownRelationError(message + (f" (did you mean {hint!r}?)" if hint else ""))


def _read_part(
    spec: Spec,
    files: Mapping[int, list[str]],
    relation: str,
    shape: pa.Schema,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            table = read_rows(spec, files.get(number, []), number, relation)
            if table is not None:
                yield from table.cast(shape).to_batches(max_chunksize=100_000)
