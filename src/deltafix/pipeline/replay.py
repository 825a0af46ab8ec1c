"""One epoch again: what it changed in the outputs, recorded and recomputed.

The state's files are read without their lock, loaded into a database in memory up to the epoch
before, and the epoch's edits applied; so are those of shards, whose rows must fit there for that.
Invariant: nothing is written anywhere; a pipeline may run meanwhile. An epoch that the state has
folded into its snapshot can be shown and not recomputed; so can one that brought outputs up to a
program, since it has no edits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import deltafix
from deltafix.engine.state.identity import Identity
from deltafix.engine.state.reading import read_state
from deltafix.engine.state.rows import GivenRows, decode
from deltafix.errors import PipelineError
from deltafix.facts.logical import (
    line_of,
    logical_order,
    logical_rows,
    logical_schema,
    rows_of,
)
from deltafix.facts.schema import Row, Schema, show_row
from deltafix.pipeline.augment import augment
from deltafix.pipeline.config import Config, schemas_of
from deltafix.pipeline.keeper import SHARDS, shards_head
from deltafix.pipeline.maintainer import CONES
from deltafix.pipeline.manifest import read_deltas
from deltafix.pipeline.signed import SIGN, difference
from deltafix.pipeline.sources.registry import additions
from deltafix.rules.ast import Program
from deltafix.rules.show import show
from deltafix.rules.tables import TableProgram, users_of
from deltafix.store.folder import Folder

Changes = frozenset[tuple[int, Row]]


class Around(NamedTuple):
    """The given rows before and after an epoch, by relation."""

    before: Mapping[str, pa.Table]
    after: Mapping[str, pa.Table]


FindAround = Callable[[Folder, int, Mapping[str, Schema]], Around | None]
"""Finds them in the folder of shards; None where the epoch was folded."""

_FOLDED = "the state has folded it into its snapshot"
_BROUGHT_UP = "it brought the outputs up to the program"


@dataclass(frozen=True, slots=True)
class Replay:
    """What an epoch changed, by output: as recorded, and as recomputed (None: see `why`)."""

    epoch: int
    recorded: Mapping[str, Changes]
    recomputed: Mapping[str, Changes] | None
    why: str
    tables: Mapping[str, pa.Schema] = field(default_factory=dict)
    """Of the outputs, where the views are SQL's: their rows are shown as SQL shows rows."""

    @property
    def agrees(self) -> bool:
        """Whether record and recomputation are the same, as far as there is one."""
        return self.recomputed is None or self.recorded == self.recomputed

    def show(self) -> Iterator[str]:
        """The recorded changes, a line each, then what the recomputation says."""
        for name, changes in self.recorded.items():
            yield from self._lines(name, changes)
        if self.recomputed is None:
            yield f"epoch {self.epoch}: as recorded; not recomputed: {self.why}"
        elif self.agrees:
            yield f"epoch {self.epoch}: recomputed, the same"
        else:
            yield f"epoch {self.epoch}: recomputed, DIFFERENT:"
            for name, again in self.recomputed.items():
                for what, some in (
                    ("only recorded", self.recorded[name] - again),
                    ("only recomputed", again - self.recorded[name]),
                ):
                    yield from (f"{what}: {line}" for line in self._lines(name, some))

    def _lines(self, name: str, changes: Changes) -> Iterator[str]:
        for sign, row in sorted(changes, key=_order):
            if name in self.tables:
                shown = f"{name}\t{line_of(map(_parted, row, self.tables[name].types))}"
            else:
                shown = show_row(name, row)
            yield f"{'+' if sign > 0 else '-'}{shown}"


def _parted(value: Any, kind: pa.DataType) -> Any:
    """A value of `rows_of` with lists and dicts again where its type has parts."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {
            field.name: _parted(part, field.type) for field, part in zip(kind, value, strict=True)
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_parted(part, kind.value_type) for part in value]
    return value


def replay(config: Config, epoch: int, *, around: FindAround | None = None) -> Replay:
    """Look at an epoch again. O(state) if it is recomputed; `around` reads rows that are in shards.

    Raises PipelineError for an epoch that is not there, SourceError for deltas that were dropped,
    StateError for a damaged state.
    """
    replayed = _replayed(config, epoch, around)
    if not isinstance(config.program, TableProgram):
        return replayed
    schemas = schemas_of(config.program)
    return replace(
        replayed, tables={name: logical_schema(schemas[name]) for name in replayed.recorded}
    )


def _replayed(config: Config, epoch: int, around: FindAround | None) -> Replay:
    head = shards_head(config.state)
    if head is not None:
        recorded = _recorded(config, epoch, head["epoch"])
        return _of_shards(config, epoch, recorded, around)
    contents = read_state(config.state)
    if contents is None:
        raise PipelineError(f"{config.state} is no state yet: run the pipeline first")
    snapshot, records = contents
    recorded = _recorded(config, epoch, max(records.epoch, snapshot.epoch))
    frames = [frame for frame in records.after(snapshot.epoch) if frame.epoch <= epoch]
    if not frames or frames[-1].epoch != epoch:
        return Replay(epoch, recorded, None, _FOLDED)
    if CONES in frames[-1].meta.get("marks", {}):
        return Replay(epoch, recorded, None, _BROUGHT_UP)
    # The program may have changed since.
    known = replace(records, frames=frames).program(snapshot.epoch, snapshot.identity)
    program = _program(config, known)
    if program is None:
        return Replay(epoch, recorded, None, "the views in SQL have changed since")
    with deltafix.connect(program, physical=True, **users_of(program)) as db:
        with db.transaction(missing="ignore") as tx:
            for given in decode(chain(snapshot.frames, frames[:-1]), db.schemas):
                _apply(tx, given)
        with db.transaction(missing="ignore") as tx:
            for given in decode(frames[-1:], db.schemas):
                _apply(tx, given)
        return _recomputed(config, epoch, recorded, tx)


def _program(config: Config, known: Identity) -> Program | None:
    """The program that a state had; None for one of SQL, whose functions are not known any more."""
    if not isinstance(config.program, TableProgram):
        return known.program()
    program = augment(config.program, additions(config))
    return program if show(program) == known.text else None


def _of_shards(
    config: Config, epoch: int, recorded: dict[str, Changes], around: FindAround | None
) -> Replay:
    if around is None:
        why = 'the rows are in shards; a pipeline with runner = "spark" reads them'
        return Replay(epoch, recorded, None, why)
    program = augment(config.program, additions(config))
    with deltafix.connect(program, physical=True, **users_of(program)) as db:
        rows = around(config.state / SHARDS, epoch, db.schemas)
        if rows is None:
            return Replay(epoch, recorded, None, _FOLDED)
        with db.transaction(missing="ignore") as tx:
            for name, table in rows.before.items():
                _apply(tx, GivenRows(db.schemas[name], True, table, table.num_rows))
        edits = [
            given
            for name, table in rows.after.items()
            for given in _edits(db.schemas[name], rows.before[name], table)
        ]
        if not edits and any(recorded.values()):
            return Replay(epoch, recorded, None, _BROUGHT_UP)
        with db.transaction(missing="ignore") as tx:
            for given in edits:
                _apply(tx, given)
        return _recomputed(config, epoch, recorded, tx)


def _edits(schema: Schema, before: pa.Table, after: pa.Table) -> Iterator[GivenRows]:
    """What an epoch gave and took away."""
    if not schema.arity:
        if before.num_rows != after.num_rows:
            yield GivenRows(schema, after.num_rows > 0, after, 1)
        return
    changes = difference(schema, before, after)
    for added, test in ((False, pc.less), (True, pc.greater)):
        rows = changes.filter(test(changes.column(SIGN), 0)).select(list(schema.names))
        if rows.num_rows:
            yield GivenRows(schema, added, rows, rows.num_rows)


def _recomputed(
    config: Config, epoch: int, recorded: dict[str, Changes], tx: deltafix.Transaction
) -> Replay:
    schemas = schemas_of(config.program)
    again = {}
    for name in recorded:
        sides = (
            (sign, row)
            for sign, rows in ((-1, tx.delta[name].removed), (1, tx.delta[name].added))
            for row in logical_rows(schemas[name], rows)
        )
        again[name] = frozenset(sides if name in tx.delta else ())
    return Replay(epoch, recorded, again, "")


def _recorded(config: Config, epoch: int, last: int) -> dict[str, Changes]:
    """What an epoch changed in the outputs. Raises PipelineError if there is no such epoch."""
    if not 1 <= epoch <= last:
        message = f"there is no epoch {epoch}; {config.state} has 1 to {last}"
        raise PipelineError(message, epoch=epoch, last=last)
    return {
        output.relation: _changes(read_deltas(output.path, epoch, epoch))
        for output in config.outputs
    }


def _apply(tx: deltafix.Transaction, given: GivenRows) -> None:
    rows = given.table if given.schema.arity else [()] * given.count
    (tx.insert if given.added else tx.delete)(given.schema.relation, rows)


def _order(change: tuple[int, Row]) -> tuple[Any, ...]:
    """By sign, then by values, NULLs last."""
    sign, row = change
    return (sign, logical_order(row))


def _changes(table: pa.Table | None) -> Changes:
    if table is None:
        return frozenset()
    return frozenset((row[-2], row[:-2]) for row in rows_of(table))
