"""The type of a reducer says whether it is well-formed or partial: mypy is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TYPED = """
from typing import Any, assert_type

from deltafix.reactive import (
    Min, Partial, Sum, WellFormed, contramap, enriched, group_of, product, reducer, scaled, where
)

Whole = WellFormed[Any, Any, Any]
Part = Partial[Any, Any, Any]

one: Whole = product(Sum(), Min())
two: Whole = where(group_of(enriched(Sum(), str), len), bool)
three: Part = product(Sum(), Min(partial=True))
four: Part = scaled(contramap(Min(partial=True), len), len)
five: Whole = reducer(0, lambda a, v: a + v, lambda a, v: a - v)
assert_type(reducer(0, max, lambda a, v: None, partial=True), Partial[int, int, Any])

not_whole: Whole = product(Sum(), Min(partial=True))  # wrong
not_whole_either: Whole = enriched(Min(partial=True), str)  # wrong
"""


def test_composing_well_formed_reducers_is_well_formed_to_mypy_and_partial_ones_are_not(tmp_path):
    pytest.importorskip("mypy", reason="mypy is installed for `make lint`")
    snippet = tmp_path / "typed.py"
    snippet.write_text(TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(snippet)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    wrong = [number for number, line in enumerate(TYPED.splitlines(), 1) if "# wrong" in line]
    assert [int(line.split(":")[1]) for line in found] == wrong, done.stdout
    assert all('"Partial[Any, Any, Any]"' in line for line in found)
