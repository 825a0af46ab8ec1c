"""Keys of an input's section that must fit each other, beside what `settings` says of each.

Invariant: a key that would do nothing where it stands is refused by name, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deltafix.errors import ConfigError
from deltafix.facts.schema import Schema
from deltafix.pipeline.problems import Problems
from deltafix.pipeline.settings import INPUT, takes
from deltafix.rules.ast import Program
from deltafix.rules.tables import TableProgram

KEY_TYPES: Final = ("number", "unsigned", "symbol")
"""Of the columns by which rows replace each other."""

_SLOT = re.compile(r"[a-z0-9_]{1,63}")


def require_tables(
    path: Path, program: Program, given: Mapping[str, Any], problems: Problems
) -> None:
    """Note a ConfigError where inputs and outputs are not what SQL declares as such.

    Of other programs, what only views of SQL have is refused.
    """
    views = program.views if isinstance(program, TableProgram) else {}
    for name, section in _sections(given, "output"):
        with problems.noted():
            if section.get("duplicates") and name not in views:
                message = (
                    f"{path}: [output.{name}] duplicates says nothing of {name}, which is no view "
                    "of SQL; leave it out"
                )
                raise ConfigError(message, key="duplicates", value=section["duplicates"])
    if not isinstance(program, TableProgram):
        return
    for name, section in _sections(given, "input"):
        where = f"{path}: [input.{name}]"
        source = str(section.get("source"))
        if source not in INPUT:
            continue  # told of with the section
        mode = INPUT[source]["mode"].default if "mode" in INPUT[source] else ""
        can_say = takes(source, str(section.get("mode", mode)), "duplicates")
        for relation in section.get("relations") or (name,):
            options = (section.get("duplicates"), section.get("key"))
            with problems.noted():
                require_table(where, program, relation, *options, can_say=can_say)
    for name, _ in _sections(given, "output"):
        with problems.noted():
            if name in program.bags:
                raise ConfigError(f"{path}: [output.{name}] {of_bag(name)}", value=name)


def of_bag(name: str, word: str = "") -> str:
    """Why a view with duplicates has no output as it is, and what to do."""
    setting = f"{word} = [{name!r}]" if word else 'duplicates = "count"'
    return (
        f"the rows of {name} may be equal, and an output is a set of rows: say {setting}, for each "
        "row once with its multiplicity; or SELECT DISTINCT, or the keys of the tables it reads, "
        "too"
    )


def require_table(
    where: str,
    program: TableProgram,
    name: str,
    duplicates: Any,
    key: Any,
    *,
    can_say: bool = True,
) -> None:
    """Raise ConfigError for an input of a view, or of a table whose equal rows are not told of.

    Where an input `can_say` nothing of equal rows, its table has to have a key.
    """
    if name in {*program.views, *program.bags}:
        message = f"{where} {name} is a view: its rows follow from its query"
        raise ConfigError(message, value=name)
    if name not in program.tables:
        return
    if duplicates == "count":
        message = (
            f'{where} duplicates = "count": rows of tables of SQL are told apart by their values; '
            "give the table a column that tells them apart, and a PRIMARY KEY"
        )
        raise ConfigError(message, key="duplicates", value=duplicates)
    if not (duplicates or key or any(table_key.table == name for table_key in program.keys)):
        way_out = 'duplicates = "ignore" (one row) or "bad"; or declare its key'
        if not can_say:
            columns = ", ".join(column.name for column in program.relation(name).attributes)
            way_out = f"declare its key; UNIQUE ({columns}) makes equal rows one row"
        message = (
            f"{where} the table {name} has no PRIMARY KEY, so it is to be said what equal rows "
            f"are: {way_out}"
        )
        raise ConfigError(message, key="duplicates")


def _sections(given: Mapping[str, Any], kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    sections = given.get(kind, {})
    items = sections.items() if isinstance(sections, dict) else ()
    return [(name, section) for name, section in items if isinstance(section, dict)]


def require_reading(where: str, given: Mapping[str, Any], values: dict[str, Any]) -> None:
    """Raise ConfigError unless it is said what Spark reads, and so that it can."""
    sources = [name for name in ("table", "query", "format") if values[name]]
    if len(sources) != 1:
        shown = (
            " and ".join(sources) + " exclude each other" if sources else "there is nothing to read"
        )
        message = f"{where} {shown}; it takes one of table, query and format"
        raise ConfigError(message, key=sources[-1] if sources else "table")
    mode, origin = values["mode"], sources[0]
    delta = values["format"] == "delta" and values["path"]
    if mode == "changes" and origin != "table" and not delta:
        message = (
            f'{where} mode = "changes" reads the change feed of a table: say table = "NAME", or '
            'format = "delta" and its path; without one, say mode = "snapshot" or mode = "stream"'
        )
        raise ConfigError(message, key="mode", value=mode)
    if mode == "stream" and origin == "query":
        message = f'{where} query cannot be read with mode = "stream"; it takes table or format'
        raise ConfigError(message, key="query", value=values["query"])
    for name in ("path", "schema"):
        if values[name] and origin != "format":
            message = f"{where} {name} says nothing with {origin}; it needs format"
            raise ConfigError(message, key=name, value=values[name])
    if origin == "query" and values["options"]:
        message = f"{where} options say nothing with query; they need table or format"
        raise ConfigError(message, key="options", value=values["options"])
    if mode == "stream" and not values["key"]:
        for name in ("late", "lateness", "version"):
            if name in given:
                message = (
                    f"{where} {name} says nothing without key: rows of a stream come in no order; "
                    "say key and sequence_by, or leave it out"
                )
                raise ConfigError(message, key=name, value=given[name])
    if mode == "stream" and values["key"] and not values["sequence_by"]:
        message = f"{where} key needs sequence_by: rows of a stream come in no order"
        raise ConfigError(message, key="key", value=values["key"])


def require_slot(where: str, values: Mapping[str, Any]) -> None:
    """Raise ConfigError for what is no name of a replication slot, or of a table."""
    if not _SLOT.fullmatch(values["slot"]):
        message = (
            f'{where} slot = "{values["slot"]}" is no name of a replication slot; it takes up to '
            "63 of a to z, 0 to 9 and _"
        )
        raise ConfigError(message, key="slot", value=values["slot"])
    if not all(values["table"].split(".")):
        message = f'{where} table = "{values["table"]}" is no name; it takes "schema.table"'
        raise ConfigError(message, key="table", value=values["table"])


def require_key(
    where: str, given: Mapping[str, Any], values: Mapping[str, Any], schema: Schema
) -> None:
    """Raise ConfigError for a key that is none, or beside what says nothing with one."""
    if not values.get("key"):
        if values.get("sequence_by"):
            message = f'{where} sequence_by needs key = ["COLUMN"]: whose rows it puts in order'
            raise ConfigError(message, key="sequence_by", value=values["sequence_by"])
        return
    kinds = dict(zip(schema.names, schema.types, strict=True))
    for column in values["key"]:
        if kinds.get(column) not in KEY_TYPES:
            problem = f"is a {kinds[column]} of" if column in kinds else "is no column of"
            message = (
                f"{where} key: {column!r} {problem} {schema.show()}; a key is of numbers and "
                "symbols"
            )
            raise ConfigError(message, key="key", value=column)
    for name in ("key", "sequence_by"):
        if len(set(values.get(name) or ())) < len(values.get(name) or ()):
            message = f"{where} {name} = {values[name]} names a column twice"
            raise ConfigError(message, key=name, value=values[name])
    for name in ("missing", "duplicates", "version"):
        if name in given:
            hint = "sequence_by is its version" if name == "version" else "a row replaces another"
            message = f"{where} {name} says nothing with key: {hint}; leave it out"
            raise ConfigError(message, key=name, value=given[name])
