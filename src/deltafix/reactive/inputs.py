"""Where changes enter: input collections.

Invariant: an input holds what was put in, of the types it was given, and every call is an epoch of
its own, all or nothing. Those of a single row (`insert`, `delete`, `set`, `update`) take the short
way: no transaction object. Several changes in one epoch are `transaction`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from deltafix.errors import FactError, MissingRowError, TypeMismatchError
from deltafix.facts.values import settled
from deltafix.reactive.changes import ABSENT, Changes, Counts, add_change, missing_message, summed
from deltafix.reactive.collection import Collection
from deltafix.reactive.operators import InputNode
from deltafix.reactive.transaction import CollectionTransaction

if TYPE_CHECKING:
    import pyarrow as pa


class InputCollection(Collection):
    """A collection that is filled from outside; made by `Collection.input`."""

    def __init__(
        self,
        node: InputNode,
        key: type | tuple[type, ...] | None = None,
        value: type | tuple[type, ...] | None = None,
    ) -> None:
        super().__init__(node)
        self._input = node
        self._key_type = key
        self._value_type = value

    def _check(self, key: Any, value: Any) -> None:
        """Raise TypeMismatchError for a key or value of the wrong type or not hashable."""
        try:
            hash(key)
            hash(value)
            if self._key_type is None and self._value_type is None:
                return
            if (self._key_type is None or isinstance(key, self._key_type)) and (
                self._value_type is None or isinstance(value, self._value_type)
            ):
                return
        except TypeError:
            pass  # said below, with what cannot be hashed
        self._refuse(key, value)

    def _refuse(self, key: Any, value: Any) -> None:
        for what, item, wanted in (
            ("key", key, self._key_type),
            ("value", value, self._value_type),
        ):
            if wanted is not None and not isinstance(item, wanted):
                kinds = wanted if isinstance(wanted, tuple) else (wanted,)
                raise TypeMismatchError(
                    f"{self._node.label}: the {what} {item!r} is {type(item).__name__}, "
                    f"not {' or '.join(kind.__name__ for kind in kinds)}"
                )
            try:
                hash(item)
            except TypeError:
                raise TypeMismatchError(
                    f"{self._node.label}: the {what} {item!r} at key {key!r} cannot be hashed; "
                    "use tuples, named tuples or frozen dataclasses"
                ) from None

    def transaction(self) -> CollectionTransaction:
        """Gather changes and commit them as one epoch; use in a with-statement.

        Leaving the block commits; an exception in it drops everything.
        """
        return CollectionTransaction(self)

    def insert(self, key: Any, value: Any) -> None:
        """Add one value, as an epoch of its own."""
        self._row(key, ABSENT, value)

    def delete(self, key: Any, *value: Any) -> None:
        """Take one value away, or with only a key everything at it; an epoch of its own.

        Raises MissingRowError if it is not there.
        """
        if len(value) == 1:
            self._row(key, value[0], ABSENT)
            return
        with self.transaction() as tx:
            tx.delete(key, *value)

    def update(self, key: Any, old: Any, new: Any) -> None:
        """Replace one value by another, as an epoch of its own. MissingRowError if absent."""
        key, old, new = settled(key), settled(old), settled(new)
        if old is not new and old != new:
            self._row(key, old, new)
            return
        self._check(key, new)
        if not self._input.kept.at(key).get(old, 0):
            raise MissingRowError(f"cannot update {old!r} at key {key!r}: it is not there")

    def set(self, key: Any, *values: Any) -> None:
        """Replace everything at a key by these values, as an epoch of its own."""
        self._node.graph.check_idle()
        key, values = settled(key), tuple(map(settled, values))
        if len(values) == 1:
            self._check(key, values[0])
            held = self._input.kept.at(key)
            old = next(iter(held), ABSENT)
            if old is ABSENT or (len(held) == 1 and held[old] == 1):
                if old is not values[0] and old != values[0]:
                    self._row(key, old, values[0])
                return
        with self.transaction() as tx:
            tx.set(key, *values)

    def _row(self, key: Any, gone: Any, come: Any) -> None:
        """An epoch in which one value leaves, comes (the other is `ABSENT`), or takes its place."""
        key, gone, come = settled(key), settled(gone), settled(come)
        kind = self._key_type
        if kind is not None and not isinstance(key, kind):
            self._refuse(key, come if gone is ABSENT else gone)
        if self._value_type is not None:
            for value in (gone, come):
                if value is not ABSENT:
                    self._check(key, value)
        graph = self._input.graph
        if graph.open is not None:
            graph.check_idle()
        try:
            graph.run_row(self._input, key, gone, come)
        except TypeError:  # what cannot be hashed is found by hashing it, once
            for value in (gone, come):
                if value is not ABSENT:
                    self._check(key, value)
            raise

    def apply(self, changes: Mapping[Any, Mapping[Any, int]]) -> int:
        """Apply signed counts, key -> {value: count}, as one epoch; returns the epoch's number.

        Raises MissingRowError if a negative count takes away more than there is. Zeros are left
        out; without any change no epoch passes.
        """
        graph = self._node.graph
        graph.check_idle()
        net: dict[Any, Counts] = {}
        for key, counts in changes.items():
            for value, count in counts.items():
                self._check(key, value)
                if count:
                    add_change(net, settled(key), settled(value), count)
        if net:
            graph.run(((self._input, net),))
        return graph.epoch

    def load(
        self, table: pa.Table, *, key: str, values: str | tuple[str, ...] | None = None
    ) -> int:
        """Add every row of an Arrow table, as an epoch of its own; returns how many.

        Args:
            table: a `pyarrow.Table` or `RecordBatch`.
            key: the column of keys.
            values: the column or columns of values; all others by default. One column gives its
                scalars, several give named tuples `Row(column=…)`.

        Into an empty collection rows stay columnar until touched, and built-in reducers over int64
        and float64 columns take their results in numpy (5 million rows a second and more);
        otherwise rows go one by one.
        """
        from deltafix.reactive.columns import Segment  # noqa: PLC0415  loads numpy and pyarrow

        graph = self._node.graph
        graph.check_idle()
        table, names = _table(table, values, (key,))
        segment = Segment.load(table, key, names)
        self._check_keys(segment.codes)
        if len(segment):
            empty = not len(self._input.kept) and self._value_type is None and segment.is_settled
            changes: Changes = segment if empty else self._checked_rows(segment)
            graph.run(((self._input, changes),))
        return len(segment)

    def apply_table(
        self,
        table: pa.Table,
        *,
        key: str,
        values: str | tuple[str, ...] | None = None,
        sign: str = "sign",
    ) -> int:
        """Apply signed rows of an Arrow table as one epoch; returns how many rows it has.

        A row adds its value as often as its sign says, or takes it away as often if that is below
        zero; rows of one key and value add up. `table`, `key` and `values` are as in `load`.

        Raises MissingRowError if rows take away more than is there, and `error.values["rows"]` are
        the places of all such rows; FactError for signs that are nulls or no integers.

        An epoch of at least a sixteenth of the state's rows stays columnar, as `load` does, where
        keys and values are integers, booleans, text or plain floats: O((n + m) log (n + m)) for n
        rows and m held. Otherwise rows go one by one: O(n).
        """
        from deltafix.reactive.columns import require_columns  # noqa: PLC0415  loads pyarrow
        from deltafix.reactive.merge import Merge, signed_tuples  # noqa: PLC0415

        graph = self._node.graph
        graph.check_idle()
        table, names = _table(table, values, (key, sign))
        require_columns(table, key, names)
        counts = _signs(table, sign)
        kept = self._input.kept
        if self._value_type is None:
            merge = Merge.of(kept, table, key, names, counts)
            if merge is not None:
                self._check_keys(merge.keys)
                if merge.keys:
                    graph.run(((self._input, merge),))
                return len(table)
        changes: dict[Any, Counts] = {}
        for row_key, value, count in signed_tuples(table, key, names, counts):
            if count:
                add_change(changes, row_key, value, count)
        short = {
            (row_key, value)
            for row_key, change in changes.items()
            for value, count in change.items()
            if count < 0 and kept.at(row_key).get(value, 0) < -count
        }
        if short:
            rows = enumerate(signed_tuples(table, key, names, counts))
            positions = [
                position for position, (row_key, value, _) in rows if (row_key, value) in short
            ]
            row_key, value, _ = next(
                signed_tuples(table.slice(positions[0], 1), key, names, counts[:1])
            )
            held = kept.at(row_key).get(value, 0)
            message = missing_message(row_key, value, held, -changes[row_key][value])
            raise MissingRowError(message, rows=positions)
        self.apply(changes)
        return len(table)

    def _check_keys(self, keys: Iterable[Any]) -> None:
        """Check keys of one column: looking at types first spares a call a key."""
        if self._key_type is not None:
            for kind in set(map(type, keys)):
                if not issubclass(kind, self._key_type):
                    self._refuse(next(key for key in keys if type(key) is kind), None)

    def _checked_rows(self, segment: Any) -> dict[Any, Counts]:
        changes: dict[Any, Counts] = segment.as_changes()
        if self._value_type is not None:
            for key, counts in changes.items():
                for value in counts:
                    self._check(key, value)
        if not segment.is_settled:
            rows = ((k, v, n) for k, counts in changes.items() for v, n in counts.items())
            changes = summed((settled(key), settled(value), count) for key, value, count in rows)
        return changes


def _table(
    table: Any, values: str | tuple[str, ...] | None, beside: tuple[str, ...]
) -> tuple[pa.Table, tuple[str, ...]]:
    """What was given as a table, and its columns of values: all but those beside, by default."""
    import pyarrow as pa  # noqa: PLC0415  not loaded before it is asked for

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise FactError(f"expected a pyarrow Table or RecordBatch, not {type(table).__name__}")
    from deltafix.facts.arrow import settled_columns  # noqa: PLC0415  as above

    table = settled_columns(table)
    if values is None:
        values = tuple(name for name in table.column_names if name not in beside)
    return table, (values,) if isinstance(values, str) else tuple(values)


def _signs(table: pa.Table, sign: str) -> Any:
    """The column of signs as an int64 array. Raises FactError."""
    import pyarrow as pa  # noqa: PLC0415

    from deltafix.facts.arrow import to_numpy  # noqa: PLC0415  loads numpy

    if sign not in table.column_names:
        known = ", ".join(map(repr, table.column_names))
        raise FactError(f"the table has no column {sign!r}; its columns are {known}")
    column = table.column(sign)
    if not pa.types.is_integer(column.type) or column.null_count:
        what = "nulls" if column.null_count else f"{column.type}, not integers"
        raise FactError(f"the column {sign!r} of signs holds {what}")
    return to_numpy(column.cast(pa.int64()))
