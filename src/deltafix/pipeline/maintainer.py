"""A program on a state folder with outputs: portions in, one epoch each, exactly once.

The life of an epoch, and what a stop at each point leaves:

1. *edited*     portions are applied to an open transaction        nothing
2. *prepared*   outputs and quarantine are written, unseen          files that are written over
3. *committed*  one step of its keeper: rows, the sources' marks,   the epoch; 4 is done on opening
                the batch, what was prepared
4. *published*  manifests name the files                            the epoch

Invariant: step 3 alone decides. Sources begin again from its marks, outputs end at its epoch, and
a batch that is in it is not applied again. Who calls bounds the rows of a portion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from deltafix.errors import SinkError
from deltafix.facts.delta import Delta
from deltafix.pipeline.augment import NOTHING, Additions, augment
from deltafix.pipeline.change import ProgramChange, Way, cones, require_same, what_changed
from deltafix.pipeline.config import OutputConfig, schemas_of
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.journal import LINE, Journal
from deltafix.pipeline.keeper import EXECUTOR, Driver, Keep, Open, Relations, Said, peek_marks
from deltafix.pipeline.outputs import PREPARED, Outputs, Sides
from deltafix.pipeline.policy import RecheckError, high_mark, late_rows, lowest
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.quarantine import Quarantine, refused, require_few
from deltafix.pipeline.signed import Bad, Signed, join
from deltafix.pipeline.targets.registry import MakeTarget, make_target
from deltafix.rules.ast import Program
from deltafix.rules.show import show
from deltafix.store.folder import Where, folder_at

__all__ = ["CONES", "Maintainer", "OnChange"]

CONES = "pipeline/program"
"""The mark that says which rules the outputs were made with."""

RULES = "pipeline/rules"
"""The mark with these rules themselves, as text: what an edit of them begins with."""

OnChange = Callable[[ProgramChange], Way]
"""Asked what to do about a changed program."""


class Maintainer:
    """Opens state and outputs, mends what a stop left, and takes portions. Close it.

    Args:
        program: the rules.
        state: the state folder, by path or URL.
        outputs: the views to keep outside, and where.
        additions: what inputs add to the program.
        fsync: as in `deltafix.connect`.
        keep: opens who keeps the rows.
        make_target: makes the targets of outputs.
        on_change: asked when the rules are not those the outputs were made with.

    Attributes:
        opening: the epochs that opening made.

    Raises:
        ProgramChangedError: `on_change` refuses, or whoever keeps the rows cannot maintain them.
        FactError, UnknownRelationError: rows that the new program has no place for.
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
        keep: Keep = Driver,
        make_target: MakeTarget = make_target,
        on_change: OnChange = lambda change: "refuse",
    ) -> None:
        folder = folder_at(state)
        self._program = whole = augment(program, additions)
        self._cones = cones(whole)
        marks = peek_marks(folder)
        self.change = what_changed(marks.get(CONES, self._cones), self._cones)
        way = on_change(self.change) if self.change else "rebuild"
        if way == "refuse":
            require_same(self.change, folder)
        maintains = way == "maintain" and RULES in marks
        self.keeper = keep(_read(marks[RULES]) if maintains else whole, folder, fsync, additions)
        db = self.db
        self.quarantine = Quarantine(folder / "quarantine", db.generation)
        try:
            self.journal = Journal(folder)
            self.journal.mend(db.epoch, self._journaled())
            self.outputs = Outputs(db, schemas_of(whole), outputs, make_target)
            try:
                self.opening = [*self._mend(maintains=maintains)]
            except BaseException:
                self.outputs.close()
                raise
        except BaseException:
            db.close()
            raise

    @property
    def db(self) -> Relations:
        """The rows and marks of the last epoch."""
        return self.keeper.db

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
        self._grow(sum(one.rows for portion in portions for one in portion.signed))
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
        given = (0, 0)
        bad: dict[str, list[Bad]] = {}
        epoch = Epoch(
            self.db.epoch + 1,
            read={one.source: one.rows for one in portions},
            more=any(one.more for one in portions),
            batch=batch,
        )

        def prepared(delta: Delta) -> None:
            nonlocal epoch
            clock.lap("engine")
            aside = {name: len(rows) for name, rows in bad.items()}
            epoch = replace(epoch, given=given, bad=aside, time=time.time())
            epoch = self._prepare(tx, delta, epoch, bad)
            clock.lap("write")

        with self.keeper.begin(careful=careful) as tx:
            tx.prepared, tx.views = prepared, self.outputs.sinks
            for name, value in marks.items():
                tx.mark(name, value)
            given = self._apply(tx, portions, bad)
            clock.lap("edit")
        clock.lap("write")
        now = time.time()
        stamps = [one.stamp for one in portions if one.stamp is not None]
        lag = max(0.0, now - min(stamps)) if stamps else None
        touched = self.keeper.touched
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

    def _grow(self, rows: int) -> None:
        """Let the keeper give the rows to another, where so many more are too many for it."""
        before = self.keeper
        self.keeper = before.grown(rows)
        if self.keeper is not before:
            self.outputs.follow(self.keeper.db)

    def _mend(self, *, maintains: bool) -> Iterator[Epoch]:
        """Publish what was committed; follow the rules, and bring up what lags, an epoch each."""
        self.quarantine.tidy(self.db.epoch)
        self.outputs.publish()
        self.outputs.tidy()
        if maintains:
            yield self._led_by(None)
        lagging = self.outputs.lagging(() if maintains else self.change.changed)
        if lagging or self.db.marks.get(CONES) != self._cones:
            yield self._led_by(lagging)

    def _led_by(self, lagging: dict[str, Sides] | None) -> Epoch:
        """An epoch without portions: what lagging outputs lack; None: what the new rules change."""
        clock = _Clock({})
        epoch = Epoch(self.db.epoch + 1)

        def prepared(delta: Delta) -> None:
            nonlocal epoch
            epoch = self._prepare(tx, delta, replace(epoch, time=time.time()), {}, lagging)

        with self.keeper.begin() as tx:
            if lagging is None:
                tx.change_program(self._program)
            tx.mark(CONES, self._cones)
            tx.mark(RULES, show(self._program))
            tx.prepared, tx.views = prepared, self.outputs.sinks
        self.outputs.publish()
        self.outputs.catch_up(lagging or ())
        self.outputs.fold()
        clock.lap("publish")
        touched = self.keeper.touched if lagging is None else 0
        epoch = replace(epoch, touched=touched, seconds=clock.seconds)
        self.journal.write(epoch)
        return epoch

    def _journaled(self) -> Iterator[Epoch]:
        """What the state knows of its last epochs, ascending."""
        lines = {}
        for marks in self.keeper.history():
            if LINE in marks:
                lines[marks[LINE]["epoch"]] = Epoch(**marks[LINE])
        yield from (lines[number] for number in sorted(lines))

    def _prepare(
        self,
        tx: Open,
        delta: Delta,
        epoch: Epoch,
        bad: Mapping[str, Sequence[Bad]],
        instead: dict[str, Sides] | None = None,
    ) -> Epoch:
        """Write outputs and quarantine; the epoch with what they hold, as it is marked."""
        self.quarantine.write(epoch.epoch, bad)
        out = self.outputs.prepare(delta, instead)
        rows = {name: new + old for name, (new, old) in out.items()}
        epoch = replace(epoch, out={name: out[name] for name in instead or out})
        tx.mark(PREPARED, {"epoch": epoch.epoch, "writer": self.db.generation, "outputs": rows})
        tx.mark(LINE, asdict(epoch))
        if self.db.marks.get(EXECUTOR) != self.keeper.why:
            tx.mark(EXECUTOR, self.keeper.why)
        return epoch

    def _apply(
        self, tx: Open, portions: Sequence[Portion], bad: dict[str, list[Bad]]
    ) -> tuple[int, int]:
        """Apply portions; gives (given, taken away) rows, and notes the bad ones."""
        said: list[tuple[Portion, Said]] = []
        for portion in portions:
            parts: dict[str, list[Signed]] = {}
            for part in portion.signed:
                parts.setdefault(part.schema.relation, []).append(part)
            for relation, some in parts.items():
                signed = join(some)
                mark = high_mark(relation)
                highs = portion.marks.get(mark)
                if highs is None:  # else whoever read the rows has judged which are late
                    before = self.db.marks.get(mark, {}).get("")
                    highs = {"": late_rows(portion.policy, signed, before)}
                    if highs[""] != before:
                        tx.mark(mark, highs)
                said.append((portion, Said(signed, portion.policy, lowest(highs))))
            for mark, value in portion.marks.items():
                tx.mark(mark, value)
        counts = tx.judge([one for _, one in said])
        for portion in portions:
            found = list(portion.bad)
            for of, one in said:
                found.extend(one.signed.bad if of is portion else ())
            if not found:
                continue
            if not portion.policy.quarantine:
                raise refused(portion.source, found, "the epoch was rolled back")
            require_few(found)
            bad.setdefault(portion.source, []).extend(found)
        return sum(new for new, _ in counts), sum(old for _, old in counts)


def _read(rules: str) -> Program:
    from deltafix.datalog.program import Program as Text  # noqa: PLC0415  the parser

    return Text.parse(rules, "the rules of the state")


class _Clock:
    """Seconds by stage, of the clock that never goes backwards."""

    def __init__(self, before: Mapping[str, float]) -> None:
        self.seconds = dict(before)
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + now - self._last, 6)
        self._last = now
