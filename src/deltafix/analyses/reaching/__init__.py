"""Reaching definitions of C: which assignments a value may come from, kept while files change.

`extract` states the control flow of each function, read by `deltafix.analyses.c`; `program.dl` says
which definitions reach which uses, which variables are read without a value, and which values are
never read. No macro is expanded and nothing is compiled.
"""

from __future__ import annotations

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.reaching.extract import FLOW_INPUTS, extract_flow

__all__ = ["REACHING"]

REACHING = Analysis(
    name="reaching",
    title="which definitions reach a use, in C",
    suffixes=(".c", ".h"),
    inputs=FLOW_INPUTS,
    extract=extract_flow,
    program=(("reaching", "program.dl"),),
    views=("reaches", "uninitialised", "dead_store", "unread"),
    edges={"reaches": (("definition",), ("use",))},
)
