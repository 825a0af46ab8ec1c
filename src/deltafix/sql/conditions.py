"""Conditions as terms of the engine: 1 or 0, in SQL's three-valued logic.

`flags(formulas, node)` gives two terms, whether a condition is true and whether it is false; where
neither, it is unknown. `chosen(formulas, node)` is one of them as a value, or CASE or COALESCE.
Comparisons, IS NULL, IN and BETWEEN of columns, constants and arithmetic that cannot leave its type
are such terms, with AND, OR and NOT of them; None says that a condition is a function in Python
(300,000 rows of `a IS NULL OR b = 3`: 0.64 s there, 0.1 here). Invariant: a term has no error: each
part of it may be computed, whatever the others are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Final

from deltafix.rules.ast import Comparison, Formula
from deltafix.rules.terms import Call, Const, Term
from deltafix.sql import arithmetic, days, subqueries, text_functions, tuples
from deltafix.sql.builder import FALSE, NIL, TRUE, Operand, equal
from deltafix.sql.functions import COMPARISONS
from deltafix.sql.literals import constant, is_of_no_column
from deltafix.sql.text import exp
from deltafix.sql.types import BOOLEAN, NULL, TEXT, SqlType

if TYPE_CHECKING:
    from deltafix.sql.formulas import Formulas

__all__ = ["Flags", "chosen", "flags"]

_LONG: Final = 60
"""Nodes from which on a condition is one function: one call costs less than as many terms."""
_MOST: Final = 8
"""Values of IN up to which each is compared."""
_LONGEST: Final = 64
"""Bytes of a pattern up to which the kernel, which tries each place of a text, looks for it."""
_ZERO: Final = Const(0, "number")
_ONE: Final = Const(1, "number")


@dataclass(frozen=True, slots=True)
class Flags:
    """Whether a condition is true, and whether it is false: terms that are 1 or 0.

    `is_known` says that it is always one of the two.
    """

    true: Term
    false: Term
    is_known: bool = False

    def not_(self) -> Flags:
        """NOT."""
        return Flags(self.false, self.true, self.is_known)

    def and_(self, other: Flags) -> Flags:
        """AND."""
        false = _either(self.false, other.false)
        return Flags(_both(self.true, other.true), false, self.is_known and other.is_known)

    def known(self) -> Term:
        """1 where it is true or false."""
        return _ONE if self.is_known else _either(self.true, self.false)

    def as_formula(self, truth: bool | None) -> Formula:
        """That it is true, false or unknown."""
        asked = self.known() if truth is None else self.true if truth else self.false
        if isinstance(asked, Const):
            return TRUE if (asked == _ZERO) is (truth is None) else FALSE
        return Comparison("=" if truth is None else "!=", asked, _ZERO)


_CONDITIONS: Final = (
    exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.Escape, exp.StartsWith,
    exp.EndsWith, exp.Contains, *COMPARISONS,
)  # fmt: skip
_UNKNOWN: Final = Flags(_ZERO, _ZERO)


def flags(formulas: Formulas, node: exp.Expr) -> Flags | None:
    """A condition as terms, which `formulas.body` computes; None for what Python has to."""
    if len(list(islice(node.walk(), _LONG))) == _LONG:
        return None
    if subqueries.within(node):
        return None
    body = len(formulas.body)
    found = _flags(formulas, node)
    if found is None:
        del formulas.body[body:]
    return found


def chosen(formulas: Formulas, node: exp.Expr) -> Operand | None:
    """A condition, CASE, COALESCE or part of a day as a term; None for what Python has to."""
    node = node.unnest()
    body = len(formulas.body)
    found = None
    if isinstance(node, exp.Case | exp.Coalesce):
        found = _alternative(formulas, node)
    elif isinstance(node, _CONDITIONS):
        known = flags(formulas, node)
        found = None if known is None else _operand(formulas, BOOLEAN, known.true, known.known())
    else:
        day = days.computed(formulas, node)
        found = None if day is None else _at(formulas, node, *day)
    if found is None:
        del formulas.body[body:]
    return found


def _alternative(formulas: Formulas, node: exp.Case | exp.Coalesce) -> Operand | None:
    case = node if isinstance(node, exp.Case) else None
    values = [node.this, *node.expressions] if case is None else arithmetic.values(case)
    leaves = [one for one in map(formulas.leaf, values) if one is not None]
    if len(leaves) < len(values):
        return None
    kind = formulas.kind(node)
    if any(one.term != NIL and one.type.code != kind.code for one in leaves):
        return None
    zero: Term = Const(kind.zero, kind.base)
    opened = [(zero, _ZERO) if one.term == NIL else _opened(formulas, one) for one in leaves]
    asked = [there for _, there in opened[:-1]]
    if case is not None:
        tests = [flags(formulas, arithmetic.asked(case, one)) for one in case.args["ifs"]]
        asked = [_named(formulas, one).true for one in tests if one is not None]
    if len(asked) < len(opened) - 1:
        return None
    value, there = opened[-1]
    for test, (one, present) in reversed([*zip(asked, opened, strict=False)]):
        value = formulas.builder.engine("pick", kind.base, test, one, value)
        there = _picked(formulas, test, _ONE if case is None else present, there)
    return _operand(formulas, kind, value, there)


def _picked(formulas: Formulas, test: Term, one: Term, other: Term) -> Term:
    return one if one == other else formulas.builder.engine("pick", "number", test, one, other)


def _operand(formulas: Formulas, kind: SqlType, value: Term, there: Term) -> Operand:
    """A value that is NULL where `there` is 0."""
    if there != _ONE:
        value = formulas.builder.engine("when", kind.base, there, value)
    found = Operand(formulas.builder.fresh("f"), kind, nullable=there != _ONE)
    formulas.body.append(equal(found.term, value))
    return found


def _at(formulas: Formulas, node: exp.Expr, of: Operand, value: Term) -> Operand:
    """What is computed of one operand, NULL where that is."""
    there = _ONE if not of.nullable else _opened(formulas, of)[1]
    return _operand(formulas, formulas.kind(node), value, there)


def _flags(formulas: Formulas, node: exp.Expr) -> Flags | None:
    node = node.unnest()
    if isinstance(node, exp.Not):
        inner = _flags(formulas, node.this)
        return None if inner is None else inner.not_()
    if isinstance(node, exp.And | exp.Or):
        left, right = _flags(formulas, node.this), _flags(formulas, node.expression)
        if left is None or right is None:
            return None
        if isinstance(node, exp.And):
            return _named(formulas, left.and_(right))
        return _named(formulas, left.not_().and_(right.not_()).not_())
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        return _flags(formulas, exp.And(this=low, expression=high))
    if isinstance(node, exp.In):
        return _member(formulas, node)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return _is_null(formulas, node)
    if type(node) in COMPARISONS:
        return _comparison(formulas, node)
    pattern = text_functions.pattern_of(node, formulas.scope.statement.dialect)
    if pattern is not None:
        return _like(formulas, node.this if isinstance(node, exp.Escape) else node, pattern)
    operand = formulas.leaf(node)
    if operand is None or operand.type is not BOOLEAN:
        return _UNKNOWN if operand is not None and operand.term == NIL else None
    value, there = _opened(formulas, operand)
    return Flags(_both(there, value), _both(there, Call("lnot", (value,))), there == _ONE)


def _member(formulas: Formulas, node: exp.In) -> Flags | None:
    others = node.expressions
    if not 0 < len(others) <= _MOST or node.args.get("query"):
        return None
    if any(constant(one) is None for one in others):
        return None
    found = Flags(_ZERO, _ONE, is_known=True)
    for one in others:
        same = _flags(formulas, exp.EQ(this=node.this, expression=one))
        if same is None:
            return None
        found = found.not_().and_(same.not_()).not_()
    return _named(formulas, found)


def _is_null(formulas: Formulas, node: exp.Is) -> Flags | None:
    operand = formulas.leaf(node.this)
    if operand is None:
        return None
    if not operand.nullable:
        return Flags(_ZERO, _ONE, is_known=True)
    _, there = _opened(formulas, operand)
    return Flags(Call("lnot", (there,)), there, is_known=True)


def _comparison(formulas: Formulas, node: exp.Expr) -> Flags | None:
    if isinstance(node.expression, exp.Any | exp.All):
        return None
    if tuples.compared(formulas.scope.statement, node) is not None or is_of_no_column(node):
        return None
    op = COMPARISONS[type(node)]
    pair = formulas.pair(node, joins=False)
    if pair is None:
        base, sides = arithmetic.alike(formulas, node.this, node.expression)
    elif NULL in (pair[0].type, pair[1].type) or NIL in (pair[0].term, pair[1].term):
        return _UNKNOWN
    else:
        base, sides = pair[0].type.base, [_opened(formulas, one) for one in pair]
    if sides is None or (base == "symbol" and op not in ("=", "!=")):
        return None
    (one, there), (two, both) = sides
    if op in (">", "<="):
        one, two = two, one
    test = formulas.builder.engine("same" if op in ("=", "!=") else "less", base, one, two)
    found = _named(formulas, Flags(test, Call("lnot", (test,))))
    if op in ("!=", "<=", ">="):
        found = found.not_()
    present = _both(there, both)
    return Flags(_both(present, found.true), _both(present, found.false), present == _ONE)


def _like(formulas: Formulas, node: exp.Expr, pattern: str) -> Flags | None:
    """A text that is LIKE a pattern of `rules.like`.

    300,000 texts `NOT LIKE '%special%requests%'`: 0.47 s in Python, 0.1 here.
    """
    operand = formulas.leaf(node.this)
    if operand is None or operand.type is not TEXT or len(pattern.encode()) > _LONGEST:
        return None
    text, there = _opened(formulas, operand)
    test = formulas.builder.engine("like", "symbol", text, Const(pattern, "symbol"))
    found = _named(formulas, Flags(test, Call("lnot", (test,))))
    return Flags(_both(there, found.true), _both(there, found.false), there == _ONE)


def _opened(formulas: Formulas, operand: Operand) -> tuple[Term, Term]:
    """A value, anything where it is NULL, and 1 or 0: whether it is one."""
    if operand.nullable:
        return arithmetic.opened(formulas, operand)
    return operand.term, _ONE


def _named(formulas: Formulas, found: Flags) -> Flags:
    """The same flags as variables: what is said twice is computed once."""
    terms = (found.true, found.false)
    true, false = (arithmetic.bound(formulas, t) if isinstance(t, Call) else t for t in terms)
    return Flags(true, false, found.is_known)


def _both(one: Term, two: Term) -> Term:
    if _ZERO in (one, two):
        return _ZERO
    if one == _ONE:
        return two
    return one if two == _ONE else Call("land", (one, two))


def all_of(terms: Iterable[Term]) -> Term:
    """1 where all of some terms are 1, else 0."""
    always: Term = _ONE
    return reduce(_both, terms, always)


def _either(one: Term, two: Term) -> Term:
    if _ONE in (one, two):
        return _ONE
    if one == _ZERO:
        return two
    return one if two == _ZERO else Call("lor", (one, two))
