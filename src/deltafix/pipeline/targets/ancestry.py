"""Which epoch an Iceberg table holds, told from its snapshots: one rule for both of its writers.

A writer leaves the epoch in the summary of its snapshot, and, for when that has expired, in a
property of the table, with the snapshot that the epoch made. Invariant: a table that was rolled
back is never taken to hold what it lost: what counts are the ancestors of the current snapshot, and
a property only where its snapshot is one of them, or would be one of those that have expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deltafix.errors import SinkError

OUTPUT, EPOCH = "deltafix.output", "deltafix.epoch"
"""In the summary of a snapshot: whose it is, and of which epoch."""


class Ancestor(NamedTuple):
    """A snapshot; `sequence` grows with each of a table, but is 0 in tables of format 1."""

    id: int
    sequence: int
    parent: int | None
    operation: str
    summary: Mapping[str, str]


def note(epoch: int, snapshot: Ancestor | None) -> str:
    """The property's value: the epoch, and the snapshot with it, if the table has any."""
    return str(epoch) if snapshot is None else f"{epoch} {snapshot.id} {snapshot.sequence}"


def held(
    table: str, name: str, snapshots: Iterable[Ancestor], properties: Mapping[str, str]
) -> int | None:
    """The last epoch of an output that a table holds; None if it was never given one.

    Args:
        table: the table, as errors name it.
        name: the output.
        snapshots: the current one and its ancestors, the newest first, as far as they are there.
        properties: those of the table, with the one called `name`.

    Raises SinkError for a table that went back to before the snapshot that the property names.
    """
    noted = properties.get(name)
    epoch, snapshot_id, sequence = map(int, [*(noted or "0").split(), "0", "0"][:3])
    last: Ancestor | None = None
    for last in snapshots:
        if last.summary.get(OUTPUT) == name:
            return int(last.summary[EPOCH])
        if snapshot_id and last.id == snapshot_id:
            return epoch
        if 0 < last.sequence < sequence:
            break
    if noted is None:
        return None
    expired = last is not None and last.parent is not None and not 0 < last.sequence < sequence
    if not snapshot_id or expired:
        return epoch
    raise SinkError(
        f"{table} went back: epoch {epoch} of this output made its snapshot {snapshot_id}, from "
        "which the current one does not descend, and what it holds now it does not say; set the "
        "table to that snapshot again, or name a new one",
        path=table, epoch=epoch,
    )  # fmt: skip
