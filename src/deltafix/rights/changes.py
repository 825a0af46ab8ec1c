"""What a transaction changed: tuples, and who gained or lost what in the relations that are kept.

Invariant: net: what came and went in one transaction is not in it. Lists are made when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from deltafix.rights.graph import Source
from deltafix.rights.tuples import Tuple, shown

if TYPE_CHECKING:
    from deltafix.facts.delta import Delta

__all__ = ["Change", "RightsDelta"]


class Change(NamedTuple):
    """One user who gained (`sign` 1) or lost (-1) a relation to an object.

    With `user:*`, everyone of the type whom no change names. `excepted`: the user came to be
    (`sign` 1) or ceased to be (-1) one to whom an `user:*` of this object does not apply.
    """

    sign: int
    user: str
    relation: str
    object: str
    excepted: bool = False

    def __str__(self) -> str:
        sign = "+" if self.sign > 0 else "-"
        but = "except " if self.excepted else ""
        return f"{sign}{but}{self.user} {self.relation} {self.object}"


class RightsDelta:
    """What one transaction changed.

    Args:
        delta: of the engine.
        sources: what the input relations are.
        kept: of each relation of a view: its type, relation, type of users, and which part it is:
            `|` for users, `*` for everyone, `-` for exceptions.
    """

    def __init__(
        self,
        delta: Delta,
        sources: Mapping[str, Source],
        kept: Mapping[str, tuple[str, str, str, str]],
    ) -> None:
        self._delta, self._sources, self._kept = delta, sources, kept

    @property
    def added(self) -> list[Tuple]:
        """The tuples that were written, sorted."""
        return sorted(self._tuples(lambda part: part.added))

    @property
    def removed(self) -> list[Tuple]:
        """The tuples that were deleted, sorted."""
        return sorted(self._tuples(lambda part: part.removed))

    def changes(self, relation: str = "") -> list[Change]:
        """Who gained and lost what, sorted: in one kept relation (`document#viewer`), or in all."""
        found: list[Change] = []
        for name, part in self._delta.items():
            kept = self._kept.get(name)
            if kept is None or relation not in ("", f"{kept[0]}#{kept[1]}"):
                continue
            type_, of, users, which = kept
            for sign, rows in ((1, part.added), (-1, part.removed)):
                for row in rows:
                    user = "*" if which == "*" else row[0]
                    found.append(
                        Change(sign, f"{users}:{user}", of, f"{type_}:{row[-1]}", which == "-")
                    )
        return sorted(found, key=lambda one: (one.relation, one.object, one.user, one.sign))

    def _tuples(self, side: Callable[[Any], Any]) -> Iterator[Tuple]:
        for name, part in self._delta.items():
            source = self._sources.get(name)
            if source is not None:
                for row in side(part):
                    yield shown(source, row)

    def __bool__(self) -> bool:
        return any(name in self._sources or name in self._kept for name in self._delta)

    def show(self) -> str:
        """Tuples, then changes of kept relations, one a line with its sign."""
        lines = [f"+{one}" for one in self.added] + [f"-{one}" for one in self.removed]
        return "\n".join([*lines, *map(str, self.changes())])

    def __repr__(self) -> str:
        return self.show() or "<no change>"
