"""What the language server says of a program of rules: its errors, and what a save does to views.

Each view that a save changed is marked at its declaration with the rows that it gained and lost.
Invariant: marks are of the files as they are on disk, and of the last save that changed any; a
program with errors changes nothing until it has none. Nothing here knows the protocol but for the
form of a diagnostic.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import DeltafixError
from deltafix.facts.schema import show_row

if TYPE_CHECKING:
    from deltafix.diagnostics import Diagnostic, Span
    from deltafix.engine.follow import FactFolder, ProgramFile
    from deltafix.facts.delta import Delta

_SHOWN: Final = 20
"""Rows that a mark lists, of each view."""

_SEVERITIES: Final = {"error": 1, "warning": 2}
_INFORMATION: Final = 3
_WHOLE_LINE: Final = 10_000

Marks = dict[Path, list[dict[str, Any]]]
"""LSP diagnostics by file; a file without any has an empty list."""


class RulesView:
    """A program of rules with its facts, brought up to date on every save.

    Args:
        program: the program's file.
        folder: its facts, followed with that file.
        told: the messages that `folder` tells, which are taken out of it.
    """

    def __init__(self, program: ProgramFile, folder: FactFolder, told: list[str]) -> None:
        self._program = program
        self._folder = folder
        self._told = told
        self._marked: set[Path] = set()

    def reads(self, path: Path) -> bool:
        """Whether a file is one of the program's or of its facts."""
        return path in {one.resolve() for one in self._folder.paths}

    def load(self) -> Marks:
        """Load the facts; what is to be marked at the beginning."""
        self._folder.load()
        return self._marks(None)

    def saved(self) -> tuple[Marks, list[str]]:
        """Follow the files as they are; the marks now, and what could not be taken."""
        delta = self._folder.poll(at_rest=True)
        told, self._told[:] = list(self._told), []
        return self._marks(delta), told

    def _marks(self, delta: Delta | None) -> Marks:
        try:
            found = self._program.read()
        except DeltafixError:  # it is gone, which was told
            return {}
        files = [path.resolve() for path in found.files]
        marks: Marks = {path: [] for path in (*self._marked, *files)}
        for item in found.diagnostics:
            _put(marks, item.span, _SEVERITIES.get(item.severity, 2), item.code, _words(item))
        declared = {one.name: one.span for one in found.program.relations}
        for name, part in (delta or {}).items():
            rows = [
                f"{'+' if sign > 0 else '-'}{show_row(name, row)}" for sign, row in part.signed()
            ]
            counts = f"{name}: {len(part.added)} came, {len(part.removed)} went"
            more = [f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
            text = "\n".join([counts, *rows[:_SHOWN], *more])
            _put(marks, declared.get(name), _INFORMATION, "rows", text)
        self._marked = {path for path, found_there in marks.items() if found_there}
        return marks


def _put(marks: Marks, span: Span | None, severity: int, code: str, message: str) -> None:
    if span is None or span.path is None:
        return
    line = span.line - 1
    marks.setdefault(Path(span.path).resolve(), []).append(
        {
            "range": {
                "start": {"line": line, "character": 0},
                "end": {"line": line, "character": _WHOLE_LINE},
            },
            "severity": severity,
            "code": code,
            "source": "deltafix",
            "message": message,
        }
    )


def _words(item: Diagnostic) -> str:
    return item.message if item.help is None else f"{item.message}\nhelp: {item.help}"
