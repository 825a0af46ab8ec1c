"""FROM: tables, subqueries, VALUES, and joins, as the body of a rule.

Inner joins are atoms side by side. An outer join is a choice: the rows that match, or the row alone
with NULLs where `!( ... )` says that nothing matches; a full join has three alternatives. Columns
that may be missing become nullable there. Invariant: after every step the body's bindings are the
rows of the join so far, and the identities of the sources tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile

from deltafix.rules.ast import And, Atom, Formula, Or, conjunction
from deltafix.rules.terms import Const, Term, Var
from deltafix.rules.walk import map_formula, occurrences
from deltafix.sql import pivots
from deltafix.sql import query as queries
from deltafix.sql.asof import Nearest
from deltafix.sql.builder import NIL, Builder, Operand, Relation, absent, equal
from deltafix.sql.connectives import conditions, is_test
from deltafix.sql.elsewhere import FROM_FILES
from deltafix.sql.formulas import Formulas, LeftJoin
from deltafix.sql.scope import OUTER, CorrelatedError, Scope, Source, shown_as
from deltafix.sql.text import cells_of, exp
from deltafix.sql.types import BIGINT, Column, common_type
from deltafix.sql.unnest import elements, unnested

__all__ = ["kept", "sources", "values"]


def sources(formulas: Formulas, select: exp.Select) -> None:
    """The FROM of a SELECT: its literals go to the body, its names to the scope."""
    scope = formulas.scope
    if scope.domain_rows is not None:
        atom, operands = formulas.builder.bind(scope.domain_rows)
        formulas.body.append(atom)
        columns = {
            column.name: operand
            for column, operand in zip(scope.outer_columns(), operands, strict=True)
        }
        scope.sources.append(Source(OUTER, columns, tuple(operands)))
    clause = select.args.get("from_")
    if clause is None:
        return
    used = _used(select)
    _item(formulas, clause.this, used)
    written: list[exp.Join] = select.args.get("joins") or []
    where = select.args.get("where")
    asked = conditions(where.this if where is not None else None)
    simple = [condition for condition in asked if is_test(condition)]
    for index, join in enumerate(written):
        holds = not any(later.side in ("RIGHT", "FULL") for later in written[index + 1 :])
        if holds and _computes(join.this):
            for condition in takewhile(partial(_is_known, scope), asked):
                formulas.require(condition)
        _join(formulas, join, used, simple if holds else ())


def _computes(item: exp.Expr) -> bool:
    """Whether an item of FROM computes for each row before it: WHERE is to leave rows out first."""
    array = unnested(item)
    if array is not None:
        return not all(isinstance(node, exp.Column) for node in array.expressions)
    return isinstance(item, exp.Lateral)


def _is_known(scope: Scope, condition: exp.Expr) -> bool:
    """Whether a condition is about the tables so far, and no subquery."""
    columns = condition.find_all(exp.Column)
    return condition.find(exp.Query) is None and all(
        scope.here(column) is not None for column in columns
    )


def domain(formulas: Formulas) -> list[Formula]:
    """That what a correlated query reads of the one around is what some row there has."""
    scope = formulas.scope
    if scope.domain_rows is None:
        return []
    return [Atom(scope.domain_rows.name, tuple(operand.term for operand in scope.outer()))]


def _used(select: exp.Select) -> set[str] | None:
    """The names of columns that a SELECT mentions anywhere; None for all."""
    used: set[str] = set()
    for node in select.walk():
        if isinstance(node, exp.Column):
            used.add(node.name)
        elif isinstance(node, exp.Join):
            if node.args.get("method"):
                return None
            used.update(key.name for key in node.args.get("using") or ())
        elif isinstance(node, exp.Columns) or (
            isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count)
        ):
            return None
    return used


# --- one table -----------------------------------------------------------------------------------


def _item(formulas: Formulas, node: exp.Expr, used: set[str] | None) -> None:
    """One item of FROM, and the joins that are written behind it."""
    body, source = _table(formulas, node)
    formulas.body.extend(body)
    _add(formulas, source, node)
    for join in node.args.get("joins") or ():
        _join(formulas, join, used, ())


def _add(formulas: Formulas, source: Source, node: exp.Expr) -> None:
    scope = formulas.scope
    if any(source.alias == other.alias for other in scope.sources):
        message = f"two tables are called {source.alias!r}"
        raise scope.statement.wrong(message, node, f"name one: ... AS {source.alias}_2")
    scope.sources.append(source)


def _table(formulas: Formulas, node: exp.Expr) -> tuple[list[Formula], Source]:
    """The literals and names of one table, fresh each time."""
    builder, scope = formulas.builder, formulas.scope
    array = unnested(node)
    if array is not None:
        return elements(formulas, node, array)
    pivot = pivots.pivot_of(node)
    alias = (node if pivot is None else pivot).args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
        return _lateral(formulas, node, names)
    if pivot is not None:
        relation = builder.by_node.get(id(node)) or _pivoted(formulas, pivot)
        builder.keep(node, relation)
        name = pivot.alias or node.alias_or_name or builder.fresh("pivot").name
    elif isinstance(node, exp.Table):
        relation = named(formulas, node)
        name = node.alias or node.name
    elif isinstance(node, exp.Subquery):
        item = _held(node)
        if item is not None:
            return _in_parentheses(formulas, node, item, names)
        mark = builder.mark()
        try:
            relation = queries.relation(builder, node.this, scope.inner(alone=True))
        except CorrelatedError as error:
            builder.back(mark)
            if scope.here(error.column) is None:  # of the query around this one
                return _lateral(formulas, node, names)
            message = f"{error.node.sql()} is of another item of FROM"
            raise scope.statement.wrong(message, error.node, "write LATERAL (SELECT ...)") from None
        name = node.alias or builder.fresh("subquery").name
    elif isinstance(node, exp.Values):
        relation = builder.by_node.get(id(node)) or values(builder, node, scope)
        builder.keep(node, relation)
        name = node.alias or builder.fresh("values").name
    else:
        way_out = "FROM takes tables, views, subqueries, VALUES and UNNEST"
        raise builder.refused(f"{node.key.upper()} in FROM", node, way_out)
    atom, operands = builder.bind(relation)
    shown = shown_as(scope.statement, node, names, [column.name for column in relation.columns])
    columns = dict(zip(shown, operands, strict=False))
    return [atom], Source(name, columns, tuple(operands[n] for n in relation.identity))


def _held(node: exp.Subquery) -> exp.Expr | None:
    """The item of FROM that parentheses hold, a table or what has an alias; None of a query."""
    inside = node.this
    while isinstance(inside, exp.Subquery):
        if any(inside.args.get(key) for key in ("alias", "pivots", "joins")):
            return inside
        inside = inside.this
    return inside if isinstance(inside, exp.Table) else None


def _in_parentheses(
    formulas: Formulas, node: exp.Subquery, item: exp.Expr, names: list[str]
) -> tuple[list[Formula], Source]:
    """An item of FROM that parentheses hold, which may have another alias around them."""
    if item.args.get("joins"):
        way_out = "write the joins without parentheses"
        raise formulas.builder.refused("a join in parentheses", node, way_out)
    body, source = _table(formulas, item)
    shown = shown_as(formulas.scope.statement, node, names, list(source.columns))
    columns = dict(zip(shown, source.columns.values(), strict=True))
    return body, Source(node.alias or source.alias, columns, source.identity)


def _pivoted(formulas: Formulas, pivot: exp.Pivot) -> Relation:
    """A PIVOT or UNPIVOT as the relation of the query that it is, over one of its table."""
    builder, scope = formulas.builder, formulas.scope
    whole = exp.Select(expressions=[exp.Star()], from_=exp.From(this=pivot.this.copy()))
    builder.alive.append(whole)
    try:
        of = queries.relation(builder, whole, scope.inner(alone=True))
        table = builder.fresh("pivoted").name
        columns = [column.name for column in of.columns]
        query = pivots.written_out(scope.statement, pivot, table, columns)
        builder.alive.append(query)
        return queries.relation(builder, query, scope.inner(alone=True).with_cte(table, of))
    except CorrelatedError as error:
        way_out = "join with the rows around it, outside of the PIVOT"
        raise builder.refused("a column of the query around a PIVOT", error.node, way_out) from None


def _lateral(
    formulas: Formulas, node: exp.Lateral | exp.Subquery, names: list[str]
) -> tuple[list[Formula], Source]:
    """LATERAL (SELECT ...) or (VALUES ...): the rows of a subquery for each of those before it."""
    from deltafix.sql.subqueries import lateral  # noqa: PLC0415  the two need each other

    formulas.scope.statement.require_only(node, ("this", "alias", "joins"))
    query = node.this
    if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Values):
        query = _selected(query.this)
        formulas.builder.alive.append(query)
    body, outputs, identity = lateral(formulas, query)
    shown = shown_as(formulas.scope.statement, node, names, [name for name, _ in outputs])
    columns = dict(zip(shown, (operand for _, operand in outputs), strict=True))
    return body, Source(node.alias or formulas.builder.fresh("lateral").name, columns, identity)


def _selected(node: exp.Values) -> exp.Query:
    """VALUES as SELECTs, which may name columns of the rows around it."""
    selects: list[exp.Query] = []
    for cells in cells_of(node):
        shown = [exp.alias_(cell.copy(), f"col{n}") for n, cell in enumerate(cells)]
        selects.append(exp.Select(expressions=shown))
    whole, *rest = selects
    for select in rest:
        whole = exp.Union(this=whole, expression=select, distinct=False)
        whole.meta[queries.SAID] = node.key
    return whole


def named(formulas: Formulas, node: exp.Table) -> Relation:
    """The table, view or common table expression of a name. Raises SqlProgrammingError."""
    builder, scope = formulas.builder, formulas.scope
    if not isinstance(node.this, exp.Identifier):
        way_out = "FROM takes tables, views, subqueries, VALUES and UNNEST"
        if node.this.sql().lower().startswith("read_"):
            way_out = FROM_FILES
        raise builder.refused("a table function", node, way_out)
    if node.db:  # of the expression itself `sql.keyed` has taken it
        way_out = "write the name of the table alone"
        raise builder.refused(f"{node.db}.{node.name} here", node, way_out)
    known = {**builder.tables, **scope.ctes}
    relation = known.get(node.name)
    if relation is None:
        raise scope.statement.unknown("table", node.name, list(known), node)
    if node.name not in scope.ctes:
        builder.used.add(relation.renamed or node.name)
    return relation


def values(builder: Builder, node: exp.Values, scope: Scope) -> Relation:
    """VALUES as a relation of numbered facts."""
    table: list[list[Operand]] = []
    for cells in cells_of(node):
        inner = Formulas(builder, Scope(scope.statement), [])
        table.append([inner.operand(cell) for cell in cells])
    sides = [[operand.column(f"col{n}") for n, operand in enumerate(row)] for row in table]
    columns = queries.unified(builder, node, sides)
    relation = builder.relation(columns, [Column("number", BIGINT, nullable=False)], [len(columns)])
    for number, row in enumerate(table):
        builder.head(relation, [*row, _number(number)], [])
    return relation


def _number(number: int) -> Operand:
    return Operand(Const(number, "number"), BIGINT, nullable=False)


# --- joins ---------------------------------------------------------------------------------------


def _join(
    formulas: Formulas, join: exp.Join, used: set[str] | None, tests: Sequence[exp.Expr]
) -> None:
    """Join one more table to what the scope has; no row that fails one of the tests is asked for.

    WHERE has them again: rows that go here need not be kept in the relation of a RIGHT or FULL one.
    """
    builder, scope = formulas.builder, formulas.scope
    if join.args.get("pivots"):
        way_out = "write FROM (SELECT ... JOIN ...) PIVOT (...)"
        raise builder.refused("a PIVOT of a join", join.this, way_out)
    method, side, kind = (
        str(join.args.get(key) or "").upper() for key in ("method", "side", "kind")
    )
    if method == "ASOF":
        _asof(formulas, join, side, used)
        return
    if method not in ("", "NATURAL"):
        raise builder.refused(f"{method} JOIN", join.this, "write the condition with ON")
    if kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"):
        raise builder.refused(f"{kind} JOIN", join.this, "write the condition with ON")
    array = unnested(join.this)
    if array is not None and side in ("RIGHT", "FULL"):
        way_out = "write CROSS JOIN or LEFT JOIN: elements are of a row on the left"
        raise builder.refused(f"{side} JOIN of UNNEST", join.this, way_out)
    if isinstance(join.this, exp.Lateral) and side in ("RIGHT", "FULL"):
        way_out = "write CROSS JOIN or LEFT JOIN: its rows are of a row on the left"
        raise builder.refused(f"{side} JOIN LATERAL", join.this, way_out)
    if join.this.args.get("joins"):
        raise builder.refused("a nested join", join.this, "write the joins one after another")
    needs = side or kind in ("SEMI", "ANTI")
    if needs and not (join.args.get("on") or join.args.get("using") or method):
        message = f"{side or kind} JOIN without a condition"
        raise scope.statement.wrong(message, join.this, "write ON or USING")
    bare = kind != "CROSS" and "pivots" in join.args  # a comma between tables makes no such entry
    if bare and not (join.args.get("on") or join.args.get("using") or method):
        message = "JOIN without a condition"
        raise scope.statement.wrong(message, join.this, "write ON or USING, or CROSS JOIN")
    if side == "LEFT" and builder.gathers:
        from deltafix.sql.gathered import gathered_left  # noqa: PLC0415  the two need each other

        rows = gathered_left(formulas, join)
        if rows is not None:
            (shown, identity), table = rows, join.this.args.get("alias")
            called = [] if table is None else [column.name for column in table.columns]
            names = shown_as(scope.statement, join.this, called, [name for name, _ in shown])
            columns = dict(zip(names, (operand for _, operand in shown), strict=True))
            _add(formulas, Source(join.this.alias_or_name, columns, identity), join.this)
            return
    right = _Right(formulas, join, natural=method == "NATURAL")
    if kind in ("SEMI", "ANTI"):
        body, _ = right.matching()
        formulas.body.append(conjunction(body) if kind == "SEMI" else absent(conjunction(body)))
        return
    if not side:
        body, source = right.matching()
        formulas.body.extend(body)
        _add(formulas, source, join.this)
        scope.merge(right.merged, source.alias)
        return
    if side == "LEFT":
        _left(formulas, join, right, used)
    else:
        _outer(formulas, join, right, used, tests)


def _asof(formulas: Formulas, join: exp.Join, side: str, used: set[str] | None) -> None:
    """ASOF JOIN, whose last name in USING stands for `>=`."""
    builder, scope = formulas.builder, formulas.scope
    if side not in ("", "LEFT"):
        raise builder.refused(f"ASOF {side} JOIN", join.this, "write ASOF JOIN or ASOF LEFT JOIN")
    if unnested(join.this) is not None or isinstance(join.this, exp.Lateral):
        raise builder.refused("ASOF JOIN with rows of the left side", join.this, "write LATERAL")
    right_side = _table(formulas, join.this)
    right = right_side[1].alias
    on, names = join.args.get("on"), [key.name for key in join.args.get("using") or ()]
    merged = {name: scope.column(exp.column(name)) for name in names}
    for index, name in enumerate(names):
        of = next((s.alias for s in scope.sources if name in s.columns), "")
        if not of or name in scope.merged:
            way_out = "write ON, and the table of each column"
            raise builder.refused("this USING of an ASOF JOIN", join.args["using"][index], way_out)
        kind = exp.GTE if index == len(names) - 1 else exp.EQ
        comparison = kind(this=exp.column(name, of), expression=exp.column(name, right))
        on = comparison if on is None else exp.And(this=on, expression=comparison)
    nearest = Nearest(formulas, join, right_side, on, merged)
    if side:
        _left(formulas, join, nearest, used)
        return
    body, source = nearest.matching()
    formulas.body.extend(body)
    _add(formulas, source, join.this)
    scope.merge(merged, source.alias)


class _Right:
    """The right side of a join, with its condition; fresh variables each time it is asked for."""

    def __init__(self, formulas: Formulas, join: exp.Join, *, natural: bool) -> None:
        self.formulas = formulas
        self.join = join
        self.natural = natural
        self.merged: dict[str, Operand] = {}
        self.pairs: dict[str, tuple[Operand, Operand]] = {}
        self.left = list(formulas.scope.sources)
        self.left_merged = dict(formulas.scope.merged)

    def alone(self) -> tuple[list[Formula], Source]:
        """The table, without the condition."""
        return _table(self.formulas, self.join.this)

    def matching(
        self, left: Sequence[Source] | None = None, merged: dict[str, Operand] | None = None
    ) -> tuple[list[Formula], Source]:
        """The table and the condition, against these sources on the left."""
        body, source = self.alone()
        rows = [*self.formulas.body, *body]
        return [*body, *self.condition(rows, source, left, merged)], source

    def condition(
        self,
        rows: list[Formula],
        source: Source,
        left: Sequence[Source] | None = None,
        merged: dict[str, Operand] | None = None,
    ) -> list[Formula]:
        """The condition between the left side and a source; `rows` are those of both."""
        outer = self.formulas.scope
        scope = Scope(outer.statement, outer.ctes, outer.around, outer.alone, domain=outer.domain)
        scope.sources = list(self.left if left is None else left)
        scope.merged = dict(self.left_merged if merged is None else merged)
        formulas = Formulas(self.formulas.builder, scope, [])
        formulas.rows = rows
        using = [key.name for key in self.join.args.get("using") or ()]
        if self.natural:
            using = [n for n in source.columns if any(n in s.columns for s in scope.sources)]
        for name in using:
            self._equate(formulas, scope, source, name)
        on = self.join.args.get("on")
        if on is not None:
            scope.sources = [*scope.sources, source]
            formulas.require(on)
        outer.outer_used |= scope.outer_used
        return formulas.body

    def _equate(self, formulas: Formulas, scope: Scope, source: Source, name: str) -> None:
        if name not in source.columns:
            known = list(source.columns)
            raise scope.statement.unknown("column", name, known, self.join.args["using"][0])
        mine = scope.column(exp.column(name))
        theirs = source.columns[name]
        self.merged[name] = mine
        self.pairs[name] = (mine, theirs)
        left, right = exp.column("~left"), exp.column("~right")
        inner = Scope(scope.statement, scope.ctes)
        inner.known = {left: mine, right: theirs}
        test = Formulas(formulas.builder, inner, [])
        formulas.body.append(test.holds(exp.EQ(this=left, expression=right), True))


def _nullable(
    builder: Builder, source: Source, used: set[str] | None
) -> tuple[Source, list[tuple[Operand, Operand]]]:
    """A source whose columns may be missing, and pairs of what it shows and what it is there."""
    nullable: dict[Term, Operand] = {}
    pairs: list[tuple[Operand, Operand]] = []

    def shown(operand: Operand) -> Operand:
        if operand.term not in nullable:
            name = operand.term.name if isinstance(operand.term, Var) else "x"
            variable = builder.fresh(name.rsplit("_", 1)[0])
            nullable[operand.term] = Operand(variable, operand.type, nullable=True)
            pairs.append((nullable[operand.term], operand))
        return nullable[operand.term]

    identity = tuple(map(shown, source.identity))
    columns = {n: shown(c) for n, c in source.columns.items() if used is None or n in used}
    return Source(source.alias, columns, identity), pairs


def _present(builder: Builder, pairs: Iterable[tuple[Operand, Operand]]) -> list[Formula]:
    """That what is shown is what is there."""
    body: list[Formula] = []
    for shown, present in pairs:
        term = builder.fitted(present, shown.column(""), body)
        body.append(equal(shown.term, term))
    return body


def _missing(pairs: Iterable[tuple[Operand, Operand]]) -> list[Formula]:
    """That what is shown is NULL."""
    return [equal(shown.term, NIL) for shown, _ in pairs]


def _left(
    formulas: Formulas, join: exp.Join, right: _Right | Nearest, used: set[str] | None
) -> None:
    """Every row of the left side, with its matches or with NULLs."""
    body, source = right.matching()
    shown, pairs = _nullable(formulas.builder, source, used)
    again, _ = right.matching()
    matched = And((*body, *_present(formulas.builder, pairs)))
    alone = And((absent(conjunction(again)), *_missing(pairs)))
    whole = Or((matched, alone))
    formulas.body.append(whole)
    names = (operand.term.name for operand, _ in pairs if isinstance(operand.term, Var))
    formulas.left = LeftJoin(whole, matched, frozenset(names))
    _add(formulas, shown, join.this)
    formulas.scope.merge(right.merged, shown.alias)


def _renamed(
    builder: Builder, body: Sequence[Formula], around: Sequence[Formula]
) -> tuple[Formula, Callable[[Operand], Operand]]:
    """A body with variables of its own, but for those around, and what its operands are there."""
    names: dict[str, Var] = {name: Var(name) for name in occurrences(around)}

    def leaf(term: Term) -> Term:
        if not isinstance(term, Var):
            return term
        if term.name not in names:
            names[term.name] = builder.fresh(term.name.rsplit("_", 1)[0])
        return names[term.name]

    formula = map_formula(conjunction(body), leaf)
    return formula, lambda operand: Operand(leaf(operand.term), operand.type, operand.nullable)


def _outer(
    formulas: Formulas,
    join: exp.Join,
    right: _Right,
    used: set[str] | None,
    tests: Sequence[exp.Expr],
) -> None:
    """RIGHT and FULL: the left side may be missing, so it moves into the alternatives."""
    builder, scope, full = formulas.builder, formulas.scope, join.side == "FULL"
    around = domain(formulas)
    fixed = [source for source in scope.sources if source.alias == OUTER]
    left_body, left_sources = list(formulas.body), scope.sources[len(fixed) :]
    both, source = right.matching()
    keys = dict(right.pairs)
    shown_left, pairs_left = [], []
    for left in left_sources:
        shown, pairs = _nullable(builder, left, used)
        shown_left.append(shown)
        pairs_left.extend(pairs)
    merged = {
        name: Operand(builder.fresh(name), operand.type, nullable=True)
        for name, operand in scope.merged.items()
    }
    pairs_left += [(merged[name], operand) for name, operand in scope.merged.items()]
    side = Operand(builder.fresh("side"), BIGINT, nullable=False)
    if full:
        shown_right, pairs_right = _nullable(builder, source, used)
        # rows of one side alone may all be NULLs: equal rows of both sides are two
        shown_right = replace(shown_right, identity=(*shown_right.identity, side))
    else:
        shown_right, pairs_right = source, []
    # as DuckDB has it: of RIGHT the right side's column, of FULL the one that is there
    keyed = {
        name: Operand(
            builder.fresh(name),
            common_type(mine.type, theirs.type) or mine.type if full else theirs.type,
            nullable=True,
        )
        for name, (mine, theirs) in keys.items()
    }
    matched = [*left_body, *both, *_present(builder, [*pairs_left, *pairs_right])]
    matched += _present(builder, [(keyed[n], pair[not full]) for n, pair in keys.items()])
    # the right side alone: the left one, with other variables, has no match for it
    body, fresh = right.alone()
    renamed, of = _renamed(builder, left_body, around)
    moved = fixed + [
        Source(s.alias, {n: of(c) for n, c in s.columns.items()}, tuple(map(of, s.identity)))
        for s in left_sources
    ]
    old = {name: of(operand) for name, operand in scope.merged.items()}
    rows = [renamed, *body]
    no_match = absent(conjunction((renamed, *right.condition(rows, fresh, moved, old))))
    fresh_of = _same_source(source, fresh)
    alone = [*around, *body, no_match, *_missing(pairs_left)]
    alone += _present(builder, [(keyed[n], fresh.columns[n]) for n in keys])
    if full:
        alone += _present(builder, [(shown, fresh_of[value.term]) for shown, value in pairs_right])
    else:
        alone += [equal(operand.term, fresh_of[operand.term].term) for operand in _operands(source)]
    choices = [matched, alone]
    if full:
        again, _ = right.matching()
        lone = [*left_body, absent(conjunction(again)), *_present(builder, pairs_left)]
        lone += _missing(pairs_right)
        lone += _present(builder, [(keyed[name], mine) for name, (mine, _) in keys.items()])
        choices.append(lone)
        for number, choice in enumerate(choices):
            choice.append(equal(side.term, Const(number, "number")))
    formulas.body[:] = [Or(tuple(And(tuple(choice)) for choice in choices))]
    scope.sources[:] = [*fixed, *shown_left]
    _add(formulas, shown_right, join.this)
    scope.merged = merged
    scope.merge(keyed, shown_right.alias)
    for test in tests:
        if all(scope.here(column) is not None for column in test.find_all(exp.Column)):
            formulas.require(test)
    kept(formulas)


def _operands(source: Source) -> list[Operand]:
    """The operands of a source, each once."""
    return list(dict.fromkeys((*source.columns.values(), *source.identity)))


def _same_source(source: Source, other: Source) -> dict[Term, Operand]:
    """The operands of one binding of a table by those of another."""
    pairs = zip(
        (*source.columns.values(), *source.identity),
        (*other.columns.values(), *other.identity),
        strict=True,
    )
    return {mine.term: theirs for mine, theirs in pairs}


def kept(formulas: Formulas) -> None:
    """The rows so far as a relation: its alternatives do not multiply, and other rules read it."""
    builder, scope = formulas.builder, formulas.scope
    operands = list(dict.fromkeys(operand for s in scope.sources for operand in _operands(s)))
    operands += [operand for operand in scope.merged.values() if operand not in operands]
    if scope.known is not None:  # after grouping nothing else is seen
        operands = list(dict.fromkeys(scope.known.values()))
    relation = builder.relation([operand.column(f"c{n}") for n, operand in enumerate(operands)])
    builder.head(relation, operands, formulas.body)
    atom, variables = builder.bind(relation)
    new = dict(zip(operands, variables, strict=True))
    formulas.body[:] = [atom]
    if scope.known is not None:
        scope.known = {node: new[operand] for node, operand in scope.known.items()}
        return
    scope.sources[:] = [
        Source(
            s.alias, {n: new[c] for n, c in s.columns.items()}, tuple(new[o] for o in s.identity)
        )
        for s in scope.sources
    ]
    scope.merged = {name: new[operand] for name, operand in scope.merged.items()}
