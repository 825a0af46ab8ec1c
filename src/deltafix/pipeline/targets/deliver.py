"""From a delta log to its target: what the target does not hold yet, epoch by epoch.

Invariant: the target ends at the last epoch of the log that changed the view, and never skips one:
a target that the log no longer reaches back to is refused, not patched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import SinkError
from deltafix.facts.logical import logical_schema
from deltafix.pipeline.manifest import DeltaFile, Manifest, read_deltas, read_view
from deltafix.pipeline.sink import ParquetSink
from deltafix.pipeline.targets.target import EpochRows, Target
from deltafix.store.folder import LocalFolder
from deltafix.store.tables import read_table


class Delivery:
    """One output's log and target.

    Attributes:
        done: the epoch of the log up to which the target has everything.
        held: the epoch that the target itself says it holds: the last one that changed the view.

    `is_common` tells whether executors of Spark see the log.
    """

    def __init__(
        self, log: ParquetSink, target: Target, is_common: Callable[[], bool] = lambda: False
    ) -> None:
        self.log = log
        self.target = target
        self._is_common = is_common
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
        schema, held = self.log.schema, self.held
        if held is None:
            # The first epoch that changes a view is the view.
            first = {(one.first, one.last) for one in manifest.deltas}
            if manifest.snapshot is None and first == {(manifest.epoch, manifest.epoch)}:
                yield self._epoch(manifest.epoch, manifest.deltas)
                return
            empty = logical_schema(schema).empty_table()
            view = read_view(self.log.folder)[1]
            rows = empty if view is None else view.cast(empty.schema)
            yield EpochRows(schema, manifest.epoch, rows, empty)
            return
        later = (one for one in manifest.deltas if one.last > held)
        for (start, last), files in groupby(later, lambda one: (one.first, one.last)):
            if start == last:
                yield self._epoch(last, [*files])
                continue
            table = read_deltas(self.log.folder, max(held + 1, start), last)
            if table is not None:
                yield from _by_epoch(self.log, table)

    def _epoch(self, epoch: int, files: Sequence[DeltaFile]) -> EpochRows:
        """An epoch that has files of its own; they are read when somebody asks."""
        folder, names = self.log.folder, [one.file for one in files]
        seen: list[str] = []
        if isinstance(folder, LocalFolder) and self._is_common():
            seen = [(folder.path.absolute() / name).as_uri() for name in names]

        def read() -> pa.Table:
            return pa.concat_tables([read_table(folder, name) for name in names])

        return EpochRows.logged(self.log.schema, epoch, read, seen)


def _by_epoch(log: ParquetSink, table: pa.Table) -> Iterator[EpochRows]:
    epochs = table.columns[-1]
    for number in sorted(pc.unique(epochs).to_pylist()):
        here = pc.equal(epochs, number)
        yield EpochRows.logged(log.schema, number, partial(table.filter, here))
