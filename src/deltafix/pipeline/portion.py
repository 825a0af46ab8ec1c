"""What a source hands to an epoch, and what a source is.

Life of a portion: polled (with the marks as of the last epoch), applied in the epoch's
transaction, committed with the marks that say how far the source is now. Invariant: a portion is
wholly in an epoch or not at all, and its marks with it; so a source that is polled again after a
crash gives what is not in, and nothing that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from deltafix.engine.state.marks import Marks
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.signed import Bad, Signed, difference
from deltafix.pipeline.times import COUNTS


@dataclass(slots=True)
class Portion:
    """A part of what a source has to say.

    Attributes:
        source: the name of the input.
        signed: signed rows, per relation.
        marks: how far the source is when they are in; `policy.high_mark` where late rows are out.
        bad: what could not be read as rows of any relation.
        more: whether the source has more to say right now.
        policy: what to do with its rows.
        stamp: when the oldest of it was written, in seconds since 1970, if that is known.
        read: how many rows were read, where `signed` is their net change.
        net_seconds: how long netting took, where it was done before the epoch.
        settle: to be called when all portions of an epoch are polled, where `signed` is made
            together with theirs.
    """

    source: str
    signed: list[Signed] = field(default_factory=list)
    marks: Marks = field(default_factory=dict)
    bad: list[Bad] = field(default_factory=list)
    more: bool = False
    stamp: float | None = None
    policy: Policy = field(default_factory=Policy)
    read: int | None = None
    net_seconds: float = 0.0
    settle: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        """Whether it says anything at all."""
        return bool(self.marks or self.bad or any(signed.rows for signed in self.signed))

    @property
    def rows(self) -> int:
        """Rows read, bad ones included."""
        if self.read is not None:
            return self.read
        return sum(signed.rows for signed in self.signed) + len(self.bad)

    def cut(self, limit: int) -> bool:
        """Keep at most `limit` of the rows, those of one relation; whether there were more.

        Bad rows go with the last part.
        """
        (signed,) = self.signed
        if signed.good <= limit:
            return False
        self.signed = [signed.head(limit)]
        self.read = None
        return True


class State(Protocol):
    """What a source may see of the engine: marks and the rows that are given."""

    @property
    def marks(self) -> Mapping[str, Any]:
        """The marks as of the last epoch."""

    def to_arrow(self, relation: str) -> pa.Table:
        """The rows of a relation."""

    def select(self, relation: str, pattern: Any) -> list[Any]:
        """Rows that fit a pattern."""


def difference_with(state: State, signed: Signed, policy: Policy) -> pa.Table:
    """The signed rows that make what holds the rows of a table, signs aside."""
    schema = signed.schema
    times = state.to_arrow(schema.relation + COUNTS) if policy.duplicates == "count" else None
    wanted = signed.table.select(list(schema.names))
    return difference(schema, state.to_arrow(schema.relation), wanted, times)


class Source(Protocol):
    """One input of a pipeline, by the name of its section."""

    @property
    def name(self) -> str:
        """As in the file."""

    @property
    def relations(self) -> tuple[str, ...]:
        """Those it feeds."""

    def poll(self, state: State, limit: int) -> Portion | None:
        """Up to `limit` signed rows that are not in yet; None if there are none.

        May give a few rows more where a unit cannot be divided. Raises PipelineError.
        """

    def close(self) -> None:
        """Release what it holds. Idempotent."""


@runtime_checkable
class Lookable(Protocol):
    """A source whose first poll makes something outside: it can be asked without."""

    def look(self, state: State) -> str:
        """What a run would begin with, in words; makes nothing. Raises what `poll` raises."""
