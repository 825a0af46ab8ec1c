"""A text being read: its characters, its path, and where each offset lies.

Invariant: spans made here always lie inside the text, so `diagnostics.render` can draw them.
It holds no tokens and opens no files (`preprocess` does, inside the program's folder only).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from deltafix.diagnostics import Diagnostic, Span


class Source:
    """One text with the line table that turns offsets into lines and columns (O(log lines))."""

    __slots__ = ("_starts", "path", "text")

    def __init__(self, text: str, path: str | None = None) -> None:
        self.text = text
        self.path = path
        lengths = (len(line) + 1 for line in text.split("\n"))
        self._starts = [0, *accumulate(lengths)][:-1]

    def line(self, offset: int) -> int:
        """The line of an offset, from 1."""
        return bisect_right(self._starts, offset)

    def span(self, start: int, end: int) -> Span:
        """The half-open range `start..end` with its line and column."""
        line = bisect_right(self._starts, start)
        return Span(start, end, line, start - self._starts[line - 1] + 1, self.path)


def decode(data: str | bytes, path: str | None = None) -> tuple[Source, tuple[Diagnostic, ...]]:
    """Read bytes as UTF-8; bytes that are not become U+FFFD and one diagnostic (DF101)."""
    if isinstance(data, str):
        return Source(data, path), ()
    try:
        return Source(data.decode("utf-8"), path), ()
    except UnicodeDecodeError as error:
        source = Source(data.decode("utf-8", errors="replace"), path)
        start = len(data[: error.start].decode("utf-8"))
        diagnostic = Diagnostic(
            "DF101",
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8 text",
            source.span(start, start + 1),
            "save the program as UTF-8",
        )
        return source, (diagnostic,)
