"""The functors on Python values against the kernel, which has them on column codes."""

from __future__ import annotations

import math

import pytest

import deltafix
from deltafix.rules.values import NO_VALUE, comparison, function, numbers, reinterpret

NUMBERS = [0, 1, -1, 2, -2, 7, -7, 63, 64, 65, 2**30, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63)]
UNSIGNED = [0, 1, 2, 3, 7, 63, 64, 2**30, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 513, 2**64 - 1]
FLOATS = [0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 1e300, -1e-300, 2.0**63, 2.0**53, math.inf]
REALS = [*FLOATS, -math.inf, math.nan]
VALUES = {"number": NUMBERS, "unsigned": UNSIGNED, "float": REALS}
SHARED = ["+", "-", "*", "/", "^", "min", "max"]
WHOLE = ["%", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"]
BINARY = [(of, f) for of in VALUES for f in (SHARED if of == "float" else SHARED + WHOLE)]
CONVERSIONS = [(of, f"to_{to}") for of in VALUES for to in VALUES]
UNARY = [("number", "neg"), ("number", "bnot"), ("number", "lnot"), ("unsigned", "neg")]
UNARY += [("unsigned", "bnot"), ("unsigned", "lnot"), ("float", "neg"), *CONVERSIONS]
SPELLING = {"neg": "-"}


def shown(row: tuple) -> str:
    """Rows with NaN compare by their text."""
    return repr(row)


@pytest.mark.parametrize(("of", "functor"), BINARY)
def test_binary_functors_mean_what_the_kernel_makes_of_them(of: str, functor: str) -> None:
    term = f"{functor}(x, y)" if functor in ("min", "max") else f"x {functor} y"
    with deltafix.connect(
        f".decl r(x: {of}) .decl s(x: {of}, y: {of}, z: {of}) .input r "
        f"s(x, y, {term}) :- r(x), r(y)."
    ) as db:
        with db.transaction() as tx:
            tx.insert("r", [(value,) for value in VALUES[of]])
        apply = function(functor, of)
        found = [(x, y, apply(x, y)) for x in VALUES[of] for y in VALUES[of]]
        expected = {shown(row) for row in found if row[2] is not NO_VALUE}
        assert {shown(row) for row in db.rows("s")} == expected


@pytest.mark.parametrize(("of", "functor"), UNARY)
def test_unary_functors_mean_what_the_kernel_makes_of_them(of: str, functor: str) -> None:
    to = functor[3:] if functor.startswith("to_") else of
    term = f"{SPELLING.get(functor, functor)}(x)"
    with deltafix.connect(
        f".decl r(x: {of}) .decl s(x: {of}, z: {to}) .input r s(x, {term}) :- r(x)."
    ) as db:
        with db.transaction() as tx:
            tx.insert("r", [(value,) for value in VALUES[of]])
        found = [(x, function(functor, of)(x)) for x in VALUES[of]]
        expected = {shown(row) for row in found if row[1] is not NO_VALUE}
        assert {shown(row) for row in db.rows("s")} == expected


@pytest.mark.parametrize("of", VALUES)
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons_mean_what_the_kernel_makes_of_them(of: str, op: str) -> None:
    with deltafix.connect(
        f".decl r(x: {of}) .decl s(x: {of}, y: {of}) .input r s(x, y) :- r(x), r(y), x {op} y."
    ) as db:
        with db.transaction() as tx:
            tx.insert("r", [(value,) for value in VALUES[of]])
        test = comparison(op, of)
        found = [(x, y) for x in VALUES[of] for y in VALUES[of] if test(x, y)]
        assert {shown(row) for row in db.rows("s")} == set(map(shown, found))


@pytest.mark.parametrize(
    ("functor", "args", "value"),
    [
        ("cat", ("a", "é"), "aé"),
        ("strlen", ("a😀",), 2),
        ("substr", ("abcd", 1, 2), "bc"),
        ("substr", ("abcd", 3, 9), "d"),
        ("substr", ("abcd", 9, 1), ""),
        ("substr", ("abcd", -1, 2), ""),
        ("substr", ("abcd", 1, -2), ""),
        ("min", ("b", "a"), "a"),
        ("max", ("b", "a"), "b"),
        ("to_number", ("-7",), -7),
        ("to_number", ("7x",), NO_VALUE),
        ("to_number", ("0x1F",), 31),
        ("to_number", ("-0B11",), -3),
        ("to_number", ("+8 ",), 8),
        ("to_number", ("0" * 5000 + "8",), 8),
        ("to_number", ("٣",), NO_VALUE),
        ("to_number", ("9223372036854775808",), NO_VALUE),
        ("to_number", ("9" * 5000,), NO_VALUE),
        ("to_unsigned", ("18446744073709551615",), 2**64 - 1),
        ("to_unsigned", ("-1",), NO_VALUE),
        ("to_float", ("-1.5e3",), -1500.0),
        ("to_float", ("1e999",), math.inf),
        ("to_float", ("-inf",), -math.inf),
        ("to_string", ("a",), "a"),
    ],
)
def test_symbols(functor: str, args: tuple, value: object) -> None:
    assert function(functor, "symbol")(*args) == value


def test_nan_is_read_as_a_fact_file_has_it() -> None:
    assert math.isnan(function("to_float", "symbol")("nan"))


def test_to_string_of_numbers() -> None:
    assert function("to_string", "number")(-(2**63)) == "-9223372036854775808"
    assert function("to_string", "unsigned")(2**64 - 1) == "18446744073709551615"
    assert function("to_string", "float")(0.1) == "0.1"


def test_match_wants_the_whole_text_and_a_pattern() -> None:
    match = comparison("match", "symbol")
    assert match("a.*", "abc")
    assert not match("a", "abc")
    assert not match("(", "(")
    assert comparison("contains", "symbol")("b", "abc")
    assert not comparison("contains", "symbol")("abc", "b")


@pytest.mark.parametrize(
    ("of", "bounds", "values"),
    [
        ("number", (1, 4), [1, 2, 3]),
        ("number", (4, 1), [4, 3, 2]),
        ("number", (1, 1), []),
        ("number", (0, 10, 4), [0, 4, 8]),
        ("number", (10, 0, -4), [10, 6, 2]),
        ("number", (0, 10, -1), []),
        ("number", (3, 10, 0), [3]),
        ("number", (3, 3, 0), []),
        ("number", (2**63 - 2, 2**63 - 1, 5), [2**63 - 2]),
        ("unsigned", (4, 1), [4, 3, 2]),
        ("unsigned", (6, 0, 2**64 - 2), [6, 4, 2]),
        ("float", (0.0, 1.0, 0.5), [0.0, 0.5]),
        ("float", (0.0, math.nan), []),
        ("float", (1e300, math.inf, 1.0), [1e300]),
    ],
)
def test_ranges(of: str, bounds: tuple, values: list) -> None:
    assert list(numbers(of, *bounds)) == values


def test_a_cast_keeps_the_bits() -> None:
    assert reinterpret(-1, "number", "unsigned") == 2**64 - 1
    assert reinterpret(2**64 - 1, "unsigned", "number") == -1
    assert reinterpret(1.0, "float", "unsigned") == 0x3FF0000000000000
    assert reinterpret(0x3FF0000000000000, "number", "float") == 1.0
    assert reinterpret("a", "symbol", "symbol") == "a"
