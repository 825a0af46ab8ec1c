"""Where a command's result goes: standard output, or the file of `--output`.

Invariant: a file has the whole result or is not touched before there is one; nothing binary goes to
a terminal. Of what changed a terminal is shown a part, with a count of the rest; a file, a pipe or
another program gets all.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from deltafix.diagnostics import plural
from deltafix.errors import SourceError

if TYPE_CHECKING:
    from deltafix.facts.delta import Delta

BINARY: Final = "parquet"
"""The format that is not text."""

_ON_A_TERMINAL: Final = 100
"""Changed rows of a relation that are listed there."""

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


def changed(name: str, lines: Iterable[str], count: int) -> Iterator[str]:
    """The lines of a relation's changed rows, of which there are `count`, for standard output."""
    if count <= _ON_A_TERMINAL or not sys.stdout.isatty():
        yield from lines
        return
    yield from islice(lines, _ON_A_TERMINAL)
    left = plural(count - _ON_A_TERMINAL, "more changed row")
    yield f"... and {left} of {name}; all are listed where the output is no terminal, as by | less"


def changed_rows(delta: Delta, relations: Collection[str]) -> Iterator[str]:
    """What changed in these relations, signed, a line each row: `+path("a", "c")`."""
    from deltafix.facts.schema import show_row  # noqa: PLC0415  quick --help

    for name, part in delta.items():
        if name in relations:
            signed = (
                f"{'+' if sign > 0 else '-'}{show_row(name, row)}" for sign, row in part.signed()
            )
            yield from changed(name, signed, len(part))
