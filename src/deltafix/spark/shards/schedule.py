"""An epoch as a sequence of supersteps: which action comes next, from what the shards report.

Strata are taken lowest first, each to the end before the next; relations that do not need one
another are in one stratum (`localize`), since a step costs a job, whatever it carries. A stratum
without recursion is two steps (votes go out, votes are applied), of which the second is the next
one's first where all that is read of it is read at home; a recursive one retracts until no shard
takes anything away, inserts until no shard sends anything, and then tells the strata above. The
first step applies the given rows and does what the lowest stratum that reads them does first; the
last one is that in which every shard says it has `ended`, or a `commit`. Invariant: when an epoch
is over, no message is on its way and no shard has work left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.step import Command


@dataclass
class Report:
    """What all shards together report of one superstep.

    Attributes:
        pending: per stratum, rows that wait.
        sent: rows per local relation that messages carry, to be applied in the next step.
        falling: rows taken away by messages, and still to be taken away.
        bytes: size of the messages.
        loads: shards whose engines had to be made from all of their files before the step.
        ended: every shard has said what the epoch changes in it; if nothing was sent, it is over.
        error: what failed in one of those who take steps together (`load`), as `note_of` has it.
    """

    pending: dict[int, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    falling: int = 0
    bytes: int = 0
    loads: int = 0
    ended: bool = False
    error: list[Any] | None = None


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


class Epoch:
    """The steps of an epoch whose given rows are the runner's first messages. `work`: the cost."""

    def __init__(self, layout: Layout, runner: Runner) -> None:
        self.layout = layout
        self.runner = runner
        self.work = Work()
        self.last = Report()
        self.ranked = {derived.stratum for derived in layout.derived.values() if derived.ranked}
        self.published = {
            derived.stratum
            for derived in layout.derived.values()
            if derived.ranked and derived.above
        }
        self.begun: int | None = None

    def run(self, given: Collection[str] | None = None) -> Work:
        """All steps; `given` as for `begin`."""
        self.begin(given)
        return self.finish()

    def begin(self, given: Collection[str] | None = None) -> None:
        """The first step; only relations of `given` have rows in it (None: any may)."""
        if not self.layout.shuffles:
            self.step("commit")
        elif (stratum := self.lowest(given)) is None:
            self.step("apply")
        else:
            self.open(stratum)
            self.begun = stratum

    @property
    def is_over(self) -> bool:
        """Whether no step follows the first one."""
        return self.last.ended and self.begun not in self.published

    def finish(self) -> Work:
        """The steps after the first."""
        if self.layout.shuffles:
            stratum = self.next_stratum() if self.begun is None else self.begun
            while stratum is not None:
                if stratum != self.begun:
                    self.open(stratum)
                self.begun = None
                if stratum in self.ranked:
                    self.recursive(stratum)
                elif self.last.sent:
                    if (following := self.following(stratum)) is not None:
                        stratum = following
                        continue
                    self.step("apply")
                stratum = self.next_stratum()
        if not self.last.ended:
            self.step("commit")
        return self.work

    def open(self, stratum: int) -> None:
        """The first step of a stratum."""
        self.step("retract" if stratum in self.ranked else "send", stratum)

    def lowest(self, given: Collection[str] | None) -> int | None:
        """The lowest stratum that reads given rows of these relations; None if it is not known."""
        if given is None:
            return None
        home = {derived.part("given"): derived.stratum for derived in self.layout.derived.values()}
        readers = {**home, **self.layout.readers}
        copies = (copy.name for name in given for copy in self.layout.given[name])
        return min((readers[name] for name in copies if name in readers), default=None)

    def recursive(self, stratum: int) -> None:
        """The steps of a recursive stratum after its first."""
        while self.last.falling:
            self.step("retract", stratum)
        if self.last.sent or self.last.pending.get(stratum):
            self.step("insert", stratum)
            while self.last.sent:
                self.step("insert", stratum)
        if stratum in self.published:
            self.step("finish", stratum)

    def following(self, stratum: int) -> int | None:
        """The stratum whose first step can apply the votes that this one has sent.

        It is the lowest that may have work then. None if the votes have to be applied before: what
        they change goes to other shards, or nothing is read.
        """
        here = [derived for derived in self.layout.derived.values() if derived.stratum == stratum]
        if any(derived.above for derived in here):
            return None
        readers = self.layout.readers
        coming = (readers[derived.relation] for derived in here if derived.relation in readers)
        return min((*self.last.pending, *coming), default=None)

    def next_stratum(self) -> int | None:
        """The lowest stratum that has work, or may have when the messages have come."""
        coming = (self.layout.readers[name] for name in self.last.sent)
        return min((*self.last.pending, *coming), default=None)

    def step(self, action: str, stratum: int = -1) -> None:
        """One superstep of all shards."""
        self.last = self.runner.step(Command(action, stratum))  # type: ignore[arg-type]
        self.work.supersteps += 1
        self.work.messages += sum(self.last.sent.values())
        self.work.bytes += self.last.bytes
        self.work.loads += self.last.loads
        self.work.actions.append(f"{action} {stratum}" if stratum >= 0 else action)


def merged(reports: Iterable[Report]) -> Report:
    """One report of all shards."""
    whole = Report(ended=True)
    for report in reports:
        for stratum, count in report.pending.items():
            whole.pending[stratum] = whole.pending.get(stratum, 0) + count
        for name, count in report.sent.items():
            whole.sent[name] = whole.sent.get(name, 0) + count
        whole.falling += report.falling
        whole.bytes += report.bytes
        whole.loads += report.loads
        whole.ended &= report.ended
        whole.error = whole.error or report.error
    return whole
