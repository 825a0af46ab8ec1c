"""Rows of fixture files: tab-separated text to Python values, by the program's column types.

A record is written `[1, a]` or `nil`, a branch `$Node(1, nil)`, as in fact files; symbols inside
them are plain words here. A nullary relation's row is `()`.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.judges.oracle_values import wrap

from deltafix.facts.values import Branch
from deltafix.rules.ast import Program

__all__ = ["kinds_of", "least", "read_rows"]

BASE = {
    "number": int,
    "unsigned": int,
    "float": lambda text=0: wrap(float(text), "float"),
    "symbol": str,
}


def kinds_of(program: Program, relation: str) -> tuple[str, ...]:
    """The kind of each column: a base type or the name of a constructed type."""
    return tuple(program.kind(a.type) for a in program.relation(relation).attributes)


def read_rows(program: Program, relation: str, file: Path) -> set[tuple]:
    """The rows of a file."""
    kinds = kinds_of(program, relation)
    lines = file.read_text(encoding="utf-8").splitlines()
    if not kinds:
        return {() for line in lines if line == "()"}
    split = [line.split("\t") for line in lines]
    return {tuple(map(lambda k, v: value(program, k, v), kinds, row)) for row in split}


def value(program: Program, kind: str, text: str) -> object:
    """One value of a kind."""
    if kind in BASE:
        return BASE[kind](text)
    if text == "nil":
        return None
    branches = {b.name: [program.kind(f.type) for f in b.fields] for b in types(program, kind)}
    head, opening, rest = re.match(r"(\$?[\w.]*)([\[(]?)(.*)", text).groups()
    kinds = branches[head.lstrip("$")]
    parts = split_fields(rest[:-1]) if opening else []
    fields = tuple(map(lambda k, v: value(program, k, v), kinds, parts))
    assert len(parts) == len(kinds)
    return Branch(head[1:], fields) if head else fields


def least(program: Program, kind: str) -> object:
    """Some value of a constructed type: `nil`, or the first branch over such values."""
    first = types(program, kind)[0]
    if not first.name:
        return None
    kinds = [program.kind(f.type) for f in first.fields]
    return Branch(first.name, tuple(BASE[k]() if k in BASE else least(program, k) for k in kinds))


def types(program: Program, kind: str) -> tuple:
    return program.declared_type(kind).branches


def split_fields(text: str) -> list[str]:
    """Fields at the commas that no bracket holds."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found] if text else []
