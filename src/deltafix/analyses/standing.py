"""What stands in an answer, and what came and went between two states of it.

Invariant: a part is known by its key in every state; that it stands on another line, or says
another reason, is no change.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """A part of an answer: where it stands, what it is, and the key of what contains it."""

    where: str
    what: str
    inside: Hashable = None


def between(
    before: Mapping[Hashable, Standing], after: Mapping[Hashable, Standing]
) -> tuple[list[Standing], list[Standing]]:
    """What came and what went, each in its state's order, without what is inside of another one."""
    return _new(before, after), _new(after, before)


def _new(before: Mapping[Hashable, Standing], after: Mapping[Hashable, Standing]) -> list[Standing]:
    came = {key: standing for key, standing in after.items() if key not in before}
    return [standing for standing in came.values() if standing.inside not in came]
