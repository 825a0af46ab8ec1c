"""Where a command's result goes: standard output, or the file of `--output`.

Invariant: a file has the whole result or is not touched before there is one; nothing binary goes to
a terminal.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from deltafix.errors import SourceError

BINARY: Final = "parquet"
"""The format that is not text."""

Limit: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Show so many rows (of each view) at most.", metavar="COUNT"),
]
Output: TypeAlias = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write the result to this file.", metavar="FILE"),
]


def check_output(form: str, output: Path | None, *, watch: bool = False) -> None:
    """Refuse, before anything is computed, what could not be written at the end.

    Raises typer.BadParameter.
    """
    if output is None and form == BINARY and sys.stdout.isatty():
        raise typer.BadParameter(f"{form} is not for a terminal: write --output FILE")
    if output is not None and watch:
        raise typer.BadParameter("--watch cannot be combined with --output")
    if watch and form not in {"text", "json"}:
        raise typer.BadParameter(f"--watch cannot be combined with --format {form}")


def put(content: str | bytes, output: Path | None = None) -> None:
    """Write a result. Raises SourceError if the file cannot be written."""
    if output is not None:
        try:
            output.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise SourceError(f"cannot write {output}: {error.strerror}") from error
    elif isinstance(content, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(content)
        sys.stdout.flush()
