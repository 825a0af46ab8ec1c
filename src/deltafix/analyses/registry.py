"""The analyses by name.

Invariant: an analysis is loaded only when it is asked for: some need a parser that is an extra.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

from deltafix.analyses.analysis import Analysis
from deltafix.diagnostics import did_you_mean
from deltafix.errors import DeltafixError

ANALYSES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "dead-code": ("dead_code", "DEAD_CODE"),
        "call-graph": ("call_graph", "CALL_GRAPH"),
        "reaching": ("reaching", "REACHING"),
        "c-points-to": ("c_points_to", "C_POINTS_TO"),
        "lineage": ("lineage", "LINEAGE"),
        "points-to": ("points_to", "POINTS_TO"),
        "types": ("types", "TYPES"),
    }
)
"""Name to (package below `deltafix.analyses`, constant in it)."""


class UnknownAnalysisError(DeltafixError, LookupError):
    """There is no analysis of that name."""

    code = "DF674"


def find_analysis(name: str) -> Analysis:
    """The analysis of that name.

    Raises:
        UnknownAnalysisError: there is none; the message names those there are.
        MissingDependencyError: its parser is not installed.
    """
    if name not in ANALYSES:
        valid = ", ".join(ANALYSES)
        help_ = did_you_mean(name, ANALYSES, f"valid: {valid}", "'")
        raise UnknownAnalysisError(
            f"there is no analysis {name!r}; {help_}", name=name, valid=valid
        )
    package, constant = ANALYSES[name]
    return cast("Analysis", getattr(import_module(f"deltafix.analyses.{package}"), constant))
