"""Formulae as data: ⊤ ⊥ R ∧ ∨ ¬ ∃ ∀, tests, aggregates and connectives over relation symbols.

Invariant: a formula is immutable, compares by value, and prints as one would write it
(`str(formula)`), so a symbolic derivative can be read and pinned in a test. A relation symbol
carries the *state* it is read in: now, its additions (↑), its removals (↓), or next (X), which is
how derivatives of formulae are formulae again. Meaning is in `evaluate`, derivatives in `symbolic`
rules (`formula_derivative`), rewriting in `simplify`.

Source: Fixing incremental computation, section 4 (formula semantics, extensions).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, TypeAlias, get_args

from deltafix.errors import ChangeError

__all__ = [
    "BOTTOM",
    "TOP",
    "Aggregate",
    "And",
    "Argument",
    "Connected",
    "Connective",
    "Constant",
    "Exists",
    "Forall",
    "Formula",
    "Not",
    "Or",
    "Relation",
    "State",
    "Test",
    "Truth",
    "children",
    "conjunction",
    "disjunction",
    "exists",
    "free_variables",
    "relation_names",
    "unknown",
    "with_parts",
]

State: TypeAlias = Literal["now", "up", "down", "next"]
"""Which value of a relation is read: before the change, added, removed, after the change."""

_MARKS: dict[State, str] = {"now": "", "up": "↑", "down": "↓", "next": "X"}
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_FUNCTIONS = ("count", "sum", "min", "max")


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant argument; a plain `str` argument is a variable."""

    value: Hashable

    def __str__(self) -> str:
        return repr(self.value)


Argument: TypeAlias = str | Constant


@dataclass(frozen=True, slots=True)
class Truth:
    """⊤ (`value=True`: every tuple) or ⊥ (no tuple)."""

    value: bool

    def __str__(self) -> str:
        return "⊤" if self.value else "⊥"


TOP = Truth(True)
BOTTOM = Truth(False)


@dataclass(frozen=True, slots=True)
class Relation:
    """`R(args)` read in a state. The same variable twice asks for equal columns.

    Raises:
        ChangeError: The state is unknown.
    """

    name: str
    args: tuple[Argument, ...]
    state: State = "now"

    def __post_init__(self) -> None:
        if self.state not in _MARKS:
            raise ChangeError(f"{self.state!r} is not a state; valid are {', '.join(_MARKS)}")

    def __str__(self) -> str:
        text = f"{self.name}({', '.join(map(str, self.args))})"
        mark = _MARKS[self.state]
        return f"X({text})" if mark == "X" else f"{mark}{text}"


@dataclass(frozen=True, slots=True)
class Test:
    """`left op right` over values: rigid, it does not change when relations do.

    Raises:
        ChangeError: `op` is not one of `= != < <= > >=`.
    """

    __test__ = False  # not a test case, for pytest

    op: str
    left: Argument
    right: Argument

    def __post_init__(self) -> None:
        if self.op not in _OPERATORS:
            raise ChangeError(f"{self.op!r} is not a comparison; valid are {' '.join(_OPERATORS)}")

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of two formulae."""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return " ∧ ".join(_inside(part) for part in _flat(And, self))


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of two formulae."""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return " ∨ ".join(_inside(part) for part in _flat(Or, self))


@dataclass(frozen=True, slots=True)
class Not:
    """Negation: the universe of the schema without the formula's tuples."""

    body: Formula

    def __str__(self) -> str:
        return f"¬{_inside(self.body)}"


@dataclass(frozen=True, slots=True)
class Exists:
    """Some value of `variable` makes `body` hold."""

    variable: str
    body: Formula

    def __str__(self) -> str:
        return f"∃{self.variable}.{_inside(self.body)}"


@dataclass(frozen=True, slots=True)
class Forall:
    """Every value of `variable` makes `body` hold."""

    variable: str
    body: Formula

    def __str__(self) -> str:
        return f"∀{self.variable}.{_inside(self.body)}"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`result = function(value)(over | domain | body)`, as in section 4.3.

    Over all bindings of `over` and `value` for which `domain ∧ body` holds, the multiset of
    `value`s is aggregated. `count` and `sum` of nothing are 0; `min` and `max` of nothing do not
    hold for any result.

    Raises:
        ChangeError: The function is unknown.
    """

    result: str
    function: str
    value: str
    over: tuple[str, ...]
    domain: Formula
    body: Formula

    def __post_init__(self) -> None:
        if self.function not in _FUNCTIONS:
            raise ChangeError(
                f"{self.function!r} is not an aggregate; valid are {', '.join(_FUNCTIONS)}"
            )

    def __str__(self) -> str:
        return (
            f"{self.result} = {self.function}({self.value})"
            f"({', '.join(self.over)} | {self.domain} | {self.body})"
        )


@dataclass(frozen=True, slots=True)
class Connective:
    """A connective of one's own: when it holds of its parts, and its ↑ and ↓.

    The three are formulae over the parameters, each of them `Relation(parameter, ())` in one of
    its states. `changes.connective` makes one from functions, and checks it first.
    """

    name: str
    parameters: tuple[str, ...]
    holds: Formula
    up: Formula
    down: Formula


@dataclass(frozen=True, slots=True)
class Connected:
    """`connective(part₁, …, partₙ)`."""

    connective: Connective
    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return f"{self.connective.name}({', '.join(map(str, self.parts))})"

    def in_place(
        self, side: Literal["holds", "up", "down"], read: Callable[[Formula, State], Formula]
    ) -> Formula:
        """One of the connective's formulae, with `read(part, state)` for its parameters."""
        parts = dict(zip(self.connective.parameters, self.parts, strict=True))

        def put(inner: Formula) -> Formula:
            if isinstance(inner, Relation):
                return read(parts[inner.name], inner.state)
            return with_parts(inner, map(put, children(inner)))

        sides = {"holds": self.connective.holds, "up": self.connective.up}
        return put(sides.get(side, self.connective.down))

    @property
    def spelled_out(self) -> Formula:
        """What it means, without the connective."""
        return self.in_place("holds", lambda part, _: part)


Formula: TypeAlias = (
    Truth | Relation | Test | And | Or | Not | Exists | Forall | Aggregate | Connected
)


def _flat(kind: type[And] | type[Or], formula: Formula) -> list[Formula]:
    if isinstance(formula, kind):
        return [*_flat(kind, formula.left), *_flat(kind, formula.right)]
    return [formula]


def _inside(formula: Formula) -> str:
    return f"({formula})" if isinstance(formula, And | Or | Test | Aggregate) else str(formula)


def conjunction(*parts: Formula) -> Formula:
    """`p₁ ∧ … ∧ pₙ`; the empty conjunction is ⊤."""
    return reduce(And, parts) if parts else TOP


def disjunction(*parts: Formula) -> Formula:
    """`p₁ ∨ … ∨ pₙ`; the empty disjunction is ⊥."""
    return reduce(Or, parts) if parts else BOTTOM


def exists(variables: Iterable[str], body: Formula) -> Formula:
    """`∃v₁.….∃vₙ.body`."""
    for variable in reversed(list(variables)):
        body = Exists(variable, body)
    return body


def children(formula: Formula) -> tuple[Formula, ...]:
    """Direct parts of a formula, in the order they are written."""
    match formula:
        case And(left, right) | Or(left, right):
            return (left, right)
        case Not(body) | Exists(_, body) | Forall(_, body):
            return (body,)
        case Aggregate():
            return (formula.domain, formula.body)
        case Connected(_, parts):
            return parts
        case Truth() | Relation() | Test():
            return ()
        case _:
            raise unknown(formula)


def with_parts(formula: Formula, parts: Iterable[Formula]) -> Formula:
    """The formula with other direct parts, as many as `children` gives and in their order."""
    match formula:
        case And() | Or():
            return type(formula)(*parts)
        case Not():
            return Not(*parts)
        case Exists(variable) | Forall(variable):
            return type(formula)(variable, *parts)
        case Aggregate():
            domain, body = parts
            return replace(formula, domain=domain, body=body)
        case Connected(connective):
            return Connected(connective, tuple(parts))
        case _:
            return formula


def unknown(formula: object) -> ChangeError:
    """The error for what is no formula: nothing is known of its value or its derivative."""
    kinds = ", ".join(kind.__name__ for kind in get_args(Formula))
    return ChangeError(f"{formula!r} is no formula; those are {kinds}")


def free_variables(formula: Formula) -> frozenset[str]:
    """The variables a formula's schema must have."""
    match formula:
        case Relation(_, args):
            return frozenset(arg for arg in args if isinstance(arg, str))
        case Test(_, left, right):
            return frozenset(arg for arg in (left, right) if isinstance(arg, str))
        case Exists(variable, body) | Forall(variable, body):
            return free_variables(body) - {variable}
        case Aggregate():
            inner = free_variables(formula.domain) | free_variables(formula.body)
            return (inner - {*formula.over, formula.value}) | {formula.result}
        case _:
            return frozenset().union(*map(free_variables, children(formula)))


def relation_names(formula: Formula) -> frozenset[str]:
    """Names of all relations a formula reads, in whatever state."""
    if isinstance(formula, Relation):
        return frozenset((formula.name,))
    return frozenset().union(*map(relation_names, children(formula)))
