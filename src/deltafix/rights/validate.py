"""Checks of a model: names, tuplesets, entry points, cycles; every error at once.

The rules are those that OpenFGA documents, and one of our own: a relation that
excludes itself, through whatever relations between, has no meaning that tuples could decide, so the
cycle is named and refused. Invariant: a model that gets through has a graph (`graph`) in which each
reference is a node, each node can have a subject, and exclusions form no cycle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from deltafix.diagnostics import Diagnostic, Span, did_you_mean, render, render_all
from deltafix.errors import RightsModelError
from deltafix.rights.conditions import wrong_with
from deltafix.rights.dsl import NAME
from deltafix.rights.graph import Graph, Node, graph_of
from deltafix.rights.model import (
    Computed,
    Direct,
    FromRelated,
    Model,
    RelationDefinition,
    TypeDefinition,
    walk,
)

_RESERVED: Final = ("this", "self")
_PARAMETER: Final = r"[A-Za-z_][A-Za-z0-9_]*"


def checked(model: Model) -> Graph:
    """The graph of a model that is one. O(definitions), but for cycles O(definitions squared).

    Raises RightsModelError with every diagnostic.
    """
    diagnostics = list(_names(model))
    if not diagnostics:
        graph = graph_of(model)
        diagnostics = [*_loops(graph), *_negated_cycles(graph)] or list(_without_entry(graph))
        if not diagnostics:
            return graph
    files = list(model.sources)
    diagnostics.sort(
        key=lambda diagnostic: (
            (files.index(diagnostic.span.path), diagnostic.span.start)
            if diagnostic.span
            else (-1, 0)
        )
    )
    text = (
        render_all(diagnostics, model.sources)
        if model.sources
        else "\n\n".join(map(render, diagnostics))
    )
    raise RightsModelError(text, diagnostics)


def _wrong(message: str, span: Span | None, valid: str) -> Diagnostic:
    return Diagnostic(RightsModelError.code, message, span, valid)


def _unknown(what: str, name: str, known: Sequence[str], span: Span | None) -> Diagnostic:
    there = ", ".join(known) or "none"
    valid = did_you_mean(name, known, f"there is: {there}")
    return _wrong(f"unknown {what} `{name}`", span, valid)


# --- names -----------------------------------------------------------------------------------


def _names(model: Model) -> Iterator[Diagnostic]:
    if not model.types:
        yield _wrong("the model has no types", None, "begin with `type user`")
    seen: set[str] = set()
    for type_ in model.types:
        if type_.name in seen:
            message = f"type `{type_.name}` is defined twice"
            yield _wrong(message, type_.span, "define all its relations in one place")
        seen.add(type_.name)
        yield from _allowed(type_.name, "a type", type_.span)
        relations: set[str] = set()
        for relation in type_.relations:
            label = f"{type_.name}#{relation.name}"
            if relation.name in relations:
                message = f"relation `{label}` is defined twice"
                yield _wrong(message, relation.span, "join both definitions with `or`")
            relations.add(relation.name)
            yield from _allowed(relation.name, "a relation", relation.span)
            yield from _references(model, type_, relation)
    yield from _conditions(model)


def _conditions(model: Model) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for condition in model.conditions:
        if condition.name in seen:
            message = f"condition `{condition.name}` is defined twice"
            yield _wrong(message, condition.span, "give one of them another name")
        seen.add(condition.name)
        yield from _allowed(condition.name, "a condition", condition.span)
        names = [name for name, _ in condition.parameters]
        for name in sorted({name for name in names if names.count(name) > 1}):
            message = f"condition `{condition.name}` has two parameters `{name}`"
            yield _wrong(message, condition.span, "give one of them another name")
        for name in names:
            if not re.fullmatch(_PARAMETER, name):
                message = f"a parameter cannot be called `{name}`"
                yield _wrong(message, condition.span, "names have letters, digits and `_`")
        problem = wrong_with(condition)
        if problem:
            message = f"condition `{condition.name}`: {problem}"
            yield _wrong(
                message, condition.span, f"the expression is `{condition.expression:.200}`"
            )


def _allowed(name: str, what: str, span: Span | None) -> Iterator[Diagnostic]:
    if name in _RESERVED:
        yield _wrong(f"{what} cannot be called `{name}`", span, "choose another name")
    if not re.fullmatch(NAME, name):
        message = f"{what} cannot be called `{name}`"
        yield _wrong(message, span, "names have letters, digits, `_`, `-`, `.` and `/`")


def _references(
    model: Model, owner: TypeDefinition, relation: RelationDefinition
) -> Iterator[Diagnostic]:
    label = f"{owner.name}#{relation.name}"
    siblings = [sibling.name for sibling in owner.relations]
    directs = [part for part in walk(relation.rewrite) if isinstance(part, Direct)]
    if len(directs) > 1:
        message = f"`{label}` has {len(directs)} lists of types"
        yield _wrong(message, directs[1].span or relation.span, "put all types into one `[...]`")
    for part in walk(relation.rewrite):
        if isinstance(part, Direct):
            yield from _restrictions(model, label, part, relation)
        elif isinstance(part, Computed) and part.relation not in siblings:
            what = f"relation of type `{owner.name}`"
            yield _unknown(what, part.relation, siblings, part.span or relation.span)
        elif isinstance(part, FromRelated):
            yield from _tupleset(model, owner, relation, part)


def _restrictions(
    model: Model, label: str, direct: Direct, relation: RelationDefinition
) -> Iterator[Diagnostic]:
    names = [type_.name for type_ in model.types]
    if not direct.restrictions:
        message = f"nobody can be related as `{label}`: its list of types is empty"
        yield _wrong(message, direct.span or relation.span, "name a type, such as `[user]`")
    seen: set[str] = set()
    for restriction in direct.restrictions:
        span = restriction.span or direct.span or relation.span
        if str(restriction) in seen:
            yield _wrong(f"`{restriction}` stands twice in `{label}`", span, "take one out")
        seen.add(str(restriction))
        target = model.type(restriction.type)
        if target is None:
            yield _unknown("type", restriction.type, names, span)
        elif restriction.relation and target.relation(restriction.relation) is None:
            relations_there = [relation.name for relation in target.relations]
            yield _unknown(
                f"relation of type `{restriction.type}`",
                restriction.relation,
                relations_there,
                span,
            )
        if restriction.condition and model.condition(restriction.condition) is None:
            conditions = [condition.name for condition in model.conditions]
            yield _unknown("condition", restriction.condition, conditions, span)


def _tupleset(
    model: Model, owner: TypeDefinition, relation: RelationDefinition, part: FromRelated
) -> Iterator[Diagnostic]:
    span = part.span or relation.span
    siblings = [sibling.name for sibling in owner.relations]
    tupleset = owner.relation(part.tupleset)
    if tupleset is None:
        yield _unknown(f"relation of type `{owner.name}`", part.tupleset, siblings, span)
        return
    label = f"{owner.name}#{tupleset.name}"
    if not isinstance(tupleset.rewrite, Direct):
        message = f"`from {part.tupleset}` needs tuples, but `{label}` is `{tupleset.rewrite}`"
        yield _wrong(message, span, f"write `define {tupleset.name}: [type]`")
        return
    for restriction in tupleset.rewrite.restrictions:
        if restriction.relation or restriction.wildcard:
            message = f"`from {part.tupleset}` needs objects, but `{label}` takes `{restriction}`"
            yield _wrong(message, span, f"write `define {tupleset.name}: [{restriction.type}]`")
    targets = [model.type(restriction.type) for restriction in tupleset.rewrite.restrictions]
    known = [target for target in targets if target is not None]
    if known and all(target.relation(part.relation) is None for target in known):
        relations_there = dict.fromkeys(
            relation.name for target in known for relation in target.relations
        )
        types = ", ".join(target.name for target in known)
        yield _unknown(f"relation of {types}", part.relation, list(relations_there), span)


# --- entry points and cycles -------------------------------------------------------------------


def _without_entry(graph: Graph) -> Iterator[Diagnostic]:
    for node in graph.nodes:
        if node.name and all("#" in kind for kind in node.subjects):
            message = f"nobody can ever be `{node.label}`: no tuple leads to it"
            valid = "give it, or a relation that it rests on, a list of types such as `[user]`"
            yield _wrong(message, node.span, valid)


def _loops(graph: Graph) -> Iterator[Diagnostic]:
    """Cycles within one object: `a: b` and `b: a`."""
    reached: set[int] = set()
    for node in graph.nodes:
        path = _path(graph, node.number, node.number, same_object=True)
        if path and node.name and node.number not in reached:
            reached.update(path)
            cycle = " -> ".join(_labels(graph, path))
            message = f"a cycle without tuples in it: {cycle}"
            valid = "these relations are the same for every object: keep one of them"
            yield _wrong(message, node.span, valid)


def _negated_cycles(graph: Graph) -> Iterator[Diagnostic]:
    for node in graph.nodes:
        if node.kind != "not":
            continue
        excluded = node.operands[1]
        back = _path(graph, excluded, node.number)
        if back or excluded == node.number:
            cycle = " -> ".join(_labels(graph, [node.number, *(back or [excluded])]))
            message = f"`{node.label}` excludes itself: {cycle}"
            valid = (
                "tuples cannot decide such a relation; exclude a relation that does not rest on "
                "this one"
            )
            yield _wrong(message, node.span, valid)


def _labels(graph: Graph, path: Sequence[int]) -> list[str]:
    """The relations on a path; parts of a definition go by the name of the relation."""
    labels: list[str] = []
    for number in path:
        label = graph.nodes[number].label
        if not labels or labels[-1] != label:
            labels.append(label)
    return labels if len(labels) > 1 else labels * 2


def _path(graph: Graph, first: int, last: int, *, same_object: bool = False) -> list[int]:
    """A shortest way of at least one step from one node to another; empty if there is none."""
    came: dict[int, int] = {}
    pending = [first]
    for number in pending:
        for target in _targets(graph.nodes[number], same_object):
            if target not in came:
                came[target] = number
                if target == last:
                    way = [last, number]
                    while way[-1] != first:
                        way.append(came[way[-1]])
                    return way[::-1]
                pending.append(target)
    return []


def _targets(node: Node, same_object: bool) -> Iterator[int]:
    # What excludes is told of by `_negated_cycles`, in its own words.
    yield from node.operands[:1] if same_object and node.kind == "not" else node.operands
    for leaf in node.leaves:
        if not same_object or leaf.kind == "computed":
            yield from leaf.targets
