"""The Spark runner of a pipeline: what reads its inputs, keeps its rows and writes its tables.

Invariant: they share one session, the one at hand or one that is started at the first use; it is
stopped by `close`, whichever of them it was that needed it, if it was started here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deltafix.pipeline.config import Config
from deltafix.pipeline.keeper import Keep
from deltafix.pipeline.runner import MakeSource
from deltafix.pipeline.targets.registry import MakeTarget
from deltafix.spark.keeping import keeping
from deltafix.spark.sources import on_spark
from deltafix.spark.sources.live import LiveSpark
from deltafix.spark.tables import on_tables


class SparkRunner(NamedTuple):
    """Arguments of `Pipeline`: `Pipeline(config, **runner._asdict())`."""

    make_source: MakeSource
    keep: Keep
    make_target: MakeTarget
    close: Callable[[], None]


def spark_runner(config: Config) -> SparkRunner:
    """The runner of a pipeline, with a session of the settings in its `[spark]`."""
    live = LiveSpark(config.spark)
    values = config.values
    keep = keeping(live.session, values["executor"], int(values["shards"]))
    return SparkRunner(on_spark(live), keep, on_tables(live), live.close)
