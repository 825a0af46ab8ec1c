"""DuckDB: base tables are edited, a recursive CTE is evaluated again (with all cores)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.outcome import Changes, Outcome, drive
from bench.peers.base import Peer, installed
from bench.workload import Workload, answer

__all__ = ["make"]

_QUERY = {
    "reach": """
        create or replace table reach as
        with recursive reach(c0) as (
            select c0 from root
            union select edge.c1 from reach join edge on reach.c0 = edge.c0)
        select c0 from reach""",
    "tc": """
        create or replace table path as
        with recursive path(c0, c1) as (
            select c0, c1 from edge
            union select path.c0, edge.c1 from path join edge on path.c1 = edge.c0)
        select c0, c1 from path""",
}


class _Session:
    def __init__(self, workload: Workload) -> None:
        import duckdb
        import pyarrow as pa

        self._arrow = pa
        self._workload = workload
        self._db = duckdb.connect()
        self._tables = {name: self._table(rows) for name, rows in workload.inputs.items()}

    def _table(self, rows: Any) -> Any:
        columns = {f"c{i}": np.ascontiguousarray(rows[:, i]) for i in range(rows.shape[1])}
        return self._arrow.table(columns)

    def _evaluate(self) -> None:
        self._db.execute(_QUERY[self._workload.kind])

    def load(self) -> None:
        for name, table in self._tables.items():
            self._db.register("given", table)
            self._db.execute(f"create table {name} as select * from given")
            self._db.unregister("given")
        self._evaluate()

    def apply(self, changes: Changes, evaluate: bool) -> None:
        for name, (deleted, inserted) in changes.items():
            for rows, statement in ((deleted, "delete"), (inserted, "insert")):
                if not len(rows):
                    continue
                self._db.register("given", self._table(rows))
                if statement == "insert":
                    self._db.execute(f"insert into {name} select * from given")
                else:
                    same = " and ".join(f"{name}.c{i} = given.c{i}" for i in range(rows.shape[1]))
                    self._db.execute(f"delete from {name} using given where {same}")
                self._db.unregister("given")
        if evaluate:
            self._evaluate()

    def answers(self) -> dict[str, list[Any]]:
        found = {}
        for name in self._workload.outputs:
            columns = self._db.execute(f"select * from {name}").fetchnumpy()
            rows = np.stack([np.asarray(c, np.int64) for c in columns.values()], axis=1)
            found[name] = list(answer(rows))
        return found

    def counters(self) -> tuple[int, int] | None:
        return None


class _DuckDB(Peer):
    mode = "recompute"

    def missing(self) -> str | None:
        return None if installed("duckdb") else "not installed (pip install duckdb)"

    def version(self) -> str:
        return installed("duckdb") or ""

    def cannot(self, workload: Workload) -> str | None:
        if workload.kind in _QUERY:
            return None
        return "a recursive CTE has one relation and linear recursion"

    def run(self, workload: Workload, folder: Path, outcome: Outcome, deadline: float) -> Outcome:
        return drive(_Session(workload), workload, outcome, deadline)


def make(variant: str) -> Peer:
    """The adapter; there is one variant."""
    return _DuckDB()
