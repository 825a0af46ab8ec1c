"""Tasks of one Spark stage that exchange parcels through the state's folder.

In barrier mode Spark starts all tasks of a stage together and ends all of them when one is lost, so
a task may wait for another; who asked for them runs all again, in another folder (`onspark`). Its
own `allGather` sleeps a second each time; here a task writes a file after every step, with a
section for each other task, then one that says where the sections are; the others wait for that one
and read their sections. Invariant: a file appears whole, and only the tasks of one run see it, all
of which have seen what the driver left in the folder before. The driver removes it at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain

from deltafix.spark import wire
from deltafix.spark.shards.schedule import Report
from deltafix.spark.shards.step import Parcel
from deltafix.store.folder import Folder
from deltafix.store.frame import check_preamble, pack, preamble, read

_KIND = "parcels"
_PARCELS = ".parcels"
_MARK = "mark"
APART = "the folder of the state is another one where this task runs"
"""What a task raises that does not see the driver's mark; the others end with it."""

_PATIENCE = 3600.0
"""Seconds to wait for a task that Spark has not given up: a step may be long."""


def leave_mark(folder: Folder) -> None:
    """Leave what tasks look for before they rely on the folder: whoever sees it sees theirs."""
    folder.write(_MARK, [b"here"], durable=False)


class Rendezvous:
    """Task `me` of `tasks`, which holds the shards whose number leaves `me` when divided."""

    def __init__(self, folder: Folder, me: int, tasks: int) -> None:
        self._folder = folder
        self._me = me
        self._tasks = tasks
        self._step = 0
        if tasks > 1 and folder.look(_MARK) is None:
            raise RuntimeError(APART)

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

    def _name(self, sender: int) -> str:
        return f"{self._step}-{sender}"

    def _write(self, report: Report, parcels: dict[int, list[Parcel]]) -> None:
        sections = {task: [*_frames(some)] for task, some in parcels.items()}
        places, end = {}, 0
        for task, pieces in sections.items():
            places[task] = [end, end := end + sum(memoryview(piece).nbytes for piece in pieces)]
        name = self._name(self._me)
        # Not durable: they are worth nothing after a crash.
        if sections:
            self._folder.write(
                name + _PARCELS, chain.from_iterable(sections.values()), durable=False
            )
        record = pack(1, {"report": asdict(report), "places": places})
        self._folder.write(name, [preamble(_KIND), *record], durable=False)

    def _read(self, task: int) -> tuple[Report, list[Parcel]]:
        name = self._name(task)
        began = time.monotonic()
        while (content := self._folder.look(name)) is None:
            waited = time.monotonic() - began
            if waited > _PATIENCE:
                message = f"task {task} has not written {self._folder}/{name} for {waited:.0f} s"
                raise TimeoutError(message)
            time.sleep(min(0.001 + waited / 10, 0.1))
        offset = check_preamble(content[0], _KIND, f"{self._folder}/{name}")
        meta = read(content[0], offset).meta
        saved = meta["report"]
        saved["pending"] = {int(stratum): n for stratum, n in saved["pending"].items()}
        start, end = meta["places"].get(str(self._me), (0, 0))
        parcels: list[Parcel] = []
        if end > start:
            with self._folder.open(name + _PARCELS) as stream:
                stream.seek(start)
                data = stream.read(end - start)
            offset = 0
            while offset < len(data):
                frame = read(data, offset)
                parcels += [(int(frame.meta["shard"]), batch) for batch in wire.unpack(frame.body)]
                offset = frame.end
        return Report(**saved), parcels


def _frames(parcels: Iterable[Parcel]) -> Iterator[bytes | memoryview]:
    for shard, batch in parcels:
        for data in wire.pack([batch]):
            yield from pack(0, {"shard": shard}, [data])
