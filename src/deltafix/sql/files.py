"""Tables from files, and views to files: Parquet and CSV by Arrow.

Invariant: a value of a file is one of its column's type, or the file is refused, with the line, the
column and the value; NULL is an empty field of CSV, empty text is written `""`, an array as JSON.
"""

from __future__ import annotations

import csv as lines
import json
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from deltafix.diagnostics import separator_in
from deltafix.errors import SourceError
from deltafix.facts.sink import whole_file
from deltafix.sql.cursor import arrow_type
from deltafix.sql.types import Column

__all__ = ["read_table", "table_file", "write_view"]


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

    Raises SourceError: the file cannot be read, lacks a column, or has a value that its column does
    not hold.
    """
    types = {column.name: arrow_type(column.type) for column in columns}
    wanted = pa.schema(list(types.items()))
    try:
        if path.suffix == ".parquet":
            table = parquet.read_table(path)
        else:
            for column in columns:
                if column.type.element is not None:
                    message = (
                        f"{path}: column {column.name!r} is {column.type.name}, and CSV has no "
                        "arrays; write the table as Parquet"
                    )
                    raise SourceError(message, value=str(path))
            try:
                table = csv.read_csv(path, convert_options=_converting(types))
            except pa.ArrowInvalid:
                _refuse_value(path, columns)
                raise
        missing = [name for name in types if name not in table.column_names]
        if missing:
            there = ", ".join(table.column_names)
            message = f"{path} has no column {missing[0]!r}; it has {there}"
            separator = separator_in(table.column_names, ",")
            if separator is not None:
                seen = json.dumps(separator)
                message += f": there is {seen} between names; write the file with commas"
            raise SourceError(message, value=str(path))
        others = [name for name in table.column_names if name not in types]
        table = table.select(list(types)).cast(wanted)
        for column in columns:
            found = table.column(column.name)
            if found.null_count and not column.nullable:
                place = found.is_null().index(True).as_py()
                message = f"{_place(path, place)}: no value for {column.name!r}, which is NOT NULL"
                raise SourceError(message, value=str(path))
        return table, others
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"cannot read {path}: {error}", value=str(path)) from None


def _converting(types: dict[str, Any]) -> csv.ConvertOptions:
    return csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _refuse_value(path: Path, columns: Sequence[Column]) -> None:
    """Raise SourceError at the first value of a CSV file that its column does not hold, if one is.

    The columns are read as text, and the row is looked for by halves. O(n log n), on errors alone.
    """
    names = dict.fromkeys((column.name for column in columns), pa.string())
    texts = csv.read_csv(path, convert_options=_converting(names))
    found: list[tuple[int, Column]] = []
    for asked in columns:
        name, kind = asked.name, arrow_type(asked.type)
        if name not in texts.column_names or _fits(texts.column(name), kind):
            continue
        column, first, last = texts.column(name), 0, texts.num_rows
        while last - first > 1:  # the first bad one is within [first, last)
            middle = (first + last) // 2
            first, last = (middle, last) if _fits(column[first:middle], kind) else (first, middle)
        found.append((first, asked))
    if found:
        place, asked = min(found, key=itemgetter(0))
        value = texts.column(asked.name)[place].as_py()
        message = (
            f"{_place(path, place)}: {value!r} in column {asked.name!r} is no {asked.type.name}"
        )
        raise SourceError(message, value=str(path))


def _fits(column: Any, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowException:
        return False
    return True


def _place(path: Path, row: int) -> str:
    """Where a row of a file stands, from 0: by line in CSV."""
    if path.suffix == ".parquet":
        return f"{path}, row {row + 1}"
    with path.open(encoding="utf-8", newline="") as stream:
        reader = lines.reader(stream)
        places = (reader.line_num for fields in reader if fields)
        next(places)  # the header
        line = next((line for number, line in enumerate(places) if number == row), row + 2)
    return f"{path}:{line}"


def write_view(table: pa.Table, name: str, folder: Path | None) -> None:
    """Write a view's rows as CSV with a header: to `folder`, or to standard output."""
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):  # as JSON: CSV has no arrays
            texts = [
                None if one is None else json.dumps(one, default=str, ensure_ascii=False)
                for one in table.column(place).to_pylist()
            ]
            table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    text = sink.getvalue().to_pybytes()
    if folder is None:
        sys.stdout.write(f"-- {name}\n{text.decode()}")
        return
    with whole_file(folder / f"{name}.csv") as stream:
        stream.write(text.decode())
