"""The shape of constructed types: which branches and fields a value may have, and its text.

A `Shape` checks Python values at the door and reads them from fact files, where a record is
`[1, a]` or `nil` and a branch `$Node(1, [2, nil])`; symbols may stand in quotes. Invariant: what
leaves here is made of exactly int, float, str, tuple, `Branch` and None, and fits its type; lists
of any length fit, since nothing recurses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from deltafix.diagnostics import did_you_mean, plural
from deltafix.facts import values

Fields: TypeAlias = tuple[tuple[str, str], ...]
"""Fields in order, as name and kind: a base type or a constructed type by name."""

Types: TypeAlias = Mapping[str, Mapping[str, Fields]]
"""Constructed type -> branch -> its fields; a record has the one branch `""`."""

_SPACE: Final = re.compile(r"[ \t]*")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BARE: Final = re.compile(r"[^,\[\]()]*")
_WORD: Final = re.compile(r"\$?[\w.?]+")


class _Frame:
    """A value whose fields are being made."""

    __slots__ = ("branch", "done", "fields", "given")

    def __init__(self, branch: str, fields: Fields, given: Any) -> None:
        self.branch, self.fields, self.given = branch, fields, given
        self.done: list[values.Value] = []

    @property
    def value(self) -> values.Value:
        return values.Branch(self.branch, tuple(self.done)) if self.branch else tuple(self.done)


@dataclass(frozen=True, slots=True)
class Shape:
    """A constructed type among those of its program, and the word size of its integers."""

    types: Types
    kind: str
    bits: int = values.WORD

    @property
    def only(self) -> values.BaseType | None:
        """The type of the one field of records that have one, a base type of whole words."""
        branches = self.types.get(self.kind, {})
        kinds = [kind for _, kind in branches.get("", ())]
        if len(kinds) != 1 or kinds[0] in self.types or self.bits != values.WORD:
            return None
        return cast("values.BaseType", kinds[0])

    @property
    def has_nil(self) -> bool:
        """Whether `nil` is a value of it: of records it is, of branches it is not."""
        return "" in self.types.get(self.kind, {})

    @property
    def spelled(self) -> str:
        """Its values as programs write them: `[x: number] or nil`, `$Circle(r: number)`."""
        forms = []
        for name, fields in self.types[self.kind].items():
            inside = ", ".join(f"{field}: {of}" for field, of in fields)
            forms.append(
                f"${name}({inside})" if name and fields else f"${name}" if name else f"[{inside}]"
            )
        last = "nil" if self.has_nil else forms.pop()
        return " or ".join([", ".join(forms), last] if forms else [last])

    def check(self, value: object) -> values.Value:
        """A Python value as the type holds it. Raises ValueError, saying what does not fit."""
        frames: list[_Frame] = []
        kind, given = self.kind, value
        while True:
            opened = self._opened(kind, given)
            if isinstance(opened, _Frame):
                frames.append(opened)
            elif not frames:
                return opened
            else:
                frames[-1].done.append(opened)
            while len(frames[-1].done) == len(frames[-1].fields):
                whole = frames.pop().value
                if not frames:
                    return whole
                frames[-1].done.append(whole)
            top = frames[-1]
            index = len(top.done)
            kind, given = top.fields[index][1], top.given[index]

    def _opened(self, kind: str, given: object) -> values.Value | _Frame:
        """A value without fields, or a frame for its fields."""
        branches = self.types.get(kind)
        if branches is None:
            fit = values.fitting(kind, given, self.bits)
            if fit is None:
                valid = values.valid_values(kind, self.bits)
                raise ValueError(f"{values.shown(given)} in it is no {kind}, which takes {valid}")
            return fit
        if "" in branches:
            if given is None:
                return None
            if isinstance(given, tuple | list) and len(given) == len(branches[""]):
                return _Frame("", branches[""], given)
            wanted = ", ".join(f"{name}: {of}" for name, of in branches[""])
            of = f" of {len(given)}" if isinstance(given, tuple | list) else ""
            raise ValueError(f"{kind} takes a tuple ({wanted}) or None, not {_brief(given)}{of}")
        if isinstance(given, values.Branch) and given.name in branches:
            fields = branches[given.name]
            if len(given.fields) == len(fields):
                return _Frame(given.name, fields, given.fields)
            has = plural(len(fields), "field")
            raise ValueError(f"${given.name} has {has}, {len(given.fields)} given")
        known = " ".join(f"${name}" for name in branches)
        if isinstance(given, values.Branch):
            close = did_you_mean(given.name, branches, f"it has {known}")
            raise ValueError(f"{kind} has no branch `{given.name}`: {close}")
        raise ValueError(f"{kind} takes a Branch, one of {known}, not {_brief(given)}")

    def read(self, text: str) -> values.Value:
        """The value that a fact file spells. Raises ValueError, saying where it goes wrong."""
        frames: list[_Frame] = []
        kind, at = self.kind, 0
        while True:
            opened, at = self._read(kind, text, _skip(text, at))
            if isinstance(opened, _Frame):
                frames.append(opened)
            elif frames:
                frames[-1].done.append(opened)
            elif _skip(text, at) == len(text):
                return opened
            else:
                raise ValueError(f"{text[at:][:20]!r} follows the value")
            while len(frames[-1].done) == len(frames[-1].fields):
                top = frames.pop()
                at = _expect(text, at, ")" if top.branch else "]")
                if frames:
                    frames[-1].done.append(top.value)
                elif _skip(text, at) == len(text):
                    return top.value
                else:
                    raise ValueError(f"{text[at:][:20]!r} follows the value")
            if frames[-1].done:
                at = _expect(text, at, ",")
            kind = frames[-1].fields[len(frames[-1].done)][1]

    def _read(self, kind: str, text: str, at: int) -> tuple[values.Value | _Frame, int]:
        """One value, or the opening of one with fields, and what comes behind it."""
        branches = self.types.get(kind)
        if branches is None:
            return _base(kind, text, at, self.bits)
        word = _WORD.match(text, at)
        if "" in branches:
            if word is not None and word[0] == "nil":
                return None, word.end()
            if text[at : at + 1] == "[":
                return _Frame("", branches[""], ()), at + 1
            raise ValueError(f"a {kind} is written [..] or nil, not {text[at:][:20]!r}")
        name = word[0][1:] if word is not None and word[0].startswith("$") else ""
        if word is None or name not in branches:
            known = " ".join(f"${branch}" for branch in branches)
            raise ValueError(f"a {kind} is one of {known}, not {text[at:][:20]!r}")
        fields, end = branches[name], word.end()
        if text[end : end + 1] == "(":
            return _Frame(name, fields, ()), end + 1
        if fields:
            raise ValueError(f"${name} has {plural(len(fields), 'field')}: ${name}(..)")
        return values.Branch(name), end


def _brief(given: object) -> str:
    return given if isinstance(given, str) else type(given).__name__


def _skip(text: str, at: int) -> int:
    blanks = _SPACE.match(text, at)
    return blanks.end() if blanks else at


def _expect(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"expected {mark!r} at {text[at:][:20]!r}")
    return at + 1


def _base(kind: str, text: str, at: int, bits: int) -> tuple[values.Value, int]:
    quoted = _QUOTED.match(text, at)
    if quoted is not None and kind == "symbol":
        return values.unquoted(quoted[0]), quoted.end()
    bare = _BARE.match(text, at)
    end = bare.end() if bare else at
    word = text[at:end].rstrip(" \t")
    if kind == "symbol":
        return word, end
    value = values.read_real(word) if kind == "float" else values.read_whole(word)
    if value is None:
        raise ValueError(f"{word[:60]!r} is no {kind}")
    fit = values.fitting(kind, value, bits)
    if fit is None:
        raise ValueError(f"{word[:60]} does not fit {kind}")
    return fit, end
