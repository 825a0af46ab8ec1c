"""Relations a pipeline adds to a program: who said a row, and how often.

    R__file(file, columns)    a row of R as said by one file; R follows from it, so a row is there
                              while some file says it, and a changed file replaces its own rows only
    R__times(columns, n)      a row of R that was put in n > 1 times (`duplicates = "count"`)
    R__key(columns, sequence) the row of each key (`key`); R follows from it
    R__gone(key, sequence)    keys that were deleted last
    R__both(key)              keys in both: none; its rule gives both an index by key

Invariant: the program's own relations derive what they would if their rows were given; the added
ones are kept by the engine like any other, so they are as durable and as exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deltafix.engine.rule_edits import changed_program, edited_rules
from deltafix.errors import ConfigError
from deltafix.pipeline.keyed import GONE, KEYED, Keying, sequence_columns
from deltafix.pipeline.times import COUNTS
from deltafix.rules.ast import Program

__all__ = ["FILE", "NOTHING", "Additions", "augment"]

FILE = "__file"
"""Appended to a relation's name: its rows by file; the first column is the file's path."""


_BOTH = "__both"


@dataclass(frozen=True, slots=True)
class Additions:
    """What inputs add to a program: relations that come by file, are counted, are keyed."""

    by_file: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    keyed: Mapping[str, Keying] = field(default_factory=dict)


NOTHING: Final = Additions()


def augment(program: Program, additions: Additions) -> Program:
    """The program with the relations that its inputs need. Raises ConfigError for a name taken."""
    declared = {relation.name for relation in program.relations}
    lines = []
    for name in additions.by_file:
        columns = _columns(program, name)
        variables = ", ".join(f"v{place}" for place in range(len(columns)))
        lines.append(f".decl {name}{FILE}(file{FILE}: symbol, {', '.join(columns)})")
        lines.append(f"{name}({variables}) :- {name}{FILE}(_, {variables}).")
        _require_free(name + FILE, declared)
    for name in additions.counted:
        lines.append(
            f".decl {name}{COUNTS}({', '.join(_columns(program, name))}, n{COUNTS}: number)"
        )
        _require_free(name + COUNTS, declared)
    for name, keying in additions.keyed.items():
        lines += _keyed(program, name, keying)
        for end in (KEYED, GONE, _BOTH):
            _require_free(name + end, declared)
    if not lines:
        return program
    return changed_program(program, (edited_rules(program, (), "\n".join(lines), adds=True),))


def _columns(program: Program, name: str) -> list[str]:
    return [f"{one.name}: {one.type}" for one in program.relation(name).attributes]


def _keyed(program: Program, name: str, keying: Keying) -> list[str]:
    names = [one.name for one in program.relation(name).attributes]
    own = _columns(program, name)
    key = [own[names.index(one)] for one in names if one in keying.key]
    beside = sequence_columns(keying)
    parts = [f"{one}: number" for one in beside]
    row = ", ".join(f"v{place}" for place in range(len(names)))
    chosen = ", ".join(f"v{place}" for place, one in enumerate(names) if one in keying.key)
    blanks = "".join(", _" for _ in beside)
    others = ", ".join(f"v{n}" if one in keying.key else "_" for n, one in enumerate(names))
    return [
        f".decl {name}{KEYED}({', '.join([*own, *parts])})",
        f".decl {name}{GONE}({', '.join([*key, *parts])})",
        f".decl {name}{_BOTH}({', '.join(key)})",
        f"{name}({row}) :- {name}{KEYED}({row}{blanks}).",
        f"{name}{_BOTH}({chosen}) :- {name}{KEYED}({others}{blanks}), "
        f"{name}{GONE}({chosen}{blanks}).",
    ]


def _require_free(name: str, declared: set[str]) -> None:
    if name in declared:
        message = f"the program declares {name!r}, a name that the pipeline needs; rename it"
        raise ConfigError(message, value=name)
