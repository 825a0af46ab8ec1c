"""Names: which operand a column of a query is.

A `Scope` holds what one SELECT can see: its sources, columns that USING merged, common table
expressions, and the scope around it. Invariant: a name is found in one place or is an error that
says what there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from deltafix.sql.builder import Operand, Relation
from deltafix.sql.text import Statement, exp

__all__ = ["OUTER", "CorrelatedError", "Scope", "Source", "outer_column", "shown_as"]

OUTER: Final = "~outer"
"""The name of the source that has what a query that stands alone reads of the query around it."""


def outer_column(position: int) -> exp.Column:
    """A column of that source."""
    return exp.column(f"{OUTER}{position}", OUTER)


def shown_as(
    statement: Statement, node: exp.Expr, names: Sequence[str], columns: Sequence[str]
) -> list[str]:
    """The names of the columns of an item of FROM, the first of which an alias may give.

    Raises SqlProgrammingError for more names than columns, and for two columns of one name.
    """
    if len(names) > len(columns):
        message = f"{len(names)} names for {len(columns)} columns"
        raise statement.wrong(message, node, "give each column one name")
    named = [*names, *columns[len(names) :]]
    for position, name in enumerate(named):
        if name in named[:position]:
            message = f"two columns are called {name!r}"
            raise statement.wrong(message, node, "give all columns names behind the alias")
    return named


class CorrelatedError(Exception):
    """A query that must stand alone reads a column of the query around it, or a field of one."""

    def __init__(self, node: exp.Column | exp.Dot) -> None:
        super().__init__(node.sql())
        self.node = node
        self.column = column_in(node)


def column_in(node: exp.Column | exp.Dot) -> exp.Column:
    """A column itself, or that which a field is of."""
    column = node.find(exp.Column)
    assert column is not None  # noqa: S101  or it is no such node
    return column


@dataclass(frozen=True, slots=True)
class Source:
    """One table of a FROM: its name there, its columns, and what tells its rows apart."""

    alias: str
    columns: Mapping[str, Operand]
    identity: tuple[Operand, ...]


@dataclass
class Scope:
    """What a SELECT sees.

    Attributes:
        merged: columns that USING made one of two, as PostgreSQL orders them: the last's first.
        covers: the tables whose columns each of those is.
        known: expressions that have a value already: what it is grouped by, its aggregates; None
            before grouping.
        windows: the values of its window functions, once there are any.
        elements: those of its UNNESTs in SELECT.
        given: what the names of SELECT stand for, for subqueries (`named`).
        around: the scope around it; `alone` where reading that is a CorrelatedError, but of the
            columns of the `domain`, which are its first source, `OUTER`, under their places.
    """

    statement: Statement
    ctes: Mapping[str, Relation] = field(default_factory=dict)
    around: Scope | None = None
    alone: bool = False
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Operand] = field(default_factory=dict)
    covers: dict[str, frozenset[str]] = field(default_factory=dict)
    known: dict[exp.Expr, Operand] | None = None
    windows: dict[exp.Expr, Operand] = field(default_factory=dict)
    elements: dict[exp.Expr, Operand] = field(default_factory=dict)
    given: Mapping[str, exp.Expr] = field(default_factory=dict)
    outer_used: bool = False
    domain: tuple[Operand, ...] = ()
    domain_rows: Relation | None = None

    def inner(self, *, alone: bool = False) -> Scope:
        """The scope of a query inside."""
        return Scope(self.statement, self.ctes, self, alone)

    def side(self) -> Scope:
        """The scope of a side of a set operation, which sees what that sees."""
        if not self.domain:
            return self.inner(alone=True)
        scope = Scope(self.statement, self.ctes, self.around, alone=True, domain=self.domain)
        scope.domain_rows = self.domain_rows
        return scope

    def merge(self, merged: Mapping[str, Operand], alias: str) -> None:
        """Note what the USING of a join with a table, which is there already, makes one."""
        for name in merged:
            left = (s.alias for s in self.sources if name in s.columns)
            self.covers[name] = self.covers.get(name, frozenset(left)) | {alias}
        rest = {name: operand for name, operand in self.merged.items() if name not in merged}
        self.merged = {**merged, **rest}

    def column(self, node: exp.Column) -> Operand:
        """The operand of a column. Raises SqlProgrammingError, CorrelatedError."""
        operand = self.here(node)
        if operand is not None:
            if self.known is None:
                return operand
            grouped = self.known.get(self.qualified(node))
            if grouped is None:
                aggregate = node.find_ancestor(exp.AggFunc, exp.Select)
                if isinstance(aggregate, exp.AggFunc):
                    raise self.aggregated_around(aggregate)
                message = f"column {node.sql()} is neither grouped by nor aggregated"
                way_out = f"add it to GROUP BY, or write MIN({node.sql()})"
                raise self.statement.wrong(message, node, way_out)
            return grouped
        if self.around is not None and self.around.sees(node):
            if self.alone:
                return self.column(self.of_domain(node, self.around))
            self.outer_used = True
            return self.around.column(node)
        named = self.named(node)
        if named is not None:
            return self.column(named)
        raise self.unknown(node)

    def named(self, node: exp.Column) -> exp.Column | None:
        """The column that a name of SELECT of a query around stands for, in DuckDB's dialect.

        None where the name stands for more, or where the column has another meaning here.
        """
        around, inside = self.around, [self]
        while around is not None and node.name not in around.given:
            inside.append(around)
            around = around.around
        if around is None or node.table or self.statement.dialect != "duckdb":
            return None
        meaning = around.given[node.name]
        if not isinstance(meaning, exp.Column) or around.known is not None:
            return None
        column = around.qualified(meaning)
        if not isinstance(column, exp.Column) or any(scope.here(column) for scope in inside):
            return None
        return column if around.here(column) is not None else None

    def of_domain(self, node: exp.Column | exp.Dot, around: Scope) -> exp.Column:
        """The column of the domain that an outer one is. Raises CorrelatedError if it is none."""
        operand = around.read(node) if self.domain else None
        if operand not in self.domain:
            raise CorrelatedError(node)
        return outer_column(self.domain.index(operand))

    def outer(self) -> tuple[Operand, ...]:
        """The columns of the domain as they are now."""
        return tuple(map(self.column, self.outer_columns()))

    def outer_columns(self) -> list[exp.Column]:
        """The columns of the domain."""
        return [outer_column(position) for position in range(len(self.domain))]

    def grouped_field(self, node: exp.Dot) -> Operand | None:
        """A field of a column of a query around that is grouped by it; None for any other."""
        column = node.find(exp.Column)
        if column is None or self.here(column) is not None or self.around is None:
            return None
        operand = self.around.grouped(node)
        if operand is not None and self.alone:
            return self.column(self.of_domain(node, self.around))
        self.outer_used = self.outer_used or operand is not None
        return operand

    def read(self, node: exp.Column | exp.Dot) -> Operand:
        """A column, or a field that a query is grouped by. Raises as `column`."""
        operand = self.grouped(node) if isinstance(node, exp.Dot) else None
        return operand or self.column(column_in(node))

    def grouped(self, node: exp.Dot) -> Operand | None:
        """A field that this query, or one around, is grouped by; None for any other."""
        return (self.known or {}).get(self.qualified(node)) or self.grouped_field(node)

    def sees(self, node: exp.Column) -> bool:
        """Whether the name means something here or further out."""
        return self.here(node) is not None or (self.around is not None and self.around.sees(node))

    def here(self, node: exp.Column) -> Operand | None:
        """The operand in this scope alone. Raises SqlProgrammingError for two of one name."""
        name, table = node.name, node.table
        if not table and name in self.merged:
            return self.merged[name]
        sources = [s for s in self.sources if table in ("", s.alias) and name in s.columns]
        if len(sources) > 1:
            choices = " or ".join(f"{source.alias}.{name}" for source in sources)
            raise self.statement.wrong(f"column {name!r} is ambiguous", node, f"write {choices}")
        return sources[0].columns[name] if sources else None

    def meant(self, node: exp.Expr, shown: Sequence[exp.Expr]) -> exp.Expr:
        """What a name that is no column here stands for in what is selected; else the node."""
        if not isinstance(node, exp.Column) or node.table or self.here(node) is not None:
            return node
        return next(
            (item.unalias() for item in reversed(shown) if item.alias and item.alias == node.name),
            node,
        )

    def qualified(self, node: exp.Expr) -> exp.Expr:
        """The expression with the table on each of its columns: one spelling for one meaning.

        In a subquery names are as they are written: there they may be those of other tables.
        """

        def spelled(part: exp.Expr) -> exp.Expr:
            if part.find_ancestor(exp.Query):
                return part
            twice = isinstance(part, exp.Subquery) and isinstance(part.this, exp.Subquery)
            if twice or isinstance(part, exp.Paren):
                inside: exp.Expr = part.this.transform(spelled)
                return inside
            return self._qualified(part) if isinstance(part, exp.Column) else part

        return self._qualified(node) if isinstance(node, exp.Column) else node.transform(spelled)

    def _qualified(self, node: exp.Column) -> exp.Column:
        """A column with its table; itself where it is of several, or of none."""
        table, name = node.table, node.name
        if table or name not in self.merged:
            for source in self.sources:
                if table in ("", source.alias) and name in source.columns:
                    return exp.column(name, source.alias)
        return node

    def tables_of(self, node: exp.Expr) -> set[str]:
        """The names of the tables whose columns an expression reads."""
        return {self.qualified(column).text("table") for column in node.find_all(exp.Column)}

    def is_between(self, left: exp.Expr, right: exp.Expr) -> bool:
        """Whether two expressions read columns, of no table both."""
        left_tables, right_tables = self.tables_of(left), self.tables_of(right)
        return bool(left_tables and right_tables) and left_tables.isdisjoint(right_tables)

    def aggregated_around(self, node: exp.Expr) -> Exception:
        """The error for an aggregate in a subquery over columns of the query around it."""
        message = f"{node.sql()} in a subquery is about rows of the query around it"
        way_out = "select it in a query by itself, AS m, and ask about m in WHERE of one around"
        return self.statement.wrong(message, node, way_out)

    def unknown(self, node: exp.Column) -> Exception:
        """The error for a name that is nowhere."""
        around = self.around
        while around is not None and not node.table:
            if node.name in around.given:
                message = f"unknown column {node.name!r}: a subquery does not see names of SELECT"
                again = around.given[node.name].sql(self.statement.dialect)
                return self.statement.wrong(message, node, f"repeat it: {again}")
            around = around.around
        sources, around = list(self.sources), self.around
        while around is not None:
            sources += around.sources
            around = around.around
        sources = [source for source in sources if source.alias != OUTER]
        aliases = list(dict.fromkeys(source.alias for source in sources))
        if node.table and node.table not in aliases:
            return self.statement.unknown("table", node.table, aliases, node)
        if not node.table and node.name in aliases:
            (table, *_) = (source for source in sources if source.alias == node.name)
            message = f"{node.name!r} is a table, where a column is wanted"
            named = next((f"{node.name}.{name}" for name in table.columns), f"{node.name}.*")
            way_out = f"name a column, as {named}"
            if isinstance(node.parent, exp.Count):
                way_out = f"COUNT(*) counts rows, COUNT({named}) those with a value there"
            return self.statement.wrong(message, node, way_out)
        known = [
            name
            for source in sources
            if node.table in ("", source.alias)
            for name in source.columns
        ]
        return self.statement.unknown("column", node.name, list(dict.fromkeys(known)), node)

    def with_cte(self, name: str, relation: Relation) -> Scope:
        """The scope where a common table expression has a name."""
        return replace(self, ctes={**self.ctes, name: relation})
