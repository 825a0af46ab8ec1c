"""Strata that Python computes: the kernel stops at them, and goes on with what they changed.

One noun, `Stratum`: it gets the net changes of the relations it reads as tables of column codes,
and gives back the net changes of its own. Invariant: `run` is called at most once an epoch, then
`keep` or `undo`; after `undo` the stratum is as it was. A fold (`engine.folds`) is one kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from deltafix.engine.link import Linked
from deltafix.engine.store import changed_in_epoch
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.edit import settle_rows

__all__ = ["Changed", "Strata", "Stratum"]


class Changed(NamedTuple):
    """Net changes of a relation: codes (n, arity) of rows added and of rows removed."""

    added: Words
    removed: Words


class Stratum(Protocol):
    """A stratum outside the kernel."""

    def run(self, below: Mapping[str, Changed]) -> Mapping[str, Changed]:
        """The changes of its relations, for the changes of those it reads."""

    def keep(self) -> None:
        """The epoch was committed."""

    def undo(self) -> None:
        """The epoch was rolled back: be as before `run`."""


class Strata:
    """The outside strata of a database, by number; those that ran in the epoch."""

    def __init__(self, arena: Arena, linked: Linked, strata: Mapping[int, Stratum]) -> None:
        self._arena = arena
        self._linked = linked
        self._strata = strata
        self._ran: list[Stratum] = []

    def run(self) -> None:
        """Compute the stratum at which the kernel stopped, and enter its changes."""
        arena = self._arena
        number = int(arena.cells[at.S_STRATUM])
        ids = self._linked.ids
        below = {
            name: Changed(
                changed_in_epoch(arena, ids[name], added=True),
                changed_in_epoch(arena, ids[name], added=False),
            )
            for name in self._linked.outside[number].reads
        }
        stratum = self._strata[number]
        self._ran.append(stratum)
        for name, (added, removed) in stratum.run(below).items():
            for rows, holds in ((removed, 0), (added, 1)):
                if len(rows):
                    flat = np.ascontiguousarray(rows, dtype=np.int32).reshape(-1)
                    settle_rows(arena.words, arena.cells, flat, ids[name], len(rows), holds)

    def keep(self) -> None:
        """The epoch was committed."""
        for stratum in self._ran:
            stratum.keep()
        self._ran.clear()

    def undo(self) -> None:
        """The epoch was rolled back."""
        for stratum in reversed(self._ran):
            stratum.undo()
        self._ran.clear()
