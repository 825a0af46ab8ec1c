"""Macros: how `#define` is read, and what a use of one is replaced by.

As C has it: an argument is expanded before it takes its place, except beside `##`, which joins two
tokens into one, and behind `#`, which makes a string of the argument's spelling. Invariant: the
text of a macro is tokens already, so nothing is read twice but what `##` joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from deltafix.datalog.lexer import Token, tokenize
from deltafix.datalog.source import Source


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro's parameters (None: it takes no brackets) and its text."""

    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


class MacroError(Exception):
    """A macro that cannot be read or used; `help` says what would do."""

    def __init__(self, message: str, help: str | None = None) -> None:  # noqa: A002  the diagnostic's name
        super().__init__(message)
        self.help = help


def read_macro(rest: list[Token]) -> tuple[str, Macro]:
    """The name and macro behind `#define`. Raises MacroError."""
    if not rest or rest[0].kind != "ident":
        raise MacroError("#define wants a name", "write `#define NAME text`")
    name, body, parameters = rest[0], rest[1:], None
    if body and body[0].text == "(" and body[0].start == name.end:
        close = next((i for i, part in enumerate(body) if part.text == ")"), None)
        if close is None:
            raise MacroError(f"the parameters of {name.text} are never closed")
        inner = body[1:close]
        parameters = tuple(part.text for part in inner[::2])
        commas = all(part.text == "," for part in inner[1::2])
        names = all(part.kind == "ident" for part in inner[::2])
        if not (commas and names) or (inner and len(inner) % 2 == 0):
            raise MacroError(f"the parameters of {name.text} are not names with commas")
        body = body[close + 1 :]
    texts = [_mark(part) for part in body]
    if texts and "##" in (texts[0], texts[-1]):
        raise MacroError("`##` joins two tokens: one is missing")
    named = [part.text in (parameters or ()) for part in body]
    for position, mark in enumerate(texts):
        if mark == "#" and not any(named[position + 1 : position + 2]):
            raise MacroError("`#` makes a string of a parameter, and none follows")
    return name.text, Macro(parameters, tuple(body))


def read_arguments(tokens: Sequence[Token], opening: int, into: list[list[Token]]) -> int | None:
    """The arguments in the bracket at `opening`; the position behind it, None if it stays open."""
    depth = 0
    into.append([])
    for position in range(opening, len(tokens)):
        text = _mark(tokens[position])
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth == 0:
            return position + 1
        if text == "," and depth == 1:
            into.append([])
        elif position != opening and tokens[position].kind != "cpp":
            into[-1].append(tokens[position])
    return None


def substitute(
    macro: Macro, arguments: list[list[Token]], expanded: Callable[[list[Token]], list[Token]]
) -> list[Token]:
    """The macro's text with arguments for parameters; `expanded` expands one. Raises MacroError."""
    parameters = macro.parameters or ()
    out: list[Token] = []
    joins = quotes = False
    for position, token in enumerate(macro.body):
        mark = _mark(token)
        if mark in ("#", "##"):
            joins, quotes = mark == "##" or joins, mark == "#"
            continue
        part = [token]
        if token.kind == "ident" and token.text in parameters:
            part = arguments[parameters.index(token.text)]
            beside = _mark(macro.body[position + 1]) if position + 1 < len(macro.body) else ""
            if quotes:
                part = [_quoted(part, token)]
            elif not joins and beside != "##":
                part = expanded(part)
        if joins and out and part:
            part = [_joined(out.pop(), part[0]), *part[1:]]
        out.extend(part)
        joins = quotes = False
    return out


def _mark(token: Token) -> str:
    """A punctuation's spelling; empty for any other token."""
    return token.text if token.kind == "punct" else ""


def _quoted(argument: list[Token], place: Token) -> Token:
    """The spelling of an argument as a string, one space where there was any."""
    text = ""
    for last, token in zip([None, *argument], argument, strict=False):
        text += " " if last is not None and last.end < token.start else ""
        text += token.text
    spelt = text.replace("\\", "\\\\").replace('"', '\\"')
    return replace(place, kind="string", text=f'"{spelt}"', value=text)


def _joined(left: Token, right: Token) -> Token:
    """Two tokens as one. Raises MacroError if their spelling together is not one token."""
    text = left.text + right.text
    tokens, found = tokenize(Source(text))
    if found or len(tokens) != 1:
        raise MacroError(f"`{left.text}` and `{right.text}` do not join to one token")
    return tokens[0].moved_to(left)
