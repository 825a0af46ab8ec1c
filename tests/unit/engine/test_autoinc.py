"""`autoinc()` against its rules without it: one number for each binding, kept under edits."""

from __future__ import annotations

from random import Random

import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.engine.run import STRATEGIES

PROGRAM = """
.decl e(x: number, y: symbol)
.decl f(x: number, v: float)
.input e
.input f
.decl plain(n: number, x: number, y: symbol)
.decl joined(n: number, x: number, y: symbol, v: float)
.decl two(n: number, m: number, x: number)
.decl either(n: number, x: number)
.decl ranged(n: number, x: number, i: number)
.decl reached(x: number)
.decl counted(x: number, c: number)
plain(autoinc(), x, y) :- e(x, y).
joined(n, x, y, v) :- e(x, y), f(x, v), n = autoinc(), m = n + 1, m > n.
two(autoinc(), autoinc(), x) :- e(x, _).
either(autoinc(), x) :- e(x, _) ; f(x, _).
ranged(autoinc(), x, i) :- e(x, "a"), i = range(0, 3).
plain(autoinc(), -1, "text").
reached(x) :- two(_, _, x), !plain(_, x, "b").
counted(x, c) :- f(x, _), c = count : { plain(_, x, _) }.
"""
PLAIN = PROGRAM.replace("autoinc()", "0")
NUMBERED = {"plain": 1, "joined": 1, "two": 2, "either": 1, "ranged": 1}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_oracle_numbers_are_of_one_binding_each_and_stay(strategy: str) -> None:
    rng = Random(f"autoinc {strategy}")
    judge = deltafix.Program.parse(PLAIN)
    facts: dict[str, set[tuple]] = {"e": set(), "f": set()}
    known: dict[tuple, set[tuple]] = {}
    with deltafix.connect(PROGRAM, strategy=strategy) as db:
        for _ in range(25):
            with db.transaction() as tx:
                for _ in range(rng.choice([1, 1, 3])):
                    name = rng.choice(["e", "f"])
                    row = (
                        rng.randrange(4),
                        rng.choice("ab") if name == "e" else rng.random() // 0.3,
                    )
                    (tx.delete if row in facts[name] else tx.insert)(name, [row])
                    facts[name] ^= {row}
            db.check_invariants()
            expected = evaluate(judge, facts)
            given: list[int] = []
            for name in db.schemas:
                wide = NUMBERED.get(name, 0)
                rows = db.rows(name)
                assert {(0,) * wide + row[wide:] for row in rows} == expected[name], name
                given += [number for row in rows for number in row[:wide]]
                for row in rows if wide else ():
                    known.setdefault((name, row[wide:]), set()).add(row[:wide])
            assert len(given) == len(set(given))
    # A row of `either` may come by either side, each with its number; any other has one.
    assert {len(numbers) for (name, _), numbers in known.items() if name != "either"} == {1}
    assert {len(numbers) for (name, _), numbers in known.items() if name == "either"} <= {1, 2}


def test_a_proof_shows_the_number() -> None:
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            tx.insert("e", [(7, "b")])
        number = next(row[0] for row in db.rows("plain") if row[1] == 7)
        proof = str(db.why(f'plain({number}, 7, "b")'))
        assert 'e(7, "b")' in proof
        assert f"= {number}" in proof
        assert not db.query(f'plain({number + 1}, 7, "b")')
