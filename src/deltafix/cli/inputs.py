"""The rows that a program's `.input` directives name, read for a command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltafix.facts.schema import Schema
from deltafix.rules.ast import Program

__all__ = ["read_inputs"]


def read_inputs(
    program: Program, schemas: Mapping[str, Schema], folder: Path
) -> list[tuple[str, Any]]:
    """Relation and rows of every `.input` directive, in order. Raises what `read_input` raises."""
    from deltafix.facts.source import read_input  # noqa: PLC0415  quick --help

    return [
        (directive.relation, read_input(schemas[directive.relation], directive.parameters, folder))
        for directive in program.directives
        if directive.kind == "input"
    ]
