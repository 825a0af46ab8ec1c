"""Fact files: text to rows and back, in Soufflé's tab-separated form.

Two routes read the same format: pyarrow's CSV reader wherever it gives the right answer, and a
line-by-line reader for the rest, which is also the one that explains what is wrong. Invariant:
both accept the same files, and whatever `write_facts` writes, `read_facts` reads back equal.
A symbol may hold anything except the delimiter and line breaks; `rfc4180` lifts that by quoting.
Where files lie is the business of `source` and `sink`; nothing here knows the engine.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Final, NoReturn, TextIO, TypeAlias

from deltafix.diagnostics import did_you_mean, plural, separator_in
from deltafix.errors import FactError, TypeMismatchError
from deltafix.facts.ordered import OrderedRows
from deltafix.facts.schema import (
    Column,
    Row,
    Schema,
)
from deltafix.facts.values import (
    CONSTRUCTED,
    Value,
    fitting,
    read_real,
    read_whole,
    shown,
    write_value,
)

if TYPE_CHECKING:
    import pyarrow as pa

PARAMETERS: Final = (
    "IO", "filename", "dbname", "delimiter", "columns", "headers", "rfc4180", "compress", "format",
)  # fmt: skip
"""The parameters of `.input` and `.output` that are understood."""

Warn: TypeAlias = Callable[[str], None] | None
"""Hears of what is passed over in reading; without it that is an error."""

_NULLARY: Final = "()"
_PLACES: Final = re.compile(r"[0-9]{1,6}(:[0-9]{1,6})*")
_CHUNK: Final = 10_000
_LINES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class FactFormat:
    """How one fact file is spelled.

    Args:
        delimiter: one or more characters between two values; a tab unless given, a comma
            under `rfc4180`.
        headers: whether the first line names the columns (skipped in reading).
        rfc4180: whether values may be quoted with `"`, doubled inside.
        compress: whether a file is packed by gzip whatever its name; without a file name, the
            relation's gets `.gz`.
        columns: which of a line's values are the relation's, counted from 0; empty for the first
            ones. For reading.
    """

    delimiter: str = "\t"
    headers: bool = False
    rfc4180: bool = False
    compress: bool = False
    columns: tuple[int, ...] = ()

    @property
    def breaks(self) -> tuple[str, ...]:
        """What ends a value or a line where values are not quoted."""
        return (self.delimiter, "\n", "\r")

    @classmethod
    def from_parameters(cls, relation: str, parameters: Mapping[str, str]) -> FactFormat:
        """Read a directive's parameters. Raises FactError for a key or value not understood."""
        for key in parameters:
            if key not in PARAMETERS:
                hint = did_you_mean(key, PARAMETERS, f"valid: {', '.join(PARAMETERS)}", "'")
                message = f"{relation}: unknown parameter {key!r}; {hint}"
                raise FactError(message, relation=relation, value=key)
        rfc4180 = _flag(relation, "rfc4180", parameters)
        delimiter = parameters.get("delimiter", "," if rfc4180 else "\t")
        if not delimiter or "\n" in delimiter or "\r" in delimiter or '"' in delimiter:
            message = (
                f"{relation}: delimiter={delimiter!r} cannot separate values; it takes one or "
                "more characters other than quotes and line breaks"
            )
            raise FactError(message, relation=relation, value=delimiter)
        if rfc4180 and len(delimiter) > 1:
            message = f"{relation}: rfc4180 takes a delimiter of one character, not {delimiter!r}"
            raise FactError(message, relation=relation, value=delimiter)
        compress = _flag(relation, "compress", parameters)
        places = parameters.get("columns", "")
        if places and _PLACES.fullmatch(places) is None:
            message = f"{relation}: columns={places!r}, but it takes places from 0, like 2:0"
            raise FactError(message, relation=relation, value=places)
        columns = tuple(map(int, places.split(":"))) if places else ()
        return cls(delimiter, _flag(relation, "headers", parameters), rfc4180, compress, columns)


def read_facts(
    data: bytes, schema: Schema, form: FactFormat, label: str, warn: Warn = None
) -> pa.Table | list[Row]:
    """Read the whole text of a fact file. O(bytes).

    Args:
        data: UTF-8 text; a byte order mark is skipped, Windows line ends are taken.
        schema: what a line must fit.
        form: how the file is spelled.
        label: what errors call the file.
        warn: hears of lines with more values than columns, whose first ones are taken; without
            it such a line is an error.

    Returns:
        A table of `arrow_schema(schema)`; rows for a nullary relation, which has no columns, and
        for one with records, whose text is read here.

    Raises:
        FactError: a line of the wrong width, or text that is not UTF-8.
        TypeMismatchError: a value its column does not take. Both name file and line.
    """
    if form.columns and len(form.columns) != schema.arity:
        message = (
            f"{schema.relation}: columns={':'.join(map(str, form.columns))} names "
            f"{len(form.columns)} of them, but {schema.show()} has {schema.arity}"
        )
        raise FactError(message, relation=schema.relation, value=form.columns)
    if not schema.columns or any(map(_is_record, schema.columns)):
        return list(_read_lines(data, schema, form, label, warn))
    from deltafix.facts.arrow import table_from_rows  # noqa: PLC0415  pyarrow is slow to import

    table = _read_arrow(data, schema, form)
    if table is not None:
        return table
    return table_from_rows(schema, list(_read_lines(data, schema, form, label, warn)))


def write_facts(
    rows: Iterable[Row], schema: Schema, form: FactFormat, stream: TextIO, label: str
) -> None:
    """Write rows, one line each, in the order given. Floats are written so that they round-trip.

    Of `OrderedRows` each distinct value is spelled once.

    Raises:
        FactError: without `rfc4180`, a symbol that holds the delimiter or a line break, since
            it could not be read back.
    """
    spells = [_spelling(column, form) for column in schema.columns]
    if form.headers:
        names = _quoted(form, str) if form.rfc4180 else str
        stream.write(form.delimiter.join(map(names, schema.names)) + "\n")
    if not schema.columns:
        stream.writelines(f"{_NULLARY}\n" for _ in rows)
        return
    if isinstance(rows, OrderedRows) and len(rows) > _CHUNK:  # fewer do not pay for pyarrow
        if not form.rfc4180:
            _check_columns(rows, schema, form, label)
        _write_columns(rows, form.delimiter, stream, spells)
        return
    symbols = [i for i, column in enumerate(schema.columns) if _is_free(column)]
    for chunk in _chunks(rows):
        if symbols and not form.rfc4180:
            _check_writable(chunk, symbols, schema, form, label)
        if len({*spells}) == 1:
            (spell,) = {*spells}
            lines = [form.delimiter.join(map(spell, row)) + "\n" for row in chunk]
        else:
            lines = [form.delimiter.join(map(_called, spells, row)) + "\n" for row in chunk]
        stream.writelines(lines)


def _is_record(column: Column) -> bool:
    """Whether a column's texts are those of records and branches."""
    return column.type in CONSTRUCTED and column.of is None


def _called(spell: Callable[[Value], str], value: Value) -> str:
    return spell(value)


def _is_free(column: Column) -> bool:
    """Whether a column's texts may have any character."""
    return column.type in ("symbol", "symbol?") and (
        column.of is None or column.of.inner == "symbol"
    )


def _spelling(column: Column, form: FactFormat) -> Callable[[Value], str]:
    """How the values of a column are written."""
    plain = write_value if column.type in CONSTRUCTED else str
    if column.of is not None:
        plain = column.of.to_text
    return _quoted(form, plain) if form.rfc4180 else plain


def _check_columns(rows: OrderedRows[Value], schema: Schema, form: FactFormat, label: str) -> None:
    """As `_check_writable`, of all rows. O(distinct values), unless there is one."""
    for position, column in enumerate(schema.columns):
        if _is_free(column):
            marks = form.breaks
            values = rows.values[position]
            bad = [n for n, text in enumerate(values) if any(mark in str(text) for mark in marks)]
            if bad:
                import numpy as np  # noqa: PLC0415  slow to import

                index = int(np.flatnonzero(np.isin(rows.places[position], bad))[0])
                _check_writable([rows.at(index)], [position], schema, form, label)


def _write_columns(
    rows: OrderedRows[Value],
    delimiter: str,
    stream: TextIO,
    spells: Iterable[Callable[[Value], str]],
) -> None:
    """Write the lines of rows by column: 3 million of two numbers in 0.7 s, 9 as tuples."""
    import numpy as np  # noqa: PLC0415  slow to import
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kind = pa.large_string()
    pairs = zip(spells, rows.values, strict=True)
    *texts, last = (pa.array(map(spell, values), kind) for spell, values in pairs)
    texts.append(pc.binary_join_element_wise(last, pa.scalar("\n", kind), pa.scalar("", kind)))
    for start in range(0, len(rows), _LINES):
        parts = [
            text.take(pa.array(places[start : start + _LINES]))
            for text, places in zip(texts, rows.places, strict=True)
        ]
        lines = pc.binary_join_element_wise(*parts, pa.scalar(delimiter, kind))
        _, ends, text = lines.buffers()
        begin, end = np.frombuffer(ends, np.int64)[[lines.offset, lines.offset + len(lines)]]
        stream.write(str(memoryview(text)[begin:end], "utf-8"))


def _quoted(form: FactFormat, plain: Callable[[Value], str]) -> Callable[[Value], str]:
    special = re.compile(f'[{re.escape(form.delimiter)}"\r\n]')

    def spell(value: Value) -> str:
        text = plain(value)
        return '"' + text.replace('"', '""') + '"' if special.search(text) else text

    return spell


def _flag(relation: str, key: str, parameters: Mapping[str, str]) -> bool:
    text = parameters.get(key, "false")
    if text not in ("true", "false"):
        message = f"{relation}: {key}={text!r}, but it takes true or false"
        raise FactError(message, relation=relation, value=text)
    return text == "true"


def _read_arrow(data: bytes, schema: Schema, form: FactFormat) -> pa.Table | None:
    """The fast route; None where it would fail or read something else than what is written."""
    if len(data) == 0 or len(form.delimiter.encode()) > 1 or not _plain(data, schema, form):
        return None
    import pyarrow as pa  # noqa: PLC0415  slow to import
    from pyarrow import csv as arrow_csv  # noqa: PLC0415

    from deltafix.facts.arrow import ARROW_TYPES, arrow_schema, in_range  # noqa: PLC0415

    # Where columns are chosen, the first line says how many there are to choose from.
    width = data.split(b"\n", 1)[0].count(form.delimiter.encode()) + 1
    wide = width if form.columns else schema.arity
    indices = form.columns or range(schema.arity)
    if max(indices) >= wide:
        return None
    names = [f"c{index}" for index in indices]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(data)),
            read_options=arrow_csv.ReadOptions(
                column_names=[f"c{i}" for i in range(wide)], skip_rows=int(form.headers)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=False,
                double_quote=False,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=names,
                column_types={
                    name: pa.string() if column.of is not None else ARROW_TYPES[column.type]
                    for name, column in zip(names, schema.columns, strict=True)
                },
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    columns = zip(schema.columns, table.columns, strict=True)
    if not all(column.of is not None or in_range(column, array) for column, array in columns):
        return None
    try:
        arrays = [*map(_of_texts, schema.columns, table.columns)]
    except ValueError:
        return None
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def _of_texts(column: Column, array: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts as values of its logical type. Raises ValueError for what is none."""
    if column.of is None:
        return array
    import pyarrow as pa  # noqa: PLC0415  slow to import

    from deltafix.facts.logical_arrow import array_of, arrow_type  # noqa: PLC0415

    kind = column.of
    chunks = []
    for chunk in array.chunks:
        coded = chunk.dictionary_encode()
        values = array_of(map(kind.from_text, coded.dictionary.to_pylist()), kind)
        chunks.append(values.take(coded.indices))
    return pa.chunked_array(chunks, arrow_type(kind))


def _plain(data: bytes, schema: Schema, form: FactFormat) -> bool:
    # Where pyarrow 26 reads something else than is written (test_codec has each case): a lone
    # carriage return ends a line for it; an unclosed quote is closed at the end; an empty line is
    # a row of empty symbols of any width; hexadecimal wraps around to negative numbers; `nan(1)` is
    # a float.
    if form.rfc4180 and b'"' in data:
        return False
    if b"\r" in data and (form.rfc4180 or re.search(rb"\r(?!\n)", data)):
        return False
    if schema.arity > 1 and (data[:1] in b"\r\n" or b"\n\n" in data or b"\n\r\n" in data):
        return False
    if "float" in schema.types and re.search(rb"nan\(", data, re.IGNORECASE):
        return False
    whole = {"number", "unsigned"} & set(schema.types)
    return not (whole and (b"0x" in data or b"0X" in data))


def _read_lines(
    data: bytes, schema: Schema, form: FactFormat, label: str, warn: Warn
) -> Iterator[Row]:
    """The exact route: a Python object per cell, about 1 µs each, and every error explained."""
    longer: list[int] = []
    is_quoted = False
    text = utf8(data, label)
    lines: Iterator[tuple[int, list[str]]]
    if form.rfc4180:
        lines = ((at, cells or [""]) for at, cells in quoted_lines(text, form.delimiter, label))
    else:
        lines = _plain_lines(text, form, schema)
    for number, cells in lines:
        if form.headers and number == 1:
            continue
        if form.columns:
            if max(form.columns) >= len(cells):
                _refuse_width(label, number, schema, cells)
            taken = [cells[index] for index in form.columns]
        else:
            # Soufflé writes the one row of a relation without columns as `()`, and reads any line.
            taken = cells[: schema.arity]
            if len(cells) > max(schema.arity, 1) or (
                not schema.columns and cells not in ([_NULLARY], [""])
            ):
                longer.append(number)
                is_quoted |= not form.rfc4180 and any(cell.startswith('"') for cell in cells)
            if len(taken) < schema.arity or (longer and warn is None):
                _refuse_width(label, number, schema, cells)
        yield tuple(
            read_value(cell, column, label, number)
            for cell, column in zip(taken, schema.columns, strict=True)
        )
    if longer and warn is not None:
        count = "1 line has" if len(longer) == 1 else f"{len(longer)} lines have"
        warn(
            f"{label}:{longer[0]}: {count} more values than {schema.show()}; "
            "the first ones were taken"
            + (f"; .input {schema.relation}(rfc4180=true) reads values in quotes" * is_quoted)
        )


def utf8(data: bytes, label: str) -> str:
    """The text of a file, without a byte order mark. Raises FactError."""
    try:
        # Not as utf-8-sig, whose errors count from behind the mark.
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{label}:{line}: byte {data[error.start]:#04x} is not UTF-8 text"
        raise FactError(message, path=label, line=line, value=data[error.start]) from None


def _plain_lines(text: str, form: FactFormat, schema: Schema) -> Iterator[tuple[int, list[str]]]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    records = any(map(_is_record, schema.columns))
    for number, line in enumerate(lines, start=1):
        cells = line.removesuffix("\r").split(form.delimiter)
        yield number, _records_whole(cells, form.delimiter, schema) if records else cells


_QUOTES: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def _records_whole(parts: list[str], delimiter: str, schema: Schema) -> list[str]:
    """Cells of which a record is one, whatever delimiters stand between its brackets."""
    cells: list[str] = []
    depth = 0
    for part in parts:
        if depth > 0:
            cells[-1] += delimiter + part
        else:
            cells.append(part)
        if len(cells) <= schema.arity and _is_record(schema.columns[len(cells) - 1]):
            bare = _QUOTES.sub("", part)
            depth += sum(map(bare.count, "[(")) - sum(map(bare.count, "])"))
    return cells


def quoted_lines(text: str, delimiter: str, label: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a text by RFC 4180, each with the line it begins in; [] for empty lines.

    Raises FactError for quotes that it does not allow: one that nothing closes.
    """
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        reason = "a quote in it has no end" if "unexpected end" in str(error) else error
        message = f"{label}:{start}: not RFC 4180: {reason}"
        raise FactError(message, path=label, line=start) from None


def _refuse_width(label: str, number: int, schema: Schema, cells: list[str]) -> NoReturn:
    given = "an empty line" if cells == [""] else f"{plural(len(cells), 'value')}: {shown(cells)}"
    wanted = f"{plural(schema.arity, 'value')}" if schema.columns else f"the line {_NULLARY}"
    message = f"{label}:{number}: expected {wanted} for {schema.show()}, found {given}"
    separator = separator_in(cells, "")
    if separator is not None:
        seen = json.dumps(separator)
        message += f"; if {seen} stands between values, say "
        message += f".input {schema.relation}(delimiter={seen})"
    raise FactError(message, path=label, line=number, relation=schema.relation, value=cells)


def read_value(cell: str, column: Column, label: str, number: int) -> Value:
    """The value that a cell's text spells; `label` and `number` place it in errors.

    Raises TypeMismatchError for what the column does not take.
    """
    read = column.of.from_text if column.of is not None else None
    if column.shape is not None:
        read = column.shape.read
    if read is None and column.type == "symbol":
        return cell
    if read is not None:
        try:
            return read(cell)  # type: ignore[no-any-return]
        except ValueError as error:
            message = f"{label}:{number}: column {column.name!r} is {shown(cell)}, but {error}"
            raise TypeMismatchError(
                message, path=label, line=number, column=column.name, value=cell
            ) from None
    value = read_real(cell) if column.type == "float" else read_whole(cell)
    fit = None if value is None else fitting(column.type, value, column.bits)
    if fit is not None:
        return fit
    message = f"{label}:{number}: column {column.name!r} is {shown(cell)}, but {column.takes}"
    raise TypeMismatchError(message, path=label, line=number, column=column.name, value=cell)


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _check_writable(
    rows: list[Row], symbols: list[int], schema: Schema, form: FactFormat, label: str
) -> None:
    # One join and three searches per column and chunk: a search per value costs ten times more.
    marks = form.breaks
    for position in symbols:
        together = "\0".join([str(row[position]) for row in rows])
        if not any(mark in together for mark in marks):
            continue
        for row in rows:
            if any(mark in str(row[position]) for mark in marks):
                message = (
                    f"{label}: column {schema.columns[position].name!r} of {schema.relation} "
                    f"holds {row[position]!r}, which has the delimiter or a line break in it; "
                    "write it with rfc4180=true or another delimiter"
                )
                raise FactError(message, relation=schema.relation, value=row)
