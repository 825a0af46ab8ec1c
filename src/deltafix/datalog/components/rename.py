"""One item of a component with its names replaced by what they mean in an instance.

Invariant: only names change. Spans stay, so an error in an instance is shown in the component.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from deltafix.datalog.lexer import Token
from deltafix.datalog.parser import TypeSyntax
from deltafix.diagnostics import Span
from deltafix.rules.ast import Atom, RelationDecl, Rule
from deltafix.rules.terms import Call, Const

__all__ = ["Naming", "renamed_relation", "renamed_rule", "renamed_type"]

Naming = Callable[[str], str]


def renamed_relation(declared: RelationDecl, name: str, types: Naming) -> RelationDecl:
    """The declaration under another name, its columns' types replaced."""
    columns = tuple(replace(column, type=types(column.type)) for column in declared.attributes)
    return replace(declared, name=name, attributes=columns)


def renamed_type(declared: TypeSyntax, name: str, types: Naming) -> TypeSyntax:
    """The declaration under another name, the types it is made of replaced."""
    parents = tuple(_token(parent, types(parent.text)) for parent in declared.parents)
    return replace(declared, name=name, parents=parents)


def _token(token: Token, text: str) -> Token:
    return replace(token, text=text)


def renamed_rule(rule: Rule, relations: Naming, types: Naming) -> Rule:
    """The rule with every atom's relation and every cast's type replaced."""
    found = _renamed(rule, relations, types)
    assert isinstance(found, Rule)  # noqa: S101  renaming keeps the kind of node
    return found


def _renamed(node: Any, relations: Naming, types: Naming) -> Any:
    if isinstance(node, tuple):
        return tuple(_renamed(part, relations, types) for part in node)
    if isinstance(node, Call) and node.functor == "as":
        inner, target = node.args
        if isinstance(target, Const):
            target = replace(target, value=types(str(target.value)))
        return replace(node, args=(_renamed(inner, relations, types), target))
    if not is_dataclass(node) or isinstance(node, Span | type):
        return node
    parts = {
        part.name: _renamed(value, relations, types)
        for part in fields(node)
        if isinstance(value := getattr(node, part.name), tuple) or is_dataclass(value)
    }
    if isinstance(node, Atom):
        parts["relation"] = relations(node.relation)
    return replace(node, **parts)
