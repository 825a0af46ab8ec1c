"""Days and moments as text in a format, and back: STRFTIME, STRPTIME, TO_CHAR, DATE_FORMAT.

sqlglot writes every dialect's format in the letters of C's strftime; here they are computed.
Invariant: a letter is here only for the dialects whose text for it is the same for every moment;
any other is refused. Text to a moment is DuckDB's, and Spark's of numbers, which is NULL where it
does not fit; PostgreSQL reads what is not in the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from deltafix.sql import times
from deltafix.sql.literals import Scalar, constant, strict
from deltafix.sql.moments import moment
from deltafix.sql.text import data_type, exp
from deltafix.sql.types import DATE, NULL, TEXT, TIMESTAMP, TIMESTAMPTZ, SqlType

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

__all__ = ["day", "read", "written"]

_Write: TypeAlias = Callable[[Any], str]


def _time(name: str) -> Callable[[Any], int]:
    return lambda value: getattr(value, name, 0)


_NUMBERS: Final[dict[str, tuple[Callable[[Any], int], int]]] = {
    "Y": (lambda day: day.year, 4),
    "y": (lambda day: day.year % 100, 2),
    "m": (lambda day: day.month, 2),
    "d": (lambda day: day.day, 2),
    "H": (_time("hour"), 2),
    "I": (lambda moment: (getattr(moment, "hour", 0) + 11) % 12 + 1, 2),
    "M": (_time("minute"), 2),
    "S": (_time("second"), 2),
    "f": (_time("microsecond"), 6),
    "g": (lambda moment: getattr(moment, "microsecond", 0) // 1000, 3),
    "j": (times.PARTS["DOY"], 3),
    "G": (lambda day: day.isocalendar().year, 4),
    "V": (times.PARTS["WEEK"], 2),
    "u": (lambda day: day.isoweekday(), 1),
    "w": (lambda day: day.isoweekday() % 7, 1),
}
"""Numbers, and how many digits they have with zeros before them."""

_NAMES: Final[dict[str, _Write]] = {
    "a": lambda day: times.day_name(day)[:3],
    "A": times.day_name,
    "b": lambda day: times.month_name(day)[:3],
    "B": times.month_name,
    "p": lambda moment: "AM" if getattr(moment, "hour", 0) < 12 else "PM",
    "%": lambda _: "%",
}

_KNOWN: Final = {
    "duckdb": "YymdHIMSfgjGVuwaAbBp%",
    "postgres": "YymdHIMSfj",
    "spark": "YymdHIMSaAbBp",
}
"""What each dialect has of these."""

_BARE: Final = {"duckdb": "ymdHIMSj", "postgres": "", "spark": "ymdHIMSj"}
"""Without zeros before them: `%-d`."""

_KINDS: Final = {"Y": "y", "b": "m", "B": "m", "A": "a"}
"""Letters that one letter is repeated for in other formats."""

_PART: Final = re.compile(r"%(?P<bare>-?)(?P<letter>.)(?:strict)?|(?P<text>[^%]+)", re.DOTALL)


def _parts(scalars: Scalars, node: exp.Expr) -> list[tuple[str, bool, str]]:
    """The letters of a format with whether they are bare, and what stands between them."""
    given = node.args.get("format")
    known = None if given is None else constant(given)
    dialect = scalars.statement.dialect
    way_out = "EXTRACT(... FROM x) gives each part as a number"
    if known is None or known.type is not TEXT or isinstance(given, exp.Placeholder):
        raise scalars.statement.refused("a format that is no literal", node, way_out)
    parts: list[tuple[str, bool, str]] = []
    text = known.compute(())
    for part in _PART.finditer(text):
        letter, between = part["letter"] or "", part["text"] or ""
        fits = letter in (_BARE if part["bare"] else _KNOWN)[dialect]
        if (letter and not fits) or (
            dialect != "duckdb" and re.search(r"[A-Za-z\"'\[\]\\]", between)
        ):
            shown = ", ".join(f"%{code}" for code in _KNOWN[dialect])
            more = f"there is {shown}" if dialect == "duckdb" else "two digits or four of each part"
            raise scalars.statement.refused(f"the format {text!r}", node, f"{more}; {way_out}")
        kind = _KINDS.get(letter, letter)
        if (
            dialect != "duckdb"
            and kind
            and parts
            and kind == _KINDS.get(parts[-1][0], parts[-1][0])
        ):
            raise scalars.statement.refused(f"the format {text!r}", node, way_out)  # dd and d
        parts.append((letter, bool(part["bare"]), between))
    covered = sum(len(between) + 1 for _, _, between in parts)
    if covered < len(text.replace("strict", "").replace("-", "")) / 2:
        raise scalars.statement.refused(f"the format {text!r}", node, way_out)
    return parts


def written(scalars: Scalars, node: exp.Expr) -> Scalar:
    """STRFTIME(x, '%Y-%m'), TO_CHAR(x, 'YYYY-MM'), DATE_FORMAT(x, 'yyyy-MM')."""
    subject, form = node.this, node.args.get("format")
    is_swapped = subject.is_string and form is not None and not form.is_string
    if is_swapped and scalars.statement.dialect == "duckdb":
        node, subject = exp.TimeToStr(this=form, format=subject), form  # it takes both orders
    if isinstance(subject, exp.TimeStrToTime | exp.TsOrDsToTimestamp):
        subject = subject.this
    inner = scalars.compile(moment(scalars, subject))
    if not inner.type.is_time and inner.type is not NULL:
        message = f"the format of {inner.type.name}"
        raise scalars.statement.wrong(message, node, "it takes a DATE or a TIMESTAMP")
    writers = [_writer(*part) for part in _parts(scalars, node)]
    return Scalar(
        strict(lambda value: "".join(write(value) for write in writers), inner.compute),
        TEXT,
        inner.nullable,
    )


def _writer(letter: str, bare: bool, between: str) -> _Write:
    if not letter:
        return lambda _: between
    if letter in _NAMES:
        return _NAMES[letter]
    take, digits = _NUMBERS[letter]
    width = 1 if bare else digits
    return lambda value: f"{take(value):0{width}}"


# --- text to moments, as DuckDB has it -----------------------------------------------------------

_SIZES: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "I": 2, "M": 2, "S": 2, "f": 6, "y": 2, "g": 3}
"""How many digits are read at the most."""

_MONTHS: Final = tuple(times.month_name(date(2000, month, 1)).upper() for month in range(1, 13))


class _UnreadError(ValueError):
    """A text that is none of the format."""


def read(scalars: Scalars, node: exp.Expr) -> Scalar:
    """STRPTIME(text, '%Y-%m-%d'), TRY_STRPTIME."""
    tries = isinstance(node, exp.Anonymous)
    if tries:
        args = node.expressions
        if len(args) != 2:
            way_out = "write TRY_STRPTIME(text, format)"
            raise scalars.statement.wrong("TRY_STRPTIME of this", node, way_out)
        node = exp.StrToTime(this=args[0], format=args[1])
    if scalars.statement.dialect == "spark":
        return _strictly(scalars, node, TIMESTAMPTZ)
    if scalars.statement.dialect != "duckdb":
        way_out = "CAST(text AS DATE), or AS TIMESTAMP, of 2026-01-31 12:00:00"
        raise scalars.statement.refused("a moment in a format", node, way_out)
    inner = scalars.compile(node.this)
    if inner.type not in (TEXT, NULL):
        raise scalars.statement.wrong(f"STRPTIME of {inner.type.name}", node, "it takes a text")
    parts = _parts(scalars, node)
    letters = [letter for letter, _, _ in parts if letter]
    if set(letters) - {*_SIZES, "p", "b", "B", "%"} or len({*letters}) < len(letters):
        way_out = f"it takes each of {', '.join(f'%{key}' for key in _SIZES)}, %b, %B, %p once"
        raise scalars.statement.refused("this format", node, way_out)
    text = node.args["format"].name

    def compute(value: str) -> datetime:
        try:
            return _moment(_read(value, parts))
        except ValueError:
            raise ValueError(f"{value!r} is not in the format {text!r}") from None

    def attempt(value: str) -> datetime | None:
        try:
            return compute(value)
        except ValueError:
            return None

    return Scalar(
        strict(attempt if tries else compute, inner.compute), TIMESTAMP, inner.nullable or tries
    )


def day(scalars: Scalars, node: exp.TsOrDsToDate) -> Scalar:
    """Spark's TO_DATE(x, 'dd.MM.yyyy'), and TO_DATE(x), which is a CAST."""
    if node.args.get("format"):
        return _strictly(scalars, node, DATE)
    return scalars.compile(exp.TryCast(this=node.this, to=data_type("DATE")))


def _strictly(scalars: Scalars, node: exp.Expr, kind: SqlType) -> Scalar:
    """A text in a format of Spark's, of numbers: as many digits as letters, or of one letter."""
    inner = scalars.compile(node.this)
    word = scalars.statement.called(node)
    if inner.type not in (TEXT, NULL):
        raise scalars.statement.wrong(f"{word} of {inner.type.name}", node, "it takes a text")
    parts = _parts(scalars, node)
    letters = [letter for letter, _, _ in parts if letter]
    loose = any(bare and following for (_, bare, _), (following, *_) in pairwise(parts))
    has_day = {"y" if letter == "Y" else letter for letter in letters} >= {"y", "m", "d"}
    if set(letters) - set(_STRICT) or len({*letters}) < len(letters) or loose or not has_day:
        way_out = "write 'yyyy-MM-dd HH:mm:ss' or parts of it: a year, a month and a day at least"
        raise scalars.statement.refused("this format", node, way_out)
    shapes = (
        f"(?P<{letter}>[0-9]{{{'1,' * bare}{_SIZES[letter]}}})" if letter else re.escape(between)
        for letter, bare, between in parts
    )
    match = re.compile("".join(shapes)).fullmatch

    def compute(text: str) -> Any:
        parsed = match(text)
        groups = {} if parsed is None else parsed.groupdict()
        numbers = {key: int(digits) for key, digits in groups.items()}
        year = numbers.get("Y", numbers.get("y", 0) + 2000)
        month, day, hour, minute, second = (numbers.get(letter, 0) for letter in "mdHMS")
        try:
            moment = datetime(year, month, day, hour, minute, second)
        except ValueError:
            return None
        return moment.date() if kind is DATE else moment.replace(tzinfo=UTC)

    return Scalar(strict(compute, inner.compute), kind, nullable=True)


_STRICT: Final = "YymdHMS"


def _read(text: str, parts: Sequence[tuple[str, bool, str]]) -> dict[str, int]:
    """The numbers of a text, by their letters."""
    numbers: dict[str, int] = {}
    at = len(text) - len(text.lstrip(_SPACE))
    for letter, _, between in parts:
        if letter in _SIZES:
            digits = re.compile(f"[0-9]{{1,{_SIZES[letter]}}}").match(text, at)
            if digits is None:
                raise _UnreadError
            at = digits.end()
            number = digits[0].ljust(_SIZES[letter], "0") if letter in "fg" else digits[0]
            numbers[letter] = int(number)
        elif letter in ("b", "B"):
            size = 3 if letter == "b" else None
            names = [name[:size] for name in _MONTHS]
            here = [n for n in names if text[at : at + len(n)].upper() == n]
            if not here:
                raise _UnreadError
            numbers["m"] = names.index(here[0]) + 1
            at += len(here[0])
        elif letter == "p":
            if text[at : at + 2].upper() not in ("AM", "PM"):
                raise _UnreadError
            numbers["p"] = text[at : at + 2].upper() == "PM"
            at += 2
        else:
            for character in between or "%":
                if character in _SPACE:
                    if text[at : at + 1] not in _SPACE or at == len(text):
                        raise _UnreadError
                    while text[at : at + 1] and text[at] in _SPACE:
                        at += 1
                elif text[at : at + 1] != character:
                    raise _UnreadError
                else:
                    at += 1
    if text[at:].strip(_SPACE):
        raise _UnreadError
    return numbers


_SPACE: Final = " \t\n\v\f\r"


def _moment(numbers: dict[str, int]) -> datetime:
    year = numbers.get("Y", 1900)
    if "y" in numbers:
        year = numbers["y"] + (1900 if numbers["y"] >= 69 else 2000)
    hour = numbers.get("H", 0)
    if "I" in numbers:
        if not 1 <= numbers["I"] <= 12:
            raise _UnreadError
        hour = numbers["I"] % 12
    if "p" in numbers:
        if hour > 12:
            raise _UnreadError
        hour = hour % 12 + 12 * numbers["p"]
    micros = numbers.get("f", 0) + numbers.get("g", 0) * 1000
    return datetime(
        year,
        numbers.get("m", 1),
        numbers.get("d", 1),
        hour,
        numbers.get("M", 0),
        numbers.get("S", 0),
        micros,
    )
