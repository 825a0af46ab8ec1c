"""`deltafix fmt`: one layout for program texts, comments kept.

Works on tokens, not on the tree, so comments, `#` lines and macro uses stay as they are; the
parser only tells where each declaration or clause starts. Invariants: the result parses to an
equal program, and formatting it again changes nothing. Both are checked, on every call, before a
result is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deltafix.datalog.lexer import Token, tokenize
from deltafix.datalog.load import analyse
from deltafix.datalog.parser import Parser
from deltafix.datalog.preprocess import preprocess
from deltafix.datalog.source import Source
from deltafix.errors import InternalError
from deltafix.rules.functors import INFIX, PREFIX

WIDTH: Final = 100
_HEADS: Final = (".comp", ".init")
_TYPED: Final = (".decl", ".type", ".functor", ".lattice")
_IO: Final = (".input", ".output", ".printsize", ".limitsize")
_TIGHT_AFTER: Final = ("(", "[", "!", "@", "@@", "$")
_TIGHT_BEFORE: Final = (")", "]", ",", ".")
_VALUE_ENDS: Final = ("number", "unsigned", "float", "string")


def format_program(text: str, path: str | None = None) -> str:
    """The text in deltafix's layout. `path` names it and fences its `#include`s.

    Raises ProgramError for a program with errors: broken text is never rearranged. Linear.
    """
    before = analyse(text, path)
    before.raise_for_errors()
    result = _layout(text, path)
    after = analyse(result, path)
    if after.errors or after.program != before.program or _layout(result, path) != result:
        raise InternalError("format: the layout changed the program; please report the text")
    return result


def _layout(text: str, path: str | None) -> str:
    source = Source(text, path)
    folder = Path(path).parent if path is not None else None
    read = preprocess(source, folder)
    parsed = Parser(read.tokens, source).program()
    starts = {token.start for token in parsed.starts if token.source.path == path}
    hidden = {token.start for token in read.skipped if token.source.path == path}
    tokens = _hide(tokenize(source, comments=True)[0], hidden)
    lines: list[str] = []
    item: list[Token] = []
    end = -1  # offset behind the last token written
    depth = 0  # components that are open

    def flush() -> None:
        nonlocal end, depth
        if item:
            _gap(source, lines, end, item[0])
            depth -= item[0].text == "}"
            lines.extend(_indented(line, depth) for line in _item(item, WIDTH - 4 * depth))
            depth += item[0].text == ".comp"
            end = item[-1].end
            item.clear()

    for position, token in enumerate(tokens):
        alone = token.kind in ("comment", "cpp")
        inside = alone and bool(item) and not _item_over(tokens, position, starts)
        if alone and not inside:
            flush()
            if token.kind == "comment" and lines and "\n" not in text[max(end, 0) : token.start]:
                lines[-1] += f"  {token.text.rstrip()}"
            else:
                _gap(source, lines, end, token)
                first, *rest = (line.rstrip() for line in token.text.split("\n"))
                lines.extend([first if token.kind == "cpp" else _indented(first, depth), *rest])
            end = token.end
            continue
        if token.start in starts:
            flush()
        item.append(token)
    flush()
    return "".join(f"{line}\n" for line in lines)


def _hide(tokens: list[Token], hidden: set[int]) -> list[Token]:
    """Tokens with every stretch of lines that `#ifdef` leaves out as one `cpp` token, untouched."""
    merged: list[Token] = []
    position = 0
    while position < len(tokens):
        first = last = tokens[position]
        if first.start in hidden:
            for token in tokens[position:]:
                if token.kind == "cpp":
                    break
                last = token
                position += 1
            text = first.source.text
            start = text.rfind("\n", 0, first.start) + 1
            merged.append(Token("cpp", text[start : last.end], first.source, start, last.end))
        else:
            merged.append(first)
            position += 1
    return merged


def _item_over(tokens: list[Token], position: int, starts: set[int]) -> bool:
    """Whether the item is complete at this comment: the next real token starts another one."""
    for token in tokens[position:]:
        if token.kind not in ("comment", "cpp"):
            return token.start in starts
    return True


def _gap(source: Source, lines: list[str], end: int, token: Token) -> None:
    """Keep one blank line where there were any."""
    if lines and source.text.count("\n", max(end, 0), token.start) > 1:
        lines.append("")


def _indented(line: str, depth: int) -> str:
    """A line of something inside components; preprocessor lines stay at the margin."""
    return f"{'    ' * depth}{line}" if line and not line.startswith("#") else line


def _item(tokens: list[Token], width: int) -> list[str]:
    """One declaration or clause as lines: on one if it fits and no comment forbids it."""
    broken = any(token.kind in ("comment", "cpp") for token in tokens)
    if not broken:
        line = "".join(_spaced(tokens, i) for i in range(len(tokens)))
        if len(line) <= width:
            return [line]
    return _broken(tokens)


def _broken(tokens: list[Token]) -> list[str]:
    """A line per literal of the body (or per column of a declaration), and around comments."""
    lines = [""]
    depth = 0
    outer = 0 if any(token.text == ":-" for token in tokens) else 1
    body = outer == 1
    fresh = False  # the next token starts a line
    for i, token in enumerate(tokens):
        if token.kind in ("comment", "cpp"):
            same_line = i > 0 and "\n" not in token.source.text[tokens[i - 1].end : token.start]
            if token.kind == "comment" and same_line and lines[-1].strip():
                lines[-1] += f"  {token.text.rstrip()}"
            else:
                indent = "" if token.kind == "cpp" else "    "
                if lines[-1].strip():
                    lines.append("")
                lines[-1] = indent + token.text.rstrip()
            fresh = True
            continue
        text = _spaced(tokens, i)
        if fresh:
            lines.append(f"    {text.lstrip()}")
        else:
            lines[-1] += text
        fresh = False
        if token.kind != "punct":
            continue
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.text == ":-" or (body and depth == outer and token.text in (",", ";")):
            body = True
            fresh = True
    return [line.rstrip() for line in lines]


def _spaced(tokens: list[Token], position: int) -> str:
    """A token with the space before it."""
    token = tokens[position]
    if position == 0:
        return token.text
    return f" {token.text}" if _space(tokens, position) else token.text


def _space(tokens: list[Token], position: int) -> bool:
    token, last = tokens[position], tokens[position - 1]
    text, before = token.text, last.text
    kind = tokens[0].text if tokens[0].kind == "directive" else ""
    if last.kind in ("comment", "cpp") or token.kind == "comment":
        return True
    if text == "?" and before == ")":
        return False  # `decimal(8, 2)?`
    if token.kind == "punct":
        if text in _TIGHT_BEFORE or (text in ("<", ">") and kind in _HEADS):
            return False
        if kind in _TYPED and (text in (">", "<>") or (text == "}" and before == "{")):
            return False  # `number<>`, `number <min>`, `Leaf {}`
        if text == ":":
            return kind not in (*_TYPED, ".plan")
        if text == "=" and kind in _IO:
            return False
        if text == "(" and last.kind == "ident":
            return before in INFIX or before in PREFIX
        if text == "(" and kind == ".plan":
            return False
    if last.kind == "punct":
        if before in _TIGHT_AFTER or (before == "=" and kind in _IO):
            return False
        if before == "." or (before == "<" and kind in (*_HEADS, *_TYPED)):
            return False  # a dot inside a clause joins a name
        if before == ":" and kind == ".plan":
            return False
        if before == "-" and _is_sign(tokens, position - 1):
            return False
    return True


def _is_sign(tokens: list[Token], position: int) -> bool:
    """Whether the `-` at a position is a sign rather than a subtraction."""
    if position == 0:
        return True
    last = tokens[position - 1]
    if last.kind in _VALUE_ENDS or (last.kind == "punct" and last.text in (")", "]", "}")):
        return False
    words = (*INFIX, *PREFIX, "sum", "min", "max", "mean")
    return last.kind != "ident" or last.text in words
