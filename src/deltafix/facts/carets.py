"""An error of a file, drawn with the line that it is about and a caret under the value.

Invariant: a caret stands under the value that is meant, or, where a line has it more than once or
not at all, under the whole line; a file that cannot be read again draws nothing.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from deltafix.diagnostics import Diagnostic, Span, render
from deltafix.errors import DeltafixError, ProgramError

_PACKED = b"\x1f\x8b"
"""What a gzip file begins with: its lines are those of what it unpacks to."""


def with_caret(error: DeltafixError) -> str:
    """The text of an error with its code, and the line of the file where its values name one.

    A ProgramError is drawn already. O(the file, up to that line).
    """
    if isinstance(error, ProgramError) and error.diagnostics:
        return str(error)
    path, number = error.values.get("path"), error.values.get("line")
    line = _line(path, number) if isinstance(path, str) and isinstance(number, int) else None
    if line is None or not isinstance(number, int):
        return f"error[{error.code}]: {error}"
    start, end = place_of(line, error.values.get("value"))
    message = str(error).removeprefix(f"{path}:{number}: ")
    span = Span(start, end, number, start + 1, str(path))
    return render(Diagnostic(error.code, message, span), "\n" * (number - 1) + line)


def _line(path: str, number: int) -> str | None:
    """A line of a text file, from 1."""
    try:
        with Path(path).open("rb") as file:
            if file.read(2) == _PACKED:
                return None
            file.seek(0)
            line = next(islice(file, number - 1, None), None)
    except (OSError, ValueError):  # it is gone, or no name of a file
        return None
    if line is None or b"\0" in line:  # it was shortened, or is no text
        return None
    return line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")


def place_of(line: str, value: object) -> tuple[int, int]:
    """Where a line has a value, if it is there once as a word; else the whole line."""
    if isinstance(value, str) and value:
        matches = [*re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", line)]
        if len(matches) == 1:
            return matches[0].span()
    return 0, len(line)
