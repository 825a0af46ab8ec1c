"""Relations a pipeline adds to a program: who said a row, and how often.

    R__file(file, columns)    a row of R as said by one file; R follows from it, so a row is there
                              while some file says it, and a changed file replaces its own rows only
    R__times(columns, n)      a row of R that was put in n > 1 times (`duplicates = "count"`)

Invariant: the program's own relations derive what they would if their rows were given; the added
ones are kept by the engine like any other, so they are as durable and as exact.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltafix.engine.rule_edits import changed_program, edited_rules
from deltafix.errors import ConfigError
from deltafix.pipeline.times import COUNTS
from deltafix.rules.ast import Program

__all__ = ["FILE", "augment"]

FILE = "__file"
"""Appended to a relation's name: its rows by file; the first column is the file's path."""


def augment(program: Program, by_file: Iterable[str], counted: Iterable[str]) -> Program:
    """The program with the relations that its inputs need. Raises ConfigError for a name taken."""
    declared = {relation.name for relation in program.relations}
    lines = []
    for name in by_file:
        columns = _columns(program, name)
        variables = ", ".join(f"v{place}" for place in range(len(columns)))
        lines.append(f".decl {name}{FILE}(file{FILE}: symbol, {', '.join(columns)})")
        lines.append(f"{name}({variables}) :- {name}{FILE}(_, {variables}).")
        _require_free(name + FILE, declared)
    for name in counted:
        lines.append(
            f".decl {name}{COUNTS}({', '.join(_columns(program, name))}, n{COUNTS}: number)"
        )
        _require_free(name + COUNTS, declared)
    if not lines:
        return program
    return changed_program(program, (edited_rules(program, (), "\n".join(lines), adds=True),))


def _columns(program: Program, name: str) -> list[str]:
    return [f"{one.name}: {one.type}" for one in program.relation(name).attributes]


def _require_free(name: str, declared: set[str]) -> None:
    if name in declared:
        message = f"the program declares {name!r}, a name that the pipeline needs; rename it"
        raise ConfigError(message, value=name)
