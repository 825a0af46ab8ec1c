"""Terms and bodies as Python expressions.

Terms compare to literals and compute; atoms and comparisons joined with `&`, `|` and `~` make a
body; `head <= body` puts a rule into the program that the head's relation belongs to. Invariant:
anything Python would read differently from how it looks (`and`, chained comparisons, a missing
parenthesis around `x < y`) is an error at once, never a wrong rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from types import EllipsisType
from typing import Any, Final, Never, Protocol, TypeAlias
from uuid import UUID

from deltafix.errors import ProgramError
from deltafix.facts.values import FLOAT_DIGITS, Logical, logical_text
from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Rule, conjunction, disjunction
from deltafix.rules.place import here
from deltafix.rules.terms import Call, Const, Term, Var, Wildcard


class Written(Protocol):
    """What a rule needs of the program it is written into."""

    rules: list[Rule]
    closed: bool


class TermExpr:
    """A variable, constant or computed value. Compare it to make a literal; compute with it.

    `+ - * / %` and unary `-` are the language's; `**` is its power `^`.
    """

    __slots__ = ("term",)
    __hash__ = None  # type: ignore[assignment]  # `==` makes a literal: no set or dict of terms

    def __init__(self, term: Term) -> None:
        self.term = term

    def __repr__(self) -> str:
        return f"TermExpr({self.term!r})"

    def __bool__(self) -> bool:
        raise TypeError("a term is neither true nor false: compare it, and join literals with &")

    def __str__(self) -> str:
        raise TypeError('a term is no text, nor part of one: write call("cat", x, "!") for f"{x}!"')

    def _call(self, functor: str, left: Operand, right: Operand) -> TermExpr:
        return TermExpr(Call(functor, (term_of(left), term_of(right)), here()))

    def __add__(self, other: Operand) -> TermExpr:
        return self._call("+", self, other)

    def __radd__(self, other: Operand) -> TermExpr:
        return self._call("+", other, self)

    def __sub__(self, other: Operand) -> TermExpr:
        return self._call("-", self, other)

    def __rsub__(self, other: Operand) -> TermExpr:
        return self._call("-", other, self)

    def __mul__(self, other: Operand) -> TermExpr:
        return self._call("*", self, other)

    def __rmul__(self, other: Operand) -> TermExpr:
        return self._call("*", other, self)

    def __truediv__(self, other: Operand) -> TermExpr:
        return self._call("/", self, other)

    def __rtruediv__(self, other: Operand) -> TermExpr:
        return self._call("/", other, self)

    def __mod__(self, other: Operand) -> TermExpr:
        return self._call("%", self, other)

    def __rmod__(self, other: Operand) -> TermExpr:
        return self._call("%", other, self)

    def __pow__(self, other: Operand) -> TermExpr:
        return self._call("^", self, other)

    def __rpow__(self, other: Operand) -> TermExpr:
        return self._call("^", other, self)

    def __neg__(self) -> TermExpr:
        return TermExpr(Call("neg", (self.term,), here()))

    def _compare(self, op: str, other: Operand) -> FormulaExpr:
        return FormulaExpr(Comparison(op, self.term, term_of(other), here()))

    def __eq__(self, other: Operand) -> FormulaExpr:  # type: ignore[override]  # a literal, not a truth
        return self._compare("=", other)

    def __ne__(self, other: Operand) -> FormulaExpr:  # type: ignore[override]  # a literal, not a truth
        return self._compare("!=", other)

    def __lt__(self, other: Operand) -> FormulaExpr:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> FormulaExpr:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> FormulaExpr:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> FormulaExpr:
        return self._compare(">=", other)

    def __and__(self, other: object) -> Never:
        raise TypeError(_PARENTHESES)

    __or__ = __rand__ = __ror__ = __and__


_PARENTHESES: Final = (
    "& and | bind tighter than comparisons in Python: write (x < y) & atom(..) with parentheses"
)

Operand: TypeAlias = (
    TermExpr
    | int
    | float
    | str
    | date
    | Decimal
    | bytes
    | UUID
    | EllipsisType
    | tuple[Any, ...]
    | None
)
"""What may stand in an atom or a comparison; `...` is `_`, a tuple a record, None `nil`."""


class Variables(tuple["TermExpr", ...]):
    """Variables to be unpacked: as a whole they are no term, though a tuple is a record.

    What a term takes part in they refuse: to Python, two tuples compare, and twice one is another.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as of a term

    def refuse(self, _: object = None) -> Never:
        """Raise TypeError, with how they are unpacked."""
        names = [variable.term.name if isinstance(variable.term, Var) else "_" for variable in self]
        shown, comma = " ".join(names), "," if len(names) == 1 else ""
        raise TypeError(
            f'vars("{shown}") is a tuple of {len(names)}; unpack it: '
            f'({", ".join(names)}{comma}) = deltafix.vars("{shown}")'
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __mod__ = __pow__ = refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmod__ = __rpow__ = refuse
    __and__ = __or__ = __rand__ = __ror__ = __neg__ = refuse


def term_of(value: object) -> Term:
    """The term for a Python value. Raises TypeError for what is no term."""
    if isinstance(value, TermExpr):
        return value.term
    if value is ...:
        return Wildcard(here())
    if value is None:
        return Const(None, None, here())
    if isinstance(value, Variables):
        value.refuse()
    if isinstance(value, tuple):
        return Call("[]", tuple(map(term_of, value)), here())
    if isinstance(value, FormulaExpr):
        raise TypeError("a literal cannot stand inside a term; compare values of columns instead")
    if isinstance(value, Logical):
        return _logical(value)
    if not isinstance(value, (int, float, str)):
        raise TypeError(f"{value!r} is no term: use a variable, int, float, str, or ... for any")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value!r} cannot be a constant of a rule: it has no text form")
        return Const(value, "float", here())
    return Const(value, "symbol" if isinstance(value, str) else None, here())


def _logical(value: Logical) -> Term:
    """The term for a value of a logical type: its text, cast to the type of its class."""
    text = logical_text(value)
    if isinstance(value, Decimal):  # its class does not say how many digits its type has
        if len(value.as_tuple().digits) <= FLOAT_DIGITS:
            return Const(float(value), "float", here())
        return Const(text, "symbol", here())
    kind = next((name for of, name in _NAMES.items() if isinstance(value, of)), "date")
    if isinstance(value, datetime):
        kind = "timestamp" if value.utcoffset() is None else "timestamptz"
    return Call("as", (Const(text, "symbol", here()), Const(kind, "symbol", here())), here())


_NAMES: Final[dict[type, str]] = {bool: "boolean", bytes: "blob", time: "time", UUID: "uuid"}
"""Logical types by class, but for days and moments."""


class FormulaExpr:
    """A body: join with `&`, choose with `|`, negate with `~`."""

    __slots__ = ("formula",)

    def __init__(self, formula: Formula) -> None:
        self.formula = formula

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.formula!r})"

    def __bool__(self) -> bool:
        raise TypeError(
            "a literal is neither true nor false: use & | ~ instead of and, or, not; "
            "comparisons do not chain, write (1 < x) & (x < 5)"
        )

    def __and__(self, other: FormulaExpr) -> FormulaExpr:
        return FormulaExpr(conjunction((self.formula, formula_of(other))))

    def __or__(self, other: FormulaExpr) -> FormulaExpr:
        return FormulaExpr(disjunction((self.formula, formula_of(other))))

    def __invert__(self) -> FormulaExpr:
        return FormulaExpr(Not(self.formula, here()))

    def __ge__(self, heads: tuple[AtomExpr, ...]) -> _Stated:
        # Python asks the body when the left side is a tuple: (a(x), b(x)) <= body.
        if not isinstance(heads, tuple) or not all(isinstance(h, AtomExpr) for h in heads):
            raise TypeError("a rule is written head(..) <= body, or (head(..), head(..)) <= body")
        return _add(heads, self.formula)


def formula_of(value: object) -> Formula:
    """The formula of an atom, a comparison or a body. Raises TypeError for what is none."""
    if isinstance(value, FormulaExpr):
        return value.formula
    if isinstance(value, TermExpr):
        raise TypeError(_PARENTHESES)
    raise TypeError(f"{value!r} is no literal: join atoms and comparisons")


class AtomExpr(FormulaExpr):
    """An atom: a literal of a body, or, left of `<=`, the head of a rule."""

    __slots__ = ("atom", "builder")

    def __init__(self, atom: Atom, builder: Written | None) -> None:
        super().__init__(atom)
        self.atom = atom
        self.builder = builder

    def __le__(self, body: FormulaExpr | bool) -> _Stated:
        return _add((self,), And(()) if body is True else formula_of(body))

    def _misuse(self, other: object) -> Never:
        raise TypeError("a rule is written head(..) <= body; only terms can be compared")

    __lt__ = __gt__ = __eq__ = __ne__ = _misuse
    __hash__ = None  # type: ignore[assignment]  # no set of atoms: which are equal is not said


class _Stated:
    """What `head <= body` gives: nothing to compute with, so a chain is noticed."""

    __slots__ = ("_builder", "_place")

    def __init__(self, builder: Written) -> None:
        self._builder = builder
        self._place = len(builder.rules) - 1

    def named(self, name: str) -> None:
        """Give the rule a name, as `.rule NAME` before it does in text."""
        rules = self._builder.rules
        rules[self._place] = replace(rules[self._place], name=name)

    def __bool__(self) -> bool:
        raise TypeError("rules do not chain: write each head(..) <= body as a statement")


def _add(heads: Sequence[AtomExpr], body: Formula) -> _Stated:
    builder = heads[0].builder if heads else None
    if builder is None or builder.closed:
        raise ProgramError("this program is complete: rules are written inside its `with` block")
    builder.rules.append(Rule(tuple(head.atom for head in heads), body, here()))
    return _Stated(builder)
