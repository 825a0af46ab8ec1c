"""Change files to tables: CSV, JSON lines, Parquet.

A decoder gives a table of the columns as they stand in the file (text for CSV) and the lines that
are not even rows. Invariant: every line is in one of the two; what a value means is not decided
here (`columns`), nor which change it is (`debezium`). Files are read whole: the caller bounds what
is taken of them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json

from deltafix.diagnostics import plural
from deltafix.errors import FactError, PipelineError
from deltafix.facts.codec import quoted_lines, utf8
from deltafix.facts.json_rows import json_object
from deltafix.pipeline.signed import Bad

_PACKED: Final = {
    "gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4", "br": "brotli"
}  # fmt: skip
"""By ending, what Arrow calls how a file is packed."""

SUFFIXES: Final = {
    form: tuple(f".{end}{packed}" for end in ends for packed in ("", ".gz", ".bz2", ".zst"))
    for form, ends in (("csv", ("csv",)), ("json", ("json", "jsonl", "ndjson")))
} | {"parquet": (".parquet",)}
"""The endings of files that a folder of this format holds, unless `pattern` says otherwise."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """How files are spelled. Without a header, CSV columns are `names`, in order.

    With `nulls`, an empty field of CSV is NULL, and empty text is written `""`; numbers of JSON
    that are not whole come as they are written. In `columns` of JSON, whatever their capitals,
    texts are texts though they look like moments; in those that are `texts`, all else is too.
    """

    format: str
    delimiter: str = ","
    header: bool = True
    names: tuple[str, ...] = ()
    nulls: bool = False
    columns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(slots=True)
class Decoded:
    """The rows of a file, and the lines that are none; of JSON, at which positions."""

    table: pa.Table
    bad: list[Bad] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


Judge = Callable[[dict[str, Any]], tuple[Mapping[str, Any], str]]
"""A row of JSON as a table can have it beside others, and why it cannot be one (`columns`)."""


class File(Protocol):
    """A path of the local disk, or an object of a store; `str` is its path or URL."""

    def open(self, mode: Any = "rb") -> Any:
        """It, to be read."""


def read_bytes(path: File) -> bytes:
    """A whole file, unpacked as its ending says. Raises OSError."""
    packed = _PACKED.get(str(path).rpartition(".")[2])
    with path.open("rb") as file, pa.input_stream(file, compression=packed) as stream:
        return bytes(stream.read())


def decode_file(path: File, form: FileForm, judge: Judge) -> Decoded:
    """Read one file; `judge` is asked where rows of JSON differ in their kinds.

    Raises PipelineError if it cannot be read at all.
    """
    try:
        return _DECODERS[form.format](path, form, judge)
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        message = f"{path}: cannot be read as {form.format}: {reason}"
        raise PipelineError(message, path=str(path)) from None


def _csv(path: File, form: FileForm, _: Judge) -> Decoded:
    data = read_bytes(path)
    if not data.strip():
        return Decoded(pa.table({name: pa.array([], pa.string()) for name in form.names}))
    if data.count(b'"') % 2:  # Arrow takes a quote that nothing closes to end with the file
        deque(_records(path, data, form), maxlen=0)
    table, torn = _parsed(data, form, use_threads=True)
    if not torn:
        return Decoded(table)
    table, torn = _parsed(data, form, use_threads=False)  # in their order
    names = list(form.names) if not form.header else _header(data, form)
    lines = [line for line, cells in _records(path, data, form) if len(cells) != len(names)]
    bad = []
    for index, row in enumerate(torn):
        line = f":{lines[index]}" if len(lines) == len(torn) else ""  # or quotes are read otherwise
        reason = (
            f"it has {plural(row.actual_columns, 'value')}, not {len(names)} ({', '.join(names)})"
        )
        bad.append(Bad(reason, f"{path}{line}", row.text))
    return Decoded(table, bad)


def _records(path: File, data: bytes, form: FileForm) -> Iterator[tuple[int, list[str]]]:
    """The records of CSV, each with the line it begins in. Raises PipelineError."""
    try:
        for line, cells in quoted_lines(utf8(data, str(path)), form.delimiter, str(path)):
            if cells:
                yield line, cells
    except FactError as error:
        raise PipelineError(str(error), path=str(path)) from None


def _parsed(data: bytes, form: FileForm, *, use_threads: bool) -> tuple[pa.Table, list[Any]]:
    """The table of a CSV file as text, and the rows of another width than its first one."""
    torn: list[Any] = []

    def passed_over(row: Any) -> str:
        torn.append(row)
        return "skip"

    names = None if form.header else list(form.names)
    known = names or _header(data, form)
    table = arrow_csv.read_csv(
        pa.BufferReader(data),
        read_options=arrow_csv.ReadOptions(column_names=names, use_threads=use_threads),
        parse_options=arrow_csv.ParseOptions(
            delimiter=form.delimiter, invalid_row_handler=passed_over, newlines_in_values=True
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(known, pa.string()),
            null_values=[""],
            strings_can_be_null=form.nulls,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, torn


def _header(data: bytes, form: FileForm) -> list[str]:
    with arrow_csv.open_csv(
        pa.BufferReader(data),
        parse_options=arrow_csv.ParseOptions(
            delimiter=form.delimiter, invalid_row_handler=lambda _: "skip", newlines_in_values=True
        ),
    ) as reader:
        return [str(name) for name in reader.schema.names]


def _parquet(path: File, form: FileForm, _: Judge) -> Decoded:
    with path.open("rb") as file:
        return Decoded(pq.read_table(file, partitioning=None))


def _json(path: File, form: FileForm, judge: Judge) -> Decoded:
    data = read_bytes(path)
    if data.strip():
        with suppress(pa.ArrowInvalid):
            return Decoded(_arrow_json(data, form))
    values, bad = json_values(data.splitlines(), str(path), exact=form.nulls)
    decoded = records_table(values, str(path), form.names, judge)
    decoded.bad.extend(bad)
    return decoded


def _arrow_json(data: bytes, form: FileForm) -> pa.Table:
    """JSON lines by Arrow. Raises ArrowInvalid for what it does not take.

    It makes moments of some texts; and a column that it is told of is there, whatever lines say.
    """
    columns, texts = ({name.lower() for name in some} for some in (form.columns, form.texts))
    table = arrow_json.read_json(pa.BufferReader(data))
    again = [
        (field.name, pa.string())
        for field in table.schema
        if (field.name.lower() in columns and pa.types.is_timestamp(field.type))
        or (field.name.lower() in texts and not _is_text(field.type))
    ]
    if not again:
        return table
    options = arrow_json.ParseOptions(explicit_schema=pa.schema(again))
    return arrow_json.read_json(pa.BufferReader(data), parse_options=options)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_null(kind))


def records_table(
    values: Iterable[tuple[int, Any]],
    origin: str,
    names: Sequence[str],
    judge: Judge,
    *,
    unit: str = "line",
) -> Decoded:
    """JSON objects, each with its position from 0, as a table; what is none, or judged so, is bad.

    Where there is no row, the table has the columns `names`. `unit` is what errors call a position.
    """
    rows, bad, positions = [], [], []
    for position, value in values:
        row, reason = judge(value) if isinstance(value, dict) else (value, "it is no JSON object")
        if reason:
            bad.append(Bad(reason, f"{origin}, {unit} {position + 1}", value))
        else:
            rows.append(row)
            positions.append(position)
    names = list(dict.fromkeys(name for row in rows for name in row)) or names
    table = pa.table({name: array_of([row.get(name) for row in rows]) for name in names})
    return Decoded(table, bad, positions)


def array_of(values: list[Any]) -> pa.Array:
    """Values of JSON as a column: of their kind, or as texts where they are of several."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # Values of several types: as text, so that each is judged by itself.
        shown = [v if isinstance(v, str | None) else json.dumps(v) for v in values]
        return pa.array(shown, pa.string())


def json_values(
    lines: Iterable[bytes | str], origin: str, *, exact: bool = False
) -> tuple[list[tuple[int, Any]], list[Bad]]:
    """(position, value) of every line that is JSON, and the others as bad rows; no empty lines.

    With `exact`, numbers that are not whole are texts, as they are written.
    """
    values: list[tuple[int, Any]] = []
    bad = []
    for position, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            value = json.loads(
                line, parse_float=str if exact else None, object_pairs_hook=json_object
            )
            if _is_deep(value):
                raise RecursionError
            if "\\u" in line if isinstance(line, str) else b"\\u" in line:
                json.dumps(value, ensure_ascii=False).encode()  # raises for a lone surrogate
            values.append((position, value))
        except (ValueError, RecursionError) as error:
            reason = {
                UnicodeEncodeError: "it is no JSON: a lone surrogate",
                RecursionError: f"it is nested more than {_DEEP} deep",
            }.get(type(error), f"it is no JSON: {error}")
            text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
            bad.append(Bad(reason, f"{origin}, line {position + 1}", text))
    return values, bad


_DEEP: Final = 100
"""So deep a line may be nested: what reads and writes its value recurses."""


def _is_deep(value: Any) -> bool:
    """Whether a value of JSON is nested deeper than `_DEEP`. O(value), without recursion."""
    level = [value]
    for _ in range(_DEEP + 1):
        level = [
            value
            for container in level
            if isinstance(container, dict | list)
            for value in (container.values() if isinstance(container, dict) else container)
            if isinstance(value, dict | list)
        ]
        if not level:
            return False
    return True


_DECODERS: Final[dict[str, Callable[[File, FileForm, Judge], Decoded]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}
