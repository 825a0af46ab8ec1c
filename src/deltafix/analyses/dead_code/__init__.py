"""Dead code in Python source: what no root reaches, kept up to date while files change.

Reading order: `inputs` (what files state), `extract` (one file to facts; `modules`, `scopes`,
`references`, `exports`, `examples`, `entry_points`, `texts` and `words` are its parts), `names.dl`,
`program.dl` and `doubt.dl` (the rules: what names mean, what is alive, how sure the rest is),
`policy` (the tables), `job` (what became dead), `report`, `baseline`, `why`.
Nothing in this package imports or runs the code it analyses, and nothing knows Spark: the command
line hands `job` a function that extracts many files, in this process or on a cluster.
"""

from __future__ import annotations

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.dead_code.entry_points import PROJECT_FILES
from deltafix.analyses.dead_code.extract import TYPED, extract
from deltafix.analyses.dead_code.inputs import INPUTS
from deltafix.analyses.dead_code.texts import TEXTS
from deltafix.analyses.dead_code.words import SAID

__all__ = ["DEAD_CODE"]

DEAD_CODE = Analysis(
    name="dead-code",
    title="what no entry point, test or public name reaches, in Python",
    suffixes=(".py", TYPED, *TEXTS),
    inputs={**INPUTS, **SAID},
    extract=extract,
    program=(("dead_code", "names.dl"), ("dead_code", "program.dl"), ("dead_code", "doubt.dl")),
    views=("dead", "live", "sure", "doubt"),
    project=PROJECT_FILES,
    bare=True,
)
