"""Tables from files, and views to files: Parquet and CSV by Arrow.

Invariant: a value of a file is one of its column's type, or the file is refused; NULL is an empty
field of CSV, and empty text is written `""`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from deltafix.diagnostics import separator_in
from deltafix.errors import SinkError, SourceError
from deltafix.sql.cursor import arrow_type
from deltafix.sql.types import Column

__all__ = ["read_table", "write_view"]


def read_table(path: Path, columns: Sequence[Column]) -> pa.Table:
    """The rows of a file, its columns by name. Raises SourceError."""
    types = {column.name: arrow_type(column.type) for column in columns}
    wanted = pa.schema(list(types.items()))
    try:
        if path.suffix == ".parquet":
            table = parquet.read_table(path)
        else:
            options = csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            table = csv.read_csv(path, convert_options=options)
        missing = [name for name in types if name not in table.column_names]
        if missing:
            there = ", ".join(table.column_names)
            message = f"{path} has no column {missing[0]!r}; it has {there}"
            separator = separator_in(table.column_names, ",")
            if separator is not None:
                seen = json.dumps(separator)
                message += f": there is {seen} between names; write the file with commas"
            raise SourceError(message, value=str(path))
        return table.select(list(types)).cast(wanted)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"cannot read {path}: {error}", value=str(path)) from None


def write_view(table: pa.Table, name: str, folder: Path | None) -> None:
    """Write a view's rows as CSV with a header: to `folder`, or to standard output."""
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    text = sink.getvalue().to_pybytes()
    if folder is None:
        sys.stdout.write(f"-- {name}\n{text.decode()}")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.csv").write_bytes(text)
    except OSError as error:
        raise SinkError(f"cannot write {folder / name}.csv: {error}") from None
