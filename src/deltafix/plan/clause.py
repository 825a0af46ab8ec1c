"""Core clauses: one head, a flat conjunction, every argument a variable or a constant.

This is the form that plans are derived from; `normalize` makes it. Invariant: arguments are
`Slot` (a variable of the clause) or `Code` (a typed constant) and nothing nested; a wildcard is
None. Clauses are data with a printed form; they order and index nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deltafix.facts.schema import show_value
from deltafix.rules.terms import BaseType, Value

__all__ = [
    "Absent",
    "Apply",
    "Argument",
    "Clause",
    "Code",
    "Compare",
    "Literal",
    "Match",
    "Relation",
    "Slot",
]


@dataclass(frozen=True, slots=True)
class Slot:
    """A variable, by its name in the rule (or `$n` for an intermediate value)."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Code:
    """A constant of a base type."""

    value: Value
    type: BaseType

    def __str__(self) -> str:
        return show_value(self.value)


Argument: TypeAlias = Slot | Code


@dataclass(frozen=True, slots=True)
class Match:
    """A positive literal: some row of `relation` fits `args`."""

    relation: str
    args: tuple[Argument | None, ...]

    def __str__(self) -> str:
        return f"{self.relation}({', '.join('_' if a is None else str(a) for a in self.args)})"


@dataclass(frozen=True, slots=True)
class Absent:
    """A negative literal: the row `args` is not in `relation`."""

    relation: str
    args: tuple[Argument, ...]

    def __str__(self) -> str:
        return f"!{self.relation}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Compare:
    """A test between two arguments of one type; `=` may bind one side from the other."""

    op: str
    type: BaseType
    left: Argument
    right: Argument

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Apply:
    """`target = functor(args)`; binds its target, or tests it where it is bound already."""

    target: Slot
    functor: str
    type: BaseType
    args: tuple[Argument, ...]

    def __str__(self) -> str:
        return f"{self.target} = {self.functor}({', '.join(map(str, self.args))})"


Literal: TypeAlias = Match | Absent | Compare | Apply


@dataclass(frozen=True, slots=True)
class Clause:
    """`head(args) :- body`, from rule number `rule` of the program."""

    head: str
    args: tuple[Argument, ...]
    body: tuple[Literal, ...]
    rule: int

    def __str__(self) -> str:
        shown = f"{self.head}({', '.join(map(str, self.args))})"
        return f"{shown} :- {', '.join(map(str, self.body))}." if self.body else f"{shown}."


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the core: `hidden` ones were made by `normalize` for negated groups."""

    name: str
    types: tuple[BaseType, ...]
    hidden: bool = False
