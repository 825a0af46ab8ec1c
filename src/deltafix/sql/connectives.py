"""AND and OR as the chains that they are: their parts, and the order in which these are asked.

SQL leaves it open which part of `a + a > 1 AND a IS NULL` is asked first, and it shows where one
has an error. Invariant: in every door (rules, functions, a look at rows) parts that compute nothing
are asked before others, each kind in the order of the text; so a view and a SELECT of the same
query have the same errors. In rules what may fail is said so (`never_fails`), and `plan.order` asks
it of rows that were joined. What a part means is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from deltafix.sql.text import exp

if TYPE_CHECKING:
    from deltafix.sql.scope import Scope

__all__ = ["conditions", "factored", "implied", "is_test", "never_fails", "required", "tests_first"]

_TESTS: Final = (
    exp.Column, exp.Identifier, exp.Literal, exp.Placeholder, exp.Null, exp.Boolean, exp.EQ,
    exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.Not, exp.Paren, exp.And, exp.Or, exp.In,
    exp.Between,
)  # fmt: skip


_TOTAL: Final = (
    *_TESTS, exp.Concat, exp.DPipe, exp.EndsWith, exp.Extract, exp.ILike, exp.Length, exp.Like,
    exp.Lower, exp.RegexpLike, exp.StartsWith, exp.Trim, exp.Upper, exp.Var, exp.Year,
)  # fmt: skip


def conditions(node: exp.Expr | None, by: type[exp.And | exp.Or] = exp.And) -> Sequence[exp.Expr]:
    """The conjuncts of a condition, or its disjuncts. O(its nodes), however deep."""
    parts, rest = list[exp.Expr](), [] if node is None else [node]
    while rest:
        part = rest.pop()
        if isinstance(part, exp.Paren):
            rest.append(part.this)
        elif isinstance(part, by):
            rest += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def tests_first(node: exp.And | exp.Or) -> Sequence[exp.Expr]:
    """The parts of a chain as they are asked: those that cannot fail first."""
    return sorted(conditions(node, type(node)), key=lambda part: not is_test(part))


def required(node: exp.Expr) -> Sequence[exp.Expr]:
    """What a condition requires, as it is asked, if all that matters is whether it is true."""
    parts, rest = list[exp.Expr](), [node]
    while rest:
        condition = rest.pop().unnest()
        if isinstance(condition, exp.Or):
            condition = factored(condition)
        inner = condition.this.unnest() if isinstance(condition, exp.Not) else None
        if isinstance(condition, exp.And):
            rest += reversed(conditions(condition))
        elif isinstance(inner, exp.Or):
            rest += [exp.Not(this=part) for part in reversed(conditions(inner, exp.Or))]
        elif isinstance(inner, exp.Not):
            rest.append(inner.this)
        else:
            parts.append(condition)
    return sorted(parts, key=lambda part: not is_test(part))


def factored(node: exp.Or) -> exp.Expr:
    """An OR with what all of its sides require in front: `a AND b OR a AND c` is `a AND (b OR c)`.

    So a join whose condition stands in each side is a join. Both mean the same where parts are
    unknown, too.
    """
    sides = [conditions(side) for side in conditions(node, exp.Or)]
    common = [part for part in sides[0] if all(part in side for side in sides)]
    if not common:
        return node
    rests = [[part for part in side if part not in common] for side in sides]
    if any(rests):  # where a side requires nothing else, the others are read for their names
        others = (exp.and_(*rest, copy=False) if rest else exp.true() for rest in rests)
        common.append(exp.or_(*others, copy=False))
    return exp.and_(*common, copy=False)


def is_test(node: exp.Expr) -> bool:
    """Whether a condition compares columns and constants, and computes nothing that could fail."""
    return all(isinstance(part, _TESTS) for part in node.walk())


def never_fails(node: exp.Expr) -> bool:
    """Whether an expression has a value whatever its columns hold: it may be computed early."""
    for part in node.walk():
        if not isinstance(part, _TOTAL):
            return False
        by_pattern = isinstance(part, exp.Like | exp.ILike | exp.RegexpLike)
        if by_pattern and not isinstance(part.expression, exp.Literal):
            return False  # a pattern that is none
    return True


_STRICT: Final = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren)


def needed(roots: Sequence[exp.Expr], kinds: tuple[type[exp.Expr], ...]) -> list[exp.Expr]:
    """The parts of some kinds without which expressions are NULL, if nothing else in them can fail.

    Those that only `+ - *` stand above: `0.5 * SUM(x)` is NULL where the sum is.
    """
    parts, rest = list[exp.Expr](), [*roots]
    while rest:
        part = rest.pop()
        if isinstance(part, kinds):
            parts.append(part)
        elif isinstance(part, _STRICT):
            rest += [below for below in (part.this, part.args.get("expression")) if below]
        elif not never_fails(part):
            return []
    return parts


def implied(node: exp.Or, scope: Scope) -> list[exp.Expr]:
    """What an OR over several tables requires of single columns, whichever side is true.

    `a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4` requires `a.x = 1 OR a.x = 3`: known of a row of
    `a` before it is joined (three quarters of the load of TPC-H's query 7 joined what this tells).
    Only comparisons with constants, which cannot fail, are asked for earlier than they stand.
    """
    if len(scope.tables_of(node)) < 2:
        return []
    sides = []
    for side in conditions(node, exp.Or):
        by_column: dict[exp.Expr, list[exp.Expr]] = {}
        for test in filter(is_test, conditions(side)):
            read = {scope.qualified(column) for column in test.find_all(exp.Column)}
            if len(read) == 1:
                by_column.setdefault(read.pop(), []).append(test)
        sides.append(by_column)
    common = [column for column in sides[0] if all(column in side for side in sides)]
    return [exp.or_(*(exp.and_(*side[column]) for side in sides)) for column in common]
