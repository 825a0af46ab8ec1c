"""From the sections of a pipeline file to sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

from deltafix.errors import ConfigError
from deltafix.facts.schema import Schema
from deltafix.spark.pipeline.config import Config, InputConfig
from deltafix.spark.pipeline.decode import SUFFIXES
from deltafix.spark.pipeline.policy import Policy
from deltafix.spark.pipeline.portion import Source
from deltafix.spark.pipeline.sources.by_file import ByFile, FolderContents
from deltafix.spark.pipeline.sources.changes import ChangeFiles
from deltafix.spark.pipeline.sources.folder import Folder
from deltafix.spark.pipeline.sources.reading import FileReader
from deltafix.spark.pipeline.sources.snapshot import Snapshots
from deltafix.spark.pipeline.sources.tree import FACTS, TreeContents, find_extractor

__all__ = ["by_file", "counted", "make_source"]


def by_file(config: Config) -> tuple[str, ...]:
    """The relations whose rows come by file."""
    return tuple(
        relation
        for one in config.inputs
        if one.source == "tree" or (one.source == "files" and one.values["mode"] == "rows")
        for relation in one.relations
    )


def counted(config: Config) -> tuple[str, ...]:
    """The relations whose rows are counted."""
    return tuple(
        relation
        for one in config.inputs
        if one.values.get("duplicates") == "count" and one.values.get("mode") != "rows"
        for relation in one.relations
    )


def make_source(config: Config, one: InputConfig, schemas: Mapping[str, Schema]) -> Source:
    """The source of an input. Opens nothing but an extractor's module. Raises ConfigError."""
    values = one.values
    policy = Policy.of(values, config.values["bad_rows"])
    schema = schemas[one.relations[0]]
    if one.source == "tree":
        return _tree(config, one, schemas, policy)
    if one.source == "delta":
        from deltafix.spark.pipeline.sources.delta_lake import DeltaTable  # noqa: PLC0415  an extra

        return DeltaTable(one.name, schema, values, policy)
    if one.source == "table":
        from deltafix.spark.pipeline.sources.spark_table import SparkTable  # noqa: PLC0415  Spark

        return SparkTable(one.name, schema, values, policy, config.spark)
    if one.source == "kafka":
        from deltafix.spark.pipeline.sources.kafka import KafkaTopic  # noqa: PLC0415  Spark

        return KafkaTopic(one.name, schema, values, policy, config.spark)
    folder = Folder(one.name, Path(values["path"]), values["pattern"], SUFFIXES[values["format"]])
    changes = one.source == "files" and values["mode"] == "changes"
    reader = FileReader.of(schema, values, changes=changes)
    if changes:
        return ChangeFiles(one.name, folder, reader, policy)
    if one.source == "snapshot":
        return Snapshots(one.name, folder, reader, quarantine=policy.quarantine)
    contents = FolderContents(folder, reader)
    return ByFile(one.name, [schema], contents, quarantine=policy.quarantine)


def _on_spark(
    options: Mapping[str, str],
    paths: pa.Table,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> pa.Table:
    """Extract on Spark's workers, in the session at hand or in one for this."""
    from deltafix.spark.ingest import map_batches  # noqa: PLC0415  Spark
    from deltafix.spark.session import spark_session  # noqa: PLC0415

    with spark_session(options=options) as session:
        return map_batches(session, paths, function, FACTS)


def _tree(
    config: Config, one: InputConfig, schemas: Mapping[str, Schema], policy: Policy
) -> Source:
    where = f"{config.path}: [input.{one.name}]"
    extractor = find_extractor(where, one.values["extractor"])
    for relation in one.relations:
        columns = extractor.relations.get(relation)
        schema = schemas[relation]
        wanted = None if columns is None else ("symbol",) * len(columns)
        if wanted != schema.types:
            said = "no such relation" if columns is None else f"{relation}{columns}, all symbols"
            message = (
                f"{where} {schema.show()} is not what the extractor gives: {said}; it gives "
                f"{', '.join(sorted(extractor.relations))}"
            )
            raise ConfigError(message, key="relations", value=relation)
    root = Path(one.values["path"])
    many = config.values["spark_tree_files"]
    mapper = partial(_on_spark, config.spark)
    contents = TreeContents(root, extractor, one.relations, mapper, many)
    chosen = [schemas[relation] for relation in one.relations]
    return ByFile(one.name, chosen, contents, quarantine=policy.quarantine)
