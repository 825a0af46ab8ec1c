"""The texts that an editor has open, as it sees them: saved or not.

An edit costs what it says: it is kept, and made when somebody asks for the text. Invariant: a text
is that of the last `open` with all changes since, in order; positions are those of the protocol
(lines from 0, columns in UTF-16 units), offsets are characters.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

from deltafix.analyses.dead_code.source import Span, line_starts
from deltafix.cli.lsp_wire import BadParamsError, Message, has, path_of


@dataclass(slots=True)
class _Document:
    uri: str
    version: object
    text: str
    pending: list[Any] = field(default_factory=list)


class Documents:
    """What is open, by path.

    Attributes:
        folder: the workspace's folder as the editor names it; a link to it may lead elsewhere.
    """

    def __init__(self) -> None:
        self._open: dict[Path, _Document] = {}
        self.folder: tuple[Path, str] | None = None

    def open(self, document: Message) -> None:
        """Take up a document with its text. Raises BadParamsError."""
        text = document.get("text")
        if not isinstance(text, str):
            raise BadParamsError("textDocument has no text")
        path = path_of(document.get("uri"))
        self._open[path] = _Document(str(document["uri"]), document.get("version"), text)

    def change(self, document: Message, changes: list[Any]) -> None:
        """Keep changes of a document that is open; of another one they are nothing."""
        opened = self._open.get(path_of(document.get("uri")))
        if opened is not None:
            opened.version = document.get("version")
            for change in changes:
                if has(change, "range") is None:  # a whole text: what was before is nothing
                    opened.pending.clear()
                opened.pending.append(change)

    def close(self, document: Message) -> None:
        """The text on the disk counts again."""
        self._open.pop(path_of(document.get("uri")), None)

    def text(self, path: Path) -> str | None:
        """The text of an open document, else None. Raises BadParamsError for a bad change."""
        opened = self._open.get(path)
        if opened is None:
            return None
        pending, opened.pending = opened.pending, []
        for change in pending:
            opened.text = _changed(opened.text, change)
        return opened.text

    def uri(self, path: Path) -> str:
        """The URI of a file, as the editor writes it if it is open or in the workspace's folder."""
        opened = self._open.get(path)
        if opened is not None:
            return opened.uri
        if self.folder is not None and path.is_relative_to(self.folder[0]):
            inner = quote_from_bytes(bytes(path.relative_to(self.folder[0])))
            return f"{self.folder[1].rstrip('/')}/{inner}"
        return path.as_uri()

    def version(self, path: Path) -> object:
        """The version of an open document, else None."""
        opened = self._open.get(path)
        return None if opened is None else opened.version


def _changed(text: str, change: object) -> str:
    new = has(change, "text")
    if not isinstance(new, str):
        raise BadParamsError("a change has no text")
    where = has(change, "range")
    if where is None:
        return new
    starts = line_starts(text)
    start, end = (offset_of(text, starts, has(where, side)) for side in ("start", "end"))
    return text[:start] + new + text[end:]


def offset_of(text: str, starts: list[int], position: object) -> int:
    """The offset of a position; one behind a line's end is at its end. Raises BadParamsError."""
    line, column = has(position, "line"), has(position, "character")
    if not isinstance(line, int) or not isinstance(column, int) or line < 0 or column < 0:
        raise BadParamsError("a position has a line and a character, from 0")
    if line >= len(starts):
        return len(text)
    end = starts[line + 1] if line + 1 < len(starts) else len(text)
    line_text = text[starts[line] : end].rstrip("\r\n")
    if line_text.isascii():
        return starts[line] + min(column, len(line_text))
    units = line_text.encode("utf-16-le", "surrogatepass")[: 2 * column]
    return starts[line] + len(units.decode("utf-16-le", "ignore"))


def position_of(text: str, starts: list[int], offset: int) -> Message:
    """The position of an offset."""
    line = bisect_right(starts, offset) - 1
    before = text[starts[line] : offset]
    return {"line": line, "character": len(before.encode("utf-16-le", "surrogatepass")) // 2}


def range_of(text: str, starts: list[int], span: Span) -> Message:
    """The range of a part of a text."""
    return {
        "start": position_of(text, starts, span[0]),
        "end": position_of(text, starts, span[1]),
    }
