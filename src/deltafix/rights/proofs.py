"""Why a subject has a relation to an object, as a proof: tuples, and lines of the model.

Invariant: a step is a relation of the model at an object; what holds within a definition, a part of
`and` or `but not`, is written into the step of its relation. Leaves are tuples, committed or
contextual; what is excluded and does not hold is named beside the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltafix.provenance.proof import Proof, Step
from deltafix.rights.graph import Graph, Source
from deltafix.rights.reader import Conditional
from deltafix.rights.search import Goal, Search
from deltafix.rights.tuples import AnyTuple, ConditionalTuple, Tuple, shown


@dataclass(slots=True)
class _Inside:
    """What a goal follows from, parts of its definition written out."""

    tuples: list[AnyTuple] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    height: int = 0


def proof_of(graph: Graph, search: Search, sources: Mapping[str, Source], goal: Goal) -> Proof:
    """The proof that a search found for a goal. O(goals that it found)."""
    subject = str(search.subject)
    inside: dict[Goal, _Inside] = {}
    height: dict[Goal, int] = {}
    for goal_, reason in search.true.items():  # reasons come before what follows from them
        node = graph.nodes[goal_[0]]
        step = _Inside()
        if reason.leaf is not None and reason.row:
            source = sources[reason.leaf.source]
            row = tuple(map(search.reader.symbol, reason.row))
            if reason.leaf.condition and isinstance(search.reader, Conditional):
                row = (*row, search.reader.holding(reason.leaf.source, *reason.row)[0])
            step.tuples.append(shown(source, row))
        for child in reason.because:
            if graph.nodes[child[0]].name:
                step.goals.append(child)
                step.height = max(step.height, height[child])
            else:
                below = inside[child]
                step.tuples += below.tuples
                step.goals += below.goals
                step.absent += below.absent
                step.height = max(step.height, below.height)
        if reason.absent is not None:
            number, at = reason.absent
            excluded = graph.nodes[number]
            what = excluded.name or f"({excluded.text})"
            where = f"{node.type}:{search.reader.symbol(at)}"
            step.absent.append(f"{subject} is not {what} of {where}")
        inside[goal_] = step
        height[goal_] = step.height + 1
    return Proof(tuple(_steps(graph, search, inside, goal)), height[goal])


def _steps(graph: Graph, search: Search, inside: dict[Goal, _Inside], goal: Goal) -> list[Step]:
    goals = _last_first(inside, goal)
    tuples = dict.fromkeys(tuple_ for goal_ in goals for tuple_ in inside[goal_].tuples)
    order: list[Goal | AnyTuple] = [*goals, *tuples]
    numbers = {leaf: index for index, leaf in enumerate(order)}
    steps = []
    for part in order:
        if isinstance(part, ConditionalTuple):
            tests = (f"{part.condition} holds with {part.context}",)
            steps.append(Step(part.relation, (part.user, part.object), tests=tests))
            continue
        if isinstance(part, Tuple):
            steps.append(Step(part.relation, (part.user, part.object)))
            continue
        node = graph.nodes[part[0]]
        inner = inside[part]
        line = "" if node.span is None else f"line {node.span.line}: "
        is_itself = not inner.tuples and not inner.goals
        text = "a userset is in itself" if is_itself else f"{line}{node.text}"
        where = f"{node.type}:{search.reader.symbol(part[1])}"
        premises = (
            *(numbers[below] for below in inner.tuples),
            *(numbers[below] for below in inner.goals),
        )
        steps.append(
            Step(
                node.name, (str(search.subject), where), None, text, premises, tuple(inner.absent)
            )
        )  # fmt: skip
    return steps


def _last_first(inside: dict[Goal, _Inside], goal: Goal) -> list[Goal]:
    """The goals of the proof, each before those it follows from."""
    used = {goal}
    goals: list[Goal] = []
    for goal_ in reversed(inside):  # a goal stands behind all that it follows from
        if goal_ in used:
            goals.append(goal_)
            used.update(inside[goal_].goals)
    return goals
