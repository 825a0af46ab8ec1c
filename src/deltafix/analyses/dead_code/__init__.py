"""Dead code in Python source: what no root reaches, kept up to date while files change.

Reading order: `facts` (what travels), `extract` (one file to facts; `modules`, `scopes`,
`references`, `exports` and `entry_points` are its parts), `program.dl` (the rules), `policy` (the
tables), `files` (the folder), `job` (collections, engine, changes), `report`, `baseline`, `why`.
Nothing in this package imports or runs the code it analyses, and nothing knows Spark: the command
line hands `job` a function that extracts many files, in this process or on a cluster.
"""

from __future__ import annotations
