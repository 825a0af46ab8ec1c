"""`deltafix fmt`: programs in one layout, comments and macros kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from deltafix.cli.console import note


def fmt(
    programs: Annotated[
        list[Path],
        typer.Argument(help="Program files (.dl); - is standard input.", metavar="FILE…"),
    ],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if a file would change.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not name files.")] = False,
) -> None:
    """Lay programs out alike, in place; a program with errors is left as it is.

    Exit code 0, or 1 if `--check` finds a file that would change.
    """
    from deltafix.datalog.format import format_program  # noqa: PLC0415  quick --help
    from deltafix.datalog.load import read_bytes  # noqa: PLC0415
    from deltafix.facts.sink import whole_file  # noqa: PLC0415

    changed = 0
    for path in programs:
        piped = str(path) == "-"
        data = sys.stdin.read().encode() if piped else read_bytes(path)
        before = _text(data, path)
        after = format_program(before, None if piped else str(path))
        changed += after != before
        if check:
            if after != before:
                note(f"{path}: would be laid out anew", quiet=quiet)
        elif piped:
            sys.stdout.write(after)
        elif after != before:
            with whole_file(path) as stream:
                stream.write(after)
            note(f"{path}: laid out anew", quiet=quiet)
    if check and changed:
        raise typer.Exit(1)


def _text(data: bytes, path: Path) -> str:
    from deltafix.datalog.source import decode  # noqa: PLC0415  quick --help
    from deltafix.diagnostics import render_all  # noqa: PLC0415
    from deltafix.errors import ProgramError  # noqa: PLC0415

    source, diagnostics = decode(data, str(path))
    if diagnostics:
        raise ProgramError(render_all(diagnostics, {str(path): source.text}), diagnostics)
    return source.text
