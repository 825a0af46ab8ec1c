"""Programs as data: relations, rules, formulae, directives.

Three nouns, one life: a `Program` is built (text, Python, or operators), checked
(`rules.check`), and handed to `plan`. Invariant: everything here is immutable and compares by
value (spans aside), so two doors that say the same thing give equal programs. Nothing here
evaluates, types or orders anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from deltafix.diagnostics import Span
from deltafix.rules.terms import BaseType, Term

__all__ = [
    "And",
    "Atom",
    "Attribute",
    "Comparison",
    "Directive",
    "Formula",
    "Not",
    "Or",
    "Program",
    "RelationDecl",
    "Rule",
    "TypeDecl",
    "conjunction",
    "disjunction",
]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column: its name and declared type name (a base type or a `.type`)."""

    name: str
    type: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RelationDecl:
    """`.decl name(attributes) qualifiers`. Nullary relations have no attributes."""

    name: str
    attributes: tuple[Attribute, ...]
    qualifiers: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def arity(self) -> int:
        """Number of columns."""
        return len(self.attributes)


@dataclass(frozen=True, slots=True)
class TypeDecl:
    """`.type name <: base` (subtype) or `.type name = a | b` (union/equivalence of base types)."""

    name: str
    base: BaseType
    parents: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Atom:
    """`relation(args)`."""

    relation: str
    args: tuple[Term, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`, op one of `= != < <= > >=`; also `match` and `contains`."""

    op: str
    left: Term
    right: Term
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction; the empty conjunction is true (a fact's body)."""

    parts: tuple[Formula, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction; the empty disjunction is false."""

    parts: tuple[Formula, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of an atom, or of a body group (variables only inside it are existential)."""

    body: Formula
    span: Span | None = field(default=None, compare=False, repr=False)


Formula: TypeAlias = Atom | Comparison | And | Or | Not


def conjunction(parts: Iterable[Formula], span: Span | None = None) -> Formula:
    """All of `parts`, in the one shape every door uses: flat, and no `And` around a single part."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat), span)


def disjunction(parts: Iterable[Formula], span: Span | None = None) -> Formula:
    """Any of `parts`, in the one shape every door uses: flat, and no `Or` around a single part."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Or) else (part,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat), span)


@dataclass(frozen=True, slots=True)
class Rule:
    """`heads :- body.`; several heads share one body; a fact has body `And(())`."""

    heads: tuple[Atom, ...]
    body: Formula = And(())
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def is_fact(self) -> bool:
        """Whether the body is empty."""
        return isinstance(self.body, And) and not self.body.parts


@dataclass(frozen=True, slots=True)
class Directive:
    """`.input/.output/.printsize/.limitsize relation(key=value, …)`."""

    kind: str
    relation: str
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program:
    """Relations + rules + directives + pragmas (key and value).

    `source` is the text it was read from, for error carets.

    Facts in the text are rules with an empty body. Declaration order is kept everywhere:
    printing, plans and deltas follow it.
    """

    relations: tuple[RelationDecl, ...] = ()
    rules: tuple[Rule, ...] = ()
    directives: tuple[Directive, ...] = ()
    types: tuple[TypeDecl, ...] = ()
    source: str | None = field(default=None, compare=False, repr=False)
    path: str | None = field(default=None, compare=False, repr=False)
    pragmas: tuple[tuple[str, str], ...] = ()

    def relation(self, name: str, /) -> RelationDecl:
        """The declaration called `name`. Raises KeyError if there is none."""
        for declared in self.relations:
            if declared.name == name:
                return declared
        raise KeyError(name)

    def base_type(self, type_name: str) -> BaseType:
        """The base type behind a type name. Raises KeyError for an undeclared type."""
        if type_name in ("number", "unsigned", "float", "symbol"):
            return type_name  # type: ignore[return-value]
        for declared in self.types:
            if declared.name == type_name:
                return declared.base
        raise KeyError(type_name)

    def column_types(self, name: str) -> tuple[BaseType, ...]:
        """Base types of a relation's columns, in order."""
        return tuple(self.base_type(a.type) for a in self.relation(name).attributes)

    def names(self, kind: str) -> tuple[str, ...]:
        """Relations with a directive of that kind (`"input"`, `"output"`, …), in order, once."""
        return tuple(dict.fromkeys(d.relation for d in self.directives if d.kind == kind))
