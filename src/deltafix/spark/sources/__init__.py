"""Inputs that Spark reads: files, topics, and whatever it has a reader for; large trees.

Map: `files` (folders), `frames` (DataFrames), `batch` (all rows, and change feeds), `lakes` (tables
of Delta and Iceberg), `stream` (streaming queries), `kafka` (topics) and `live` (the session, one
job an epoch); `deltafix.spark.net` is what tasks do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from deltafix.errors import ConfigError
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import Config, InputConfig
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Source
from deltafix.pipeline.runner import MakeSource
from deltafix.pipeline.sources import registry
from deltafix.pipeline.sources.tree import FACTS
from deltafix.spark.ingest import map_batches
from deltafix.spark.sources.batch import SparkChanges, SparkSnapshot
from deltafix.spark.sources.files import SparkByFile, SparkChangeFiles, SparkSnapshots
from deltafix.spark.sources.kafka import KafkaTopic
from deltafix.spark.sources.lakes import SparkDelta, SparkIceberg
from deltafix.spark.sources.live import LiveSpark
from deltafix.spark.sources.stream import SparkStream
from deltafix.store.folder import OBJECTS

__all__ = ["on_spark"]

_FRAMES: Mapping[tuple[str, str], Callable[..., Source]] = {
    ("delta", ""): SparkDelta,
    ("iceberg", ""): SparkIceberg,
    ("kafka", ""): KafkaTopic,
    ("spark", "changes"): SparkChanges,
    ("spark", "snapshot"): SparkSnapshot,
    ("spark", "stream"): SparkStream,
}
"""By source and mode."""


def on_spark(live: LiveSpark | None = None) -> MakeSource:
    """What makes the sources of a pipeline that Spark reads: one session, one job an epoch.

    The session at hand is used, or one is started with the settings of the pipeline's `[spark]`,
    not before it is needed; that of `live`, if it is given. What is given back raises ConfigError.
    """
    lives: list[LiveSpark] = [] if live is None else [live]

    def make(config: Config, input_: InputConfig, schemas: Mapping[str, Schema]) -> Source:
        if not lives:
            lives.append(LiveSpark(config.spark))
        live = lives[0]
        policy = Policy.of(input_.values, config.values["bad_rows"])
        schema = schemas[input_.relations[0]]
        kind = _FRAMES.get((input_.source, input_.values.get("mode", "")))
        if kind is SparkStream:
            return SparkStream(live, input_.name, schema, input_.values, policy, state=config.state)
        if kind is not None:
            return kind(live, input_.name, schema, input_.values, policy)
        if input_.source not in ("files", "snapshot"):
            return registry.make_source(config, input_, schemas, partial(_map_files, live))
        if input_.values["path"].partition("://")[0] in OBJECTS:
            message = (
                f"{config.path}: [input.{input_.name}] path = {input_.values['path']!r}: an object "
                "store "
                'is read with runner = "local", or by Spark with source = "spark"'
            )
            raise ConfigError(message, key="path", value=input_.values["path"])
        folder, reader = registry.folder_of(input_, schema)
        if input_.source == "files" and input_.values["mode"] == "changes":
            return SparkChangeFiles(input_.name, folder, reader, policy, live)
        whole = SparkSnapshots if input_.source == "snapshot" else SparkByFile
        return whole(input_.name, folder, reader, quarantine=policy.quarantine, live=live)

    return make


def _map_files(
    live: LiveSpark, paths: pa.Table, function: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> pa.Table:
    """Extract on Spark's workers."""
    return map_batches(live.session(), paths, function, FACTS)
