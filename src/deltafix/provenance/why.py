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
            if proof in seen:
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
    above: frozenset[Node]
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
        waiting: list[_Partial] = [(_Todo(goal, frozenset(), height), {}, {})]
        while waiting:
            todo, chosen, heights = waiting.pop()
            if todo is None:
                yield chosen, heights[goal]
            elif todo.way is not None:
                below = (heights[part] for part in todo.way.premises)
                mine = todo.way.cost + max(below, default=0)
                done = ({**chosen, todo.node: todo.way}, {**heights, todo.node: mine})
                waiting.append((todo.rest, *done))
            elif todo.node in chosen:
                if heights[todo.node] <= todo.height:
                    waiting.append((todo.rest, chosen, heights))
                else:
                    self.cut = True
            elif todo.node not in todo.above:
                more = [(found, chosen, heights) for found in self._alternatives(todo, chosen)]
                waiting.extend(reversed(more))

    def _alternatives(self, todo: _Todo, chosen: Chosen) -> Iterator[_Todo]:
        """What is to be done for each way of a node: prove the premises, then take the way."""
        node = todo.node
        if node in self.known and self.known[node][0] > todo.height:
            self.cut = True
            return
        for way in self.ways.of(node):
            if self._goes_round(node, way):
                continue
            self.tried += 1
            if self.tried > self.max_work or len(chosen) >= self.max_steps:
                return
            if todo.height < way.cost:
                self.cut = True
                continue
            found = replace(todo, way=way)
            above = todo.above | {node}
            for premise in reversed(dict.fromkeys(way.premises)):
                found = _Todo(premise, above, todo.height - way.cost, rest=found)
            yield found

    def _goes_round(self, node: Node, way: Way) -> bool:
        """Whether a chain of pairs leads away from its start: the others are proofs enough."""
        if not isinstance(node, Reached) or node not in self.known:
            return False
        chain = way.premises[0]
        return isinstance(chain, Reached) and self.known.get(chain, _FAR) >= self.known[node]
