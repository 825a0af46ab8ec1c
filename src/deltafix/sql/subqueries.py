"""Subqueries in expressions: EXISTS, IN, and scalar ones, correlated or not.

The engine's negated groups and aggregates see the variables around them, so a correlated subquery
needs no rewriting: its FROM and WHERE stand inside the rule, inside `!( ... )` where it must not
hold, inside an aggregate where it is summed up. A query that groups, combines or limits must stand
alone: it becomes a relation. Invariant: an operand made here has one value for each row outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltafix.rules.ast import And, Formula, Or, conjunction, disjunction
from deltafix.sql import query as queries
from deltafix.sql.aggregates import aggregates_of, fold_over
from deltafix.sql.builder import FALSE, NIL, TRUE, Operand, Relation, absent, equal
from deltafix.sql.formulas import Formulas, conditions
from deltafix.sql.ranking import number
from deltafix.sql.scope import CorrelatedError
from deltafix.sql.text import exp
from deltafix.sql.unnest import expanded_in
from deltafix.sql.windows import windows_of

if TYPE_CHECKING:
    from deltafix.sql.scope import Scope

__all__ = ["holds", "is_predicate", "is_query", "operand", "within"]


def is_predicate(node: exp.Expr) -> bool:
    """Whether a node is a condition about a subquery."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, exp.EQ):
        other = node.expression
        return isinstance(other, exp.Any) and isinstance(other.this.unnest(), exp.Query)
    return isinstance(node, exp.Exists)


def is_query(node: exp.Expr) -> bool:
    """Whether a node is a subquery, or a condition about one."""
    return isinstance(node, exp.Subquery | exp.Query) or is_predicate(node)


def within(node: exp.Expr) -> bool:
    """Whether there is a subquery in an expression."""
    return any(is_query(part) for part in node.walk())


def holds(formulas: Formulas, node: exp.Expr, truth: bool | None) -> Formula:
    """EXISTS and IN as formulas."""
    if isinstance(node, exp.Exists):
        if truth is None:
            return FALSE
        body, _ = _inside(formulas, node.this, outputs=False)
        return conjunction(body) if truth else absent(conjunction(body))
    query = node.args["query"] if isinstance(node, exp.In) else node.expression.this
    here = formulas.within()
    left = here.operand(node.this)
    matches = [_member(formulas, left, query, node)]
    if truth is True:
        return conjunction((*here.body, matches[0][0]))
    match, doubt = matches[0]
    if truth is False:
        return conjunction((*here.body, absent(disjunction((match, doubt)))))
    if doubt == FALSE:
        return FALSE
    again, _ = _member(formulas, left, query, node)
    return conjunction((*here.body, doubt, absent(again)))


def _member(
    formulas: Formulas, left: Operand, query: exp.Expr, node: exp.Expr
) -> tuple[Formula, Formula]:
    """That the query has a row equal to `left`; and that it has one that may be."""
    found: list[Formula] = []
    for truth in (True, None):
        body, outputs = _inside(formulas, query, outputs=True)
        if len(outputs) != 1:
            message = f"IN of a query with {len(outputs)} columns"
            raise formulas.scope.statement.wrong(message, node, "select one column")
        inner = Formulas(formulas.builder, formulas.scope, [])
        known = dict(formulas.scope.known or {})
        one, two = exp.column("~left"), exp.column("~right")
        scope = formulas.scope.inner()
        scope.known = {**known, one: left, two: outputs[0]}
        inner.scope = scope
        test = inner.holds(exp.EQ(this=one, expression=two), truth)
        found.append(FALSE if test == FALSE else conjunction((*body, test)))
    return found[0], found[1]


_STANDS_ALONE = ("group", "having", "qualify", "with_", "limit", "offset")


def _is_plain(query: exp.Expr) -> bool:
    """Whether a query is rows of a join, which can stand inside a rule."""
    distinct = query.args.get("distinct")
    return (
        isinstance(query, exp.Select)
        and not (distinct is not None and distinct.args.get("on"))
        and not any(query.args.get(key) for key in _STANDS_ALONE)
        and not aggregates_of(query)
        and not windows_of(query)
    )


def _inside(
    formulas: Formulas, node: exp.Expr, *, outputs: bool
) -> tuple[list[Formula], list[Operand]]:
    """A subquery's rows as literals of the rule around it."""
    query = queries.unwrapped(node)
    if isinstance(query, exp.Select) and _is_plain(query):
        found = queries.plain(formulas.builder, query, formulas.scope.inner(), outputs=outputs)
        return found.body, [one for _, one in found.outputs]
    relation = _alone(formulas, query)
    atom, operands = formulas.builder.bind(relation)
    return [atom], operands[: len(relation.columns)]


def _alone(formulas: Formulas, query: exp.Expr) -> Relation:
    """A subquery as a relation. Raises SqlRefusedError for one that is correlated."""
    try:
        return queries.relation(formulas.builder, query, formulas.scope.inner(alone=True))
    except CorrelatedError as error:
        what = "a column of the outer query inside a subquery that groups, combines or limits"
        raise formulas.builder.refused(what, error.node, "join with the grouped query") from None


def operand(formulas: Formulas, node: exp.Expr) -> Operand:
    """The value of a subquery in an expression."""
    if is_predicate(node):
        return formulas.value(node)
    query = queries.unwrapped(node)
    builder = formulas.builder
    most = query.args.get("limit")
    if most is None and isinstance(query, exp.Select) and expanded_in(query.expressions):
        raise _may_have_rows(formulas, node)
    if isinstance(query, exp.Select) and aggregates_of(query) and not query.args.get("group"):
        mark = builder.mark()
        try:
            relation = queries.relation(builder, query, formulas.scope.inner(alone=True))
        except CorrelatedError:
            builder.back(mark)
            return _folded(formulas, query)
        certain = not any(query.args.get(key) for key in ("having", "qualify", "limit", "offset"))
        return _only_row(formulas, relation, certain=certain)
    if most is not None and number(builder.statement, most) in (0, 1):
        return _only_row(formulas, _alone(formulas, query), certain=False)
    if not (isinstance(query, exp.Select) and _is_plain(query)):
        raise _may_have_rows(formulas, node)
    found = [queries.plain(builder, query, formulas.scope.inner(), outputs=True) for _ in range(2)]
    if len(found[0].outputs) != 1:
        message = f"a scalar subquery with {len(found[0].outputs)} columns"
        raise formulas.scope.statement.wrong(message, node, "select one column")
    if query.args.get("from_") is not None and not _by_key(formulas, query):
        raise _may_have_rows(formulas, node)
    value = found[0].outputs[0][1]
    return _or_null(formulas, found[0].body, value, conjunction(found[1].body))


def _may_have_rows(formulas: Formulas, node: exp.Expr) -> Exception:
    return formulas.builder.refused(
        "a scalar subquery that may give several rows",
        node,
        "aggregate it, add LIMIT 1, or equate the whole primary key of its one table",
    )


def _by_key(formulas: Formulas, query: exp.Select) -> bool:
    """Whether a query reads one table and fixes its primary key, so it has one row at most."""
    if query.args.get("joins"):
        return False
    scope = formulas.scope.inner()
    builder = formulas.builder
    queries.plain(builder, query, scope, outputs=False)
    (source,) = scope.sources
    own = {one.term for one in source.columns.values()}
    fixed = set()
    where = query.args.get("where")
    for part in conditions(where.this if where is not None else None):
        if not isinstance(part, exp.EQ):
            continue
        for one, other in ((part.this, part.expression), (part.expression, part.this)):
            inside = [c for c in other.find_all(exp.Column) if scope.here(c) is not None]
            if isinstance(one, exp.Column) and not inside and not within(other):
                found = scope.here(one)
                fixed |= set() if found is None else {found.term}
    return bool(source.identity) and all(
        one.term in fixed and one.term in own for one in source.identity
    )


def _only_row(formulas: Formulas, relation: Relation, *, certain: bool) -> Operand:
    """The one column of a relation of one row, or of one at most."""
    if len(relation.columns) != 1:
        message = f"a scalar subquery with {len(relation.columns)} columns"
        raise formulas.scope.statement.wrong(message, None, "select one column")
    atom, operands = formulas.builder.bind(relation)
    if certain:
        formulas.body.append(atom)
        return operands[0]
    again, _ = formulas.builder.bind(relation)
    return _or_null(formulas, [atom], operands[0], again)


def _or_null(formulas: Formulas, body: list[Formula], value: Operand, again: Formula) -> Operand:
    """A value that is NULL where `body` (and `again`, the same) has no row."""
    found = Operand(formulas.builder.fresh("q"), value.type, nullable=True)
    inside = list(body)
    term = formulas.builder.fitted(value, found.column("q"), inside)
    there = And((*inside, equal(found.term, term)))
    missing: Formula = And((absent(again), equal(found.term, NIL)))
    if not body or again == TRUE:
        missing = FALSE
    formulas.body.append(Or((there, missing)))
    return found


def _folded(formulas: Formulas, query: exp.Select) -> Operand:
    """A correlated scalar aggregate: an aggregate of the rule, over the subquery's rows."""
    builder = formulas.builder
    if query.args.get("having") or len(query.expressions) != 1:
        raise _may_have_rows(formulas, query)
    scope: Scope = formulas.scope.inner()
    for key in ("distinct", "limit", "offset", "order", "qualify", "with_"):
        if query.args.get(key):
            raise builder.refused(
                f"{key.strip('_').upper()} in a scalar subquery", query, "leave it out"
            )
    known: dict[exp.Expr, Operand] = {}
    for part in aggregates_of(query):
        scope = formulas.scope.inner()
        body = queries.plain(builder, query, scope, outputs=False).body
        inner = Formulas(builder, scope, body)
        known[scope.qualified(part)] = fold_over(formulas, inner, part)
    scope.known = known
    return Formulas(builder, scope, formulas.body).operand(query.expressions[0].unalias())
