"""What the oracle's functors and comparisons mean, on plain Python values.

Integers wrap at 64 bits, division truncates toward zero, text counts in characters. What has no
value raises `Undefined`, and the binding does not hold.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator

__all__ = ["Undefined", "apply", "compare", "numbers", "reinterpret", "wrap"]


class Undefined(Exception):  # noqa: N818  an outcome, not a fault
    """A term without a value: the binding does not hold."""


def wrap(value: object, kind: str, bits: int = 64) -> object:
    """An arithmetic result as its type holds it: modulo 2^bits; NaN is no value."""
    if kind == "number":
        return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    if kind == "unsigned":
        return value % 2**bits
    if isinstance(value, complex) or math.isnan(value):
        raise Undefined
    return float(value)


def numbers(kind: str, start: object, end: object, step: object = None) -> Iterator[object]:
    """`range`: from `start`, short of `end`, by `step`; without one, by one towards `end`."""
    if step is None:
        step = 1 if start <= end else -1
    elif kind == "unsigned":
        step = wrap(step, "number")
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
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "contains":
            return left in right
        case "match":
            try:
                return re.fullmatch(left, right) is not None
            except re.error:
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
            return float(a) ** float(b)
        except ZeroDivisionError:
            raise Undefined from None
        except OverflowError:
            return -math.inf if a < 0 and b % 2 == 1 else math.inf
    if b < 0:
        return divide(1, a) if abs(a) != 1 else a ** (-b % 2)
    return pow(a, b, 2**64)


def apply(functor: str, args: list, kind: str, of: str) -> object:
    """The value of an intrinsic functor; `kind` is its result type, `of` its first argument's."""
    a, b = args[0], args[1] if len(args) > 1 else None
    mask = 2**64 - 1
    match functor:
        case "+":
            return wrap(a + b, kind)
        case "-":
            return wrap(a - b, kind)
        case "*":
            return wrap(a * b, kind)
        case "/" if kind == "float":
            if b == 0:
                raise Undefined
            return wrap(a / b, kind)
        case "/":
            return wrap(divide(a, b), kind)
        case "%":
            return wrap(a - b * divide(a, b), kind)
        case "^":
            return wrap(power(a, b, kind), kind)
        case "neg":
            return wrap(-a, kind)
        case "band":
            return wrap(a & b, kind)
        case "bor":
            return wrap(a | b, kind)
        case "bxor":
            return wrap(a ^ b, kind)
        case "bnot":
            return wrap(~a, kind)
        case "bshl":
            return wrap(a << (b & 63), kind)
        case "bshr":
            return wrap(a >> (b & 63), kind)
        case "bshru":
            return wrap((a & mask) >> (b & 63), kind)
        case "land":
            return int(a != 0 and b != 0)
        case "lor":
            return int(a != 0 or b != 0)
        case "lxor":
            return int((a != 0) != (b != 0))
        case "lnot":
            return int(a == 0)
        case "min":
            return min(args)
        case "max":
            return max(args)
        case "cat":
            return "".join(args)
        case "strlen":
            return len(a)
        case "substr":
            start, count = b, args[2]
            return a[start : start + count] if start >= 0 and count >= 0 else ""
        case "to_string":
            return a if of == "symbol" else repr(float(a)) if of == "float" else str(a)
        case "to_float":
            return convert_text(a, "float") if of == "symbol" else float(a)
        case "to_number" | "to_unsigned":
            if of == "symbol":
                return convert_text(a, kind)
            if of == "float":
                low = -(2**63) if kind == "number" else 0
                if not low <= a < low + 2**64 or math.isinf(a):
                    raise Undefined
                return int(a)
            return wrap(a, kind)
    raise ValueError(functor)


def convert_text(text: str, kind: str) -> object:
    """A number written in full in a symbol; anything else has no value."""
    if kind == "float":
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is None:
            raise Undefined
        return float(text)
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII) is None:
        raise Undefined
    value = int(text)
    if wrap(value, kind) != value:
        raise Undefined
    return value


def reinterpret(value: object, kind: str, to: str) -> object:
    """`as`: the same 64 bits read as another type."""
    if "symbol" in (kind, to) or kind == to:
        return value
    if "float" not in (kind, to):
        return wrap(value, to)
    code = {"number": "q", "unsigned": "Q", "float": "d"}
    result = struct.unpack(code[to], struct.pack(code[kind], value))[0]
    return wrap(result, to)
