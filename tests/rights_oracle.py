"""Access rights, naively: the judge of `deltafix.rights`.

Works on the JSON form of a model, as OpenFGA's API documents it, and on a set of tuples; it shares no
code with what it judges. `holds` is the check of Zanzibar's paper: one recursion over the definition,
which gives up where it meets a question that it is answering already. `heights` is the same meaning
as a least fixpoint by rounds, so the two are judges of each other. Both are exponential or worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Triple = tuple[str, str, str]


class Oracle:
    """One model and one set of tuples."""

    def __init__(self, model: dict[str, Any], tuples: Iterable[Triple]) -> None:
        self.types = {one["type"]: one.get("relations", {}) for one in model["type_definitions"]}
        self.tuples = set(tuples)
        self._true: set[Triple] = set()

    def holds(self, user: str, relation: str, object: str) -> bool:
        return self._check(user, relation, object, frozenset())

    def _check(self, user: str, relation: str, object: str, asked: frozenset[Triple]) -> bool:
        question = (user, relation, object)
        if question in self._true:
            return True
        rewrite = self.types[object.split(":")[0]].get(relation)
        if rewrite is None or question in asked:
            return False
        asked = asked | {question}
        found = user == f"{object}#{relation}" or self._by(rewrite, question, asked)
        if found:
            self._true.add(question)
        return found

    def _by(self, rewrite: dict[str, Any], question: Triple, asked: frozenset[Triple]) -> bool:
        user, relation, object = question
        ((kind, body),) = rewrite.items()
        if kind == "this":
            return self._direct(user, relation, object, asked)
        if kind == "computedUserset":
            return self._check(user, body["relation"], object, asked)
        if kind == "tupleToUserset":
            computed = body["computedUserset"]["relation"]
            related = self._named(body["tupleset"]["relation"], object)
            return any(self._check(user, computed, one, asked) for one in related)
        if kind == "difference":
            base = self._by(body["base"], question, asked)
            return base and not self._by(body["subtract"], question, asked)
        several = any if kind == "union" else all
        return several(self._by(child, question, asked) for child in body["child"])

    def _named(self, relation: str, object: str) -> Iterator[str]:
        return (user for user, of, at in self.tuples if (of, at) == (relation, object))

    def _direct(self, user: str, relation: str, object: str, asked: frozenset[Triple]) -> bool:
        for named in self._named(relation, object):
            if named == user:
                return True
            if named.endswith(":*") and "#" not in user and named[:-1] == user[: len(named) - 1]:
                return True
            if "#" in named:
                at, within = named.split("#")
                if self._check(user, within, at, asked):
                    return True
        return False

    def heights(self, user: str, objects: Iterable[str]) -> dict[tuple[str, str], int]:
        """For each (relation, object) that holds: relations on the longest way of its best proof."""
        goals = [(r, o) for o in objects for r in self.types[o.split(":")[0]]]
        found: dict[tuple[str, str], int] = {}
        for round_ in range(1, len(goals) + 2):
            new = [g for g in goals if g not in found and self._now(user, g, found)]
            if not new:
                break
            found.update(dict.fromkeys(new, round_))
        return found

    def _now(self, user: str, goal: tuple[str, str], found: dict[tuple[str, str], int]) -> bool:
        relation, object = goal
        if user == f"{object}#{relation}":
            return True
        return self._part(user, relation, object, found, self.types[object.split(":")[0]][relation])

    def _part(
        self, user: str, relation: str, object: str, found: Any, rewrite: dict[str, Any]
    ) -> bool:
        ((kind, body),) = rewrite.items()
        if kind == "this":
            named = set(self._named(relation, object))
            mine = {user} if "#" in user else {user, f"{user.split(':')[0]}:*"}
            sets = (one.split("#") for one in named if "#" in one)
            return bool(named & mine) or any((within, at) in found for at, within in sets)
        if kind == "computedUserset":
            return (body["relation"], object) in found
        if kind == "tupleToUserset":
            computed = body["computedUserset"]["relation"]
            return any(
                (computed, one) in found for one in self._named(body["tupleset"]["relation"], object)
            )
        if kind == "difference":
            question = (user, relation, object)
            base = self._part(user, relation, object, found, body["base"])
            return base and not self._by(body["subtract"], question, frozenset())
        several = any if kind == "union" else all
        return several(self._part(user, relation, object, found, one) for one in body["child"])
