"""Points-to of C: what each pointer may hold and which functions each call may reach.

`extract` turns a file into constraints (`values` reads expressions),
read by `deltafix.analyses.c`; `program.dl` solves them over all files; `library` says what some
functions of the C library do. No macro is expanded and nothing is compiled.
"""

from __future__ import annotations

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.c_points_to.extract import POINTER_INPUTS, extract_pointers
from deltafix.analyses.c_points_to.library import LIBRARY, LIBRARY_INPUTS

__all__ = ["C_POINTS_TO"]

C_POINTS_TO = Analysis(
    name="c-points-to",
    title="what pointers may hold and calls may reach, in C",
    suffixes=(".c", ".h"),
    inputs={**POINTER_INPUTS, **LIBRARY_INPUTS},
    extract=extract_pointers,
    program=(("c_points_to", "program.dl"),),
    views=("points_to", "calls", "unread"),
    tables=LIBRARY,
)
