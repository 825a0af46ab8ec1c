"""Keyed inputs: a row replaces the row of its key, a delete takes away whatever row the key has.

Of what is said of a key, one word counts:

    sequence_by    the one with the highest sequence, in whatever order they come; of equal
                   sequences a row comes before a delete, and of two rows the greater
    without it     the one that the source says last

The engine keeps that word for each key: `R__key(columns, sequence)` for rows, from which R follows,
and `R__gone(key, sequence)`, a tombstone, for deletes, so that an older row that comes later does
not bring the key back. A tombstone is dropped once every older row would be late (`late`). A word
of the state is a word like any other: an epoch takes those of the keys at hand and keeps the
winners. Invariant: a key has one word; with `sequence_by`, and no row late, what holds is a
function of the set of words said (the tests' `oracle_keyed`), so neither order, nor repetition, nor
cuts matter.

A sequence is kept in numbers of 22 bits: wider ones would each stay in the engine's table of wide
numbers, which never shrinks, and programs of 32 bits have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import numpy as np
import pyarrow as pa

from deltafix.facts.arrow import ARROW_TYPES, to_numpy
from deltafix.facts.groups import group_columns
from deltafix.facts.schema import Column, Schema
from deltafix.facts.shapes import Shape
from deltafix.facts.values import CONSTRUCTED, OPTIONAL, row_order
from deltafix.pipeline.signed import SIGN, VERSION, Signed, plain

KEYED, GONE = "__key", "__gone"
"""Appended to a relation's name: the row of each key, and the keys that were deleted."""

PARTS: Final = 3
"""Numbers that a sequence is kept in."""

_BITS: Final = 22
_MASK: Final = np.uint64((1 << _BITS) - 1)
_TOP: Final = np.uint64(1 << 63)

_AT: Final = "+/- at"

Ints = np.ndarray[Any, np.dtype[np.int64]]


class Rows(Protocol):
    """Given rows that can be asked for and changed: an open transaction, or the seat of a shard."""

    def coded(self, relation: str, rows: pa.Table) -> Any:
        """Rows made ready for several calls; `where(mask)` chooses among them."""

    def given(self, relation: str, rows: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of the rows are given."""

    def given_rows(self, relation: str, keys: pa.Table | None = None) -> pa.Table:
        """The given rows of a relation, those with these values in the columns of `keys`."""

    def insert(self, relation: str, rows: Any) -> int:
        """Give rows; how many were new."""

    def delete(self, relation: str, rows: Any) -> int:
        """Take rows away; how many were there."""


@dataclass(frozen=True, slots=True)
class Keying:
    """By which columns rows replace each other, and which tell older from newer.

    Attributes:
        key: columns of the relation; empty if rows do not replace each other.
        sequence: columns of the source, compared one after another; without a key at most one,
            the version.
    """

    key: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Keying:
        """From the values of a section."""
        if values.get("key"):
            return cls(tuple(values["key"]), tuple(values.get("sequence_by") or ()))
        return cls((), (values["version"],) if values.get("version") else ())

    @property
    def versions(self) -> list[str]:
        """The columns of signed tables where a row's sequence stands; the first is `VERSION`."""
        return [VERSION + (f" {n}" if n else "") for n in range(len(self.sequence))]


NO_KEY: Final = Keying()
"""Rows do not replace each other, and have no versions."""


def blank(column: Column) -> pa.Scalar:
    """What stands in the columns of a delete that are not of the key."""
    kind = ARROW_TYPES[column.type]
    return pa.scalar("" if kind == pa.string() else 0, kind)


def highest(
    table: pa.Table, names: Sequence[str], keys: Sequence[str], sequence: Sequence[str]
) -> pa.Table:
    """Of each key the words that may count, in their order. O(n log n).

    `names` are the columns of rows, `keys` those of the key. Without `sequence` it is the last
    one. With it those of the highest sequence and sign, each distinct row once: which of them
    counts is left to who knows the types.
    """
    many = table.num_rows
    if not many:
        return table
    by_key, starts = group_columns([table.column(name) for name in keys])
    ends = np.append(starts[1:], many) - 1
    if not sequence:
        return table.take(pa.array(np.sort(by_key[ends])))
    sizes = np.diff(np.append(starts, many))
    group = np.empty(many, np.int64)
    group[by_key] = np.repeat(np.arange(len(starts)), sizes)
    ranks = [to_numpy(table.column(name)).astype(np.int64) for name in (*sequence, SIGN)]
    order = np.lexsort((*reversed(ranks), group))
    top = np.ones(many, np.bool_)
    for rank in ranks:
        top &= rank[order] == np.repeat(rank[order[ends]], sizes)
    kept = order[top]
    if len(kept) > len(starts):
        tied = table.take(pa.array(kept))
        again, firsts = group_columns([tied.column(name) for name in names])
        kept = kept[again[firsts]]
    return table.take(pa.array(np.sort(kept)))


def replace(tx: Rows, signed: Signed, keying: Keying) -> tuple[int, int]:
    """Have the words of signed rows count in the open transaction, as far as they win.

    Returns (rows that hold now and did not before, rows that do not hold any more). O(n log n),
    beside asking the state for the words of the keys at hand.
    """
    schema = signed.schema
    names, keys = list(schema.names), list(keying.key)
    latest = highest(plain(schema, signed.table), names, keys, keying.versions)
    if not latest.num_rows:
        return 0, 0
    distinct_keys = latest.select(keys).group_by(keys, use_threads=False).aggregate([])
    held = tx.given_rows(schema.relation + KEYED, distinct_keys)
    gone = tx.given_rows(schema.relation + GONE, distinct_keys)
    words = [_words(schema, keying, held, 1), _words(schema, keying, gone, -1), latest]
    words[2] = latest.select(words[0].column_names).cast(words[0].schema)
    whole = pa.concat_tables(words)
    whole = whole.append_column(_AT, pa.array(np.arange(whole.num_rows)))
    winners = _settled(schema, keys, highest(whole, names, keys, keying.versions))
    at = to_numpy(winners.column(_AT)).astype(np.int64)
    stays = np.isin(np.arange(held.num_rows + gone.num_rows), at)
    loses = pa.array(~stays[: held.num_rows])
    tx.delete(schema.relation + KEYED, held.filter(loses))
    tx.delete(schema.relation + GONE, gone.filter(pa.array(~stays[held.num_rows :])))
    winners = winners.filter(pa.array(at >= held.num_rows + gone.num_rows))
    live = to_numpy(winners.column(SIGN)) > 0
    rows, deletes = winners.filter(pa.array(live)), winners.filter(pa.array(~live))
    tx.insert(schema.relation + KEYED, _kept(rows, names, keying))
    if keying.sequence:
        tx.insert(schema.relation + GONE, _kept(deletes, keys, keying))
    old = words[0].filter(loses)
    both = pa.concat_tables([old.select(names), rows.select(names)])
    same = both.num_rows - (len(group_columns(both.columns)[1]) if both.num_rows else 0)
    return rows.num_rows - same, old.num_rows - same


def drop_tombstones(tx: Rows, relation: str, below: int) -> None:
    """Forget the deletes whose (first) sequence is below: every older row is late now."""
    gone = tx.given_rows(relation + GONE)
    first = _joined(gone.select([_part(0, part) for part in range(PARTS)]))
    tx.delete(relation + GONE, gone.filter(pa.array(first < below)))


def _settled(schema: Schema, keys: Sequence[str], words: pa.Table) -> pa.Table:
    """One word of each key: of rows of one sequence, the greatest."""
    if not words.num_rows:
        return words
    order, starts = group_columns([words.column(name) for name in keys])
    chosen = order[starts]
    bounds = np.append(starts, len(order))
    for number in np.flatnonzero(np.diff(bounds) > 1).tolist():
        tied = order[bounds[number] : bounds[number + 1]]
        ranks = _ranks(schema, words.take(pa.array(tied)))
        chosen[number] = tied[max(range(len(ranks)), key=ranks.__getitem__)]
    return words.take(pa.array(chosen))


def _ranks(schema: Schema, rows: pa.Table) -> list[tuple[Any, ...]]:
    """Keys that order rows column by column, as their users have them: NULL is greatest.

    Other constructed values are ordered by their texts. A shard knows no more than the types.
    """
    columns = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        values: list[Any] = rows.column(name).to_pylist()
        bare = OPTIONAL.get(kind, kind)
        if bare != kind:  # a record of one field, or nil
            shape = Shape({"": {"": (("", bare),)}}, "")
            values = [record and record[0] for record in map(cast("Any", shape.read), values)]
        order = None if bare in CONSTRUCTED else row_order((bare,))
        columns.append(
            [
                (value is None, 0 if value is None else order((value,)) if order else value)
                for value in values
            ]
        )
    return list(zip(*columns, strict=True))


def _words(schema: Schema, keying: Keying, table: pa.Table, sign: int) -> pa.Table:
    """Rows of `R__key`, or of `R__gone`, as a signed table."""
    many = table.num_rows
    columns = {
        column.name: table.column(column.name)
        if column.name in table.column_names
        else pa.repeat(blank(column), many)
        for column in schema.columns
    }
    columns[SIGN] = pa.repeat(pa.scalar(sign, pa.int64()), many)
    for position, name in enumerate(keying.versions):
        parts = [_part(position, part) for part in range(PARTS)]
        columns[name] = pa.array(_joined(table.select(parts)))
    return pa.table(columns)


def _kept(words: pa.Table, names: Sequence[str], keying: Keying) -> pa.Table:
    """Words as they are kept: these columns, and the sequence in parts."""
    table = words.select(list(names))
    for position, name in enumerate(keying.versions):
        bits = to_numpy(words.column(name)).astype(np.int64).view(np.uint64) ^ _TOP
        for part in range(PARTS):
            shift = np.uint64(_BITS * (PARTS - 1 - part))
            number = ((bits >> shift) & _MASK).astype(np.int64)
            table = table.append_column(_part(position, part), pa.array(number))
    return table


def _joined(parts: pa.Table) -> Ints:
    """The sequences whose parts these are."""
    bits = np.zeros(parts.num_rows, np.uint64)
    for part in parts.columns:
        bits = (bits << np.uint64(_BITS)) | to_numpy(part).astype(np.uint64)
    sequence: Ints = (bits ^ _TOP).view(np.int64)
    return sequence


def _part(position: int, part: int) -> str:
    """The name of a column of `R__key` and `R__gone`."""
    return f"s{position}{KEYED}{part}"


def sequence_columns(keying: Keying) -> list[str]:
    """The columns of `R__key` and `R__gone` that hold sequences, all of type number."""
    return [
        _part(position, part) for position in range(len(keying.sequence)) for part in range(PARTS)
    ]
