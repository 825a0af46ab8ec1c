"""Folds outside the kernel: a user's reducer as a stratum.

All other aggregates are the kernel's (`kernel.fold`). A stratum takes changes of its source and
gives changes of its values. Invariant: the relation shows what the accumulators make, and `values`
holds its codes per group; not of reducers with several values, which say what changes. What a value
is, is the reducer's (`accumulators`); emptiness, emission and undo are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Final

import numpy as np

from deltafix.collector import held_back
from deltafix.engine.codes import Codes
from deltafix.engine.folds.accumulators import Accumulators
from deltafix.engine.folds.columns import Columns, ordered
from deltafix.engine.folds.groups import Journal, Key, keys_of, numbered, table, within
from deltafix.engine.link import Linked
from deltafix.engine.stages import Changed
from deltafix.engine.store import codes_where, relation_cell, rows_of_group
from deltafix.errors import InternalError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.plan.clause import Fold
from deltafix.reducers.aggregate import UserReducer

MANY: Final = 64
"""Changed rows from which on they are folded by column: numpy costs more than fewer."""
ANEW: Final = 16
"""How many rows a group may have for each that changes, if it is folded anew."""


class FoldStratum:
    """The stratum of one aggregate."""

    def __init__(
        self,
        arena: Arena,
        linked: Linked,
        codes: Codes,
        fold: Fold,
        reducers: Mapping[str, UserReducer],
    ) -> None:
        types = {relation.name: relation.types for relation in linked.plan.relations}
        self._fold = fold
        self._codes = codes
        self._results = types[fold.relation][len(fold.group) :]
        kinds = self._kinds = tuple(types[fold.source][column] for column in fold.taken)

        def look(key: Key) -> list[Any]:
            source = linked.ids[fold.source]
            rows = (
                rows_of_group(arena, linked, fold.source, fold.group, key, mask=at.NOW)
                if key
                else codes_where(arena, source, at.NOW)
            )
            return values(rows)

        def make() -> Accumulators:
            return Accumulators(fold, types, reducers, look)

        def values(rows: Words) -> list[Any]:
            pairs = zip(kinds, fold.taken, strict=True)
            columns = [codes.decode(kind, rows[:, column]) for kind, column in pairs]
            return [*zip(*columns, strict=True)] if fold.fields else columns[0]

        self._read = values
        self._make = make
        self._kind = make()
        self._rows: Callable[[], Words] = lambda: codes_where(
            arena, linked.ids[fold.source], at.WAS
        )
        self._now: Callable[[], Words] = lambda: codes_where(arena, linked.ids[fold.source], at.NOW)
        self._allocated: Callable[[], int] = lambda: relation_cell(
            arena, linked.ids[fold.source], at.R_N
        )
        self._shown: Callable[[], Words] = lambda: codes_where(
            arena, linked.ids[fold.relation], at.WAS
        )
        self._values: Journal[Key] = Journal()

    @held_back()  # a third of the time of 100,000 ROW_NUMBERs
    def run(self, below: Mapping[str, Changed]) -> Mapping[str, Changed]:
        """The changed values, and the groups that appeared or vanished. O(changed rows)."""
        kind, change = self._kind, below[self._fold.source]
        loaded, keys, rest = self._by_column(change)
        self._take(kind, rest)
        others = [key for key in kind.touched if key not in keys] if keys else [*kind.touched]
        sides = self._several(others) if kind.several else self._single(others)
        width = len(self._fold.group)
        added, removed = (table(side, width + len(self._results)) for side in sides)
        if keys:
            added = np.concatenate((loaded.added, added))
            removed = np.concatenate((loaded.removed, removed))
        changes = {self._fold.relation: Changed(added, removed)}
        if self._fold.present is not None:
            existed = [(key, *kind.existed(key)) for key in kind.touched]
            new = [key for key, was, now in existed if now and not was]
            gone = [key for key, was, now in existed if was and not now]
            changes[self._fold.present] = Changed(table(new, width), table(gone, width))
        return changes

    def keep(self) -> None:
        """The epoch was committed."""
        self._kind.keep()
        self._values.keep()

    def undo(self) -> None:
        """The epoch was rolled back."""
        self._kind.undo()
        self._values.undo()

    def check_invariants(self) -> None:
        """Fold the source from nothing and compare. Raises InternalError. O(source)."""
        rows, kind = self._rows(), self._make()
        self._take(kind, Changed(rows, rows[:0]))
        folded = {key: kind.value(key) for key in kind.touched}
        if kind.several:
            is_same = folded == self._kind.values()
        else:
            is_same = (
                dict(zip(folded, self._coded(folded.values()), strict=True)) == self._values.now
            )
            folded = {key: [value] for key, value in folded.items()}
        keys = [key for key, some in folded.items() for _ in some]
        codes = self._coded(value for some in folded.values() for value in some)
        wanted = {key + code for key, code in zip(keys, codes, strict=True)}
        if not is_same or wanted != set(map(tuple, self._shown().tolist())):
            raise InternalError(f"{self._fold}: the values differ from a fold of all rows")

    def _coded(self, values: Iterable[Any]) -> list[Key]:
        """The codes of values, for each of their columns. O(values), by column."""
        kinds = self._results
        listed = list(values)
        columns = [*zip(*listed, strict=True)] if len(kinds) > 1 else [listed]
        coded = [
            self._codes.encode(kind, list(column)).tolist()
            for kind, column in zip(kinds, columns or [()] * len(kinds), strict=True)
        ]
        return [*zip(*coded, strict=True)]

    def _by_column(self, change: Changed) -> tuple[Changed, Set[Key], Changed]:
        """Fold many changed rows by column, if the reducer has a way.

        How the result changes, of which groups, and which changed rows are left. Groups that had
        rows are folded anew where much of them changes: 50,000 upserts into 20,000 groups of ten
        took 5 s where each row was taken to its place.
        """
        kind, fold = self._kind, self._fold
        nothing = self._no_rows()
        left = Changed(nothing, nothing), frozenset[Key](), change
        count = len(change.added) + len(change.removed)
        if kind.columnar is None or count < MANY or "record" in (*self._kinds, *self._results):
            return left  # a record that is made has no columns
        rows, rest, gone = change.added, Changed(change.added[:0], change.removed), list[Key]()
        was = nothing
        if not kind.is_empty:
            group, stacked = fold.group, np.concatenate((change.added, change.removed))
            (numbers,) = numbered(stacked[:, group])
            _, firsts = np.unique(numbers, return_index=True)
            touched = stacked[firsts][:, group]
            gone = keys_of(touched, tuple(range(len(group))))
            sizes = np.fromiter(map(kind.size, gone), np.int64, len(gone))
            if sizes.sum() > ANEW * count or self._allocated() > ANEW * MANY * count:
                new = touched[sizes == 0]
                is_new = within(rows[:, group], new)
                rest, gone = Changed(rows[~is_new], change.removed), []
                rows = rows[is_new]
            else:
                rest = Changed(rows[:0], rows[:0])
                rows = self._now()
                rows = rows[within(rows[:, group], touched)]
                was = self._shown()
                was = was[within(was[:, : len(group)], touched)]
        keys: list[Key] = []
        came = nothing
        if len(rows):
            found = self._load(rows)
            if found is None:
                return left
            keys, came = found
        empty = {*gone}.difference(keys)
        kind.drop(empty)
        if not kind.several:
            for key in empty:
                self._values.put(key, None)
        if len(was):
            old, new = numbered(was, came)
            was, came = was[~np.isin(old, new)], came[~np.isin(new, old)]
        return Changed(came, was), {*keys, *gone}, rest

    def _load(self, rows: Words) -> tuple[list[Key], Words] | None:
        """Fold all rows of some groups, by column; the groups, and the rows of the result."""
        kind, fold = self._kind, self._fold
        assert kind.columnar is not None  # noqa: S101  the caller looked
        sorts = [(fold.taken[n], self._kinds[n], way) for n, way in kind.columnar.sorts]
        found = ordered(self._codes, rows, fold.group, sorts)
        if found is None:
            return None
        here, starts = found
        keys, sizes = keys_of(here[starts[:-1]], fold.group), np.diff(starts).tolist()
        columns = Columns(
            self._codes, here, starts, fold.taken, self._kinds, self._results, self._read
        )
        loaded = kind.load(keys, sizes, columns)
        if loaded is None:
            return None
        if loaded.shown is not None:
            places, results = loaded.shown
            return keys, np.column_stack((here[places][:, fold.group], *results))
        values = self._coded(map(kind.fitted, loaded.results or ()))
        for key, value in zip(keys, values, strict=True):
            self._values.put(key, value)
        came = [key + value for key, value in zip(keys, values, strict=True)]
        return keys, table(came, len(fold.group) + len(self._results))

    def _no_rows(self) -> Words:
        return table((), len(self._fold.group) + len(self._results))

    def _take(self, kind: Accumulators, change: Changed) -> None:
        """Fold the changed rows of the source into their groups."""
        for rows, sign in ((change.added, 1), (change.removed, -1)):
            groups: dict[Key, list[Any]] = {}
            for key, value in zip(keys_of(rows, self._fold.group), self._read(rows), strict=True):
                groups.setdefault(key, []).append(value)
            for key, values in groups.items():
                kind.change(key, values, sign)

    def _single(self, keys: list[Key]) -> tuple[list[Key], list[Key]]:
        """The rows of groups that come and go, one each."""
        added: list[Key] = []
        removed: list[Key] = []
        values = {key: self._kind.value(key) for key in keys}
        present = {key: value for key, value in values.items() if value is not None}
        codes = dict(zip(present, self._coded(present.values()), strict=True))
        for key in values:
            old, new = self._values.now.get(key), codes.get(key)
            if new != old:
                self._values.put(key, new)
                if old is not None:
                    removed.append(key + old)
                if new is not None:
                    added.append(key + new)
        return added, removed

    def _several(self, keys: list[Key]) -> tuple[Iterable[Key], Iterable[Key]]:
        """The rows of groups that come and go, of a reducer whose result is a list."""
        changes = [(key, *self._kind.changes(key)) for key in keys]

        def rows(side: int) -> list[Key]:
            keys = [change[0] for change in changes for _ in change[side]]
            codes = self._coded(value for change in changes for value in change[side])
            return [key + code for key, code in zip(keys, codes, strict=True)]

        went, came = set(rows(1)), set(rows(2))
        return came - went, went - came
