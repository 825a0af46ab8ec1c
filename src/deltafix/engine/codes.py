"""Values to column codes and back: the only place that knows both.

A symbol's code is its id in the symbol table (`symbols`); the other types follow `kernel.values`.
A record of one field has the field's code, and `nil` one that no value has; other records are
numbered. Rows cross as one flat int32 array. Invariant: `decode(encode(v)) == v` for every value of
the type, with one zero and one NaN for floats. Numbers of records only grow, and none is used again
while the database lives.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, cast

import numpy as np

from deltafix.engine.records import Records
from deltafix.engine.symbols import Symbols
from deltafix.errors import TypeMismatchError
from deltafix.facts.logical_types import LogicalType
from deltafix.facts.ordered import OrderedRows, ordered
from deltafix.facts.schema import Column, Row, Schema
from deltafix.facts.values import (
    CONSTRUCTED,
    OPTIONAL,
    BaseType,
    Branch,
    Value,
    canonical,
    encodable,
    show_value,
    write_value,
)
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells, Words
from deltafix.kernel.entries import encode, find_wide
from deltafix.kernel.values import NIL, WIDE_BASE

VALUE_TYPES: dict[BaseType, int] = {
    "number": at.T_NUMBER,
    "unsigned": at.T_UNSIGNED,
    "float": at.T_FLOAT,
    "symbol": at.T_SYMBOL,
    **dict.fromkeys(CONSTRUCTED, at.T_SYMBOL),  # numbers without order, as symbols are
}
_NAN = 0x7FF8000000000000
_WHOLE = ("number", "unsigned")
_LEAST = {"number": -WIDE_BASE, "unsigned": 0}
"""From there on below `WIDE_BASE`, a whole number fits any word size and is its own code."""
_NUMPY = {"number": np.int64, "unsigned": np.uint64, "float": np.float64}
FEW = 16
"""Rows up to which they are read and coded one by one: numpy costs more than a small edit."""
_LONG = 1 << 18
"""Symbols that Python sorts in a quarter of a second."""
ORDERED_FROM = 1000
"""Rows from which they are put in order by column, in numpy."""
_SLICE = 1 << 17
"""Rows of a table that are coded together: what is made on the way stays in memory that is there
already (new pages are half of what a large table costs)."""
_MANY = 64
"""Rows from which on columns are coded as arrays."""


_numbers = count(1)


class Codes:
    """The symbols and records of a database, and conversions both ways.

    Attributes:
        number: tells them from the others of this process: codes of one mean nothing in another.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.number = next(_numbers)
        self.symbols = Symbols(arena)
        self.records = Records()
        self._counted: dict[tuple[Value, ...], int] = {}
        self._few: dict[int, tuple[Words, memoryview]] = {}

    def count(self, call: str, values: tuple[Value, ...]) -> int:
        """The number that a call of `autoinc` gives to these values: the next one, once. O(1)."""
        key = (call, *(canonical(v) if isinstance(v, float) else v for v in values))
        return self._counted.setdefault(key, len(self._counted))

    def to_tables(self) -> dict[str, bytes]:
        """All that is known here and not in the arena, as plain bytes by name. O(records)."""
        number = self.records.number
        counted = [
            [call, *([number(v)] if isinstance(v, tuple | Branch) else v for v in values)]
            for call, *values in self._counted
        ]
        return {
            "counted": json.dumps(counted).encode(),
            "records": json.dumps(self.records.to_json()).encode(),
        }

    def restore(self, tables: Mapping[str, bytes]) -> None:
        """Become what `to_tables` gave. O(records)."""
        self.records.restore(json.loads(tables["records"]))
        values = self.records.values
        self._counted = {}
        for call, *parts in json.loads(tables["counted"]):
            self.count(call, tuple(values[p[0]] if isinstance(p, list) else p for p in parts))

    def known(self, kind: BaseType, value: Value) -> int | None:
        """The code of a value, or None if no row can contain it; nothing is entered."""
        if kind == "symbol":
            return self.symbols.known(str(value))
        if kind in OPTIONAL and isinstance(value, tuple):
            return self.known(OPTIONAL[kind], value[0])
        if kind in _NUMPY and not (kind in _WHOLE and _is_own_code(kind, value)):
            code = int(find_wide(self._arena.cells, _pattern(kind, value)))
            return None if code < 0 else code
        return self.code(kind, value)

    def asked(self, schema: Schema, column: Column, value: Value) -> int | None:
        """The code of a value that a column is asked for; None if no row can contain it.

        Raises TypeMismatchError.
        """
        if type(value) is int and column.of is None:
            least = _LEAST.get(column.type)
            if least is not None and least <= value < WIDE_BASE:
                return value
        checked = schema.check_value(column, 0, value)
        if column.of is not None:
            checked = column.of.encode(checked)
        return self.known(column.type, checked)

    def code(self, kind: BaseType, value: Value) -> int:
        """The code of one value that fits its type."""
        if kind == "symbol":
            return self.symbols.code(value)  # type: ignore[arg-type]  # checked at the door
        if kind == "record":
            return self.records.number(value)
        if kind in _WHOLE and _is_own_code(kind, value):
            return value  # type: ignore[return-value]
        if kind in OPTIONAL:
            return self.code(OPTIONAL[kind], value[0]) if isinstance(value, tuple) else NIL
        return int(encode(self._arena.cells, VALUE_TYPES[kind], _pattern(kind, value)))

    def encode_few(self, schema: Schema, rows: list[Any]) -> Words | None:
        """Few rows as flat codes, each value looked at once; None: check them properly.

        The array is the next call's, too (a new one costs 1.1 us of an edit's 20).
        """
        types, width = schema.types, len(schema.types)
        if schema.logical:
            if any(type(row) is not tuple or len(row) != width for row in rows):
                return None
            try:
                rows = schema.encoded(rows)
            except ValueError:
                return None
        size = width * len(rows)
        room = self._few.get(size)
        if room is None:
            out = np.empty(size, dtype=np.int32)
            room = self._few[size] = out, out.data
        codes, cells = room
        index = 0
        texts: list[tuple[int, str]] = []
        for row in rows:
            if type(row) is not tuple or len(row) != width:
                return None
            for kind, value in zip(types, row):  # noqa: B905  as many; comparing takes 0.2 µs
                of = type(value)
                if of is tuple and kind in OPTIONAL and len(value) == 1:
                    kind, value = OPTIONAL[kind], value[0]  # noqa: PLW2901
                    of = type(value)
                if of is int and kind in _LEAST and _LEAST[kind] <= value < WIDE_BASE:
                    cells[index] = value
                elif kind == "symbol":
                    if of is not str or not (value.isascii() or encodable(value)):
                        return None
                    texts.append((index, value))
                elif value is None and kind in OPTIONAL:
                    cells[index] = NIL
                else:
                    column, held = schema.columns[index % width], row[index % width]
                    try:
                        held = held if column.of else schema.check_value(column, 0, held)
                    except TypeMismatchError:
                        return None
                    cells[index] = self.code(column.type, held)
                index += 1
        for index, text in texts:  # all rows fit
            cells[index] = self.symbols.code(text)
        return codes

    def encode_rows(self, schema: Schema, rows: Sequence[Row]) -> Words:
        """Checked rows as a flat array of codes, row after row."""
        types = schema.types
        rows = schema.encoded(rows)
        out = np.empty((len(rows), len(types)), dtype=np.int32)
        for c, kind in enumerate(types):
            out[:, c] = self.encode(kind, [row[c] for row in rows])
        return out.reshape(-1)

    def encode(self, kind: BaseType, values: list[Any]) -> Words:
        """The codes of values that fit their type. O(values)."""
        if kind == "record":
            return np.array([self.records.number(value) for value in values], dtype=np.int32)
        if len(values) < _MANY:
            return np.array([self.code(kind, value) for value in values], dtype=np.int32)
        if kind in OPTIONAL:
            codes = np.full(len(values), NIL, dtype=np.int32)
            present = [value is not None for value in values]
            fields = [value[0] for value in values if value is not None]
            codes[present] = self.encode(OPTIONAL[kind], fields)
            return codes
        if kind == "symbol":
            return self.symbols.codes(values)
        return self.encode_numbers(kind, np.array(values, dtype=_NUMPY[kind]))

    def encode_table(self, schema: Schema, table: Any) -> Words:
        """A checked Arrow table as a flat array of codes. No Python object per cell."""
        out = np.empty((table.num_rows, schema.arity), dtype=np.int32)
        for first in range(0, table.num_rows, _SLICE):
            part, rows = table.slice(first, _SLICE), out[first : first + _SLICE]
            for c, kind in enumerate(schema.types):
                of = schema.columns[c].of
                if of is not None:
                    rows[:, c] = self._encode_logical(of, part.column(c))
                elif kind in CONSTRUCTED:
                    rows[:, c] = self._read_column(schema, c, part.column(c), first)
                else:
                    rows[:, c] = self._encode_column(kind, part.column(c))
        return out.reshape(-1)

    def encode_array(self, schema: Schema, rows: np.ndarray[Any, np.dtype[Any]]) -> Words:
        """A checked integer array (n, arity) of a relation of numbers, as codes."""
        out = np.empty(rows.shape, dtype=np.int32)
        for c, kind in enumerate(schema.types):
            out[:, c] = self.encode_numbers(kind, rows[:, c])
        return out.reshape(-1)

    def taken(self, schema: Schema, codes: Words, other: Codes) -> Words:
        """Rows (n, arity) in the codes of another database, of the same types, as flat ones here.

        O(cells); O(1) for each value that is used, and only these are entered.
        """
        out = np.empty(codes.shape, dtype=np.int32)
        for c, kind in enumerate(schema.types):
            out[:, c] = self._taken(kind, codes[:, c], other)
        return out.reshape(-1)

    def _taken(self, kind: BaseType, column: Words, other: Codes) -> Words:
        if kind in OPTIONAL:
            present = column != NIL
            out = np.full(len(column), NIL, dtype=np.int32)
            out[present] = self._taken(OPTIONAL[kind], column[present], other)
            return out
        if kind in _WHOLE and column.max(initial=0) < WIDE_BASE:
            return column
        used, indices = occurring(column)
        if kind == "symbol":
            return self.symbols.taken(used, other.symbols)[indices]
        if kind in _NUMPY:
            return self.encode_numbers(kind, other.decode_numbers(kind, used))[indices]
        return self.encode(kind, other.decode(kind, used))[indices]

    def decode(self, kind: BaseType, codes: Words) -> list[Value]:
        """Python values of a column of codes."""
        if len(codes) <= FEW:
            value = self.value
            return [value(kind, code) for code in codes.tolist()]
        if kind == "symbol":
            used, indices = occurring(codes)
            texts = self.symbols.texts(used)
            return [texts[index] for index in indices.tolist()]
        if kind == "record":
            values = self.records.values
            return [values[code] for code in codes.tolist()]
        if kind in OPTIONAL:
            present = codes != NIL
            fields = zip(self.decode(OPTIONAL[kind], codes[present]))
            return [next(fields) if is_there else None for is_there in present.tolist()]
        numbers = self.decode_numbers(kind, codes)
        decoded: list[Value] = numbers.tolist()
        if kind == "float":
            for index in np.flatnonzero(np.isnan(numbers)).tolist():
                decoded[index] = math.nan  # one object, so that equal rows are equal to Python
        return decoded

    def value(self, kind: BaseType, code: int) -> Value:
        """The Python value of one code."""
        if code < WIDE_BASE and kind in _WHOLE:
            return code
        if kind == "symbol":
            return self.symbols.text(code)
        if kind == "record":
            return self.records.values[code]
        if kind in OPTIONAL:
            return None if code == NIL else (self.value(OPTIONAL[kind], code),)
        pattern = int(self._arena.take(at.WIDE)[code - WIDE_BASE])
        if kind == "float":
            return canonical(float(np.int64(pattern).view(np.float64)))
        return pattern if kind == "number" else pattern & ((1 << 64) - 1)

    def decode_numbers(self, kind: BaseType, codes: Words) -> np.ndarray[Any, np.dtype[Any]]:
        """A column of codes of a numeric type as its numpy type."""
        wide = codes >= WIDE_BASE
        values = codes.astype(np.int64)
        if wide.any():
            table = self._arena.take(at.WIDE)
            values[wide] = table[values[wide] - WIDE_BASE]
        if kind == "unsigned":
            return values.view(np.uint64)
        return values.view(np.float64) if kind == "float" else values

    def positions(self, kind: BaseType, codes: Words) -> Cells | None:
        """Whole numbers that are ordered as the values are; None of constructed ones.

        O(codes); for symbols the distinct ones are sorted.
        """
        if kind == "symbol":
            used, own = occurring(codes)
            order = self._text_order(kind, used, self.decode(kind, used))
            ranks = np.empty(len(order), dtype=np.int64)
            ranks[order] = np.arange(len(order))
            return ranks[own]
        if kind == "float":
            return self.float_positions(codes)
        if kind == "unsigned":
            return self.decode_numbers("number", codes) ^ np.int64(-1 << 63)
        return self.decode_numbers(kind, codes) if kind == "number" else None

    def float_positions(self, codes: Words) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Floats as their positions in the total order (`facts.values.float_order`)."""
        return _flipped(self.decode_numbers("number", codes))

    def rows(self, schema: Schema, codes: Words) -> list[Row]:
        """Python rows of a table of codes (n, arity)."""
        if schema.arity == 0:
            return [()] * len(codes)
        columns = [self.column(schema.columns[c], codes[:, c]) for c in range(schema.arity)]
        return list(zip(*columns, strict=True))

    def column(self, column: Column, codes: Words) -> list[Value]:
        """Python values of a column's codes, as its users have them."""
        if column.of is None:
            return self.decode(column.type, codes)
        used, indices = occurring(codes)
        values = [*map(column.of.decode, self.decode(column.type, used))]
        return [values[index] for index in indices.tolist()]

    def ordered(self, schema: Schema, codes: Words) -> OrderedRows[Value]:
        """The rows of a table of codes (n, arity), in order, by column."""
        values, places = [], []
        for c, kind in enumerate(schema.types):
            used, own = occurring(codes[:, c])
            column_values = self.column(schema.columns[c], used)
            if kind == "symbol" or kind in CONSTRUCTED:
                order = self._text_order(kind, used, column_values)
            elif kind == "float":
                order = np.argsort(self.float_positions(used), kind="stable").astype(np.int32)
            else:
                order = np.argsort(self.decode_numbers(kind, used), kind="stable").astype(np.int32)
            ranks = np.empty(len(order), dtype=np.int32)
            ranks[order] = np.arange(len(order), dtype=np.int32)
            values.append([column_values[n] for n in order.tolist()])
            places.append(ranks[own])
        return ordered(values, places, len(codes))

    def _text_order(self, kind: BaseType, codes: Words, values: list[Value]) -> Words:
        """Where the values lie by their texts, the least first.

        Many are sorted by Arrow: UTF-8 has the order of its characters, and Python, which holds
        its lock for as long as it sorts, could not be interrupted.
        """
        if kind == "symbol" and len(values) >= _LONG:
            import pyarrow.compute as pc  # noqa: PLC0415  slow to import

            indices = pc.array_sort_indices(self.symbols.array(codes))
            return np.from_dlpack(indices).astype(np.int32)
        texts = values if kind == "symbol" else [*map(show_value, values)]
        order = sorted(range(len(texts)), key=cast("list[str]", texts).__getitem__)
        return np.array(order, dtype=np.int32)

    def few_rows(self, schema: Schema, codes: list[list[int]]) -> list[Row]:
        """As `rows` of lists: for so few that numpy's calls cost more."""
        types, value = schema.types, self.value
        rows = [tuple(map(value, types, row)) for row in codes]
        return schema.decoded(rows) if schema.logical else rows

    def table(self, schema: Schema, codes: Words) -> Any:
        """An Arrow table of a table of codes, symbols through a dictionary."""
        import pyarrow as pa  # noqa: PLC0415  most runs never need a table

        from deltafix.facts.arrow import arrow_schema  # noqa: PLC0415

        arrays = []
        for c, kind in enumerate(schema.types):
            column = np.ascontiguousarray(codes[:, c])
            of = schema.columns[c].of
            if of is not None:
                arrays.append(self._logical_array(of, column))
            elif kind == "symbol" or kind in CONSTRUCTED:
                used, indices = occurring(column)
                if kind == "symbol":
                    names = self.symbols.array(used)
                else:
                    names = pa.array([*map(write_value, self.decode(kind, used))], pa.string())
                arrays.append(
                    pa.DictionaryArray.from_arrays(pa.array(indices), names).cast(pa.string())
                )
            else:
                arrays.append(pa.array(self.decode_numbers(kind, column)))
        return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))

    def _logical_array(self, kind: LogicalType, codes: Words) -> Any:
        """A column of codes as the Arrow type of a logical type, null where values are missing."""
        import pyarrow as pa  # noqa: PLC0415

        from deltafix.facts.arrow import ARROW_TYPES  # noqa: PLC0415
        from deltafix.facts.logical_arrow import opened  # noqa: PLC0415

        base = kind.held
        present = codes != NIL if kind.nullable else np.ones(len(codes), dtype=np.bool_)
        if base == "symbol":
            used, indices = occurring(codes[present])
            bare = self.symbols.array(used).take(pa.array(indices)).cast(pa.string())
        else:
            bare = pa.array(self.decode_numbers(base, codes[present]), ARROW_TYPES[base])
        if not present.all():
            wide = np.cumsum(present) - 1
            bare = bare.take(pa.array(wide, mask=~present))
        return opened(bare, kind)

    def _read_column(self, schema: Schema, index: int, column: Any, first: int) -> Words:
        """Records from their text, or from structs of their one field. Raises TypeMismatchError.

        `first` is the number of the column's first row, for that.
        O(cells), with a Python object for each distinct record.
        """
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        from deltafix.facts.arrow import to_numpy  # noqa: PLC0415
        from deltafix.facts.groups import dictionary_of  # noqa: PLC0415

        described = schema.columns[index]
        if pa.types.is_struct(column.type):
            fields = pc.struct_field(column, 0)
            present = to_numpy(pc.is_valid(fields).cast("int8")).astype(bool)
            chosen = np.full(len(present), NIL, dtype=np.int32)
            chosen[present] = self._encode_column(OPTIONAL[described.type], fields.drop_null())
            return chosen
        coded = dictionary_of(column)
        indices = to_numpy(coded.indices)
        record_codes = []
        for number, text in enumerate(coded.dictionary.to_pylist()):
            try:
                value = described.shape.read(text) if described.shape else None
            except ValueError as error:
                row = first + int(np.argmax(indices == number))
                raise schema.mismatch(described, row, text, str(error)) from None
            record_codes.append(self.code(described.type, value))
        codes: Words = np.array(record_codes, dtype=np.int32)[indices]
        return codes

    def _encode_column(self, kind: BaseType, column: Any) -> Words:
        import pyarrow as pa  # noqa: PLC0415

        from deltafix.facts.arrow import to_numpy  # noqa: PLC0415

        if kind == "symbol":
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            parts = [np.empty(0, np.int32), *map(self._encode_texts, chunks)]
            return np.concatenate(parts)
        return self.encode_numbers(kind, to_numpy(column))

    def _encode_logical(self, kind: LogicalType, column: Any) -> Words:
        """Values of a logical type's Arrow type, null for missing ones."""
        from deltafix.facts.arrow import to_numpy  # noqa: PLC0415
        from deltafix.facts.logical_arrow import closed  # noqa: PLC0415

        present = to_numpy(column.is_valid().cast("int8")).astype(bool)
        base = kind.held
        codes = np.full(len(present), NIL, dtype=np.int32)
        codes[present] = self._encode_column(base, closed(column.drop_null(), kind))
        return codes

    def _encode_texts(self, array: Any) -> Words:
        """The codes of an array of strings, or of a dictionary of them, without nulls."""
        import pyarrow as pa  # noqa: PLC0415

        from deltafix.facts.arrow import to_numpy  # noqa: PLC0415

        if not pa.types.is_dictionary(array.type):
            return self.symbols.codes_of_array(array)
        indices, texts = to_numpy(array.indices), array.dictionary
        if len(texts) > len(indices):  # a part of a longer column: only what occurs
            used, indices = np.unique(indices, return_inverse=True)
            texts = texts.take(pa.array(used))
        codes: Words = self.symbols.codes_of_array(texts)[indices]
        return codes

    def encode_numbers(self, kind: BaseType, values: np.ndarray[Any, np.dtype[Any]]) -> Words:
        """The codes of numbers of a type's numpy type. O(values)."""
        if kind == "float":
            clean = np.asarray(values, dtype=np.float64) + 0.0
            patterns = clean.view(np.int64).copy()
            patterns[np.isnan(clean)] = _NAN
            return self._intern_all(kind, patterns)
        patterns = np.ascontiguousarray(values).astype(np.int64, copy=False)
        low = 0 if kind == "unsigned" else -(1 << 31)
        codes = patterns.astype(np.int32)
        if patterns.max(initial=low) >= WIDE_BASE or patterns.min(initial=low) < low:
            wide = (patterns >= WIDE_BASE) | (patterns < low)
            codes[wide] = self._intern_all(kind, patterns[wide])
        return codes

    def _intern_all(self, kind: BaseType, patterns: Cells) -> Words:
        cells = self._arena.cells
        value_type = VALUE_TYPES[kind]
        distinct, indices = np.unique(patterns, return_inverse=True)
        codes = [encode(cells, value_type, pattern) for pattern in distinct]
        return np.array(codes, dtype=np.int32)[indices]


def occurring(column: Words) -> tuple[Words, Words]:
    """The distinct codes of a column, ascending, and where among them each is."""
    least = int(column.min(initial=0))
    known = int(column.max(initial=-1)) + 1 - least
    if known > 16 * len(column):
        used, where = np.unique(column, return_inverse=True)
        return used, where.astype(np.int32)
    # Marking them all costs less than sorting.
    positions = np.zeros(known, dtype=np.int32)
    positions[column - least] = 1
    used = np.flatnonzero(positions).astype(np.int32)
    positions[used] = np.arange(len(used), dtype=np.int32)
    return used + np.int32(least), positions[column - least]


def _flipped(patterns: Cells) -> Cells:
    """Patterns of floats as positions in their order, and back."""
    return patterns ^ ((patterns >> 63) & ((1 << 63) - 1))


def _is_own_code(kind: BaseType, value: Any) -> bool:
    """Whether a whole number is its own code."""
    return value < WIDE_BASE and (kind == "unsigned" or value >= -(1 << 31))


def _pattern(kind: BaseType, value: Value) -> int:
    """The 64-bit pattern of a number, unsigned or float, as a signed integer."""
    if kind == "float":
        number = float(cast(float, value)) + 0.0
        return _NAN if math.isnan(number) else int(np.float64(number).view(np.int64))
    whole = int(cast(int, value))
    return whole if whole < 1 << 63 else whole - (1 << 64)
