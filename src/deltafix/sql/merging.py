"""MERGE INTO a table USING a query ON a condition: update, delete, insert, in one statement.

    source rows -> the rows of the table that ON pairs each with -> the first WHEN that holds

Invariant: every WHEN sees table and source as they were before the statement, and no row of the
table is changed twice: a second source row that would is an error, as in PostgreSQL and DuckDB.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from deltafix.errors import SqlError
from deltafix.facts.schema import Row
from deltafix.sql import reading
from deltafix.sql.builder import Builder
from deltafix.sql.connectives import conditions
from deltafix.sql.edits import check_table, edited_table
from deltafix.sql.functions import order_of
from deltafix.sql.literals import Compute, typed
from deltafix.sql.query import check_clauses
from deltafix.sql.rows import Edit, checked, encoded, inserted
from deltafix.sql.scalar import Scalars, over
from deltafix.sql.setting import set_places
from deltafix.sql.subqueries import within
from deltafix.sql.tables import Table
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import Column, SqlValue, decode_rows, told_row

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["merge"]

_Values: TypeAlias = Sequence[SqlValue]
_Pairs: TypeAlias = Iterable[tuple[Row, _Values]]
_Kind: TypeAlias = Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"]


class _Side(NamedTuple):
    """What a statement calls one of the two, and its columns."""

    name: str
    columns: Sequence[Column]

    def has(self, node: exp.Column, other: _Side) -> bool:
        """Whether a column is this side's, and cannot be the other's."""
        if node.table:
            return bool(node.table == self.name)
        return all(c.name != node.name for c in other.columns)


class _When(NamedTuple):
    """A WHEN: rows it is about, its condition, what it does, and the columns that it sets."""

    kind: _Kind
    test: Compute | None
    action: Literal["INSERT", "UPDATE", "DELETE", "DO NOTHING"]
    names: list[str]
    values: list[Compute]


def merge(connection: Connection, statement: Statement, node: exp.Merge) -> Edit:
    """The edit of a MERGE.

    O(rows of the source) where ON equates a key with the source's values; with another column, one
    pass over the table as well; else for each row of the source one.
    """
    builder = Builder(statement, "", {})
    check_clauses(builder, node, ("this", "using", "on", "using_cond", "whens"))
    check_table(statement, node.this)
    for part in (node.args.get("on") or exp.true(), node.args["whens"]):
        if within(part):
            way_out = "compute it in the query of USING"
            raise builder.refused("a subquery in ON or WHEN of MERGE", part, way_out)
    table, using = edited_table(connection, statement, node.this), node.args["using"]
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=using.copy()))
    source = reading.select(connection, statement, query)
    into = _Side(node.this.alias_or_name, table.relation.columns)
    of = _Side(using.alias_or_name, source.columns)
    if into.name == of.name:
        raise statement.wrong(f"two tables are called {of.name!r}", using, "give one an alias")
    whens = [_when(builder, table, one, into, of) for one in node.args["whens"].expressions]
    for place, (when, one) in enumerate(zip(whens, node.args["whens"].expressions, strict=True)):
        if any(before.kind == when.kind and before.test is None for before in whens[:place]):
            way_out = "put the WHEN without a condition last"
            raise statement.wrong(f"no row comes to this WHEN {when.kind}", one, way_out)
    on = _condition(node, into, of)
    test = over(statement, into, of).truth(on, on).compute
    whole = any(one.kind == "NOT MATCHED BY SOURCE" for one in whens)
    taken = _Taken(statement, table)
    try:
        fixed = _fixed(statement, into, of, on)
        candidates = _candidates(connection, table, fixed, whole=whole)
        paired: set[Row] = set()
        for row in source.rows:
            pairs = [(there, [*shown, *row]) for there, shown in candidates(row)]
            found = [(there, both) for there, both in pairs if test(both) is True]
            for there, both in found:
                taken.edit(there, both, _first(whens, "MATCHED", both))
            if not found:
                taken.insert(row, _first(whens, "NOT MATCHED", row))
            paired.update(there for there, _ in found)
        for there in connection.rows_of(table.relation.name) if whole else ():
            if there not in paired:
                (shown,) = decode_rows([there], into.columns)
                taken.edit(there, shown, _first(whens, "NOT MATCHED BY SOURCE", shown))
    except SqlError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise statement.data(str(error)) from None
    return taken.whole()


class _Taken:
    """What the rows of a statement have come to so far."""

    def __init__(self, statement: Statement, table: Table) -> None:
        self._statement = statement
        self._table = table
        self._changed: dict[Row, Row | None] = {}
        self._fresh: list[Row] = []

    def edit(self, row: Row, shown: _Values, when: _When | None) -> None:
        """Change or delete a row of the table."""
        if when is None or when.action == "DO NOTHING":
            return
        columns = self._table.relation.columns
        if row in self._changed:
            again = told_row(*decode_rows([row], columns))
            message = f"two rows of the source would change one row of the table: {again}"
            raise self._statement.integrity(message, "let each row of USING meet rows of its own")
        self._changed[row] = None
        if when.action == "UPDATE":
            values = list(row)
            names = [column.name for column in columns]
            for name, compute in zip(when.names, when.values, strict=True):
                place = names.index(name)
                values[place] = encoded(self._statement, columns[place], compute(shown))
            self._changed[row] = tuple(values)

    def insert(self, shown: _Values, when: _When | None) -> None:
        """Insert what a row of the source says."""
        if when is not None and when.action == "INSERT":
            values = [compute(shown) for compute in when.values]
            self._fresh += inserted(self._statement, self._table, when.names, [values]).added

    def whole(self) -> Edit:
        """All of it. Raises SqlIntegrityError for a row that breaks a CHECK."""
        changed = [row for row in self._changed.values() if row is not None]
        removed = sorted(self._changed, key=lambda row: self._changed[row] is None)
        checked(self._statement, Edit(self._table, [], changed))
        return Edit(self._table, removed, [*changed, *self._fresh], changed)


def _first(whens: Sequence[_When], kind: _Kind, shown: _Values) -> _When | None:
    fitting = (one for one in whens if one.kind == kind)
    return next((one for one in fitting if one.test is None or one.test(shown) is True), None)


def _condition(node: exp.Merge, into: _Side, of: _Side) -> exp.Expr:
    on: exp.Expr | None = node.args.get("on") or None
    if on is not None:
        return on
    names = [one.name for one in node.args["using_cond"]]
    pairs = [exp.column(name, into.name).eq(exp.column(name, of.name)) for name in names]
    return exp.and_(*pairs)


def _when(builder: Builder, table: Table, node: exp.When, into: _Side, of: _Side) -> _When:
    statement, then, columns = builder.statement, node.args["then"], table.relation.columns
    names = [column.name for column in columns]
    kind: _Kind = "MATCHED"
    scalars = over(statement, into, of)
    if not node.args.get("matched"):
        kind = "NOT MATCHED BY SOURCE" if node.args.get("source") else "NOT MATCHED"
        scalars = over(statement, into if node.args.get("source") else of)
    condition = node.args.get("condition")
    test = None if condition is None else scalars.truth(condition, condition).compute
    if isinstance(then, exp.Var) and then.name in ("DELETE", "DO NOTHING"):
        if then.name == "DELETE" and kind == "NOT MATCHED":
            raise statement.wrong("there is no row to DELETE", node, "WHEN MATCHED THEN DELETE")
        return _When(kind, test, "DELETE" if then.name == "DELETE" else "DO NOTHING", [], [])
    if isinstance(then, exp.Update) and kind != "NOT MATCHED":
        check_clauses(builder, then, ("expressions",))
        if not then.expressions or isinstance(then.expressions[0], exp.Star):
            raise builder.refused("UPDATE of all columns", node, "write UPDATE SET column = value")
        wanted = [names[place] for place in set_places(statement, then, into.name, columns)]
        given = [one.expression for one in then.expressions]
        return _When(kind, test, "UPDATE", wanted, _values(scalars, columns, wanted, given))
    if not isinstance(then, exp.Insert) or kind != "NOT MATCHED":
        way_out = "UPDATE and DELETE are WHEN MATCHED, INSERT is WHEN NOT MATCHED"
        raise statement.wrong(f"WHEN {kind} THEN {then.key.upper()}", node, way_out)
    check_clauses(builder, then, ("this", "expression"))
    values = then.args.get("expression")
    if not isinstance(values, exp.Tuple) or isinstance(then.this, exp.Star):
        raise builder.refused("INSERT of all columns", node, "write INSERT (columns) VALUES (...)")
    wanted = [one.name for one in then.this.expressions] if then.this else names
    for place, name in enumerate(wanted):
        if name not in names:
            raise statement.unknown("column", name, names, then.this.expressions[place])
        if name in wanted[:place]:
            raise statement.wrong(f"column {name!r} is given twice", then.this, "give it once")
    given = values.expressions
    if len(given) != len(wanted):
        message = f"{len(given)} values for {len(wanted)} columns ({', '.join(wanted)})"
        raise statement.wrong(message, values, "give each column one value")
    return _When(kind, test, "INSERT", wanted, _values(scalars, columns, wanted, given))


def _values(
    scalars: Scalars, columns: Sequence[Column], names: Sequence[str], given: Sequence[exp.Expr]
) -> list[Compute]:
    types = {column.name: column.type for column in columns}
    return [
        scalars.compile(typed(node, types[name])).compute
        for name, node in zip(names, given, strict=True)
    ]


def _fixed(statement: Statement, into: _Side, of: _Side, on: exp.Expr) -> dict[int, Compute]:
    """Columns of the table that ON equates with values of the source, by position.

    Values of the very same type.
    """
    names = [column.name for column in into.columns]
    theirs = over(statement, of)
    fixed: dict[int, Compute] = {}
    for part in conditions(on):
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        for one, other in zip(sides, reversed(sides), strict=True):
            if not isinstance(one, exp.Column) or not into.has(one, of):
                continue
            if all(of.has(column, into) for column in other.find_all(exp.Column)):
                value, place = theirs.compile(other), names.index(one.name)
                if value.type == into.columns[place].type:
                    fixed[place] = value.compute
    return fixed


def _candidates(
    connection: Connection, table: Table, fixed: Mapping[int, Compute], *, whole: bool
) -> Callable[[_Values], _Pairs]:
    """Rows of the table that ON may pair with a row of the source, and their values.

    `whole` says that all rows of the table are read anyway.
    """
    columns = table.relation.columns
    if not whole and any(all(p in fixed for p in key.places) for key in table.keys):

        def by_key(row: _Values) -> _Pairs:
            values = {place: compute(row) for place, compute in fixed.items()}
            if None in values.values():
                return ()
            codes = {place: columns[place].encode(value) for place, value in values.items()}
            found = list(connection.rows_like(table.relation, codes))
            return zip(found, decode_rows(found, columns), strict=True)

        return by_key
    index: dict[tuple[Any, ...], list[tuple[Row, _Values]]] = defaultdict(list)
    rows = connection.rows_of(table.relation.name)
    orders = [order_of(columns[place].type) for place in fixed]

    def key(values: Iterable[SqlValue]) -> tuple[Any, ...]:
        pairs = zip(orders, values, strict=True)
        return tuple(None if value is None else order(value) for order, value in pairs)

    for row, shown in zip(rows, decode_rows(rows, columns), strict=True):
        index[key(shown[place] for place in fixed)].append((row, shown))
    return lambda row: index.get(key(compute(row) for compute in fixed.values()), ())
