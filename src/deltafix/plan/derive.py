"""Delta rules: a clause's derivatives, one per literal that can change.

For `h :- l1, ..., ln` the change made by literal i is the product rule ("Fixing incremental
computation", section 5), `l1 ... l(i-1)` in the state without the change, `l(i+1) ... ln` in the
state with it, so that a derivation that uses several changed rows is found exactly once. A
negative literal's change is the change of its relation with the sign turned (`¬` swaps up and
down).

In a stratum's epoch the states below go old -> mid -> new (mid: old less what was deleted):

    down   l_before in mid, l_after in old     derivations that break
    up     l_before in mid, l_after in new     derivations that begin to hold

Facts of the stratum itself change one at a time: positions before the trigger do not see it.
The terms are `changes.conjunction`'s, whose law (each derivation counted once) is checked there.
Invariant: what the engine runs is what this module lists. Join order is `plan.order`'s.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltafix.changes.conjunction import reads_of
from deltafix.plan.clause import Absent, Clause, Match
from deltafix.plan.depend import Layer
from deltafix.plan.ir import Sees

__all__ = ["sees", "triggers_below", "triggers_within"]


def triggers_below(layer: Layer, clause: Clause) -> Iterator[int]:
    """Positions of literals over relations of lower strata."""
    for position, literal in enumerate(clause.body):
        if isinstance(literal, Match | Absent) and literal.relation not in layer.relations:
            yield position


def triggers_within(layer: Layer, clause: Clause) -> Iterator[int]:
    """Positions of literals over relations of the stratum itself."""
    for position, literal in enumerate(clause.body):
        if isinstance(literal, Match) and literal.relation in layer.relations:
            yield position


def sees(layer: Layer, clause: Clause, trigger: int | None, position: int) -> Sees:
    """Which state the literal at `position` sees in the variant of `trigger`."""
    literal = clause.body[position]
    same = isinstance(literal, Match | Absent) and literal.relation in layer.relations
    before = trigger is not None and trigger >= 0 and reads_of(trigger, position) == "old"
    if same:
        return Sees.SAME_BEFORE if before else Sees.SAME_AFTER
    return Sees.LOWER_BEFORE if before else Sees.LOWER_AFTER
