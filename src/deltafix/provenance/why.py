"""Why a row holds: the smallest proof, or several, found when asked.

`smallest` is the search of `kernel.cone`; `proofs` walks derivations, least height first.
Invariant: every proof is well-founded (no fact stands below itself) and holds in the state asked
about. Nothing is recorded while epochs run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltafix.errors import NoSuchFactError, ProofBoundError
from deltafix.facts.schema import Row, show_row
from deltafix.provenance.proof import Proof
from deltafix.provenance.search import Derivation, Fact
from deltafix.provenance.state import State, committed
from deltafix.provenance.steps import MAX_STEPS, MAX_WORK, Chosen, build

if TYPE_CHECKING:
    from deltafix.engine.database import Database

__all__ = ["proof_of", "proofs", "why"]


def why(
    db: Database,
    relation: str,
    row: Row,
    *,
    limit: int | None = None,
    max_steps: int = MAX_STEPS,
    max_work: int = MAX_WORK,
) -> list[Proof]:
    """Proofs of a row of the last committed epoch: the smallest, or up to `limit` of them.

    Raises NoSuchFactError if it does not hold, ProofBoundError over `max_steps`.
    """
    with committed(db) as state:
        if limit is None:
            return [proof_of(state, relation, row, max_steps=max_steps, max_work=max_work)]
        return list(proofs(state, relation, row, limit, max_steps=max_steps, max_work=max_work))


def proof_of(
    state: State,
    relation: str,
    row: Row,
    *,
    max_steps: int = MAX_STEPS,
    max_work: int = MAX_WORK,
) -> Proof:
    """A smallest proof in a state.

    It has least height; of the proofs of that height that were met, one of fewest steps.
    """
    fact = _held(state, relation, row)
    try:
        found = state.smallest(fact, max_work, max_steps)
    except KeyError:
        message = (
            f"the proof of {show_row(relation, row)} has more than max_steps={max_steps:,} facts"
        )
        raise ProofBoundError(message, relation=relation, row=row) from None
    if found is None:  # its relation keeps rows that no single derivation explains
        return build(state, fact, {fact: None}, smallest=True, max_steps=max_steps)
    return build(state, fact, found.chosen, smallest=found.smallest, max_steps=max_steps)


def _held(state: State, relation: str, row: Row) -> Fact:
    fact = state.fact(relation, row)
    if fact is None:
        shown = show_row(relation, row)
        message = f"{shown} does not hold, so it has no proof; `why_not` says what is missing"
        raise NoSuchFactError(message, relation=relation, row=row)
    return fact


def proofs(
    state: State,
    relation: str,
    row: Row,
    limit: int,
    *,
    max_steps: int = MAX_STEPS,
    max_work: int = MAX_WORK,
) -> Iterator[Proof]:
    """Up to `limit` different proofs, by height. A fact has one derivation within a proof.

    The search widens height by height; `max_work` bounds the choices it tries in all.
    """
    fact = _held(state, relation, row)
    walk = _Walk(state, max_steps, max_work)
    # Alternatives of one rule can say the same: proofs are told apart by what they show.
    seen: set[Proof] = set()
    height = -1
    while len(seen) < limit:
        height += 1
        walk.cut = False
        for chosen, tall in walk.choices(fact, height):
            if tall < height:
                continue
            proof = build(state, fact, chosen, smallest=True, max_steps=max_steps)
            if proof in seen:
                continue
            seen.add(proof)
            yield proof
            if len(seen) == limit:
                return
        if not walk.cut or walk.tried > max_work:
            return


class _Walk:
    """Every choice of one derivation a fact, depth first, within a height."""

    def __init__(self, state: State, max_steps: int, max_work: int) -> None:
        self.state = state
        self.max_steps = max_steps
        self.max_work = max_work
        self.tried = 0
        self.cut = False
        self._known: dict[Fact, list[Derivation]] = {}

    def derivations(self, fact: Fact) -> list[Derivation]:
        """The derivations of a fact, asked for once."""
        found = self._known.get(fact)
        if found is None:
            found = self._known[fact] = self.state.derivations(fact)
        return found

    def choices(self, fact: Fact, height: int) -> Iterator[tuple[Chosen, int]]:
        """Proofs of one fact of at most this height, with their heights."""
        for chosen, heights in self._all([fact], {}, {}, frozenset(), height):
            yield chosen, heights[fact]

    def _all(
        self,
        facts: list[Fact],
        chosen: Chosen,
        heights: dict[Fact, int],
        above: frozenset[Fact],
        height: int,
    ) -> Iterator[tuple[Chosen, dict[Fact, int]]]:
        """Extend a choice by proofs of all of `facts` that use nothing of `above`."""
        if not facts:
            yield chosen, heights
            return
        fact, rest = facts[0], facts[1:]
        if fact in chosen:
            if heights[fact] <= height:
                yield from self._all(rest, chosen, heights, above, height)
            else:
                self.cut = True
            return
        if fact in above:
            return
        searcher = self.state.searcher
        if searcher.is_given(fact) or searcher.is_folded(fact):
            given: Chosen = {**chosen, fact: None}
            yield from self._all(rest, given, {**heights, fact: 0}, above, height)
        for derivation in self.derivations(fact):
            self.tried += 1
            if self.tried > self.max_work or len(chosen) >= self.max_steps:
                return
            added = int(bool(derivation.clause.body))
            if height < added:
                self.cut = True
                continue
            body = list(dict.fromkeys(derivation.body.values()))
            inner = self._all(body, chosen, heights, above | {fact}, height - added)
            for below, tall in inner:
                mine = added + max((tall[part] for part in body), default=0)
                taken: Chosen = {**below, fact: derivation}
                yield from self._all(rest, taken, {**tall, fact: mine}, above, height)
