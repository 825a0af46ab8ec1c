"""Views kept exact inside a Spark job: DataFrames of changes in, DataFrames of signed rows out.

    with maintain(program, {"member": changes}, state="state/", views=["can_read"]) as kept:
        kept["can_read"]            # what this batch changed: columns, sign, epoch

Batch DataFrames are one batch, applied at once; streaming ones are one query (`foreachBatch`),
whose views are streams. Invariant: a batch is in the engine's state exactly once, by (query, batch
id), and what it changed can be read again from the delta logs in `<state>/views/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.datalog.program import Program as Text
from deltafix.diagnostics import suggest
from deltafix.errors import PipelineError, UnknownRelationError
from deltafix.pipeline.batches import Batches, Name, Rows
from deltafix.pipeline.config import OutputConfig, schemas_of
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.maintainer import Maintainer
from deltafix.pipeline.policy import Policy
from deltafix.rules.ast import Program
from deltafix.spark.checkpoint import Checkpoint
from deltafix.spark.datasource import register
from deltafix.store.folder import Folder, folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Maintained", "maintain"]

_RELATION = "+/- relation"
_UNNAMED = Name()


def maintain(
    program: Program | str,
    inputs: Mapping[str, DataFrame],
    *,
    state: str | Path,
    views: Sequence[str],
    query: str = "default",
    batch: int | None = None,
    whole: Sequence[str] = (),
    sign: str = "sign",
    missing: Literal["bad", "ignore"] = "bad",
    duplicates: Literal["ignore", "bad", "count"] = "ignore",
    bad_rows: Literal["fail", "quarantine"] = "fail",
    rows_per_epoch: int = 1_000_000,
    on_change: Literal["refuse", "rebuild"] = "refuse",
    checkpoint: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Maintained:
    """Keep views of DataFrames exact.

    Args:
        program: the rules, or their text.
        inputs: per relation, a DataFrame with its columns, and `sign` (+1, -1) or Spark's
            `_change_type` for changes; with neither, every row is put in. All batch or all streams.
        state: the state folder, by path or URL; opened until `close`.
        views: the relations to keep outside; their logs are in `<state>/views/`.
        query: the name under which batches are counted.
        batch: the id of this batch; the next one unless given. Ids follow each other. Those of
            streams are Spark's, with the id of its checkpoint and the offsets of the sources.
        sign: the column of signs.
        whole: relations whose DataFrame is all of their rows (diffed with what is there).
        missing: what a delete of a row that is not there is.
        duplicates: what an insert of a row that is there is.
        bad_rows: whether bad rows fail the batch or are set aside, in `<state>/quarantine/`.
        rows_per_epoch: a batch with more changes becomes several epochs.
        on_change: what to do when the rules are not those the views were made with.
        checkpoint: where Spark keeps a stream's offsets; `<state>/checkpoint` unless given.
        trigger: arguments of `DataStreamWriter.trigger`, e.g. `{"availableNow": True}`.
        on_epoch: called with every epoch that is committed.

    Raises:
        UnknownRelationError: an input or view the program does not declare.
        PipelineError: streams and batches together, columns that are not the relation's, or a
            batch, checkpoint or state that do not go together.
    """
    rules = Text.parse(program) if isinstance(program, str) else program
    declared = schemas_of(rules)
    for name in [*inputs, *views, *whole]:
        if name not in declared:
            close = suggest(name, list(declared))
            hint = f"did you mean {close!r}?" if close else f"it declares {', '.join(declared)}"
            raise UnknownRelationError(f"the program has no relation {name!r}; {hint}", value=name)
    streams = {name: frame.isStreaming for name, frame in inputs.items()}
    if len(set(streams.values())) > 1 or (any(streams.values()) and whole):
        message = f"inputs are all streams of changes or all batches, not {streams}"
        raise PipelineError(message, inputs=streams)
    folder = folder_at(state)
    maintainer = Maintainer(
        rules,
        folder,
        [OutputConfig(name, folder / "views" / name, "delta+snapshot") for name in views],
        counted=tuple(inputs) if duplicates == "count" else (),
        on_change=lambda change: on_change == "rebuild",
    )
    policy = Policy("apply", duplicates, missing, 0, bad_rows == "quarantine")
    batches = Batches(maintainer, query, policy=policy, limit=rows_per_epoch, sign=sign)
    session = next(iter(inputs.values())).sparkSession
    kept = Maintained(session, maintainer, batches, folder, whole=tuple(whole), on_epoch=on_epoch)
    try:
        if any(streams.values()):
            kept.stream(inputs, checkpoint or f"{folder}/checkpoint", trigger or {})
        else:
            kept.apply(inputs, batch)
    except BaseException:
        kept.close()
        raise
    return kept


class Maintained(Mapping[str, "DataFrame"]):
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
        whole: tuple[str, ...],
        on_epoch: Callable[[Epoch], None] | None,
    ) -> None:
        self.maintainer = maintainer
        self.epochs: list[Epoch] = []
        self.query: StreamingQuery | None = None
        self._shown: tuple[int, int] | None = None
        self._session = session
        self._batches = batches
        self._folder = folder
        self._whole = whole
        self._hearers = [] if on_epoch is None else [on_epoch]
        self._start = batches.handed + 1
        register(session)

    def apply(self, inputs: Mapping[str, DataFrame], batch: int | None = None) -> list[Epoch]:
        """Apply a batch, the next one unless it has an id; a batch seen before is only found.

        Afterwards the mapping shows what changed since the batch before. Raises as `maintain`.
        """
        number = self._batches.last + 1 if batch is None else batch
        rows = {}
        if self._batches.find(number) is None:
            rows = {name: Rows(one.toArrow(), name in self._whole) for name, one in inputs.items()}
        return self._take(number, rows)

    def stream(
        self, inputs: Mapping[str, DataFrame], checkpoint: str | Path, trigger: Mapping[str, Any]
    ) -> None:
        """Start the query that takes all of the streams' micro-batches."""
        from pyspark.sql import functions as f  # noqa: PLC0415  Spark is an extra

        tagged = [
            frame.select(f.lit(name).alias(_RELATION), f.struct(*frame.columns).alias(name))
            for name, frame in inputs.items()
        ]
        together = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tagged)
        # Any StreamingQueryListener sees the rows of each batch under this name.
        observed = together.observe("deltafix", f.count(f.lit(1)).alias("rows"))
        names = tuple(inputs)

        there = Checkpoint(self._session, str(checkpoint))
        self._batches.require_run(there.run(), there.last())

        def handle(frame: DataFrame, batch: int) -> None:
            name = Name(there.run() or "", there.offsets(batch))
            seen = self._batches.find(batch, name) is not None
            self._take(batch, {} if seen else _apart(frame.toArrow(), names), name)

        writer = observed.writeStream.foreachBatch(handle)
        writer = writer.option("checkpointLocation", str(checkpoint))
        self.query = (writer.trigger(**trigger) if trigger else writer).start()

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
        if view not in self.maintainer.outputs.sinks:
            raise KeyError(view)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _apart(table: pa.Table, names: Sequence[str]) -> dict[str, Rows]:
    """The rows of each relation out of a batch of all of them."""
    found = {}
    for name in names:
        rows = table.filter(pc.equal(table.column(_RELATION), name)).column(name).combine_chunks()
        if isinstance(rows, pa.ChunkedArray):
            rows = pa.concat_arrays(rows.chunks) if rows.num_chunks else rows.type.wrap_array([])
        arrays = [rows.field(place) for place in range(rows.type.num_fields)]
        found[name] = Rows(pa.Table.from_arrays(arrays, [one.name for one in rows.type]))
    return found
