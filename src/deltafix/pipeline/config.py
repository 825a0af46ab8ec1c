"""`pipeline.toml`, read and checked: sections to plain values, paths made absolute.

    text -> TOML -> sections checked key by key (`settings`) -> checked against the program

Invariant: what `read_config` returns can be opened without asking the file again; every error
names the file, the section, the key, the value, and what would be valid. Paths in the file are
relative to the file's own folder. Nothing here opens a source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltafix.datalog.program import Program as Text
from deltafix.diagnostics import did_you_mean, plural, suggest
from deltafix.errors import ConfigError, SourceError
from deltafix.facts.logical import Logical
from deltafix.facts.schema import Schema
from deltafix.paths import local_path
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.problems import Problems
from deltafix.pipeline.sections import (
    require_key,
    require_reading,
    require_slot,
    require_tables,
)
from deltafix.pipeline.settings import INPUT, OUTPUT, PIPELINE, flat, read_section, takes, text
from deltafix.rules.ast import Program, RelationDecl
from deltafix.rules.tables import TableProgram, logical_of
from deltafix.store.folder import Folder, Where, folder_at

__all__ = [
    "Config",
    "InputConfig",
    "OutputConfig",
    "make_config",
    "read_config",
    "schemas_of",
]

_SECTIONS = ("pipeline", "input", "output", "spark")


@dataclass(frozen=True, slots=True)
class InputConfig:
    """One `[input.NAME]`: its name, kind of source, relations it feeds, and its values."""

    name: str
    source: str
    relations: tuple[str, ...]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputConfig:
    """One `[output.RELATION]`.

    Attributes:
        relation: the view.
        path: the folder of its delta log; that of an output that goes elsewhere is in the state.
        mode: what the log keeps, `delta+snapshot` or `delta`.
        sink: where it goes behind its log; `parquet` is the log itself.
        values: those of its section, for that sink.
    """

    relation: str
    path: Where
    mode: str = "delta+snapshot"
    sink: str = "parquet"
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """A whole pipeline file.

    `values` are those of `[pipeline]`, `spark` the settings of `[spark]` by their full names.
    """

    path: Path
    program: Program
    state: Folder
    inputs: tuple[InputConfig, ...]
    outputs: tuple[OutputConfig, ...]
    values: Mapping[str, Any]
    spark: Mapping[str, str]


def read_config(path: str | Path, *, executor: str | None = None) -> Config:
    """Read and check a pipeline file and its program; `executor` comes before the file's.

    Raises:
        SourceError: a file that cannot be read.
        ConfigError: TOML that cannot be read, or a section, key or value that is not valid.
        ProgramError: the program is not valid.
    """
    path = local_path(path)
    try:
        given = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror or error}"
        raise SourceError(message, path=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        way_out = "; text stands in quotes" if "Invalid value" in str(error) else ""
        raise ConfigError(f"{path}: not TOML: {error}{way_out}", path=str(path)) from None
    return make_config(path, given, executor=executor)


def make_config(
    path: Path,
    given: Mapping[str, Any],
    *,
    program: Program | None = None,
    executor: str | None = None,
) -> Config:
    """Check the sections of a pipeline, as `tomllib` gives them; paths are relative to `path`.

    With a `program`, `[pipeline]` names none. Raises as `read_config` does.
    """
    problems = Problems()
    for name in given:
        with problems.noted():
            if name not in _SECTIONS:
                close = suggest(name, list(_SECTIONS))
                valid = "valid: [pipeline], [input.NAME], [output.RELATION], [spark]"
                hint = f"did you mean [{close}]?" if close else valid
                raise ConfigError(f"{path}: unknown section [{name}]; {hint}", section=name)
    folder, values = path.resolve().parent, dict[str, Any]()
    with problems.noted():
        head = _table(path, "pipeline", given.get("pipeline"))
        keys = dict(PIPELINE)
        if program is not None:
            del keys["program"]
        values |= read_section(f"{path}: [pipeline]", head, keys)
        values["executor"] = executor or values["executor"]
        _require_executor(path, values)
    with problems.noted():
        if program is None and values:
            program = _program(folder / local_path(values["program"]), values["dialect"], given)
    schemas = None if program is None else schemas_of(program)
    if program is not None:
        require_tables(path, program, given, problems)
    if isinstance(program, TableProgram) and schemas is not None:
        schemas = {name: schemas[name] for name in (*program.tables, *program.views)}
    state = _relative(folder, values.get("state", "state"))
    inputs, outputs = list[InputConfig](), list[OutputConfig]()
    for name, section in _sections_of(path, "input", given, problems):
        with problems.noted():
            read = _input(path, name, _table(path, f"input.{name}", section), schemas)
            inputs += [] if read is None else [read]
    for name, section in _sections_of(path, "output", given, problems):
        with problems.noted():
            shown = _output(path, name, _table(path, f"output.{name}", section), schemas, state)
            outputs += [] if shown is None else [shown]
    with problems.noted():
        _apart(path, inputs, outputs)
    spark = dict[str, str]()
    with problems.noted():
        spark |= _settings(path, "spark", _table(path, "spark", given.get("spark", {})))
    problems.tell()
    assert program is not None  # noqa: S101  that it is not there was told
    return Config(path, program, state, tuple(inputs), tuple(outputs), values, spark)


def _sections_of(
    path: Path, kind: str, given: Mapping[str, Any], problems: Problems
) -> Iterator[tuple[str, Any]]:
    """The sections of inputs or outputs, by names."""
    with problems.noted():
        yield from _table(path, kind, given.get(kind, {})).items()


def _require_executor(path: Path, values: Mapping[str, Any]) -> None:
    """Refuse shards where there can be none."""
    if values["executor"] == "shards" and values["runner"] == "local":
        message = (
            f'{path}: [pipeline] executor = "shards" needs runner = "spark", which has the '
            "executors that shards run on"
        )
        raise ConfigError(message, key="executor", value="shards")


def _program(path: Path, dialect: str, given: Mapping[str, Any]) -> Program:
    """The program in a file: rules, or SQL by its ending. Raises ProgramError, SqlError."""
    if path.suffix != ".sql":
        return Text.from_file(path)
    from deltafix.sql.program import read_program  # noqa: PLC0415  an extra

    outputs = given.get("output", {})
    counted = [
        name
        for name, section in (outputs.items() if isinstance(outputs, dict) else ())
        if isinstance(section, dict) and section.get("duplicates") == "count"
    ]
    return read_program(path, dialect=dialect, counted=counted)


def schemas_of(program: Program) -> dict[str, Schema]:
    """The schema of every declared relation, by name."""
    return {
        declared.name: Schema.of(
            declared.name,
            [attribute.name for attribute in declared.attributes],
            program.column_types(declared.name),
            logical_of(program, declared.name) or _logical(program, declared),
        )
        for declared in program.relations
    }


def _logical(program: Program, declared: RelationDecl) -> Sequence[Logical | None]:
    """The logical types of a relation that rules declare, as SQL has them."""
    kinds = [program.logical(program.kind(attribute.type)) for attribute in declared.attributes]
    if not any(kinds):
        return ()
    from deltafix.sql.logical import SqlLogical  # noqa: PLC0415  an extra

    return [None if kind is None else SqlLogical.of_rules(kind) for kind in kinds]


def _table(path: Path, section: str, given: Any) -> dict[str, Any]:
    if given is None:
        raise ConfigError(f"{path}: there is no [{section}] section", section=section)
    if not isinstance(given, dict):
        message = f"{path}: {section} = {given!r} is not a section; write [{section}.NAME]"
        raise ConfigError(message, section=section, value=given)
    return given


def _settings(path: Path, name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Settings by their full names: `jars.packages` below `[spark]` is `spark.jars.packages`."""
    settings = {}
    for full, value in flat(given, f"{name}."):
        if not isinstance(value, str | int):
            message = (
                f"{path}: [spark] {full} = {value!r} is not valid; it takes text in quotes, a "
                "whole number, true or false"
            )
            raise ConfigError(message, key=full, value=value)
        settings[full] = text(value)
    return settings


def _input(
    path: Path, name: str, given: dict[str, Any], schemas: Mapping[str, Schema] | None
) -> InputConfig | None:
    """An input; None where no schemas are known that its section is to fit."""
    where = f"{path}: [input.{name}]"
    source = given.get("source")
    if not isinstance(source, str) or source not in INPUT:
        valid = " or ".join(f'"{kind}"' for kind in INPUT)
        if source in ("csv", "json", "parquet"):
            valid = (
                f'"files" (changes, or with mode = "rows" rows) or "snapshot" (each file is all '
                f'rows), with format = "{source}"'
            )
        problem = "there is no source" if source is None else f"source = {source!r} is not valid"
        raise ConfigError(f"{where} {problem}; it takes {valid}", key="source", value=source)
    rest = {key: value for key, value in given.items() if key != "source"}
    values = read_section(where, rest, INPUT[source])
    if schemas is None:
        return None
    relations = tuple(values.get("relations") or (name,))
    for relation in relations:
        schema = _declared(where, relation, schemas)
        columns = values.get("columns")
        if columns is not None and len(columns) != schema.arity:
            message = (
                f"{where} columns = {columns} names {plural(len(columns), 'column')}, but "
                f"{schema.show()} has {schema.arity}"
            )
            raise ConfigError(message, key="columns", value=columns)
    for key, value in rest.items():
        if not takes(source, values.get("mode", ""), key):
            message = f'{where} {key} says nothing with mode = "{values["mode"]}"; leave it out'
            raise ConfigError(message, key=key, value=value)
    for key in ("path", "checkpoint"):
        if values.get(key) and "://" not in values[key]:
            values[key] = str(path.resolve().parent / values[key])
    if source == "spark":
        require_reading(where, rest, values)
    if source == "postgres":
        require_slot(where, values)
    require_key(where, rest, values, schemas[relations[0]])
    if values.get("late", "apply") != "apply" and not Keying.of(values).sequence:
        name = "sequence_by" if values.get("key") else "version"
        message = (
            f'{where} late = "{values["late"]}" needs {name} = "COLUMN", the whole number that '
            "tells older rows from newer ones"
        )
        raise ConfigError(message, key="late", value=values["late"])
    return InputConfig(name, source, relations, values)


def _output(
    path: Path,
    name: str,
    given: dict[str, Any],
    schemas: Mapping[str, Schema] | None,
    state: Folder,
) -> OutputConfig | None:
    """An output; None where no schemas are known that its section is to fit."""
    where = f"{path}: [output.{name}]"
    sink = given.get("sink", "parquet")
    if not isinstance(sink, str) or sink not in OUTPUT:
        valid = " or ".join(f'"{kind}"' for kind in OUTPUT)
        message = f"{where} sink = {sink!r} is not valid; it takes {valid}"
        raise ConfigError(message, key="sink", value=sink)
    rest = {key: value for key, value in given.items() if key != "sink"}
    values = read_section(where, rest, OUTPUT[sink])
    if schemas is None:
        return None
    schema = _declared(where, name, schemas)
    for column in values.get("key") or ():
        if column not in schema.names:
            message = f"{where} key: {schema.show()} has no column {column!r}"
            raise ConfigError(message, key="key", value=column)
    if sink == "delta" and bool(values["path"]) == bool(values["table"]):
        message = f"{where} a Delta table has a path or, in a catalog of Spark's, a table: say one"
        raise ConfigError(message, key="path", value=values["path"])
    if sink != "parquet":
        if values.get("path"):
            values["path"] = str(_relative(path.resolve().parent, values["path"]))
        return OutputConfig(name, state / "outputs" / name, sink=sink, values=values)
    return OutputConfig(name, _relative(path.resolve().parent, values["path"]), values["mode"])


def _relative(base: Path, given: str) -> Folder:
    """A path relative to the file, or a URL."""
    return folder_at(given if "://" in given else base / given)


def _declared(where: str, name: str, schemas: Mapping[str, Schema]) -> Schema:
    schema = schemas.get(name)
    if schema is None:
        hint = did_you_mean(name, schemas, f"it declares {', '.join(schemas)}", "'")
        raise ConfigError(f"{where} the program has no relation {name!r}; {hint}", value=name)
    if not schema.arity:
        message = f"{where} {schema.show()} has no columns; a pipeline moves rows of columns"
        raise ConfigError(message, value=name)
    return schema


def _apart(path: Path, inputs: Sequence[InputConfig], outputs: Sequence[OutputConfig]) -> None:
    """No relation is fed twice, no folder is written twice."""
    fed: dict[str, str] = {}
    for input_ in inputs:
        for relation in input_.relations:
            if relation in fed:
                message = (
                    f"{path}: [input.{input_.name}] feeds {relation!r}, which [input."
                    f"{fed[relation]}] feeds already; give it a relation of its own and a rule"
                )
                raise ConfigError(message, section=f"input.{input_.name}", value=relation)
            fed[relation] = input_.name
    read: dict[tuple[str, str], str] = {}
    for input_ in inputs:
        if input_.source == "postgres":
            slot = (input_.values["dsn"], input_.values["slot"])
            if slot in read:
                message = (
                    f"{path}: [input.{input_.name}] slot = {slot[1]} is that of "
                    f"[input.{read[slot]}]; each input has a slot of its own"
                )
                raise ConfigError(message, section=f"input.{input_.name}", key="slot")
            read[slot] = input_.name
    written: dict[tuple[str, ...], str] = {}
    keys = ("path", "dsn", "url", "catalog", "servers", "table", "topic")
    for output in outputs:
        destination = tuple(str(output.values[key]) for key in keys if output.values.get(key))
        destination = destination or (str(output.path),)
        if destination in written and output.sink not in ("foreach_epoch", "webhook"):
            differing = next((key for key in reversed(keys) if output.values.get(key)), "path")
            message = (
                f"{path}: [output.{output.relation}] {differing} = {destination[-1]} is that of "
                f"[output.{written[destination]}]; each output has a place of its own"
            )
            raise ConfigError(message, section=f"output.{output.relation}", key=differing)
        written[destination] = output.relation
