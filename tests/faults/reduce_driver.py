"""A driver that runs one streaming reduction and kills itself (-9) at a step given to it.

    python reduce_driver.py <folder> <steps> driver|machine

Reads `in/*.parquet` a file a batch, keeps its state in `state`, Spark's progress in `checkpoint`,
and writes each batch's result to `out/<batch>.json`. A step is passed before and after each rename
that commits something and each write of the sink; at the given one the process is gone, alone or
with the JVM beside it, as when a machine stops. 0 steps: it runs to the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from deltafix.reactive import Min, Sum, product
from deltafix.spark.reduce import BatchResult, StreamReduce
from deltafix.spark.session import spark_session

REDUCER = product(Sum(), Min())


def main(folder: Path, steps: int, dies: str) -> None:
    left = steps
    replace = os.replace

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            kill = os.killpg if dies == "machine" else os.kill
            kill(os.getpid(), signal.SIGKILL)  # it leads its group

    def counted(source: str | Path, target: str | Path) -> None:
        step()
        replace(source, target)
        step()

    os.replace = counted
    reduce = StreamReduce(REDUCER, folder / "state")

    def sink(result: BatchResult) -> None:
        step()
        columns = [result.delta.column(name).to_pylist() for name in ("key", "value", "sign")]
        rows = sorted(map(list, zip(*columns, strict=True)), key=repr)
        path = folder / "out" / f"{result.batch:03d}.json"
        if path.is_file() and json.loads(path.read_text()) != json.loads(json.dumps(rows)):
            raise ValueError(f"batch {result.batch} came again, and different")
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(rows))
        replace(partial, path)
        step()

    with spark_session(master="local[1]") as spark:
        (
            spark.readStream.schema("key string, value long, sign byte")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "in"))
            .writeStream.foreachBatch(reduce.for_each_batch(sink))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
