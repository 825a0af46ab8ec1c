"""agree_*: recursive `<min>` and `<max>` in the kernel against recomputation.

Sees: values that outlive what they rest on (a cycle cut off from its source), better values that
do not get through, rows left behind by a displaced one, work that grows with the graph.
"""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.datalog.program import Program
from deltafix.engine.run import STRATEGIES
from deltafix.kernel.jit import JIT_DISABLED

EDGE = ".decl edge(x: number, y: number, w: number)\n.input edge\n"
PROGRAMS = {
    "shortest": EDGE
    + """
    .decl dist(x: number, d: number <min>)
    .input dist
    dist(0, 0).
    dist(y, d + w) :- dist(x, d), edge(x, y, w).
    .decl near(x: number)
    near(x) :- dist(x, d), d < 4.
    """,
    "all pairs": EDGE
    + """
    .decl dist(x: number, y: number, d: number <min>)
    dist(x, y, w) :- edge(x, y, w).
    dist(x, z, a + b) :- dist(x, y, a), dist(y, z, b).
    """,
    "widest": EDGE
    + """
    .decl wide(x: number, d: number <max>)
    wide(0, 100).
    wide(y, min(d, w)) :- wide(x, d), edge(x, y, w).
    """,
    "reach and distance": EDGE
    + """
    .decl blocked(x: number)
    .input blocked
    .decl open(x: number)
    .decl dist(x: number, d: number <min>)
    open(0).
    open(y) :- dist(x, d), edge(x, y, w), d + w < 9, !blocked(y).
    dist(x, 0) :- open(x), edge(x, x, _).
    dist(0, 0).
    dist(y, d + w) :- open(y), dist(x, d), edge(x, y, w).
    """,
    "capped heights": EDGE
    + """
    .decl high(x: number, h: number <max>)
    high(x, 0) :- edge(x, _, _).
    high(x, min(h + w, 9)) :- high(y, h), edge(x, y, w).
    """,
    "two relations": EDGE
    + """
    .decl even(x: number, d: number <min>)
    .decl odd(x: number, d: number <min>)
    even(0, 0).
    odd(y, d + w) :- even(x, d), edge(x, y, w).
    even(y, d + w - 1) :- odd(x, d), edge(x, y, w), w > 0.
    """,
    "names": """
    .decl edge(x: number, y: number, w: number)
    .input edge
    .decl name(x: number, s: symbol)
    .input name
    .decl first(x: number, s: symbol <min>)
    first(x, s) :- name(x, s).
    first(y, s) :- first(x, s), edge(x, y, _).
    """,
}
ELSEWHERE = {"reach and distance", "capped heights"}
"""What the kernel cannot run: values that rest on worse ones which they replace."""
ROUNDS = 2 if JIT_DISABLED else 6


def random_row(rng: Random, name: str) -> tuple:
    if name == "edge":
        return rng.randrange(6), rng.randrange(6), rng.choice([0, 1, 1, 2, 5])
    if name == "dist":
        return rng.randrange(6), rng.randrange(3, 9)
    if name == "name":
        return rng.randrange(6), rng.choice("abcde")
    return (rng.randrange(6),)


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("strategy", [*STRATEGIES, "auto"])
def test_agree_best_rows_follow_edits(kind: str, strategy: str) -> None:
    program = Program.parse(PROGRAMS[kind])
    inputs = program.names("input")
    for seed in range(ROUNDS):
        rng = Random(f"{kind} {seed}")
        facts: dict[str, set[tuple]] = {name: set() for name in inputs}
        with deltafix.connect(program, strategy=strategy) as db:
            by_kernel = all(stage.outside is None for stage in db.plan.stages)
            assert by_kernel == (kind not in ELSEWHERE)
            for epoch in range(12):
                with db.transaction() as tx:
                    for _ in range(14 if epoch == 0 else rng.choice([1, 1, 2, 4])):
                        name = rng.choice([*inputs, "edge"])
                        row = random_row(rng, name)
                        if facts[name] and rng.random() < 0.5 and epoch:
                            row = rng.choice(sorted(facts[name]))
                        if row in facts[name]:
                            facts[name].remove(row)
                            tx.delete(name, [row])
                        else:
                            facts[name].add(row)
                            tx.insert(name, [row])
                db.check_invariants()
                expected = evaluate(program, facts)
                for name in db.schemas:
                    assert set(db.rows(name)) == expected[name], (seed, epoch, name)


@pytest.mark.skipif(JIT_DISABLED, reason="729 graphs take minutes as plain Python")
def test_agree_every_small_graph_under_every_edit() -> None:
    program = Program.parse(PROGRAMS["shortest"].replace("    .input dist\n", ""))
    pairs = [(x, y) for x, y in product(range(3), range(3)) if x != y]
    with deltafix.connect(program) as db:
        present: set[tuple] = set()
        for weights in product((None, 0, 2), repeat=len(pairs)):
            wanted = {(*p, w) for p, w in zip(pairs, weights, strict=True) if w is not None}
            with db.transaction() as tx:
                tx.delete("edge", sorted(present - wanted))
                tx.insert("edge", sorted(wanted - present))
            present = wanted
            assert set(db.rows("dist")) == evaluate(program, {"edge": present})["dist"]
            for row in sorted(wanted):
                with db.transaction() as tx:
                    tx.delete("edge", [row])
                left = evaluate(program, {"edge": present - {row}})["dist"]
                assert set(db.rows("dist")) == left
                with db.transaction() as tx:
                    tx.insert("edge", [row])


def test_an_edit_far_from_the_source_touches_little() -> None:
    length = 50 if JIT_DISABLED else 20_000
    with deltafix.connect(PROGRAMS["shortest"]) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(n, n + 1, 1) for n in range(length)])
        assert db.count("dist") == length + 1
        with db.transaction() as tx:
            tx.delete("edge", [(length - 3, length - 2, 1)])
        assert len(tx.delta["dist"].removed) == 3
        assert db.last_epoch.derivations < 30
        with db.transaction() as tx:
            tx.insert("edge", [(length - 4, length - 2, 7)])
        assert sorted(tx.delta["dist"].added) == [
            (length - 2, length + 3), (length - 1, length + 4), (length, length + 5)
        ]  # fmt: skip
        assert db.last_epoch.derivations < 30
