"""From a delta log to its target: what the target does not hold yet, epoch by epoch.

Invariant: the target ends at the last epoch of the log that changed the view, and never skips one:
a target that the log no longer reaches back to is refused, not patched.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import SinkError
from deltafix.facts.arrow import arrow_schema
from deltafix.pipeline.manifest import Manifest, read_deltas, read_view
from deltafix.pipeline.sink import ParquetSink
from deltafix.pipeline.targets.target import EpochRows, Target

__all__ = ["Delivery"]


class Delivery:
    """One output's log and target.

    Attributes:
        done: the epoch of the log up to which the target has everything.
        held: the epoch that the target itself says it holds: the last one that changed the view.
    """

    def __init__(self, log: ParquetSink, target: Target) -> None:
        self.log = log
        self.target = target
        self.done: int | None = None
        self.held: int | None = None
        self._asked = False

    def run(self) -> None:
        """Give the target what it lacks. Raises SinkError; it is then asked anew the next time."""
        manifest = self.log.manifest
        if self.log.is_new or (self._asked and self.done == manifest.epoch):
            return
        try:
            if not self._asked:
                self.held = self.target.epoch()
                self._require(manifest)
            for rows in self._missing(manifest):
                self.target.apply(rows)
                self.held = rows.epoch
        except BaseException:
            self._asked = False
            raise
        self.done, self._asked = manifest.epoch, True

    def _require(self, manifest: Manifest) -> None:
        name = self.log.schema.relation
        if self.held is None:
            return
        if self.held > manifest.epoch:
            message = (
                f"output {name}: its target is at epoch {self.held}, but the state is at "
                f"{manifest.epoch}: it was put back from an older copy; put the target back too, "
                "or name a new one"
            )
            raise SinkError(message, relation=name, epoch=self.held)
        if self.held + 1 < manifest.floor:
            message = (
                f"output {name}: its target is at epoch {self.held}, and its log begins with epoch "
                f"{manifest.floor}: the target was put back from an older copy; name a new one"
            )
            raise SinkError(message, relation=name, epoch=self.held)

    def _missing(self, manifest: Manifest) -> Iterator[EpochRows]:
        schema = self.log.schema
        empty = arrow_schema(schema).empty_table()
        if self.held is None:
            view = read_view(self.log.folder)[1]
            rows = empty if view is None else view.cast(arrow_schema(schema))
            yield EpochRows(schema, manifest.epoch, rows, empty)
            return
        table = read_deltas(self.log.folder, self.held + 1)
        if table is not None:
            yield from _by_epoch(self.log, table)


def _by_epoch(log: ParquetSink, table: pa.Table) -> Iterator[EpochRows]:
    sign, epoch = table.columns[-2:]
    rows = table.select(table.column_names[:-2]).cast(arrow_schema(log.schema))
    for number in sorted(pc.unique(epoch).to_pylist()):
        here = pc.equal(epoch, number)
        added, removed = (
            rows.filter(pc.and_(here, test)) for test in (pc.greater(sign, 0), pc.less(sign, 0))
        )
        yield EpochRows(log.schema, number, added, removed)
