"""Arrays and structs as the engine has them: one text each, which sorts as SQL sorts them.

One interned value for an array makes equality, joins, groups, keys and states what they are for
text, in every place that keeps rows, and needs nothing new in the engine; a list of records would
be as many values as it has elements, and would not be sorted by them. Each element is a mark and
its value in a form of which no other is a beginning. Invariant: `packed` and `unpacked` are
inverse, and of two texts the lesser is of the lesser array: element by element, NULL last, a
beginning before the whole. Which elements a type has is `sql.types`'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, TypeAlias

from deltafix.facts.values import BaseType, float_at, float_order

__all__ = ["Bases", "packed", "unpacked"]

_THERE, _NULL = "1", "2"
_SIGN: Final = 1 << 63
_DIGITS: Final = 16
"""Of a number of 64 bits, from the least on."""

_END: Final = "\x01\x01"
_ESCAPES: Final = {"\x00": "\x01\x02", "\x01": "\x01\x03"}
"""A text ends below all that can follow in a longer one."""
_ESCAPED: Final = {code: char for char, code in _ESCAPES.items()}
_TEXT: Final = re.compile("((?:[^\x00\x01]|\x01[\x02\x03])*)" + _END, re.DOTALL)


def _number(value: int) -> str:
    return f"{value + _SIGN:0{_DIGITS}x}"


def _real(value: float) -> str:
    return _number(float_order(value or 0.0))


def _text(value: str) -> str:
    return re.sub("[\x00\x01]", lambda match: _ESCAPES[match[0]], value) + _END


Bases: TypeAlias = BaseType | tuple[BaseType, ...]
"""The type of all elements of an array, or that of each field of a struct."""

_WRITE: Final[dict[BaseType, Callable[[Any], str]]] = {
    "number": _number,
    "float": _real,
    "symbol": _text,
}


def packed(bases: Bases, elements: Iterable[Any]) -> str:
    """The text of the engine's values; None is NULL. O(their size)."""
    pairs = zip(_each(bases), elements, strict=False)
    return "".join(
        _NULL if element is None else _THERE + _WRITE[base](element) for base, element in pairs
    )


@lru_cache(maxsize=4096)
def unpacked(bases: Bases, text: str) -> tuple[Any, ...]:
    """The engine's values of a text. O(their size); those of the last texts are remembered."""
    return tuple(_elements(bases, text))


def _each(bases: Bases) -> Iterator[BaseType]:
    return repeat(bases) if isinstance(bases, str) else iter(bases)


def _elements(bases: Bases, text: str) -> Iterator[Any]:
    at = 0
    each = _each(bases)
    while at < len(text):
        base, mark, at = next(each), text[at], at + 1
        if mark == _NULL:
            yield None
        elif base == "symbol":
            match = _TEXT.match(text, at)
            assert match is not None  # noqa: S101  `packed` wrote it
            yield re.sub("\x01[\x02\x03]", lambda code: _ESCAPED[code[0]], match[1])
            at = match.end()
        else:
            number = int(text[at : at + _DIGITS], 16) - _SIGN
            yield float_at(number) if base == "float" else number
            at += _DIGITS
