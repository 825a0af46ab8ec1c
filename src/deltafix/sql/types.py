"""The types of SQL: what a column holds, and what the engine holds for it.

A value of a nullable column is a record of one field, and NULL is `nil`; a column that cannot be
NULL holds the bare value, so it pays nothing for NULLs elsewhere. The engine has one number of 64
bits for what SQL tells apart: booleans are 0 and 1, dates days and timestamps microseconds since
1970, times those since midnight, a DECIMAL(p, s) its value times 10^s; of more than 18 digits, that
number is a text (`facts.wide`). Arrays and structs are texts (`sql.arrays`), intervals too
(`sql.intervals`); a BLOB and a UUID are their hexadecimal digits.
Invariant: `encode` and `decode` are inverse on the values that a type has, and keep their order;
`encode` is the one door, and refuses all others. Casts between types are `sql.casts`'.
"""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any, Final, TypeAlias

from deltafix.diagnostics import suggest
from deltafix.facts.logical import as_columns, as_json
from deltafix.facts.logical_types import (
    DECIMALS,
    MOST_DIGITS,
    NARROW_DIGITS,
    LogicalType,
    logical_type,
)
from deltafix.facts.schema import Row
from deltafix.facts.values import BaseType, encodable, plain_text
from deltafix.facts.wide import as_text
from deltafix.rules.ast import Attribute, Constructor, FunctorDecl, TypeDecl
from deltafix.rules.values import NATIVE
from deltafix.sql import intervals
from deltafix.sql.arrays import packed, unpacked
from deltafix.sql.intervals import Interval
from deltafix.sql.text import Statement, exp

__all__ = [
    "BEYOND",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "DATE",
    "DECIMALS",
    "DOUBLE",
    "INTEGER",
    "INTERVAL",
    "MOST_DIGITS",
    "NARROW_DIGITS",
    "NATIVE_FUNCTORS",
    "NULL",
    "NULLABLE_TYPES",
    "SMALLINT",
    "TEXT",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "UUID",
    "Column",
    "SqlType",
    "SqlValue",
    "Struct",
    "array_of",
    "array_type",
    "as_sql",
    "common_type",
    "computed_decimal",
    "decimal_type",
    "decode",
    "decode_rows",
    "encode",
    "fits",
    "holds_all",
    "length_of",
    "logical_name",
    "of_logical",
    "optional_of",
    "row_as_sql",
    "shown",
    "shown_rows",
    "struct_of",
    "struct_type",
    "written_type",
]

SqlValue: TypeAlias = (
    "int | float | str | bytes | bool | Decimal | date | time | datetime | uuid.UUID | Interval "
    "| Sequence[SqlValue] | Mapping[str, SqlValue] | None"
)


class Struct(tuple[Any, ...]):
    """A value of a STRUCT: those of its fields, which hash and sort as they do, and their names."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: tuple[str, ...], values: Iterable[Any]) -> Struct:
        """The values of the fields of these names."""
        struct = cls(values)
        struct.names = names
        return struct

    def __repr__(self) -> str:
        return repr(dict(zip(self.names, self, strict=True)))

    @staticmethod
    def parts(value: Any, names: tuple[str, ...]) -> tuple[Any, ...] | None:
        """What a value has for fields of these names: by name if it has any; None if it has not.

        Names are compared as those of columns are (`as_columns`).
        """
        if isinstance(value, Struct) and value.names != names:
            value = dict(zip(value.names, value, strict=True))
        if isinstance(value, Mapping):
            if value.keys() != set(names) and all(isinstance(name, str) for name in value):
                value = dict(zip(as_columns(value, names), value.values(), strict=True))
            return tuple(value[name] for name in names) if value.keys() == set(names) else None
        return value if isinstance(value, tuple) and len(value) == len(names) else None


@dataclass(frozen=True, slots=True, eq=False)
class SqlType:
    """One type of SQL.

    There is one object for each type, so types are compared by identity: values are checked by type
    one by one, and comparing fields was a seventh of the time of an insert (cProfile).

    Attributes:
        base: the engine's type.
        code: how the engine holds a value; types of one code need no conversion.
        write: the engine's value for one of SQL; None for what is none of the type's. One call for
            both: each looked at the value, which was a tenth of an INSERT of sixteen.
        read: the way back; None where the two are the same.
        bits: of a whole number; 0 for others.
        digits, scale: of a DECIMAL, in all and behind the point; 0 for others.
        element: the type of an array's elements; None for others.
        fields: of a STRUCT, each with its name; none for others.
        of: the type of rules that has its values, and is held as it is; None where that is a base
            type, or there is none.
        length: what of a value is compared, where equal ones are held in several forms; None where
            equal values are held alike, as all types but INTERVAL have them.
    """

    name: str
    base: BaseType
    code: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any] | None = None
    bits: int = 0
    digits: int = 0
    scale: int = 0
    element: SqlType | None = None
    fields: tuple[tuple[str, SqlType], ...] = ()
    of: LogicalType | None = None
    length: Callable[[Any], int] | None = None

    def __reduce__(self) -> Any:
        """As what makes it: there is one object for each type in a worker's process, too."""
        if self.element is not None:
            return array_type, (self.element,)
        if self.fields:
            return struct_type, (self.fields,)
        if self.is_decimal:
            return decimal_type, (self.digits, self.scale)
        return _plain_type, (self.name,)

    def holds(self, value: SqlValue) -> bool:
        """Whether a value that is not NULL is one of the type's."""
        return self.write(value) is not None

    @property
    def is_integer(self) -> bool:
        """Whether its values are whole numbers."""
        return self.bits > 0

    @property
    def is_decimal(self) -> bool:
        """Whether it is a DECIMAL."""
        return self.digits > 0

    @property
    def precision(self) -> int:
        """How many digits the whole numbers or decimals of it have at most."""
        return {16: 5, 32: 10, 64: 19}.get(self.bits, self.digits)

    @property
    def is_wide(self) -> bool:
        """Whether it is a DECIMAL whose values the engine has as texts."""
        return self.base == "symbol" and self.digits > 0

    @property
    def is_exact(self) -> bool:
        """Whether its values are whole numbers or decimals that the engine has as numbers."""
        return self.base == "number" and (self.bits > 0 or 0 < self.digits <= NARROW_DIGITS)

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic takes its values."""
        return self.bits > 0 or self.digits > 0 or self.base == "float"

    @property
    def is_nested(self) -> bool:
        """Whether its values are made of others: arrays and structs."""
        return self.element is not None or bool(self.fields)

    def has(self, kind: SqlType) -> bool:
        """Whether it is a type, or one of what its values are made of is."""
        return self is kind or any(part.has(kind) for part in self.parts)

    @property
    def parts(self) -> list[SqlType]:
        """What its values are made of: the type of an array's elements, those of fields."""
        return [of for _, of in self.fields] if self.element is None else [self.element]

    @property
    def is_key(self) -> bool:
        """Whether equal values are held alike, and what they are made of: a key may be of it."""
        return self.length is None and all(part.is_key for part in self.parts)

    @property
    def is_time(self) -> bool:
        """Whether its values are days or moments."""
        return self in _TIMES

    @property
    def zero(self) -> int | float | str:
        """The engine's value that stands where a column has no meaning."""
        symbol = as_text(0) if self.is_wide else _NONE.get(self, "")
        zeros: dict[BaseType, int | float | str] = {"float": 0.0, "symbol": symbol}
        return zeros.get(self.base, 0)


def _whole(bits: int) -> Callable[[Any], Any]:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(value: Any) -> Any:
        if isinstance(value, int) and least <= value <= most and not isinstance(value, bool):
            return value
        return None

    return write


def _real(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _one_nan(value)
    return None


def _text(value: Any) -> Any:
    return value if isinstance(value, str) and (value.isascii() or encodable(value)) else None


def _one_nan(value: float) -> float:
    """The value as a float; NaN as one object, equal to itself as a key and in a row."""
    return float(value) if value == value else math.nan  # noqa: PLR0124  NaN


SMALLINT: Final = SqlType("SMALLINT", "number", "whole", _whole(16), bits=16)
INTEGER: Final = SqlType("INTEGER", "number", "whole", _whole(32), bits=32)
BIGINT: Final = SqlType("BIGINT", "number", "whole", _whole(64), bits=64)
DOUBLE: Final = SqlType("DOUBLE", "float", "float", _real, _one_nan)
TEXT: Final = SqlType("TEXT", "symbol", "text", _text)


def _of_rules(name: str, code: str) -> SqlType:
    """The type with the values of a logical one of rules."""
    kind = logical_type(name)
    assert kind is not None  # noqa: S101  it is one
    return SqlType(
        name.upper(), kind.base, code, kind.write, kind.read, 0, kind.digits, kind.scale, of=kind
    )


BOOLEAN: Final = _of_rules("boolean", "truth")
DATE: Final = _of_rules("date", "days")
TIME: Final = _of_rules("time", "microseconds of a day")
TIMESTAMP: Final = _of_rules("timestamp", "microseconds")
TIMESTAMPTZ: Final = _of_rules("timestamptz", "microseconds of UTC")
BLOB: Final = _of_rules("blob", "bytes")
UUID: Final = _of_rules("uuid", "uuid")
INTERVAL: Final = SqlType(
    "INTERVAL", "symbol", "interval", intervals.as_text, intervals.from_text, length=intervals.size
)
NULL: Final = SqlType("NULL", "number", "nothing", lambda _: None)
"""The type of NULL where nothing else says one; it fits every type."""

_NONE: Final = {INTERVAL: INTERVAL.write(Interval()), UUID: str(uuid.UUID(int=0))}
"""Of types whose values are texts, and not any text."""

BEYOND: Final = SqlType("DECIMAL", "number", "beyond", lambda _: None, digits=MOST_DIGITS + 1)
"""That of numbers as they are written with more digits: they are compared and cast, exactly.

No column has it, and no other expression.
"""


@cache
def decimal_type(digits: int, scale: int) -> SqlType:
    """DECIMAL(digits, scale): one object for each, of at most 38 digits."""
    digits = min(max(digits, scale, 1), MOST_DIGITS)
    code = f"wide decimal {scale}" if digits > NARROW_DIGITS else f"decimal {scale}"
    return _of_rules(f"decimal({digits}, {scale})", code)


def computed_decimal(digits: int, scale: int, *given: SqlType) -> SqlType:
    """The DECIMAL that is computed of values of some types.

    It has more than 18 digits only where one of them has, or where there are more behind the point:
    what is computed of the engine's numbers is one.
    """
    is_wide = scale > NARROW_DIGITS or any(kind.is_wide for kind in given)
    return decimal_type(digits if is_wide else min(digits, NARROW_DIGITS), scale)


@cache
def array_type(element: SqlType) -> SqlType:
    """The type of arrays of elements of a type, which may be NULL: tuples."""
    base, write, read = element.base, element.write, element.read

    def written(values: Any) -> str | None:
        if not isinstance(values, list | tuple):
            return None
        encoded = [None if value is None else write(value) for value in values]
        if any(
            code is None and value is not None for code, value in zip(encoded, values, strict=True)
        ):
            return None
        return packed(base, encoded)

    def parsed(text: str) -> tuple[Any, ...]:
        values = unpacked(base, text)
        if read is None:
            return values
        return tuple(None if value is None else read(value) for value in values)

    return SqlType(
        f"{element.name}[]",
        "symbol",
        f"{element.code}[]",
        written,
        parsed,
        element=element,
    )


@cache
def struct_type(fields: tuple[tuple[str, SqlType], ...]) -> SqlType:
    """STRUCT(name type, ...): a mapping of these names, or a tuple; values may be NULL."""
    names = tuple(name for name, _ in fields)
    kinds = tuple(kind for _, kind in fields)
    bases = tuple(kind.base for kind in kinds)

    def written(value: Any) -> str | None:
        parts = Struct.parts(value, names)
        if parts is None:
            return None
        encoded = [None if p is None else k.write(p) for k, p in zip(kinds, parts, strict=True)]
        if any(
            code is None and value is not None for code, value in zip(encoded, parts, strict=True)
        ):
            return None
        return packed(bases, encoded)

    def parsed(text: str) -> Struct:
        pairs = zip(kinds, unpacked(bases, text), strict=True)
        return Struct.of(
            names,
            (
                value if value is None or kind.read is None else kind.read(value)
                for kind, value in pairs
            ),
        )

    shown = (f"{_quoted(name)} {kind.name}" for name, kind in fields)
    codes = (f"{_quoted(name)} {kind.code}" for name, kind in fields)
    return SqlType(
        f"STRUCT({', '.join(shown)})",
        "symbol",
        f"STRUCT({', '.join(codes)})",
        written,
        parsed,
        fields=fields,
    )


def _quoted(name: str) -> str:
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


_NULLABLE: Final[dict[str, str]] = {
    base: f"nullable_{base}" for base in ("number", "float", "symbol")
}

NULLABLE_TYPES: Final = tuple(
    TypeDecl(name, "record", branches=(Constructor("", (Attribute("value", base),)),))
    for base, name in _NULLABLE.items()
)
"""The engine's types of nullable columns: every program has them."""


def _native(base: str, nullable: str) -> tuple[FunctorDecl, ...]:
    value, record = Attribute("value", base), Attribute("record", nullable)
    other, condition = Attribute("other", base), Attribute("condition", "number")
    shapes = {
        "there": ((record,), "number"),
        "or": ((record, other), base),
        "when": ((condition, value), nullable),
        "pick": ((condition, value, other), base),
        "same": ((value, other), "number"),
        "less": ((value, other), "number"),
        "like": ((value, other), "number"),
    }
    declared = (
        FunctorDecl(f"~{name}_{base}", *shape, partial=False) for name, shape in shapes.items()
    )
    return tuple(functor for functor in declared if functor.name in NATIVE)


NATIVE_FUNCTORS: Final = {
    functor.name: functor
    for base, nullable in _NULLABLE.items()
    for functor in _native(base, nullable)
}
"""What the engine does with conditions and nullable values by itself (`rules.values.NATIVE`)."""

_TIMES: Final = (DATE, TIMESTAMP, TIMESTAMPTZ)
"""Each converts to those after it; a timestamp without a zone is one of UTC."""

_NAMES: Final = {
    "SMALLINT": SMALLINT,
    "INT": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "TEXT": TEXT,
    "VARCHAR": TEXT,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "BINARY": BLOB,
    "VARBINARY": BLOB,
    "UUID": UUID,
}
_SPELLED: Final = ("INTEGER", "DECIMAL", *(name for name in _NAMES if name != "TIMESTAMPNTZ"))
"""Names that a misspelt one may have been meant for."""
_BY_NAME: Final = {kind.name: kind for kind in (*_NAMES.values(), NULL)}
_WAY_OUT = (
    "types are SMALLINT, INTEGER, BIGINT, DOUBLE, DECIMAL(18, 4), TEXT, VARCHAR, BOOLEAN, "
    "DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, BLOB, UUID, arrays of these: INTEGER[], "
    "INTEGER[][], and STRUCT(a INTEGER, b TEXT)"
)
_KEPT_AS_TEXT = "keep it as TEXT: in DuckDB's dialect x ->> '$.a' reads it; or as STRUCT(a INTEGER)"
_INSTEAD: Final = {
    "JSON": _KEPT_AS_TEXT,
    "JSONB": _KEPT_AS_TEXT,
    **dict.fromkeys(
        ("CHAR", "VARCHAR", "NVARCHAR", "BPCHAR"),
        "write TEXT; of a column or a CAST also VARCHAR(9): blanks behind a text are its own",
    ),
    "DECIMAL": "write its digits: DECIMAL(18, 4)",
    "INT128": f"write BIGINT, or DECIMAL({MOST_DIGITS}, 0)",
    "FLOAT": "write DOUBLE",
    **dict.fromkeys(("TINYINT", "UTINYINT"), "write SMALLINT"),
    "TIMETZ": "write TIME, or TIMESTAMPTZ with its day",
    "ENUM": "keep it as TEXT with CHECK (x IN ('a', 'b')); where it is sorted, CASE says the order",
    "UUID": "keep it as TEXT: in small letters, texts are equal and sorted as UUIDs are",
    **dict.fromkeys(
        ("SERIAL", "BIGSERIAL", "SMALLSERIAL"), "write BIGINT, and give each row its number"
    ),
}
"""What to write for a type that is none here."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, a view or a result."""

    name: str
    type: SqlType
    nullable: bool = True

    @property
    def engine_type(self) -> str:
        """The name of the engine's type for its values."""
        return _NULLABLE[self.type.base] if self.nullable else self.type.base

    def attribute(self, name: str) -> Attribute:
        """The engine's column."""
        return Attribute(name, self.engine_type)

    def encode(self, value: SqlValue) -> Any:
        """The engine's value. Raises ValueError, saying what would be valid."""
        return encode(value, self.type, nullable=self.nullable)


def _plain_type(name: str) -> SqlType:
    return _BY_NAME[name]


def length_of(written: exp.Expr | None) -> int | None:
    """How many characters a VARCHAR(n) has at the most; None of other types."""
    is_text = isinstance(written, exp.DataType) and written.this.name == "VARCHAR"
    sizes = written.expressions if is_text and written is not None else []
    text = sizes[0].name if len(sizes) == 1 else ""
    return int(text) if text.isdigit() and int(text) else None


def written_type(
    statement: Statement, written: exp.Expr | None, node: exp.Expr, *, bounded: bool = False
) -> SqlType:
    """The type that a column or a cast names; `bounded` is whether who asks sees to its length.

    Raises SqlRefusedError.
    """
    if bounded and length_of(written) is not None:
        return TEXT
    if isinstance(written, exp.DataType):
        if written.this.name in ("ARRAY", "LIST") and not written.args.get("values"):
            inner = written.expressions[0] if len(written.expressions) == 1 else None
            element = written_type(statement, inner, node)
            return array_of(element, statement, node)
        if written.this.name == "STRUCT" and written.expressions:
            return _written_struct(statement, written, node)
        sizes = [str(size.name) for size in written.expressions]
        kind = _NAMES.get(written.this.name)
        if written.this.name == "DECIMAL" and sizes and all(map(str.isdigit, sizes)):
            digits, scale = int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0
            if 0 < digits <= MOST_DIGITS and scale <= digits:
                return decimal_type(digits, scale)
            way_out = f"a DECIMAL has 1 to {MOST_DIGITS} digits, and no more behind the point"
            raise statement.refused(f"type {written.sql()}", node, way_out)
        is_there = kind not in (TIME, UUID) or statement.dialect != "spark"
        sizes = [] if kind is TEXT and statement.dialect == "duckdb" else sizes  # it has no lengths
        if kind is not None and not sizes and is_there:
            return kind
    shown = "none" if written is None else written.sql()
    name = shown.partition("(")[0]
    close = suggest(name.upper(), _SPELLED, 0.7)
    otherwise = _WAY_OUT if close in (None, name.upper()) else f"did you mean {close}?"
    way_out = _INSTEAD.get(name, otherwise)
    raise statement.refused(f"type {shown}", statement.word(name, node), way_out)


def _written_struct(statement: Statement, written: exp.Expr, node: exp.Expr) -> SqlType:
    fields = []
    for field in written.expressions:
        if not isinstance(field, exp.ColumnDef) or field.args.get("constraints"):
            way_out = "name each field, and its type: STRUCT(a INTEGER, b TEXT)"
            raise statement.refused(f"type {written.sql()}", node, way_out)
        fields.append((str(field.name), written_type(statement, field.args.get("kind"), node)))
    return struct_of(fields, statement, node)


def struct_of(
    fields: Sequence[tuple[str, SqlType]], statement: Statement, node: exp.Expr
) -> SqlType:
    """The type of structs that a statement makes. Raises SqlProgrammingError."""
    names = [name for name, _ in fields]
    twice = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if twice is not None or not names:
        message = "a STRUCT without fields" if twice is None else f"two fields {twice!r}"
        raise statement.wrong(message, node, "give each field a name of its own")
    return struct_type(tuple(fields))


def array_of(element: SqlType, statement: Statement, node: exp.Expr) -> SqlType:
    """The type of arrays that a statement makes. Raises SqlRefusedError."""
    if element.element is not None and statement.dialect == "postgres":
        what = "an array of arrays, which PostgreSQL takes for one of two dimensions,"
        way_out = "keep the inner arrays in a table of their own"
        raise statement.refused(what, node, way_out)
    return array_type(element)


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type to which both convert without loss of meaning, or None."""
    if right in (left, NULL):
        return left
    if left is NULL:
        return right
    if left.is_numeric and right.is_numeric:
        if DOUBLE in (left, right):
            return DOUBLE
        if left.is_decimal or right.is_decimal:
            scale = max(left.scale, right.scale)
            return decimal_type(scale + max(_whole_digits(left), _whole_digits(right)), scale)
        return left if left.bits > right.bits else right
    if left.element is not None and right.element is not None:
        element = common_type(left.element, right.element)
        return None if element is None else array_type(element)
    if [name for name, _ in left.fields] == [name for name, _ in right.fields] != []:
        fields = []
        for (name, kind), (_, other) in zip(left.fields, right.fields, strict=True):
            both = common_type(kind, other)
            if both is None:
                return None
            fields.append((name, both))
        return struct_type(tuple(fields))
    if left.is_time and right.is_time:
        return max(left, right, key=_TIMES.index)
    return None


_PLAIN: Final = {"number": BIGINT, "float": DOUBLE, "symbol": TEXT}


def of_logical(kind: LogicalType) -> SqlType:
    """The type of SQL with the values of one that rules name."""
    if kind.is_decimal:
        return decimal_type(kind.digits, kind.scale)
    return _PLAIN.get(kind.inner) or _BY_NAME[kind.inner.upper()]


def logical_name(kind: SqlType, *, nullable: bool) -> str:
    """What rules call a type: a logical one, or that of the engine."""
    name = kind.base if kind.of is None else kind.of.name
    return f"{name}?" if nullable else name


def optional_of(kind: SqlType) -> LogicalType:
    """The type of rules with the values of one of SQL, and with missing ones."""
    logical = logical_type(logical_name(kind, nullable=True))
    assert logical is not None  # noqa: S101  each has one
    return logical


def holds_all(kind: SqlType, other: SqlType) -> bool:
    """Whether a common type has room for every value of a type: a DECIMAL has no 39th digit."""
    return not kind.is_decimal or _whole_digits(other) <= kind.digits - kind.scale


def _whole_digits(kind: SqlType) -> int:
    """The digits before the point."""
    return kind.precision - kind.scale


def fits(value: SqlValue, kind: SqlType) -> bool:
    """Whether a value that is not NULL is one of the type's."""
    return kind.holds(value)


def encode(value: SqlValue, kind: SqlType, *, nullable: bool) -> Any:
    """The engine's value for a value of SQL. Raises ValueError, saying what would be valid."""
    if value is None:
        if nullable:
            return None
        raise ValueError("NULL in a column that is NOT NULL")
    written = kind.write(value)
    if written is None:
        raise ValueError(_misfit(value, kind))
    return (written,) if nullable else written


def _misfit(value: Any, kind: SqlType, path: str = "") -> str:
    """Why a value is none of a type: what of it is not, and what would be valid there."""
    parts: Iterable[tuple[str, Any, SqlType]] = ()
    if kind.element is not None and isinstance(value, list | tuple):
        parts = ((f"[{n}]", element, kind.element) for n, element in enumerate(value, 1))
    names = tuple(name for name, _ in kind.fields)
    values = Struct.parts(value, names) if names else None
    if values is not None:
        parts = (
            (f".{name}", part, of) for (name, of), part in zip(kind.fields, values, strict=True)
        )
    for step, part, of in parts:
        if part is not None and not of.holds(part):
            return _misfit(part, of, path + step)
    valid = f"whole numbers of {kind.bits} bits" if kind.is_integer else kind.name
    valid = _PYTHON.get(kind, valid)
    if kind.is_decimal and isinstance(value, float | str):
        valid = _decimals(value, kind)
    text = str(value) if isinstance(value, Decimal) else repr(shown(value))
    message = f"{text} is no {kind.name}" + (f" at {path}" if path else "")
    given = value.names if isinstance(value, Struct) else value
    if names and isinstance(value, Struct | Mapping):
        lacks = ", ".join(name for name in names if name not in given)
        more = ", ".join(str(name) for name in given if name not in names)
        return f"{message}: no value for {lacks}" if lacks else f"{message}: it has no field {more}"
    return f"{message}; {'that place' if path else 'the column'} takes {valid}"


def _decimals(value: float | str, kind: SqlType) -> str:
    """What a column of decimals takes, instead of a float or a text."""
    try:
        quantized = DECIMALS.quantize(Decimal(str(value)), Decimal(1).scaleb(-kind.scale))
        like = f'decimal.Decimal("{quantized}")' if kind.holds(quantized) else "decimal.Decimal"
    except decimal.InvalidOperation:
        like = "decimal.Decimal"
    arrow = f"pyarrow.decimal128({kind.digits}, {kind.scale})"
    valid = f"{like}, in Arrow {arrow} (pyarrow.compute.cast)"
    if not isinstance(value, float):
        return valid
    return f"{valid}; a float is only near what it shows: in SQL, CAST(... AS {kind.name})"


_PYTHON: Final = {
    TEXT: "str",
    BOOLEAN: "bool",
    DOUBLE: "float, int or decimal.Decimal",
    DATE: "datetime.date",
    TIME: "datetime.time without a zone",
    TIMESTAMP: "datetime.datetime without a zone",
    TIMESTAMPTZ: "datetime.datetime with a zone, of a year between 1 and 9999 in UTC",
    BLOB: "bytes",
    UUID: "uuid.UUID, or its text",
    INTERVAL: "deltafix.sql.Interval, datetime.timedelta, or Arrow's of whole microseconds",
}


def decode(value: Any, column: Column) -> SqlValue:
    """The value of SQL for an engine's value."""
    if column.nullable:
        if value is None:
            return None
        (value,) = value
    read = column.type.read
    return value if read is None else read(value)  # type: ignore[no-any-return]


def decode_rows(rows: Iterable[Row], columns: Iterable[Column]) -> list[tuple[SqlValue, ...]]:
    """Rows of the engine as rows of SQL: the first columns of each."""
    shape = tuple(columns)
    return [tuple(map(decode, row, shape)) for row in rows]


def shown(value: Any) -> Any:
    """A value as callers have it: lists and dicts; inside, arrays and structs hash."""
    if isinstance(value, Struct):
        return dict(zip(value.names, map(shown, value), strict=True))
    return list(map(shown, value)) if isinstance(value, tuple) else value


def shown_rows(
    rows: list[tuple[SqlValue, ...]], columns: Iterable[Column] | None
) -> list[tuple[SqlValue, ...]]:
    """Rows as callers have them, of these columns, or of several sorts of them."""
    if columns is not None and not any(column.type.is_nested for column in columns):
        return rows
    return [tuple(map(shown, row)) for row in rows]


def as_sql(value: SqlValue) -> str:
    """A value as errors have it: as SQL writes it."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        if not value.isprintable():
            return repr(value)  # in one line
        return "'" + value.replace("'", "''") + "'"
    is_nested = isinstance(value, list | tuple | Mapping)
    return as_json(shown(value)) if is_nested else plain_text(value)


def row_as_sql(row: Iterable[SqlValue]) -> str:
    """A row as errors have it."""
    return f"({', '.join(map(as_sql, row))})"
