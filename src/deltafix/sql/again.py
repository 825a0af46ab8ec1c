"""Statements that come again: read once, and run again with other values.

    text -> is it the same, or the same but for literals? -> the tree of the first, and the values

A text comes again that has parameters, that ends or begins a transaction, or that is an INSERT,
UPDATE or DELETE which differs from one before in literals that are only values. Invariant: what is
run is what reading the text would give; a literal that says more than a value (a place, a size, a
text beside DATE) is part of what has to be the same. Parsing was half of an INSERT of sixteen
values, and nine tenths of one whose values are literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Final, NamedTuple

from deltafix.sql.literals import number
from deltafix.sql.parameters import is_value, signed
from deltafix.sql.parsing import Wrong, statements
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import MOST_DIGITS, SqlValue

__all__ = ["remembered"]

_SHORT: Final = 4096
"""A text longer than this, in characters, is not remembered."""

_WORDS: Final = 32
"""The longest text of BEGIN, COMMIT or ROLLBACK that is remembered."""

_VARIANTS: Final = 16
"""So many texts are remembered that are alike but for literals that say more than a value."""

_PARAMETER: Final = re.compile(r"\?|(?<!:):[A-Za-z_]")
_CONTROL: Final = re.compile(r"\s*(?:BEGIN|START|COMMIT|END|ROLLBACK|ABORT)\b", re.IGNORECASE)
_EDIT: Final = re.compile(r"\s*(?:INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_LITERAL: Final = re.compile(r"('(?:[^']|'')*'|(?<![\w.])\d+(?:\.\d+)?(?![\w.]))")
_MARK: Final = re.compile(r"\0['.]?")
_OPAQUE: Final = re.compile(r"[\"`$']|--|/\*|\w\Z")
"""What may hold or change a literal, in the text between literals."""

_EDITS: Final = (exp.Insert, exp.Update, exp.Delete)


def remembered(
    text: str, dialect: str, path: str | None = None, wrong: Wrong | None = None
) -> Iterator[Statement]:
    """As `parsing.statements`; a statement that came before is not read again."""
    if len(text) <= _SHORT:
        known = None
        if len(text) <= _WORDS or "?" in text or ":" in text:
            known = _said_again(text, dialect, path)
        if known is None and _EDIT.match(text):
            known = _alike(text, dialect, path)
        if known is not None:
            yield known
            return
    yield from statements(text, dialect, path, wrong)


@lru_cache(maxsize=256)
def _said_again(text: str, dialect: str, path: str | None) -> Statement | None:
    """The statement of a text that has one, if it is likely to come again: it is read once.

    That is one with parameters, of which whoever runs it binds a copy, and one that ends or begins
    a transaction.
    """
    control = _CONTROL.match(text)
    if not (control or _PARAMETER.search(_LITERAL.sub("", text))):
        return None
    statement = _only(text, dialect, path)
    if statement is None or not (control or statement.node.find(exp.Placeholder)):
        return None
    return statement


def _only(text: str, dialect: str, path: str | None) -> Statement | None:
    """The statement of a text that has one."""
    parsed = list(islice(statements(text, dialect, path), 2))
    return parsed[0] if len(parsed) == 1 else None


def _alike(text: str, dialect: str, path: str | None) -> Statement | None:
    """The statement of a text that comes again with other literals; None where it is to be read.

    That is so the first time, too: most texts never come again.
    """
    if "\\" in text or "\0" in text:
        return None
    pieces = _LITERAL.split(text)
    literals = pieces[1::2]
    if any(len(literal) > MOST_DIGITS and literal[0] != "'" for literal in literals):
        return None  # a number of more digits than a type has is no value
    if not literals or ("''" in text and any("''" in literal[1:-1] for literal in literals)):
        return None
    pieces[1::2] = [
        "\0'" if literal[0] == "'" else "\0." if "." in literal else "\0" for literal in literals
    ]
    return _form("".join(pieces), dialect, path).statement(text, literals)


@lru_cache(maxsize=256)
def _form(text: str, dialect: str, path: str | None) -> _Form:
    return _Form(dialect, path, _is_plain(text))


def _is_plain(text: str) -> bool:
    """Whether nothing between the literals of a text, each of which is a mark, may be part of one.

    A word before a literal may be, as in E'a'; one at the end of the text is not before any.
    """
    *before, last = _MARK.split(text)
    return not (any(map(_OPAQUE.search, before)) or _OPAQUE.search(last + " "))


class _Known(NamedTuple):
    """A statement that was read, and where the literals of its text end, from its start on."""

    statement: Statement
    ends: list[int]
    sizes: list[int]
    size: int


class _Form:
    """Texts that are alike but for literals: which of these are only values, and a statement each.

    There is one for all that differ in these.
    """

    def __init__(self, dialect: str, path: str | None, plain: bool) -> None:
        self._dialect, self._path = dialect, path
        self._came = False
        self._values: list[int] | None = None if plain else []
        self._fixed: list[int] = []
        self._known: dict[tuple[str, ...], _Known] = {}

    def statement(self, text: str, literals: list[str]) -> Statement | None:
        """The statement of one of these texts, if it need not be read as others are."""
        came, self._came = self._came, True
        if not came:
            return None
        known = None
        if self._values is not None:
            known = self._known.get(tuple([literals[index] for index in self._fixed]))
        if known is None:
            if self._values == [] or len(self._known) >= _VARIANTS:
                return None
            known = self._read(text, literals)
        return None if known is None else self._with(known, text, literals)

    def _read(self, text: str, literals: list[str]) -> _Known | None:
        """Read a text, and keep what those share with it that are like it."""
        statement = _only(text, self._dialect, self._path)
        value_spans = [] if statement is None else _values(statement)
        if statement is None or not value_spans:
            self._values = self._values or []
            return None
        spans = [
            (m.start() - statement.start, m.end() - statement.start)
            for m in _LITERAL.finditer(text)
        ]
        values = [n for n, span in enumerate(spans) if span in value_spans]
        if self._values is None:
            self._fixed = [n for n in range(len(spans)) if n not in values]
            self._values = values
        if values != self._values:
            return None
        starts = tuple([spans[n][0] for n in values])
        ends, sizes = [end for _, end in spans], [len(literal) for literal in literals]
        known = _Known(replace(statement, literals=starts), ends, sizes, len(text))
        self._known[tuple([literals[n] for n in self._fixed])] = known
        return known

    def _with(self, known: _Known, text: str, literals: list[str]) -> Statement:
        """The statement of a text: that of one like it, with these values."""
        like = known.statement
        values = tuple([_value(literals[index]) for index in self._values or ()])
        end, moved = like.end + len(text) - known.size, partial(_moved, known, literals)
        return Statement(
            text, like.start, end, like.node, like.explain, like.path, like.dialect, like.forms,
            like.literals, values, moved,
        )  # fmt: skip


def _moved(known: _Known, literals: list[str]) -> list[tuple[int, int]]:
    """Where what is behind a literal is in a text with others: behind which offset, by how much."""
    moved, more = list[tuple[int, int]](), 0
    for end, size, literal in zip(known.ends, known.sizes, literals, strict=True):
        if len(literal) != size:
            more += len(literal) - size
            moved.append((end, more))
    return moved


def _values(statement: Statement) -> set[tuple[int, int]]:
    """Where, from its start on, the literals of an edit without a query stand that are values."""
    if not isinstance(statement.node, _EDITS) or statement.node.find(exp.Query):
        return set()
    return {
        (node.meta["start"], node.meta["end"] + 1)
        for node in statement.node.find_all(exp.Literal)
        if "start" in node.meta and is_value(signed(node))
    }


def _value(literal: str) -> SqlValue:
    """The value of a literal, as reading it gives it."""
    if literal[0] == "'":
        return literal[1:-1]
    return number(literal)
