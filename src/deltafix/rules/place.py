"""Where in the user's own Python file something is written, for errors about rules in Python."""

from __future__ import annotations

import sys
from typing import Final

from deltafix.diagnostics import Span


def here() -> Span | None:
    """The place in the user's file: the first frame outside this package's rules."""
    frame = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_INSIDE):
        back = frame.f_back
        if back is None:
            return None
        frame = back
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, last, column, end = positions
    if line is None or column is None or end is None:
        return Span(0, 0, frame.f_lineno, 1, frame.f_code.co_filename)
    width = end - column if last == line else 1
    return Span(column, column + width, line, column + 1, frame.f_code.co_filename)


_INSIDE: Final = ("deltafix.rules.", "deltafix.datalog.")
