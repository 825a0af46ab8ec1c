"""Spark: one session builder, views kept in jobs, Arrow in and out; only here is `pyspark` used.

`maintain` keeps views of DataFrames; `pipeline` is a pipeline file said in Python; `register` makes
delta logs readable as `format("deltafix")`; `ship` gives workers this package; `runner` has what a
pipeline file runs on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from deltafix.spark.workers import freeze_modules, in_worker, read_when_changed

if TYPE_CHECKING:
    from deltafix.spark.datasource import register
    from deltafix.spark.listener import EpochListener
    from deltafix.spark.pipelines import SparkPipeline, pipeline
    from deltafix.spark.session import ship
    from deltafix.spark.views import Maintained, maintain

__all__ = [
    "EpochListener",
    "Maintained",
    "SparkPipeline",
    "maintain",
    "pipeline",
    "register",
    "ship",
]

_HOME: Final = {
    "EpochListener": "deltafix.spark.listener",
    "Maintained": "deltafix.spark.views",
    "SparkPipeline": "deltafix.spark.pipelines",
    "maintain": "deltafix.spark.views",
    "pipeline": "deltafix.spark.pipelines",
    "register": "deltafix.spark.datasource",
    "ship": "deltafix.spark.session",
}

if in_worker():
    read_when_changed()
    freeze_modules()


def __getattr__(name: str) -> Any:
    """Load a public name's module when it is first used: importing pyspark takes a second."""
    if name not in _HOME:
        raise AttributeError(f"module 'deltafix.spark' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
