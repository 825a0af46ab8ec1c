"""Inputs that Spark reads: catalog tables with their change feeds, Kafka topics, large trees.

Map: `table` and `feeds` (tables, change feeds), `kafka` and `topic` (topics), `live` (the session).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from deltafix.facts.schema import Schema
from deltafix.pipeline.config import Config, InputConfig
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Source
from deltafix.pipeline.sources import registry
from deltafix.pipeline.sources.tree import FACTS
from deltafix.spark.ingest import map_batches
from deltafix.spark.session import spark_session
from deltafix.spark.sources.kafka import KafkaTopic
from deltafix.spark.sources.table import SparkTable

__all__ = ["make_source"]

_SINGLE: Mapping[str, Callable[..., Source]] = {"table": SparkTable, "kafka": KafkaTopic}


def make_source(config: Config, one: InputConfig, schemas: Mapping[str, Schema]) -> Source:
    """The source of any input: Spark's own kinds here, the others by this process.

    Starts no session before it is needed. Raises ConfigError.
    """
    kind = _SINGLE.get(one.source)
    if kind is None:
        return registry.make_source(config, one, schemas, partial(_map_files, config.spark))
    policy = Policy.of(one.values, config.values["bad_rows"])
    return kind(one.name, schemas[one.relations[0]], one.values, policy, config.spark)


def _map_files(
    options: Mapping[str, str],
    paths: pa.Table,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> pa.Table:
    """Extract on Spark's workers, in the session at hand or in one for this."""
    with spark_session(options=options) as session:
        return map_batches(session, paths, function, FACTS)
