"""Delta rules: a clause's derivatives, one per literal that can change.

A clause is a part of what its head says, `∃…(l1 ∧ … ∧ ln) ∨ …`, and so are its delta rules: which
literals have one, with which sign, and which state the others see meanwhile follows from the
entries of `changes.counted.COUNTED`, and from nothing else. For `h :- l1, ..., ln` the change made
by literal i is the product rule ("Fixing incremental computation", section 5), `l1 ... l(i-1)` in
the state without the change, `l(i+1) ... ln` in the state with it, so that a derivation that uses
several changed rows is found exactly once. A negative literal's change is the change of its
relation with the sign turned (`¬` swaps up and down).

In a stratum's epoch the states below go old -> mid -> new (mid: old less what was deleted):

    down   l_before in mid, l_after in old     derivations that break
    up     l_before in mid, l_after in new     derivations that begin to hold

Facts of the stratum itself change one at a time: positions before the trigger do not see it.
Invariant: what the engine runs is what this module lists. Join order is `plan.order`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from deltafix.changes.counted import COUNTED, reads_of, sign_of
from deltafix.changes.formula import And, Exists, Not, Or, Relation, Test
from deltafix.plan.clause import Absent, Apply, Clause, Compare, Literal, Match
from deltafix.plan.depend import Layer
from deltafix.plan.ir import Sees

_FORMULAE: Mapping[type[Literal], tuple[type, ...]] = {
    Match: (Relation,),
    Absent: (Not, Relation),
    Compare: (Test,),
    Apply: (Test,),
}
"""Each kind of literal as a formula, from the outside inwards."""


def changes_with(literal: Literal) -> int:
    """What one more row of a literal's relation does to its clause.

    1: it makes derivations, -1: it breaks them, 0: there are no rows.
    """
    return sign_of((Or, Exists, And, *_FORMULAE[type(literal)]), COUNTED)


def is_before(trigger: int, position: int) -> bool:
    """Whether the literal at `position` sees the state without the trigger's change."""
    return reads_of(trigger, position, COUNTED) == "old"


def pivots(body: Iterable[Literal]) -> Iterator[tuple[int, Match | Absent]]:
    """The literals of a body that can change, with their positions: one delta rule each."""
    for position, literal in enumerate(body):
        if changes_with(literal):
            assert isinstance(literal, (Match, Absent))  # noqa: S101  nothing else has rows
            yield position, literal


def triggers_below(layer: Layer, clause: Clause) -> Iterator[int]:
    """Positions of literals over relations of lower strata."""
    return (at for at, literal in pivots(clause.body) if not _same(layer, literal))


def triggers_within(layer: Layer, clause: Clause) -> Iterator[int]:
    """Positions of literals over relations of the stratum itself."""
    return (at for at, literal in pivots(clause.body) if _same(layer, literal))


def sees(layer: Layer, clause: Clause, trigger: int | None, position: int) -> Sees:
    """Which state the literal at `position` sees in the variant of `trigger`."""
    before = trigger is not None and trigger >= 0 and is_before(trigger, position)
    if _same(layer, clause.body[position]):
        return Sees.SAME_BEFORE if before else Sees.SAME_AFTER
    return Sees.LOWER_BEFORE if before else Sees.LOWER_AFTER


def _same(layer: Layer, literal: Literal) -> bool:
    return isinstance(literal, (Match, Absent)) and literal.relation in layer.relations
