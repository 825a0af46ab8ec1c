"""What a declaration declares: names, with as much of their types as can be seen in one file.

    int *a[3], f(void);      a: shape (array, pointer);  f: shape (function, )

Invariant: `shape` is read from the name outwards, so its first part is what the name itself is.
A type that is only named may be anything, a struct or an array too: its base is "named".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltafix.analyses.c.parse import parts, text, top_level

if TYPE_CHECKING:
    from tree_sitter import Node

_SHAPES = {
    "pointer_declarator": "pointer",
    "array_declarator": "array",
    "function_declarator": "function",
    "abstract_pointer_declarator": "pointer",
    "abstract_array_declarator": "array",
    "abstract_function_declarator": "function",
}
_NAMES = {"identifier", "field_identifier", "type_identifier"}
_RECORDS = {"struct_specifier", "union_specifier"}
_SCALARS = {"primitive_type", "sized_type_specifier", "enum_specifier"}


@dataclass(frozen=True, slots=True)
class Declared:
    """One declared name.

    Attributes:
        at: the name's node.
        shape: what stands between the name and its base type, from the name outwards:
            "pointer", "array" or "function".
        base: "scalar" (arithmetic or void), "record" (struct, union) or "named" (a typedef).
        base_name: the text of the base; "struct tag" or "union tag" for records with a tag.
        words: storage classes and qualifiers written anywhere in the declaration.
        value: the initialiser's node, or None.
        inner: the nearest function declarator, which holds the parameters, or None.
    """

    name: str
    at: Node
    shape: tuple[str, ...]
    base: str
    base_name: str = ""
    words: frozenset[str] = frozenset()
    value: Node | None = None
    inner: Node | None = None

    @property
    def is_function(self) -> bool:
        """Whether the name is a function's, not a variable's."""
        return self.shape[:1] == ("function",)

    @property
    def may_be_record(self) -> bool:
        """Whether a value of this type may be a struct or union; elements count for arrays."""
        shape = tuple(part for part in self.shape if part != "array")
        return not shape and self.base != "scalar"

    def as_parameter(self) -> Declared:
        """The same as a parameter: arrays and functions become pointers to them."""
        if self.shape[:1] not in {("array",), ("function",)}:
            return self
        rest = self.shape[1:] if self.shape[0] == "array" else self.shape
        return Declared(
            self.name, self.at, ("pointer", *rest), self.base, self.base_name, self.words
        )


def declared(node: Node) -> Iterator[Declared]:
    """The names that a declaration, definition, parameter or type definition declares."""
    kind = node.child_by_field_name("type")
    base, base_name = _base(kind)
    words = frozenset(
        text(child)
        for child in node.children
        if child.type in {"storage_class_specifier", "type_qualifier"}
    ) | (frozenset({"typedef"}) if node.type == "type_definition" else frozenset())
    for child in node.children_by_field_name("declarator"):
        value = None
        declarator: Node | None = child
        if child.type == "init_declarator":
            value = child.child_by_field_name("value")
            declarator = child.child_by_field_name("declarator")
        unwrapped = _unwrap(declarator)
        if unwrapped is not None:
            at, shape, inner = unwrapped
            yield Declared(text(at), at, shape, base, base_name, words, value, inner)


def parameters(declarator: Node | None) -> list[Declared | None]:
    """The parameters of a function declarator by position; None for one without a name."""
    listed = None if declarator is None else declarator.child_by_field_name("parameters")
    if listed is None:
        return []
    declarations: list[Declared | None] = []
    for parameter in parts(listed):
        if parameter.type == "identifier":  # the old style: types follow below the list
            declarations.append(Declared(text(parameter), parameter, ("pointer",), "named"))
        elif parameter.type == "parameter_declaration":
            names = list(declared(parameter))
            declarations.append(names[0].as_parameter() if names else None)
    return declarations


def fields(record: Node) -> Iterator[Declared]:
    """The fields of a struct or union, those of unnamed records inside it too."""
    body = record.child_by_field_name("body")
    for item in () if body is None else parts(body):
        if item.type == "field_declaration":
            names = list(declared(item))
            yield from names
            kind = item.child_by_field_name("type")
            if not names and kind is not None and kind.type in _RECORDS:
                yield from fields(kind)


def strays(root: Node) -> Iterator[str]:
    """Names of functions whose body stands alone, because their head could not be read."""
    name = ""
    for item in top_level(root):
        if item.type == "compound_statement":
            yield name
        elif item.type == "declaration":
            name = next(
                (declaration.name for declaration in declared(item) if declaration.is_function),
                name,
            )


def _base(kind: Node | None) -> tuple[str, str]:
    if kind is None:
        return "scalar", "int"
    if kind.type in _RECORDS:
        tag = kind.child_by_field_name("name")
        word = kind.type.removesuffix("_specifier")
        return "record", "" if tag is None else f"{word} {text(tag)}"
    return ("scalar" if kind.type in _SCALARS else "named"), text(kind)


def _unwrap(declarator: Node | None) -> tuple[Node, tuple[str, ...], Node | None] | None:
    """(name, shape from the name outwards, innermost function declarator) of a declarator."""
    outward: list[str] = []
    inner = None
    node = declarator
    while node is not None and node.type not in _NAMES:
        if node.type in _SHAPES:
            outward.append(_SHAPES[node.type])
        if node.type == "function_declarator":
            inner = node
        below = node.child_by_field_name("declarator")
        if below is None:  # in parentheses, or with an attribute
            below = next(
                (c for c in parts(node) if c.type in _NAMES or "declarator" in c.type), None
            )
        node = below
    return None if node is None else (node, tuple(reversed(outward)), inner)
