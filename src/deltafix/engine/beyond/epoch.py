"""The state of one run that all relations of a stratum share: clock, log, and what waits.

Invariant: a fact's record is in the log before it is changed, so that `undo` finds how it was.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

from deltafix.engine.beyond.facts import Fact, Work

Saved = tuple[Fact, int, Any, int, bool, "Fact | None"]
"""A fact and its total, support, rank, visible and by, as the epoch found them."""


class Epoch:
    """Shared by the relations of a stratum.

    Attributes:
        number: of this run; a fact whose `stamp` is less is not in the log yet.
        clock: the last rank given out.
        log: records as they were, each fact once.
        suspects: facts that may have lost what holds them up.
        ready: facts that may become live, first come first served.
        best: facts that may become live, by the priority of their value: least first.
        choices: candidates of choice relations, which wait until nothing else does, each each with
            its order: former choices first, then by columns.
        passed: live facts that something better has made invisible in this epoch.
        doubted: the last of so many that got better that there may be no end to it.
    """

    def __init__(self, watch: Callable[[Work], None] | None) -> None:
        self.number = 0
        self.clock = 0
        self.log: list[Saved] = []
        self.work = Work()
        self.suspects: list[Fact] = []
        self.ready: deque[Fact] = deque()
        self.best: list[tuple[Any, int, Fact]] = []
        self.choices: list[tuple[bool, Any, Fact]] = []
        self.passed: list[Fact] = []
        self.doubted: Fact | None = None
        self._began = 0
        self._watch = watch
        self._taken = 0
        self._ties = 0

    def begin(self) -> None:
        """Start a run."""
        self.number += 1
        self.work = Work()

    def end(self) -> None:
        """What a run did stands, or was undone: the next may be undone before it has begun."""
        self.log = []
        self._began = self.clock

    def note(self, fact: Fact) -> None:
        """Record a fact before its first change in this epoch."""
        if fact.stamp != self.number:
            fact.stamp = self.number
            support = fact.support
            self.log.append((fact, fact.total, support, fact.rank, fact.visible, fact.by))
            if type(support) is dict:  # a joined value's: the log keeps the old one
                fact.support = dict(support)

    def rank(self) -> int:
        """The next rank, above all others."""
        self.clock += 1
        return self.clock

    def wait_by_value(self, priority: Any, fact: Fact) -> None:
        """Queue a fact so that the least priority comes first."""
        self._ties += 1
        heapq.heappush(self.best, (priority, self._ties, fact))

    def next_ready(self) -> Fact | None:
        """The next fact that may become live: plain ones, then values, then a round of choices."""
        self._taken += 1
        if self._watch is not None and not self._taken & 255:
            self.look()
        if self.ready:
            return self.ready.popleft()
        if self.best:
            return heapq.heappop(self.best)[2]
        if self.choices:
            self.choices.sort(key=lambda entry: entry[:2])
            order = self.choices[0][0]
            self.ready.extend(entry[2] for entry in self.choices if entry[0] == order)
            self.choices = [entry for entry in self.choices if entry[0] != order]
            return self.ready.popleft()
        return None

    def look(self) -> None:
        """Let the caller see the work so far; it may raise."""
        if self._watch is not None:
            self.work.touched = len(self.log)
            self._watch(self.work)

    def drop(self) -> None:
        """Forget what waits, and the ranks given out since `end`."""
        self.clock = self._began
        self.suspects.clear()
        self.ready.clear()
        self.best.clear()
        self.choices.clear()
        self.passed.clear()
        self.doubted = None
