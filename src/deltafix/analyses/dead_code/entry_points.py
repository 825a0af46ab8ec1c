"""Project files as facts: what `pyproject.toml`, `setup.cfg`, `setup.py`, a wheel promise to run.

A project file is a node of its own, a root from which references lead to `module:function`, so
that `why` can say "pyproject.toml, console script shop". It also says whether what is here gets
installed (a build system, a wheel's own files, modules beside packages), which tells a library from
an application. Invariant: a value that is not an entry point, or that `setup.py` computes, is
skipped; a file that does not parse is an error like any broken source file.
"""

from __future__ import annotations

import ast
import configparser
import contextlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

from deltafix.analyses.facts import Fact, Fragment

_SETUP = "setup.py"
PROJECT_FILES = ("pyproject.toml", "setup.cfg", _SETUP, "entry_points.txt", "METADATA")
"""Names of the files that promise to run something; the last two count in a `.dist-info` only."""

_SCRIPTS = frozenset({"console_scripts", "gui_scripts"})
_CONSOLE, _PLUGIN = "a script of the project", "a plugin of the project"
_BACKEND = "the build backend of the project"

_TARGET = re.compile(r"\s*([\w.]+)\s*(?::\s*([\w.]+))?\s*(?:\[.*\])?\s*")


_NEEDS = ("install_requires", "extras_require", "requires")

_FIRST = re.compile(r"([A-Za-z0-9]+)((?:[-_.][A-Za-z0-9]+)*)")
"""The name of a distribution: its first word, and the others."""


def is_project_file(path: str) -> bool:
    """Whether `path` may name entry points, and nothing else of it counts: a `setup.py` above."""
    folder, _, name = path.rpartition("/")
    return name in PROJECT_FILES and (name != _SETUP or folder.startswith(".."))


def project_fragment(path: str, data: bytes) -> Fragment:
    """Entry points as references from the file itself. Raises ValueError on a broken file."""
    folder, _, name = path.rpartition("/")
    if name == _SETUP:
        return Fragment.of(path, setup_facts(path, ast.parse(data)), ())
    if not (name.endswith((".toml", ".cfg")) or folder.endswith(".dist-info")):
        return Fragment.of(path, (), ())
    facts: list[Fact] = []
    if name == "METADATA":
        return Fragment.of(path, [("distribution", (path,))], ())
    if name.endswith(".toml"):
        document = tomllib.loads(data.decode("utf-8"))
        installed = "build-system" in document
        targets = _toml_targets(document)
        tools = _table(document, "tool")
        modules: object = _table(tools, "setuptools").get("py-modules")
        facts.extend(("attribute", (path, name)) for name in sorted(_version_names(document)))
        facts.append(("given_root", (path, "entry points of the project")))
        needs = _toml_needs(document)
    else:
        parser = _ini()
        try:
            parser.read_string(data.decode("utf-8"))
        except configparser.Error as error:
            raise ValueError(str(error).replace("\n", " ")) from error
        installed = name == "entry_points.txt" or parser.has_option("metadata", "name")
        targets = _cfg_targets(parser) if name == "setup.cfg" else _installed_targets(parser)
        modules = parser.get("options", "py_modules", fallback="").replace(",", " ").split()
        needs = [parser.get("metadata", "name", fallback="")]
        needs += parser.get("options", "install_requires", fallback="").split("\n")
    facts.extend(_family(path, needs))
    if installed:
        facts.append(("distribution", (path,)))
    facts.extend(_promised(path, targets))
    facts.extend(_distributed(path, modules))
    return Fragment.of(path, facts, ())


def setup_facts(path: str, tree: ast.Module) -> Iterator[Fact]:
    """What the `setup(...)` of a `setup.py` says: it gets installed, and its `entry_points`."""
    yield "distribution", (path,)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            arguments = {keyword.arg: _value(keyword.value, tree) for keyword in node.keywords}
            lists = [arguments[name] for name in ("name", *_NEEDS) if name in arguments]
            parts = [part for argument in lists for part in ast.walk(argument)]
            yield from _family(path, [p.value for p in parts if isinstance(p, ast.Constant)])
            for keyword in node.keywords:
                if keyword.arg == "entry_points":
                    yield from _promised(path, _given_targets(_value(keyword.value, tree)))
                elif keyword.arg == "py_modules":
                    modules = _value(keyword.value, tree)
                    names = modules.elts if isinstance(modules, ast.List | ast.Tuple) else []
                    words = [
                        element.value for element in names if isinstance(element, ast.Constant)
                    ]
                    yield from _distributed(path, words)


def _value(node: ast.expr, tree: ast.Module) -> ast.expr:
    """What the module assigns to a name; anything else is itself."""
    if isinstance(node, ast.Name):
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and node.id in {
                getattr(t, "id", "") for t in statement.targets
            }:
                return statement.value
    return node


def _given_targets(given: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        parser = _ini()
        with contextlib.suppress(configparser.Error):
            parser.read_string(given.value)
        yield from _installed_targets(parser)
    elif isinstance(given, ast.Dict):
        for key, value in zip(given.keys, given.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                lines = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
                for line in lines:
                    if isinstance(line, ast.Constant) and isinstance(line.value, str):
                        yield from _targets_in(key.value, line.value)


def _ini() -> configparser.ConfigParser:
    return configparser.ConfigParser(interpolation=None, delimiters=("=",))


def _promised(path: str, targets: Iterable[tuple[str, str]]) -> Iterator[Fact]:
    """References from a project file to what it names."""
    for how, target in targets:
        match = _TARGET.fullmatch(target)
        if match is None:
            continue
        module, attributes = match[1], (match[2] or "").split(".")
        yield "given_root", (path, "entry points of the project")
        if how == _CONSOLE:
            yield "entry", (path, how)
        yield "imports", (path, module)
        if attributes != [""]:
            yield "uses", (path, module, attributes[0], module)
            yield from (("attribute", (path, name)) for name in attributes[1:])
        if how == _BACKEND:
            yield "builds", (path, module)
        if how == _PLUGIN:
            yield "plugs_in", (path, module, attributes[0])
        if attributes == [""]:  # whoever loads it reads the names that it looks for
            yield "hands_module", (path, module)


def _distributed(path: str, modules: object) -> Iterator[Fact]:
    """The modules beside packages that a project file says it installs."""
    for name in modules if isinstance(modules, list) else ():
        if isinstance(name, str):
            yield "distributes", (path, name)


def _toml_targets(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(how it is reached, what) for each entry point."""
    project = _table(document, "project")
    poetry = _table(_table(document, "tool"), "poetry")
    flit = _table(_table(document, "tool"), "flit")
    scripts = (
        _table(project, "scripts"),
        _table(project, "gui-scripts"),
        _table(poetry, "scripts"),
        _table(flit, "scripts"),
    )
    groups = [
        _table(project, "entry-points"),
        _table(poetry, "plugins"),
        _table(flit, "entrypoints"),
    ]
    plugins = (_table(group, name) for group in groups for name in group)
    for how, tables in ((_CONSOLE, scripts), (_PLUGIN, plugins)):
        for table in tables:
            for value in table.values():
                target = value.get("reference") if isinstance(value, dict) else value
                if isinstance(target, str):
                    yield how, target
    build = _table(document, "build-system")
    folders = build.get("backend-path")
    for folder in folders if isinstance(folders, list) else ():  # else it is installed
        if isinstance(folder, str):
            below = ".".join(part for part in folder.split("/") if part not in {"", "."})
            yield _BACKEND, below or str(build.get("build-backend"))


def _toml_needs(document: dict[str, Any]) -> list[object]:
    """The name of a project, then what it depends on, sometimes or always."""
    project, poetry = _table(document, "project"), _table(_table(document, "tool"), "poetry")
    extras = _table(project, "optional-dependencies").values()
    lists = [project.get("dependencies"), *extras, list(_table(poetry, "dependencies"))]
    needs = [need for part in lists if isinstance(part, list) for need in part]
    return [project.get("name", poetry.get("name")), *needs]


def _family(path: str, needs: list[object]) -> Iterator[Fact]:
    """Whether a project depends on others that are named alike: `shop-core` beside `shop-till`."""
    own, *others = [_FIRST.match(need) if isinstance(need, str) else None for need in needs or [""]]
    if own and any(
        other and other[1] == own[1] and other[0] != own[0] and other[2] for other in others
    ):
        yield "family", (path,)


def _version_names(document: dict[str, Any]) -> set[str]:
    """Names that a build backend reads a version from: `attr = "pkg.version"`, a pattern."""
    tools = _table(document, "tool")
    pending: list[Any] = [
        *(_table(tools, name).get("version") for name in tools),
        _table(_table(tools, "setuptools"), "dynamic").get("version"),
    ]
    names: set[str] = set()
    for table in pending:
        if isinstance(table, dict):
            for value in table.values():
                names.update(re.findall(r"[A-Za-z_]\w*", value) if isinstance(value, str) else ())
    return names


def _table(parent: dict[str, Any], name: str) -> dict[str, Any]:
    table = parent.get(name)
    return table if isinstance(table, dict) else {}


def _cfg_targets(parser: configparser.ConfigParser) -> Iterator[tuple[str, str]]:
    for section in ("options.entry_points", "entry_points"):  # setuptools, pbr
        if parser.has_section(section):
            for group, lines in parser.items(section):
                yield from _targets_in(group, lines)


def _targets_in(group: str, lines: str) -> Iterator[tuple[str, str]]:
    for line in lines.splitlines():
        if "=" in line:
            yield _reached(group), line.partition("=")[2]


def _installed_targets(parser: configparser.ConfigParser) -> Iterator[tuple[str, str]]:
    for group in parser.sections():
        yield from ((_reached(group), target) for _, target in parser.items(group))


def _reached(group: str) -> str:
    return _CONSOLE if group in _SCRIPTS else _PLUGIN
