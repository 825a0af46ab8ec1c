"""The call graph of Python source, kept up to date while files change.

`facts` says which calls are written in a file (on top of what `dead_code` says about names), and
`program.dl` which functions they may reach. Nothing here imports or runs the code it analyses.
"""

from __future__ import annotations

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.call_graph.facts import CALL_INPUTS, extract_calls

__all__ = ["CALL_GRAPH"]

CALL_GRAPH = Analysis(
    name="call-graph",
    title="which functions a call may reach, in Python",
    suffixes=(".py",),
    inputs=CALL_INPUTS,
    extract=extract_calls,
    program=(
        ("dead_code", "names.dl"),
        ("dead_code", "program.dl"),
        ("call_graph", "program.dl"),
    ),
    views=("calls",),
)
