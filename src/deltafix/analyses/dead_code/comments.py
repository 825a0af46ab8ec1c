"""Comments that mean something: of types, of marks, of code that is for others.

    # type: (Shop, int) -> Price       names types, as annotations do
    # deltafix: keep                   keeps what is defined on the line
    # legacy; run it by hand           said above a definition, or its body: its users are not here

Invariant: a comment is looked at by line, so one inside of a text may count as well; that keeps
more alive, never less.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

KEEP = re.compile(r"#.*(?:deltafix:\s*keep\b|(?i:noqa):[\w\s,]*\bdead\b)")
KEEP_IMPORT, KEEP_LOCAL, KEEP_ARGUMENT = (
    re.compile(rf"#.*(?:deltafix:\s*keep\b|(?i:noqa)(?!:)|(?i:noqa):[\w\s,]*\b(?:dead|{code})\b)")
    for code in ("F401", "F841", r"ARG\d*")
)
_WHOLE_FILE = re.compile(
    r"\s*#\s*(?:flake8[:=]|ruff:)\s*(?i:noqa)(?::.*\b(?:F401|F841|ARG\d*)\b.*)?\s*"
)
_FOR_OTHERS = re.compile(
    r"(?i)\b(?:backwards?|legacy|deprecat|compat\b|compatibility|by hand\b|manually\b"
    r"|run\b.{1,30}\bdirectly\b)"
)
_TYPE = re.compile(r"#\s*type:(?!\s*ignore\b)(.*)")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_WORDS = re.compile(r"(?i)deltafix:|noqa|type:")


class Comments:
    """Those of one file, by line from 1. Made in O(size), or in one search where there are none."""

    def __init__(self, data: bytes) -> None:
        source = data.decode("utf-8", "replace")
        is_marked = _WORDS.search(source) or _FOR_OTHERS.search(source)
        self._lines: Sequence[str] = source.splitlines() if is_marked else ()
        self._types = {
            line: match[1]
            for line, text in enumerate(self._lines, 1)
            if (match := _TYPE.search(text))
        }

    def marked(self, lines: Iterable[int], pattern: re.Pattern[str]) -> bool:
        """Whether `pattern` is in one of these lines."""
        here = (self._lines[line - 1] for line in lines if line <= len(self._lines))
        return any(map(pattern.search, here))

    def whole_file(self) -> bool:
        """Whether a line says that no linter is to read the file: `# flake8: noqa`."""
        return any(map(_WHOLE_FILE.fullmatch, self._lines))

    def for_others(self, line: int, body: int) -> bool:
        """Whether a comment says that a definition is for others.

        That is one on its first line, right above it, or right above the first line of its body.
        """
        if line > len(self._lines):
            return False
        comments = [self._lines[line - 1].partition("#")[2]]
        for below in {line, body}:
            above = below - 1
            while above > 0 and self._lines[above - 1].lstrip()[:1] == "#":
                comments.append(self._lines[above - 1])
                above -= 1
        return any(map(_FOR_OTHERS.search, comments))

    def types(self, first: int, last: int) -> Iterator[ast.expr]:
        """The names in comments of types in these lines, each once: inner blocks ask first."""
        for line in [typed_line for typed_line in self._types if first <= typed_line <= last]:
            for path in _PATH.findall(self._types.pop(line)):
                with suppress(SyntaxError):  # a keyword: the comment goes on in words
                    yield ast.parse(path, mode="eval").body
