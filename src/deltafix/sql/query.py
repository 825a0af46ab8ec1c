"""Queries as rules: SELECT, GROUP BY, set operations.

A query is first `Rows`: the body of a rule and the operands of its head. Whoever asked gives it the
head: a relation of its own, a branch of a UNION, or the rule around a subquery. Invariant: nothing
of a query is passed over: a clause that is not handled here is refused (`sql.arguments`). WITH is
`sql.recursion`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from deltafix.rules.ast import And, Atom, Comparison, Formula, Or
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard
from deltafix.rules.walk import occurrences
from deltafix.sql import joins, recursion, windows
from deltafix.sql.aggregates import AggregateCall, aggregates_of, fold, read_aggregate
from deltafix.sql.builder import NIL, Builder, Operand, Relation, absent, blank, equal
from deltafix.sql.connectives import needed
from deltafix.sql.formulas import Formulas, LeftJoin
from deltafix.sql.grouping import NUMBER, grouping
from deltafix.sql.numbered import most_of, numbered
from deltafix.sql.ranking import Rows, limited
from deltafix.sql.scope import OUTER, Scope
from deltafix.sql.stars import is_star, meant_in, shown_name, stars, written_out
from deltafix.sql.text import exp
from deltafix.sql.types import BIGINT, NULL, Column, common_type
from deltafix.sql.unnest import expand

__all__ = ["Rows", "plain", "relation", "rows", "settled"]

SAID = "written as"
"""In the metadata of a UNION that a text has otherwise: what errors call it."""


def unwrapped(node: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it."""
    while isinstance(node, exp.Subquery | exp.Paren):
        if any(value for key, value in node.args.items() if key != "this"):
            return node
        node = node.this
    return node


def rows(builder: Builder, node: exp.Expr, scope: Scope) -> Rows:
    """The rows of any query."""
    query = unwrapped(node)
    scope = recursion.with_ctes(builder, query, scope)
    if isinstance(query, exp.Select):
        if query.args.get("group") or query.args.get("having") or aggregates_of(query):
            return grouped(builder, query, scope)
        return plain(builder, query, scope)
    if isinstance(query, exp.SetOperation):
        combination = bound(builder, combined(builder, query, scope))
        outer = [operand for _, operand in combination.outputs[: len(scope.domain)]]
        combination = replace(
            combination, outputs=combination.outputs[len(outer) :], outer=tuple(outer)
        )
        return limited(Formulas(builder, scope, combination.body), query, combination)
    if isinstance(query, exp.Values):
        return bound(builder, joins.values(builder, query, scope))
    way_out = "write SELECT, VALUES, UNION, EXCEPT or INTERSECT"
    raise builder.refused(f"a query of {query.key.upper()}", query, way_out)


def bound(builder: Builder, relation: Relation) -> Rows:
    """The rows of a relation."""
    atom, operands = builder.bind(relation)
    names = [column.name for column in relation.columns]
    identity = [operands[position] for position in relation.identity] if relation.hidden else None
    return Rows([atom], list(zip(names, operands, strict=False)), identity)


def relation(
    builder: Builder,
    node: exp.Expr,
    scope: Scope,
    name: str | None = None,
    names: Sequence[str] = (),
    *,
    is_named: bool = True,
) -> Relation:
    """A query as a relation, with these column names if there are any; a `name` makes it a view.

    Two columns of one name are refused, but where nobody calls them so (`is_named`).
    """
    kept = builder.by_node.get(id(node))
    if kept is not None and name is None and not scope.domain:
        return kept
    if name is not None:
        builder.root = unwrapped(node)
        builder.numbered = numbered(builder.root)
    query_rows = rows(builder, node, scope)
    if names and len(names) != len(query_rows.outputs):
        message = f"{len(names)} names for {len(query_rows.outputs)} columns"
        raise builder.statement.wrong(message, node, "give each column one name")
    shown = list(names) or [name for name, _ in query_rows.outputs]
    if not is_named:
        shown = [f"c{position}" for position, _ in enumerate(shown)]
    for position, column in enumerate(shown):
        if column in shown[:position]:
            heads = getattr(unwrapped(node), "selects", ())
            if names or len(heads) != len(shown):  # of a `*`, say, there is no place
                heads = [node] * len(shown)
            way_out = f"name it: ... AS {column}_2"
            message = f"two columns are called {column!r}"
            raise builder.statement.wrong(message, heads[position], way_out)
    relation = settled(builder, query_rows, shown, name)
    builder.keep(node, relation)
    return relation


def _columns(rows: Rows) -> list[Column]:
    """The columns of a query: what it reads of the one around, if it is correlated, comes first."""
    return [*(operand.column(f"{OUTER}{n}") for n, operand in enumerate(rows.outer)), *rows.columns]


def settled(
    builder: Builder, rows: Rows, names: Sequence[str], name: str | None = None
) -> Relation:
    """Rows as a relation with columns of these names.

    Hidden ones are what it is sorted by beside them, and tell duplicates apart. Of a correlated
    query what it reads of the one around comes first.
    """
    outputs = [*rows.outer, *(operand for _, operand in rows.outputs)]
    shown = [(name, operand) for name, (_, operand) in zip(names, rows.outputs, strict=True)]
    columns = _columns(replace(rows, outputs=shown))
    hidden = list(rows.sorts)
    identity = list(range(len(outputs))) if rows.identity is None else []
    for operand in rows.identity or ():
        if operand not in outputs and operand not in hidden:
            hidden.append(operand)
        identity.append([*outputs, *hidden].index(operand))
    beside = [
        operand.column(f"~kept{n}" if n < len(rows.sorts) else "")
        for n, operand in enumerate(hidden)
    ]
    relation = builder.relation(columns, beside, sorted(set(identity)), name)
    builder.head(relation, [*outputs, *hidden], rows.body)
    return relation


# --- SELECT --------------------------------------------------------------------------------------


def plain(builder: Builder, select: exp.Select, scope: Scope, *, outputs: bool = True) -> Rows:
    """A SELECT without groups; with `outputs=False` its FROM and WHERE alone."""
    formulas = Formulas(builder, scope, [])
    joins.sources(formulas, select)
    bounds = builder.numbered.get(id(select), {})
    select = _written_out(formulas, select)
    where = select.args.get("where")
    if where is not None:
        formulas.require(where.this)
    if outputs:
        _windows(formulas, select, bounds)
    elements = expand(formulas, select.expressions)
    shown = projection(formulas, select) if outputs else []
    distinct = _distinct(select)
    identity = [operand for s in scope.sources for operand in s.identity] + elements
    rows = Rows(formulas.body, shown, None if distinct else identity, outer=scope.outer())
    return limited(formulas, select, rows) if outputs else rows


def _windows(formulas: Formulas, select: exp.Select, bounds: Mapping[str, int]) -> None:
    """The window functions of a SELECT, then its QUALIFY.

    Of the columns in `bounds` the query around reads numbers up to these, and no more.
    """
    qualify = select.args.get("qualify")
    condition = None
    if qualify is not None:
        shown, scope = select.expressions, formulas.scope
        scope.given = {item.alias: item.unalias() for item in shown if item.alias}

        def meant(part: exp.Expr) -> exp.Expr:  # in a subquery: `Scope.named`
            return part if part.find_ancestor(exp.Query) else scope.meant(part, shown)

        condition = qualify.this.transform(meant)
    nodes = windows.windows_of(select, condition)
    if nodes:
        joins.kept(formulas)
        named = {item.alias: item.unalias() for item in select.expressions if item.alias in bounds}
        most = {named[name]: bounds[name] for name in named} | dict(most_of(condition))
        windows.compute(formulas, nodes, select.args.get("windows") or (), most)
    if condition is not None:
        formulas.require(condition)


def _distinct(select: exp.Select) -> bool:
    """Whether equal rows are one row."""
    distinct = select.args.get("distinct")
    return distinct is not None and not distinct.args.get("on")


def _written_out(formulas: Formulas, select: exp.Select) -> exp.Select:
    """The SELECT with a column for each that `* EXCLUDE` and the like and COLUMNS stand for.

    So in WHERE is what names of SELECT stand for.
    """
    shown = written_out(formulas.scope, select.expressions)
    where, tested = select.args.get("where"), None
    if where is not None:
        tested = meant_in(formulas.scope, where.this, shown or select.expressions)
        tested = None if tested is where.this else exp.Where(this=tested)
    if shown is None and tested is None:
        return select
    written = select.copy()
    if shown is not None:
        written.set("expressions", shown)
    if tested is not None:
        written.set("where", tested)
    formulas.builder.alive.append(written)
    if formulas.builder.root is select:
        formulas.builder.root = written
    return written


def projection(formulas: Formulas, select: exp.Select) -> list[tuple[str, Operand]]:
    """What SELECT shows."""
    outputs: list[tuple[str, Operand]] = []
    for position, node in enumerate(select.expressions):
        if is_star(node):
            if formulas.scope.known is not None:
                raise formulas.scope.statement.wrong("* with GROUP BY", node, "name the columns")
            outputs.extend(
                (column.name, operand) for column, operand in stars(formulas.scope, node)
            )
            continue
        outputs.append((shown_name(node, position), formulas.operand(node.unalias())))
    return outputs


# --- GROUP BY ------------------------------------------------------------------------------------


def grouped(builder: Builder, select: exp.Select, scope: Scope) -> Rows:
    """A SELECT with groups or aggregates: a relation of what is grouped, then its aggregates."""
    before = Formulas(builder, scope, [])
    joins.sources(before, select)
    bounds = builder.numbered.get(id(select), {})
    select = _written_out(before, select)
    domain = joins.domain(before)
    where = select.args.get("where")
    if where is not None:
        before.require(where.this)
    by = grouping(before, select)
    totals = by.totals
    by = by.within(scope.outer_columns())
    expanded = expand(before, by.keys)
    aggregates: dict[exp.Expr, AggregateCall] = {}
    groupings: list[exp.Expr] = []
    for node in aggregates_of(select):
        if isinstance(node, exp.Grouping | exp.GroupingId):
            groupings.append(node)
        else:
            aggregates.setdefault(scope.qualified(node), read_aggregate(before, node))
    keys = [before.operand(key) for key in by.keys]
    size = len(before.body)
    group = by.columns(keys)
    columns = list(group)
    args: list[Operand] = []
    positions: dict[tuple[exp.Expr, ...], Sequence[int]] = {}
    for aggregate in aggregates.values():
        spelled = tuple(map(scope.qualified, aggregate.operands))
        if spelled not in positions:
            operands = [before.operand(part) for part in aggregate.operands]
            positions[spelled] = range(len(columns), len(columns) + len(operands))
            args += operands
            columns += [operand.column(f"a{n}") for n, operand in enumerate(operands, len(columns))]
    plain = left = None
    if not (by.several or domain or expanded):
        plain = _plain(before, keys, args, positions)
        left = _left_alone(before, size, keys, aggregates.values())
    if plain is None:
        counts = any(aggregate.counts_rows for aggregate in aggregates.values())
        own = [operand for s in scope.sources for operand in s.identity]
        rows = [*own, *expanded] if counts else []
        shown = [*([] if by.several else keys), *args]  # of several sets, some leave a key out
        hidden = [operand for operand in dict.fromkeys(rows) if operand not in shown]
        source = builder.relation(columns, [operand.column("") for operand in hidden])
        body = before.body if left is None else left[0]
        for number in range(len(by.sets)):
            builder.head(source, [*by.row(number, keys), *args, *hidden], body)
        at = list(range(len(group)))
    else:
        source, at, positions = plain
    after = Formulas(builder, scope, [])
    groups: list[Operand] = []
    if group:
        always = [by.row(number, keys) for number in totals]
        if left is None:
            atom, groups = builder.groups(source, at, always, domain)
        else:
            all_groups = builder.relation(group)
            builder.head(all_groups, keys, left[1])
            atom, groups = builder.bind(all_groups)
        after.body.append(atom)
    spellings = [*([NUMBER] if by.several else ()), *by.keys]
    scope.known = dict(zip(spellings, groups, strict=True))
    known = dict(scope.known)
    group_of = dict(zip(at, groups, strict=True))
    folding = after if left is None or not group else after.within()
    for node, aggregate in aggregates.items():
        of = positions[tuple(map(scope.qualified, aggregate.operands))]
        known[node] = fold(folding, source, group_of, of, aggregate, empty=bool(totals))
    if folding is not after:
        folded = {node: (aggregates[node], known[node]) for node in aggregates}
        known |= _or_of_nothing(after, folding.body, source, group_of, folded)
    known |= {scope.qualified(node): by.grouping_id(after, node) for node in groupings}
    scope.known = known
    having = select.args.get("having")
    if having is not None:
        tested = meant_in(scope, having.this, select.expressions, by.keys)
        builder.alive.append(tested)
        after.require(tested)
    _windows(after, select, bounds)
    scope.elements = {}
    expanded = expand(after, select.expressions)
    outputs = projection(after, select)
    key = [*(scope.known[spelling] for spelling in spellings), *expanded]
    identity = None if _distinct(select) or not key else key  # without keys it is one row
    return limited(after, select, Rows(after.body, outputs, identity, outer=scope.outer()))


def _or_of_nothing(
    formulas: Formulas,
    body: Sequence[Formula],
    source: Relation,
    group: Mapping[int, Operand],
    folded: Mapping[exp.Expr, tuple[AggregateCall, Operand]],
) -> dict[exp.Expr, Operand]:
    """What a body has folded of a group's rows, or what it comes to where it has none."""
    builder = formulas.builder
    atom, operands = builder.bind(source)
    args = [group.get(position, operand).term for position, operand in enumerate(operands)]
    some, none = list(body), [absent(Atom(atom.relation, tuple(args)))]
    known = {}
    for node, (aggregate, operand) in folded.items():
        is_count = aggregate.op == "count"
        value = Operand(builder.fresh("a"), operand.type, nullable=not is_count)
        some.append(equal(value.term, builder.fitted(operand, value.column(""), some)))
        none.append(equal(value.term, Const(0, "number") if is_count else NIL))
        known[node] = value
    formulas.body.append(Or((And(tuple(some)), And(tuple(none)))))
    return known


def _left_alone(
    formulas: Formulas,
    size: int,
    keys: Sequence[Operand],
    aggregates: Collection[AggregateCall],
) -> tuple[list[Formula], list[Formula]] | None:
    """The rows of a LEFT JOIN that have matches, and the rows of its left side.

        SELECT c.id, COUNT(o.id) FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.id

    Where the right side is named in aggregates alone, which pass over NULL, a row without a match
    only says that its group is there. So these are not made, and nobody asks which have none: of
    TPC-H's query 13 that was each condition a second time, and 1.5 million rows that were kept.
    None where it is named elsewhere. `size`: of the body, without the arguments of aggregates.
    """
    left = formulas.left
    if left is None or not aggregates:
        return None
    rest = [part for part in formulas.body[:size] if part is not left.whole]
    named = {*chain.from_iterable(map(occurrences, (*rest, *(key.term for key in keys))))}
    if named & left.names or not all(_passes_over(formulas, left, one) for one in aggregates):
        return None
    return [left.matched if part is left.whole else part for part in formulas.body], rest


def _passes_over(formulas: Formulas, left: LeftJoin, aggregate: AggregateCall) -> bool:
    """Whether a row of a LEFT JOIN without a match does not count."""
    if aggregate.argument is None or len(aggregate.operands) > 1:
        return False
    operands = map(formulas.leaf, needed((aggregate.argument,), (exp.Column,)))
    terms = (operand.term for operand in operands if operand is not None)
    return any(isinstance(term, Var) and term.name in left.names for term in terms)


def _plain(
    formulas: Formulas,
    keys: Sequence[Operand],
    args: Sequence[Operand],
    positions: Mapping[tuple[exp.Expr, ...], Sequence[int]],
) -> tuple[Relation, list[int], dict[tuple[exp.Expr, ...], Sequence[int]]] | None:
    """The one relation whose rows are grouped as they are, and where in it keys and arguments are.

    None where they are computed, joined or tested, or one column is both: a relation of what is
    grouped is made then. Half of the load of a total by key was that copy (TPC-H, query 18).
    """
    if len(formulas.body) != 1 or len(formulas.scope.sources) != 1:
        return None
    atom, source = formulas.body[0], formulas.scope.sources[0]
    named = {operand.term: operand for operand in (*source.columns.values(), *source.identity)}
    if not isinstance(atom, Atom) or not set(atom.args) <= named.keys():
        return None
    terms = [operand.term for operand in (*keys, *args)]
    if len(set(atom.args)) < len(atom.args) or not set(terms) <= set(atom.args):
        return None
    if len(set(terms)) < len(terms):
        return None
    columns = tuple(named[term].column(f"c{n}") for n, term in enumerate(atom.args))
    width = range(len(columns))
    at = [atom.args.index(term) for term in terms]
    moved: dict[tuple[exp.Expr, ...], Sequence[int]] = {
        spelled: [at[position] for position in own] for spelled, own in positions.items()
    }
    return Relation(atom.relation, columns, (), tuple(width)), at[: len(keys)], moved


# --- UNION, EXCEPT, INTERSECT --------------------------------------------------------------------


def unified(builder: Builder, node: exp.Expr, sides: Sequence[Sequence[Column]]) -> list[Column]:
    """The columns to which all sides convert; named as the first has them."""
    columns = list(sides[0])
    word = str(node.meta.get(SAID) or node.key).upper()
    outer = sum(column.name.startswith(OUTER) for column in columns)
    for side in sides[1:]:
        if len(side) != len(columns):
            message = f"{word} of {len(columns) - outer} and {len(side) - outer} columns"
            way_out = "select as many on both sides"
            if word == "VALUES":
                way_out = "give each row as many values"
            raise builder.statement.wrong(message, node, way_out)
        for position, (column, other) in enumerate(zip(columns, side, strict=True)):
            kind = common_type(column.type, other.type)
            if kind is None:
                here, there = ("on one side", "on the other")
                if word == "VALUES":
                    here, there = ("in one row", "in another")
                message = (
                    f"{word}: column {position + 1 - outer} ({column.name}) is {column.type.name} "
                    f"{here} and {other.type.name} {there}"
                )
                raise builder.statement.wrong(message, node, "CAST(... AS ...) one of them")
            columns[position] = Column(column.name, kind, column.nullable or other.nullable)
    return columns


def combined(builder: Builder, node: exp.SetOperation, scope: Scope) -> Relation:
    """A set operation as a relation."""
    distinct = bool(node.args.get("distinct"))
    if isinstance(node, exp.Union):
        return united(builder, node, scope, distinct=distinct)
    sides = [
        relation(builder, side, scope.side(), is_named=side is node.this)  # whose names both have
        for side in (node.this, node.expression)
    ]
    columns = unified(builder, node, [side.columns for side in sides])
    bags = [_converted(builder, side, columns, counted=not distinct) for side in sides]
    if distinct:
        combination = builder.relation(columns)
        operands = builder.variables(columns)
        args = tuple(operand.term for operand in operands)
        first, second = (Atom(bag.name, args) for bag in bags)
        other = absent(second) if isinstance(node, exp.Except) else second
        builder.rule(combination, args, [first, other])
        return combination
    return _counted(builder, node, columns, bags)


def _converted(
    builder: Builder, side: Relation, columns: Sequence[Column], *, counted: bool
) -> Relation:
    """A side with the columns that both have; how often each row occurs behind, if `counted`."""
    hidden = side.hidden if counted else ()
    same = all(
        (a.type.code, a.nullable) == (b.type.code, b.nullable)
        for a, b in zip(side.columns, columns, strict=True)
    )
    converted = side
    if not same or (side.hidden and not counted):
        converted = builder.relation(columns, hidden)
        atom, operands = builder.bind(side)
        width = len(columns) + len(hidden)
        builder.head(converted, operands[:width], [atom])
    if not counted:
        return converted
    shown = builder.relation(columns)
    atom, operands = builder.bind(converted)
    builder.rule(shown, [operand.term for operand in operands[: len(columns)]], [atom])
    counts = builder.relation([*columns, Column("count", BIGINT, nullable=False)])
    atom, operands = builder.bind(shown)
    row, rest = builder.bind(converted)
    terms = [operand.term for operand in operands]
    body = replace(row, args=(*terms, *(operand.term for operand in rest[len(terms) :])))
    number = builder.fresh("n")
    builder.rule(counts, [*terms, number], [atom, equal(number, Aggregate("count", None, body))])
    return counts


def _counted(
    builder: Builder, node: exp.SetOperation, columns: list[Column], counts: list[Relation]
) -> Relation:
    """EXCEPT ALL and INTERSECT ALL: each row numbered as often as it is left."""
    relation = builder.relation(columns, [Column("number", BIGINT, nullable=False)])
    terms = [operand.term for operand in builder.variables(columns)]
    left, right, number, most = (builder.fresh(word) for word in ("n", "m", "i", "k"))
    first, second = (Atom(c.name, (*terms, n)) for c, n in zip(counts, (left, right), strict=True))
    zero: Term = Const(0, "number")
    each = equal(number, Call("range", (zero, most)))
    if isinstance(node, exp.Intersect):
        limit = equal(most, Call("min", (left, right)))
        builder.rule(relation, [*terms, number], [first, second, limit, each])
        return relation
    some = And((second, Comparison(">", left, right), equal(most, Call("-", (left, right)))))
    none = And((absent(Atom(second.relation, (*terms, Wildcard()))), equal(most, left)))
    builder.rule(relation, [*terms, number], [first, Or((some, none)), each])
    return relation


def sides_of(node: exp.Expr, *, distinct: bool) -> list[exp.Expr]:
    """The operands of a chain of UNIONs of one kind."""
    apart = ("with_", "order", "limit", "offset", "by_name")
    sides, rest = list[exp.Expr](), [node]
    while rest:
        side = rest.pop()
        query = unwrapped(side)
        same = isinstance(query, exp.Union) and bool(query.args.get("distinct")) == distinct
        if same and not any(query.args.get(key) for key in apart):
            rest += [query.expression, query.this]
        else:
            sides.append(side)
    return sides


def united(builder: Builder, node: exp.Union, scope: Scope, *, distinct: bool) -> Relation:
    """UNION: one relation with a rule for each side; ALL: rows tell their side."""
    sides = [node.this, node.expression]
    if not node.args.get("by_name"):
        sides = [inner for side in sides for inner in sides_of(side, distinct=distinct)]
    parts = [rows(builder, side, scope.side()) for side in sides]
    if node.args.get("by_name"):
        parts = _by_name(builder, sides, parts)
    columns = unified(builder, node, [_columns(part) for part in parts])
    hidden, positions = ([], []) if distinct else _told_apart(parts)
    relation = builder.relation(columns, hidden)
    for number, part in enumerate(parts):
        outputs = [*part.outer, *(operand for _, operand in part.outputs)]
        if not distinct:
            own = dict(zip(positions[number], part.identity or (), strict=True))
            outputs.append(Operand(Const(number, "number"), BIGINT, nullable=False))
            outputs += [own.get(n) or blank(column) for n, column in enumerate(hidden[1:])]
        builder.head(relation, outputs, part.body)
    return relation


def _told_apart(parts: Sequence[Rows]) -> tuple[list[Column], list[list[int]]]:
    """The number of a side, and columns for what tells its rows apart; where each side has its own.

    Sides share columns of one type: one for each was as many as sides, in as many rules.
    """
    shared: list[Column] = []
    positions = []
    for part in parts:
        own: list[int] = []
        for operand in part.identity or ():
            fits = (n for n, column in enumerate(shared) if column.type.code == operand.type.code)
            position = next((n for n in fits if n not in own), len(shared))
            is_null = operand.nullable or (position < len(shared) and shared[position].nullable)
            shared[position : position + 1] = [Column("", operand.type, is_null)]
            own.append(position)
        positions.append(own)
    return [Column("side", BIGINT, nullable=False), *shared], positions


def _by_name(builder: Builder, sides: Sequence[exp.Expr], parts: Sequence[Rows]) -> list[Rows]:
    """The sides of a UNION BY NAME with all columns, in the order of the first that has each."""
    for side, part in zip(sides, parts, strict=True):
        shown = [name for name, _ in part.outputs]
        twice = next((name for name in shown if shown.count(name) > 1), None)
        if twice is not None:
            message = f"a side of UNION BY NAME has two columns {twice!r}"
            raise builder.statement.wrong(message, side, f"name it: ... AS {twice}_2")
    none = Operand(NIL, NULL, nullable=True)
    names = dict.fromkeys(name for part in parts for name, _ in part.outputs)
    by_name = [dict(part.outputs) for part in parts]
    return [
        replace(part, outputs=[(name, mine.get(name, none)) for name in names])
        for part, mine in zip(parts, by_name, strict=True)
    ]
