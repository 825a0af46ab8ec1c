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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from time import perf_counter, time
from typing import Any, NamedTuple

from deltafix.diagnostics import plural
from deltafix.doing import tell
from deltafix.errors import KeyBreachError, SinkError
from deltafix.facts.delta import Delta
from deltafix.facts.logical import logical_rows
from deltafix.facts.schema import Schema
from deltafix.facts.values import CONSTRUCTED
from deltafix.pipeline import keeper
from deltafix.pipeline.augment import NOTHING, Additions, augment, kept_as, key_checks
from deltafix.pipeline.change import (
    ProgramChange,
    Way,
    cones,
    not_maintained,
    require_kept_same,
    require_same,
    require_tables_same,
    tables_of,
    what_changed,
)
from deltafix.pipeline.config import OutputConfig, schemas_of
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.journal import LINE, Journal
from deltafix.pipeline.outputs import PREPARED, Lack, Outputs, attempt_of
from deltafix.pipeline.policy import RecheckError, high_mark, late_rows, lowest
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.quarantine import Quarantine, refused, require_few
from deltafix.pipeline.sections import KEY_TYPES
from deltafix.pipeline.signed import Bad, Signed, join
from deltafix.pipeline.targets.registry import MakeTarget, make_target
from deltafix.rules.ast import Program
from deltafix.rules.tables import TableKey, TableProgram
from deltafix.store.folder import Folder, Where, folder_at

CONES = "pipeline/program"
"""The mark that says which rules the outputs were made with."""

TABLES = "pipeline/tables"
"""The mark that says what columns the tables were declared with: rows keep their meaning."""

INPUTS = "pipeline/inputs"
"""The mark that says how the rows of inputs are kept, where that is not as they come."""

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
        opening: the epoch that opening made, if any.
        schemas: those of the program's relations, with what is added to it.

    Raises:
        ProgramChangedError: `on_change` refuses, or whoever keeps the rows cannot maintain them.
        FactError, UnknownRelationError: rows that the new program has no place for.
        StateError, SinkError, ConfigError: a folder that cannot be used; rows that are kept in
            another way than inputs have them now.
    """

    def __init__(
        self,
        program: Program,
        state: Where,
        outputs: Sequence[OutputConfig],
        *,
        additions: Additions = NOTHING,
        fsync: str = "always",
        keep: keeper.Keep = keeper.Driver,
        make_target: MakeTarget = make_target,
        on_change: OnChange = lambda change: "refuse",
    ) -> None:
        folder = folder_at(state)
        whole = augment(program, additions)
        self.schemas = schemas_of(whole)
        peeked = keeper.peek(folder)
        noted, known = peeked.marks.get(CONES), peeked.program
        self._notes, self.change, is_asked = compared(program, additions, folder, peeked)
        way = on_change(self.change) if is_asked else "rebuild"
        if way == "refuse":
            require_same(self.change, folder)
        before = whole
        # An output may be left without rules, or be given from now on.
        lag = (*self.change.changed, *self.change.gone)
        self._keys = key_checks(program, additions)
        self._keyable = additions.keyable
        if way == "maintain":
            if known is None or self.change.is_sql:
                raise not_maintained(is_sql=known is not None)
            before = known.program()
            # Nothing, unless the state was opened with yet another program behind our back.
            apart = what_changed(noted or {}, cones(before))
            lag = (*apart.changed, *apart.gone)
        self.keeper = keep(before, folder, fsync, additions)
        db = self.db
        self.quarantine = Quarantine(folder / "quarantine")
        self._attempts = 0
        try:
            self.journal = Journal(folder)
            self.journal.mend(db.epoch, self._journaled())
            self.outputs = Outputs(
                db, self.schemas, outputs, make_target,
                is_common=lambda: keeper.shards_head(folder) is not None,
            )  # fmt: skip
            try:
                self.opening = self._mend(noted, lag, whole if way == "maintain" else None)
            except BaseException:
                self.outputs.close()
                raise
        except BaseException:
            db.close()
            raise

    @property
    def db(self) -> keeper.Relations:
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
        KeyBreachError: two rows of a table would have one key.
            StateError, SinkError: something cannot be written.
        In all cases nothing of the epoch is there; a SinkError on publishing alone (the message
        says so) leaves the epoch committed, and the next call publishes it first.
        """
        self.outputs.publish()
        self._grow(sum(signed.rows for portion in portions for signed in portion.signed))
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
            read={portion.source: portion.rows for portion in portions},
            more=any(portion.more for portion in portions),
            batch=batch,
        )

        def prepared(delta: Delta) -> None:
            nonlocal epoch
            clock.lap("engine")
            tell("writing outputs")
            self._require_keys(delta)
            aside = {name: len(rows) for name, rows in bad.items()}
            epoch = replace(epoch, given=given, bad=aside, time=time())
            epoch = self._prepare(tx, delta, epoch, bad)
            clock.lap("write")

        with self.keeper.begin(careful=careful) as tx:
            tx.prepared, tx.views = prepared, {*self.outputs.sinks, *self._keys.values()}
            for name, value in marks.items():
                tx.mark(name, value)
            tell(f"taking in {plural(sum(portion.rows for portion in portions), 'row')}")
            given = self._apply(tx, portions, bad)
            clock.lap("edit")
        clock.lap("write")
        now = time()
        stamps = [portion.stamp for portion in portions if portion.stamp is not None]
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
            self.outputs.fold(self.keeper.tables)
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
        self.outputs.fold(self.keeper.tables, force=True, keep=keep)

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

    def _mend(
        self, noted: Mapping[str, str] | None, lag: Sequence[str], changed: Program | None
    ) -> Epoch | None:
        """Publish what was committed; bring up what lags, as one epoch, and return it.

        With a `changed` program, that is also the epoch from which on it has the rows.
        """
        self.quarantine.tidy(self.db.epoch, attempt_of(self.db.marks.get(PREPARED, {})))
        self.outputs.publish()
        self.outputs.tidy()
        lagging = self.outputs.lagging(lag, self.keeper.tables)
        anew = {mark: note for mark, note in self._notes.items() if self.db.marks.get(mark) != note}
        if not lagging and not anew:
            return None
        clock = _Clock({})
        epoch = Epoch(self.db.epoch + 1)

        def prepared(delta: Delta) -> None:
            nonlocal epoch
            epoch = self._prepare(tx, delta, replace(epoch, time=time()), {}, lagging)

        with self.keeper.begin() as tx:
            if changed is not None:
                tx.change_program(changed)
            for mark, note in anew.items():
                tx.mark(mark, note)
            tx.prepared, tx.views = prepared, self.outputs.sinks
        clock.lap("engine")
        epoch = replace(epoch, touched=self.keeper.touched)
        self.outputs.publish()
        self.outputs.catch_up(lagging)
        self.outputs.fold(self.keeper.tables)
        clock.lap("publish")
        epoch = replace(epoch, seconds=clock.seconds)
        self.journal.write(epoch)
        return epoch

    def _require_keys(self, delta: Delta) -> None:
        """Raise KeyBreachError if several rows of a table have one key."""
        for key, name in self._keys.items():
            if len(delta[name].added):
                schema = self.schemas[key.table]
                columns = tuple(column for column in schema.columns if column.name in key.columns)
                held = tuple(
                    (value,) if column.type in CONSTRUCTED else value
                    for column, value in zip(columns, delta[name].added[0], strict=True)
                )
                (row,) = logical_rows(Schema(key.table, columns), [held])
                values = dict(zip((column.name for column in columns), row, strict=True))
                raise key_breach(key, values, self._keyable, schema, "the epoch was rolled back")

    def _journaled(self) -> Iterator[Epoch]:
        """What the state knows of its last epochs, ascending."""
        lines = {}
        for marks in self.keeper.history():
            for line in marks.get(LINE, ()):
                lines[line["epoch"]] = Epoch(**line)
        yield from (lines[number] for number in sorted(lines))

    def _prepare(
        self,
        tx: keeper.Open,
        delta: Delta,
        epoch: Epoch,
        bad: Mapping[str, Sequence[Bad]],
        behind: Mapping[str, Lack] | None = None,
    ) -> Epoch:
        """Write outputs and quarantine; the epoch with what they hold, as it is marked."""
        self._attempts += 1
        # What a store answers with an error it may do late, over the files of the next attempt.
        attempt = f"{self.db.generation}-{self._attempts}" if self.db.generation else ""
        self.quarantine.write(epoch.epoch, bad, attempt)
        out = self.outputs.prepare(delta, behind or {}, attempt)
        parts = {name: prepared.parts for name, prepared in out.items()}
        if behind is not None:
            out = {
                name: prepared
                for name, prepared in out.items()
                if name in behind or any(prepared.counts)
            }
        epoch = replace(epoch, out={name: prepared.counts for name, prepared in out.items()})
        tx.mark(PREPARED, {"epoch": epoch.epoch, "writer": attempt, "outputs": parts})
        tx.mark(LINE, [asdict(epoch) for epoch in (*self.journal.waiting, epoch)])
        if self.db.marks.get(keeper.EXECUTOR) != self.keeper.why:
            tx.mark(keeper.EXECUTOR, self.keeper.why)
        return epoch

    def _apply(
        self, tx: keeper.Open, portions: Sequence[Portion], bad: dict[str, list[Bad]]
    ) -> tuple[int, int]:
        """Apply portions; gives (given, taken away) rows, and notes the bad ones."""
        said: list[tuple[Portion, keeper.Said]] = []
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
                said.append((portion, keeper.Said(signed, portion.policy, lowest(highs))))
            for mark, value in portion.marks.items():
                tx.mark(mark, value)
        counts = tx.judge([changes for _, changes in said])
        for portion in portions:
            bad_rows = list(portion.bad)
            for origin, changes in said:
                bad_rows.extend(changes.signed.bad if origin is portion else ())
            if not bad_rows:
                continue
            if not portion.policy.quarantine:
                raise refused(portion.source, bad_rows, "the epoch was rolled back")
            require_few(bad_rows)
            bad.setdefault(portion.source, []).extend(bad_rows)
        return sum(new for new, _ in counts), sum(old for _, old in counts)


def key_breach(
    key: TableKey, row: Mapping[str, Any], keyable: Mapping[str, str], schema: Schema, outcome: str
) -> KeyBreachError:
    """The error for several rows of a table with one key, of which `row` is one, by column.

    `keyable` is that of `Additions`; only its tables are told that rows can replace each other.
    """
    values = tuple(row[name] for name in key.columns)
    kinds = dict(zip(schema.names, schema.types, strict=True))
    if key.table in keyable and all(kinds[name] in KEY_TYPES for name in key.columns):
        shown = ", ".join(map(repr, key.columns))
        way_out = f"let rows replace each other: key = [{shown}] {keyable[key.table]}"
    else:
        way_out = (
            f"declare {key.kind} ({', '.join(key.columns)}, ...) with a column more, that tells "
            "such rows apart, and let a view choose among them"
        )
    message = (
        f"{key.table}: several rows would have the {key.show()} = ({', '.join(map(str, values))}); "
        f"{outcome}. Correct the input, or {way_out}"
    )
    return KeyBreachError(message, relation=key.table, value=values)


class Compared(NamedTuple):
    """What a state is to note of a program, what changed since it did, and whether that matters.

    Before rows are in, it does not.
    """

    notes: Mapping[str, Mapping[str, str]]
    change: ProgramChange
    is_asked: bool


def compared(
    program: Program, additions: Additions, folder: Folder, peeked: keeper.Peek
) -> Compared:
    """A program beside the state that it is to go on with.

    Raises StateError where the rows that are there would mean another thing.
    """
    whole = augment(program, additions)
    now = {CONES: cones(whole), TABLES: tables_of(program), INPUTS: kept_as(additions)}
    noted = peeked.marks.get(CONES)
    require_tables_same(peeked.marks.get(TABLES, {}), now[TABLES], folder, peeked.has_rows)
    if noted is None or INPUTS in peeked.marks:
        require_kept_same(peeked.marks.get(INPUTS, {}), now[INPUTS], folder, peeked.has_rows)
    is_sql = isinstance(program, TableProgram)
    change = what_changed(now[CONES] if noted is None else noted, now[CONES], is_sql=is_sql)
    before = peeked.program.inputs if peeked.program else {}
    is_begun = any(map(peeked.has_rows, (*schemas_of(whole), *before)))
    return Compared(now, change, bool(change) and is_begun)


class _Clock:
    """Seconds by stage, of the clock that never goes backwards."""

    def __init__(self, before: Mapping[str, float]) -> None:
        self.seconds = dict(before)
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + now - self._last, 6)
        self._last = now
