"""One item of a component with its names replaced by what they mean in an instance.

Invariant: only names change. Spans stay, so an error in an instance is shown in the component.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from deltafix.datalog.lexer import Token
from deltafix.datalog.types import TypeSyntax
from deltafix.diagnostics import Span
from deltafix.rules.ast import (
    Atom,
    Attribute,
    Dominates,
    FunctorDecl,
    LatticeDecl,
    RelationDecl,
    Rule,
)
from deltafix.rules.terms import Call, Const

Naming = Callable[[str], str]


def _columns(columns: tuple[Attribute, ...], types: Naming) -> tuple[Attribute, ...]:
    return tuple(replace(column, type=types(column.type)) for column in columns)


def renamed_relation(declared: RelationDecl, name: str, types: Naming) -> RelationDecl:
    """The declaration under another name, its columns' types replaced."""
    return replace(declared, name=name, attributes=_columns(declared.attributes, types))


def renamed_type(declared: TypeSyntax, name: str, types: Naming, branches: Naming) -> TypeSyntax:
    """The declaration under another name, the types it is made of and its branches replaced."""
    parents = tuple(_token(parent, types(parent.text)) for parent in declared.parents)
    made = tuple(
        replace(b, name=branches(b.name) if b.name else "", fields=_columns(b.fields, types))
        for b in declared.branches
    )
    return replace(declared, name=name, parents=parents, branches=made)


def renamed_functor(declared: FunctorDecl, types: Naming) -> FunctorDecl:
    """The declaration with its types replaced; a functor's name is the whole program's."""
    arguments = _columns(declared.arguments, types)
    return replace(declared, arguments=arguments, result=types(declared.result))


def renamed_lattice(declared: LatticeDecl, types: Naming, branches: Naming) -> LatticeDecl:
    """The lattice of the type under its full name, branches in its constants replaced."""
    operations = tuple(
        (name, _renamed(term, str, types, branches)) for name, term in declared.operations
    )
    return replace(declared, type=types(declared.type), operations=operations)


def _token(token: Token, text: str) -> Token:
    return replace(token, text=text)


def renamed_rule(rule: Rule, relations: Naming, types: Naming, branches: Naming) -> Rule:
    """The rule with every atom's relation, every cast's type and every branch replaced."""
    found = _renamed(rule, relations, types, branches)
    assert isinstance(found, Rule)  # noqa: S101  renaming keeps the kind of node
    return found


def renamed_order(
    order: Dominates, relations: Naming, types: Naming, branches: Naming
) -> Dominates:
    """A subsumption, renamed as a rule is."""
    found = _renamed(order, relations, types, branches)
    assert isinstance(found, Dominates)  # noqa: S101  renaming keeps the kind of node
    return found


def _renamed(node: Any, relations: Naming, types: Naming, branches: Naming) -> Any:
    if isinstance(node, tuple):
        return tuple(_renamed(part, relations, types, branches) for part in node)
    if isinstance(node, Call) and node.functor == "as":
        inner, target = node.args
        if isinstance(target, Const):
            target = replace(target, value=types(str(target.value)))
        return replace(node, args=(_renamed(inner, relations, types, branches), target))
    if not is_dataclass(node) or isinstance(node, Span | type):
        return node
    parts = {
        part.name: _renamed(value, relations, types, branches)
        for part in fields(node)
        if isinstance(value := getattr(node, part.name), tuple) or is_dataclass(value)
    }
    if isinstance(node, Atom):
        parts["relation"] = relations(node.relation)
    if isinstance(node, Call) and node.functor.startswith("$"):
        parts["functor"] = f"${branches(node.functor[1:])}"
    return replace(node, **parts)
