"""From what was written to `rules.ast`: every type name gets its base type.

Invariant: a `TypeDecl` that leaves here has one base type; unknown parents, parents of different
bases and types defined by themselves are reported (DF106, DF111). Constructed types may mention
themselves in their fields, whose types `rules.check` looks at.
"""

from __future__ import annotations

from deltafix.datalog.types import Types, TypeSyntax
from deltafix.diagnostics import Diagnostic, suggest
from deltafix.facts.values import BaseType
from deltafix.rules.ast import TypeDecl

BASES: dict[str, BaseType] = {
    "number": "number",
    "unsigned": "unsigned",
    "float": "float",
    "symbol": "symbol",
}


def lower_types(syntax: Types) -> tuple[tuple[TypeDecl, ...], tuple[Diagnostic, ...]]:
    """The type declarations with their base types, and what is wrong with them. Linear."""
    found: list[Diagnostic] = []
    written: dict[str, TypeSyntax] = {}
    for declared in syntax.types:
        if declared.name in BASES or declared.name in written:
            first = written.get(declared.name)
            where = f"first declared on line {first.span.line}" if first else "it is a base type"
            found.append(
                Diagnostic(
                    "DF111", f"type `{declared.name}` is declared twice", declared.span, where
                )
            )
        else:
            written[declared.name] = declared
    bases = dict(BASES)
    wrong: set[str] = set()
    # A type is settled once all its parents are; whatever never settles is in or below a cycle.
    waiting = {
        name: [parent.text for parent in item.parents if parent.text in written]
        for name, item in written.items()
    }
    children: dict[str, list[str]] = {}
    for name, parents in waiting.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)
    missing = {name: len(parents) for name, parents in waiting.items()}
    ready = [name for name, count in missing.items() if count == 0]
    while ready:
        name = ready.pop()
        item = written[name]
        kinds: dict[str, BaseType] = {}
        for token in item.parents:
            if token.text in bases:
                kinds[token.text] = bases[token.text]
            elif token.text not in wrong:
                close = suggest(token.text, [*BASES, *written])
                hint = f"did you mean `{close}`?" if close else f"base types: {' '.join(BASES)}"
                found.append(
                    Diagnostic("DF106", f"there is no type `{token.text}`", token.span, hint)
                )
        if item.branches:
            bases[name] = "record"
        elif "record" in kinds.values() and len(kinds) > 1:
            wrong.add(name)
            message = f"type `{name}` is a union with a constructed type"
            hint = "a branch of an algebraic data type is written `name {field: type}`"
            found.append(Diagnostic("DF106", message, item.span, hint))
        elif len(set(kinds.values())) == 1 and len(kinds) == len({p.text for p in item.parents}):
            bases[name] = next(iter(kinds.values()))
        else:
            wrong.add(name)
            if len(set(kinds.values())) > 1:
                listed = ", ".join(f"{parent} is {base}" for parent, base in kinds.items())
                found.append(
                    Diagnostic(
                        "DF106",
                        f"type `{name}` mixes base types: {listed}",
                        item.span,
                        "a union has one base type",
                    )
                )
        for child in children.get(name, ()):
            missing[child] -= 1
            if missing[child] == 0:
                ready.append(child)
    for name, count in missing.items():
        if count > 0:
            message = f"type `{name}` is defined by itself"
            hint = f"base types: {' '.join(BASES)}"
            found.append(Diagnostic("DF106", message, written[name].span, hint))
    types = tuple(
        TypeDecl(
            name,
            bases[name],
            tuple(parent.text for parent in item.parents),
            item.branches,
            item.span,
            item.subtype,
        )
        for name, item in written.items()
        if name in bases
    )
    return types, tuple(found)
