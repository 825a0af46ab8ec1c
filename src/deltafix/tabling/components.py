"""New call edges: reordering and merging components, and what a merge does to ranks and marks.

A merge makes premises local that were not: supports that stood on a lower component now count
its ranks (the paper's example 4), and a marked answer now marks consumers it did not concern, and
delays what these are about to make of it.
Invariant after `connect`: every answer not due to be marked again has an acyclic support.
"""

from __future__ import annotations

from typing import cast

from deltafix.tabling.agenda import MARK, gather
from deltafix.tabling.callgraph import Component
from deltafix.tabling.propagate import lost, mark_node, recount
from deltafix.tabling.table import Answer, Consumer, Forest, Generator, rank_of
from deltafix.tabling.truth import delay, doubt, weigh


def connect(forest: Forest, caller: Generator, callee: Generator) -> None:
    """Record that one call calls another, keeping components strongly connected and in order.

    Complexity: O(affected region of the component order); a merge adds the part of the forest
    that belongs to all merged components but the largest.
    """
    above, below = caller.component, callee.component
    if above is below or below in above.callees:
        return
    graph = forest.graph
    graph.link(above, below)
    if below.label < above.label:
        return
    reached, cyclic = graph.search(above, below)
    if cyclic:
        _merge(forest, *graph.cycle(above, below, reached))
        return
    graph.move_below(reached)
    if forest.trace is not None:
        forest.trace.moves(reached)


def _merge(forest: Forest, parts: list[Component], lifted: list[Component]) -> None:
    crossing = _crossing(parts)
    waking = any(part.open for part in parts)
    foreign: list[tuple[Answer, Consumer]] = [
        (answer, consumer)
        for part in parts
        for answer in part.marked
        for consumer in answer.affects
        if consumer.generator.component is not part
    ]
    keeper = forest.graph.merge(parts, lifted)
    gather(keeper, parts)
    keeper.open = False
    if waking:
        forest.agenda.open(keeper)
    if forest.trace is not None:
        forest.trace.merged(keeper, parts)
    for answer in keeper.marked:
        forest.agenda.delay(answer)
    for answer, consumer in foreign:
        if consumer.generator.component is keeper and answer.marked:
            mark_node(forest, consumer)
    work: list[Consumer] = []
    for consumer in crossing:
        if consumer.literal is not None and consumer in _negations(consumer):
            delay(forest, keeper)
            source = cast("Generator", consumer.source)
            forest.agenda.consume(source.absence, consumer)
            doubt(forest, consumer)
        work.extend(consumer.children or ())
    for support in list(keeper.doubtful):
        weigh(forest, support)
    _raise(forest, work)


def _negations(consumer: Consumer) -> dict[Consumer, None]:
    source = consumer.source
    return source.negations if isinstance(source, Generator) else {}


def _crossing(parts: list[Component]) -> list[Consumer]:
    """The consumers of one part whose source is a call of another part.

    Every such edge touches a part other than the largest; those parts are walked.
    """
    largest = max(parts, key=lambda c: len(c.members))
    chosen = set(parts)
    found: dict[Consumer, None] = {}
    for part in parts:
        if part is largest:
            continue
        for member in part.members:
            for consumer in (*member.consumers, *member.negations):
                home = consumer.generator.component
                if home is not part and home in chosen:
                    found[consumer] = None
            stack = list(member.root.children or ())
            while stack:
                node = stack.pop()
                source = node.source
                if type(source) is Generator:
                    home = source.component
                    if home is not part and home in chosen:
                        found[node] = None
                if node.children:
                    stack.extend(node.children)
    return list(found)


def _raise(forest: Forest, work: list[Consumer]) -> None:
    """Count again the supports below some nodes; raise answers that lost every acyclic one.

    An answer rises to just above its lowest unmarked support, one on the answer itself aside: that
    would rise too. Ranks are bounded along the order (old component, old rank), in which every
    answer has a support, so this ends.
    """
    while work:
        node = work.pop()
        if node.answer is None:
            work.extend(node.children or ())
            continue
        answer = node.answer
        if not node.counted or rank_of(node) < answer.rank:
            continue
        lost(forest, node, raising=True)
        if answer.acyclic or answer.marked or answer in forest.agenda.due[MARK]:
            continue
        others = (s for s in answer.supports if not s.marks and not _stands_on(s, answer))
        lowest = min(map(rank_of, others))
        forest.set(answer, "rank", forest.fresh_rank(lowest))
        recount(forest, answer)
        if forest.trace is not None:
            forest.trace.ranked(answer)
        component = answer.generator.component
        work.extend(c for c in answer.affects if c.generator.component is component)


def _stands_on(support: Consumer, answer: Answer) -> bool:
    """Whether an answer is a premise of a support. O(its body)."""
    node: Consumer | None = support
    while node is not None:
        if node.premise is answer:
            return True
        node = node.previous
    return False
