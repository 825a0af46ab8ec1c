"""What goes to standard error beside a result."""

from __future__ import annotations

import io
import threading

import pytest

from deltafix.cli import console
from deltafix.kernel import native


def test_the_first_run_says_that_it_compiles_and_quiet_silences_it(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(native, "is_ready", lambda: False)
    monkeypatch.setattr(native, "prepare", lambda step, *, quiet: asked.append(quiet) or step(1, 2))
    console.prepare_kernel(quiet=True)
    assert capsys.readouterr() == ("", "")
    console.prepare_kernel()
    told = capsys.readouterr()
    assert told.out == ""
    assert "compiling the kernel" in told.err
    assert asked == [True, True]


def test_a_warm_kernel_is_not_worth_a_word(monkeypatch, capsys):
    monkeypatch.setattr(native, "is_ready", lambda: True)
    console.prepare_kernel()
    assert capsys.readouterr() == ("", "")


def test_progress_appears_on_terminals_only(capsys, monkeypatch):
    monkeypatch.setattr(console, "AFTER", 0.0)
    with console.progress("working"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("term", [None, "xterm", "dumb", "unknown"])
@pytest.mark.parametrize("quiet", [False, True])
def test_every_terminal_is_told_what_goes_on(monkeypatch, quiet, term):
    came = threading.Event()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            written = super().write(text)
            if "working" in self.getvalue():
                came.set()
            return written

    monkeypatch.setattr(console, "AFTER", 0.0)
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    written = Terminal()
    monkeypatch.setattr("sys.stderr", written)
    with console.progress("working", quiet=quiet):
        assert quiet or came.wait(30)
    text = written.getvalue()
    assert ("working" in text) is not quiet
    if term in ("dumb", "unknown"):
        assert text == ("" if quiet else "working\n")
