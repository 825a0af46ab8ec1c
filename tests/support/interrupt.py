"""Ctrl-C at a chosen line of the library."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType
from typing import Self

import deltafix

_SPARED = ("with ", "try:", "self._telling = False", "if is_news:", "tell(told)")
_WHOLE = frozenset({"Watch._pass", "Transaction.__del__", "_AtEnd.__del__"})


class Interrupt:
    """Has Ctrl-C come at the n-th line of the library that runs inside; `came` says whether.

    Not where Python handles no signal, since no call has ended there: between the lines of
    `Watch._pass`, at a `try`, at a `with` whose body has been left, and at the one line of a
    `finally`; between taking a delta off a list and passing it on. Nor in a destructor, where it
    can only be printed.
    """

    def __init__(self, after: int, folder: str) -> None:
        self.after, self.came = after, False
        self._folder = str(Path(deltafix.__file__).parent / folder)

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._line)
        return self

    def _line(self, frame: FrameType, event: str, _: object) -> object:
        code = frame.f_code
        if not code.co_filename.startswith(self._folder) or code.co_qualname in _WHOLE:
            return None
        self.after -= event == "line"
        line = linecache.getline(code.co_filename, frame.f_lineno)
        if self.after < 0 and not self.came and not line.lstrip().startswith(_SPARED):
            self.came = True
            raise KeyboardInterrupt
        return self._line

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
