"""Tasks of one Spark stage that exchange parcels through the state's folder.

In barrier mode Spark starts all tasks of a stage together and runs all of them again when one is
lost, so a task may wait for another. Its own `allGather` sleeps a second each time; here a task
writes a file for each other one after every step, and waits for theirs. Invariant: a file appears
whole, and what it holds depends only on the rows that the load was given, so it makes no difference
if it is one that an earlier run of the stage has left. The driver removes the folder at the end.
Many tasks would write many files, n x n a step: `MOST` bounds n.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from deltafix.engine.state.frame import check_preamble, pack, preamble, read
from deltafix.spark.shards import wire
from deltafix.spark.shards.load import Parcel
from deltafix.spark.shards.schedule import Report

__all__ = ["MOST", "Rendezvous"]

MOST = 32
"""Tasks that may take part."""

_KIND = "parcels"
_PATIENCE = 3600.0
"""Seconds to wait for a task that Spark has not given up: a step may be long."""


class Rendezvous:
    """Task `me` of `tasks`, which holds the shards whose number leaves `me` when divided."""

    def __init__(self, folder: Path, me: int, tasks: int) -> None:
        self._folder = folder
        self._me = me
        self._tasks = tasks
        self._step = 0

    def exchange(self, report: Report, away: Sequence[Parcel]) -> tuple[list[Report], list[Parcel]]:
        """Write for the others, wait for what they wrote."""
        mine = [parcel for parcel in away if parcel[0] % self._tasks == self._me]
        reports = [report]
        others = [task for task in range(self._tasks) if task != self._me]
        for task in others:
            self._write(task, report, [p for p in away if p[0] % self._tasks == task])
        for task in others:
            theirs, parcels = self._read(task)
            reports.append(theirs)
            mine += parcels
        self._step += 1
        return reports, mine

    def _path(self, sender: int, receiver: int) -> Path:
        return self._folder / f"{self._step}-{sender}-{receiver}"

    def _write(self, task: int, report: Report, parcels: Sequence[Parcel]) -> None:
        path = self._path(self._me, task)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")  # an earlier run may still be at work
        with beside.open("wb") as stream:
            stream.write(preamble(_KIND))
            stream.writelines(pack(1, asdict(report)))
            for shard, batch in parcels:
                for data in wire.pack([batch]):
                    stream.writelines(pack(0, {"shard": shard}, [data]))
            stream.writelines(pack(2, {}))
        beside.replace(path)

    def _read(self, task: int) -> tuple[Report, list[Parcel]]:
        path = self._path(task, self._me)
        began = time.monotonic()
        while not path.exists():
            waited = time.monotonic() - began
            if waited > _PATIENCE:
                raise TimeoutError(f"task {task} has not written {path} for {waited:.0f} s")
            time.sleep(min(0.001 + waited / 10, 0.02))
        data = path.read_bytes()
        frame = read(data, check_preamble(data, _KIND))
        saved = frame.meta
        saved["pending"] = {int(stratum): n for stratum, n in saved["pending"].items()}
        parcels: list[Parcel] = []
        while (frame := read(data, frame.end)).epoch != 2:
            parcels += [(int(frame.meta["shard"]), batch) for batch in wire.unpack(frame.body)]
        return Report(**saved), parcels
