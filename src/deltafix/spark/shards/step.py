"""What goes into a superstep and what comes out of it: messages, commands, journals, outcomes.

Data only.

Ranks of rows are Lamport clocks with some bits of a row's hash behind: a clock jumps past every
rank it hears of and goes up by one each round; rows that come in one round are ordered by their
hashes, so that they need not wait for each other's votes when one of them goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from deltafix.pipeline.policy import Policy
from deltafix.spark.hashing import Hashes
from deltafix.spark.shards.layout import Derived
from deltafix.spark.wire import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Parcel: TypeAlias = tuple[int, Batch]
"""A message: a batch, and the shard it is for."""

Action = Literal["judge", "apply", "send", "retract", "insert", "finish", "commit"]


@dataclass(frozen=True, slots=True)
class First:
    """The first messages of an epoch.

    Attributes:
        here: those that are in the driver.
        makers: what makes others, where the epoch runs. Each is a share of the work, and gives the
            same if it runs again.
        frame: others that Spark makes, packed (`onspark.MESSAGES`), of an epoch that runs there.
    """

    here: Sequence[Parcel] = ()
    makers: Sequence[Callable[[], Iterable[Parcel]]] = ()
    frame: DataFrame | None = None

    @property
    def is_away(self) -> bool:
        """Whether some are made where an epoch runs that is not run here."""
        return bool(self.makers) or self.frame is not None


class Command(NamedTuple):
    """What all shards do in a superstep, and in which stratum."""

    action: Action
    stratum: int = -1


class Entry(NamedTuple):
    """A line of the journal.

    `edit`: given rows of the engine; `held` and `sent`: votes that wait, and that no longer do;
    `net`: changes to report and to publish; `gone`: what a fresh start took away, to report only.
    """

    kind: Literal["edit", "held", "sent", "net", "gone"]
    batch: Batch


@dataclass(frozen=True, slots=True)
class Judging:
    """How rows that inputs say are judged in a superstep, before anything else is done in it.

    Attributes:
        policies: by relation.
        below: sequences up to which deletes of keys are forgotten, by relation.
        in_place: every copy of a relation judges what is said of its rows, and takes it; else the
            seats judge, and tell the copies.
    """

    policies: Mapping[str, Policy]
    below: Mapping[str, int]
    in_place: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the signed rows of a relation in one shard; data that JSON can say.

    Attributes:
        new: rows that are given now and were not before.
        old: rows that are not given any more.
        bad: (reason, place among all, row) of the first that are bad, `beyond`: how many more.
    """

    new: int
    old: int
    bad: list[tuple[str, int, dict[str, Any]]]
    beyond: int


@dataclass
class Outcome:
    """What a step leaves: messages by shard, and what is waiting.

    Attributes:
        messages: batches by destination.
        pending: per stratum, votes not sent and rows to move.
        falling: rows taken away by the messages, and rows still to be taken away.
        ended: whether the epoch can end here, if it ends for all shards: nothing waits, `changes`
            has all.
        changes: where it can, the net changes of each relation, without ranks.
        verdicts: what became of the rows of each relation that was judged.
    """

    messages: dict[int, list[Batch]] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)
    falling: int = 0
    ended: bool = False
    changes: dict[str, pa.Table] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)


@dataclass
class Journal:
    """One step of a shard: what changed, its clock after, and in which attempt at an epoch.

    `fresh`: it begins with an empty shard, whatever came before.
    """

    clock: int
    attempt: str
    entries: Iterable[Entry]
    fresh: bool = False


RANK_BITS = 8
"""Bits of a rank that are a row's hash; the others are the clock."""


def rank_rows(hashes: Hashes, clock: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ranks of rows with these hashes that come when the clock stands so."""
    order = hashes & np.uint64((1 << RANK_BITS) - 1)
    ranks: np.ndarray[Any, np.dtype[np.int64]] = (clock << RANK_BITS) | order.astype(np.int64)
    return ranks


def ranked_parts(derived: Derived) -> list[str]:
    """The local relations of a recursive one that carry ranks, behind its columns."""
    if not derived.ranked:
        return []
    return [derived.part("vote"), derived.part("now"), *(copy.name for copy in derived.within)]
