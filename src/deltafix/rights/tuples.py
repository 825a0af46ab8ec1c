"""Relationship tuples: what one is, and in which input relation of a model it lies.

Invariant: a tuple that gets through `placed` is one that the model allows: its object's type has
the relation, and the relation's list of types has its user, with its condition. Rows of input
relations have no types in them, since the relation's name has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from deltafix.diagnostics import suggest
from deltafix.errors import RightsQuestionError, RightsTupleError
from deltafix.rights.contexts import MisfitError, checked_context, written
from deltafix.rights.graph import Graph, Node, Source, tuple_relation


class Tuple(NamedTuple):
    """`user` has `relation` to `object`: `Tuple("user:anne", "viewer", "document:roadmap")`.

    `user` may also be a userset, `group:eng#member`, or everyone of a type, `user:*`.
    """

    user: str
    relation: str
    object: str

    def __str__(self) -> str:
        return f"{self.user} {self.relation} {self.object}"


class ConditionalTuple(NamedTuple):
    """A tuple that holds where its condition does.

    `context` is JSON text with values for the condition's parameters: what is not in it comes with
    the question. Tuples that differ in condition or context alone stand beside each other.
    """

    user: str
    relation: str
    object: str
    condition: str
    context: str = "{}"

    def __str__(self) -> str:
        return f"{self.user} {self.relation} {self.object} with {self.condition} {self.context}"


AnyTuple: TypeAlias = Tuple | ConditionalTuple


class Subject(NamedTuple):
    """Who a question is about: an object, everyone of a type (`id` is `*`), or a userset."""

    type: str
    id: str
    relation: str = ""

    @property
    def kind(self) -> str:
        """`user`, `user:*` or `group#member`: as lists of types have it."""
        if self.id == "*":
            return f"{self.type}:*"
        return f"{self.type}#{self.relation}" if self.relation else self.type

    def __str__(self) -> str:
        return f"{self.type}:{self.id}" + (f"#{self.relation}" if self.relation else "")


class Placed(NamedTuple):
    """A tuple as a row of an input relation."""

    source: str
    row: tuple[str, ...]


def tuple_of(given: Any) -> AnyTuple:
    """A tuple from (user, relation, object), a mapping with these keys, or a `Tuple`.

    One with a condition has its name and context behind these; in a mapping, `condition` is its
    name, or a mapping with `name` and `context`. Raises RightsTupleError.
    """
    named: tuple[Any, ...] = ()
    if isinstance(given, Mapping):
        parts: tuple[Any, ...] = tuple(given.get(name) for name in Tuple._fields)
        condition = given.get("condition")
        if isinstance(condition, Mapping):
            named = (condition.get("name"), condition.get("context"))
        elif condition:
            named = (condition, given.get("context"))
    else:
        parts = tuple(given) if isinstance(given, list | tuple) else (given,)
        parts, named = parts[:3], parts[3:]
    texts = (*parts, *named[:1])
    if len(parts) != 3 or len(named) > 2 or not all(isinstance(part, str) for part in texts):
        message = f'{given!r} is no tuple; write ("user:anne", "viewer", "document:roadmap")'
        raise RightsTupleError(message, value=given)
    if not named:
        return Tuple(*parts)
    context = named[1] if len(named) > 1 else {}
    if not isinstance(context, str):
        try:
            context = json.dumps(checked_context(context))
        except MisfitError as error:
            raise RightsTupleError(f"tuple {given!r}: {error}", value=given) from None
    return ConditionalTuple(*parts, named[0], context)


def listed(given: Any) -> Iterable[Any]:
    """The tuples of an argument: one tuple, or several in anything that can be gone through."""
    return [given] if isinstance(given, Tuple | ConditionalTuple | Mapping) else given


def subject_of(graph: Graph, text: str) -> Subject:
    """Who `text` names. Raises RightsQuestionError for what the model does not have."""
    kind, colon, rest = text.partition(":")
    name, mark, relation = rest.partition("#")
    whole = colon and kind and name and not any(map(str.isspace, text))
    if not whole or (mark and not relation) or (mark and name == "*"):
        valid = "write `user:anne`, `user:*` or `group:eng#member`"
        message = f"{text!r} names no user{_spaced(text)}; {valid}"
        raise RightsQuestionError(message, value=text)
    _type(graph, kind, text)
    if relation:
        relation_node(graph, kind, relation)
    return Subject(kind, name, relation)


def object_of(graph: Graph, text: str) -> tuple[str, str]:
    """The type and id of an object. Raises RightsQuestionError for what the model does not have."""
    kind, colon, name = text.partition(":")
    whole = colon and kind and name and not any(map(str.isspace, text))
    if not whole or name == "*" or "#" in name:
        message = f"{text!r} names no object{_spaced(text)}; write `document:roadmap`"
        raise RightsQuestionError(message, value=text)
    _type(graph, kind, text)
    return kind, name


def _spaced(text: str) -> str:
    """Why a text that looks like a name is none."""
    spaces = [character for character in text if character.isspace()]
    return f": names have no space in them, and this has {spaces[0]!r}" if spaces else ""


def relation_node(graph: Graph, type: str, relation: str) -> Node:  # noqa: A002
    """The node of a relation. Raises RightsQuestionError with the names that there are."""
    node = graph.node(type, relation)
    if node is None:
        owner = _type(graph, type, type)
        known = [relation.name for relation in owner.relations]
        close = suggest(relation, known)
        hint = f" (did you mean {close!r}?)" if close else ""
        message = f"type {type!r} has no relation {relation!r}{hint}; it has {_listed(known)}"
        raise RightsQuestionError(message, type=type, relation=relation)
    return node


def _type(graph: Graph, name: str, text: str) -> Any:
    definition = graph.model.type(name)
    if definition is None:
        known = [type_.name for type_ in graph.model.types]
        close = suggest(name, known)
        hint = f" (did you mean {close!r}?)" if close else ""
        message = f"no type {name!r} in the model, for {text!r}{hint}; it has {_listed(known)}"
        raise RightsQuestionError(message, type=name, value=text)
    return definition


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def placed(graph: Graph, given: AnyTuple) -> Placed:
    """The row of a tuple. Raises RightsTupleError for one that the model does not allow."""
    try:
        subject = subject_of(graph, given.user)
        type_, name = object_of(graph, given.object)
        relation_node(graph, type_, given.relation)
    except RightsQuestionError as error:
        raise RightsTupleError(f"tuple `{given}`: {error}", value=given) from None
    definition = graph.model.relation(type_, given.relation)
    assert definition is not None  # noqa: S101  its node was found
    condition = given.condition if isinstance(given, ConditionalTuple) else ""
    kind = f"{subject.kind} with {condition}" if condition else subject.kind
    allowed = [str(restriction) for restriction in definition.restrictions]
    if kind not in allowed:
        message = f"tuple `{given}`: `{type_}#{given.relation}` takes no {kind!r}"
        if allowed:
            message += f"; it takes {', '.join(allowed)}"
        else:
            message += f"; it takes no tuples: {definition}"
        raise RightsTupleError(message, value=given)
    source = tuple_relation(type_, given.relation, kind)
    row = (name,) if subject.id == "*" else (subject.id, name)
    if isinstance(given, ConditionalTuple):
        stated = graph.model.condition(condition)
        assert stated is not None  # noqa: S101  names were checked
        try:
            row = (*row, written(stated, given.context))
        except MisfitError as error:
            raise RightsTupleError(f"tuple `{given}`: {error}", value=given) from None
    return Placed(source, row)


def shown(source: Source, row: tuple[str, ...]) -> AnyTuple:
    """The tuple of a row: what `placed` took apart."""
    users = source.users
    user = f"{users.type}:*" if users.wildcard else f"{users.type}:{row[0]}"
    if users.relation:
        user = f"{user}#{users.relation}"
    if users.condition:
        at = f"{source.type}:{row[-2]}"
        return ConditionalTuple(user, source.relation, at, users.condition, row[-1])
    return Tuple(user, source.relation, f"{source.type}:{row[-1]}")
