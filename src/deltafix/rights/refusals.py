"""Why a subject has no relation to an object: every way to it, and where each one ends.

Invariant: what is said to be missing is missing and what is said to hold holds, in one state; a
goal is explained once, so circles of groups end. Not here: which tuples should be written; the
model's author decides who ought to have what.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deltafix.rights.graph import Graph, Leaf, Node, Source
from deltafix.rights.reader import Conditional, Unmet
from deltafix.rights.search import Goal, Search
from deltafix.rights.tuples import AnyTuple, Tuple, shown

_DEEPEST: Final = 100
"""So far down a chain is followed, whatever the limit: Python's own frames are few."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a user has not a relation, or a part of its definition, to an object.

    Attributes:
        user: who was asked about.
        relation: its name, or the part of a definition in parentheses.
        object: of what.
        text: the line of the model that says who has it.
        missing: tuples that would name the user, or everyone, there; one with a condition may be
            there, and its condition not hold.
        unmet: tuples that are there, name the user, everyone, or what would be followed, and have
            conditions that do not hold.
        unnamed: what no tuple names there, and would have to be followed.
        held: what the user has and would need, of `and`; of `but not` both sides. What rests on a
            condition that is open says so in parentheses.
        below: why what is named there does not lead to the user either.
        is_excluded: whether the user would have it, but for what `but not` excludes.
        is_known: whether it is explained elsewhere in the same answer.
        is_cut: whether the limit ended the answer here, or a chain too long to follow.
    """

    user: str
    relation: str
    object: str
    text: str = ""
    missing: tuple[AnyTuple, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    unnamed: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    below: tuple[Refusal, ...] = ()
    is_excluded: bool = False
    is_known: bool = False
    is_cut: bool = False

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def to_dict(self) -> dict[str, Any]:
        """The answer for JSON."""
        return {
            "user": self.user,
            "relation": self.relation,
            "object": self.object,
            "text": self.text,
            "missing": [str(missing) for missing in self.missing],
            "unmet": [
                {
                    "tuple": str(unmet.tuple),
                    "expression": unmet.expression,
                    "context": {**unmet.context},
                }
                for unmet in self.unmet
            ],
            "unnamed": list(self.unnamed),
            "held": list(self.held),
            "below": [refusal.to_dict() for refusal in self.below],
            "excluded": self.is_excluded,
            "known": self.is_known,
            "cut": self.is_cut,
        }

    def _lines(self, indent: str) -> Iterator[str]:
        head = f"{indent}{self.user} is not {self.relation} of {self.object}"
        if self.is_known or self.is_cut:
            yield f"{head}  [{'as above' if self.is_known else 'not followed: the limit'}]"
            return
        yield f"{head}  [{self.text}]" if self.text else head
        inner = f"{indent}  "
        if self.is_excluded:
            yield f"{inner}excluded: {self.user} is {' and '.join(self.held)} of {self.object}"
        else:
            yield from (
                f"{inner}{self.user} is {relation} of {self.object}" for relation in self.held
            )
        unmet_tuples = {unmet.tuple[:4] for unmet in self.unmet}
        yield from (
            f"{inner}no tuple {_as_text(m)}" for m in self.missing if m[:4] not in unmet_tuples
        )
        yield from (f"{inner}tuple {unmet}" for unmet in self.unmet)
        yield from (f"{inner}no tuple names {unnamed}" for unnamed in self.unnamed)
        for refusal in self.below:
            yield from refusal._lines(inner)


def refusal_of(
    graph: Graph,
    searches: tuple[Search, Search],
    sources: Mapping[str, Source],
    goal: Goal,
    limit: int,
) -> Refusal:
    """Why a goal does not hold, of which so many goals are explained. O(goals and their tuples).

    The searches find what holds for sure and possibly; the goal does by neither.
    """
    return _Explainer(graph, searches, sources, limit).refused(goal)


class _Explainer:
    def __init__(
        self,
        graph: Graph,
        searches: tuple[Search, Search],
        sources: Mapping[str, Source],
        limit: int,
    ) -> None:
        self.nodes = graph.nodes
        self.sure, self.search = searches
        self.reader = self.search.reader
        self.sources = sources
        self.limit = limit
        self.seen: set[Goal] = set()
        self.depth = 0

    def refused(self, goal: Goal) -> Refusal:
        node, at = self.nodes[goal[0]], goal[1]
        user = str(self.search.subject)
        object_ = f"{node.type}:{self.reader.symbol(at)}"
        is_known = goal in self.seen
        is_cut = len(self.seen) >= self.limit or self.depth >= _DEEPEST
        if is_known or is_cut:
            is_cut &= not is_known
            return Refusal(user, _name(node), object_, is_known=is_known, is_cut=is_cut)
        self.seen.add(goal)
        line = "" if node.span is None else f"line {node.span.line}: "
        self.depth += 1
        why = self._why(node, at)
        self.depth -= 1
        return Refusal(user, _name(node), object_, f"{line}{node.text}", **why)

    def _why(self, node: Node, at: int) -> dict[str, Any]:
        if node.kind == "union":
            return self._ways(node, at)
        operands = node.operands if node.kind == "and" else node.operands[:1]
        has = [number for number in operands if self.search.holds(number, at)]
        lacks = [number for number in operands if number not in has]
        answer: dict[str, Any] = {"below": tuple(self.refused((number, at)) for number in lacks)}
        if node.kind == "not" and not lacks:
            has, answer["is_excluded"] = [*node.operands], True
        return answer | {"held": tuple(self._held(number, at) for number in has)}

    def _held(self, number: int, at: int) -> str:
        name = _name(self.nodes[number])
        return name if self.sure.holds(number, at) else f"{name} (where open conditions hold)"

    def _ways(self, node: Node, at: int) -> dict[str, Any]:
        """Every way that the subject could come: of each the tuple, or what is followed."""
        ways, symbol = self.search.ways_to(node), self.reader.symbol
        missing = []
        unmet: dict[AnyTuple, Unmet] = {}
        for leaf, names in ways.tuples:
            source = self.sources[leaf.source]
            row = (self.search.subject.id, symbol(at)) if names else (symbol(at),)
            unmet |= self._unmet(leaf, {0: self.search.code, 1: at} if names else {0: at})
            missing.append(shown(source, (*row, "{}") if source.users.condition else row))
        unnamed: dict[str, None] = {}
        below: list[Refusal] = []
        for leaf, target in ways.targets:
            followed = [at] if leaf.kind == "computed" else self.reader.others(leaf.source, 1, at)
            below += [self.refused((target, object_)) for object_ in sorted(followed, key=symbol)]
            unmet |= self._unmet(leaf, {1: at})
            if not followed:
                unnamed[self._named(leaf, node, at)] = None
        return {
            "missing": tuple(missing),
            "unmet": tuple(unmet.values()),
            "unnamed": tuple(unnamed),
            "below": tuple(below),
        }

    def _unmet(self, leaf: Leaf, codes: Mapping[int, int]) -> dict[AnyTuple, Unmet]:
        """Tuples with these codes by column, whose condition does not hold."""
        if not leaf.condition or not isinstance(self.reader, Conditional):
            return {}
        unmet = self.reader.unmet(leaf.source, tuple(codes), *codes.values())
        return {tuple_.tuple: tuple_ for tuple_ in unmet}

    def _named(self, leaf: Leaf, node: Node, at: int) -> str:
        source = self.sources[leaf.source]
        object_ = f"{node.type}:{self.reader.symbol(at)}"
        holds = ", whose condition holds" if source.users.condition else ""
        return f"a {source.users} as {source.relation} of {object_}{holds}"


def _as_text(tuple_: AnyTuple) -> str:
    """A tuple that is missing; of one with a condition the context may be any."""
    if isinstance(tuple_, Tuple):
        return str(tuple_)
    user, relation, object_ = tuple_[:3]
    return f"{user} {relation} {object_} with {tuple_.condition}, whose condition holds"


def _name(node: Node) -> str:
    return node.name or f"({node.text})"
