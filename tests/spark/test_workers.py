"""What a worker does around each task: zips are read when they change, modules collected once."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile

import pyarrow as pa
import pytest

COUNTED = """
import importlib, sys, zipimport
reads = []
read = zipimport._read_directory
zipimport._read_directory = lambda archive: reads.append(archive) or read(archive)
"""
CHANGED = f"""{COUNTED}
from pathlib import Path
from zipfile import ZipFile
from deltafix.spark.workers import read_when_changed
archive = sys.argv[1]
sys.path.insert(0, archive)
import here.one
read_when_changed()
importlib.invalidate_caches()
del reads[:]
for _ in range(3):
    importlib.invalidate_caches()
assert reads == [], reads
with ZipFile(archive, "a") as stream:
    stream.writestr("here/two.py", "NAME = 2")
importlib.invalidate_caches()
assert importlib.import_module("here.two").NAME == 2
Path(archive).unlink()
importlib.invalidate_caches()
assert importlib.util.find_spec("here.three") is None
"""


def test_an_archive_that_changes_is_read_again(tmp_path) -> None:
    archive = tmp_path / "some.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("here/__init__.py", "")
        stream.writestr("here/one.py", "")
    ran = subprocess.run(
        [sys.executable, "-c", CHANGED, str(archive)], check=False, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.spark
def test_a_task_reads_no_archive_that_is_as_it_was(spark) -> None:
    def count(batches):
        import zipimport

        import deltafix.spark

        assert deltafix.spark.__doc__
        importlib.invalidate_caches()
        reads, read = [], zipimport._read_directory
        zipimport._read_directory = lambda archive: reads.append(archive) or read(archive)
        importlib.invalidate_caches()
        zipimport._read_directory = read
        list(batches)
        yield pa.RecordBatch.from_pydict({"id": [len(reads)]})

    rows = spark.range(1).coalesce(1).mapInArrow(count, "id long").collect()
    assert [row.id for row in rows] == [0]


@pytest.mark.spark
def test_no_walk_through_all_modules_follows_a_task(spark) -> None:
    def count(batches):
        import gc

        import deltafix.spark

        assert deltafix.spark.__doc__
        list(batches)
        names = {"walked": [len(gc.get_objects())], "left alone": [gc.get_freeze_count()]}
        yield pa.RecordBatch.from_pydict(names)

    frame = spark.range(1).coalesce(1).mapInArrow(count, "walked long, `left alone` long")
    for _ in range(4):  # two workers take turns
        walked, left = frame.collect()[0]
    assert left > 10 * walked > 0
