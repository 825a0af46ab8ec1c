"""Prolog text to tokens, each with its place.

Invariant: tokens cover the text in order; a clause end (`.` followed by layout) is its own token.
What a token means (operator, functor, argument) is the reader's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from deltafix.datalog import source as datalog
from deltafix.diagnostics import Diagnostic, render
from deltafix.errors import PrologSyntaxError

_TOKEN = re.compile(
    r"""
    (?P<layout>(?:\s+|%[^\n]*)+)
  | (?P<comment>/\*.*?\*/)
  | (?P<open_comment>/\*)
  | (?P<number>0'(?:\\(?:x[0-9a-fA-F]+\\|[0-7]+\\|.)|''|[^\\\n])
        |0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+
        |[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)?)
  | (?P<var>[A-Z_][A-Za-z0-9_]*)
  | (?P<quoted>'(?>[^'\\]|\\(?>x[0-9a-fA-F]+\\?|[0-7]+\\|.)|'')*+')
  | (?P<string>"(?>[^"\\]|\\(?>x[0-9a-fA-F]+\\?|[0-7]+\\|.)|"")*+")
  | (?P<end>\.(?=\s|%|$))
  | (?P<name>[^\W\d_A-Z]\w*|[+\-*/\\^<>=~:.?@#&$]+|!|;)
  | (?P<punct>[()\[\]{},|])
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]+)\\?|([0-7]+)\\|(\n)|(.))", re.DOTALL)
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0",
    "e": "\x1b", "s": " ", "\\": "\\", "'": "'", '"': '"', "`": "`",
}  # fmt: skip


class Token(NamedTuple):
    """`kind` is number, var, name, quoted, string, punct or end; `value` is decoded."""

    kind: str
    value: str
    start: int
    end: int
    spaced: bool
    """Whether layout stands before it: `f (` is not a functional term, `- 1` no literal."""


class Source(datalog.Source):
    """A text, the way from offsets to lines and columns, and its errors."""

    def problem(
        self, message: str, start: int, end: int, fix: str | None = None
    ) -> PrologSyntaxError:
        """A syntax error at a range of offsets."""
        diagnostic = Diagnostic("DF710", message, self.span(start, max(end, start + 1)), fix)
        return PrologSyntaxError(render(diagnostic, self.text), [diagnostic])


def _unescape(body: str, quote: str, source: Source, start: int) -> str:
    out: list[str] = []
    at = 0
    while at < len(body):
        char = body[at]
        if char == quote:  # doubled: the pattern lets no single one through
            out.append(quote)
            at += 2
            continue
        if char != "\\":
            out.append(char)
            at += 1
            continue
        code = cast("re.Match[str]", _ESCAPE.match(body, at))  # a pair, as the pattern of tokens
        value = None
        if code[1] or code[2]:
            number = int(code[1], 16) if code[1] else int(code[2], 8)
            value = chr(number) if number < 0x110000 else None
        elif code[3]:
            value = ""
        else:
            value = _ESCAPES.get(code[4])
        if value is None:
            known = " ".join(f"\\{name}" for name in _ESCAPES)
            raise source.problem(
                f"unknown escape {code[0]}", start + at, start + code.end(), f"one of {known}"
            )
        out.append(value)
        at = code.end()
    return "".join(out)


def tokenize(source: Source) -> Iterator[Token]:
    """The tokens of a text, ending without an extra token.

    Raises:
        PrologSyntaxError: a character no token starts with, an open comment or quote, an escape.
    """
    text = source.text
    at = 0
    spaced = True
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at] in "'\"":
                raise source.problem(
                    f"{text[at]} is never closed", at, at + 1, "close the quoted text"
                )
            raise source.problem(f"no token starts with {text[at]!r}", at, at + 1)
        kind = match.lastgroup or ""
        at = match.end()
        if kind in ("layout", "comment"):
            spaced = True
            continue
        if kind == "open_comment":
            raise source.problem("/* is never closed", match.start(), at, "close it with */")
        value = match[0]
        if kind == "quoted":
            value = _unescape(value[1:-1], "'", source, match.start() + 1)
        elif kind == "string":
            value = _unescape(value[1:-1], '"', source, match.start() + 1)
        yield Token(kind, value, match.start(), at, spaced)
        spaced = False
