"""Tasks of one Spark stage that exchange parcels through the state's folder.

In barrier mode Spark starts all tasks of a stage together and runs all of them again when one is
lost, so a task may wait for another. Its own `allGather` sleeps a second each time; here a task
writes one file after every step, a section for each other task, and reads its sections of theirs.
Invariant: a file appears whole, and what it holds depends only on the rows that the load was given,
so it makes no difference if it is one that an earlier run of the stage has left. The driver removes
the folder at the end.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from deltafix.spark.shards import wire
from deltafix.spark.shards.load import Parcel
from deltafix.spark.shards.schedule import Report
from deltafix.store.frame import check_preamble, pack, preamble, read

__all__ = ["Rendezvous"]

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
        mine: list[Parcel] = []
        parcels: dict[int, list[Parcel]] = {}
        for parcel in away:
            task = parcel[0] % self._tasks
            (mine if task == self._me else parcels.setdefault(task, [])).append(parcel)
        reports = [report]
        if self._tasks > 1:
            self._write(report, parcels)
        for task in range(self._tasks):
            if task != self._me:
                theirs, came = self._read(task)
                reports.append(theirs)
                mine += came
        self._step += 1
        return reports, mine

    def _path(self, sender: int) -> Path:
        return self._folder / f"{self._step}-{sender}"

    def _write(self, report: Report, parcels: dict[int, list[Parcel]]) -> None:
        path = self._path(self._me)
        path.parent.mkdir(parents=True, exist_ok=True)
        sections = {task: [*_frames(some)] for task, some in parcels.items()}
        places, end = {}, 0
        for task, pieces in sections.items():
            places[task] = [end, end := end + sum(memoryview(piece).nbytes for piece in pieces)]
        beside = path.with_suffix(f".{os.getpid()}")  # an earlier run may still be at work
        with beside.open("wb") as stream:  # not synced: it is worth nothing after a crash
            stream.write(preamble(_KIND))
            stream.writelines(pack(1, {"report": asdict(report), "places": places}))
            for pieces in sections.values():
                stream.writelines(pieces)
        beside.replace(path)

    def _read(self, task: int) -> tuple[Report, list[Parcel]]:
        path = self._path(task)
        began = time.monotonic()
        while not path.exists():
            waited = time.monotonic() - began
            if waited > _PATIENCE:
                raise TimeoutError(f"task {task} has not written {path} for {waited:.0f} s")
            time.sleep(min(0.001 + waited / 10, 0.02))
        # Mapped: of a file that has a section for every task only one's own is read.
        with path.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        frame = read(data, check_preamble(data, _KIND, str(path)))
        saved = frame.meta["report"]
        saved["pending"] = {int(stratum): n for stratum, n in saved["pending"].items()}
        place, end = frame.meta["places"].get(str(self._me), (0, 0))
        start = frame.end
        parcels: list[Parcel] = []
        while place < end:
            frame = read(data, start + place)
            parcels += [(int(frame.meta["shard"]), batch) for batch in wire.unpack(frame.body)]
            place = frame.end - start
        return Report(**saved), parcels


def _frames(parcels: Iterable[Parcel]) -> Iterator[bytes | memoryview]:
    for shard, batch in parcels:
        for data in wire.pack([batch]):
            yield from pack(0, {"shard": shard}, [data])
