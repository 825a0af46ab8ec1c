"""Edits of a text: what is dead taken out with all that belongs to it, or kept by a comment.

    a definition     with its decorators, the comments right above it, and blank lines left over
    X = f()          becomes f(), which may do something; X = 1 goes; X = Y = 1 becomes Y = 1
    from m import a  goes, or loses `a` alone
    the last of a block becomes `pass`

Invariant: what an edit leaves can be parsed, and has the same code but for what was taken out;
where no edit does that (names of a tuple, a backslash), EditError says so and nothing is proposed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltafix.analyses.dead_code.shapes import is_inert
from deltafix.analyses.dead_code.source import Named, Source
from deltafix.errors import DeltafixError

_KEEP = "  # deltafix: keep"
_COMMENT_LEFT = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n|\Z)")
_NEXT = re.compile(r"[ \t]*;[ \t]*")
_EQUALS = re.compile(r"\s*=\s*")


class EditError(DeltafixError, ValueError):
    """What is dead cannot be taken out, or kept, by an edit; the message says why."""

    code = "DF676"


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace `start` to `end` of a text, offsets in characters, by `text`."""

    start: int
    end: int
    text: str = ""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made; they do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def kept(source: Source, line: int) -> Edit:
    """A comment at the end of a line that keeps what it defines. Raises EditError."""
    end = source.line_end(line)
    edit = Edit(end, end, _KEEP)
    try:
        after = ast.parse(edited(source.text, [edit]))
    except (SyntaxError, ValueError):
        after = None
    if after is None or ast.dump(after) != ast.dump(source.tree):
        raise EditError(f"line {line} ends inside a text or in a backslash: a comment has no place")
    return edit


def without(source: Source, nodes: Collection[Named]) -> list[Edit]:
    """Take out what these nodes name: definitions, assigned names, imported names.

    Raises EditError. O(size of the text).
    """
    gone: set[ast.stmt] = set()
    edits: list[Edit] = []
    chosen = set(nodes)
    for statement in dict.fromkeys(_statement(source, node) for node in nodes):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            left = [alias for alias in statement.names if alias not in chosen]
            if left:
                edits += _fewer(source, statement.names, chosen)
                continue
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            fewer = _unassigned(source, statement, chosen)
            if fewer is not None:
                edits.append(fewer)
                continue
        elif isinstance(statement, ast.ExceptHandler):
            edits.append(_unnamed(source, statement))
            continue
        gone.add(statement)
    edits += _cuts(source, gone)
    apart = _apart(edits)
    _not_deleted_later(source, chosen, apart)
    try:
        ast.parse(edited(source.text, apart))
    except (SyntaxError, ValueError) as error:
        raise EditError(f"taking it out would leave what is no Python: {error}") from error
    return apart


def _not_deleted_later(source: Source, chosen: set[Named], edits: Sequence[Edit]) -> None:
    """`del name` needs the name, and is no use of it to the analysis. Raises EditError."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Del):
            continue
        start = source.span(node)[0]
        stays = not any(edit.start <= start < edit.end for edit in edits)
        if stays and any(_is_called(named, node.id) for named in chosen):
            raise EditError(f"line {node.lineno} says del {node.id}")


def _is_called(node: Named, name: str) -> bool:
    match node:
        case ast.Name(id=given) | ast.alias(asname=str(given)) | ast.alias(name=given):
            return given == name
    return getattr(node, "name", None) == name


def _apart(edits: Iterable[Edit]) -> list[Edit]:
    """Edits that do not overlap: one inside another is done with it, neighbours are joined."""
    disjoint: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        last = disjoint[-1] if disjoint else None
        if last is None or edit.start >= last.end:
            disjoint.append(edit)
        elif edit.end > last.end:
            disjoint[-1] = Edit(last.start, edit.end, last.text + edit.text)
    return disjoint


def _statement(source: Source, node: Named) -> ast.stmt | ast.ExceptHandler:
    """The statement that gives the name."""
    at: ast.AST = node
    while not isinstance(at, ast.stmt | ast.ExceptHandler):
        at = source.parents[at]
    return at


# -- parts of a statement ----------------------------------------------------------------------


def _unassigned(
    source: Source, node: ast.Assign | ast.AnnAssign, chosen: set[Named]
) -> Edit | None:
    """The names taken out and the rest left; None if the statement may go as a whole."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [_names_in(target) for target in targets]
    going = [target for target, held in zip(targets, names, strict=True) if held and held <= chosen]
    if len(going) == len(targets):
        if node.value is None or is_inert(node.value):
            return None
        return Edit(source.span(targets[0])[0], _value_start(source, node))
    if any(
        held & chosen for target, held in zip(targets, names, strict=True) if target not in going
    ):
        raise EditError("it gets a part of what is unpacked, beside names that are not dead")
    if len(going) > 1:
        raise EditError("several names of one assignment are dead, and others are not")
    at = next(number for number, target in enumerate(targets) if target is going[0])
    start, end = source.span(going[0])
    following = _EQUALS.match(source.text, end)
    if following is None:
        raise EditError(f"name {at + 1} of an assignment is written in brackets")
    return Edit(start, following.end())


def _names_in(node: ast.AST) -> set[Named]:
    return {part for part in ast.walk(node) if isinstance(part, ast.Name)}


def _value_start(source: Source, node: ast.Assign | ast.AnnAssign) -> int:
    """Where the value begins, with the brackets around it."""
    before = node.targets[-1] if isinstance(node, ast.Assign) else node.annotation
    match = _EQUALS.match(source.text, source.span(before)[1])
    if match is None:
        raise EditError("what is assigned is written in brackets")
    return match.end()


def _unnamed(source: Source, node: ast.ExceptHandler) -> Edit:
    """`except E as name:` without the name."""
    if node.type is None:
        raise EditError("the handler has no name")
    end = source.span(node.type)[1]
    colon = re.compile(r"\)?(\s*as\s+\w+)").match(source.text, end)
    if colon is None:
        raise EditError("the name of the handler is not where it is expected")
    return Edit(colon.start(1), colon.end(1))


def _fewer(
    source: Source, names: Sequence[ast.alias], chosen: Collection[ast.AST]
) -> Iterator[Edit]:
    """Some names of an import taken out, each with its comma; one alone on a line with that."""
    spans = [source.span(alias) for alias in names]
    stays = [alias not in chosen for alias in names]
    for at, (start, end) in enumerate(spans):
        if stays[at]:
            continue
        first, last = source.line_of(start), source.line_of(end)
        line = (source.starts[first - 1], source.line_end(last))
        before, after = source.text[line[0] : start], source.text[end : line[1]]
        if not before.strip() and re.fullmatch(r"\s*,?\s*(?:#.*)?", after):
            following = source.starts[last] if last < len(source.starts) else line[1]
            yield Edit(line[0], following)
        elif at + 1 < len(spans):
            yield Edit(start, spans[at + 1][0])
        else:  # the last, and all behind the last that stays go with its comma
            left = max(index for index in range(at) if stays[index])
            yield Edit(spans[left][1], end)


# -- whole statements --------------------------------------------------------------------------


def _cuts(source: Source, gone: Collection[ast.stmt]) -> Iterator[Edit]:
    for block in _blocks(source.tree):
        going = [statement for statement in block if statement in gone]
        if not going:
            continue
        if len(going) == len(block) and block is not source.tree.body:
            yield Edit(source.span(going[0])[0], source.span(going[-1])[1], "pass")
            continue
        for statement in going:
            yield _cut(source, block, statement, gone)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for part in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(part, name, None)
            if isinstance(block, list) and block:
                yield block


def _cut(
    source: Source, block: Sequence[ast.stmt], node: ast.stmt, gone: Collection[ast.stmt]
) -> Edit:
    start, end = source.span(node)
    first, last = source.line_of(start), source.line_of(end)
    line = source.starts[first - 1]
    rest = _COMMENT_LEFT.match(source.text, end)
    if source.text[line:start].strip() or rest is None:  # others share its lines
        following = _NEXT.match(source.text, end)
        if following is not None:
            return Edit(start, following.end())
        return Edit(line + len(source.text[line:start].rstrip().rstrip(";").rstrip()), end)
    at = block.index(node)
    beside = block[at + 1] if at + 1 < len(block) else None
    grouped = beside is not None and beside not in gone and beside.lineno == last + 1
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or not grouped:
        first = _with_comments(source, first, source.text[line:start])
    top, bottom = _blank_before(source, first), _blank_after(source, last)
    if bottom >= len(source.starts):  # nothing follows
        return Edit(source.starts[top - 1], len(source.text))
    opens = top == 1 or (node is block[0] and block is not source.tree.body)
    if opens or first - top >= bottom - last:  # the fewer blank lines of the two sides go
        return Edit(source.starts[first - 1], source.starts[bottom])
    return Edit(source.starts[top - 1], source.starts[last])


def _with_comments(source: Source, first: int, indent: str) -> int:
    """The first line of the comments right above; what begins a file is of the file."""
    top = first
    while top > 1 and (line := _line(source, top - 1)).startswith(f"{indent}#"):
        if line.startswith("#!"):
            break
        top -= 1
    return top if top > 1 else first


def _blank_before(source: Source, line: int) -> int:
    """The first of the blank lines right above a line, or the line."""
    while line > 1 and not _line(source, line - 1).strip():
        line -= 1
    return line


def _blank_after(source: Source, line: int) -> int:
    """The last of the blank lines right below a line, or the line."""
    while line < len(source.starts) and not _line(source, line + 1).strip():
        line += 1
    return line


def _line(source: Source, line: int) -> str:
    return source.text[source.starts[line - 1] : source.line_end(line)]
