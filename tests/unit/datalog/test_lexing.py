from __future__ import annotations

import pytest

from deltafix.datalog.lexer import tokenize
from deltafix.datalog.source import Source, decode


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokenize(Source(text))[0]]


def values(text: str) -> list[object]:
    return [token.value for token in tokenize(Source(text))[0]]


def test_constants_have_their_values() -> None:
    assert values("12 0x1F 0b101 7u 0xFFu 1.5 2e3 127.0.0.1") == [
        12, 31, 5, 7, 255, 1.5, 2000.0, 0x7F000001,
    ]  # fmt: skip


def test_string_escapes_are_read() -> None:
    assert values(r'"a\"b\\c\n\t\r\a\b\f\v"') == ['a"b\\c\n\t\r\a\b\f\v']


def test_a_directive_is_one_token_and_a_dot_before_another_word_is_not() -> None:
    assert kinds(".decl .other") == [("directive", ".decl"), ("punct", "."), ("ident", "other")]


def test_a_dot_behind_a_number_ends_the_clause() -> None:
    assert kinds("1.") == [("number", "1"), ("punct", ".")]


def test_comments_vanish_unless_asked_for() -> None:
    text = "a // one\n/* two\n*/ b"
    assert kinds(text) == [("ident", "a"), ("ident", "b")]
    found = tokenize(Source(text), comments=True)[0]
    assert [token.text for token in found if token.kind == "comment"] == ["// one", "/* two\n*/"]


def test_a_hash_line_is_one_token_with_its_continuation() -> None:
    assert kinds("#define A \\\n 1\nb") == [("cpp", "#define A \\\n 1"), ("ident", "b")]


def test_places_count_lines_and_columns_from_one() -> None:
    token = tokenize(Source("a\n  bc"))[0][1]
    assert (token.span.line, token.span.column, token.span.start, token.span.end) == (2, 3, 4, 6)


@pytest.mark.parametrize("text", ['"open', "/* open", "'q'", "~", "12ab", "300.1.1.1", '"\\q"'])
def test_what_is_no_token_is_reported_and_passed(text: str) -> None:
    tokens, found = tokenize(Source(f"{text}\nlast"))
    assert [item.code for item in found] == ["DF102"]
    assert text == "/* open" or tokens[-1].text == "last"


def test_a_number_of_many_digits_is_refused_quickly() -> None:
    found = tokenize(Source("9" * 100_000))[1]
    assert [item.code for item in found] == ["DF102"]
    assert len(found[0].message) < 100


def test_bytes_that_are_not_utf_8_are_placed() -> None:
    source, found = decode(b"ab\n\xffc", "x.dl")
    assert source.text == "ab\n\ufffdc"
    assert [(item.code, item.span.line, item.span.column) for item in found if item.span] == [
        ("DF101", 2, 1)
    ]
