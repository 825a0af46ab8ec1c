"""Conditions as terms of the engine: 1 or 0, in SQL's three-valued logic.

`flags(formulas, node)` gives two terms, whether a condition is true and whether it is false; where
neither, it is unknown. `chosen(formulas, node)` is one of them as a value, or CASE or COALESCE.
Comparisons, IS NULL, IN and BETWEEN of columns, constants and arithmetic that cannot leave its type
are such terms, with AND, OR and NOT of them; None says that a condition is a function in Python
(300,000 rows of `a IS NULL OR b = 3`: 0.64 s there, 0.1 here). Invariant: a term has no error: each
part of it may be computed, whatever the others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Final

from deltafix.rules.ast import Comparison, Formula
from deltafix.rules.terms import Call, Const, Term, Var
from deltafix.rules.walk import occurrences
from deltafix.sql import arithmetic, days, subqueries, text_functions, tuples
from deltafix.sql.builder import FALSE, NIL, TRUE, Operand, equal
from deltafix.sql.functions import COMPARISONS
from deltafix.sql.literals import constant, is_of_no_column
from deltafix.sql.text import exp
from deltafix.sql.types import BOOLEAN, NULL, TEXT, SqlType

if TYPE_CHECKING:
    from deltafix.sql.formulas import Formulas

__all__ = ["Flags", "chosen", "flags", "read_by"]

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
        flag = self.known() if truth is None else self.true if truth else self.false
        if isinstance(flag, Const):
            return TRUE if (flag == _ZERO) is (truth is None) else FALSE
        return Comparison("=" if truth is None else "!=", flag, _ZERO)


_CONDITIONS: Final = (
    exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.Escape, exp.StartsWith,
    exp.EndsWith, exp.Contains, *COMPARISONS,
)  # fmt: skip
_UNKNOWN: Final = Flags(_ZERO, _ZERO)


def flags(formulas: Formulas, node: exp.Expr) -> Flags | None:
    """A condition as terms, which `formulas.body` computes; None for what Python has to."""
    parts = [*islice(node.walk(prune=lambda part: id(part) in formulas.asked), _LONG)]
    if len(parts) == _LONG:
        return None
    if any(subqueries.is_query(part) and id(part) not in formulas.asked for part in parts):
        return None
    body = len(formulas.body)
    terms = _flags(formulas, node)
    if terms is None:
        del formulas.body[body:]
    return terms


def chosen(formulas: Formulas, node: exp.Expr) -> Operand | None:
    """A condition, CASE, COALESCE or part of a day as a term; None for what Python has to."""
    node = node.unnest()
    body = len(formulas.body)
    operand = None
    if isinstance(node, exp.Case | exp.Coalesce):
        operand = _alternative(formulas, node)
    elif isinstance(node, _CONDITIONS):
        known = flags(formulas, node)
        operand = None if known is None else _operand(formulas, BOOLEAN, known.true, known.known())
    else:
        day = days.computed(formulas, node)
        operand = None if day is None else _at(formulas, node, *day)
    formulas.body[body:] = [] if operand is None else read_by(formulas.body[body:], operand.term)
    return operand


def read_by(terms: Sequence[Formula], what: Formula | Term) -> list[Formula]:
    """Of the terms that conditions have bound, those that are read: mostly one flag of two is not.

    Half of the terms of TPC-H's queries 16 and 22. O(terms).
    """
    read, kept = set(occurrences(what)), list[Formula]()
    for part in reversed(terms):
        bound = part.left if isinstance(part, Comparison) and part.op == "=" else None
        if not isinstance(bound, Var) or bound.name in read:
            kept.append(part)
            read |= occurrences(part).keys()
    return kept[::-1]


def _alternative(formulas: Formulas, node: exp.Case | exp.Coalesce) -> Operand | None:
    case = node if isinstance(node, exp.Case) else None
    values = [node.this, *node.expressions] if case is None else arithmetic.values(case)
    leaves = [leaf for leaf in map(formulas.leaf, values) if leaf is not None]
    if len(leaves) < len(values):
        return None
    kind = formulas.kind(node)
    if any(leaf.term != NIL and leaf.type.code != kind.code for leaf in leaves):
        return None
    zero: Term = Const(kind.zero, kind.base)
    opened = [(zero, _ZERO) if leaf.term == NIL else _opened(formulas, leaf) for leaf in leaves]
    taken = [presence for _, presence in opened[:-1]]
    if case is not None:
        tests = [
            flags(formulas, arithmetic.condition_of(case, branch)) for branch in case.args["ifs"]
        ]
        taken = [_named(formulas, flag).true for flag in tests if flag is not None]
    if len(taken) < len(opened) - 1:
        return None
    value, presence = opened[-1]
    for test, (option, present) in reversed([*zip(taken, opened, strict=False)]):
        value = formulas.builder.engine("pick", kind.base, test, option, value)
        presence = _picked(formulas, test, _ONE if case is None else present, presence)
    return _operand(formulas, kind, value, presence)


def _picked(formulas: Formulas, test: Term, when_true: Term, when_false: Term) -> Term:
    if when_true == when_false:
        return when_true
    return formulas.builder.engine("pick", "number", test, when_true, when_false)


def _operand(formulas: Formulas, kind: SqlType, value: Term, presence: Term) -> Operand:
    """A value that is NULL where `presence` is 0."""
    if presence != _ONE:
        value = formulas.builder.engine("when", kind.base, presence, value)
    operand = Operand(formulas.builder.fresh("f"), kind, nullable=presence != _ONE)
    formulas.body.append(equal(operand.term, value))
    return operand


def _at(formulas: Formulas, node: exp.Expr, of: Operand, value: Term) -> Operand:
    """What is computed of one operand, NULL where that is."""
    presence = _ONE if not of.nullable else _opened(formulas, of)[1]
    return _operand(formulas, formulas.kind(node), value, presence)


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
        test = node.this if isinstance(node, exp.Escape) else node
        return _like(formulas, test.this, pattern)
    operand = formulas.leaf(node)
    if operand is None or operand.type is not BOOLEAN:
        return _UNKNOWN if operand is not None and operand.term == NIL else None
    value, presence = _opened(formulas, operand)
    return Flags(_both(presence, value), _both(presence, Call("lnot", (value,))), presence == _ONE)


def _member(formulas: Formulas, node: exp.In) -> Flags | None:
    others = node.expressions
    if not 0 < len(others) <= _MOST or node.args.get("query"):
        return None
    if any(constant(other) is None for other in others):
        return None
    any_equal = Flags(_ZERO, _ONE, is_known=True)
    for other in others:
        same = _flags(formulas, exp.EQ(this=node.this, expression=other))
        if same is None:
            return None
        any_equal = any_equal.not_().and_(same.not_()).not_()
    return _named(formulas, any_equal)


def _is_null(formulas: Formulas, node: exp.Is) -> Flags | None:
    operand = formulas.leaf(node.this)
    if operand is None:
        return None
    if not operand.nullable:
        return Flags(_ZERO, _ONE, is_known=True)
    _, presence = _opened(formulas, operand)
    return Flags(Call("lnot", (presence,)), presence, is_known=True)


def _comparison(formulas: Formulas, node: exp.Expr) -> Flags | None:
    if isinstance(node.expression, exp.Any | exp.All):
        return None
    if tuples.compared(formulas.scope.statement, node) is not None or is_of_no_column(node):
        return None
    begins = text_functions.beginning_of(node)
    if begins is not None:
        like = _like(formulas, *begins)
        return like.not_() if like is not None and isinstance(node, exp.NEQ) else like
    op = COMPARISONS[type(node)]
    pair = formulas.pair(node, joins=False)
    if pair is None:
        base, sides = arithmetic.alike(formulas, node.this, node.expression)
    elif NULL in (pair[0].type, pair[1].type) or NIL in (pair[0].term, pair[1].term):
        return _UNKNOWN
    else:
        base, sides = pair[0].type.base, [_opened(formulas, side) for side in pair]
    if sides is None or (base == "symbol" and op not in ("=", "!=")):
        return None
    (left, left_present), (right, right_present) = sides
    if op in (">", "<="):
        left, right = right, left
    test = formulas.builder.engine("same" if op in ("=", "!=") else "less", base, left, right)
    truth = _named(formulas, Flags(test, Call("lnot", (test,))))
    if op in ("!=", "<=", ">="):
        truth = truth.not_()
    present = _both(left_present, right_present)
    return Flags(_both(present, truth.true), _both(present, truth.false), present == _ONE)


def _like(formulas: Formulas, text: exp.Expr, pattern: str) -> Flags | None:
    """A text that is LIKE a pattern of `rules.like`.

    300,000 texts `NOT LIKE '%special%requests%'`: 0.47 s in Python, 0.1 here.
    """
    operand = formulas.leaf(text)
    if operand is None or operand.type is not TEXT or len(pattern.encode()) > _LONGEST:
        return None
    value, presence = _opened(formulas, operand)
    test = formulas.builder.engine("like", "symbol", value, Const(pattern, "symbol"))
    truth = _named(formulas, Flags(test, Call("lnot", (test,))))
    return Flags(_both(presence, truth.true), _both(presence, truth.false), presence == _ONE)


def _opened(formulas: Formulas, operand: Operand) -> tuple[Term, Term]:
    """A value, anything where it is NULL, and 1 or 0: whether it is one."""
    if operand.nullable:
        return arithmetic.opened(formulas, operand)
    return operand.term, _ONE


def _named(formulas: Formulas, flags: Flags) -> Flags:
    """The same flags as variables: what is said twice is computed once."""
    terms = (flags.true, flags.false)
    true, false = (arithmetic.bound(formulas, t) if isinstance(t, Call) else t for t in terms)
    return Flags(true, false, flags.is_known)


def _both(left: Term, right: Term) -> Term:
    if _ZERO in (left, right):
        return _ZERO
    if left == _ONE:
        return right
    return left if right == _ONE else Call("land", (left, right))


def all_of(terms: Iterable[Term]) -> Term:
    """1 where all of some terms are 1, else 0."""
    always: Term = _ONE
    return reduce(_both, terms, always)


def _either(left: Term, right: Term) -> Term:
    if _ONE in (left, right):
        return _ONE
    if left == _ZERO:
        return right
    return left if right == _ZERO else Call("lor", (left, right))
