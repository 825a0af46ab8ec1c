"""A text of SQL as a program: CREATE TABLE declares inputs, CREATE VIEW what follows from them.

    text -> statements -> `Catalog` -> `TableProgram`

For pipelines and `deltafix.spark.maintain`, whose rows come from inputs and go to outputs: here no
row is known, so nothing that needs one is taken. A table without a key has no hidden numbers here:
it is the set of the rows that its input says are there. A view whose rows may be equal is kept
without an outside, or, where it is `counted`, as its distinct rows with `multiplicity`.
Invariant: names of parts and functions hold a digest of all that they follow from, so two programs
that differ in what a rule computes differ in the rule. They are names that a text of rules can
have, since shards keep one, and lay rows out anew where it says the types of all records.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

import deltafix
from deltafix.datalog.program import Program as Text
from deltafix.errors import ProgramError, SourceError
from deltafix.reducers.aggregate import (
    Changes,
    Columnar,
    Gathers,
    Loaded,
    Several,
    SortedRows,
    UserReducer,
)
from deltafix.rules.ast import Atom, RelationDecl
from deltafix.rules.tables import TableKey, TableProgram
from deltafix.rules.terms import Aggregate
from deltafix.sql import durable
from deltafix.sql.builder import Relation, equal
from deltafix.sql.catalog import Catalog, View, require_made
from deltafix.sql.logical import SqlLogical
from deltafix.sql.parsing import statements
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import BIGINT, NULL, Column, length_of

__all__ = ["MULTIPLICITY", "maker", "program_of", "read_program"]

MULTIPLICITY: Final = "multiplicity"
"""The column of a counted view that says how often a row is there."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def read_program(
    path: Path, *, dialect: str = "duckdb", counted: Collection[str] = ()
) -> TableProgram:
    """The program of a file (UTF-8). Raises SourceError, and what `program_of` raises."""
    try:
        text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"{path}: cannot be read: {reason}", path=str(path)) from None
    return program_of(text, dialect=dialect, path=str(path), counted=counted)


def program_of(
    text: str, *, dialect: str = "duckdb", path: str | None = None, counted: Collection[str] = ()
) -> TableProgram:
    """The program of a text.

    Args:
        text: CREATE TABLE and CREATE [MATERIALIZED] VIEW statements.
        dialect: whose SQL they are: `duckdb`, `postgres` or `spark`.
        path: the name of the text in errors.
        counted: views to be kept as distinct rows with how often each is there.

    Raises SqlProgrammingError, SqlRefusedError: with the place in the text.
    """
    catalog = Catalog()
    digests: dict[str, str] = {}
    keys: list[TableKey] = []
    shown: dict[str, tuple[Column, ...]] = {}
    for statement in statements(text, dialect, path):
        name = _require_new(statement, dialect, catalog)
        mark = f"__{_digest(statement, dialect, digests)}"
        catalog.define(statement, dialect, mark=mark)
        digests[name] = mark
        if name in catalog.tables:
            keys += _table(statement, catalog, name)
            relation = catalog.tables[name].relation
        else:
            relation = catalog.views[name].relation
        _require_columns(statement, relation)
        if name in counted and name in catalog.views:
            relation = _counted(catalog, name, mark)
        if not relation.hidden:
            shown[name] = relation.columns
    program = catalog.program()
    source = _Source(text, dialect, tuple(sorted(counted)))
    return TableProgram(
        tuple(map(_readable, program.relations)),
        program.rules,
        types=program.types,
        functors=program.functors,
        source=text,
        path=path,
        functions={
            name: _Function(function, source, name) for name, function in _functions(catalog)
        },
        reducers={
            name: _shipped(reducer, source, name) for name, reducer in catalog.reducers.items()
        },
        tables={name: _logical(shown[name]) for name in catalog.tables},
        views={name: _logical(shown[name]) for name in catalog.views if name in shown},
        bags=frozenset(catalog.views.keys() - shown.keys()),
        keys=tuple(keys),
        made_by=f"{maker()} {dialect}",
    )


@cache
def maker() -> str:
    """What functions depend on beside the text: deltafix, the parser, and Python."""
    sources = hashlib.sha256()
    for path in sorted(Path(deltafix.__path__[0]).rglob("*.py")):
        sources.update(path.read_bytes())
    return f"{sources.hexdigest()} sqlglot {version('sqlglot')} {sys.version}"


# --- statements ----------------------------------------------------------------------------------


def _require_new(statement: Statement, dialect: str, catalog: Catalog) -> str:
    """The name that a statement makes. Raises SqlRefusedError, SqlProgrammingError."""
    node = statement.node
    if statement.explain or not isinstance(node, exp.Create):
        verb = statement.explain or statement.verb
        way_out = (
            "a program is CREATE TABLE and CREATE VIEW; rows come from its inputs, so leave it out"
        )
        refusal = statement.refused(f"the statement {verb}", node, way_out)
        raise refusal
    named = require_made(statement, node)
    durable.check(statement, dialect)
    name = str(named.name)
    if name in catalog.relations:
        message = f"there is a table or view {name!r} already"
        raise statement.wrong(message, named, "choose another name")
    _require_name(statement, name, named)
    if _is_word(name):
        message = f"the name {name!r} of a table or view in a program"
        raise statement.refused(message, named, "rules have that word; choose another name")
    return name


def _readable(declared: RelationDecl) -> RelationDecl:
    """A declaration whose hidden columns have names that a text can have."""
    attributes = (
        replace(attribute, name=attribute.name.replace("~", "?"))
        for attribute in declared.attributes
    )
    return replace(declared, attributes=tuple(attributes))


def _is_word(name: str) -> bool:
    """Whether a name means something else in the text of rules."""
    try:
        Text.parse(f".decl {name}(x: number) {name}(1).")
    except ProgramError:
        return True
    return False


def _require_name(statement: Statement, name: str, node: exp.Expr | None) -> None:
    if not _NAME.fullmatch(name):
        way_out = "letters, digits and _ make a name that files and tables outside take, too"
        raise statement.refused(f"the name {name!r} in a program", node, way_out)


def _require_columns(statement: Statement, relation: Relation) -> None:
    """Refuse columns that no output could have."""
    names = [column.name for column in relation.columns]
    for position, column in enumerate(relation.columns):
        _require_name(statement, column.name, None)
        if column.name in names[:position]:
            message = f"two columns of {relation.name} are called {column.name!r}"
            raise statement.wrong(message, None, "name one of them with AS")
        if column.type is NULL:
            message = f"column {column.name!r} of {relation.name} is NULL of no type"
            raise statement.wrong(message, None, "write CAST(NULL AS INTEGER), or another type")


def _table(statement: Statement, catalog: Catalog, name: str) -> list[TableKey]:
    """Take the hidden numbers from a table; its keys. Raises SqlRefusedError."""
    for kind, word, way_out in (
        (exp.CheckColumnConstraint, "CHECK", "write the condition in the views that read it"),
        (exp.DefaultColumnConstraint, "DEFAULT", "give every column in the input"),
        (exp.Reference, "REFERENCES", "ask in a view for rows that refer to none"),
    ):
        node = statement.node.find(kind)
        if node is not None:
            raise statement.refused(f"{word} in a program", node, way_out)
    for node in statement.node.find_all(exp.DataType):
        if length_of(node) is not None:
            way_out = "write TEXT, and the condition in the views that read it"
            raise statement.refused(f"{node.sql()} in a program", node, way_out)
    table = catalog.tables[name]
    columns = table.relation.columns
    if table.numbered:
        table.relation = replace(table.relation, hidden=(), identity=tuple(range(len(columns))))
    return [
        TableKey(name, key.kind, tuple(columns[position].name for position in key.positions))
        for key in table.keys
    ]


def _digest(statement: Statement, dialect: str, digests: dict[str, str]) -> str:
    """What tells a statement, with all that it reads, from others; layout does not count."""
    read = [digests.get(table.name, "") for table in statement.node.find_all(exp.Table)]
    said = "\n".join([dialect, statement.node.sql(comments=False), *read])
    return hashlib.sha256(said.encode()).hexdigest()[:10]


def _counted(catalog: Catalog, name: str, mark: str) -> Relation:
    """Keep the rows of a view under another name; under its own, each once and how often."""
    view = catalog.views[name]
    bag, builder = view.relation, view.builder
    inner = replace(bag, name=f"{name}{mark}_rows", of=name)
    builder.relations = [
        inner if relation.name == name else relation for relation in builder.relations
    ]
    builder.rules = [
        replace(rule, heads=tuple(replace(h, relation=inner.name) if h.relation == name else h
                                  for h in rule.heads))
        for rule in builder.rules
    ]  # fmt: skip
    atom, operands = builder.groups(inner, range(len(bag.columns)))
    terms = [operand.term for operand in operands]
    row, rest = builder.bind(inner)
    body = Atom(row.relation, (*terms, *(operand.term for operand in rest[len(terms) :])))
    columns = (*bag.columns, Column(MULTIPLICITY, BIGINT, nullable=False))
    counted = builder.relation(columns, identity=range(len(bag.columns)), name=name)
    number = builder.fresh("n")
    builder.rule(counted, [*terms, number], [atom, equal(number, Aggregate("count", None, body))])
    catalog.views[name] = View(inner, builder)
    return counted


def _logical(columns: tuple[Column, ...]) -> tuple[SqlLogical, ...]:
    return tuple(map(SqlLogical.of, columns))


def _functions(catalog: Catalog) -> list[tuple[str, Callable[..., Any]]]:
    return list(catalog.functions().items())


# --- functions on their way to workers -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Source:
    """What a worker makes the program of again."""

    text: str
    dialect: str
    counted: tuple[str, ...]


@lru_cache(maxsize=8)
def _again(source: _Source) -> TableProgram:
    return program_of(source.text, dialect=source.dialect, counted=source.counted)


def _function(source: _Source, name: str) -> Callable[..., Any]:
    return _again(source).functions[name]


def _reducer(source: _Source, name: str) -> UserReducer:
    return _again(source).reducers[name]


class _Function:
    """A function of the program; pickled as where it comes from."""

    def __init__(self, compute: Callable[..., Any], source: _Source, name: str) -> None:
        self._compute = compute
        self._from = source, name

    def __call__(self, *values: Any) -> Any:
        return self._compute(*values)

    def __reduce__(self) -> Any:
        return _function, self._from


class _Reducer:
    """A reducer of the program; pickled as where it comes from."""

    def __init__(self, reducer: UserReducer, source: _Source, name: str) -> None:
        self.initial = reducer.initial
        self.add = reducer.add
        self.remove = reducer.remove
        self.finish = reducer.finish
        self._from = source, name

    def __reduce__(self) -> Any:
        return _reducer, self._from


class _Gathers(_Reducer, Gathers):
    """One that takes many values at once."""

    def __init__(self, reducer: Any, source: _Source, name: str) -> None:
        super().__init__(reducer, source, name)
        self._gather = reducer.gather

    def gather(self, acc: Any, values: list[Any], sign: int, /) -> Any:
        return self._gather(acc, values, sign)


class _Columnar(_Reducer, Columnar):
    """One that takes all values of many groups as columns."""

    def __init__(self, reducer: Any, source: _Source, name: str) -> None:
        super().__init__(reducer, source, name)
        self.sorts = reducer.sorts
        self._load = reducer.load

    def load(self, rows: SortedRows, /) -> Loaded | None:
        loaded: Loaded | None = self._load(rows)
        return loaded


class _Several(_Reducer, Several):
    """One whose result is a list."""

    def __init__(self, reducer: Any, source: _Source, name: str) -> None:
        super().__init__(reducer, source, name)
        self._changes = reducer.changes

    def changes(self, before: Any, after: Any, values: list[Any], /) -> Changes:
        changes: Changes = self._changes(before, after, values)
        return changes


def _shipped(reducer: UserReducer, source: _Source, name: str) -> UserReducer:
    said = {Gathers: _Gathers, Columnar: _Columnar, Several: _Several}
    bases = [shipped for base, shipped in said.items() if isinstance(reducer, base)]
    shipped = type("_Shipped", (*bases, _Reducer), {})
    return cast("UserReducer", shipped(reducer, source, name))
