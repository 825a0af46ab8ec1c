"""Access rights, naively: the judge of `deltafix.rights`.

Works on the JSON form of a model, as OpenFGA's API documents it, and on a set of tuples; it shares
no code with what it judges. `holds` is the check of Zanzibar's paper: one recursion over the
definition, which gives up where it meets a question that it is answering already. `heights` is the
same meaning as a least fixpoint by rounds, so the two are judges of each other. Both are
exponential or worse.

Conditions are functions here. A tuple whose condition is open is there in a *hopeful* question and
not in another; what is excluded is asked the other way round. An answer that both give is the
answer; where they differ it is open (None).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Triple = tuple[str, ...]


def under(x: int | None, limit: int | None) -> bool | None:
    return None if x is None or limit is None else x < limit


def either(x: int | None, flag: bool | None) -> bool | None:
    if flag or (x is not None and x > 2):
        return True
    return None if flag is None or x is None else False


def verdict(condition: str, stored: str, context: dict[str, Any] | None) -> bool | None:
    """Of a condition of `random_rights`; whatever it is, with no context."""
    if context is None:
        return None
    given = {**context, **json.loads(stored)}
    x, limit, flag = given.get("x"), given.get("limit"), given.get("flag")
    if flag not in (None, True, False):  # a value that is none leaves the whole condition open
        return None if condition != "under" else under(x, limit)
    return {"under": under(x, limit), "either": either(x, flag), "flagged": flag}[condition]


class Oracle:
    """One model and one set of tuples, in a context; without one, all conditions are open."""

    def __init__(
        self,
        model: dict[str, Any],
        tuples: Iterable[Triple],
        context: dict[str, Any] | None = None,
    ) -> None:
        self.types = {one["type"]: one.get("relations", {}) for one in model["type_definitions"]}
        self.given = set(tuples)
        known = [(one[:3], len(one) == 3 or verdict(*one[3:], context)) for one in self.given]
        self.tuples = {one for one, holds in known if holds}
        self.hopeful = {one for one, holds in known if holds is not False}
        self._true: set[tuple[bool, Triple]] = set()

    def holds(self, user: str, relation: str, at: str) -> bool | None:
        sure, possible = (self.bound(one, user, relation, at) for one in (False, True))
        return sure if sure == possible else None

    def bound(self, hopeful: bool, user: str, relation: str, at: str) -> bool:
        return self._check(hopeful, user, relation, at, frozenset())

    def _check(
        self, hopeful: bool, user: str, relation: str, at: str, asked: frozenset[Triple]
    ) -> bool:
        question = (user, relation, at)
        if (hopeful, question) in self._true:
            return True
        rewrite = self.types[at.split(":", maxsplit=1)[0]].get(relation)
        if rewrite is None or question in asked:
            return False
        asked = asked | {question}
        found = user == f"{at}#{relation}" or self._by(hopeful, rewrite, question, asked)
        if found:
            self._true.add((hopeful, question))
        return found

    def _by(
        self, hopeful: bool, rewrite: dict[str, Any], question: Triple, asked: frozenset[Triple]
    ) -> bool:
        user, relation, at = question
        ((kind, body),) = rewrite.items()
        if kind == "this":
            return self._direct(hopeful, user, relation, at, asked)
        if kind == "computedUserset":
            return self._check(hopeful, user, body["relation"], at, asked)
        if kind == "tupleToUserset":
            computed = body["computedUserset"]["relation"]
            related = self._named(hopeful, body["tupleset"]["relation"], at)
            return any(self._check(hopeful, user, computed, one, asked) for one in related)
        if kind == "difference":
            base = self._by(hopeful, body["base"], question, asked)
            # The way here has nothing to say about the other world's questions.
            return base and not self._by(not hopeful, body["subtract"], question, frozenset())
        several = any if kind == "union" else all
        return several(self._by(hopeful, child, question, asked) for child in body["child"])

    def _named(self, hopeful: bool, relation: str, at: str) -> Iterator[str]:
        tuples = self.hopeful if hopeful else self.tuples
        return (user for user, of, to in tuples if (of, to) == (relation, at))

    def _direct(
        self, hopeful: bool, user: str, relation: str, at: str, asked: frozenset[Triple]
    ) -> bool:
        for named in self._named(hopeful, relation, at):
            if named == user:
                return True
            if named.endswith(":*") and "#" not in user and named[:-1] == user[: len(named) - 1]:
                return True
            if "#" in named:
                of, within = named.split("#")
                if self._check(hopeful, user, within, of, asked):
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
            named = set(self._named(False, relation, at))
            mine = {user} if "#" in user else {user, f"{user.split(':', maxsplit=1)[0]}:*"}
            sets = (one.split("#") for one in named if "#" in one)
            return bool(named & mine) or any((within, of) in found for of, within in sets)
        if kind == "computedUserset":
            return (body["relation"], at) in found
        if kind == "tupleToUserset":
            computed = body["computedUserset"]["relation"]
            return any(
                (computed, one) in found
                for one in self._named(False, body["tupleset"]["relation"], at)
            )
        if kind == "difference":
            question = (user, relation, at)
            base = self._part(user, relation, at, found, body["base"])
            return base and not self._by(True, body["subtract"], question, frozenset())
        several = any if kind == "union" else all
        return several(self._part(user, relation, at, found, one) for one in body["child"])
