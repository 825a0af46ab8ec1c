"""What a program's declarations say, in the form that type inference looks things up.

A *kind* is a base type's name or the name of a record or algebraic data type; subtypes and
equivalent types have the kind of what they stand for. Invariant: built from declarations whose type
names were found sound; building it checks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deltafix.facts.schema import Column, Schema
from deltafix.facts.shapes import Shape
from deltafix.facts.values import WORD
from deltafix.rules.ast import BASES, Attribute, Program

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

    def columns(attributes: tuple[Attribute, ...]) -> Columns:
        return tuple((a.name, program.kind(a.type)) for a in attributes)

    constructed = {
        declared.name: {branch.name: columns(branch.fields) for branch in declared.branches}
        for declared in program.types
        if declared.branches
    }
    used = [kind for kind in map(program.logical, sorted(program.kinds)) if kind is not None]
    constructed |= {kind.name: {"": (("value", kind.inner),)} for kind in used if kind.nullable}
    return Schemas(
        {relation.name: columns(relation.attributes) for relation in program.relations},
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


def row_schemas(program: Program) -> dict[str, Schema]:
    """What the rows of each relation of a checked program must fit."""
    constructed = schemas_of(program).constructed

    def column(attribute: Attribute, bits: int) -> Column:
        kind = program.kind(attribute.type)
        logical = program.logical(kind)
        plain = kind in BASES or logical is not None
        shape = None if plain else Shape(constructed, kind, bits)
        return Column(attribute.name, program.base_type(kind), shape, bits, of=logical)

    # A relation that a planner made, `~…`, holds whole sums: they are cut where a rule reads them.
    return {
        declared.name: Schema(
            declared.name,
            tuple(
                column(attribute, WORD if declared.name.startswith("~") else program.word_size)
                for attribute in declared.attributes
            ),
        )
        for declared in program.relations
    }
