"""The aggregates of rules that are not the kernel's: an accumulator per group.

Each is a reducer: a user's, or one of `deltafix.reducers` for what a recursion keeps of its own.
Totals are exact, so a row that comes and goes leaves precisely the old value; they wrap around, or
are refused, only when they are read. Invariant: the accumulator of a group is what its rows fold
to; values that a reducer returns fit the aggregate's type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from deltafix.engine.folds.groups import Journal, Key
from deltafix.engine.functors import fitted
from deltafix.errors import FunctorError
from deltafix.facts.values import BaseType, sorted_rows
from deltafix.plan.clause import Fold
from deltafix.reducers.aggregate import (
    Changes,
    Columnar,
    Gathers,
    Loaded,
    Several,
    SortedRows,
    UserReducer,
)
from deltafix.reducers.extremes import Max, Min
from deltafix.reducers.numeric import Count, Mean, Sum
from deltafix.rules.logical import bounded_sum
from deltafix.rules.values import function

OWN: Final[Mapping[str, UserReducer]] = {
    "count": Count(),
    "sum": Sum(),
    "mean": Mean(),
    "min": Min(),
    "max": Max(),
}
"""The engine's own aggregates, of numbers without bounds."""


def reducer_of(fold: Fold, kind: BaseType, users: Mapping[str, UserReducer]) -> UserReducer:
    """The reducer of an aggregate whose values have this base type."""
    if fold.op.startswith("@@"):
        return users[fold.op.removeprefix("@@")]
    if fold.op != "sum" or kind == "float":
        return OWN[fold.op]
    most, scale, wrap = fold.most, fold.scale, function("+", kind)
    if most is not None:
        return _Sum(lambda total: bounded_sum(total, most, scale))
    return _Sum(lambda total: wrap(total, 0))


class _Sum(Sum):
    """A sum of whole numbers that is read as its type has it."""

    def __init__(self, read: Callable[[int], int]) -> None:
        super().__init__()
        self._read = read

    def finish(self, acc: int) -> int:
        """The sum."""
        return self._read(acc)


def finished(op: str, reducer: UserReducer, acc: Any) -> Any:
    """The result of an accumulator. Raises FunctorError where the reducer raises."""
    try:
        return reducer.finish(acc)
    except FunctorError:
        raise
    except Exception as error:
        raise _failed(op, error, reducer.finish, acc) from error


class _Later:
    """An accumulator that is made when its group changes first."""

    __slots__ = ("_acc", "_make")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = make
        self._acc: Any = None

    def __call__(self) -> Any:
        make = self._make
        if make is not None:
            self._acc = make()
            self._make = None
        return self._acc


def _made(acc: Any) -> Any:
    return acc() if type(acc) is _Later else acc


class Accumulators:
    """The accumulator and number of rows of each group.

    `types` are those of relations, `look` gives the values of a group as they stand.
    """

    def __init__(
        self,
        fold: Fold,
        types: Mapping[str, tuple[BaseType, ...]],
        users: Mapping[str, UserReducer],
        look: Callable[[Key], list[Any]],
    ) -> None:
        self._fold = fold
        self._kinds = tuple(types[fold.source][column] for column in fold.taken)
        results = types[fold.relation][len(fold.group) :]
        self._result: BaseType = "record" if len(results) > 1 else results[0]
        self._reducer = reducer_of(fold, next(iter(self._kinds), self._result), users)
        self.several = isinstance(self._reducer, Several)
        self.columnar = self._reducer if isinstance(self._reducer, Columnar) else None
        self._look = look
        self._groups: Journal[tuple[int, Any]] = Journal()
        self._again: set[Key] = set()
        self._changed: dict[Key, list[Any]] = {}

    @property
    def touched(self) -> KeysView[Key]:
        """The groups that changed in the epoch."""
        return self._groups.touched

    def change(self, key: Key, values: list[Any], sign: int) -> None:
        """Rows of a group come (`sign` 1) or go (-1).

        Raises FunctorError where the reducer raises.
        """
        count, acc = self._groups.touch(key) or (0, self._reducer.initial)
        acc = _made(acc)
        if self.several and self._groups.was(key) is not None:
            self._changed.setdefault(key, []).extend(values)
        if key not in self._again:
            acc = self._folded(acc, values, sign)
            if acc is None and sign < 0:
                self._again.add(key)
        self._groups.put(key, (count + sign * len(values), acc))

    def value(self, key: Key) -> Any:
        """The value of a group, a list with `Several`; None: no rows. Raises FunctorError."""
        if key in self._again:
            self._again.discard(key)
            rows = self._look(key)
            if self._fold.fields:
                rows = sorted_rows(self._kinds, rows)
            else:
                rows = [value for (value,) in sorted_rows(self._kinds, zip(rows))]
            acc = self._folded(self._reducer.initial, rows, 1)
            self._groups.put(key, (len(rows), acc))
        count, acc = self._groups.now.get(key, (0, None))
        if count == 0:
            self._groups.put(key, None)
            return None
        value = finished(self._fold.op, self._reducer, _made(acc))
        if self.several:
            return value
        return self.fitted(value)

    def changes(self, key: Key) -> Changes:
        """Of a reducer with `Several` what a group loses and gains; some may stand in both."""
        was, now = self._groups.was(key), self._groups.now.get(key)
        if now is not None and now[0] == 0:
            self._groups.put(key, None)
            now = None
        op, reducer = self._fold.op, self._reducer
        if was is None or now is None:
            went, come = (
                () if side is None else finished(op, reducer, _made(side[1])) for side in (was, now)
            )
            return [*went], [*come]
        assert isinstance(reducer, Several)  # noqa: S101  the caller asked
        try:
            return reducer.changes(_made(was[1]), _made(now[1]), self._changed[key])
        except Exception as error:
            raise _failed(op, error, reducer.changes, was[1], now[1]) from error

    def load(self, keys: list[Key], sizes: list[int], rows: SortedRows) -> Loaded | None:
        """All rows of groups, as they stand; None: they are to be added one by one."""
        loaded = None if self.columnar is None else self.columnar.load(rows)
        if loaded is not None:
            acc, put = loaded.acc, self._groups.put
            for number, (key, size) in enumerate(zip(keys, sizes, strict=True)):
                put(key, (size, _Later(partial(acc, number))))
        return loaded

    def fitted(self, value: Any) -> Any:
        """A result as the relation holds it. Raises FunctorError."""
        return fitted(value, self._result, f"the reducer {self._fold.op}")

    @property
    def is_empty(self) -> bool:
        """Whether no group has rows."""
        return not self._groups.now

    def size(self, key: Key) -> int:
        """How many rows a group has."""
        held: tuple[int, Any] = self._groups.now.get(key, (0, None))
        return held[0]

    def drop(self, keys: Iterable[Key]) -> None:
        """These groups have no rows any more."""
        for key in keys:
            self._groups.put(key, None)

    def existed(self, key: Key) -> tuple[bool, bool]:
        """Whether a touched group had rows before the epoch, and whether it has now."""
        return self._groups.was(key) is not None, key in self._groups.now

    def values(self) -> dict[Key, Any]:
        """The values of all groups."""
        return {key: self.value(key) for key in [*self._groups.now]}

    def keep(self) -> None:
        """The epoch was committed."""
        self._groups.keep()
        self._changed.clear()

    def undo(self) -> None:
        """The epoch was rolled back."""
        self._groups.undo()
        self._again.clear()
        self._changed.clear()

    def _folded(self, acc: Any, values: list[Any], sign: int) -> Any:
        """The accumulator with values more or fewer; None where one cannot be taken away."""
        reducer = self._reducer
        if len(values) > 1 and isinstance(reducer, Gathers):
            with suppress(Exception):  # below it is said of which value
                return reducer.gather(acc, values, sign)
        step = reducer.add if sign > 0 else reducer.remove
        value = None
        try:
            for value in values:
                acc = step(acc, value)
                if acc is None and sign < 0:
                    break
        except Exception as error:
            raise _failed(self._fold.op, error, step, acc, value) from error
        return acc


def _failed(op: str, error: Exception, step: Callable[..., Any], *args: Any) -> FunctorError:
    shown = ", ".join(map(repr, args))
    message = (
        f"the reducer {op} raised {type(error).__name__} in "
        f"{step.__name__}({shown}): {error}; rolled back"
    )
    return FunctorError(message)
