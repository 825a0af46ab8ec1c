"""Tables of PostgreSQL as inputs: random transactions, runs that are killed, and what must hold.

Transactions (inserts, updates, moves of keys, deletes, truncations, rollbacks, savepoints, two at a
time) go on between any two things that a pipeline asks the server; runs end before or behind each
of them, or at a step on the disk. Invariant asserted after every epoch: each relation is what its
table held at the mark, as it was noted with each commit; after a whole run it is what the table
holds, and outputs' deltas lead to the views, nothing twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import pytest
from pytest import MonkeyPatch  # noqa: PT013
from tests.faults.killing import Halted, halting
from tests.support.amount import cases
from tests.support.tables import World

from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.sources.replication import Server

SEEDS = 1 if JIT_DISABLED else cases(2)
STEPS = (
    "require_logical", "table", "publish", "slot", "begin", "still", "advance", "now", "copy",
)  # fmt: skip


class Between:
    """What happens between a pipeline's steps at the server: transactions, the end of the run."""

    def __init__(self, world: World, *, at: int = -1, late: bool = False, lively: bool) -> None:
        self.world, self.at, self.late, self.lively = world, at, late, lively
        self.seen = 0

    def step(self, act: Callable[[], Any], name: str) -> Any:
        number, self.seen = self.seen, self.seen + 1
        if self.at in range(number + (not self.late)):
            raise Halted
        if self.lively and self.world.rng.random() < 0.3:
            self.world.meanwhile()
        if name == "begin":
            self.world.settle()  # a slot is made when what is open has ended
            self.lively, lively = False, self.lively
            found = act()
            self.lively = lively
        else:
            found = act()
        if number == self.at:
            raise Halted
        return found

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with MonkeyPatch.context() as patch:
            for name in STEPS:
                patch.setattr(Server, name, self.stepped(name, getattr(Server, name)))
            patch.setattr(Server, "changes", self.told(Server.changes))
            yield

    def stepped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda server, *args: self.step(lambda: real(server, *args), name)

    def told(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(server: Server, *args: Any) -> Iterator[bytes]:
            for data in self.step(lambda: real(server, *args), "changes"):
                if self.at == self.seen:
                    raise Halted
                yield data

        return stepped


def run(world: World, *, whole: bool, lively: bool) -> int:
    """A run; `whole` ones end by themselves. How many epochs were compared with the tables."""
    rng, judged = world.rng, 0
    between = Between(
        world, at=-1 if whole else rng.randrange(60), late=rng.random() < 0.5, lively=lively
    )
    disk = -1 if whole or rng.random() < 0.5 else rng.randrange(60)
    mode = rng.choice(["die", "tear", "late"])
    with (
        suppress(Halted),
        halting(disk if disk >= 0 else 1 << 30, mode),
        between(),
        world.open() as pipeline,
    ):
        for number, _ in enumerate(pipeline.drain()):
            judged += world.check_epoch(pipeline)
            between.lively = lively and number < 20
    return judged


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_with_the_tables_after_any_epoch_and_kill(seed, memory, postgres, judged) -> None:
    rng = Random(f"postgres {seed}")
    world = World(postgres, memory, rng, f"t{os.getpid()}_{seed}")
    compared = 0
    try:
        world.meanwhile()
        for turn in range(9):
            if rng.random() < 0.7:
                world.meanwhile()
            compared += run(world, whole=turn % 3 == 2, lively=rng.random() < 0.6)
        world.settle()
        compared += run(world, whole=True, lively=False)
        with world.open() as pipeline:
            assert list(pipeline.drain()) == []
            world.check(pipeline)
    finally:
        world.close()
    assert compared
    judged["epochs beside tables of PostgreSQL"] += compared
