"""Points-to of Python source: which objects a variable or a field may hold, and who calls whom.

Facts and rules are those of `value_flow`; `program.dl` says that each place that makes an object
makes one of its own.
"""

from __future__ import annotations

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.value_flow.functions import extract_flow
from deltafix.analyses.value_flow.inputs import INPUTS
from deltafix.analyses.value_flow.tables import table_facts

__all__ = ["POINTS_TO"]

POINTS_TO = Analysis(
    name="points-to",
    title="which objects a variable, a field and a call may reach, in Python",
    suffixes=(".py",),
    inputs=INPUTS,
    extract=extract_flow,
    program=(("dead_code", "names.dl"), ("value_flow", "rules.dl"), ("points_to", "program.dl")),
    views=("points_to", "field", "calls"),
    tables=table_facts(),
    alternatives=True,
    edges={"field": (("object",), ("value",))},
)
