"""Dead code in Python source: what no root reaches, kept up to date while files change.

Reading order: `inputs` (what files state), `extract` (one file to facts; `definitions`, `shapes`,
`modules`, `scopes`, `references`, `exports`, `examples`, `entry_points`, `texts` and `words` are
its parts), `names.dl`, `program.dl` and `doubt.dl` (the rules: what names mean, what is alive, how
sure the rest is), `unused` and `unused.dl` (imports, locals, arguments and attributes that nothing
reads, an option), `policy` (the tables), `job` (what became dead), `report`, `baseline`, `why`.
Nothing in this package imports or runs the code it analyses, and nothing knows Spark: the command
line hands `job` a function that extracts many files, in this process or on a cluster.
"""

from __future__ import annotations

from dataclasses import replace

from deltafix.analyses.analysis import Analysis
from deltafix.analyses.dead_code.entry_points import PROJECT_FILES
from deltafix.analyses.dead_code.extract import TYPED, extract
from deltafix.analyses.dead_code.inputs import INPUTS
from deltafix.analyses.dead_code.texts import TEXTS
from deltafix.analyses.dead_code.unused import UNUSED_INPUTS, extract_unused
from deltafix.analyses.dead_code.words import SAID

__all__ = ["DEAD_CODE", "UNUSED"]

DEAD_CODE = Analysis(
    name="dead-code",
    title="what no entry point, test or public name reaches, in Python",
    suffixes=(".py", TYPED, *TEXTS),
    inputs={**INPUTS, **SAID},
    extract=extract,
    program=(("dead_code", "names.dl"), ("dead_code", "program.dl"), ("dead_code", "doubt.dl")),
    views=("dead", "live", "sure", "doubt", "waived"),
    project=PROJECT_FILES,
    bare=True,
)

UNUSED = replace(
    DEAD_CODE,
    inputs={**DEAD_CODE.inputs, **UNUSED_INPUTS},
    extract=extract_unused,
    program=(*DEAD_CODE.program, ("dead_code", "unused.dl")),
    views=(*DEAD_CODE.views, "unused", "unused_doubt"),
)
"""Dead code, and what living code binds and nothing reads."""
