"""From bytes to a syntax tree of C, by tree-sitter: quick, and forgiving of what it cannot read.

Invariant: the text is read as it stands, without a preprocessor. What the grammar does not know is
an ERROR node in the tree, and the rest of the file is read all the same; `broken` tells which
functions hold one. A file that is no C at all is refused with `UnreadableError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from deltafix.analyses.facts import Fragment
from deltafix.errors import MissingDependencyError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PREPROCESSED = frozenset({"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif"})
"""Kinds of nodes around the sides of a conditional of the preprocessor."""

_AROUND = PREPROCESSED | {"linkage_specification", "declaration_list", "preproc_elifdef"}
_BARE = re.compile(rb"[ \t]+[A-Z_][A-Z0-9_]*[ \t]*\([^;{}\n]*\)[ \t]*\r?")
_CONTINUES = (b"{", b"}", b";", b",", b")", b".", b"?", b":", b"+", b"-", b"*", b"|", b"&", b"=")
_OLD_STYLE = re.compile(rb"(?<![\s*])[\s*]++(?=\w+\s*\([\w\s,]*\)(?:[\w\s*,\[\]]+;)+\s*\{)")
_DEEPEST = 400  # levels of the tree; readers recurse, at up to two calls a level


class UnreadableError(Exception):
    """Why a file cannot be read as C; the message is the reason told to users."""


@cache
def _parser() -> Parser:
    try:
        import tree_sitter_c  # noqa: PLC0415  an extra: loaded when C is read
        from tree_sitter import Language, Parser  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError(
            "reading C needs tree-sitter: pip install 'deltafix[c]'"
        ) from error
    return Parser(Language(tree_sitter_c.language()))


def parse(data: bytes) -> Node:
    """The root of the syntax tree of one file. O(size).

    Raises:
        UnreadableError: it holds a zero byte, nests deeper than can be read, or holds text but not
            one declaration, definition or directive.
        MissingDependencyError: tree-sitter is not installed.
    """
    zero = data.find(b"\0")
    if zero >= 0:
        raise UnreadableError(f"a binary file: byte {zero} is zero")
    root = _parser().parse(_OLD_STYLE.sub(_blank, _closed(data))).root_node
    depth, line = _depth(root)
    if depth > _DEEPEST:
        raise UnreadableError(f"line {line}: nested deeper than {_DEEPEST} levels")
    if root.has_error and not any(_known(item) for item in top_level(root)):
        raise UnreadableError(f"line {_first_error(root)}: this is not C")
    return root


def read(path: str, data: bytes, reader: Callable[[Node], Fragment]) -> Fragment:
    """What `reader` makes of the file's tree, or a fragment with the reason why nothing."""
    try:
        return reader(parse(data))
    except UnreadableError as error:
        return Fragment(path, error=str(error))
    except RecursionError:
        return Fragment(path, error="nested deeper than Python's own limits")


def text(node: Node) -> str:
    """The text of a node; bytes that are not UTF-8 come as replacement characters."""
    return (node.text or b"").decode("utf-8", "replace")


def parts(node: Node) -> Iterator[Node]:
    """The named children without comments."""
    return (child for child in node.named_children if child.type != "comment")


def top_level(root: Node) -> Iterator[Node]:
    """What stands outside of functions, through all sides of #if and through extern "C"."""
    for item in parts(root):
        if item.type in _AROUND or item.type == "ERROR":
            yield from top_level(item)
        else:
            yield item


def functions(root: Node) -> Iterator[Node]:
    """The function definitions of a file, in the order of the text."""
    return (item for item in top_level(root) if item.type == "function_definition")


def broken(node: Node) -> bool:
    """Whether some of `node` could not be read.

    A type handed to a macro (`va_arg(list, int *)`) and a range of cases are read well enough.
    O(nodes).
    """
    if _misread(node) or ((node.type == "ERROR" or node.is_missing) and not _harmless(node)):
        return True
    return any(broken(child) for child in node.children)


def _misread(node: Node) -> bool:
    """Whether this is what the grammar makes of a macro with no semicolon behind it."""
    above = node.parent
    if above is None or above.type != "compound_statement":
        return False
    kind = node.child_by_field_name("type")
    return node.type == "function_definition" or (
        node.type == "declaration"
        and kind is not None
        and kind.type == "macro_type_specifier"
        and b"typeof" not in (kind.text or b"")
    )


def _harmless(node: Node) -> bool:
    above = node.parent
    if above is None or (node.is_missing and node.type == ";"):
        return above is not None
    if above.type == "case_statement":
        return text(node).lstrip().startswith("...")
    if above.type == "goto_statement":
        return text(node) == "*"
    while above is not None and above.type.endswith("_expression"):
        above = above.parent
    return above is not None and above.type == "argument_list"


def _blank(match: re.Match[bytes]) -> bytes:
    """Stars as blanks: the grammar has no old-style definition whose type ends in one."""
    return match[0].replace(b"*", b" ")


def _closed(data: bytes) -> bytes:
    """The text with a semicolon behind each macro call that stands alone on a line without one.

    Without it the grammar takes the call for a type and the statement below for a declaration. No
    line moves. O(size).
    """
    lines = data.split(b"\n")
    ended = True
    for number, line in enumerate(lines):
        bare = line.strip()
        if not bare or bare.startswith((b"//", b"/*")):
            continue
        if ended and _BARE.fullmatch(line):
            below = next(
                (following.strip() for following in lines[number + 1 :] if following.strip()), b"}"
            )
            if below.startswith(b"}") or not below.startswith(_CONTINUES):
                lines[number] = bare = line.rstrip() + b";"
        ended = bare.endswith((b";", b"{", b"}", b":", b"*/")) or bare.startswith(b"#")
    return b"\n".join(lines)


def _known(item: Node) -> bool:
    if item.type in {"function_definition", "declaration", "type_definition"}:
        return not broken(item)
    return item.type.startswith("preproc_") or item.type.endswith("_specifier")


def _depth(root: Node) -> tuple[int, int]:
    """How many levels the tree has (counted to just beyond the limit), and the deepest line."""
    cursor = root.walk()
    deepest = line = 0
    while True:
        if cursor.depth > deepest:
            deepest, line = cursor.depth, cursor.node.start_point[0] + 1 if cursor.node else 0
            if deepest > _DEEPEST:
                return deepest, line
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return deepest, line


def _first_error(root: Node) -> int:
    node = root
    while node.type != "ERROR" and not node.is_missing:
        below = next((child for child in node.children if child.has_error), None)
        if below is None:
            break
        node = below
    return int(node.start_point[0]) + 1
