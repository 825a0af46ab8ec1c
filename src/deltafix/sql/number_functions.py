"""The scalar functions of numbers.

What is a DOUBLE is as IEEE 754 has it, and as DuckDB: NaN and infinity, never an error. Invariant:
whole numbers and decimals stay such where a function does not say otherwise.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from deltafix.sql.casts import cut, in_wholes, rounded
from deltafix.sql.signatures import Function, doubles, number, of_types
from deltafix.sql.text import exp
from deltafix.sql.types import (
    BIGINT,
    BOOLEAN,
    DECIMALS,
    DOUBLE,
    INTEGER,
    MOST_DIGITS,
    NULL,
    TEXT,
    SqlType,
    common_type,
    computed_decimal,
)

__all__ = ["NAMED", "NUMBERS", "OWN"]


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _sign_or_nan(value: float) -> float:
    return value if math.isnan(value) else float(_sign(value))


def _magnitude(value: Any) -> Any:
    """ABS; Python's own rounds decimals to 28 digits."""
    return value.copy_abs() if isinstance(value, Decimal) else abs(value)


def _sqrt(value: Any) -> float:
    number = float(value)
    return math.sqrt(number) if number >= 0 else math.nan


def _ln(value: Any) -> float:
    number = float(value)
    return math.log(number) if number > 0 else -math.inf if number == 0 else math.nan


def _exp(value: Any) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: Any, exponent: Any) -> float:
    """As IEEE 754 has it: never an error."""
    x, y = float(base), float(exponent)
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        return math.inf if x == 0 else math.nan


def _log(*values: Any) -> float:
    """LOG(number) to the base of 10, LOG(base, number)."""
    base, value = (10.0, float(values[0])) if len(values) == 1 else map(float, values)
    for known, take in ((2.0, math.log2), (10.0, math.log10)):
        if base == known and 0 < value < math.inf:
            return take(value)
    above, below = _ln(value), _ln(base)
    if below == 0:
        return math.nan if above == 0 or math.isnan(above) else math.copysign(math.inf, above)
    return above / below


def _real(take: Callable[..., float]) -> Callable[..., float]:
    """As IEEE 754 has it: NaN outside of what a function is defined for, else infinity."""

    def real(*values: Any) -> float:
        try:
            return take(*map(float, values)) + 0.0
        except OverflowError:
            return math.copysign(math.inf, values[0])
        except ValueError:
            return math.nan

    return real


def _cot(value: float) -> float:
    tangent = math.tan(value)
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


def _truncated(value: Any, digits: int = 0) -> Any:
    if isinstance(value, float):
        return cut(value, digits, math.trunc)
    if isinstance(value, Decimal):
        return _cut(value, digits, ROUND_DOWN)
    scale = 10 ** min(max(-digits, 0), 19)
    return abs(value) // scale * scale * (1 if value > 0 else -1)


def _factorial(number: int) -> int:
    if number < 0:
        raise ValueError(f"the factorial of {number}")
    return math.factorial(min(number, 21))


def _integers(types: Sequence[SqlType]) -> SqlType | None:
    common: SqlType | None = NULL
    for kind in types:
        is_whole = kind.is_integer or kind is NULL
        common = common_type(common, kind) if common is not None and is_whole else None
    return INTEGER if common is NULL else common


def _bits(usage: str, compute: Callable[[int, int], int]) -> Function:
    return Function(usage, ("this", "expression"), _integers, compute, least=2)


def _shift(usage: str, compute: Callable[[SqlType, int, int], int]) -> Function:
    """PostgreSQL's and Spark's: the type is the first's, whose bits go round."""
    return Function(
        usage,
        ("this", "expression"),
        lambda t: t[0] if len(t) > 1 and _integers(t) and t[0].is_integer else None,
        compute,
        least=2,
        of_type=True,
    )


def _left_round(kind: SqlType, number: int, by: int) -> int:
    half = 1 << kind.bits - 1
    return ((number << by % kind.bits) + half) % (2 * half) - half


def _right_round(kind: SqlType, number: int, by: int) -> int:
    return number >> by % kind.bits


def _even(number: float) -> float:
    if not math.isfinite(number):
        return float(number)
    up = math.ceil(abs(number))
    return math.copysign(up + up % 2, number) + 0.0


def _left_shift(number: int, by: int) -> int:
    if number < 0 or by < 0:
        raise ValueError(f"a shift of what is below 0: {number} << {by}")
    return number << min(by, 64)  # which no number of 64 bits holds


def _right_shift(number: int, by: int) -> int:
    return number >> by if 0 <= by < 64 else 0


def _atanh(number: float) -> float:
    return math.copysign(math.inf, number) if abs(number) == 1 else math.atanh(number)


def _curve(name: str, take: Callable[..., float], *more: str) -> Function:
    usage = f"{name}({', '.join(('number', *more))})"
    return Function(usage, ("this", *more), doubles, _real(take), least=1 + len(more))


def _test(name: str, test: Callable[[float], bool], argument: str) -> Function:
    return Function(
        f"{name}(number)", (argument,), lambda t: BOOLEAN if doubles(t) else None, test,
        only=("duckdb",),
    )  # fmt: skip


def _round(value: Any, digits: int = 0) -> Any:
    """Half away from zero, whatever the type: Python's own `round` is half to even."""
    if isinstance(value, float):
        return rounded(value, digits)
    if isinstance(value, Decimal):
        return _cut(value, digits, ROUND_HALF_UP)
    scale = 10 ** min(max(-digits, 0), 20)
    return in_wholes(value, scale) * scale


def _cut(value: Decimal, digits: int, rounding: str) -> Decimal:
    """With at most so many digits behind the point."""
    if digits >= MOST_DIGITS:
        return value
    return value.quantize(Decimal(1).scaleb(-max(digits, -MOST_DIGITS - 1)), rounding, DECIMALS)


def _breaking(compute: Callable[..., float]) -> Callable[..., float]:
    """PostgreSQL's: an error where IEEE 754 has NaN, infinity or nothing left."""

    def checked(*values: Any) -> float:
        value = compute(*values)
        known = [float(argument) for argument in values]
        finite = all(map(math.isfinite, known))
        if math.isnan(value) and not any(map(math.isnan, known)):
            raise ValueError(f"there is no value for {', '.join(map(str, values))}")
        if finite and (math.isinf(value) or (value == 0 and compute in _NEVER_ZERO and known[0])):
            raise OverflowError(f"out of range for {', '.join(map(str, values))}")
        return value

    return checked


_NEVER_ZERO: Final = (_exp, _power)


def _positive(compute: Callable[..., float]) -> Callable[..., float | None]:
    """Spark's logarithms: NULL where IEEE 754 has NaN or -infinity."""
    return lambda *values: (
        None if None in values or any(value <= 0 for value in values) else compute(*values)
    )


def _to_even(value: float) -> float:
    return float(round(value)) + 0.0 if math.isfinite(value) else value


def _round_of_postgres(value: Any, digits: int = 0) -> Any:
    is_plain = isinstance(value, float) and digits == 0
    return _to_even(value) if is_plain else _round(value, digits)


def _round_of_spark(value: Any, digits: int = 0) -> Any:
    """Of a DOUBLE the shortest text is rounded."""
    if not isinstance(value, float) or not math.isfinite(value) or digits > 400:
        return _round(value, digits)
    exact = Decimal(repr(value))
    if exact.adjusted() + digits < -1:
        return 0.0
    return float(exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _WIDE)) + 0.0


_WIDE: Final = Context(prec=800, Emin=-999999, Emax=999999)


def _within_bits(step: Callable[[Any], int]) -> Callable[[Any], int]:
    """Spark's CEIL and FLOOR of a DOUBLE: the last BIGINT where there are no more, of NaN 0."""

    def bounded(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            value = 0 if math.isnan(value) else math.copysign(1 << 63, value)
        whole = step(value)
        return min(max(whole, -1 << 63), (1 << 63) - 1) if isinstance(value, float) else whole

    return bounded


def _whole(step: Callable[[Any], int]) -> Callable[[Any], Any]:
    def rounded(value: Any) -> Any:
        if isinstance(value, int) or not math.isfinite(value):
            return value
        return step(value) if isinstance(value, Decimal) else float(step(value)) + 0.0

    return rounded


def _of_wholes(types: Sequence[SqlType]) -> SqlType | None:
    """That of the first, of a DECIMAL one without digits behind the point: 9.5 becomes 10."""
    kind = number(types)
    if kind is None or not kind.is_decimal:
        return kind
    return computed_decimal(kind.digits, 0, kind)


def _of_wholes_in_spark(types: Sequence[SqlType]) -> SqlType | None:
    kind = _of_wholes(types)
    return BIGINT if kind is DOUBLE else kind


NUMBERS: Final[dict[type, Function]] = {
    exp.Sqrt: Function("SQRT(number)", ("this",), doubles, _sqrt),
    exp.Ln: Function("LN(number)", ("this",), doubles, _ln),
    exp.Exp: Function("EXP(number)", ("this",), doubles, _exp),
    exp.Pow: Function("POWER(base, exponent)", ("this", "expression"), doubles, _power, least=2),
    exp.Abs: Function("ABS(number)", ("this",), number, _magnitude),
    exp.Sign: Function("SIGN(number)", ("this",), lambda t: INTEGER if number(t) else None, _sign),
    exp.Floor: Function("FLOOR(number)", ("this",), _of_wholes, _whole(math.floor)),
    exp.Ceil: Function("CEIL(number)", ("this",), _of_wholes, _whole(math.ceil)),
    exp.Round: Function(
        "ROUND(number, digits)",
        ("this", "decimals"),
        lambda t: number(t) if len(t) == 1 or t[1].is_integer else None,
        _round,
    ),
    exp.Trunc: Function(
        "TRUNC(number, digits)",
        ("this", "decimals"),
        lambda t: number(t) if len(t) == 1 or t[1].is_integer else None,
        _truncated,
    ),
    exp.Log: Function("LOG(base, number)", ("this", "expression"), doubles, _log),
    exp.Pi: Function("PI()", (), lambda _: DOUBLE, lambda: math.pi, least=0),
    exp.Cbrt: _curve("CBRT", math.cbrt),
    exp.Sin: _curve("SIN", math.sin),
    exp.Cos: _curve("COS", math.cos),
    exp.Tan: _curve("TAN", math.tan),
    exp.Cot: _curve("COT", _cot),
    exp.Asin: _curve("ASIN", math.asin),
    exp.Acos: _curve("ACOS", math.acos),
    exp.Atan: _curve("ATAN", math.atan),
    exp.Atan2: _curve("ATAN2", math.atan2, "expression"),
    exp.Sinh: _curve("SINH", math.sinh),
    exp.Cosh: Function("COSH(number)", ("this",), doubles, lambda x: _real(math.cosh)(abs(x))),
    exp.Tanh: _curve("TANH", math.tanh),
    exp.Degrees: _curve("DEGREES", math.degrees),
    exp.Radians: _curve("RADIANS", math.radians),
    exp.Factorial: Function("FACTORIAL(number)", ("this",), of_types([BIGINT], BIGINT), _factorial),
    exp.BitwiseAnd: _bits("a & b", operator.and_),
    exp.BitwiseOr: _bits("a | b", operator.or_),
    exp.BitwiseXor: _bits("XOR(a, b)", operator.xor),
    exp.BitwiseLeftShift: _bits("a << b", _left_shift),
    exp.BitwiseRightShift: _bits("a >> b", _right_shift),
    exp.Asinh: _curve("ASINH", math.asinh),
    exp.Acosh: _curve("ACOSH", math.acosh),
    exp.Atanh: _curve("ATANH", _atanh),
    exp.BitwiseNot: Function("~a", ("this",), _integers, operator.invert),
    exp.IsNan: _test("ISNAN", math.isnan, "this"),
    exp.IsInf: _test("ISINF", math.isinf, "this"),
}
"""By sqlglot's node."""

_BREAKING: Final = (
    exp.Sqrt, exp.Ln, exp.Exp, exp.Pow, exp.Log, exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos,
    exp.Sinh, exp.Cosh, exp.Acosh,
)  # fmt: skip

OWN: Final[dict[tuple[type, str], Function]] = {
    **{
        (kind, "postgres"): replace(NUMBERS[kind], compute=_breaking(NUMBERS[kind].compute))
        for kind in _BREAKING
    },
    (exp.Atanh, "postgres"): replace(
        NUMBERS[exp.Atanh],
        compute=lambda x: _breaking(_real(_atanh))(x) if abs(x) != 1 else _atanh(x),
    ),
    **{
        (kind, "spark"): replace(
            NUMBERS[kind], compute=_positive(NUMBERS[kind].compute), strict=False,
            nullable=lambda _: True,
        )
        for kind in (exp.Ln, exp.Log)
    },
    **{
        (kind, dialect): _shift(usage, compute)
        for kind, usage, compute in (
            (exp.BitwiseLeftShift, "a << b", _left_round),
            (exp.BitwiseRightShift, "a >> b", _right_round),
        )
        for dialect in ("postgres", "spark")
    },
    (exp.Sign, "spark"): Function("SIGN(number)", ("this",), doubles, _sign_or_nan),
    (exp.Round, "postgres"): replace(NUMBERS[exp.Round], compute=_round_of_postgres),
    (exp.Round, "spark"): replace(NUMBERS[exp.Round], compute=_round_of_spark),
    **{
        (kind, "spark"): replace(
            NUMBERS[kind], result=_of_wholes_in_spark, compute=_within_bits(step)
        )
        for kind, step in ((exp.Floor, math.floor), (exp.Ceil, math.ceil))
    },
}  # fmt: skip
"""What each dialect has in its own way, by node and dialect."""


def _in_base(number: int, base: int, least: int = 0) -> str:
    """TO_BASE: digits and capitals, with zeros before them up to a length."""
    if number < 0 or not 2 <= base <= 36 or not 0 <= least <= 64:
        raise ValueError(f"TO_BASE({number}, {base}, {least}): a number from 0, a base of 2 to 36")
    digits = ""
    while number:
        number, rest = divmod(number, base)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[rest] + digits
    return (digits or "0").rjust(least, "0")


NAMED: Final[dict[str, Function]] = {
    "BIT_COUNT": Function(
        "BIT_COUNT(number)",
        ("expressions",),
        _integers,
        lambda kind, number: (number % (1 << kind.bits)).bit_count(),
        of_type=True,
        only=("duckdb",),
    ),
    "BIN": Function(
        "BIN(number)",
        ("expressions",),
        of_types([BIGINT], TEXT),
        lambda number: f"{number % (1 << 64):b}",
        only=("duckdb",),
    ),
    "TO_BASE": Function(
        "TO_BASE(number, base, length)",
        ("expressions",),
        of_types([BIGINT] * 3, TEXT),
        _in_base,
        least=2,
        only=("duckdb",),
    ),
    "SIGNBIT": _test("SIGNBIT", lambda x: math.copysign(1, x) < 0, "expressions"),
    "EVEN": Function("EVEN(number)", ("expressions",), doubles, _even, only=("duckdb",)),
    "ISFINITE": _test("ISFINITE", math.isfinite, "expressions"),
    "GCD": Function(
        "GCD(a, b)", ("expressions",), of_types([BIGINT, BIGINT], BIGINT), math.gcd, least=2
    ),
    "LCM": Function(
        "LCM(a, b)", ("expressions",), of_types([BIGINT, BIGINT], BIGINT), math.lcm, least=2
    ),
}
"""What sqlglot has no node for, by name."""
