"""Rows by file: a new file's rows come in, a deleted file's go out, a changed file's are replaced.

What a file says is kept as rows of `R__file(file, columns)` (see `augment`), so a row of R is there
while some file says it. Marks: `by_file/<input>/<file>` = stamp; with the number of rows to come,
while the file is in part. Invariant: a file of which rows are in has a mark, so they go when it
goes; a file taken in part is compared again, and the rest found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import PipelineError
from deltafix.facts.arrow import table_from_rows
from deltafix.facts.schema import Row, Schema
from deltafix.pipeline.augment import FILE
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Bad, Signed, signed_table
from deltafix.pipeline.sources.folder import NO_BYTES, Folder, Stamp
from deltafix.pipeline.sources.reading import FileReader

_FEW = 16
"""Up to so many files, what they said is looked up file by file; else in one pass."""


class Content:
    """What one file says: rows per relation, and what is wrong with it."""

    __slots__ = ("bad", "error", "rows")

    def __init__(
        self, rows: Mapping[str, Iterable[Row]], bad: Sequence[Bad] = (), error: str | None = None
    ) -> None:
        self.rows = {name: set(some) for name, some in rows.items()}
        self.bad = list(bad)
        self.error = error


class Contents(Protocol):
    """Where files are and how one is read."""

    def files(self) -> Mapping[str, Stamp]:
        """Path to stamp."""

    def read(self, files: Sequence[str]) -> Mapping[str, Content]:
        """What files say."""


class FolderContents:
    """Data files, of one relation."""

    def __init__(self, folder: Folder, reader: FileReader) -> None:
        self._folder = folder
        self._reader = reader

    def files(self) -> Mapping[str, Stamp]:
        """Path to stamp."""
        return self._folder.files()

    def read(self, files: Sequence[str]) -> Mapping[str, Content]:
        """What files say. Raises DriftError, PipelineError, the latter for no bytes too."""
        contents = {}
        for file in files:
            path = self._folder.at(file)
            signed = self._reader.read(path)
            if not self._folder.size(file):
                raise PipelineError(f"{path} {NO_BYTES}", path=str(path))
            names = list(signed.schema.names)
            columns = (signed.table.column(name).to_pylist() for name in names)
            rows = zip(*columns, strict=True)
            contents[file] = Content({signed.schema.relation: rows}, signed.bad)
        return contents


class ByFile:
    """A source whose files say rows (`mode = "rows"`, or a tree with an extractor).

    Args:
        name: the input.
        schemas: the relations it feeds.
        contents: its files.
        quarantine: whether bad rows are set aside.
    """

    def __init__(
        self, name: str, schemas: Sequence[Schema], contents: Contents, *, quarantine: bool
    ) -> None:
        self.name = name
        self.relations = tuple(schema.relation for schema in schemas)
        self._schemas = {schema.relation: schema for schema in schemas}
        self._contents = contents
        self._policy = Policy(missing="ignore", quarantine=quarantine)

    def poll(self, state: State, limit: int) -> Portion | None:
        """What changed in as many files as fit."""
        now, waiting = self._waiting(state)
        if not waiting:
            return None
        portion = Portion(self.name, policy=self._policy)
        # A file counts for one row at least, so that an epoch reads a bounded number of them.
        taken = waiting[:limit]
        portion.more = len(taken) < len(waiting)
        contents = dict(self._contents.read([file for file in taken if file in now]))
        held = self._held(state, taken)
        edits: dict[str, tuple[list[Row], list[Row]]] = {name: ([], []) for name in self.relations}
        left = limit
        for file in taken:
            content = contents.get(file, Content({}))
            if content.error is not None:
                portion.bad.append(Bad(f"the file cannot be read: {content.error}", file, None))
                self._mark(portion, file, now)
                continue
            before, left = left, self._compare(file, content, held, edits, left)
            if left < 0:
                portion.more = True
                if before and file in now:
                    self._mark(portion, file, now, to_come=-left)
                break
            portion.bad.extend(content.bad)
            self._mark(portion, file, now)
        for name, (added, removed) in edits.items():
            if added or removed:
                portion.signed.append(_signed(self._schemas[name], added, removed))
        return portion

    def close(self) -> None:
        """Nothing is held."""

    def _waiting(self, state: State) -> tuple[Mapping[str, Stamp], list[str]]:
        """The files there are, and those that are gone or changed, in this order."""
        prefix = f"by_file/{self.name}/"
        now = self._contents.files()
        before = {
            mark.removeprefix(prefix): stamp
            for mark, stamp in state.marks.items()
            if mark.startswith(prefix)
        }
        gone = [file for file in before if file not in now]
        return now, gone + [file for file, stamp in now.items() if before.get(file) != stamp]

    def _mark(
        self, portion: Portion, file: str, now: Mapping[str, Stamp], to_come: int = 0
    ) -> None:
        """Say that a file is in, but for so many rows, or gone."""
        rest = [to_come] if to_come else []
        portion.marks[f"by_file/{self.name}/{file}"] = [*now[file], *rest] if file in now else None
        if file in now:
            written = now[file][0] / 1e9
            portion.stamp = min(portion.stamp or written, written)

    def _compare(
        self,
        file: str,
        content: Content,
        held: Mapping[tuple[str, str], set[Row]],
        edits: dict[str, tuple[list[Row], list[Row]]],
        left: int,
    ) -> int:
        """Add what a file changes, at most `left` rows; returns `left` less all of them."""
        for name in self.relations:
            wanted = content.rows.get(name, set())
            before = held.get((name, file), set())
            for side, rows in ((1, before - wanted), (0, wanted - before)):
                ordered = sorted(rows)
                edits[name][side].extend((file, *row) for row in ordered[: max(left, 0)])
                left -= len(ordered)
        return left

    def _held(self, state: State, files: Sequence[str]) -> dict[tuple[str, str], set[Row]]:
        """(relation, file) to the rows that are in."""
        held: dict[tuple[str, str], set[Row]] = {}
        for name in self.relations:
            table = self._held_table(state, by_file_schema(self._schemas[name]), files)
            for file, *row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                held.setdefault((name, file), set()).add(tuple(row))
        return held

    def _held_table(self, state: State, schema: Schema, files: Sequence[str]) -> pa.Table:
        """The rows that are in of some files, beside their names."""
        if len(files) > _FEW:
            table = state.to_arrow(schema.relation)
            return table.filter(pc.is_in(table.column(0), pa.array(files, pa.string())))
        free = [...] * (schema.arity - 1)  # not None: that is `nil` in a column of records
        rows = [row for file in files for row in state.select(schema.relation, [file, *free])]
        return table_from_rows(schema, rows)


def by_file_schema(schema: Schema) -> Schema:
    """The relation `R__file` of a relation R: its rows by file."""
    return Schema.of(
        schema.relation + FILE,
        [f"file{FILE}", *schema.names],
        ["symbol", *schema.types],
    )


def _signed(schema: Schema, added: list[Row], removed: list[Row]) -> Signed:
    whole = by_file_schema(schema)
    parts = [
        signed_table(whole, table_from_rows(whole, rows), sign)
        for rows, sign in ((removed, -1), (added, 1))
    ]
    return Signed(whole, pa.concat_tables(parts))
