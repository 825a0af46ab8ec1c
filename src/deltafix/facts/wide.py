"""Numbers of more than 64 bits as the engine has them: texts, which sort as the numbers do.

The engine's number has 64 bits; one of 38 digits, of which a DECIMAL is, has 127 and a sign. It is
written as 32 hexadecimal digits, the least number as 32 zeros; so equality, joins, groups, keys,
MIN and ORDER BY are what they are for text, and only what computes reads them. Digits of the base
ten would be as good, but these are the bytes of Arrow's decimals (`facts.logical_arrow`).
Invariant: `as_text` and `as_number` are inverse on numbers of 128 bits, and of two texts the lesser
is of the lesser number. Which types have such values is said in `facts.logical_types`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["as_number", "as_text"]

_MIDDLE: Final = 1 << 127
"""What is added to a number, so that none is below zero."""


def as_text(number: int) -> str:
    """The text of a number of 128 bits."""
    return f"{number + _MIDDLE:032x}"


def as_number(text: str) -> int:
    """The number of a text."""
    return int(text, 16) - _MIDDLE
