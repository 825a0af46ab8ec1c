"""Which relations a program wants inlined or computed on demand.

Words behind a declaration (`inline`, `magic`, `no_inline`, `no_magic`) and pragmas with lists of
names (`inline-exclude`, `magic-transform`, `magic-transform-exclude`), `*` for every relation. A
word on the relation itself beats a pragma's `*`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deltafix.diagnostics import Diagnostic, did_you_mean
from deltafix.rules.ast import Program

_PRAGMAS: Final = ("inline-exclude", "magic-transform", "magic-transform-exclude")


def inline_names(program: Program) -> frozenset[str]:
    """The relations to be inlined."""
    kept = _listed(program, "inline-exclude") | _worded(program, "no_inline")
    return frozenset(_worded(program, "inline") - kept)


def magic_names(program: Program) -> frozenset[str]:
    """The relations to be computed on demand, where demand is known."""
    kept = _listed(program, "magic-transform-exclude") | _worded(program, "no_magic")
    wanted = _listed(program, "magic-transform") - kept
    wanted |= _worded(program, "magic") - _worded(program, "no_magic")
    # What joins or drops rows must see them all.
    names = (declared.name for declared in program.relations)
    return frozenset(name for name in names if name in wanted and not program.keeps(name))


def check_hints(program: Program) -> Iterator[Diagnostic]:
    """Report what pragmas name that is not there: relations, and word sizes (DF114)."""
    known = [relation.name for relation in program.relations]
    for key, value in program.pragmas:
        if key == "word-size" and value not in ("32", "64"):
            yield Diagnostic("DF114", f'.pragma "{key}" asks for "{value}" bits', None, "32 or 64")
        for name in _names(value) if key in _PRAGMAS else ():
            if name != "*" and name not in known:
                hint = did_you_mean(name, known, "valid: `*`, or names with commas")
                message = f'.pragma "{key}" names the undeclared relation `{name}`'
                yield Diagnostic("DF114", message, None, hint)


def _worded(program: Program, word: str) -> set[str]:
    return {declared.name for declared in program.relations if word in declared.qualifiers}


def _listed(program: Program, pragma: str) -> set[str]:
    names = {name for key, value in program.pragmas if key == pragma for name in _names(value)}
    if "*" in names:
        names |= {declared.name for declared in program.relations}
    return names - {"*"}


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]
