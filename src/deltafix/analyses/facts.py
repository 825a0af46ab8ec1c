"""Fragments: what one file says, as rows of an analysis's input relations.

A fragment is born in the analysis's `extract` (in this process or in a Spark worker), travels as
Arrow, and is counted into the database by the job. Invariant: every fact is a tuple of strings, and
a fragment holds each fact once, sorted, so equal sources give equal fragments. Where a symbol
stands (path and line) is a `Place` and never a fact: otherwise a blank line at the top of a file
would change every row below it.
This module does not read files and knows no language.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

Fact: TypeAlias = tuple[str, tuple[str, ...]]
"""A relation name and one row of it."""

FRAGMENT_SCHEMA = pa.schema(
    [("path", pa.string()), ("relation", pa.string()), ("row", pa.list_(pa.string()))]
)
"""One Arrow row per fact. Places and errors travel as relations of their own, see below."""

_PLACE = "<place>"  # row: symbol, kind, line, column
_ERROR = "<error>"  # row: message
_EMPTY = "<read>"  # row: (); a file that says nothing is still a file that was read


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a symbol is defined: its id, its kind, and the line of its definition (from 1).

    `column` is where its name stands in that line, in characters from 1, if the analysis tells.
    """

    symbol: str
    kind: str
    line: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Fragment:
    """All that one file contributes. `error` says why a file could not be read, else None.

    The facts of such a file are what can be said of it nevertheless; it has no places.
    """

    path: str
    facts: tuple[Fact, ...] = ()
    places: tuple[Place, ...] = ()
    error: str | None = None

    @classmethod
    def of(cls, path: str, facts: Iterable[Fact], places: Iterable[Place]) -> Fragment:
        """A fragment from facts in any order, possibly repeated."""
        return cls(path, tuple(sorted(set(facts))), tuple(sorted(set(places))))

    def show(self) -> str:
        """The facts as Datalog text, one a line."""
        lines = [
            f"{relation}({', '.join(chr(34) + value + chr(34) for value in row)})."
            for relation, row in self.facts
        ]
        return "\n".join([*lines, *([f"// error: {self.error}"] if self.error else [])])


def to_arrow(fragments: Iterable[Fragment]) -> pa.RecordBatch:
    """Fragments as one record batch of `FRAGMENT_SCHEMA`. O(facts)."""
    paths: list[str] = []
    relations: list[str] = []
    rows: list[tuple[str, ...]] = []

    def put(path: str, relation: str, row: tuple[str, ...]) -> None:
        paths.append(path)
        relations.append(relation)
        rows.append(row)

    for fragment in fragments:
        put(fragment.path, _EMPTY, ())
        if fragment.error is not None:
            put(fragment.path, _ERROR, (fragment.error,))
        for relation, row in fragment.facts:
            put(fragment.path, relation, row)
        for place in fragment.places:
            where = (str(place.line), str(place.column))
            put(fragment.path, _PLACE, (place.symbol, place.kind, *where))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(paths, pa.string()),
            pa.array(relations, pa.string()),
            pa.array(rows, pa.list_(pa.string())),
        ],
        schema=FRAGMENT_SCHEMA,
    )


def from_arrow(table: pa.Table) -> list[Fragment]:
    """The inverse of `to_arrow`, for rows in any order; fragments come sorted by path."""
    facts: dict[str, list[Fact]] = {}
    places: dict[str, list[Place]] = {}
    errors: dict[str, str] = {}
    columns = (table.column(name).to_pylist() for name in ("path", "relation", "row"))
    for path, relation, row in zip(*columns, strict=True):
        here = facts.setdefault(path, [])
        if relation == _PLACE:
            places.setdefault(path, []).append(Place(row[0], row[1], int(row[2]), int(row[3])))
        elif relation == _ERROR:
            errors[path] = row[0]
        elif relation != _EMPTY:
            here.append((relation, tuple(row)))
    return [
        replace(Fragment.of(path, facts[path], places.get(path, ())), error=errors.get(path))
        for path in sorted(facts)
    ]
