"""A pipeline that follows tables of PostgreSQL, killed at any step at the server or on the disk.

The process is killed as it is, its connection with it. Invariant asserted after every kill, once a
run has come to its end: relations, views and outputs' deltas are what the tables lead to.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from tests.faults.killing import Killer, forking, killed
from tests.support.amount import cases
from tests.support.tables import World
from tests.targets.job import stepping

from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline

KILLS = 2 if JIT_DISABLED else cases(6)
SERVER = "deltafix.pipeline.sources.replication:Server"
CALLS = [(SERVER, name) for name in ("publish", "begin", "advance", "copy", "changes", "now")]


def step(killer: Killer) -> None:
    """What is asked of the server is a step too."""
    stepping(killer, CALLS)


def run(folder: Path) -> None:
    with Pipeline(read_config(folder / "pipeline.toml")) as pipeline:
        for _ in pipeline.drain():
            pass


def test_agree_after_a_kill_at_any_step(memory, postgres) -> None:
    rng = Random("postgres faults")
    ended = []
    with forking("tests.faults.test_postgres_faults") as runner:
        for number in range(KILLS):
            if number % 6 == 0:  # first looks are killed, too
                folder = memory / f"{number}"
                folder.mkdir()
                world = World(postgres, folder, rng, f"k{os.getpid()}_{number}")
                world.options.clear()  # the driver keeps the rows, as in the process
            for _ in range(3):
                world.meanwhile()
            world.settle()
            ended.append(killed(runner, folder, rng.randrange(40), rng.choice(["die", "late"])))
            if number % 2:
                with world.open() as pipeline:
                    for _ in pipeline.drain():
                        world.check_epoch(pipeline)
                    world.check(pipeline)
            if number % 6 == 5 or number == KILLS - 1:
                world.close()
    assert any(ended)
