"""Errors of files with the line that they are about."""

from __future__ import annotations

import gzip

import pytest

from deltafix.errors import FactError, ProgramError, SourceError, TypeMismatchError
from deltafix.facts.carets import with_caret


def said(path, *, line, value, message="wrong"):
    error = TypeMismatchError(f"{path}:{line}: {message}", path=str(path), line=line, value=value)
    return with_caret(error)


@pytest.mark.parametrize(
    ("value", "column", "under"),
    [
        ("x", 5, "^"),  # not the one in `ax`
        ("1.5", 7, "^^^"),
        ("ax", 2, "^^"),
        ("b", 1, "^" * 13),  # it is there twice
        ("nothing", 1, "^" * 13),
        (["ax", "x"], 1, "^" * 13),
        ("", 1, "^" * 13),
    ],
)
def test_a_caret_stands_under_the_value_or_under_the_line(tmp_path, value, column, under):
    path = tmp_path / "r.facts"
    path.write_text("first\n\tax\tx\t1.5\tb,b\nlast")
    found = said(path, line=2, value=value).split("\n")
    assert found == [
        f"{path}:2:{column}: error[DF202]: wrong",
        "2 |  ax x 1.5 b,b",
        f"  | {' ' * (column - 1)}{under}",
    ]


def test_what_is_no_line_of_text_is_told_without_one(tmp_path):
    path = tmp_path / "r.facts"
    plain = f"error[DF202]: {path}:2: wrong"
    assert said(path, line=2, value="a") == plain  # it is gone
    path.write_text("a\n")
    assert said(path, line=2, value="a") == plain  # it is shorter now
    path.write_bytes(
        gzip.compress(b"a\nb\n", 0, mtime=0)
    )  # lines of a packed file are none of the text
    assert said(path, line=2, value="a") == plain
    path.write_bytes("a\nb\n".encode("utf-16"))
    assert said(path, line=2, value="a") == plain
    assert with_caret(SourceError("no")) == "error[DF300]: no"
    assert with_caret(FactError("no", line=2)) == "error[DF200]: no"
    assert with_caret(ProgramError("drawn", ["one"])) == "drawn"


def test_bytes_that_are_no_text_and_a_byte_order_mark_are_drawn(tmp_path):
    path = tmp_path / "r.facts"
    path.write_bytes(b"\xef\xbb\xbfab\n\xff\r\n")
    assert said(path, line=1, value="ab").split("\n")[1:] == ["1 | ab", "  | ^^"]
    assert said(path, line=2, value=255).split("\n")[1:] == ["2 | \ufffd", "  | ^"]
