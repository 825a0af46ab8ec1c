"""An authorization model as data: types, their relations, and how each relation is defined.

A `TypeDefinition` has `RelationDefinition`s, and each has a *rewrite*: a tree of direct
restrictions, other relations, relations of related objects, and set operations. Beside them stand
`Condition`s, which restrictions name. Invariant:
everything here is immutable and compares by value, places in a text aside, so the DSL and the JSON
form of one model give equal data. Nothing here reads text or checks anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deltafix.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Restriction:
    """Who a tuple may name: `user`, `group#member` (a userset) or `user:*` (everyone).

    `condition`: the one that such a tuple has to carry; empty for none.
    """

    type: str
    relation: str = ""
    wildcard: bool = False
    condition: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> str:
        """Who, whatever the condition."""
        if self.wildcard:
            return f"{self.type}:*"
        return f"{self.type}#{self.relation}" if self.relation else self.type

    def __str__(self) -> str:
        return f"{self.kind} with {self.condition}" if self.condition else self.kind


@dataclass(frozen=True, slots=True)
class Direct:
    """`[user, group#member]`: whoever a tuple names."""

    restrictions: tuple[Restriction, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.restrictions))}]"


@dataclass(frozen=True, slots=True)
class Computed:
    """`editor`: whoever has another relation to the same object."""

    relation: str
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.relation


@dataclass(frozen=True, slots=True)
class FromRelated:
    """`viewer from parent`: whoever has a relation to an object that `tupleset` relates to it."""

    relation: str
    tupleset: str
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.relation} from {self.tupleset}"


@dataclass(frozen=True, slots=True)
class Union:
    """`a or b`."""

    parts: tuple[Rewrite, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return " or ".join(map(_inner, self.parts))


@dataclass(frozen=True, slots=True)
class Intersection:
    """`a and b`."""

    parts: tuple[Rewrite, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return " and ".join(map(_inner, self.parts))


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`a but not b`."""

    base: Rewrite
    excluded: Rewrite
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{_inner(self.base)} but not {_inner(self.excluded)}"


Rewrite: TypeAlias = Direct | Computed | FromRelated | Union | Intersection | Exclusion


def _inner(part: Rewrite) -> str:
    plain = isinstance(part, Direct | Computed | FromRelated)
    return str(part) if plain else f"({part})"


def walk(rewrite: Rewrite) -> Iterator[Rewrite]:
    """The rewrite and all its parts, outer ones first."""
    yield rewrite
    parts: tuple[Rewrite, ...] = ()
    if isinstance(rewrite, Union | Intersection):
        parts = rewrite.parts
    elif isinstance(rewrite, Exclusion):
        parts = (rewrite.base, rewrite.excluded)
    for part in parts:
        yield from walk(part)


@dataclass(frozen=True, slots=True)
class RelationDefinition:
    """`define name: rewrite`."""

    name: str
    rewrite: Rewrite
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def restrictions(self) -> tuple[Restriction, ...]:
        """Who tuples of this relation may name; none if it has no direct part."""
        return tuple(
            restriction
            for part in walk(self.rewrite)
            if isinstance(part, Direct)
            for restriction in part.restrictions
        )

    def __str__(self) -> str:
        return f"define {self.name}: {self.rewrite}"


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """`type name` with its relations, in the order of the text."""

    name: str
    relations: tuple[RelationDefinition, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    def relation(self, name: str) -> RelationDefinition | None:
        """The relation called `name`, if there is one."""
        return next((relation for relation in self.relations if relation.name == name), None)


@dataclass(frozen=True, slots=True)
class ParameterType:
    """`int`, `timestamp` and so on; `list` and `map` are of another one."""

    name: str
    of: ParameterType | None = None

    def __str__(self) -> str:
        return self.name if self.of is None else f"{self.name}<{self.of}>"


@dataclass(frozen=True, slots=True)
class Condition:
    """`condition name(parameter: type, ...) { expression }`; the expression is CEL."""

    name: str
    parameters: tuple[tuple[str, ParameterType], ...]
    expression: str
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}: {kind}" for name, kind in self.parameters)
        return f"condition {self.name}({parameters}) {{\n  {self.expression}\n}}"


@dataclass(frozen=True, slots=True)
class Model:
    """An authorization model.

    Attributes:
        types, conditions: in the order of the text.
        sources: the texts it was read from by file (None for a text of its own), for carets.
    """

    types: tuple[TypeDefinition, ...]
    conditions: tuple[Condition, ...] = ()
    sources: Mapping[str | None, str] = field(default_factory=dict, compare=False, repr=False)

    def type(self, name: str) -> TypeDefinition | None:
        """The type called `name`, if there is one."""
        return next((type_ for type_ in self.types if type_.name == name), None)

    def relation(self, type: str, name: str) -> RelationDefinition | None:  # noqa: A002
        """The relation `type#name`, if there is one."""
        definition = self.type(type)
        return None if definition is None else definition.relation(name)

    def condition(self, name: str) -> Condition | None:
        """The condition called `name`, if there is one."""
        return next((condition for condition in self.conditions if condition.name == name), None)

    def __str__(self) -> str:
        lines = ["model", "  schema 1.1"]
        for type_ in self.types:
            lines += ["", f"type {type_.name}"]
            if type_.relations:
                lines.append("  relations")
                lines += [f"    {relation}" for relation in type_.relations]
        for condition in self.conditions:
            lines += ["", str(condition)]
        return "\n".join(lines) + "\n"
