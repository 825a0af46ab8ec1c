"""The delta rules of a rule body: each derivation that comes or goes, exactly once.

For a conjunction the formula derivative says *which tuples* change; whoever counts derivations
needs more: one term per body position, disjoint from the others. One noun, `DeltaTerm`: the
position that reads the change, and for every other position whether it reads the old or the new
state. Invariant (`formula_laws.counted_once`): summed with their signs, the terms are exactly
new derivations minus old ones. Literals are opaque here, so a planner uses its own.

The ∧ rule of `formula_derivative`, `(↑T ∧ X(U)) ∨ (↑U ∧ X(T))`, is what the terms' union becomes
when counts are forgotten: both disjuncts cover a pair whose two halves are new.

Source: Fixing incremental computation, section 4.2 (rule for ∧), read over signed counts, where
it is the product rule `Δ(T·U) = ΔT·X(U) + T·ΔU`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from deltafix.changes.formula import (
    And,
    Formula,
    Not,
    Relation,
    Test,
    Truth,
    conjunction,
)
from deltafix.changes.formula_derivative import PRECISE, Differentiation
from deltafix.changes.simplify import simplify

Reads: TypeAlias = Literal["old", "delta", "new"]
"""What a body position reads: the state before the change, the change itself, the state after."""


@dataclass(frozen=True, slots=True)
class DeltaTerm:
    """One delta rule of a conjunction of n literals.

    Attributes:
        pivot: The position that reads the change, 0-based.
        reads: For every position what it reads; `reads[pivot] == "delta"`.
        flips: Whether the pivot is negated: added rows then remove derivations, and vice versa.
    """

    pivot: int
    reads: tuple[Reads, ...]
    flips: bool = False

    def __str__(self) -> str:
        marks = {"old": "{}", "delta": "Δ{}", "new": "X({})"}
        body = ", ".join(marks[r].format(i + 1) for i, r in enumerate(self.reads))
        return f"{'-' if self.flips else '+'} {body}"

    def formulae(self, literals: Sequence[Formula]) -> tuple[Formula, Formula]:
        """The term over actual literals: derivations it adds, derivations it removes.

        The pivot's own change is taken precisely, so the two are exact where relations' changes
        are.
        """
        d = Differentiation(PRECISE)
        rest = [
            d.next(literal) if reads == "new" else literal
            for literal, reads in zip(literals, self.reads, strict=True)
        ]

        def around(middle: Formula) -> Formula:
            return simplify(conjunction(*rest[: self.pivot], middle, *rest[self.pivot + 1 :]))

        pivot = literals[self.pivot]
        return around(d.up(pivot)), around(d.down(pivot))


def conjunction_terms(
    negated: Sequence[bool], *, earlier: Literal["old", "new"] = "old"
) -> tuple[DeltaTerm, ...]:
    """The delta rules of a body whose i-th literal is negated iff `negated[i]`.

    Args:
        negated: One flag per body position; rigid tests may be left out, they never change.
        earlier: What positions before the pivot read. `"old"` (and `"new"` after it) is the rule
            for insertions processed one row or block at a time: before the pivot the state
            without the row, after it the state with it. `"new"` mirrors it, which is the same
            sentence for deletions, where the state without the row is the new one.

    Returns:
        One term per position, in order. Either choice counts every derivation once; mixing the
        two within one change does not.
    """
    positions = range(len(negated))
    return tuple(
        DeltaTerm(pivot, tuple(reads_of(pivot, p, earlier=earlier) for p in positions), flips)
        for pivot, flips in enumerate(negated)
    )


def reads_of(pivot: int, position: int, *, earlier: Literal["old", "new"] = "old") -> Reads:
    """What one position reads in the term of `pivot` (see `conjunction_terms`). O(1)."""
    if position == pivot:
        return "delta"
    return "new" if (position < pivot) == (earlier == "new") else "old"


def literals_of(formula: Formula) -> tuple[Formula, ...] | None:
    """The literals of a conjunction of relations, negated relations, tests and truths, or None."""
    match formula:
        case And(left, right):
            first, second = literals_of(left), literals_of(right)
            return None if first is None or second is None else first + second
        case Relation() | Test() | Truth() | Not(Relation()):
            return (formula,)
        case _:
            return None
