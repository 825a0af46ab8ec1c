"""The language server as an editor has it: a child process, messages over its pipes.

The clock runs from the client's write of `didSave` to the arrival of the saved file's
`publishDiagnostics`; the file was written before. Every save adds a dead function or takes it away,
so there is news of the file, unless all of it is dead already: such a save is not counted.
What `deltafix lsp` does inside is its own matter.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from bench.analyses.edits import edited
from bench.report import seconds, table
from bench.results import quantile
from deltafix.analyses.dead_code.extract import extract
from deltafix.cli.lsp_wire import Message, Wire

__all__ = ["Editor", "Saved", "Saves", "show_saves", "time_saves"]

GOAL = 0.1
"""Seconds from a save to the marks."""
SEED = 12
_PUBLISHED, _LOGGED = "textDocument/publishDiagnostics", "window/logMessage"
_IDLE = b"\n\ndef _idle_since_this_save():\n    return None\n"


@dataclass(frozen=True, slots=True)
class Saves:
    """Seconds from start to first marks, and per save to the marks and to the end of its news."""

    files: int
    load_seconds: float
    marked: list[float]
    told: list[float]


@dataclass(frozen=True, slots=True)
class Saved:
    """Seconds from a save to the file's marks (None: they stayed) and to the last word."""

    marked: float | None
    told: float
    marks: list[str]


class Editor:
    """A client of one `deltafix lsp` process. Use `opened`."""

    def __init__(self, wire: Wire, root: Path) -> None:
        self._wire = wire
        self._root = root

    @classmethod
    @contextmanager
    def opened(cls, root: Path) -> Iterator[Editor]:
        """Start the server on a folder, with the handshake done; stop it at the end."""
        command = [sys.executable, "-m", "deltafix", "lsp"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            wire = Wire(cast("BinaryIO", server.stdout), cast("BinaryIO", server.stdin))
            try:
                wire.write({"id": 1, "method": "initialize", "params": {"rootUri": root.as_uri()}})
                wire.write({"method": "initialized", "params": {}})
                assert wire.read() is not None, "the server ended"
                yield cls(wire, root)
                wire.write({"id": 2, "method": "shutdown"})
                wire.write({"method": "exit"})
                server.wait(timeout=60)
            finally:
                server.kill()

    def news(self) -> list[tuple[float, Message]]:
        """What the server publishes until it logs that it is done, with the times of arrival."""
        found = []
        while (message := self._wire.read()) is not None:
            if message.get("method") == _PUBLISHED:
                found.append((time.perf_counter(), message["params"]))
            elif message.get("method") == _LOGGED:
                found.append((time.perf_counter(), {}))
                return found
        raise RuntimeError("the server ended")

    def save(self, path: str, content: bytes) -> Saved:
        """Write a file and tell the server."""
        file = self._root / path
        file.write_bytes(content)
        uri = file.as_uri()
        start = time.perf_counter()
        params = {"textDocument": {"uri": uri}}
        self._wire.write({"method": "textDocument/didSave", "params": params})
        news = self.news()
        told = news[-1][0] - start
        for at, said in news:
            if said.get("uri") == uri:
                return Saved(at - start, told, [one["message"] for one in said["diagnostics"]])
        return Saved(None, told, [])


def time_saves(root: Path, saves: int) -> Saves:
    """Start a server on the tree, then save random files: an edit, its undoing, and so on."""
    root = root.resolve()
    chance = random.Random(SEED)
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    began = time.perf_counter()
    with Editor.opened(root) as editor:
        editor.news()
        result = Saves(len(paths), time.perf_counter() - began, [], [])
        while len(result.marked) < saves:
            path = chance.choice(paths)
            data = (root / path).read_bytes()
            before = extract(path, data)
            changed = None
            if before.error is None:

                def differs(content: bytes, path: str = path, old: object = before.facts) -> bool:
                    said = extract(path, content)
                    return said.error is None and said.facts != old

                changed = edited(path, data, chance, differs)
            if changed is None:
                continue
            for content in (changed + _IDLE, data):
                saved = editor.save(path, content)
                if saved.marked is not None:
                    result.marked.append(saved.marked)
                    result.told.append(saved.told)
    return result


def show_saves(found: Saves) -> list[str]:
    """The table."""
    marked = [quantile(found.marked, q) for q in (0.5, 0.99)]
    worst = max(found.marked)
    judged = marked[1] if marked[1] is not None else worst
    row = [
        f"{found.files:,}",
        seconds(found.load_seconds),
        str(len(found.marked)),
        *map(seconds, marked),
        seconds(worst),
        *(seconds(quantile(found.told, q)) for q in (0.5, 0.99)),
        "reached" if judged <= GOAL else "**not reached**",
    ]
    head = ["files", "start to marks", "saves", "p50", "p99", "slowest"]
    head += ["all files' marks, p50", "p99", "goal"]
    what = (
        "`deltafix lsp`, a process of its own: from the client's `didSave` to the file's "
        f"`publishDiagnostics` on the pipe. The goal is {GOAL * 1e3:.0f} ms once warm."
    )
    return [what, "", table(head, [row])]
