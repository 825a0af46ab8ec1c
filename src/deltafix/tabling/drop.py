"""Dropping tables: calls and everything they hold, without touching the others.

Invariant: no node of a call that stays has a dropped call as its source; the two entries see to
it, `dependents` by dropping upwards too, `unreachable` by dropping only what nothing kept needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltafix.tabling.factbase import unsubscribe
from deltafix.tabling.table import Answer, Consumer, Forest, Generator


def nodes(generator: Generator) -> Iterator[Consumer]:
    """All nodes below a call's root, supports included."""
    stack = list(generator.root.children or ())
    while stack:
        node = stack.pop()
        yield node
        if node.children:
            stack.extend(node.children)


def dependents(generators: Iterable[Generator]) -> dict[Generator, None]:
    """The calls and all that call them, directly or not."""
    reached: dict[Generator, None] = {}
    stack = list(generators)
    while stack:
        top = stack.pop()
        if top in reached:
            continue
        reached[top] = None
        stack.extend(c.generator for c in (*top.consumers, *top.negations))
    return reached


def unreachable(forest: Forest) -> dict[Generator, None]:
    """The calls that no kept call needs."""
    needed: dict[Generator, None] = {}
    stack = [g for g in forest.generators if g.kept]
    while stack:
        top = stack.pop()
        if top in needed:
            continue
        needed[top] = None
        stack.extend(n.source for n in nodes(top) if isinstance(n.source, Generator))
    return {g: None for g in forest.generators if g not in needed}


def discard(forest: Forest, doomed: dict[Generator, None]) -> None:
    """Drop calls. O(nodes dropped)."""
    for generator in doomed:
        for node in nodes(generator):
            node.dead = True
            generator.component.doubtful.pop(node, None)
            premise = node.premise
            if not (isinstance(premise, Answer) and premise.generator in doomed):
                premise.affects.pop(node, None)
            source = node.source
            if isinstance(source, Generator):
                if source not in doomed:
                    source.consumers.pop(node, None)
                    source.negations.pop(node, None)
            elif source is not None:
                unsubscribe(forest, source, node)
        for answer in generator.answers.values():
            answer.dead = True
        bucket = generator.bucket
        generator.root.dead = True
        unsubscribe(forest, bucket, generator.root)
    for generator in doomed:
        generator.predicate.generators.pop(generator.args, None)
        forest.generators.pop(generator, None)
        component = generator.component
        for table in (component.members, component.negated):
            table.pop(generator, None)
        component.fresh.pop(generator, None)  # last: until then an interrupt has it done again
        if not component.members:
            forest.graph.drop(component)
            component.open = False
