r"""Patterns of LIKE: `%` is any text, `_` any one character; what follows an escape is itself.

Lives here: `is_like`, a pattern as a test of texts, and patterns as the kernel reads them, whose
escape is `\\` (`kernel.symbols.is_like`). Invariant: characters are code points, line ends among
them. Not here: ILIKE, which compares texts in lower case (`sql.text_functions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

__all__ = ["is_like", "quoted", "rewritten"]


def _segments(pattern: str, escape: str) -> list[list[str]]:
    """What stands between the `%` of a pattern, `_` as the empty text.

    Raises ValueError: it ends with its escape.
    """
    segments: list[list[str]] = [[]]
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            escaped = next(letters, None)
            if escaped is None:
                raise ValueError(f"the pattern {pattern!r} ends with its ESCAPE {escape!r}")
            segments[-1].append(escaped)
        elif letter == "%":
            segments.append([])
        else:
            segments[-1].append("" if letter == "_" else letter)
    return segments


def _finder(segment: list[str]) -> Callable[[str, int, int], int]:
    """Where a segment is in a part of a text; -1 where it is not."""
    if all(segment):
        text = "".join(segment)
        return lambda value, start, end: value.find(text, start, end)
    # of one length, so nothing is tried again
    search = re.compile("".join(re.escape(letter) or "." for letter in segment), re.DOTALL).search

    def find(value: str, start: int, end: int) -> int:
        match = search(value, start, end)
        return -1 if match is None else match.start()

    return find


@lru_cache(maxsize=256)
def is_like(pattern: str, escape: str = "\\") -> Callable[[str], bool]:
    """Whether a text is LIKE the pattern; its segments are looked for, one by one.

    Raises ValueError: the pattern ends with its escape.
    """
    segments = _segments(pattern, escape)
    finds = [(_finder(segment), len(segment)) for segment in segments]
    if len(segments) == 1:
        ((whole, size),) = finds
        return lambda text: len(text) == size and whole(text, 0, size) == 0
    (starts, at_start), *middle, (ends, at_end) = finds
    middle = [(find, size) for find, size in middle if size]
    if not at_start and not at_end and len(middle) == 1:
        ((inside, _),) = middle
        return lambda text: inside(text, 0, len(text)) >= 0

    def is_match(text: str) -> bool:
        start, end = at_start, len(text) - at_end
        if start > end or starts(text, 0, start) != 0 or ends(text, end, len(text)) != end:
            return False
        for find, size in middle:
            start = find(text, start, end)
            if start < 0:
                return False
            start += size
        return True

    return is_match


def quoted(text: str) -> str:
    """The pattern of one text alone."""
    return re.sub(r"[\\%_]", r"\\\g<0>", text)


def rewritten(pattern: str, escape: str) -> str:
    """The same pattern, its escape a backslash. Raises ValueError: it ends with its escape."""
    segments = _segments(pattern, escape)
    return "%".join("".join(quoted(letter) or "_" for letter in segment) for segment in segments)
