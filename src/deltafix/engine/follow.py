"""Fact files kept as given rows, and program files as rules: what changes in them is an epoch.

Files are looked at by `stat`; one that has changed is read once it stays as it is for a look, so
that a file is not read while it is being written. Invariant: a file that cannot be read changes
nothing: its old rows (or rules) stay, which is told once and stands as a `Problem` until another
version is taken.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from deltafix.datalog.load import Analysis, analyse, read_bytes
from deltafix.datalog.preprocess import NOTHING_GIVEN, Given
from deltafix.diagnostics import render
from deltafix.doing import tell
from deltafix.errors import DeltafixError, SourceError
from deltafix.facts.carets import with_caret
from deltafix.facts.delta import Delta
from deltafix.facts.schema import Row
from deltafix.facts.source import input_path, read_input
from deltafix.plan.transition import RuleChange, rule_changes

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.rules.ast import Directive, Program

Mark = tuple[int, ...] | None
"""What tells versions of a file apart: inode, size, time of change; None: there is no file."""

_Doubt: TypeAlias = tuple[str, ...]  # what a warning says: code, message, the line's text


_RULES_STAY = "the rules stay as they were"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the present version of a file is not taken; it stands until another version is.

    Attributes:
        path: the file.
        text: what is wrong, with its place, the line and a caret where it has one.
        kept: what stays as it was.
    """

    path: Path
    text: str
    kept: str

    @property
    def is_of_rules(self) -> bool:
        """Whether it is the program that is not taken."""
        return self.kept == _RULES_STAY

    def __str__(self) -> str:
        return f"{self.text}\n  {self.kept}" if "\n" in self.text else f"{self.text}; {self.kept}"


@dataclass(frozen=True, slots=True)
class ProgramEdit:
    """A version of a program's files that was taken.

    Attributes:
        epoch: the epoch that it is.
        paths: the files that had changed.
        rules: the rules that came and went.
        changed: of each relation that changed by it, how many rows came and went.
    """

    epoch: int
    paths: tuple[Path, ...]
    rules: tuple[RuleChange, ...]
    changed: Mapping[str, tuple[int, int]]


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
        doubt: called with each warning of the program's text, of the first version and then of
            each that is taken what the one before had not; without it they are not told.

    Attributes:
        edit: the last version of the program that was taken, of those after the first.
    """

    def __init__(
        self,
        db: Database,
        folder: Path,
        tell: Callable[[str], None],
        warn: Callable[[str], None] | None = None,
        program: ProgramFile | None = None,
        *,
        doubt: Callable[[str], None] | None = None,
    ) -> None:
        self.db = db
        self.folder = folder
        self._tell = tell
        self._warn = warn
        self._program = program
        self._doubt = doubt
        self._doubts: Counter[_Doubt] = Counter()
        self.edit: ProgramEdit | None = None
        self._problems: dict[tuple[Path, str], Problem] = {}
        self._ruled: dict[Path, Mark] = {}
        if program is not None:
            self._ruled[program.path] = mark_of(program.path)
            self._tell_doubts(self._read_rules(program))
        self._ruled_seen = self._ruled
        self._inputs = _inputs(db.program)
        self._rows: dict[int, set[Row]] = {}
        self._read: dict[int, Mark] = {}
        self._seen: dict[int, Mark] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files looked at."""
        files = tuple(self._path(directive) for directive in self._inputs)
        return (*self._ruled, *files)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The files of which the present version is not taken."""
        return tuple(self._problems.values())

    def _refuse(self, path: Path, relation: str, error: DeltafixError) -> None:
        """Have a problem with a file, as the program's (no name) or a relation's; tell it once."""
        kept = "its rows stay as they were" if relation else _RULES_STAY
        problem = Problem(path, with_caret(error), kept)
        if self._problems.get((path, relation)) != problem:
            self._problems[path, relation] = problem
            self._tell(str(problem))

    def load(self) -> Delta:
        """Read every file and give its rows, in one epoch. Raises SourceError, FactError."""
        for number, directive in enumerate(self._inputs):
            self._read[number] = self._seen[number] = mark_of(self._path(directive))
            self._rows[number] = self._rows_of(directive)
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
        saved = tuple(path for path in marks if marks[path] != self._ruled[path])
        self._ruled, before = marks, self.db.program
        try:
            analysis = self._read_rules(self._program)
            self._ruled_seen = self._ruled
            analysis.raise_for_errors()
            delta = self._change(analysis.program, self._program.functors(analysis.program))
        except DeltafixError as error:
            self._refuse(self._program.path, "", error)
            return None
        self._problems.pop((self._program.path, ""), None)
        self._tell_doubts(analysis)
        rules = tuple(rule_changes(before, self.db.program))
        counts = {name: (len(part.added), len(part.removed)) for name, part in delta.items()}
        self.edit = ProgramEdit(self.db.epoch, saved, rules, counts)
        return delta

    def _read_rules(self, program: ProgramFile) -> Analysis:
        """Read the program, and look at the files that it says from then on.

        A file is marked before it is read, so what it says anew is read again.
        """
        while True:
            analysis, known = program.read(), self._ruled
            files = (program.path, *analysis.files)
            self._ruled = {path: known[path] if path in known else mark_of(path) for path in files}
            if self._ruled.keys() <= known.keys():
                return analysis

    def _tell_doubts(self, analysis: Analysis) -> None:
        """Tell of the warnings that are new, wherever their lines stand now."""
        before, self._doubts = self._doubts, Counter()
        for warning in analysis.warnings:
            text = analysis.sources.get(warning.span.path, "") if warning.span is not None else ""
            lines = (
                text.split("\n")[warning.span.line - 1 : warning.span.line] if warning.span else []
            )
            key = (warning.code, warning.message, *(line.strip() for line in lines))
            self._doubts[key] += 1
            if self._doubt is not None and self._doubts[key] > before[key]:
                self._doubt(render(warning, text))

    def _change(self, program: Program, functors: Mapping[str, Callable[..., Any]]) -> Delta:
        """Have another program, without the rows of inputs that it does not have.

        Files that only the new program reads are as good as changed: the next looks take them up.
        """
        inputs, known = _inputs(program), {functor.name for functor in self.db.program.functors}
        moved = {number: inputs.index(directive) for number, directive in enumerate(self._inputs)
                 if directive in inputs}  # fmt: skip
        rows = {number: self._rows[number] for number in moved}
        with self.db.transaction(missing="ignore") as tx:
            for number in self._rows.keys() - rows.keys():
                gone = self._alone(number, self._rows[number], rows)
                tx.delete(self._inputs[number].relation, gone)
            tx.change_program(program, {n: f for n, f in functors.items() if n not in known})
        self._rows = {moved[number]: held for number, held in rows.items()}
        # What was refused is read again: other rules may have it.
        self._read = {to: self._read[number] for number, to in moved.items()
                      if self._key(self._inputs[number]) not in self._problems}  # fmt: skip
        self._seen = {moved[number]: self._seen[number] for number in moved}
        self._inputs = inputs
        known_files = {self._key(directive) for directive in inputs}
        for key in [
            problem for problem in self._problems if problem[1] and problem not in known_files
        ]:
            del self._problems[key]
        self._rows |= {n: set() for n in range(len(inputs)) if n not in self._rows}
        return tx.delta

    def _poll_facts(self, *, sure: bool) -> Delta | None:
        changed = []
        for number, directive in enumerate(self._inputs):
            mark = mark_of(self._path(directive))
            at_rest, self._seen[number] = sure or self._seen.get(number) == mark, mark
            if at_rest and mark != self._read.get(number):
                self._read[number] = mark
                changed.append(number)
        delta = self._take(changed)
        if delta is not None:  # what was refused before may fit now
            waiting = [
                n
                for n, directive in enumerate(self._inputs)
                if self._key(directive) in self._problems
            ]
            more = self._take([number for number in waiting if number not in changed])
            delta = delta if more is None else delta.compose(more)
        return delta

    def _take(self, numbers: Iterable[int]) -> Delta | None:
        """Have the rows that files state now, in one epoch; None where there are none to have."""
        before: dict[int, set[Row] | frozenset[Row]] = {}
        for number in numbers:
            directive = self._inputs[number]
            try:
                if self._read.get(number) is None:
                    raise SourceError(f"{self._path(directive)} is gone")
                rows = self._rows_of(directive)
            except DeltafixError as error:
                self._refuse(*self._key(directive), error)
                continue
            before[number], self._rows[number] = self._rows[number], rows
        if not before:
            return None
        keys = [self._key(self._inputs[number]) for number in before]
        try:
            delta = self._give(before)
        except DeltafixError as error:
            self._rows.update({n: set(rows) for n, rows in before.items()})
            for key in keys:
                self._refuse(*key, error)
            return None
        for key in keys:
            self._problems.pop(key, None)
        return delta

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

    def _rows_of(self, directive: Directive) -> set[Row]:
        schema = self.db.schemas[directive.relation]
        tell(f"reading {directive.relation}")
        rows = read_input(schema, directive.parameters, self.folder, self._warn, may_lack=True)
        if isinstance(rows, list):
            return set(rows)
        from deltafix.facts.arrow import rows_from_table  # noqa: PLC0415  pyarrow is slow

        return set(rows_from_table(rows, schema))

    def _key(self, directive: Directive) -> tuple[Path, str]:
        return self._path(directive), directive.relation

    def _path(self, directive: Directive) -> Path:
        return input_path(directive.relation, directive.parameters, self.folder)


def _inputs(program: Program) -> list[Directive]:
    return [
        directive
        for directive in program.directives
        if directive.kind == "input"
        and directive.parameters.get("IO", "file") in ("file", "jsonfile")
    ]


def mark_of(path: Path) -> Mark:
    """What tells the version of a file that is there from others; None if there is none.

    Of a folder, those of its files.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return tuple(part for file in sorted(path.iterdir()) for part in mark_of(file) or ())
    return status.st_ino, status.st_size, status.st_mtime_ns
