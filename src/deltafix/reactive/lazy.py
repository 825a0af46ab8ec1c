"""The lazy operator: computed for the keys somebody reads, kept up to date while read.

Two nouns: an `_Entry` is what is known at a key (its result, what its function left for the next
call, and what it asked of other keys); a `LazyCall` is one call of the function, all that it sees.
A key is looked at in an epoch only if a value of its own changed or one that it asked, however
indirectly; it is called only if a value of its own changed or the result of a key that it asked.

Invariant: as a collection it holds exactly the watched keys. Every entry is what its function gives
from scratch. A key that is neither watched nor asked by a watched one is cached until it may have
changed; nothing is computed for a key that nobody asks for (counted in `computed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltafix.closing import Closing
from deltafix.errors import LazyCycleError, ReactiveError
from deltafix.facts.values import settled
from deltafix.reactive.changes import Changes, Counts, negated
from deltafix.reactive.collection import Collection
from deltafix.reactive.graph import Graph
from deltafix.reactive.node import Node, guarded

# Entries kept between reads that no watched key needs; beyond so many, all of them go.
_CACHED = 10_000
# Calls within calls; a key that is asked deeper is computed first, and those above it again.
_DEEP = 50


class _TooDeep(BaseException):
    """Unwinds the calls that wait for `key`; `waiting` is theirs, in the order of asking."""

    def __init__(self, key: Any, waiting: tuple[Any, ...]) -> None:
        super().__init__()
        self.key = key
        self.waiting = waiting


@dataclass(slots=True)
class _Entry:
    """What is known at a key; replaced, never changed. `asked` has the answers as they were."""

    counts: Counts
    kept: Any
    asked: dict[Any, Counts]


class LazyCall:
    """One call of a lazy function: the key, its values, what changed, and the way to other keys.

    The result must follow from the values at the key and from what is asked, and from nothing else;
    every call asks all that its result depends on, also where `kept` already has the answer.
    """

    __slots__ = ("_ask", "_before", "_source", "asked", "changes", "kept", "key")

    def __init__(
        self,
        key: Any,
        source: Node,
        before: _Entry | None,
        changes: Mapping[Any, int],
        ask: Callable[[Any], Counts],
    ) -> None:
        self.key = key
        self._source = source
        self._before = before
        self._ask: Callable[[Any], Counts] | None = ask
        self.asked: dict[Any, Counts] = {}
        self.changes: Mapping[Any, int] | None = None if before is None else changes
        """Value -> signed count since the last call at this key; None if it is the first."""
        self.kept: Any = None if before is None else before.kept
        """What the last call at this key left here. Assign a new value, never change it in place:
        an epoch that is rolled back puts the old one back."""

    @property
    def values(self) -> list[Any]:
        """The values at the key, repeated as often as they occur. O(their number)."""
        return _repeated(self._source.at(self.key))

    def ask(self, key: Any) -> list[Any]:
        """The same function's results at another key.

        Raises LazyCycleError if that key is waiting for this one, and OperatorError if its call
        raised; neither can be caught for an answer of one's own: it would depend on who asks first.
        """
        if self._ask is None:
            raise ReactiveError(f"the call at key {self.key!r} is over; it can ask no more")
        counts = self.asked[key] = self._ask(key)
        return _repeated(counts)

    def changes_of(self, key: Any) -> Counts | None:
        """As `ask`, but what changed since the last call here; None if that did not ask the key."""
        self.ask(key)
        seen = None if self._before is None else self._before.asked.get(key)
        return None if seen is None else _difference(seen, self.asked[key])

    def close(self) -> None:
        """End the call."""
        self._ask = None


class Lazy(Node):
    """Results per key: of watched keys for good, of read ones until they change."""

    def __init__(
        self,
        graph: Graph,
        source: Node,
        fn: Callable[[LazyCall], Iterable[Any]],
        label: str,
    ) -> None:
        super().__init__(graph, (source,), label)
        source.keep()
        self._fn = fn
        self._entries: dict[Any, _Entry] = {}
        self._askers: dict[Any, dict[Any, None]] = {}
        self._watched: dict[Any, None] = {}
        self._watchers: dict[Any, int] = {}
        self._undo: dict[Any, _Entry | None] = {}
        self._changes: dict[Any, Counts] = {}
        self._doubtful: dict[Any, None] = {}
        self._waiting: dict[Any, None] = {}
        self._failed: BaseException | None = None
        self._request: tuple[Any, bool] | None = None
        self.computed = 0

    def _reached(self, key: Any) -> Counts:
        """The counts at a key, brought up to date or made, however long the chain of asking is."""
        above: list[tuple[Any, ...]] = []
        pending: dict[Any, None] = {}
        while True:
            self._failed = None
            try:
                counts = self._known(key).counts
            except _TooDeep as deep:
                above.append(deep.waiting)
                for asked in (*deep.waiting, deep.key):
                    if asked in pending and asked != key:
                        chain = [each for part in above for each in part] + [deep.key]
                        first = chain.index(asked)
                        last = chain.index(asked, first + 1)
                        raise self._cycle(tuple(chain[first : last + 1])) from None
                    pending[asked] = None
                key = deep.key
                continue
            if not above:
                return counts
            for asked in above[-1][1:]:
                pending.pop(asked, None)
            pending.pop(key, None)
            key = above.pop()[0]

    def _cycle(self, cycle: tuple[Any, ...]) -> LazyCycleError:
        shown = " -> ".join(map(repr, cycle))
        return LazyCycleError(f"{self.label} asks for its own result: {shown}", self.label, cycle)

    def _known(self, key: Any) -> _Entry:
        """The entry at a key, brought up to date or made."""
        entry = self._entries.get(key)
        if entry is not None and key not in self._doubtful:
            return entry
        if key in self._waiting:
            pending = list(self._waiting)
            raise self._cycle((*pending[pending.index(key) :], key))
        if len(self._waiting) == _DEEP:
            raise _TooDeep(key, tuple(self._waiting))
        self._waiting[key] = None
        try:
            # In the order of asking: while the first answers stand, the next was surely asked.
            if (
                entry is None
                or key in self._changes
                or not all(self._known(other).counts == seen for other, seen in entry.asked.items())
            ):
                entry = self._called(key, entry)
                self._undo.setdefault(key, self._entries.get(key))
                self._put(key, entry)
            self._doubtful.pop(key, None)
            return entry
        except BaseException as error:
            self._failed = error
            raise
        finally:
            del self._waiting[key]

    def _called(self, key: Any, before: _Entry | None) -> _Entry:
        call = LazyCall(
            key,
            self.sources[0],
            before,
            self._changes.get(key, {}),
            lambda other: self._known(other).counts,
        )
        self.computed += 1
        counts = self._results(call)
        if self._failed is not None:  # the function went on without an answer that it asked for
            raise self._failed
        if before is not None and before.counts == counts:
            counts = before.counts
        return _Entry(counts, call.kept, call.asked)

    def _results(self, call: LazyCall) -> Counts:
        counts: Counts = {}
        try:
            for value in map(settled, self._fn(call)):
                counts[value] = counts.get(value, 0) + 1
        except Exception as error:
            raise guarded(self, error, call.key, call.values) from error
        finally:
            call.close()
        return counts

    def _put(self, key: Any, entry: _Entry | None) -> None:
        """Make `entry` what is known at a key, None for nothing, and note who asks whom."""
        before = self._entries.pop(key, None)
        for other in before.asked if before is not None else ():
            askers = self._askers[other]
            del askers[key]
            if not askers:
                del self._askers[other]
        if entry is not None:
            self._entries[key] = entry
            for other in entry.asked:
                self._askers.setdefault(other, {})[key] = None

    def visit(self) -> Changes:
        if self._request is not None:
            return self._answer(*self._request)
        self._changes = self.inbox[0]
        reached = [key for key in self._changes if key in self._entries]
        for key in reached:  # grows: those that asked, and those that asked them
            if key not in self._doubtful:
                self._doubtful[key] = None
                reached.extend(self._askers.get(key, ()))
        out: dict[Any, Counts] = {}
        try:
            # All of them first: one that is watched may be asked by another, and follow early.
            old = {k: self._entries[k].counts for k in self._doubtful if k in self._watched}
            for key, before in old.items():
                change = _difference(before, self._reached(key))
                if change:
                    out[key] = change
            for key in self._doubtful:
                self._undo.setdefault(key, self._entries[key])
                self._put(key, None)
        finally:
            self._changes = {}
            self._doubtful.clear()
        return out

    def _answer(self, key: Any, wanted: bool) -> Changes:
        """Begin or end to hold a key: its whole result is what changes."""
        counts = self._reached(key)
        if wanted:
            self._watched[key] = None
            return {key: counts} if counts else {}
        del self._watched[key]
        return negated({key: counts}) if counts else {}

    def rollback(self) -> None:
        for key, before in self._undo.items():
            self._put(key, before)
        self._undo.clear()
        if self._request is not None:
            key, wanted = self._request
            if wanted:
                self._watched.pop(key, None)
            else:
                self._watched[key] = None

    def commit(self) -> None:
        self._undo.clear()

    def keep(self) -> None:
        """Results are kept per key as they are asked for."""

    def at(self, key: Any) -> Mapping[Any, int]:
        return self._entries[key].counts if key in self._watched else {}

    def read(self, key: Any) -> Mapping[Any, int]:
        """Counts at a key, computed if they are not known."""
        if self._waiting or self.graph.running:
            raise ReactiveError(
                f"{self.label} is read at key {key!r} by a function that it would not follow; "
                "within a lazy function use call.ask(key), in others join the collection"
            )
        if key not in self._entries and len(self._entries) >= _CACHED:
            self._let_go()
        try:
            return self._reached(key)
        finally:
            self._undo.clear()

    def _let_go(self) -> None:
        """Forget what no watched key needs, where that is too much."""
        needed = dict.fromkeys(self._watched)
        pending = list(needed)
        while pending:
            for other in self._entries[pending.pop()].asked:
                if other not in needed:
                    needed[other] = None
                    pending.append(other)
        if len(self._entries) - len(needed) >= _CACHED:
            for key in [key for key in self._entries if key not in needed]:
                self._put(key, None)

    def watch(self, key: Any) -> None:
        """Hold a key from now on; the first watcher of a key makes an epoch of it."""
        if key not in self._watchers:
            self._request_epoch(key, True)
        self._watchers[key] = self._watchers.get(key, 0) + 1

    def unwatch(self, key: Any) -> None:
        """Let a key go when its last watcher does, in an epoch."""
        if self._watchers[key] == 1:
            self._request_epoch(key, False)
            del self._watchers[key]
        else:
            self._watchers[key] -= 1

    def _request_epoch(self, key: Any, wanted: bool) -> None:
        self.graph.check_idle()
        self._request = (key, wanted)
        try:
            self.graph.run(((self, {}),))
        finally:
            self._request = None

    def rows(self) -> Iterator[tuple[Any, Any, int]]:
        for key in self._watched:
            for value, count in self._entries[key].counts.items():
                yield key, value, count

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        fresh: dict[Any, Counts] = {}
        for key in self._watched:
            for value, count in self._afresh(key, fresh).items():
                yield key, value, count

    def _afresh(self, key: Any, fresh: dict[Any, Counts]) -> Counts:
        """The result at a key from nothing but the source; `fresh` has those already found."""
        if key not in fresh:
            source = self.sources[0]
            call = LazyCall(key, source, None, {}, lambda other: self._afresh(other, fresh))
            fresh[key] = self._results(call)
        return fresh[key]

    def check_invariants(self) -> None:
        """Raise AssertionError if a held result differs from recomputation."""
        fresh: dict[Any, Counts] = {}
        for key, entry in self._entries.items():
            if entry.counts != self._afresh(key, fresh):
                raise AssertionError(f"{self.label} holds {entry.counts} at {key!r}")
            for other, seen in entry.asked.items():
                if seen != self._entries[other].counts or key not in self._askers[other]:
                    raise AssertionError(f"{self.label}: {key!r} has an old answer of {other!r}")
        if self._watched.keys() != self._watchers.keys():
            raise AssertionError(f"{self.label} watches {list(self._watchers)}")


def _repeated(counts: Mapping[Any, int]) -> list[Any]:
    return [value for value, count in counts.items() for _ in range(count)]


def _difference(before: Counts, after: Counts) -> Counts:
    return {
        value: after.get(value, 0) - before.get(value, 0)
        for value in {**before, **after}
        if after.get(value, 0) != before.get(value, 0)
    }


class LazyCollection(Collection):
    """A collection that computes a key when it is read (`values`, `get`) or watched.

    For operators over it and for subscribers it holds the watched keys. Made by `Collection.lazy`.
    """

    _node: Lazy

    def __init__(self, node: Node) -> None:
        if not isinstance(node, Lazy):
            raise TypeError(f"{node.label} is not lazy")
        super().__init__(node)

    def values(self, key: Any) -> list[Any]:
        """The values at a key, computed now if nobody watches it and it is not cached."""
        return _repeated(self._node.read(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The only value at a key, as for any collection, computed now if need be."""
        values = self.values(key)
        if len(values) > 1:
            raise ReactiveError(
                f"{self._node.label} has {len(values)} values at key {key!r}; use values()"
            )
        return values[0] if values else default

    def watch(self, key: Any) -> KeyWatch:
        """Keep a key up to date until the watch is closed."""
        self._node.watch(key)
        return KeyWatch(self._node, key)

    @property
    def computed(self) -> int:
        """How often the function was called so far."""
        return self._node.computed


class KeyWatch(Closing):
    """Keeps one key of a lazy collection up to date; `close` ends it. A context manager."""

    def __init__(self, node: Lazy, key: Any) -> None:
        self._node: Lazy | None = node
        self.key = key

    def close(self) -> None:
        """Let the key go. Closing twice is fine."""
        node, self._node = self._node, None
        if node is not None:
            node.unwatch(self.key)
