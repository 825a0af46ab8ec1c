"""From the chosen ways to the steps of a proof that people read.

A node that is no row of the program's relations is not shown: its premises, absences and tests
count as those of the step that uses it. Invariant: a step's premises stand behind it; a fact that
several nodes stand for is shown once, by the lowest of their proofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from deltafix.errors import ProofBoundError
from deltafix.facts.schema import Row
from deltafix.plan.clause import Clause, Literal
from deltafix.provenance.kept import stands
from deltafix.provenance.least import Choice
from deltafix.provenance.nodes import GIVEN, Node, Way
from deltafix.provenance.proof import Proof, Step
from deltafix.provenance.search import Derivation
from deltafix.provenance.ways import Ways

MAX_STEPS: Final = 10_000
MAX_WORK: Final = 2_000_000
"""Rows and derivations to look at: about a third of a second."""

_Shown: TypeAlias = tuple[str, Row]


@dataclass(slots=True)
class _Parts:
    """What one step follows from: nodes of other steps, and phrases."""

    clause: Clause | None = None
    text: str = ""
    premises: list[Node] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)


def build(ways: Ways, goal: Node, choice: Choice, *, max_steps: int) -> Proof:
    """The proof of a goal. Raises ProofBoundError over `max_steps`."""
    return _Builder(ways, choice, max_steps).proof(goal)


class _Builder:
    def __init__(self, ways: Ways, choice: Choice, max_steps: int) -> None:
        self.ways = ways
        self.words = ways.words
        self.choice = choice
        self.max_steps = max_steps
        self.parts: dict[Node, _Parts] = {}
        self.shown: dict[Node, _Shown] = {}
        self.derived: dict[Node, Derivation | None] = {}
        for found in choice.found.values():
            for fact, derivation in found.chosen.items():
                self.derived.setdefault(fact, derivation)

    def proof(self, goal: Node) -> Proof:
        """The steps, users before what they use, and the height."""
        order = self._users_first(goal)
        one = self._one_for_each(order)
        # What only a node that is not shown led to has gone with it.
        kept = self._users_first(one[self.shown[goal]], one)
        places = {self.shown[node]: place for place, node in enumerate(kept)}
        steps = tuple(self._step(node, places) for node in kept)
        heights = [0] * len(steps)
        for place in range(len(steps) - 1, -1, -1):
            below = max((heights[premise] for premise in steps[place].premises), default=0)
            heights[place] = below + self._cost(kept[place])
        return Proof(steps, heights[0], self.choice.is_smallest)

    def _one_for_each(self, order: list[Node]) -> dict[_Shown, Node]:
        """For each fact that is shown, the node with the lowest proof.

        Along premises (height, depth) falls strictly, so it does where nodes are taken together.
        """
        labels: dict[Node, tuple[int, int]] = {}
        one: dict[_Shown, Node] = {}
        for node in reversed(order):
            below = [labels[part] for part in self.parts[node].premises]
            height = max((label[0] for label in below), default=0) + self._cost(node)
            labels[node] = (height, 1 + max((label[1] for label in below), default=0))
            best = one.setdefault(self.shown[node], node)
            if labels[node] < labels[best]:
                one[self.shown[node]] = node
        return one

    def _cost(self, node: Node) -> int:
        clause = self.parts[node].clause
        return int(clause is not None and self.words.says_more(clause))

    def _step(self, node: Node, places: Mapping[_Shown, int]) -> Step:
        relation, row = self.shown[node]
        parts = self.parts[node]
        premises = tuple(places[self.shown[part]] for part in parts.premises)
        absent, tests = list(dict.fromkeys(parts.absent)), list(dict.fromkeys(parts.tests))
        proposed = relation in self.words.keeps and self.ways.state.fact(relation, row) is None
        if not proposed:
            nothing_better, so_chosen = stands(self.words, relation, row)
            absent += nothing_better
            tests += so_chosen
        rule = None if parts.clause is None else parts.clause.rule
        return Step(
            relation, row, rule, parts.text, premises, tuple(absent), tuple(tests), proposed
        )

    def _users_first(self, goal: Node, one: Mapping[_Shown, Node] | None = None) -> list[Node]:
        """Nodes that are shown, in an order where each stands behind all that use it."""
        done: list[Node] = []
        seen: set[Node] = set()
        waiting = [(goal, False)]
        while waiting:
            node, left = waiting.pop()
            if left:
                done.append(node)
            elif node not in seen:
                if len(seen) == self.max_steps:
                    message = f"the proof has more than max_steps={self.max_steps:,} facts"
                    raise ProofBoundError(message, max_steps=self.max_steps)
                seen.add(node)
                waiting.append((node, True))
                premises = self._parts(node).premises
                if one is not None:
                    premises = [one[self.shown[part]] for part in premises]
                waiting += [(part, False) for part in premises]
        return done[::-1]

    def _parts(self, node: Node) -> _Parts:
        """What a shown node follows from, through all nodes that are not shown."""
        found = self.parts.get(node)
        if found is not None:
            return found
        found = self.parts[node] = _Parts()
        self.shown[node] = self.ways.shown(node) or ("", ())
        way = self._way(node)
        if way.clause is not None:
            found.clause, found.text = way.clause, self.words.rule(way.clause)
        else:
            found.text = way.says
        self._note(way, found)
        # Each literal of a rule has its premise, be it in several parts of the rule; the rows of an
        # aggregate or of a chain are a set.
        waiting = [(*one, way.clause is None) for one in _reasons(way)]
        said: set[_Shown | tuple[Literal | None, Node]] = set()
        while waiting:
            literal, part, once = waiting.pop()
            if literal is not None and (literal, part) in said:
                continue
            said.add((literal, part))
            shown = self.ways.shown(part)
            if shown is not None:
                self.shown[part] = shown
                if not (once and shown in said):
                    found.premises.append(part)
                said.add(shown)
                continue
            inner = self._way(part)
            if inner.says:
                found.tests.append(inner.says)
            self._note(inner, found)
            once = once or inner.clause is None
            waiting += [(*one, once) for one in _reasons(inner)]
        return found

    def _way(self, node: Node) -> Way:
        """The chosen way of a node, or of the same row before its relation chose among rows."""
        while True:
            way = self.choice.ways.get(node)
            if way is None:
                return self._kernel_way(node)
            if not way.is_same:
                return way
            (node,) = way.premises

    def _kernel_way(self, node: Node) -> Way:
        derivation = self.derived[node]
        if derivation is None:
            return GIVEN
        clause = derivation.clause
        body = {clause.body[place]: fact for place, fact in sorted(derivation.body.items())}
        nodes, literals = tuple(body.values()), tuple(body)
        return Way(nodes, int(bool(clause.body)), clause, derivation, literals=literals)

    def _note(self, way: Way, parts: _Parts) -> None:
        """Add what a rule instance says besides its premises."""
        if way.clause is None:
            return
        binding = way.binding
        values = self.words.values(binding) if isinstance(binding, Derivation) else binding or {}
        parts.absent += self.words.absent(way.clause, values)
        parts.tests += self.words.tests(way.clause, values)


def _reasons(way: Way) -> list[tuple[Literal | None, Node]]:
    """The premises of a way, each behind the literal that it stands for, last one first."""
    literals = way.literals or (None,) * len(way.premises)
    return list(zip(literals, way.premises, strict=True))[::-1]
