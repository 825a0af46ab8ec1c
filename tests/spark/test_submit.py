"""A program that is given to spark-submit: the master is the one that was asked for there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from deltafix.spark.java import find_java, wrap_java

pytestmark = pytest.mark.spark

SUBMITTED = """
from deltafix.spark.session import spark_session

with spark_session() as spark:
    context = spark.sparkContext
    print("master", context.master, context.appName, spark.range(7).count())
    print("zone", spark.conf.get("spark.sql.session.timeZone"))
"""


def test_spark_submit_chooses_the_master(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(SUBMITTED)
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--name", "asked for",
               "--conf", "spark.ui.enabled=false", str(program)]  # fmt: skip
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(wrap_java(find_java(), tmp_path / "java")),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["master local[1] asked for 7", "zone UTC"]
