"""What a target must do: say which epoch it holds, and take one more, once.

The life of an epoch in an output: written to the delta log ahead of the commit, decided by the
engine's record, named by the log's manifest, and then applied to the target. A target notes the
epoch in the same transaction of its own that changes its rows; so `apply` of an epoch that it holds
changes nothing, and after a crash the target, not we, says where to go on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import SinkError
from deltafix.facts.logical import logical_schema
from deltafix.facts.schema import Schema
from deltafix.facts.values import plain_text
from deltafix.pipeline.sink import beside, delta_table


class EpochRows:
    """What an epoch changed in a view: its number, the rows added, the rows removed.

    Attributes:
        schema: the view; `epoch`: the number.
        files: URLs of parquet files that hold `signed`, if executors of Spark see them.
    """

    def __init__(self, schema: Schema, epoch: int, added: pa.Table, removed: pa.Table) -> None:
        self.schema = schema
        self.epoch = epoch
        self.files: Sequence[str] = ()
        self._read: Callable[[], pa.Table] = partial(delta_table, schema, added, removed, epoch)
        vars(self).update(added=added, removed=removed)  # so they need not be told apart again

    @classmethod
    def logged(
        cls, schema: Schema, epoch: int, read: Callable[[], pa.Table], files: Sequence[str] = ()
    ) -> EpochRows:
        """Rows as a delta log has them, read when they are asked for."""
        rows = cls.__new__(cls)
        rows.schema, rows.epoch, rows.files, rows._read = schema, epoch, files, read
        return rows

    @cached_property
    def signed(self) -> pa.Table:
        """The relation's columns, `sign` (removed rows first, in each file) and `epoch`."""
        return self._read()

    @cached_property
    def added(self) -> pa.Table:
        """The rows added."""
        return self._side(pc.greater)

    @cached_property
    def removed(self) -> pa.Table:
        """The rows removed."""
        return self._side(pc.less)

    @property
    def columns(self) -> list[str]:
        """The columns of `signed`."""
        return [*self.schema.names, *beside(self.schema.names)]

    def frame(self, session: Any) -> Any:
        """`signed` as a DataFrame of a Spark session, read by executors where they see the log.

        Numbers without a sign are `decimal(20, 0)` there, and `sign` is an `int`.
        """
        if not self.files:
            rows = decimals(self.schema, self.signed)
            kinds = ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in rows.schema)
            return session.createDataFrame(rows, kinds)
        frame = session.read.parquet(*self.files)
        sign = self.columns[-2]
        return frame.withColumn(sign, frame[sign].cast("int"))

    def _side(self, test: Callable[[Any, int], Any]) -> pa.Table:
        rows = self.signed.filter(test(self.signed.column(self.columns[-2]), 0))
        return rows.select(list(self.schema.names)).cast(logical_schema(self.schema))


def spark_type(kind: pa.DataType) -> str:
    """Spark's name of a type; it would take moments without a zone for those of its session."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'`{field.name}`: {spark_type(field.type)}' for field in kind)}>"
    names = {
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float64(): "double",
        pa.string(): "string",
        pa.bool_(): "boolean",
        pa.binary(): "binary",
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp_ntz",
        pa.timestamp("us", "UTC"): "timestamp",
    }
    return names[kind]


class Target(Protocol):
    """Takes the epochs of one view, in order. All raise SinkError."""

    def epoch(self) -> int | None:
        """The last epoch of this output that it holds; None if it was never given one.

        Raises SinkError if it holds what this output did not put there.
        """

    def apply(self, rows: EpochRows) -> None:
        """Take an epoch, wholly or not at all; one that it holds changes nothing.

        The first one is the whole view, and makes the table or topic if need be.
        """

    def close(self) -> None:
        """Let go of connections. Idempotent."""


def name_of(state: str, relation: str) -> str:
    """What an output is called in marks outside: the same as long as the state lives."""
    return f"deltafix-{state}-{relation}"


@contextmanager
def failing(target: str, *kinds: type[Exception]) -> Iterator[None]:
    """Errors of a library as a SinkError that names the target."""
    try:
        yield
    except SinkError:
        raise
    except kinds as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise SinkError(f"{target}: {text}", path=target) from error


def decimals(schema: Schema, table: pa.Table) -> pa.Table:
    """Rows of a view for a format without unsigned and short numbers: decimal(20, 0) and int."""
    types = {pa.uint64(): pa.decimal128(20, 0), pa.int8(): pa.int32(), pa.int16(): pa.int32()}
    nullable = {field.name for field in logical_schema(schema) if field.nullable}
    fields = [field.with_type(types.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema([field.with_nullable(field.name in nullable) for field in fields]))


def whole(target: str, rows: Any) -> SinkError:
    """The refusal of a target that is not ours."""
    return SinkError(
        f"{target} holds {rows} that this output did not put there; name a new one, or empty it",
        path=target,
    )


def json_text(message: Any) -> str:
    """As JSON, which has no NaN and no infinity: those are texts, as Spark reads them.

    Days, moments, decimals and bytes are texts, too, as inputs take them.
    """
    try:
        return json.dumps(message, allow_nan=False, default=plain_text)
    except ValueError:
        return json.dumps(_finite(message), default=plain_text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_finite(inside) for inside in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
