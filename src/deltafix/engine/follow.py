"""Fact files kept as given rows, and program files as rules: what changes in them is an epoch.

Files are looked at by `stat`; one that has changed is read once it stays as it is for a look, so
that a file is not read while it is being written. Invariant: a file that cannot be read changes
nothing: its old rows (or rules) stay, the message is told once, and the next version is tried
again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltafix.datalog.load import Analysis, analyse, read_bytes
from deltafix.datalog.preprocess import NOTHING_GIVEN, Given
from deltafix.errors import DeltafixError, SourceError
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row
from deltafix.facts.source import input_path, read_input

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.rules.ast import Directive, Program

__all__ = ["FactFolder", "ProgramFile", "mark_of"]

_Mark = tuple[int, int, int] | None
"""What tells versions of a file apart: inode, size, time of change; None: there is no file."""


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """The file of a program, and how it is read.

    Args:
        path: the file; what it includes is looked at, too.
        given: what it is read with.
        functors: the functions that a program calls; without it, none.
    """

    path: Path
    given: Given = NOTHING_GIVEN
    functors: Callable[[Program], Mapping[str, Callable[..., Any]]] = lambda _: {}

    def read(self) -> Analysis:
        """What the file says now. Raises SourceError if it cannot be read."""
        return analyse(read_bytes(self.path), str(self.path), self.given)


class FactFolder:
    """The `.input` files of a program in one folder, and the rows last read from them.

    Args:
        db: given the rows.
        folder: where the files lie.
        tell: called with a message for each version of a file that cannot be taken.
        warn: called with what is passed over in reading: a file that is not there when the first
            ones are read, values beyond the columns; without it those are errors.
        program: the file of the database's program, to follow it too.
    """

    def __init__(
        self,
        db: Database,
        folder: Path,
        tell: Callable[[str], None],
        warn: Callable[[str], None] | None = None,
        program: ProgramFile | None = None,
    ) -> None:
        self.db = db
        self.folder = folder
        self._tell = tell
        self._warn = warn
        self._program = program
        self._ruled: dict[Path, _Mark] = {}
        if program is not None:
            self._ruled[program.path] = mark_of(program.path)
            self._read_rules(program)
        self._ruled_seen = self._ruled
        self._inputs = _inputs(db.program)
        self._rows: dict[int, set[Row]] = {}
        self._read: dict[int, _Mark] = {}
        self._seen: dict[int, _Mark] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files looked at."""
        files = tuple(self._path(one) for one in self._inputs)
        return (*self._ruled, *files)

    def load(self) -> Delta:
        """Read every file and give its rows, in one epoch. Raises SourceError, FactError."""
        for number, one in enumerate(self._inputs):
            self._read[number] = self._seen[number] = mark_of(self._path(one))
            self._rows[number] = self._rows_of(one)
        return self._give(dict.fromkeys(self._rows, frozenset()))

    def poll(self, *, at_rest: bool = False) -> Delta | None:
        """Look once: what changed, if files changed and were at rest; else None.

        With `at_rest` they are known to be: an editor has told that they are saved.
        """
        rules, facts = self._poll_rules(sure=at_rest), self._poll_facts(sure=at_rest)
        if rules is None or facts is None:
            return facts if rules is None else rules
        return rules.compose(facts)

    def _poll_rules(self, *, sure: bool) -> Delta | None:
        if self._program is None:
            return None
        marks = {path: mark_of(path) for path in self._ruled}
        at_rest, self._ruled_seen = sure or self._ruled_seen == marks, marks
        if not at_rest or marks == self._ruled:
            return None
        self._ruled = marks
        try:
            found = self._read_rules(self._program)
            self._ruled_seen = self._ruled
            found.raise_for_errors()
            return self._change(found.program, self._program.functors(found.program))
        except DeltafixError as error:
            self._tell(f"{error}; the rules stay as they were")
            return None

    def _read_rules(self, program: ProgramFile) -> Analysis:
        """Read the program, and look at the files that it says from then on.

        A file is marked before it is read, so what it says anew is read again.
        """
        while True:
            found, known = program.read(), self._ruled
            files = (program.path, *found.files)
            self._ruled = {path: known[path] if path in known else mark_of(path) for path in files}
            if self._ruled.keys() <= known.keys():
                return found

    def _change(self, program: Program, functors: Mapping[str, Callable[..., Any]]) -> Delta:
        """Have another program, without the rows of inputs that it does not have.

        Files that only the new program reads are as good as changed: the next looks take them up.
        """
        inputs, known = _inputs(program), {one.name for one in self.db.program.functors}
        places = {number: inputs.index(one) for number, one in enumerate(self._inputs)
                  if one in inputs}  # fmt: skip
        rows = {number: self._rows[number] for number in places}
        with self.db.transaction(missing="ignore") as tx:
            for number in self._rows.keys() - rows.keys():
                gone = self._alone(number, self._rows[number], rows)
                tx.delete(self._inputs[number].relation, gone)
            tx.change_program(program, {n: f for n, f in functors.items() if n not in known})
        self._rows = {places[number]: held for number, held in rows.items()}
        self._read = {places[number]: self._read[number] for number in places}
        self._seen = {places[number]: self._seen[number] for number in places}
        self._inputs = inputs
        self._rows |= {n: set() for n in range(len(inputs)) if n not in self._rows}
        return tx.delta

    def _poll_facts(self, *, sure: bool) -> Delta | None:
        before: dict[int, set[Row] | frozenset[Row]] = {}
        for number, one in enumerate(self._inputs):
            mark = mark_of(self._path(one))
            at_rest, self._seen[number] = sure or self._seen.get(number) == mark, mark
            if not at_rest or mark == self._read.get(number):
                continue
            self._read[number] = mark
            try:
                if mark is None:
                    raise SourceError(f"{self._path(one)} is gone")
                rows = self._rows_of(one)
            except DeltafixError as error:
                self._tell(f"{error}; its rows stay as they were")
                continue
            before[number], self._rows[number] = self._rows[number], rows
        if not before:
            return None
        try:
            return self._give(before)
        except DeltafixError as error:
            self._rows.update({n: set(rows) for n, rows in before.items()})
            self._tell(str(error))
            return None

    def _give(self, before: dict[int, set[Row] | frozenset[Row]]) -> Delta:
        """Commit the difference to the rows before; a row that two files state stays with one."""
        with self.db.transaction(missing="ignore") as tx:
            for number, old in before.items():
                name = self._inputs[number].relation
                tx.delete(name, self._alone(number, old, self._rows))
                tx.insert(name, list(self._rows[number] - old))
        return tx.delta

    def _alone(self, number: int, old: Iterable[Row], rows: Mapping[int, set[Row]]) -> list[Row]:
        """The old rows of a file that no file states, which have these rows."""
        name = self._inputs[number].relation
        others = [held for n, held in rows.items() if self._inputs[n].relation == name]
        return [row for row in old if not any(row in held for held in others)]

    def _rows_of(self, one: Directive) -> set[Row]:
        rows = read_input(self.db.schemas[one.relation], one.parameters, self.folder, self._warn)
        if isinstance(rows, list):
            return set(rows)
        from deltafix.facts.arrow import rows_from_table  # noqa: PLC0415  pyarrow is slow

        return set(rows_from_table(rows))

    def _path(self, one: Directive) -> Path:
        return input_path(one.relation, one.parameters, self.folder)


def _inputs(program: Program) -> list[Directive]:
    return [
        one
        for one in program.directives
        if one.kind == "input" and one.parameters.get("IO", "file") in ("file", "jsonfile")
    ]


def mark_of(path: Path) -> _Mark:
    """What tells the version of a file that is there from others; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
