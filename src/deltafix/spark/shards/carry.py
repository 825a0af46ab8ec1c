"""Given rows on their way to a layout, from shards of another one or from an engine's state.

Another layout is one of other rules, or of another number of shards (`carried`). Derived rows are
not carried: the new layout derives them. Invariant: what the seats of the old layout tell is every
given row of the user's once; the facts of the program's text are not among them, since the new
program has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from deltafix.datalog.program import Program as Text
from deltafix.engine.outside import Users
from deltafix.engine.state.identity import Identity
from deltafix.engine.state.marks import Marks, set_marks
from deltafix.engine.state.reading import read_state
from deltafix.engine.state.rows import decode, left
from deltafix.errors import DeltafixError, StateError
from deltafix.facts.schema import Schema
from deltafix.rules.schemas import row_schemas
from deltafix.spark.shards.files import Manifest, digest_of
from deltafix.spark.shards.frames import parcels_of
from deltafix.spark.shards.resident import Spec, given_rows
from deltafix.spark.shards.step import Parcel
from deltafix.spark.shards.whole import plan_layout
from deltafix.spark.wire import signed
from deltafix.store.folder import Folder


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an engine's state folder holds: what shards begin with (`rows`, once, net of signs)."""

    epoch: int
    name: str
    marks: Marks
    rows: Iterator[tuple[str, pa.Table]]


def adopted(folder: Folder, schemas: Mapping[str, Schema]) -> Adopted | None:
    """The state of a folder, to be taken over; None if there is none. Its lock must be held.

    Raises StateError for damage, or a state of another program.
    """
    contents = read_state(folder)
    if contents is None:
        return None
    snapshot, records = contents
    known = records.program(snapshot.epoch, snapshot.identity)
    rows_left = left(str(folder), chain(snapshot.frames, records.after(snapshot.epoch)))
    differences = known.differences(schemas, rows_left)
    if differences:
        message = f"{folder} is the state of another program: {'; '.join(differences)}"
        raise StateError(message, path=str(folder), differences=differences)
    marks = snapshot.marks
    for changed in records.marks(snapshot.epoch):
        set_marks(marks, changed)

    def rows() -> Iterator[tuple[str, pa.Table]]:
        for given in decode(chain(snapshot.frames, records.after(snapshot.epoch)), schemas):
            schema, table = given.schema, given.table
            if not schema.arity:
                table = pa.table([pa.array([0] * given.count, pa.int64())], ["c0"])
            types = schema.types or ("number",)
            yield schema.relation, signed(table, types, 1 if given.added else -1)

    return Adopted(max(snapshot.epoch, records.epoch), snapshot.state, marks, rows())


def spec_of(folder: str, manifest: Manifest, schemas: Mapping[str, Schema]) -> Spec:
    """How the shards of a manifest were laid out; `schemas` are those of the new program.

    Raises StateError if the new program does not take their given rows.
    """
    try:
        program = Text.parse(manifest.rules)
        layout = plan_layout(program, manifest.heavy)
    except DeltafixError as error:
        reason = str(error).split("\n", 1)[0]
        message = (
            f"{folder}: its rows cannot be laid out anew, as the rules of its manifest cannot be "
            f"read ({reason}); keep the rules and the number of shards, or name a new state"
        )
        raise StateError(message, path=folder) from error
    if digest_of(layout) != manifest.program:
        message = f"{folder}: it was made by another deltafix; begin anew from the given rows"
        raise StateError(message, path=folder)
    old = row_schemas(program)
    rows_left = dict.fromkeys(old, manifest.given)  # how many of each, nobody has noted
    differences = Identity.of(program, old).differences(schemas, rows_left)
    if differences:
        message = f"{folder} is the state of another program: {'; '.join(differences)}"
        raise StateError(message, path=folder, differences=differences)
    columns = {name: old[name].names for name in old if name in layout.given}
    if program.functors:  # nobody has them any more, and given rows are there without rules
        layout = replace(layout, core=replace(layout.core, clauses=(), folds=()))
    return Spec(folder, layout, manifest.shards, columns, Users(), manifest.program, reads=True)


def carried(
    old: Spec, new: Spec, files: Mapping[int, Sequence[str]], shards: Iterable[int]
) -> Iterator[Parcel]:
    """The given rows of some shards, as messages to the shards of another layout.

    Raises StateError for rows of a relation that is not there, or has other columns.
    """
    for number in shards:
        for relation in old.columns:
            table = given_rows(old, files.get(number, ()), number, relation)
            if not table.num_rows:
                continue
            types = old.layout.types[old.layout.seat(relation).name]
            is_kept = relation in new.columns
            if not is_kept or types != new.layout.types[new.layout.seat(relation).name]:
                message = f"{new.folder}: the program does not take the given rows of {relation}"
                raise StateError(message, path=new.folder, relation=relation)
            yield from parcels_of(new, {relation: signed(table, types, 1)})
