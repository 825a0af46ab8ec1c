r"""Regular expressions of `match`: ECMAScript's grammar, as C++'s std::regex reads it.

A pattern is translated to one of Python's `re` with the same meaning, so what Python alone knows
(`(?i)`, `(?<=a)`, `\A`, possessive quantifiers) is refused, and what it lacks (`[[:digit:]]`,
`[^]`, `\cJ`) is read. Invariant: everything a pattern says literally is escaped on its way out, so
Python neither warns about a pattern nor reads more into it. Characters count, not bytes; classes
are those of ASCII, as in the C locale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_MAX_NESTING: Final = 100

_CLASSES: Final = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "A-Fa-f0-9",
    "d": "0-9",
    "s": " \\t-\\r",
    "w": "A-Za-z0-9_",
}
_NEGATED: Final = {
    "D": "\\x00-/:-\\U0010ffff",
    "S": "\\x00-\\x08\\x0e-\\x1f!-\\U0010ffff",
    "W": "\\x00-/:-@\\[-\\^`{-\\U0010ffff",
}
_CONTROLS: Final = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INTERVAL: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}", re.ASCII)
_HEX: Final = {
    "x": re.compile(r"[0-9a-fA-F]{2}", re.ASCII),
    "u": re.compile(r"[0-9a-fA-F]{4}", re.ASCII),
}
_CONTROL_LETTER: Final = re.compile(r"[A-Za-z]")


class RegexError(ValueError):
    """A text that is no regular expression; says what is wrong with it."""


@lru_cache(maxsize=1024)
def compile_regex(pattern: str) -> re.Pattern[str]:
    """The pattern as Python's, for `fullmatch`. Linear in the pattern.

    Raises:
        RegexError: ECMAScript's grammar does not have it, or it repeats too often.
    """
    translated = _Translator(pattern).whole()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(f"it is too large: {error}") from None


@dataclass
class _Translator:
    """A position in a pattern; each method takes what it is named after and gives Python's."""

    text: str
    at: int = 0
    depth: int = 0
    opened: int = 0
    closed: frozenset[int] = frozenset()

    def whole(self) -> str:
        found = self.alternatives()
        if self.at < len(self.text):
            raise RegexError("`)` without an open `(`")
        return found

    def ahead(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def accept(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def alternatives(self) -> str:
        parts = [self.sequence()]
        while self.accept("|"):
            parts.append(self.sequence())
        return "|".join(parts)

    def sequence(self) -> str:
        parts = []
        while self.at < len(self.text) and self.ahead() not in "|)":
            test = self.assertion()
            parts.append(self.repeated() if test is None else test)
        return "".join(parts)

    def assertion(self) -> str | None:
        for mark, found in (("^", r"\A"), ("$", r"\Z"), ("\\b", r"\b"), ("\\B", r"\B")):
            if self.accept(mark):
                # Python's `\B` does not hold in the empty text.
                return r"(?!\b)" if mark == "\\B" else found
        for mark in ("(?=", "(?!"):
            if self.accept(mark):
                return f"{mark}{self.group()})"
        return None

    def group(self) -> str:
        """What stands up to and with the closing bracket; the opening one was taken."""
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise RegexError(f"groups are nested more than {_MAX_NESTING} deep")
        inside = self.alternatives()
        if not self.accept(")"):
            raise RegexError("`(` is never closed")
        self.depth -= 1
        return inside

    def atom(self) -> str:
        if self.accept("(?:"):
            return f"(?:{self.group()})"
        if self.ahead(2) == "(?":
            raise RegexError(f"`{self.ahead(3)}` begins no group; valid: (?: (?= (?!")
        if self.accept("("):
            self.opened += 1
            number = self.opened
            inside = self.group()
            self.closed |= {number}
            return f"({inside})"
        if self.accept("["):
            return self.bracket()
        if self.accept("."):
            return r"[^\n\r]"
        if self.accept("\\"):
            return self.escape()
        mark = self.ahead()
        if mark in "*+?{":
            raise RegexError(f"`{mark}` repeats nothing")
        self.at += 1
        return re.escape(mark)

    def repeated(self) -> str:
        """An atom with its quantifiers: a second one repeats what the first one made."""
        found = self.atom()
        count = self.quantifier()
        while count:
            found += count
            count = self.quantifier()
            if count:
                found = f"(?:{found})"
        return found

    def quantifier(self) -> str:
        mark = self.ahead()
        found = ""
        if mark and mark in "*+?":
            self.at += 1
            found = mark
        elif mark == "{":
            interval = _INTERVAL.match(self.text, self.at)
            if interval is None:
                raise RegexError("`{` begins no count; write {2}, {2,} or {2,3}")
            self.at = interval.end()
            low, high = interval[1], interval[3]
            if high and (len(high.lstrip("0")), high.lstrip("0")) < (
                len(low.lstrip("0")),
                low.lstrip("0"),
            ):
                raise RegexError(f"the count {interval[0]} ends before it begins")
            found = interval[0]
        return f"{found}?" if found and self.accept("?") else found

    def escape(self) -> str:
        """An escape outside brackets; its backslash was taken."""
        letter = self.ahead()
        if letter in _CLASSES and len(letter) == 1:
            self.at += 1
            return f"[{_CLASSES[letter]}]"
        if letter in _NEGATED:
            self.at += 1
            return f"[^{_CLASSES[letter.lower()]}]"
        if letter.isascii() and letter.isdigit() and letter != "0":
            digits = re.compile("[0-9]{1,4}").match(self.text, self.at)
            assert digits is not None  # noqa: S101  a digit is ahead
            self.at = digits.end()
            if int(digits[0]) not in self.closed:
                raise RegexError(f"`\\{digits[0]}` refers to no group that ends before it")
            return f"(?:\\{int(digits[0])})"
        return re.escape(self.character())

    def character(self) -> str:
        """One character behind a backslash; one that means nothing special is itself."""
        letter = self.ahead()
        self.at += 1
        if not letter:
            raise RegexError("a lone backslash ends it")
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "0":
            return "\0"
        if letter == "c":
            control = _CONTROL_LETTER.match(self.text, self.at)
            if control is None:
                raise RegexError("`\\c` wants a letter")
            self.at += 1
            return chr(ord(control[0]) % 32)
        if letter in _HEX:
            digits = _HEX[letter].match(self.text, self.at)
            if digits is None:
                raise RegexError(f"`\\{letter}` wants {2 if letter == 'x' else 4} hex digits")
            self.at = digits.end()
            return chr(int(digits[0], 16))
        return letter

    def bracket(self) -> str:
        """A class of characters; its `[` was taken."""
        negated = self.accept("^")
        parts: list[str] = []
        while not self.accept("]"):
            first = self.member(parts)
            if self.ahead() != "-" or self.ahead(2) == "-]":
                if first is not None:
                    parts.append(re.escape(first))
                continue
            self.at += 1
            last = self.member([])
            if first is None or last is None:
                raise RegexError("a class of characters is no end of a range")
            if last < first:
                raise RegexError(f"the range {first}-{last} ends before it begins")
            parts.append(f"{re.escape(first)}-{re.escape(last)}")
        if not parts:
            return r"[\x00-\U0010ffff]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def member(self, classes: list[str]) -> str | None:
        """One character of a bracket; None for a class, which is added to `classes`."""
        if self.at >= len(self.text):
            raise RegexError("`[` is never closed")
        for mark in (":", ".", "="):
            if self.accept(f"[{mark}"):
                end = self.text.find(f"{mark}]", self.at)
                if end < 0:
                    raise RegexError(f"`[{mark}` is never closed")
                name = self.text[self.at : end]
                self.at = end + 2
                return self.named(mark, name, classes)
        if not self.accept("\\"):
            self.at += 1
            return self.text[self.at - 1]
        letter = self.ahead()
        if letter == "b":
            self.at += 1
            return "\b"
        if letter in _NEGATED or (letter in _CLASSES and len(letter) == 1):
            self.at += 1
            classes.append(_NEGATED.get(letter) or _CLASSES[letter])
            return None
        if letter == "B" or (letter.isdigit() and letter != "0"):
            raise RegexError(f"`\\{letter}` is no character")
        return self.character()

    def named(self, mark: str, name: str, classes: list[str]) -> str | None:
        if mark != ":":
            if len(name) != 1:
                raise RegexError(f"`[{mark}{name}{mark}]` names no single character")
            return name
        found = _CLASSES.get(name.lower())
        if found is None:
            raise RegexError(f"there is no class [:{name}:]; valid: {' '.join(_CLASSES)}")
        classes.append(found)
        return None
