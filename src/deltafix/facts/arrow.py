"""The columnar doors: Arrow and numpy in, Arrow out.

Invariant: a table that leaves here has the schema's columns in the schema's order, with the
types of `ARROW_TYPES` and no nulls. Importing this module imports pyarrow (about 0.3 s), which is
why `schema` and `delta` load it only when a table is asked for. Nothing here keeps rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.diagnostics import plural
from deltafix.errors import FactError, TypeMismatchError
from deltafix.facts.logical_arrow import (
    array_of,
    arrow_type,
    closed,
    converted,
    takes,
    values_of,
)
from deltafix.facts.logical_types import LogicalType, only_optional
from deltafix.facts.schema import (
    Column,
    Row,
    Schema,
)
from deltafix.facts.values import CONSTRUCTED, WORD, BaseType, canonical, write_value

ARROW_TYPES: Final[dict[BaseType, pa.DataType]] = {
    "number": pa.int64(),
    "unsigned": pa.uint64(),
    "float": pa.float64(),
    "symbol": pa.string(),
    **dict.fromkeys(CONSTRUCTED, pa.string()),
}
"""The Arrow type of each base type; a constructed value is its text, as in a fact file."""

VIEWS: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""The types whose buffers are as those of views, but in one piece."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a relation: one field per column, null where a value may be missing."""
    return pa.schema(
        [
            pa.field(
                column.name, column_type(column), nullable=column.of is not None and column.nullable
            )
            for column in schema.columns
        ]
    )


def column_type(column: Column) -> pa.DataType:
    """The Arrow type of a column's values."""
    return ARROW_TYPES[column.type] if column.of is None else arrow_type(column.of)


def is_tabular(rows: object) -> bool:
    """Whether `rows` is an Arrow table, or a frame that exports itself as one (polars, pandas)."""
    return isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__")


def table_from_rows(schema: Schema, rows: Sequence[Row]) -> pa.Table:
    """Rows already checked by `schema`, as a table. A nullary relation gives no columns."""
    columns: list[Any] = list(zip(*rows, strict=True)) or [() for _ in schema.columns]
    arrays = list(map(_array, schema.columns, columns))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def _array(column: Column, values: Sequence[Any]) -> pa.Array:
    """A column's values as Arrow has them."""
    if column.of is not None:
        return array_of(values, column.of)
    if column.type in CONSTRUCTED:
        values = list(map(write_value, values))
    return pa.array(values, ARROW_TYPES[column.type])


def rows_from_table(table: pa.Table, schema: Schema | None = None) -> list[Row]:
    """A checked table as tuples of Python values, in its order; `schema` tells of records.

    NaN is one object (`canonical`), so that equal rows are equal to Python. A table without columns
    cannot say how many rows it has: the caller keeps that count.
    """
    columns = [column.to_pylist() for column in table.columns]
    for index, field in enumerate(table.schema):
        if pa.types.is_floating(field.type) and pc.any(pc.is_nan(table.column(index))).as_py():
            columns[index] = list(map(canonical, columns[index]))
    for index, column in enumerate(schema.columns if schema is not None else ()):
        if column.shape is not None:
            columns[index] = list(map(column.shape.read, columns[index]))
        elif column.of is not None:
            columns[index] = values_of(columns[index], column.of)
    return list(zip(*columns, strict=True))


def to_numpy(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, np.dtype[Any]]:
    """A numeric column without nulls as a read-only array; copies only to join chunks.

    Not `column.to_numpy()`, which imports pandas where it is installed: 0.5 s of a cold
    `deltafix run` (tests/unit/cli/test_start_up.py).
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.from_dlpack(whole)


def settled_columns(table: pa.Table) -> pa.Table:
    """The table with its floats as relations hold them: one zero, one NaN. O(rows)."""
    for index, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            table = table.set_column(index, field, settled_floats(table.column(index)))
    return table


def settled_floats(column: Any) -> Any:
    """An array, or chunks, of floats as relations hold them: one zero, one NaN. O(rows)."""
    kind = column.type
    clean = pc.if_else(pc.is_nan(column), pa.scalar(nan, kind), pc.add(column, 0.0))
    return clean.cast(kind)


def check_table(schema: Schema, rows: Any, *, encoded: bool = False) -> pa.Table:
    """Check a table at the door. O(cells), without a Python object per cell when all is well.

    Columns are taken by name when the table has the schema's names in any order, by position
    when it has none of them; a mixture is refused, since either reading could be meant.

    Args:
        schema: the relation's schema.
        rows: `pyarrow.Table`, `RecordBatch`, or anything with `__arrow_c_stream__`.
        encoded: leave symbols that come dictionary-encoded as they are, and records of one field
            that come as structs.

    Returns:
        A table with exactly `arrow_schema(schema)`, but for what is left encoded.

    Raises:
        FactError: wrong number of columns, ambiguous names, or a null.
        TypeMismatchError: a column of another kind, or a value outside the type's range.
    """
    table = to_table(rows)
    if table.num_columns != schema.arity:
        message = (
            f"{schema.relation}: the table has {plural(table.num_columns, 'column')} "
            f"{table.column_names}, but {schema.show()} has {schema.arity}"
        )
        raise FactError(message, relation=schema.relation, value=table.column_names)
    arrays = [
        _cast(schema, position, array, encoded=encoded)
        for position, array in enumerate(_ordered(schema, table))
    ]
    fields = [
        pa.field(column.name, array.type, nullable=column.of is not None and column.nullable)
        for column, array in zip(schema.columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def check_array(schema: Schema, rows: np.ndarray[Any, np.dtype[Any]]) -> pa.Table:
    """Check a numpy array of shape (n, arity), integer or float, at the door.

    Raises:
        FactError: another shape than (n, arity).
        TypeMismatchError: a dtype or value that does not fit a column.
    """
    if rows.ndim != 2 or rows.shape[1] != schema.arity:
        message = (
            f"{schema.relation}: the array has shape {rows.shape}, but {schema.show()} takes "
            f"(n, {schema.arity})"
        )
        raise FactError(message, relation=schema.relation, value=rows.shape)
    if rows.dtype.kind not in "iuf":
        message = (
            f"{schema.relation}: the array has dtype {rows.dtype}, but rows come as integers or "
            "floats; give symbols as tuples or as an Arrow table"
        )
        raise TypeMismatchError(message, relation=schema.relation, value=str(rows.dtype))
    columns = [pa.array(np.ascontiguousarray(rows[:, i])) for i in range(schema.arity)]
    return check_table(schema, pa.Table.from_arrays(columns, names=list(schema.names)))


def to_table(rows: Any) -> pa.Table:
    """What `is_tabular` as a table, of types that Arrow can take from and convert."""
    if isinstance(rows, pa.Table):
        return _of_views(rows)
    if isinstance(rows, pa.RecordBatch):
        return _of_views(pa.Table.from_batches([rows]))
    if type(rows).__module__.startswith("pandas."):
        return _of_pandas(rows)
    return _of_views(pa.table(rows))


def _of_views(table: pa.Table) -> pa.Table:
    """A table whose dictionaries hold no views, as polars gives them: Arrow takes from none."""
    for index, field in enumerate(table.schema):
        kind = field.type
        if pa.types.is_dictionary(kind) and kind.value_type in VIEWS:
            wanted = pa.dictionary(kind.index_type, VIEWS[kind.value_type], kind.ordered)
            table = table.set_column(index, field.name, table.column(index).cast(wanted))
    return table


def _of_pandas(frame: Any) -> pa.Table:
    """A frame of pandas, whose own way to Arrow turns NaN into nulls; its index is left out."""
    columns = {
        str(name): pa.array(
            column.to_numpy() if isinstance(column.dtype, np.dtype) else column,
            from_pandas=not (isinstance(column.dtype, np.dtype) and column.dtype.kind == "f"),
        )
        for name, column in frame.items()
    }
    return pa.table(columns)


def _ordered(schema: Schema, table: pa.Table) -> list[pa.ChunkedArray]:
    names = table.column_names
    if sorted(names) == sorted(schema.names):
        return [table.column(name) for name in schema.names]
    shared = sorted(set(names) & set(schema.names))
    if shared:
        message = (
            f"{schema.relation}: the table's columns {names} share only {shared} with "
            f"{schema.show()}; name all of them, or none to go by position"
        )
        raise FactError(message, relation=schema.relation, value=names)
    return list(table.columns)


def _cast(
    schema: Schema, position: int, array: pa.ChunkedArray, *, encoded: bool
) -> pa.ChunkedArray:
    column = schema.columns[position]
    given = array.type
    if column.of is not None:
        return _as_logical(schema, column, array, column.of)
    if pa.types.is_dictionary(given) and not (
        encoded
        and column.type == "symbol"
        and _fits(given.value_type, "symbol")
        and not any(chunk.dictionary.null_count for chunk in array.chunks)
    ):
        array = array.cast(given.value_type)  # nulls may stand in the dictionary
    if encoded and _is_record(column, array.type):
        return array
    if array.null_count:
        raise _null(schema, column, array)
    wanted = ARROW_TYPES[column.type]
    if column.type == "symbol":
        _check_texts(schema, column, array)
    if pa.types.is_dictionary(array.type):
        return array
    if array.type.equals(wanted) or _fits(array.type, column.type):
        try:
            done = array if array.type.equals(wanted) else array.cast(wanted)
        except pa.ArrowInvalid:
            done = None
        if done is not None and in_range(column, done):
            return done
        # Out of range: the value-by-value check names the row.
        for row, value in enumerate(array.to_pylist()):
            schema.check_value(column, row, value)
    message = (
        f"{schema.relation}: column {column.name!r} is of Arrow type {given}, which does "
        f"not fit {column.type}; it should be {wanted}"
    )
    raise TypeMismatchError(message, relation=schema.relation, column=column.name, value=str(given))


def _as_logical(
    schema: Schema, column: Column, array: pa.ChunkedArray, kind: LogicalType
) -> pa.ChunkedArray:
    """A column's values as its logical type has them. Raises TypeMismatchError, FactError."""
    given, wanted = array.type, arrow_type(kind)
    if pa.types.is_dictionary(given):
        array = array.cast(given.value_type)
    if array.null_count and not kind.nullable:
        raise _null(schema, column, array)
    if not takes(kind, array.type):
        message = (
            f"{schema.relation}: column {column.name!r} is of Arrow type {given}, which does "
            f"not fit {kind.name}; it should be {wanted}"
        )
        raise TypeMismatchError(
            message, relation=schema.relation, column=column.name, value=str(given)
        )
    if kind.inner == "symbol":
        _check_texts(schema, column, array)
    try:
        done = converted(array, kind)
        closed(done, kind)
    except (pa.ArrowException, ValueError):
        for row, value in enumerate(array):
            try:
                given_value = value.as_py()
            except (ValueError, OverflowError):  # Arrow has days and moments that Python has not
                given_value = str(value.cast(pa.string()))
            schema.check_value(column, row, given_value)
        raise
    return settled_floats(done) if kind.inner == "float" else done


def _null(schema: Schema, column: Column, array: pa.ChunkedArray) -> FactError:
    row = array.is_null().index(True).as_py()
    name = column.type if column.of is None else column.of.name
    message = (
        f"{schema.relation}: column {column.name!r} of row {row} is null, but relations hold "
        f"values only; drop the row or give a value{only_optional(name)}"
    )
    return FactError(message, relation=schema.relation, column=column.name, row=row)


def _check_texts(schema: Schema, column: Column, array: pa.ChunkedArray) -> None:
    """Raise TypeMismatchError for bytes that are no UTF-8, which nobody could read again."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        message = f"{schema.relation}: column {column.name!r} is no valid column of texts: {error}"
        raise TypeMismatchError(message, relation=schema.relation, column=column.name) from None


def _is_record(column: Column, kind: pa.DataType) -> bool:
    """Whether a type is that of structs, null for nil, for a column's records of one field."""
    only = None if column.shape is None else column.shape.only
    if only is None or not pa.types.is_struct(kind) or kind.num_fields != 1:
        return False
    return bool(kind.field(0).type.equals(ARROW_TYPES[only]))


def in_range(column: Column, array: pa.ChunkedArray) -> bool:
    """Whether the integers of a column's Arrow type are those of its word size. O(cells)."""
    if column.bits == WORD or column.range is None:
        return True
    extremes = pc.min_max(array)
    low, high = column.range
    return bool(
        not extremes["min"].is_valid
        or low <= extremes["min"].as_py() <= extremes["max"].as_py() <= high
    )


def _fits(kind: pa.DataType, base: BaseType) -> bool:
    if base == "symbol" or base in CONSTRUCTED:
        return bool(
            pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
        )
    if base == "float":
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
    return bool(pa.types.is_integer(kind))
