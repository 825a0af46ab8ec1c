"""What `servers.cluster.Driver` runs as a process of its own: a pipeline in shards on a cluster.

Usage: python -m tests.faults.cluster_job MASTER FOLDER OPTIONS; the options, of a session, are
JSON. For each line on its input it takes all there is to take, and says at which epoch it is, or
what it could not do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support import pipelines
from tests.support.pipelines import Job

from deltafix.errors import DeltafixError
from deltafix.pipeline import sink
from deltafix.spark.session import spark_session


def main(master: str, folder: Path, options: dict[str, str]) -> None:
    """Follow the lines."""
    pipelines.RUNNER, pipelines.KEEPER, pipelines.SHARDS = "spark", "shards", 2
    sink.LINK = 1  # what shards wrote becomes files of logs
    job = Job(folder, text=(folder / "access.dl").read_text(), rewrite=False)
    with spark_session(master=master, options=options), job.open() as pipeline:
        for _ in sys.stdin:
            try:
                list(pipeline.drain())
            except DeltafixError as error:
                found = {"error": error.code, "message": str(error)}
            else:
                found = {"epoch": pipeline.maintainer.epoch}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
