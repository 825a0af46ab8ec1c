"""Logical types: values of tables that the engine holds as numbers or texts, and how.

`boolean`, `date`, `time`, `timestamp`, `timestamptz`, `decimal(p, s)`, `blob` and `uuid`, as SQL
has them, and of each, and of `number`, `float` and `symbol`, the type with a question mark whose
values may be missing: None in Python, NULL in tables, `nil` in rules, where `[x]` opens those that
are there. The engine holds days and microseconds since 1970, microseconds since midnight, 0 and 1,
hexadecimal digits (of a UUID in small letters, with hyphens), units of the last digit (of more than
18 digits as the texts of `facts.wide`), and what may be missing as a record of one field.
Invariant: `write` and `read` are inverse on the values that a type has and keep their order;
`write` refuses all others and rounds nothing. `deltafix.sql.types` has the same values under SQL's
names. Nothing here imports pyarrow: whole columns are `facts.logical_arrow`'s.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from math import isfinite
from typing import Any, Final
from uuid import UUID

from deltafix.facts.values import (
    FLOAT_DIGITS,
    OPTIONAL,
    BaseType,
    fitting,
    logical_text,
    read_real,
    read_whole,
    show_value,
    unquoted,
    valid_values,
)
from deltafix.facts.wide import as_number, as_text

DECIMALS: Final = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
"""Exact for sums and products of decimals, and rounding as SQL does where digits are cut."""

_UNROUNDED: Final = decimal.Context(
    prec=80, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
)
"""An error where a digit would be cut: a text may have any number of them."""

MOST_DIGITS: Final = 38
"""The digits of a decimal."""
NARROW_DIGITS: Final = 18
"""Up to which a decimal is a number of the engine: what 64 bits hold of any sign."""

OPTIONAL_BASES: Final[tuple[BaseType, ...]] = ("number", "float", "symbol")
"""The base types of which there is one whose values may be missing."""


@dataclass(frozen=True, slots=True, eq=False)
class LogicalType:
    """A logical type; one object for each, so they are compared by identity.

    Attributes:
        name: as programs write it, `date` or `decimal(10, 2)?`.
        base: the engine's type for it; `held` that of a value that is there.
        write: the engine's value for one of Python; None for what is none of the type's.
        read: the way back.
        parse: of text that is none of the type's it gives None.
        takes: what Python has for its values.
        like: a text of one.
        python: the class of a value that is there.
        nullable: whether a value may be missing; `write` and `read` are those of a value that is
            there.
    """

    name: str
    base: BaseType
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    parse: Callable[[str], Any]
    takes: str
    like: str
    python: type
    nullable: bool = False
    digits: int = 0
    scale: int = 0

    def __reduce__(self) -> Any:
        """As its name: there is one object for each type in a worker's process, too."""
        return logical_type, (self.name,)

    @property
    def inner(self) -> str:
        """The type of a value that is there."""
        return self.name.removesuffix("?")

    @property
    def held(self) -> BaseType:
        """The engine's type of a value that is there."""
        return OPTIONAL.get(self.base, self.base)

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal."""
        return self.digits > 0

    def written(self, like: str) -> str:
        """How one is written, as errors say it, with an example."""
        digits = f", of at most {self.digits} digits, {self.scale} of them behind the point"
        return f"{self.name} is written like {like}{digits * self.is_decimal}"

    @property
    def spelled(self) -> str:
        """A constant of it in a rule."""
        return self.like if self.inner in OPTIONAL_BASES or self.is_decimal else f'"{self.like}"'

    @property
    def is_wide(self) -> bool:
        """Whether it is a decimal that the engine has as texts (`facts.wide`)."""
        return self.digits > NARROW_DIGITS

    def encode(self, value: Any) -> Any:
        """The engine's value. Raises ValueError, saying what would be valid."""
        if value is None and self.nullable:
            return None
        physical = self.write(value)
        if physical is None:
            missing = only_optional(self.name) if value is None else ""
            raise ValueError(f"{self.name} takes {self.takes}{missing}")
        return (physical,) if self.nullable else physical

    def decode(self, value: Any) -> Any:
        """The value for one of the engine's."""
        if not self.nullable:
            return self.read(value)
        return None if value is None else self.read(value[0])

    def to_text(self, value: Any) -> str:
        """A value as a fact file has it, a missing one as `nil`; `from_text` reads it."""
        if value is None:
            return "nil"
        if self.inner == "symbol":
            return show_value(value) if value == "nil" or value[:1] == '"' else str(value)
        return repr(value) if self.inner in OPTIONAL_BASES else logical_text(value)

    def from_text(self, text: str) -> Any:
        """The value that a text is. Raises ValueError, saying how one is written."""
        if self.nullable and text == "nil":
            return None
        value = self.parse(text)
        if value is None or self.write(value) is None:
            raise ValueError(self.written(self.like + " or nil" * self.nullable))
        return value

    def to_json(self, value: Any) -> Any:
        """A value as JSON has it, a missing one as null: a text where JSON has no such value."""
        if value is None or isinstance(value, bool | int | str):
            return value
        return value if isinstance(value, float) and isfinite(value) else self.to_text(value)

    def from_json(self, value: Any) -> Any:
        """The inverse, of what JSON may have for it. Raises ValueError."""
        if isinstance(value, str) and self.inner != "symbol":
            return self.from_text(value)
        if self.is_decimal and isinstance(value, float):
            value = constant_of(self.inner, value)
            value = None if value is None else self.read(value)
        return self.decode(self.encode(value))


_FIRST: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_CLOCK: Final = re.compile(r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?", re.ASCII)
_DIGITS: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_HEX: Final = re.compile(r"(?:\\x)?((?:[0-9a-fA-F]{2})*)")
_UUID: Final = re.compile(r"(\{)?(?:[0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}(?(1)\})")
"""As PostgreSQL reads one: a hyphen behind any four digits, braces around all."""
_UUID_BYTES: Final = 16


def write_day(value: Any) -> int | None:
    """Days since 1970 of a date."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.toordinal() - _FIRST
    return None


def _read_day(days: int) -> date:
    """The date of days since 1970."""
    return date.fromordinal(days + _FIRST)


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _write_clock(value: Any) -> int | None:
    """Microseconds since midnight of a time without a zone."""
    if not isinstance(value, time) or value.tzinfo is not None:
        return None
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _read_clock(micros: int) -> time:
    """The time of microseconds since midnight, of which a day has no more."""
    return (_EPOCH + timedelta(microseconds=micros)).time()


def _parse_clock(text: str) -> time | None:
    try:
        return time.fromisoformat(text) if _CLOCK.fullmatch(text) else None
    except ValueError:
        return None


def _write_moment(epoch: datetime) -> Callable[[Any], int | None]:
    """Microseconds since an epoch, of moments that have a zone if that has one."""
    zoned = epoch.tzinfo is not None
    bounds = (bound.replace(tzinfo=epoch.tzinfo) - epoch for bound in (datetime.min, datetime.max))
    least, most = (bound // _MICROSECOND for bound in bounds)

    def write(value: Any) -> int | None:
        if isinstance(value, datetime) and (value.utcoffset() is not None) is zoned:
            if getattr(value, "nanosecond", 0) != 0:
                return None  # of pandas, whose moments have more digits
            micros = (value - epoch) // _MICROSECOND
            return micros if least <= micros <= most else None  # in UTC, where it is shown
        return None

    return write


def _read_moment(epoch: datetime) -> Callable[[int], datetime]:
    """The moment of microseconds since an epoch."""
    return lambda micros: epoch + timedelta(microseconds=micros)


def _parse_moment(*, zoned: bool) -> Callable[[str], datetime | None]:
    def parse(text: str) -> datetime | None:
        match = _MOMENT.fullmatch(text)
        if match is None or (match[1] is not None) is not zoned:
            return None
        try:
            value = datetime.fromisoformat(text)
            return value.astimezone(UTC) if zoned else value
        except (ValueError, OverflowError):
            return None

    return parse


def _write_truth(value: Any) -> int | None:
    """0 or 1 of a bool, Python's or numpy's."""
    is_truth = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    return int(value) if is_truth else None


def _write_decimal(digits: int, scale: int) -> Callable[[Any], Any]:
    """Units of the last digit of a Decimal or an int that has no more digits, as a text if many."""
    most, unit = 10**digits, 10**scale

    def write(value: Any) -> int | None:
        if isinstance(value, Decimal):
            try:
                unscaled = _UNROUNDED.scaleb(value, scale)
            except ArithmeticError:
                return None
            if not unscaled.is_finite() or not -most < unscaled < most:
                return None
            units = int(unscaled)
            return units if units == unscaled else None
        if isinstance(value, int) and not isinstance(value, bool):
            units = value * unit
            return units if -most < units < most else None
        return None

    def write_wide(value: Any) -> str | None:
        units = write(value)
        return None if units is None else as_text(units)

    return write if digits <= NARROW_DIGITS else write_wide


def _read_decimal(digits: int, scale: int) -> Callable[[Any], Decimal]:
    """The Decimal of units of the last digit, or of their text."""
    if digits > NARROW_DIGITS:
        return lambda text: DECIMALS.scaleb(Decimal(as_number(text)), -scale)
    return lambda units: DECIMALS.scaleb(Decimal(units), -scale)


def _parse_decimal(text: str) -> Decimal | None:
    return Decimal(text) if len(text) <= 80 and _DIGITS.fullmatch(text) else None


def _write_bytes(value: Any) -> str | None:
    """The hexadecimal digits of bytes."""
    return value.hex() if isinstance(value, bytes) else None


def _parse_bytes(text: str) -> bytes | None:
    match = _HEX.fullmatch(text)
    return None if match is None else bytes.fromhex(match[1])


def _write_uuid(value: Any) -> str | None:
    """A UUID's digits in small letters, with hyphens: texts that sort as the numbers do.

    Many doors have it as a text or as its bytes, as Arrow and drivers of databases do.
    """
    if isinstance(value, str):
        value = _parse_uuid(value)
    elif isinstance(value, bytes) and len(value) == _UUID_BYTES:
        value = UUID(bytes=value)
    return str(value) if isinstance(value, UUID) else None


def _parse_uuid(text: str) -> UUID | None:
    return UUID(text) if _UUID.fullmatch(text) else None


_PLAIN: Final = {
    kind.name: kind
    for kind in (
        LogicalType(
            "boolean", "number", _write_truth, bool, {"true": True, "false": False}.get,
            "a bool", "true", bool,
        ),
        LogicalType(
            "date", "number", write_day, _read_day, _parse_day, "a datetime.date", "2026-01-31",
            date,
        ),
        LogicalType(
            "time", "number", _write_clock, _read_clock, _parse_clock,
            "a datetime.time without a zone", "12:30:00", time,
        ),
        LogicalType(
            "timestamp", "number", _write_moment(_EPOCH), _read_moment(_EPOCH),
            _parse_moment(zoned=False),
            "a datetime.datetime without a zone, of whole microseconds", "2026-01-31 12:30:00",
            datetime,
        ),
        LogicalType(
            "timestamptz", "number", _write_moment(_EPOCH_UTC), _read_moment(_EPOCH_UTC),
            _parse_moment(zoned=True),
            "a datetime.datetime with a zone, of whole microseconds and, in UTC, of the years 1 to "
            "9999", "2026-01-31 12:30:00+00:00", datetime,
        ),
        LogicalType(
            "blob", "symbol", _write_bytes, bytes.fromhex, _parse_bytes, "bytes", "00ff",
            bytes,
        ),
        LogicalType(
            "uuid", "symbol", _write_uuid, UUID, _parse_uuid, "a uuid.UUID, or its text",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", UUID,
        ),
    )
}  # fmt: skip
NAMES: Final = (*_PLAIN, "decimal(p, s)")
"""The logical types whose values are there, as an error lists them."""
_SIZED: Final = re.compile(r"decimal\(([1-9]\d?), ?(\d{1,2})\)", re.ASCII)


@cache
def logical_type(name: str) -> LogicalType | None:
    """The logical type that a program writes so; None for a name of any other."""
    if name.endswith("?"):
        return _optional(name)
    sized = _SIZED.fullmatch(name)
    if sized is None:
        return _PLAIN.get(name)
    digits, scale = int(sized[1]), int(sized[2])
    if digits > MOST_DIGITS or scale > digits:
        return None
    shown_name = f"decimal({digits}, {scale})"
    if shown_name != name:
        return logical_type(shown_name)
    like = f"{'1' * min(digits - scale, 1) or '0'}{'.' if scale else ''}{'5' * scale}"
    base: BaseType = "number" if digits <= NARROW_DIGITS else "symbol"
    return LogicalType(
        name, base, _write_decimal(digits, scale), _read_decimal(digits, scale), _parse_decimal,
        f"a decimal.Decimal of at most {digits} digits, {scale} of them behind the point", like,
        Decimal, digits=digits, scale=scale,
    )  # fmt: skip


def only_optional(name: str) -> str:
    """What an error adds of a missing value, where there is a type like this one that has some."""
    return f"; only {name}? has missing values" if logical_type(f"{name}?") is not None else ""


def constant_of(name: str, value: Any) -> Any:
    """What the engine has for a constant of a program as one of a type; None where it is none.

    A number that is written with a point is a decimal if a float has all of its digits, and 1 and 0
    are booleans.
    """
    kind = logical_type(name)
    if kind is None:
        return None
    if isinstance(value, str):
        parsed = kind.parse(value)
        return None if parsed is None else kind.write(parsed)
    if kind.inner == "boolean" and value in (0, 1):
        return int(value)
    if not kind.is_decimal:
        return None
    if isinstance(value, float):
        value = Decimal(repr(value))
        if not value.is_finite() or len(value.as_tuple().digits) > FLOAT_DIGITS:
            return None
    return kind.write(value)


def _optional(name: str) -> LogicalType | None:
    plain = next((_of_base(base) for base in OPTIONAL_BASES if base == name[:-1]), None)
    inner = plain or logical_type(name[:-1])
    if inner is None or inner.nullable:
        return None
    base = next(optional for optional, held in OPTIONAL.items() if held == inner.base)
    takes = f"{inner.takes}, or None"
    return replace(inner, name=name, base=base, takes=takes, nullable=True)


def _of_base(base: BaseType) -> LogicalType:
    """A base type as a logical one: its values are its own."""
    parse, like, python = _OF_BASES[base]
    takes = valid_values(base)
    return LogicalType(
        base, base, lambda value: fitting(base, value), _itself, parse, takes, like, python
    )


def _parse_symbol(text: str) -> str:
    return unquoted(text) if text[:1] == '"' else text


_OF_BASES: Final[dict[BaseType, tuple[Callable[[str], Any], str, type]]] = {
    "number": (read_whole, "3", int),
    "float": (read_real, "3.0", float),
    "symbol": (_parse_symbol, "abc", str),
}
"""Of base types: how they are read, a text of one, and the class of a value."""


def _itself(value: Any) -> Any:
    return value
