"""Casts: which types convert to which, and how.

Invariant: a cast that cannot be made raises ValueError; NULL never comes here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from deltafix.sql.types import BOOLEAN, DOUBLE, NULL, TEXT, SqlType

__all__ = ["cast"]

_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def cast(given: SqlType, wanted: SqlType) -> Callable[[Any], Any] | None:
    """The function that converts values of one type to another's; None if there is no such cast.

    Whether a whole number fits the bits of `wanted` is not asked here.
    """
    if given in (wanted, NULL):
        return _same
    if wanted == TEXT:
        return _to_text(given)
    if wanted == BOOLEAN:
        return _text_to_truth if given == TEXT else bool if given.is_numeric else None
    if wanted == DOUBLE:
        return _text_to_float if given == TEXT else float
    if given == TEXT:
        return _text_to_whole
    return _round if given == DOUBLE else int


def _same(value: Any) -> Any:
    return value


def _to_text(given: SqlType) -> Callable[[Any], str]:
    if given == BOOLEAN:
        return lambda value: "true" if value else "false"
    return _float_to_text if given == DOUBLE else str


def _float_to_text(value: float) -> str:
    return repr(value + 0.0)  # no negative zero


def _round(value: float) -> int:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no whole number")
    return round(value)  # half to even


def _text_to_whole(text: str) -> int:
    try:
        return int(_plain(text))
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def _text_to_float(text: str) -> float:
    try:
        return float(_plain(text))
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def _plain(text: str) -> str:
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text.strip()


def _text_to_truth(text: str) -> bool:
    found = _TRUTH.get(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no BOOLEAN")
    return found
