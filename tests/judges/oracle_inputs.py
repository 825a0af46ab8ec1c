"""What an input says, taken one row at a time: the judge of how pipelines read.

A message is one row with a sign, or an envelope of two, or one that cannot be read. `judge` takes
messages in order and gives the rows that hold (with how often each is there), and what is set
aside. Invariant: nothing here knows of files, looks, epochs or batches, so the answer cannot
depend on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

Row = tuple[object, ...]

ABSENT = "delete of a row that is not there"
THERE = "insert of a row that is there"
JUNK = "cannot be read"


@dataclass(frozen=True)
class Message:
    """Signed rows that come together, of one version; `junk` names why it cannot be read.

    `partition` is whose messages they are late beside.
    """

    images: tuple[tuple[int, Row], ...] = ()
    version: int = 0
    junk: str = ""
    partition: str = ""


@dataclass(frozen=True)
class Options:
    """The named options of an input."""

    missing: str = "bad"
    duplicates: str = "ignore"
    late: str = "apply"
    lateness: int = 0


@dataclass
class Judged:
    """Rows that hold and how often each was put in; what was set aside, by reason and row.

    `high` is the highest version of each partition.
    """

    times: Counter = field(default_factory=Counter)
    aside: Counter = field(default_factory=Counter)
    high: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> set[Row]:
        """The rows that hold."""
        return set(self.times)

    def take(self, message: Message, options: Options) -> None:
        """The next message."""
        if message.junk:
            self.aside[JUNK, ()] += 1
        for sign, row in message.images:
            if self._is_late(message, row, options):
                continue
            if sign > 0:
                self._put_in(row, options.duplicates)
            else:
                self._take_out(row, options.missing)

    def _is_late(self, message: Message, row: Row, options: Options) -> bool:
        version, high = message.version, self.high.get(message.partition)
        self.high[message.partition] = version if high is None else max(version, high)
        if options.late == "apply" or high is None or version >= high - options.lateness:
            return False
        if options.late == "bad":
            self.aside[f"late: its version is below {high - options.lateness}", row] += 1
        return True

    def _put_in(self, row: Row, duplicates: str) -> None:
        if not self.times[row] or duplicates == "count":
            self.times[row] += 1
        elif duplicates == "bad":
            self.aside[THERE, row] += 1

    def _take_out(self, row: Row, missing: str) -> None:
        if self.times[row]:
            self.times[row] -= 1
        elif missing == "bad":
            self.aside[ABSENT, row] += 1
        self.times += Counter()  # rows that are there no more leave


def judge(messages: Iterable[Message], options: Options) -> Judged:
    """Take all messages, in order."""
    judged = Judged()
    for message in messages:
        judged.take(message, options)
    return judged
