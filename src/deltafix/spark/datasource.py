"""Spark's source `deltafix`: a view's delta log as a DataFrame, in batch or as a stream.

    register(spark)
    spark.read.format("deltafix").option("from", 17).load("out/can_read")
    spark.readStream.format("deltafix").option("from", 17).load("out/can_read")

Options: `from` and `to` are epochs, both included; `view = "rows"` gives the view itself at its
last epoch, in batch. Columns are the relation's, then `sign` (tinyint) and `epoch` (bigint).
Invariant: a stream gives every epoch from `from` on once and in order; its offset is an epoch of a
state, and a log of another state is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltafix.errors import SourceError, SparkMissingError
from deltafix.facts.values import CONSTRUCTED
from deltafix.pipeline.manifest import Manifest, read_deltas, read_manifest, read_view
from deltafix.pipeline.targets.target import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
    )
except ImportError as _error:
    raise SparkMissingError from _error

__all__ = ["DeltaLogSource", "register"]

Offset = dict[str, Any]
"""`state`, its name, and `epoch`."""

_TYPES = {
    "symbol": pa.string(),
    "number": pa.int64(),
    "unsigned": pa.decimal128(20, 0),
    "float": pa.float64(),
    **dict.fromkeys(CONSTRUCTED, pa.string()),
    "sign": pa.int8(),
    "epoch": pa.int64(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "BOOLEAN": pa.bool_(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIME": pa.string(),
    "INTERVAL": pa.string(),
    "UUID": pa.string(),
}
"""Arrow's type for what a manifest calls a column's: the engine's types, and SQL's.

Logical types of rules have SQL's names, in small letters.
"""

Columns = list[tuple[str, pa.DataType]]
"""Names, and Arrow's types."""

_WORD = re.compile(r'"(?:[^"]|"")*"|\w+|\[\]|[(),:]')


class _Declared:
    """The words of a view as a manifest declares it: `v(a: TEXT[] NOT NULL, b: STRUCT(x DATE))`."""

    def __init__(self, view: str) -> None:
        self._words = _WORD.findall(view)[::-1]

    def columns(self) -> Columns:
        """Those of the view."""
        self._words.pop()  # the view's name
        columns: Columns = []
        while self._words.pop() != ")" and self._words[-1] != ")":  # what stands before each
            name = self._words.pop()
            self._words.pop()  # the colon
            columns.append((name, self._type()))
            if self._words[-1] == "NOT":
                del self._words[-2:]
        return columns

    def _type(self) -> pa.DataType:
        word = self._words.pop()
        word = word if word in _TYPES else word.upper()
        kind = self._composed(word) if self._words[-1] == "(" else _TYPES[word]
        while self._words[-1] == "[]":
            self._words.pop()
            kind = pa.list_(kind)
        return kind

    def _composed(self, word: str) -> pa.DataType:
        inside: list[Any] = []
        while self._words.pop() != ")":
            first = self._words.pop()
            if word == "DECIMAL":
                inside.append(int(first))
            else:
                name = first[1:-1].replace('""', '"') if first.startswith('"') else first
                inside.append((name, self._type()))
        return pa.decimal128(*inside) if word == "DECIMAL" else pa.struct(inside)


def register(session: SparkSession) -> None:
    """Make the source `deltafix` known to a session. Idempotent."""
    session.dataSource.register(DeltaLogSource)


class DeltaLogSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for mypy
    """A delta log. Raises SourceError for a folder without one, or an option it does not take."""

    @classmethod
    def name(cls) -> str:
        """As in `format("deltafix")`."""
        return "deltafix"

    def schema(self) -> str:
        """The view's columns, and those beside them unless the rows are asked for."""
        return ", ".join(f"`{name}` {spark_type(kind)}" for name, kind in self._columns())

    def reader(self, schema: Any) -> _BatchReader:
        """Reads epochs, or the view."""
        del schema
        if self._option("view", "deltas") == "rows":
            return _BatchReader(self._folder(), None, None, self._columns())
        last = self.options.get("to")
        to = None if last is None else int(last)
        return _BatchReader(self._folder(), int(self.options.get("from", 0)), to, self._columns())

    def streamReader(self, schema: Any) -> _StreamReader:  # noqa: N802  Spark's name
        """Reads epochs as they are published."""
        del schema
        return _StreamReader(self._folder(), int(self.options.get("from", 0)), self._columns())

    def _option(self, name: str, default: str) -> str:
        value = str(self.options.get(name, default))
        if value not in ("deltas", "rows"):
            raise SourceError(f'{name} = "{value}" is not valid; it takes "deltas" or "rows"')
        return value

    def _folder(self) -> str:
        path = self.options.get("path")
        if path is None:
            raise SourceError('the source deltafix needs a path: load("out/can_read")')
        return str(path)

    def _columns(self) -> Columns:
        folder = self._folder()
        manifest = read_manifest(folder)
        if manifest is None:
            raise SourceError(f"{folder} holds no delta log: no manifest.json", path=folder)
        columns = _Declared(manifest.view).columns()
        if self._option("view", "deltas") == "rows":
            return columns
        taken = {name for name, _ in columns}
        for name in ("sign", "epoch"):
            while name in taken:
                name += "_"  # noqa: PLW2901
            columns.append((name, _TYPES[name.rstrip("_")]))
        return columns


class _Epochs(InputPartition):  # type: ignore[misc]  # pyspark is not typed for mypy
    """The epochs `first` to `last`; None for both: the view."""

    def __init__(self, first: int | None, last: int | None) -> None:
        self.first = first
        self.last = last


def _batches(folder: str, part: _Epochs, columns: Columns) -> Iterator[pa.RecordBatch]:
    if part.first is None:
        table = read_view(folder)[1]
    else:
        table = read_deltas(folder, part.first, part.last)
    if table is not None:
        schema = pa.schema(columns)
        yield from table.cast(schema).to_batches()


class _BatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not typed for mypy
    def __init__(self, folder: str, first: int | None, last: int | None, columns: Columns) -> None:
        self._folder = folder
        self._part = _Epochs(first, last)
        self._columns = columns

    def partitions(self) -> list[_Epochs]:
        return [self._part]

    def read(self, partition: _Epochs) -> Iterator[pa.RecordBatch]:
        return _batches(self._folder, partition, self._columns)


class _StreamReader(DataSourceStreamReader):  # type: ignore[misc]  # pyspark is not typed for mypy
    def __init__(self, folder: str, first: int, columns: Columns) -> None:
        self._folder = folder
        self._first = first
        self._columns = columns

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        return {"state": self._manifest().state, "epoch": self._first - 1}

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        manifest = self._manifest()
        if start is None:  # only Spark 4.2 says where the stream is
            return {"state": manifest.state, "epoch": max(manifest.epoch, self._first - 1)}
        behind = manifest.epoch < start["epoch"] and start["epoch"] >= self._first
        self._require(manifest, start, behind=behind)
        return {"state": manifest.state, "epoch": max(manifest.epoch, start["epoch"])}

    def _require(self, manifest: Manifest, start: Offset, *, behind: bool) -> None:
        """Raise SourceError where what was read is not what there is."""
        if manifest.state != start["state"] or behind:
            was = f"epoch {start['epoch']} of the state {start['state']}"
            message = (
                f"{self._folder} is at epoch {manifest.epoch} of the state {manifest.state}, but "
                f"{was} was read of it: it was made anew or put back from an older copy; begin "
                "again, with a new checkpoint"
            )
            raise SourceError(message, path=self._folder)

    def _manifest(self) -> Manifest:
        manifest = read_manifest(self._folder)
        if manifest is None:
            message = f"{self._folder} holds no delta log: no manifest.json"
            raise SourceError(message, path=self._folder)
        return manifest

    def partitions(self, start: Offset, end: Offset) -> list[_Epochs]:
        self._require(self._manifest(), start, behind=end["epoch"] < start["epoch"])
        return [_Epochs(start["epoch"] + 1, end["epoch"])] if end["epoch"] > start["epoch"] else []

    def read(self, partition: _Epochs) -> Iterator[pa.RecordBatch]:
        return _batches(self._folder, partition, self._columns)
