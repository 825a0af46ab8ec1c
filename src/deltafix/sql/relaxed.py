"""What keeps a row out of a view, by asking its query with one condition less.

Invariant: what is yielded is about rows that the weaker query has, evaluated from scratch; the view
and the engine's rows are only read. How far a query's parts get by themselves is `sql.why`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from deltafix.errors import SqlDataError, SqlProgrammingError, SqlRefusedError
from deltafix.sql import reading
from deltafix.sql.aggregates import aggregates_in, aggregates_of
from deltafix.sql.builder import Relation
from deltafix.sql.connectives import conditions
from deltafix.sql.parameters import equal, equalities
from deltafix.sql.query import unwrapped
from deltafix.sql.stops import Stops
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import SqlValue
from deltafix.sql.windows import windows_of

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["Relaxed"]


class Relaxed:
    """The query of a view, asked for rows with some values.

    Args:
        connection: whose view it is.
        statement: what errors are about.
        relation: the view.
        row: the values, by column.
    """

    def __init__(
        self,
        connection: Connection,
        statement: Statement,
        relation: Relation,
        row: Mapping[str, SqlValue],
    ) -> None:
        self._connection, self._statement = connection, statement
        self._relation, self._row = relation, row
        self._dialect = connection.dialect
        builder = connection.catalog.views[relation.name].builder
        self._known = {**builder.tables, relation.name: relation}  # by the names of its text
        node: Any = builder.statement.node
        query = unwrapped(node.args["expression"]).copy()
        self._is_plain = _is_plain(query)
        self._qualifies = not self._is_plain and _is_plain(query, "qualify")
        query.set("order", None)  # of the view's rows, where it is read
        self._query = query

    def without_one(self) -> Iterator[str]:
        """Each condition of ON, WHERE and HAVING without which there would be a row.

        Of each SELECT that the view unites; of a recursion's step those by which a row would follow
        from the rows that are there. None of a query that picks rows by their order.
        """
        said = dict[str, None]()
        for part in self._united(self._query):
            for number, condition in enumerate(_conditions(part)):
                weaker = part.copy()
                _conditions(weaker)[number].replace(exp.true())
                try:
                    rows = self._rows(weaker, self._row)
                except SqlDataError:  # it kept another one from a value that has no answer
                    continue
                except SqlProgrammingError:  # an ASOF JOIN has an inequality
                    continue
                if rows:
                    said[f"without {condition.sql(self._dialect)} there would be one"] = None
        yield from said

    def stops(self) -> Iterator[str]:
        """Where the rows end that could become the row, of each SELECT that the view unites."""
        names = [column.name for column in self._relation.columns]
        columns = {name: [c.name for c in one.columns] for name, one in self._known.items()}

        def ask(query: exp.Expr) -> list[tuple[SqlValue, ...]]:
            return reading.select(self._connection, self._statement, query, self._known).rows

        parts = [*self._united(self._query)]
        for number, part in enumerate(parts, 1):
            of = f"SELECT {number} of {len(parts)}: " if len(parts) > 1 else ""
            stops = Stops(ask, part, self._row, names=names, columns=columns, dialect=self._dialect)
            # Asked in another order, a condition may meet values that another one keeps from it.
            with suppress(SqlDataError, SqlProgrammingError, SqlRefusedError):
                for line in stops.told():
                    yield f"{of}{line}"

    def _united(self, query: exp.Expr) -> Iterator[exp.Select]:
        """The SELECTs whose rows are the view's: the sides of UNION, and of `WITH c ... FROM c`."""
        query = unwrapped(query)
        if isinstance(query, exp.Union) and not any(map(query.args.get, _PICKS)):
            beside = query.args.get("with_")
            for side in (query.this, query.expression):
                part = unwrapped(side).copy()
                if beside is not None and part.args.get("with_") is None:
                    part.set("with_", beside.copy())
                yield from self._united(part)
        elif isinstance(query, exp.Select) and _is_plain(query):
            named = self._named(query)
            yield from (query,) if named is None else self._united(named)

    def _named(self, query: Any) -> exp.Expr | None:
        """The query that `WITH c AS (...) SELECT * FROM c` names; its `c` is the view, as it is.

        None for another one, and where other names of WITH ask for `c`.
        """
        bare = query.copy()
        beside, source = bare.args.pop("with_", None), reading.source_of(bare)
        if beside is None or source is None or bare.args.get("where"):
            return None
        if query.selects != [exp.Star()]:
            return None
        name, found = source.name.lower(), None
        others = []
        for cte in beside.expressions:
            if cte.alias.lower() == name:
                found = cte
            elif any(table.name.lower() == name for table in cte.find_all(exp.Table)):
                return None
            else:
                others.append(cte.copy())
        if found is None or any(v for k, v in found.args.items() if k not in ("this", "alias")):
            return None
        part: exp.Expr = unwrapped(found.this).copy()
        names = [column.name for column in found.args["alias"].columns]
        names = names or found.this.unnest().named_selects
        if len(names) != len(self._relation.columns) or {"*", ""} & {*names}:
            return None
        for table in [*part.find_all(exp.Table)]:
            if table.name.lower() == name and not table.db:
                known = exp.TableAlias(
                    this=exp.to_identifier(table.alias_or_name),
                    columns=[exp.to_identifier(column, quoted=True) for column in names],
                )
                rows = exp.select("*").from_(exp.table_(self._relation.name, quoted=True))
                table.replace(exp.Subquery(this=rows, alias=known))
        if others and part.args.get("with_") is not None:
            return None
        if others:
            part.set("with_", exp.With(expressions=others, recursive=beside.args.get("recursive")))
        return part

    def dropped(self) -> Iterator[str]:
        """What picks others of the rows with this one: LIMIT, DISTINCT ON, parts of QUALIFY."""
        weaker = self._query.copy()
        if not self._qualifies:
            picks = [key.upper() for key in _PICKS if weaker.args.pop(key, None)]
            if reading.has_distinct_on(weaker):
                weaker.set("distinct", None)
                picks.append("DISTINCT ON")
            if picks and _is_plain(weaker) and self._rows(weaker, self._row):
                yield f"the row is there before {' and '.join(picks)}, which leaves it out"
            return
        weaker.set("qualify", None)
        if not self._rows(weaker, self._row):
            return
        every = conditions(self._query.args["qualify"].this)
        for condition in every:
            weaker.set("qualify", exp.Qualify(this=condition.copy()))
            if not self._rows(weaker, self._row):
                said = condition.sql(self._dialect)
                yield f"the row is there before QUALIFY, and {said} leaves it out"

    def group(self) -> Iterator[str]:
        """What became of the group that the values name, if they name one."""
        keys = self._group_keys()
        if keys is None or not self._row.keys() >= keys:
            return
        mine = {name: self._row[name] for name in keys}
        view = exp.table_(self._relation.name, quoted=True)
        rows, by = self._rows(view, mine), ""
        if not rows and self._is_plain:
            weaker = self._query.copy()
            weaker.set("having", None)
            rows, by = self._rows(weaker, mine), ", which HAVING leaves out,"
        names = [column.name for column in self._relation.columns]
        for row in rows:
            shown = equalities(dict(zip(names, row, strict=True)), self._dialect)
            yield f"its group{by} has {shown}"
        if not rows and self._is_plain:
            yield "its group has no rows"

    def _group_keys(self) -> set[str] | None:
        """The columns of the view that tell its groups apart; None where rows are no groups."""
        query = self._query
        if not isinstance(query, exp.Select) or not aggregates_in(*query.expressions):
            return None
        group = query.args.get("group")
        columns = self._relation.columns
        if any(item.is_star for item in query.expressions):
            return None
        keys = {
            column.name
            for column, item in zip(columns, query.expressions, strict=True)
            if not aggregates_in(item)
        }
        return keys if len(keys) == (0 if group is None else len(group.expressions)) else None

    def _rows(self, query: exp.Expr, row: Mapping[str, SqlValue]) -> list[tuple[SqlValue, ...]]:
        """At most one row that a query, or the view, has with these values."""
        query = self._narrowed(query, row)
        columns = [exp.to_identifier(column.name, quoted=True) for column in self._relation.columns]
        alias = exp.TableAlias(this=exp.to_identifier("q", quoted=True), columns=columns)
        tests = [
            equal(exp.column(exp.to_identifier(name, quoted=True)), value, self._statement.dialect)
            for name, value in row.items()
        ]
        source = query if isinstance(query, exp.Table) else exp.Subquery(this=query, alias=alias)
        node = exp.select("*").from_(source).where(*tests).limit(1)
        return reading.select(self._connection, self._statement, node, self._known).rows

    def _narrowed(self, query: exp.Expr, row: Mapping[str, SqlValue]) -> exp.Expr:
        """The query with the values that its columns are to have as conditions of its WHERE.

        It has these rows as before. Where one condition less leaves a cross product, without them
        all of it was computed first: 4 s for 4,000 persons of 4 groups each (test_connection).
        """
        if not _is_plain(query) or windows_of(query):
            return query
        group = query.args.get("group")
        if group is None and aggregates_of(query):
            return query
        if group is not None and not _is_of_columns(group):
            return query
        if any(item.is_star for item in query.expressions):
            return query
        tests = [
            equal(item.unalias().copy(), row[column.name], self._statement.dialect)
            for column, item in zip(self._relation.columns, query.expressions, strict=True)
            if column.name in row and isinstance(item.unalias(), exp.Column)
        ]
        narrowed: Any = query.copy()
        narrowed.where(*tests, copy=False)
        return cast(exp.Expr, narrowed)


_PICKS = ("limit", "offset")


def _is_of_columns(group: exp.Expr) -> bool:
    """Whether a GROUP BY has one set of keys, which are columns."""
    others = any(value for key, value in group.args.items() if key != "expressions")
    return not others and all(isinstance(key, exp.Column) for key in group.expressions)


def _is_plain(query: exp.Expr, *beside: str) -> bool:
    """Whether a query is a SELECT that picks no rows by their order, but for clauses `beside`."""
    if not isinstance(query, exp.Select):
        return False
    picks = any(query.args.get(key) for key in (*_PICKS, "qualify") if key not in beside)
    return not picks and not reading.has_distinct_on(query)


def _conditions(query: exp.Expr) -> list[exp.Expr]:
    """The conjuncts of WHERE, HAVING and the inner joins of a query."""
    clauses = [query.args[key].this for key in ("where", "having") if query.args.get(key)]
    for join in query.args.get("joins") or ():
        if not join.side and join.kind in ("", "INNER") and join.args.get("on"):
            clauses.insert(0, join.args["on"])
    return [conjunct for clause in clauses for conjunct in conditions(clause)]
