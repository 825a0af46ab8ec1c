"""What goes wrong beside a commit: a process killed at a step of it, a disk that is full.

Lives here: stand-ins for `os` in `store.disk`, which every file of a state goes through, and
a process that forks the runs to be killed. Not here: what must hold afterwards.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest import MonkeyPatch  # noqa: PT013

from deltafix.store import disk

RUNNER = """
import os, sys
from importlib import import_module
from pathlib import Path
from pyarrow import array
from deltafix.store import disk
from tests.faults.killing import Killer
script = import_module(sys.argv[1])
array([0])  # the first one imports pandas, where there is one: not again in each process
for line in sys.stdin:
    folder, at, mode = line.split()
    child = os.fork()
    if child == 0:
        killer = disk.os = Killer(int(at), mode)
        getattr(script, "step", lambda killer: None)(killer)
        script.run(Path(folder))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status), flush=True)
"""


class Killer:
    """Stands for `os` in `disk`: the process is killed at the step of number `at`.

    `die`: before it. `tear`: in the middle of a write. `late`: behind it.
    """

    STEPS = ("pwrite", "fsync", "link", "replace", "ftruncate")

    def __init__(self, at: int, mode: str) -> None:
        self.at = at
        self.mode = mode
        self.seen: list[str] = []

    def __getattr__(self, name: str):
        real = getattr(os, name)
        return self.step(name, real) if name in self.STEPS else real

    def step(self, name: str, real):
        def stepped(*args, **options):
            number = len(self.seen)
            self.seen.append(name)
            if number != self.at:
                return real(*args, **options)
            if self.mode == "tear" and name == "pwrite":
                real(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
            if self.mode == "late":
                real(*args, **options)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("unreachable")

        return stepped


@contextmanager
def forking(script: str) -> Iterator[subprocess.Popen[str]]:
    """A process with the engine loaded that forks `run(folder)` of a module to be killed."""
    root = Path(__file__).resolve().parent.parent.parent
    places = os.pathsep.join([str(root / "src"), str(root)])
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=root, env={**os.environ, "PYTHONPATH": places},
    ) as process:  # fmt: skip
        yield process
        process.stdin.close()
        process.wait()


def killed(runner: subprocess.Popen[str], folder: Path, at: int, mode: str) -> bool:
    """Run with a kill at a step; whether it came to that."""
    runner.stdin.write(f"{folder} {at} {mode}\n")
    runner.stdin.flush()
    ended = int(runner.stdout.readline())
    assert ended in (signal.SIGKILL, 0), ended
    return ended == signal.SIGKILL


class Copier(Killer):
    """As `Killer` at each of many steps of one run: a copy of the folder is what a kill leaves.

    No process is killed, and none plays again what came before: a run of 200 steps that is left at
    each ninth of them takes the time of two, and took that of twelve.
    """

    def __init__(self, folder: Path, first: int, every: int, mode: str) -> None:
        super().__init__(first, mode)
        self.folder = folder
        self.every = every
        self.copies: dict[int, Path] = {}

    def step(self, name: str, real):
        def stepped(*args, **options):
            number = len(self.seen)
            self.seen.append(name)
            if number < self.at or (number - self.at) % self.every:
                return real(*args, **options)
            if self.mode == "tear" and name == "pwrite":
                real(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
            ended = real(*args, **options) if self.mode == "late" else None
            copy = self.folder.with_name(f"{self.folder.name} {number}")
            self.copies[number] = shutil.copytree(self.folder, copy)
            return ended if self.mode == "late" else real(*args, **options)

        return stepped


def left_by_kills(
    run: Callable[[Path], None], folder: Path, first: int, every: int, mode: str
) -> dict[int, Path]:
    """What kills at those steps of a run in `folder` leave: a folder for each."""
    copier = Copier(folder, first, every, mode)
    with MonkeyPatch.context() as patch:
        patch.setattr(disk, "os", copier)
        run(folder)
    return copier.copies


class Halted(BaseException):
    """The process has ended, as far as the disk is concerned."""

    """The process has ended, as far as the disk is concerned."""


class Halter(Killer):
    """As `Killer`, in this process: from the step on, nothing reaches the disk any more."""

    def step(self, name: str, real):
        def stepped(*args):
            number = len(self.seen)
            self.seen.append(name)
            if number > self.at:
                raise Halted
            if number < self.at:
                return real(*args)
            if self.mode == "tear" and name == "pwrite":
                real(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
            if self.mode == "late":
                real(*args)
            raise Halted

        return stepped


@contextmanager
def halting(at: int, mode: str) -> Iterator[Halter]:
    """In the block, this process is as if killed at a step of what it writes."""
    halter = Halter(at, mode)
    remove = disk.remove

    def removed(path: Path) -> None:
        if len(halter.seen) > at:
            raise Halted
        remove(path)

    with MonkeyPatch.context() as patch:
        patch.setattr(disk, "os", halter)
        patch.setattr(disk, "remove", removed)
        yield halter


class Full:
    """Stands for `os` in `disk`: from step `at` on nothing can be written until there is room."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0
        self.room = False

    def __getattr__(self, name: str):
        real = getattr(os, name)
        if name not in ("pwrite", "fsync"):
            return real

        def stepped(*args):
            self.seen += 1
            if self.seen > self.at and not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args)

        return stepped


@contextmanager
def small_disk_at(folder: Path, size: str) -> Iterator[Path | None]:
    """A file system of that size in a new folder; None where this process may not mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mountable = shutil.which("mount") is not None
    if not mountable or subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
