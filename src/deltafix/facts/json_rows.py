"""Relations as JSON: `IO=json` on the standard streams, `IO=jsonfile` in files.

A file is an array of rows; a row is an array of values, or under `format=object` an object by
column. A record is an array of its fields (an object by field), `nil` is null; a value of an
algebraic data type is the text that fact files have, `"$Node(1, 2)"`, and so are the floats that
JSON lacks: `"inf"`, `"-inf"`, `"nan"`, and records nested more than 100 deep. Invariant: what
`write_json` writes, `read_json` reads back equal; in reading either form of a row is taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Final, TextIO

from deltafix.errors import FactError, TypeMismatchError
from deltafix.facts.schema import Column, Row, Schema
from deltafix.facts.shapes import Shape, Types
from deltafix.facts.values import Branch, Value, read_real, shown, write_value

_DEEP: Final = 100
"""Records nested deeper are written as text: JSON's readers recurse."""


def read_json(data: bytes, schema: Schema, label: str) -> list[Row]:
    """The rows of a JSON text. O(bytes).

    Raises:
        FactError: text that is no JSON, no array of rows, or a row of another width.
        TypeMismatchError: a value its column does not take. Both name the file, the row and the
            line that it begins in.
    """
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        document = json.loads(
            text, parse_int=json_whole, parse_constant=_refuse, object_pairs_hook=json_object
        )
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        message = f"{label}: this is not JSON: {error}"
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            message += (
                "; JSON lines are read by inputs of pipelines (format = 'json'), here a relation "
                "is one array of rows: [[1, 2], [3, 4]]"
            )
        raise FactError(message, path=label, relation=schema.relation, line=line) from None
    if document is None and not schema.columns:
        return []
    if not isinstance(document, list):
        message = f"{label}: a relation is an array of rows, not {shown(document)}"
        raise FactError(message, path=label, relation=schema.relation)
    rows = []
    for number, row in enumerate(document, start=1):
        try:
            rows.append(_row(row, schema, label, number))
        except (FactError, TypeMismatchError) as error:
            error.values.update(path=label, line=_line_of(text, number))
            raise
    return rows


def _line_of(text: str, number: int) -> int:
    """The line in which a row of an array begins, both from 1. O(text), on errors alone."""
    scan = json.JSONDecoder(parse_int=json_whole)
    offset = text.index("[") + 1
    for left in range(number, 0, -1):
        while text[offset] in " \t\r\n,":
            offset += 1
        if left > 1:
            offset = scan.raw_decode(text, offset)[1]
    return text.count("\n", 0, offset) + 1


def write_json(
    rows: Iterable[Row], schema: Schema, stream: TextIO, *, as_objects: bool = False
) -> None:
    """Write rows as an array, one row a line, in the order given."""
    ahead = ""
    stream.write("[")
    for row in rows:
        held = json_values(row, schema, as_objects=as_objects)
        stream.write(f"{ahead}{json.dumps(held, ensure_ascii=False)}")
        ahead = ",\n"
    stream.write("]\n")


def json_values(row: Row, schema: Schema, *, as_objects: bool) -> Any:
    """One row as what `json.dumps` takes: a list of values, or a dict by column."""
    values = [
        _plain(value, column, as_objects=as_objects)
        for value, column in zip(row, schema.columns, strict=True)
    ]
    return dict(zip(schema.names, values, strict=True)) if as_objects else values


def _row(given: Any, schema: Schema, label: str, number: int) -> Row:
    where = f"{label}: row {number}"
    if isinstance(given, dict):
        if sorted(given) != sorted(schema.names):
            message = f"{where} has the keys {shown(sorted(given))}, but {schema.show()} is wanted"
            raise FactError(message, path=label, relation=schema.relation, value=sorted(given))
        given = [given[name] for name in schema.names]
    if not isinstance(given, list) or len(given) != schema.arity:
        message = f"{where} is {shown(given)}, but {schema.show()} is wanted"
        raise FactError(message, path=label, relation=schema.relation, value=given)
    row = zip(given, schema.columns, strict=True)
    return tuple(read_value(value, column, where) for value, column in row)


def read_value(given: Any, column: Column, where: str) -> Value:
    """The value of a column that JSON has. Raises TypeMismatchError, naming the place."""
    value = given
    why = ""
    try:
        if column.of is not None:
            return column.of.from_json(given)  # type: ignore[no-any-return]
        if column.shape is not None:
            return column.shape.check(_constructed(given, column.shape.kind, column.shape))
        if column.type == "float" and isinstance(given, str):
            value = read_real(given)
        schema = Schema("", (column,))
        return schema.check_value(column, 0, value)
    except TypeMismatchError:
        pass
    except ValueError as error:
        why = str(error)
    said = "null" if given is None else shown(given)
    message = f"{where}: column {column.name!r} is {said}, but {why or column.refuses(given)}"
    raise TypeMismatchError(message, column=column.name, value=given)


def _plain(value: Value, column: Column, *, as_objects: bool) -> Any:
    if column.of is not None:
        return column.of.to_json(value)
    if column.shape is not None:
        try:
            return _nested(value, column.shape.kind, column.shape.types, as_objects, 0)
        except RecursionError:
            return write_value(value)
    if isinstance(value, float) and not math.isfinite(value):
        return write_value(value)
    return value


def _constructed(given: Any, kind: str, shape: Shape) -> Any:
    """A record's fields as a tuple; a text is read as in a fact file."""
    fields = shape.types.get(kind, {}).get("")
    if isinstance(given, str) and kind in shape.types:
        return Shape(shape.types, kind, shape.bits).read(given)
    if fields is not None and isinstance(given, dict):
        if sorted(given) != sorted(name for name, _ in fields):
            raise ValueError(f"a {kind} has the fields {', '.join(name for name, _ in fields)}")
        given = [given[name] for name, _ in fields]
    if fields is None or not isinstance(given, list) or len(given) != len(fields):
        return read_real(given) if kind == "float" and isinstance(given, str) else given
    pairs = zip(given, fields, strict=True)
    return tuple(_constructed(part, of, shape) for part, (_, of) in pairs)


def _nested(value: Value, kind: str, types: Types, as_objects: bool, depth: int) -> Any:
    fields = types.get(kind, {}).get("")
    if depth > _DEEP:
        raise RecursionError
    if isinstance(value, Branch) or (isinstance(value, float) and not math.isfinite(value)):
        return write_value(value)
    if fields is None or not isinstance(value, tuple):
        return value
    parts = [
        _nested(part, of, types, as_objects, depth + 1)
        for part, (_, of) in zip(value, fields, strict=True)
    ]
    return (
        {name: part for part, (name, _) in zip(parts, fields, strict=True)} if as_objects else parts
    )


def json_whole(text: str) -> int:
    """Python refuses to read more than 4,300 digits; no type holds a tenth of that.

    Such a number is some one of as many digits.
    """
    return int(text) if len(text) <= 400 else 1 << round(len(text) * math.log2(10))


def json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises ValueError for a key that is there twice: Python takes the last."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"two values for {shown(twice)}")
    return members


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")
