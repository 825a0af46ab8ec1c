"""ORDER BY ... LIMIT and DISTINCT ON in a view: the first rows of all, or of each partition.

The rows become a relation, and a reducer keeps those of each partition sorted: an edit costs what
it moves, not the partition. Invariant: which rows are the first is a function of the data: rows
that ORDER BY leaves equal are sorted by all that they show, then by what tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltafix.reducers.aggregate import UserReducer
from deltafix.rules.ast import Atom, Formula
from deltafix.rules.terms import Aggregate, Call
from deltafix.sql import reducers
from deltafix.sql.aggregates import way
from deltafix.sql.builder import Builder, Operand, Relation, equal
from deltafix.sql.formulas import Formulas
from deltafix.sql.literals import whole
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import Column

__all__ = ["Rows", "limited", "number", "several"]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a query: a body, what the head shows, and what tells rows apart.

    `identity` is None where equal rows are one row; `sorts` is what a view is sorted by beside what
    it shows; `outer` what a correlated query reads of the one around.
    """

    body: list[Formula]
    outputs: list[tuple[str, Operand]]
    identity: list[Operand] | None
    sorts: tuple[Operand, ...] = ()
    outer: tuple[Operand, ...] = ()

    @property
    def columns(self) -> list[Column]:
        """The columns that the head shows."""
        return [operand.column(name) for name, operand in self.outputs]


def limited(formulas: Formulas, query: exp.Expr, rows: Rows) -> Rows:
    """The rows of a query after DISTINCT ON, ORDER BY, LIMIT and OFFSET; as they are without.

    The order of the whole query goes to the builder: a SELECT of the view reads it. Raises
    SqlRefusedError for ORDER BY alone inside a query, whose rows have no order.
    """
    builder = formulas.builder
    distinct, order = query.args.get("distinct"), query.args.get("order")
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    limit, offset = (query.args.get(key) for key in ("limit", "offset"))
    alone = on is None and limit is None and offset is None
    if order is None and alone:
        return rows
    if alone and query is not builder.root:
        way_out = "leave it out, or add LIMIT: rows inside a query have no order"
        raise builder.refused("ORDER BY", order, way_out)
    sorts = [
        (key, ordered)
        for ordered in (order.expressions if order is not None else ())
        for key in _keys(formulas, query, rows, ordered.this)
    ]
    if on is not None:
        nodes = on.expressions if isinstance(on, exp.Tuple) else [on]
        partition = [_key(formulas, query, rows, node) for node in nodes]
        rows, sorts = _first(builder, rows, partition, sorts, (0, 1))
    if limit is not None or offset is not None:
        bounds = number(builder.statement, offset) or 0, number(builder.statement, limit)
        rows, sorts = _first(builder, rows, [], sorts, bounds)
    if query is builder.root:
        shown = [operand for _, operand in rows.outputs]
        hidden = [key for key in dict.fromkeys(key for key, _ in sorts) if key not in shown]
        if builder.keeps_order:
            rows = replace(rows, sorts=tuple(hidden))
            columns = [*shown, *hidden]
            builder.order = tuple((columns.index(key), node) for key, node in sorts)
    return rows


def number(statement: Statement, node: exp.Expr | None) -> int | None:
    """The number of a LIMIT, FETCH FIRST or OFFSET."""
    if node is None:
        return None
    written = node.args.get("count" if isinstance(node, exp.Fetch) else "expression")
    value = None if written is None else whole(written)
    if value is None or value < 0:
        raise statement.wrong("LIMIT and OFFSET take a whole number", node, "write LIMIT 10")
    return value


def is_all(node: exp.Expr) -> bool:
    """Whether it is the ALL of ORDER BY ALL."""
    return isinstance(node, exp.Var) and node.name.upper() == "ALL"


def _keys(formulas: Formulas, query: exp.Expr, rows: Rows, node: exp.Expr) -> list[Operand]:
    """What to sort by: all that is shown, or one thing."""
    if is_all(node):
        return [operand for _, operand in rows.outputs]
    return [_key(formulas, query, rows, node)]


def _key(formulas: Formulas, query: exp.Expr, rows: Rows, node: exp.Expr) -> Operand:
    """What to sort by: a position, the name of what is shown, or an expression."""
    shown = rows.outputs
    position = formulas.builder.statement.position(node, "ORDER BY", len(shown))
    if position is not None:
        return shown[position][1]
    if isinstance(node, exp.Column) and not node.table:
        named = [operand for name, operand in shown if name == node.name]
        if named:
            return named[0]
    heads = query.selects if isinstance(query, exp.Select) else []
    same = [head.alias for head in heads if head.alias and head.unalias() == node]
    if same:
        return dict(shown)[same[0]]
    key = None
    if isinstance(query, exp.Select):
        key = formulas.operand(node)
    if key is None or (rows.identity is None and all(key != operand for _, operand in shown)):
        way_out = "order by the name or the position of a column that is selected"
        raise formulas.builder.refused("ORDER BY this", node, way_out)
    return key


_Sorts = list[tuple[Operand, exp.Ordered]]


def _first(
    builder: Builder,
    rows: Rows,
    partition: list[Operand],
    sorts: _Sorts,
    bounds: tuple[int, int | None],
) -> tuple[Rows, _Sorts]:
    """Some rows of each partition, from an offset on; and what they are sorted by."""
    order = dict(reversed(sorts))  # the first of two is the one that counts
    shown = [operand for _, operand in rows.outputs]
    beside = (*(rows.identity or ()), *rows.outer)
    row = list(dict.fromkeys((*(key for key, _ in sorts), *shown, *beside)))
    columns = [operand.column(f"c{n}") for n, operand in enumerate(row)]
    ways = [way(key, order.get(key)) for key in row]
    written = "".join(map(str, ways))
    reducer = reducers.First(ways, *bounds)
    name = f"first_{bounds[0]}_{bounds[1]}_{written}"
    given = list(zip(row, columns, strict=True))
    of = list(dict.fromkeys((*partition, *rows.outer)))
    body, outside = several(builder, rows.body, of, given, columns, (name, reducer))
    now = dict(zip(row, outside, strict=True))
    identity = None if rows.identity is None else [now[operand] for operand in rows.identity]
    outputs = [(name, now[operand]) for name, operand in rows.outputs]
    outer = tuple(now[operand] for operand in rows.outer)
    sorts = [(now[key], ordered) for key, ordered in sorts]
    return Rows(body, outputs, identity, outer=outer), sorts


def several(  # noqa: PLR0917  the parts of one fold
    builder: Builder,
    body: list[Formula],
    partition: Sequence[Operand],
    given: Sequence[tuple[Operand, Column]],
    results: Sequence[Column],
    reducer: tuple[str, UserReducer],
) -> tuple[list[Formula], list[Operand]]:
    """What a named reducer of several values makes of the rows of each partition.

    A row is what is `given`, as these columns; a value has the columns of `results`. The answer is
    the body of a rule, and what it binds for `results`.
    """
    columns = [column for _, column in given]
    groups = [operand.column(f"g{n}") for n, operand in enumerate(partition)]
    source = builder.relation([*groups, *columns])
    builder.head(source, [*partition, *(operand for operand, _ in given)], body)
    literals: list[Formula] = []
    group: list[Operand] = []
    if partition:
        atom, operands = builder.groups(source, range(len(partition)))
        literals.append(atom)
        group = operands[: len(partition)]
    outside = builder.variables(results)
    literals.append(folded(builder, source, group, outside, results, reducer))
    return literals, outside


def folded(  # noqa: PLR0917  the parts of one fold
    builder: Builder,
    source: Relation,
    group: Sequence[Operand],
    outside: Sequence[Operand],
    results: Sequence[Column],
    reducer: tuple[str, UserReducer],
) -> Formula:
    """That a named reducer of several values gives `outside`, as these columns, of a group.

    The group are the first columns of the source; the reducer takes the others.
    """
    columns = source.columns[len(group) :]
    record, result = builder.record(columns), builder.record(results)
    inside = tuple(operand.term for operand in builder.variables(columns))
    over = Atom(source.name, (*(operand.term for operand in group), *inside))
    name = builder.reducer(*reducer, record, result)
    value = Aggregate(name, Call(f"[{record}]", inside), over)
    return equal(Call(f"[{result}]", tuple(operand.term for operand in outside)), value)
