"""What an open transaction has done, step by step: how each is undone, and what it changed.

A step is an epoch of edits, or a definition: another catalog, and the tables that went or were made
anew for it. Invariants: undoing the steps from the last to the first leaves what was there before;
undoing one twice is undoing it once. What is told at COMMIT is that of all steps, net: of what was
there at BEGIN and is there then, its rows then less those before; of what was made between, what
edits changed in it since. Doing and undoing is the connection's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from deltafix.sql.changes import Change, Told

if TYPE_CHECKING:
    from deltafix.engine.transaction import Transaction
    from deltafix.facts.schema import Row
    from deltafix.sql.builder import Relation
    from deltafix.sql.catalog import Catalog

__all__ = ["NOTHING", "Step", "as_changes", "defined"]


class Step(NamedTuple):
    """An `epoch` of edits, or a definition.

    Of a definition there is the `catalog` before it, and all `rows` of the tables that went or were
    made anew; one that was `renamed` has its new name by the old one. Subscribers are to hear of
    what `changed`; where that is None, of all of the epoch.
    """

    epoch: Transaction | None = None
    catalog: Catalog | None = None
    rows: Mapping[str, list[Row]] = MappingProxyType({})
    renamed: Mapping[str, str] = MappingProxyType({})
    changed: Told | None = None

    @property
    def news(self) -> Told:
        """What subscribers are to hear of; nobody may ask."""
        if self.changed is None and self.epoch is not None:
            return self.epoch.delta
        return self.changed or {}


NOTHING = Step()


def as_changes(news: Told | None, relations: Mapping[str, Relation]) -> Mapping[str, Change]:
    """What an epoch changed in some relations, with the columns they have now. O(relations)."""
    changes = {}
    for name, part in (news or {}).items():
        if isinstance(part, Change):
            changes[name] = part
        elif name in relations:
            columns = relations[name].columns
            changes[name] = Change(part.removed, columns, part.added, columns)
    return changes


def defined(steps: Iterable[Step], changes: Mapping[str, Change], after: Catalog) -> list[Step]:
    """The steps, the last of which is a definition that led to a catalog and changed all this.

    Edits before it are in the columns of then, and under the names of now. What goes and was made
    in the transaction itself is told of by none; what comes has its rows told if it was there at
    BEGIN.
    """
    *before, last = steps
    began = next(step.catalog for step in (*before, last) if step.catalog is not None)
    names = {*began.relations}
    for step in before:
        names = {step.renamed.get(name, name) for name in names}
    were, are = (catalog.relations for catalog in (last.catalog or began, after))
    gone = were.keys() - are.keys() - last.renamed.keys()
    came = are.keys() - were.keys() - {*last.renamed.values()}
    unheard = {*gone, *came} - names
    parts = [
        *({last.renamed.get(n, n): c for n, c in as_changes(step.news, were).items()}
          for step in before),
        changes,
    ]  # fmt: skip
    return [
        step._replace(changed={n: c for n, c in part.items() if n not in unheard})
        for step, part in zip((*before, last), parts, strict=True)
    ]
