"""Truth values: the well-founded model of calls that negate each other, and of what stands on them.

Inside a component a negated goal is delayed: the forest is grown as if it held, so the forest is
that of a definite program and is maintained as one. What each answer is worth is found here, over
the supports as ground rules, when the component is swept. All answers of a component are TRUE
unless it delays a literal (`negative`) or one of its supports stands on a premise outside that is
not TRUE (`doubtful`); only then is it noted what changed inside (`unsettled`), and valued anew.

Invariant after `settle`: truth is the alternating fixpoint of the component's supports, given the
truth of the components below. Valued are the unsettled answers and what stands on them inside;
the rest of the component depends on none of these, so its truth holds (a splitting set: Lifschitz
and Turner 1994). Complexity: O(supports of the valued answers) per alternation, at most one
alternation per valued answer.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def truth_of(generator: Generator) -> int:
    """The truth of a ground call: that of its answer, if it has one (it cannot have two)."""
    for answer in generator.answers.values():
        return answer.truth
    return FALSE


# -- what changed ----------------------------------------------------------------------------------


def delay(forest: Forest, component: Component) -> None:
    """A call inside negates another one inside: its component needs the well-founded model."""
    forest.set(component, "negative", True)
    forest.set(forest, "delayed", True)


def gained(forest: Forest, support: Consumer) -> None:
    """A support came."""
    if forest.delayed:
        weigh(forest, support)
        _unsettle(support)


def shed(forest: Forest, support: Consumer) -> None:
    """A support went; its answer may stay and be worth less."""
    component = support.generator.component
    if _unsettle(support):
        forest.agenda.open(component)
        forest.take(component.doubtful, support)


def doubt(forest: Forest, top: Consumer) -> None:
    """The truth of a node's premise changed, or that of the call it negates."""
    for support in _supports(top):
        component = support.generator.component
        component.unsettled[cast("Answer", support.answer)] = None
        forest.agenda.open(component)
        weigh(forest, support)


def weigh(forest: Forest, support: Consumer) -> None:
    """Find out whether a support stands on a premise outside that is not TRUE. O(its body)."""
    component = support.generator.component
    node: Consumer | None = support
    while node is not None:
        premise = node.premise
        if isinstance(premise, Answer):
            if premise.truth != TRUE and premise.generator.component is not component:
                break
        elif isinstance(premise, Absence):
            generator = premise.generator
            if truth_of(generator) != FALSE and generator.component is not component:
                break
        node = node.previous
    if node is None:
        forest.take(component.doubtful, support)
    else:
        forest.put(component.doubtful, support)


def _unsettle(support: Consumer) -> bool:
    component = support.generator.component
    if not (component.negative or component.doubtful):
        return False
    component.unsettled[cast("Answer", support.answer)] = None
    return True


def _supports(top: Consumer) -> Iterator[Consumer]:
    """The supports at and below a node."""
    stack = [top]
    while stack:
        node = stack.pop()
        if node.answer is not None:
            yield node
        elif node.children:
            stack.extend(node.children)


# -- what it is worth now --------------------------------------------------------------------------


def settle(forest: Forest, component: Component) -> None:
    """Find the truth of the unsettled answers and what stands on them; pass changes on upwards."""
    if not component.unsettled:
        return
    answers = _reach(component)
    component.unsettled = {}
    forest.counters.valued += len(answers)
    instances = [_instance(s, answers) for a in answers for s in a.supports]
    possible = set(answers)
    while True:
        certain = _least(instances, TRUE, possible)
        again = _least(instances, UNDEFINED, certain)
        if again == possible:
            break
        possible = again
    for answer in answers:
        truth = TRUE if answer in certain else UNDEFINED if answer in possible else FALSE
        if truth != answer.truth:
            forest.revalued.setdefault(answer, answer.truth)
            forest.set(answer, "truth", truth)
            for node in answer.affects:
                if node.generator.component is not component:
                    doubt(forest, node)


def _reach(component: Component) -> dict[Answer, None]:
    """The unsettled answers that live, and all inside that stand on an unsettled one."""
    reached = dict(component.unsettled)
    stack = list(reached)
    while stack:
        answer = stack.pop()
        for node in (*answer.affects, *answer.generator.negations):
            if node.generator.component is not component:
                continue
            for support in _supports(node):
                head = cast("Answer", support.answer)
                if head not in reached:
                    reached[head] = None
                    stack.append(head)
    return {answer: None for answer in reached if not answer.dead}


@dataclass(slots=True)
class _Instance:
    """A support as a ground rule: head, premises and denials to be valued, worth of the rest."""

    head: Answer
    positive: list[Answer]
    negative: list[Answer]
    rest: int


def _instance(support: Consumer, valued: dict[Answer, None]) -> _Instance:
    out = _Instance(cast("Answer", support.answer), [], [], TRUE)
    node: Consumer | None = support
    while node is not None:
        premise = node.premise
        if isinstance(premise, Answer):
            if premise in valued:
                out.positive.append(premise)
            else:
                out.rest = min(out.rest, premise.truth)
        elif isinstance(premise, Absence):
            for denied in premise.generator.answers.values():
                if denied in valued:
                    out.negative.append(denied)
                else:
                    out.rest = min(out.rest, TRUE - denied.truth)
        node = node.previous
    return out


def _least(instances: list[_Instance], floor: int, held: set[Answer]) -> set[Answer]:
    """The least model when a denied answer counts as absent iff it is not in `held`."""
    uses: dict[Answer, list[int]] = {}
    missing: list[int] = []
    ready: list[int] = []
    for number, instance in enumerate(instances):
        blocked = instance.rest < floor or any(answer in held for answer in instance.negative)
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
