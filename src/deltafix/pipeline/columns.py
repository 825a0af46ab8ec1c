"""From the columns a source gives to those a relation declares, row by row where that is needed.

A whole column is cast at once; only where that fails are its values looked at, and those that do
not fit become `Bad` rows with a reason while the others stay. Invariant: a source whose columns
are not the relation's is refused by name (`DriftError`) before any row is taken, because rows read
under another meaning are worse than none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import DriftError, TypeMismatchError
from deltafix.facts.arrow import ARROW_TYPES, to_numpy
from deltafix.facts.groups import dictionary_of
from deltafix.facts.logical import as_columns
from deltafix.facts.schema import Column, Schema
from deltafix.facts.values import OPTIONAL, read_real, read_whole
from deltafix.pipeline.keyed import NO_KEY, Keying, blank
from deltafix.pipeline.signed import Bad, Signed, Span, signed_table

_PLUS = ("+", "+1", "1", "insert", "update_postimage", "true")
_MINUS = ("-", "-1", "delete", "update_preimage", "false")
_DECIMAL = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def named(
    schema: Schema, source_columns: Iterable[str], columns: Sequence[str] | None
) -> list[str]:
    """What a source with `source_columns` calls those of the relation, in the relation's order.

    These are `columns`, where they are said. Else they are the relation's names; those of tables of
    SQL are compared as SQL compares names, so a source may write them with other capitals.
    """
    if columns or all(column.logical is None for column in schema.columns):
        return list(columns or schema.names)
    names = list(source_columns)
    spelled = as_columns(names, schema.names)
    theirs = dict(zip(spelled, names, strict=True)) if len({*spelled}) == len(names) else {}
    return [theirs.get(name, name) for name in schema.names]


def choose(
    schema: Schema,
    source_columns: Sequence[str],
    columns: Sequence[str] | None,
    beside: Sequence[str],
    origin: str,
    *,
    merges: bool = True,
    way_out: str = "",
) -> list[str]:
    """The source's columns for the relation's, in the relation's order.

    Args:
        schema: the relation.
        source_columns: those that the source has.
        columns: the source's names for the relation's columns, if they are not the same.
        beside: columns that must be there too: the sign, the version.
        origin: what errors call the source.
        merges: whether rows may become one that differ only in other columns.
        way_out: what else there is to do about other columns.

    Raises DriftError. With `columns`, others of the source are left alone, unless that merges rows;
    without, they are drift as much as missing ones.
    """
    names = named(schema, source_columns, columns)
    missing = [name for name in [*names, *beside] if name not in source_columns]
    extra = [name for name in source_columns if name not in {*names, *beside}]
    if extra and columns and not missing and not merges:
        message = (
            f"{origin} has {', '.join(map(repr, extra))} beside the columns that are named: "
            "without them two of its rows may be one here, and the first that is taken out takes "
            'it away; say duplicates = "count", to keep how often a row is there, or duplicates = '
            '"ignore", if the columns that are named tell its rows apart'
        )
        raise DriftError(message, origin=origin, missing=[], extra=extra)
    extra = [] if columns else extra
    if not missing and not extra:
        return names
    parts = []
    if missing:
        parts.append(f"lacks {', '.join(map(repr, missing))}")
    if extra:
        parts.append(f"has {', '.join(map(repr, extra))} beside what is wanted")
        if not missing and all(map(_PANDAS_INDEX.fullmatch, extra)):
            way_out = "an index of pandas is left out by to_parquet(..., index=False)"
    message = (
        f"{origin} {' and '.join(parts)}: its columns are {', '.join(map(repr, source_columns))}, "
        f"wanted are {', '.join(map(repr, [*names, *beside]))} for {schema.show()}; correct the "
        "source, or name its columns with columns = [...]" + (f"; {way_out}" if way_out else "")
    )
    raise DriftError(message, origin=origin, missing=missing, extra=extra)


def fit(
    schema: Schema,
    table: pa.Table,
    names: Sequence[str],
    origin: str,
    *,
    sign: str | int,
    keying: Keying = NO_KEY,
    messages: Sequence[int] = (),
    before: int = 0,
) -> Signed:
    """Rows of a source as signed rows of a relation; those that do not fit are set aside.

    `sign` is a column, or the sign of all rows. `messages` tells for each row which message it came
    with, ascending from 0: the rows of a message are taken or set aside together. `before` says how
    many rows (or messages) of the source came before these. Of a delete by key, only the columns
    of the key count, and its sequence. Raises DriftError for a column of a
    type that no value of the relation's fits.
    """
    reasons: dict[int, str] = {}
    signs: Any = sign
    odd_signs: dict[int, str] = {}
    if isinstance(sign, str):
        signs, odd_signs = _signs(table.column(sign), sign)
    deletes = _deletes(signs, table.num_rows) if keying.key else None
    arrays = []
    for name, column in zip(names, schema.columns, strict=True):
        array, odd = _cast(table.column(name), column, origin, name)
        if deletes is not None and column.name not in keying.key:
            odd = {index: reason for index, reason in odd.items() if not deletes[index]}
            array = _emptied(array, column, deletes)
        arrays.append(array)
        reasons = {**odd, **reasons}
    reasons = {**odd_signs, **reasons}
    versions = []
    for name in keying.sequence:
        array, odd = _cast(_ticks(table.column(name)), Column(name, "number"), origin, name)
        versions.append(array)
        reasons = {**odd, **reasons}
    rows = pa.table(dict(zip(schema.names, arrays, strict=True)))
    bad = []
    unit: Any = np.array(messages) if len(messages) else np.arange(table.num_rows)
    named = "message" if len(messages) else "row"
    numbers: Any = before + unit + 1
    if reasons:
        wrong = np.array(sorted(reasons))
        if len(messages):
            wrong = wrong[np.unique(unit[wrong], return_index=True)[1]]  # one of each message
        for index, row in zip(wrong, table.take(pa.array(wrong)).to_pylist(), strict=True):
            bad.append(Bad(reasons[index], f"{origin}, {named} {before + unit[index] + 1}", row))
        good = np.flatnonzero(~np.isin(unit, unit[wrong]))
        numbers, good = numbers[good], pa.array(good)
        rows = rows.take(good)
        signs = signs if isinstance(signs, int) else signs.take(good)
        versions = [array.take(good) for array in versions]
    signed = signed_table(schema, rows, signs)
    for name, array in zip(keying.versions, versions, strict=True):
        signed = signed.append_column(name, array)
    return Signed(schema, signed, bad, (Span(origin, numbers, named),))


_PLAIN_KINDS: dict[str, tuple[type, ...]] = {
    "number": (int,),
    "unsigned": (int,),
    "float": (int, float),
}
"""By type, what JSON has for its values beside text."""


def judged(
    schema: Schema, columns: Sequence[str] | None, row: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str]:
    """A row of JSON as a table can have it beside others, and why it cannot be one; "" if it may.

    Judged by the kinds of its values, so that each row is by itself: as a column of a table, its
    values would be of the kind of all those beside them. What `fit` judges by its value (text for
    numbers, NULL) passes. Arrays and structs become texts of JSON.
    """
    row = spelled(schema, columns, row)
    converted = dict(row)
    for name, column in zip(columns or schema.names, schema.columns, strict=True):
        value = row.get(name)
        if value is None or isinstance(value, str):
            continue
        logical = column.logical
        if logical is None:
            takes = _PLAIN_KINDS.get(column.type, ())
            is_one = isinstance(value, takes) and not isinstance(value, bool)
        elif isinstance(value, list | dict):
            nested = pa.types.is_list if isinstance(value, list) else pa.types.is_struct
            is_one = nested(logical.arrow)
            converted[name] = json.dumps(value, ensure_ascii=False)
        else:
            is_one = logical.takes(_JSON_KINDS[type(value)])
        if is_one and isinstance(value, int) and OPTIONAL.get(column.type, column.type) == "float":
            converted[name] = str(
                value
            )  # text says which double is nearest, as where there is a point
        if not is_one:
            return row, f"{name} = {value!r} is no {logical or column.type}"
    return converted, ""


_JSON_KINDS: Final = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def spelled(schema: Schema, wanted: Sequence[str] | None, row: Any) -> Any:
    """A row of JSON by the names that it is looked at by, where it has them (`named`)."""
    if wanted or not isinstance(row, Mapping) or row.keys() >= {*schema.names}:
        return row
    own = dict(zip(named(schema, row, None), schema.names, strict=True))
    return {own.get(name, name): value for name, value in row.items()}


def with_deletes(
    schema: Schema, table: pa.Table, names: Sequence[str] | None, sign: str, keying: Keying
) -> pa.Table:
    """The table with columns for what a delete by key need not say, where all rows are deletes."""
    if not keying.key or sign not in table.column_names:
        return table
    if not bool(np.all(_deletes(_signs(table.column(sign), sign)[0], table.num_rows))):
        return table
    for name, column in zip(named(schema, table.column_names, names), schema.columns, strict=True):
        if column.name not in keying.key and name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
    return table


def _deletes(signs: Any, many: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows are deletes."""
    return np.full(many, signs < 0) if isinstance(signs, int) else to_numpy(signs) < 0


def _emptied(array: Any, column: Column, deletes: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """A column with nothing in it where a row is a delete."""
    if not deletes.any():
        return array
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    done = pc.if_else(pa.array(deletes), blank(column), array)
    whole = column.type == "symbol" and not done.null_count
    return dictionary_of(done) if whole else done


def _ticks(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds since 1970; those that are none of these stay as they are."""
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        return array
    try:
        return array.cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:
        return array.cast(pa.string())


def _cast(
    array: pa.ChunkedArray, column: Column, origin: str, name: str
) -> tuple[pa.ChunkedArray | pa.Array, dict[int, str]]:
    """A column with the relation's type, nulls where a value does not fit, and why."""
    wanted = ARROW_TYPES[column.type]
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if column.logical is not None:
        if not column.logical.takes(kind):
            message = (
                f"{origin}: column {name!r} is of type {array.type}, but {column.name!r} is "
                f"{column.logical}"
            )
            raise DriftError(message, origin=origin, column=name, value=str(array.type))
        return _reasoned(column.logical.encode(array), array, column, name)
    text = kind in _TEXTS
    number = pa.types.is_integer(kind) or (column.type == "float" and pa.types.is_floating(kind))
    if not text and (column.type == "symbol" or not number):
        message = (
            f"{origin}: column {name!r} is of type {array.type}, but {column.name!r} is a "
            f"{column.type}"
        )
        raise DriftError(message, origin=origin, column=name, value=str(array.type))
    try:
        if text and column.type != "symbol" and not _is_plain(array):
            raise pa.ArrowInvalid("each by itself")
        done = array.cast(wanted)
    except pa.ArrowInvalid:
        values = [_value(value, column) for value in array.to_pylist()]
        done = pa.chunked_array([pa.array(values, wanted)])
    return _reasoned(done, array, column, name)


def _reasoned(
    done: Any, array: pa.ChunkedArray, column: Column, name: str
) -> tuple[pa.ChunkedArray | pa.Array, dict[int, str]]:
    """A column that was cast, and for each of its nulls what was wrong with the value given."""
    if not done.null_count:
        return (dictionary_of(done), {}) if column.type == "symbol" else (done, {})
    kind = column.logical or column.type
    indices = pc.indices_nonzero(done.is_null()).to_pylist()
    values = array.take(pa.array(indices, pa.int64())).to_pylist()
    missing = (None,) if column.logical is None or column.type == "symbol" else (None, "")
    like = "" if column.logical is None else column.logical.like
    return done, {
        index: f"{name} is missing"
        if value in missing
        else f"{name} = {value!r} is no {kind}"
        + f", which is written like {like}" * bool(like and isinstance(value, str))
        for index, value in zip(indices, values, strict=True)
    }


def _is_plain(texts: pa.ChunkedArray) -> bool:
    """Whether texts are decimal numbers: of others Arrow reads some that no fact file has."""
    matches = pc.match_substring_regex(texts.cast(pa.string()), _DECIMAL)
    return pc.all(matches).as_py() is not False


def _value(value: Any, column: Column) -> Any:
    """The value as its column takes it, or None."""
    if isinstance(value, str) and column.type != "symbol":
        value = read_real(value) if column.type == "float" else read_whole(value)
    try:
        return None if value is None else Schema("", (column,)).check_value(column, 0, value)
    except TypeMismatchError:
        return None


def _signs(array: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, dict[int, str]]:
    if pa.types.is_integer(array.type) and not array.null_count:
        limits = pc.min_max(array)
        if limits["min"].as_py() in (1, -1, None) and limits["max"].as_py() in (1, -1, None):
            odd = pc.equal(array, 0)
            if not pc.any(odd).as_py():
                return array.cast(pa.int8()), {}
    if pa.types.is_boolean(array.type) or not pa.types.is_string(array.type):
        array = array.cast(pa.string())
    plus = pc.is_in(array, pa.array(_PLUS))
    minus = pc.is_in(array, pa.array(_MINUS))
    signs = pc.if_else(plus, pa.scalar(1, pa.int8()), pa.scalar(-1, pa.int8()))
    odd = pc.invert(pc.or_(plus, minus))
    if not pc.any(odd).as_py():
        return signs, {}
    indices = pc.indices_nonzero(odd).to_pylist()
    values = array.take(pa.array(indices, pa.int64())).to_pylist()
    valid = "+ or -, 1 or -1, insert or delete"
    return signs, {
        index: f"{name} = {value!r} is no sign; it takes {valid}"
        for index, value in zip(indices, values, strict=True)
    }
