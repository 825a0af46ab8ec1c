"""Requests into a pipeline, killed at any step: whoever sends them again has them in once.

Rows are counted (`duplicates = "count"`), so that one that is in twice stays behind its delete.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from tests.faults.killing import Killer, forking, killed
from tests.support.amount import cases
from tests.unit.pipeline.test_requests import grant, job_of, member, serving

from deltafix.store import disk

KILLS = cases(6, fuzz=60)
MORE = 'duplicates = "count"'
REQUESTS = [
    ("member", member("a", "b"), member("b", "c")),
    ("grant", grant("c", 1)),
    ("member", member("a", "b"), member("c", "c")),
    ("member", member("a", "b", "-"), member("b", "c", "-")),
    ("grant", grant("b", 2), grant("c", 1, "-")),
    ("member", member("a", "b", "-"), member("a", "c")),
]
LEFT = {"member": {("a", "c"), ("c", "c")}, "grant": {("b", 2)}}


def run(folder: Path) -> None:
    """What a killed process does: it is served, and sends all requests to itself."""
    job = job_of(folder, MORE)
    job.rows = {name: set(rows) for name, rows in LEFT.items()}
    with serving(job) as client:
        for number, (name, *rows) in enumerate(REQUESTS):
            code, said = client.post(name, *rows, query="?changes=*", idempotency_key=str(number))
            assert code == 200, said


def test_oracle_after_a_kill_at_any_step_requests_that_come_again_are_in_once(
    tmp_path, monkeypatch
) -> None:
    counter = Killer(-1, "die")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "os", counter)
        run(tmp_path / "counted")
    rng, dead = Random("requests"), 0
    with forking("tests.faults.test_requests_faults") as runner:
        for number, at in enumerate(rng.sample(range(len(counter.seen)), KILLS)):
            folder = tmp_path / f"killed-{number}"
            dead += killed(runner, folder, at, rng.choice(["die", "tear", "late"]))
            if number % 2:
                killed(runner, folder, rng.randrange(20), "die")
            run(folder)  # with the same keys; `serving` checks what is left
            shutil.rmtree(folder)
    assert dead == KILLS
