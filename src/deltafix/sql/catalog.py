"""What a connection knows: its tables (`sql.tables`), and its views with their rules.

Invariant: a view's rules read only tables and views made before it, so the program is their rules
side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from deltafix.collector import held_back
from deltafix.errors import ProgramError, SqlError, SqlProgrammingError
from deltafix.plan.build import lower
from deltafix.plan.depend import layers
from deltafix.reducers.aggregate import UserReducer
from deltafix.rules import check
from deltafix.rules.ast import FunctorDecl, Program
from deltafix.rules.logical import logical_functor
from deltafix.rules.strata import dependencies, unstratified
from deltafix.sql.builder import Builder, Relation
from deltafix.sql.parsing import statements
from deltafix.sql.query import relation
from deltafix.sql.rules import rules_as_relation, wrong
from deltafix.sql.scope import Scope
from deltafix.sql.tables import ForeignKey, Table, check_properties, table_of
from deltafix.sql.text import Rules, Statement, exp
from deltafix.sql.types import (
    NATIVE_FUNCTORS,
    NULLABLE_TYPES,
)

__all__ = [
    "Catalog",
    "Definition",
    "Seen",
    "View",
    "check_rules",
    "compiled",
    "created",
    "program",
    "refusing",
    "require_made",
    "require_strata",
    "view_of",
]


@dataclass(frozen=True, slots=True)
class View:
    """A view: its relation, the builder that holds its rules, and what the check found of them.

    As long as that is held the engine does not check them again.
    """

    relation: Relation
    builder: Builder
    checked: check.CheckedProgram | None = None

    @property
    def reads(self) -> set[str]:
        """The tables and views it reads."""
        return self.builder.used

    @property
    def is_rules(self) -> bool:
        """Whether it is of rules, not of a query."""
        return isinstance(self.builder.statement.node.args.get("expression"), Rules)

    @property
    def is_recursive(self) -> bool:
        """Whether a part of it reads itself."""
        return self.checked is not None and any(
            stratum.recursive for stratum in self.checked.strata
        )


def created(node: Any) -> Any:
    """What a CREATE names, as a node."""
    return node.this.this if isinstance(node.this, exp.Schema) else node.this


def require_made(statement: Statement, node: exp.Create) -> Any:
    """What a CREATE names. Raises SqlRefusedError if it makes no table or view, or by a query."""
    kind = str(node.args.get("kind") or "").upper()
    if node.args.get("replace") and kind != "VIEW":
        way_out = f"leave OR REPLACE out; what is there is taken away by DROP {kind}"
        raise statement.refused("CREATE OR REPLACE", node, way_out)
    if node.args.get("expression") is not None and kind == "TABLE":
        way_out = "CREATE VIEW keeps a query's rows; CREATE TABLE and INSERT INTO ... SELECT copy"
        raise statement.refused("CREATE TABLE AS", node, way_out)
    if kind not in ("TABLE", "VIEW"):
        way_out = "write CREATE TABLE t (a INTEGER, ...) or CREATE MATERIALIZED VIEW"
        if kind in ("FUNCTION", "MACRO"):
            way_out = "write the expression where it is called; create_function takes one of Python"
        raise statement.refused(f"CREATE {kind} like this", node, way_out)
    return created(node)


Seen: TypeAlias = tuple[str, tuple[str, ...]]
"""What a view's text calls a table: the table's name now, and the names it has for its first
columns; those behind them it does not see."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A CREATE statement as a state folder keeps it; `times` is what the catalog had before it.

    `seen` has the tables that a view reads and that ALTER TABLE changed since, by the names of its
    text.
    """

    sql: str
    dialect: str
    times: int
    seen: Mapping[str, Seen] = field(default_factory=dict)


@dataclass
class Catalog:
    """Tables and views by name, in the order they were made."""

    tables: dict[str, Table] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    """How often views of a name were made: each has functions of its own, by names of their own."""
    reducers: dict[str, UserReducer] = field(default_factory=dict)
    """The reducers of all views that there were. The engine is given this very dictionary, and
    looks in it for those of a view made later."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    """How each table and view was written, in the order they were made."""

    @property
    def relations(self) -> dict[str, Relation]:
        """Everything that FROM can name."""
        tables = {name: table.relation for name, table in self.tables.items()}
        return {**tables, **{name: view.relation for name, view in self.views.items()}}

    def relation(self, name: str) -> Relation | None:
        """What FROM names; None where it is unknown. O(1)."""
        source = self.tables.get(name) or self.views.get(name)
        return None if source is None else source.relation

    def program(self) -> Program:
        """The rules of all views over all tables."""
        tables = [table.relation for table in self.tables.values()]
        return program(tables, [view.builder for view in self.views.values()])

    def functions(self) -> dict[str, Any]:
        """The functions of the program."""
        return {
            name: function
            for view in self.views.values()
            for name, function in view.builder.functions.items()
        }

    @held_back()  # views stay
    def define(
        self,
        statement: Statement,
        dialect: str,
        *,
        mark: str = "",
        seen: Mapping[str, Seen] = MappingProxyType({}),
        later: Mapping[str, Table] = MappingProxyType({}),
    ) -> None:
        """Put the table or view of a CREATE into the catalog; the rest as `view_of` has it.

        A table may refer to one made `later`, where ALTER TABLE had it do so.

        Raises SqlProgrammingError, SqlRefusedError.
        """
        node: Any = statement.node
        named = created(node)
        name, times = named.name, self.times[named.name]
        if str(node.args["kind"]).upper() == "TABLE":
            self.tables[name] = table_of(statement, node, {**later, **self.tables})
        else:
            check_properties(Builder(statement, "", {}), node)
            query = node.args.get("expression")
            if query is None:
                way_out = f"write CREATE MATERIALIZED VIEW {name} AS SELECT ..."
                raise statement.wrong(f"view {name!r} has no query", named, way_out)
            view = view_of(statement, self, mark=mark, seen=seen)
            checked = check_rules(statement, view.builder, self)
            self.views[name] = replace(view, checked=checked)
        self.definitions[name] = Definition(statement.sql, dialect, times, {**seen})

    def replace(self, statement: Statement, dialect: str) -> list[str]:
        """Put the view of a CREATE in the place of the one of this name.

        Returns the views that are not what they were: it, and those that read it if its columns
        changed; they are made anew from their text. Raises SqlProgrammingError, SqlRefusedError;
        then the catalog is to be `restored`.
        """
        name = created(statement.node).name
        behind = {name}
        for reader, view in self.views.items():
            if view.reads & behind:
                behind.add(reader)
        later = [reader for reader in self.views if reader in behind]
        before = {
            reader: (self.views.pop(reader), self.definitions.pop(reader)) for reader in later
        }
        try:
            self.define(statement, dialect)
        except SqlProgrammingError:
            for table in statement.node.args["expression"].find_all(exp.Table):
                if table.name == name:
                    message = f"{name} would read itself"
                    raise statement.wrong(message, table, "WITH RECURSIVE says so") from None
                if table.name in later:
                    message = f"{name} would read {table.name}, which reads {name}"
                    raise statement.wrong(message, table, "read what that reads") from None
            raise
        stays = self.views[name].relation == before[name][0].relation
        for reader in later[1:]:
            view, definition = before[reader]
            if stays:
                self.views[reader], self.definitions[reader] = view, definition
                continue
            try:
                (again,) = statements(definition.sql, definition.dialect)
                self.define(again, definition.dialect, seen=definition.seen)
            except SqlError as error:
                reason = str(error).partition("\n")[0].partition("]: ")[2]
                message = f"{reader} reads {name}, and could not be kept: {reason}"
                raise statement.wrong(message, None, f"DROP VIEW {reader} first") from error
        return later[:1] if stays else later

    def restored(self, before: Catalog) -> None:
        """Become what another one is. Names of functions that a view had are not used again."""
        self.tables, self.views = dict(before.tables), dict(before.views)
        self.times |= before.times
        self.definitions = dict(before.definitions)

    def copy(self) -> Catalog:
        """A catalog of the same tables and views."""
        return replace(
            self,
            tables=dict(self.tables),
            views=dict(self.views),
            times=self.times.copy(),
            definitions=dict(self.definitions),
        )

    def beside(self, other: Catalog) -> Catalog:
        """A catalog that has all of two; what has a name in both is that of the other."""
        merged = self.copy()
        for entries, more in (
            (merged.tables, other.tables),
            (merged.views, other.views),
            (merged.definitions, other.definitions),
        ):
            entries.update(more)  # type: ignore[arg-type]
        return merged

    def without(self, names: Iterable[str]) -> Catalog:
        """A catalog of the other tables and views; foreign keys may refer to what is not there."""
        rest = self.copy()
        for name in names:
            for entries in (rest.tables, rest.views, rest.definitions):
                entries.pop(name, None)
        return rest

    def readers(self, name: str) -> list[str]:
        """The views that read a table or view."""
        return [reader for reader, view in self.views.items() if name in view.reads]

    def referring(self, name: str) -> list[tuple[Table, ForeignKey]]:
        """The foreign keys that refer to a table, with their tables."""
        return [
            (table, foreign)
            for table in self.tables.values()
            for foreign in table.foreign
            if foreign.table == name
        ]


def program(given: Iterable[Relation], builders: Iterable[Builder]) -> Program:
    """The program of what builders made, over given relations."""
    parts = list(builders)
    relations = [relation for part in parts for relation in part.relations]
    reducers = {name: functor for part in parts for name, (functor, _) in part.reducers.items()}
    types = {name: declaration for part in parts for name, declaration in part.types.items()}
    native = {name for part in parts for name in part.native}
    return Program(
        relations=tuple(relation.declaration for relation in (*given, *relations)),
        rules=tuple(rule for part in parts for rule in part.rules),
        types=(*NULLABLE_TYPES, *types.values()),
        functors=(
            *map(_native, sorted(native)),
            *reducers.values(),
            *(f for part in parts for f in part.functors),
        ),
    )


def _native(name: str) -> FunctorDecl:
    """The declaration of a functor that the engine knows."""
    logical = logical_functor(name)
    return NATIVE_FUNCTORS[name] if logical is None else logical[0]


def view_of(
    statement: Statement,
    catalog: Catalog,
    *,
    mark: str = "",
    seen: Mapping[str, Seen] = MappingProxyType({}),
) -> View:
    """Compile a view; with a `mark` in the names of its parts and functions, a text has them, too.

    `seen` is what it calls tables as they were once (`Definition`).

    Raises SqlProgrammingError, SqlRefusedError.
    """
    name = created(statement.node).name
    again = catalog.times[name]
    catalog.times[name] += 1
    relations = catalog.relations
    for of, (table, columns) in seen.items():
        now = catalog.tables[table].relation
        pairs = zip(now.columns, columns, strict=False)
        shown = tuple(replace(column, name=called) for column, called in pairs)
        unseen = (*now.columns[len(columns) :], *now.hidden)
        relations[of] = replace(now, columns=shown, hidden=unseen, renamed=table)
    builder = Builder(statement, f"{name}:{again}" if again else name, relations)
    builder.view = name
    if mark:
        builder.prefix, builder.between, builder.keeps_order = f"{name}{mark}", "_", False
    relation = compiled(builder, statement.node, name)
    catalog.reducers.update({key: reducer for key, (_, reducer) in builder.reducers.items()})
    return View(relation, builder)


def compiled(builder: Builder, node: Any, name: str) -> Relation:
    """What a CREATE VIEW is of, a query or rules, as a relation of this name.

    Raises SqlProgrammingError, SqlRefusedError.
    """
    query = node.args["expression"]
    heads = node.this.expressions if isinstance(node.this, exp.Schema) else []
    if isinstance(query, Rules):
        return rules_as_relation(builder, query, name, heads)
    for head in heads:
        if isinstance(head, exp.ColumnDef):
            way_out = "name the columns only: their types are those of the query"
            raise builder.refused("a column of a view with a type", head, way_out)
    names = [head.name for head in heads]
    return relation(builder, query, Scope(builder.statement), name, names)


def check_rules(statement: Statement, builder: Builder, catalog: Catalog) -> check.CheckedProgram:
    """What the check finds of the rules of a query.

    Refuses recursion through negation or aggregation, which they show.
    """
    rules = program(used_by(catalog, builder).values(), [builder])
    with refusing(statement):
        checked = check.typed(rules)
    if any(stratum.recursive for stratum in checked.strata):
        require_strata(statement, rules)
    return checked


def require_strata(statement: Statement, rules: Program) -> None:
    """Refuse recursion through negation or aggregation.

    SQL's recursion sees the rows of the step before: no group there is ever complete.
    """
    over = unstratified(rules, dependencies(rules), aggregates=True)
    if any(diagnostic.severity == "error" for diagnostic in over):
        with refusing(statement):
            raise ProgramError(diagnostics=over)


_OF_ITSELF = {"DF140", "DF171", "DF172"}
"""Codes of a recursion that negates or aggregates itself."""


def is_planned(builder: Builder) -> bool:
    """Whether no rule so far negates or aggregates itself. As much work as a plan of them."""
    tables = (relation for name, relation in builder.tables.items() if name in builder.used)
    rules = program(tables, [builder])
    try:
        layers(lower(check.typed(rules)))
    except ProgramError as error:
        return _OF_ITSELF.isdisjoint(diagnostic.code for diagnostic in error.diagnostics)
    over = unstratified(rules, dependencies(rules), aggregates=True)
    return not any(diagnostic.severity == "error" for diagnostic in over)


def require_plan(statement: Statement, view: View) -> None:
    """Refuse a view whose rules pass the check and have no plan.

    Only a recursion can have none (`plan.depend`); of one it is as much work as a plan of it.
    """
    if view.checked is not None and view.is_recursive:
        with refusing(statement):
            layers(lower(view.checked))


@contextmanager
def refusing(statement: Statement) -> Iterator[None]:
    """What refuses the rules of a query, in words of SQL; of a view of rules, in theirs.

    Raises SqlRefusedError, SqlProgrammingError.
    """
    try:
        yield
    except ProgramError as error:
        query = statement.node.args.get("expression")
        if isinstance(query, Rules):
            raise wrong(statement, query, error.diagnostics) from None
        codes = {diagnostic.code for diagnostic in error.diagnostics}
        if codes & _OF_ITSELF:
            what = "a recursion that negates or aggregates itself (NOT, outer join, GROUP BY)"
            way_out = "move it out of the recursive part, to the query that reads it"
            raise statement.refused(what, _of_itself(statement.node), way_out) from None
        if codes <= {"DF133"}:
            what = "a condition of this many alternatives"
            raise statement.refused(what, None, "split it over several views") from None
        raise


def _of_itself(node: exp.Expr) -> exp.Expr | None:
    """What aggregates or negates in a common table expression that reads itself: the first."""
    for cte in node.find_all(exp.CTE):
        if any(table.name == cte.alias for table in cte.this.find_all(exp.Table)):
            part: exp.Expr
            for part in cte.this.walk(bfs=False):
                outer = isinstance(part, exp.Join) and part.side
                if outer or isinstance(part, exp.AggFunc | exp.Not | exp.Except | exp.Distinct):
                    return part
            return cte
    return None


def used_by(catalog: Catalog, builder: Builder) -> Mapping[str, Relation]:
    """The tables and views that a query reads."""
    return {name: relation for name, relation in catalog.relations.items() if name in builder.used}
