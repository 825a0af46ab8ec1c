"""Where the names of a file's definitions stand: lines of bytes in, columns in characters out.

Python's syntax trees count columns in bytes and give a definition the place of its first word.
Invariant: lines and columns count from 1, as people and editors' status lines do; a file that says
it is of another encoding than UTF-8 has the columns of its bytes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TypeAlias

Lines: TypeAlias = Sequence[bytes]
"""The lines of a file without their ends, as Python's parser counts them."""

_HEAD = re.compile(rb"(?:async\s+)?(?:def|class)\s+")
_WORD = re.compile(r"\w+")
_IMPORTED = re.compile(r"[\w.]+(?:[ \t]+as[ \t]+\w+)?")
_AS = re.compile(rb"\bas\s+(?=\w+\s*:)")


def lines_of(data: bytes) -> Lines:
    """The lines of a file, without the mark that some editors write before the first."""
    return data.removeprefix(b"\xef\xbb\xbf").splitlines()


def name_column(
    lines: Lines, node: ast.expr | ast.stmt | ast.arg | ast.alias | ast.ExceptHandler
) -> int:
    """The column of what `node` names, in its own first line. O(length of the line)."""
    start = node.col_offset
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else b""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        head = _HEAD.match(line, start)
        start = head.end() if head is not None else start
    elif isinstance(node, ast.ExceptHandler):
        head = _AS.search(line, start)
        start = head.end() if head is not None else start
    elif isinstance(node, ast.Attribute) and node.end_lineno == node.lineno:
        start = (node.end_col_offset or start) - len(node.attr.encode())
    return characters(line, start) + 1


def name_end(line: str, column: int, kind: str) -> int:
    """The column behind the name at `column` of a line; of an import, with what it is called."""
    match = (_IMPORTED if kind == "import" else _WORD).match(line, column - 1)
    return column if match is None else match.end() + 1


def characters(line: bytes, column: int) -> int:
    """How many characters stand before the byte `column` of a line."""
    return column if line.isascii() else len(line[:column].decode("utf-8", "replace"))
