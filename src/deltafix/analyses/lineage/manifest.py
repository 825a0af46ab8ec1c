"""dbt's manifest: all of a compiled project in one file, as SQL that lineage reads.

    nodes   model, snapshot: CREATE VIEW name AS what dbt compiled   |  seed, source: a table
            hooks and operations: as they are                        |  tests: left out

Names are those that dbt gives in the database. What dbt has not compiled, and a model in Python,
may read all that it depends on, which the manifest says.
Invariant: what a project's text says (macros, variables, refs) is dbt's to know; nothing here reads
Jinja but `this` in hooks. Columns of seeds and sources are those that the project declares; there
may be others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from deltafix.analyses.facts import Fact
from deltafix.analyses.lineage.blocks import Names
from deltafix.analyses.lineage.doubts import doubts
from deltafix.analyses.lineage.facts import Facts
from deltafix.analyses.lineage.statements import SqlFileError, TemplateError, is_template, render

MANIFEST: Final = "manifest.json"

_TABLES: Final = ("seed", "source")
_QUERIES: Final = ("model", "snapshot")
_ADAPTERS: Final = {"sqlserver": "tsql", "synapse": "tsql"}  # others are called as sqlglot does


@dataclass(frozen=True, slots=True)
class Node:
    """What one node says: statements, and facts beside them.

    `path` is that of its own file, `schema` where names without one are.
    """

    path: str
    dialect: Dialect
    text: str = ""
    facts: frozenset[Fact] = frozenset()
    schema: str = ""


def compiled(data: bytes) -> list[Node]:
    """What a manifest says. Raises SqlFileError. O(bytes)."""
    try:
        manifest = json.loads(data)
        version = str(manifest["metadata"]["dbt_schema_version"])
        adapter = str(manifest["metadata"]["adapter_type"])
        nodes = {**manifest["nodes"], **manifest["sources"]}
    except (ValueError, TypeError, KeyError):
        raise SqlFileError("no manifest of a dbt project") from None
    try:
        dialect = Dialect.get_or_raise(_ADAPTERS.get(adapter, adapter))
    except ValueError:
        raise SqlFileError(f"sqlglot has no dialect for dbt's adapter {adapter!r}") from None
    try:
        return [sql for _, node in sorted(nodes.items()) for sql in _said(node, nodes, dialect)]
    except (AttributeError, TypeError, KeyError) as error:
        raise SqlFileError(
            f"a manifest ({version}) that is not as dbt writes it: {error}"
        ) from None


def _said(
    node: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]], dialect: Dialect
) -> Iterator[Node]:
    kind, path = node["resource_type"], str(node["original_file_path"])
    name = str(node.get("relation_name") or "")
    namespace = [part for part in (node.get("database"), node.get("schema")) if part]
    names = Names(dialect, Facts())
    schema = ".".join(names.fold(exp.to_identifier(part)) for part in namespace)
    if kind == "operation":
        text = str(node.get("compiled_code") or node.get("raw_code") or "")
        yield _hook(text, name, path, dialect, schema)
    elif kind in _TABLES and name:
        yield Node(path, dialect, facts=frozenset(_declared(node, name, dialect)))
    elif kind in _QUERIES and name:  # an ephemeral model stands in the text of those that read it
        query = node.get("compiled_code")
        if node.get("language", "sql") == "sql" and query:
            yield Node(path, dialect, f"CREATE VIEW {name} AS {query}")
        else:
            facts = _declared(node, name, dialect) | {("skipped", (path, ""))}
            for key in node["depends_on"]["nodes"]:
                read = str(nodes.get(key, {}).get("relation_name") or "")
                if read:
                    facts.add(("may_name", (path, _define(read, dialect, Facts(), "view"))))
            yield Node(path, dialect, facts=frozenset(facts))
        for hook in (*node["config"].get("pre-hook", ()), *node["config"].get("post-hook", ())):
            yield _hook(str(hook["sql"]), name, path, dialect, schema)


def _hook(text: str, this: str, path: str, dialect: Dialect, schema: str) -> Node:
    try:
        plain = render(text, this) if is_template(text) else text
        return Node(path, dialect, plain, schema=schema)
    except TemplateError:  # as a rule it grants or logs: of macros it reads what it hands them
        facts = doubts(path, text.encode())
        return Node(
            path, dialect, facts=frozenset(fact for fact in facts if fact[0] != "calls_macro")
        )


def _declared(node: Mapping[str, Any], name: str, dialect: Dialect) -> set[Fact]:
    """A table with the columns that the project names, and maybe others."""
    facts = Facts()
    table = _define(name, dialect, facts, str(node["resource_type"]))
    facts.add("formless", table)
    names = Names(dialect, facts)
    for index, column in enumerate(node.get("columns") or {}):
        facts.add("column", table, str(index), names.fold(exp.to_identifier(column)))
    return facts.rows


def _define(name: str, dialect: Dialect, facts: Facts, kind: str) -> str:
    return Names(dialect, facts).define(exp.to_table(name, dialect=dialect), kind)
