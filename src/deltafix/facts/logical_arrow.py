"""Columns of logical types as Arrow has them, and as the engine does.

Invariant: `closed` and `opened` are inverse on arrays of a type's values. Whole columns at a time;
only bytes, of which Arrow has no hexadecimal digits, and UUIDs that are not written as the engine
has them are looked at one by one. A UUID is a text in Arrow, as DuckDB gives it there: of the type
`pyarrow.uuid()` no column can be sorted, grouped or written as CSV, polars has bytes for it, and
pandas takes no lists of it (pyarrow 26).
"""

from __future__ import annotations

from binascii import hexlify, unhexlify
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.logical_types import LogicalType, write_day
from deltafix.facts.wide import as_text

_ARROW: Final = {
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "blob": pa.binary(),
    "uuid": pa.string(),
    "number": pa.int64(),
    "float": pa.float64(),
    "symbol": pa.string(),
}
_DAY: Final = 86_400_000_000
_FIRST, _LAST = (write_day(day) or 0 for day in (date.min, date.max))
"""The days that Python has, and so the engine's functions."""


def arrow_type(kind: LogicalType) -> pa.DataType:
    """Arrow's type for the values of a logical type."""
    return pa.decimal128(kind.digits, kind.scale) if kind.is_decimal else _ARROW[kind.inner]


def takes(kind: LogicalType, given: pa.DataType) -> bool:
    """Whether values of an Arrow type may be ones of a logical type, without being rounded."""
    wanted = arrow_type(kind)
    if given.equals(wanted) or pa.types.is_null(given):
        return True
    if kind.is_decimal:
        return bool(pa.types.is_decimal(given) or pa.types.is_integer(given))
    if kind.inner == "date":
        return bool(pa.types.is_date(given))
    if kind.inner == "time":
        return bool(pa.types.is_time(given))
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(given)) and (given.tz is None) is (wanted.tz is None)
    if kind.inner == "blob":
        return _is_bytes(given)
    if kind.inner == "symbol":
        return _is_text(given)
    if kind.inner == "uuid":
        return _is_text(given) or _is_bytes(given) or _is_uuid(given)
    if kind.inner == "float":
        return bool(pa.types.is_floating(given) or pa.types.is_integer(given))
    return kind.inner == "number" and bool(pa.types.is_integer(given))


def _is_text(given: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(given) or given == pa.string_view())


def _is_bytes(given: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(given)
        or pa.types.is_large_binary(given)
        or pa.types.is_binary_view(given)
        or pa.types.is_fixed_size_binary(given)
    )


def _is_uuid(given: pa.DataType) -> bool:
    """Whether it is `pyarrow.uuid()`, which pyarrow has from 18 on."""
    return isinstance(given, pa.BaseExtensionType) and given.extension_name == "arrow.uuid"


def converted(array: Any, kind: LogicalType) -> Any:
    """Values of a type that `takes` takes as ones of `arrow_type`. O(values).

    Raises ArrowException, or ValueError for what is no UUID.
    """
    if kind.inner != "uuid":
        return array.cast(arrow_type(kind))
    if _is_uuid(array.type):
        array = array.cast(array.type.storage_type)
    if _is_bytes(array.type):
        return _uuid_texts(_whole(array.cast(pa.binary(_BYTES))))
    texts = array.cast(pa.string())
    if pc.all(pc.match_substring_regex(texts, _CANONICAL)).as_py() is not False:
        return texts
    done = _each_value(texts, kind.write, pa.string())
    if done.null_count > texts.null_count:
        raise ValueError("a text that is no UUID")
    return done


def array_of(values: Iterable[Any], kind: LogicalType) -> pa.Array:
    """Python's values of a logical type, None where they are missing, as Arrow has them."""
    return pa.array(texts_for_uuids(values) if kind.inner == "uuid" else values, arrow_type(kind))


def values_of(values: list[Any], kind: LogicalType) -> list[Any]:
    """Python's values of a logical type for those that an array of them gives as its own."""
    return [value and UUID(value) for value in values] if kind.inner == "uuid" else values


def texts_for_uuids(values: Iterable[Any]) -> list[Any]:
    """Values with a text for each UUID, inside of lists and dicts too."""
    return [_text_for_uuid(value) for value in values]


def _text_for_uuid(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return dict(zip(value, map(_text_for_uuid, value.values()), strict=True))
    return texts_for_uuids(value) if isinstance(value, list) else value


def closed(array: Any, kind: LogicalType) -> Any:
    """Values of `arrow_type` as the engine has them, null where they are missing. O(values).

    Raises ValueError for years that Python has not, and for 24:00.
    """
    name = kind.inner
    if kind.is_decimal:
        return (_wide_texts if kind.is_wide else _unscaled)(_whole(array))
    if name == "blob":
        return _each_value(array, bytes.hex, pa.string())
    if name == "boolean":
        return array.cast(pa.int8()).cast(pa.int64())
    if name in ("number", "float", "symbol", "uuid"):
        return array
    done = (array.cast(pa.int32()) if name == "date" else array).cast(pa.int64())
    unit = 1 if name == "date" else _DAY
    extent = pc.min_max(done).as_py()
    low, high = (0, _DAY - 1) if name == "time" else (_FIRST * unit, (_LAST + 1) * unit - 1)
    if extent["min"] is not None and not low <= extent["min"] <= extent["max"] <= high:
        raise ValueError("24:00" if name == "time" else "a year that is not 1 to 9999")
    return done


def opened(array: Any, kind: LogicalType) -> Any:
    """The inverse of `closed`."""
    wanted = arrow_type(kind)
    if kind.inner == "blob":
        return _each_value(array, bytes.fromhex, wanted)
    if kind.is_decimal:
        return (_of_wide_texts if kind.is_wide else _scaled)(_whole(array), wanted)
    if kind.inner == "boolean":
        return pc.not_equal(array, 0)
    return (array.cast(pa.int32()) if kind.inner == "date" else array).cast(wanted)


def _each_value(array: Any, change: Callable[[Any], Any], wanted: pa.DataType) -> pa.Array:
    """Values one by one, for what Arrow has no kernel for; NULL stays."""
    return pa.array(
        [None if value is None else change(value) for value in array.to_pylist()], wanted
    )


def _unscaled(array: pa.Array) -> pa.Array:
    """Decimals of at most 18 digits as whole numbers: the lower of their two words."""
    words = np.frombuffer(array.buffers()[1] or b"", np.int64)
    low = words[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return pa.array(low.copy(), mask=_mask(array.is_null()))


def _scaled(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The inverse of `_unscaled`."""
    low = np.asarray(pc.fill_null(array, 0))
    words = np.stack([low, low >> 63], axis=1)
    valid = pa.array(~_mask(array.is_null()))
    buffers = [valid.buffers()[1], pa.py_buffer(np.ascontiguousarray(words))]
    return pa.Array.from_buffers(wanted, len(array), buffers)


def _wide_texts(array: pa.Array) -> pa.Array:
    """Decimals as the texts of `facts.wide`: their bytes, the first one first, the sign turned."""
    words = np.frombuffer(array.buffers()[1] or b"", np.uint8).reshape(-1, _BYTES)
    turned = words[array.offset : array.offset + len(array), ::-1] ^ _SIGN
    digits = pa.py_buffer(hexlify(turned.tobytes()))
    texts = pa.Array.from_buffers(pa.binary(2 * _BYTES), len(array), [None, digits])
    return _where_there(array, texts.cast(pa.string()))


def _of_wide_texts(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The inverse of `_wide_texts`."""
    texts = array.fill_null(as_text(0)).cast(pa.binary()).cast(pa.binary(2 * _BYTES))
    turned = np.frombuffer(unhexlify(texts.buffers()[1] or b""), np.uint8).reshape(-1, _BYTES)
    words = (turned[texts.offset : texts.offset + len(texts)] ^ _SIGN)[:, ::-1]
    buffers = [None, pa.py_buffer(words.tobytes())]
    return _where_there(array, pa.Array.from_buffers(wanted, len(array), buffers))


def _where_there(array: pa.Array, values: pa.Array) -> pa.Array:
    """Values, and NULL where an array has it."""
    return pc.if_else(array.is_valid(), values, pa.scalar(None, values.type))


def _uuid_texts(array: pa.Array) -> pa.Array:
    """UUIDs of 16 bytes as the texts that the engine has."""
    values = array.fill_null(b"\0" * _BYTES)
    whole = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(-1, _BYTES)
    digits = hexlify(whole[values.offset : values.offset + len(values)].tobytes())
    texts = np.full((len(values), _TEXT), ord("-"), np.uint8)
    texts[:, _PLACES] = np.frombuffer(digits, np.uint8).reshape(-1, 2 * _BYTES)
    buffers = [None, pa.py_buffer(texts.tobytes())]
    done = pa.Array.from_buffers(pa.binary(_TEXT), len(values), buffers)
    return _where_there(array, done.cast(pa.string()))


_BYTES: Final = 16
"""Of a decimal, and of a UUID."""
_TEXT: Final = 36
"""Characters of a UUID."""
_PLACES: Final = [place for place in range(_TEXT) if place not in (8, 13, 18, 23)]
"""Of its digits; hyphens are between."""
_CANONICAL: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_SIGN: Final = np.array([0x80] + [0] * (_BYTES - 1), np.uint8)


def _mask(array: Any) -> Any:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _whole(array: Any) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    whole = array.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    return whole
