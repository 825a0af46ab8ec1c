"""Reducers over Spark streams: signed rows in, signed results out, each batch exactly once.

`StreamReduce` is the default: Spark reads and prepares the rows, the driver makes them net and
reduces them as Arrow batches (`foreachBatch`), hundreds of times faster than one state call a row.
Its state is a folder of files. Life of a batch:

1. *Seen?* A batch id at or below the manifest's returns the Delta it returned then.
2. *Folded* to net rows; rows that cannot be (unknown key type, delete of what is absent) go to the
   quarantine with a reason, or fail the batch, by option.
3. *Applied* to a collection as one epoch, then written: net rows, result delta, quarantine.
4. *Committed* by renaming the manifest, once the files it names are on disk. A crash before leaves
   files that the replay overwrites.

Invariant: the manifest's state is the net sum of the batches up to its id, and a result file is
never written twice with different content. Accumulators are never stored: they are folded again
from the net rows when the folder is opened, so there is no pickle and no drift over restarts.

A `BatchFolder` holds `manifest.json`, which names the last batch and the files whose net rows add
up to the state, and per batch `net-…`, `delta-…` and `quarantine-….parquet`; net rows of many
batches are folded into one `snapshot-….parquet`. A batch is committed by the rename of the
manifest, after every file it names is on disk: a crash before leaves files that nothing names and
that the replay writes again. One process at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import FactError, MissingRowError, StateError
from deltafix.facts.arrow import settled_columns
from deltafix.paths import local_path
from deltafix.pipeline.signed import net_sums
from deltafix.reactive.collection import Collection
from deltafix.reducers.reducer import Reducer
from deltafix.store.folder import Head, folder_at
from deltafix.store.tables import read_table, write_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BatchResult", "StreamReduce"]

KEY, VALUE, SIGN = "key", "value", "sign"

_FORMAT = 1
# Net rows of this many batches are read on opening before they are folded into one snapshot.
_LOGS = 50


def net_rows(rows: pa.Table) -> pa.Table:
    """One row per (key, value) with the sum of its signs, zeros left out."""
    return net_sums(rows, (KEY, VALUE), SIGN).cast(rows.schema)


class BatchFolder:
    """The files of one stream of one reducer. Made with its first batch.

    Raises StateError if the manifest is damaged, of another format or of another reducer.
    """

    def __init__(self, path: str | Path, reducer: str) -> None:
        self.path = local_path(path)
        self._folder = folder_at(self.path)
        self._head = Head(self._folder, "manifest.json")
        self._manifest: dict[str, Any] = {
            "format": _FORMAT,
            "reducer": reducer,
            "batch": -1,
            "snapshot": None,
            "logs": [],
            "types": None,
        }
        file = self.path / "manifest.json"
        if self._head.data is None:
            return
        try:
            manifest = json.loads(self._head.data)
        except ValueError as error:
            raise StateError(f"{file} is damaged: {error}") from error
        if not isinstance(manifest, dict) or manifest.keys() != self._manifest.keys():
            raise StateError(f"{file} is damaged: it is no manifest of a reduced stream")
        for key in ("format", "reducer"):
            if manifest[key] != self._manifest[key]:
                raise StateError(
                    f"{self.path} holds the state of {key} {manifest[key]!r}, "
                    f"not {self._manifest[key]!r}; use another folder or delete it"
                )
        self._manifest = manifest

    @property
    def last_batch(self) -> int:
        """The id of the last committed batch; -1 before the first."""
        return int(self._manifest["batch"])

    def state(self) -> pa.Table | None:
        """The net rows of all committed batches; None before the first. O(rows)."""
        parts = [self._read(name) for name in self._named()]
        return net_rows(pa.concat_tables(parts)) if parts else None

    def check_types(self, rows: pa.Table) -> None:
        """Raise FactError if rows are of other types than those of the batches before."""
        types, known = _types(rows), self._manifest["types"]
        if known is not None and types != known:
            raise FactError(
                f"the batch has columns of types {types}; the state in {self.path} has {known}"
            )

    def commit(self, batch: int, net: pa.Table, delta: pa.Table, quarantine: pa.Table) -> None:
        """Write a batch's files, then the manifest that names them."""
        log = f"net-{batch:012d}.parquet"
        write_table(self._folder, f"delta-{batch:012d}.parquet", delta)
        write_table(self._folder, f"quarantine-{batch:012d}.parquet", quarantine)
        write_table(self._folder, log, net)
        manifest = {
            **self._manifest,
            "batch": batch,
            "logs": [*self._manifest["logs"], log],
            "types": _types(net),
        }
        old: list[str] = []
        if len(manifest["logs"]) > _LOGS:
            old = [*self._named(), log]
            snapshot = f"snapshot-{batch:012d}.parquet"
            write_table(
                self._folder,
                snapshot,
                net_rows(pa.concat_tables([self._read(name) for name in old])),
            )
            manifest |= {"snapshot": snapshot, "logs": []}
        self._head.replace(json.dumps(manifest).encode())
        self._manifest = manifest
        for name in old:
            self._folder.remove(name)

    def again(self, batch: int) -> tuple[pa.Table, pa.Table]:
        """The delta and the quarantine that a committed batch had."""
        return (
            self._read(f"delta-{batch:012d}.parquet"),
            self._read(f"quarantine-{batch:012d}.parquet"),
        )

    def _named(self) -> list[str]:
        """The files whose rows add up to the state."""
        snapshot = self._manifest["snapshot"]
        return [*([] if snapshot is None else [snapshot]), *self._manifest["logs"]]

    def _read(self, name: str) -> pa.Table:
        name = Path(str(name)).name  # a manifest names no file outside its folder
        try:
            return read_table(self._folder, name)
        except OSError as error:
            raise StateError(f"{self.path / name} cannot be read: {error}") from error


def _types(rows: pa.Table) -> list[str]:
    return [str(field.type) for field in rows.schema]


_REASON = "reason"


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a batch changed.

    `delta` has columns key, value (the result), sign (int8), epoch (the batch id); `quarantine`
    key, value, sign, reason. `replayed` tells that the batch had been committed before.
    """

    batch: int
    delta: pa.Table
    quarantine: pa.Table
    replayed: bool


class StreamReduce:
    """One reducer over a stream of signed rows, with its state in a folder.

        reduce = StreamReduce(Sum(), "state/totals", key="shop", value="amount")
        query = stream.writeStream.foreachBatch(reduce.for_each_batch(sink)).start()

    Args:
        reducer: over the values of one column.
        folder: where the state lives; made if it is not there. One process at a time.
        key: the column of keys, of strings, integers or booleans.
        value: the column of values, of any type that Arrow reads into a hashable Python value.
        sign: the column of signs: +1 adds a row, -1 takes one away; larger counts repeat it.
        bad_rows: `"fail"` raises and leaves the state as before, `"quarantine"` sets bad rows
            aside with a reason.
    """

    def __init__(
        self,
        reducer: Reducer[Any, Any, Any],
        folder: str | Path,
        *,
        key: str = KEY,
        value: str = VALUE,
        sign: str = SIGN,
        bad_rows: Literal["fail", "quarantine"] = "fail",
    ) -> None:
        if bad_rows not in ("fail", "quarantine"):
            raise FactError(f"bad_rows must be 'fail' or 'quarantine', not {bad_rows!r}")
        self.reducer = reducer
        self.folder = local_path(folder)
        self._columns = (key, value, sign)
        self._quarantines = bad_rows == "quarantine"
        self._open()

    # -- state ------------------------------------------------------------------------------

    @property
    def last_batch(self) -> int:
        """The id of the last committed batch; -1 before the first."""
        return self._files.last_batch

    def results(self) -> dict[Any, Any]:
        """Key -> result, as of the last committed batch."""
        return dict(self._view.items())

    def _open(self) -> None:
        self._files = BatchFolder(self.folder, self.reducer.name)
        self._source = Collection.input(name=f"stream of {self.reducer.name}")
        self._view = self._source.reduce(self.reducer)
        self._heard: list[tuple[Any, Any, int]] = []
        held = self._files.state()
        if held is not None:
            self._load(held)
        # `extend` would first count the delta's rows, which takes as long as reading them.
        self._view.subscribe(lambda delta: self._heard.extend(iter(delta)))

    def _load(self, rows: pa.Table) -> None:
        """Add net rows of positive counts to the empty collection, by its columnar way."""
        counts = rows.column(SIGN).to_numpy()
        if (counts > 1).any():
            rows = rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
        self._source.load(rows, key=KEY, values=VALUE)

    # -- batches ----------------------------------------------------------------------------

    def apply(self, batch: int, rows: pa.Table) -> BatchResult:
        """Apply one batch of signed rows, or return again what it changed before.

        Raises FactError for missing columns or types that no row can have, and with
        `bad_rows="fail"` for bad rows; MissingRowError for deletes of what is absent; OperatorError
        where the reducer fails. Then nothing is committed.
        """
        if batch <= self.last_batch:
            return self._again(batch)
        clean, bad = self._sorted_out(self._named(rows))
        self._heard.clear()
        clean, bad = self._take(clean, bad)
        try:
            result = BatchResult(batch, self._delta(batch, clean), bad, replayed=False)
            self._files.commit(batch, clean, result.delta, bad)
        except BaseException:
            # The collection is ahead of the folder: go back to what the folder says.
            self._open()
            raise
        return result

    def for_each_batch(
        self, sink: Callable[[BatchResult], Any] | None = None
    ) -> Callable[[DataFrame, int], None]:
        """A function for `DataStreamWriter.foreachBatch`; `sink` hears replays too.

        A replayed result is the same as the first, so a sink that writes by `result.batch` is
        exactly once. Rows are folded to net ones in the driver, by column.
        """
        key, value, sign = self._columns

        def handle(frame: DataFrame, batch: int) -> None:
            if batch <= self.last_batch:
                result = self._again(batch)
            else:
                net = frame.select(key, value, sign)
                result = self.apply(batch, net.toArrow())
            if sink is not None:
                sink(result)

        return handle

    def _named(self, rows: pa.Table) -> pa.Table:
        for name in self._columns:
            if name not in rows.column_names:
                raise FactError(
                    f"the batch has no column {name!r}; its columns are "
                    f"{', '.join(map(repr, rows.column_names))}"
                )
        named = rows.select(list(self._columns)).rename_columns([KEY, VALUE, SIGN])
        kind = named.schema.field(SIGN).type
        if not pa.types.is_integer(kind):
            raise FactError(f"the column {self._columns[2]!r} of signs is {kind}, not an integer")
        named = named.set_column(2, SIGN, named.column(SIGN).cast(pa.int64()))
        self._files.check_types(named)
        return settled_columns(named)

    def _sorted_out(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Net rows that can be applied, and bad ones with the reason."""
        null_key, null_value = (pc.is_null(rows.column(name)) for name in (KEY, VALUE))
        null_sign = pc.is_null(rows.column(SIGN))
        broken = pc.or_(pc.or_(null_key, null_value), null_sign)
        bad = rows.filter(broken)
        reasons = [
            f"no {'key' if key is None else 'value' if value is None else 'sign'}"
            for key, value, _ in _tuples(bad)
        ]
        kind = rows.schema.field(KEY).type
        if not (
            pa.types.is_integer(kind)
            or pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_boolean(kind)
        ):
            bad = rows
            reasons = [f"a key of type {kind}"] * len(rows)
        if bad.num_rows and not self._quarantines:
            key, value, sign = next(iter(_tuples(bad)))
            raise FactError(
                f"bad row key={key!r} value={value!r} sign={sign!r}: {reasons[0]}; "
                "bad_rows='quarantine' sets such rows aside"
            )
        clean = net_rows(rows.filter(pc.invert(broken)) if bad is not rows else rows.slice(0, 0))
        return clean, bad.append_column(_REASON, pa.array(reasons, pa.string()))

    def _take(self, net: pa.Table, bad: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Apply net rows but those that take away more than there is; returns both kinds."""
        try:
            self._source.apply_table(net, key=KEY, values=VALUE, sign=SIGN)
        except MissingRowError as error:
            places = cast("list[int]", error.values["rows"])
            picked = net.take(pa.array(places, pa.int64()))
            if not self._quarantines:
                key, value, sign = next(iter(_tuples(picked)))
                held = self._source.values(key).count(value)
                raise MissingRowError(
                    f"cannot delete {value!r} at key {key!r}, {-sign} in all: {held} are there"
                ) from None
            keep = np.ones(net.num_rows, dtype=bool)
            keep[places] = False
            net = net.filter(pa.array(keep))
            self._source.apply_table(net, key=KEY, values=VALUE, sign=SIGN)
            reasons = pa.array(["delete of an absent value"] * picked.num_rows, pa.string())
            bad = pa.concat_tables([bad, picked.append_column(_REASON, reasons)])
        return net, bad

    def _delta(self, batch: int, rows: pa.Table) -> pa.Table:
        columns = list(zip(*self._heard, strict=True)) or [(), (), ()]
        try:
            values = pa.array(columns[1])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise FactError(
                f"results of {self.reducer.name} are of no one Arrow type: {error}; "
                "map them with enriched(reducer, ...)"
            ) from error
        return pa.table(
            {
                KEY: pa.array(columns[0], rows.schema.field(KEY).type),
                VALUE: values,
                SIGN: pa.array(columns[2], pa.int8()),
                "epoch": pa.array([batch] * len(values), pa.int64()),
            }
        )

    def _again(self, batch: int) -> BatchResult:
        delta, quarantine = self._files.again(batch)
        return BatchResult(batch, delta, quarantine, replayed=True)


def _tuples(rows: pa.Table) -> zip[tuple[Any, Any, Any]]:
    return zip(*(rows.column(name).to_pylist() for name in (KEY, VALUE, SIGN)), strict=True)
