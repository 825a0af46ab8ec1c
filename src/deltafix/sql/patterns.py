r"""The patterns of SQL's dialects, as RE2's, which are matched in linear time (`rules.regex`).

DuckDB's patterns are RE2's. PostgreSQL's and Spark's (Java's) are read here and translated to what
means the same: `.`, `$` and the classes are not alike in any two of the three. Invariant: what is
let through finds what the dialect's own matcher finds, in the same places; what is not known to is
a RegexError that says what to write. PostgreSQL's classes are those of its collation C.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, ClassVar, Final

from deltafix.rules.regex import RegexError, Translator, regex

__all__ = ["Pattern", "RegexError", "Use", "pattern_of"]


class Use(IntEnum):
    """What is asked of a pattern: whether it is found, where, and where its groups are."""

    TEST = 0
    WHOLE = 1
    GROUPS = 2


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, compiled.

    Attributes:
        regexp: of RE2, over UTF-8; it has `search`, `fullmatch` and `groups`.
        breaks: that it may end before the line break at the end of a text, too: Java's `$`.
    """

    regexp: Any
    breaks: bool = False


@lru_cache(maxsize=128)
def pattern_of(dialect: str, text: str, options: str = "", use: Use = Use.TEST) -> Pattern:
    """A pattern of a dialect, with its options, for a use. Linear in the pattern.

    Raises:
        RegexError: it is none, or means something else to RE2.
        MissingDependencyError: google-re2 is not installed.
    """
    if dialect == "duckdb":
        return Pattern(_re2(text, options))
    read = _READERS[dialect](text, options)
    translated = read.whole()
    read.check(use)
    longest = dialect != "spark"
    return Pattern(regex(translated, longest_match=longest and use > Use.TEST), read.breaks)


def _re2(text: str, options: str) -> Any:
    """A pattern of DuckDB's."""
    asked = {}
    for option in options:
        if option in "ci":
            asked["case_sensitive"] = option == "c"
        elif option in "mnps":
            asked["dot_nl"] = option == "s"
        elif option == "l":
            asked["literal"] = True
        else:
            raise RegexError(f"{option!r} is no option of it; options are c, i, l, m, n, p, s")
    return regex(text, **asked)


def _quoted(letter: str) -> str:
    return f"\\x{{{ord(letter):x}}}"


_ESCAPES: Final = {
    "d": "[0-9]", "D": "[^0-9]", "s": "[ \\t-\\r]", "S": "[^ \\t-\\r]", "w": "[A-Za-z0-9_]",
    "W": "[^A-Za-z0-9_]", "n": "\\n", "t": "\\t", "r": "\\r", "f": "\\f", "A": "\\A",
}  # fmt: skip


_EDGES: Final = (r"\A", r"\z", r"\b", r"\B")


class _Reader(Translator):
    """What is common to PostgreSQL's and Java's patterns."""

    dot: ClassVar[str]
    escapes: ClassVar[dict[str, str]]
    """What a backslash and a letter are, as RE2 writes it."""
    options: ClassVar[str]
    breaks = False

    def __init__(self, text: str, options: str) -> None:
        super().__init__(text)
        self.given = options
        self.peculiar = ""
        """What makes its groups, or where it ends, another engine's own."""
        self.lazy = ""

    def whole(self) -> str:
        if self.ahead(2) == "(?" and self.ahead(3)[2:].isalpha():
            inside, closing, _ = self.text[2:].partition(")")
            self.at = len(inside) + 3 if closing else len(self.text)
            self.given += inside
        wrong = set(self.given) - set(self.options)
        if wrong:
            options = ", ".join(self.options)
            raise RegexError(f"{min(wrong)!r} is no option of it; options are {options}")
        return super().whole()

    def check(self, use: Use) -> None:
        """Raises RegexError for what is found somewhere else than by the dialect's matcher."""
        raise NotImplementedError

    @property
    def folds(self) -> bool:
        return self.given.rfind("i") > self.given.rfind("c")

    @staticmethod
    def cases(letter: str) -> set[str]:
        """What a letter is without regard to case: in ASCII alone, as in Java, and in C."""
        return {letter.lower(), letter.upper()} if letter.isascii() else set()

    def alternatives(self) -> str:
        translated = super().alternatives()
        if "|" in translated:  # written, each is \x{7c}
            self.peculiar = self.peculiar or "|"
        return translated

    def assertion(self) -> str | None:
        return r"\A" if self.accept("^") else r"\z" if self.accept("$") else None

    def atom(self) -> str:
        mark = self.ahead()
        if self.ahead(2) == "(?" and self.ahead(3) != "(?:":
            raise RegexError(f"`{self.ahead(3)}` is not (?: and not at the front")
        if mark == ".":
            self.at += 1
            return self.dot
        if mark in ("(", "[", "\\") or mark in "*+?{":
            return super().atom()
        self.at += 1
        return self.literal(mark)

    def literal(self, letter: str) -> str:
        cases = sorted({letter, *self.cases(letter)} if self.folds else {letter})
        return f"[{''.join(map(_quoted, cases))}]" if len(cases) > 1 else _quoted(letter)

    def repeated(self) -> str:
        is_group = self.ahead() == "("
        translated = self.atom()
        count = self.quantifier()
        if count and self.ahead() and self.ahead() in "*+?{":
            raise RegexError(f"`{count}{self.ahead()}`: put what is repeated twice into (?: )")
        if count and translated in _EDGES:
            raise RegexError(f"`{count}` repeats what is no character")
        if len(count) > 1 and count.endswith("?"):
            self.lazy = count
        if count and is_group:
            self.peculiar = self.peculiar or f"){count}"
            if regex(f"(?:{translated})").fullmatch("") is not None:
                raise RegexError(f"`{count}` repeats a group that can be empty")
        return translated + count

    def escape(self) -> str:
        letter = self.ahead()
        if letter.isdigit():
            return super().escape()
        if letter in self.escapes:
            self.at += 1
            return self.escapes[letter]
        return self.literal(self.character())

    def character(self) -> str:
        letter = self.ahead()
        if letter == "u":
            return super().character()
        if not letter or letter.isalnum() or not letter.isascii():
            known = " ".join(f"\\{escape}" for escape in self.escapes)
            raise RegexError(f"`\\{letter}` is not one of {known}")
        self.at += 1
        return letter

    def bracket(self) -> str:
        if self.ahead() == "]" or self.ahead(2) == "^]":
            raise RegexError("`]` is the first in brackets; write \\]")
        return super().bracket()

    def ranged(self, first: str, last: str) -> str:
        plain = f"{_quoted(first)}-{_quoted(last)}"
        if not self.folds:
            return plain
        if first != last and not last.isascii():
            raise RegexError(f"the range {first}-{last} without regard to case")
        letters = map(chr, range(ord(first), ord(last) + 1))
        return plain + "".join(_quoted(o) for letter in letters for o in sorted(self.cases(letter)))

    def member(self, classes: list[str]) -> str | None:
        if self.at >= len(self.text):
            raise RegexError("`[` is never closed")
        if not self.accept("\\"):
            self.at += 1
            return self.text[self.at - 1]
        known = self.escapes.get(self.ahead())
        if known is None:
            return self.character()
        if known.startswith("[^") or known in _EDGES:
            raise RegexError(f"`\\{self.ahead()}` in brackets")
        self.at += 1
        classes.append(known.removeprefix("[").removesuffix("]"))
        return None


class _Postgres(_Reader):
    """An advanced regular expression: of all that match, the longest, however it is written."""

    most = 255
    dot = "(?s:.)"
    escapes: ClassVar = {**_ESCAPES, "v": "\\v", "y": "\\b", "Y": "\\B", "Z": "\\z"}
    options = "ics"

    def check(self, use: Use) -> None:
        if use > Use.TEST and self.lazy:
            raise RegexError(f"`{self.lazy}` decides what all else takes; write it without `?`")
        if use is Use.GROUPS and self.peculiar:
            said = f"`{self.peculiar}` decides what its groups hold"
            raise RegexError(f"{said}; write it without, or find the whole of it")

    def member(self, classes: list[str]) -> str | None:
        if self.ahead(2) in ("[.", "[="):
            raise RegexError(f"`{self.ahead(2)}` depends on a collation")
        if not self.accept("[:"):
            return super().member(classes)
        name, _, _ = self.text[self.at :].partition(":]")
        self.at += len(name) + 2
        if name != name.lower() or (self.folds and name in ("lower", "upper")):
            raise RegexError(f"[:{name}:] without regard to case")
        return self.named(":", name, classes)


class _Similar(_Postgres):
    """A pattern of SIMILAR TO: the whole text is one, `%` is any text and `_` any character."""

    def whole(self) -> str:
        return Translator.whole(self)  # without options

    def assertion(self) -> str | None:
        return None

    def atom(self) -> str:
        if self.ahead(2) == "(?":
            raise RegexError("`(?` begins no group of SIMILAR TO; write ( )")
        for mark, translated in (("%", "(?s:.)*"), ("_", "(?s:.)")):
            if self.accept(mark):
                return translated
        if self.ahead() in (".", "^", "$"):
            self.at += 1
            return _quoted(self.text[self.at - 1])
        return super().atom()

    def member(self, classes: list[str]) -> str | None:
        if self.ahead() == "\\":
            raise RegexError("`\\` in brackets")
        return super().member(classes)


class _Java(_Reader):
    """A pattern of java.util.regex: of all that match, the first that is written."""

    dot = "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]"
    escapes: ClassVar = {**_ESCAPES, "z": "\\z"}
    options = "i"

    def check(self, use: Use) -> None:
        if self.breaks and (use > Use.TEST or "\\z" in self.text):
            raise RegexError("`$` is before a line break at the end, too; write \\z")

    def assertion(self) -> str | None:
        if self.ahead() == "$":
            self.breaks = True
            if self.depth or self.ahead(2) not in ("$", "$|"):
                raise RegexError("`$` is before a line break at the end, too; write \\z")
        return super().assertion()

    def member(self, classes: list[str]) -> str | None:
        if self.ahead() == "[" or self.ahead(2) == "&&":
            raise RegexError(f"`{self.ahead(2)}` in brackets; write \\[ and \\&")
        return super().member(classes)


_READERS: Final[dict[str, type[_Reader]]] = {
    "postgres": _Postgres, "similar": _Similar, "spark": _Java,
}  # fmt: skip
