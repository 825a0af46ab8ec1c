"""SQL's types as logical types of columns: NULLs, booleans, times, decimals, bytes, nested ones.

A TIME and an INTERVAL are texts outside, as DuckDB and CSV have them, `1 month 2 days 03:00:00`:
Spark has no type of a time of day, and as little as Parquet one of three parts. A UUID is a text in
Arrow, too (`facts.logical_arrow`).

Invariant: of a value that Arrow has as text, or as another type, it is asked what SQL's assignment
asks (`sql.casts`); nothing is rounded, so a value either is one of the type's or is refused. Whole
columns are converted by Arrow; text, and what is nullable, by distinct value. The elements of
arrays and the fields of structs are columns, converted as such; in a column of text they are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.arrow import ARROW_TYPES, VIEWS, settled_floats
from deltafix.facts.json_rows import json_object
from deltafix.facts.logical import as_columns
from deltafix.facts.logical_arrow import closed, converted, opened, takes
from deltafix.facts.logical_types import LogicalType
from deltafix.facts.shapes import Shape
from deltafix.facts.values import encodable, write_value
from deltafix.sql import intervals
from deltafix.sql.arrays import Bases, packed, unpacked
from deltafix.sql.casts import assigned, cast, from_text
from deltafix.sql.cursor import arrow_type
from deltafix.sql.types import (
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    NULLABLE_TYPES,
    TEXT,
    TIME,
    UUID,
    Column,
    SqlType,
    encode,
    of_logical,
    optional_of,
)

__all__ = ["SqlLogical", "is_beyond_day", "python_value"]

_TEXTS: Final = (pa.string(), pa.large_string(), pa.string_view())
_SHAPES: Final = {
    kind.name: {"": tuple((field.name, field.type) for field in kind.branches[0].fields)}
    for kind in NULLABLE_TYPES
}
_JSON: Final = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=json_object)


@dataclass(frozen=True, slots=True)
class SqlLogical:
    """A type of SQL, as a column has it."""

    type: SqlType
    nullable: bool
    rules: LogicalType | None = None
    """The type of rules that it is of, which says what texts are (`LogicalType.from_text`)."""

    @classmethod
    def of(cls, column: Column) -> SqlLogical:
        """That of a column."""
        return cls(column.type, column.nullable)

    @classmethod
    def of_rules(cls, kind: LogicalType) -> SqlLogical:
        """That of a logical type that rules name."""
        return cls(of_logical(kind), kind.nullable, kind)

    def __str__(self) -> str:
        if self.rules is not None:
            return self.rules.name
        return self.type.name + ("" if self.nullable else " NOT NULL")

    @property
    def name(self) -> str:
        """What SQL calls it, whether or not NULL is one of its values."""
        return self.type.name

    @property
    def like(self) -> str:
        """A text of one, if not every text is."""
        if self.type is INTERVAL:
            return "1 month 2 days 03:00:00"
        if self.type is BLOB:
            return r"\x00ff"  # as it is written, and the one of SQL
        return "" if self.type is TEXT or self.type.is_nested else optional_of(self.type).like

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type for its values."""
        return _outside(arrow_type(self.type))

    def takes(self, kind: pa.DataType) -> bool:
        """Whether values of an Arrow type may be values of this one."""
        mine = self.type
        if kind in _TEXTS or pa.types.is_null(kind):
            return True
        if pa.types.is_dictionary(kind):
            return self.takes(kind.value_type)
        if mine.element is not None:
            inner = SqlLogical(mine.element, nullable=True)
            return _is_list(kind) and inner.takes(kind.value_type)
        if mine.fields:
            given = (
                dict(zip(_names(kind, mine), kind, strict=True)) if pa.types.is_struct(kind) else {}
            )
            return given.keys() == {name for name, _ in mine.fields} and all(
                SqlLogical(field, nullable=True).takes(given[name].type)
                for name, field in mine.fields
            )
        if mine is INTERVAL:
            is_of_parquet = pa.types.is_fixed_size_binary(kind) and kind.byte_width == 12
            return bool(pa.types.is_interval(kind) or pa.types.is_duration(kind) or is_of_parquet)
        if takes(optional_of(mine), kind):
            return True
        if mine.is_decimal:
            return bool(pa.types.is_floating(kind))
        if mine is DOUBLE:
            return bool(pa.types.is_decimal(kind))
        if mine is DATE and pa.types.is_timestamp(kind):
            return kind.tz is None  # at midnight
        return mine.is_time and bool(pa.types.is_date(kind))

    def encode(self, array: Any) -> pa.Array:
        """Values, as Arrow has them, as the engine's column; null where one is not of the type."""
        bare, is_none = self.bare(array)
        if not self.nullable:
            return bare
        misfit = to_numpy_mask(bare.is_null()) & ~is_none
        base = self.type.base
        distinct = bare.dictionary_encode(null_encoding="encode")
        texts = [
            write_value(None if value is None else (_settled(base, value),))
            for value in distinct.dictionary.to_pylist()
        ]
        done = pa.array(texts, pa.string()).take(distinct.indices)
        return pc.if_else(pa.array(misfit), pa.scalar(None, pa.string()), done)

    def bare(self, array: Any) -> tuple[pa.Array, Any]:
        """Values as the engine has those that are not NULL, null for misfits; which are NULL."""
        array = _whole(array)
        if array.type in _TEXTS and self.type is not TEXT:
            return self._read(array)
        return self._cast(array), to_numpy_mask(array.is_null())

    def decode(self, array: Any) -> pa.Array:
        """The engine's column as values of `arrow`."""
        array = _whole(array)
        physical = ARROW_TYPES[self.type.base]
        if self.nullable:
            shape = Shape(_SHAPES, f"nullable_{self.type.base}")
            distinct = array.dictionary_encode()
            values = [shape.read(text) for text in distinct.dictionary.to_pylist()]
            bare = [value[0] if isinstance(value, tuple) else None for value in values]
            array = pa.array(bare, physical).take(distinct.indices)
        return _opened(array.cast(physical), self.type, outside=True)

    def opened(self, array: pa.Array) -> pa.Array:
        """Bare values of the engine as Arrow has them for SQL, times and intervals as such."""
        return _opened(array, self.type)

    # --- inside --------------------------------------------------------------------------------

    def _cast(self, array: pa.Array) -> pa.Array:
        """Values of some Arrow type as bare ones of the engine."""
        if self.type.is_nested:
            return _packed(array, self.type)
        if self.type is INTERVAL:
            return self._each(array, self._of_value)
        try:
            if self.type is UUID:
                return converted(array, optional_of(UUID))
            done, wanted = array, arrow_type(self.type)
            if not array.type.equals(wanted):
                if {True, False} == {*map(pa.types.is_decimal, (wanted, array.type))} and (
                    pa.types.is_floating(wanted) or pa.types.is_floating(array.type)
                ):
                    raise pa.ArrowInvalid("by their shortest text, and the nearest double")
                done = array.cast(wanted)
                if self.type is DATE and not done.cast(array.type).equals(array):
                    raise pa.ArrowInvalid("a time of day, which a day has not")
            return _closed(done, self.type)
        except (pa.ArrowException, ValueError):
            return self._each(array, self._of_value)

    def _read(self, array: pa.Array) -> tuple[pa.Array, Any]:
        """Texts as bare values, and which of them are NULL: nothing, or an empty text."""
        is_none = to_numpy_mask(pc.fill_null(pc.equal(array, ""), True))
        if self.type.is_nested:
            return self._cast(_of_json(array, self.type)), is_none
        if self.type is UUID:  # all at once: one by one took five times as long
            with suppress(ValueError):
                texts = pc.if_else(pa.array(is_none), pa.scalar(None, array.type), array)
                return converted(texts, optional_of(UUID)), is_none
        kind = self.rules
        read = partial(from_text, kind=self.type) if kind is None else kind.from_text
        return self._each(array, read), is_none

    def _each(self, array: pa.Array, read: Callable[[Any], Any]) -> pa.Array:
        distinct = array.dictionary_encode()
        values = []
        for value in distinct.dictionary:
            try:  # Arrow has days and moments that Python has not
                given = str(value) if is_beyond_day(value) else value.as_py()
                values.append(encode(read(given), self.type, nullable=False))
            except (ValueError, ArithmeticError):
                values.append(None)
        return pa.array(values, ARROW_TYPES[self.type.base]).take(distinct.indices)

    def _of_value(self, value: Any) -> Any:
        kind = self.type
        if kind is INTERVAL and isinstance(value, bytes):
            return intervals.of_parquet(value)
        if kind.is_decimal and isinstance(value, float):
            return Decimal(repr(value))
        if kind is DOUBLE and isinstance(value, int):
            if int(float(value)) != value:
                raise ValueError(value)
            return value
        if kind is TEXT and not encodable(value):
            raise ValueError(value)
        return value if kind.is_decimal else assigned(value, kind)


def python_value(value: pa.Scalar) -> Any:
    """A value of Arrow as Python's; as Arrow's text where Python has none, of moments and days."""
    if value.is_valid and _is_list(value.type):
        return list(map(python_value, value.values))
    if value.is_valid and pa.types.is_struct(value.type):
        return {name: python_value(part) for name, part in value.items()}
    if value.is_valid and pa.types.is_timestamp(value.type) and value.type.unit == "ns":
        return str(value.cast(pa.string()))  # which Python has only with pandas, if at all
    if value.is_valid and is_beyond_day(value):
        return str(value.cast(pa.string()))
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return str(value.cast(pa.string()))


def _outside(kind: pa.DataType) -> pa.DataType:
    """A type of Arrow with texts for times and intervals, inside of lists and structs, too."""
    if pa.types.is_list(kind):
        return pa.list_(_outside(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_outside(field.type)) for field in kind])
    is_text = pa.types.is_interval(kind) or pa.types.is_time(kind)
    return pa.string() if is_text else kind


def is_beyond_day(value: pa.Scalar) -> bool:
    """Whether it is 24:00, or has that inside, which Arrow gives to Python as midnight."""
    if not value.is_valid or value.type.num_fields:
        inner = value.values if value.is_valid and _is_list(value.type) else ()
        if value.is_valid and pa.types.is_struct(value.type):
            inner = [part for _, part in value.items()]
        return any(map(is_beyond_day, inner))
    if not pa.types.is_time(value.type):
        return False
    of_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[value.type.unit]
    return not 0 <= value.value < 86_400 * of_second


def to_numpy_mask(array: Any) -> Any:
    """Booleans as numpy's."""
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _whole(array: Any) -> pa.Array:
    """One array, without a dictionary, of a type for which Arrow has functions."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # some types, and no chunks at all
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        kind = array.type
        array = array.cast(pa.dictionary(kind.index_type, _common(kind.value_type)))
        array = array.cast(array.type.value_type)
    kind = _common(array.type)
    return array if kind == array.type else array.cast(kind)


def _common(kind: pa.DataType) -> pa.DataType:
    """A type with the same values for which Arrow has functions: it has few of the newer ones."""
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return VIEWS.get(kind, kind)


def _is_list(kind: pa.DataType) -> bool:
    """Whether a type of Arrow is one of lists, of whichever layout."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _names(given: pa.DataType, kind: SqlType) -> list[str]:
    """The names of the fields of a struct of Arrow, as a STRUCT has them."""
    return as_columns((field.name for field in given), (name for name, _ in kind.fields))


def _packed(array: pa.Array, kind: SqlType) -> pa.Array:
    """Lists or structs as the engine has them; null for NULL, and where a part is a misfit."""
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    if kind.element is not None:
        values, wrong = _parts(array.flatten(), kind.element)
        lengths = pc.list_value_length(array).to_pylist()
        ends = np.cumsum([0, *(length or 0 for length in lengths)])
        wrongs = [wrong[at:end].any() for at, end in pairwise(ends)]
        rows = [values[at:end] for at, end in pairwise(ends)]
        bases: Bases = kind.element.base
    else:
        columns = dict(zip(_names(array.type, kind), array.flatten(), strict=True))
        parts = [_parts(columns[name], field) for name, field in kind.fields]
        wrongs = np.logical_or.reduce([wrong for _, wrong in parts])
        rows = list(map(list, zip(*(values for values, _ in parts), strict=True)))
        bases = tuple(field.base for _, field in kind.fields)
    nulls = array.is_null().to_pylist()
    texts = [
        None if null or odd else packed(bases, row)
        for null, odd, row in zip(nulls, wrongs, rows, strict=True)
    ]
    return pa.array(texts, pa.string())


def _parts(array: pa.Array, kind: SqlType) -> tuple[list[Any], Any]:
    """The engine's values of elements or of a field, and which are misfits."""
    bare, is_none = SqlLogical(kind, nullable=True).bare(array)
    return bare.to_pylist(), to_numpy_mask(bare.is_null()) & ~is_none


def _unpacked(array: pa.Array, kind: SqlType, *, outside: bool) -> pa.Array:
    """The inverse of `_packed`."""
    texts = array.to_pylist()
    nulls = pa.array([text is None for text in texts], pa.bool_())
    if kind.element is not None:
        base = kind.element.base
        rows = [() if text is None else unpacked(base, text) for text in texts]
        ends = np.cumsum([0, *map(len, rows)])
        flat = pa.array([value for row in rows for value in row], ARROW_TYPES[base])
        inner = _opened(flat, kind.element, outside=outside)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, mask=nulls)
    bases = tuple(field.base for _, field in kind.fields)
    none = (None,) * len(bases)
    rows = [none if text is None else unpacked(bases, text) for text in texts]
    columns = list(zip(*rows, strict=True)) or [()] * len(bases)
    fields = [
        _opened(pa.array(column, ARROW_TYPES[field.base]), field, outside=outside)
        for (_, field), column in zip(kind.fields, columns, strict=True)
    ]
    named = [pa.field(name, one.type) for (name, _), one in zip(kind.fields, fields, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=named, mask=nulls)


def _of_json(array: pa.Array, kind: SqlType) -> pa.Array:
    """Texts as lists or structs of texts; null for what is no JSON of such a value."""
    distinct = array.dictionary_encode()
    parsed = []
    for text in distinct.dictionary.to_pylist():
        try:
            value = _JSON.decode(text) if text else None
            parsed.append(None if value is None else _leaves(value, kind))
        except (ValueError, RecursionError):
            parsed.append(None)
    return pa.array(parsed, _texts(kind)).take(distinct.indices)


def _texts(kind: SqlType) -> pa.DataType:
    if kind.element is not None:
        return pa.list_(_texts(kind.element))
    if kind.fields:
        return pa.struct([(name, _texts(field)) for name, field in kind.fields])
    return pa.string()


def _leaves(value: Any, kind: SqlType) -> Any:
    """A value of JSON with texts for what has no parts. Raises ValueError for another kind."""
    if value is None:
        return None
    if kind.element is not None and isinstance(value, list):
        return [_leaves(element, kind.element) for element in value]
    if kind.fields and isinstance(value, dict):
        names = [name for name, _ in kind.fields]
        given = dict(zip(as_columns(value, names), value.values(), strict=True))
        if given.keys() <= set(names):
            return {name: _leaves(given.get(name), field) for name, field in kind.fields}
    if isinstance(value, str) and encodable(value) and not kind.is_nested:
        return value
    if kind is BOOLEAN:
        fits = isinstance(value, bool)
    else:
        is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        fits = kind.is_numeric and is_number
    if not fits:
        raise ValueError(value)
    return str(value).lower()


def _settled(base: str, value: Any) -> Any:
    return value + 0.0 if base == "float" else value


def _closed(array: pa.Array, kind: SqlType) -> pa.Array:
    """Values of the logical type's Arrow type as the engine's. Raises ValueError for odd years."""
    if kind is DOUBLE:
        return settled_floats(array)
    return array.cast(pa.int64()) if kind.is_integer else closed(array, optional_of(kind))


def _opened(array: pa.Array, kind: SqlType, *, outside: bool = False) -> pa.Array:
    """Bare values of the engine as those of the logical type's Arrow type, or as they are sent."""
    if kind.is_nested:
        return _unpacked(array, kind, outside=outside)
    if kind is INTERVAL or (kind is TIME and outside):
        read, show = kind.read, cast(kind, TEXT)
        assert read is not None  # noqa: S101  neither is a value of the engine's
        assert show is not None  # noqa: S101  both have texts
        distinct = array.dictionary_encode()
        values = [read(code) for code in distinct.dictionary.to_pylist()]
        shown = (
            pa.array(map(show, values), pa.string())
            if outside
            else pa.array(values, arrow_type(kind))
        )
        return shown.take(distinct.indices)
    return array.cast(arrow_type(kind)) if kind.is_integer else opened(array, optional_of(kind))
