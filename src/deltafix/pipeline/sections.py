"""Keys of an input's section that must fit each other, beside what `settings` says of each.

Invariant: a key that would do nothing where it stands is refused by name, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deltafix.errors import ConfigError
from deltafix.facts.schema import Schema

__all__ = ["require_key", "require_reading", "require_slot"]

_SLOT = re.compile(r"[a-z0-9_]{1,63}")


def require_reading(where: str, given: Mapping[str, Any], values: dict[str, Any]) -> None:
    """Raise ConfigError unless it is said what Spark reads, and so that it can."""
    said = [name for name in ("table", "query", "format") if values[name]]
    if len(said) != 1:
        shown = " and ".join(said) + " exclude each other" if said else "there is nothing to read"
        message = f"{where} {shown}; it takes one of table, query and format"
        raise ConfigError(message, key=said[-1] if said else "table")
    mode, what = values["mode"], said[0]
    delta = values["format"] == "delta" and values["path"]
    if mode == "changes" and what != "table" and not delta:
        message = (
            f'{where} mode = "changes" reads the change feed of a table: say table = "NAME", or '
            'format = "delta" and its path; without one, say mode = "snapshot" or mode = "stream"'
        )
        raise ConfigError(message, key="mode", value=mode)
    if mode == "stream" and what == "query":
        message = f'{where} query cannot be read with mode = "stream"; it takes table or format'
        raise ConfigError(message, key="query", value=values["query"])
    for name in ("path", "schema"):
        if values[name] and what != "format":
            message = f"{where} {name} says nothing with {what}; it needs format"
            raise ConfigError(message, key=name, value=values[name])
    if what == "query" and values["options"]:
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
        if kinds.get(column) not in ("number", "unsigned", "symbol"):
            said = f"is a {kinds[column]} of" if column in kinds else "is no column of"
            message = (
                f"{where} key: {column!r} {said} {schema.show()}; a key is of numbers and symbols"
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
