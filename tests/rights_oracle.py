"""Access rights, naively: the judge of `deltafix.rights`.

Works on the JSON form of a model, as OpenFGA's API documents it, and on a set of tuples; it shares
no code with what it judges. `holds` is the check of Zanzibar's paper: one recursion over the
definition, which gives up where it meets a question that it is answering already. `heights` is the
same meaning as a least fixpoint by rounds, so the two are judges of each other. Both are
exponential or worse.
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

    def holds(self, user: str, relation: str, at: str) -> bool:
        return self._check(user, relation, at, frozenset())

    def _check(self, user: str, relation: str, at: str, asked: frozenset[Triple]) -> bool:
        question = (user, relation, at)
        if question in self._true:
            return True
        rewrite = self.types[at.split(":", maxsplit=1)[0]].get(relation)
        if rewrite is None or question in asked:
            return False
        asked = asked | {question}
        found = user == f"{at}#{relation}" or self._by(rewrite, question, asked)
        if found:
            self._true.add(question)
        return found

    def _by(self, rewrite: dict[str, Any], question: Triple, asked: frozenset[Triple]) -> bool:
        user, relation, at = question
        ((kind, body),) = rewrite.items()
        if kind == "this":
            return self._direct(user, relation, at, asked)
        if kind == "computedUserset":
            return self._check(user, body["relation"], at, asked)
        if kind == "tupleToUserset":
            computed = body["computedUserset"]["relation"]
            related = self._named(body["tupleset"]["relation"], at)
            return any(self._check(user, computed, one, asked) for one in related)
        if kind == "difference":
            base = self._by(body["base"], question, asked)
            return base and not self._by(body["subtract"], question, asked)
        several = any if kind == "union" else all
        return several(self._by(child, question, asked) for child in body["child"])

    def _named(self, relation: str, at: str) -> Iterator[str]:
        return (user for user, of, to in self.tuples if (of, to) == (relation, at))

    def _direct(self, user: str, relation: str, at: str, asked: frozenset[Triple]) -> bool:
        for named in self._named(relation, at):
            if named == user:
                return True
            if named.endswith(":*") and "#" not in user and named[:-1] == user[: len(named) - 1]:
                return True
            if "#" in named:
                of, within = named.split("#")
                if self._check(user, within, of, asked):
                    return True
        return False

    def heights(self, user: str, objects: Iterable[str]) -> dict[tuple[str, str], int]:
        """For each (relation, object) that holds: the height of its best proof."""
        goals = [(r, o) for o in objects for r in self.types[o.split(":")[0]]]
        found: dict[tuple[str, str], int] = {}
        for round_ in range(1, len(goals) + 2):
            new = [g for g in goals if g not in found and self._now(user, g, found)]
            if not new:
                break
            found.update(dict.fromkeys(new, round_))
        return found

    def _now(self, user: str, goal: tuple[str, str], found: dict[tuple[str, str], int]) -> bool:
        relation, at = goal
        if user == f"{at}#{relation}":
            return True
        return self._part(user, relation, at, found, self.types[at.split(":")[0]][relation])

    def _part(self, user: str, relation: str, at: str, found: Any, rewrite: dict[str, Any]) -> bool:
        ((kind, body),) = rewrite.items()
        if kind == "this":
            named = set(self._named(relation, at))
            mine = {user} if "#" in user else {user, f"{user.split(':', maxsplit=1)[0]}:*"}
            sets = (one.split("#") for one in named if "#" in one)
            return bool(named & mine) or any((within, of) in found for of, within in sets)
        if kind == "computedUserset":
            return (body["relation"], at) in found
        if kind == "tupleToUserset":
            computed = body["computedUserset"]["relation"]
            return any(
                (computed, one) in found for one in self._named(body["tupleset"]["relation"], at)
            )
        if kind == "difference":
            question = (user, relation, at)
            base = self._part(user, relation, at, found, body["base"])
            return base and not self._by(body["subtract"], question, frozenset())
        several = any if kind == "union" else all
        return several(self._part(user, relation, at, found, one) for one in body["child"])
