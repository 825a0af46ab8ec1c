"""Terms: what stands inside a rule's literals.

Invariant: terms are immutable and compare by value; `span` says where a term stands in its text
and never takes part in comparison. Terms do not know their relation; types are found by `check`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from deltafix.diagnostics import Span
from deltafix.facts import values


@dataclass(frozen=True, slots=True)
class Var:
    """A logic variable; the same name is the same variable within one rule."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`_`: matches anything, each occurrence on its own."""

    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Const:
    """A constant. `type` is fixed where the text fixes it (`1u`, `1.0`, `"a"`), else None.

    `nil` has the value None.
    """

    value: values.Value
    type: values.BaseType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """An intrinsic functor applied to terms: `+ - * / % ^ band … cat strlen …`.

    Unary minus is `Call("neg", (t,))`; `x ^ y` is exponentiation, as in Soufflé. A record is
    `Call("[]", fields)`, a branch `Call("$name", fields)`, a user functor `Call("@name", args)`.
    """

    functor: str
    args: tuple[Term, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count/sum/min/max/mean/@@name target : { body }`; `target` is None for count.

    `body` is a `deltafix.rules.ast.Formula` (typed as object here: terms lie below formulae). It is
    counted by the values of `over`, variables that each of its alternatives binds: however often it
    holds for them, that is once. None, as all that a text says: by all of its own variables.
    `kind`, of a sum of decimals, is their type, whose digits it may reach (`rules.logical`).
    """

    op: str
    target: Term | None
    body: object
    span: Span | None = field(default=None, compare=False, repr=False)
    over: tuple[Term, ...] | None = None
    kind: str = ""


Term: TypeAlias = Var | Wildcard | Const | Call | Aggregate


def constant(term: Term) -> values.Value:
    """The value of a term without variables: a literal, `-` of one, a record or a branch of them.

    Raises ValueError for any other term.
    """
    if isinstance(term, Const):
        return term.value
    if isinstance(term, Call):
        if term.functor == "neg":
            value = constant(term.args[0])
            if isinstance(value, (int, float)):
                return -value
        elif term.functor.startswith("["):
            return tuple(map(constant, term.args))
        elif term.functor.startswith("$"):
            return values.Branch(term.functor[1:], tuple(map(constant, term.args)))
    raise ValueError(f"{term} is no constant")


def has_aggregate(term: Term) -> bool:
    """Whether a term is an aggregate or computes with one."""
    if isinstance(term, Call):
        return any(map(has_aggregate, term.args))
    return isinstance(term, Aggregate)
