"""The keys of a pipeline file, as data: what each section takes, of which values, by default.

Three tables, read like a reference page (docs/concepts/pipeline.md is written from them):
`PIPELINE`, `INPUT` by source and `OUTPUT` by sink. Invariant: a key that is not here is refused by
name, so a misspelt option never silently does nothing. Nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deltafix.diagnostics import did_you_mean
from deltafix.errors import ConfigError
from deltafix.pipeline.problems import Problems

_PLAIN: Final = (str, int, bool)

REQUIRED: Final = object()
"""The default of a key that must be given."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its type, its default, and, for text, the values it may have.

    A list of one text may be written as that text.
    """

    kind: type[Any]
    default: Any = REQUIRED
    choices: tuple[str, ...] = ()
    least: int | None = None

    def valid(self) -> str:
        """What the key takes, in words."""
        if self.choices:
            return " or ".join(f'"{choice}"' for choice in self.choices)
        if self.kind is int:
            return "a whole number" + (f" of at least {self.least}" if self.least else "")
        texts = "text in quotes, or a list of texts"
        table = "a table of texts, whole numbers, true and false"
        return {str: "text in quotes", bool: "true or false", list: texts, dict: table}[self.kind]

    def fits(self, value: Any) -> bool:
        """Whether a value read from TOML is one the key takes."""
        if self.kind is list and isinstance(value, str):
            value = [value]
        if type(value) is not self.kind:
            return False
        if self.choices:
            return value in self.choices
        if isinstance(value, list):
            return bool(value) and all(type(item) is str and item for item in value)
        if isinstance(value, dict):
            return all(type(item) in _PLAIN for _, item in flat(value))
        if isinstance(value, int):
            return self.least is None or value >= self.least
        return self.kind is not str or bool(value)


Section = Mapping[str, Key]

PIPELINE: Final[Section] = {
    "program": Key(str),
    "dialect": Key(str, "duckdb", ("duckdb", "postgres", "spark")),
    "state": Key(str),
    "runner": Key(str, "spark", ("spark", "local")),
    "executor": Key(str, "auto", ("auto", "driver", "shards")),
    "shards": Key(int, 4, least=1),
    "rows_per_epoch": Key(int, 1_000_000, least=1),
    "fsync": Key(str, "always", ("always", "interval", "never")),
    "on_change": Key(str, "refuse", ("refuse", "maintain", "rebuild")),
    "bad_rows": Key(str, "fail", ("fail", "quarantine")),
    "spark_tree_files": Key(int, 2_000, least=1),
}

_POLICY: Final[Section] = {
    # Unless it is said, "ignore", but no column may be left out.
    "duplicates": Key(str, "", ("ignore", "count", "bad")),
    "missing": Key(str, "bad", ("ignore", "bad")),
    "late": Key(str, "apply", ("apply", "ignore", "bad")),
    "version": Key(str, ""),
    "lateness": Key(int, 0, least=0),
    "bad_rows": Key(str, "", ("fail", "quarantine")),
}
_KEY: Final[Section] = {"key": Key(list, None), "sequence_by": Key(list, None)}
_COLUMNS: Final[Section] = {"columns": Key(list, None)}
_ENVELOPE: Final[Section] = {
    "envelope": Key(str, "sign", ("sign", "debezium")),
    "sign": Key(str, "sign"),
}
_FILES: Final[Section] = {
    "path": Key(str),
    "format": Key(str, "csv", ("csv", "json", "parquet")),
    "pattern": Key(str, ""),
    "header": Key(bool, True),
    "delimiter": Key(str, ","),
}

INPUT: Final[Mapping[str, Section]] = {
    "files": {
        **_FILES, **_COLUMNS, **_ENVELOPE, **_POLICY, **_KEY,
        "mode": Key(str, "changes", ("changes", "rows")),
    },
    "snapshot": {**_FILES, **_COLUMNS, "bad_rows": _POLICY["bad_rows"]},
    "tree": {
        "path": Key(str),
        "extractor": Key(str),
        "relations": Key(list, None),
        "bad_rows": _POLICY["bad_rows"],
    },
    "delta": {"path": Key(str), **_COLUMNS, **_POLICY},
    "iceberg": {
        "catalog": Key(str),
        "table": Key(str),
        "options": Key(dict, None),
        "duplicates": Key(str, "", ("ignore", "count")),
        "bad_rows": _POLICY["bad_rows"],
        **_COLUMNS,
    },
    "postgres": {
        "dsn": Key(str, ""),
        "table": Key(str),
        "slot": Key(str),
        "publication": Key(str, ""),
        "timeout": Key(int, 30, least=1),
        "lost": Key(str, "fail", ("fail", "snapshot")),
        "key": _KEY["key"],
        "duplicates": _POLICY["duplicates"],
        "missing": _POLICY["missing"],
        "bad_rows": _POLICY["bad_rows"],
        **_COLUMNS,
    },
    "spark": {
        "mode": Key(str, "changes", ("changes", "snapshot", "stream")),
        "table": Key(str, ""),
        "query": Key(str, ""),
        "format": Key(str, ""),
        "path": Key(str, ""),
        "options": Key(dict, None),
        "schema": Key(str, ""),
        "sign": Key(str, ""),
        "checkpoint": Key(str, ""),
        **_COLUMNS, **_POLICY, **_KEY,
    },
    "http": {
        "bytes": Key(int, 16 << 20, least=1),
        **_COLUMNS, **_ENVELOPE, **_POLICY, **_KEY,
    },
    "kafka": {
        "servers": Key(str),
        "topic": Key(str),
        "timeout": Key(int, 30, least=1),
        "lost": Key(str, "fail", ("fail", "skip")),
        "options": Key(dict, None),
        **_COLUMNS, **_ENVELOPE, **_POLICY, **_KEY,
    },
}  # fmt: skip
"""By `source`: the keys of an `[input.NAME]` section, beside `source` itself."""
_JUDGED: Final = ("missing", "late", "lateness", "version")
_UNUSED: Final = {
    ("files", "rows"): (*_JUDGED, "duplicates", "envelope", "sign", "key", "sequence_by"),
    ("spark", "changes"): ("sign", "key", "sequence_by", "options", "schema", "checkpoint"),
    ("spark", "snapshot"): (*_JUDGED, "sign", "key", "sequence_by", "checkpoint"),
}
"""By source and mode: keys that mean nothing there."""

_BAG: Final[Section] = {"duplicates": Key(str, "", ("count",))}
_MODE: Final[Section] = {**_BAG, "mode": Key(str, "merge", ("merge", "append"))}
_OPTIONS: Final[Section] = {"options": Key(dict, None)}

OUTPUT: Final[Mapping[str, Section]] = {
    "parquet": {
        "path": Key(str),
        "mode": Key(str, "delta+snapshot", ("delta+snapshot", "delta")),
        **_BAG,
    },
    "delta": {"path": Key(str, ""), "table": Key(str, ""), **_MODE, **_OPTIONS},
    "iceberg": {"table": Key(str), "catalog": Key(str), **_MODE, **_OPTIONS},
    "postgres": {"table": Key(str), "dsn": Key(str, ""), "key": Key(list, None), **_MODE},
    "sql": {"table": Key(str), "url": Key(str), "key": Key(list, None), **_MODE},
    "kafka": {
        "servers": Key(str),
        "topic": Key(str),
        "envelope": Key(str, "signed", ("signed", "debezium")),
        "key": Key(list, None),
        "timeout": Key(int, 30, least=1),
        **_OPTIONS,
        **_BAG,
    },
    "webhook": {
        "url": Key(str),
        "timeout": Key(int, 30, least=1),
        "attempts": Key(int, 5, least=1),
        "rows_per_request": Key(int, 10_000, least=1),
        "token_env": Key(str, ""),
        **_BAG,
    },
    "foreach_epoch": {"function": Key(str), **_BAG},
}
"""By `sink`: the keys of an `[output.RELATION]` section, beside `sink` itself."""


def read_section(where: str, given: Mapping[str, Any], keys: Section) -> dict[str, Any]:
    """The values of a section, defaults filled in.

    Args:
        where: file and section, as errors name them: `pipeline.toml: [input.member]`.
        given: the section as TOML.
        keys: what it takes.

    Raises ConfigError for the keys that are unknown, missing, or of a value they do not take.
    """
    problems = Problems()
    for name, value in given.items():
        key = keys.get(name)
        with problems.noted():
            if key is None:
                hint = did_you_mean(name, keys, f"valid: {', '.join(sorted(keys))}", "'")
                raise ConfigError(f"{where} unknown key {name!r}; {hint}", key=name)
            if not key.fits(value):
                shown = f'"{value}"' if isinstance(value, str) else value
                message = f"{where} {name} = {shown} is not valid; it takes {key.valid()}"
                raise ConfigError(message, key=name, value=value)
    for name, key in keys.items():
        with problems.noted():
            if key.default is REQUIRED and name not in given:
                raise ConfigError(f"{where} has no {name!r}; it takes {key.valid()}", key=name)
    problems.tell()
    values = {name: given.get(name, key.default) for name, key in keys.items()}
    for name, value in values.items():
        if keys[name].kind is list and isinstance(value, str):
            values[name] = [value]
        if keys[name].kind is dict:
            values[name] = {full: text(item) for full, item in flat(value or {})}
    return values


def takes(source: str, mode: str, key: str) -> bool:
    """Whether a key says something of an input of this source and mode."""
    return key in INPUT[source] and key not in _UNUSED.get((source, mode), ())


def flat(given: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The settings of a table by their full names: TOML takes `a.b = 1` as a table in a table."""
    for name, value in given.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def text(value: str | int | bool) -> str:
    """A setting as Spark and clients of Kafka take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
