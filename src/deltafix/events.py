"""What a run did, as data: one report per epoch, for tests, logs and people.

Invariant: a report is made of counters the kernel kept anyway; strata are timed on demand only.
Tests assert these figures, so that lost incrementality fails a test and not only a benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class EpochReport:
    """The work of one epoch.

    Attributes:
        epoch: its number; 0 is the one that loads the program's own facts.
        derivations: rule instances found, made and broken.
        retracted: facts of recursive strata taken down, for good or not.
        revived: retracted facts that held by another derivation after all.
        reranked: facts whose rank moved.
        abandoned: strata that were recomputed: their wave cost more than that, or joined rows that
            do not hold with a value that has no result.
        taken: facts that became true one at a time in recursive strata.
        changed: rows whose truth differs from before, given and derived.
        probed: rows looked at while joining.
        strata_run: strata that had something to do.
        strata_skipped: strata that were not visited.
        recomputed: strata that an edit of rules had evaluated anew, named by their relations.
        seconds: wall clock from the first edit's commit to the end.
        rules: derivations per rule number of the program, where any.
        strata: seconds by stratum, named by its relations; only where they were asked for.
    """

    epoch: int
    derivations: int = 0
    retracted: int = 0
    revived: int = 0
    reranked: int = 0
    abandoned: int = 0
    taken: int = 0
    changed: int = 0
    probed: int = 0
    strata_run: int = 0
    strata_skipped: int = 0
    recomputed: tuple[str, ...] = ()
    seconds: float = 0.0
    rules: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    strata: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def touched(self) -> int:
        """Facts taken up: retracted, moved, or changed without either."""
        moved = self.reranked - self.revived
        return self.retracted + moved + max(0, self.changed - (self.retracted - self.revived))

    def show(self) -> str:
        """One line: the figures that are not zero."""
        figures = ("changed", "touched", "retracted", "revived", "derivations", "probed")
        shown = ", ".join(
            f"{name} {getattr(self, name):,}" for name in figures if getattr(self, name)
        )
        return f"epoch {self.epoch}: {shown or 'nothing changed'} ({self.seconds * 1e3:.3f} ms)"
