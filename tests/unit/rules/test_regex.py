"""`match` reads ECMAScript's regular expressions, and refuses what is none."""

from __future__ import annotations

import sys
from random import Random

import pytest
from tests.judges.oracle_regex import Malformed, matches

from deltafix.errors import MissingDependencyError
from deltafix.rules.regex import RegexError, compile_regex

PIECES = [
    "a", "b", "A", "1", "_", "-", " ", "]", "}", "[", "(", ")", "|", "^", "$", ".", "*", "+", "?",
    "??", "{2}", "{1,2}", "{0,}", "{,2}", "{2,1}", "{", "(?:", "(?=", "(?!", "(?i)", "(?<=a)",
    "\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\b", "\\B", "\\.", "\\n", "\\x41", "\\u0061",
    "\\cJ", "\\0", "\\q", "\\_", "\\x4", "[a-c]", "[^a]", "[a-]", "[-a]", "[c-a]", "[]", "[^]",
    "[.]", "[\\d-a]", "[\\w-]", "[\\b]", "[a\\]]", "[[:digit:]]", "[[:alpha:][:space:]]",
    "[^[:punct:]]", "[[:word:]]", "[[.a.]]", "[[=b=]]", "[[.ab.]]", "&&", "--", "||", "~~",
]  # fmt: skip
TEXT = "abA1-]_. \n}q\0"


def ours(pattern: str, text: str) -> bool:
    return compile_regex(pattern).fullmatch(text) is not None


@pytest.mark.parametrize("seed", range(8))
def test_oracle_random_patterns(seed: int) -> None:
    rng = Random(f"regex {seed}")
    held = refused = 0
    for _ in range(400):
        pattern = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 5)))
        texts = ["".join(rng.choices(TEXT, k=rng.randint(0, 4))) for _ in range(6)]
        try:
            expected = [matches(pattern, text) for text in texts]
        except Malformed:
            refused += 1
            with pytest.raises(RegexError):
                compile_regex(pattern)
            continue
        assert [ours(pattern, text) for text in texts] == expected, (pattern, texts)
        held += sum(expected)
    assert held > 20
    assert refused > 50


def test_what_backtracking_never_ends_with_is_done_at_once() -> None:
    assert not ours("(a*)*(a|a)*b", "a" * 5_000)  # Python's `re` is not done with 30


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingDependencyError, match=r"deltafix\[regex\]"):
        compile_regex("without the library")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a)", "without an open"),
        ("(a", "never closed"),
        ("[a", "never closed"),
        ("a{", "no count"),
        ("*a", "repeats nothing"),
        ("(?i)a", "begins no group"),
        (r"(a)\1", "linear"),
        ("(?=a)", "linear"),
        ("(?<=a)", "linear"),
        ("[[:word:]]", "no class"),
        ("a\\", "lone backslash"),
        (r"\xg1", "hex digits"),
        ("a{99999999999}", "too large"),
        ("a{1001}", "1000 are the most"),
        ("((a{100}){100}){100}", "repetition size"),
        ("\ud800", "surrogate"),
        ("(" * 200 + ")" * 200, "nested"),
    ],
)
def test_what_is_no_pattern_says_why(pattern: str, why: str) -> None:
    with pytest.raises(RegexError, match=why):
        compile_regex(pattern)
