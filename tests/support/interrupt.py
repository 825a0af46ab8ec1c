"""Ctrl-C at a chosen line of the library, or at a chosen call."""

from __future__ import annotations

import linecache
import sys
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any, Self

import deltafix

_SPARED = (
    "with ", "try:", "self._telling = False", "if is_news:", "tell(told)",
    "self.writer.acquire()", "if taken == [True]:", "self.writer.release()",
)  # fmt: skip
_WHOLE = frozenset({"Watch._pass", "Transaction.__del__", "_AtEnd.__del__"})
_BLOCKS = frozenset({"Transaction.__enter__", "Transaction.__exit__"})


class Interrupt:
    """Has Ctrl-C come at the n-th line of the library that runs inside; `came` says whether.

    Not where Python handles no signal, since no call has ended there: between the lines of
    `Watch._pass`, at a `try`, at a `with` whose body has been left, and at the one line of a
    `finally`; between taking a delta off a list and passing it on, or saying whose the writer's
    lock is and taking or giving it. Nor in a destructor, where it
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


class InterruptAtCall(Interrupt):
    """Has it come at the n-th place of the library where Python looks at signals.

    Where a function of Python begins, and behind each call of C; not where a loop goes back, or a
    generator goes on (it may be its end, out of which nothing can be raised). A
    block of `with` is the caller's: no interrupt comes as `Transaction` begins or ends one.
    """

    def __enter__(self) -> Self:
        self._profile = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "c_return") or not code.co_filename.startswith(self._folder):
            return
        if event == "call" and code.co_flags & CO_GENERATOR:
            return
        if code.co_qualname in _BLOCKS or _is_in_destructor(frame):
            return
        self.after -= 1
        if self.after < 0 and not self.came:
            self.came = True
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._profile)


def _is_in_destructor(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None
