"""The parser's hands: looking at tokens, taking them, and saying what is wrong with one.

Invariant: `take` never moves past the end token. A syntax error is raised as `SyntaxFault` and
caught once per clause, where `parser` recovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from deltafix.datalog.lexer import END, Token
from deltafix.datalog.source import Source
from deltafix.diagnostics import Diagnostic, Span
from deltafix.facts.logical_types import MOST_DIGITS, logical_type

_OPENERS: Final = {"(": ")", "[": "]", "{": "}"}

_MISSPELT: Final = {
    "==": "equality is `=`",
    ":=": "a rule is `head :- body.`",
    "<-": "a rule is `head :- body.`",
    "=<": "write `<=`",
    "=>": "write `>=`",
    "<>": "write `!=`",
    "!==": "write `!=`",
    "&&": "join literals with `,`",
    "&": "join literals with `,`",
    "||": "join alternatives with `;`",
    "|": "join alternatives with `;`",
    "**": "the power operator is `^`",
    "%": "a comment is // or /* */",
    "not": "negation is `!atom(..)`",
    "and": "join literals with `,`",
    "or": "join alternatives with `;`",
}


class SyntaxFault(Exception):  # noqa: N818  raised and caught inside the parser only
    """One clause cannot be read; carries the diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Cursor:
    """Tokens with a position, the table of matching brackets, and the diagnostics so far."""

    def __init__(self, tokens: Sequence[Token], source: Source) -> None:
        last = len(source.text)
        self.tokens = [*tokens, Token(END, "", source, last, last)]
        self.position = 0
        self.diagnostics: list[Diagnostic] = []
        self.closing = _matching(self.tokens)

    @property
    def token(self) -> Token:
        """The token at hand."""
        return self.tokens[self.position]

    def peek(self, ahead: int = 1) -> Token:
        """A token further on; the end token past the end."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The token at hand, moving on."""
        token = self.tokens[self.position]
        if token.kind != END:
            self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether the token at hand is one of these marks or words (never a string)."""
        token = self.token
        return token.kind not in ("string", END) and token.text in texts

    def accept(self, text: str) -> Token | None:
        """Take the token if it is this one."""
        return self.take() if self.at(text) else None

    def expect(self, text: str, where: str) -> Token:
        """Take exactly this token, or fail saying where it was wanted."""
        if not self.at(text):
            self.fail(f"expected `{text}` {where}, found {self.token.shown}")
        return self.take()

    def expect_name(self, what: str) -> Token:
        """Take an identifier, or fail saying what it should name."""
        if self.token.kind != "ident" or self.token.text == "_":
            self.fail(f"expected {what}, found {self.token.shown}")
        return self.take()

    def dotted_name(self, what: str) -> Token:
        """Take `a` or `a.b.c`, written without space, as one token; or fail."""
        begin = self.position
        first = last = self.expect_name(what)
        while self.joined():
            self.take()
            last = self.take()
        if last is first:
            return first
        text = "".join(token.text for token in self.tokens[begin : self.position])
        return Token("ident", text, first.source, first.start, max(first.end, last.end))

    def type_name(self, what: str) -> Token:
        """Take a type's name as one token: as `dotted_name`, or `decimal(10, 2)`; or fail."""
        name = self.dotted_name(what)
        if name.text != "decimal" or not self.accept("("):
            return name
        digits = self._digits("how many digits a decimal has")
        self.expect(",", "between a decimal's digits and those behind its point")
        scale = self._digits("how many digits it has behind the point")
        last = self.token
        self.expect(")", "to close `decimal(`")
        if self.token.text == "?" and self.token.start == last.end:
            last = self.take()
        text = f"decimal({digits}, {scale}){'?' * (last.text == '?')}"
        if logical_type(text) is None:
            hint = f"it has 1 to {MOST_DIGITS} digits, and no more of them behind the point"
            self.fail(f"there is no type `{text}`", name, hint)
        return Token("ident", text, name.source, name.start, max(name.end, last.end))

    def _digits(self, what: str) -> int:
        number = self.token
        if number.kind != "number" or not isinstance(number.value, int):
            self.fail(f"expected {what}, found {number.shown}", help="write decimal(10, 2)")
        self.take()
        return number.value

    def joined(self, ahead: int = 0) -> bool:
        """Whether the tokens from `ahead` on are a dot and a name, joined to the one before."""
        position = self.position + ahead
        return position < len(self.tokens) - 1 and _joins(self.tokens, position)

    def fail(self, message: str, token: Token | None = None, help: str | None = None) -> NoReturn:  # noqa: A002  the field's name
        """Give this clause up."""
        at = token or self.token
        if help is None and at.kind != "string":
            help = _MISSPELT.get(at.text)  # noqa: A001  the field's name
        raise SyntaxFault(Diagnostic("DF103", message, self.span_of(at), help))

    def span_of(self, token: Token) -> Span:
        """The token's span; for the end token, the character after the last real one."""
        if token.kind == END and len(self.tokens) > 1:
            last = self.tokens[-2]
            return last.source.span(last.end, last.end + 1)
        return token.span

    def since(self, start: Token) -> Span:
        """From the start of a token to the end of the last one taken."""
        last = self.tokens[max(self.position - 1, 0)]
        end = last.end if last.source is start.source and last.end > start.start else start.end
        return start.source.span(start.start, end)

    def skip_group(self) -> None:
        """Move behind the bracket that closes the one at hand (or to the end)."""
        closing = self.closing.get(self.position)
        self.position = len(self.tokens) - 1 if closing is None else closing + 1


def _matching(tokens: Sequence[Token]) -> dict[int, int]:
    """Opening bracket position -> closing bracket position, in one pass."""
    closing: dict[int, int] = {}
    open_at: list[int] = []
    for position, token in enumerate(tokens):
        if token.kind != "punct":
            continue
        if token.text in _OPENERS:
            open_at.append(position)
        elif token.text in (")", "]", "}"):
            if open_at and _OPENERS[tokens[open_at[-1]].text] == token.text:
                closing[open_at.pop()] = position
        elif token.text == "." and open_at and not _joins(tokens, position):
            # A clause ends here whatever was left open: damage stays inside one clause.
            while open_at and tokens[open_at[-1]].text != "{":
                open_at.pop()
    return closing


def _joins(tokens: Sequence[Token], position: int) -> bool:
    """Whether the token at a position is the dot of a dotted name."""
    last, dot, after = tokens[position - 1], tokens[position], tokens[position + 1]
    names = position > 0 and dot.text == "." and last.kind == after.kind == "ident"
    return names and _adjacent(last, dot) and _adjacent(dot, after)


def _adjacent(left: Token, right: Token) -> bool:
    """Whether nothing stands between two tokens; those of one macro's use stand in one place."""
    return left.end == right.start or (left.start, left.end) == (right.start, right.end)
