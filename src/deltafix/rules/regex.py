r"""Regular expressions, matched by RE2: in time linear in the text, whatever the pattern says.

Rules and SQL come from strangers, and a pattern that backtracks can take the age of the universe.
Lives here: `regex`, the one door to RE2, and `compile_regex`, the patterns of `match`:
ECMAScript's grammar, as C++'s std::regex reads it, translated to RE2's with the same meaning. What
RE2 alone knows (`(?i)`, `\A`, `\pL`) is refused, and what it lacks (`[^]`, `\cJ`) is read; what no
linear matcher has (`(?=a)`, `\1`) is refused, too. `Translator` is what the patterns of SQL's
dialects are read with, too. Invariant: everything a pattern says literally is escaped on its way
out, so RE2 reads no more into it. Characters count, not bytes; classes are those of ASCII, as in
the C locale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from deltafix.errors import MissingDependencyError

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
    "D": "\\x00-/:-\\x{10ffff}",
    "S": "\\x00-\\x08\\x0e-\\x1f!-\\x{10ffff}",
    "W": "\\x00-/:-@\\[-\\^`{-\\x{10ffff}",
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


@lru_cache(maxsize=128)
def regex(pattern: str, **options: bool) -> Any:
    """A pattern of RE2's, compiled, with some of RE2's options set. Linear in the pattern.

    Raises:
        RegexError: RE2 does not have it, or it is too large.
        MissingDependencyError: google-re2 is not installed: `pip install 'deltafix[regex]'`.
    """
    try:
        import re2  # noqa: PLC0415  optional
    except ImportError as error:
        message = "regular expressions need google-re2: pip install 'deltafix[regex]'"
        raise MissingDependencyError(message, extra="regex") from error
    settings = re2.Options()
    settings.log_errors = False
    for name, value in options.items():
        setattr(settings, name, value)
    try:
        return re2.compile(pattern, settings)
    except re2.error as error:
        (text,) = error.args
        raise RegexError(
            text.decode(errors="replace") if isinstance(text, bytes) else text
        ) from None
    except UnicodeEncodeError:
        raise RegexError("it has half of a surrogate pair, which is no character") from None


@lru_cache(maxsize=1024)
def compile_regex(pattern: str) -> Any:
    """The pattern of `match` as RE2's, for `fullmatch`. Linear in the pattern.

    Raises:
        RegexError: ECMAScript's grammar does not have it, or RE2 cannot match it in linear time.
        MissingDependencyError: google-re2 is not installed.
    """
    return regex(Translator(pattern).whole())


@dataclass
class Translator:
    """A position in a pattern; each method takes what it is named after and gives RE2's."""

    text: str
    at: int = 0
    depth: int = 0
    groups: int = 0
    most: ClassVar[int] = 1000
    """The greatest count of a quantifier: RE2 has no greater ones."""

    def whole(self) -> str:
        """The whole pattern."""
        pattern = self.alternatives()
        if self.at < len(self.text):
            raise RegexError("`)` without an open `(`")
        return pattern

    def ahead(self, size: int = 1) -> str:
        """The next characters."""
        return self.text[self.at : self.at + size]

    def accept(self, mark: str) -> bool:
        """Whether these come next; then they are taken."""
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def alternatives(self) -> str:
        """What stands between `|`."""
        parts = [self.sequence()]
        while self.accept("|"):
            parts.append(self.sequence())
        return "|".join(parts)

    def sequence(self) -> str:
        """What stands one behind another."""
        parts = []
        while self.at < len(self.text) and self.ahead() not in "|)":
            test = self.assertion()
            parts.append(self.repeated() if test is None else test)
        return "".join(parts)

    def assertion(self) -> str | None:
        """What takes no character; None if something else comes."""
        for mark, translated in (("^", r"\A"), ("$", r"\z"), ("\\b", r"\b"), ("\\B", r"\B")):
            if self.accept(mark):
                return translated
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
        """What a quantifier repeats."""
        if self.accept("(?:"):
            return f"(?:{self.group()})"
        if self.ahead(3) in ("(?=", "(?!", "(?<"):
            raise RegexError(f"`{self.ahead(3)}` looks around, which takes more than linear time")
        if self.ahead(2) == "(?":
            raise RegexError(f"`{self.ahead(3)}` begins no group; valid: (?:")
        if self.accept("("):
            self.groups += 1
            return f"({self.group()})"
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
        pattern = self.atom()
        count = self.quantifier()
        while count:
            pattern += count
            count = self.quantifier()
            if count:
                pattern = f"(?:{pattern})"
        return pattern

    def quantifier(self) -> str:
        """How often; empty if it says nothing of that."""
        mark = self.ahead()
        quantifier = ""
        if mark and mark in "*+?":
            self.at += 1
            quantifier = mark
        elif mark == "{":
            interval = _INTERVAL.match(self.text, self.at)
            if interval is None:
                raise RegexError("`{` begins no count; write {2}, {2,} or {2,3}")
            self.at = interval.end()
            counts = [count.lstrip("0") or "0" for count in (interval[1], interval[3]) if count]
            if any(len(count) > 4 or int(count) > self.most for count in counts):
                raise RegexError(f"{interval[0]} is too large a count: {self.most} are the most")
            if int(counts[-1]) < int(counts[0]):
                raise RegexError(f"the count {interval[0]} ends before it begins")
            quantifier = interval[0]
        return f"{quantifier}?" if quantifier and self.accept("?") else quantifier

    def escape(self) -> str:
        """An escape outside brackets; its backslash was taken."""
        letter = self.ahead()
        if letter in _CLASSES and len(letter) == 1:
            self.at += 1
            return f"[{_CLASSES[letter]}]"
        if letter in _NEGATED:
            self.at += 1
            return f"[^{_CLASSES[letter.lower()]}]"
        if letter and letter in "123456789":
            raise RegexError(f"`\\{letter}` refers to a group, which takes more than linear time")
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
                    parts.append(self.ranged(first, first))
                continue
            self.at += 1
            last = self.member([])
            if first is None or last is None:
                raise RegexError("a class of characters is no end of a range")
            if last < first:
                raise RegexError(f"the range {first}-{last} ends before it begins")
            parts.append(self.ranged(first, last))
        if not parts:
            return f"[{'' if negated else '^'}\\x00-\\x{{10ffff}}]"
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def ranged(self, first: str, last: str) -> str:
        """The characters from one to another of a bracket."""
        return re.escape(first) if first == last else f"{re.escape(first)}-{re.escape(last)}"

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
        """A class of characters by its name, or a character; `[:` was taken."""
        if mark != ":":
            if len(name) != 1:
                raise RegexError(f"`[{mark}{name}{mark}]` names no single character")
            return name
        characters = _CLASSES.get(name.lower())
        if characters is None:
            raise RegexError(f"there is no class [:{name}:]; valid: {' '.join(_CLASSES)}")
        classes.append(characters)
        return None
