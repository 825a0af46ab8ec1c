"""Types of Python source by constraint propagation: of parameters, results, variables, attributes.

Facts and rules are those of `value_flow`; `program.dl` says that the instances of a class are one
object, and reads types off the objects.
"""

from __future__ import annotations

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.value_flow.functions import extract_flow
from deltafix.analyses.value_flow.inputs import INPUTS
from deltafix.analyses.value_flow.tables import table_facts

__all__ = ["TYPES"]

TYPES = Analysis(
    name="types",
    title="which types parameters, results, variables and attributes may have, in Python",
    suffixes=(".py",),
    inputs=INPUTS,
    extract=extract_flow,
    program=(("dead_code", "names.dl"), ("value_flow", "rules.dl"), ("types", "program.dl")),
    views=("returns", "parameter", "attribute", "variable", "disagrees"),
    tables=table_facts(),
    alternatives=True,
)
