"""What a worker of Spark would do around every task, and does once.

Before a task PySpark has Python forget what it knows of its path (`importlib.invalidate_caches`),
and Python before 3.13 then reads the directory of each zip there and then, once for every package
that came from it. With pyspark.zip that was two thirds of what workers did in short jobs. Python
3.13 waits until something is imported: https://github.com/python/cpython/issues/103200

Behind a task PySpark has Python collect what is dead (`pyspark.daemon`), which walks all that is
there, half a million objects of modules: three quarters of what workers then did in short jobs.

Invariant: what a task sees is as before. Not here: what tasks do (`net`, `ingest`, `shards`).
"""

from __future__ import annotations

import gc
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


def freeze_modules() -> None:
    """Have this process collect what came after its modules.

    What is alive when a full collection ends behind which there are new modules is walked no more.
    Modules stop coming, so what of it dies later in cycles, and is not freed, does not add up.
    """
    known = 0

    def ended(phase: str, about: dict[str, int]) -> None:
        nonlocal known
        if phase == "stop" and about["generation"] == 2 and len(sys.modules) > known:
            known = len(sys.modules)
            gc.freeze()

    gc.callbacks.append(ended)
