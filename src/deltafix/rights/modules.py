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
    types = {type_.name: type_ for part in parts for type_ in part.types}
    misfits = list(_misfits(parts, types))
    texts = {part.source.path: part.source.text for part in parts}
    if misfits:
        raise RightsModelError(render_all(misfits, texts), misfits)
    for part in parts:
        for extension in part.extended:
            type_ = types[extension.name]
            types[extension.name] = TypeDefinition(
                type_.name, type_.relations + extension.relations, type_.span
            )
    conditions = by_name(condition for part in parts for condition in part.conditions)
    return Model(tuple(types.values()), conditions, texts)


def _misfits(parts: list[Part], types: dict[str, TypeDefinition]) -> Iterable[Diagnostic]:
    definitions: dict[str, TypeDefinition] = {}
    for part in parts:
        for type_ in part.types:
            first = definitions.setdefault(type_.name, type_)
            if first is not type_:
                message = f"type `{type_.name}` is defined in {_file(first)}, too"
                yield _wrong(message, type_, f"write `extend type {type_.name}` for its relations")
    for part in parts:
        extended: set[str] = set()
        for extension in part.extended:
            if extension.name not in types:
                valid = did_you_mean(extension.name, list(types), f"there is: {', '.join(types)}")
                yield _wrong(f"unknown type `{extension.name}` is extended", extension, valid)
            if extension.name in extended:
                message = f"type `{extension.name}` is extended twice in this file"
                yield _wrong(message, extension, "put its relations together")
            extended.add(extension.name)
            if not extension.relations:
                message = f"type `{extension.name}` is extended by nothing"
                yield _wrong(message, extension, "write `relations` and `define` below it")


def _wrong(message: str, type_: TypeDefinition, valid: str) -> Diagnostic:
    return Diagnostic(RightsModelError.code, message, type_.span, valid)


def _file(type_: TypeDefinition) -> str:
    return f"{type_.span.path}:{type_.span.line}" if type_.span is not None else "another file"
