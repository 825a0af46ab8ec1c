"""A model laid out: its graph, its program, and what that keeps.

Invariant: a layout follows from the model and the names of the relations that are kept, nothing
else: a state folder notes these two, and has the same layout when it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from deltafix.errors import RightsQuestionError
from deltafix.rights.changes import Part, RightsDelta
from deltafix.rights.conditions import Conditions
from deltafix.rights.graph import Graph, Node, Source
from deltafix.rights.model import Model
from deltafix.rights.program import View, program_of
from deltafix.rights.tuples import relation_node
from deltafix.rights.validate import checked

if TYPE_CHECKING:
    from deltafix.facts.delta import Delta
    from deltafix.rules.ast import Program

MARK: Final = "rights"
"""Under which a state folder notes the model, and what is kept."""


class Layout(NamedTuple):
    """A model laid out: its graph, its program, and what that keeps.

    `wide`: the sources whose tuples have conditions.
    """

    graph: Graph
    program: Program
    kept: tuple[str, ...]
    views: dict[tuple[int, str], View]
    sources: dict[str, Source]
    shown: dict[str, Part]
    wide: dict[str, Source]
    conditions: Conditions

    def delta(self, delta: Delta) -> RightsDelta:
        """What a delta of the engine says, under this model."""
        return RightsDelta(delta, self.sources, self.shown)


def layout_of(model: Model, materialise: Iterable[str]) -> Layout:
    """Lay out a model. O(rules). Raises RightsModelError, RightsQuestionError."""
    graph = checked(model)
    names = [materialise] if isinstance(materialise, str) else list(dict.fromkeys(materialise))
    kept = [kept_node(graph, name).number for name in names]
    program, views = program_of(graph, kept)
    kept_views = {key: view for key, view in views.items() if key[0] in kept}
    parts: dict[str, Part] = {}
    for (number, users), view in kept_views.items():
        node = graph.nodes[number]
        for variant in view.both:
            possible = variant is not view
            for which, name in (
                ("|", variant.holds),
                ("*", variant.everyone),
                ("-", variant.excepted),
            ):
                if name:
                    parts[name] = Part(node.type, node.name, users, which, possible)
    sources = graph.sources()
    wide = {name: source for name, source in sources.items() if source.users.condition}
    conditions = Conditions(model)
    return Layout(graph, program, tuple(names), kept_views, sources, parts, wide, conditions)


def kept_node(graph: Graph, name: str) -> Node:
    """The node of `document#viewer`. Raises RightsQuestionError."""
    type_, mark, relation = name.partition("#")
    if not mark:
        message = f"{name!r} names no relation; write `document#viewer`"
        raise RightsQuestionError(message, value=name)
    return relation_node(graph, type_, relation)


def noted(laid: Layout) -> list[Any]:
    """What a state folder notes of a layout, as JSON has it."""
    return [str(laid.graph.model), list(laid.kept)]
