"""Casts: which types convert to which, and how.

Invariant: a cast that cannot be made raises ValueError or ArithmeticError; NULL never comes here.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, TypeAlias

from deltafix.facts.values import read_whole, shown
from deltafix.sql import binary, intervals
from deltafix.sql.types import (
    BLOB,
    BOOLEAN,
    DATE,
    DECIMALS,
    DOUBLE,
    INTERVAL,
    NARROW_DIGITS,
    NULL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    SqlType,
    SqlValue,
    Struct,
    fits,
)

__all__ = ["assigned", "cast", "cut", "from_text", "in_wholes", "rounded", "written_so"]

_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_MARK: Final = re.compile(r"(?<=[0-9])_(?=[0-9])")
_BASED: Final = re.compile(r"0[xX][0-9a-fA-F]+(_[0-9a-fA-F]+)*|0[bB][01]+(_[01]+)*")
_BASED_OF_POSTGRES: Final = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", re.ASCII)
_HOUR: Final = re.compile(r"\s*(\d{4}-\d\d-\d\d[ T]\d\d)\s*", re.ASCII)
"""A moment as ISO 8601 and Arrow have it, and no dialect of SQL."""
_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_TRUTH_OF_POSTGRES = {
    **dict.fromkeys(("tr", "tru", "ye", "on"), True),
    **dict.fromkeys(("fa", "fal", "fals", "of", "off"), False),
}


def cast(
    given: SqlType, wanted: SqlType, *, tries: bool = False, dialect: str = binary.FILES
) -> Callable[[Any], Any] | None:
    """The function that converts values of one type to another's; None if there is no such cast.

    Whether a whole number fits the bits of `wanted` is not asked here. What is inside of an array
    or a struct and cannot be converted is NULL if the cast only `tries`. A BLOB is text as the
    `dialect` has it, and BOOLEANs of a text are those it reads.
    """
    if given in (wanted, NULL):
        return _same
    if given is TEXT and wanted.element is not None and dialect == "postgres":
        return _text_to_array(wanted.element, partial(cast, tries=tries, dialect=dialect), tries)
    if given.is_nested or wanted.is_nested:
        inside = _to_struct if given.fields else _to_array
        return inside(given, wanted, partial(cast, tries=tries, dialect=dialect), tries)
    if BLOB in (given, wanted):
        return _of_bytes(given, wanted, dialect)
    if wanted is TEXT:
        return _to_text(given, dialect)
    if UUID in (given, wanted):
        return partial(_text_to_uuid, dialect=dialect) if given is TEXT else None
    if INTERVAL in (given, wanted):
        return partial(_text_to_interval, dialect=dialect) if given is TEXT else None
    if TIME in (given, wanted):
        in_duckdb = given is TEXT and dialect == "duckdb"
        return _clock_of_duckdb if in_duckdb else _CLOCKS.get((given, wanted))
    if wanted.is_time:
        if given is TEXT and dialect == "spark":
            return _OF_SPARK[wanted]
        if given is TEXT and dialect == "duckdb":
            return _OF_DUCKDB[wanted]
        return _MOMENTS.get((given, wanted))
    if given.is_time:
        return None
    if dialect == "postgres" and BOOLEAN in (given, wanted):
        other = given if wanted is BOOLEAN else wanted
        if other.is_numeric and other.bits != 32:
            return None  # INTEGER alone is one of these there
    if wanted is BOOLEAN:
        from_text = partial(_text_to_truth, dialect=dialect)
        return from_text if given is TEXT else bool if given.is_numeric else None
    if wanted is DOUBLE:
        return partial(_text_to_float, dialect=dialect) if given is TEXT else float
    if wanted.is_decimal:
        if given is DOUBLE:
            return _float_to_decimal(wanted, dialect)
        return _to_decimal(given, wanted, dialect)
    if given is TEXT:
        return _TEXT_TO_WHOLE.get(dialect, _text_to_whole)
    if dialect == "spark":  # which cuts
        return _finite_to_whole if given is DOUBLE else int
    if given.is_decimal:
        return lambda value: int(DECIMALS.to_integral_value(value))  # half away from zero
    return partial(_finite_to_whole, step=round) if given is DOUBLE else int  # half to even


def from_text(text: str, kind: SqlType) -> Any:
    """What a text of a file, a feed or a request is as a value of a type: exact, never rounded.

    The one place that decides it; what Arrow reads by itself is read so, too. A type with parts has
    its values as JSON, which is not read here. Raises ValueError or ArithmeticError.
    """
    value: Any
    if kind.is_integer:
        value = read_whole(text.strip())
        if value is None:
            raise ValueError(f"{shown(text)} is no whole number")
    elif kind.is_decimal:
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{shown(text)} is no number")
        value = Decimal(text.strip())
    else:
        convert = cast(TEXT, kind)
        if convert is None:
            raise ValueError(f"{kind.name} has no texts")
        hour = _HOUR.fullmatch(text) if kind.is_time else None
        value = convert(text if hour is None else f"{hour[1]}:00")
    if not fits(value, kind):
        raise OverflowError(f"{shown(text)} is no {kind.name}")
    return value


def assigned(value: SqlValue, kind: SqlType) -> SqlValue:
    """A value that is none of a column's type as the column takes it, if it does.

    Decimals are rounded to their column and become floats; a day is its midnight, and a midnight
    without a zone its day.
    """
    if isinstance(value, list | tuple) and kind.element is not None:
        return tuple(assigned(element, kind.element) for element in value)
    if kind.fields:
        names = tuple(name for name, _ in kind.fields)
        parts = Struct.parts(value, names)
        if parts is None:
            return value
        pairs = zip(parts, kind.fields, strict=True)
        return Struct.of(names, (assigned(part, of) for part, (_, of) in pairs))
    if isinstance(value, Decimal | int) and not isinstance(value, bool) and kind.is_decimal:
        return _to_decimal(kind, kind)(value)
    if isinstance(value, bytearray | memoryview) and kind is BLOB:
        return bytes(value)
    if isinstance(value, Decimal) and kind is DOUBLE:
        return float(value)
    if kind is INTERVAL:
        known: SqlValue = intervals.given(value)
        return known
    if isinstance(value, datetime) and kind is DATE:
        return value.date() if value == _midnight(value) else value
    if isinstance(value, date) and not isinstance(value, datetime) and kind.is_time:
        return _MOMENTS.get((DATE, kind), _same)(value)  # type: ignore[no-any-return]
    return value


def _same(value: Any) -> Any:
    return value


_Cast: TypeAlias = Callable[[SqlType, SqlType], Callable[[Any], Any] | None]
"""The cast of what is inside."""


def _to_array(
    given: SqlType, wanted: SqlType, inside: _Cast, tries: bool
) -> Callable[[Any], Any] | None:
    """Element by element."""
    element = wanted.element
    if given.element is None or element is None:
        return None
    convert = _fitting(inside(given.element, element), element, tries)
    return None if convert is None else lambda values: tuple(map(convert, values))


_ELEMENT: Final = re.compile(
    r"""\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^,{}"\\]|\\.)+?))\s*(?:,(?!$)|$)""", re.DOTALL
)
"""An element of an array of PostgreSQL's, in quotes or not, and what ends it."""


def _elements(text: str) -> list[str | None]:
    """The elements of `{a,"b c",NULL}`, as PostgreSQL writes arrays. Raises ValueError."""
    inside, elements, at = text.strip()[1:-1], [], 0
    if text.strip()[:1] + text.strip()[-1:] != "{}":
        raise ValueError(f"{shown(text)} is no array: write '{{a,\"b c\",NULL}}'")
    while inside.strip() and at < len(inside):
        match = _ELEMENT.match(inside, at)
        bare = "" if match is None else match[2]
        if match is None or (bare is not None and not bare.strip()):
            raise ValueError(f"{shown(text)} is no array of one dimension")
        is_null = bare is not None and bare.upper() == "NULL"
        written = match[1] if bare is None else bare
        elements.append(None if is_null else re.sub(r"\\(.)", r"\1", written, flags=re.DOTALL))
        at = match.end()
    return elements


def _text_to_array(element: SqlType, inside: _Cast, tries: bool) -> Callable[[Any], Any] | None:
    """Element by element, as PostgreSQL writes an array; none inside of another one."""
    convert = None if element.is_nested else _fitting(inside(TEXT, element), element, tries)
    return None if convert is None else lambda text: tuple(map(convert, _elements(text)))


def _to_struct(
    given: SqlType, wanted: SqlType, inside: _Cast, tries: bool
) -> Callable[[Any], Any] | None:
    """Field by field, by name."""
    names = [name for name, _ in given.fields]
    if sorted(names) != sorted(name for name, _ in wanted.fields):
        return None
    parts = []
    for name, kind in wanted.fields:
        position = names.index(name)
        convert = _fitting(inside(given.fields[position][1], kind), kind, tries)
        if convert is None:
            return None
        parts.append((position, convert))
    shown = tuple(name for name, _ in wanted.fields)
    return lambda value: Struct.of(shown, (convert(value[position]) for position, convert in parts))


def _fitting(
    convert: Callable[[Any], Any] | None, wanted: SqlType, tries: bool
) -> Callable[[Any], Any] | None:
    """A cast of what is inside of another value: NULL stays, and what does not fit is an error.

    If it only `tries`, that is NULL.
    """
    if convert is None:
        return None

    def converted(value: Any) -> Any:
        result = None if value is None else convert(value)
        if result is not None and not fits(result, wanted):
            raise OverflowError(f"{result} is no {wanted.name}")
        return result

    def attempted(value: Any) -> Any:
        try:
            return converted(value)
        except (ValueError, ArithmeticError):
            return None

    return attempted if tries else converted


# --- to text -------------------------------------------------------------------------------------


def _to_text(given: SqlType, dialect: str) -> Callable[[Any], str] | None:
    if given is INTERVAL:  # Spark's says which parts its type has
        return None if dialect == "spark" else partial(intervals.written, dialect=dialect)
    if given is BOOLEAN:
        return lambda value: "true" if value else "false"
    if given is DOUBLE:
        show = _FLOAT_TO_TEXT.get(dialect, repr)
        return lambda value: show(value + 0.0)  # no negative zero
    if given.is_decimal:
        return lambda value: f"{value or abs(value):f}"
    if given in (TIMESTAMP, TIMESTAMPTZ):
        return _local_to_text if dialect == "spark" else _moment_to_text
    return _clock_to_text if given is TIME else str


def _digits(value: float) -> tuple[str, str, int]:
    """The sign, the shortest digits, and the exponent of ten of the first one."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # noqa: S101  it is finite
    text = "".join(map(str, digits)).strip("0") or "0"
    first = len(digits) + exponent - 1 if value else 0
    return "-" * sign, text, first


def _plainly(sign: str, digits: str, first: int) -> str:
    """Digits with a point in their midst, or zeros beside them."""
    if first < 0:
        return f"{sign}0.{'0' * (-first - 1)}{digits}"
    whole, rest = digits[: first + 1].ljust(first + 1, "0"), digits[first + 1 :]
    return f"{sign}{whole}{'.' * bool(rest)}{rest}"


_ENDLESS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _float_of_postgres(value: float) -> str:
    """`1e+15`, `-0.0001`, `7`."""
    if not math.isfinite(value):
        return _ENDLESS[str(value)]
    sign, digits, first = _digits(value)
    if -5 < first < 15:
        return _plainly(sign, digits, first)
    return f"{sign}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{first:+03}"


def _float_of_spark(value: float) -> str:
    """`1.0E7`, `1.0E-4`, `7.0`, as Java has it."""
    if not math.isfinite(value):
        return _ENDLESS[str(value)]
    sign, digits, first = _digits(value)
    if -4 < first < 7:
        plain = _plainly(sign, digits, first)
        return plain if "." in plain else f"{plain}.0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{first}"


_FLOAT_TO_TEXT: Final = {"postgres": _float_of_postgres, "spark": _float_of_spark}
"""By dialect; DuckDB's is Python's."""


def _clock_to_text(value: time | datetime) -> str:
    """As DuckDB: no trailing zeros behind the seconds."""
    text = value.strftime("%H:%M:%S")
    return f"{text}.{value.microsecond:06}".rstrip("0") if value.microsecond else text


def _moment_to_text(value: datetime) -> str:
    """The day, the time, and the zone in hours."""
    return f"{value.date()} {_clock_to_text(value)}{'' if value.tzinfo is None else '+00'}"


def _local_to_text(value: datetime) -> str:
    """Spark's, without the zone, which is that of the session: UTC."""
    return _moment_to_text(value.replace(tzinfo=None))


def _of_bytes(given: SqlType, wanted: SqlType, dialect: str) -> Callable[[Any], Any] | None:
    """Between BLOB and TEXT: no other type has bytes."""
    if given is BLOB and wanted is TEXT:
        return binary.to_text(dialect)
    return binary.from_text(dialect) if given is TEXT else None


# --- to numbers ----------------------------------------------------------------------------------


def _finite_to_whole(value: float, step: Callable[[float], int] = int) -> int:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no whole number")
    return step(value)


def _text_to_whole(text: str) -> int:
    try:
        return int(_plain(text))
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def _text_of_postgres(text: str) -> int:
    """With marks between digits, and in other bases."""
    plain = _plain(_unmarked(text))
    based = _BASED_OF_POSTGRES.fullmatch(plain)
    return _text_to_whole(plain) if based is None else int(plain, 0)


def _text_to_rounded(text: str) -> int:
    """As DuckDB: half away from zero, with exponents, marks between digits, and other bases."""
    if _BASED.fullmatch(text):
        return int(text, 0)
    try:
        exact = Decimal(_plain(_unmarked(text)))
    except (ValueError, InvalidOperation):
        raise ValueError(f"{text!r} is no whole number") from None
    if not exact.is_finite() or exact.adjusted() > NARROW_DIGITS:
        raise OverflowError(f"{shown(text)} is no whole number of 64 bits")
    return int(exact.to_integral_value(context=DECIMALS))


_TEXT_TO_WHOLE: Final = {"duckdb": _text_to_rounded, "postgres": _text_of_postgres}


def _text_to_float(text: str, dialect: str) -> float:
    if dialect == "spark":  # Java's, with the letter of a type behind
        text = re.sub(r"(?<=[0-9.])[dDfF](?=\s*\Z)", "", text)
    try:
        number = float(_plain(_unmarked(text)) if dialect == "duckdb" else _plain(text))
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    is_beyond = math.isinf(number) or number == 0
    if is_beyond and dialect == "postgres" and _NUMBER.fullmatch(text) and Decimal(text.strip()):
        raise OverflowError(f"{shown(text)} is out of the range of a DOUBLE")
    return number


def in_wholes(value: int, unit: int) -> int:
    """How many units a whole number is, half away from zero."""
    count = (2 * abs(value) + unit) // (2 * unit)
    return count if value > 0 else -count


def rounded(value: float, digits: int = 0) -> float:
    """Half away from zero at so many digits behind the point, as DuckDB: by binary arithmetic."""
    return cut(value, digits, _half_up)


def cut(value: float, digits: int, step: Callable[[float], int]) -> float:
    """A step to a whole number, at so many digits behind the point."""
    if not math.isfinite(value):
        return value
    try:
        scale = 10.0 ** abs(digits)
        scaled = value * scale if digits > 0 else value / scale
        whole = float(step(scaled))
        return (whole / scale if digits > 0 else whole * scale) + 0.0
    except (OverflowError, ValueError):  # beyond what floats tell apart
        return 0.0 if digits < 0 else value


def _half_up(value: float) -> int:
    """Half away from zero; not `floor(x + 0.5)`, whose sum is rounded already."""
    below = math.floor(abs(value))
    whole = below + (abs(value) - below >= 0.5)
    return whole if value > 0 else -whole


def _float_to_decimal(wanted: SqlType, dialect: str) -> Callable[[Any], Decimal]:
    """As ROUND has it in DuckDB; PostgreSQL takes 15 digits, Spark the shortest text."""
    unit, unscaled = Decimal(1).scaleb(-wanted.scale), float(10**wanted.scale)

    def convert(value: float) -> Decimal:
        scaled = value * unscaled
        if not math.isfinite(scaled):
            raise OverflowError(f"{value} is no {wanted.name}")
        if dialect == "duckdb":
            exact = Decimal(_half_up(scaled)).scaleb(-wanted.scale, DECIMALS)
        else:
            text = f"{value:.15g}" if dialect == "postgres" else repr(value)
            try:
                exact = DECIMALS.quantize(Decimal(text), unit)
            except InvalidOperation:
                raise OverflowError(f"{value} is no {wanted.name}") from None
        if not fits(exact, wanted):
            raise OverflowError(f"{value} is no {wanted.name}")
        return exact

    return convert


def _to_decimal(
    given: SqlType, wanted: SqlType, dialect: str = binary.FILES
) -> Callable[[Any], Decimal]:
    unit = Decimal(1).scaleb(-wanted.scale)

    def convert(value: Any) -> Decimal:
        try:
            exact = value
            if given is TEXT:
                exact = _plain(_unmarked(value) if dialect in _MARKED else value)
                if dialect == "postgres" and _BASED_OF_POSTGRES.fullmatch(exact):
                    exact = int(exact, 0)
            rounded = DECIMALS.quantize(Decimal(exact), unit)
        except (ValueError, InvalidOperation):
            raise ValueError(f"{value!r} is no {wanted.name}") from None
        if not fits(rounded, wanted):
            raise OverflowError(f"{value} is no {wanted.name}")
        return rounded or abs(rounded)  # one zero

    return convert


def _plain(text: str) -> str:
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text.strip()


_MARKED: Final = ("duckdb", "postgres")
"""Dialects in which a text for a DECIMAL may have marks between its digits; a file's has none."""


def _unmarked(text: str) -> str:
    """Without the marks between digits."""
    return _MARK.sub("", text)


def _text_to_truth(text: str, *, dialect: str) -> bool:
    word = text if dialect == "duckdb" else text.strip()
    truth = _TRUTH.get(word.lower())
    if truth is None and dialect == "postgres":
        truth = _TRUTH_OF_POSTGRES.get(word.lower())
    if truth is None:
        valid = ", ".join(_TRUTH)
        raise ValueError(f"{text!r} is no BOOLEAN; it is one of {valid}")
    return truth


def _text_to_uuid(text: str, *, dialect: str) -> uuid.UUID:
    """With hyphens anywhere in DuckDB's dialect."""
    digits = UUID.write(text.replace("-", "") if dialect == "duckdb" else text)
    if digits is None:
        raise ValueError(f"{shown(text)} is no UUID; {written_so(UUID)}")
    return uuid.UUID(digits)


# --- to days and moments -------------------------------------------------------------------------


def _text_to_interval(text: str, dialect: str) -> intervals.Interval:
    known = intervals.parsed(text, dialect)
    if known is None:
        raise ValueError(f"{shown(text)} is no INTERVAL; {written_so(INTERVAL)}")
    return known


_WRITTEN: Final = re.compile(
    r"\s*(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[ T](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d{1,6}))?)?"
    r"\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?\s*",
    re.ASCII,
)
_OFTEN_WRITTEN: Final = re.compile(
    r"\s*(?P<year>\d{1,6})(?P<sign>[-/\\ ])(?P<month>\d\d?)(?P=sign)(?P<day>\d\d?)"
    r"(?:(?:T| \s*)(?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:\.(?P<part>\d*))?)?"
    r"\s*(?P<zone>Z|(?i:UTC)|[+-]\d\d(?::?\d\d){0,2})?)?\s*",
    re.ASCII,
)
"""What DuckDB reads, too: parts of fewer digits, other signs between them, more of a second."""


def _read(text: str, kind: SqlType, form: re.Pattern[str] = _WRITTEN) -> datetime:
    """A text as a moment: without a zone, or with one. 24:00 is the next midnight, or that day."""
    match = form.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        parts = match.groupdict(default="")
        clock = [int(parts[name] or 0) for name in ("hour", "minute", "second")]
        part, zone = f"{parts['part'][:6]:0<6}", parts["zone"]
        is_end = form is not _WRITTEN and clock == [24, 0, 0] and not int(part)
        day = "-".join(parts[name].zfill(2) for name in ("month", "day"))
        at = ":".join(f"{number:02}" for number in ([0, 0, 0] if is_end else clock))
        away = "Z" if zone.upper() == "UTC" else zone
        moment = datetime.fromisoformat(f"{int(parts['year']):04}-{day}T{at}.{part}{away}")
        return moment + timedelta(days=is_end and kind is not DATE)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no {kind.name}; {written_so(kind)}") from None


def written_so(kind: SqlType) -> str:
    """How a day, a moment or a UUID is written, for whoever wrote it in another way."""
    if kind is UUID:
        return "write a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11, 32 hexadecimal digits"
    if kind is INTERVAL:
        return "write 1 month 2 days 03:00:00"
    if kind is TIME:
        return "write 23:59:59"
    return "write 2026-01-31" if kind is DATE else "write 2026-01-31 23:59:59"


def _text_of_duckdb(text: str, kind: SqlType) -> datetime:
    """A text that is of UTC if it has a zone, which DuckDB passes over."""
    moment = _read(text, kind, _OFTEN_WRITTEN)
    if moment.utcoffset():
        raise ValueError(f"{text!r} has a zone, and {kind.name} has none; cast it to TIMESTAMPTZ")
    return moment.replace(tzinfo=None)


def _text_to_date(text: str) -> date:
    moment = _read(text, DATE)
    if moment.time() != time() or moment.tzinfo is not None:
        raise ValueError(f"{text!r} is no DATE; cast it to TIMESTAMP first")
    return moment.date()


def _text_to_moment(text: str) -> datetime:
    moment = _read(text, TIMESTAMP)
    if moment.tzinfo is not None:
        raise ValueError(f"{text!r} has a zone, and TIMESTAMP has none; cast it to TIMESTAMPTZ")
    return moment


_CLOCK: Final = re.compile(r"\s*(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\s*", re.ASCII)
_END: Final = re.compile(r"[T ]24:")
_OFTEN_CLOCK: Final = re.compile(
    r"\s*0*(\d\d?):(\d\d?)(?::(\d\d?)(?:\.(\d*))?)?\s*(Z|UTC|[+-]00(?::?00)?)?\s*",
    re.ASCII | re.IGNORECASE,
)
"""What DuckDB reads, too; another zone, which it passes over, is none of these."""


def _text_to_clock(text: str) -> time:
    match = _CLOCK.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        return time.fromisoformat(match[1])
    except ValueError:
        raise ValueError(f"{text!r} is no TIME; {written_so(TIME)}") from None


def _clock_of_duckdb(text: str) -> time:
    """Parts of fewer digits, more of a second than six, which are cut, or with a day before it."""
    match = _OFTEN_CLOCK.fullmatch(text)
    try:
        if match is None:
            if _END.search(text):  # of a day, which is no time of the next one
                raise ValueError(text)
            return _text_of_duckdb(text, TIMESTAMP).time()
        hour, minute, second, part = match.groups(default="")[:4]
        return time(int(hour), int(minute), int(second or 0), int(f"{part[:6]:0<6}"))
    except ValueError:
        raise ValueError(f"{text!r} is no TIME; {written_so(TIME)}") from None


_CLOCKS: Final[dict[tuple[SqlType, SqlType], Callable[[Any], Any]]] = {
    (TEXT, TIME): _text_to_clock,
    (TIMESTAMP, TIME): datetime.time,
}
"""A moment of a zone has a time in that: AT TIME ZONE before it."""


def _in_utc(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        message = f"{value} is no TIMESTAMPTZ: in UTC its year is not between 1 and 9999"
        raise OverflowError(message) from None


def _midnight(value: date) -> datetime:
    return datetime.combine(value, time())


_MOMENTS: Final[dict[tuple[SqlType, SqlType], Callable[[Any], Any]]] = {
    (TEXT, DATE): _text_to_date,
    (TEXT, TIMESTAMP): _text_to_moment,
    (TEXT, TIMESTAMPTZ): lambda text: _in_utc(_read(text, TIMESTAMPTZ)),
    (DATE, TIMESTAMP): _midnight,
    (DATE, TIMESTAMPTZ): lambda value: _in_utc(_midnight(value)),
    (TIMESTAMP, TIMESTAMPTZ): _in_utc,
    (TIMESTAMP, DATE): datetime.date,
    (TIMESTAMPTZ, DATE): lambda value: _in_utc(value).date(),
    (TIMESTAMPTZ, TIMESTAMP): lambda value: _in_utc(value).replace(tzinfo=None),
}
"""A timestamp without a zone is taken for one of UTC."""

_LOOSE: Final = re.compile(
    r"\s*(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](?P<rest>.*?))?)?)?\s*", re.ASCII | re.DOTALL
)
_LOOSE_CLOCK: Final = re.compile(
    r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,6})\d*)?)?\s*(Z|UTC|[+-]\d\d?(?::?\d\d)?)?",
    re.ASCII,
)


def _loose_day(text: str) -> tuple[date, str]:
    """Spark's days: a year or a month may stand alone; with what follows behind a blank or T."""
    match = _LOOSE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no DATE; {written_so(DATE)}")
    year, month, day = (int(group or 1) for group in match.groups()[:3])
    return date(year, month, day), match["rest"] or ""


def _loose_moment(text: str) -> datetime:
    """A moment of Spark's, with a zone if there is one."""
    day, rest = _loose_day(text)
    if not rest:
        return _midnight(day)
    match = _LOOSE_CLOCK.fullmatch(rest)
    if match is None:
        raise ValueError(f"{text!r} is no TIMESTAMP; {written_so(TIMESTAMP)}")
    hour, minute, second, part, zone = match.groups(default="")
    clock = time(int(hour), int(minute), int(second or 0), int(part.ljust(6, "0") or 0))
    moment = datetime.combine(day, clock)
    if not zone:
        return moment
    digits = zone.lstrip("+-").replace(":", "")
    if zone in ("Z", "UTC"):
        digits = "0"
    size = 2 if len(digits) > 2 else 0
    away = timedelta(
        hours=int(digits[: len(digits) - size]), minutes=int(digits[-size:] if size else 0)
    )
    return moment.replace(tzinfo=timezone(-away if zone.startswith("-") else away))


_OF_SPARK: Final[dict[SqlType, Callable[[str], Any]]] = {
    DATE: lambda text: _loose_day(text)[0],
    TIMESTAMP: lambda text: _loose_moment(text).replace(tzinfo=None),
    TIMESTAMPTZ: lambda text: _in_utc(_loose_moment(text)),
}
"""What a text is in Spark, which takes less than ISO 8601 asks for."""

_OF_DUCKDB: Final[dict[SqlType, Callable[[str], Any]]] = {
    DATE: lambda text: _text_of_duckdb(text, DATE).date(),
    TIMESTAMP: lambda text: _text_of_duckdb(text, TIMESTAMP),
    TIMESTAMPTZ: lambda text: _in_utc(_read(text, TIMESTAMPTZ, _OFTEN_WRITTEN)),
}
"""What a text is in DuckDB's dialect: a DATE may have a time, which is cut off."""
