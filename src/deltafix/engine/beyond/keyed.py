"""Rows of which every key shows one: what `BestRows` and `JoinedRows` have in common.

A fact that takes its key's place makes the one before it pass: that stays live, unseen, while
something rests on it alone, and is dropped at the end of the run otherwise.
Invariant: `tops` has the seen fact of each key that has one, and no other fact is seen. Which fact
that is, is decided by the subclass.
"""

from __future__ import annotations

from typing import Any

from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.engine.beyond.rows import Rows


class KeyedRows(Rows):
    """Rows with a key.

    Attributes:
        proposed: by key, the facts that derivations propose (or that are live).
        tops: by key, the fact that is seen.
    """

    def __init__(self, name: str, epoch: Epoch) -> None:
        super().__init__(name, epoch)
        self.proposed: dict[Any, dict[Fact, None]] = {}
        self.tops: dict[Any, Fact] = {}

    def show(self, key: Any, fact: Fact) -> None:
        """Make a fact what is seen of its key; what was seen before passes."""
        top = self.tops.get(key)
        if top is not None:
            self.epoch.note(top)
            top.visible = False
            self.epoch.passed.append(top)
        self.tops[key] = fact
        self.epoch.note(fact)
        fact.visible = True

    def unshow(self, key: Any, fact: Fact) -> bool:
        """Show no fact of a key, if it was this one; whether it was."""
        if self.tops.get(key) is not fact:
            return False
        del self.tops[key]
        return True

    def restore_shown(self, key: Any, fact: Fact) -> None:
        """Undo: show a fact by its record, which has been put back."""
        if fact.visible:
            self.tops[key] = fact
        else:
            self.unshow(key, fact)


def leave(groups: dict[Any, dict[Fact, None]], key: Any, fact: Fact) -> bool:
    """Take a fact out of its key's group, if it is there; whether the group has gone with it."""
    members = groups.get(key)
    if members is None:
        return False
    members.pop(fact, None)
    if members:
        return False
    del groups[key]
    return True
