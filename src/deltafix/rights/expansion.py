"""The definition of a relation with the tuples of one object in it: Zanzibar's Expand.

Invariant: an expansion has the shape of the definition: a set operation over parts, or a leaf that
says who is named there, by tuples or by other relations. Nothing is followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltafix.rights.graph import tuple_relation
from deltafix.rights.model import (
    Computed,
    Direct,
    Exclusion,
    FromRelated,
    Model,
    RelationDefinition,
    Restriction,
    Rewrite,
    Union,
)
from deltafix.rights.reader import Reader


@dataclass(frozen=True, slots=True)
class Expansion:
    """One node of an expanded definition.

    Attributes:
        kind: `or`, `and`, `but not`; `users` for those that tuples name (usersets and `user:*`
            among them), `usersets` for other relations, of this object or of related ones.
        text: the part of the definition.
        users: sorted; usersets as `folder:product#viewer`.
        parts: of a set operation, in the order of the definition.
    """

    kind: str
    text: str
    users: tuple[str, ...] = ()
    parts: tuple[Expansion, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The expansion for JSON."""
        fields: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.parts:
            fields["parts"] = [part.to_dict() for part in self.parts]
        else:
            fields["users"] = list(self.users)
        return fields

    def _lines(self, indent: str) -> Iterator[str]:
        yield f"{indent}{self.kind}: {self.text}"
        for user in self.users:
            yield f"{indent}  {user}"
        for part in self.parts:
            yield from part._lines(f"{indent}  ")

    def __str__(self) -> str:
        return "\n".join(self._lines(""))


def expansion_of(
    model: Model,
    readers: tuple[Reader, Reader],
    type: str,  # noqa: A002
    definition: RelationDefinition,
    at: int,
) -> Expansion:
    """The expansion of a relation at an object. O(tuples of the object in it).

    The readers are of tuples that hold, and of these and those whose condition is open.
    """
    return _Expander(model, readers, type, at).expanded(definition, definition.rewrite)


class _Expander:
    def __init__(self, model: Model, readers: tuple[Reader, Reader], type_: str, at: int) -> None:
        self.model, self.type, self.at = model, type_, at
        self.reader, self.hopeful = readers

    def expanded(self, definition: RelationDefinition, rewrite: Rewrite) -> Expansion:
        text = str(rewrite)
        if isinstance(rewrite, Direct):
            users = {
                user
                for restriction in rewrite.restrictions
                for user in self._named(definition, restriction)
            }
            return Expansion("users", text, tuple(sorted(users)))
        if isinstance(rewrite, Computed):
            here = f"{self.type}:{self.reader.symbol(self.at)}"
            return Expansion("usersets", text, (f"{here}#{rewrite.relation}",))
        if isinstance(rewrite, FromRelated):
            return Expansion("usersets", text, tuple(sorted(set(self._related(rewrite)))))
        parts: tuple[Rewrite, ...]
        if isinstance(rewrite, Exclusion):
            kind, parts = "but not", (rewrite.base, rewrite.excluded)
        else:
            kind, parts = ("or" if isinstance(rewrite, Union) else "and"), rewrite.parts
        return Expansion(kind, text, (), tuple(self.expanded(definition, part) for part in parts))

    def _named(self, definition: RelationDefinition, users: Restriction) -> set[str]:
        """Whom tuples name, with the condition where it is open."""
        source = tuple_relation(self.type, definition.name, users)
        sure, possible = (
            self._texts(reader, source, users) for reader in (self.reader, self.hopeful)
        )
        return sure | {f"{user} with {users.condition}" for user in possible - sure}

    def _texts(self, reader: Reader, source: str, users: Restriction) -> set[str]:
        if users.wildcard:
            return {users.kind} if reader.has(source, self.at) else set()
        end = f"#{users.relation}" if users.relation else ""
        codes = reader.others(source, 1, self.at)
        return {f"{users.type}:{reader.symbol(code)}{end}" for code in codes}

    def _related(self, rewrite: FromRelated) -> Iterator[str]:
        tupleset = self.model.relation(self.type, rewrite.tupleset)
        assert tupleset is not None  # noqa: S101  names were checked
        for restriction in tupleset.restrictions:
            if self.model.relation(restriction.type, rewrite.relation) is not None:
                for named in self._named(tupleset, restriction):
                    user, _, condition = named.partition(" with ")
                    end = f" with {condition}" if condition else ""
                    yield f"{user}#{rewrite.relation}{end}"
