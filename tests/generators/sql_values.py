"""Values of every type of SQL, chosen and at random, for tests of the doors that they go through.

Invariant: a value equals another one by `told` only where it is the same, of the same type.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any
from uuid import UUID

from deltafix.sql import Interval
from deltafix.sql.types import SqlType

__all__ = [
    "VALUES",
    "drawn_float",
    "drawn_kind",
    "drawn_names",
    "drawn_number",
    "drawn_scalar",
    "drawn_text",
    "drawn_value",
    "in_arrow",
    "sent",
    "told",
]

MOMENTS = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12)]
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "SMALLINT": [-(2**15), 2**15 - 1, 0, None],
    "INTEGER": [-(2**31), 2**31 - 1, None],
    "BIGINT": [-(2**63), 2**63 - 1, 2**53 + 1, None],
    "DOUBLE": [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1, 1e22, None],
    "VARCHAR": ["", "NULL", "null", "\\N", 'a,"b"\n\tc', "é😀\x00x", "  s ", "\\x00", "[1]", None],
    "DATE": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None],
    "TIME": [time(), time(23, 59, 59, 999999), time(10, 20), None],
    "TIMESTAMP": [*MOMENTS, LAST, None],
    "TIMESTAMPTZ": [*(one.replace(tzinfo=UTC) for one in (*MOMENTS, LAST)), None],
    "DECIMAL(18, 6)": [
        Decimal("-123456789012.123456"),
        Decimal("0.000001"),
        Decimal("0.000000"),
        None,
    ],
    "DECIMAL(18, 0)": [Decimal(10**18 - 1), Decimal(1 - 10**18), None],
    "DECIMAL(19, 0)": [Decimal(10**19 - 1), Decimal(1 - 10**19), Decimal(0), Decimal(7), None],
    "DECIMAL(38, 10)": [
        Decimal("-1234567890123456789012345678.0123456789"),
        Decimal("0.0000000001"),
        Decimal(0).scaleb(-10),
        None,
    ],
    "DECIMAL(38, 0)": [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(2**64), None],
    "DECIMAL(38, 38)": [Decimal(f"0.{'9' * 38}"), Decimal(f"-0.{'0' * 37}1"), None],
    "DECIMAL(4, 4)": [Decimal("0.9999"), Decimal("-0.0001"), None],
    "BLOB": [b"", b"\x00\xff", b"abc", None],
    "UUID": [UUID(int=0), UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), UUID(int=2**128 - 1), None],
    "BOOLEAN[]": [[True, None, False], [], None],
    "BIGINT[]": [[], [1, None, 2**63 - 1], [None], None],
    "DOUBLE[]": [[math.nan, math.inf, None, 0.1], None],
    "VARCHAR[]": [[], ["", 'a,"b"', "null", None], None],
    "DATE[]": [[date(1969, 1, 1), None], [], None],
    "TIME[]": [[time(10, 20, 30, 5), None], [], None],
    "TIMESTAMPTZ[]": [[MOMENTS[1].replace(tzinfo=UTC), None], [], None],
    "DECIMAL(10, 3)[]": [[Decimal("1.250"), None], [], None],
    "DECIMAL(38, 2)[]": [[Decimal(f"{10**36 - 1}.25"), None, Decimal("-1.50")], [], None],
    "BLOB[]": [[b"\x00", None, b""], [], None],
    "UUID[]": [[UUID(int=7), None], [], None],
    "BIGINT[][]": [[[1], [], None, [None]], [], None],
    "STRUCT(a INTEGER, b VARCHAR)": [{"a": 1, "b": ""}, {"a": None, "b": None}, None],
    "STRUCT(a DATE, b STRUCT(c DECIMAL(9, 2), d BLOB), e TIMESTAMP[])": [
        {"a": date(1, 1, 1), "b": {"c": Decimal("1.25"), "d": b"\x00"}, "e": [MOMENTS[0], None]},
        {"a": None, "b": None, "e": []},
        None,
    ],
    "STRUCT(a DECIMAL(30, 1), b INTEGER)": [
        {"a": Decimal("12345678901234567890123456789.5"), "b": 1},
        {"a": None, "b": None},
        None,
    ],
    "STRUCT(x BIGINT)[]": [[{"x": 2**53 + 1}, None, {"x": None}], [], None],
}


def told(value: Any) -> Any:
    """A value that equals another one only where it is the same, of the same type."""
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    if isinstance(value, datetime):  # Arrow has UTC under another name
        return datetime, value.replace(tzinfo=None), value.utcoffset()
    return type(value), repr(value)


def sent(value: Any) -> Any:
    """A value as outputs have it: times are texts there, and UUIDs."""
    if isinstance(value, list):
        return [*map(sent, value)]
    value = in_arrow(value)
    return value.isoformat() if isinstance(value, time) else value


def in_arrow(value: Any) -> Any:
    """A value as Arrow has it: UUIDs are texts there."""
    if isinstance(value, list | tuple):
        return [*map(in_arrow, value)]
    if isinstance(value, dict):
        return {key: in_arrow(one) for key, one in value.items()}
    return str(value) if isinstance(value, UUID) else value


_PIECES = (
    *(
        "",
        " ",
        "a",
        '"',
        "'",
        "\n",
        "\r\n",
        "\r",
        "\t",
        ",",
        ";",
        "\\",
        "\\n",
        "\\N",
        "\\x",
        "\x00",
    ),
    *("é", "e\u0301", "😀", "\ufeff", "\u2028", "\x85", "\x1a", "\x0b", "\x7f", "[", "]", "{", "}"),
    *("NULL", "null", "nil", "nan", "true", "-1", "$A", "--", "%", "/", "|", "="),
)
"""What readers of one form or another take for something else than a text."""
_NAMES = ("a", "b", "c d", "é", 'x"y', "select", "1a", "q'q", "k,v", "A", "ß", "a.b", "nil", "{")
_SCALARS = (
    *("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "TEXT", "TEXT", "DATE", "TIME"),
    *("TIMESTAMP", "TIMESTAMPTZ", "DECIMAL", "BLOB", "INTERVAL", "UUID"),
)
_FLOATS = (
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    0.1,
    1e22,
    1e16,
)
_CLOCKS = (time.min, time.max, time(0, 0, 0, 1), time(10, 20))
_EXACT = Context(prec=60)


def drawn_names(random: Random, count: int) -> list[str]:
    """Names of columns or fields, as SQL quotes them; no two are one without capitals."""
    names: dict[str, str] = {}
    while len(names) < count:
        name = random.choice(_NAMES)
        names.setdefault(name.lower(), name)
    return ['"' + name.replace('"', '""') + '"' for name in names.values()]


def drawn_kind(random: Random, depth: int = 3) -> str:
    """A type as SQL writes it: arrays and structs are so deep in each other at the most."""
    share = random.random() if depth else 0.0
    if share < 0.6:
        kind = random.choice(_SCALARS)
        digits = random.choice((1, 4, 9, 17, 18, 19, 20, 37, 38))
        scale = random.choice((0, 1, digits // 2, digits))
        return f"DECIMAL({digits}, {scale})" if kind == "DECIMAL" else kind
    if share < 0.8:
        return f"{drawn_kind(random, depth - 1)}[]"
    names = drawn_names(random, random.choice((1, 1, 2, 3)))
    return f"STRUCT({', '.join(f'{name} {drawn_kind(random, depth - 1)}' for name in names)})"


def drawn_text(random: Random) -> str:
    """A text of pieces that have a meaning to some reader."""
    return "".join(random.choices(_PIECES, k=random.choice((0, 1, 1, 2, 3, 5))))


def drawn_number(random: Random, bits: int, *, signed: bool = True) -> int:
    """A whole number of so many bits, often at an end of these."""
    least = -(1 << bits - 1) if signed else 0
    most = least + (1 << bits) - 1
    return random.choice((0, 1, least, most, random.randint(least, most)))


def drawn_float(random: Random) -> float:
    """A float, often an odd one."""
    (any_bits,) = struct.unpack("d", random.randbytes(8))
    return random.choice((*_FLOATS, any_bits, float(random.randrange(-5, 5))))


def drawn_scalar(random: Random, kind: str) -> Any:
    """A value of one of the types that SQL and rules have under one name, in small letters."""
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "date":
        any_day = date.fromordinal(random.randrange(1, date.max.toordinal()))
        return random.choice((date.min, date.max, date(1970, 1, 1), date(1969, 12, 31), any_day))
    if kind == "time":
        any_clock = (datetime.min + timedelta(microseconds=random.randrange(86_400 * 10**6))).time()
        return random.choice((*_CLOCKS, any_clock))
    if kind in ("timestamp", "timestamptz"):
        zone = UTC if kind == "timestamptz" else None
        day, clock = drawn_scalar(random, "date"), drawn_scalar(random, "time")
        return datetime.combine(day, clock, zone)
    if kind == "blob":
        return random.choice((b"", b"\x00", b"\\x00", b"abc", random.randbytes(3)))
    if kind == "uuid":
        return UUID(int=random.choice((0, 2**127, 2**128 - 1, random.getrandbits(128))))
    digits, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
    most = 10**digits - 1
    whole = random.choice((0, 1, -1, most, -most, random.randint(-most, most)))
    return _EXACT.scaleb(Decimal(whole), -scale)


def drawn_value(random: Random, kind: SqlType, *, nullable: bool = True) -> Any:
    """A value of a type, as callers give it."""
    if nullable and random.random() < 0.15:
        return None
    if kind.element is not None:
        return [drawn_value(random, kind.element) for _ in range(random.choice((0, 1, 1, 2, 4)))]
    if kind.fields:
        return {name: drawn_value(random, of) for name, of in kind.fields}
    if kind.is_integer:
        return drawn_number(random, kind.bits)
    if kind.name == "INTERVAL":
        months, days = random.randrange(-99, 99), random.choice((0, 1, -1, 31, 10**6))
        return Interval(months, days, random.choice((0, -1, 86_400 * 10**6, 10**12 + 1)))
    if kind.name == "DOUBLE":
        return drawn_float(random)
    return drawn_text(random) if kind.name == "TEXT" else drawn_scalar(random, kind.name.lower())
