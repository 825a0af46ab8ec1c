"""A dbt project as maintained views: its models are kept exact as its sources change.

dbt compiles its models to SQL and writes down what it did (`target/manifest.json`, and with
`dbt docs generate` the types of columns in `target/catalog.json`). Lives here: that reading, and
which models become views, in the order in which they need each other. A source or seed becomes a
table, a model (and a test, whose rows are failures) a view; a relation that cannot be taken says
why, and what reads it waits for it. dbt itself is not imported and not needed.
Invariant: no model is evaluated otherwise: it is maintained, or it says why it is not.
Not here: snapshots (their rows depend on when dbt ran) and models in Python are refused by name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final, Literal

from deltafix.errors import DbtError, SqlError
from deltafix.sql.connection import Connection, open_connection
from deltafix.sql.text import DIALECTS, exp, statements

__all__ = ["Project", "Relation", "open_project"]

_DIALECTS: Final = {**{name: name for name in DIALECTS}, "databricks": "spark"}
"""dbt's adapters, and whose SQL they speak."""

_KINDS: Final = ("source", "seed", "model", "snapshot", "test")
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of a project.

    Attributes:
        kind: source, seed, model, snapshot or test.
        name: what `Project.connection` calls it.
        shown: as dbt names it: `raw.orders` for a source, else its name.
        state: `table` (a source or seed), `maintained` (a view), `refused`, or `waits` for others.
        why: of a refused one the error, of a waiting one whom it waits for; else empty.
        path: the file that it comes from, from the project's folder.
    """

    kind: str
    name: str
    shown: str
    state: Literal["table", "maintained", "refused", "waits"]
    why: str
    path: str


@dataclass(frozen=True, slots=True)
class Project:
    """An opened project; a context manager, which closes the connection.

    Attributes:
        connection: its tables and views, open for queries, subscriptions and edits.
        relations: every relation, those first that others read.
        folder: the project's, which `target/` is in.
    """

    connection: Connection
    relations: tuple[Relation, ...]
    folder: Path

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def of(self, *kinds: str, state: str | None = None) -> list[Relation]:
        """Relations of some kinds, and of a state if one is given."""
        return [r for r in self.relations if r.kind in kinds and state in (None, r.state)]

    def load(self, name: str, rows: Any) -> int:
        """Make these rows, or a frame, those of a source or seed; views follow by the difference.

        Returns how many rows came and went. Raises SqlError; nothing has changed then.
        """
        return self.connection.replace(name, rows)


def open_project(target: str | Path) -> Project:
    """Open a compiled dbt project: tables without rows, and a view for each model that can be one.

    Args:
        target: dbt's `target/` folder, or the project's, which has one.

    Raises:
        DbtError: there is no manifest, it cannot be read, or its adapter's SQL is not known.
        MissingDependencyError: sqlglot is not installed: `pip install 'deltafix[sql]'`.
    """
    place = Path(target)
    place = place if (place / "manifest.json").is_file() else place / "target"
    nowhere = f"run `dbt compile` first; neither {target} nor {place} has one"
    manifest = _read(place / "manifest.json", nowhere)
    catalog = {}
    if (place / "catalog.json").is_file():
        catalog = _read(place / "catalog.json", "")
    adapter = str(_part(manifest, "metadata").get("adapter_type"))
    if adapter not in _DIALECTS:
        known = ", ".join(sorted(_DIALECTS))
        raise DbtError(f"the SQL of dbt's adapter {adapter!r} is not known here; {known} are")
    nodes = _nodes(manifest)
    columns = {**_part(catalog, "nodes"), **_part(catalog, "sources")}
    db = open_connection(":memory:", _DIALECTS[adapter], {})
    try:
        found = _Reading(db, nodes, columns).relations()
    except BaseException:
        db.close()
        raise
    return Project(db, found, place.absolute().parent)


def _read(path: Path, way_out: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DbtError(f"no {path.name}: {way_out}", value=str(path)) from None
    except (OSError, ValueError) as error:
        raise DbtError(f"cannot read {path}: {error}", value=str(path)) from None
    if not isinstance(found, dict):
        raise DbtError(f"{path} is not one of dbt's", value=str(path))
    return found


def _part(found: Any, name: str) -> dict[str, Any]:
    part = found.get(name) if isinstance(found, dict) else None
    return part if isinstance(part, dict) else {}


def _nodes(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Relations by dbt's identifiers; what is no relation (macros, exposures) is left out."""
    found = {**_part(manifest, "sources"), **_part(manifest, "nodes")}
    return {
        key: node
        for key, node in found.items()
        if isinstance(node, dict)
        and node.get("resource_type") in _KINDS
        and _part(node, "config").get("materialized") != "ephemeral"
        and _part(node, "config").get("enabled", True)
    }


class _Reading:
    """One pass over a manifest: relations in the order of their needs."""

    def __init__(
        self, db: Connection, nodes: Mapping[str, dict[str, Any]], columns: Mapping[str, Any]
    ) -> None:
        self._db = db
        self._nodes = nodes
        self._columns = columns
        taken = Counter(_alias(node) for node in nodes.values())
        self._names = {
            key: _alias(node) if taken[_alias(node)] == 1 else f"{node['schema']}__{_alias(node)}"
            for key, node in nodes.items()
        }
        # Names as compiled SQL has them: database, schema and alias, each of which may be left out.
        self._written = {
            (node.get("database") or "", node.get("schema") or "", _alias(node)): self._names[key]
            for key, node in nodes.items()
            if node["resource_type"] != "test"
        }
        self._found: dict[str, Relation] = {}

    def relations(self) -> tuple[Relation, ...]:
        """Every relation, made or refused."""
        needs = {key: self._reads(node) for key, node in self._nodes.items()}
        try:
            order = list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            circle = " > ".join(map(str, error.args[1]))
            raise DbtError(f"models that read each other in a circle: {circle}") from None
        for key in order:
            self._found[key] = self._made(key, self._nodes[key], needs[key])
        return tuple(self._found.values())

    def _reads(self, node: Mapping[str, Any]) -> list[str]:
        """What a node reads; ephemeral models are in its text, and theirs are among its own."""
        keys = _part(node, "depends_on").get("nodes") or []
        return [key for key in keys if key in self._nodes]

    def _made(self, key: str, node: dict[str, Any], reads: list[str]) -> Relation:
        kind = str(node["resource_type"])
        shown = str(node["name"])
        if kind == "source":
            shown = f"{node.get('source_name')}.{shown}"
        path = str(node.get("original_file_path") or "")
        found = Relation(kind, self._names[key], shown, "maintained", "", path)
        waits = [
            one.shown
            for one in (self._found[read] for read in reads)
            if one.state in ("refused", "waits")
        ]
        if waits:
            return replace(found, state="waits", why=", ".join(waits))
        try:
            if kind in ("source", "seed"):
                self._table(key, node)
                return replace(found, state="table")
            self._view(found, node)
        except (SqlError, DbtError) as error:
            return replace(found, state="refused", why=str(error))
        return found

    def _table(self, key: str, node: Mapping[str, Any]) -> None:
        types = {
            name: str(one.get("type") or "")
            for name, one in sorted(
                _part(self._columns.get(key), "columns").items(),
                key=lambda item: int(item[1].get("index") or 0),
            )
        }
        if not types:
            declared = _part(node, "columns")
            types = {name: str(one.get("data_type") or "") for name, one in declared.items()}
        if not types or not all(types.values()):
            message = "its columns are not known: run `dbt docs generate`, or give each a data_type"
            raise DbtError(message)
        listed = ", ".join(f"{self._quoted(name)} {kind}" for name, kind in types.items())
        self._run(f"CREATE TABLE {self._quoted(self._names[key])} ({listed})", None)

    def _view(self, found: Relation, node: Mapping[str, Any]) -> None:
        if found.kind == "snapshot":
            raise DbtError("a snapshot is what dbt saw when it ran, not a query over what is there")
        if node.get("language", "sql") != "sql":
            raise DbtError("a model in Python is no query")
        text = node.get("compiled_code")
        if not isinstance(text, str):
            raise DbtError("it is not compiled: run `dbt compile`")
        begin = f"CREATE VIEW {self._quoted(found.name)} AS "
        path = str(node.get("compiled_path") or found.path)
        self._run(self._named(begin + text.rstrip().rstrip(";"), found, path), path)

    def _run(self, text: str, path: str | None) -> None:
        self._db.execute(text, path=path)

    def _quoted(self, name: str) -> str:
        """A name in quotes of the dialect, if it needs them."""
        if _PLAIN.match(name):
            return name
        return exp.to_identifier(name, quoted=True).sql(self._db.dialect)

    def _named(self, text: str, found: Relation, path: str) -> str:
        """The text with the connection's names for relations, as long as theirs were.

        So an error's line and column are those of the file that dbt compiled, its first line aside.
        """
        found_statements = list(statements(text, self._db.dialect, path))
        if len(found_statements) != 1:
            raise DbtError("its text is more than one query")
        (statement,) = found_statements
        places = []
        for table in statement.node.find_all(exp.Table):
            parts = [part for part in table.parts if "start" in part.meta]
            written = (table.catalog, table.db, table.name)
            name = self._written.get(written) or self._written.get(("", *written[1:]))
            if table.db and name == found.name:
                message = (
                    "it reads itself: compile it whole with `dbt compile --full-refresh`, "
                    "a maintained view needs no increments"
                )
                raise DbtError(message)
            if table.db and name is not None and parts:
                start = statement.start + min(part.meta["start"] for part in parts)
                end = statement.start + max(part.meta["end"] for part in parts) + 1
                places.append((start, end, self._quoted(name)))
        for start, end, name in sorted(places, reverse=True):
            text = text[:start] + name.ljust(end - start) + text[end:]
        return text


def _alias(node: Mapping[str, Any]) -> str:
    return str(node.get("alias") or node.get("identifier") or node.get("name"))
