"""What a command says beside its result: notes and progress, on standard error.

Invariant: nothing here writes to standard output. Progress appears only on a terminal and is gone
when it ends; colours are only there and not under NO_COLOR; `quiet` silences both.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from deltafix.doing import heard, tell
from deltafix.errors import MissingDependencyError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["hidden", "note", "prepare_kernel", "printing", "progress"]

AFTER: Final = 1.0
"""Seconds after which `progress` appears: what is done before needs no word."""


def note(text: str, *, quiet: bool = False) -> None:
    """Write one line to standard error."""
    if not quiet:
        with hidden():
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _console(what: str) -> Console | None:
    """Where something may move. A terminal that cannot redraw (TERM=dumb) gets a line."""
    from rich.console import Console  # noqa: PLC0415  130 ms, for terminals only

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        note(what)
        return None
    return console


class _Line:
    """One line: what is being done, for how long, and for how long still where somebody counts.

    It is there after `AFTER` seconds. A thread draws it, also while the kernel works. Between
    `stop` and `start` nothing of it is on the screen and nothing is drawn.
    """

    def __init__(self, what: str) -> None:
        self._what = self._whole = what
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._shown: Progress | None = None
        self._is_printed = False
        self._counted = (0, 0, 0.0)  # what was done at first, of how much, and when
        self._left = ""

    def start(self) -> None:
        """Have it appear, if it is not stopped before."""
        self._timer = threading.Timer(AFTER, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        from rich import progress  # noqa: PLC0415  for terminals only
        from rich.table import Column  # noqa: PLC0415

        with self._lock:
            if self._timer is not threading.current_thread() or self._is_printed:
                return
            console = _console(self._what)
            if console is None:
                self._is_printed = True  # in a line that stays: once is enough
                return
            text = Column(no_wrap=True, overflow="ellipsis")
            self._shown = progress.Progress(
                progress.SpinnerColumn(),
                progress.TextColumn("{task.description}", markup=False, table_column=text),
                progress.TimeElapsedColumn(),
                progress.TextColumn("{task.fields[left]}"),
                console=console,
                transient=True,
                redirect_stdout=False,  # results go where they go
                redirect_stderr=False,
            )
            self._shown.add_task(self._what, total=None, left=self._left)
            self._shown.tasks[0].start_time = self._began
            self._shown.start()

    def say(self, what: str, done: int, of: int) -> None:
        """Say this from now on; "" what was said first."""
        with self._lock:
            self._what = what or self._whole
            if of:
                self._left = self._rest(done, of)
            if self._shown is not None:
                task = self._shown.task_ids[0]
                self._shown.update(task, description=self._what, left=self._left)

    def _rest(self, done: int, of: int) -> str:
        """How much is done, and how long the rest takes if it goes on as until now."""
        first, total, began = self._counted
        now = time.monotonic()
        if of != total or done < first:
            self._counted = first, _, began = done, of, now
        if not first < done < of:
            return ""
        left = round((now - began) * (of - done) / (done - first))
        return f"{done / of:.0%}, {timedelta(seconds=left)} left"

    def stop(self) -> None:
        """Take it from the screen."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if self._shown is not None:
                self._shown.stop()
            self._shown = None


_line: ContextVar[_Line | None] = ContextVar("_line", default=None)


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Say what goes on, on a terminal only, until the block ends: first `what`, then what is told.

    It appears where the block takes longer than `AFTER` seconds, and leaves nothing behind. Whoever
    writes to the terminal meanwhile does it under `hidden`, as `note` does. Blocks may be nested.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    line = _Line(what)
    with hidden():
        token = _line.set(line)
        line.start()
        try:
            with heard(line.say):
                yield
        finally:
            line.stop()
            _line.reset(token)


@contextmanager
def hidden() -> Iterator[None]:
    """Keep what `progress` shows from the screen, to write there or to wait."""
    line = _line.get()
    if line is None:
        yield
        return
    token = _line.set(None)  # inside, there is nothing to hide
    line.stop()
    try:
        yield
    finally:
        _line.reset(token)
        line.start()


def printing() -> AbstractContextManager[None]:
    """`hidden`, to write to standard output, where that is a terminal, too."""
    return hidden() if sys.stdout.isatty() else nullcontext()


def prepare_kernel(*, quiet: bool = False) -> None:
    """Compile the kernel, saying so and how far it is, if there is no compiled one."""
    from deltafix.kernel.native import is_ready, prepare  # noqa: PLC0415  numpy and LLVM

    if is_ready():
        return
    what = "compiling the kernel, once (about a minute)"
    if not sys.stderr.isatty():
        note(f"deltafix: {what} …", quiet=quiet)
    with progress(what, quiet=quiet):
        prepare(partial(tell, what), quiet=True)


def require_packages(command: str, packages: Mapping[str, str]) -> None:
    """Raise MissingDependencyError for all packages at once that are not there, by their extras."""
    missing = {name: extra for name, extra in packages.items() if find_spec(name) is None}
    if missing:
        extra = ",".join(dict.fromkeys(missing.values()))
        message = f"{command} needs {' and '.join(missing)}: pip install 'deltafix[{extra}]'"
        raise MissingDependencyError(message, extra=extra)
