"""An epoch as a sequence of supersteps: which action comes next, from what the shards report.

Strata are taken lowest first, each to the end before the next. A stratum without recursion is two
steps (votes go out, votes are applied); a recursive one retracts until no shard takes anything
away, inserts until no shard sends anything, and then tells the strata above. Invariant: when
`run_epoch` returns, no message is on its way and no shard has work left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.step import Command

__all__ = ["Report", "Runner", "Work", "merged", "run_epoch"]


@dataclass
class Report:
    """What all shards together report of one superstep.

    Attributes:
        pending: per stratum, rows that wait.
        sent: rows per local relation that messages carry, to be applied in the next step.
        falling: rows taken away by messages, and still to be taken away.
        bytes: size of the messages.
        loads: shards that had to be read from files, in whole or in part, before the step.
        refused: a load cannot go on (`load`).
    """

    pending: dict[int, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    falling: int = 0
    bytes: int = 0
    loads: int = 0
    refused: bool = False


@dataclass
class Work:
    """What an epoch cost: supersteps, messages (rows) and their bytes, shards read from files."""

    supersteps: int = 0
    messages: int = 0
    bytes: int = 0
    loads: int = 0
    actions: list[str] = field(default_factory=list)

    def __add__(self, other: Work) -> Work:
        """Both, one after the other."""
        return Work(
            self.supersteps + other.supersteps,
            self.messages + other.messages,
            self.bytes + other.bytes,
            self.loads + other.loads,
            self.actions + other.actions,
        )


class Runner(Protocol):
    """Who runs a superstep on all shards, with the messages of the step before."""

    def step(self, command: Command) -> Report:
        """Run it to the end on every shard."""


def run_epoch(layout: Layout, runner: Runner) -> Work:
    """Run the steps of an epoch whose given rows are the runner's first messages."""
    return _Epoch(layout, runner).run()


class _Epoch:
    def __init__(self, layout: Layout, runner: Runner) -> None:
        self.layout = layout
        self.runner = runner
        self.work = Work()
        self.last = Report()
        self.ranked = {made.stratum for made in layout.derived.values() if made.ranked}
        self.published = {
            made.stratum for made in layout.derived.values() if made.ranked and made.above
        }

    def run(self) -> Work:
        if self.layout.shuffles:
            self.step("apply")
            stratum = self.next_stratum()
            while stratum is not None:
                if stratum in self.ranked:
                    self.recursive(stratum)
                else:
                    self.step("send", stratum)
                    if self.last.sent:
                        self.step("apply")
                stratum = self.next_stratum()
        self.step("commit")
        return self.work

    def recursive(self, stratum: int) -> None:
        self.step("retract", stratum)
        while self.last.falling:
            self.step("retract", stratum)
        if self.last.sent or self.last.pending.get(stratum):
            self.step("insert", stratum)
            while self.last.sent:
                self.step("insert", stratum)
        if stratum in self.published:
            self.step("finish", stratum)

    def next_stratum(self) -> int | None:
        """The lowest stratum that has work, or may have when the messages have come."""
        coming = (self.layout.readers[name] for name in self.last.sent)
        return min((*self.last.pending, *coming), default=None)

    def step(self, action: str, stratum: int = -1) -> None:
        self.last = self.runner.step(Command(action, stratum))  # type: ignore[arg-type]
        self.work.supersteps += 1
        self.work.messages += sum(self.last.sent.values())
        self.work.bytes += self.last.bytes
        self.work.loads += self.last.loads
        self.work.actions.append(f"{action} {stratum}" if stratum >= 0 else action)


def merged(reports: Iterable[Report]) -> Report:
    """One report of all shards."""
    whole = Report()
    for report in reports:
        for stratum, count in report.pending.items():
            whole.pending[stratum] = whole.pending.get(stratum, 0) + count
        for name, count in report.sent.items():
            whole.sent[name] = whole.sent.get(name, 0) + count
        whole.falling += report.falling
        whole.bytes += report.bytes
        whole.loads += report.loads
        whole.refused |= report.refused
    return whole
