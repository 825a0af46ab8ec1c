"""What a keyed input says, by sorting all of it: the judge of `key` and `sequence_by`.

`judge` keeps every word of every key to the end, and only then asks which is the highest.
Invariant: nothing here knows of states, tombstones, files or epochs, so the answer cannot depend on
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.judges.oracle_inputs import JUNK

Row = tuple[object, ...]


@dataclass(frozen=True)
class Change:
    """Signed rows that come together, of one sequence; `junk` names why it cannot be read.

    `partition` is whose changes they are late beside.
    What a row that is taken out says beside its key means nothing.
    """

    images: tuple[tuple[int, Row], ...] = ()
    sequence: tuple[int, ...] = ()
    junk: str = ""
    partition: str = ""


@dataclass(frozen=True)
class Keys:
    """Places of the key's columns, how many columns the sequence has, and what is late."""

    key: tuple[int, ...]
    sequence: int
    late: str = "apply"
    lateness: int = 0

    def of(self, row: Row) -> Row:
        """The key of a row."""
        return tuple(row[place] for place in self.key)

    def bare(self, row: Row) -> Row:
        """A row with nothing in it but its key."""
        return tuple(value if place in self.key else None for place, value in enumerate(row))


@dataclass
class Judged:
    """The rows that hold, and what was set aside, by reason and row."""

    rows: set[Row] = field(default_factory=set)
    aside: Counter = field(default_factory=Counter)


def judge(changes: Iterable[Change], keys: Keys) -> Judged:
    """Take all changes; the order in which they come matters for what is late, and for ties."""
    judged = Judged()
    words: dict[Row, list] = {}
    highs: dict[str, int] = {}
    for place, change in enumerate(changes):
        if change.junk:
            judged.aside[JUNK, ()] += 1
            continue
        for part, (sign, row) in enumerate(change.images):
            if keys.sequence:
                at = change.sequence[0]
                high = highs.get(change.partition)
                limit = None if high is None else high - keys.lateness
                highs[change.partition] = at if high is None else max(at, high)
                if keys.late != "apply" and limit is not None and at < limit:
                    shown = row if sign > 0 else keys.bare(row)
                    if keys.late == "bad":
                        judged.aside[f"late: its version is below {limit}", shown] += 1
                    continue
            said = change.sequence[: keys.sequence] if keys.sequence else (place, part)
            words.setdefault(keys.of(row), []).append((said, sign, row if sign > 0 else ()))
    for some in words.values():
        _, sign, row = max(some)
        if sign > 0:
            judged.rows.add(row)
    return judged


def unordered(changes: Sequence[Change]) -> list[Change]:
    """The same changes in another order, some of them said again."""
    return [*changes[::-1], *changes[::3]]
