"""Modules: files that together are one model.

A file says which module it is of. It defines types and conditions, and extends types of other files
with relations of its own. Invariant: in what comes out, a type stands where it was defined, with
the relations that extend it behind its own, in the order of files; every place in it names its
file. Modules are gone then: nothing in deltafix asks who owns a type.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltafix.diagnostics import Diagnostic, did_you_mean, render_all
from deltafix.errors import RightsModelError
from deltafix.rights.dsl import Part, by_name, parse_module
from deltafix.rights.model import Model, TypeDefinition


def composed(files: Iterable[tuple[str, str]]) -> Model:
    """One model from the texts of files, each with its path. O(characters).

    Raises RightsModelError: of the first text that is none, or for all that does not fit together.
    """
    parts = [parse_module(text, path) for text, path in files]
    types = {one.name: one for part in parts for one in part.types}
    found = list(_misfits(parts, types))
    texts = {part.source.path: part.source.text for part in parts}
    if found:
        raise RightsModelError(render_all(found, texts), found)
    for part in parts:
        for more in part.extended:
            one = types[more.name]
            types[more.name] = TypeDefinition(one.name, one.relations + more.relations, one.span)
    conditions = by_name(one for part in parts for one in part.conditions)
    return Model(tuple(types.values()), conditions, texts)


def _misfits(parts: list[Part], types: dict[str, TypeDefinition]) -> Iterable[Diagnostic]:
    where: dict[str, TypeDefinition] = {}
    for part in parts:
        for one in part.types:
            first = where.setdefault(one.name, one)
            if first is not one:
                message = f"type `{one.name}` is defined in {_file(first)}, too"
                yield _wrong(message, one, f"write `extend type {one.name}` for its relations")
    for part in parts:
        extended: set[str] = set()
        for one in part.extended:
            if one.name not in types:
                there = did_you_mean(one.name, list(types), f"there is: {', '.join(types)}")
                yield _wrong(f"unknown type `{one.name}` is extended", one, there)
            if one.name in extended:
                message = f"type `{one.name}` is extended twice in this file"
                yield _wrong(message, one, "put its relations together")
            extended.add(one.name)
            if not one.relations:
                message = f"type `{one.name}` is extended by nothing"
                yield _wrong(message, one, "write `relations` and `define` below it")


def _wrong(message: str, one: TypeDefinition, valid: str) -> Diagnostic:
    return Diagnostic(RightsModelError.code, message, one.span, valid)


def _file(one: TypeDefinition) -> str:
    return f"{one.span.path}:{one.span.line}" if one.span is not None else "another file"
