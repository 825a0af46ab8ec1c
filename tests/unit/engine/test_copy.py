"""Rows that go from one database to another: every kind of value, each entered once."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

import deltafix
from deltafix.errors import FactError, TransactionError, UnknownRelationError
from deltafix.facts.values import Branch

PROGRAM = """
.type Pair = [x: number, y: symbol]
.type Maybe = [x: float]
.type Tree = Leaf {n: unsigned} | Node {left: Tree, right: Tree}
.decl all(a: number, b: unsigned, c: float, d: symbol, e: Pair, f: Maybe, g: Tree)
.input all
.decl some(a: number, d: symbol)
.input some
some(a, d) :- all(a, _, _, d, _, _, _), a > 0.
"""


def _row(random: Random) -> tuple[Any, ...]:
    whole = random.choice((0, 1, -1, 1 << 30, (1 << 30) - 1, -(1 << 31), -(1 << 63), (1 << 63) - 1))
    number = random.choice((0.0, -0.0, 1.5, math.inf, -math.inf, math.nan))
    text = random.choice(("", "a", "é", "nil", "a longer one"))
    tree = Branch("Leaf", (random.choice((0, 7, (1 << 64) - 1)),))
    if random.random() < 0.5:
        tree = Branch("Node", (tree, Branch("Leaf", (3,))))
    pair = random.choice((None, (whole, text)))
    maybe = random.choice((None, (number,)))
    return whole, random.choice((0, 5, (1 << 64) - 1)), number, text, pair, maybe, tree


def _spelled(rows: list[Any]) -> list[str]:
    return [repr(row) for row in rows]


@pytest.mark.parametrize("count", [0, 3, 300])
def test_rows_of_every_kind_are_the_same_in_the_other_database(count: int) -> None:
    random = Random(count)
    with deltafix.connect(PROGRAM) as one, deltafix.connect(PROGRAM) as other:
        with one.transaction() as tx:
            tx.insert("all", [_row(random) for _ in range(count)])
            tx.insert("some", [(-5, "given")])
        with other.transaction() as tx:  # codes are others here
            tx.insert("all", [_row(random) for _ in range(5)])
        with other.transaction() as tx:
            tx.delete("all", other.rows("all"))
        with other.transaction() as tx:
            assert tx.copy("all", one) == one.count("all")
            assert tx.copy("all", one) == 0
        other.check_invariants()
        assert _spelled(other.rows("all")) == _spelled(one.rows("all"))
        assert set(other.rows("some")) == set(one.rows("some")) - {(-5, "given")}
        with other.transaction() as tx:
            assert tx.copy("some", one, given=True) == 1
        assert other.rows("some") == one.rows("some")
        with other.transaction() as tx:
            tx.copy("some", one)
            tx.delete("all", other.rows("all"))
        assert other.rows("some") == one.rows("some")  # what was derived there is given here


def test_only_values_that_are_used_are_entered() -> None:
    with deltafix.connect(PROGRAM) as one, deltafix.connect(PROGRAM) as other:
        with one.transaction() as tx:
            tx.insert("some", [(n, f"s{n}") for n in range(-100, 0)])
        with one.transaction() as tx:
            tx.delete("some", [(n, f"s{n}") for n in range(-99, 0)])
        with other.transaction() as tx:
            tx.copy("some", one)
        assert list(other.instance.codes.symbols) == ["s-100"]


def test_what_cannot_be_copied_is_refused() -> None:
    text = ".decl all(a: number) .input all"
    with deltafix.connect(PROGRAM) as one, deltafix.connect(text) as other:
        tx = other.transaction()
        with pytest.raises(FactError, match=r"all\(a: number\) is all\(a: number, b: unsigned"):
            tx.copy("all", one)
        with pytest.raises(UnknownRelationError, match="some"):
            tx.copy("some", one)
        tx.rollback()
        with pytest.raises(TransactionError, match="rolled back already"):
            tx.copy("all", one)
