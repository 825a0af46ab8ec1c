"""What a shell may put in: names that a command line has at hand when Tab is pressed.

typer does the rest: commands, options, choices, files, and which of these names begin with what is
typed. Invariant: a completer reads what the line so far names, needs no kernel and prints nothing;
where that cannot be read it offers nothing, since the command itself says what is wrong with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from deltafix.cli.program_options import reading
from deltafix.errors import DeltafixError


def analyses() -> list[str]:
    """The analyses there are."""
    from deltafix.analyses.registry import ANALYSES  # noqa: PLC0415  quick --help

    return list(ANALYSES)


def views(ctx: typer.Context) -> list[str]:
    """The relations of the analysis that the line names; O(its rules)."""
    from deltafix.analyses.registry import find_analysis  # noqa: PLC0415  quick --help

    try:
        program = find_analysis(_first(ctx, "name")).load_program()
    except DeltafixError:  # there is none of that name, or its parser is not installed
        return []
    return [relation.name for relation in program.relations]


def relations(ctx: typer.Context) -> list[str]:
    """The relations of the program that the line names, read as the command would; O(its rules)."""
    from deltafix.datalog.program import Program  # noqa: PLC0415  quick --help

    given = ctx.params
    options = reading(given["word_size"], given["include"], given["macros"])
    try:
        program = Program.from_file(Path(_first(ctx, "program_file")), **options)
    except DeltafixError:  # it is not there, or has errors
        return []
    return [relation.name for relation in program.relations]


def _first(ctx: typer.Context, name: str) -> Any:
    """The first argument, "" where there is none.

    A line that ends with an option without its value keeps arguments as they came.
    """
    return ctx.params[name] or next(iter(ctx.args), "")
