"""Transactions: net changes gathered on their way into one epoch.

Invariant: an epoch is all or nothing. Each change is checked against the state plus what was
gathered, so a bad call fails where it is made; nothing is applied before the commit. Where the
changes enter is `inputs`', what an epoch does is `graph`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from deltafix.errors import FactError, MissingRowError, TransactionError
from deltafix.facts.values import settled
from deltafix.reactive.changes import ABSENT, Counts, add_change
from deltafix.reactive.operators import InputNode

if TYPE_CHECKING:
    from deltafix.reactive.inputs import InputCollection

_NONE: Mapping[Any, int] = {}


class CollectionTransaction:
    """Net changes on their way into one epoch. Methods may be called in any order.

    `tx.on(other)` gives the same methods for another input of the same graph; all of it is one
    epoch.
    """

    def __init__(self, collection: InputCollection) -> None:
        self._collection = collection
        self._graph = collection._node.graph
        self._parts: dict[int, tuple[InputNode, dict[Any, Counts]]] = {}
        self._changes = self._part(collection)
        self._root = self
        self._done = False
        self._graph.check_idle()
        self._graph.open = self

    def _part(self, collection: InputCollection) -> dict[Any, Counts]:
        node = collection._input
        return self._parts.setdefault(node.id, (node, {}))[1]

    def on(self, collection: InputCollection) -> CollectionTransaction:
        """This transaction, aimed at another input."""
        if not isinstance(getattr(collection, "_input", None), InputNode):
            raise TransactionError(f"{collection!r} is not an input; it follows from its inputs")
        if collection._node.graph is not self._graph:
            raise TransactionError(
                f"{collection!r} shares no collection with {self._collection!r}: "
                "their epochs are separate"
            )
        aimed = object.__new__(CollectionTransaction)
        aimed._collection, aimed._graph, aimed._root = collection, self._graph, self._root
        aimed._parts = self._parts
        aimed._changes = aimed._part(collection)
        return aimed

    def _check_open(self) -> None:
        if self._root._done:
            raise TransactionError("this transaction is finished; start another one")

    def _held(self, key: Any) -> Mapping[Any, int]:
        return self._collection._input.kept.at(key)

    def insert(self, key: Any, value: Any, count: int = 1) -> None:
        """Add `value` at `key`, `count` times."""
        self._check_open()
        self._collection._check(key, value)
        if count < 1:
            raise FactError(f"count must be at least 1, not {count!r}; delete takes values away")
        add_change(self._changes, settled(key), settled(value), count)

    def delete(self, key: Any, *value: Any) -> None:
        """Take one `value` away at `key`; with only a key, everything at it.

        Raises MissingRowError if it is not there.
        """
        self._check_open()
        if len(value) > 1:
            raise FactError(f"delete takes a key and at most one value, not {len(value)}")
        key, value = settled(key), tuple(map(settled, value))
        changed = self._changes.get(key, _NONE)
        held = self._held(key)
        if value:
            self._collection._check(key, value[0])
            if held.get(value[0], 0) + changed.get(value[0], 0) < 1:
                raise MissingRowError(f"cannot delete {value[0]!r} at key {key!r}: it is not there")
            add_change(self._changes, key, value[0], -1)
            return
        self._collection._check(key, None) if self._collection._value_type is None else None
        if not any(held.get(item, 0) + changed.get(item, 0) for item in {**held, **changed}):
            raise MissingRowError(f"cannot delete key {key!r}: it has no values")
        self._replace(key, {})

    def set(self, key: Any, *values: Any) -> None:
        """Replace everything at `key` by `values` (none: as delete, but absent is no error)."""
        self._check_open()
        wanted: Counts = {}
        key, values = settled(key), tuple(map(settled, values))
        for value in values:
            self._collection._check(key, value)
            wanted[value] = wanted.get(value, 0) + 1
        self._replace(key, wanted)

    def _replace(self, key: Any, wanted: Counts) -> None:
        """New less old and old less new, so that what stays is no change (paper, Remark 2)."""
        held = self._held(key)
        change = {
            item: wanted.get(item, 0) - held.get(item, 0)
            for item in {**held, **wanted}
            if wanted.get(item, 0) != held.get(item, 0)
        }
        if change:
            self._changes[key] = change
        else:
            self._changes.pop(key, None)

    def commit(self) -> int:
        """Commit what was gathered as one epoch; returns the graph's epoch number.

        Without net changes no epoch passes. On an error the state is as before.
        """
        self._check_open()
        root = self._root
        root._done = True
        self._graph.open = None
        seeds = [(node, changes) for node, changes in self._parts.values() if changes]
        single = _single(seeds)
        if single is not None:
            self._graph.run_row(*single)
        elif seeds:
            self._graph.run(seeds)
        return self._graph.epoch

    def rollback(self) -> None:
        """Drop what was gathered. Does nothing to a finished transaction."""
        if not self._root._done:
            self._root._done = True
            self._graph.open = None

    def __enter__(self) -> CollectionTransaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.rollback()
        elif not self._root._done:
            self.commit()


def _single(
    seeds: list[tuple[InputNode, dict[Any, Counts]]],
) -> tuple[InputNode, Any, Any, Any] | None:
    """(input, key, value gone, value come) if that is all that changes, else None."""
    if len(seeds) != 1 or len(seeds[0][1]) != 1:
        return None
    node, changes = seeds[0]
    ((key, counts),) = changes.items()
    if len(counts) > 2:
        return None
    gone = come = ABSENT
    for value, count in counts.items():
        if count == 1 and come is ABSENT:
            come = value
        elif count == -1 and gone is ABSENT:
            gone = value
        else:
            return None
    return node, key, gone, come
