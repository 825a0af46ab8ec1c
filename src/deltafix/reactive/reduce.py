"""The reduce operator: one accumulator per key, brought up to date by net changes.

Invariant: a key has an entry `(size, accumulator, result)` exactly while it has values, and the
result is `finish(accumulator)`. Work per epoch is O(changed values), plus O(values of the key) for
each recomputation a partial reducer asks for (counted in `recomputed`). Old entries of the epoch
are kept by reference until it commits: accumulators are values, so rolling back is putting them
back. `Spread` gives the items of a result as values of their own: O(k) for a changed tuple of k.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from deltafix.errors import ReducerError
from deltafix.facts.values import settled
from deltafix.reactive.changes import ABSENT, Changes, Counts, Untouched
from deltafix.reactive.graph import Graph
from deltafix.reactive.node import Leaf, Node, contents, guarded
from deltafix.reducers.reducer import Partial, Reducer

_NONE: Mapping[Any, int] = {}
_Entry: TypeAlias = tuple[int, Any, Any]
_NO_ENTRY: _Entry = (0, None, None)
_Held: TypeAlias = tuple[dict[Any, _Entry], Untouched | None, list[Any] | None, list[Any], Any]


class ReducerDriftWarning(RuntimeWarning):
    """A sampled key's accumulator differs from its recomputation: the reducer breaks its law."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One key where the kept accumulator and its recomputation differ."""

    operator: str
    key: Any
    kept: Any
    recomputed: Any

    def __str__(self) -> str:
        return (
            f"{self.operator} drifted at key {self.key!r}: it keeps {self.kept!r}, "
            f"recomputing gives {self.recomputed!r}"
        )


class Reduce(Leaf):
    """One result per key that has values. `at` and `rows` answer from the entries."""

    takes_segments = True

    def __init__(
        self,
        graph: Graph,
        source: Node,
        reducer: Reducer[Any, Any, Any],
        label: str,
        *,
        verify: Literal["sample", "all"] | None = None,
        sample: float = 0.01,
    ) -> None:
        super().__init__(graph, (source,), label)
        self.reducer = reducer
        own = type(reducer).finish is not Reducer.finish
        self._finish = reducer.finish if own else None
        self._entries: dict[Any, _Entry] = {}
        self._undo: list[tuple[Any, _Entry | None]] = []
        self._row_undo: _Entry | None = None
        self._untouched: Untouched | None = None
        self._accs: list[Any] | None = None
        self._results: list[Any] = []
        self._segment: Any = None
        self._before: _Held | None = None
        # verify="sample" looks at every stride-th touched key: no random state, same each run.
        self._stride = 0 if verify is None else 1 if verify == "all" else max(round(1 / sample), 1)
        self._touched = 0
        self.drifts: list[Drift] = []
        if isinstance(reducer, Partial) or verify is not None:
            source.keep()
        self._start(source)

    def _start(self, source: Node) -> None:
        """Fold what the source already holds."""
        for key, counts in contents(source).items():
            self._entries[key] = self._folded(key, counts)

    def _folded(self, key: Any, counts: Mapping[Any, int]) -> _Entry:
        try:
            acc = self.reducer.fold(counts)
            result = settled(self.reducer.finish(acc))
            hash(result)
        except Exception as error:
            raise self._blame(error, key, self.reducer.initial, counts) from error
        return (sum(counts.values()), acc, result)

    def visit(self) -> Changes:
        changes: Changes = self.inbox[0]
        if not isinstance(changes, dict):
            if self._adopt(changes.after):
                return self._difference(changes.keys)
            changes = changes.as_changes()
        entries, reducer, undo = self._entries, self.reducer, self._undo
        out: dict[Any, Counts] = {}
        for key, change in changes.items():
            old = entries.get(key)
            if old is None and self._untouched is not None:
                old = self._thaw(key)
            size, acc, before = _NO_ENTRY if old is None else old
            for count in change.values():
                size += count
            if size < 0 or (size == 0 and old is None):
                raise self._never_given(key, change)
            undo.append((key, old))
            if size == 0:
                del entries[key]
                out[key] = {before: -1}
                continue
            try:
                acc = reducer.apply(reducer.initial if old is None else acc, change)
                if acc is None:
                    acc = self._again(key)
                result = acc if self._finish is None else settled(self._finish(acc))
                if old is None:
                    out[key] = {result: 1}
                elif result is not before and _differ(result, before):
                    out[key] = {before: -1, result: 1}
            except Exception as error:
                raise self._blame(error, key, old[1] if old else reducer.initial, change) from error
            entries[key] = (size, acc, result)
            if self._stride:
                self._verify(key, acc)
        return out

    @property
    def takes_rows(self) -> bool:
        return not self.dependents and not self._stride

    def row(self, key: Any, gone: Any, come: Any) -> None:
        entries, reducer = self._entries, self.reducer
        self.recomputed = 0
        old = entries.get(key)
        if old is None and self._untouched is not None:
            old = self._thaw(key)
        self._row_undo = old
        try:
            if old is None:
                size, before = 1, ABSENT
                acc = reducer.add(reducer.initial, come)
            else:
                size, acc, before = old
                if come is ABSENT and size == 1:
                    del entries[key]
                    self.visits += 1
                    return
                if gone is ABSENT:
                    size += 1
                    acc = reducer.add(acc, come)
                elif come is not ABSENT:
                    acc = reducer.swap(acc, gone, come)
                else:
                    size -= 1
                    acc = reducer.remove(acc, gone)
                if acc is None:
                    acc = self._again(key)
            result = acc if self._finish is None else settled(self._finish(acc))
            if result is not before:
                hash(result)
                if before is not ABSENT and not _differ(result, before):
                    result = before
        except Exception as error:
            start = reducer.initial if old is None else old[1]
            change = {item: n for item, n in ((gone, -1), (come, 1)) if item is not ABSENT}
            raise self._blame(error, key, start, change) from error
        entries[key] = (size, acc, result)
        self.visits += 1

    def undo_row(self, key: Any) -> None:
        if self._row_undo is None:
            del self._entries[key]
        else:
            self._entries[key] = self._row_undo

    def row_change(self, key: Any) -> Counts:
        before, after = self._row_undo, self._entries.get(key)
        if before is None:
            return {} if after is None else {after[2]: 1}
        if after is None:
            return {before[2]: -1}
        return {} if after[2] is before[2] else {before[2]: -1, after[2]: 1}

    def _never_given(self, key: Any, change: Mapping[Any, int]) -> Exception:
        value = min(change, key=lambda item: change[item])
        error = ReducerError(
            "it leaves but never came; the operators before must give the same for the same "
            "key and value every time"
        )
        return guarded(self, error, key, value)

    def _again(self, key: Any) -> Any:
        """Fold a key's values from scratch, as a partial reducer asked for."""
        if not isinstance(self.reducer, Partial):
            raise ReducerError(
                f"{self.reducer.name} is declared well-formed, but remove returned None; "
                "declare it Partial"
            )
        self.recomputed += 1
        return self.reducer.fold(self.sources[0].at(key))

    def _verify(self, key: Any, acc: Any) -> None:
        self._touched += 1
        if self._touched % self._stride:
            return
        fresh = self.reducer.fold(self.sources[0].at(key))
        if not self.reducer.same(acc, fresh):
            self.drifted += 1
            drift = Drift(self.label, key, acc, fresh)
            self.drifts.append(drift)
            warnings.warn(str(drift), ReducerDriftWarning, stacklevel=2)

    def _adopt(self, segment: Any) -> bool:
        """Take a whole state over by its columns; False if the reducer has no columnar way."""
        entries = self.reducer.segment_entries(segment) if not self._stride else None
        if entries is None:
            return False
        self._before = self._held
        self._held = ({}, Untouched(segment.codes), *entries, segment)
        return True

    @property
    def _held(self) -> _Held:
        """All of the state; what an adoption replaces."""
        return self._entries, self._untouched, self._accs, self._results, self._segment

    @_held.setter
    def _held(self, held: _Held) -> None:
        self._entries, self._untouched, self._accs, self._results, self._segment = held

    def _thaw(self, key: Any) -> _Entry | None:
        """The entry of a loaded key, made on first touch; the values behind it are unchanged."""
        code = None if self._untouched is None else self._untouched.take(key)
        if code is None:
            return None
        segment = self._segment
        if self._accs is None:
            acc = self.reducer.fold_values(segment.values(code))
        else:
            acc = self._accs[code]
        entry = self._entries[key] = (segment.size(code), acc, self._results[code])
        return entry

    def _difference(self, keys: list[Any]) -> Changes:
        """What the adoption changed, at the keys where the source changed."""
        if self._before is None or not (self.dependents or self.subscribers):
            return {}
        entries, untouched, _, results, _ = self._before
        loaded: Mapping[Any, int] = {} if untouched is None else untouched.codes
        codes, after = self._segment.codes, self._results
        out: dict[Any, Counts] = {}
        for key in keys:
            entry = entries.get(key)
            code = loaded.get(key) if entry is None else None
            if entry is not None:
                before = entry[2]
            elif code is not None and untouched is not None and not untouched.taken[code]:
                before = results[code]
            else:
                before = ABSENT
            code = codes.get(key)
            if code is None:
                if before is not ABSENT:
                    out[key] = {before: -1}
                continue
            result = after[code]
            if before is ABSENT:
                out[key] = {result: 1}
            elif result is not before and _differ(result, before):
                out[key] = {before: -1, result: 1}
        return out

    def _loaded(self) -> Iterator[tuple[Any, int]]:
        """Keys that are as they were loaded, and their places."""
        return iter(()) if self._untouched is None else self._untouched.items()

    def rollback(self) -> None:
        for key, old in reversed(self._undo):
            if old is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = old
        self._undo.clear()
        if self._before is not None:
            self._held = self._before
            self._before = None

    def commit(self) -> None:
        self._undo.clear()
        self._before = None

    def keep(self) -> None:
        """The entries are the state."""

    def at(self, key: Any) -> Mapping[Any, int]:
        entry = self._entries.get(key)
        if entry is not None:
            return {entry[2]: 1}
        code = None if self._untouched is None else self._untouched.get(key)
        return _NONE if code is None else {self._results[code]: 1}

    def rows(self) -> Iterator[tuple[Any, Any, int]]:
        for key, entry in self._entries.items():
            yield key, entry[2], 1
        for key, code in self._loaded():
            yield key, self._results[code], 1

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for key, counts in contents(self.sources[0]).items():
            yield key, self._folded(key, counts)[2], 1

    def check_invariants(self) -> None:
        held = {key: value for key, value, _ in self.rows()}
        fresh = {key: value for key, value, _ in self.compute()}
        if held != fresh:
            raise AssertionError(f"{self.label} holds {held}, recomputing gives {fresh}")
        if self._undo:
            raise AssertionError(f"{self.label} kept its undo log over a commit")

    def _blame(self, error: Exception, key: Any, acc: Any, change: Mapping[Any, int]) -> Exception:
        """Find the value that makes the reducer fail, by repeating the changes one at a time."""
        for value, count in sorted(change.items(), key=lambda pair: pair[1]):
            try:
                acc = self.reducer.apply(acc, {value: count})
                if acc is None:
                    break
                self.reducer.finish(acc)
            except Exception as again:
                return guarded(self, again, key, value)
        return guarded(self, error, key, next(iter(change), None))


def _differ(left: Any, right: Any) -> bool:
    """Whether two results differ; NaN equals NaN here, or every change would send it again."""
    both_nan = left != left and right != right  # noqa: PLR0124  the test for NaN
    return not both_nan and bool(left != right)


class Spread(Node):
    """Gives each item of a reduced tuple as a value of its own; what `top_k` stands on."""

    def __init__(self, graph: Graph, source: Reduce, label: str) -> None:
        super().__init__(graph, (source,), label)

    def visit(self) -> Changes:
        out: dict[Any, Counts] = {}
        for key, counts in self.inbox[0].items():
            spread = _spread(counts)
            if spread:
                out[key] = spread
        return out

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for key, items, count in self.sources[0].rows():
            for value in items:
                yield key, value, count


def _spread(counts: Mapping[Any, int]) -> Counts:
    """Net counts of the items of signed tuples: what stays in the top does not appear."""
    spread: Counts = {}
    for items, count in counts.items():
        for value in items:
            total = spread.get(value, 0) + count
            if total:
                spread[value] = total
            else:
                del spread[value]
    return spread
