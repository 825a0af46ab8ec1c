"""Archives on the path of a worker are read when they change, not before every task.

PySpark has Python forget what it knows of its path before each task
(`importlib.invalidate_caches`), and Python before 3.13 then reads the directory of each zip there
and then, once for every package that came from it. With pyspark.zip that was two thirds of what
workers did in short jobs. Python 3.13 waits until something is imported:
https://github.com/python/cpython/issues/103200
"""

from __future__ import annotations

import os
import sys
from zipimport import zipimporter


def in_worker() -> bool:
    """Whether this process was started by Spark to run tasks."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name in ("pyspark.daemon", "pyspark.worker")


def read_when_changed() -> None:
    """Have this process read an archive anew only if its file is another than when last read."""
    if sys.version_info >= (3, 13):
        return
    read = zipimporter.invalidate_caches
    stamps: dict[zipimporter, tuple[int, int] | None] = {}

    def invalidate_caches(self: zipimporter) -> None:
        try:
            status = os.stat(self.archive)
        except OSError:
            stamp = None
        else:
            stamp = status.st_mtime_ns, status.st_size
        if stamp is None or stamps.get(self) != stamp:
            read(self)
            stamps[self] = stamp

    setattr(zipimporter, invalidate_caches.__name__, invalidate_caches)
