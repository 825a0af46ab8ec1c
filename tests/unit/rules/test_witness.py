"""Witnesses of `min` and `max` against the same rule with its join written out, and the oracle."""

from __future__ import annotations

from random import Random

import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.datalog.program import Program

PRICE = (
    ".decl price(s: symbol, k: number, x: number)\n.input price\n.decl best(s: symbol, p: number)\n"
)
PAIRS = {
    "all witnesses": (
        "best(s, p) :- p = min x : { price(s, _, x) }.",
        "best(s, p) :- p = min x : { price(_, _, x) }, price(s, _, p).",
    ),
    "a target that is a term": (
        "best(s, p) :- p = max x * 2 - k : { price(s, k, x), x > 1 }.",
        "best(s, p) :- p = max x * 2 - k : { price(_, k, x), x > 1 }, price(s, j, y), y > 1,"
        " p = y * 2 - j.",
    ),
    "one variable is the rule's own": (
        "best(s, p + k) :- price(_, k, _), p = min x : { price(s, k, x) }.",
        "best(s, p + k) :- price(_, k, _), p = min x : { price(_, k, x) }, price(s, k, p).",
    ),
    "a disjunction": (
        "best(s, p) :- p = max x : { price(s, 1, x) ; price(s, 2, x) }.",
        "best(s, p) :- p = max x : { price(_, 1, x) ; price(_, 2, x) },"
        " (price(s, 1, p) ; price(s, 2, p)).",
    ),
    "two aggregates": (
        "best(s, p) :- p = min x : { price(s, _, x) }, q = max x : { price(t, _, x) }, s != t,"
        " p < q.",
        "best(s, p) :- p = min x : { price(_, _, x) }, price(s, _, p),"
        " q = max x : { price(_, _, x) }, price(t, _, q), s != t, p < q.",
    ),
    "one witness of two aggregates": (
        "best(s, p + q) :- p = min x : { price(s, 1, x) }, q = max x : { price(s, _, x) }.",
        "best(s, p + q) :- p = min x : { price(_, 1, x) }, q = max x : { price(_, _, x) },"
        " price(s, 1, p), price(s, _, q).",
    ),
    "an aggregate that compares with the value of another": (
        "best(s, q) :- q = min x : { price(s, k, x), x > p }, k > 0,"
        " p = min x : { price(s, k, x) }.",
        "best(s, q) :- p = min x : { price(_, _, x) }, q = min x : { price(_, _, x), x > p },"
        " price(s, k, p), price(s, k, q), k > 0.",
    ),
    "a witness in an aggregate that has none": (
        "best(s, p + n) :- p = min x : { price(s, _, x) }, n = count : { price(s, _, _) }.",
        "best(s, p + n) :- p = min x : { price(_, _, x) }, price(s, _, p),"
        " n = count : { price(s, _, _) }.",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_witness_is_each_place_where_the_value_is_found(name: str) -> None:
    short, long = (deltafix.connect(PRICE + rule) for rule in PAIRS[name])
    rng = Random(name)
    rows: set[tuple] = set()
    shown = 0
    with short, long:
        for _ in range(40):
            row = (rng.choice("abc"), rng.randrange(3), rng.randrange(5))
            for db in (short, long):
                with db.transaction() as tx:
                    (tx.delete if row in rows else tx.insert)("price", [row])
            rows ^= {row}
            assert short.rows("best") == long.rows("best")
            assert set(short.rows("best")) == evaluate(short.program, {"price": rows})["best"]
            shown += short.count("best")
    assert shown > 10


def test_a_witness_is_no_variable_used_once() -> None:
    program = Program.parse(PRICE + "best(s, p) :- p = min x : { price(s, _, x) }.")
    assert not program.warnings


@pytest.mark.parametrize("op", ["sum", "count"])
def test_only_min_and_max_have_witnesses(op: str) -> None:
    target = "" if op == "count" else " x"
    with pytest.raises(deltafix.errors.ProgramError, match="DF130"):
        deltafix.connect(PRICE + f"best(s, p) :- p = {op}{target} : {{ price(s, _, x) }}.")
