"""Project files as fragments: what `pyproject.toml` and `setup.cfg` promise to run.

A project file is a node of its own, a root from which references lead to `module:function`, so
that `why` can say "pyproject.toml, console script shop". Invariant: a value that is not an entry
point is skipped; a file that does not parse is an error like any broken source file.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from deltafix.analyses.facts import Fact, Fragment

__all__ = ["PROJECT_FILES", "is_project_file", "project_fragment"]

PROJECT_FILES = ("pyproject.toml", "setup.cfg")
"""Names of the files that promise to run something."""

_TARGET = re.compile(r"\s*([\w.]+)\s*(?::\s*([\w.]+))?\s*(?:\[.*\])?\s*")


def is_project_file(path: str) -> bool:
    """Whether `path` may name entry points."""
    return path.rsplit("/", 1)[-1] in PROJECT_FILES


def project_fragment(path: str, data: bytes) -> Fragment:
    """Entry points as references from the file itself. Raises ValueError on a broken file."""
    text = data.decode("utf-8")
    if path.endswith(".toml"):
        targets = _toml_targets(tomllib.loads(text))
    else:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(text)
        except configparser.Error as error:
            raise ValueError(str(error).replace("\n", " ")) from error
        targets = _cfg_targets(parser)
    facts: list[Fact] = []
    for target in targets:
        match = _TARGET.fullmatch(target)
        if match is None:
            continue
        module, attributes = match[1], (match[2] or "").split(".")
        facts.append(("given_root", (path, "entry points of the project")))
        facts.append(("imports", (path, module)))
        if attributes != [""]:
            facts.append(("uses", (path, module, attributes[0], module)))
            facts.extend(("attribute", (path, name)) for name in attributes[1:])
    return Fragment.of(path, facts, ())


def _toml_targets(document: dict[str, Any]) -> Iterator[str]:
    project = _table(document, "project")
    poetry = _table(_table(document, "tool"), "poetry")
    groups = [_table(project, "entry-points"), _table(poetry, "plugins")]
    for table in (
        _table(project, "scripts"),
        _table(project, "gui-scripts"),
        _table(poetry, "scripts"),
        *(_table(group, name) for group in groups for name in group),
    ):
        for value in table.values():
            target = value.get("reference") if isinstance(value, dict) else value
            if isinstance(target, str):
                yield target


def _table(parent: dict[str, Any], name: str) -> dict[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, dict) else {}


def _cfg_targets(parser: configparser.ConfigParser) -> Iterator[str]:
    if parser.has_section("options.entry_points"):
        for _, lines in parser.items("options.entry_points"):
            for line in lines.splitlines():
                if "=" in line:
                    yield line.partition("=")[2]
