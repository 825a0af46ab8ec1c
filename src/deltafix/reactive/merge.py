"""An epoch of about the state's size: signed columns merged with the columns that are held.

One noun: a `Merge` is such an epoch. It knows the whole state behind it as a segment (`after`), the
keys at which something changes, and the change as dictionaries where somebody asks for them.
Reducers with a columnar way take all results from `after`, so nothing is done per row in Python.

Invariant: the same as applying the rows one by one. Types whose equality in columns is not that of
Python's values (NaN, nested columns) have no merge, nor has an epoch so small that going through
the whole state would cost more than going through its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltafix.errors import MissingRowError
from deltafix.facts.groups import code_rows, dictionary_of, group_rows
from deltafix.facts.values import settled
from deltafix.reactive.changes import Counts, State, missing_message
from deltafix.reactive.columns import Segment, row_class, taken

_Ints: TypeAlias = "npt.NDArray[np.int64]"

_FEW: Final = 4096
"""Fewer rows than this go one by one."""

_SHARE: Final = 16
"""Rows are merged while the state has at most so many times as many."""

_KINDS: Final[tuple[tuple[Any, type], ...]] = (
    (pa.types.is_integer, int),
    (pa.types.is_boolean, bool),
    (pa.types.is_string, str),
    (pa.types.is_float64, float),
)


class _Rows(NamedTuple):
    """Keys, and for every row the place of its key, its value's columns, and its count."""

    keys: list[Any]
    key_codes: _Ints
    columns: list[pa.Array]
    counts: _Ints


class Merge:
    """The change that signed rows make to a state, by columns. Made by `Merge.of`.

    Attributes:
        after: the state behind it.
        keys: the keys at which it changes something.
    """

    def __init__(
        self, after: Segment, keys: list[Any], rows: Iterator[tuple[int, Any, int]]
    ) -> None:
        self.after = after
        self.keys = keys
        self._rows = rows

    @classmethod
    def of(
        cls, state: State, table: pa.Table, key: str, names: tuple[str, ...], counts: _Ints
    ) -> Merge | None:
        """The merge of a table's rows, each counted `counts` times; None if there is none.

        Raises MissingRowError if rows take away more than is there; `values["rows"]` are their
        places in the table. O((n + m) log (n + m)) for n rows and m held, in numpy.
        """
        if len(table) < _FEW or len(state) > _SHARE * len(table):
            return None
        columns = [table.column(name).combine_chunks() for name in names]
        if not all(map(_mergeable, (table.column(key).combine_chunks(), *columns))):
            return None
        held = _held(state, columns, names, _SHARE * len(table))
        if held is None:
            return None
        coded = dictionary_of(table.column(key))
        known = {value: code for code, value in enumerate(held.keys)}
        fresh = [known.setdefault(value, len(known)) for value in coded.dictionary.to_pylist()]
        key_codes = np.array(fresh, dtype=np.int64)[coded.indices.to_numpy()]
        both = _Rows(
            list(known),
            np.concatenate([held.key_codes, key_codes]),
            [pa.concat_arrays(pair) for pair in zip(held.columns, columns, strict=True)],
            np.concatenate([held.counts, counts]),
        )
        return cls._merged(both, len(held.counts), names)

    @classmethod
    def _merged(cls, both: _Rows, held: int, names: tuple[str, ...]) -> Merge | None:
        """Of rows of which the first `held` are the state's."""
        keys, key_codes, columns, counts = both
        parts = [pa.chunked_array([column]) for column in (pa.array(key_codes), *columns)]
        # Where numbers lie far apart, their ranks do.
        codes = code_rows(parts) or code_rows(
            [parts[0], *(pa.chunked_array([dictionary_of(part).indices]) for part in parts[1:])]
        )
        if codes is None:
            return None
        order, starts = group_rows(codes)
        sums = np.add.reduceat(counts[order], starts)
        moved = np.add.reduceat(np.where(order >= held, counts[order], 0), starts)
        firsts = order[starts]
        if (sums < 0).any():
            group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
            short = np.sort(order[(sums[group] < 0) & (order >= held)])
            at = group[np.flatnonzero(order == short[0])[0]]
            value = _values(columns, names, firsts[at : at + 1])[0]
            held_count = int(sums[at] - moved[at])
            message = missing_message(
                keys[key_codes[firsts[at]]], value, held_count, int(-moved[at])
            )
            raise MissingRowError(message, rows=(short - held).tolist())
        rows = np.repeat(firsts[sums > 0], sums[sums > 0])
        sizes = np.bincount(key_codes[rows], minlength=len(keys))
        stay = sizes > 0
        left = (
            keys
            if stay.all()
            else [key for key, is_left in zip(keys, stay.tolist(), strict=True) if is_left]
        )
        offsets = np.zeros(len(left) + 1, dtype=np.int64)
        np.cumsum(sizes[stay], out=offsets[1:])
        sorted_columns = {
            name: taken(column, rows) for name, column in zip(names, columns, strict=True)
        }
        after = Segment(left, offsets, sorted_columns, names)
        changed = np.flatnonzero(moved)
        at_keys = key_codes[firsts[changed]]

        def net() -> Iterator[tuple[int, Any, int]]:
            values = _values(columns, names, firsts[changed])
            yield from zip(
                (keys[code] for code in at_keys.tolist()),
                values,
                moved[changed].tolist(),
                strict=True,
            )

        touched = [keys[code] for code in np.unique(at_keys).tolist()]
        return cls(after, touched, net())

    def as_changes(self) -> dict[Any, Counts]:
        """The net changes as dictionaries. O(rows) in Python, once."""
        return self._changes

    @cached_property
    def _changes(self) -> dict[Any, Counts]:
        changes: dict[Any, Counts] = {}
        for key, value, count in self._rows:
            changes.setdefault(key, {})[value] = count
        return changes


def signed_tuples(
    table: pa.Table, key: str, names: tuple[str, ...], counts: _Ints
) -> Iterator[tuple[Any, Any, int]]:
    """(key, value, count) of every row; several columns make a named tuple, as `Segment` does."""
    values = map(settled, _values([table.column(name) for name in names], names))
    return zip(map(settled, table.column(key).to_pylist()), values, counts.tolist(), strict=True)


def _values(columns: list[Any], names: tuple[str, ...], rows: _Ints | None = None) -> list[Any]:
    lists = [
        (column if rows is None else column.take(pa.array(rows))).to_pylist() for column in columns
    ]
    make = row_class(names)
    return lists[0] if make is None else [make(*row) for row in zip(*lists, strict=True)]


def _mergeable(column: pa.Array) -> bool:
    """Whether values of the column are equal exactly where Python's are."""
    if column.null_count or _kind(column) is None:
        return False
    return not (pa.types.is_float64(column.type) and np.isnan(column.to_numpy()).any())


def _kind(column: pa.Array) -> type | None:
    return next((kind for test, kind in _KINDS if test(column.type)), None)


def _held(state: State, like: list[pa.Array], names: tuple[str, ...], most: int) -> _Rows | None:
    """The state as rows.

    None if it has more than `most` rows, or values that are not of the columns' types.
    """
    segment, untouched, live = state.parts()
    if sum(map(len, live.values())) + (0 if segment is None else len(segment)) > most:
        return None
    keys: list[Any] = []
    key_codes = np.empty(0, dtype=np.int64)
    columns = [column.slice(0, 0) for column in like]
    if segment is not None and untouched is not None:
        held_columns = [segment.columns.get(name) for name in names]
        if len(segment.columns) != len(names) or any(
            old is None or old.type != new.type or not _mergeable(old)
            for old, new in zip(held_columns, like, strict=True)
        ):
            return None
        keys = list(segment.codes)
        key_codes = np.repeat(np.arange(len(keys)), segment.sizes())
        columns = [column for column in held_columns if column is not None]
        mask = np.frombuffer(untouched.taken, np.uint8) == 0
        if not mask.all():
            kept = mask[key_codes]
            key_codes = key_codes[kept]
            columns = [column.filter(pa.array(kept)) for column in columns]
    sizes = np.ones(len(key_codes), dtype=np.int64)
    if not live:
        return _Rows(keys, key_codes, columns, sizes)
    known = {key: code for code, key in enumerate(keys)}
    rows = [
        (known.setdefault(key, len(known)), value, count)
        for key, counts in live.items()
        for value, count in counts.items()
    ]
    at, values, counts = (list(column) for column in zip(*rows, strict=True))
    extra = _columns_of(values, like, names)
    if extra is None:
        return None
    columns = [pa.concat_arrays(pair) for pair in zip(columns, extra, strict=True)]
    return _Rows(
        list(known),
        np.concatenate([key_codes, np.array(at, dtype=np.int64)]),
        columns,
        np.concatenate([sizes, np.array(counts, dtype=np.int64)]),
    )


def _columns_of(
    values: list[Any], like: list[pa.Array], names: tuple[str, ...]
) -> list[pa.Array] | None:
    """Values as columns of these types; None if some value is of another type."""
    lists: list[Any] = [values]
    if row_class(names) is not None:
        if not all(getattr(value, "_fields", None) == names for value in values):
            return None
        lists = list(zip(*values, strict=True))
    if any(
        set(map(type, part)) != {_kind(column)} for part, column in zip(lists, like, strict=True)
    ):
        return None
    try:
        columns = [pa.array(part, column.type) for part, column in zip(lists, like, strict=True)]
    except (pa.ArrowInvalid, OverflowError):
        return None
    return columns if all(map(_mergeable, columns)) else None
