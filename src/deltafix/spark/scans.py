"""Frames that only read Parquet files: tasks read those themselves, and skip the way by the JVM.

Spark hands rows to Python one after another, 0.6 microseconds a row and core; Arrow reads the
columns of a file in 0.02. So who wants all rows of a frame in Python asks here what it reads.
Invariant: a frame is taken for its files only if these hold exactly its rows: a whole scan of
Spark's own Parquet source, from disk, without options, partition columns or a cache, whose files
have each column under its name and in its type. Of all others nothing is known here (None), and
Spark reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import parquet

from deltafix.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SOURCE = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_TYPES = {
    "tinyint": pa.types.is_int8,
    "smallint": pa.types.is_int16,
    "int": pa.types.is_int32,
    "bigint": pa.types.is_int64,
    "double": pa.types.is_float64,
    "string": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
}
"""Spark's types that a file has as they are, without a calendar, a scale or a zone."""
_CHANGES = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled",
)
"""Settings that change which rows, or which columns, a scan gives."""


_FILES = 1_000
"""Files whose footers the driver reads, a millisecond each; of more, Spark's tasks read them."""


class Piece(NamedTuple):
    """A row group of a file, and the columns that are read."""

    path: str
    group: int
    columns: tuple[str, ...]


def pieces_of(frame: DataFrame) -> list[Piece] | None:
    """What a frame reads, if it is a scan of files and nothing else. Opens each file's footer."""
    if any(frame.sparkSession.conf.get(name, "false") != "false" for name in _CHANGES):
        return None
    paths = _scanned(frame._jdf.queryExecution().optimizedPlan())
    return None if paths is None else _fitting(paths, frame.dtypes)


def _scanned(plan: Any) -> list[str] | None:
    """The files of a plan that scans them; columns may be left out."""
    if _kind(plan) == "Project":
        if any(_kind(column) != "AttributeReference" for column in _each(plan.projectList())):
            return None
        plan = plan.child()
    if _kind(plan) != "LogicalRelation" or _kind(plan.relation()) != "HadoopFsRelation":
        return None
    relation = plan.relation()
    is_plain = (
        relation.fileFormat().getClass().getName() == _SOURCE
        and relation.partitionSchema().isEmpty()
        and set(_each(relation.options().keys().toSeq())) <= {"path", "paths"}
    )
    if not is_plain:
        return None
    parts = [urlsplit(name) for name in relation.location().inputFiles()]
    return [unquote(part.path) for part in parts] if {p.scheme for p in parts} == {"file"} else None


def _fitting(paths: Sequence[str], columns: Sequence[tuple[str, str]]) -> list[Piece] | None:
    """The row groups of files that have all columns as Spark shows them."""
    names = tuple(name for name, _ in columns)
    if not names or len(paths) > _FILES:
        return None  # how many rows there are, no columns say
    pieces = []
    for path in paths:
        try:
            with parquet.ParquetFile(path) as file:
                has, groups = file.schema_arrow, file.num_row_groups
        except (OSError, pa.ArrowException):
            return None  # Spark says what is wrong with it
        for name, kind in columns:
            index = has.get_field_index(name)
            if index < 0 or kind not in _TYPES or not _TYPES[kind](has.field(index).type):
                return None
        pieces += [Piece(path, group, names) for group in range(groups)]
    return pieces


def read_piece(piece: Piece) -> pa.Table:
    """The rows of a piece. Raises SourceError where the file is gone or damaged meanwhile."""
    try:
        with parquet.ParquetFile(piece.path) as file:
            columns = [*piece.columns]
            return file.read_row_group(piece.group, columns, use_threads=False).select(columns)
    except (OSError, pa.ArrowException) as error:
        message = f"{piece.path}: it cannot be read: {error}; nothing changed"
        raise SourceError(message, path=piece.path) from error


def _kind(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _each(sequence: Any) -> Iterator[Any]:
    """The members of a sequence of Scala."""
    return (sequence.apply(number) for number in range(sequence.size()))
