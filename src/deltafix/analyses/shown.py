"""The rows of a job as text, as JSON and as tables: the whole answer, and what an update did to it.

Invariant: output is a function of the job's rows, places and last work, in a fixed order; JSON
carries `"version": 1` and only gains keys within it. Where symbols stand is looked up only for
what is shown; rows that went are told with the lines they had.
This module prints nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, TypeAlias

from deltafix.analyses.formats import Places, Table
from deltafix.analyses.job import Job, RowChange
from deltafix.diagnostics import plural
from deltafix.errors import SourceError
from deltafix.facts.schema import Row, show_row

Answer: TypeAlias = dict[str, list[Row]]
"""View to the rows of it that are shown."""


class Shown:
    """The views of a job, and of them the rows that match.

    Args:
        job: what is shown.
        matches: COLUMN=PATTERN each; a row is shown if it has these columns, each like its pattern.
        lines: whether to say where the symbols of a row stand.
        together: whether text has one line for rows that differ in their last column alone, where
            the analysis says that these are alternatives.
        limit: so many rows of each view at most are shown of an answer; changes are told whole.

    Raises SourceError for a match that is none.
    """

    def __init__(
        self,
        job: Job,
        matches: Sequence[str] = (),
        *,
        lines: bool = False,
        together: bool = False,
        limit: int | None = None,
    ) -> None:
        self._job = job
        self._together = together and job.analysis.alternatives
        self._lines = lines
        self._limit = limit
        self._stands: dict[str, tuple[str, int]] = {}  # symbol -> path, line
        self._symbols: dict[str, list[str]] = {}  # path -> its symbols
        self._columns = {view: job.database.schemas[view].names for view in job.views}
        self._patterns = dict(map(self._pattern, matches))

    # -- the whole answer ----------------------------------------------------------------------

    def answer(self) -> Answer:
        """The rows that match, read and decoded once. O(rows)."""
        return self._side(self._job.answer())

    def text(self, answer: Answer) -> Iterator[str]:
        """A line for each row, or for each of alternatives: `returns("m:f", "int | str").`."""
        self._locate(self._job.fragments)
        for view, rows in answer.items():
            shown: Iterable[Row] = rows[: self._limit]
            if self._together:
                shown = (
                    (*symbol, " | ".join(str(row[-1]) for row in alternatives))
                    for symbol, alternatives in groupby(shown, lambda row: row[:-1])
                )
            yield from (self._line(view, row) for row in shown)

    def tables(self, answer: Answer) -> list[Table]:
        """A table for each view, for `formats.write_tables`."""
        self._locate(self._job.fragments)
        return [self._table(view, rows[: self._limit]) for view, rows in answer.items()]

    def json(self, answer: Answer, files: int) -> str:
        """The answer as one JSON document; `files` is how many the tree has."""
        self._locate(self._job.fragments)
        shown = {view: rows[: self._limit] for view, rows in answer.items()}
        return self._document(
            "report",
            columns=self._columns,
            total={view: len(rows) for view, rows in answer.items()},
            rows=shown,
            files=files,
            facts=self._job.fact_count,
            unreadable=self._job.errors,
            **self._where(shown),
        )

    def closing(self, answer: Answer, files: int) -> str:
        """How much there is, and what it took."""
        sizes = ", ".join(self._size(view, len(rows)) for view, rows in answer.items())
        seconds = self._job.last_work.seconds
        facts = plural(self._job.fact_count, "fact")
        lost = len(self._job.errors)
        skipped = f", {plural(lost, 'file')} skipped" if lost else ""
        return f"{sizes} in {plural(files, 'file')}{skipped} ({facts}, {seconds:.2f} s)"

    # -- an update -----------------------------------------------------------------------------

    def change(self, change: RowChange) -> Iterator[str]:
        """The rows that went and those that came, and the work."""
        files = [*change.changed, *(f"{path} (deleted)" for path in change.deleted)]
        yield f"changed: {', '.join(files)}"
        for path, reason in change.unreadable.items():
            yield f"  {path}: not read, its old facts are kept: {reason}"
        for view, rows in self._side(change.went).items():
            yield from (f"  - {self._line(view, row)}" for row in rows)
        self._locate([*change.changed, *change.deleted])
        for view, rows in self._side(change.came).items():
            yield from (f"  + {self._line(view, row)}" for row in rows)
        work = change.work
        yield (
            f"  {work.facts_removed} facts out, {work.facts_added} in, {work.touched} touched, "
            f"{work.seconds:.3f} s (from scratch: {self._job.load_seconds or 0.0:.2f} s)"
        )

    def change_json(self, change: RowChange) -> str:
        """The change as one JSON document on one line."""
        came, went = self._side(change.came), self._side(change.went)
        stood = self._where(went)
        self._locate([*change.changed, *change.deleted])
        stands = {key: stood[key] | where for key, where in self._where(came).items()}
        return self._document("change", **change.as_data() | {"came": came, "went": went} | stands)

    # -- rows ----------------------------------------------------------------------------------

    def _side(self, rows: Mapping[str, Iterable[Row]]) -> Answer:
        return {view: list(self._kept(view, kept)) for view, kept in rows.items()}

    def _kept(self, view: str, rows: Iterable[Row]) -> Iterator[Row]:
        names = self._columns[view]
        if not self._patterns.keys() <= set(names):
            return  # no column that could be like it
        columns = [(names.index(name), like) for name, like in self._patterns.items()]
        for row in rows:
            if all(fnmatchcase(str(row[index]), like) for index, like in columns):
                yield row

    def _pattern(self, text: str) -> tuple[str, str]:
        column, equals, pattern = text.partition("=")
        valid = sorted({name for names in self._columns.values() for name in names})
        if not equals or column not in valid:
            raise SourceError(
                f"--match {text}: write COLUMN=PATTERN with one of {', '.join(valid)}", match=text
            )
        return column, pattern

    def _size(self, view: str, total: int) -> str:
        is_cut = self._limit is not None and total > self._limit
        return f"{self._limit:,} of {total:,} {view}" if is_cut else f"{total:,} {view}"

    def _line(self, view: str, row: Row) -> str:
        stands = [f"{path}:{line}" for path, line in self._places(row)]
        return f"{show_row(view, row)}." + (f"  // {', '.join(stands)}" if stands else "")

    def _table(self, view: str, rows: list[Row]) -> Table:
        schema = self._job.database.schemas[view]
        edge = self._job.analysis.edges.get(view)
        if edge is None and schema.arity == 2:
            edge = schema.names[:1], schema.names[1:]
        places = [self._places(row) for row in rows] if self._lines else None
        return Table(schema, rows, edge, places)

    def _places(self, row: Row) -> Places:
        """Where the symbols of a row stand, in their order."""
        return list(
            dict.fromkeys(self._stands[str(value)] for value in row if value in self._stands)
        )

    # -- places --------------------------------------------------------------------------------

    def _locate(self, paths: Iterable[str]) -> None:
        """Learn where the symbols of these files stand now."""
        if not self._lines:
            return
        for path in paths:
            for symbol in self._symbols.pop(path, ()):
                self._stands.pop(symbol, None)
            fragment = self._job.fragments.get(path)
            if fragment is not None:
                self._stands.update((place.symbol, (path, place.line)) for place in fragment.places)
                self._symbols[path] = [place.symbol for place in fragment.places]

    def _where(self, sides: Mapping[str, Iterable[Row]]) -> dict[str, dict[str, str]]:
        """Where the symbols of some rows stand, if that is asked for."""
        if not self._lines:
            return {}
        values = {str(value) for rows in sides.values() for row in rows for value in row}
        symbols = sorted(values & {*self._stands})
        return {"lines": {symbol: "{}:{}".format(*self._stands[symbol]) for symbol in symbols}}

    def _document(self, event: str, **content: Any) -> str:
        data = {"version": 1, "event": event, "analysis": self._job.analysis.name, **content}
        return json.dumps(data, ensure_ascii=False)
