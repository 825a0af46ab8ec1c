"""Which epoch an Iceberg table holds, beside a model that remembers what every writer did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from deltafix.errors import SinkError
from deltafix.pipeline.targets.ancestry import EPOCH, OUTPUT, Ancestor, held, note


@dataclass
class Table:
    """A table's snapshots, and what epoch each of them holds."""

    format: int
    snapshots: dict[int, Ancestor] = field(default_factory=dict)
    epochs: dict[int, int | None] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    current: int | None = None
    made: int = 0

    def commit(self, epoch: int | None, *, marked: bool = False) -> None:
        """A snapshot of ours, with a mark or without; or, for None, of somebody else's."""
        self.made += 1
        summary = {OUTPUT: "ours", EPOCH: str(epoch)} if marked else {OUTPUT: "theirs", EPOCH: "99"}
        number = 1000 + self.made * 37 % 101  # in no order
        sequence = self.made if self.format > 1 else 0
        self.snapshots[number] = Ancestor(number, sequence, self.current, "append", summary)
        below = None if self.current is None else self.epochs[self.current]
        self.epochs[number] = below if epoch is None else epoch
        self.current = number

    def ancestors(self) -> Iterator[Ancestor]:
        at = self.current
        while at in self.snapshots:
            yield self.snapshots[at]
            at = self.snapshots[at].parent

    def say(self, epoch: int) -> None:
        """The property, as a writer leaves it behind its snapshot."""
        self.properties["ours"] = note(epoch, next(self.ancestors(), None))


def test_oracle_a_table_never_holds_what_it_lost() -> None:
    rng = Random("ancestry")
    answers = {"held": 0, "went back": 0, "behind": 0, "expired": 0}
    for _ in range(2_000):
        table, epoch = Table(format=rng.choice([1, 2, 2])), 0
        noted = went_back = False
        marks = rng.choice([0.0, 0.5, 1.0])
        for _ in range(rng.randrange(1, 9)):
            move = rng.random()
            if move < 0.5:
                epoch += 1
                noted = rng.random() < 0.8  # else it was stopped ahead of the property
                table.commit(epoch, marked=rng.random() < marks)
                if noted:
                    table.say(epoch)
                went_back = False
            elif move < 0.7:
                table.commit(None)
            elif table.snapshots and move < 0.9:
                old = table.current
                table.current = rng.choice(sorted(table.snapshots))
                went_back |= table.current != old
        expired = rng.random() < 0.2 and table.current is not None
        if expired:
            assert table.current is not None
            table.snapshots = {table.current: table.snapshots[table.current]}
        truth = None if table.current is None else table.epochs[table.current]
        try:
            found = held("t", "ours", table.ancestors(), table.properties)
        except SinkError as error:
            assert "t went back: epoch" in str(error)
            assert went_back or not noted or expired
            answers["went back"] += 1
            continue
        if expired and went_back:  # what led to the current one is gone: nobody can tell
            answers["expired"] += 1
        elif found == truth:
            answers["held"] += 1
        else:  # a snapshot without mark or property: its epoch is applied again
            assert (found or 0) < (truth or 0)
            answers["behind"] += 1
    assert min(answers.values()) > 20, answers


def test_a_table_that_was_made_anew() -> None:
    with pytest.raises(SinkError, match="went back: epoch 7 of this output made its snapshot 5"):
        held("t", "ours", (), {"ours": "7 5 1"})
    assert held("t", "ours", (), {"ours": "7"}) == 7  # the epoch made no snapshot
    assert held("t", "ours", (), {}) is None
