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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import deltafix
from deltafix.engine.state.durable import DurableDatabase, DurableTransaction
from deltafix.engine.state.reading import read_state
from deltafix.errors import SinkError
from deltafix.facts.delta import Delta
from deltafix.pipeline.augment import NOTHING, Additions, augment
from deltafix.pipeline.change import (
    ProgramChange,
    cones,
    peek_marks,
    require_same,
    what_changed,
)
from deltafix.pipeline.config import OutputConfig
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.journal import LINE, Journal
from deltafix.pipeline.keyed import drop_tombstones
from deltafix.pipeline.outputs import PREPARED, Outputs, Sides
from deltafix.pipeline.policy import Policy, RecheckError, apply, late_rows
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.quarantine import Quarantine, refused, require_few
from deltafix.pipeline.signed import Bad, Signed, join
from deltafix.pipeline.times import COUNTS, Times
from deltafix.rules.ast import Program
from deltafix.store.folder import Where, folder_at

__all__ = ["CONES", "Maintainer", "OnChange"]

CONES = "pipeline/program"
"""The mark that says which rules the outputs were made with."""

OnChange = Callable[[ProgramChange], bool]
"""Asked whether outputs may be rebuilt for a changed program."""


class Maintainer:
    """Opens state and outputs, mends what a stop left, and takes portions. Close it.

    Args:
        program: the rules.
        state: the state folder, by path or URL.
        outputs: the views to keep outside, and where.
        additions: what inputs add to the program.
        fsync: as in `deltafix.connect`.
        on_change: asked when the rules are not those the outputs were made with.

    Raises:
        ProgramChangedError: `on_change` says no.
        StateError, SinkError, ConfigError: a folder that cannot be used.
    """

    def __init__(
        self,
        program: Program,
        state: Where,
        outputs: Sequence[OutputConfig],
        *,
        additions: Additions = NOTHING,
        fsync: str = "always",
        on_change: OnChange = lambda change: False,
    ) -> None:
        self._counted = additions.counted
        folder = folder_at(state)
        self._folder = folder
        whole = augment(program, additions)
        self._cones = cones(whole)
        noted = peek_marks(folder).get(CONES)
        self.change = what_changed(noted or self._cones, self._cones)
        if self.change and not on_change(self.change):
            require_same(self.change, folder)
        db = deltafix.connect(whole, str(folder), fsync=fsync)
        assert isinstance(db, DurableDatabase)  # noqa: S101  a path is given
        self.db = db
        self._times: dict[str, Times] = {}
        self._dropped: dict[str, int] = {}
        self.quarantine = Quarantine(folder / "quarantine", db.generation)
        try:
            self.journal = Journal(folder)
            self.journal.mend(db.epoch, self._journaled())
            self.outputs = Outputs(db, outputs)
            try:
                self.opening = self._mend(noted)
            except BaseException:
                self.outputs.close()
                raise
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
        before = self.db.epoch
        given = [0, 0]
        bad: dict[str, list[Bad]] = {}
        epoch = Epoch(
            before + 1,
            read={one.source: one.rows for one in portions},
            more=any(one.more for one in portions),
            batch=batch,
        )

        def prepared(delta: Delta) -> None:
            nonlocal epoch
            clock.lap("engine")
            aside = {name: len(rows) for name, rows in bad.items()}
            epoch = replace(epoch, given=(given[0], given[1]), bad=aside, time=time.time())
            epoch = self._prepare(tx, delta, epoch, bad)
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
        finally:
            for times in self._times.values():  # an interrupt may come when the epoch stands
                times.settle(committed=self.db.epoch > before)
        clock.lap("write")
        now = time.time()
        stamps = [one.stamp for one in portions if one.stamp is not None]
        lag = max(0.0, now - min(stamps)) if stamps else None
        touched = self.db.last_epoch.touched
        epoch = replace(epoch, touched=touched, seconds=clock.seconds, lag=lag, time=now)
        try:
            self.outputs.publish()
        except SinkError as error:
            self.journal.write(epoch)
            message = f"{error}; epoch {self.db.epoch} is committed, and published with the next"
            raise SinkError(message, **error.values) from error
        with suppress(SinkError):  # joining files can wait for room
            self.outputs.fold()
        clock.lap("publish")
        self.journal.write(epoch)
        return epoch

    def compact(self, keep: int | None = None) -> None:
        """Write new snapshots of the state and of the outputs, and join the outputs' files.

        With `keep`, deltas of epochs before the last `keep` are dropped first, where a snapshot
        holds what they said.
        """
        self.outputs.publish()
        self.db.compact()
        self.outputs.fold(force=True, keep=keep)

    def close(self) -> None:
        """Give state and targets back. Idempotent."""
        self.outputs.close()
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
        clock = _Clock({})
        epoch = Epoch(self.db.epoch + 1)

        def prepared(delta: Delta) -> None:
            nonlocal epoch
            epoch = self._prepare(tx, delta, replace(epoch, time=time.time()), {}, lagging)

        with self.db.transaction() as tx:
            tx.mark(CONES, self._cones)
            tx.prepared = prepared
        self.outputs.publish()
        self.outputs.catch_up(lagging)
        self.outputs.fold()
        clock.lap("publish")
        epoch = replace(epoch, seconds=clock.seconds)
        self.journal.write(epoch)
        return epoch

    def _journaled(self) -> Iterator[Epoch]:
        """What the state knows of its last epochs, ascending."""
        found = read_state(self._folder)
        lines = {}
        for marks in (*(found[1].marks(0) if found else ()), self.db.marks):
            if LINE in marks:
                lines[marks[LINE]["epoch"]] = Epoch(**marks[LINE])
        yield from (lines[number] for number in sorted(lines))

    def _prepare(
        self,
        tx: DurableTransaction,
        delta: Delta,
        epoch: Epoch,
        bad: Mapping[str, Sequence[Bad]],
        instead: dict[str, Sides] | None = None,
    ) -> Epoch:
        """Write outputs and quarantine; the epoch with what they hold, as it is marked."""
        self.quarantine.write(epoch.epoch, bad)
        sides = self.outputs.prepare(delta, instead)
        out = {name: (new.num_rows, old.num_rows) for name, (new, old) in sides.items()}
        rows = {name: new + old for name, (new, old) in out.items()}
        epoch = replace(epoch, out={name: out[name] for name in instead or out})
        tx.mark(PREPARED, {"epoch": epoch.epoch, "writer": self.db.generation, "outputs": rows})
        tx.mark(LINE, asdict(epoch))
        return epoch

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
        parts: dict[str, list[Signed]] = {}
        for one in portion.signed:
            parts.setdefault(one.schema.relation, []).append(one)
        for relation, some in parts.items():
            signed = join(some)
            name = f"high/{relation}"
            before = self.db.marks.get(name)
            high = late_rows(portion.policy, signed, before)
            if high != before:
                tx.mark(name, high)
            times = self._times_of(relation)
            yield apply(tx, signed, portion.policy, times, careful=careful)
            self._drop_tombstones(tx, relation, portion.policy, high)
            found.extend(signed.bad)
        for mark, value in portion.marks.items():
            tx.mark(mark, value)
        if not found:
            return
        if not portion.policy.quarantine:
            raise refused(portion.source, found, "the epoch was rolled back")
        require_few(found)
        bad.setdefault(portion.source, []).extend(found)

    def _drop_tombstones(
        self, tx: DurableTransaction, relation: str, policy: Policy, high: int | None
    ) -> None:
        """Forget deletes that no row can be older than without being late.

        They are looked at when as much time has passed as they are kept for: about twice each.
        """
        if high is None or policy.late == "apply" or not policy.keying.sequence:
            return
        below = high - policy.lateness
        last = self._dropped.get(relation)
        if policy.keying.key and (last is None or below - last > policy.lateness):
            drop_tombstones(tx, relation, below)
            self._dropped[relation] = below

    def _times_of(self, relation: str) -> Times | None:
        if relation not in self._counted:
            return None
        if relation not in self._times:
            self._times[relation] = Times(self.db.rows(relation + COUNTS))
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
