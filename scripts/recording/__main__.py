"""A short session of the installed `deltafix` as a picture that moves: docs/images/session.svg.

    python scripts/recording            play SESSION in a terminal of its own, and draw it again

Invariant: what stands below a command is what a terminal received when that command ran, byte for
byte but for tabs and for progress. The clock is the script's own (letters typed, pauses to read),
so that the same output always gives the same file, and a test plays the session and compares. Drawn
here because no kept tool turns a terminal into a picture without a browser, and because nothing
that moves is needed to see it all: without animations, or when they are over, every line stands
there.
"""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
PICTURE: Final = HERE.parents[1] / "docs" / "images" / "session.svg"
COLUMNS: Final = 90
SESSION: Final = (
    "cat teams.sql",
    "deltafix sql --state db teams.sql",
    "deltafix sql --state db -c \"EXPLAIN WHY SELECT * FROM may_read WHERE name = 'ada'\"",
    "# tools leaves staff; compilers and tools hold only each other up",
    "deltafix sql --state db -c \"DELETE FROM member WHERE name = 'tools' AND team = 'staff'\"",
)
"""The commands, one after another in one folder; a comment is typed, and nothing happens."""

_TITLE: Final = (
    "A terminal: a recursive view in SQL, its rows, why Ada may read the roadmap, and a membership "
    "that goes, with the three rows that rested on it"
)
_LETTER: Final = 0.04  # seconds to type one
_PAUSE: Final = 1.0  # before a command is typed
_READING: Final = 0.35  # a line of output, before the next command
_SIZE, _WIDE, _HIGH, _EDGE = 13, 7.9, 18, 16
_COLOURS: Final = {"+": "#4ade80", "-": "#f87171"}


class Step(NamedTuple):
    """A command, and the lines that it showed."""

    command: str
    shown: list[str]


def played() -> list[Step]:
    """Run the session in a scratch folder. Raises RuntimeError for a command that fails."""
    with tempfile.TemporaryDirectory() as folder:
        _shown('deltafix sql -c "SELECT 1"', Path(folder))  # compiles the kernel, if nobody has
        shutil.copy(HERE / "teams.sql", folder)
        return [Step(command, _shown(command, Path(folder))) for command in SESSION]


def _shown(command: str, folder: Path) -> list[str]:
    words = shlex.split(command, comments=True)
    if not words:
        return []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [shutil.which(words[0], path=path) or words[0], *words[1:]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,  # progress, which a busy machine shows and an idle one does not
    )
    os.close(theirs)
    received = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that nobody writes any more
            part = b""
        if not part:
            break
        received += part
    os.close(ours)
    text, said = received.decode(), process.communicate()[1].decode()
    if process.returncode:
        raise RuntimeError(f"`{command}` failed:\n{text}{said}")
    return [line.expandtabs(8) for line in text.replace("\r\n", "\n").splitlines()]


def drawn(steps: list[Step]) -> tuple[str, float]:
    """The picture, and the seconds until it rests.

    Raises RuntimeError for a line that is too long, or has escape sequences, which nothing here
    draws.
    """
    body: list[str] = []
    clock, row = 0.0, 0
    for number, (command, shown) in enumerate(steps):
        row += 1
        if number == 0:  # there from the first picture on
            body.append(_line(row, f"$ {command}", 0.0, "#f1f5f9"))
        else:
            clock += _PAUSE
            typed = len(command) * _LETTER
            body.append(_line(row, f"$ {command}", clock, _ink(command, "#f1f5f9")))
            body.append(_cover(row, len(command), clock, typed))
            clock += typed + _LETTER
        for line in shown:
            row += 1
            if not line.isprintable() or len(line) > COLUMNS:
                raise RuntimeError(f"`{command}` shows a line that is not drawn here: {line!r}")
            if line:
                body.append(_line(row, line, clock, _COLOURS.get(line[0], "#cbd5e1")))
        clock += _READING * len(shown)
    wide, high = round(COLUMNS * _WIDE + 2 * _EDGE), row * _HIGH + 2 * _EDGE
    head = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" \
role="img" aria-labelledby="title" font-family="ui-monospace, Menlo, Consolas, monospace" \
font-size="{_SIZE}">
  <title id="title">{escape(_TITLE)}</title>
  <style>
    text {{ white-space: pre; animation: wait var(--at, 0s); }}
    .cover {{ opacity: 0; animation: type var(--for) steps(var(--letters)) var(--at); }}
    @keyframes wait {{ from, to {{ visibility: hidden; }} }}
    @keyframes type {{
      from {{ opacity: 1; transform: none; }}
      to {{ opacity: 1; transform: translateX(var(--wide)); }}
    }}
    @media (prefers-reduced-motion: reduce) {{ text, .cover {{ animation: none; }} }}
  </style>
  <rect x="0.5" y="0.5" width="{wide - 1}" height="{high - 1}" rx="10" fill="#0f172a" \
stroke="#475569"/>
  <clipPath id="inside"><rect x="2" width="{wide - 4}" height="{high}"/></clipPath>
  <g clip-path="url(#inside)">"""
    return "\n".join([head, *body, "  </g>", "</svg>", ""]), clock


def _ink(command: str, otherwise: str) -> str:
    return "#94a3b8" if command.startswith("#") else otherwise


def _line(row: int, text: str, at: float, ink: str) -> str:
    when = f' style="--at: {at:.2f}s"' if at else ""
    y = _EDGE + row * _HIGH - 5
    return (
        f'  <text x="{_EDGE}" y="{y}" fill="{ink}" textLength="{len(text) * _WIDE:.1f}" '
        f'xml:space="preserve"{when}>{escape(text, quote=False)}</text>'
    )


def _cover(row: int, letters: int, at: float, seconds: float) -> str:
    """What hides the letters that are not typed yet, with the cursor at its left edge."""
    x, y, wide = _EDGE + 2 * _WIDE, _EDGE + (row - 1) * _HIGH, letters * _WIDE
    return (
        f'  <g class="cover" style="--at: {at:.2f}s; --for: {seconds:.2f}s; '
        f'--letters: {letters}; --wide: {wide:.1f}px">'
        f'<rect x="{x:.1f}" y="{y}" width="{wide + 4:.1f}" height="{_HIGH}" fill="#0f172a"/>'
        f'<rect x="{x:.1f}" y="{y + 2}" width="{_WIDE}" height="{_HIGH - 4}" fill="#94a3b8"/></g>'
    )


if __name__ == "__main__":
    picture, seconds = drawn(played())
    PICTURE.write_text(picture, encoding="utf-8")
    print(f"{PICTURE}: {len(picture):,} bytes, {seconds:.0f} seconds")
