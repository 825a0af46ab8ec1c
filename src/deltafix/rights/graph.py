"""A model as a graph of nodes, which is what is searched and what rules are made of.

A node is a relation of a type, or a part of its definition that stands under `and` or `but not`.
It is a union of leaves, an intersection of nodes, or one node without another: after that there is
nothing left of nesting. A leaf says how subjects come to an object: by a tuple that names them, by
one that names everyone of a type, by one that names a userset, from another node of the object, or
from a node of a related object. Invariant: node numbers are places in `Graph.nodes`, and the
relations come first, in the order of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from deltafix.diagnostics import Span
from deltafix.rights.model import (
    Computed,
    Direct,
    Exclusion,
    FromRelated,
    Intersection,
    Model,
    Restriction,
    Rewrite,
    Union,
)


def tuple_relation(type: str, relation: str, restriction: Restriction | str) -> str:  # noqa: A002
    """The input relation with the tuples of `type#relation` that name one kind of user."""
    return f"{type}#{relation}@{restriction}"


@dataclass(frozen=True, slots=True)
class Source:
    """What tuples an input relation holds: those of `type#relation` that name `users`."""

    type: str
    relation: str
    users: Restriction

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the input relation; everyone is not in a column."""
        plain = ("object",) if self.users.wildcard else ("user", "object")
        return (*plain, "context") if self.users.condition else plain


@dataclass(frozen=True, slots=True)
class Leaf:
    """One way to a node.

    Attributes:
        kind: `user` (columns of `source`: user, object), `everyone` (object), `userset` (object
            of the userset, object), `computed` (no source), `from` (related object, object).
        source: the input relation.
        targets: the node of the userset, of the same object, or of the related object.
        type: the type that tuples name: of users, of the userset's or of the related object.
        text: the part of the definition, for proofs.
        condition: that of the tuples, whose context is a last column of `source`; mostly empty.
    """

    kind: Literal["user", "everyone", "userset", "computed", "from"]
    source: str = ""
    targets: tuple[int, ...] = ()
    type: str = ""
    text: str = ""
    condition: str = ""

    @property
    def target(self) -> int:
        """Its only target."""
        return self.targets[0]


@dataclass(slots=True)
class Node:
    """See the module.

    Attributes:
        label: `document#viewer`, that of its relation for a part of a definition.
        name: the relation's name; empty for a part.
        operands: the nodes of an intersection; the base and what is excluded.
        subjects: the kinds of subjects it can have: `user`, `user:*`, `group#member`.
        text: the definition, or its part.
        negates: whether an exclusion or an intersection is in it or below it.
        is_conditional: whether tuples with conditions are in it or below it.
    """

    number: int
    type: str
    name: str
    label: str
    kind: Literal["union", "and", "not"]
    text: str
    span: Span | None
    leaves: tuple[Leaf, ...] = ()
    operands: tuple[int, ...] = ()
    subjects: set[str] = field(default_factory=set)
    negates: bool = False
    is_conditional: bool = False

    @property
    def needed(self) -> tuple[int, ...]:
        """The operands that have to hold: not what is excluded."""
        return self.operands[:1] if self.kind == "not" else self.operands

    @property
    def below(self) -> list[int]:
        """The nodes that it rests on, what is excluded too."""
        return [*self.operands, *(target for leaf in self.leaves for target in leaf.targets)]

    def may_have(self, kind: str) -> bool:
        """Whether a subject of this kind can be among its subjects."""
        return kind in self.subjects or f"{kind}:*" in self.subjects


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes of a model, and its relations by type and name."""

    model: Model
    nodes: list[Node]
    numbers: Mapping[tuple[str, str], int]

    def node(self, type: str, relation: str) -> Node | None:  # noqa: A002
        """The node of a relation, if there is one."""
        number = self.numbers.get((type, relation))
        return None if number is None else self.nodes[number]

    def sources(self) -> dict[str, Source]:
        """The input relations by name: one for each kind of user that a tuple may name."""
        return {
            tuple_relation(type_.name, relation.name, allowed): Source(
                type_.name, relation.name, allowed
            )
            for type_ in self.model.types
            for relation in type_.relations
            for allowed in relation.restrictions
        }

    def below(self, numbers: Iterable[int]) -> list[int]:
        """These nodes and all that they rest on, in the order of numbers."""
        pending = list(dict.fromkeys(numbers))
        seen = set(pending)
        for number in pending:
            for target in self.nodes[number].below:
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return sorted(seen)


def graph_of(model: Model) -> Graph:
    """The graph of a model whose references are all known. O(definitions)."""
    nodes: list[Node] = []
    numbers: dict[tuple[str, str], int] = {}
    for type_ in model.types:
        for relation in type_.relations:
            numbers[type_.name, relation.name] = len(nodes)
            label = f"{type_.name}#{relation.name}"
            text, span = str(relation), relation.span
            nodes.append(
                Node(len(nodes), type_.name, relation.name, label, "union", text, span)
            )  # fmt: skip
    builder = _Builder(model, nodes, numbers)
    for type_ in model.types:
        for relation in type_.relations:
            builder.fill(nodes[numbers[type_.name, relation.name]], relation.name, relation.rewrite)
    _spread(nodes)
    return Graph(model, nodes, numbers)


class _Builder:
    def __init__(
        self, model: Model, nodes: list[Node], numbers: Mapping[tuple[str, str], int]
    ) -> None:
        self.model = model
        self.nodes = nodes
        self.numbers = numbers

    def fill(self, node: Node, relation: str, rewrite: Rewrite) -> None:
        if isinstance(rewrite, Intersection | Exclusion):
            both = isinstance(rewrite, Intersection)
            node.kind = "and" if both else "not"
            parts = rewrite.parts if both else (rewrite.base, rewrite.excluded)  # type: ignore[union-attr]
            node.operands = tuple(self._operand(node, relation, part) for part in parts)
            node.negates = True
            return
        parts = rewrite.parts if isinstance(rewrite, Union) else (rewrite,)
        node.leaves = tuple(leaf for part in parts for leaf in self._leaves(node, relation, part))

    def _operand(self, owner: Node, relation: str, rewrite: Rewrite) -> int:
        if isinstance(rewrite, Computed):
            return self.numbers[owner.type, rewrite.relation]
        node = Node(
            len(self.nodes), owner.type, "", owner.label, "union", str(rewrite),
            rewrite.span or owner.span,
        )  # fmt: skip
        self.nodes.append(node)
        self.fill(node, relation, rewrite)
        return node.number

    def _leaves(self, node: Node, relation: str, part: Rewrite) -> list[Leaf]:
        text = str(part)
        if isinstance(part, Direct):
            return [
                self._direct(node, relation, restriction, text) for restriction in part.restrictions
            ]
        if isinstance(part, FromRelated):
            tupleset = self.model.relation(node.type, part.tupleset)
            assert tupleset is not None  # noqa: S101  names were checked
            return [
                Leaf("from", source, (target,), restriction.type, text, restriction.condition)
                for restriction in tupleset.restrictions
                if (target := self.numbers.get((restriction.type, part.relation))) is not None
                for source in [tuple_relation(node.type, part.tupleset, restriction)]
            ]
        if isinstance(part, Union):  # in parentheses
            return [leaf for inner in part.parts for leaf in self._leaves(node, relation, inner)]
        return [Leaf("computed", "", (self._operand(node, relation, part),), node.type, text)]

    def _direct(self, node: Node, relation: str, restriction: Restriction, text: str) -> Leaf:
        source = tuple_relation(node.type, relation, restriction)
        if restriction.wildcard:
            return Leaf("everyone", source, (), restriction.type, text, restriction.condition)
        if restriction.relation:
            target = self.numbers[restriction.type, restriction.relation]
            return Leaf("userset", source, (target,), restriction.type, text, restriction.condition)
        return Leaf("user", source, (), restriction.type, text, restriction.condition)


def _spread(nodes: list[Node]) -> None:
    """Find what each node can have and rests on: the least fixpoint."""
    for node in nodes:
        if node.name:
            node.subjects.add(node.label)  # a userset is in itself
        node.is_conditional = any(leaf.condition for leaf in node.leaves)
    grows = True
    while grows:
        grows = False
        for node in nodes:
            subjects = _subjects(node, nodes)
            negates = node.negates or any(nodes[n].negates for n in node.below)
            conditional = node.is_conditional or any(nodes[n].is_conditional for n in node.below)
            was = (node.negates, node.is_conditional)
            if not subjects <= node.subjects or (negates, conditional) != was:
                node.subjects |= subjects
                node.negates, node.is_conditional = negates, conditional
                grows = True


def _subjects(node: Node, nodes: list[Node]) -> set[str]:
    if node.kind == "not":
        return nodes[node.operands[0]].subjects
    if node.kind == "and":
        parts = [nodes[number] for number in node.operands]
        subjects = {kind for part in parts for kind in part.subjects}
        return {kind for kind in subjects if all(part.may_have(kind) for part in parts)}
    subjects = set()
    for leaf in node.leaves:
        if leaf.kind == "user":
            subjects.add(leaf.type)
        elif leaf.kind == "everyone":
            subjects.add(f"{leaf.type}:*")
        else:
            if leaf.kind == "userset":
                subjects.add(nodes[leaf.target].label)
            for target in leaf.targets:
                subjects |= nodes[target].subjects
    return subjects
