"""The symbols of a database: texts and their ids, in the arena.

Texts go in and out by the column, as bytes and where each ends, without a Python string for each; a
single one costs a quarter of a microsecond. Invariant: equal texts have one id, ids are given in
the order in which texts come, and none is used again while the arena lives. Not here: what lies in
the arena (`kernel.symbols`); values of other types (`codes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from deltafix.errors import LimitError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Cells, Words
from deltafix.kernel.entries import (
    copy_symbols,
    enter_symbol,
    enter_symbols,
    find_symbol,
    read_symbol,
)

_SHORT = 256
"""Bytes that a buffer for one text has room for at least."""
_AT_ONCE = 1 << 15
"""Texts that go to the kernel in one call: their bytes stay in cache."""
_MOST = (1 << 31) - 64
"""Bytes of a text, of which the arena and Arrow keep the number in 32 bits."""


class Symbols:
    """Texts by id, and ids by text. Nothing that is entered ever goes."""

    def __init__(self, arena: Arena) -> None:
        self._words, self._cells = arena.words, arena.cells
        self._own = _Buffer(_SHORT)
        self._spare: list[_Buffer] = []

    def __len__(self) -> int:
        return int(self._cells[at.SYM + 1])

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts(np.arange(len(self), dtype=np.int32)))

    def known(self, text: str) -> int | None:
        """The id of a text, or None if it has none. O(its length).

        Where another thread may enter some meanwhile, it waits for that one's gate: the table that
        is looked into may be outgrown, and taken again. Ids that are known are read without.
        """
        data = _utf8(text)
        buffer = self._buffer(len(data))
        buffer.data[: len(data)] = data
        code = int(find_symbol(self._words, self._cells, buffer.words, len(data)))
        self._give_back(buffer)
        return None if code < 0 else code

    def code(self, text: str) -> int:
        """The id of a text, entered if new, by the one thread that writes. O(its length).

        Raises LimitError.
        """
        data = _utf8(text)
        size = len(data)
        buffer = self._own
        if size > _SHORT:
            _require_short(size)
            buffer = _Buffer(size)
        buffer.data[:size] = data
        code: int = enter_symbol(self._words, self._cells, buffer.words, size)
        return code

    def _buffer(self, size: int) -> _Buffer:
        """Room for so many bytes: its taker's alone, who gives it back."""
        if size > _SHORT:
            return _Buffer(size)
        try:
            return self._spare.pop()
        except IndexError:
            return _Buffer(_SHORT)

    def _give_back(self, buffer: _Buffer) -> None:
        if len(buffer.data) <= _SHORT + 8:
            self._spare.append(buffer)

    def codes(self, texts: list[str]) -> Words:
        """The ids of texts, entered where new. O(their lengths). Raises LimitError."""
        whole = "".join(texts)
        if whole.isascii():
            data = whole.encode()
            lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        else:
            parts = list(map(_utf8, texts))
            data = b"".join(parts)
            lengths = np.fromiter(map(len, parts), np.int64, len(texts))
        return self._entered(np.frombuffer(data, np.uint8), _ends(lengths))

    def codes_of_array(self, array: Any) -> Words:
        """The ids of an Arrow array of valid strings without nulls. O(their lengths).

        Raises LimitError.
        """
        import pyarrow as pa  # noqa: PLC0415  most runs never need a table

        if not pa.types.is_string(array.type):
            array = array.cast(pa.large_string())
        _, offsets, data = array.buffers()
        width = np.int32 if pa.types.is_string(array.type) else np.int64
        ends = np.frombuffer(offsets or bytes(8), width)[array.offset :][: len(array) + 1]
        return self._entered(np.frombuffer(data or b"", np.uint8), ends.astype(np.int64))

    def taken(self, codes: Words, other: Symbols) -> Words:
        """The ids here of symbols of another database, entered where new. O(their lengths)."""
        data, ends = other._bytes(codes)
        return self._entered(data, ends)

    def _entered(self, data: npt.NDArray[np.uint8], ends: Cells) -> Words:
        """The ids of texts that lie in `data`; `ends` has one end more than there are texts."""
        count = len(ends) - 1
        ids = np.empty(count, np.int32)
        words, cells = self._words, self._cells
        scratch = np.empty(0, np.int32)
        for first in range(0, count, _AT_ONCE):
            own = ends[first : first + _AT_ONCE + 1]
            begin, size = int(own[0]), int(own[-1] - own[0])
            if size > _MOST:
                _require_short(int(np.diff(own).max()))
            if len(scratch) * 4 < size + 8:
                scratch = np.empty(size // 2 + 2, np.int32)
            scratch.view(np.uint8)[:size] = data[begin : begin + size]
            enter_symbols(words, cells, scratch, own - begin, ids[first:], len(own) - 1)
        return ids

    def text(self, code: int) -> str:
        """The text of an id. O(its length). Raises IndexError for an id that no text has."""
        words, cells = self._words, self._cells
        buffer = self._buffer(0)
        size = read_symbol(words, cells, code, buffer.words, len(buffer.words))
        if size > len(buffer.data):
            buffer = _Buffer(size)
            read_symbol(words, cells, code, buffer.words, len(buffer.words))
        elif size < 0:
            raise IndexError(f"no text has the id {code}")
        text = str(buffer.data[:size], "utf-8", "surrogatepass")
        self._give_back(buffer)
        return text

    def texts(self, codes: Words) -> list[str]:
        """The texts of ids, each a string of its own. O(their lengths)."""
        data, ends = self._bytes(codes)
        raw = data.tobytes()
        if raw.isascii():
            whole = raw.decode("ascii")
            places = ends.tolist()
            return list(map(whole.__getitem__, map(slice, places, places[1:])))
        return [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(ends.tolist())]

    def array(self, codes: Words) -> Any:
        """The texts of ids as an Arrow array of strings. O(their lengths)."""
        import pyarrow as pa  # noqa: PLC0415  most runs never need a table

        data, ends = self._bytes(codes)
        is_large = int(ends[-1]) > _MOST
        buffers = [
            None,
            pa.py_buffer(ends if is_large else ends.astype(np.int32)),
            pa.py_buffer(data),
        ]
        kind = pa.large_string() if is_large else pa.string()
        return pa.Array.from_buffers(kind, len(codes), buffers)

    def _bytes(self, codes: Words) -> tuple[npt.NDArray[np.uint8], Cells]:
        """The UTF-8 of ids one after another, and where each ends, from 0 on."""
        words, cells = self._words, self._cells
        codes = np.array(codes, np.int32)  # the kernel takes none that is read-only
        ends = _ends(words[cells[int(cells[at.SYM]) + codes.astype(np.int64)]])
        data = np.zeros(int(ends[-1]) // 4 + 2, np.int32)
        copy_symbols(words, cells, codes, ends, data, len(codes))
        return data.view(np.uint8)[: int(ends[-1])], ends


class _Buffer:
    """Room for a text, as words and as bytes."""

    __slots__ = ("data", "words")

    def __init__(self, size: int) -> None:
        self.words = np.zeros(size // 4 + 2, np.int32)
        self.data = self.words.data.cast("B")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return text.encode("utf-8", "surrogatepass")


def _require_short(size: int) -> None:
    if size > _MOST:
        message = f"a text of {size:,} bytes is too long; the limit is {_MOST:,}"
        raise LimitError(message)


def _ends(lengths: npt.NDArray[Any]) -> Cells:
    """Where texts of these lengths end, one after another, from 0 on."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends
