"""Truth values: the well-founded model of a component whose calls negate each other.

Inside a component a negated goal is delayed: the forest is grown as if it held, so the forest is
that of a definite program and is maintained as one. What each answer is worth is found here, over
the supports as ground rules, when the component is swept. A component needs this only if it holds
such a delayed literal or stands on an answer that is not TRUE; all others are TRUE throughout.

Invariant after `settle`: truth is the alternating fixpoint of the component's supports, given the
truth of the components below. Complexity: O(supports) per alternation, at most one alternation
per answer; it is not incremental within a component (docs/concepts/tabling.md, Limits).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from deltafix.tabling.callgraph import Component
from deltafix.tabling.table import (
    FALSE,
    TRUE,
    UNDEFINED,
    Absence,
    Answer,
    Consumer,
    Forest,
    Generator,
)

__all__ = ["exists", "settle"]


def exists(generator: Generator) -> int:
    """The truth of `the call has an answer`."""
    best = FALSE
    for answer in generator.answers.values():
        if answer.truth == TRUE:
            return TRUE
        best = max(best, answer.truth)
    return best


@dataclass(slots=True)
class _Instance:
    """A support as a ground rule: head, premises inside, delayed calls inside, worth outside."""

    head: Answer
    positive: list[Answer]
    negative: list[Generator]
    outside: int


def _instance(support: Consumer, component: Component) -> _Instance:
    out = _Instance(cast("Answer", support.answer), [], [], TRUE)
    node: Consumer | None = support
    while node is not None:
        premise = node.premise
        if isinstance(premise, Answer):
            if premise.generator.component is component:
                out.positive.append(premise)
            else:
                out.outside = min(out.outside, premise.truth)
        elif isinstance(premise, Absence):
            if premise.generator.component is component:
                out.negative.append(premise.generator)
            else:
                out.outside = min(out.outside, TRUE - exists(premise.generator))
        node = node.previous
    return out


def _least(instances: list[_Instance], floor: int, held: set[Answer]) -> set[Answer]:
    """The least model when a delayed call counts as absent iff none of its answers is in `held`."""
    uses: dict[Answer, list[int]] = {}
    missing: list[int] = []
    ready: list[int] = []
    for number, instance in enumerate(instances):
        blocked = instance.outside < floor or any(
            answer in held for call in instance.negative for answer in call.answers.values()
        )
        missing.append(-1 if blocked else len(instance.positive))
        if blocked:
            continue
        for answer in instance.positive:
            uses.setdefault(answer, []).append(number)
        if not instance.positive:
            ready.append(number)
    model: set[Answer] = set()
    while ready:
        head = instances[ready.pop()].head
        if head in model:
            continue
        model.add(head)
        for number in uses.get(head, ()):
            missing[number] -= 1
            if missing[number] == 0:
                ready.append(number)
    return model


def settle(forest: Forest, component: Component) -> None:
    """Compute the truth of every answer of a component and pass changes on upwards."""
    answers = [a for member in component.members for a in member.answers.values()]
    instances = [_instance(s, component) for a in answers for s in a.supports]
    possible = set(answers)
    while True:
        certain = _least(instances, TRUE, possible)
        again = _least(instances, UNDEFINED, certain)
        if again == possible:
            break
        possible = again
    doubtful = False
    for answer in answers:
        truth = TRUE if answer in certain else UNDEFINED if answer in possible else FALSE
        doubtful = doubtful or truth != TRUE
        if truth != answer.truth:
            forest.revalued.setdefault(answer, answer.truth)
            forest.set(answer, "truth", truth)
            _pass_on(forest, answer, component)
    forest.set(component, "doubtful", doubtful)


def _pass_on(forest: Forest, answer: Answer, component: Component) -> None:
    for node in answer.affects:
        other = node.generator.component
        if other is not component:
            other.unsettled = True
            forest.agenda.open(other)
