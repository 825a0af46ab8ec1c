"""What is derived of an `lfp`'s operator: its step from a delta, and the count of derivations.

The two things that the source's section 5.2 asks of every operator. Each prints as rules and is
called with a database of the program, which answers through its indexes
(`Database.step_from_delta`, `Database.derivation_count`). Invariant: what is printed are the delta
rules of `plan.derive`, from the same entries (`changes.counted`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from deltafix.changes.counted import reads_of
from deltafix.facts.schema import Row
from deltafix.rules.ast import And, Atom, Comparison, Formula, Rule
from deltafix.rules.show import show_formula


class _Answers(Protocol):
    """What a database answers."""

    def step_from_delta(
        self, relation: str, rows: Iterable[Row], *, through: Iterable[str] = ()
    ) -> list[Row]: ...

    def derivation_count(self, relation: str, row: Row) -> int: ...


@dataclass(frozen=True, slots=True)
class StepFromDelta:
    """The step of an operator: what follows at once from some rows of its set.

    Attributes:
        relation: the set.
        through: the sets of the `lfp`s inside, whose rows are followed until rows of the set come.
        rules: the rules of all these.
    """

    relation: str
    through: tuple[str, ...]
    rules: tuple[Rule, ...]

    def __call__(self, db: _Answers, rows: Iterable[Row]) -> list[Row]:
        """See `Database.step_from_delta`."""
        return db.step_from_delta(self.relation, rows, through=self.through)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        followed = {self.relation, *self.through}
        for rule in self.rules:
            parts = _parts(rule)
            for pivot, part in enumerate(parts):
                if isinstance(part, Atom) and part.relation in followed:
                    body = (_read(other, reads_of(pivot, n)) for n, other in enumerate(parts))
                    yield f"Δ{show_formula(rule.heads[0])} :- {', '.join(body)}."


@dataclass(frozen=True, slots=True)
class DerivationCount:
    """In how many ways an operator derives a row of its set: the sum over its rules."""

    relation: str
    rules: tuple[Rule, ...]

    def __call__(self, db: _Answers, row: Row) -> int:
        """See `Database.derivation_count`."""
        return db.derivation_count(self.relation, row)

    def __str__(self) -> str:
        return "\n".join(
            f"{show_formula(rule.heads[0])}: "
            + (f"count : {{ {show_formula(rule.body)} }}" if _parts(rule) else "1")
            for rule in self.rules
        )


def _parts(rule: Rule) -> tuple[Formula, ...]:
    return rule.body.parts if isinstance(rule.body, And) else (rule.body,)


def _read(part: Formula, state: str) -> str:
    """A literal with the state that it reads; a comparison reads none."""
    mark = "Δ" if state == "delta" else f"{state} "
    return show_formula(part) if isinstance(part, Comparison) else f"{mark}{show_formula(part)}"
