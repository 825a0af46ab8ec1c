"""What a command says beside its result: notes and progress, on standard error.

Invariant: nothing here writes to standard output. Progress appears only on a terminal and is gone
when it ends; colours are only there and not under NO_COLOR; `quiet` silences both.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

from deltafix.doing import heard
from deltafix.errors import MissingDependencyError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["bar", "each", "hidden", "note", "prepare_kernel", "progress"]

T = TypeVar("T")

AFTER: Final = 1.0
"""Seconds after which `progress` appears: what is done before needs no word."""


def note(text: str, *, quiet: bool = False) -> None:
    """Write one line to standard error."""
    if not quiet:
        with hidden():
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _console(what: str, quiet: bool) -> Console | None:
    """Where something may move: a terminal. One that cannot redraw (TERM=dumb) gets a line."""
    if quiet or not sys.stderr.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415  130 ms, for terminals only

    found = Console(stderr=True)
    if found.is_dumb_terminal:
        note(what)
        return None
    return found


class _Line:
    """One line that says what is being done and for how long: there after `AFTER` seconds.

    A thread draws it, also while the kernel works. Between `stop` and `start` nothing of it is on
    the screen and nothing is drawn.
    """

    def __init__(self, what: str) -> None:
        self._what = self._whole = what
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._shown: Progress | None = None
        self._told = False

    def start(self) -> None:
        """Have it appear, if it is not stopped before."""
        self._timer = threading.Timer(AFTER, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        from rich import progress  # noqa: PLC0415  for terminals only
        from rich.table import Column  # noqa: PLC0415

        with self._lock:
            if self._timer is not threading.current_thread() or self._told:
                return
            console = _console(self._what, quiet=False)
            if console is None:
                self._told = True  # in a line that stays: once is enough
                return
            text = Column(no_wrap=True, overflow="ellipsis")
            self._shown = progress.Progress(
                progress.SpinnerColumn(),
                progress.TextColumn("{task.description}", markup=False, table_column=text),
                progress.TimeElapsedColumn(),
                console=console,
                transient=True,
                redirect_stdout=False,  # results go where they go
                redirect_stderr=False,
            )
            self._shown.add_task(self._what, total=None)
            self._shown.tasks[0].start_time = self._began
            self._shown.start()

    def say(self, what: str) -> None:
        """Say this from now on; "" what was said first."""
        with self._lock:
            self._what = what or self._whole
            if self._shown is not None:
                self._shown.update(self._shown.task_ids[0], description=self._what)

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


def each(items: Iterable[T], what: str, *, quiet: bool = False) -> Iterator[T]:
    """The items, with `progress` while one is waited for."""
    iterator = iter(items)
    while True:
        with progress(what, quiet=quiet):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


@contextmanager
def bar(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar, on a terminal only: yields `step(done, total)`, or None where it is not."""
    console = _console(what, quiet)
    if console is None:
        yield None
        return
    from rich.progress import Progress  # noqa: PLC0415  for terminals only

    with hidden(), Progress(console=console, transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total or None)


def prepare_kernel(*, quiet: bool = False) -> None:
    """Compile the kernel, saying so and how far it is, if there is no compiled one."""
    from deltafix.kernel.native import is_ready, prepare  # noqa: PLC0415  numpy and LLVM

    if is_ready():
        return
    what = "compiling the kernel, once (about 20 s)"
    if not sys.stderr.isatty():
        note(f"deltafix: {what} …", quiet=quiet)
    with bar(what, quiet=quiet) as step:
        prepare(step, told=True)


def require_packages(command: str, packages: Mapping[str, str]) -> None:
    """Raise MissingDependencyError for all packages at once that are not there, by their extras."""
    missing = {name: extra for name, extra in packages.items() if find_spec(name) is None}
    if missing:
        extra = ",".join(dict.fromkeys(missing.values()))
        message = f"{command} needs {' and '.join(missing)}: pip install 'deltafix[{extra}]'"
        raise MissingDependencyError(message, extra=extra)
