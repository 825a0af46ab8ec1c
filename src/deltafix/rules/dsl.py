"""Rules as Python: the second door to a program, and its words.

Three nouns: a *relation* called with terms makes an atom; atoms and comparisons joined with `&`,
`|` and `~` make a body; `head <= body` puts a rule into the program whose `with` block is open.
Invariant: what is written here equals, as data, what the same text would parse to, and goes
through the same checks. Here are variables, functors and aggregates; `expressions` has terms and
bodies, `builder` the program being written, `extended` constructed types and merging columns.
"""

from __future__ import annotations

from deltafix.rules.ast import Comparison
from deltafix.rules.expressions import (
    FormulaExpr,
    Operand,
    TermExpr,
    Variables,
    formula_of,
    term_of,
)
from deltafix.rules.place import here
from deltafix.rules.terms import Aggregate, Call, Const, Var, Wildcard

__all__ = [
    "call",
    "contains",
    "count",
    "match",
    "max_of",
    "mean_of",
    "min_of",
    "sum_of",
    "unsigned",
    "variables",
    "vars",
]


def variables(names: str) -> Variables:
    """Variables by name, all of them to be unpacked; the name `_` gives the wildcard.

    `x, y = deltafix.vars("x y")`, and one alone `(n,) = deltafix.vars("n")`.
    """
    split = names.replace(",", " ").split()
    for name in split:
        if not name.isidentifier():
            raise ValueError(f"{name!r} cannot be a variable: use letters, digits and _")
    return Variables(TermExpr(Wildcard() if name == "_" else Var(name)) for name in split)


vars = variables  # noqa: A001  the public spelling: deltafix.vars("x y z")


def unsigned(value: int) -> TermExpr:
    """The unsigned constant that text writes `3u`."""
    return TermExpr(Const(value, "unsigned", here()))


def call(functor: str, *args: Operand) -> TermExpr:
    """An intrinsic functor by name: `call("cat", x, "!")`, `call("band", x, 1)`."""
    return TermExpr(Call(functor, tuple(map(term_of, args)), here()))


def match(pattern: Operand, text: Operand) -> FormulaExpr:
    """The whole of `text` matches the regular expression `pattern`."""
    return FormulaExpr(Comparison("match", term_of(pattern), term_of(text), here()))


def contains(part: Operand, text: Operand) -> FormulaExpr:
    """`part` occurs in `text`."""
    return FormulaExpr(Comparison("contains", term_of(part), term_of(text), here()))


def count(body: FormulaExpr) -> TermExpr:
    """`count : { body }`."""
    return TermExpr(Aggregate("count", None, formula_of(body), here()))


def sum_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`sum target : { body }`."""
    return TermExpr(Aggregate("sum", term_of(target), formula_of(body), here()))


def min_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`min target : { body }`."""
    return TermExpr(Aggregate("min", term_of(target), formula_of(body), here()))


def max_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`max target : { body }`."""
    return TermExpr(Aggregate("max", term_of(target), formula_of(body), here()))


def mean_of(target: Operand, body: FormulaExpr) -> TermExpr:
    """`mean target : { body }`."""
    return TermExpr(Aggregate("mean", term_of(target), formula_of(body), here()))
