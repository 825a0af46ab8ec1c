"""Conditions and expressions inside a rule: three-valued logic, compiled away.

A condition is asked three ways: `holds(node, True)` is the formula of the rows where it is true,
`False` where it is false, `None` where it is unknown. So AND, OR and NOT become formulas, a NULL is
a record that does not open, and no rule ever computes with "unknown". Comparisons of columns are
comparisons of the engine, which its joins use; an expression that computes is one function of the
program's own (`sql.scalar`). Subqueries are `sql.subqueries`'.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

from deltafix.rules.ast import And, Comparison, Formula, Or, conjunction, disjunction
from deltafix.rules.terms import Const, Term
from deltafix.sql import tuples
from deltafix.sql.aggregates import AGGREGATE
from deltafix.sql.builder import FALSE, NIL, TRUE, Builder, Operand, equal, some
from deltafix.sql.connectives import factored, implied, needed, never_fails, tests_first
from deltafix.sql.functions import COMPARE, COMPARISONS
from deltafix.sql.literals import Scalar, constant, is_of_no_column, typed
from deltafix.sql.scalar import Scalars
from deltafix.sql.scope import Scope
from deltafix.sql.text import exp
from deltafix.sql.types import (
    BEYOND,
    BIGINT,
    BOOLEAN,
    DATE,
    NULL,
    TIMESTAMP,
    Column,
    SqlType,
    common_type,
    decode,
    encode,
    holds_all,
)

__all__ = ["Formulas", "LeftJoin"]

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_CODES = {True: 1, False: 0, None: 2}
_TRUTH = Column("truth", BIGINT, nullable=False)


class LeftJoin(NamedTuple):
    """A LEFT JOIN: what the body has of it, the alternative with matches, and its variables."""

    whole: Formula
    matched: Formula
    names: frozenset[str]


class Formulas:
    """Conditions and operands of one scope; what computes an operand goes to `body`."""

    def __init__(self, builder: Builder, scope: Scope, body: list[Formula]) -> None:
        self.builder = builder
        self.scope = scope
        self.body = body
        self.rows = body
        """The rows that conditions and operands are about: the body, or that of a part's whole."""
        self.needed: frozenset[int] = frozenset()
        """Subqueries, by identity, without a value of which what is asked for has none either."""
        self.left: LeftJoin | None = None
        """The last LEFT JOIN in the body."""
        self.asked: dict[int, Operand] = {}
        """Subqueries, by identity, whose value the body has: they are leaves of a condition."""
        self.folds: dict[tuple[str, str, int], Operand] = {}
        """Aggregates that are in the body, by what they are and where their argument stands."""
        self._kinds = Scalars(scope.statement, self._kind_of_leaf)

    # --- operands --------------------------------------------------------------------------------

    def operand(self, node: exp.Expr, *, tested: bool = False) -> Operand:
        """An expression as a term, which a condition asks about where it is `tested`."""
        from deltafix.sql import arithmetic, subqueries  # noqa: PLC0415  they need each other

        operand = self.leaf(node)
        if operand is None and isinstance(node, exp.Subquery):
            operand = subqueries.operand(self, node)
        if operand is None and not subqueries.within(node):
            operand = arithmetic.computed(self, node, tested=tested)
        if operand is not None:
            return operand
        scalar, args = self.scalar(node)
        if not args:
            return self.constant(node, scalar)
        if scalar.type == NULL:
            return Operand(NIL, NULL, nullable=True)
        return self.builder.apply(scalar, args, self.body)

    def leaf(self, node: exp.Expr) -> Operand | None:
        """A column, a constant, or what is known; None for what must be computed."""
        while isinstance(node, exp.Paren):
            node = node.this
        if id(node) in self.asked:
            return self.asked[id(node)]
        if self.scope.known:
            operand = self.scope.known.get(self.scope.qualified(node))
            if operand is not None:
                return operand
        if isinstance(node, exp.Dot):
            return self.scope.grouped_field(node)
        if isinstance(node, exp.Window):
            return self.scope.windows.get(self.scope.qualified(node))
        if isinstance(node, exp.Explode | exp.Unnest):
            return self.scope.elements.get(self.scope.qualified(node))
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise self.builder.refused("* in an expression", node, "name the column")
            return self.scope.column(node)
        scalar = constant(node)
        return None if scalar is None or scalar.type is BEYOND else self.constant(node, scalar)

    def fixed(self, node: exp.Expr) -> Operand | None:
        """An expression without columns, computed here; None for any other."""
        from deltafix.sql import subqueries  # noqa: PLC0415  the two need each other

        varying = (exp.Column, exp.Window, exp.Filter, exp.AggFunc, exp.WithinGroup, exp.UDTF)
        if any(isinstance(part, varying) or subqueries.is_query(part) for part in node.walk()):
            return None
        scalar, _ = self.scalar(node)
        return self.constant(node, scalar)

    def constant(self, node: exp.Expr, scalar: Scalar) -> Operand:
        """The operand of an expression without columns: computed here, once."""
        kind = scalar.type
        try:
            value = scalar.compute(())
            bare = None if value is None else encode(value, kind, nullable=False)
        except (ValueError, ArithmeticError) as error:
            raise self.scope.statement.data(str(error), node) from None
        if value is None:
            return Operand(NIL, NULL if kind == NULL else kind, nullable=True)
        return Operand(Const(bare, kind.base), kind, nullable=False)

    def scalar(self, node: exp.Expr) -> tuple[Scalar, list[Operand]]:
        """An expression as a function, and the operands it is a function of."""
        from deltafix.sql import subqueries  # noqa: PLC0415  the two need each other

        args: list[Operand] = []
        read: list[Hashable] = []

        def leaf(part: exp.Expr) -> Scalar | None:
            operand = None
            if subqueries.is_query(part):
                operand = subqueries.operand(self, part)
                self.asked |= dict.fromkeys((id(part), id(part.unnest())), operand)
                self._kinds = Scalars(self.scope.statement, self._kind_of_leaf)
            elif not isinstance(part, exp.Paren):
                if isinstance(part, AGGREGATE):
                    operand = self.leaf(part)
                    if operand is None:
                        raise self.misplaced(part)
                elif constant(part) is None:
                    operand = self.leaf(part)
            if operand is None:
                return None
            if isinstance(operand.term, Const):
                known = operand.term.value
                bare = Column("", operand.type, nullable=False)
                shown = None if known is None else decode(known, bare)
                read.append((operand.type.name, repr(shown)))
                return Scalar(lambda _: shown, operand.type, operand.nullable)
            if operand not in args:
                args.append(operand)
            index = args.index(operand)
            read.append(index)
            return Scalar(itemgetter(index), operand.type, operand.nullable)

        compiled = Scalars(self.scope.statement, leaf).compile(node)
        says = spelled(node), tuple(read)
        return replace(compiled, says=says, partial=not never_fails(node)), args

    def kind(self, node: exp.Expr) -> SqlType:
        """The type of an expression without subqueries but `asked` ones. O(1) where known."""
        return self._kinds.compile(node).type

    def _kind_of_leaf(self, part: exp.Expr) -> Scalar | None:
        operand = None if isinstance(part, exp.Paren) or constant(part) else self.leaf(part)
        return None if operand is None else Scalar(lambda _: None, operand.type, operand.nullable)

    def misplaced(self, node: exp.Expr) -> Exception:
        """The error for an aggregate where there is none."""
        columns = [*node.find_all(exp.Column)]
        if columns and all(self.scope.here(column) is None for column in columns):
            return self.scope.aggregated_around(node)
        return self.scope.statement.misplaced(node)

    # --- conditions ------------------------------------------------------------------------------

    def require(self, node: exp.Expr) -> None:
        """Add to the body that a condition is true; subqueries in later parts see earlier ones."""
        node = node.unnest()
        parts = tests_first(node) if isinstance(node, exp.And) else (node,)
        for part in parts:
            self.body.append(self.holds(part, True))

    def holds(self, node: exp.Expr, truth: bool | None) -> Formula:
        """The formula of the rows where a condition is true, false or unknown."""
        from deltafix.sql import subqueries  # noqa: PLC0415  the two need each other

        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Not):
            return self.holds(node.this, None if truth is None else not truth)
        if isinstance(node, exp.Or):
            simpler = factored(node)
            if simpler is not node:
                return self.holds(simpler, truth)
            weaker = implied(node, self.scope) if truth is True else []
            if weaker:
                rest = self.both(node, True, decisive=True) if subqueries.within(node) else None
                each = (self.holds(condition, True) for condition in weaker)
                return conjunction((*each, rest or self.computed(node, True)))
        if isinstance(node, exp.And | exp.Or):
            decisive = isinstance(node, exp.Or)
            if truth is not None and (truth is not decisive or subqueries.within(node)):
                return self.both(node, truth, decisive=decisive)
        elif isinstance(node, exp.Between) and truth is True:
            low = exp.GTE(this=node.this, expression=node.args["low"])
            high = exp.LTE(this=node.this, expression=node.args["high"])
            return conjunction((self.holds(low, True), self.holds(high, True)))
        elif subqueries.is_predicate(node):
            return subqueries.holds(self, node, truth)
        elif type(node) in COMPARE:
            by_parts = tuples.compared(self.scope.statement, node)
            if by_parts is not None:
                return self.holds(by_parts, truth)
            if type(node) not in COMPARISONS:
                return self.distinct(node, truth)
            if not isinstance(node.expression, exp.Any | exp.All):
                return self.comparison(node, truth)
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return self.is_null(node, truth)
        return self.computed(node, truth)

    def both(self, node: exp.And | exp.Or, truth: bool, *, decisive: bool) -> Formula:
        """AND and OR, a chain of them at once: one side decides when it is `decisive`."""
        sides = [self.holds(part, truth) for part in tests_first(node)]
        return disjunction(sides) if truth is decisive else conjunction(sides)

    def within(self) -> Formulas:
        """The same scope with a body of its own."""
        inner = Formulas(self.builder, self.scope, [])
        inner.rows, inner._kinds = self.rows, self._kinds
        return inner

    def asking(self, node: exp.Expr, truth: bool | None) -> Formulas:
        """As `within`, for a condition: a comparison is neither true nor false of a NULL."""
        here = self.within()
        if truth is not None and type(node) in COMPARISONS:
            parts = needed((node.this, node.expression), (exp.Subquery,))
            here.needed = frozenset(map(id, parts))
        return here

    def comparison(self, node: exp.Expr, truth: bool | None) -> Formula:
        """A comparison: the engine's own, where both sides are there already."""
        op = COMPARISONS[type(node)]
        here = self.asking(node, truth)
        joins = op == "=" and truth is True
        sides = here.pair(node, joins=joins)
        if sides is None:
            return self.computed(node, truth)
        left, right = sides
        if NULL in (left.type, right.type) or NIL in (left.term, right.term):
            return TRUE if truth is None else FALSE
        if truth is None:
            nulls = [equal(side.term, NIL) for side in sides if side.nullable]
            return conjunction((*here.body, disjunction(nulls)))
        written = op if truth else _NEGATED[op]
        if written == "=" and left.nullable and right.nullable:
            parts = (equal(left.term, right.term), Comparison("!=", left.term, NIL))
            return conjunction((*here.body, *parts))
        fixed = next((side for side in sides if isinstance(side.term, Const)), None)
        if written == "=" and fixed is not None and left.nullable is not right.nullable:
            (held,) = (side for side in sides if side.nullable)
            return conjunction((*here.body, equal(held.term, some(fixed.term, held.type))))
        terms = [here.opened(side) for side in sides]
        return conjunction((*here.body, Comparison(written, terms[0], terms[1])))

    def pair(self, node: exp.Expr, *, joins: bool) -> tuple[Operand, Operand] | None:
        """Both sides of a comparison as the engine compares them; None where Python has to.

        They are there already; where they are to join, they may be computed.
        """
        if is_of_no_column(node):
            return None
        sides = [self.leaf(side) or self.fixed(side) for side in (node.this, node.expression)]
        if None in sides and not joins:
            return None
        # What rows of other tables are found by is computed of rows that may have none of them.
        tested = not (joins and self.scope.is_between(node.this, node.expression))
        left = sides[0] or self.operand(node.this, tested=tested)
        right = sides[1] or self.operand(node.expression, tested=tested)
        if left.type is not right.type:
            left, right = (
                self.operand(cast, tested=tested) if cast is not plain else side
                for plain, cast, side in (
                    (node.this, typed(node.this, right.type), left),
                    (node.expression, typed(node.expression, left.type), right),
                )
            )
        left, right = _as_days(left, right), _as_days(right, left)
        kind = common_type(left.type, right.type)
        if kind is None:
            return None  # what computes it says what is wrong
        unknown = NULL in (left.type, right.type) or NIL in (left.term, right.term)
        if unknown or (left.type.code == right.type.code and kind.length is None):
            return left, right
        bare = any(isinstance(side.term, Const) for side in (left, right))
        if not (joins or bare) or not all(holds_all(kind, s.type) for s in (left, right)):
            return None
        if kind.length is not None:
            left, right = (
                self.builder.made(side, BIGINT, kind.length, self.body) for side in (left, right)
            )
            return left, right
        left, right = (
            side if side.type.code == kind.code else self.builder.converted(side, kind, self.body)
            for side in (left, right)
        )
        return left, right

    def distinct(self, node: exp.Expr, truth: bool | None) -> Formula:
        """IS [NOT] DISTINCT FROM: the engine's own where both sides are there, of one type."""
        if truth is None:
            return FALSE
        if is_of_no_column(node):
            return self.computed(node, truth)
        here = self.within()
        sides = [here.leaf(side) or here.fixed(side) for side in (node.this, node.expression)]
        known = [side for side in sides if side is not None and side.type != NULL]
        if len(known) < len(sides) or known[0].type.code != known[1].type.code:
            return self.computed(node, truth)
        if known[0].type.length is not None:
            return self.computed(node, truth)
        column = Column("", known[0].type, any(side.nullable for side in known))
        left, right = (self.builder.fitted(side, column, here.body) for side in known)
        is_equal = isinstance(node, exp.NullSafeEQ) is truth
        if left == right == NIL:  # nothing would say of which type they are
            return TRUE if is_equal else FALSE
        return conjunction((*here.body, Comparison("=" if is_equal else "!=", left, right)))

    def opened(self, operand: Operand) -> Term:
        """The bare value of an operand; the rule ends where it is NULL."""
        if not operand.nullable:
            return operand.term
        bare = self.builder.fresh("v")
        self.body.append(equal(operand.term, some(bare, operand.type)))
        return bare

    def is_null(self, node: exp.Expr, truth: bool | None) -> Formula:
        """`x IS NULL`."""
        if truth is None:
            return FALSE
        here = self.within()
        operand = here.operand(node.this, tested=True)
        if operand.term == NIL:
            return TRUE if truth else FALSE
        if not operand.nullable:
            return FALSE if truth else TRUE
        return conjunction((*here.body, Comparison("=" if truth else "!=", operand.term, NIL)))

    def computed(self, node: exp.Expr, truth: bool | None) -> Formula:
        """A condition that computes: terms of the engine, or one function.

        The function's value is 1, 0, or 2 for unknown.
        """
        from deltafix.sql.conditions import flags, read_by  # noqa: PLC0415  they need each other

        here = self.asking(node, truth)
        scalar, args = here.scalar(node)
        if scalar.type not in (BOOLEAN, NULL):
            message = f"a condition of {scalar.type.name}"
            raise self.scope.statement.wrong(message, node, "compare it with something")
        if not args:
            value = here.constant(node, scalar)
            known = None if value.term == NIL else bool(value.term.value)  # type: ignore[union-attr]
            return TRUE if known is truth else FALSE
        if isinstance(node, exp.Column):
            return conjunction((*here.body, self.column(args[0], truth)))
        if truth is None and not scalar.nullable:
            return FALSE
        terms = flags(here, node)
        if terms is not None:
            holds = terms.as_formula(truth)
            return conjunction((*read_by(here.body, holds), holds))
        compute = scalar.compute
        says = ("truth", scalar.says)
        coded = Scalar(
            lambda row: _CODES[compute(row)], BIGINT, nullable=False, says=says,
            partial=scalar.partial,
        )  # fmt: skip
        call = self.builder.call(coded, args, _TRUTH, exact=True)
        return conjunction((*here.body, equal(call, Const(_CODES[truth], "number"))))

    def column(self, operand: Operand, truth: bool | None) -> Formula:
        """A column of truth values as a condition."""
        if truth is None:
            return equal(operand.term, NIL) if operand.nullable else FALSE
        wanted: Term = Const(int(truth), "number")
        return equal(operand.term, some(wanted, BOOLEAN) if operand.nullable else wanted)

    def value(self, node: exp.Expr) -> Operand:
        """A condition as a value: one of three alternatives."""
        operand = Operand(self.builder.fresh("b"), BOOLEAN, nullable=True)
        cases = [
            And((self.holds(node, truth), equal(operand.term, term)))
            for truth, term in (
                (True, some(Const(1, "number"), BOOLEAN)),
                (False, some(Const(0, "number"), BOOLEAN)),
                (None, NIL),
            )
        ]
        self.body.append(Or(tuple(cases)))
        return operand


_DAY: Final = 86_400_000_000
"""Microseconds."""


def _as_days(operand: Operand, beside: Operand) -> Operand:
    """A midnight beside a DATE as a DATE: `d < DATE '1998-12-01' - INTERVAL '90' DAY`."""
    if beside.type is DATE and operand.type is TIMESTAMP and isinstance(operand.term, Const):
        moment = operand.term.value
        if isinstance(moment, int) and moment % _DAY == 0:
            return Operand(Const(moment // _DAY, "number"), DATE, nullable=False)
    return operand


def spelled(node: exp.Expr) -> tuple[Hashable, ...]:
    """What a tree says: nodes in order, each with the number of those below. O(nodes), any depth.

    Not where it stands; equal for two that mean the same where equal names do.
    """
    parts, rest = list[Hashable](), list[Any]([node])
    while rest:
        part = rest.pop()
        if isinstance(part, exp.Expr):
            below = [(key, value) for key, value in part.args.items() if value not in (None, [])]
            parts.append((type(part), *((k, len(v) if type(v) is list else -1) for k, v in below)))
            for _, value in reversed(below):
                rest += reversed(value) if type(value) is list else [value]
        else:
            parts.append(repr(part))
    return tuple(parts)
