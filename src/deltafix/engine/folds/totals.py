"""Sums and means of floats, and in a recursion `count` and sums of whole numbers.

How many rows and an exact total per group; a change costs O(1). A reducer that adds up
(`Fold.most`) says what its result is, `fold.op` says it for the rest. Whole numbers outside a
recursion are the kernel's (`kernel.fold`).

Invariant: totals are exact (`changes.exact`), so a row that comes and goes leaves precisely the
old value, floats included; they wrap around, or are rounded, only when they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltafix.changes.exact import Total, divide, extend, total_value
from deltafix.engine.codes import Codes
from deltafix.engine.folds.groups import Key, keys_of
from deltafix.engine.folds.journal import Journal
from deltafix.engine.folds.users import UserReducer, finished
from deltafix.engine.stages import Changed
from deltafix.facts.values import BaseType, Value
from deltafix.kernel.arena import Words
from deltafix.plan.clause import Fold
from deltafix.rules.values import function

_NOTHING: tuple[int, Total] = (0, 0)


class Totals:
    """Count and total of each group. `kind` is the base type of the values."""

    def __init__(
        self, codes: Codes, fold: Fold, kind: BaseType, reducer: UserReducer | None = None
    ) -> None:
        self._codes = codes
        self._fold = fold
        self._kind = kind
        self._groups: Journal[tuple[int, Total]] = Journal()
        self._finish: Callable[[int, Total], Value] = _finish(fold.op, kind, reducer)

    def update(self, change: Changed) -> dict[Key, Value | None]:
        """The values of the groups that the change touches; None: the group has no rows."""
        for rows, sign in ((change.added, 1), (change.removed, -1)):
            self._add_each(rows, sign)
        return {key: self.value(key) for key in self._groups.touched}

    def change(self, key: Key, value: Value | None, sign: int) -> None:
        """A row of a group comes (`sign` 1) or goes (-1)."""
        count, total = self._groups.touch(key) or _NOTHING
        if value is not None:
            total = extend(total, value, sign)
        self._put(key, count + sign, total)

    def value(self, key: Key) -> Value | None:
        """The value of a group; None: it has no rows."""
        held = self._groups.now.get(key)
        return None if held is None else self._finish(*held)

    def keep(self) -> None:
        """The epoch was committed."""
        self._groups.keep()

    def undo(self) -> None:
        """The epoch was rolled back."""
        self._groups.undo()

    def _add_each(self, rows: Words, sign: int) -> None:
        values: list[Any] = [None] * len(rows)
        if self._fold.value is not None and self._fold.op != "count":
            values = self._codes.decode(self._kind, rows[:, self._fold.value])
        for key, value in zip(keys_of(rows, self._fold.group), values, strict=True):
            self.change(key, value, sign)

    def _put(self, key: Key, count: int, total: Total) -> None:
        # Removals may come before the additions they belong to: a count may pass below zero.
        self._groups.put(key, (count, total) if count or total else None)


def _finish(op: str, kind: BaseType, reducer: UserReducer | None) -> Callable[[int, Total], Value]:
    if reducer is not None:
        return lambda _, total: finished(op, reducer, total)
    if op == "count":
        return lambda count, _: count
    if op == "mean":
        return lambda count, total: float(divide(total, count))
    if kind == "float":
        return lambda _, total: float(total_value(total))
    wrap = function("+", kind)
    return lambda _, total: wrap(total, 0)
