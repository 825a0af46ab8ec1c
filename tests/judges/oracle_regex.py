"""What `match` means to the oracle: ECMAScript's regular expressions that take linear time.

A pattern is read into functions from a text and a position to the positions where a match may end;
no library of regular expressions is used. `Malformed` is raised for what the grammar does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = ["Malformed", "matches"]

Matcher = Callable[[str, int], set[int]]
WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
UPPER, LOWER, DIGITS = WORD[:26], WORD[26:52], WORD[52:62]
SPACE = " \t\n\v\f\r"
PUNCT = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
CLASSES = {
    "d": DIGITS, "s": SPACE, "w": WORD, "digit": DIGITS, "space": SPACE, "upper": UPPER,
    "lower": LOWER, "alpha": UPPER + LOWER, "alnum": UPPER + LOWER + DIGITS, "punct": PUNCT,
    "xdigit": DIGITS + "abcdefABCDEF", "blank": " \t", "graph": UPPER + LOWER + DIGITS + PUNCT,
    "print": UPPER + LOWER + DIGITS + PUNCT + " ",
    "cntrl": "".join(map(chr, [*range(32), 127])),
}  # fmt: skip
ESCAPES = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


class Malformed(Exception):  # noqa: N818  an outcome, not a fault
    """The text is no regular expression."""


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text matches."""
    reader = Reader(pattern)
    found = reader.choice()
    if reader.rest:
        raise Malformed(pattern)
    return len(text) in found(text, 0)


def one_of(test: Callable[[str], bool]) -> Matcher:
    return lambda text, at: {at + 1} if at < len(text) and test(text[at]) else set()


def in_class(name: str, negated: bool = False) -> Callable[[str], bool]:
    return lambda c: (c in CLASSES[name]) != negated


def at_word_edge(text: str, at: int) -> bool:
    before = at > 0 and text[at - 1] in WORD
    return before != (at < len(text) and text[at] in WORD)


class Reader:
    def __init__(self, rest: str) -> None:
        self.rest = rest

    def take(self, mark: str) -> bool:
        found = self.rest.startswith(mark)
        self.rest = self.rest[len(mark) * found :]
        return found

    def next(self) -> str:
        if not self.rest:
            raise Malformed
        found, self.rest = self.rest[0], self.rest[1:]
        return found

    def choice(self) -> Matcher:
        parts = [self.sequence()]
        while self.take("|"):
            parts.append(self.sequence())
        return lambda text, at: set().union(*(part(text, at) for part in parts))

    def sequence(self) -> Matcher:
        parts = []
        while self.rest and self.rest[0] not in "|)":
            parts.append(self.term())

        def run(text: str, at: int) -> set[int]:
            ends = {at}
            for part in parts:
                ends = {after for end in ends for after in part(text, end)}
            return ends

        return run

    def term(self) -> Matcher:
        for mark, test in (
            ("^", lambda _, at: at == 0),
            ("$", lambda text, at: at == len(text)),
            ("\\b", at_word_edge),
            ("\\B", lambda text, at: not at_word_edge(text, at)),
        ):
            if self.take(mark):
                return lambda text, at, test=test: {at} if test(text, at) else set()
        found = self.atom()
        for low, high in self.counts():
            found = repeated(found, low, high)
        return found

    def group(self) -> Matcher:
        inner = self.choice()
        if not self.take(")"):
            raise Malformed
        return inner

    def atom(self) -> Matcher:
        if self.take("(?:"):
            return self.group()
        if self.take("(?"):
            raise Malformed
        if self.take("("):
            return self.group()
        if self.take("["):
            return self.bracket()
        if self.take("."):
            return one_of(lambda c: c not in "\n\r")
        if self.take("\\"):
            if self.rest[:1] in ("D", "S", "W", "d", "s", "w"):
                name = self.next()
                return one_of(in_class(name.lower(), name.isupper()))
            wanted = self.escaped()
            return one_of(lambda c: c == wanted)
        literal = self.next()
        if literal in "*+?{":
            raise Malformed
        return one_of(lambda c: c == literal)

    def counts(self) -> Iterator[tuple[int, int]]:
        while self.rest and self.rest[0] in "*+?{":
            mark = self.next()
            if mark == "{":
                inside, closing, self.rest = self.rest.partition("}")
                low, comma, high = inside.partition(",")
                if not closing or not low.isdigit() or (high and not high.isdigit()):
                    raise Malformed
                yield int(low), int(high) if high else 99 if comma else int(low)
                if high and int(high) < int(low):
                    raise Malformed
            else:
                yield {"*": (0, 99), "+": (1, 99), "?": (0, 1)}[mark]
            self.take("?")

    def escaped(self) -> str:
        letter = self.next()
        if letter == "c":
            return chr(ord(self.next()) % 32)
        if letter in "xu":
            digits = "".join(self.next() for _ in range(2 if letter == "x" else 4))
            if not set(digits) <= set(CLASSES["xdigit"]):
                raise Malformed
            return chr(int(digits, 16))
        return ESCAPES.get(letter, letter)

    def bracket(self) -> Matcher:
        negated = self.take("^")
        tests: list[Callable[[str], bool]] = []
        while not self.take("]"):
            low = self.member()
            if self.rest.startswith("-") and not self.rest.startswith("-]"):
                self.next()
                high = self.member()
                if callable(low) or callable(high) or high < low:
                    raise Malformed
                tests.append(lambda c, low=low, high=high: low <= c <= high)
            else:
                tests.append(low if callable(low) else lambda c, low=low: c == low)
        return one_of(lambda c: any(test(c) for test in tests) != negated)

    def member(self) -> str | Callable[[str], bool]:
        for mark in ":.=":
            if self.take(f"[{mark}"):
                name, closing, self.rest = self.rest.partition(f"{mark}]")
                if not closing or (mark != ":" and len(name) != 1):
                    raise Malformed
                if mark == ":" and name not in CLASSES:
                    raise Malformed
                return in_class(name) if mark == ":" else name
        if not self.take("\\"):
            return self.next()
        if self.rest[:1] in ("D", "S", "W", "d", "s", "w"):
            name = self.next()
            return in_class(name.lower(), name.isupper())
        if self.rest[:1] in tuple("B123456789"):
            raise Malformed
        return "\b" if self.take("b") else self.escaped()


def repeated(one: Matcher, low: int, high: int) -> Matcher:
    def run(text: str, at: int) -> set[int]:
        ends, found = {at}, {at} if low == 0 else set()
        for count in range(1, min(high, low + len(text) + 1) + 1):
            ends = {after for end in ends for after in one(text, end)}
            if count >= low:
                found |= ends
        return found

    return run
