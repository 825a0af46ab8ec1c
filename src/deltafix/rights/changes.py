"""What a transaction changed: tuples, and who gained or lost what in the relations that are kept.

Invariant: net: what came and went in one transaction is not in it. Lists are made when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from deltafix.rights.graph import Source
from deltafix.rights.tuples import AnyTuple, shown

if TYPE_CHECKING:
    from deltafix.facts.delta import Delta


class Part(NamedTuple):
    """What one relation of a view says.

    Attributes:
        type, relation, users: of the kept relation, and the type of its users.
        which: `|` for users, `*` everyone, `-` exceptions.
        possible: whether of what some conditions allow.
    """

    type: str
    relation: str
    users: str
    which: str
    possible: bool


class Change(NamedTuple):
    """One user who gained (`sign` 1) or lost (-1) a relation to an object.

    With `user:*`, everyone of the type whom no change names. `excepted`: the user came to be
    (`sign` 1) or ceased to be (-1) one to whom an `user:*` of this object does not apply.

    Where tuples with conditions are below a relation, changes are of what is so whatever the
    conditions; and, `possible`, of what is so for some. Who gains it for sure gains it possibly,
    too, unless it was possible before; who loses it for sure may have it possibly.
    """

    sign: int
    user: str
    relation: str
    object: str
    excepted: bool = False
    possible: bool = False

    def __str__(self) -> str:
        sign = "+" if self.sign > 0 else "-"
        but = "possibly " if self.possible else ""
        but += "except " if self.excepted else ""
        return f"{sign}{but}{self.user} {self.relation} {self.object}"


class RightsDelta:
    """What one transaction changed.

    Args:
        delta: of the engine.
        sources: what the input relations are.
        kept: which parts of views the engine's relations are.
    """

    def __init__(
        self,
        delta: Delta,
        sources: Mapping[str, Source],
        kept: Mapping[str, Part],
    ) -> None:
        self._delta, self._sources, self._kept = delta, sources, kept

    @property
    def added(self) -> list[AnyTuple]:
        """The tuples that were written, sorted."""
        return sorted(self._tuples(1))

    @property
    def removed(self) -> list[AnyTuple]:
        """The tuples that were deleted, sorted."""
        return sorted(self._tuples(-1))

    def changes(self, relation: str = "") -> list[Change]:
        """Who gained and lost what, sorted: in one kept relation (`document#viewer`), or in all."""
        changes: list[Change] = []
        for sign, name, rows in self._changed():
            kept = self._kept.get(name)
            if kept is None or relation not in ("", f"{kept[0]}#{kept[1]}"):
                continue
            for row in rows:
                user = f"{kept.users}:{'*' if kept.which == '*' else row[0]}"
                at, excepted = f"{kept.type}:{row[-1]}", kept.which == "-"
                changes.append(Change(sign, user, kept.relation, at, excepted, kept.possible))
        return sorted(
            changes,
            key=lambda change: (
                change.relation,
                change.object,
                change.user,
                change.possible,
                change.sign,
            ),
        )

    def concerns(self, relation: str | None) -> bool:
        """Whether there are changes of a kept relation; of tuples, with None. O(relations)."""
        if relation is None:
            return any(name in self._sources for name in self._delta)
        return any(
            "#".join(self._kept[name][:2]) == relation for name in self._delta if name in self._kept
        )

    def _tuples(self, wanted: int) -> Iterator[AnyTuple]:
        for sign, name, rows in self._changed():
            source = self._sources.get(name)
            if source is not None and sign == wanted:
                for row in rows:
                    yield shown(source, row)

    def _changed(self) -> Iterator[tuple[int, str, list[Any]]]:
        """Rows that came (1) and went (-1), by relation of the engine."""
        for name, part in self._delta.items():
            yield 1, name, part.added
            yield -1, name, part.removed

    def __bool__(self) -> bool:
        return any(name in self._sources or name in self._kept for name in self._delta)

    def show(self) -> str:
        """Tuples, then changes of kept relations, one a line with its sign."""
        lines = [f"+{tuple_}" for tuple_ in self.added] + [f"-{tuple_}" for tuple_ in self.removed]
        return "\n".join([*lines, *map(str, self.changes())])

    def __repr__(self) -> str:
        return self.show() or "<no change>"
