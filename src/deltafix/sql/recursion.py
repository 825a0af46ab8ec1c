"""WITH: common table expressions, and those that read themselves or each other.

Under RECURSIVE they are made in the order in which they need each other; those that do in a circle
are made together, as the least relations that their UNIONs give. Invariant: a name means what it
means in the dialect: PostgreSQL's sees every expression of its clause, the others those before, and
one that comes later only where there is nothing else of that name.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltafix.errors import SqlError
from deltafix.rules.strata import components
from deltafix.sql import endings
from deltafix.sql import query as queries
from deltafix.sql.builder import Builder, Relation
from deltafix.sql.keyed import RECURRING, keyed
from deltafix.sql.ranking import Rows
from deltafix.sql.scope import Scope
from deltafix.sql.text import exp
from deltafix.sql.types import TEXT, Column

__all__ = ["with_ctes"]


def with_ctes(builder: Builder, query: exp.Expr, scope: Scope) -> Scope:
    """The scope with the common table expressions of a query."""
    clause = query.args.get("with_")
    if clause is None:
        return scope
    ctes: dict[str, exp.CTE] = {}
    for cte in clause.expressions:
        if cte.alias in ctes:
            message = f"two common table expressions are called {cte.alias!r}"
            raise builder.statement.wrong(message, cte.args["alias"], "name them apart")
        ctes[cte.alias] = cte
    reads = _reads(builder, scope, ctes, recursive=bool(clause.args.get("recursive")))
    for circle in components(reads):
        cte = ctes[circle[0]]
        is_recursive = len(circle) > 1 or cte.alias in reads[cte.alias]
        keys = next((k for name in circle if (k := ctes[name].args.get("key_expressions"))), None)
        if keys:
            _require_keyed(builder, circle, keys[0], is_recursive=is_recursive)
            alone = _member(builder, cte, {cte.alias: cte})
            outer = Scope(scope.statement, scope.ctes)
            relations = {cte.alias: keyed(builder, cte, alone.first, alone.again, outer)}
        elif is_recursive:
            ordered = {name: ctes[name] for name in ctes if name in circle}
            relations = _planned(builder, ordered, scope)
        else:
            inner = Scope(scope.statement, scope.ctes)
            relations = {cte.alias: queries.relation(builder, cte.this, inner, None, _names(cte))}
        for name, relation in relations.items():
            scope = scope.with_cte(name, relation)
    return scope


def _require_keyed(
    builder: Builder, circle: Sequence[str], node: exp.Expr, *, is_recursive: bool
) -> None:
    """Raise SqlRefusedError for USING KEY where it is not DuckDB's."""
    if builder.statement.dialect != "duckdb":
        raise builder.refused("USING KEY, which DuckDB alone has,", node, "GROUP BY it outside")
    if len(circle) > 1:
        what = f"USING KEY in {' and '.join(sorted(circle))}, which read each other,"
        raise builder.refused(what, node, "leave it out, and GROUP BY the key outside")
    if not is_recursive:
        way_out = f"read {circle[0]} on one side of UNION, or GROUP BY the key"
        raise builder.refused(f"USING KEY of {circle[0]}, which is not recursive,", node, way_out)


def _names(cte: exp.CTE) -> list[str]:
    return [column.name for column in cte.args["alias"].columns]


def _mentions(node: exp.Expr, names: Container[str]) -> bool:
    return any(
        table.name in names and table.db in ("", RECURRING) for table in node.find_all(exp.Table)
    )


def _reads(
    builder: Builder, scope: Scope, ctes: Mapping[str, exp.CTE], *, recursive: bool
) -> dict[str, dict[str, None]]:
    """Which of the expressions each reads."""
    known = {**builder.tables, **scope.ctes}
    sees_all = builder.statement.dialect == "postgres"
    reads: dict[str, dict[str, None]] = {}
    for name, cte in ctes.items():
        seen = set(reads)
        if recursive:
            seen |= {name, *(other for other in ctes if sees_all or other not in known)}
        reads[name] = {
            other: None for other in ctes if other in seen and _mentions(cte.this, {other})
        }
        if name not in seen and name not in known and not cte.this.find(exp.With):
            for table in cte.this.find_all(exp.Table):
                if table.name == name and not table.db:
                    message = f"there is no table {name!r} yet where it is defined"
                    way_out = f"WITH RECURSIVE lets {name} read itself"
                    raise builder.statement.wrong(message, table, way_out)
    return reads


@dataclass
class _Member:
    """One of the expressions that read each other.

    Attributes:
        query: what it says, a UNION.
        first: the sides of it that read none of them, `starts` once they are made.
        again: those that do.
        columns: what it has, once that is known of a side.
        deciding: of a UNION ALL that no column bounds, those that decide whether it ends.
    """

    cte: exp.CTE
    query: exp.Expr
    distinct: bool
    first: list[exp.Expr]
    again: list[exp.Expr]
    starts: list[Rows] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    deciding: list[int] | None = None

    def widen(self, builder: Builder, parts: Sequence[Rows]) -> bool:
        """Take in the columns of sides; whether that makes its own others."""
        sides = [part.columns for part in parts]
        columns = queries.unified(
            builder, self.query, [self.columns, *sides] if self.columns else sides
        )
        if not self.columns:
            names = _names(self.cte) or [column.name for column in columns]
            if len(names) != len(columns):
                message = f"{len(names)} names for {len(columns)} columns"
                raise builder.statement.wrong(message, self.cte, "give each column one name")
            columns = [
                replace(column, name=name) for column, name in zip(columns, names, strict=True)
            ]
        before, self.columns = self.columns, columns
        return columns != before


def _planned(builder: Builder, ctes: Mapping[str, exp.CTE], scope: Scope) -> dict[str, Relation]:
    """The same as `_recursive`; where that has no plan, what subqueries read is gathered."""
    from deltafix.sql.catalog import is_planned  # noqa: PLC0415  the two need each other

    mark = builder.mark()
    relations = _recursive(builder, ctes, scope)
    if builder.gathers or not any(map(_asks, ctes.values())) or is_planned(builder):
        return relations
    builder.back(mark)
    builder.gathers = True
    try:
        return _recursive(builder, ctes, scope)
    finally:
        builder.gathers = False


def _asks(cte: exp.CTE) -> bool:
    """Whether it has what may ask other tables by its rows: subqueries, or joins of one side."""
    selects, unions = ([*cte.this.find_all(kind)] for kind in (exp.Select, exp.SetOperation))
    joins = cte.this.find_all(exp.Join)
    return len(selects) > len(unions) + 1 or any(join.side for join in joins)


def _recursive(builder: Builder, ctes: Mapping[str, exp.CTE], scope: Scope) -> dict[str, Relation]:
    """WITH RECURSIVE: the least relations that the UNIONs of these give."""
    outer = Scope(scope.statement, scope.ctes)
    members = {name: _member(builder, cte, ctes) for name, cte in ctes.items()}
    for name, member in members.items():
        member.starts = [
            queries.rows(builder, side, outer.inner(alone=True)) for side in member.first
        ]
        if member.starts:
            member.widen(builder, member.starts)
        if not member.distinct:
            names = [column.name for column in member.columns]
            if not endings.is_bounded(builder, member.again, name, names):
                member.deciding = sorted(endings.deciding(member.again, name, names))
    while True:
        mark = builder.mark()
        relations = {
            name: builder.relation(member.columns)
            if member.distinct
            else builder.relation(
                member.columns, [Column("path", TEXT, nullable=False)], [len(member.columns)]
            )
            for name, member in members.items()
            if member.columns
        }
        inner = replace(outer, ctes={**outer.ctes, **relations})
        unknown = members.keys() - relations.keys()
        steps = {
            name: [
                queries.rows(builder, side, inner.inner(alone=True))
                for side in member.again
                if not _mentions(side, unknown)
            ]
            for name, member in members.items()
        }
        wider = [members[name].widen(builder, parts) for name, parts in steps.items() if parts]
        if not any(wider):
            break
        builder.back(mark)
    if unknown:
        raise _endless(builder, ctes, next(name for name in members if name in unknown))
    for name, member in members.items():
        relation = relations[name]
        if member.deciding is not None:
            for side, part in zip(member.again, steps[name], strict=True):
                endings.require_recurring(builder, side, part, relation, name)
        for number, part in enumerate((*member.starts, *steps[name])):
            outputs = [operand for _, operand in part.outputs]
            if member.deciding is not None:
                watched = endings.watched_path_of(
                    builder, number, part, relation, positions=member.deciding, name=name
                )
                outputs.append(watched)
            elif not member.distinct:
                outputs.append(endings.path_of(builder, number, part))
            builder.head(relation, outputs, part.body)
    return relations


def _member(builder: Builder, cte: exp.CTE, circle: Mapping[str, exp.CTE]) -> _Member:
    """Read one of a circle. Raises SqlProgrammingError, SqlRefusedError for what is none."""
    query = queries.unwrapped(cte.this)
    alone = len(circle) == 1
    if not alone and isinstance(query, exp.Select) and query.args.get("distinct"):
        side = query.copy()  # the relation is a set: SELECT DISTINCT is a UNION of one side
        side.set("distinct", None)
        return _Member(cte, query, True, [], [side])
    if not isinstance(query, exp.Union):
        way_out = f"write UNION with a side that reads {cte.alias}"
        if not alone:
            way_out = "write SELECT DISTINCT, or UNION"
        raise builder.refused("recursion without UNION", cte, way_out)
    builder.statement.require_only(query, ("this", "expression", "distinct"))
    distinct = bool(query.args.get("distinct"))
    if not (alone or distinct):
        others = " and ".join(sorted(circle))
        what = f"UNION ALL in {others}, which read each other,"
        raise builder.refused(what, query, "write UNION")
    sides = [
        *queries.sides_of(query.this, distinct=distinct),
        *queries.sides_of(query.expression, distinct=distinct),
    ]
    first = [side for side in sides if not _mentions(side, circle)]
    if alone and not first:
        raise _endless(builder, circle, cte.alias)
    return _Member(cte, query, distinct, first, [side for side in sides if _mentions(side, circle)])


def _endless(builder: Builder, ctes: Mapping[str, exp.CTE], name: str) -> SqlError:
    message = f"{name} has no part to begin with"
    way_out = f"one side of UNION must not read {name}"
    if len(ctes) > 1:
        way_out = f"one side of UNION must not read {' or '.join(sorted(ctes))}"
    return builder.statement.wrong(message, ctes[name], way_out)
