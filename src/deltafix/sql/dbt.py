"""A dbt project as maintained views: its models are kept exact as its sources change.

dbt compiles its models to SQL and writes down what it did (`target/manifest.json`, and with
`dbt docs generate` the types of columns in `target/catalog.json`). Lives here: that reading, and
which models become views, in the order in which they need each other. A source or seed becomes a
table, a model (and a test, whose rows are failures) a view; a relation that cannot be taken says
why, and what reads it waits for it. dbt itself is not imported and not needed.
Invariant: no model is evaluated otherwise: it is maintained, or it says why it is not; what dbt
does beside a query (hooks, increments) is not done, and each relation lists what.
Not here: snapshots (their rows depend on when dbt ran) and models in Python are refused by name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from deltafix.diagnostics import Span, render_all
from deltafix.doing import tell
from deltafix.errors import DbtError, SqlError
from deltafix.sql.connection import Connection, open_connection
from deltafix.sql.parsing import statements
from deltafix.sql.text import DIALECTS, Statement, exp, normal_name, span_of

if TYPE_CHECKING:
    from deltafix.sql.files import Nulls

__all__ = ["Project", "Relation", "open_project"]

_DIALECTS: Final = {**{name: name for name in DIALECTS}, "databricks": "spark"}
"""dbt's adapters, and whose SQL they speak."""

_KINDS: Final = ("source", "seed", "model", "snapshot", "test")
_MATERIALIZED: Final = ("view", "table", "materialized_view", "ephemeral")
_SHOWN: Final = 80
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
        untaken: what dbt does beside its query and is not done here, and what that means.
        keys: tests that are declared as constraints, with `keys`.
        delimiter: of a seed's file.
        file: of a source that is one (`external_location`), where it is, from the project's folder.
        nulls: which fields of a file of the project's are NULL, as `deltafix.sql.files.Nulls`.
    """

    kind: str
    name: str
    shown: str
    state: Literal["table", "maintained", "refused", "waits"]
    why: str
    path: str
    untaken: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    delimiter: str = ","
    file: str = ""
    nulls: Nulls = "empty"


@dataclass(frozen=True, slots=True)
class Project:
    """An opened project; a context manager, which closes the connection.

    Attributes:
        connection: its tables and views, open for queries, subscriptions and edits.
        relations: every relation, those first that others read.
        folder: the project's, which `target/` is in.
        untaken: hooks of the project's runs, which are not run.
    """

    connection: Connection
    relations: tuple[Relation, ...]
    folder: Path
    untaken: tuple[str, ...] = ()

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


def open_project(target: str | Path, *, keys: bool = False) -> Project:
    """Open a compiled dbt project: tables without rows, and a view for each model that can be one.

    Args:
        target: dbt's `target/` folder, or the project's, which has one.
        keys: whether `unique` and `not_null` tests of sources and seeds are constraints of their
            tables: rows that break one are refused, and views need not count rows that differ by a
            key. Without it a test says that it fails, and its models follow all the same.

    Raises:
        DbtError: there is no manifest, it cannot be read, or its adapter's SQL is not known.
        MissingDependencyError: sqlglot is not installed: `pip install 'deltafix[sql]'`.
    """
    folder = Path(target)
    folder = folder if (folder / "manifest.json").is_file() else folder / "target"
    nowhere = f"run `dbt compile` first; neither {target} nor {folder} has one"
    manifest = _read(folder / "manifest.json", nowhere)
    catalog = {}
    if (folder / "catalog.json").is_file():
        catalog = _read(folder / "catalog.json", "")
    adapter = str(_part(manifest, "metadata").get("adapter_type"))
    if adapter not in _DIALECTS:
        known = ", ".join(sorted(_DIALECTS))
        raise DbtError(f"the SQL of dbt's adapter {adapter!r} is not known here; {known} are")
    nodes = _nodes(manifest)
    columns = {**_part(catalog, "nodes"), **_part(catalog, "sources")}
    db = open_connection(":memory:", _DIALECTS[adapter], {})
    try:
        relations = _Reading(db, nodes, columns, keys=keys).relations()
    except BaseException:
        db.close()
        raise
    hooks = [node for node in _part(manifest, "nodes").values()
             if isinstance(node, dict) and node.get("resource_type") == "operation"]  # fmt: skip
    untaken = tuple(
        f"{' '.join(map(str, hook.get('tags') or ()))} is not run: {_short(hook.get('raw_code'))}"
        for hook in hooks
    )
    return Project(db, relations, folder.absolute().parent, untaken)


def _read(path: Path, way_out: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DbtError(f"no {path.name}: {way_out}", value=str(path)) from None
    except (OSError, ValueError) as error:
        raise DbtError(f"cannot read {path}: {error}", value=str(path)) from None
    if not isinstance(content, dict):
        raise DbtError(f"{path} is not one of dbt's", value=str(path))
    return content


def _part(document: Any, name: str) -> dict[str, Any]:
    part = document.get(name) if isinstance(document, dict) else None
    return part if isinstance(part, dict) else {}


def _nodes(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Relations by dbt's identifiers; what is no relation (macros, exposures) is left out."""
    candidates = {**_part(manifest, "sources"), **_part(manifest, "nodes")}
    return {
        key: node
        for key, node in candidates.items()
        if isinstance(node, dict)
        and node.get("resource_type") in _KINDS
        and _part(node, "config").get("materialized") != "ephemeral"
        and _part(node, "config").get("enabled", True)
    }


class _Reading:
    """One pass over a manifest: relations in the order of their needs."""

    def __init__(
        self,
        db: Connection,
        nodes: Mapping[str, dict[str, Any]],
        columns: Mapping[str, Any],
        *,
        keys: bool,
    ) -> None:
        self._db = db
        self._nodes = nodes
        self._columns = columns
        self._keys = _tested(nodes) if keys else {}
        aliases = {key: self._as_kept(_alias(node)) for key, node in nodes.items()}
        taken = Counter(aliases.values())
        self._names = {
            key: alias if taken[alias] == 1 else self._as_kept(f"{nodes[key]['schema']}__{alias}")
            for key, alias in aliases.items()
        }
        # Names as compiled SQL has them: database, schema and alias, each of which may be left out.
        self._written = {
            (
                self._as_kept(node.get("database") or ""),
                self._as_kept(node.get("schema") or ""),
                aliases[key],
            ): self._names[key]
            for key, node in nodes.items()
            if node["resource_type"] != "test"
        }
        self._relations: dict[str, Relation] = {}

    def _as_kept(self, name: str) -> str:
        """A name in quotes as the connection has it: where letters' case is none, in lower case."""
        return normal_name(name, self._db.dialect)

    def relations(self) -> tuple[Relation, ...]:
        """Every relation, made or refused."""
        needs = {key: self._reads(node) for key, node in self._nodes.items()}
        try:
            order = list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            circle = " > ".join(map(str, error.args[1]))
            raise DbtError(f"models that read each other in a circle: {circle}") from None
        for number, key in enumerate(order):
            node = self._nodes[key]
            tell(f"{node['resource_type']} {node['name']}", number, len(order))
            self._relations[key] = self._relation(key, node, needs[key])
        return tuple(self._relations.values())

    def _reads(self, node: Mapping[str, Any]) -> list[str]:
        """What a node reads; ephemeral models are in its text, and theirs are among its own."""
        keys = _part(node, "depends_on").get("nodes") or []
        return [key for key in keys if key in self._nodes]

    def _nulls(self, node: Mapping[str, Any]) -> Nulls:
        """How dbt reads the file of a node: DuckDB does, or agate, into INSERTs."""
        slow = _part(node, "config").get("fast") is False
        return "empty" if self._db.dialect == "duckdb" and not slow else "null"

    def _relation(self, key: str, node: dict[str, Any], reads: list[str]) -> Relation:
        kind = str(node["resource_type"])
        shown = str(node["name"])
        if kind == "source":
            shown = f"{node.get('source_name')}.{shown}"
        path = str(node.get("original_file_path") or "")
        relation = Relation(
            kind, self._names[key], shown, "maintained", "", path, _untaken(node),
            delimiter=str(_part(node, "config").get("delimiter") or ","), file=_file(node),
            nulls=self._nulls(node),
        )  # fmt: skip
        waits = [
            needed.shown
            for needed in (self._relations[read] for read in reads)
            if needed.state in ("refused", "waits")
        ]
        if waits:
            return replace(relation, state="waits", why=", ".join(waits))
        try:
            if kind in ("source", "seed"):
                self._table(key, node)
                declared = tuple(test.show() for test in self._keys.get(key, ()))
                return replace(relation, state="table", keys=declared)
            self._view(relation, node, reads)
        except (SqlError, DbtError) as error:
            return replace(relation, state="refused", why=str(error))
        return relation

    def _table(self, key: str, node: Mapping[str, Any]) -> None:
        types = {
            name: str(column.get("type") or "")
            for name, column in sorted(
                _part(self._columns.get(key), "columns").items(),
                key=lambda item: int(item[1].get("index") or 0),
            )
        }
        if not types:
            documented = _part(node, "columns")
            configured = _part(_part(node, "config"), "column_types")
            types = {
                name: str(configured.get(name) or _part(documented, name).get("data_type") or "")
                for name in dict.fromkeys([*documented, *configured])
            }
        if not types or not all(types.values()):
            way_out = "run `dbt docs generate`, or give each a data_type"
            if _external(node):  # dbt's catalog has what is in the database
                way_out = "dbt's catalog lists no file (external_location): give each a data_type"
            untyped = [name for name, kind in types.items() if not kind]
            which = f", of {', '.join(untyped)} not the type" if untyped else ""
            raise DbtError(f"its columns are not known{which}: {way_out}")
        declared = self._keys.get(key, ())
        never = {name for test in declared if not test.is_key for name in test.columns}
        parts = [
            f"{self._quoted(name)} {kind}{' NOT NULL' if name in never else ''}"
            for name, kind in types.items()
        ]
        parts += [test.show(self._quoted) for test in declared if test.is_key]
        listed = ", ".join(parts)
        self._run(f"CREATE TABLE {self._quoted(self._names[key])} ({listed})", None)

    def _view(self, relation: Relation, node: Mapping[str, Any], reads: Sequence[str]) -> None:
        if relation.kind == "snapshot":
            raise DbtError("a snapshot is what dbt saw when it ran, not a query over what is there")
        if node.get("language", "sql") != "sql":
            raise DbtError("a model in Python is no query")
        text = node.get("compiled_code")
        if not isinstance(text, str):
            raise DbtError("it is not compiled: run `dbt compile`")
        path = str(node.get("compiled_path") or relation.path)
        begin = f"CREATE VIEW {self._quoted(relation.name)} AS "
        named = _Named(begin, text, self._spans(text, relation, path, reads))
        try:
            self._run(named.text, path)
        except SqlError as error:
            raise named.as_written(error) from None

    def _run(self, text: str, path: str | None) -> None:
        self._db.execute(text, path=path)

    def _quoted(self, name: str) -> str:
        """A name in quotes of the dialect, if it needs them."""
        if _PLAIN.match(name):
            return name
        return exp.to_identifier(name, quoted=True).sql(self._db.dialect)

    def _spans(
        self, text: str, relation: Relation, path: str, reads: Sequence[str]
    ) -> list[tuple[int, int, str]]:
        """Where a query names relations, and what the connection calls each, in their order."""
        parsed = list(statements(text, self._db.dialect, path, beside=("db", "catalog")))
        if len(parsed) != 1:
            raise DbtError(f"its text is {len(parsed)} statements, and not one query")
        (statement,) = parsed
        sources = {
            str(self._nodes[key].get("relation_name") or ""): self._names[key]
            for key in reads
            if self._nodes[key]["resource_type"] == "source"
        }
        spans = []
        for table in statement.node.find_all(exp.Table):
            parts = [part for part in table.parts if "start" in part.meta]
            written = (table.catalog, table.db, table.name)
            name = self._written.get(written) or self._written.get(("", *written[1:]))
            if table.db and name == relation.name:
                message = (
                    "it reads itself: compile it whole with `dbt compile --full-refresh`, "
                    "a maintained view needs no increments"
                )
                raise DbtError(message)
            if table.db and name is not None and parts:
                start = statement.start + min(part.meta["start"] for part in parts)
                end = statement.start + max(part.meta["end"] for part in parts) + 1
                spans.append((start, end, self._quoted(name)))
            elif not table.db:
                spans += self._outside(statement, table, sources)
        return sorted(spans)

    def _outside(
        self, statement: Statement, table: exp.Table, sources: Mapping[str, str]
    ) -> list[tuple[int, int, str]]:
        """The span of a source that is a file: dbt writes `'sales.csv'` or `read_csv(...)`."""
        inside = [part.meta["start"] for part in table.this.walk() if "start" in part.meta]
        for written in sorted(sources, key=len, reverse=True):  # one may hold the name of another
            if not written or not inside:
                continue
            first = statement.start + min(inside)
            start = statement.text.rfind(written, 0, first + len(written))
            if 0 <= start <= first < start + len(written):
                return [(start, start + len(written), self._quoted(sources[written]))]
        return []


class _Named:
    """A model's text with the connection's names for relations, as a statement that makes a view.

    Errors are about the text as dbt compiled it.
    """

    def __init__(self, begin: str, text: str, spans: Sequence[tuple[int, int, str]]) -> None:
        self._written = text
        self._ends: list[tuple[int, int]] = [(len(begin), 0)]
        """Offsets in `text` up to which names were put in, and what stood there."""
        parts, last, size = [begin], 0, len(begin)
        for start, end, name in spans:
            parts += [text[last:start], name]
            size += start - last + len(name)
            last = end
            self._ends += [(size - len(name), start), (size, end)]
        self.text = "".join([*parts, text[last:].rstrip().rstrip(";")])

    def as_written(self, error: SqlError) -> SqlError:
        """The error with its spans in the text as it was compiled."""
        diagnostics = [
            problem if problem.span is None else replace(problem, span=self._span(problem.span))
            for problem in error.diagnostics
        ]
        sources = {
            problem.span.path: self._written for problem in diagnostics if problem.span is not None
        }
        return type(error)(render_all(diagnostics, sources), diagnostics)

    def _span(self, span: Span) -> Span:
        return span_of(self._written, self._offset(span.start), self._offset(span.end), span.path)

    def _offset(self, offset: int) -> int:
        by, written = max((end for end in self._ends if end[0] <= offset), default=(offset, 0))
        return min(written + offset - by, len(self._written))


def _external(node: Mapping[str, Any]) -> str:
    """Where a source is, if it is a file for dbt (DuckDB's adapter): a path, or what reads one."""
    located = any(
        "external_location" in _part(part, "meta") for part in (node, _part(node, "config"))
    )
    return str(node.get("relation_name") or "") if located else ""


def _file(node: Mapping[str, Any]) -> str:
    """The path of a source that is one file."""
    written = _external(node)
    plain = re.fullmatch(r"'([^'*?\[]+\.(?:csv|parquet))'", written)
    return plain[1] if plain and "://" not in written else ""


def _alias(node: Mapping[str, Any]) -> str:
    return str(node.get("alias") or node.get("identifier") or node.get("name"))


@dataclass(frozen=True, slots=True)
class _Tested:
    """A test of a table that can be a constraint: UNIQUE for a key, else NOT NULL."""

    columns: tuple[str, ...]
    is_key: bool

    def show(self, quoted: Callable[[str], str] = str) -> str:
        """As it is declared."""
        names = ", ".join(map(quoted, self.columns))
        return f"{'UNIQUE' if self.is_key else 'NOT NULL'} ({names})"


def _tested(nodes: Mapping[str, dict[str, Any]]) -> dict[str, list[_Tested]]:
    """By source or seed, the tests of all of its rows of which one broken row fails a build."""
    tests: dict[str, list[_Tested]] = {}
    for node in nodes.values():
        about, config = _part(node, "test_metadata"), _part(node, "config")
        arguments = _part(about, "kwargs")
        name = about.get("name")
        read = _part(node, "depends_on").get("nodes") or []
        if name in ("unique", "not_null"):
            columns = (arguments.get("column_name"),)
        elif name == "unique_combination_of_columns":
            columns = tuple(arguments.get("combination_of_columns") or ())
        else:
            continue
        plain = (
            str(config.get("severity", "error")).lower() == "error"
            and str(config.get("error_if") or "!= 0") == "!= 0"
            and not config.get("where")
            and not config.get("limit")
        )
        kinds = [nodes.get(key, {}).get("resource_type") for key in read]
        if not plain or kinds not in (["source"], ["seed"]) or not all(columns):
            continue
        test = _Tested(tuple(map(str, columns)), name != "not_null")
        if test not in tests.setdefault(read[0], []):
            tests[read[0]].append(test)
    return tests


def _untaken(node: Mapping[str, Any]) -> tuple[str, ...]:
    """What dbt does for a relation that no view does, and what that means."""
    config = _part(node, "config")
    notes = []
    for name in ("pre-hook", "post-hook"):
        hooks = config.get(name)
        for hook in hooks if isinstance(hooks, list) else ():
            notes.append(f"{name} is not run: {_short(_part({'hook': hook}, 'hook').get('sql'))}")
    kind = config.get("materialized")
    if node.get("resource_type") == "model" and node.get("language", "sql") == "sql":
        if kind in ("incremental", "microbatch"):
            notes.append(
                f"materialized as {kind}: kept as --full-refresh makes it, without rows that only "
                "earlier runs saw"
            )
        elif kind not in (*_MATERIALIZED, None):
            notes.append(
                f"materialized as {kind!r}, a macro whose work is not known: kept as a view"
            )
    if node.get("resource_type") == "seed" and config.get("quote_columns"):
        notes.append("quote_columns says nothing here: names are as the file has them")
    return tuple(notes)


def _short(text: object) -> str:
    """A statement on one line, and not all of a long one."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
