"""Why a row holds: the smallest proof, or several, found when asked.

`least` searches for a lowest one; `proofs` walks the ways of each node, least height first.
Invariant: every proof is well-founded (no fact stands below itself) and holds in the state asked
about. Nothing is recorded while epochs run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from deltafix.errors import InternalError, NoSuchFactError, ProofBoundError
from deltafix.facts.schema import Row, show_row
from deltafix.provenance.least import Choice, Label, labels, lowest
from deltafix.provenance.nodes import Node, Reached, Way
from deltafix.provenance.proof import Proof
from deltafix.provenance.state import State, committed
from deltafix.provenance.steps import MAX_STEPS, MAX_WORK, build
from deltafix.provenance.ways import Ways

if TYPE_CHECKING:
    from deltafix.engine.database import Database

Chosen: TypeAlias = dict[Node, Way]
_FAR: Final = (1 << 60, 0)
_LOW: Final = (0, 0)


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
    ways = Ways(state)
    goal = _held(ways, relation, row)
    try:
        choice = lowest(ways, goal, max_work, max_steps)
    except KeyError:
        message = (
            f"the proof of {show_row(relation, row)} has more than max_steps={max_steps:,} facts"
        )
        raise ProofBoundError(message, relation=relation, row=row) from None
    if choice is None:
        raise InternalError(f"provenance: nothing derives {show_row(relation, row)}")
    return build(ways, goal, choice, max_steps=max_steps)


def _held(ways: Ways, relation: str, row: Row) -> Node:
    node = ways.node(relation, row) if ways.state.fact(relation, row) is not None else None
    if node is None:
        shown = show_row(relation, row)
        message = f"{shown} does not hold, so it has no proof; `why_not` says what is missing"
        raise NoSuchFactError(message, relation=relation, row=row)
    return node


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
    first = proof_of(state, relation, row, max_steps=max_steps, max_work=max_work)
    ways = Ways(state)
    goal = _held(ways, relation, row)
    walk = _Walk(ways, labels(ways, goal, max_work), max_steps, max_work)
    # Alternatives of one rule can say the same: proofs are told apart by what they show.
    seen: set[Proof] = set()
    height = first.height - 1 if first.is_smallest else -1
    while len(seen) < limit:
        height += 1
        walk.cut = False
        for chosen, tall in walk.choices(goal, height):
            if tall < height:
                continue
            proof = build(ways, goal, Choice(chosen), max_steps=max_steps)
            # A row that is shown once, by the lowest of its proofs, may have made it lower.
            if proof in seen or proof.height < height:
                continue
            seen.add(proof)
            yield proof
            if len(seen) == limit:
                return
        if not walk.cut or walk.tried > max_work:
            break
    if not seen:
        yield first


@dataclass(frozen=True, slots=True)
class _Todo:
    """A node to prove, using nothing of `above`, at most so high; with a way, to take that way."""

    node: Node
    above: frozenset[Node | tuple[str, Row]]
    height: int
    way: Way | None = None
    rest: _Todo | None = None


_Partial: TypeAlias = tuple[_Todo | None, Chosen, dict[Node, int]]


class _Walk:
    """Every choice of one way a node, depth first, within a height."""

    def __init__(self, ways: Ways, known: dict[Node, Label], max_steps: int, max_work: int) -> None:
        self.ways = ways
        self.known = known
        self.max_steps = max_steps
        self.max_work = max_work
        self.tried = 0
        self.cut = False

    def choices(self, goal: Node, height: int) -> Iterator[tuple[Chosen, int]]:
        """Proofs of one node of at most this height, with their heights.

        Without recursion: proofs may be deeper than Python's stack.
        """
        first: _Partial = (_Todo(goal, frozenset(), height), {}, {})
        waiting = [iter((first,))]
        while waiting:
            partial = next(waiting[-1], None)
            if partial is None:
                waiting.pop()
                continue
            todo, chosen, heights = partial
            if todo is None:
                yield chosen, heights[goal]
            elif todo.way is not None:
                below = (heights[part] for part in todo.way.premises)
                mine = todo.way.cost + max(below, default=0)
                done = ({**chosen, todo.node: todo.way}, {**heights, todo.node: mine})
                waiting.append(iter(((todo.rest, *done),)))
            elif todo.node in chosen:
                if heights[todo.node] <= todo.height:
                    waiting.append(iter(((todo.rest, chosen, heights),)))
                else:
                    self.cut = True
            elif self._said(todo.node) not in todo.above:
                waiting.append(self._alternatives(todo, chosen, heights))

    def _alternatives(
        self, todo: _Todo, chosen: Chosen, heights: dict[Node, int]
    ) -> Iterator[_Partial]:
        """What is to be done for each way of a node: prove the premises, then take the way."""
        node = todo.node
        if node in self.known and self.known[node][0] > todo.height:
            self.cut = True
            return
        for way in self._ways(todo):
            self.tried += 1
            if self.tried > self.max_work or len(chosen) >= self.max_steps:
                return
            if way is None:
                continue
            if todo.height < way.cost:
                self.cut = True
                continue
            found = replace(todo, way=way)
            above = todo.above if way.is_same else todo.above | {self._said(node)}
            for premise in reversed(dict.fromkeys(way.premises)):
                found = _Todo(premise, above, todo.height - way.cost, rest=found)
            yield found, chosen, heights

    def _ways(self, todo: _Todo) -> Iterator[Way | None]:
        """The ways of a node, but for such as cannot be taken; None for work that came to none."""
        for way in self.ways.of(todo.node):
            if self._goes_round(todo.node, way):
                continue
            if way.cover is None:
                yield way
                continue
            rows = [one for one in way.premises if self._said(one) not in todo.above]
            low = [one for one in rows if self.known.get(one, _LOW)[0] <= todo.height]
            self.cut = self.cut or len(low) < len(rows)
            yield from way.each(low)

    def _said(self, node: Node) -> Node | tuple[str, Row]:
        """What a node is to those who read: a row, be it proposed or kept, rests not on itself."""
        return self.ways.shown(node) or node

    def _goes_round(self, node: Node, way: Way) -> bool:
        """Whether a chain of pairs leads away from its start: the others are proofs enough."""
        if not isinstance(node, Reached) or node not in self.known:
            return False
        chain = way.premises[0]
        return isinstance(chain, Reached) and self.known.get(chain, _FAR) >= self.known[node]
