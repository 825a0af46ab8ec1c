"""MERGE INTO a table USING a query ON a condition: update, delete, insert, in one statement.

    source rows -> the rows of the table that ON pairs each with -> the first WHEN that holds

Invariant: every WHEN sees table and source as they were before the statement, and no row of the
table is changed twice: a second source row that would is an error, as in PostgreSQL and DuckDB.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from deltafix.engine.coded import CodedRows, Ints, places_among, without_nil
from deltafix.errors import SqlError
from deltafix.facts.schema import Row
from deltafix.kernel.values import NIL
from deltafix.sql import reading
from deltafix.sql.builder import Builder
from deltafix.sql.connectives import conditions
from deltafix.sql.edits import check_table, edited_table
from deltafix.sql.functions import order_of
from deltafix.sql.literals import Compute, typed
from deltafix.sql.rows import CodedEdit, Edit, checked, encoded, inserted
from deltafix.sql.scalar import Scalars, over
from deltafix.sql.scans import Columns, Test, assign
from deltafix.sql.setting import set_positions, sound, to_insert
from deltafix.sql.subqueries import within
from deltafix.sql.tables import Key, Table
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import Column, SqlValue, decode_rows, row_as_sql
from deltafix.sql.vectors import ByValueError

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
    """A WHEN: rows it is about, its condition, what it does, and the columns that it sets.

    `nodes` say to what, and `values` compute it.
    """

    kind: _Kind
    test: Test | None
    action: Literal["INSERT", "UPDATE", "DELETE", "DO NOTHING"]
    scalars: Scalars
    names: Sequence[str] = ()
    nodes: Sequence[exp.Expr] = ()

    @property
    def values(self) -> list[Compute]:
        """What computes them."""
        return [self.scalars.compile(node).compute for node in self.nodes]


def merge(connection: Connection, statement: Statement, node: exp.Merge) -> Edit | CodedEdit:
    """The edit of a MERGE.

    O(rows of the source) where ON equates a key with the source's values; with another column, one
    pass over the table as well; else for each row of the source one.
    """
    builder = Builder(statement, "", {})
    check_table(statement, node.this)
    for part in (node.args.get("on") or exp.true(), node.args["whens"]):
        if within(part):
            way_out = "compute it in the query of USING"
            raise builder.refused("a subquery in ON or WHEN of MERGE", part, way_out)
    table, using = edited_table(connection, statement, node.this), node.args["using"]
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=using.copy()))
    source = reading.coded(connection, statement, query)
    into = _Side(node.this.alias_or_name, table.relation.columns)
    of = _Side(
        using.alias_or_name, source.columns if isinstance(source, reading.Result) else source.shape
    )
    if into.name == of.name:
        raise statement.wrong(f"two tables are called {of.name!r}", using, "give one an alias")
    clauses = node.args["whens"].expressions
    whens = [_when(builder, table, clause, into, of) for clause in clauses]
    for position, (when, clause) in enumerate(zip(whens, clauses, strict=True)):
        if any(before.kind == when.kind and before.test is None for before in whens[:position]):
            way_out = "put the WHEN without a condition last"
            raise statement.wrong(f"no row comes to this WHEN {when.kind}", clause, way_out)
    on = _condition(node, into, of)
    test = over(statement, into, of).truth(on, on).compute
    theirs = over(statement, of)
    plan = _Merge(table, into, of, on, theirs, _fixed(theirs, into, of, on), whens)
    if isinstance(source, reading.Result):
        return plan.by_row(connection, statement, source.rows, test)

    def again() -> Edit:
        rows = reading.select(connection, statement, query).rows
        return plan.by_row(connection, statement, rows, test)

    edit = plan.in_codes(connection, source)
    return again() if edit is None else edit._replace(again=again)


class _Merge(NamedTuple):
    """A MERGE, read: `fixed` columns of the table equal what the source's `scalars` compute."""

    table: Table
    into: _Side
    of: _Side
    on: exp.Expr
    scalars: Scalars
    fixed: Mapping[int, exp.Expr]
    whens: Sequence[_When]

    @property
    def whole(self) -> bool:
        """Whether all rows of the table are read."""
        return any(when.kind == "NOT MATCHED BY SOURCE" for when in self.whens)

    def by_row(
        self, connection: Connection, statement: Statement, rows: Sequence[_Values], test: Compute
    ) -> Edit:
        """What comes of rows of the source, one after another. Raises SqlError."""
        table, into, whens, whole = self.table, self.into, self.whens, self.whole
        taken = _Taken(statement, table)
        try:
            fixed = {at: self.scalars.compile(node).compute for at, node in self.fixed.items()}
            candidates = _candidates(connection, table, fixed, whole=whole)
            paired: set[Row] = set()
            for row in rows:
                pairs = [(target, [*shown, *row]) for target, shown in candidates(row)]
                matches = [(target, both) for target, both in pairs if test(both) is True]
                for target, both in matches:
                    taken.edit(target, both, _first(whens, "MATCHED", both))
                if not matches:
                    taken.insert(row, _first(whens, "NOT MATCHED", row))
                paired.update(target for target, _ in matches)
            for target in connection.rows_of(table.relation.name) if whole else ():
                if target not in paired:
                    (shown,) = decode_rows([target], into.columns)
                    taken.edit(target, shown, _first(whens, "NOT MATCHED BY SOURCE", shown))
        except SqlError:
            raise
        except (ArithmeticError, ValueError) as error:
            raise statement.data(str(error)) from None
        return taken.whole()

    def in_codes(self, connection: Connection, source: Columns) -> CodedEdit | None:
        """The same of many rows, where ON says no more than that a key of the table is equal.

        None where it says more, two rows meet one, or one is to be looked at by itself.
        """
        table, fixed = self.table, self.fixed
        key = next((key for key in table.keys if {*key.positions} == {*fixed}), None)
        if key is None or len(conditions(self.on)) > len(fixed):
            return None
        try:
            return self._in_codes(connection, source, key)
        except (ByValueError, ValueError, ArithmeticError):
            return None

    def _in_codes(self, connection: Connection, source: Columns, key: Key) -> CodedEdit | None:
        table, columns, tables = self.table, self.into.columns, source.tables
        values = [
            assign(self.scalars, self.fixed[at], replace(columns[at], nullable=True), source)
            for at in key.positions
        ]
        keys = np.stack(values, axis=1)
        if self.whole:
            rows = connection.coded(table.relation.name)
        else:
            rows = connection.rows_in_codes(table, key, without_nil(keys))
        at = places_among(keys, rows.codes[:, list(key.positions)])
        at[(keys == NIL).any(axis=1)] = -1
        is_met = at >= 0
        met = at[is_met]
        if len(np.unique(met)) < len(met):
            return None
        mine = Columns.of(rows, columns)
        target, theirs = mine.where(met), source.where(is_met)
        both = Columns((*columns, *source.shape), (*target.codes, *theirs.codes), tables)
        alone = np.setdiff1d(np.arange(len(rows)), met)
        old, new, gone, fresh = [rows.codes[:0]], [rows.codes[:0]], [rows.codes[:0]], []
        sides: tuple[tuple[_Kind, Columns, Ints], ...] = (
            ("MATCHED", both, met), ("NOT MATCHED BY SOURCE", mine.where(alone), alone),
        )  # fmt: skip
        names = [column.name for column in columns]
        for kind, of, row_numbers in sides:
            for when, some in self._chosen(kind, of):
                codes = rows.codes[row_numbers[some]]
                if when.action == "DELETE":
                    gone.append(codes)
                elif when.action == "UPDATE":
                    old.append(codes)
                    new.append(codes.copy())
                    for name, node in zip(when.names, when.nodes, strict=True):
                        column = columns[names.index(name)]
                        assigned = assign(when.scalars, node, column, of.where(some))
                        new[-1][:, names.index(name)] = assigned
        rest = source.where(~is_met)
        for when, some in self._chosen("NOT MATCHED", rest):
            if when.action == "INSERT":
                of, given = rest.where(some), [columns[names.index(name)] for name in when.names]
                pairs = zip(when.nodes, given, strict=True)
                cells = [assign(when.scalars, node, column, of) for node, column in pairs]
                inserts = to_insert(connection, table, when.names, Columns(given, cells, tables))
                if inserts is None:
                    return None
                fresh.append(inserts.codes)
        removed, added = np.concatenate([*old, *gone]), np.concatenate([*new, *fresh])
        schema, count = rows.schema, sum(map(len, old))
        edit = CodedEdit(
            table, CodedRows(schema, removed, tables), CodedRows(schema, added, tables), count
        )
        return sound(edit)

    def _chosen(self, kind: _Kind, columns: Columns) -> Iterator[tuple[_When, Ints]]:
        """Each WHEN of a kind, and which rows come to it, if any."""
        rest = np.arange(len(columns))
        for when in self.whens:
            if when.kind == kind and len(rest):
                fits = np.ones(len(rest), np.bool_)
                if when.test is not None:
                    fits = when.test.fits(columns.where(rest))
                if fits.any():
                    yield when, rest[fits]
                rest = rest[~fits]


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
            again = row_as_sql(*decode_rows([row], columns))
            message = f"two rows of the source would change one row of the table: {again}"
            raise self._statement.integrity(message, "let each row of USING meet rows of its own")
        self._changed[row] = None
        if when.action == "UPDATE":
            values = list(row)
            names = [column.name for column in columns]
            for name, compute in zip(when.names, when.values, strict=True):
                position = names.index(name)
                values[position] = encoded(self._statement, columns[position], compute(shown))
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
    fitting = (when for when in whens if when.kind == kind)
    return next(
        (when for when in fitting if when.test is None or when.test.compute(shown) is True), None
    )


def _condition(node: exp.Merge, into: _Side, of: _Side) -> exp.Expr:
    on: exp.Expr | None = node.args.get("on") or None
    if on is not None:
        return on
    names = [identifier.name for identifier in node.args["using_cond"]]
    pairs = [exp.column(name, into.name).eq(exp.column(name, of.name)) for name in names]
    return exp.and_(*pairs)


def _of_all(
    statement: Statement, node: exp.Expr, names: Sequence[str], of: _Side
) -> list[exp.Expr]:
    """Spark's `SET *` and `INSERT *`: each column of the table is the source's of its name."""
    there = [column.name for column in of.columns]
    for name in names:
        if name not in there:
            raise statement.unknown("column", name, there, node)
    return [exp.column(exp.to_identifier(name, quoted=True), of.name) for name in names]


def _when(builder: Builder, table: Table, node: exp.When, into: _Side, of: _Side) -> _When:
    statement, then, columns = builder.statement, node.args["then"], table.relation.columns
    names = [column.name for column in columns]
    kind: _Kind = "MATCHED"
    scalars = over(statement, into, of)
    if not node.args.get("matched"):
        kind = "NOT MATCHED BY SOURCE" if node.args.get("source") else "NOT MATCHED"
        scalars = over(statement, into if node.args.get("source") else of)
    condition = node.args.get("condition")
    test = None
    if condition is not None:
        scalars.truth(condition, condition)
        test = Test.of(scalars, condition)
    if isinstance(then, exp.Var) and then.name in ("DELETE", "DO NOTHING"):
        if then.name == "DELETE" and kind == "NOT MATCHED":
            raise statement.wrong("there is no row to DELETE", node, "WHEN MATCHED THEN DELETE")
        return _When(kind, test, "DELETE" if then.name == "DELETE" else "DO NOTHING", scalars)
    if isinstance(then, exp.Update) and kind != "NOT MATCHED":
        statement.require_only(then, ("expressions",))
        if not then.expressions or isinstance(then.expressions[0], exp.Star):
            if statement.dialect != "spark":
                way_out = "write UPDATE SET column = value"
                raise builder.refused("UPDATE of all columns", node, way_out)
            nodes = _typed(scalars, columns, names, _of_all(statement, node, names, of))
            return _When(kind, test, "UPDATE", scalars, names, nodes)
        targets = [
            names[position] for position in set_positions(statement, then, into.name, columns)
        ]
        given = [assignment.expression for assignment in then.expressions]
        nodes = _typed(scalars, columns, targets, given)
        return _When(kind, test, "UPDATE", scalars, targets, nodes)
    if not isinstance(then, exp.Insert) or kind != "NOT MATCHED":
        way_out = "UPDATE and DELETE are WHEN MATCHED, INSERT is WHEN NOT MATCHED"
        raise statement.wrong(f"WHEN {kind} THEN {then.key.upper()}", node, way_out)
    statement.require_only(then, ("this", "expression"))
    values = then.args.get("expression")
    if isinstance(then.this, exp.Star) and statement.dialect == "spark":
        nodes = _typed(scalars, columns, names, _of_all(statement, node, names, of))
        return _When(kind, test, "INSERT", scalars, names, nodes)
    if not isinstance(values, exp.Tuple) or isinstance(then.this, exp.Star):
        raise builder.refused("INSERT of all columns", node, "write INSERT (columns) VALUES (...)")
    targets = [column.name for column in then.this.expressions] if then.this else names
    for position, name in enumerate(targets):
        if name not in names:
            raise statement.unknown("column", name, names, then.this.expressions[position])
        if name in targets[:position]:
            raise statement.wrong(f"column {name!r} is given twice", then.this, "give it once")
    given = values.expressions
    if len(given) != len(targets):
        message = f"{len(given)} values for {len(targets)} columns ({', '.join(targets)})"
        raise statement.wrong(message, values, "give each column one value")
    return _When(kind, test, "INSERT", scalars, targets, _typed(scalars, columns, targets, given))


def _typed(
    scalars: Scalars, columns: Sequence[Column], names: Sequence[str], given: Sequence[exp.Expr]
) -> list[exp.Expr]:
    """What columns are set to, beside their types; each is compiled, for what is wrong with it."""
    types = {column.name: column.type for column in columns}
    nodes = [typed(node, types[name]) for name, node in zip(names, given, strict=True)]
    for node in nodes:
        scalars.compile(node)
    return nodes


def _fixed(scalars: Scalars, into: _Side, of: _Side, on: exp.Expr) -> dict[int, exp.Expr]:
    """Columns of the table that ON equates with values of the source, by position.

    Values of the very same type, or whole numbers both; `scalars` are the source's.
    """
    names = [column.name for column in into.columns]
    fixed: dict[int, exp.Expr] = {}
    for part in conditions(on):
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        for side, other in zip(sides, reversed(sides), strict=True):
            if not isinstance(side, exp.Column) or not into.has(side, of):
                continue
            if all(of.has(column, into) for column in other.find_all(exp.Column)):
                position = names.index(side.name)
                kind, mine = scalars.compile(other).type, into.columns[position].type
                if kind is mine or (kind.is_integer and mine.is_integer):
                    fixed[position] = other
    return fixed


def _candidates(
    connection: Connection, table: Table, fixed: Mapping[int, Compute], *, whole: bool
) -> Callable[[_Values], _Pairs]:
    """Rows of the table that ON may pair with a row of the source, and their values.

    `whole` says that all rows of the table are read anyway.
    """
    columns = table.relation.columns
    if not whole and any(all(p in fixed for p in key.positions) for key in table.keys):

        def by_key(row: _Values) -> _Pairs:
            values = {position: compute(row) for position, compute in fixed.items()}
            if not all(columns[at].type.holds(value) for at, value in values.items()):
                return ()  # NULL, or a number that the column has not
            codes = {
                position: columns[position].encode(value) for position, value in values.items()
            }
            matches = list(connection.rows_like(table.relation, codes))
            return zip(matches, decode_rows(matches, columns), strict=True)

        return by_key
    index: dict[tuple[Any, ...], list[tuple[Row, _Values]]] = defaultdict(list)
    rows = connection.rows_of(table.relation.name)
    orders = [order_of(columns[position].type) for position in fixed]

    def key(values: Iterable[SqlValue]) -> tuple[Any, ...]:
        pairs = zip(orders, values, strict=True)
        return tuple(None if value is None else order(value) for order, value in pairs)

    for row, shown in zip(rows, decode_rows(rows, columns), strict=True):
        index[key(shown[position] for position in fixed)].append((row, shown))
    return lambda row: index.get(key(compute(row) for compute in fixed.values()), ())
