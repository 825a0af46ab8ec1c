"""The outputs of a pipeline together: ahead of a commit, after it, and when they lag.

Invariant: between epochs every output is at the engine's epoch. What breaks it is mended before the
next epoch: a prepared epoch that was committed is published, and goes on to the output's target
where it has one (`targets`); an output that is new, that fell behind, or whose rules changed
without an epoch for it is brought up by one that holds the difference (`lagging`).

A target ends at the last epoch of the log that changed the view, and never skips one: a target that
the log no longer reaches back to is refused, not patched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import SinkError
from deltafix.facts.arrow import arrow_schema
from deltafix.facts.delta import Delta
from deltafix.facts.logical import from_logical, logical_schema
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.keeper import Relations
from deltafix.pipeline.manifest import DeltaFile, Manifest, read_deltas, read_view
from deltafix.pipeline.signed import SIGN, difference, net_sums, plain, signed_table
from deltafix.pipeline.sink import ParquetSink
from deltafix.pipeline.targets.registry import MakeTarget, make_target
from deltafix.pipeline.targets.target import EpochRows, Target
from deltafix.store.folder import LocalFolder
from deltafix.store.tables import read_table

PREPARED = "pipeline/prepared"
"""The mark that says which outputs an epoch was prepared for, and the rows of their files."""


class Prepared(NamedTuple):
    """What of an epoch was prepared for an output: rows added and removed, rows of each file."""

    counts: tuple[int, int]
    parts: list[int]


Sides = tuple[pa.Table, pa.Table]
Lack: TypeAlias = Sides | Callable[[], Iterable[pa.Table]]
"""What an output lacks: rows added and removed, or what gives all rows of the view in parts."""


class Outputs:
    """The sinks of a pipeline; `schemas` are those of the program that it is to have.

    `is_common` tells whether executors of Spark see the state's folder, where targets have logs.
    Raises SinkError for a folder that cannot be used.
    """

    def __init__(
        self,
        db: Relations,
        schemas: Mapping[str, Schema],
        configs: Sequence[OutputConfig],
        make_target: MakeTarget = make_target,
        *,
        is_common: Callable[[], bool] = lambda: False,
    ) -> None:
        self._db = db
        self.sinks = {
            config.relation: ParquetSink(
                schemas[config.relation],
                config.path,
                db.name,
                keeps_snapshot=config.mode == "delta+snapshot",
                writer=db.generation,
            )
            for config in configs
        }
        targets = {
            config.relation: make_target(config, schemas[config.relation], db.name)
            for config in configs
        }
        self.deliveries = {
            name: Delivery(self.sinks[name], target, is_common)
            for name, target in targets.items()
            if target is not None
        }
        for name, sink in self.sinks.items():
            if sink.manifest.epoch > db.epoch:
                message = (
                    f"output {name}: {sink.folder} is at epoch {sink.manifest.epoch}, but the "
                    f"state is at {db.epoch}: it was put back from an older copy; put the "
                    "output back too, or name a new folder"
                )
                raise SinkError(message, relation=name, path=str(sink.folder))

    def follow(self, db: Relations) -> None:
        """Go on with another keeper's rows, which are the same ones."""
        self._db = db

    def prepare(
        self,
        delta: Delta,
        behind: Mapping[str, Lack] = MappingProxyType({}),
        attempt: str = "",
    ) -> dict[str, Prepared]:
        """Write every output's part of an epoch ahead of its commit.

        Outputs of `behind` take what they lack (`lagging`) and the epoch's part as one; `attempt`
        is in the names of the files. Of a view that an output has nothing of, and that stays as it
        is, a part at a time is in memory.
        Returns how many rows were added and removed, and in how many rows a file.
        """
        done: dict[str, Prepared] = {}
        for name, sink in self.sinks.items():
            epoch = cast("int", delta.epoch)
            sides = delta[name].sides
            if name in behind:
                lack, fields = behind[name], arrow_schema(sink.schema)
                if callable(lack):
                    tables = (plain(sink.schema, table).cast(fields) for table in lack())
                    if not any(map(len, sides)):
                        parts = sink.prepare(epoch, tables, (), attempt=attempt)
                        done[name] = Prepared((sum(parts), 0), parts)
                        continue
                    empty = fields.empty_table()
                    lack = (pa.concat_tables([empty, *tables]), empty)
                both = [(lack[n], *side.tables()) for n, side in enumerate(sides)]
                new, old = _sides(sink.schema, _net(sink.schema, *both))
                parts = sink.prepare(epoch, [new], [old], attempt=attempt)
                done[name] = Prepared((new.num_rows, old.num_rows), parts)
                continue
            counts = (len(sides[0]), len(sides[1]))
            parts = []
            if any(counts):
                added, removed = (side.tables() for side in sides)
                parts = sink.prepare(epoch, added, removed, sides[0].files, attempt)
            else:
                sink.prepare(epoch, (), (), attempt=attempt)
            done[name] = Prepared(counts, parts)
        return done

    def publish(self) -> None:
        """Publish the engine's epoch, where it was prepared and is not published yet.

        Raises SinkError; what could be published is, and the rest is with the next call.
        """
        prepared = self._db.marks.get(PREPARED, {})
        if prepared.get("epoch") == self._db.epoch:
            self._publish(prepared)
        failed: list[SinkError] = []
        for delivery in self.deliveries.values():
            try:
                delivery.run()
            except SinkError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _publish(self, prepared: dict[str, Any]) -> None:
        attempt = attempt_of(prepared)
        for name, sink in self.sinks.items():
            parts = prepared["outputs"].get(name)
            behind = sink.manifest.epoch == self._db.epoch - 1
            # A machine without power may lose the name of a file that was synced.
            if parts is not None and behind and sink.has(self._db.epoch, parts, attempt):
                sink.publish(self._db.epoch, parts, attempt)

    def tidy(self) -> None:
        """Remove what belongs to epochs that were not committed."""
        for sink in self.sinks.values():
            sink.tidy()

    def lagging(
        self, changed: Iterable[str], tables: Callable[[str], Iterable[pa.Table]]
    ) -> dict[str, Lack]:
        """What brings up the outputs that are new, behind, or changed; `tables` as for `fold`."""
        lacks: dict[str, Lack] = {}
        for name, sink in self.sinks.items():
            is_there = name in self._db.schemas
            if sink.is_new and is_there and sink.schema.arity:
                self._db.settle()  # the parts are read in the epoch, which cannot run another
                lacks[name] = partial(tables, name)
            elif sink.is_new or sink.manifest.epoch != self._db.epoch or name in set(changed):
                shown = None if sink.is_new else read_view(sink.folder)[1]
                fields = arrow_schema(sink.schema)
                before = fields.empty_table()
                if shown is not None:
                    before = from_logical(sink.schema, shown).cast(fields)
                rows = self._db.to_arrow(name) if is_there else fields.empty_table()
                lacks[name] = _sides(sink.schema, difference(sink.schema, before, rows))
        return lacks

    def catch_up(self, names: Iterable[str]) -> None:
        """Publish an epoch that was prepared with what `lagging` gave."""
        for name in names:
            prepared = self._db.marks[PREPARED]
            parts = prepared["outputs"][name]
            self.sinks[name].publish(self._db.epoch, parts, attempt_of(prepared))
        self.publish()

    def close(self) -> None:
        """Let go of the targets. Idempotent."""
        for delivery in self.deliveries.values():
            delivery.target.close()

    def fold(
        self,
        tables: Callable[[str], Iterable[pa.Table]],
        *,
        force: bool = False,
        keep: int | None = None,
    ) -> None:
        """Join files and write snapshots where it is due; keep the deltas of `keep` epochs.

        `tables` gives the rows of a view as `Keeper.tables` does.
        """
        for name, sink in self.sinks.items():
            anew = sink.fold(partial(tables, name), force=force)
            snapshot = sink.manifest.snapshot
            if anew and snapshot is not None and name in self.deliveries:
                # Nobody but the target reads this log.
                held = self.deliveries[name].held
                sink.drop_before(min(held or 0, snapshot.last) + 1)
                continue
            if keep is not None and snapshot is not None:
                sink.drop_before(min(self._db.epoch - keep, snapshot.last) + 1)


def attempt_of(prepared: Mapping[str, Any]) -> str:
    """What is in the names of an epoch's files, from its mark; in old states a writer's number."""
    return str(prepared.get("writer") or "")


def _net(schema: Schema, added: Iterable[pa.Table], removed: Iterable[pa.Table]) -> pa.Table:
    """What changes add and remove in the end, as signed rows."""
    parts = [
        signed_table(schema, plain(schema, rows), sign)
        for sign, tables in ((1, added), (-1, removed))
        for rows in tables
    ]
    return net_sums(pa.concat_tables(parts), list(schema.names), SIGN)


def _sides(schema: Schema, changes: pa.Table) -> Sides:
    """Signed rows as (rows to add, rows to remove)."""
    fields = arrow_schema(schema)
    signs = changes.column(SIGN)
    added, removed = (
        changes.filter(test).select(list(schema.names)).cast(fields)
        for test in (pc.greater(signs, 0), pc.less(signs, 0))
    )
    return added, removed


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
            first = {(delta.first, delta.last) for delta in manifest.deltas}
            if manifest.snapshot is None and first == {(manifest.epoch, manifest.epoch)}:
                yield self._epoch(manifest.epoch, manifest.deltas)
                return
            empty = logical_schema(schema).empty_table()
            view = read_view(self.log.folder)[1]
            rows = empty if view is None else view.cast(empty.schema)
            yield EpochRows(schema, manifest.epoch, rows, empty)
            return
        later = (delta for delta in manifest.deltas if delta.last > held)
        for (start, last), files in groupby(later, lambda delta: (delta.first, delta.last)):
            if start == last:
                yield self._epoch(last, [*files])
                continue
            table = read_deltas(self.log.folder, max(held + 1, start), last)
            if table is not None:
                yield from _by_epoch(self.log, table)

    def _epoch(self, epoch: int, files: Sequence[DeltaFile]) -> EpochRows:
        """An epoch that has files of its own; they are read when somebody asks."""
        folder, names = self.log.folder, [delta.file for delta in files]
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
