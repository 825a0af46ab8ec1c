"""What crosses the border of a stratum: net changes as Python rows, and the work it took.

Invariant: a row is in one of a change's lists at most, and once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from deltafix.facts.schema import Row


class Change(NamedTuple):
    """Net change of one relation: rows that were absent and rows that were present."""

    added: list[Row]
    removed: list[Row]


@dataclass(slots=True)
class Work:
    """What a run cost.

    Attributes:
        derivations: rule instances found, made and broken.
        touched: facts whose record was changed, whether or not that ends in the delta.
        retracted: facts taken down, for good or not.
        revived: retracted facts that held by another derivation after all.
        taken: facts made live.
    """

    derivations: int = 0
    touched: int = 0
    retracted: int = 0
    revived: int = 0
    taken: int = 0
