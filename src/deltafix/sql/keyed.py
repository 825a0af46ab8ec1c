"""WITH RECURSIVE ... USING KEY: of each key one row, whose other columns are the best there are.

    WITH RECURSIVE p (x, d) USING KEY (x, MIN(d)) AS (
        SELECT 1, 0 UNION SELECT e.b, p.d + e.w FROM p JOIN e ON e.a = p.x)

DuckDB goes step by step, and aggregates what a step finds with what is there. Where better values
lead to the same rows or to better ones, the order of the steps decides nothing: there is a least
fixpoint. Made are all rows that starts and steps find (`candidates`), for each column that a step
reads a relation of the best value of a key, and what a step reads, made of these; outside,
`candidates` is grouped by the key. Where steps only add to a value, one that follows from a worse
one of its own key has no end, and is an error (`EndlessDataError`). Invariant: a value gets better,
becomes true, or is the same, when what it is made of gets better (`_Way.of`); a step of which that
is not known is refused, and so is a column whose last row counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from deltafix.rules.ast import Formula
from deltafix.sql import query as queries
from deltafix.sql.builder import Builder, Operand, Relation, blank, equal, some
from deltafix.sql.connectives import conditions
from deltafix.sql.literals import constant
from deltafix.sql.scope import Scope
from deltafix.sql.text import exp
from deltafix.sql.types import TEXT, Column

__all__ = ["RECURRING", "keyed"]

RECURRING: Final = "recurring"
"""What DuckDB writes before the name to read all rows, and not those of the last step alone."""

_WAYS: Final[Mapping[type[exp.Expr], int]] = {
    exp.Min: -1, exp.LogicalAnd: -1, exp.ArgMin: -1, exp.Max: 1, exp.LogicalOr: 1, exp.ArgMax: 1,
}  # fmt: skip
"""Which way values go that get better: down or up."""

_BY: Final = (exp.ArgMin, exp.ArgMax)
_BEYOND: Final = {
    "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY", "limit": "LIMIT",
    "offset": "OFFSET", "order": "ORDER BY", "with_": "WITH",
}  # fmt: skip
_SOME: Final = None
"""Neither up nor down, or it is not known."""


@dataclass(frozen=True)
class _Key:
    """What USING KEY says of the columns of an expression: which are the key, and what is kept."""

    cte: exp.CTE
    names: Sequence[str]
    keys: Sequence[str]
    kept: Mapping[str, exp.Expr]

    @property
    def name(self) -> str:
        """The name of the expression."""
        return self.cte.alias

    def way(self, name: str) -> int:
        """Which way the values of a column go; 0: one of the key."""
        return 0 if name in self.keys else _WAYS[type(self.kept[name])]


def keyed(
    builder: Builder,
    cte: exp.CTE,
    first: Sequence[exp.Expr],
    again: Sequence[exp.Expr],
    scope: Scope,
) -> Relation:
    """The relation of an expression with USING KEY, of its sides that start and those that step.

    Raises SqlRefusedError for what follows from the order of steps, SqlProgrammingError.
    """
    starts = [queries.rows(builder, side, scope.inner(alone=True)) for side in first]
    columns = queries.unified(builder, cte.this, [start.columns for start in starts])
    names = [column.name for column in cte.args["alias"].columns or columns]
    if len(names) != len(columns):
        message = f"{len(names)} names for {len(columns)} columns"
        raise builder.statement.wrong(message, cte, "give each column one name")
    key = _key_of(builder, cte, names)
    read = [_Step(builder, key, side) for side in again]
    columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
    while True:
        mark = builder.mark()
        seen = builder.relation(columns)
        inner = replace(scope, ctes={**scope.ctes, key.name: seen})
        steps = [queries.rows(builder, step.select, inner.inner(alone=True)) for step in read]
        sides = [columns, *(step.columns for step in steps)]
        wider = queries.unified(builder, cte.this, sides)
        if wider == columns:
            break
        builder.back(mark)
        columns = wider
    for step in read:
        step.require_better(columns)
    candidates = builder.relation(columns)
    for part in (*starts, *steps):
        builder.head(candidates, [operand for _, operand in part.outputs], part.body)
    kept = dict.fromkeys(name for step in read for name in step.read)
    shifts = len(kept) == 1 and all(step.shifts for step in read)
    best = [_best(builder, key, candidates, name, shifts=shifts) for name in kept]
    _show(builder, key, seen, candidates, best)
    return _grouped(builder, key, candidates, scope)


def _key_of(builder: Builder, cte: exp.CTE, names: Sequence[str]) -> _Key:
    """What USING KEY says. Raises SqlProgrammingError, SqlRefusedError."""
    statement = builder.statement
    keys: list[str] = []
    kept: dict[str, exp.Expr] = {}
    for node in cte.args["key_expressions"]:
        name, call = _part(builder, node)
        if name not in names:
            raise statement.unknown("column", name, names, node)
        if name in keys or name in kept or node.alias not in ("", name):
            message = f"USING KEY names {name!r} twice, or another column by it"
            raise statement.wrong(message, node, "name each column once")
        if call is None:
            keys.append(name)
        else:
            kept[name] = call
    if not keys:
        message = "USING KEY without a key"
        raise statement.wrong(message, cte.args["key_expressions"][0], "name a column")
    key = _Key(cte, names, keys, kept)
    _require_kept(builder, key)
    return key


def _part(builder: Builder, node: exp.Expr) -> tuple[str, exp.Expr | None]:
    """The column that a part of USING KEY names, and the aggregate that it keeps of it."""
    call = node.unalias()
    if isinstance(call, exp.Identifier):
        return call.name, None
    if type(call) not in _WAYS:
        way_out = "keep MIN, MAX, BOOL_AND, BOOL_OR, ARG_MIN or ARG_MAX: no order decides these"
        what = f"{builder.statement.called(call).upper()} in USING KEY"
        raise builder.refused(what, node, way_out)
    if not isinstance(call.this, exp.Column):
        message = "an aggregate in USING KEY is of a column"
        raise builder.statement.wrong(message, node, "compute it in the sides of UNION")
    return call.this.name, call


def _require_kept(builder: Builder, key: _Key) -> None:
    """Refuse a column whose last row counts, and ARG_MIN by what is not kept by MIN."""
    kept = key.kept
    lost = [name for name in key.names if name not in key.keys and name not in kept]
    if lost:
        least = (f"MIN({name})" for name in lost)
        parts = [*key.keys, *least, *(call.sql() for call in kept.values())]
        way_out = f"say which value stays: USING KEY ({', '.join(parts)}), or MAX, ARG_MIN, ARG_MAX"
        what = f"USING KEY that keeps the last {lost[0]}, which follows from the order of steps,"
        raise builder.refused(what, key.cte.args["key_expressions"][0], way_out)
    for call in kept.values():
        by = call.args.get("expression") if isinstance(call, _BY) else call.this
        other = kept.get(by.name) if isinstance(by, exp.Column) else None
        fits = other is not None and (
            not isinstance(other, _BY) and _WAYS[type(other)] == _WAYS[type(call)]
        )
        if isinstance(call, _BY) and not fits:
            fit = "MIN" if isinstance(call, exp.ArgMin) else "MAX"
            said = by.sql() if isinstance(by, exp.Expr) else "d"
            what = f"this {builder.statement.called(call).upper()} in USING KEY"
            raise builder.refused(what, call, f"keep {fit}({said}) beside it")


# --- steps ---------------------------------------------------------------------------------------


class _Step:
    """A side that reads the expression: a SELECT that reads it once, and may be said of the best.

    Attributes:
        select: the SELECT, without `recurring.`, which changes nothing where one row is read.
        read: the columns that it reads, but for those of the key.
    """

    def __init__(self, builder: Builder, key: _Key, side: exp.Expr) -> None:
        self._builder, self._key = builder, key
        query = queries.unwrapped(side)
        tables = [table for table in query.find_all(exp.Table) if table.name == key.name]
        if not isinstance(query, exp.Select) or len(tables) != 1:
            way_out = f"write a SELECT that reads {key.name} once; the best values are kept anyway"
            raise builder.refused("this step of USING KEY", tables[-1] if tables else side, way_out)
        self._require_plain(query)
        self._require_inner(query, tables[0])
        self.select = query.copy()
        builder.alive.append(self.select)
        self._alias = ""
        for table in self.select.find_all(exp.Table):
            if table.name == key.name:
                table.set("db", None)
                self._alias = table.alias_or_name
        self.read = [name for name in key.kept if any(self._columns(self.select, name))]

    def _require_plain(self, query: exp.Select) -> None:
        """Refuse what looks at several rows at once, and a `*`, which reads all columns."""
        beyond = {word: query.args.get(key) for key, word in _BEYOND.items()}
        distinct = query.args.get("distinct")
        beyond["DISTINCT ON"] = distinct.args.get("on") if distinct is not None else None
        for word, node in beyond.items():
            if node:
                way_out = "leave it out: USING KEY keeps the best row of each key"
                raise self._builder.refused(f"{word} in a step of USING KEY", node, way_out)
        for node in query.find_all(exp.Star):
            if not isinstance(node.parent, exp.Count):
                what = "* in a step of USING KEY"
                raise self._builder.refused(what, node, "name the columns")

    def _require_inner(self, query: exp.Select, table: exp.Table) -> None:
        """Refuse a place of the expression in which another row of it may be one row less."""
        name, joins = self._key.name, query.args.get("joins") or ()
        alias = table.args.get("alias")
        if alias is not None and alias.columns:
            way_out = "name the columns in WITH alone"
            raise self._builder.refused("other names of the columns in a step", table, way_out)
        own = next((index for index, join in enumerate(joins) if join.this is table), -1)
        is_first = query.args["from_"].this is table
        mine = joins[own : own + 1] if own >= 0 else ()
        is_inner = not any(
            join.side or join.args.get("method") or join.kind not in ("", "INNER", "CROSS")
            for join in mine
        )
        outer = any(join.side in ("RIGHT", "FULL") for join in joins[own + 1 :])
        if outer or not (is_first or (own >= 0 and is_inner)):
            way_out = f"write {name} first in FROM, or in an inner join"
            raise self._builder.refused(f"{name} in this place of a step", table, way_out)

    def _columns(self, node: exp.Expr, name: str) -> Iterator[exp.Expr]:
        """Where a column of the expression is read, or may be."""
        for column in node.find_all(exp.Column):
            if column.name == name and column.table in ("", self._alias):
                yield column
        for join in node.find_all(exp.Join):
            yield from (key for key in join.args.get("using") or () if key.name == name)

    def _reads(self, node: exp.Expr) -> bool:
        return any(True for name in self._key.kept for _ in self._columns(node, name))

    def require_better(self, columns: Sequence[Column]) -> None:
        """Refuse a step that better values do not make better. Raises SqlRefusedError."""
        key, known = self._key, {column.name: column for column in columns}
        for name in self.read:
            if isinstance(key.kept[name], _BY):
                way_out = (
                    f"read {name} in the query around; in a step its best row is not known yet"
                )
                node = next(self._columns(self.select, name))
                raise self._builder.refused(f"a step that reads {name}", node, way_out)
        where = self.select.args.get("where")
        tests = list(conditions(where.this if where is not None else None))
        for join in self.select.args.get("joins") or ():
            on, using = join.args.get("on"), join.args.get("using")
            method = join.args.get("method")
            plain = not (join.side or method or using) and join.kind in ("", "INNER")
            tests += conditions(on) if plain else ()
            fixed = join.this if plain else join  # what a value must not decide at all
            self._require(method != "NATURAL" and not self._reads(fixed), join, "")
        not_null = {name for test in tests for name in _known(test)}
        known = {n: replace(c, nullable=c.nullable and n not in not_null) for n, c in known.items()}
        way = _Way(key, known, self._reads)
        for shown, name in zip(self.select.expressions, key.names, strict=True):
            wanted = key.way(name)
            if isinstance(key.kept.get(name), _BY):
                wanted = 0
            self._require(way.of(shown.unalias()) in (0, wanted), shown, name)
        for test in tests:
            self._require(way.of(test) in (0, 1), test, "")

    @property
    def shifts(self) -> bool:
        """Whether it only adds to values, and asks them nothing: DF432 is then what data say."""
        own = self._key.names
        shown = {id(node) for node in self.select.expressions}
        asked = (node for node in self.select.iter_expressions() if id(node) not in shown)
        return not any(map(self._reads, asked)) and all(
            not self._reads(node) or (name in self.read and self._is_shift(node.unalias()))
            for node, name in zip(self.select.expressions, own, strict=True)
        )

    def _is_shift(self, node: exp.Expr) -> bool:
        node = node.unnest()
        if not isinstance(node, exp.Add | exp.Sub):
            return isinstance(node, exp.Column)
        sides = [side for side in (node.this, node.expression) if self._reads(side)]
        return len(sides) == 1 and self._is_shift(sides[0])

    def _require(self, holds: bool, node: exp.Expr, name: str) -> None:
        if holds:
            return
        said = ", ".join(self.read)
        what = f"a step whose {name} is not as good where {said} is better"
        if not name:
            what = f"a condition that a better {said} may make false"
        way_out = (
            "better values must lead to better ones: +, -, LEAST, GREATEST, and < of MIN, > of MAX"
        )
        passes_over = node.find(exp.Least, exp.Greatest)
        if passes_over is not None and name in self.read:
            word = passes_over.key.upper()
            way_out = f"{word} passes over NULL: where {name} may be NULL, ask {name} IS NOT NULL"
        raise self._builder.refused(what, node, way_out)


@dataclass(frozen=True)
class _Way:
    """Which way expressions go as the columns of the expression get better."""

    key: _Key
    columns: Mapping[str, Column]
    reads: Callable[[exp.Expr], bool]

    def of(self, node: exp.Expr) -> int | None:
        """1: up, or from false to true; -1: down; 0: no way; None: it is not known. O(nodes^2)."""
        if not self.reads(node):
            return 0
        if isinstance(node, exp.Column):
            return self.key.way(node.name)
        if isinstance(node, exp.Paren):
            return self.of(node.this)
        if isinstance(node, exp.Neg | exp.Not):
            return self._seen(node) if _is_null(node.this) else _turned(self.of(node.this))
        if isinstance(
            node, exp.Add | exp.And | exp.Or | exp.GT | exp.GTE | exp.Sub | exp.LT | exp.LTE
        ):
            return self._pair(node)
        if isinstance(node, exp.Mul | exp.Div | exp.IntDiv):
            return self._scaled(node)
        if isinstance(node, exp.Least | exp.Greatest):
            way = _both([self.of(part) for part in (node.this, *node.expressions)])
            skips = -1 if isinstance(node, exp.Least) else 1  # a NULL is passed over
            return way if way == skips or not self._nullable(node) else _SOME
        if isinstance(node, exp.Cast) and self._numbers(node):
            return self.of(node.this)
        return _SOME

    def _pair(self, node: exp.Binary) -> int | None:
        left, right = self.of(node.this), self.of(node.expression)
        if isinstance(node, exp.Sub | exp.GT | exp.GTE):
            right = _turned(right)
        elif isinstance(node, exp.LT | exp.LTE):
            left = _turned(left)
        return _both([left, right])

    def _scaled(self, node: exp.Binary) -> int | None:
        """Times a constant, or divided by one."""
        factor, of = node.expression, node.this
        if isinstance(node, exp.Mul) and self.reads(factor):
            factor, of = of, factor
        by = constant(factor)
        if by is None or not by.type.is_numeric or by.compute(()) is None:
            return _SOME
        value: Any = by.compute(())
        return self.of(of) if value > 0 else _turned(self.of(of)) if value < 0 else _SOME

    def _seen(self, node: exp.Expr) -> int | None:
        """IS NOT NULL, of what is itself of one way: a NULL is the worst there is."""
        return _SOME if self.of(node.this.this) is None else 1

    def _numbers(self, node: exp.Cast) -> bool:
        kinds = [
            self.columns[column.name].type
            for column in node.find_all(exp.Column)
            if self.reads(column)
        ]
        to = node.to.this.name
        wide = ("INT", "BIGINT", "HUGEINT", "INT128", "DOUBLE", "FLOAT", "DECIMAL", "SMALLINT")
        return to in wide and all(kind.is_numeric for kind in kinds)

    def _nullable(self, node: exp.Expr) -> bool:
        return any(
            self.columns[column.name].nullable
            for column in node.find_all(exp.Column)
            if self.reads(column)
        )


def _known(test: exp.Expr) -> Iterator[str]:
    """Columns that a condition holds of only where they are not NULL."""
    test = test.unnest()
    if isinstance(test, exp.Not) and _is_null(test.this):
        test = exp.EQ(this=test.this.this.copy(), expression=exp.true())
    if isinstance(test, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        yield from (
            side.name for side in (test.this, test.expression) if isinstance(side, exp.Column)
        )


def _is_null(node: exp.Expr) -> bool:
    return isinstance(node, exp.Is) and isinstance(node.expression, exp.Null)


def _turned(way: int | None) -> int | None:
    return None if way is None else -way


def _both(ways: Sequence[int | None]) -> int | None:
    """The way of what goes with each of these."""
    moves = {way for way in ways if way != 0}
    if not moves:
        return 0
    return moves.pop() if len(moves) == 1 else _SOME


# --- relations -----------------------------------------------------------------------------------


def _best(
    builder: Builder, key: _Key, candidates: Relation, name: str, *, shifts: bool
) -> Relation:
    """The best value of a column for each key: NULL is none."""
    columns = {column.name: column for column in candidates.columns}
    kind = columns[name].type
    if kind.base not in ("number", "float") and not (kind is TEXT or kind.is_wide):
        way_out = "keep a number, a text, a day or a moment"
        raise builder.refused(f"USING KEY that keeps {kind.name}", key.kept[name], way_out)
    best = builder.relation(
        [*(columns[key_name] for key_name in key.keys), Column(name, kind, nullable=False)]
    )
    shifts = shifts and kind.base != "float"  # whose sums end: at infinity, or by rounding
    best = replace(best, kept="min" if key.way(name) < 0 else "max", shifts=shifts)
    builder.relations[-1] = best
    atom, operands = builder.bind(candidates)
    by_name = dict(zip(columns, operands, strict=True))
    value = by_name[name]
    body: list[Formula] = [atom]
    term = value.term
    if value.nullable:
        term = builder.fresh(name)
        body.append(equal(value.term, some(term, kind)))
    builder.rule(best, [*(by_name[key_name].term for key_name in key.keys), term], body)
    return best


def _show(
    builder: Builder, key: _Key, seen: Relation, candidates: Relation, best: Sequence[Relation]
) -> None:
    """What a step reads: of each key the best values, and NULL, which is worse than any.

    That NULL is there beside a value changes nothing, since values make no row that it does not.
    """
    columns = {column.name: column for column in candidates.columns}
    every = [
        (True, False) if columns[relation.columns[-1].name].nullable else (True,)
        for relation in best
    ]
    for chosen in product(*every):
        atom, operands = builder.bind(candidates)
        by_name: dict[str, Operand] = dict(zip(columns, operands, strict=True))
        shown = {name: by_name[name] for name in key.keys}
        body: list[Formula] = [] if any(chosen) else [atom]
        for is_known, relation in zip(chosen, best, strict=True):
            if is_known:
                match, values = builder.bind(relation)
                pairs = zip(
                    match.args, (*(by_name[name] for name in key.keys), values[-1]), strict=True
                )
                body.append(replace(match, args=tuple(operand.term for _, operand in pairs)))
                shown[relation.columns[-1].name] = values[-1]
        outputs = [shown.get(column.name) or blank(column) for column in candidates.columns]
        builder.head(seen, outputs, body)


def _grouped(builder: Builder, key: _Key, candidates: Relation, scope: Scope) -> Relation:
    """Of all rows the best of each key, as an aggregation says it."""
    if not key.kept:
        return candidates
    table = builder.fresh("found").name
    shown = []
    for name in key.names:
        node: exp.Expr = exp.column(name, quoted=True)
        if name in key.kept:
            node = key.kept[name].copy()
            for column in node.find_all(exp.Column):
                column.set("table", None)
        shown.append(exp.alias_(node, name, quoted=True))
    aggregation = exp.Select(
        expressions=shown,
        from_=exp.From(this=exp.Table(this=exp.to_identifier(table, quoted=True))),
        group=exp.Group(expressions=[exp.column(name, quoted=True) for name in key.keys]),
    )
    builder.alive.append(aggregation)
    return queries.relation(
        builder, aggregation, Scope(scope.statement, scope.ctes).with_cte(table, candidates)
    )
