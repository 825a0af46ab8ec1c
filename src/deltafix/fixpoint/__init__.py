"""Level 1: least fixpoints of functions, maintained while the function changes.

Reading guide: `view` (what a fixpoint can be asked, what an update is), `simple` (growth only),
`ledger` (ranks, supports, repair), `full` (growth and removal over a caller's relation, and
the caller's obligations, checked), `counting` (acyclic problems), `managed` (the relation owned
by the fixpoint; its rule is planned and run as the engine does).

Invariant: importing this package compiles nothing; the kernel is loaded with the first use of
`ManagedFixpoint`.

Source: Incremental fixpoint computation, level 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltafix.fixpoint.counting import CountingFixpoint
from deltafix.fixpoint.full import FullFixpoint
from deltafix.fixpoint.simple import Fixpoint
from deltafix.fixpoint.view import Change, FixpointDelta, FixpointReport, FixpointView

if TYPE_CHECKING:
    from deltafix.fixpoint.managed import FixpointTransaction, ManagedFixpoint

__all__ = [
    "Change",
    "CountingFixpoint",
    "Fixpoint",
    "FixpointDelta",
    "FixpointReport",
    "FixpointTransaction",
    "FixpointView",
    "FullFixpoint",
    "ManagedFixpoint",
]


def __getattr__(name: str) -> Any:
    if name in ("ManagedFixpoint", "FixpointTransaction"):
        from deltafix.fixpoint import managed  # noqa: PLC0415  brings the kernel

        return getattr(managed, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
