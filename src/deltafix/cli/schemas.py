"""From a program's declarations to the schemas that fact files are read and written by."""

from __future__ import annotations

from deltafix.facts.schema import Schema
from deltafix.rules.ast import Program

__all__ = ["schemas_of"]


def schemas_of(program: Program) -> dict[str, Schema]:
    """The schema of every declared relation, by name, in declaration order."""
    return {
        declared.name: Schema.of(
            declared.name,
            [attribute.name for attribute in declared.attributes],
            program.column_types(declared.name),
        )
        for declared in program.relations
    }
