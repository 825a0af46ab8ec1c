"""Tables from files, and views to files: Parquet and CSV by Arrow.

Invariant: a value of a file is one of its column's type, or the file is refused, with the line, the
column and the value; NULL is an empty field of CSV, empty text is written `""`, an array is JSON, a
BLOB hexadecimal digits, a UUID in whichever form. Nothing is rounded. Arrow reads; what it refuses
is read again here, line by line, to say where and what.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyarrow import compute, csv, parquet

from deltafix.diagnostics import separator_in
from deltafix.errors import SourceError, SqlError, SqlIntegrityError
from deltafix.facts.codec import quoted_lines, utf8
from deltafix.facts.logical import as_columns, as_json
from deltafix.facts.sink import whole_file
from deltafix.facts.values import plain_text, shown
from deltafix.sql.casts import cast, written_so
from deltafix.sql.cursor import arrow_type
from deltafix.sql.intervals import given
from deltafix.sql.logical import SqlLogical, python_value
from deltafix.sql.types import BLOB, INTERVAL, TEXT, TIME, UUID, Column, SqlType, row_as_sql

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = [
    "Nulls",
    "csv_of",
    "lacks_file",
    "read_table",
    "replace_from",
    "size_of",
    "table_file",
    "take_in",
    "write_view",
]


def table_file(folder: Path, name: str) -> Path | None:
    """The file of a table in a folder, if there is one, or the folder of its part files.

    Raises SourceError where there are two.
    """
    paths = [path for kind in _KINDS if (path := folder / f"{name}.{kind}").is_file()]
    if _parts(folder / name):
        paths.append(folder / name)
    if len(paths) > 1:
        shown = " and ".join(path.name for path in paths)
        message = f"{folder} has {shown}, and a table has one file; take one of them away"
        raise SourceError(message, value=name)
    return paths[0] if paths else None


def lacks_file(folder: Path, name: str) -> str:
    """That a table has no file in a folder."""
    said = f"no {name}.parquet and no {name}.csv in {folder}"
    if (folder / name).is_dir():
        said += f"; {folder / name} is a folder without a part file of either kind"
    return said


def size_of(path: Path) -> int:
    """The bytes of a table's file, or of its part files."""
    return sum(part.stat().st_size for part in _parts(path) or [path])


def _parts(folder: Path) -> list[Path]:
    """The files that hold a table's rows together, as Spark and others write them; in order.

    Those whose names begin with `_` or a dot are none, as everywhere.
    """
    if not folder.is_dir():
        return []
    files = sorted(file for file in folder.iterdir() if file.name[0] not in "_.")
    return [file for file in files if file.is_file() and file.suffix[1:] in _KINDS]


def _read_parts(
    folder: Path, columns: Sequence[Column], delimiter: str, nulls: Nulls
) -> tuple[pa.Table, list[str]]:
    """See `read_table`. Raises SourceError for a folder that is not whole, or has others in it."""
    busy = folder / "_temporary"
    if busy.exists():
        message = f"{folder} is being written: there is {busy}; wait until it is gone"
        raise SourceError(message, value=str(folder))
    inner = next(
        (f for f in sorted(folder.iterdir()) if f.is_dir() and f.name[0] not in "_."), None
    )
    if inner is not None:
        message = f"{folder} has a folder in it, {inner.name}: part files lie side by side"
        if "=" in inner.name:
            message += "; write it without partitionBy, or name its columns in a pipeline"
        raise SourceError(message, value=str(folder))
    read = [read_table(part, columns, delimiter, nulls) for part in _parts(folder)]
    others = dict.fromkeys(name for _, names in read for name in names)
    return pa.concat_tables([rows for rows, _ in read]), [*others]


_KINDS = ("parquet", "csv")
_MOST_SHOWN = 200
"""Characters of a row in an error."""


Nulls = Literal["bare", "empty", "null"]
"""Fields of CSV that are NULL: an empty one without quotes; also one in quotes (as DuckDB reads
files); or also `null`, whatever capitals and blanks it has, and blanks alone (as agate does)."""


def read_table(
    path: Path, columns: Sequence[Column], delimiter: str = ",", nulls: Nulls = "bare"
) -> tuple[pa.Table, list[str]]:
    """The rows of a file, its columns by name; and which of its columns the table has not.

    Of a folder, those of its part files, one after another.

    Raises SourceError, or FactError for what is no CSV: the file cannot be read, lacks a column, or
    has a value that its column does not hold.
    """
    if path.is_dir():
        return _read_parts(path, columns, delimiter, nulls)
    names = [column.name for column in columns]
    try:
        is_parquet = path.suffix == ".parquet"
        if is_parquet:
            table = parquet.read_table(path)
            table = table.rename_columns(as_columns(table.column_names, names))
        else:
            table = _read_csv(path, columns, delimiter, nulls)
        missing = [name for name in names if name not in table.column_names]
        if missing:
            present = ", ".join(table.column_names)
            message = f"{path} has no column {missing[0]!r}; it has {present}"
            near = next((name for name in table.column_names if name.strip() == missing[0]), None)
            if near is not None:
                message += f": the name {near!r} has blanks around it; write the header without"
            separator = separator_in(table.column_names, delimiter)
            if separator is not None:
                seen = json.dumps(separator)
                message += f": there is {seen} between names; write the file with commas"
            raise SourceError(message, value=str(path))
        for name in names:
            if table.column_names.count(name) > 1:
                raise SourceError(f"{path} has two columns {name!r}", value=str(path))
        others = [name for name in table.column_names if name not in names]
        table = table.select(names)
        if is_parquet:
            table = _converted(path, table, columns)
        for column in columns:
            values = table.column(column.name)
            if values.null_count and not column.nullable:
                row = values.is_null().index(True).as_py()
                message = (
                    f"{_location(path, row, delimiter)}: no value for {column.name!r}, which is "
                    "NOT NULL"
                )
                raise SourceError(message, path=str(path), line=_line(path, row, delimiter))
        return table, others
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"cannot read {path}: {error}", value=str(path)) from None


def take_in(connection: Connection, name: str, path: Path) -> list[str]:
    """Insert the rows of a table's file; which of its columns the table has not.

    Raises SourceError: what `read_table` refuses, or a row that breaks a constraint, by its line.
    """
    columns = connection.catalog.tables[name].relation.columns
    rows, others = read_table(path, columns)
    try:
        connection.insert(name, rows, [column.name for column in columns])
    except SqlError as error:
        raise placed(error, path, rows) from None
    return others


def replace_from(connection: Connection, files: Mapping[str, tuple[Path, pa.Table]]) -> int:
    """Make the rows of files, by table, all of the rows of these; how many differ.

    Raises SqlError, and SourceError for a row that breaks a constraint, by its line.
    """
    try:
        return connection.replace_all({name: rows for name, (_, rows) in files.items()})
    except SqlIntegrityError as error:
        if error.table not in files:
            raise
        raise placed(error, *files[error.table]) from None


def placed(error: SqlError, path: Path, rows: pa.Table) -> SourceError:
    """What SQL says of rows of a file, by the line of the one that breaks a constraint."""
    reason = error.diagnostics[0].message
    row_indexes = error.rows if isinstance(error, SqlIntegrityError) else ()
    if not row_indexes:
        return SourceError(f"{path}: {reason}", value=str(path))
    if (row := _row(rows, row_indexes[0])) not in reason:
        reason = f"{reason}; the row is {row}"
    if len(row_indexes) > 1:
        other = _location(*_within(path, row_indexes[1]))
        reason = f"{reason}, and {other} has {_row(rows, row_indexes[1])}"
    part, index = _within(path, row_indexes[0])
    message = f"{_location(part, index)}: {reason}"
    return SourceError(message, path=str(part), line=_line(part, index))


def _within(path: Path, row: int) -> tuple[Path, int]:
    """The part file that a row of a folder lies in, and which of its rows it is."""
    for part in _parts(path):
        if part.suffix == ".parquet":
            size = parquet.read_metadata(part).num_rows
        else:
            size = sum(1 for _ in _records(part, utf8(part.read_bytes(), str(part)), ",")) - 1
        if row < size:
            return part, row
        row -= size
    return path, row


def _row(rows: pa.Table, index: int) -> str:
    text = row_as_sql(column[index].as_py() for column in rows.columns)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _read_csv(path: Path, columns: Sequence[Column], delimiter: str, nulls: Nulls) -> pa.Table:
    """A CSV file, the columns named as their types. Raises SourceError, ArrowException, OSError."""
    data = path.read_bytes()
    if data.count(b'"') % 2:  # Arrow takes a quote that nothing closes to end with the file
        _refuse_lines(path, data, columns, delimiter)
    try:
        kinds = {column.name: arrow_type(column.type) for column in columns}
        as_text = {name for name, kind in kinds.items() if _is_text(kind)}
        types = {**kinds, **dict.fromkeys(as_text, pa.string())}
        table = _parsed(data, types, delimiter, nulls)
        for name, kind in kinds.items():
            if name in table.column_names and pa.types.is_decimal(kind):
                _bounded(table.column(name))
        read = (column for column in columns if column.type.is_time or column.type is UUID)
        odd = [*read, *(column for column in columns if column.name in as_text)]
    except (pa.ArrowInvalid, UnicodeDecodeError):  # Arrow takes any bytes for names
        _refuse_lines(path, data, columns, delimiter)
        as_texts = dict.fromkeys((column.name for column in columns), pa.string())
        table, odd = _parsed(data, as_texts, delimiter, nulls), [*columns]
    odd = [column for column in odd if table.column_names.count(column.name) == 1]
    _refuse_value(path, table, odd, _exact, delimiter)
    for column in odd:
        position = table.column_names.index(column.name)
        table = table.set_column(position, column.name, _exact(table.column(position), column))
    return table


def _parsed(data: bytes, types: dict[str, Any], delimiter: str, nulls: Nulls) -> pa.Table:
    """The values of a CSV text, its columns named as `types` names them, where it has them."""
    # A header without a line end is no table for Arrow.
    source = pa.py_buffer(data if b"\n" in data else data + b"\n")
    # Without this, a line break within quotes is refused, from the second block of a file on.
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    header = csv.open_csv(pa.BufferReader(source), parse_options=parsing).schema.names
    names = as_columns(header, types)
    converting = csv.ConvertOptions(
        column_types={
            old: types[new] for old, new in zip(header, names, strict=True) if new in types
        },
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=nulls != "bare",
    )
    table = csv.read_csv(pa.BufferReader(source), parse_options=parsing, convert_options=converting)
    if nulls == "null":
        columns = [
            _with_nulls(column) if column.type == pa.string() else column
            for column in table.columns
        ]
        table = pa.table(columns, names=names)
    return table.rename_columns(names)


def _with_nulls(texts: Any) -> Any:
    """Texts, NULL where one is blank or says `null`."""
    bare = compute.utf8_lower(compute.utf8_trim_whitespace(texts))
    is_blank = compute.is_in(bare, pa.array(["", "null"]))
    return compute.if_else(is_blank, pa.scalar(None, pa.string()), texts)


def _refuse_lines(path: Path, data: bytes, columns: Sequence[Column], delimiter: str) -> None:
    """Raise SourceError at the first line with another number of values than the header, if one is.

    Raises FactError for bytes or quotes that are no CSV.
    """
    text = utf8(data, str(path))
    records = _records(path, text, delimiter)
    first = next(records, None)
    if first is None:
        names = delimiter.join(column.name for column in columns)
        message = f"{path} is empty; its first line is to name the columns: {names}"
        raise SourceError(message, value=str(path))
    _, header = first
    for line, cells in records:
        if len(cells) != len(header):
            wanted = "1 value" if len(header) == 1 else f"{len(header)} values"
            (begins,) = islice(StringIO(text, newline=""), line - 1, line)
            message = (
                f"{path}:{line}: expected {wanted} ({', '.join(header)}), as the first line has, "
                f"found {len(cells)}: {shown(begins.rstrip())}"
            )
            raise SourceError(message, path=str(path), line=line)


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV text, each with the line it begins in; empty lines are none."""
    return ((line, cells) for line, cells in quoted_lines(text, delimiter, str(path)) if cells)


def _converted(path: Path, table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The columns of a Parquet file as those of a table. Raises SourceError, ArrowException."""
    try:
        arrays = [_held(table.column(column.name), column) for column in columns]
    except pa.ArrowException:
        _refuse_value(path, table, columns, _held)
        raise
    return pa.table(arrays, names=table.column_names)


def _refuse_value(
    path: Path,
    table: pa.Table,
    columns: Sequence[Column],
    convert: Callable[[Any, Column], Any],
    delimiter: str = ",",
) -> None:
    """Raise SourceError at the first value of a file that its column does not hold, if one is.

    The row is looked for by halves. O(n log n), on errors alone.

    Args:
        path: the file, of which the error tells.
        table: its values, as text for CSV.
        columns: those of the table that it is read for.
        convert: values as those of a column; raises ArrowException where one is none.
        delimiter: between values of CSV.
    """

    def fits(values: Any, column: Column) -> bool:
        try:
            convert(values, column)
        except pa.ArrowException:
            return False
        return True

    refused: list[tuple[int, Column]] = []
    for target in columns:
        name = target.name
        if name not in table.column_names or fits(table.column(name), target):
            continue
        column, first, last = table.column(name), 0, table.num_rows
        if not fits(column[:0], target):
            message = f"{path}: column {name!r} is {column.type}, and no {target.type.name}"
            if target.type.is_time and pa.types.is_timestamp(column.type):
                message += (
                    f"; it can be a {'TIMESTAMP' if column.type.tz is None else 'TIMESTAMPTZ'}"
                )
            raise SourceError(message, value=str(path))
        while last - first > 1:  # the first bad one is within [first, last)
            middle = (first + last) // 2
            first, last = (middle, last) if fits(column[first:middle], target) else (first, middle)
        refused.append((first, target))
    if refused:
        row, target = min(refused, key=itemgetter(0))
        value = python_value(table.column(target.name)[row])
        is_text = isinstance(value, str) and not pa.types.is_temporal(
            table.schema.field(target.name).type
        )
        way_out = _way_out(value, target) if is_text or not isinstance(value, str) else ""
        write = repr if is_text else as_json if target.type.is_nested else plain_text
        message = (
            f"{_location(path, row, delimiter)}: {write(value)} in column {target.name!r} is no "
            f"{target.type.name}{way_out}"
        )
        line = _line(path, row, delimiter)
        raise SourceError(message, path=str(path), line=line, value=value)


_NONE = frozenset({"na", "n/a", "nan", "null", "nil", "none", "\\n", "-", "?"})
"""What others write where there is no value, in small letters."""


def _way_out(value: Any, column: Column) -> str:
    """What would be a value of a column, where that is not plain from its type's name."""
    kind = column.type
    if column.nullable and isinstance(value, str) and value.strip().lower() in _NONE:
        return "; NULL is an empty field"
    if kind.is_decimal and _is_rounded(value, kind):
        return "; what a file says is not rounded, as INSERT rounds it"
    if isinstance(value, str) and kind.is_nested:
        return '; it is written as JSON: [1, null], or {"a": "x"}, its quotes doubled'
    if isinstance(value, str) and (kind.is_time or kind in (INTERVAL, TIME, UUID)):
        return f"; {written_so(kind)}"
    if isinstance(value, str) and kind is BLOB:
        return "; it is written as hexadecimal digits: \\x00ff"
    return ""


def _is_rounded(value: Any, kind: SqlType) -> bool:
    """Whether a value is a number that INSERT takes for a DECIMAL, with fewer digits."""
    convert = cast(TEXT, kind)
    try:
        return convert is not None and bool(convert(str(value)) != Decimal(str(value)))
    except (ValueError, ArithmeticError):
        return False


def _is_text(kind: Any) -> bool:
    """Whether CSV has values of a type of Arrow as text that CAST takes, and Arrow does not."""
    texts = (pa.types.is_nested, pa.types.is_binary, pa.types.is_boolean, pa.types.is_interval)
    return any(is_one(kind) for is_one in texts)


def _held(values: Any, column: Column) -> Any:
    """Values of Parquet as those of a column. Raises ArrowException where one is none."""
    kind = arrow_type(column.type)
    if values.type == kind and not (_has(kind, pa.types.is_temporal) or column.type.has(UUID)):
        return values
    # whole numbers that others keep as floats, numbers that are to be text
    is_rounded = _has(values.type, pa.types.is_decimal) and _has(kind, pa.types.is_floating)
    if _has(values.type, _is_number) and not (is_rounded or _has(kind, _is_odd)):
        return _bounded(values.cast(kind))
    return _exact(values, column)


def _exact(values: Any, column: Column) -> Any:
    """Values as those of a column, as pipelines take them: exact, or ArrowException."""
    logical = SqlLogical(column.type, nullable=False)
    if not logical.takes(values.type):
        raise pa.ArrowInvalid(f"{values.type} is no {column.type.name}")
    bare, is_none = logical.bare(values)
    if bare.null_count > is_none.sum():
        raise pa.ArrowInvalid(f"a value that is no {column.type.name}")
    return logical.opened(bare)


def _bounded(values: Any) -> Any:
    """The values, if they are of their type: Arrow takes 1e5 for a decimal of three digits."""
    if pa.types.is_decimal(values.type):
        values.validate(full=True)
    return values


def _has(kind: Any, what: Callable[[Any], bool]) -> bool:
    """Whether a type of Arrow is such a one, or something inside of it is."""
    inner = (kind.field(index).type for index in range(kind.num_fields))
    return bool(what(kind)) or any(_has(part, what) for part in inner)


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_odd(kind: Any) -> bool:
    """Whether Arrow's own cast of numbers rounds, or takes any number for such a value."""
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.string())


def _location(path: Path, row: int, delimiter: str = ",") -> str:
    """Where a row of a file stands, from 0: by line in CSV."""
    line = _line(path, row, delimiter)
    return f"{path}, row {row + 1}" if line is None else f"{path}:{line}"


def _line(path: Path, row: int, delimiter: str = ",") -> int | None:
    """The line in which a row begins; None where a file has no lines."""
    if path.suffix == ".parquet":
        return None
    records = _records(path, utf8(path.read_bytes(), str(path)), delimiter)
    next(records)  # the header
    return next(islice(records, row, None))[0]


def _plain(value: Any) -> Any:
    """A value of Arrow's as SQL has it: an interval inside of others is no list."""
    if type(value) is list:
        return [*map(_plain, value)]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return given(value)


def csv_of(table: pa.Table) -> str:
    """Rows as CSV with a header, which `read_table` takes for the same rows."""
    for index, field in enumerate(table.schema):
        if _is_text(field.type) and not pa.types.is_boolean(field.type):  # Arrow's are as SQL's
            write = as_json if pa.types.is_nested(field.type) else plain_text
            values = map(_plain, table.column(index).to_pylist())
            texts = [None if value is None else write(value) for value in values]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    return str(sink.getvalue().to_pybytes(), "utf-8")


def write_view(table: pa.Table, name: str, folder: Path | None) -> None:
    """Write a view's rows as CSV with a header: to `folder`, or to standard output."""
    if folder is None:
        sys.stdout.write(f"-- {name}\n{csv_of(table)}")
        return
    with whole_file(folder / f"{name}.csv") as stream:
        stream.write(csv_of(table))
