"""Whether a pipeline file can run: its inputs are there, its outputs fit, its rules are the same.

Each input is asked for its next rows, as a run would, of files up to `LOOKED` of them. Invariant:
nothing is written, and no session of Spark is started; what is not looked at is said. What rows
mean beside those that are in is not looked at, so of tables' keys what these rows alone break.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from deltafix.diagnostics import plural
from deltafix.engine.state.marks import Marks, set_marks
from deltafix.facts.arrow import arrow_schema
from deltafix.facts.logical import rows_of, to_logical
from deltafix.facts.schema import Row, Schema
from deltafix.facts.values import shown
from deltafix.paths import near
from deltafix.pipeline.augment import Additions, augment, homes_of, key_checks
from deltafix.pipeline.config import Config, InputConfig, schemas_of
from deltafix.pipeline.keeper import peek
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.maintainer import compared, key_breach
from deltafix.pipeline.portion import Lookable, Portion, Source
from deltafix.pipeline.problems import Problems
from deltafix.pipeline.quarantine import refused
from deltafix.pipeline.signed import SIGN, plain
from deltafix.pipeline.sink import ParquetSink
from deltafix.pipeline.sources.registry import BY_RUNNER, ON_SPARK, additions, make_source
from deltafix.pipeline.targets.registry import make_target, place_of
from deltafix.rules.ast import Program
from deltafix.store.folder import folder_at


@dataclass(frozen=True, slots=True)
class _Peek:
    """What sources see: where they are, and no rows."""

    marks: Marks
    schemas: Mapping[str, Schema]

    def to_arrow(self, relation: str) -> pa.Table:
        """No rows of a relation."""
        return arrow_schema(self.schemas[relation]).empty_table()

    def select(self, relation: str, pattern: Any) -> list[Any]:
        """None."""
        return []


LOOKED: Final = 10_000
"""So many rows that wait in the files of an input are looked at, in whole files."""


def check(config: Config) -> Iterator[str]:
    """A line per input and output. Raises what running would raise, as far as it can be told.

    An input or output that cannot be taken is told at the end, with all others that cannot.
    """
    schemas = schemas_of(config.program)
    added = additions(config)
    state = peek(config.state)
    comparison = compared(config.program, added, folder_at(config.state), state)
    seen = _Peek(state.marks, schemas_of(augment(config.program, added)))
    local = config.values["runner"] == "local"
    problems = Problems()
    for input_ in config.inputs:
        fed = ", ".join(schemas[name].show() for name in input_.relations)
        if input_.source in (ON_SPARK if local else (*ON_SPARK, *BY_RUNNER)):
            yield f"input {input_.name}: {input_.source} to {fed} (not looked at: Spark reads it)"
            continue
        keys = _Keys(input_, config.program, added, schemas)
        keys.is_new = not any(map(state.has_rows, homes_of(input_.relations[0])))
        with problems.noted():
            report, location = _looked(config, input_, schemas, seen, keys)
            yield f"input {input_.name}: {input_.source} {location} to {fed} ({report})"
    for output in config.outputs:
        schema = schemas[output.relation]
        with problems.noted():
            sink = ParquetSink(schema, output.path, state.name, keeps_snapshot=False)
            at = "new" if sink.is_new else f"at epoch {sink.manifest.epoch}"
            target = make_target(output, schema, "")
            if target is None:
                yield f"output {output.relation}: {near(str(output.path))} ({at})"
            else:
                where = f"{output.sink} {near(place_of(output))}"
                yield f"output {output.relation}: {where} ({at}; the target is not looked at)"
    problems.tell()
    if comparison.is_asked:
        yield f"the rules have changed ({comparison.change.show()}); {comparison.change.ways}"
    yield f"{config.path}: ok"


_IN_FILES: Final = ("files", "snapshot")


def _looked(
    config: Config, input_: InputConfig, schemas: Mapping[str, Schema], seen: _Peek, keys: _Keys
) -> tuple[str, str]:
    """What an input has to say, and where it is. Raises what `poll` raises."""
    with closing(make_source(config, input_, schemas)) as source:
        if isinstance(source, Lookable):
            return source.look(seen), input_.values["table"]
        report = _said(source, seen, LOOKED if input_.source in _IN_FILES else 1, keys)
        named = (input_.values.get(key) for key in ("path", "table", "topic"))
        return report, near(next(filter(None, named), "requests"))


def _said(source: Source, seen: _Peek, most: int, keys: _Keys) -> str:
    """What a source has to say, file after file, up to so many rows. Raises what `poll` raises."""
    rows = bad = 0
    more = True
    while more and rows < most:
        portion = source.poll(seen, most - rows)
        if portion is None:
            more = False
            break
        wrong = [*portion.bad, *(b for signed in portion.signed for b in signed.bad)]
        if wrong and not portion.policy.quarantine:
            raise refused(source.name, wrong, "it would fail the next epoch")
        keys.take(portion)
        rows, bad = rows + portion.rows, bad + len(wrong)
        more = portion.more
        marks = dict(seen.marks)
        set_marks(marks, portion.marks)
        seen = _Peek(marks, seen.schemas)
    if not (rows or bad or more):
        return "nothing new"
    report = f"has something to say; looked at {'the first ' if more else ''}{plural(rows, 'row')}"
    report += f", {bad:,} of them are to be set aside" if bad else ""
    return report + keys.require(more=more)


class _Keys:
    """The keys of an input's table, and the rows that wait for it.

    A row that is said last to come is there when all are in, however they are cut into epochs: then
    or before an epoch fails if another such row has its key.
    """

    is_new = True
    """Whether no rows of the table are in."""

    def __init__(
        self, input_: InputConfig, program: Program, added: Additions, schemas: Mapping[str, Schema]
    ) -> None:
        self._keys = [key for key in key_checks(program, added) if key.table in input_.relations]
        self._keyable = added.keyable
        self._schema = schemas[input_.relations[0]]
        self._is_snapshot = input_.source == "snapshot"
        self._has_deletes = input_.source == "files" and input_.values["mode"] == "changes"
        is_plain = (
            not Keying.of(input_.values).key and input_.values.get("late", "apply") == "apply"
        )
        self._is_asked = bool(self._keys) and input_.source in _IN_FILES and is_plain
        self._there: dict[Row, bool] = {}

    def take(self, portion: Portion) -> None:
        """Take in what a portion says. Raises KeyBreachError where a snapshot breaks a key."""
        if not self._is_asked:
            return
        if self._is_snapshot:  # it says all rows there are
            self._there.clear()
        names = list(self._schema.names)
        for signed in portion.signed:
            table = plain(self._schema, signed.table.select(names))
            rows = rows_of(to_logical(self._schema, table))
            signs = signed.table.column(SIGN).to_pylist()
            self._there |= zip(rows, (sign > 0 for sign in signs), strict=True)
        if self._is_snapshot:
            self._require()

    def require(self, *, more: bool) -> str:
        """What of the keys was not looked at, in words; `more` rows wait than were taken.

        Raises KeyBreachError.
        """
        if not self._keys:
            return ""
        keys = "; " + ", ".join(key.show() for key in self._keys)
        if not self._is_asked or (more and self._has_deletes):  # one behind them may make room
            return f"{keys} not looked at"
        self._require()
        return f"{keys} looked at among these rows only" if more or not self.is_new else ""

    def _require(self) -> None:
        for key in self._keys:
            positions = [self._schema.names.index(name) for name in key.columns]
            first = dict[Row, Row]()
            for row in (row for row, is_there in self._there.items() if is_there):
                values = tuple(row[position] for position in positions)
                other = row if None in values else first.setdefault(values, row)
                if other is not row:
                    held = dict(zip(self._schema.names, row, strict=True))
                    outcome = f"it would fail an epoch: {shown(other)} and {shown(row)}"
                    raise key_breach(key, held, self._keyable, self._schema, outcome)
