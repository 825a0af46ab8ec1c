"""What a program's declarations say, in the form that type inference looks things up.

A *kind* is a base type's name or the name of a record or algebraic data type; subtypes and
equivalent types have the kind of what they stand for. Invariant: built from declarations whose type
names were found sound; building it checks nothing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deltafix.facts.logical_types import LogicalType
from deltafix.facts.schema import Column, Schema
from deltafix.facts.shapes import Shape
from deltafix.facts.values import WORD, BaseType
from deltafix.rules.ast import BASES, Attribute, Program, RelationDecl

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Columns or fields in order, as name and kind."""


@dataclass(frozen=True, slots=True)
class Schemas:
    """Columns of relations, fields of constructed types, types of functors.

    `constructed` maps a type to its branches (a record's one branch is `""`), `branches` a branch
    to its type; `logical` are the logical types whose values are there.
    """

    columns: Mapping[str, Columns]
    constructed: Mapping[str, Mapping[str, Columns]]
    branches: Mapping[str, str]
    functors: Mapping[str, tuple[tuple[str, ...], str]]
    logical: frozenset[str] = frozenset()


def schemas_of(program: Program) -> Schemas:
    """The declarations of a program, looked up. Raises KeyError for an unknown type."""
    constructed = constructed_by(program)
    used = _logical_of(program)
    return Schemas(
        {relation.name: _columns(program, relation.attributes) for relation in program.relations},
        constructed,
        {branch: name for name, shape in constructed.items() for branch in shape if branch},
        {
            functor.name: (
                tuple(program.kind(a.type) for a in functor.arguments),
                program.kind(functor.result),
            )
            for functor in program.functors
        },
        frozenset(kind.inner for kind in used) - frozenset(BASES),
    )


def constructed_by(program: Program) -> dict[str, dict[str, Columns]]:
    """The branches of each constructed type. Raises KeyError for an unknown type."""
    constructed = {
        declared.name: {
            branch.name: _columns(program, branch.fields) for branch in declared.branches
        }
        for declared in program.types
        if declared.branches
    }
    nullable = (kind for kind in _logical_of(program) if kind.nullable)
    return constructed | {kind.name: {"": (("value", kind.inner),)} for kind in nullable}


def _columns(program: Program, attributes: tuple[Attribute, ...]) -> Columns:
    return tuple([(a.name, program.kind(a.type)) for a in attributes])


def _logical_of(program: Program) -> list[LogicalType]:
    return [kind for kind in map(program.logical, sorted(program.kinds)) if kind is not None]


def row_schemas(program: Program, names: Container[str] | None = None) -> dict[str, Schema]:
    """What the rows of each relation of a checked program must fit, or of those with a name."""
    constructed = constructed_by(program)
    word = program.word_size
    said: dict[tuple[str, int], tuple[BaseType, Shape | None, LogicalType | None]] = {}

    def column(attribute: Attribute, bits: int) -> Column:
        key = attribute.type, bits
        if key not in said:
            kind = program.kind(attribute.type)
            logical = program.logical(kind)
            plain = kind in BASES or logical is not None
            shape = None if plain else Shape(constructed, kind, bits)
            said[key] = program.base_type(kind), shape, logical
        base, shape, logical = said[key]
        return Column(attribute.name, base, shape, bits, of=logical)

    def schema(declared: RelationDecl) -> Schema:
        # What a planner made, `~…`, holds whole sums: they are cut where a rule reads them.
        bits = WORD if declared.name.startswith("~") else word
        return Schema(declared.name, tuple([column(one, bits) for one in declared.attributes]))

    wanted = (r for r in program.relations if names is None or r.name in names)
    return {declared.name: schema(declared) for declared in wanted}
