"""A reducer as a `StatefulProcessor`, for people's own `transformWithState` jobs.

    rows.groupBy("shop").transformWithState(
        statefulProcessor=ReducerProcessor(Sum(), value_type="long"),
        outputStructType="key string, value long, sign byte", outputMode="Append", timeMode="None")

Invariant: per key, the state is (accumulator, how many values) where the reducer is well-formed and
its accumulator is made of numbers, strings and tuples; a partial reducer also keeps the multiset,
as its recomputations need it; one with any other accumulator keeps the multiset alone and folds it.
Accumulators are stored as JSON, which gives back exactly the same int and float: no pickle.
`deltafix.spark.reduce` is hundreds of times faster, as it does not cross into Python a row at a
time; use it unless the state must be Spark's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from deltafix.errors import MissingRowError
from deltafix.reactive.reducer import Partial, Reducer

__all__ = ["ReducerProcessor"]


class ReducerProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not typed for mypy
    """Signed rows of a key in, signed results out: -1 for the old result, +1 for the new one.

    Args:
        reducer: over the values of one column.
        value: the column of values.
        sign: the column of signs, +1 or -1; larger counts repeat the row.
        value_type: the SQL type of the values, for the multiset where it is kept.

    Rows come out as `Row(key, value, sign)`; a key of several columns is a tuple. A delete of what
    is absent raises MissingRowError, which fails the query; where only the accumulator is kept,
    that is noticed when more values leave than came.
    """

    def __init__(
        self,
        reducer: Reducer[Any, Any, Any],
        *,
        value: str = "value",
        sign: str = "sign",
        value_type: str = "string",
    ) -> None:
        self.reducer = reducer
        self._names = (value, sign)
        self._value_type = value_type
        self._keeps_acc = _is_plain(reducer.initial)
        self._keeps_values = isinstance(reducer, Partial) or not self._keeps_acc

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state; called by Spark once a partition."""
        self._acc = handle.getValueState("accumulator", "acc string, size long")
        if self._keeps_values:
            self._values = handle.getMapState("values", f"value {self._value_type}", "count long")

    def handleInputRows(  # noqa: N802  Spark's name
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Fold the rows of one key to a net change and apply it."""
        del timer_values
        name, sign = self._names
        change: dict[Any, int] = {}
        for row in rows:
            change[row[name]] = change.get(row[name], 0) + row[sign]
        change = {value: count for value, count in change.items() if count}
        stored = self._acc.get()
        size = stored[1] if stored is not None else 0
        acc = self._read(stored)
        before = self.reducer.finish(acc) if size else None
        after_size = size + sum(change.values())
        shown = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        self._count(shown, change, after_size)
        if after_size:
            changed = self.reducer.apply(acc, change) if self._keeps_acc or not size else None
            if changed is None:
                changed = self.reducer.fold(self._multiset())
            self._acc.update((self._written(changed), after_size))
            after = self.reducer.finish(changed)
        elif size:
            self._acc.clear()
        if size and after_size and before == after:
            return
        if size:
            yield Row(key=shown, value=before, sign=-1)
        if after_size:
            yield Row(key=shown, value=after, sign=1)

    def close(self) -> None:
        """Nothing to release."""

    def _read(self, stored: Any) -> Any:
        if stored is None:
            return self.reducer.initial
        if self._keeps_acc:
            return _tuples(json.loads(stored[0]))
        return self.reducer.fold(self._multiset())

    def _written(self, acc: Any) -> str:
        return json.dumps(acc) if self._keeps_acc else ""

    def _multiset(self) -> dict[Any, int]:
        return {value[0]: count[0] for value, count in self._values.iterator()}

    def _count(self, key: Any, change: dict[Any, int], size: int) -> None:
        """Bring the multiset up to date where it is kept; refuse what is absent."""
        if size < 0:
            raise MissingRowError(f"key {key!r} would hold {size} values: more left than came")
        if not self._keeps_values:
            return
        for value, count in change.items():
            held = self._values.getValue((value,)) if self._values.containsKey((value,)) else (0,)
            total = held[0] + count
            if total < 0:
                raise MissingRowError(f"cannot delete {value!r} at key {key!r}: it is not there")
            if total:
                self._values.updateValue((value,), (total,))
            else:
                self._values.removeKey((value,))


def _is_plain(acc: Any) -> bool:
    """Whether JSON gives an accumulator back as it was."""
    if isinstance(acc, tuple):
        return type(acc) is tuple and all(_is_plain(part) for part in acc)
    return acc is None or type(acc) in (bool, int, float, str)


def _tuples(parsed: Any) -> Any:
    return tuple(_tuples(part) for part in parsed) if isinstance(parsed, list) else parsed
