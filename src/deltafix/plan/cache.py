"""What passes made of rules and clauses, taken again when the rules of a program are edited.

One noun, `Cache`: results by what they were made of, those of the last run and of this one. Things
are the same when they are the same objects, which costs nothing to see: `rules.check.typed` gives
the rules that stay as they were, and a pass that changes nothing of a clause gives its body as it
was. Rules have other numbers when one before them goes, so a clause is known by its arguments and
body. Invariant: what comes out of here is what would be made. A cache is made from another one and
leaves it as it was, so an edit that is refused is as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from deltafix.plan.clause import Clause

if TYPE_CHECKING:
    from deltafix.plan.depend import Layer
    from deltafix.plan.ir import Stage
    from deltafix.plan.normalize import Core
    from deltafix.plan.recognise import Said

__all__ = ["Cache"]

T = TypeVar("T")


class Cache:
    """Results of one run of the passes, for the next one.

    Attributes:
        hidden: how many hidden relations are numbered: a new one has a number of its own.
        misses: how many results were not there.
        said: what hidden relations say, by the names that `lower` gave them (`plan.recognise`).
        core: the core that came of it, and `words` the digests of its hidden relations, by name.
        strata: the strata of its plan, by their relations (`plan.build`).
    """

    __slots__ = ("_last", "_now", "core", "hidden", "misses", "said", "strata", "words")

    def __init__(self, before: Cache | None = None) -> None:
        self._last: dict[Hashable, tuple[Any, Any]] = {} if before is None else before._now
        self._now: dict[Hashable, tuple[Any, Any]] = {}
        self.hidden: int = 0 if before is None else before.hidden
        self.misses = 0
        self.said: dict[str, Said] = {} if before is None else before.said
        self.core: Core | None = None if before is None else before.core
        self.words: dict[str, str] = {} if before is None else before.words
        self.strata: dict[tuple[str, ...], tuple[Layer, Stage]] = (
            {} if before is None else before.strata
        )

    def of(self, step: str, thing: object, given: Hashable, make: Callable[[], T]) -> T:
        """What a step makes of a thing, this very object, where `given` is all else it looks at."""
        value: T = self._of((step, id(thing), given), thing, make)
        return value

    def read(self, step: str, clause: Clause, given: Hashable, make: Callable[[], T]) -> T:
        """The same of a clause, whose number and name the result does not have."""
        value: T = self._of((step, identity(clause), given), clause, make)
        return value

    def clause(
        self, step: str, clause: Clause, given: Hashable, make: Callable[[], Clause]
    ) -> Clause:
        """The clause that a step makes of one, with that one's number and name."""
        return numbered(self.read(step, clause, given, make), clause)

    def _of(self, key: Hashable, thing: object, make: Callable[[], Any]) -> Any:
        entry = self._now.get(key) or self._last.get(key)
        if entry is None:
            entry = thing, make()  # what the key has the identity of is held as long as the key
            self.misses += 1
        self._now[key] = entry
        return entry[1]


def numbered(clause: Clause, like: Clause) -> Clause:
    """A clause with the number and name of the rule that another one is of."""
    if (clause.rule, clause.name) == (like.rule, like.name):
        return clause
    return replace(clause, rule=like.rule, name=like.name)


def identity(clause: Clause) -> tuple[str, int, int]:
    """What tells a clause but for its number and name, while it is there; not every equal one."""
    return clause.head, id(clause.args), id(clause.body)
