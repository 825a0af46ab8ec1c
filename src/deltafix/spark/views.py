"""Views kept exact inside a Spark job: DataFrames of changes in, DataFrames of signed rows out.

    with maintain(program, {"member": changes}, state="state/", views=["can_read"]) as kept:
        kept["can_read"]            # what this batch changed: columns, sign, epoch

Batch DataFrames are one batch, applied at once; streaming ones are one query (`foreachBatch`),
whose views are streams. Invariant: a batch is in the engine's state exactly once, by (query, batch
id), and what it changed can be read again from the delta logs in `<state>/views/`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.closing import Closing
from deltafix.datalog.program import Program as Text
from deltafix.diagnostics import did_you_mean
from deltafix.errors import ConfigError, PipelineError, UnknownRelationError
from deltafix.facts.schema import Schema, unknown_relation
from deltafix.pipeline.augment import Additions
from deltafix.pipeline.batches import Batches, Name, Rows
from deltafix.pipeline.change import Way
from deltafix.pipeline.config import OutputConfig, schemas_of
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.maintainer import Maintainer
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.sections import of_bag, require_key, require_table
from deltafix.pipeline.sources.single import CHANGE
from deltafix.rules.ast import Program
from deltafix.rules.tables import TableProgram
from deltafix.spark.checkpoint import Checkpoint
from deltafix.spark.datasource import register
from deltafix.spark.keeping import Where, keeping
from deltafix.spark.net import WIDTH, Look, Net, Piece, net_frames
from deltafix.spark.sources.frames import Fit, decoded, diffed, fitted, held_frame
from deltafix.store.folder import Folder, folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_RELATION = "+/- relation"
_UNNAMED = Name()


def maintain(
    program: Program | str | None = None,
    inputs: Mapping[str, DataFrame] | None = None,
    *,
    sql: str | None = None,
    dialect: str = "duckdb",
    counted: Sequence[str] = (),
    state: str | Path,
    views: Sequence[str],
    query: str = "default",
    batch: int | None = None,
    whole: Sequence[str] = (),
    key: Mapping[str, str | Sequence[str]] | None = None,
    sequence_by: Mapping[str, str | Sequence[str]] | None = None,
    sign: str = "sign",
    missing: Literal["bad", "ignore"] = "bad",
    duplicates: Literal["ignore", "bad", "count"] | None = None,
    bad_rows: Literal["fail", "quarantine"] = "fail",
    rows_per_epoch: int = 1_000_000,
    on_change: Way = "refuse",
    executor: Where = "auto",
    shards: int = 4,
    checkpoint: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Maintained:
    """Keep views of DataFrames exact.

    Args:
        program: the rules, or their text; or say `sql`.
        inputs: per relation, a DataFrame with its columns, and `sign` (+1, -1) or Spark's
            `_change_type` for changes; with neither, every row is put in. All batch or all streams.
        sql: CREATE TABLE for each input, and CREATE VIEW statements (docs/concepts/pipeline.md);
            columns are of the types of the tables, NULLs and all.
        dialect: whose SQL it is: `duckdb`, `postgres` or `spark`.
        counted: views of `sql` that are kept as distinct rows with their `multiplicity`.
        state: the state folder, by path or URL; opened until `close`.
        views: the relations to keep outside; their logs are in `<state>/views/`.
        query: the name under which batches are counted.
        batch: the id of this batch; the next one unless given. Ids follow each other. Those of
            streams are Spark's, with the id of its checkpoint and the offsets of the sources.
        sign: the column of signs.
        whole: relations whose DataFrame is all of their rows (diffed with what is there).
        key: per relation, the column or columns by which rows replace each other; a delete takes
            away whatever row the key has. Say it whenever the state is opened.
        sequence_by: per relation with a key, the columns of its DataFrame that tell newer from
            older. Each needs one, as the rows of a batch come in no order.
        missing: what a delete of a row that is not there is.
        duplicates: what an insert of a row that is there is; `ignore` unless it is said, which
            it must be for tables of SQL without a key.
        bad_rows: whether bad rows fail the batch or are set aside, in `<state>/quarantine/`.
        rows_per_epoch: a batch with more changes becomes several epochs.
        on_change: what to do when the rules are not those the views were made with
            (`pipeline.change`).
        executor: who keeps the rows: `driver`, `shards`, or as it turns out (`spark.keeping`).
        shards: how many, where they are in shards.
        checkpoint: where Spark keeps a stream's offsets; `<state>/checkpoint` unless given.
        trigger: arguments of `DataStreamWriter.trigger`, e.g. `{"availableNow": True}`.
        on_epoch: called with every epoch that is committed.

    Raises:
        UnknownRelationError: an input or view the program does not declare.
        ConfigError: a key, or a sequence, that cannot be one; a view of SQL with duplicates.
        ProgramError, SqlError: the rules are not valid.
        PipelineError: streams and batches together, columns that are not the relation's, or a
            batch, checkpoint or state that do not go together.
    """
    if (program is None) is (sql is None) or not inputs:
        message = "maintain takes rules or sql, one of them, and inputs"
        raise ConfigError(message, key="inputs" if program is not None or sql else "program")
    rules = _rules(program, sql, dialect, counted)
    declared = schemas_of(rules)
    if isinstance(rules, TableProgram):
        declared = {name: declared[name] for name in (*rules.tables, *rules.views, *rules.bags)}
        _require_tables(rules, inputs, views, duplicates, key or {})
    duplicates = duplicates or "ignore"
    for name in [*inputs, *views, *whole, *(key or ()), *(sequence_by or ())]:
        if name not in declared:
            hint = did_you_mean(name, declared, f"it declares {', '.join(declared)}", "'")
            raise UnknownRelationError(f"the program has no relation {name!r}; {hint}", value=name)
    streams = {name: frame.isStreaming for name, frame in inputs.items()}
    if len(set(streams.values())) > 1 or (any(streams.values()) and whole):
        message = f"inputs are all streams of changes or all batches, not {streams}"
        raise PipelineError(message, inputs=streams)
    keyed = {
        name: _keying(declared[name], (key or {}).get(name), (sequence_by or {}).get(name))
        for name in {**(key or {}), **(sequence_by or {})}
    }
    if both := sorted({*whole} & {*keyed}):
        message = f"{both[0]}: key says nothing of whole tables, which are diffed; leave one out"
        raise ConfigError(message, key="key", value=both[0])
    counted = tuple(name for name in inputs if name not in keyed) if duplicates == "count" else ()
    free = [name for name in inputs if name not in {*keyed, *whole}]
    keyable = {name: f"as maintain's argument for {name}" for name in free}
    folder = folder_at(state)
    session = next(iter(inputs.values())).sparkSession
    maintainer = Maintainer(
        rules,
        folder,
        [OutputConfig(name, folder / "views" / name, "delta+snapshot") for name in views],
        additions=Additions(counted=counted, keyed=keyed, keyable=keyable),
        keep=keeping(lambda: session, executor, shards),
        on_change=lambda change: on_change,
    )
    aside = bad_rows == "quarantine"
    plain = Policy("apply", duplicates, missing, 0, aside)
    policies = defaultdict(
        lambda: plain,
        {name: Policy(quarantine=aside, keying=keying) for name, keying in keyed.items()},
    )
    batches = Batches(maintainer, query, policies=policies, limit=rows_per_epoch)
    kept = Maintained(
        session,
        maintainer,
        batches,
        folder,
        policies=policies,
        whole=tuple(whole),
        sign=sign,
        on_epoch=on_epoch,
    )
    try:
        if any(streams.values()):
            kept.stream(inputs, checkpoint or f"{folder}/checkpoint", trigger or {})
        else:
            kept.apply(inputs, batch)
    except BaseException:
        kept.close()
        raise
    return kept


def _rules(
    program: Program | str | None, sql: str | None, dialect: str, counted: Sequence[str]
) -> Program:
    if sql is not None:
        from deltafix.sql.program import program_of  # noqa: PLC0415  an extra

        return program_of(sql, dialect=dialect, counted=counted)
    if counted:
        message = f"counted = {list(counted)} is of views in SQL; rules have sets"
        raise ConfigError(message, key="counted", value=list(counted))
    assert program is not None  # noqa: S101  one of them is given
    return Text.parse(program) if isinstance(program, str) else program


def _require_tables(
    rules: TableProgram,
    inputs: Iterable[str],
    views: Iterable[str],
    duplicates: str | None,
    key: Mapping[str, Any],
) -> None:
    """Raise ConfigError where inputs and views are not what SQL declares as such."""
    for name in inputs:
        require_table(f"input {name}:", rules, name, duplicates, key.get(name))
    for name in views:
        if name in rules.bags:
            raise ConfigError(f"view {name}: {of_bag(name, 'counted')}", value=name)


class Maintained(Closing, Mapping[str, "DataFrame"]):
    """Made by `maintain`. A mapping from view to a DataFrame of its signed rows; `close` it.

    Attributes:
        epochs: those of the last batch.
        query: the streaming query; None for batches.
    """

    def __init__(
        self,
        session: SparkSession,
        maintainer: Maintainer,
        batches: Batches,
        folder: Folder,
        *,
        policies: Mapping[str, Policy],
        whole: tuple[str, ...],
        sign: str,
        on_epoch: Callable[[Epoch], None] | None,
    ) -> None:
        self.maintainer = maintainer
        self.epochs: list[Epoch] = []
        self.query: StreamingQuery | None = None
        self._shown: tuple[int, int] | None = None
        self._session = session
        self._batches = batches
        self._folder = folder
        self._policies = policies
        self._whole = whole
        self._sign = sign
        self._hearers = [] if on_epoch is None else [on_epoch]
        self._start = batches.handed + 1
        register(session)

    def apply(self, inputs: Mapping[str, DataFrame], batch: int | None = None) -> list[Epoch]:
        """Apply a batch, the next one unless it has an id; a batch seen before is only found.

        Afterwards the mapping shows what changed since the batch before. Raises as `maintain`.
        """
        number = self._batches.last + 1 if batch is None else batch
        if self._batches.find(number) is not None:
            return self._take(number, {})
        db, schemas = self.maintainer.db, self.maintainer.schemas
        frames, looks = [], []
        for name, frame in inputs.items():
            if name not in schemas:
                raise unknown_relation(name, schemas)
            schema = schemas[name]
            sign = 1 if name in self._whole else self._sign_of(frame)
            policy = self._policies[name]
            frames.append(decoded(schema, frame, _origin(name), sign=sign, keying=policy.keying))
            looks.append(Look(schema, "sum", policy))
            if name in self._whole:
                looks[-1] = Look(schema, diffed(policy), policy)
                frames += held_frame(self._session, schema, db, policy)
        return self._take(number, self._rows(net_frames(frames, looks)))

    def stream(
        self, inputs: Mapping[str, DataFrame], checkpoint: str | Path, trigger: Mapping[str, Any]
    ) -> None:
        """Start the query that takes all of the streams' micro-batches."""
        from pyspark.sql import functions as f  # noqa: PLC0415  Spark is an extra

        schemas = self.maintainer.schemas
        fits = {}
        for name, frame in inputs.items():
            schema, policy = schemas[name], self._policies[name]
            _, fits[name] = fitted(
                schema, frame, _origin(name), sign=self._sign_of(frame), keying=policy.keying
            )
        looks = [Look(schemas[name], "sum", self._policies[name]) for name in inputs]
        tagged = [
            frame.select(f.lit(name).alias(_RELATION), f.struct(*frame.columns).alias(name))
            for name, frame in inputs.items()
        ]
        together = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tagged)
        # Any StreamingQueryListener sees the rows of each batch under this name.
        observed = together.observe("deltafix", f.count(f.lit(1)).alias("rows"))

        stored = Checkpoint(self._session, str(checkpoint))
        self._batches.require_run(stored.run(), stored.last())

        def handle(frame: DataFrame, batch: int) -> None:
            name = Name(stored.run() or "", stored.offsets(batch))
            nets: list[Net] = []
            if self._batches.find(batch, name) is None:
                nets = net_frames([(frame, _Apart(fits))], looks)
            self._take(batch, self._rows(nets), name)

        writer = observed.writeStream.foreachBatch(handle)
        writer = writer.option("checkpointLocation", str(checkpoint))
        self.query = (writer.trigger(**trigger) if trigger else writer).start()

    def _sign_of(self, frame: DataFrame) -> str | int:
        """The column of signs; 1 where every row is put in."""
        return next((name for name in (CHANGE, self._sign) if name in frame.columns), 1)

    def _rows(self, nets: Sequence[Net]) -> dict[str, Rows]:
        signed_by_name = {net.signed.schema.relation: net.checked().signed for net in nets}
        return {name: Rows(signed, name in self._whole) for name, signed in signed_by_name.items()}

    def _take(self, batch: int, rows: Mapping[str, Rows], name: Name = _UNNAMED) -> list[Epoch]:
        self.epochs = self._batches.apply(batch, rows, name)
        self._shown = self._batches.find(batch, name)
        for epoch in self.epochs:
            if not epoch.replayed:
                for hear in self._hearers:
                    hear(epoch)
        return self.epochs

    def hear(self, function: Callable[[Epoch], None]) -> None:
        """Have a function called with every epoch that is committed from now on."""
        self._hearers.append(function)

    def log(self, view: str) -> Folder:
        """The folder of a view's delta log."""
        return self._folder / "views" / view

    def __getitem__(self, view: str) -> DataFrame:
        """The signed rows of a view: of the last batch, or as a stream.

        Those of epochs that opening made (a new view, changed rules) come with the batch behind
        them; a stream begins behind what was handed out before.
        """
        known = self.maintainer.outputs.sinks
        if view not in known:
            raise unknown_relation(view, known)
        if self.query is not None:
            stream = self._session.readStream.format("deltafix").option("from", str(self._start))
            return stream.load(str(self.log(view)))
        first, last = self._shown or (self._start, 0)
        reader = self._session.read.format("deltafix")
        reader = reader.option("from", str(first)).option("to", str(last))
        return reader.load(str(self.log(view)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.maintainer.outputs.sinks)

    def __len__(self) -> int:
        return len(self.maintainer.outputs.sinks)

    def close(self) -> None:
        """Stop the query, if there is one, and give the state back. Idempotent."""
        if self.query is not None and self.query.isActive:
            self.query.stop()
        self.maintainer.close()


def _keying(
    schema: Schema, key: str | Sequence[str] | None, sequence: str | Sequence[str] | None
) -> Keying:
    """The key of a relation, checked as that of a pipeline file. Raises ConfigError."""
    values = {
        name: [columns] if isinstance(columns, str) else list(columns or ())
        for name, columns in (("key", key), ("sequence_by", sequence))
    }
    where = f"input {schema.relation}:"
    require_key(where, {}, values, schema)
    if not values["sequence_by"]:
        message = f"{where} key needs sequence_by: rows of a batch come in no order"
        raise ConfigError(message, key="key", value=key)
    return Keying.of(values)


def _origin(name: str) -> str:
    return f"input {name}: the batch"


@dataclass(frozen=True, slots=True)
class _Apart:
    """Takes the rows of each relation out of a batch of all of them, on executors."""

    fits: Mapping[str, Fit]

    def __call__(self, batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[Piece]:
        before = dict.fromkeys(self.fits, 0)
        for batch in batches:
            for name, fit in self.fits.items():
                own = pc.equal(batch.column(_RELATION), name)
                rows = batch.column(name).filter(own)
                if len(rows):
                    table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
                    position = (partition << WIDTH) + before[name]
                    yield Piece(position, fit(table, before[name]))
                    before[name] += len(rows)
