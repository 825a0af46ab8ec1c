"""DataFrames as inputs: their columns judged once, their rows fitted and netted by executors.

`Frame` is a DataFrame with what makes signed rows of it. Invariant: columns are chosen, and types
refused, before a row is read (`DriftError`); columns that the relation does not take are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit
from deltafix.pipeline.condense import How
from deltafix.pipeline.keyed import NO_KEY, Keying
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Signed, signed_table
from deltafix.pipeline.sources.single import FEED, Single
from deltafix.pipeline.times import COUNTS
from deltafix.spark.formats import quoted
from deltafix.spark.net import Decode, Net, Piece, by_batch, by_item
from deltafix.spark.sources.live import LiveSpark, OnSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SLICE: Final = 1 << 18  # rows of the engine that a task takes at a time


def fitted(
    schema: Schema,
    frame: DataFrame,
    origin: str,
    *,
    sign: str | int,
    columns: Sequence[str] | None = None,
    keying: Keying = NO_KEY,
    merges: bool = True,
) -> tuple[list[str], Fit]:
    """A frame's columns that count, and what makes signed rows of them.

    `sign` is a column, or the sign of all rows; `merges` is as for `choose`. Raises DriftError.
    """
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  an extra

    beside = [*([sign] if isinstance(sign, str) else []), *keying.sequence]
    source_columns = [name for name in frame.columns if name not in FEED or name in beside]
    names = choose(schema, source_columns, columns, beside, origin, merges=merges)
    fit = Fit(schema, tuple(names), origin, sign, keying)
    slim = list(dict.fromkeys([*names, *beside]))
    # PySpark 4.2 wants to be told the zone of times, which earlier ones take to be UTC.
    has_zone = "timezone" in signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if has_zone else {}
    shape = to_arrow_schema(frame.select(*map(quoted, slim)).schema, **zone)
    fit(shape.empty_table(), 0)
    return slim, fit


def decoded(
    schema: Schema, frame: DataFrame, *given: Any, **named: Any
) -> tuple[DataFrame, Decode]:
    """As `fitted`: a frame of these columns, and what executors make of it."""
    slim, fit = fitted(schema, frame, *given, **named)
    return frame.select(*map(quoted, slim)), by_batch(fit)


@dataclass(frozen=True, slots=True)
class Fit:
    """Makes signed rows of tables with a frame's columns."""

    schema: Schema
    names: tuple[str, ...]
    origin: str
    sign: str | int
    keying: Keying

    def __call__(self, table: pa.Table, before: int) -> Signed:
        """The rows; `before` says how many of the task came before these."""
        return fit(
            self.schema, table, self.names, self.origin,
            sign=self.sign, keying=self.keying, before=before,
        )  # fmt: skip


def diffed(policy: Policy) -> How:
    """How all rows of a relation are netted with those that are given: as sets, or counted."""
    return "sum" if policy.duplicates == "count" else "whole"


def held_slices(state: State, schema: Schema, policy: Policy) -> list[Signed]:
    """The rows that are given, to be taken out as often as they were put in, in parts for tasks."""
    parts = [signed_table(schema, state.to_arrow(schema.relation), -1)]
    if policy.duplicates == "count":
        times = state.to_arrow(schema.relation + COUNTS)
        again = pc.subtract(1, times.column(times.num_columns - 1))
        parts.append(signed_table(schema, times.select(list(schema.names)), again))
    return slices(schema, parts)


def slices(schema: Schema, parts: Sequence[pa.Table]) -> list[Signed]:
    """Signed tables in parts that tasks take."""
    return [
        Signed(schema, part.slice(start, _SLICE))
        for part in parts
        for start in range(0, part.num_rows, _SLICE)
    ]


def held_frame(
    session: SparkSession, schema: Schema, state: State, policy: Policy
) -> list[tuple[DataFrame, Decode]]:
    """The rows that are given as a frame, beside one of all rows that are to be; none for none."""
    held = held_slices(state, schema, policy)
    if not held:
        return []
    return [by_item(session, held, held_piece, tasks=session.sparkContext.defaultParallelism)]


def held_piece(position: int, held: Signed) -> Piece:
    """Rows that are given: they were not read."""
    return Piece(position, held, read=0)


class FrameSource(OnSpark, Single):
    """A source whose rows are those of DataFrames; subclasses add `poll`.

    Args:
        live: the session.
        given: as for `Single`.
    """

    def __init__(self, live: LiveSpark, *given: Any) -> None:
        super().__init__(*given)
        self._live = live

    def take(
        self, portion: Portion, frame: DataFrame, origin: str, state: State, *, sign: str | int
    ) -> None:
        """Have the changes of a frame in a portion, net."""
        self._live.look(portion, self.schema, [self._decoded(frame, origin, sign)], state, origin)

    def take_whole(
        self,
        state: State,
        frame: DataFrame,
        origin: str,
        limit: int,
        then: Callable[[Portion], None] | None = None,
    ) -> Portion:
        """At most `limit` of the changes that make the rows given those of the frame.

        Once it is settled, `more` tells whether some are left; if not, `then` is called with it.
        """
        portion = Portion(self.name, policy=self.diffing)

        def cut(_: Net) -> None:
            portion.more = portion.cut(limit)
            if not portion.more and then is not None:
                then(portion)

        held = held_frame(self._live.session(), self.schema, state, self.policy)
        frames = [self._decoded(frame, origin, 1), *held]
        how = diffed(self.policy)
        self._live.look(portion, self.schema, frames, state, origin, how=how, then=cut)
        return portion

    def _decoded(self, frame: DataFrame, origin: str, sign: str | int) -> tuple[DataFrame, Decode]:
        return decoded(
            self.schema, frame, origin,
            sign=sign, columns=self.values["columns"], keying=self.policy.keying,
            merges=self.merges,
        )  # fmt: skip
