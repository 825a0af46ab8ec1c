"""Values of every type of SQL, for tests of the doors that they go through.

Invariant: a value equals another one by `told` only where it is the same, of the same type.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

__all__ = ["VALUES", "sent", "told"]

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
    """A value as outputs have it: times are texts there."""
    if isinstance(value, list):
        return [*map(sent, value)]
    return value.isoformat() if isinstance(value, time) else value
