"""The event loop: components from the lowest up, each run until it is still, then swept.

The paper's Figure 3 (c). Invariant: when a component is swept, all below it are final, and so is
it afterwards: what was marked in it and not re-derived dies there, and only then do components
above hear of it. An error or a spent budget leaves the loop at once; the caller takes all back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from deltafix.errors import InternalError
from deltafix.tabling.agenda import CONSUME, MARK, REDERIVE, Event
from deltafix.tabling.callgraph import Component
from deltafix.tabling.propagate import kill, mark, may_rederive, rederive, remove
from deltafix.tabling.solve import consume
from deltafix.tabling.table import TRUE, Answer, Consumer, Forest, Generator
from deltafix.tabling.truth import doubt, settle, truth_of


def run(forest: Forest) -> None:
    """Run to the end."""
    for _ in steps(forest):
        pass


def steps(forest: Forest) -> Iterator[None]:
    """Run, pausing after every event and every sweep."""
    agenda = forest.agenda
    counters = forest.counters
    while (component := agenda.lowest()) is not None:
        if component.fifo:
            premise, consumer = component.fifo.popleft()
            if not consumer.dead:
                counters.events += 1
                consume(forest, premise, consumer)
        else:
            event = agenda.next_event(component)
            if event is None:
                sweep(forest, component)
            else:
                counters.events += 1
                _process(forest, event)
        yield
    if forest.created:
        msg = f"tabling.run: {len(forest.created)} calls are not complete, yet nothing is due"
        raise InternalError(msg)


def _process(forest: Forest, event: Event) -> None:
    premise = event.premise
    if event.kind == CONSUME:
        consumer = cast("Consumer", event.consumer)
        if consumer.dead or (isinstance(premise, Answer) and premise.dead):
            return
        generator = consumer.generator
        if generator not in forest.visited:
            forest.visited.add(generator)
            forest.counters.calls_visited += 1
        if forest.trace is not None:
            forest.trace.processed(event, generator.component)
        consume(forest, premise, consumer)
        return
    answer = cast("Answer", premise)
    if answer.generator not in forest.visited:
        forest.visited.add(answer.generator)
        forest.counters.calls_visited += 1
    if forest.trace is not None:
        forest.trace.processed(event, answer.generator.component)
    if event.kind == MARK:
        mark(forest, answer)
    elif event.kind == REDERIVE:
        rederive(forest, answer)
    else:
        may_rederive(forest, answer)


def sweep(forest: Forest, component: Component) -> None:
    """A component is still: bury the marked, find truth values, tell those above."""
    for answer in list(component.marked):
        remove(forest, answer)
    component.marked.clear()
    settle(forest, component)
    for member in component.negated:
        _notify(forest, component, member)
    for member in component.fresh:
        forest.created.pop(member, None)
    component.fresh.clear()
    component.open = False


def _notify(forest: Forest, component: Component, member: Generator) -> None:
    """Tell those who negate a call that its truth changed. Delayed literals inside know already."""
    now, before = truth_of(member), member.settled
    if now == before:
        return
    forest.set(member, "settled", now)
    for node in list(member.negations):
        if node.generator.component is component:
            continue
        if now == TRUE:
            for child in list(node.children or ()):
                kill(forest, child)
        elif before == TRUE:
            forest.agenda.consume(member.absence, node)
        else:
            doubt(forest, node)
