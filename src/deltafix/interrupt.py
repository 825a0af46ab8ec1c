"""Ctrl-C and SIGTERM in the process of the command line; as a library deltafix calls nothing here.

Both raise `Interrupt` wherever the main thread is, and what was begun is rolled back on the way
out. Invariant: an interrupt is never lost. Where it cannot be raised, the process ends at once with
code 130 or 143, as by a kill, which states, outputs and logs stand at any moment (tests/faults): in
what Python would only have printed (a destructor, a callback of C), and from `end_at_once` on.
Ctrl-C waits no longer than `PATIENCE`: a thread ends a process so that has not ended by itself,
because the main thread is in a long call of C, or has much to roll back. What registered for the
exit is run; then nothing is put away object by object, as Python would with its lock held, which no
thread gets past. Only what else holds that lock for longer is waited for.
Where a signal was ignored or somebody else handled it, it stays so.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

INTERRUPTED: Final = 130  # 128 + SIGINT
_SAID: Final = {signal.SIGINT: "interrupted\n", signal.SIGTERM: "terminated\n"}
_DEFAULTS: Final = {
    signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL,
}  # fmt: skip

PATIENCE: Final = 0.4
"""Seconds from Ctrl-C to the end of a process that does not end before."""

_listened: list[signal.Signals] = []
_came = signal.SIGINT
_code: int | None = None  # of the command, once it has ended


class Interrupt(KeyboardInterrupt):
    """Ctrl-C. Where Python's own came out of an `exec`, no exit code is ours: the signal kills."""


def listen() -> None:
    """Have Ctrl-C and SIGTERM raise Interrupt, in this process and until its end."""
    atexit.register(_leave)  # runs last of all that register
    for number, default in _DEFAULTS.items():
        if signal.getsignal(number) is default:
            _listened.append(number)
            signal.signal(number, _raise)
            # Runs when the others have: what Python does then of itself is not to be stopped.
            atexit.register(signal.signal, number, signal.SIG_IGN)
    if _listened:
        sys.unraisablehook = _unraisable
    if signal.SIGINT in _listened:
        numbers, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=_lose_patience, args=(numbers,), daemon=True).start()


def outcome() -> tuple[int, str]:
    """The code of a command that an interrupt has ended, and what it says."""
    return 128 + _came, _SAID[_came]


def answer_oneself() -> None:
    """Wait for whoever catches an interrupt and goes on, from now on: a prompt."""
    if signal.SIGINT in _listened:
        signal.set_wakeup_fd(-1)


def end_at_once() -> None:
    """Have the signals end the process from now on; does nothing where `listen` did nothing.

    For Spark: an answer of its JVM that was broken off is taken for that to the next question, and
    the handler that PySpark sets asks one. The JVM ends with this process, and its workers with it.
    """
    for number in _listened:
        signal.signal(number, _end)


def ended(code: int) -> None:
    """The command has ended with a code: a signal during what is left changes nothing about it."""
    global _code  # noqa: PLW0603  a process ends once
    _code = code
    for number in _listened:
        signal.signal(number, lambda number, frame: os._exit(code))


def _leave() -> None:
    """End a process that an interrupt has ended: behind a compiled kernel Python takes 1.6 s."""
    if _code == 128 + _came:
        for written in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                written.flush()
        os._exit(_code)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    global _came  # noqa: PLW0603  a process ends once
    _came = signal.Signals(number)
    raise Interrupt


def _lose_patience(numbers: int) -> None:
    """End the process some time after Ctrl-C, of which the C handler writes the number at once."""
    while signal.SIGINT not in os.read(numbers, 64):
        pass
    time.sleep(PATIENCE)
    if _code is not None:
        os._exit(_code)
    _end(signal.SIGINT)


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    if isinstance(lost.exc_value, KeyboardInterrupt):
        _end(_came)
    sys.__unraisablehook__(lost)


def _end(number: int, frame: FrameType | None = None) -> NoReturn:
    if threading.current_thread() is threading.main_thread():  # else that may be writing to it
        with suppress(RuntimeError, OSError, ValueError):  # it may be written to, or closed
            sys.stdout.flush()
    # A line of progress may stand there.
    cleared = "\r\x1b[2K\x1b[?25h" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{cleared}{_SAID[signal.Signals(number)]}".encode())
    os._exit(128 + number)
