"""Threads that work on one arena side by side, and an interrupt that leaves none of them in it.

Ctrl-C is raised in the main thread alone, after any call has ended. Invariant: when `side_by_side`
or `whole` returns or raises, what they were given has been done in full or not been begun, or, for
the part that `side_by_side` does in the calling thread, been broken off; no other thread is at it.
So what an arena must not be left in the midst of is given to a thread. The arena is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from threading import Lock
from typing import Generic, TypeVar

from deltafix.kernel import layout as at

T = TypeVar("T")


def processors() -> int:
    """How many processors this process may use, up to `MAX_LANES`."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), at.MAX_LANES)
    return min(os.cpu_count() or 1, at.MAX_LANES)


@cache
def _beside() -> ThreadPoolExecutor:
    """Threads for all databases of the process."""
    return ThreadPoolExecutor(at.MAX_LANES - 1, thread_name_prefix="deltafix-lane")


@cache
def _steady() -> ThreadPoolExecutor:
    """Threads for what `whole` does: it waits for those of `_beside`, so it is none of them."""
    return ThreadPoolExecutor(at.MAX_LANES, thread_name_prefix="deltafix-round")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_beside.cache_clear)
    os.register_at_fork(after_in_child=_steady.cache_clear)


class _Part(Generic[T]):
    """What a thread does once; or never, if it was called off before a thread came to it.

    A list's `append` decides which, since it is one step; and what has ended says so before the
    lock is free, so that a wait can be broken off anywhere and begun again.
    """

    __slots__ = ("_ended", "_error", "_free", "_takers", "_value", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._takers: list[str] = []
        self._ended = False
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._free = Lock()
        self._free.acquire()

    def run(self) -> None:
        self._takers.append("thread")
        if self._takers[0] != "thread":
            return
        try:
            self._value.append(self._work())
        except BaseException as error:  # raised again where the part is waited for
            self._error = error
        self._ended = True
        self._free.release()

    def wait(self) -> None:
        while not self._ended:
            self._free.acquire()

    def call_off(self) -> None:
        """Wait for its end, if it was begun; else it never will be."""
        self._takers.append("caller")
        if self._takers[0] == "thread":
            self.wait()

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value[0]


def _all(
    pool: ThreadPoolExecutor,
    parts: Sequence[_Part[T]],
    own: Callable[[], T] | None,
    stop: Callable[[], None] | None,
) -> list[T]:
    """Have all parts done, and what is the caller's `own`. Raises what one of them raises.

    Written in one piece: where a call ends an interrupt may come, and none may come between the
    first thread's start and the loop that ends them all.
    """
    interrupted = None
    last: list[T] = []
    try:
        for part in parts:
            pool.submit(part.run)
        if own is not None:
            last.append(own())
        for part in parts:
            part.wait()
    except BaseException as error:  # no thread may be left in the arena
        interrupted = error
    while True:
        try:
            if interrupted is not None and stop is not None:
                stop()
            for part in parts:
                part.call_off()
            break
        except BaseException as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted
    return [*(part.value() for part in parts), *last]


def side_by_side(
    work: Callable[[int], T], count: int, stop: Callable[[], None] | None = None
) -> list[T]:
    """Do `work` for 0 to `count`, a thread each, the last in the calling one.

    Raises what one of them raises, KeyboardInterrupt too, once all are done; where that is raised
    in the calling thread, `stop` asks the others to come to an end.
    """
    parts = [_Part(partial(work, number)) for number in range(count - 1)]
    return _all(_beside(), parts, partial(work, count - 1), stop)


def whole(work: Callable[[], T]) -> T:
    """Do what an interrupt must not break off, in another thread; it is raised afterwards."""
    return _all(_steady(), [_Part(work)], None, None)[0]
