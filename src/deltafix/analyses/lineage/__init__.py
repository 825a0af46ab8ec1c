"""Column lineage of SQL files, kept up to date while files change.

`extract` says what is written in a file, `program.dl` what it means: which columns a star stands
for, which table an unqualified name belongs to, and from where every column comes. Nothing here
runs SQL or asks a database.

    statements   bytes to parsed statements (and dbt's Jinja)
    manifest     a compiled dbt project, in one file
    doubts       what those may read that cannot be read
    extract      what each statement makes or fills
    queries      SELECT, set operations, CTEs  |  sources: FROM
    blocks       what is in scope, what an expression refers to
    names        identifiers as the dialect folds them
"""

from __future__ import annotations

from importlib.util import find_spec

from deltafix.analyses.analysis import Analysis
from deltafix.errors import MissingDependencyError

if find_spec("sqlglot") is None:
    raise MissingDependencyError("lineage needs sqlglot: pip install 'deltafix[sql]'")

from deltafix.analyses.lineage.extract import extract
from deltafix.analyses.lineage.facts import INPUTS
from deltafix.analyses.lineage.manifest import MANIFEST

__all__ = ["LINEAGE"]

LINEAGE = Analysis(
    name="lineage",
    title="from which columns every column comes, in SQL",
    suffixes=(".sql",),
    whole=(f"target/{MANIFEST}", "target/compiled"),
    inputs=INPUTS,
    extract=extract,
    program=(("lineage", "program.dl"),),
    views=(
        "flows",
        "comes_from",
        "origin",
        "feeds",
        "impact",
        "unread",
        "maybe_read",
        "unknown_table",
        "unknown_column",
        "ambiguous",
        "ambiguous_table",
        "unparsed",
    ),
    edges={
        "flows": (("source_table", "source_column"), ("target_table", "target_column")),
        "comes_from": (("source_table", "source_column"), ("table", "column")),
        "origin": (("base_table", "base_column"), ("table", "column")),
        "impact": (("table", "column"), ("reached_table", "reached_column")),
    },
)
