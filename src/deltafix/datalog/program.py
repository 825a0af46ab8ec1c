"""`deltafix.Program`: a checked program, from whichever door it came.

Invariant: a `Program` that `parse` or `from_file` returns has no errors; its warnings are kept.
It is an `rules.ast.Program` and compares by value, so the text door and the Python door can be
held against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from deltafix.datalog.load import Analysis, analyse, read_bytes
from deltafix.diagnostics import Diagnostic
from deltafix.rules import ast

__all__ = ["Program"]


@dataclass(frozen=True, slots=True)
class Program(ast.Program):
    """Relations, rules and directives that were checked.

    Example:
        >>> program = Program.parse(".decl a(x: number) .output a  a(1). a(2).")
        >>> [relation.name for relation in program.relations]
        ['a']
    """

    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def parse(cls, text: str | bytes, path: str | None = None) -> Self:
        """The program a text says. `path` names the text in errors and fences `#include`.

        Raises ProgramError with every diagnostic of the text; its `diagnostics` are data.
        """
        return cls._from(analyse(text, path))

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The program in a file (UTF-8). Raises SourceError and ProgramError."""
        return cls._from(analyse(read_bytes(path), str(path)))

    @classmethod
    def _from(cls, found: Analysis) -> Self:
        found.raise_for_errors()
        read = found.program
        return cls(
            read.relations,
            read.rules,
            read.directives,
            read.types,
            read.source,
            read.path,
            read.pragmas,
            found.warnings,
        )
