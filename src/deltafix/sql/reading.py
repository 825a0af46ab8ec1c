"""SELECT as it is asked once: rows of the last state, in the order wanted.

A SELECT of one table or view without groups is read directly: by its key where WHERE fixes it, else
by a pattern. Any other is a program of its own over the rows of what it reads, evaluated once.
Invariant: both give what the same SELECT as a view would hold. The last ORDER BY, LIMIT and OFFSET
are applied here, and the ORDER BY of a view where its rows are read without another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from deltafix.engine.coded import CodedRows
from deltafix.engine.connect import connect
from deltafix.facts.logical import logical_order
from deltafix.facts.ordered import OrderedRows
from deltafix.facts.schema import Row
from deltafix.rules.ast import Program
from deltafix.rules.terms import Var
from deltafix.sql import joins, scans
from deltafix.sql.aggregates import aggregates_of
from deltafix.sql.builder import Builder, Operand, Relation
from deltafix.sql.casts import assigned
from deltafix.sql.catalog import View, program, refusing, require_strata, used_by
from deltafix.sql.connectives import conditions, required
from deltafix.sql.formulas import Formulas
from deltafix.sql.literals import Compute, Scalar, constant, typed
from deltafix.sql.query import rows, settled, unwrapped
from deltafix.sql.ranking import is_all, number
from deltafix.sql.scalar import Scalars, over
from deltafix.sql.scope import Scope, Source
from deltafix.sql.stars import is_more, is_star, meant_in, shown_name, stars, written_out
from deltafix.sql.subqueries import within
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import Column, SqlType, SqlValue, common_type, decode, decode_rows
from deltafix.sql.unnest import expanded_in
from deltafix.sql.vectors import ByValueError
from deltafix.sql.windows import windows_of

if TYPE_CHECKING:
    from deltafix.kernel.arena import Words
    from deltafix.sql.connection import Connection

__all__ = [
    "Asked",
    "Many",
    "Pairs",
    "Result",
    "coded",
    "fixed",
    "matcher",
    "matching",
    "select",
    "source_of",
]


_Table: TypeAlias = "list[tuple[SqlValue, ...]] | OrderedRows[SqlValue]"


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a SELECT and their columns."""

    columns: tuple[Column, ...]
    rows: list[tuple[SqlValue, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as a program, for when it is asked again over the relations that were `known`.

    The `program` is kept with its plan, which was half of the time of a SELECT of few rows.
    """

    known: Mapping[str, Relation]
    names: tuple[str, ...]
    builder: Builder
    relation: Relation
    program: Program


_MOST_ASKED: Final = 32
"""Queries that a connection remembers."""


@dataclass(frozen=True, slots=True)
class _Selection:
    """The rows of a SELECT before they are ordered; those by column are in `logical_order`."""

    columns: tuple[Column, ...]
    table: _Table

    def in_order(self) -> _Table:
        if isinstance(self.table, OrderedRows):
            return self.table
        return sorted(self.table, key=logical_order)


def select(
    connection: Connection,
    statement: Statement,
    node: exp.Expr,
    over_these: Mapping[str, Relation] | None = None,
) -> Result:
    """The rows of a query, over some relations or all. Raises what a view of it would."""
    written = unwrapped(node)
    known = connection.catalog.relations if over_these is None else {**over_these}
    if source_of(written) is not None and _sorted_view(connection, written) is None:
        direct = _direct(connection, statement, written, known)
        if direct is not None:
            return Result(direct.columns, list(direct.in_order()))
    query = written.copy()
    limit, offset = (query.args.pop(key, None) for key in ("limit", "offset"))
    order = query.args.get("order")
    if not has_distinct_on(query):
        query.args.pop("order", None)
    kept = _kept_order(connection, statement, query, known) if order is None else None
    width, orders = _ordered(statement, query, order or kept)
    selection = _direct(connection, statement, query, known)
    selection = selection or _evaluated(connection, statement, query, known)
    table = selection.in_order() if order is None else selection.table
    shown = len(selection.columns) - (width or 0)
    names = [column.name for column in selection.columns]
    for key, node_ in reversed(orders):
        if is_all(node_.this):
            for position in reversed(range(shown)):
                table = _sorted(table, position, node_)
            continue
        if isinstance(key, str):
            if key not in names:
                raise statement.unknown("column", key, names, node_.this)
            table = _sorted(table, names.index(key), node_)
            continue
        ordinal = statement.position(node_.this, "ORDER BY", shown)
        table = _sorted(table, key if ordinal is None else ordinal, node_)
    first = number(statement, offset) or 0
    most = number(statement, limit)
    part = slice(first, None if most is None else first + most)
    rows_ = list(table.where(part)) if isinstance(table, OrderedRows) else table[part]
    if width is None:
        return Result(selection.columns, rows_)
    return Result(selection.columns[:-width], [row[:-width] for row in rows_])


def _sorted_view(connection: Connection, query: exp.Expr) -> View | None:
    """The view with an ORDER BY that a SELECT reads row by row; None where there is none."""
    source = source_of(query)
    if source is None or aggregates_of(query) or windows_of(query):
        return None
    view = connection.catalog.views.get(source.name)
    return view if view is not None and view.builder.order else None


def _kept_order(
    connection: Connection, statement: Statement, query: exp.Expr, known: dict[str, Relation]
) -> exp.Expr | None:
    """The ORDER BY of the view that a SELECT reads row by row; None where it has none.

    Of what the view does not show `known` then has columns, and the SELECT names its own.
    """
    view, source = _sorted_view(connection, query), source_of(query)
    if view is None or source is None or not isinstance(query, exp.Select):
        return None
    relation = view.relation
    width = max(len(relation.columns), *(position + 1 for position, _ in view.builder.order))
    if width > len(relation.columns):
        shown = spelled(scope_of(statement, source.alias_or_name, relation), query.expressions)
        query.set("expressions", [exp.alias_(node, name, quoted=True) for name, node in shown])
        known[relation.name] = replace(
            relation, columns=relation.all_columns[:width], hidden=relation.all_columns[width:]
        )
    keys = []
    for position, node in view.builder.order:
        key = exp.column(relation.all_columns[position].name, source.alias_or_name)
        keys.append(exp.Ordered(this=key, **{k: node.args.get(k) for k in ("desc", "nulls_first")}))
    return exp.Order(expressions=keys)


def has_distinct_on(query: exp.Expr) -> bool:
    """Whether its ORDER BY says which rows there are: that of DISTINCT ON does."""
    distinct = query.args.get("distinct")
    return isinstance(distinct, exp.Distinct) and bool(distinct.args.get("on"))


def _ordered(
    statement: Statement, query: exp.Expr, order: exp.Expr | None
) -> tuple[int | None, list[tuple[int | str, exp.Ordered]]]:
    """What to sort by, as positions; expressions are selected too, behind the rest.

    As names where `* EXCLUDE` and its like or COLUMNS say which columns there are.

    The first value is how many columns that added.
    """
    if order is None:
        return None, []
    heads = query.selects if isinstance(query, exp.Query) else []
    stars = any(isinstance(part, exp.Star) for head in heads for part in (head, head.this))
    names = [] if stars else [head.alias_or_name for head in heads]
    aliases = {head.alias: head.unalias() for head in heads if head.alias}
    simple = isinstance(query, exp.Select) and (
        has_distinct_on(query) or not query.args.get("distinct")
    )
    orders: list[tuple[int | str, exp.Ordered]] = []
    named = any(is_more(part) for head in heads for part in head.find_all(exp.Star, exp.Columns))
    added = 0
    for ordered in order.expressions:
        key = ordered.this
        if is_all(key) or (isinstance(key, exp.Literal) and not key.is_string):
            orders.append((0, ordered))  # of the columns that the rows will have
        elif named and isinstance(key, exp.Column) and not key.table:
            orders.append((key.name, ordered))
        elif isinstance(key, exp.Column) and not key.table and key.name in names:
            orders.append((names.index(key.name), ordered))
        elif simple and not named:
            added += 1
            if isinstance(key, exp.Column) and not key.table:
                key = aliases.get(key.name, key)
            query.args["expressions"].append(exp.alias_(key.copy(), f"~order{added}"))
            orders.append((-added, ordered))
        else:
            way_out = "order by the name or the position of a column that is selected"
            raise statement.refused("ORDER BY this", ordered, way_out)
    last: dict[int | str, int] = {-n: n - 1 - added for n in range(1, added + 1)}
    return added or None, [(last.get(key, key), ordered) for key, ordered in orders]


def _sorted(table: _Table, position: int, node: exp.Ordered) -> _Table:
    if isinstance(table, OrderedRows):
        return scans.sorted_by(table, position, node)
    nulls = [row for row in table if row[position] is None]
    rest = [row for row in table if row[position] is not None]
    rest.sort(key=lambda row: logical_order((row[position],)), reverse=bool(node.args.get("desc")))
    return nulls + rest if node.args.get("nulls_first") else rest + nulls


# --- one table, directly -------------------------------------------------------------------------


Pairs: TypeAlias = "list[tuple[Row, tuple[SqlValue, ...]]]"
"""Rows of a table, as the engine has them, in order, each with computed values."""


class Many(Protocol):
    """Many rows of a table that a condition holds of, as codes, and values to compute of each."""

    @property
    def rows(self) -> CodedRows:
        """The rows, in no order."""

    def assigned(self, columns: Sequence[Column]) -> list[Words]:
        """The codes that the values of all rows are in some columns. Raises ByValueError."""

    def by_row(self) -> Pairs:
        """The same as tuples, in order. Raises what computing the values does."""


Matcher: TypeAlias = "Callable[[Connection, Statement], Pairs | Many]"


def matching(
    connection: Connection, statement: Statement, source: exp.Table, where: exp.Expr | None
) -> list[Row]:
    """The engine's rows of a table that a condition holds of."""
    matches = matcher(connection, statement, source, where)(connection, statement)
    return [row for row, _ in (matches if isinstance(matches, list) else matches.by_row())]


def matcher(
    connection: Connection,
    statement: Statement,
    source: exp.Table,
    where: exp.Expr | None,
    computed: Sequence[exp.Expr] = (),
    *,
    beside: Sequence[exp.Expr] = (),
) -> Matcher:
    """What finds the rows of a table that a condition holds of, with others `beside` it.

    Such a row is found once for each list of values that it is found with. It does so again with
    other parameters of the same types, unless there are subqueries or tables beside it.
    """
    nodes = [node for node in (where, *computed) if node is not None]
    if beside or any(within(node) for node in nodes):
        return lambda c, s: _matching_query(c, s, source, where, computed, beside=beside)
    return _matcher(statement, source, where, connection.catalog.relations, computed)


@dataclass(frozen=True, slots=True)
class _Matcher:
    """What finds the rows of a table that a condition holds of, and computes values of each."""

    shape: tuple[Column, ...]
    relation: Relation
    tests: Sequence[scans.Test]
    wanted: Callable[[], dict[int, Any]]
    nodes: Sequence[exp.Expr]
    values: Sequence[Scalar]
    scalars: Scalars

    def __call__(self, connection: Connection, statement: Statement) -> Pairs | Many:
        with _data_errors(statement):
            rows, tests = connection.lookup(self.relation, self.wanted()), self.tests
            if isinstance(rows, CodedRows):
                if len(rows) >= scans.MANY:
                    rows, tests = scans.passing(rows, self.shape, tests), ()
                    if len(rows) >= scans.MANY:
                        return _Direct(rows, self, statement)
                rows = rows.in_order()
            return self.pairs(rows, tests)

    def pairs(self, rows: Iterable[Row], tests: Sequence[scans.Test] = ()) -> Pairs:
        """Those of some rows for which tests are true."""
        computes = [value.compute for value in self.values]
        shape, result = self.shape, []
        for row in rows:
            shown = [decode(*pair) for pair in zip(row, shape, strict=False)]
            if all(test.compute(shown) is True for test in tests):
                result.append((row, tuple([compute(shown) for compute in computes])))
        return result


@dataclass(frozen=True, slots=True)
class _Direct:
    """Many rows that a `_Matcher` finds."""

    rows: CodedRows
    matcher: _Matcher
    statement: Statement

    def assigned(self, columns: Sequence[Column]) -> list[Words]:
        rows = scans.Columns.of(self.rows, self.matcher.shape)
        scalars = self.matcher.scalars
        pairs = zip(self.matcher.nodes, columns, strict=True)
        return [scans.assign(scalars, node, column, rows) for node, column in pairs]

    def by_row(self) -> Pairs:
        with _data_errors(self.statement):
            return self.matcher.pairs(self.rows.in_order())


@dataclass(frozen=True, slots=True)
class _Queried:
    """Rows that a query finds: its `matches` have values of a `shape` from column `first` on."""

    rows: CodedRows
    matches: CodedRows
    shape: Sequence[Column]
    first: int = 0

    def assigned(self, columns: Sequence[Column]) -> list[Words]:
        codes = [self.matches.codes[:, self.first + position] for position in range(len(columns))]
        selected = scans.Columns(self.shape, codes, self.matches.tables)
        return [scans.moved(selected, position, column) for position, column in enumerate(columns)]

    def by_row(self) -> Pairs:
        return _split(self.matches, self.shape, self.first)


def _split(rows: CodedRows, shape: Sequence[Column], first: int) -> Pairs:
    """Rows, and behind the first columns the values of each, which are of a shape."""
    return [
        (row[:first], tuple(decode(*pair) for pair in zip(row[first:], shape, strict=False)))
        for row in rows.in_order()
    ]


class _data_errors:  # noqa: N801  as `parameters.bound`
    """What computing a value raises inside is an error of the statement."""

    __slots__ = ("_statement",)

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None and isinstance(error, (ArithmeticError, ValueError)):
            raise self._statement.data(str(error)) from None


def _matcher(
    statement: Statement,
    source: exp.Table,
    where: exp.Expr | None,
    known: Mapping[str, Relation],
    computed: Sequence[exp.Expr],
) -> _Matcher:
    relation = known.get(source.name)
    if relation is None:
        raise statement.unknown("table", source.name, list(known), source)
    scalars = over(statement, (source.alias_or_name, relation.columns))
    tests: list[scans.Test] = []
    if where is not None:
        scalars.truth(exp.Where(this=where), where)  # as a whole, for what is wrong with it
        tests = [scans.Test.of(scalars, part) for part in required(where)]
    values = [scalars.compile(node) for node in computed]
    wanted = _fixing(statement, relation, where)
    return _Matcher(relation.columns, relation, tests, wanted, computed, values, scalars)


def fixed(statement: Statement, relation: Relation, where: exp.Expr | None) -> dict[int, Any]:
    """Positions of columns that the condition equates with constants, and the engine's values.

    IS NULL is one of these. Its columns are known to be the relation's. Of an INTERVAL, which is
    equal to others, it is the value that is said.
    """
    return _fixing(statement, relation, where, as_said=True)()


def _fixing(
    statement: Statement, relation: Relation, where: exp.Expr | None, *, as_said: bool = False
) -> Callable[[], dict[int, Any]]:
    """What gives the values of `fixed`, of the parameters of then.

    Without `as_said`, none of a type whose equal values are held in several forms.
    """
    parts: list[tuple[int, Compute | None]] = []
    names = [column.name for column in relation.columns]
    for part in conditions(where):
        if isinstance(part, exp.Is) and isinstance(part.this, exp.Column):
            position = names.index(part.this.name)
            if isinstance(part.expression, exp.Null) and relation.columns[position].nullable:
                parts.append((position, None))
        if not isinstance(part, exp.EQ):
            continue
        for column, other in ((part.this, part.expression), (part.expression, part.this)):
            if not isinstance(column, exp.Column):
                continue
            position = names.index(column.name)
            kind = relation.columns[position].type
            if not (kind.is_key or as_said):  # it equals others
                continue
            literal = typed(other, kind)
            if not _is_constant(literal):
                continue
            scalars = Scalars(statement, lambda _: None)
            scalar = scalars.exactly(literal)
            if kind.is_nested:
                if common_type(scalar.type, kind) is not kind:
                    continue
                scalar = scalars.converted(scalar, kind)
            parts.append((position, scalar.compute))

    def values() -> dict[int, Any]:
        known: dict[int, Any] = {}
        for position, compute in parts:
            if compute is None:
                known[position] = None
                continue
            try:
                value = compute(())
                if value is None:  # nothing is equal to it
                    known.pop(position, None)
                else:
                    column = relation.columns[position]
                    known[position] = column.encode(_as_held(value, column.type))
            except (ValueError, ArithmeticError):
                known.pop(position, None)
        return known

    return values


def _is_constant(node: exp.Expr) -> bool:
    """Whether a node is a literal, the CAST of one, or an array or a struct of such."""
    if isinstance(node, exp.Array | exp.Struct):
        return all(map(_is_constant, node.expressions))
    if isinstance(node, exp.PropertyEQ):
        return _is_constant(node.expression)
    return constant(node.this if isinstance(node, exp.Cast | exp.Interval) else node) is not None


def _as_held(value: SqlValue, kind: SqlType) -> SqlValue:
    """The value of a column that is equal to a value of another type, if there is one."""
    if type(value) is str or (type(value) is int and kind.is_integer):
        return value
    if isinstance(value, Decimal) and kind.is_integer:
        return int(value) if value == int(value) else value
    if kind.is_decimal or kind.is_nested:  # `assigned` rounds decimals
        return value
    return assigned(value, kind)


def source_of(query: exp.Expr) -> exp.Table | None:
    """The table or view of a SELECT that has one, and no clause but WHERE; else None."""
    clauses = ("from_", "expressions", "where")
    if not isinstance(query, exp.Select) or query.args.get("from_") is None:
        return None
    if any(value and key not in clauses for key, value in query.args.items()):
        return None
    source = query.args["from_"].this
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return None
    alias = source.args.get("alias")
    others = [key for key, value in source.args.items() if value and key not in ("this", "alias")]
    return None if others or (alias and alias.columns) else source


def scope_of(statement: Statement, alias: str, relation: Relation) -> Scope:
    """What a SELECT of one table or view sees."""
    columns = {c.name: Operand(Var(c.name), c.type, c.nullable) for c in relation.columns}
    scope = Scope(statement)
    scope.sources.append(Source(alias, columns, ()))
    return scope


def _direct(
    connection: Connection, statement: Statement, query: exp.Expr, known: Mapping[str, Relation]
) -> _Selection | None:
    """A SELECT of one table or view, row by row; None for any other query."""
    direct = _one_table(statement, query, known)
    if direct is None:
        return None
    names, matcher_ = direct
    shown = _shown(names, matcher_.values)
    rows = matcher_(connection, statement)
    if not isinstance(rows, list):
        if all(isinstance(node, exp.Column) for node in matcher_.nodes):
            columns = [column.name for column in matcher_.shape]
            positions = [columns.index(node.name) for node in matcher_.nodes]
            return _Selection(shown, scans.shown(rows.rows, matcher_.shape, positions))
        rows = rows.by_row()
    return _Selection(shown, [row for _, row in rows])


def _one_table(
    statement: Statement, query: exp.Expr, known: Mapping[str, Relation]
) -> tuple[list[str], _Matcher] | None:
    """What finds the rows of a SELECT of one table or view, and the names that it shows."""
    source = source_of(query)
    if source is None or not isinstance(query, exp.Select):
        return None
    if aggregates_of(query) or windows_of(query) or any(map(within, query.expressions)):
        return None
    if expanded_in(query.expressions):
        return None
    where = query.args["where"].this if query.args.get("where") is not None else None
    if where is not None and within(where):
        return None
    if source.name not in known:
        raise statement.unknown("table", source.name, list(known), source)
    scope = scope_of(statement, source.alias_or_name, known[source.name])
    named = spelled(scope, query.expressions)
    if where is not None:
        where = meant_in(scope, where, written_out(scope, query.expressions) or query.expressions)
    nodes = [node for _, node in named]
    return [name for name, _ in named], _matcher(statement, source, where, known, nodes)


def coded(
    connection: Connection,
    statement: Statement,
    node: exp.Expr,
    columns: Sequence[Column] | None = None,
) -> scans.Columns | Result:
    """The rows of a query as codes, in no order: of its columns, or as those of others.

    As `select` gives them where they are few, or have an order; where there are not as many
    columns, or a value is none of its column's. Raises as `select`.
    """
    written, known = unwrapped(node), connection.catalog.relations
    ordered = any(written.args.get(key) for key in ("order", "limit", "offset"))
    if ordered or _sorted_view(connection, written) is not None:
        return select(connection, statement, node)
    direct = _one_table(statement, written, known)
    if direct is not None:
        names, matcher_ = direct
        shown = _shown(names, matcher_.values)
        pairs = matcher_(connection, statement)
        if isinstance(pairs, list):
            return Result(shown, sorted([row for _, row in pairs], key=logical_order))
        matches: Many = pairs
    else:
        asked = _asked(connection, statement, written.copy(), known)
        shown, of = _shown(asked.names, asked.relation.columns), asked.relation.columns
        rows = _run(connection, asked.builder, asked.relation, asked.program)
        if len(rows) < scans.MANY:
            return Result(shown, sorted(decode_rows(rows.rows(), of), key=logical_order))
        rows = connection.recoded(rows)
        matches = _Queried(rows, rows, of)
    if columns is None or len(columns) == len(shown):
        wanted = shown if columns is None else columns
        with suppress(ByValueError):
            return scans.Columns(wanted, matches.assigned(wanted), matches.rows.tables)
    return select(connection, statement, node)


def _shown(names: Iterable[str], values: Sequence[Scalar | Column]) -> tuple[Column, ...]:
    """The columns that a SELECT shows, by their names."""
    pairs = zip(names, values, strict=True)
    return tuple(Column(name, value.type, value.nullable) for name, value in pairs)


def spelled(scope: Scope, shown: Sequence[exp.Expr]) -> list[tuple[str, exp.Expr]]:
    """What is selected, by its names, `*` written out."""
    named: list[tuple[str, exp.Expr]] = []
    for position, node in enumerate(written_out(scope, shown) or shown):
        if is_star(node):
            named.extend((column.name, column) for column, _ in stars(scope, node))
        else:
            named.append((shown_name(node, position), node.unalias()))
    return named


# --- any query, as a program ---------------------------------------------------------------------


def _evaluated(
    connection: Connection, statement: Statement, query: exp.Expr, known: Mapping[str, Relation]
) -> _Selection:
    asked = _asked(connection, statement, query, known)
    relation = asked.relation
    rows = _run(connection, asked.builder, relation, asked.program).in_order()
    table = decode_rows(rows, relation.columns)
    return _Selection(_shown(asked.names, relation.columns), table)


def _asked(
    connection: Connection, statement: Statement, query: exp.Expr, known: Mapping[str, Relation]
) -> Asked:
    """The program of a query; that of the last time, if it was asked over the same relations.

    One with parameters has values in its tree, and is planned each time.
    """
    key = None
    if statement.form is None and not statement.literals:
        key = (statement.text, statement.path, statement.start, *_shape(query))
        kept = connection.asked.pop(key, None)
        if kept is not None and kept.known == known:
            connection.asked[key] = kept
            return kept
    builder = Builder(statement, "query", known)
    query_rows = rows(builder, query, Scope(statement))
    names = tuple(name for name, _ in query_rows.outputs)
    relation = settled(builder, query_rows, [f"c{n}" for n in range(len(names))])
    asked = Asked(dict(known), names, builder, relation, _program(connection, builder))
    if key is not None:
        connection.asked[key] = asked
        while len(connection.asked) > _MOST_ASKED:
            del connection.asked[next(iter(connection.asked))]
    return asked


def _shape(query: exp.Expr) -> Iterator[object]:
    """What a tree is, level by level: equal for equal trees alone. A `repr` nests as it does."""
    for node in query.walk():
        yield type(node)
        for name, value in node.args.items():
            values = value if isinstance(value, list) else [value]
            yield name
            yield len(values)
            yield from (each for each in values if not isinstance(each, exp.Expr))


def _program(connection: Connection, builder: Builder) -> Program:
    """The rules of a query, which are refused as those of a view would be."""
    evaluated = program(used_by(connection.catalog, builder).values(), [builder])
    if any(clause.args.get("recursive") for clause in builder.statement.node.find_all(exp.With)):
        require_strata(builder.statement, evaluated)
    return evaluated


def _run(
    connection: Connection, builder: Builder, relation: Relation, evaluated: Program
) -> CodedRows:
    """The rows of a relation of a program that is evaluated once."""
    reducers = {name: reducer for name, (_, reducer) in builder.reducers.items()}
    functors = builder.functions
    with (
        connection.mapped(builder.statement),
        refusing(builder.statement),
        connect(evaluated, functors=functors, reducers=reducers, **connection.bounds) as db,
    ):
        with db.transaction() as tx:
            for name in used_by(connection.catalog, builder):
                connection.copy(name, tx)
        return db.coded(relation.name)


def _matching_query(
    connection: Connection,
    statement: Statement,
    source: exp.Table,
    where: exp.Expr | None,
    computed: Sequence[exp.Expr],
    *,
    beside: Sequence[exp.Expr],
) -> Pairs | Many:
    """What is matched where there are subqueries, or tables beside it."""
    builder = Builder(statement, "query", connection.catalog.relations)
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source.copy()))
    for table in beside:
        first = table.copy()
        more = first.args.pop("joins", None) or ()
        query.append("joins", exp.Join(this=first, kind="CROSS"))
        for join in more:
            if join.side in ("RIGHT", "FULL"):
                way_out = "write it in a subquery: FROM (SELECT ...) AS s"
                raise builder.refused(f"{join.side} JOIN beside the table", join.this, way_out)
            query.append("joins", join)
    formulas = Formulas(builder, Scope(statement), [])
    joins.sources(formulas, query)
    if where is not None:
        formulas.require(where)
    values = [formulas.operand(node) for node in computed]
    (atom,) = formulas.body[:1]
    target = builder.tables[source.name]
    whole = [
        Operand(term, column.type, column.nullable)
        for term, column in zip(atom.args, target.all_columns, strict=True)  # type: ignore[union-attr]
    ]
    operands = [*whole, *values]
    relation = builder.relation([operand.column(f"c{n}") for n, operand in enumerate(operands)])
    builder.head(relation, operands, formulas.body)
    coded_rows = _run(connection, builder, relation, _program(connection, builder))
    width = len(whole)
    shape = relation.columns[width:]
    if len(coded_rows) < scans.MANY:
        return _split(coded_rows, shape, width)
    coded_rows = connection.recoded(coded_rows)
    rows = connection.of_table(target.name, coded_rows.codes, coded_rows.tables)
    return _Queried(rows, coded_rows, shape, width)
