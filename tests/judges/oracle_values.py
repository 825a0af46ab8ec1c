"""What the oracle's functors and comparisons mean, on plain Python values.

Integers wrap at 64 bits, division truncates toward zero, text counts in characters. What has no
value raises `Undefined`, and the binding does not hold. Floats follow IEEE, with one zero and one
NaN (`math.nan`, so that rows are equal), which is equal to itself and above infinity.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from fractions import Fraction

from tests.judges.oracle_regex import Malformed, matches

__all__ = [
    "Undefined",
    "apply",
    "compare",
    "mean",
    "numbers",
    "order",
    "reinterpret",
    "same",
    "total",
    "wrap",
]


class Undefined(Exception):  # noqa: N818  an outcome, not a fault
    """A term without a value: the binding does not hold."""


def order(value: object) -> tuple:
    """What values of one type are sorted by."""
    return (True, 0.0) if is_nan(value) else (False, value)


def is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def same(left: object, right: object) -> bool:
    """Whether two values are one: NaN is."""
    return left is right or left == right


def total(values: Iterable[object], kind: str) -> object:
    """The exact sum, rounded once."""
    found = list(values)
    if kind == "float":
        return mean(found, 1)
    return wrap(sum(found), kind)


def mean(values: Iterable[object], count: int) -> float:
    """The exact sum of numbers by `count`, rounded once."""
    found = list(values)
    odd = {value for value in found if isinstance(value, float) and not math.isfinite(value)}
    if odd:
        return math.nan if len(odd) > 1 else odd.pop()
    exact = sum(map(Fraction, found), Fraction(0)) / count
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def wrap(value: object, kind: str, bits: int = 64) -> object:
    """An arithmetic result as its type holds it: modulo 2^bits; floats as they are stored."""
    if kind == "number":
        return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    if kind == "unsigned":
        return value % 2**bits
    if kind == "symbol":
        return value
    return math.nan if math.isnan(value) else float(value) + 0.0


def numbers(
    kind: str, bits: int, start: object, end: object, step: object = None
) -> Iterator[object]:
    """`range`: from `start`, short of `end`, by `step`; without one, by one towards `end`."""
    if any(map(is_nan, (start, end, step))):
        return
    if step is None:
        step = 1 if start <= end else -1
    elif kind == "unsigned":
        step = wrap(step, "number", bits)
    if step == 0 and start != end:
        yield start
    while step != 0 and (start < end if step > 0 else start > end):
        yield start
        following = start + step
        if following == start:
            return
        start = following


def compare(op: str, left: object, right: object) -> bool:
    match op:
        case "=":
            return same(left, right)
        case "!=":
            return not same(left, right)
        case "<":
            return order(left) < order(right)
        case "<=":
            return order(left) <= order(right)
        case ">":
            return order(left) > order(right)
        case ">=":
            return order(left) >= order(right)
        case "contains":
            return left in right
        case "match":
            try:
                return matches(left, right)
            except Malformed:
                return False
    raise ValueError(op)


def divide(a: int, b: int) -> int:
    """Division that truncates toward zero, as C has it."""
    if b == 0:
        raise Undefined
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a: object, b: object, kind: str) -> object:
    if kind == "float":
        try:
            return math.pow(a, b)
        except OverflowError:
            return -math.inf if a < 0 and b % 2 == 1 else math.inf
        except ValueError:
            return math.inf if a == 0 else math.nan
    if b < 0:
        return divide(1, a) if abs(a) != 1 else a ** (-b % 2)
    return pow(a, b, 2**64)


def apply(functor: str, args: list, kind: str, of: str, bits: int) -> object:
    """The value of an intrinsic functor; `kind` is its result type, `of` its first argument's."""
    a, b = args[0], args[1] if len(args) > 1 else None
    mask = 2**bits - 1
    match functor:
        case "+":
            return a + b if kind == "symbol" else wrap(a + b, kind, bits)
        case "-":
            return wrap(a - b, kind, bits)
        case "*":
            return wrap(a * b, kind, bits)
        case "/" if kind == "float":
            if b == 0:
                return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
            return wrap(a / b, kind)
        case "/":
            return wrap(divide(a, b), kind, bits)
        case "%":
            return wrap(a - b * divide(a, b), kind, bits)
        case "^":
            return wrap(power(a, b, kind), kind, bits)
        case "neg":
            return wrap(-a, kind, bits)
        case "band":
            return wrap(a & b, kind, bits)
        case "bor":
            return wrap(a | b, kind, bits)
        case "bxor":
            return wrap(a ^ b, kind, bits)
        case "bnot":
            return wrap(~a, kind, bits)
        case "bshl":
            return wrap(a << (b & bits - 1), kind, bits)
        case "bshr":
            return wrap(a >> (b & bits - 1), kind, bits)
        case "bshru":
            return wrap((a & mask) >> (b & bits - 1), kind, bits)
        case "land":
            return int(a != 0 and b != 0)
        case "lor":
            return int(a != 0 or b != 0)
        case "lxor":
            return int((a != 0) != (b != 0))
        case "lnot":
            return int(a == 0)
        case "min":
            return min(args, key=order)
        case "max":
            return max(args, key=order)
        case "cat":
            return "".join(args)
        case "strlen":
            return len(a)
        case "ord":
            return int.from_bytes(a.encode(), "big")  # any number that is the symbol's alone
        case "substr":
            start, count = b, args[2]
            return a[start : start + count] if start >= 0 and count >= 0 else ""
        case "to_string":
            return a if of == "symbol" else repr(float(a)) if of == "float" else str(a)
        case "to_float":
            return convert_text(a, "float", bits) if of == "symbol" else float(a)
        case "to_number" | "to_unsigned":
            if of == "symbol":
                return convert_text(a, kind, bits)
            if of == "float":
                low = -(2 ** (bits - 1)) if kind == "number" else 0
                if math.isnan(a) or math.isinf(a) or not low <= int(a) < low + 2**bits:
                    raise Undefined
                return int(a)
            return wrap(a, kind, bits)
    raise ValueError(functor)


def convert_text(text: str, kind: str, bits: int) -> object:
    """A number in a symbol, written as in a fact file; anything else has no value."""
    text = text.strip(" \t")
    if kind == "float":
        number = r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))"
        if re.fullmatch(number, text, re.ASCII) is None:
            raise Undefined
        return wrap(float(text), kind)
    found = re.fullmatch(r"([+-]?)(?:0[xX]([\da-fA-F]+)|0[bB]([01]+)|(\d+))", text, re.ASCII)
    if found is None:
        raise Undefined
    sign, *digits = found.groups()
    size = next(int(one, base) for one, base in zip(digits, (16, 2, 10), strict=True) if one)
    value = -size if sign == "-" else size
    if wrap(value, kind, bits) != value:
        raise Undefined
    return value


def reinterpret(value: object, kind: str, to: str, bits: int) -> object:
    """`as`: the same bits read as another type."""
    if "symbol" in (kind, to) or kind == to:
        return value
    if "float" not in (kind, to):
        return wrap(value, to, bits)
    code = dict(zip(("number", "unsigned", "float"), "qQd" if bits == 64 else "iIf", strict=True))
    if bits == 32 and kind == "float" and math.isfinite(value) and abs(value) >= 2.0**128:
        value = math.copysign(math.inf, value)
    result = struct.unpack(code[to], struct.pack(code[kind], value))[0]
    return wrap(result, to)
