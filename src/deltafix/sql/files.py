"""Tables from files, and views to files: Parquet and CSV by Arrow.

Invariant: a value of a file is one of its column's type, or the file is refused, with the line, the
column and the value; NULL is an empty field of CSV, empty text is written `""`, an array is JSON,
a BLOB hexadecimal digits. Arrow reads; what it refuses is read again here, line by line, to say
where and what.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv, parquet

from deltafix.diagnostics import separator_in
from deltafix.errors import SourceError, SqlError, SqlIntegrityError
from deltafix.facts.codec import quoted_lines, utf8
from deltafix.facts.logical import as_json
from deltafix.facts.sink import whole_file
from deltafix.facts.values import plain_text, shown
from deltafix.sql.cursor import arrow_type
from deltafix.sql.logical import SqlLogical
from deltafix.sql.types import BLOB, Column

if TYPE_CHECKING:
    from deltafix.sql.connection import Connection

__all__ = ["read_table", "table_file", "take_in", "write_view"]


def table_file(folder: Path, name: str) -> Path | None:
    """The file of a table in a folder, if there is one. Raises SourceError where there are two."""
    there = [path for kind in _KINDS if (path := folder / f"{name}.{kind}").is_file()]
    if len(there) > 1:
        shown = " and ".join(path.name for path in there)
        message = f"{folder} has {shown}, and a table has one file; take one of them away"
        raise SourceError(message, value=name)
    return there[0] if there else None


_KINDS = ("parquet", "csv")


def read_table(path: Path, columns: Sequence[Column]) -> tuple[pa.Table, list[str]]:
    """The rows of a file, its columns by name; and which of its columns the table has not.

    Raises SourceError, or FactError for what is no CSV: the file cannot be read, lacks a column, or
    has a value that its column does not hold.
    """
    types = {column.name: arrow_type(column.type) for column in columns}
    wanted = pa.schema(list(types.items()))
    try:
        is_parquet = path.suffix == ".parquet"
        table = parquet.read_table(path) if is_parquet else _read_csv(path, columns)
        missing = [name for name in types if name not in table.column_names]
        if missing:
            there = ", ".join(table.column_names)
            message = f"{path} has no column {missing[0]!r}; it has {there}"
            separator = separator_in(table.column_names, ",")
            if separator is not None:
                seen = json.dumps(separator)
                message += f": there is {seen} between names; write the file with commas"
            raise SourceError(message, value=str(path))
        for name in types:
            if table.column_names.count(name) > 1:
                raise SourceError(f"{path} has two columns {name!r}", value=str(path))
        others = [name for name in table.column_names if name not in types]
        table = table.select(list(types)).cast(wanted)
        for column in columns:
            found = table.column(column.name)
            if found.null_count and not column.nullable:
                place = found.is_null().index(True).as_py()
                message = f"{_place(path, place)}: no value for {column.name!r}, which is NOT NULL"
                raise SourceError(message, path=str(path), line=_line(path, place))
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
        said = error.diagnostics[0].message
        places = error.rows if isinstance(error, SqlIntegrityError) else ()
        if places and (row := _row(rows, places[0])) not in said:
            said = f"{said}; the row is {row}"
        if len(places) > 1:
            said = f"{said}, and {_place(path, places[1])} has {_row(rows, places[1])}"
        where = _place(path, places[0]) if places else path
        raise SourceError(f"{where}: {said}", value=str(path)) from None
    return others


def _row(rows: pa.Table, place: int) -> str:
    return shown(tuple(column[place].as_py() for column in rows.columns))


def _read_csv(path: Path, columns: Sequence[Column]) -> pa.Table:
    """A CSV file, the columns named as their types. Raises SourceError, ArrowException, OSError."""
    data = path.read_bytes()
    if data.count(b'"') % 2:  # Arrow takes a quote that nothing closes to end with the file
        _refuse_lines(path, data, columns)
    try:
        kinds = {column.name: arrow_type(column.type) for column in columns}
        as_text = {name for name, kind in kinds.items() if _is_text(kind)}
        table = _parsed(data, {**kinds, **dict.fromkeys(as_text, pa.string())})
        for column in columns:
            if column.name in as_text.intersection(table.column_names):
                place = table.column_names.index(column.name)
                found = _cast(table.column(place), column)
                table = table.set_column(place, column.name, found)
        return table
    except (pa.ArrowInvalid, UnicodeDecodeError):  # Arrow takes any bytes for names
        _refuse_lines(path, data, columns)
        _refuse_value(path, data, columns)
        raise


def _parsed(data: bytes, types: dict[str, Any]) -> pa.Table:
    # A header without a line end is no table for Arrow.
    source = pa.BufferReader(data if b"\n" in data else data + b"\n")
    converting = csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    # Without this, a line break within quotes is refused, from the second block of a file on.
    parsing = csv.ParseOptions(newlines_in_values=True)
    return csv.read_csv(source, parse_options=parsing, convert_options=converting)


def _refuse_lines(path: Path, data: bytes, columns: Sequence[Column]) -> None:
    """Raise SourceError at the first line with another number of values than the header, if one is.

    Raises FactError for bytes or quotes that are no CSV.
    """
    text = utf8(data, str(path))
    records = _records(path, text)
    first = next(records, None)
    if first is None:
        names = ",".join(column.name for column in columns)
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


def _records(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV text, each with the line it begins in; empty lines are none."""
    return ((line, cells) for line, cells in quoted_lines(text, ",", str(path)) if cells)


def _refuse_value(path: Path, data: bytes, columns: Sequence[Column]) -> None:
    """Raise SourceError at the first value of a CSV file that its column does not hold, if one is.

    The columns are read as text, and the row is looked for by halves. O(n log n), on errors alone.
    """
    names = dict.fromkeys((column.name for column in columns), pa.string())
    texts = _parsed(data, names)
    found: list[tuple[int, Column]] = []
    for asked in columns:
        name = asked.name
        if name not in texts.column_names or _fits(texts.column(name), asked):
            continue
        column, first, last = texts.column(name), 0, texts.num_rows
        while last - first > 1:  # the first bad one is within [first, last)
            middle = (first + last) // 2
            first, last = (middle, last) if _fits(column[first:middle], asked) else (first, middle)
        found.append((first, asked))
    if found:
        place, asked = min(found, key=itemgetter(0))
        value = texts.column(asked.name)[place].as_py()
        message = (
            f"{_place(path, place)}: {value!r} in column {asked.name!r} is no {asked.type.name}"
        )
        if asked.type.is_nested:
            message += '; it is written as JSON: [1, null], or {"a": "x"}, its quotes doubled'
        elif asked.type is BLOB:
            message += "; it is written as hexadecimal digits: \\x00ff"
        elif asked.type.is_decimal:
            message += "; what a file says is not rounded, as INSERT rounds it"
        raise SourceError(message, path=str(path), line=_line(path, place), value=value)


def _is_text(kind: Any) -> bool:
    """Whether CSV has values of a type of Arrow as text of our own: arrays, structs, bytes."""
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind))


def _cast(texts: Any, column: Column) -> Any:
    """Texts as values of a column. Raises ArrowException where one is none."""
    if not _is_text(arrow_type(column.type)):
        return texts.cast(arrow_type(column.type))
    logical = SqlLogical(column.type, nullable=True)
    found = logical.encode(texts)
    if found.null_count:
        raise pa.ArrowInvalid(f"a value that is no {column.type.name}")
    return logical.decode(found)


def _fits(texts: Any, column: Column) -> bool:
    try:
        _cast(texts, column)
    except pa.ArrowException:
        return False
    return True


def _place(path: Path, row: int) -> str:
    """Where a row of a file stands, from 0: by line in CSV."""
    line = _line(path, row)
    return f"{path}, row {row + 1}" if line is None else f"{path}:{line}"


def _line(path: Path, row: int) -> int | None:
    """The line in which a row begins; None where a file has no lines."""
    if path.suffix == ".parquet":
        return None
    records = _records(path, utf8(path.read_bytes(), str(path)))
    next(records)  # the header
    return next(islice(records, row, None))[0]


def write_view(table: pa.Table, name: str, folder: Path | None) -> None:
    """Write a view's rows as CSV with a header: to `folder`, or to standard output."""
    for place, field in enumerate(table.schema):
        if _is_text(field.type):
            write = as_json if pa.types.is_nested(field.type) else plain_text
            values = table.column(place).to_pylist()
            texts = [None if one is None else write(one) for one in values]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    text = sink.getvalue().to_pybytes()
    if folder is None:
        sys.stdout.write(f"-- {name}\n{text.decode()}")
        return
    with whole_file(folder / f"{name}.csv") as stream:
        stream.write(text.decode())
