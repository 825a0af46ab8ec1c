"""Small changes of one file that leave it readable: what a programmer does between two saves.

Python is changed by its syntax tree: a function deleted, a function renamed, a call's line taken
out. Any other language loses a line. Invariant: an edited file is still read, and says something
else than before. Not here: which file, and how often.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable

__all__ = ["edited"]

_TRIES = 40
_STATEMENT = re.compile(rb"^\s+[^/\s#{}-].*[;,]\s*$")  # a line of its own in C and in SQL


def edited(
    path: str, data: bytes, chance: random.Random, differs: Callable[[bytes], bool]
) -> bytes | None:
    """The file after one random change that `differs` accepts; None if none was found.

    Args:
        path: its name, for the language.
        data: what it holds.
        chance: where the choices come from.
        differs: whether a new content is readable and says something else.
    """
    choices = _python(data) if path.endswith(".py") else _lines(data)
    chance.shuffle(choices)
    for make in choices[:_TRIES]:
        changed = make()
        if changed != data and differs(changed):
            return changed
    return None


def _lines(data: bytes) -> list[Callable[[], bytes]]:
    """Taking out one line that looks like a statement, or like an item of a list."""
    lines = data.splitlines(keepends=True)

    def without(number: int) -> Callable[[], bytes]:
        return lambda: b"".join([*lines[:number], *lines[number + 1 :]])

    return [without(n) for n, line in enumerate(lines) if _STATEMENT.match(line)]


def _python(data: bytes) -> list[Callable[[], bytes]]:
    """Deleting or renaming a function, and taking out a statement that is a call."""
    tree = ast.parse(data)
    lines = data.splitlines(keepends=True)
    found: list[Callable[[], bytes]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found.append(_replaced(lines, first, node.end_lineno or first, node.col_offset))
            found.append(_renamed(lines, node.lineno, node.name))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            last = node.end_lineno or node.lineno
            found.append(_replaced(lines, node.lineno, last, node.col_offset))
    return found


def _replaced(lines: list[bytes], first: int, last: int, indent: int) -> Callable[[], bytes]:
    """`pass` where lines `first` to `last` (from 1) stood: a block may not be empty."""
    instead = b" " * indent + b"pass\n"
    return lambda: b"".join([*lines[: first - 1], instead, *lines[last:]])


def _renamed(lines: list[bytes], line: int, name: str) -> Callable[[], bytes]:
    """Another name where a function is defined; its users keep the old one."""
    word = f"def {name}".encode()

    def make() -> bytes:
        changed = lines[line - 1].replace(word, word + b"_renamed", 1)
        return b"".join([*lines[: line - 1], changed, *lines[line:]])

    return make
