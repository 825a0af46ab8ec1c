"""What the job runs: the pipeline file that it is given, in the session that is there."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from deltafix.cli.main import main

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    file = Path(os.path.abspath(sys.argv[0])).with_name(sys.argv[1])
    main(["pipeline", "run", str(file)])
