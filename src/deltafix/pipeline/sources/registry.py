"""From the sections of a pipeline file to sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltafix.errors import ConfigError
from deltafix.facts.schema import Schema
from deltafix.paths import local_path
from deltafix.pipeline.augment import Additions
from deltafix.pipeline.config import Config, InputConfig
from deltafix.pipeline.decode import SUFFIXES
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Source
from deltafix.pipeline.settings import takes
from deltafix.pipeline.sources.by_file import ByFile, FolderContents
from deltafix.pipeline.sources.changes import ChangeFiles
from deltafix.pipeline.sources.folder import Folder
from deltafix.pipeline.sources.http import HttpInput
from deltafix.pipeline.sources.reading import FileReader
from deltafix.pipeline.sources.remote import RemoteFolder
from deltafix.pipeline.sources.snapshot import Snapshots
from deltafix.pipeline.sources.tree import Mapper, TreeContents, find_extractor
from deltafix.store.folder import OBJECTS, folder_at

ON_SPARK: Final = ("spark",)
"""Kinds of inputs that only Spark reads (`deltafix.spark.sources`)."""

BY_RUNNER: Final = ("delta", "iceberg", "kafka")
"""Kinds that Spark reads with the executors, where it is the runner, and packages without it."""


def additions(config: Config) -> Additions:
    """What the inputs add to the program."""
    by_file: list[str] = []
    counted: list[str] = []
    keyed: dict[str, Keying] = {}
    keyable: dict[str, str] = {}
    for input_ in config.inputs:
        if input_.source == "tree" or (
            input_.source == "files" and input_.values["mode"] == "rows"
        ):
            by_file += input_.relations
        if input_.values.get("duplicates") == "count":
            counted += input_.relations
        keying = Keying.of(input_.values)
        if keying.key:
            keyed |= dict.fromkeys(input_.relations, keying)
        elif takes(input_.source, input_.values.get("mode", ""), "key"):
            keyable |= dict.fromkeys(input_.relations, "in its section")
    return Additions(tuple(by_file), tuple(counted), keyed, keyable)


def make_source(
    config: Config,
    input_: InputConfig,
    schemas: Mapping[str, Schema],
    mapper: Mapper | None = None,
) -> Source:
    """The source of an input that this process reads by itself.

    Args:
        config: the pipeline.
        input_: the input.
        schemas: those of the program's relations.
        mapper: extracts large trees on many workers.

    Opens nothing but an extractor's module. Raises ConfigError, also for inputs that Spark reads.
    """
    values = input_.values
    if input_.source in ON_SPARK:
        message = (
            f'{config.path}: [input.{input_.name}] source = "{input_.source}" is read by '
            'Spark; run it with runner = "spark"'
        )
        raise ConfigError(message, key="source", value=input_.source)
    policy = Policy.of(values, config.values["bad_rows"])
    schema = schemas[input_.relations[0]]
    if input_.source == "tree":
        return _tree(config, input_, schemas, policy, mapper)
    if input_.source == "delta":
        from deltafix.pipeline.sources.delta_lake import DeltaTable  # noqa: PLC0415  an extra

        return DeltaTable(input_.name, schema, values, policy)
    if input_.source == "iceberg":
        from deltafix.pipeline.sources.iceberg import IcebergTable  # noqa: PLC0415  as above

        return IcebergTable(input_.name, schema, values, policy)
    if input_.source == "http":
        return HttpInput(input_.name, schema, values, policy)
    if input_.source == "kafka":
        from deltafix.pipeline.sources.kafka import KafkaTopic  # noqa: PLC0415  as above

        return KafkaTopic(input_.name, schema, values, policy)
    if input_.source == "postgres":
        from deltafix.pipeline.sources.postgres import PostgresTable  # noqa: PLC0415  as above
        from deltafix.pipeline.sources.replication import server_at  # noqa: PLC0415  as above

        server = server_at(str(config.state), values["dsn"], values["timeout"])
        return PostgresTable(server, input_.name, schema, values, policy)
    folder, reader = folder_of(input_, schema)
    if input_.source == "files" and values["mode"] == "changes":
        return ChangeFiles(input_.name, folder, reader, policy)
    if input_.source == "snapshot":
        return Snapshots(input_.name, folder, reader, quarantine=policy.quarantine)
    contents = FolderContents(folder, reader)
    return ByFile(input_.name, [schema], contents, quarantine=policy.quarantine)


def folder_of(input_: InputConfig, schema: Schema) -> tuple[Folder, FileReader]:
    """The files of an input, and how one is read."""
    values = input_.values
    which = (values["pattern"], SUFFIXES[values["format"]])
    if values["path"].partition("://")[0] in OBJECTS:
        folder: Folder = RemoteFolder(input_.name, folder_at(values["path"]), *which)
    else:
        folder = Folder(input_.name, local_path(values["path"]), *which)
    changes = input_.source == "files" and values["mode"] == "changes"
    return folder, FileReader.of(schema, values, changes=changes)


def _tree(
    config: Config,
    input_: InputConfig,
    schemas: Mapping[str, Schema],
    policy: Policy,
    mapper: Mapper | None,
) -> Source:
    where = f"{config.path}: [input.{input_.name}]"
    extractor = find_extractor(where, input_.values["extractor"])
    for relation in input_.relations:
        columns = extractor.relations.get(relation)
        schema = schemas[relation]
        expected = None if columns is None else ("symbol",) * len(columns)
        if expected != schema.types:
            problem = "no such relation" if columns is None else f"{relation}{columns}, all symbols"
            message = (
                f"{where} {schema.show()} is not what the extractor gives: {problem}; it gives "
                f"{', '.join(sorted(extractor.relations))}"
            )
            raise ConfigError(message, key="relations", value=relation)
    root = local_path(input_.values["path"])
    many = config.values["spark_tree_files"]
    contents = TreeContents(root, extractor, input_.relations, mapper, many)
    chosen = [schemas[relation] for relation in input_.relations]
    return ByFile(input_.name, chosen, contents, quarantine=policy.quarantine)
