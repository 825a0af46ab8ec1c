"""Delta rules that count: each derivation that comes or goes is found exactly once.

The formula derivative says *which tuples* change; whoever counts derivations needs more. `COUNTED`
has an entry for each kind of formula that is counted: what a change of a part does to the count,
and in which state the other parts are read meanwhile. From these entries the planner makes its
delta rules (`plan.derive`), `symbolic` asks z3 for a proof of each, and the documentation prints
its table. Invariant (`counted_once` of `formula_laws`): summed with their signs, the terms
of a body are exactly new derivations minus old ones. An aggregate has one derivation a group; what
it does is in `formula_derivative.PRECISE`, and so are the tuples: a tuple is there while its count
is not 0.

The ∧ rule of `formula_derivative`, `(↑T ∧ X(U)) ∨ (X(T) ∧ ↑U)`, is what the terms' union becomes
when counts are forgotten: both disjuncts cover a pair whose two halves are new.

Source: Fixing incremental computation, section 4.2 (rule for ∧), read over signed counts, where
it is the product rule `Δ(T·U) = ΔT·X(U) + T·ΔU`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Literal, TypeAlias

from deltafix.changes import formula as f
from deltafix.changes.formula_derivative import PRECISE, Differentiation
from deltafix.changes.simplify import simplify
from deltafix.errors import ChangeError

Reads: TypeAlias = Literal["old", "delta", "new"]
"""What a body position reads: the state before the change, the change itself, the state after."""


@dataclass(frozen=True, slots=True)
class Counting:
    """How the derivations of one kind of formula change with those of its parts.

    Attributes:
        sign: what one more derivation of a part does to the count: 1, -1, or 0 where nothing
            changes.
        before, after: where a count is the product of its parts', the state in which the parts
            before the one that changes are read, and those after it; None where it is their sum.
    """

    sign: int
    before: Literal["old", "new"] | None = None
    after: Literal["old", "new"] | None = None


Counted: TypeAlias = Mapping[type, Counting]

COUNTED: Counted = MappingProxyType(
    {
        f.Truth: Counting(0),
        f.Test: Counting(0),
        f.Relation: Counting(1),
        f.Not: Counting(-1),  # of a relation, whose count is 0 or 1
        f.And: Counting(1, "old", "new"),
        f.Or: Counting(1),
        f.Exists: Counting(1),
    }
)
"""An entry for each kind of formula whose derivations are counted.

∧ reads old states before and new ones after: the rule for insertions processed one row or block at
a time, before the change the state without the row, after it the state with it. Its mirror
`Counting(1, "new", "old")` is the same sentence for deletions, where the state without the row is
the new one. Either counts every derivation once; mixing the two within one change does not.
"""


def sign_of(path: Iterable[type], counted: Counted = COUNTED) -> int:
    """What a change does at the end of a path of formulae, from the outermost inwards. O(path)."""
    return prod(counted[kind].sign for kind in path)


def reads_of(pivot: int, position: int, counted: Counted = COUNTED) -> Reads:
    """What one position of a conjunction reads where `pivot` changes. O(1)."""
    rule = counted[f.And]
    reads = "delta" if position == pivot else rule.before if position < pivot else rule.after
    assert reads is not None  # noqa: S101  a conjunction is a product
    return reads


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

    def formulae(self, literals: Sequence[f.Formula]) -> tuple[f.Formula, f.Formula]:
        """The term over actual literals: derivations it adds, derivations it removes.

        The pivot's own change is taken precisely, so the two are exact where relations' changes
        are.
        """
        d = Differentiation(PRECISE)
        rest = [
            d.next(literal) if reads == "new" else literal
            for literal, reads in zip(literals, self.reads, strict=True)
        ]

        def around(middle: f.Formula) -> f.Formula:
            return simplify(f.conjunction(*rest[: self.pivot], middle, *rest[self.pivot + 1 :]))

        pivot = literals[self.pivot]
        return around(d.up(pivot)), around(d.down(pivot))


def conjunction_terms(
    literals: Sequence[f.Formula], counted: Counted = COUNTED
) -> tuple[DeltaTerm, ...]:
    """The delta rules of a body: one for each literal that can change, in their order.

    Raises:
        ChangeError: A part is no literal (a relation, a negated one, a test or a truth).
    """
    positions = range(len(literals))
    signs = [sign_of((f.And, *_path(literal)), counted) for literal in literals]
    return tuple(
        DeltaTerm(pivot, tuple(reads_of(pivot, p, counted) for p in positions), sign < 0)
        for pivot, sign in enumerate(signs)
        if sign
    )


def _path(literal: f.Formula) -> tuple[type, ...]:
    match literal:
        case f.Relation() | f.Test() | f.Truth():
            return (type(literal),)
        case f.Not(f.Relation()):
            return (f.Not, f.Relation)
        case _:
            raise ChangeError(f"{literal} is no literal: a relation, a negated one, a test or ⊤, ⊥")
