"""Text to tokens, for Soufflé's dialect.

Invariant: every step of the loop moves forward by at least one character, so any input ends;
a character that starts no token becomes a diagnostic and is skipped. A token points into its
`Source`, and its line and column are computed only when an error or a tree node wants them.
Lines that start with `#` become one `cpp` token each, and so do `.include "file"` and `.once`:
`preprocess` reads those. Annotations, `@[doc = "text"]`, are comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from deltafix.datalog.source import Source
from deltafix.diagnostics import Diagnostic, Span
from deltafix.facts.values import Value

DIRECTIVES: Final = frozenset(
    [
        "decl",
        "input",
        "output",
        "printsize",
        "limitsize",
        "type",
        "number_type",
        "symbol_type",
        "pragma",
        "rule",
        "strict",
        "comp",
        "init",
        "override",
        "plan",
        "functor",
        "lattice",
    ]
)
"""Words that make one token with the dot before them; `.x` of any other word is dot and name."""

END: Final = "end"
"""Kind of the token after the last one."""

_ESCAPES: Final = {
    '"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r",
    "a": "\a", "b": "\b", "f": "\f", "v": "\v",
}  # fmt: skip

_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:[ \t\r\f\v\n]|\\\r?\n)+)
  | (?P<comment>//[^\n]* | /\*(?:[^*]|\*(?!/))*\*/
      | @!?\[(?:[^\[\]"]|"(?:[^"\\\n]|\\[^\n])*"|\[[^\[\]"]*\])*\])
  | (?P<open_comment>/\*)
  | (?P<address>\d+\.\d+\.\d+\.\d+)
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
  | (?P<integer>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)(?P<unsigned>u?))
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<open_string>"[^\n]*)
  | (?P<quoted>'[^'\n]*')
  | (?P<cpp>(?<![A-Za-z0-9_?])\.(?:include\b(?:[ \t]*"[^"\n]*")?|once\b))
  | (?P<directive>\.[a-z_]+(?![A-Za-z0-9_?]))
  | (?P<ident>[A-Za-z_?][A-Za-z0-9_?]*)
  | (?P<punct>:-|<:|:=|==|=<|=>|<>|<-|!==|->|&&|\|\||\*\*|<=|>=|!=|@@|[-.,;:!=<>+*/%^(){}\[\]|$@&])
    """,
    re.VERBOSE | re.ASCII,
)
_NAME_FOLLOWS: Final = re.compile(r'[ \t]+[A-Za-z_?"]')
_CPP: Final = re.compile(r"#(?:\\\r?\n|[^\n])*")


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind, its spelling, its value (literals), and its place.

    `kind` is `ident`, `number`, `unsigned`, `float`, `string`, `punct`, `directive`, `cpp`, `end`,
    and `comment` when asked for.
    """

    kind: str
    text: str
    source: Source
    start: int
    end: int
    value: Value = 0

    @property
    def span(self) -> Span:
        """Where the token stands."""
        return self.source.span(self.start, self.end)

    @property
    def shown(self) -> str:
        """The token as an error message names it."""
        return "the end of the text" if self.kind == END else f"`{self.text}`"

    def moved_to(self, target: Token) -> Token:
        """The same token standing at `target`: a macro's body is blamed on its use."""
        return Token(self.kind, self.text, target.source, target.start, target.end, self.value)


class _Lexer:
    def __init__(self, source: Source, start: int, stop: int, comments: bool, hashes: bool) -> None:
        self.source = source
        self.comments = comments
        self.hashes = hashes
        self.position = start
        self.stop = stop
        self.tokens: list[Token] = []
        self.diagnostics: list[Diagnostic] = []

    def report(self, message: str, start: int, end: int, help: str | None = None) -> None:  # noqa: A002  the field's name
        span = self.source.span(start, max(end, start + 1))
        self.diagnostics.append(Diagnostic("DF102", message, span, help))

    def emit(self, kind: str, start: int, end: int, value: Value = 0) -> None:
        text = self.source.text[start:end]
        self.tokens.append(Token(kind, text, self.source, start, end, value))

    def at_line_start(self) -> bool:
        before = self.source.text.rfind("\n", 0, self.position) + 1
        return not self.source.text[before : self.position].strip()

    def run(self) -> None:
        text = self.source.text
        while self.position < self.stop:
            start = self.position
            if text[start] == "#" and self.at_line_start():
                match = _CPP.match(text, start, self.stop)
                end = match.end() if match else start + 1
                self.position = end
                self.emit("cpp", start, end)
                continue
            match = _TOKEN.match(text, start, self.stop)
            if match is None and self.hashes and text[start] == "#":
                self.position = start + 1 + (text[start + 1 : start + 2] == "#")
                self.emit("punct", start, self.position)
                continue
            if match is None:
                self.position = start + 1
                self.report(f"unexpected character {text[start]!r}", start, start + 1)
                continue
            self.position = match.end()
            if match.lastgroup != "space":
                self.take(match, start, match.end())

    def take(self, match: re.Match[str], start: int, end: int) -> None:
        kind = match.lastgroup
        text = match.group()
        if kind == "comment" and not self.comments:
            return
        if kind == "open_comment":
            self.position = self.stop
            self.report("this comment is never closed", start, end, "close it with `*/`")
        elif kind == "open_string":
            self.report("this string is never closed", start, end, 'close it with `"` on its line')
            self.emit("string", start, end, text[1:])
        elif kind == "quoted":
            self.report(f"{text} is not a string", start, end, f'write "{text[1:-1]}"')
            self.emit("string", start, end, text[1:-1])
        elif kind == "string":
            self.emit("string", start, end, self.unescape(text, start))
        elif kind == "float":
            self.emit("float", start, end, float(text))
        elif kind == "address":
            self.emit("number", start, end, self.address(text, start, end))
        elif kind in ("integer", "unsigned"):
            self.integer(text, start, end)
        elif kind == "directive" and not self.is_directive(text, start, end):
            self.emit("punct", start, start + 1)
            self.position = start + 1
        else:
            self.emit(str(kind), start, end)

    def is_directive(self, text: str, start: int, end: int) -> bool:
        """Whether a dot and a word are a directive, not the second half of `c.input`."""
        if text[1:] not in DIRECTIVES:
            return False
        before = self.source.text[start - 1 : start]
        if not (before.isalnum() or before in ("_", "?")) or not before:
            return True
        return _NAME_FOLLOWS.match(self.source.text, end, self.stop) is not None

    def unescape(self, text: str, start: int) -> str:
        if "\\" not in text:
            return text[1:-1]
        out: list[str] = []
        position = 1
        while position < len(text) - 1:
            character = text[position]
            if character == "\\":
                position += 1
                known = _ESCAPES.get(text[position])
                if known is None:
                    at = start + position
                    valid = " ".join(f"\\{escape}" for escape in _ESCAPES)
                    self.report(
                        f"unknown escape `\\{text[position]}`", at - 1, at + 1, f"valid: {valid}"
                    )
                    known = text[position]
                character = known
            out.append(character)
            position += 1
        return "".join(out)

    def address(self, text: str, start: int, end: int) -> int:
        parts = [int(part) for part in text.split(".")]
        if max(parts) > 0xFF:
            self.report(f"{text} is not an address", start, end, "each part is 0 to 255")
        return int.from_bytes(bytes(min(part, 0xFF) for part in parts), "big")

    def integer(self, text: str, start: int, end: int) -> None:
        digits = text.rstrip("u")
        base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 10)
        # Python refuses to read more than 4,300 decimal digits; no type holds a tenth of that.
        value = int(digits, base) if len(digits) <= 400 else 1 << 1000
        if value >= 1 << 64:
            self.report(
                f"{digits[:30]}{'…' if len(digits) > 30 else ''} does not fit 64 bits",
                start,
                end,
                "valid: up to 9223372036854775807, or 18446744073709551615u for unsigned",
            )
            value = 0
        following = self.source.text[end : end + 1]
        if following.isalnum() or following == "_":
            self.report(f"a number runs into `{following}`", start, end + 1, "put a space between")
        self.emit("unsigned" if text.endswith("u") else "number", start, end, value)


def tokenize(
    source: Source,
    start: int = 0,
    stop: int | None = None,
    *,
    comments: bool = False,
    hashes: bool = False,
) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of `source[start:stop]` in order, without an end token, and what was wrong.

    With `comments` those are tokens too, of kind `comment`; with `hashes` (the text of a macro)
    so are `#` and `##`. Linear in the text, whatever it is.
    """
    lexer = _Lexer(source, start, len(source.text) if stop is None else stop, comments, hashes)
    lexer.run()
    return lexer.tokens, lexer.diagnostics
