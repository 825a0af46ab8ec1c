"""Queries as rules: SELECT, GROUP BY, set operations.

A query is first `Rows`: the body of a rule and the operands of its head. Whoever asked gives it the
head: a relation of its own, a branch of a UNION, or the rule around a subquery. Invariant: nothing
of a query is passed over: a clause that is not handled here is refused (`sql.arguments`). WITH is
`sql.recursion`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltafix.rules.ast import And, Atom, Comparison, Or
from deltafix.rules.terms import Aggregate, Call, Const, Term, Wildcard
from deltafix.sql import joins, recursion, windows
from deltafix.sql.aggregates import Wanted, aggregates_of, fold, wanted
from deltafix.sql.builder import NIL, Builder, Operand, Relation, absent, blank, equal
from deltafix.sql.formulas import Formulas
from deltafix.sql.grouping import NUMBER, grouping
from deltafix.sql.numbered import most_of, numbered
from deltafix.sql.ranking import Rows, limited
from deltafix.sql.scope import OUTER, Scope
from deltafix.sql.stars import is_star, meant_in, stars, written_out
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
        found = bound(builder, combined(builder, query, scope))
        outer = [one for _, one in found.outputs[: len(scope.domain)]]
        found = replace(found, outputs=found.outputs[len(outer) :], outer=tuple(outer))
        return limited(Formulas(builder, scope, found.body), query, found)
    if isinstance(query, exp.Values):
        return bound(builder, joins.values(builder, query, scope))
    way_out = "write SELECT, VALUES, UNION, EXCEPT or INTERSECT"
    raise builder.refused(f"a query of {query.key.upper()}", query, way_out)


def bound(builder: Builder, found: Relation) -> Rows:
    """The rows of a relation."""
    atom, operands = builder.bind(found)
    names = [column.name for column in found.columns]
    identity = [operands[place] for place in found.identity] if found.hidden else None
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
    made = builder.by_node.get(id(node))
    if made is not None and name is None and not scope.domain:
        return made
    if name is not None:
        builder.root = unwrapped(node)
        builder.numbered = numbered(builder.root)
    found = rows(builder, node, scope)
    if names and len(names) != len(found.outputs):
        message = f"{len(names)} names for {len(found.outputs)} columns"
        raise builder.statement.wrong(message, node, "give each column one name")
    shown = list(names) or [name for name, _ in found.outputs]
    if not is_named:
        shown = [f"c{place}" for place, _ in enumerate(shown)]
    for place, one in enumerate(shown):
        if one in shown[:place]:
            heads = getattr(unwrapped(node), "selects", ())
            if names or len(heads) != len(shown):  # of a `*`, say, there is no place
                heads = [node] * len(shown)
            way_out = f"name it: ... AS {one}_2"
            message = f"two columns are called {one!r}"
            raise builder.statement.wrong(message, heads[place], way_out)
    made = settled(builder, found, shown, name)
    builder.keep(node, made)
    return made


def _columns(found: Rows) -> list[Column]:
    """The columns of a query: what it reads of the one around, if it is correlated, comes first."""
    return [*(one.column(f"{OUTER}{n}") for n, one in enumerate(found.outer)), *found.columns]


def settled(
    builder: Builder, found: Rows, names: Sequence[str], name: str | None = None
) -> Relation:
    """Rows as a relation with columns of these names.

    Hidden ones are what it is sorted by beside them, and tell duplicates apart. Of a correlated
    query what it reads of the one around comes first.
    """
    outputs = [*found.outer, *(operand for _, operand in found.outputs)]
    shown = [(name, one) for name, (_, one) in zip(names, found.outputs, strict=True)]
    columns = _columns(replace(found, outputs=shown))
    hidden = list(found.sorts)
    identity = list(range(len(outputs))) if found.identity is None else []
    for one in found.identity or ():
        if one not in outputs and one not in hidden:
            hidden.append(one)
        identity.append([*outputs, *hidden].index(one))
    beside = [
        one.column(f"~kept{n}" if n < len(found.sorts) else "") for n, one in enumerate(hidden)
    ]
    made = builder.relation(columns, beside, sorted(set(identity)), name)
    builder.head(made, [*outputs, *hidden], found.body)
    return made


# --- SELECT --------------------------------------------------------------------------------------


def plain(builder: Builder, select: exp.Select, scope: Scope, *, outputs: bool = True) -> Rows:
    """A SELECT without groups; with `outputs=False` its FROM and WHERE alone."""
    formulas = Formulas(builder, scope, [])
    joins.sources(formulas, select)
    asked = builder.numbered.get(id(select), {})
    select = _written_out(formulas, select)
    where = select.args.get("where")
    if where is not None:
        formulas.require(where.this)
    if outputs:
        _windows(formulas, select, asked)
    places = expand(formulas, select.expressions)
    shown = projection(formulas, select) if outputs else []
    distinct = _distinct(select)
    identity = None if distinct else [one for s in scope.sources for one in s.identity] + places
    found = Rows(formulas.body, shown, identity, outer=scope.outer())
    return limited(formulas, select, found) if outputs else found


def _windows(formulas: Formulas, select: exp.Select, asked: Mapping[str, int]) -> None:
    """The window functions of a SELECT, then its QUALIFY.

    Of the columns that are `asked` for up to a number the query around reads no more.
    """
    qualify = select.args.get("qualify")
    condition = None
    if qualify is not None:
        shown, scope = select.expressions, formulas.scope
        scope.given = {one.alias: one.unalias() for one in shown if one.alias}

        def meant(part: exp.Expr) -> exp.Expr:  # in a subquery: `Scope.named`
            return part if part.find_ancestor(exp.Query) else scope.meant(part, shown)

        condition = qualify.this.transform(meant)
    nodes = windows.windows_of(select, condition)
    if nodes:
        joins.kept(formulas)
        named = {one.alias: one.unalias() for one in select.expressions if one.alias in asked}
        most = {named[name]: asked[name] for name in named} | dict(most_of(condition))
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
    found = select.copy()
    if shown is not None:
        found.set("expressions", shown)
    if tested is not None:
        found.set("where", tested)
    formulas.builder.alive.append(found)
    if formulas.builder.root is select:
        formulas.builder.root = found
    return found


def projection(formulas: Formulas, select: exp.Select) -> list[tuple[str, Operand]]:
    """What SELECT shows."""
    found: list[tuple[str, Operand]] = []
    for place, node in enumerate(select.expressions):
        if is_star(node):
            if formulas.scope.known is not None:
                raise formulas.scope.statement.wrong("* with GROUP BY", node, "name the columns")
            found.extend((column.name, one) for column, one in stars(formulas.scope, node))
            continue
        name = node.alias_or_name or _name(node, place)
        found.append((name, formulas.operand(node.unalias())))
    return found


def _name(node: exp.Expr, place: int) -> str:
    inner = node
    while isinstance(inner, exp.Filter | exp.WithinGroup):
        inner = inner.this
    if type(inner) in {exp.Explode, exp.Unnest}:
        return "unnest"
    return inner.key if isinstance(inner, exp.AggFunc) else f"column_{place + 1}"


# --- GROUP BY ------------------------------------------------------------------------------------


def grouped(builder: Builder, select: exp.Select, scope: Scope) -> Rows:
    """A SELECT with groups or aggregates: a relation of what is grouped, then its aggregates."""
    before = Formulas(builder, scope, [])
    joins.sources(before, select)
    numbers = builder.numbered.get(id(select), {})
    select = _written_out(before, select)
    domain = joins.domain(before)
    where = select.args.get("where")
    if where is not None:
        before.require(where.this)
    by = grouping(before, select)
    totals = by.totals
    by = by.within(scope.outer_columns())
    expanded = expand(before, by.keys)
    asked: dict[exp.Expr, Wanted] = {}
    told: list[exp.Expr] = []
    for node in aggregates_of(select):
        if isinstance(node, exp.Grouping | exp.GroupingId):
            told.append(node)
        else:
            asked.setdefault(scope.qualified(node), wanted(before, node))
    keys = [before.operand(key) for key in by.keys]
    group = by.columns(keys)
    columns = list(group)
    args: list[Operand] = []
    places: dict[tuple[exp.Expr, ...], Sequence[int]] = {}
    for one in asked.values():
        spelled = tuple(map(scope.qualified, one.operands))
        if spelled not in places:
            operands = [before.operand(part) for part in one.operands]
            places[spelled] = range(len(columns), len(columns) + len(operands))
            args += operands
            columns += [operand.column(f"a{n}") for n, operand in enumerate(operands, len(columns))]
    plain = None if by.several or domain or expanded else _plain(before, keys, args, places)
    if plain is None:
        counts = any(one.counts_rows for one in asked.values())
        rows = [*(one for s in scope.sources for one in s.identity), *expanded] if counts else []
        shown = [*([] if by.several else keys), *args]  # of several sets, some leave a key out
        hidden = [one for one in dict.fromkeys(rows) if one not in shown]
        source = builder.relation(columns, [one.column("") for one in hidden])
        for number in range(len(by.sets)):
            builder.head(source, [*by.row(number, keys), *args, *hidden], before.body)
        at = list(range(len(group)))
    else:
        source, at, places = plain
    after = Formulas(builder, scope, [])
    found: list[Operand] = []
    if group:
        always = [by.row(number, keys) for number in totals]
        atom, found = builder.groups(source, at, always, domain)
        after.body.append(atom)
    spellings = [*([NUMBER] if by.several else ()), *by.keys]
    scope.known = dict(zip(spellings, found, strict=True))
    known = dict(scope.known)
    for node, one in asked.items():
        of = places[tuple(map(scope.qualified, one.operands))]
        group_of = dict(zip(at, found, strict=True))
        known[node] = fold(after, source, group_of, of, one, empty=bool(totals))
    known |= {scope.qualified(node): by.grouping_id(after, node) for node in told}
    scope.known = known
    having = select.args.get("having")
    if having is not None:
        tested = meant_in(scope, having.this, select.expressions, by.keys)
        builder.alive.append(tested)
        after.require(tested)
    _windows(after, select, numbers)
    scope.elements = {}
    expanded = expand(after, select.expressions)
    outputs = projection(after, select)
    found = [*(scope.known[one] for one in spellings), *expanded]
    identity = None if _distinct(select) or not found else found  # without keys it is one row
    return limited(after, select, Rows(after.body, outputs, identity, outer=scope.outer()))


def _plain(
    formulas: Formulas,
    keys: Sequence[Operand],
    args: Sequence[Operand],
    places: Mapping[tuple[exp.Expr, ...], Sequence[int]],
) -> tuple[Relation, list[int], dict[tuple[exp.Expr, ...], Sequence[int]]] | None:
    """The one relation whose rows are grouped as they are, and where in it keys and arguments are.

    None where they are computed, joined or tested, or one column is both: a relation of what is
    grouped is made then. Half of the load of a total by key was that copy (TPC-H, query 18).
    """
    if len(formulas.body) != 1 or len(formulas.scope.sources) != 1:
        return None
    atom, source = formulas.body[0], formulas.scope.sources[0]
    named = {one.term: one for one in (*source.columns.values(), *source.identity)}
    if not isinstance(atom, Atom) or not set(atom.args) <= named.keys():
        return None
    terms = [one.term for one in (*keys, *args)]
    if len(set(atom.args)) < len(atom.args) or not set(terms) <= set(atom.args):
        return None
    if len(set(terms)) < len(terms):
        return None
    columns = tuple(named[term].column(f"c{n}") for n, term in enumerate(atom.args))
    width = range(len(columns))
    at = [atom.args.index(term) for term in terms]
    moved: dict[tuple[exp.Expr, ...], Sequence[int]] = {
        spelled: [at[place] for place in found] for spelled, found in places.items()
    }
    return Relation(atom.relation, columns, (), tuple(width)), at[: len(keys)], moved


# --- UNION, EXCEPT, INTERSECT --------------------------------------------------------------------


def unified(builder: Builder, node: exp.Expr, sides: Sequence[Sequence[Column]]) -> list[Column]:
    """The columns to which all sides convert; named as the first has them."""
    found = list(sides[0])
    word = str(node.meta.get(SAID) or node.key).upper()
    outer = sum(one.name.startswith(OUTER) for one in found)
    for side in sides[1:]:
        if len(side) != len(found):
            message = f"{word} of {len(found) - outer} and {len(side) - outer} columns"
            way_out = "select as many on both sides"
            if word == "VALUES":
                way_out = "give each row as many values"
            raise builder.statement.wrong(message, node, way_out)
        for place, (one, other) in enumerate(zip(found, side, strict=True)):
            kind = common_type(one.type, other.type)
            if kind is None:
                here, there = ("on one side", "on the other")
                if word == "VALUES":
                    here, there = ("in one row", "in another")
                message = (
                    f"{word}: column {place + 1 - outer} ({one.name}) is {one.type.name} {here} "
                    f"and {other.type.name} {there}"
                )
                raise builder.statement.wrong(message, node, "CAST(... AS ...) one of them")
            found[place] = Column(one.name, kind, one.nullable or other.nullable)
    return found


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
        found = builder.relation(columns)
        operands = builder.variables(columns)
        args = tuple(one.term for one in operands)
        first, second = (Atom(bag.name, args) for bag in bags)
        other = absent(second) if isinstance(node, exp.Except) else second
        builder.rule(found, args, [first, other])
        return found
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
    made = side
    if not same or (side.hidden and not counted):
        made = builder.relation(columns, hidden)
        atom, operands = builder.bind(side)
        width = len(columns) + len(hidden)
        builder.head(made, operands[:width], [atom])
    if not counted:
        return made
    shown = builder.relation(columns)
    atom, operands = builder.bind(made)
    builder.rule(shown, [one.term for one in operands[: len(columns)]], [atom])
    counts = builder.relation([*columns, Column("count", BIGINT, nullable=False)])
    atom, operands = builder.bind(shown)
    row, rest = builder.bind(made)
    terms = [one.term for one in operands]
    body = replace(row, args=(*terms, *(one.term for one in rest[len(terms) :])))
    number = builder.fresh("n")
    builder.rule(counts, [*terms, number], [atom, equal(number, Aggregate("count", None, body))])
    return counts


def _counted(
    builder: Builder, node: exp.SetOperation, columns: list[Column], counts: list[Relation]
) -> Relation:
    """EXCEPT ALL and INTERSECT ALL: each row numbered as often as it is left."""
    found = builder.relation(columns, [Column("number", BIGINT, nullable=False)])
    terms = [one.term for one in builder.variables(columns)]
    left, right, number, most = (builder.fresh(word) for word in ("n", "m", "i", "k"))
    one, other = (Atom(c.name, (*terms, n)) for c, n in zip(counts, (left, right), strict=True))
    zero: Term = Const(0, "number")
    each = equal(number, Call("range", (zero, most)))
    if isinstance(node, exp.Intersect):
        limit = equal(most, Call("min", (left, right)))
        builder.rule(found, [*terms, number], [one, other, limit, each])
        return found
    some = And((other, Comparison(">", left, right), equal(most, Call("-", (left, right)))))
    none = And((absent(Atom(other.relation, (*terms, Wildcard()))), equal(most, left)))
    builder.rule(found, [*terms, number], [one, Or((some, none)), each])
    return found


def sides_of(node: exp.Expr, *, distinct: bool) -> list[exp.Expr]:
    """The operands of a chain of UNIONs of one kind."""
    apart = ("with_", "order", "limit", "offset", "by_name")
    found, rest = list[exp.Expr](), [node]
    while rest:
        one = rest.pop()
        query = unwrapped(one)
        same = isinstance(query, exp.Union) and bool(query.args.get("distinct")) == distinct
        if same and not any(query.args.get(key) for key in apart):
            rest += [query.expression, query.this]
        else:
            found.append(one)
    return found


def united(builder: Builder, node: exp.Union, scope: Scope, *, distinct: bool) -> Relation:
    """UNION: one relation with a rule for each side; ALL: rows tell their side."""
    sides = [node.this, node.expression]
    if not node.args.get("by_name"):
        sides = [one for side in sides for one in sides_of(side, distinct=distinct)]
    parts = [rows(builder, side, scope.side()) for side in sides]
    if node.args.get("by_name"):
        parts = _by_name(builder, sides, parts)
    columns = unified(builder, node, [_columns(part) for part in parts])
    hidden, places = ([], []) if distinct else _told_apart(parts)
    found = builder.relation(columns, hidden)
    for number, part in enumerate(parts):
        outputs = [*part.outer, *(one for _, one in part.outputs)]
        if not distinct:
            own = dict(zip(places[number], part.identity or (), strict=True))
            outputs.append(Operand(Const(number, "number"), BIGINT, nullable=False))
            outputs += [own.get(n) or blank(one) for n, one in enumerate(hidden[1:])]
        builder.head(found, outputs, part.body)
    return found


def _told_apart(parts: Sequence[Rows]) -> tuple[list[Column], list[list[int]]]:
    """The number of a side, and columns for what tells its rows apart; where each side has its own.

    Sides share columns of one type: one for each was as many as sides, in as many rules.
    """
    shared: list[Column] = []
    places = []
    for part in parts:
        own: list[int] = []
        for one in part.identity or ():
            fits = (n for n, column in enumerate(shared) if column.type.code == one.type.code)
            place = next((n for n in fits if n not in own), len(shared))
            is_null = one.nullable or (place < len(shared) and shared[place].nullable)
            shared[place : place + 1] = [Column("", one.type, is_null)]
            own.append(place)
        places.append(own)
    return [Column("side", BIGINT, nullable=False), *shared], places


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
    there = [dict(part.outputs) for part in parts]
    return [
        replace(part, outputs=[(name, mine.get(name, none)) for name in names])
        for part, mine in zip(parts, there, strict=True)
    ]
