"""PIVOT and UNPIVOT, of values that are written: queries that group, and that unite.

    PIVOT t ON a IN (2, 4) USING SUM(b)
        SELECT id, SUM(b) FILTER (WHERE a = 2) AS "2", SUM(b) FILTER (WHERE a = 4) AS "4"
        FROM t GROUP BY id                     -- by every column that it does not name
    UNPIVOT t ON a, b INTO NAME k VALUE v
        SELECT id, 'a' AS k, a AS v FROM t WHERE a IS NOT NULL UNION ALL ...

DuckDB's spelling and the standard's (`FROM t PIVOT (SUM(b) FOR a IN (2, 4))`), DuckDB's names.
Invariant: which columns there are follows from the statement and the columns of the table, never
from rows; a PIVOT without IN is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from deltafix.sql.builder import NIL, Operand
from deltafix.sql.scope import Scope, Source
from deltafix.sql.stars import picked
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import NULL

__all__ = ["pivot_of", "written_out"]


def pivot_of(node: exp.Expr) -> exp.Pivot | None:
    """The PIVOT of an item of FROM, of which its `this` is the table; None where it has none."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Pivot):
        return node.this
    pivots = node.args.get("pivots")
    if not pivots:
        return None
    pivot: Any = pivots[0].copy()
    source = node.copy()
    source.set("pivots", pivots[:-1])
    if len(pivots) > 1:
        pivot = pivots[-1].copy()
    source.set("joins", None)
    pivot.set("this", source)
    return pivot  # type: ignore[no-any-return]


def written_out(
    statement: Statement, pivot: exp.Pivot, table: str, columns: Sequence[str]
) -> exp.Query:
    """The query that a PIVOT or UNPIVOT of a table with these columns is."""
    bare: Any = pivot.transform(_bare)
    if pivot.args.get("unpivot"):
        return _United(statement, bare, table, columns).query()
    return _grouped(statement, bare, table, columns)


def _bare(node: exp.Expr) -> exp.Expr:
    """A column without the name of the table, which has another one here."""
    if isinstance(node, exp.Column) and node.table:
        node.set("table", None)
    return node


def _grouped(
    statement: Statement, pivot: exp.Pivot, table: str, columns: Sequence[str]
) -> exp.Select:
    is_short = pivot.args.get("fields") in (None, [])
    ons = pivot.expressions if is_short else pivot.args["fields"]
    using = (pivot.args.get("using") or ()) if is_short else pivot.expressions
    using = using or [exp.Count(this=exp.Star())]
    choices = [list(_values(statement, on)) for on in ons]
    for aggregate in using:
        if not isinstance(aggregate.unalias(), exp.AggFunc):
            way_out = "write USING SUM(column), and compute with it outside"
            raise statement.refused("PIVOT of no aggregate", aggregate, way_out)
    group = pivot.args.get("group")
    if group is not None:
        keys = [key.copy() for key in group.expressions]
    else:
        parts = [*(on.this for on in ons), *using]
        named = {column.name for part in parts for column in part.find_all(exp.Column)}
        keys = [exp.column(name, quoted=True) for name in columns if name not in named]
    shown: list[exp.Expr] = [*keys]
    for combination in product(*choices):
        test = exp.and_(*(condition for condition, _ in combination))
        for aggregate in using:
            value = exp.Filter(
                this=aggregate.unalias().copy(), expression=exp.Where(this=test.copy())
            )
            name = "_".join(name for _, name in combination)
            if aggregate.alias or len(using) > 1:
                name += f"_{aggregate.alias or _spelled(aggregate)}"
            shown.append(exp.alias_(value, name, quoted=True))
    query = exp.Select(expressions=shown, from_=_from(table))
    if keys:
        query.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return query


def _from(table: str) -> exp.From:
    return exp.From(this=exp.Table(this=exp.to_identifier(table, quoted=True)))


def _spelled(node: exp.Expr) -> str:
    """An aggregate as DuckDB names it."""
    return "count_star()" if node.find(exp.Star) else node.sql("duckdb").lower()


def _values(statement: Statement, on: exp.Expr) -> Any:
    """The conditions that `column IN (values)` stands for, and what they are called."""
    if not isinstance(on, exp.In) or not on.expressions:
        way_out = "write the values: ON column IN (1, 2); columns must not follow from rows"
        raise statement.refused("PIVOT without IN", on, way_out)
    for choice in on.expressions:
        value = choice.this if isinstance(choice, exp.PivotAlias) else choice.unalias()
        inner = value.this if isinstance(value, exp.Neg) else value
        if not isinstance(inner, exp.Literal | exp.Boolean):
            way_out = "write numbers, texts in single quotes, TRUE or FALSE"
            raise statement.refused("this value of a PIVOT", value, way_out)
        name = choice.alias or (
            value.name if isinstance(value, exp.Literal) else value.sql().lower()
        )
        yield exp.EQ(this=on.this.copy(), expression=value.copy()), name


class _United:
    """One UNPIVOT."""

    def __init__(
        self, statement: Statement, pivot: exp.Pivot, table: str, columns: Sequence[str]
    ) -> None:
        self.statement, self.table, self.columns = statement, table, columns
        none = Operand(NIL, NULL, nullable=True)
        self.scope = Scope(statement, sources=[Source(table, dict.fromkeys(columns, none), ())])
        self.nulls = bool(pivot.args.get("include_nulls"))
        fields, into = pivot.args.get("fields"), pivot.args.get("into")
        if fields:
            self.name, values, self.picked = (
                fields[0].this.name,
                pivot.expressions,
                fields[0].expressions,
            )
        else:
            self.name = into.this.name if into is not None else "name"
            values = into.expressions if into is not None else []
            self.picked = pivot.expressions
        self.value = values[0].name if values else "value"
        if len(values) > 1:
            way_out = "UNPIVOT into one column, or write a UNION ALL"
            raise statement.refused("UNPIVOT into several columns", values[1], way_out)

    def query(self) -> exp.Query:
        """A SELECT for each column, united."""
        pairs: list[tuple[exp.Column, str]] = []
        for chosen in self.picked:
            column = chosen.this if isinstance(chosen, exp.PivotAlias) else chosen.unalias()
            if isinstance(column, exp.Columns):
                pairs += [(exp.column(name), name) for _, name in picked(self.scope, column)]
                continue
            if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
                way_out = "name the columns, or write COLUMNS(* EXCLUDE (...))"
                raise self.statement.refused("UNPIVOT of this", column, way_out)
            if column.name not in self.columns:
                raise self.statement.unknown("column", column.name, list(self.columns), column)
            pairs.append((column, chosen.alias or column.name))
        gone = {column.name for column, _ in pairs}
        rest = [name for name in self.columns if name not in gone]
        united: exp.Query | None = None
        for column, name in pairs:
            shown = [
                *(exp.column(other, quoted=True) for other in rest),
                exp.alias_(exp.Literal.string(name), self.name, quoted=True),
                exp.alias_(column.copy(), self.value, quoted=True),
            ]
            side = exp.Select(expressions=shown, from_=_from(self.table))
            if not self.nulls:
                test = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
                side.set("where", exp.Where(this=test))
            united = (
                side if united is None else exp.Union(this=united, expression=side, distinct=False)
            )
        assert united is not None  # noqa: S101  the grammar wants one
        return united
