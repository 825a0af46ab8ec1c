"""Pathway: sum and min per key over rows from raw int64 files; see bench/reactive.py.

    python reactive_pathway.py <folder>  ->  one JSON line

Runs in an environment that has Pathway, which need not have deltafix. Every epoch ends with a
marker row of a key of its own; the callback that closes the marker's time comes after every change
of that epoch.
"""

from __future__ import annotations

import array
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pathway as pw

WAIT_SECONDS = 120


def read(folder: Path, name: str) -> list[int]:
    numbers = array.array("q")
    numbers.frombytes((folder / f"{name}.i64").read_bytes())
    return numbers.tolist()


def main(folder: Path) -> None:
    keys, values, edits = (read(folder, name) for name in ("keys", "values", "edits"))
    rows: dict[tuple[int, int], list[int]] = {}
    for number, pair in enumerate(zip(keys, values, strict=True)):
        rows.setdefault(pair, []).append(number)
    found: dict[int, tuple[int, int]] = {}
    marked, closed = threading.Event(), threading.Event()
    result: dict[str, Any] = {"times": []}

    def on_change(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        if row["key"] < 0:
            marked.set()
        elif is_addition:
            found[row["key"]] = (row["total"], row["least"])

    def on_time_end(time: int) -> None:
        if marked.is_set():
            marked.clear()
            closed.set()

    class Rows(pw.Schema):
        row: int = pw.column_definition(primary_key=True)
        key: int
        value: int

    class Feed(pw.io.python.ConnectorSubject):
        def _epoch(self, number: int) -> None:
            closed.clear()
            self.next(row=-1 - number, key=-1 - number, value=0)
            self.commit()
            if not closed.wait(WAIT_SECONDS):
                raise TimeoutError

        def run(self) -> None:
            start = time.perf_counter()
            for number, (key, value) in enumerate(zip(keys, values, strict=True)):
                self.next(row=number, key=key, value=value)
            self._epoch(0)
            result["load"] = time.perf_counter() - start
            for at in range(0, len(edits), 3):
                key, old, new = edits[at : at + 3]
                number = rows[key, old].pop()
                rows.setdefault((key, new), []).append(number)
                start = time.perf_counter()
                self.delete(row=number, key=key, value=old)
                self.next(row=number, key=key, value=new)
                self._epoch(1 + at)
                result["times"].append(time.perf_counter() - start)

    stream = pw.io.python.read(Feed(), schema=Rows, autocommit_duration_ms=None)
    table = stream.groupby(pw.this.key).reduce(
        pw.this.key, total=pw.reducers.sum(pw.this.value), least=pw.reducers.min(pw.this.value)
    )
    pw.io.subscribe(table, on_change=on_change, on_time_end=on_time_end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    result["answer"] = [sum(pair[place] for pair in found.values()) for place in (0, 1)]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
