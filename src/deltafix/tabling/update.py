"""Changing the program under live tables: phases, strategies, all or nothing.

A strategy is a schedule over the same structures: which of the two halves of an update are seen
together. Invariant: `apply` ends with every table as if computed from scratch, or, if anything
raises, exactly as before (every change since the start is taken back in reverse).

The event loop runs components from the lowest up, each until it is still, then sweeps it (the
paper's Figure 3 (c)). When a component is swept, all below it are final, and so is it afterwards:
what was marked in it and not re-derived dies there, and only then do components above hear of it.
An error or a spent budget leaves the loop at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from deltafix.errors import InternalError
from deltafix.tabling.agenda import CONSUME, MARK, REDERIVE, Event
from deltafix.tabling.callgraph import Component, Undo
from deltafix.tabling.clauses import Clause, Rule
from deltafix.tabling.factbase import Bucket, Predicate, release, unsubscribe
from deltafix.tabling.propagate import kill, mark, may_rederive, rederive, remove
from deltafix.tabling.solve import consume, resolve_goal
from deltafix.tabling.table import TRUE, Answer, Consumer, Forest, Generator
from deltafix.tabling.truth import doubt, settle, truth_of

Strategy: TypeAlias = Literal["local", "deletes_first", "inserts_first", "dred", "scratch"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """`phases` run one after the other; `eager` marks as DRed does."""

    phases: tuple[tuple[str, ...], ...]
    eager: bool = False


STRATEGIES: Final[Mapping[str, Schedule]] = MappingProxyType(
    {
        "local": Schedule((("delete", "insert"),)),
        "deletes_first": Schedule((("delete",), ("insert",))),
        "inserts_first": Schedule((("insert",), ("delete",))),
        "dred": Schedule((("delete",), ("insert",)), eager=True),
        "scratch": Schedule(()),
    }
)
"""The schedules by name; `scratch` has none: the session drops the tables and asks again."""


@contextmanager
def guarded(forest: Forest) -> Iterator[None]:
    """Take every change to the forest and the program back if the block raises."""
    known = len(forest.program.predicates)
    operators = forest.program.operators.copy()
    births = forest.births
    forest.epoch += 1
    undo: Undo = []
    forest.undo = forest.graph.undo = undo
    forest.agenda.updating = True
    try:
        yield
    except BaseException:
        forest.undo = forest.graph.undo = None
        for function, args in reversed(undo):
            function(*args)
        forest.epoch -= 1
        forest.births = births
        for key in list(forest.program.predicates)[known:]:
            del forest.program.predicates[key]
        forest.program.operators = operators
        forest.created.clear()
        forest.graph.rebuild(forest.generators)
        raise
    finally:
        forest.undo = forest.graph.undo = None
        forest.agenda.updating = False
        forest.eager = False
        forest.agenda.forget()
        forest.visited.clear()


def declare(forest: Forest, predicate: Predicate, *, tabled: bool) -> None:
    """Make a predicate derived: goals that read its facts directly now go through a table."""
    if tabled:
        forest.set(predicate, "tabled", True)
    if predicate.derived:
        return
    readers = [
        consumer
        for view in predicate.views.values()
        for bucket in view.values()
        for consumer in bucket.consumers
        if consumer.rule is not None
    ]
    forest.set(predicate, "derived", True)
    for consumer in readers:
        _reread(forest, consumer)


def _reread(forest: Forest, consumer: Consumer) -> None:
    for child in list(consumer.children or ()):
        kill(forest, child)
    bucket = cast("Bucket", consumer.source)
    unsubscribe(forest, bucket, consumer)
    resolve_goal(forest, consumer)


def apply(
    forest: Forest, inserts: Sequence[Clause], deletes: Sequence[Clause], strategy: str
) -> None:
    """Run an update under `guarded`; `strategy` must not be `scratch`.

    Complexity: see docs/concepts/tabling.md; in counted work, the part of the forest below the
    changed clauses that the schedule takes up.
    """
    schedule = STRATEGIES[strategy]
    forest.eager = schedule.eager
    for phase in schedule.phases:
        if "delete" in phase:
            for clause in deletes:
                _delete(forest, clause)
        if "insert" in phase:
            for clause in inserts:
                insert_clause(forest, clause)
        run(forest)


def _delete(forest: Forest, clause: Clause) -> None:
    delete_clause(forest, clause)
    for rule in clause.rules:
        for node in list(rule.affects):
            kill(forest, node)


def delete_clause(forest: Forest, clause: Clause) -> None:
    """Take a clause out of the program; what stood on it is the caller's to kill."""
    forest.take(forest.program.clauses, clause.term)
    for rule in clause.rules:
        _drop(forest, forest.program.predicates[rule.key], rule)


def _drop(forest: Forest, predicate: Predicate, rule: Rule) -> None:
    forest.log(predicate.add, rule)
    for bucket in predicate.drop(rule):
        release(forest, bucket)


def insert_clause(forest: Forest, clause: Clause) -> None:
    """Put a clause into the program and before every consumer it concerns."""
    forest.put(forest.program.clauses, clause.term, clause)
    for rule in clause.rules:
        predicate = forest.program.predicate(rule.key)
        if rule.body:
            declare(forest, predicate, tabled=False)
        forest.log(_drop, forest, predicate, rule)
        predicate.add(rule)
        if rule.body:
            for generator in predicate.generators.values():
                if generator.fits(rule):
                    forest.agenda.consume(rule, generator.root)
        else:
            for consumer in predicate.waiting(rule):
                forest.agenda.consume(rule, consumer)


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
    complete = [*component.fresh]
    component.open = False
    component.fresh.clear()  # all at once, whatever interrupts this: they stand on each other
    for member in complete:
        forest.created.pop(member, None)


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
