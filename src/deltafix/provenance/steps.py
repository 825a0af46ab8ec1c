"""From chosen derivations to the steps of a proof that people read.

Hidden relations are not shown: a hidden row's premises, absences and tests count as those of the
step that uses it. The row of an aggregate (`plan.folds`) stands for the rows that went in; each
of those gets a smallest proof of its own. Invariant: a step's premises stand behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from deltafix.errors import ProofBoundError
from deltafix.facts.schema import show_value
from deltafix.plan.clause import Fold
from deltafix.provenance.proof import Proof, Step
from deltafix.provenance.rows import Rows
from deltafix.provenance.search import Derivation, Fact
from deltafix.provenance.words import Words

if TYPE_CHECKING:
    from deltafix.provenance.state import State

__all__ = ["MAX_STEPS", "MAX_WORK", "Chosen", "build"]

MAX_STEPS: Final = 10_000
MAX_WORK: Final = 2_000_000
"""Rows and derivations to look at: about a third of a second."""

Chosen = dict[Fact, Derivation | None]
_INPUTS: Final = 50
"""Rows of an aggregate that a proof shows; beyond, it says how many there are."""


@dataclass(slots=True)
class _Parts:
    """What one step follows from."""

    premises: list[Fact] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)


def build(state: State, goal: Fact, chosen: Chosen, *, smallest: bool, max_steps: int) -> Proof:
    """The proof of a goal. Raises ProofBoundError over `max_steps`."""
    return _Builder(state, dict(chosen), smallest, max_steps).proof(goal)


class _Builder:
    def __init__(self, state: State, chosen: Chosen, smallest: bool, max_steps: int) -> None:
        self.state = state
        self.searcher = state.searcher
        self.words = Words.of(state.db)
        self.chosen = chosen
        self.smallest = smallest
        self.max_steps = max_steps
        self.parts: dict[Fact, _Parts] = {}

    def proof(self, goal: Fact) -> Proof:
        """The steps, users before what they use, and the height."""
        order = self._users_first(goal)
        places = {fact: place for place, fact in enumerate(order)}
        steps = tuple(self._step(fact, places) for fact in order)
        heights = [0] * len(steps)
        for place in range(len(steps) - 1, -1, -1):
            derivation = self.chosen[order[place]]
            if derivation is not None and derivation.clause.body:
                below = (heights[premise] for premise in steps[place].premises)
                heights[place] = 1 + max(below, default=0)
        return Proof(steps, heights[0], self.smallest)

    def _step(self, fact: Fact, places: dict[Fact, int]) -> Step:
        relation = self.searcher.names[fact >> 32]
        row = self.words.row(relation, self.searcher.codes(fact))
        derivation, parts = self.chosen[fact], self.parts[fact]
        if derivation is None:
            return Step(self.words.given.get(relation, relation), row)
        premises = tuple(dict.fromkeys(places[part] for part in parts.premises))
        clause = derivation.clause
        text = self.words.rule(clause)
        absent, tests = tuple(parts.absent), tuple(parts.tests)
        return Step(relation, row, clause.rule, text, premises, absent, tests)

    def _users_first(self, goal: Fact) -> list[Fact]:
        """The facts in an order where each stands behind all that use it (reversed post-order)."""
        done: list[Fact] = []
        seen: set[Fact] = set()
        waiting = [(goal, False)]
        while waiting:
            fact, left = waiting.pop()
            if left:
                done.append(fact)
            elif fact not in seen:
                if len(seen) == self.max_steps:
                    message = f"the proof has more than max_steps={self.max_steps:,} facts"
                    raise ProofBoundError(message, max_steps=self.max_steps)
                seen.add(fact)
                waiting.append((fact, True))
                parts = self.parts[fact] = self._expand(fact)
                waiting += [(part, False) for part in parts.premises]
        return done[::-1]

    def _expand(self, fact: Fact) -> _Parts:
        parts = _Parts()
        derivation = self.chosen[fact]
        if derivation is None or self.words.is_intake(derivation.clause):
            self.chosen[fact] = None
            return parts
        values = self.words.values(derivation)
        parts.absent += self.words.absent(derivation.clause, values)
        parts.tests += self.words.tests(derivation.clause, values)
        for _, part in sorted(derivation.body.items()):
            self._add(part, parts)
        return parts

    def _add(self, fact: Fact, parts: _Parts) -> None:
        """A premise, or what a hidden premise stands for."""
        name = self.searcher.names[fact >> 32]
        if name not in self.words.hidden or (
            name in self.words.given and self.chosen[fact] is None
        ):
            parts.premises.append(fact)
            return
        fold = self.words.folds.get(name)
        if fold is not None:
            self._inputs(fact, fold, parts)
            return
        inner = self._expand(fact)
        parts.premises += inner.premises
        parts.absent += inner.absent
        parts.tests += inner.tests

    def _inputs(self, fact: Fact, fold: Fold, parts: _Parts) -> None:
        """The rows that went into an aggregate; for min and max one that attains the value."""
        row = self.words.row(fold.relation, self.searcher.codes(fact))
        pattern: list[object] = [...] * len(self.words.types[fold.source])
        for column, value in zip(fold.group, row, strict=False):
            pattern[column] = value
        if fold.op in ("min", "max") and fold.value is not None:
            pattern[fold.value] = row[-1]
        rows = Rows(self.state, self.words)
        shown = list(islice(rows.fitting(fold.source, tuple(pattern)), _INPUTS + 1))  # type: ignore[arg-type]  # values and `...`
        more = len(shown) > _INPUTS
        if fold.op in ("min", "max"):
            shown = shown[:1]
            parts.tests.append(f"{fold.op} = {show_value(row[-1])}")
        else:
            count = f"more than {_INPUTS}" if more else str(len(shown))
            parts.tests.append(f"{fold.op} over {count} row(s) = {show_value(row[-1])}")
        for source in shown[:_INPUTS]:
            part = self.state.fact(fold.source, source)
            if part is not None:
                self._prove(part)
                self._add(part, parts)

    def _prove(self, fact: Fact) -> None:
        if fact in self.chosen:
            return
        found = self.state.smallest(fact, MAX_WORK, self.max_steps)
        if found is None:
            self.chosen[fact] = None
            return
        self.smallest = self.smallest and found.smallest
        for part, derivation in found.chosen.items():
            self.chosen.setdefault(part, derivation)
