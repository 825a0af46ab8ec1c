"""A reducer as a `StatefulProcessor`, for people's own `transformWithState` jobs.

    rows.groupBy("shop").transformWithState(
        statefulProcessor=ReducerProcessor(Sum(), value_type="long"),
        outputStructType="key string, value long, sign byte", outputMode="Append", timeMode="None")

Invariant: per key, the state is (accumulator, how many values) where the reducer is well-formed and
its accumulator is made of numbers, strings and tuples; a partial reducer also keeps the multiset,
as its recomputations need it; one with any other accumulator keeps the multiset alone and folds it.
Accumulators are stored as JSON, which gives back exactly the same int and float: no pickle. Floats
have one zero and one NaN, as in columns: Spark makes a new NaN for each value it hands over.
`deltafix.spark.reduce` is hundreds of times faster, as it does not cross into Python a row at a
time; use it unless the state must be Spark's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from deltafix.errors import FactError, MissingRowError, SparkMissingError
from deltafix.facts.values import settled
from deltafix.reducers.reducer import Partial, Reducer

try:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
except ImportError as _error:
    raise SparkMissingError from _error


class ReducerProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not typed for mypy
    """Signed rows of a key in, signed results out: -1 for the old result, +1 for the new one.

    Args:
        reducer: over the values of one column.
        value: the column of values.
        sign: the column of signs, +1 or -1; larger counts repeat the row.
        value_type: the SQL type of the values, for the multiset where it is kept.

        bad_rows: `"fail"` raises FactError for a row without a value or sign and MissingRowError
            for a delete of what is absent, which fails the query; where only the accumulator is
            kept, the latter is noticed when more values leave than came. `"quarantine"` keeps the
            values of every reducer and sends such rows out with a reason.

    Rows come out as `Row(key, value, sign)`; a key of several columns is a tuple. With
    `bad_rows="quarantine"` they are `Row(key, value, sign, reason)`: results without a reason, bad
    rows with one, without a value (it may be of another type; the reason shows it) and with the
    sign that could not be applied. A filter on `reason` parts the two.
    """

    def __init__(
        self,
        reducer: Reducer[Any, Any, Any],
        *,
        value: str = "value",
        sign: str = "sign",
        value_type: str = "string",
        bad_rows: Literal["fail", "quarantine"] = "fail",
    ) -> None:
        if bad_rows not in ("fail", "quarantine"):
            raise FactError(f"bad_rows must be 'fail' or 'quarantine', not {bad_rows!r}")
        self.reducer = reducer
        self._quarantines = bad_rows == "quarantine"
        self._names = (value, sign)
        self._value_type = value_type
        self._keeps_acc = _is_plain(reducer.initial)
        self._keeps_values = (
            isinstance(reducer, Partial) or not self._keeps_acc or self._quarantines
        )

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
        shown = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        change, bad = self._net(shown, rows)
        for sign, reason in bad:
            yield Row(key=shown, value=None, sign=sign, reason=reason)
        stored = self._acc.get()
        size = stored[1] if stored is not None else 0
        acc = self._read(stored)
        before = settled(self.reducer.finish(acc)) if size else None
        after_size = size + sum(change.values())
        self._count(shown, change, after_size)
        if after_size:
            changed = self.reducer.apply(acc, change) if self._keeps_acc or not size else None
            if changed is None:
                changed = self.reducer.fold(self._multiset())
            self._acc.update((self._written(changed), after_size))
            after = settled(self.reducer.finish(changed))
        elif size:
            self._acc.clear()
        if size and after_size and (before,) == (after,):  # in tuples the one NaN equals itself
            return
        beside: dict[str, None] = {"reason": None} if self._quarantines else {}
        if size:
            yield Row(key=shown, value=before, sign=-1, **beside)
        if after_size:
            yield Row(key=shown, value=after, sign=1, **beside)

    def _net(self, key: Any, rows: Iterator[Row]) -> tuple[dict[Any, int], list[tuple[int, str]]]:
        """The net change of rows, and what is wrong with those that are not in it."""
        name, sign = self._names
        change: dict[Any, int] = {}
        bad: list[tuple[int, str]] = []
        for row in rows:
            if row[name] is None or row[sign] is None:
                reason = (
                    f"no {'value' if row[name] is None else f'sign of the value {row[name]!r}'}"
                )
                if not self._quarantines:
                    raise FactError(f"bad row at key {key!r}: {reason}")
                bad.append((row[sign] or 0, reason))
            else:
                held = settled(row[name])
                change[held] = change.get(held, 0) + row[sign]
        change = {value: count for value, count in change.items() if count}
        if self._quarantines:
            for value, count in list(change.items()):
                if self._held(value) + count < 0:
                    bad.append((count, f"delete of the absent value {value!r}"))
                    del change[value]
        return change, bad

    def _held(self, value: Any) -> int:
        """How often a value is in the multiset of the key."""
        return int(self._values.getValue((value,))[0]) if self._values.containsKey((value,)) else 0

    def close(self) -> None:
        """Nothing to release."""

    def _read(self, stored: Any) -> Any:
        if stored is None:
            return self.reducer.initial
        if self._keeps_acc:
            return settled(_tuples(json.loads(stored[0])))
        return self.reducer.fold(self._multiset())

    def _written(self, acc: Any) -> str:
        return json.dumps(acc) if self._keeps_acc else ""

    def _multiset(self) -> dict[Any, int]:
        return {settled(value[0]): count[0] for value, count in self._values.iterator()}

    def _count(self, key: Any, change: dict[Any, int], size: int) -> None:
        """Bring the multiset up to date where it is kept; refuse what is absent."""
        if size < 0:
            raise MissingRowError(f"key {key!r} would hold {size} values: more left than came")
        if not self._keeps_values:
            return
        for value, count in change.items():
            total = self._held(value) + count
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
