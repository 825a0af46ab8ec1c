"""What `test_shards_cluster` runs as a process of its own: two epochs on a cluster, rows printed.

Usage: python cluster_job.py MASTER STATE LENGTH. A file `go-1`, `go-2` in STATE's parent is made
before each epoch, so that the test knows when to strike.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deltafix.facts.delta import Delta
from deltafix.spark.session import spark_session
from deltafix.spark.shards import ShardedDatabase

REACH = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl reach(x: number)
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
"""
OPTIONS = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}


def main(master: str, state: Path, length: int) -> None:
    """A chain is loaded, then cut at its second edge."""
    chain = [(n, n + 1) for n in range(length)]
    epochs = [{"root": ([(0,)], []), "edge": (chain, [])}, {"edge": ([], [(1, 2)])}]
    with (
        spark_session(master=master, options=OPTIONS) as session,
        ShardedDatabase(REACH, session, shards=2, state=state, executor="shards") as db,
    ):
        for number, change in enumerate(epochs, start=1):
            (state.parent / f"go-{number}").touch()
            delta = db.apply(Delta.of(change, db.schemas.values()))
            rows = [row[0] for row in db.rows("reach")]
            changed = [[sign, row[0]] for sign, row in delta["reach"].signed()]
            print(json.dumps({"rows": rows, "changed": changed, "steps": db.work.supersteps}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
