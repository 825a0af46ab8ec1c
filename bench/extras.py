"""Benches that stand on their own (`python -m bench.reactive`, …), as sections of the report.

Each prints Markdown to standard output and exits with 1 if its contenders disagree. Invariant:
this module knows their names only; what they measure and against whom is theirs.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import dataclass

__all__ = ["EXTRAS", "Section", "run_extra"]

_KNOWN = (
    "reactive", "fixpoint", "tabling", "why", "pipeline", "analyses", "judged", "shards", "opening",
    "rights", "rule_edits", "sql_statements", "sql_views", "tpch",
)  # fmt: skip
EXTRAS = tuple(name for name in _KNOWN if importlib.util.find_spec(f"bench.{name}") is not None)


@dataclass(frozen=True, slots=True)
class Section:
    """What an extra bench printed, and whether its contenders agreed."""

    text: str
    agreed: bool


def run_extra(name: str, seconds: float) -> Section:
    """Run one of `EXTRAS` in a process of its own; a failure becomes the section's text."""
    command = [sys.executable, "-m", f"bench.{name}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Section(f"Skipped: went over the time limit of {seconds:.0f} s.", True)
    if done.returncode == 0:
        return Section(done.stdout.strip(), True)
    words = (done.stderr.strip() or "no message").splitlines()[-1]
    if done.returncode == 1 and done.stdout.strip():
        return Section(f"{done.stdout.strip()}\n\n**ANSWERS DIFFER:** {words}", False)
    return Section(f"Skipped: ended with {done.returncode}: {words[:300]}", True)
