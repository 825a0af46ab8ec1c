"""Ctrl-C in the process of the command line; where deltafix is a library, nothing here is called.

SIGINT raises `Interrupt` wherever the main thread is, and what was begun is rolled back on the way
out. Invariant: an interrupt is never lost. Where it cannot be raised, the process ends at once with
code 130, as by a kill, which states, outputs and logs stand at any moment (tests/faults): in what
Python would only have printed (a destructor, a callback of C), and from `end_at_once` on. Where
SIGINT was ignored or somebody else handled it, it stays so.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

INTERRUPTED: Final = 130  # 128 + SIGINT
SAID: Final = "interrupted\n"

_listens = False


class Interrupt(KeyboardInterrupt):
    """Ctrl-C. Where Python's own came out of an `exec`, no exit code is ours: the signal kills."""


def listen() -> None:
    """Have Ctrl-C raise Interrupt, in this process and until its end."""
    global _listens  # noqa: PLW0603  a process has one
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _listens = True
        signal.signal(signal.SIGINT, _raise)
        sys.unraisablehook = _unraisable
        # Comes last of those registered: what Python does then of itself is not to be stopped.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def end_at_once() -> None:
    """Have Ctrl-C end the process from now on; does nothing where `listen` did nothing.

    For Spark: an answer of its JVM that was broken off is taken for that to the next question, and
    the handler that PySpark sets asks one. The JVM ends with this process, and its workers with it.
    """
    if _listens:
        signal.signal(signal.SIGINT, _end)


def ended(code: int) -> None:
    """The command has ended with a code: Ctrl-C during what is left changes nothing about it."""
    if _listens:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(code))


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupt


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    if isinstance(lost.exc_value, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(lost)


def _end(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    with suppress(RuntimeError, OSError, ValueError):  # it may be written to just now, or closed
        sys.stdout.flush()
    # A line of progress may stand there.
    cleared = "\r\x1b[2K\x1b[?25h" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{cleared}{SAID}".encode())
    os._exit(INTERRUPTED)
