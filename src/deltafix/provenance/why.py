"""Why a row holds: the smallest proof, or several, found when asked.

`least` searches for a lowest one; `proofs` walks the ways of each node, least height first.
Invariant: every proof is well-founded (no fact stands below itself) and holds in the state asked
about. Nothing is recorded while epochs run.

A node that is no row of the program's relations is not shown: its premises, absences and tests
count as those of the step that uses it; a fact that several nodes stand for is shown once, by the
lowest of their proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from deltafix.errors import InternalError, NoSuchFactError, ProofBoundError
from deltafix.facts.schema import Row
from deltafix.plan.clause import Clause, Literal
from deltafix.provenance.least import Choice, Label, labels, lowest
from deltafix.provenance.nodes import GIVEN, Node, Reached, Way
from deltafix.provenance.proof import Proof, Step
from deltafix.provenance.search import Derivation
from deltafix.provenance.state import State, committed
from deltafix.provenance.ways import Ways, stands

if TYPE_CHECKING:
    from deltafix.engine.database import Database


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
        for proof in choice.from_kernel.values():
            for fact, derivation in proof.chosen.items():
                self.derived.setdefault(fact, derivation)

    def proof(self, goal: Node) -> Proof:
        """The steps, users before what they use, and the height."""
        order = self._users_first(goal)
        node_of = self._one_for_each(order)
        # What only a node that is not shown led to has gone with it.
        kept = self._users_first(node_of[self.shown[goal]], node_of)
        numbers = {self.shown[node]: number for number, node in enumerate(kept)}
        steps = tuple(self._step(node, numbers) for node in kept)
        heights = [0] * len(steps)
        for index in range(len(steps) - 1, -1, -1):
            below = max((heights[premise] for premise in steps[index].premises), default=0)
            heights[index] = below + self._cost(kept[index])
        return Proof(steps, heights[0], self.choice.is_smallest)

    def _one_for_each(self, order: list[Node]) -> dict[_Shown, Node]:
        """For each fact that is shown, the node with the lowest proof.

        Along premises (height, depth) falls strictly, so it does where nodes are taken together.
        """
        labels: dict[Node, tuple[int, int]] = {}
        lowest: dict[_Shown, Node] = {}
        for node in reversed(order):
            below = [labels[part] for part in self.parts[node].premises]
            height = max((label[0] for label in below), default=0) + self._cost(node)
            labels[node] = (height, 1 + max((label[1] for label in below), default=0))
            best = lowest.setdefault(self.shown[node], node)
            if labels[node] < labels[best]:
                lowest[self.shown[node]] = node
        return lowest

    def _cost(self, node: Node) -> int:
        clause = self.parts[node].clause
        return int(clause is not None and self.words.says_more(clause))

    def _step(self, node: Node, numbers: Mapping[_Shown, int]) -> Step:
        relation, row = self.shown[node]
        parts = self.parts[node]
        premises = tuple(numbers[self.shown[part]] for part in parts.premises)
        absent, tests = list(dict.fromkeys(parts.absent)), list(dict.fromkeys(parts.tests))
        proposed = relation in self.words.keeps and self.ways.state.fact(relation, row) is None
        if not proposed:
            nothing_better, so_chosen = stands(self.words, relation, row)
            absent += nothing_better
            tests += so_chosen
        rule = None if parts.clause is None else parts.clause.rule
        return Step(
            relation,
            self.words.decoded(relation, row),
            rule,
            parts.text,
            premises,
            tuple(absent),
            tuple(tests),
            proposed,
        )

    def _users_first(self, goal: Node, node_of: Mapping[_Shown, Node] | None = None) -> list[Node]:
        """Nodes that are shown, in an order where each stands behind all that use it."""
        done: list[Node] = []
        seen: set[Node] = set()
        pending = [(goal, False)]
        while pending:
            node, left = pending.pop()
            if left:
                done.append(node)
            elif node not in seen:
                if len(seen) == self.max_steps:
                    message = f"the proof has more than max_steps={self.max_steps:,} facts"
                    raise ProofBoundError(message, max_steps=self.max_steps)
                seen.add(node)
                pending.append((node, True))
                premises = self._parts(node).premises
                if node_of is not None:
                    premises = [node_of[self.shown[part]] for part in premises]
                pending += [(part, False) for part in premises]
        return done[::-1]

    def _parts(self, node: Node) -> _Parts:
        """What a shown node follows from, through all nodes that are not shown."""
        parts = self.parts.get(node)
        if parts is not None:
            return parts
        parts = self.parts[node] = _Parts()
        self.shown[node] = self.ways.shown(node) or ("", ())
        way = self._way(node)
        if way.clause is not None:
            parts.clause, parts.text = way.clause, self.words.rule(way.clause)
        else:
            parts.text = way.says
        self._note(way, parts)
        # Each literal of a rule has its premise, be it in several parts of the rule; the rows of an
        # aggregate or of a chain are a set.
        pending = [(*reason, way.clause is None) for reason in _reasons(way)]
        said: set[_Shown | tuple[Literal | None, Node]] = set()
        while pending:
            literal, part, once = pending.pop()
            if literal is not None and (literal, part) in said:
                continue
            said.add((literal, part))
            shown = self.ways.shown(part)
            if shown is not None:
                self.shown[part] = shown
                if not (once and shown in said):
                    parts.premises.append(part)
                said.add(shown)
                continue
            inner = self._way(part)
            if inner.says:
                parts.tests.append(inner.says)
            self._note(inner, parts)
            once = once or inner.clause is None
            pending += [(*reason, once) for reason in _reasons(inner)]
        return parts

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
        body = {clause.body[index]: fact for index, fact in sorted(derivation.body.items())}
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
        shown = ways.words.show_row(relation, row)
        message = f"the proof of {shown} has more than max_steps={max_steps:,} facts"
        raise ProofBoundError(message, relation=relation, row=row) from None
    if choice is None:
        raise InternalError(f"provenance: nothing derives {ways.words.show_row(relation, row)}")
    return build(ways, goal, choice, max_steps=max_steps)


def _held(ways: Ways, relation: str, row: Row) -> Node:
    node = ways.node(relation, row) if ways.state.fact(relation, row) is not None else None
    if node is None:
        shown = ways.words.show_row(relation, row)
        way_out = "`why_not` (`deltafix why-not`) says what is missing"
        message = f"{shown} does not hold, so it has no proof; {way_out}"
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
        pending = [iter((first,))]
        while pending:
            partial = next(pending[-1], None)
            if partial is None:
                pending.pop()
                continue
            todo, chosen, heights = partial
            if todo is None:
                yield chosen, heights[goal]
            elif todo.way is not None:
                below = (heights[part] for part in todo.way.premises)
                mine = todo.way.cost + max(below, default=0)
                done = ({**chosen, todo.node: todo.way}, {**heights, todo.node: mine})
                pending.append(iter(((todo.rest, *done),)))
            elif todo.node in chosen:
                if heights[todo.node] <= todo.height:
                    pending.append(iter(((todo.rest, chosen, heights),)))
                else:
                    self.cut = True
            elif self._said(todo.node) not in todo.above:
                pending.append(self._alternatives(todo, chosen, heights))

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
            task = replace(todo, way=way)
            above = todo.above if way.is_same else todo.above | {self._said(node)}
            for premise in reversed(dict.fromkeys(way.premises)):
                task = _Todo(premise, above, todo.height - way.cost, rest=task)
            yield task, chosen, heights

    def _ways(self, todo: _Todo) -> Iterator[Way | None]:
        """The ways of a node, but for such as cannot be taken; None for work that came to none."""
        for way in self.ways.of(todo.node):
            if self._goes_round(todo.node, way):
                continue
            if way.cover is None:
                yield way
                continue
            rows = [node for node in way.premises if self._said(node) not in todo.above]
            low = [node for node in rows if self.known.get(node, _LOW)[0] <= todo.height]
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
