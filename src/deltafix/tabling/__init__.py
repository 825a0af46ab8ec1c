"""Tabled logic programs whose tables survive changes of facts and rules.

`Tables` is the door: consult Prolog text, query, update. The maintenance is the local algorithm of
Saha and Ramakrishnan: insertions and deletions interleaved along call components and ranks.
"""

from __future__ import annotations

from deltafix.tabling.changes import Change, TablesDelta
from deltafix.tabling.goals import Solution
from deltafix.tabling.kernel_route import AutoTables, open_tables
from deltafix.tabling.session import Tables
from deltafix.tabling.table import Counters
from deltafix.tabling.trace import Trace

__all__ = [
    "AutoTables",
    "Change",
    "Counters",
    "Solution",
    "Tables",
    "TablesDelta",
    "Trace",
    "open_tables",
]
