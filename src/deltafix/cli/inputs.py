"""The rows that a program's `.input` directives name, read for a command.

What Soufflé passes over, a fact file that is not there and values beyond a relation's columns, is
warned of; `--strict` makes it an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from deltafix.cli.console import note
from deltafix.facts.schema import Schema
from deltafix.rules.ast import Program

__all__ = ["FACT_DIR", "Strict", "read_inputs", "warner"]

FACT_DIR: Final = typer.Option(
    "-F", "--fact-dir", exists=True, file_okay=False, help="Folder of the .facts files."
)

Strict: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--strict", help="A missing fact file, and values beyond the columns, are errors."
    ),
]


def warner(*, strict: bool, quiet: bool) -> Callable[[str], None] | None:
    """What hears of inputs that are passed over; nothing does where they are errors."""
    return None if strict else lambda message: note(f"warning: {message}", quiet=quiet)


def read_inputs(
    program: Program,
    schemas: Mapping[str, Schema],
    folder: Path,
    told: Callable[[str], None] | None,
) -> list[tuple[str, Any]]:
    """Relation and rows of every `.input` directive, in order. Raises what `read_input` raises."""
    from deltafix.facts.source import read_input  # noqa: PLC0415  quick --help

    return [
        (one.relation, read_input(schemas[one.relation], one.parameters, folder, told))
        for one in program.directives
        if one.kind == "input"
    ]
