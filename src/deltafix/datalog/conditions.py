"""The expressions of `#if` and `#elif`: whole numbers, `defined`, and C's operators.

`defined NAME` and `defined(NAME)` look at names before macros are expanded; any other name that is
left is 0, as C has it. Invariant: evaluation ends on any tokens, with a number or with words that
say what is wrong; numbers are Python's, so nothing overflows, and shifts are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from deltafix.datalog.lexer import Token

_MAX_DEPTH: Final = 64
_MAX_SHIFT: Final = 64

_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)

_OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << min(max(b, 0), _MAX_SHIFT),
    ">>": lambda a, b: a >> min(max(b, 0), _MAX_SHIFT),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


class ConditionError(Exception):
    """The expression cannot be evaluated; the message says why."""


def prepare(tokens: Sequence[Token], macros: Container[str]) -> list[Token]:
    """The tokens to expand: every `defined NAME` is 1 or 0. Raises ConditionError."""
    out: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token.kind != "ident" or token.text != "defined":
            out.append(token)
            continue
        rest = [part.text for part in tokens[position : position + 3]]
        bracketed = rest[:1] == ["("]
        if bracketed and rest[2:] != [")"]:
            raise ConditionError("`defined` wants one name: `defined(NAME)`")
        at = position + bracketed
        if at >= len(tokens) or tokens[at].kind != "ident":
            raise ConditionError("`defined` wants one name: `defined(NAME)`")
        value = int(tokens[at].text in macros)
        out.append(Token("number", str(value), token.source, token.start, token.end, value))
        position = at + 1 + bracketed
    return _shifts(out)


def evaluate(tokens: Iterable[Token]) -> int:
    """The value of an expression whose macros are expanded. Raises ConditionError."""
    reader = _Reader(tokens)
    value = reader.binary(0, 0)
    if reader.position < len(reader.tokens):
        raise ConditionError(f"unexpected `{reader.tokens[reader.position].text}`")
    return value


class _Reader:
    def __init__(self, tokens: Iterable[Token]) -> None:
        self.tokens = list(tokens)
        self.position = 0

    def text(self) -> str:
        """The token at hand, empty at the end; a string is no operator."""
        if self.position >= len(self.tokens):
            return ""
        token = self.tokens[self.position]
        return token.text if token.kind != "string" else "\0"

    def binary(self, level: int, depth: int) -> int:
        """Operands joined by the operators of a level, from the left."""
        if level == len(_LEVELS):
            return self.unary(depth)
        value = self.binary(level + 1, depth)
        while self.text() in _LEVELS[level]:
            operator = self.text()
            self.position += 1
            value = _apply(operator, value, self.binary(level + 1, depth))
        return value

    def unary(self, depth: int) -> int:
        """A number, a name, a bracket, or one of them behind a sign."""
        if depth > _MAX_DEPTH:
            raise ConditionError(f"brackets and signs are nested more than {_MAX_DEPTH} deep")
        if self.position >= len(self.tokens):
            raise ConditionError("a number is missing at the end")
        token = self.tokens[self.position]
        self.position += 1
        if token.kind in ("number", "unsigned") and isinstance(token.value, int):
            return token.value
        if token.kind == "ident":
            return 0
        if token.kind == "punct" and token.text == "!":
            return int(not self.unary(depth + 1))
        if token.kind == "punct" and token.text in ("-", "+"):
            value = self.unary(depth + 1)
            return -value if token.text == "-" else value
        if token.kind == "punct" and token.text == "(":
            value = self.binary(0, depth + 1)
            if self.text() != ")":
                raise ConditionError("a bracket is never closed")
            self.position += 1
            return value
        raise ConditionError(f"expected a number, found `{token.text}`")


def _shifts(tokens: list[Token]) -> list[Token]:
    """`< <` and `> >` without space between as one token each: Datalog has no such operators."""
    out: list[Token] = []
    for token in tokens:
        last = out[-1] if out else None
        joins = last is not None and last.text == token.text and token.text in ("<", ">")
        if joins and last is not None and last.end == token.start:
            out[-1] = Token("punct", token.text * 2, last.source, last.start, token.end)
        else:
            out.append(token)
    return out


def _apply(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise ConditionError("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    value = _OPERATIONS[operator](left, right)
    if value.bit_length() > 4 * _MAX_SHIFT:
        raise ConditionError("a number does not fit")
    return value
