"""A pipeline whose view `can` goes to a target, stops at every step of it, and what must hold then.

`run(folder)` is what a process does that is killed. The steps are those of the disk (`store.disk`)
and the calls that change the target. Not here: the targets.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.faults.killing import Killer, killed
from tests.faults.test_pipeline_faults import PIPELINE, STARTED, prepare
from tests.support import pipelines
from tests.support.pipelines import Job, Row, rows_of

from deltafix.errors import SinkError
from deltafix.pipeline.manifest import read_view
from deltafix.pipeline.targets.target import EpochRows, Target
from deltafix.store import disk

Calls = Iterable[tuple[str, str]]
"""(`module:Class`, method) of each call that changes the target."""


def job_at(folder: Path, section: str) -> Job:
    """The job of the pipeline's faults, with `can` going to a target."""
    job = prepare(folder)
    direct(job, section)
    return job


def direct(job: Job, section: str, view: str = "can") -> None:
    """Have a view go to a target, which a section says."""
    head, _, rest = job.toml.read_text().partition(f"[output.{view}]")
    _, more, others = rest.partition("[output.")
    job.toml.write_text(f"{head}[output.{view}]\n{section}\n{more}{others}")
    job.places.pop(view, None)  # its log is for its target, and dropped behind it


def go(job: Job) -> None:
    with job.open() as pipeline:
        for epoch in pipeline.drain():
            if epoch.epoch == 3:
                pipeline.compact()


def finish(job: Job) -> set[Row]:
    """Run to the end; the log is what it must be. Returns the view."""
    go(job)
    with job.open() as pipeline:
        assert list(pipeline.drain()) == []
        job.check(pipeline)
        view = set(pipeline.maintainer.db.rows("can"))
        at, table = read_view(job.folder / "state" / "outputs" / "can")
        assert (at, rows_of(table)) == (pipeline.maintainer.epoch, view)
        return view


def run(folder: Path) -> None:
    """What a killed process does: the pipeline as the folder has it."""
    pipelines.KEEPER = (folder / "keeper").read_text()
    go(Job(folder, text=STARTED, pipeline=PIPELINE, rewrite=False))


def stepping(killer: Killer, calls: Calls) -> Callable[[], None]:
    """Have the target's calls counted, and killed at, as the disk's; returns what undoes it."""
    undo: list[tuple[Any, str, Any]] = []
    for place, name in calls:
        module, _, attribute = place.partition(":")
        owner = import_module(module)
        for part in filter(None, attribute.split(".")):
            owner = getattr(owner, part)
        real = getattr(owner, name)
        undo.append((owner, name, real))
        setattr(owner, name, killer.step(name, real))
    return lambda: [setattr(*one) for one in undo] and None


def steps_of(job: Job, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    counter = Killer(-1, "die")
    undo = stepping(counter, calls)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", counter)
            go(job)
    finally:
        undo()
    return counter.seen


def kill_everywhere(
    runner: subprocess.Popen[str], origin: Path, seen: list[str], names: set[str], kills: int, *,
    check: Callable[[Path, int], None], section: Callable[[int], str],
) -> None:  # fmt: skip
    """Kill at steps spread over the run and at all calls of the target; `check` what is left."""
    rng = Random("targets")
    wanted = [at for at, name in enumerate(seen) if name in names]
    assert wanted, "the target was never called"
    chosen = rng.sample(wanted, min(len(wanted), kills))
    chosen += rng.sample(range(len(seen)), kills // 2)
    for number, at in enumerate(chosen):
        folder = origin.parent / f"killed-{number}"
        shutil.copytree(origin, folder)
        job = prepare(folder)
        direct(job, section(number))
        assert killed(runner, folder, at, rng.choice(["die", "late"])), (at, len(seen))
        if number % 2:
            killed(runner, folder, rng.randrange(30), rng.choice(["die", "late"]))
        check(folder, number)
        shutil.rmtree(folder)


def replayed(signed: Iterable[tuple[int, Mapping[str, Any] | Row, int]]) -> set[Row]:
    """The view that signed rows in order of epochs lead to; each delta is net."""
    view: set[Row] = set()
    for sign, row, _ in sorted(signed, key=lambda one: (one[2], one[0])):
        values = tuple(row.values()) if isinstance(row, Mapping) else row
        assert (values in view) == (sign < 0), (sign, values)
        (view.remove if sign < 0 else view.add)(values)
    return view


def apply_at_once(writers: Iterable[Target], rows: EpochRows) -> list[SinkError]:
    """Let each writer apply the epoch in a thread of its own; returns what was refused."""
    refused: list[SinkError] = []

    def write(target: Target) -> None:
        try:
            target.apply(rows)
        except SinkError as error:
            refused.append(error)

    threads = [threading.Thread(target=write, args=(target,)) for target in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused
