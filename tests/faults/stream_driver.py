"""A driver that runs a pipeline over a streaming query and is killed (-9) at a step of its disk.

    python stream_driver.py <folder> <step> <mode>

Reads `p.toml` there; the modes are those of `tests.faults.killing.Killer`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.killing import Killer

from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline
from deltafix.spark.runner import spark_runner
from deltafix.store import disk


def main(folder: Path, step: int, mode: str) -> None:
    config = read_config(folder / "p.toml")
    disk.os = Killer(step, mode)
    with Pipeline(config, **spark_runner(config)._asdict()) as pipeline:
        for _ in pipeline.drain():
            pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
