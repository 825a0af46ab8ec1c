"""Level 1: least fixpoints of functions, maintained while the function changes.

Reading guide: `view` (what a fixpoint can be asked, what an update is), `simple` (growth only),
`ledger` (ranks, supports, repair), `full` (growth and removal over a caller's relation), `contract`
(the caller's obligations, checked), `counting` (acyclic problems), `managed` (the relation owned
by the fixpoint, on the engine's kernel).

Source: Incremental fixpoint computation, level 1.
"""

from __future__ import annotations

from deltafix.fixpoint.counting import CountingFixpoint
from deltafix.fixpoint.full import FullFixpoint
from deltafix.fixpoint.simple import Fixpoint
from deltafix.fixpoint.view import Change, FixpointDelta, FixpointReport, FixpointView

__all__ = [
    "Change",
    "CountingFixpoint",
    "Fixpoint",
    "FixpointDelta",
    "FixpointReport",
    "FixpointView",
    "FullFixpoint",
]
