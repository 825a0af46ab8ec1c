"""From one C file's bytes to facts about the control flow of its functions.

Invariant: steps are numbered inside their function, `file.c:function@number`, so an edit of one
function leaves the facts of the others alone. Lines are `Place`s. What reaches what is decided by
`program.dl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltafix.analyses.c.declare import declared, strays
from deltafix.analyses.c.flow import Flow
from deltafix.analyses.c.parse import broken, functions, read
from deltafix.analyses.c.scopes import Scopes
from deltafix.analyses.facts import Fact, Fragment, Place

if TYPE_CHECKING:
    from tree_sitter import Node

FLOW_INPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "entry": ("step",),
        "flow": ("step", "next"),
        "uses": ("step", "variable"),
        "defines": ("step", "variable"),
        "declares": ("step", "variable"),
        "may_define": ("step", "variable"),
        "hands": ("step", "variable"),
        "clobbers": ("step", "function"),
        "exposed": ("function", "variable"),
        "private": ("function", "variable"),
        "broken": ("function",),
    }
)
"""Input relations of the program and their columns, all of type symbol."""


def extract_flow(path: str, data: bytes, prefix: str = "") -> Fragment:
    """The facts of one file. Never raises for bad content: it comes as `Fragment.error`.

    O(size of the file). `prefix`, the package of a tree of Python files, says nothing about C.
    """
    return read(path, data, lambda root: _fragment(path, root))


def _fragment(path: str, root: Node) -> Fragment:
    facts: list[Fact] = [("broken", (f"{path}:{name}",)) for name in strays(root)]
    places: list[Place] = []
    for flow, definition in flows(path, root):
        facts += _stated(flow)
        if broken(definition):
            facts.append(("broken", (flow.function,)))
        places.append(Place(flow.function, "function", flow.steps[0].line))
        places += (
            Place(f"{flow.function}@{number}", "step", step.line)
            for number, step in enumerate(flow.steps)
            if step.uses or step.writes
        )
    return Fragment.of(path, facts, places)


def flows(path: str, root: Node) -> Iterator[tuple[Flow, Node]]:
    """The control flow of every function of a file, with its definition."""
    scopes = Scopes(path, root)
    for definition in functions(root):
        declaration = next(declared(definition), None)
        if declaration is not None:
            yield Flow(scopes, definition, declaration), definition


def _stated(flow: Flow) -> Iterator[Fact]:
    def name(number: int) -> str:
        return f"{flow.function}@{number}"

    yield "entry", (name(0),)
    for source, target in flow.edges:
        yield "flow", (name(source), name(target))
    for number, step in enumerate(flow.steps):
        for relation, symbols in (
            ("uses", step.uses),
            ("defines", step.sets),
            ("declares", step.declares),
            ("may_define", step.may_set),
            ("hands", step.hands),
        ):
            for symbol in symbols:
                yield relation, (name(number), symbol)
        if step.clobbers:
            yield "clobbers", (name(number), flow.function)
    for symbol in flow.exposed:
        yield "exposed", (flow.function, symbol)
    for symbol, meaning in flow.met.items():
        volatile = meaning.declared is not None and "volatile" in meaning.declared.words
        if not volatile and symbol not in flow.exposed:
            yield "private", (flow.function, symbol)
