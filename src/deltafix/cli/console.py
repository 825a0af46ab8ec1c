"""What a command says beside its result: notes and progress, on standard error.

Invariant: nothing here writes to standard output. Progress appears only on a terminal, colours
only there and not under NO_COLOR; `quiet` silences both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["bar", "note", "prepare_kernel", "progress"]


def note(text: str, *, quiet: bool = False) -> None:
    """Write one line to standard error."""
    if not quiet:
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


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show that something is going on, on a terminal only, until the block ends."""
    console = _console(what, quiet)
    with console.status(what) if console is not None else nullcontext():
        yield


@contextmanager
def bar(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar, on a terminal only: yields `step(done, total)`, or None where it is not."""
    console = _console(what, quiet)
    if console is None:
        yield None
        return
    from rich.progress import Progress  # noqa: PLC0415  for terminals only

    with Progress(console=console, transient=True) as shown:
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
