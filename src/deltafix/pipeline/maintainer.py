"""A program on a state folder with outputs: portions in, one epoch each, exactly once.

The life of an epoch, and what a stop at each point leaves:

1. *edited*     portions are applied to an open transaction        nothing
2. *prepared*   outputs and quarantine are written, unseen          files that are written over
3. *committed*  one record of the engine's log: rows, the sources'  the epoch; 4 is done on opening
                marks, the batch, what was prepared
4. *published*  manifests name the files                            the epoch

Invariant: step 3 alone decides. Sources begin again from its marks, outputs end at its epoch, and
a batch that is in it is not applied again. Who calls bounds the rows of a portion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import deltafix
from deltafix.engine.state.durable import DurableDatabase, DurableTransaction
from deltafix.errors import BadRowError, SinkError
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row
from deltafix.pipeline.augment import augment
from deltafix.pipeline.change import (
    ProgramChange,
    cones,
    peek_marks,
    require_same,
    what_changed,
)
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.outputs import PREPARED, Outputs, Sides
from deltafix.pipeline.policy import COUNTS, RecheckError, apply, late_rows
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.quarantine import Quarantine
from deltafix.pipeline.signed import Bad
from deltafix.rules.ast import Program

__all__ = ["CONES", "Maintainer", "OnChange"]

CONES = "pipeline/program"
"""The mark that says which rules the outputs were made with."""

OnChange = Callable[[ProgramChange], bool]
"""Asked whether outputs may be rebuilt for a changed program."""


class Maintainer:
    """Opens state and outputs, mends what a stop left, and takes portions. Close it.

    Args:
        program: the rules.
        state: the state folder.
        outputs: the views to keep outside, and where.
        by_file: relations whose rows come by file.
        counted: relations whose rows are counted (`duplicates = "count"`).
        fsync: as in `deltafix.connect`.
        on_change: asked when the rules are not those the outputs were made with.

    Raises:
        ProgramChangedError: `on_change` says no.
        StateError, SinkError, ConfigError: a folder that cannot be used.
    """

    def __init__(
        self,
        program: Program,
        state: Path,
        outputs: Sequence[OutputConfig],
        *,
        by_file: Iterable[str] = (),
        counted: Iterable[str] = (),
        fsync: str = "always",
        on_change: OnChange = lambda change: False,
    ) -> None:
        self._counted = tuple(counted)
        whole = augment(program, tuple(by_file), self._counted)
        self._cones = cones(whole)
        noted = peek_marks(state).get(CONES)
        self.change = what_changed(noted or self._cones, self._cones)
        if self.change and not on_change(self.change):
            require_same(self.change, state)
        db = deltafix.connect(whole, state, fsync=fsync)
        assert isinstance(db, DurableDatabase)  # noqa: S101  a path is given
        self.db = db
        self._times: dict[str, dict[Row, int]] = {}
        self.quarantine = Quarantine(state / "quarantine")
        try:
            self.outputs = Outputs(db, outputs)
            self.opening = self._mend(noted)
        except BaseException:
            db.close()
            raise

    @property
    def epoch(self) -> int:
        """The last committed epoch."""
        return self.db.epoch

    def commit(
        self,
        portions: Sequence[Portion],
        *,
        marks: Mapping[str, Any] | None = None,
        seconds: Mapping[str, float] | None = None,
        batch: tuple[str, int] | None = None,
    ) -> Epoch:
        """Take portions as one epoch, with the caller's own marks and clocks beside theirs.

        Raises:
            BadRowError: a bad row of an input without quarantine.
            StateError, SinkError: something cannot be written.
        In all cases nothing of the epoch is there; a SinkError on publishing alone (the message
        says so) leaves the epoch committed, and the next call publishes it first.
        """
        self.outputs.publish()
        try:
            return self._commit(portions, marks or {}, seconds or {}, batch, careful=False)
        except RecheckError:
            return self._commit(portions, marks or {}, seconds or {}, batch, careful=True)

    def _commit(
        self,
        portions: Sequence[Portion],
        marks: Mapping[str, Any],
        seconds: Mapping[str, float],
        batch: tuple[str, int] | None,
        *,
        careful: bool,
    ) -> Epoch:
        clock = _Clock(seconds)
        sides: dict[str, Sides] = {}
        given = [0, 0]
        bad: dict[str, list[Bad]] = {}

        def prepared(delta: Delta) -> None:
            clock.lap("engine")
            sides.update(self._prepare(tx, delta, bad))
            clock.lap("write")

        try:
            with self.db.transaction(missing="ignore") as tx:
                tx.prepared, tx.views = prepared, self.outputs.sinks
                for name, value in marks.items():
                    tx.mark(name, value)
                for portion in portions:
                    for counts in self._apply(tx, portion, bad, careful=careful):
                        given = [total + one for total, one in zip(given, counts, strict=True)]
                clock.lap("edit")
        except BaseException:
            self._times.clear()  # read again from what is committed
            raise
        clock.lap("write")
        try:
            self.outputs.publish()
        except SinkError as error:
            message = f"{error}; epoch {self.db.epoch} is committed, and published with the next"
            raise SinkError(message, **error.values) from error
        with suppress(SinkError):  # joining files can wait for room
            self.outputs.fold()
        clock.lap("publish")
        now = time.time()
        stamps = [one.stamp for one in portions if one.stamp is not None]
        return Epoch(
            self.db.epoch,
            {one.source: one.rows for one in portions},
            (given[0], given[1]),
            {name: len(rows) for name, rows in bad.items()},
            {name: (new.num_rows, old.num_rows) for name, (new, old) in sides.items()},
            self.db.last_epoch.touched,
            clock.seconds,
            max(0.0, now - min(stamps)) if stamps else None,
            any(one.more for one in portions),
            now,
            batch,
        )

    def compact(self, keep: int | None = None) -> None:
        """Write new snapshots of the state and of the outputs, and join the outputs' files.

        With `keep`, deltas of epochs before the last `keep` are dropped first, where a snapshot
        holds what they said.
        """
        self.outputs.publish()
        self.db.compact()
        self.outputs.fold(force=True, keep=keep)

    def close(self) -> None:
        """Give the state back. Idempotent."""
        self.db.close()

    # --- inside --------------------------------------------------------------------------------

    def _mend(self, noted: Mapping[str, str] | None) -> Epoch | None:
        """Publish what was committed; bring up what lags, as one epoch, and return it."""
        self.quarantine.tidy(self.db.epoch)
        self.outputs.publish()
        self.outputs.tidy()
        lagging = self.outputs.lagging(self.change.rebuilt)
        if not lagging and noted == self._cones:
            return None
        began = time.perf_counter()

        def prepared(delta: Delta) -> None:
            self._prepare(tx, delta, {}, lagging)

        with self.db.transaction() as tx:
            tx.mark(CONES, self._cones)
            tx.prepared = prepared
        self.outputs.publish()
        self.outputs.catch_up(lagging)
        self.outputs.fold()
        out = {name: (new.num_rows, old.num_rows) for name, (new, old) in lagging.items()}
        seconds = {"publish": time.perf_counter() - began}
        return Epoch(self.db.epoch, out=out, seconds=seconds, time=time.time())

    def _prepare(
        self,
        tx: DurableTransaction,
        delta: Delta,
        bad: Mapping[str, Sequence[Bad]],
        instead: dict[str, Sides] | None = None,
    ) -> dict[str, Sides]:
        epoch = self.db.epoch + 1
        self.quarantine.write(epoch, bad)
        sides = self.outputs.prepare(delta, instead)
        rows = {name: new.num_rows + old.num_rows for name, (new, old) in sides.items()}
        tx.mark(PREPARED, {"epoch": epoch, "outputs": rows})
        return sides

    def _apply(
        self,
        tx: DurableTransaction,
        portion: Portion,
        bad: dict[str, list[Bad]],
        *,
        careful: bool,
    ) -> Iterable[tuple[int, int]]:
        """Apply a portion; gives (given, taken away) per relation, and notes its bad rows."""
        found = list(portion.bad)
        for signed in portion.signed:
            relation = signed.schema.relation
            name = f"high/{relation}"
            before = self.db.marks.get(name)
            high = late_rows(portion.policy, signed, before)
            if high != before:
                tx.mark(name, high)
            times = self._times_of(relation)
            yield apply(tx, signed, portion.policy, times, careful=careful)
            found.extend(signed.bad)
        for mark, value in portion.marks.items():
            tx.mark(mark, value)
        if not found:
            return
        if not portion.policy.quarantine:
            first = found[0]
            message = (
                f"input {portion.source}: {first.origin}: {first.reason}: {first.row!r}"
                + (f" (and {len(found) - 1:,} more bad rows)" if len(found) > 1 else "")
                + '; the epoch was rolled back; bad_rows = "quarantine" sets such rows aside'
            )
            raise BadRowError(message, input=portion.source, reason=first.reason, row=first.row)
        bad.setdefault(portion.source, []).extend(found)

    def _times_of(self, relation: str) -> dict[Row, int] | None:
        if relation not in self._counted:
            return None
        if relation not in self._times:
            rows = self.db.rows(relation + COUNTS)
            self._times[relation] = {row[:-1]: cast(int, row[-1]) for row in rows}
        return self._times[relation]


class _Clock:
    """Seconds by stage, of the clock that never goes backwards."""

    def __init__(self, before: Mapping[str, float]) -> None:
        self.seconds = dict(before)
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + now - self._last, 6)
        self._last = now
