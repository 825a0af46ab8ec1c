"""A text of Python as an editor has it: offsets of its nodes, and where names stand in it.

    text -> syntax tree; (line, column) <-> offset; definitions, blocks, occurrences of a name

Invariant: offsets are in characters of `text`; lines end where Python's parser has them end.
Nothing here looks at another file.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from deltafix.analyses.dead_code.places import characters, name_column

Span: TypeAlias = tuple[int, int]
"""Start and end of a part of a text."""

Named: TypeAlias = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.Name
    | ast.Attribute
    | ast.alias
    | ast.arg
    | ast.ExceptHandler
)
"""The nodes that give something a name."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name where code says it. `name` is what it is called where it is defined."""

    span: Span
    name: str
    node: ast.Name | ast.Attribute | ast.alias

    @property
    def is_member(self) -> bool:
        """Whether it is asked of an object: `x.name`."""
        return isinstance(self.node, ast.Attribute)


_END = re.compile(r"\r\n|\r|\n")
_WORD = re.compile(r"\w+")


def line_starts(text: str) -> list[int]:
    """The offset of the start of each line; a text has at least one."""
    return [0, *(match.end() for match in _END.finditer(text))]


class Source:
    """One text with its syntax tree.

    Raises SyntaxError, ValueError or RecursionError for what is no Python.
    """

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, text: str) -> Source:
        """The source of a text; the last few are kept, since one question follows another."""
        return cls(text)

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.starts = line_starts(text)
        self._lines = text.encode().splitlines()

    # -- places --------------------------------------------------------------------------------

    def offset(self, line: int, column: int) -> int:
        """The offset of the byte `column` of a line, from 1, as syntax trees count."""
        text = self._lines[line - 1] if line <= len(self._lines) else b""
        return self.starts[line - 1] + characters(text, column)

    def line_of(self, offset: int) -> int:
        """The line, from 1, in which an offset lies."""
        return bisect_right(self.starts, offset)

    def line_end(self, line: int) -> int:
        """The offset of the end of a line, before what ends it."""
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.starts[line - 1] + len(self.text[self.starts[line - 1] : end].rstrip("\r\n"))

    def span(self, node: ast.stmt | ast.expr | ast.alias | ast.arg) -> Span:
        """A node from its first to its last character; a definition begins at its decorators."""
        first: ast.stmt | ast.expr | ast.alias | ast.arg = node
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator, key=lambda part: (part.lineno, part.col_offset))
        start = self.offset(first.lineno, first.col_offset)
        if first is not node:
            start = self.text.rindex("@", 0, start)
        return start, self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def position(self, node: Named) -> tuple[int, int]:
        """Line and column of the name of a node, from 1, as a `Place` has them."""
        return node.lineno, name_column(self._lines, node)

    def name_at(self, line: int, column: int) -> Span:
        """The word that begins at a place."""
        start = self.starts[line - 1] + column - 1
        word = _WORD.match(self.text, start)
        return start, word.end() if word is not None else start

    def word_at(self, offset: int) -> Span | None:
        """The word around an offset, or that ends there."""
        start = end = offset
        while start > 0 and _WORD.fullmatch(self.text[start - 1]):
            start -= 1
        while end < len(self.text) and _WORD.fullmatch(self.text[end]):
            end += 1
        return (start, end) if start < end else None

    # -- what stands where ---------------------------------------------------------------------

    @cached_property
    def named(self) -> dict[tuple[int, int], Named]:
        """The node whose name stands at a place."""
        kinds = (
            ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.Attribute, ast.alias,
            ast.arg, ast.ExceptHandler,
        )  # fmt: skip
        return {
            self.position(node): node for node in ast.walk(self.tree) if isinstance(node, kinds)
        }

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node is written in."""
        return {
            child: node
            for node in ast.walk(self.tree)
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.expr_context | ast.operator | ast.boolop | ast.cmpop)
        }

    def occurrences(self, name: str | None = None) -> Iterator[Occurrence]:
        """Where the code says a name, or any: a variable, an attribute, what an import takes.

        What an import calls otherwise is found under the name that it has at home.
        """
        renamed = {
            named.asname: named.name.rpartition(".")[2]
            for named in self.named.values()
            if isinstance(named, ast.alias) and named.asname
        }
        for (line, column), node in self.named.items():
            start = self.starts[line - 1] + column - 1
            if isinstance(node, ast.Name):
                occurrence = Occurrence(
                    (start, start + len(node.id)), renamed.get(node.id, node.id), node
                )
            elif isinstance(node, ast.Attribute):
                end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
                occurrence = Occurrence((end - len(node.attr), end), node.attr, node)
            elif isinstance(node, ast.alias):
                last = node.name.rpartition(".")[2]
                end = start + len(node.name)
                occurrence = Occurrence((end - len(last), end), last, node)
            else:
                continue
            if name in {None, occurrence.name}:
                yield occurrence
