"""Subqueries in expressions: EXISTS, IN, and scalar ones, correlated or not.

The engine's negated groups and aggregates see the variables around them, so a correlated subquery
needs no rewriting: its FROM and WHERE stand inside the rule, inside `!( ... )` where it must not
hold, inside an aggregate where it is summed up. A query that groups, combines or limits becomes a
relation; a correlated one reads its domain, the values that the rows around have, as a table of its
FROM, and all that it does it does for each of them. Invariant: an operand made here has one value
for each row outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deltafix.diagnostics import plural
from deltafix.errors import SqlRefusedError
from deltafix.rules.ast import And, Atom, Formula, Or, conjunction, disjunction
from deltafix.rules.terms import Var
from deltafix.rules.walk import occurrences
from deltafix.sql import query as queries
from deltafix.sql import tuples
from deltafix.sql.aggregates import aggregates_of, fold_over
from deltafix.sql.asked import asked
from deltafix.sql.builder import FALSE, NIL, TRUE, Operand, Relation, absent, equal
from deltafix.sql.connectives import conditions, needed
from deltafix.sql.formulas import Formulas
from deltafix.sql.functions import COMPARISONS
from deltafix.sql.gathered import gather
from deltafix.sql.ranking import number
from deltafix.sql.scope import CorrelatedError
from deltafix.sql.text import exp
from deltafix.sql.unnest import expanded_in
from deltafix.sql.windows import windows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltafix.sql.builder import Builder
    from deltafix.sql.scope import Scope
    from deltafix.sql.types import Column

__all__ = ["holds", "is_predicate", "is_query", "lateral", "operand", "within"]


def is_predicate(node: exp.Expr) -> bool:
    """Whether a node is a condition about a subquery."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if type(node) in COMPARISONS:
        other = node.expression
        return isinstance(other, exp.Any | exp.All) and isinstance(other.this.unnest(), exp.Query)
    return isinstance(node, exp.Exists)


def is_query(node: exp.Expr) -> bool:
    """Whether a node is a subquery, or a condition about one."""
    return isinstance(node, exp.Subquery | exp.Query) or is_predicate(node)


def within(node: exp.Expr) -> bool:
    """Whether there is a subquery in an expression."""
    return any(is_query(part) for part in node.walk())


def holds(formulas: Formulas, node: exp.Expr, truth: bool | None) -> Formula:
    """EXISTS, IN, ANY and ALL as formulas."""
    if isinstance(node, exp.Exists):
        if truth is None:
            return FALSE
        if formulas.builder.gathers and not truth:
            here = formulas.within()
            gathered = gather(here, queries.unwrapped(node.this), is_test=True)
            if gathered is not None and gathered.tests:
                here.body.append(gathered.none())
                return conjunction(here.body)
        body, _ = _inside(formulas, node.this, outputs=False)
        return conjunction(body) if truth else absent(conjunction(body))
    by: type[exp.Expr] = exp.EQ
    if isinstance(node, exp.In):
        query = node.args["query"]
    else:
        by, query = type(node), node.expression.this
        if isinstance(node.expression, exp.All):  # there is none of which the contrary may be
            by, truth = _CONTRARY[by], None if truth is None else not truth
    if formulas.builder.gathers and truth is not True:
        here = formulas.within()
        gathered = gather(here, queries.unwrapped(query), is_set=True)
        if gathered is not None and gathered.is_compared(by):
            here.body.extend(gathered.compared(node.this, by, truth))
            return conjunction(here.body)
    here, values = formulas.within(), tuples.parts(node.this)
    if values is not None and by is not exp.EQ:
        way_out = "write IN (SELECT a, b ...), or EXISTS (SELECT 1 ... WHERE ...)"
        raise formulas.builder.refused("a row of values before this", node, way_out)
    left = [here.operand(part) for part in ([node.this] if values is None else values)]
    match = _member(formulas, left, query, node, by, truth=True, once=truth is True)
    if truth is True:
        return conjunction((*here.body, match))
    doubt = _member(formulas, left, query, node, by, truth=None)
    if truth is False:
        return conjunction((*here.body, absent(disjunction((match, doubt)))))
    return FALSE if doubt == FALSE else conjunction((*here.body, doubt, absent(match)))


_CONTRARY: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.EQ: exp.NEQ, exp.NEQ: exp.EQ, exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE,
    exp.LTE: exp.GT,
}  # fmt: skip


def _member(
    formulas: Formulas,
    left: Sequence[Operand],
    query: exp.Expr,
    node: exp.Expr,
    by: type[exp.Expr],
    *,
    truth: bool | None,
    once: bool = False,
) -> Formula:
    """That the query has a row of which a comparison with `left` is true, or unknown."""
    body, outputs = _inside(formulas, query, outputs=True, once=once, by=by)
    if len(outputs) != len(left):
        message = f"a query with {plural(len(outputs), 'column')} beside {len(left)}"
        wanted = "one column" if len(left) == 1 else f"{len(left)} columns"
        raise formulas.scope.statement.wrong(message, node, f"select {wanted}")
    inner = Formulas(formulas.builder, formulas.scope, [])
    known, tests = dict(formulas.scope.known or {}), list[exp.Expr]()
    for n, pair in enumerate(zip(left, outputs, strict=True)):
        names = [exp.column(f"~{side}{n}") for side in ("left", "right")]
        known.update(zip(names, pair, strict=True))
        tests.append(by(this=names[0], expression=names[1]))
    inner.scope = formulas.scope.inner()
    inner.scope.known = known
    test = inner.holds(exp.and_(*tests, copy=False), truth)
    return FALSE if test == FALSE else conjunction((*body, test))


def _nests(query: exp.Expr) -> bool:
    """Whether there are queries inside of a query."""
    return any(other is not query for other in query.find_all(exp.Query))


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
        and not _joins_by_relations(query)
    )


def _joins_by_relations(query: exp.Select) -> bool:
    """Whether it has a join that reads all rows on its left: of RIGHT and FULL, or ASOF."""
    joins = query.args.get("joins") or ()
    return any(join.side in ("RIGHT", "FULL") or join.method == "ASOF" for join in joins)


def _inside(
    formulas: Formulas,
    node: exp.Expr,
    *,
    outputs: bool,
    once: bool = True,
    by: type[exp.Expr] = exp.EQ,
) -> tuple[list[Formula], list[Operand]]:
    """A subquery's rows as literals of the rule around it.

    One that is asked for more than `once`, and has others inside, is a relation: written out, each
    level of NOT IN would double what is inside. So is one that chooses rows and is compared `by`
    no equality: no index leads to them, and its table would be gone through at each edit.
    """
    query = queries.unwrapped(node)
    if by is not exp.EQ and query.args.get("where"):
        chosen = _uncorrelated(formulas, query)
        if chosen is not None:
            atom, operands = formulas.builder.bind(chosen)
            return [atom], operands[: len(chosen.columns)]
    refused = None
    mark = formulas.builder.mark()
    if not once and _nests(query):
        try:
            return _as_atom(formulas, query)
        except SqlRefusedError:  # its rows are not there to be read
            formulas.builder.back(mark)
    if isinstance(query, exp.Select) and _is_plain(query):
        try:
            rows = queries.plain(formulas.builder, query, formulas.scope.inner(), outputs=outputs)
        except SqlRefusedError as error:  # a subquery of it may need its rows as a relation
            refused = error
            formulas.builder.back(mark)
        else:
            return rows.body, [operand for _, operand in rows.outputs]
    try:
        return _as_atom(formulas, query)
    except SqlRefusedError:
        if refused is not None:
            raise refused from None
        raise


def _as_atom(formulas: Formulas, query: exp.Expr) -> tuple[list[Formula], list[Operand]]:
    """A subquery's rows as those of a relation. Raises SqlRefusedError as `_standing`."""
    standing = _standing(formulas, query)
    atom, operands = standing.bind(formulas.builder)
    return [atom], operands[: len(standing.columns)]


@dataclass(frozen=True, slots=True)
class _Standing:
    """A subquery that is a relation of its own, and what it reads of the query around.

    The relation has that first: its rows are those for each of the values that the rows around
    have there, and `bind` gives those of one of these.
    """

    relation: Relation
    outer: tuple[Operand, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the subquery shows."""
        return self.relation.columns[len(self.outer) :]

    @property
    def identity(self) -> list[int]:
        """Which of the operands of `bind` tell its rows apart."""
        width = len(self.outer)
        return [position - width for position in self.relation.identity if position >= width]

    def bind(self, builder: Builder) -> tuple[Atom, list[Operand]]:
        """An atom of new variables, and these: of what it shows, then hidden ones."""
        atom, operands = builder.bind(self.relation)
        own = operands[len(self.outer) :]
        args = (*(operand.term for operand in self.outer), *(operand.term for operand in own))
        return Atom(atom.relation, args), own


def _standing(formulas: Formulas, query: exp.Expr) -> _Standing:
    """A subquery as a relation; a correlated one for all that the rows so far have.

    What it reads of them is found by trying: each time that it is in want of a column, the column
    is one more of its domain; what was found once is known where it is made again. Raises
    SqlRefusedError where the rows are not there to be read.
    """
    builder, scope = formulas.builder, formulas.scope
    nodes, had = builder.domains.get(id(query), ([], ()))
    outer = tuple(map(scope.read, nodes))
    if had and id(query) in builder.by_node:
        if had == outer:
            return _Standing(builder.by_node[id(query)], had)
        del builder.by_node[id(query)]
    if len({*outer}) < len(outer) or not all(_is_read(formulas, operand) for operand in outer):
        nodes, outer = [], ()
    while True:
        mark, inner = builder.mark(), scope.inner(alone=True)
        if outer:
            inner.domain = outer
            columns = [
                operand.column(node.name)
                for operand, node in zip(outer, inner.outer_columns(), strict=True)
            ]
            inner.domain_rows = builder.relation(columns)
            builder.head(inner.domain_rows, outer, formulas.rows)
        try:
            relation = queries.relation(builder, query, inner)
        except CorrelatedError as error:
            builder.back(mark)
            operand = scope.read(error.node)
            if operand in outer or not _is_read(formulas, operand):
                message = (
                    "a column of the outer query inside a subquery that groups, combines or limits"
                )
                way_out = "join with the grouped query, or write it in WHERE or as LATERAL"
                raise builder.refused(f"{message}, here,", error.node, way_out) from None
            nodes, outer = [*nodes, error.node], (*outer, operand)
        else:
            if outer:
                builder.domains[id(query)] = nodes, outer
            return _Standing(relation, outer)


def _uncorrelated(formulas: Formulas, query: exp.Expr) -> Relation | None:
    """A subquery as a relation, if it reads nothing of the query around it."""
    builder = formulas.builder
    if id(query) in builder.domains:
        return None
    mark = builder.mark()
    try:
        return queries.relation(builder, query, formulas.scope.inner(alone=True))
    except CorrelatedError:
        builder.back(mark)
        return None


def _is_read(formulas: Formulas, operand: Operand) -> bool:
    """Whether the rows so far, by themselves, say which values an operand has."""
    scope = formulas.scope
    alone = scope.around is None or scope.alone
    names = occurrences(formulas.rows)
    return alone and isinstance(operand.term, Var) and operand.term.name in names


def lateral(
    formulas: Formulas, node: exp.Expr
) -> tuple[list[Formula], list[tuple[str, Operand]], tuple[Operand, ...]]:
    """The rows of a subquery in FROM for each of the rows so far.

    As literals of the rule, what it shows, and what tells its rows apart; fresh each time.
    """
    builder, query = formulas.builder, queries.unwrapped(node)
    is_small = len([*query.find_all(exp.Query)]) == 1  # those inside of it read its rows
    alone = _uncorrelated(formulas, query)
    if alone is None and is_small and isinstance(query, exp.Select) and _is_plain(query):
        rows = queries.plain(builder, query, formulas.scope.inner())
        shown = [operand for _, operand in rows.outputs]
        return rows.body, rows.outputs, tuple(shown if rows.identity is None else rows.identity)
    if builder.gathers and alone is None:
        here = formulas.within()
        gathered = gather(here, query)
        each = None if gathered is None else gathered.rows()
        if each is not None:
            return here.body, *each
    standing = _standing(formulas, query)
    atom, operands = standing.bind(builder)
    outputs = [
        (column.name, operand) for column, operand in zip(standing.columns, operands, strict=False)
    ]
    return [atom], outputs, tuple(operands[position] for position in standing.identity)


def operand(formulas: Formulas, node: exp.Expr) -> Operand:
    """The value of a subquery in an expression."""
    if is_predicate(node):
        return formulas.value(node)
    query = queries.unwrapped(node)
    builder = formulas.builder
    most = query.args.get("limit")
    if builder.gathers:
        here = formulas.within()
        gathered = gather(here, query)
        value = gathered.value() if gathered is not None and gathered.tests else None
        if value is not None:
            formulas.body.extend(here.body)
            return value
    if most is None and isinstance(query, exp.Select) and expanded_in(query.expressions):
        raise _may_have_rows(formulas, node)
    if isinstance(query, exp.Select) and aggregates_of(query) and not query.args.get("group"):
        if _uncorrelated(formulas, query) is None and _is_folded(query):
            mark, body = builder.mark(), len(formulas.body)
            try:
                return _folded(formulas, query, is_needed=id(node) in formulas.needed)
            except SqlRefusedError as refused:  # as in `_inside`
                builder.back(mark)
                del formulas.body[body:]
                try:
                    return _only_row(formulas, _standing(formulas, query), certain=True)
                except SqlRefusedError:
                    raise refused from None
        certain = not any(query.args.get(key) for key in ("having", "qualify", "limit", "offset"))
        return _only_row(formulas, _standing(formulas, query), certain=certain)
    if most is not None and number(builder.statement, most) in (0, 1):
        return _only_row(formulas, _standing(formulas, query), certain=False)
    if not (isinstance(query, exp.Select) and _is_plain(query)):
        raise _may_have_rows(formulas, node)
    copies = [queries.plain(builder, query, formulas.scope.inner(), outputs=True) for _ in range(2)]
    if len(copies[0].outputs) != 1:
        message = f"a scalar subquery with {len(copies[0].outputs)} columns"
        raise formulas.scope.statement.wrong(message, node, "select one column")
    if query.args.get("from_") is not None and not _by_key(formulas, query):
        raise _may_have_rows(formulas, node)
    value = copies[0].outputs[0][1]
    return _or_null(formulas, copies[0].body, value, conjunction(copies[1].body))


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
    own = {operand.term for operand in source.columns.values()}
    fixed = set()
    where = query.args.get("where")
    for part in conditions(where.this if where is not None else None):
        if not isinstance(part, exp.EQ):
            continue
        for column, other in ((part.this, part.expression), (part.expression, part.this)):
            inside = [c for c in other.find_all(exp.Column) if scope.here(c) is not None]
            if isinstance(column, exp.Column) and not inside and not within(other):
                operand = scope.here(column)
                fixed |= set() if operand is None else {operand.term}
    return bool(source.identity) and all(
        operand.term in fixed and operand.term in own for operand in source.identity
    )


def _only_row(formulas: Formulas, standing: _Standing, *, certain: bool) -> Operand:
    """The one column of a subquery of one row, or of one at most."""
    if len(standing.columns) != 1:
        message = f"a scalar subquery with {len(standing.columns)} columns"
        raise formulas.scope.statement.wrong(message, None, "select one column")
    atom, operands = standing.bind(formulas.builder)
    if certain:
        formulas.body.append(atom)
        return operands[0]
    again, _ = standing.bind(formulas.builder)
    return _or_null(formulas, [atom], operands[0], again)


def _or_null(formulas: Formulas, body: list[Formula], value: Operand, again: Formula) -> Operand:
    """A value that is NULL where `body` (and `again`, the same) has no row."""
    nullable = Operand(formulas.builder.fresh("q"), value.type, nullable=True)
    inside = list(body)
    term = formulas.builder.fitted(value, nullable.column("q"), inside)
    present = And((*inside, equal(nullable.term, term)))
    missing: Formula = And((absent(again), equal(nullable.term, NIL)))
    if not body or again == TRUE:
        missing = FALSE
    formulas.body.append(Or((present, missing)))
    return nullable


_NOT_FOLDED = ("having", "distinct", "limit", "offset", "order", "qualify", "with_")


def _is_folded(query: exp.Select) -> bool:
    """Whether a scalar aggregate is an aggregate of the rule around it: FROM, WHERE and no more."""
    return not (
        any(query.args.get(key) for key in _NOT_FOLDED)
        or len(query.expressions) != 1
        or windows_of(query)
        or _joins_by_relations(query)
        or any(aggregate.find(exp.Distinct) for aggregate in aggregates_of(query))
    )


_NULL_OF_NONE: Final = (exp.Sum, exp.Avg, exp.Min, exp.Max)


def _folded(formulas: Formulas, query: exp.Select, *, is_needed: bool) -> Operand:
    """A correlated scalar aggregate: an aggregate of the rule, over the subquery's rows.

    Where its value `is_needed`, a row outside without rows inside may be left out: so no rule is
    there for these alone, and no relation of what has rows (half of TPC-H's query 20).
    """
    builder = formulas.builder
    value = query.expressions[0].unalias()
    certain = needed((value,), _NULL_OF_NONE) if is_needed else []
    scope: Scope = formulas.scope.inner()
    known: dict[exp.Expr, Operand] = {}
    for part in aggregates_of(query):
        scope = formulas.scope.inner()
        rows = queries.plain(builder, query, scope, outputs=False)
        body = [*asked(builder, formulas.rows, rows.body), *rows.body]
        inner = Formulas(builder, scope, body)
        empty = not any(part is other for other in certain)
        known[scope.qualified(part)] = fold_over(
            formulas, inner, rows.identity or (), part, empty=empty
        )
    scope.known = known
    return Formulas(builder, scope, formulas.body).operand(value)
