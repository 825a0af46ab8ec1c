"""What declarations of types say to points-to: which fields are structs, arrays or of a union.

Fields go by their names alone, over all types and files: the type behind a pointer is often only
known in a header, and a cast may change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltafix.analyses.c.declare import Declared, declared, fields
from deltafix.analyses.c.parse import parts, text
from deltafix.analyses.facts import Fact

if TYPE_CHECKING:
    from tree_sitter import Node

_RECORDS = {"struct_specifier", "union_specifier"}


def type_facts(root: Node) -> Iterator[Fact]:
    """The facts of every struct, union and type name declared in a file. O(nodes)."""
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        if node.type == "type_definition":
            for one in declared(node):
                yield from _named(one)
                if not one.shape and one.base == "record":
                    yield from _layout(one.name, node.child_by_field_name("type"))
        elif node.type in _RECORDS:
            for one in fields(node):
                yield from _field(one)
            tag = node.child_by_field_name("name")
            if tag is not None:
                yield from _layout(f"struct {text(tag)}", node)
            if node.type == "union_specifier":
                names = sorted(set(_names(node)))
                for name in names[1:]:
                    yield "overlaps", (names[0], name)
                    yield "overlaps", (name, names[0])


def typed_facts(symbol: str, one: Declared | None) -> Iterator[Fact]:
    """Whether a variable, or the value that a function returns, is a struct as a whole."""
    if one is None or not one.may_be_record:
        return
    if one.base == "record":
        yield "record", (symbol,)
    else:
        yield "typed", (symbol, one.base_name)


def _named(one: Declared) -> Iterator[Fact]:
    if one.shape:
        return
    if one.base == "record":
        yield "record_type", (one.name,)
        if one.base_name:
            yield "same_type", (one.name, one.base_name)
    elif one.base == "named":
        yield "same_type", (one.name, one.base_name)


def _layout(name: str, record: Node | None) -> Iterator[Fact]:
    """Which field stands where in a struct, if all of its text is plain declarations of fields."""
    body = None if record is None else record.child_by_field_name("body")
    if record is None or body is None or record.type != "struct_specifier" or body.has_error:
        return
    items = list(parts(body))
    if any(item.type != "field_declaration" or not list(declared(item)) for item in items):
        return
    for position, one in enumerate(one for item in items for one in declared(item)):
        yield "field_at", (name, str(position), one.name)


def _field(one: Declared) -> Iterator[Fact]:
    yield "array_field" if one.shape[:1] == ("array",) else "plain_field", (one.name,)
    if one.shape[:2] == ("array", "array"):
        yield "grid_field", (one.name,)
    if one.may_be_record:
        if one.base == "record":
            yield "embedded", (one.name,)
        else:
            yield "field_typed", (one.name, one.base_name)


def _names(node: Node) -> Iterator[str]:
    """The names of all fields written inside, at any depth; those of structs without their own."""
    for child in parts(node):
        if child.type == "field_declaration":
            yield from (one.name for one in declared(child) if one.base != "record" or one.shape)
        yield from _names(child)
