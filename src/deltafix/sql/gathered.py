"""Subqueries of a recursion's step whose rows are gathered in an array.

    ... UNION ALL SELECT r.n + 1 FROM r WHERE NOT EXISTS (SELECT 1 FROM lim WHERE lim.m < r.n)

Which `r.n` such a subquery is asked about the recursion alone says, and it waits for the answer. It
reads nothing else of the recursion: the rows that equalities between columns choose are there
before. They become an array, and each row of the recursion looks it through. An edit of these rows
is one of all that looked at them, so this is for recursions that have no other plan.
Its groups are an array likewise, of structs of their keys and aggregates, made of that array.
Invariant: a subquery means what it means in `sql.subqueries`; where that is not sure, `gather` is
None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from deltafix.rules.ast import Comparison
from deltafix.rules.terms import Call, Const
from deltafix.sql import joins
from deltafix.sql.aggregates import (
    aggregates_in,
    aggregates_of,
    fold_over,
    read_aggregate,
    reducer_of,
)
from deltafix.sql.builder import Operand, equal
from deltafix.sql.connectives import conditions
from deltafix.sql.formulas import Formulas
from deltafix.sql.functions import order_of
from deltafix.sql.grouping import grouping
from deltafix.sql.literals import Scalar
from deltafix.sql.ranking import is_all, number
from deltafix.sql.stars import is_star, meant_in
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, NULL, SqlType, Struct, array_type, struct_type
from deltafix.sql.unnest import expanded_in
from deltafix.sql.windows import windows_of

if TYPE_CHECKING:
    from deltafix.rules.ast import Formula
    from deltafix.sql.scope import Scope

__all__ = ["Gathered", "gather", "gathered_left"]

_ROWS, _ROW = exp.column("~rows"), exp.column("~row")
"""The array, and an element of it."""

_NOT_GATHERED = ("qualify", "with_")


@dataclass(frozen=True, slots=True)
class Gathered:
    """The rows of a subquery as an array of structs, for each of the rows around.

    Attributes:
        formulas: of the scope around, where the array is `_ROWS`; to its body goes what is made.
        names, shown: what the subquery selects, over an element.
        tests: its conditions on columns of the rows around, likewise.
        bounds: its OFFSET, and where its LIMIT ends.
    """

    formulas: Formulas
    names: tuple[str, ...]
    shown: tuple[exp.Expr, ...]
    tests: tuple[exp.Expr, ...]
    bounds: tuple[int, int | None]

    def count(self, *more: exp.Expr) -> Operand:
        """How many rows there are of which more conditions hold, too."""
        first, end = self.bounds

        def size(row: Any) -> int:
            return len((row[0] or ())[first:end])

        scalar = Scalar(size, BIGINT, nullable=False)
        return self._applied(scalar, self._chosen(_ROW, *more))

    def none(self, *more: exp.Expr) -> Formula:
        """That there are no rows of which more conditions hold, too."""
        return equal(self.count(*more).term, Const(0, "number"))

    @property
    def aggregates(self) -> bool:
        """Whether it selects aggregates of the rows."""
        return bool(aggregates_in(*self.shown))

    def is_compared(self, by: type[exp.Expr]) -> bool:
        """Whether no index says of which row a comparison with one may be true or unknown."""
        inequal = by is not exp.EQ or bool(self.tests)
        return inequal and self.bounds == (0, None) and len(self.shown) == 1

    def compared(self, left: exp.Expr, by: type[exp.Expr], truth: bool | None) -> list[Formula]:
        """That of no row a comparison is true; nor unknown, or of some, where `truth` is None."""
        test = by(this=left.copy(), expression=self.shown[0].copy())
        doubts = self.count(exp.Is(this=test.copy(), expression=exp.Null()))
        return [
            self.none(test),
            Comparison("!=" if truth is None else "=", doubts.term, Const(0, "number")),
        ]

    def value(self) -> Operand | None:
        """What is selected of the only row, NULL if there is none.

        None where there may be more rows, or columns, and as of `aggregated`.
        """
        if len(self.shown) != 1:
            return None
        if self.aggregates:
            row = self.aggregated()
            return None if row is None else row[0]
        first, end = self.bounds
        if end is None or end - first > 1:
            return None
        values = self._chosen(*self.shown)
        kind = values.type.element
        assert kind is not None  # noqa: S101  it is an array

        def element(row: Any) -> Any:
            return next(iter((row[0] or ())[first:end]), None)

        return self._applied(Scalar(element, kind, nullable=True), values)

    def aggregated(self) -> list[Operand] | None:
        """What is selected, of aggregates of the rows; None where one is not of these few."""
        here, known = self.formulas, dict(self.formulas.scope.known or {})
        for part in aggregates_in(*self.shown):
            operand = self._aggregate(part)
            if operand is None:
                return None
            known[here.scope.qualified(part)] = operand
        around = here.scope.inner()
        around.known = known
        return [*map(Formulas(here.builder, around, here.body).operand, self.shown)]

    def grouped(self, keys: Sequence[exp.Expr], aggregates: Sequence[exp.Expr]) -> Operand | None:
        """The groups of the rows: structs of the keys `k0`, `k1`, ... and aggregates `a0`, ...

        Without keys all rows are one, also none. None as of `aggregated`.
        """
        by, of = [*map(self._chosen, keys)], [*map(self._reduced, aggregates)]
        folds = [scalar for one in of if one is not None for scalar in one[:1]]
        kinds = [operand.type.element or NULL for operand in by]
        fields = [
            *((f"k{n}", kind) for n, kind in enumerate(kinds) if kind is not NULL),
            *((f"a{n}", fold.type) for n, fold in enumerate(folds)),
        ]
        if len(fields) < len(by) + len(of) or not fields:
            return None
        kind = struct_type(tuple(fields))
        names = tuple(name for name, _ in fields)

        def groups(row: Any) -> tuple[Struct, ...]:
            columns = [values or () for values in row]
            found: dict[tuple[Any, ...], list[int]] = {} if by else {(): []}
            shown = columns[: len(by)]
            codes = [
                [None if value is None else kind.write(value) for value in values]
                for kind, values in zip(kinds, shown, strict=True)
            ]
            for place in range(len(columns[0]) if columns else 0):
                found.setdefault(tuple(code[place] for code in codes), []).append(place)
            return tuple(
                Struct.of(
                    names,
                    (
                        *(values[places[0]] for values in shown),
                        *(
                            fold.compute((tuple(values[place] for place in places),))
                            for fold, values in zip(folds, columns[len(by) :], strict=True)
                        ),
                    ),
                )
                for places in found.values()
            )

        values = (operand for one in of if one is not None for operand in one[1:])
        return self._applied(Scalar(groups, array_type(kind), nullable=False), *by, *values)

    def _aggregate(self, node: exp.Expr) -> Operand | None:
        """An aggregate of the rows."""
        found = self._reduced(node)
        return None if found is None else self._applied(*found)

    def _reduced(self, node: exp.Expr) -> tuple[Scalar, Operand] | None:
        """An aggregate as a function of the values it ranges over, and these.

        None where it puts them in an order, or is of two columns.
        """
        aggregate = read_aggregate(self.formulas, node)
        by_value, statement = aggregate.by_value, self.formulas.scope.statement
        if aggregate.is_united or aggregate.blank_in(statement.dialect):
            return None
        values = self._chosen(_ROW if aggregate.argument is None else aggregate.argument)
        kind = values.type.element
        assert kind is not None  # noqa: S101  it is an array
        if kind is NULL:
            return None
        if aggregate.op == "count":
            distinct: Callable[[Any], Any] = set if by_value else list
            return (
                Scalar(lambda row: len(distinct(_codes(row[0], kind))), BIGINT, nullable=False),
                values,
            )
        if aggregate.op in ("min", "max"):
            pick, key = min if aggregate.op == "min" else max, order_of(kind)

            def best(row: Any) -> Any:
                known = (value for value in row[0] or () if value is not None)
                return pick(known, key=key, default=None)

            return Scalar(best, kind, nullable=True), values
        reducer, result = reducer_of(self.formulas, aggregate, kind)
        read, least = result.read, aggregate.least

        def reduced(row: Any) -> Any:
            codes = _codes(row[0], kind)
            if by_value:
                codes = [*dict.fromkeys(codes)]
            if len(codes) < least:
                return None
            value = reducer.finish(reduce(reducer.add, codes, reducer.initial))
            return value if read is None else read(value)

        return Scalar(reduced, result, nullable=True), values

    def rows(
        self, *, outer: bool = False
    ) -> tuple[list[tuple[str, Operand]], tuple[Operand, ...]] | None:
        """What is selected of each row, and what tells rows apart; None as of `aggregated`.

        With `outer` there is one of NULLs where there is none.
        """
        if self.aggregates:
            row = self.aggregated()
            return None if row is None else ([*zip(self.names, row, strict=True)], ())
        count, first = self.count(), self.bounds[0]
        if outer:
            most = Scalar(lambda row: max(row[0], 1), BIGINT, nullable=False)
            count = self._applied(most, count)
        index = Operand(self.formulas.builder.fresh("i"), BIGINT, nullable=False)
        numbers = Call("range", (Const(0, "number"), count.term))
        self.formulas.body.append(equal(index.term, numbers))

        def element(row: Any) -> Any:
            values, place = row[0] or (), first + row[1]
            return values[place] if place < len(values) else None

        shown = []
        for node in self.shown:
            values = self._chosen(node)
            assert values.type.element is not None  # noqa: S101  it is an array
            scalar = Scalar(element, values.type.element, nullable=True)
            shown.append(self._applied(scalar, values, index))
        return [*zip(self.names, shown, strict=True)], (index,)

    def _chosen(self, value: exp.Expr, *more: exp.Expr) -> Operand:
        """A value for each of the rows that fit."""
        tests = [*self.tests, *more]
        node = exp.Comprehension(
            this=value.copy(),
            expression=_ROW.this.copy(),
            iterator=_ROWS.copy(),
            condition=exp.and_(*tests) if tests else None,
        )
        return self.formulas.operand(exp.Array(expressions=[node]))

    def _applied(self, scalar: Scalar, *args: Operand) -> Operand:
        return self.formulas.builder.apply(scalar, args, self.formulas.body)


def _codes(values: Any, kind: SqlType) -> list[Any]:
    """What the engine has for those of an array that are there."""
    return [kind.write(value) for value in values or () if value is not None]


def gathered_left(
    formulas: Formulas, join: exp.Join
) -> tuple[list[tuple[str, Operand]], tuple[Operand, ...]] | None:
    """As `Gathered.rows`, of a LEFT JOIN LATERAL ON TRUE, or of a table by no equality alone."""
    item, on, here = join.this, join.args.get("on"), formulas.within()
    is_lateral = isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery)
    if is_lateral and on == exp.true():
        gathered = gather(here, item.this.unnest())
    elif isinstance(item, exp.Table) and isinstance(on, exp.Expr):
        alias, columns = item.args.get("alias"), joins.named(formulas, item).columns
        called = [] if alias is None else [column.name for column in alias.columns]
        names = (*called, *(column.name for column in columns[len(called) :]))
        query = exp.Select(
            expressions=[exp.column(name, item.alias_or_name) for name in names],
            from_=exp.From(this=item.copy()),
            where=exp.Where(this=on.copy()),
        )
        formulas.builder.alive.append(query)
        gathered = gather(here, query)
        if gathered is not None and not gathered.tests:
            return None
    else:
        return None
    rows = None if gathered is None else gathered.rows(outer=True)
    if rows is not None:
        formulas.body.extend(here.body)
    return rows


def gather(
    formulas: Formulas, query: exp.Expr, *, is_test: bool = False, is_set: bool = False
) -> Gathered | None:
    """The rows of a subquery, computed in the body of `formulas`; None where it is too much.

    Of one that aggregates they are the rows that it aggregates; what it selects counts for nothing
    where it is only a test, and how often it does neither there nor where it `is_set`.
    """
    if (
        not isinstance(query, exp.Select)
        or query.args.get("from_") is None
        or any(query.args.get(key) for key in _NOT_GATHERED)
        or windows_of(query)
    ):
        return None
    aggregates, distinct = aggregates_of(query), query.args.get("distinct")
    is_grouped = bool(query.args.get("group") or query.args.get("having"))
    limit, order = query.args.get("limit"), query.args.get("order")
    counts_once = (is_test or is_set) and not (limit or query.args.get("offset"))
    if distinct is not None and (distinct.args.get("on") or not counts_once):
        return None
    if (aggregates or is_grouped) and (limit or order or query.args.get("offset")):
        return None
    statement, scope = formulas.scope.statement, formulas.scope.inner()
    inner = Formulas(formulas.builder, scope, [])
    joins.sources(inner, query)
    where = query.args.get("where")
    tests: list[exp.Expr] = []
    for part in conditions(where.this if where is not None else None):
        if _is_inside(scope, part) or _chooses(part):
            inner.require(part)
        else:
            tests.append(part)
    shown = [] if is_test else [head.unalias() for head in query.expressions]
    sorts = [
        exp.Ordered(**{**key.args, "this": node.copy()})
        for key in (order.expressions if order is not None else ())
        for node in _sorted_by(inner, query, key.this)
    ]
    is_plain = not any(part.find(exp.Query) for part in (*tests, *shown))
    if not (is_plain and all(_is_inside(scope, key) for key in sorts)) or any(map(is_star, shown)):
        return None
    groups = _Groups.of(inner, query, shown) if is_grouped else None
    if is_grouped and (groups is None or not (tests or groups.asks)):
        return None
    ties = [head for head in shown if sorts and _is_inside(scope, head)]
    sorts += [exp.Ordered(this=head.copy()) for head in ties]
    fields: dict[exp.Expr, str] = {}

    def read(part: exp.Expr) -> exp.Expr:
        """An expression over an element."""
        if not isinstance(part, exp.Column) or scope.here(part) is None:
            return part
        name = fields.setdefault(scope.qualified(part), f"c{len(fields)}")
        return exp.Dot(this=_ROW.copy(), expression=exp.to_identifier(name))

    if groups is None:
        shown = [node.transform(read) for node in shown]
    else:
        keys = [node.transform(read) for node in groups.keys]
        aggregates = [node.transform(read) for node in groups.aggregates]
    tests = [node.transform(read) for node in tests]
    cells = [
        exp.PropertyEQ(this=exp.to_identifier(name), expression=column)
        for column, name in fields.items()
    ]
    row: exp.Expr = exp.Struct(expressions=cells) if cells else exp.Literal.number(1)
    if sorts:
        row = exp.Order(this=row, expressions=sorts)
    identity = [operand for source in scope.sources for operand in source.identity]
    rows = fold_over(formulas, inner, identity, exp.ArrayAgg(this=row), empty=True)
    around = formulas.scope.inner()
    around.known = {**(formulas.scope.known or {}), _ROWS: rows}
    first = number(statement, query.args.get("offset")) or 0
    most = number(statement, limit)
    gathered = Gathered(
        Formulas(formulas.builder, around, formulas.body),
        tuple(head.alias_or_name for head in query.expressions),
        tuple(shown),
        tuple(tests),
        (first, None if most is None else first + most),
    )
    if groups is None:
        return gathered
    made = gathered.grouped(keys, aggregates)
    if made is None:
        return None
    over = formulas.scope.inner()
    over.known = {**(formulas.scope.known or {}), _ROWS: made}
    return replace(
        gathered,
        formulas=Formulas(formulas.builder, over, formulas.body),
        shown=tuple(groups.shown),
        tests=(groups.having,),
    )


@dataclass(frozen=True, slots=True)
class _Groups:
    """What a subquery groups by and aggregates; what it shows and tests, over an element of these.

    Attributes:
        asks: whether what it tests of groups reads the rows around.
    """

    keys: list[exp.Expr]
    aggregates: list[exp.Expr]
    shown: list[exp.Expr]
    having: exp.Expr
    asks: bool

    @classmethod
    def of(cls, inner: Formulas, query: exp.Select, shown: Sequence[exp.Expr]) -> _Groups | None:
        """Those of a query; None where they are more than keys and aggregates of its rows."""
        scope, by = inner.scope, grouping(inner, query)
        having: exp.Expr = exp.true()
        if (clause := query.args.get("having")) is not None:
            having = meant_in(scope, clause.this, query.expressions, by.keys)
            inner.builder.alive.append(having)
        nodes = [*shown, having]
        if by.several or expanded_in(nodes) or any(part.find(exp.Query) for part in nodes):
            return None
        aggregates = [*{scope.qualified(node): node for node in aggregates_in(*nodes)}.values()]
        elements = {key: f"k{n}" for n, key in enumerate(by.keys)}
        elements |= {scope.qualified(node): f"a{n}" for n, node in enumerate(aggregates)}

        def read(part: exp.Expr) -> exp.Expr:
            name = elements.get(scope.qualified(part))
            if name is None:
                return part
            return exp.Dot(this=_ROW.copy(), expression=exp.to_identifier(name))

        *shown, having = (node.transform(read) for node in nodes)
        columns = [column for node in (*shown, having) for column in node.find_all(exp.Column)]
        if any(scope.here(column) is not None for column in columns):
            return None  # one that is neither, of which what plans it otherwise says so
        asks = any(column != _ROW for column in having.find_all(exp.Column))
        return cls([*by.keys], aggregates, shown, having, asks)


def _sorted_by(inner: Formulas, query: exp.Select, node: exp.Expr) -> list[exp.Expr]:
    """What a part of ORDER BY stands for: a position, a name of SELECT, ALL, or itself."""
    heads = [head.unalias() for head in query.expressions]
    position = inner.scope.statement.position(node, "ORDER BY", len(heads))
    if position is not None:
        return [heads[position]]
    return heads if is_all(node) else [inner.scope.meant(node, query.expressions)]


def _is_inside(scope: Scope, node: exp.Expr) -> bool:
    """Whether a condition reads columns of the subquery alone."""
    return not node.find(exp.Query) and all(map(scope.here, node.find_all(exp.Column)))


def _chooses(node: exp.Expr) -> bool:
    """Whether it is an equality of columns, which an index answers."""
    return isinstance(node, exp.EQ) and all(
        isinstance(side, exp.Column) for side in (node.this, node.expression)
    )
