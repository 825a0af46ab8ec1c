"""oracle_*: numbers of every type, on the values where arithmetic and order have their corners.

NaN, infinities, both zeros, subnormals, neighbours of 2^53, 2^62 and the ends of each type.

Sees: aggregates that remember what has left, a bulk way that differs from that of single rows, an
answer that depends on the order in which rows came, a comparison that differs between the ways to
evaluate it, two rows at one key, state that survives a rollback.
"""

from __future__ import annotations

from contextlib import nullcontext
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generators.random_rules import CORNERS
from tests.judges.oracle import evaluate
from tests.judges.oracle_values import mean, order, total, wrap

import deltafix
from deltafix.engine.run import STRATEGIES
from deltafix.errors import FunctorError
from deltafix.kernel.jit import JIT_DISABLED

KINDS = ["number", "unsigned", "float"]
EPOCHS = 6


def value(rng: Random, kind: str) -> object:
    small = rng.randrange(4)
    return rng.choice([*CORNERS[kind], float(small) if kind == "float" else small])


AGGREGATES = """
.decl r(id: number, k: number, v: KIND)
.input r
.decl all(k: number, n: number, s: KIND, lo: KIND, hi: KIND, m: float)
all(k, n, s, lo, hi, m) :- r(_, k, _), n = count : { r(_, k, _) }, s = sum v : { r(_, k, v) },
    lo = min v : { r(_, k, v) }, hi = max v : { r(_, k, v) }, m = mean v : { r(_, k, v) }.
.functor refuse(epoch: number): number
.decl refused(epoch: number)
.input refused
.decl above(epoch: number)
above(@refuse(e)) :- all(_, _, _, _, _, _), refused(e).
"""


def refuse(epoch: int) -> int:
    """Ends an epoch when its aggregates have run."""
    raise ValueError(epoch)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2 if JIT_DISABLED else 15)
@given(seed=st.integers(0, 2**32))
def test_oracle_aggregates_of_few_and_many_rows(kind: str, seed: int) -> None:
    rng = Random(seed)
    rows: set[tuple] = set()
    count = 0
    program = AGGREGATES.replace("KIND", kind)
    with deltafix.connect(program, functors={"refuse": refuse}) as db:
        for epoch in range(EPOCHS):
            # Around the size from which rows are folded in bulk, in one group or several.
            many, groups = rng.choice([0, 1, 3, 47, 49, 60]), rng.choice([1, 2])
            pool = [value(rng, kind) for _ in range(rng.choice([1, 2, 5]))]
            came = {(count + n, rng.randrange(groups), rng.choice(pool)) for n in range(many)}
            count += many
            fewer = rng.choice([0, 1, 2, len(rows) // 2, len(rows) - 1, len(rows)])
            listed = sorted(rows, key=lambda row: row[0])
            gone = set(rng.sample(listed, min(max(fewer, 0), len(rows))))
            kept = rng.random() < 0.7
            with nullcontext() if kept else pytest.raises(FunctorError), db.transaction() as tx:
                tx.insert("r", came)
                tx.delete("r", gone)
                if not kept:
                    tx.insert("r", [(-1, 0, pool[0])])
                    tx.insert("refused", [(epoch,)])
            rows = (rows - gone) | came if kept else rows
            db.check_invariants()
            expected = set()
            for k in {row[1] for row in rows}:
                values = [v for _, one, v in rows if one == k]
                ends = (min(values, key=order), max(values, key=order))
                sums = (total(values, kind), *ends, mean(values, len(values)))
                expected.add((k, len(values), *sums))
            assert set(db.rows("all")) == expected


ORDER = """
.decl v(x: KIND)
.input v
.decl pair(x: KIND, y: KIND, op: symbol)
pair(x, y, "<") :- v(x), v(y), x < y.
pair(x, y, "<=") :- v(x), v(y), x <= y.
pair(x, y, ">") :- v(x), v(y), x > y.
pair(x, y, ">=") :- v(x), v(y), x >= y.
pair(x, y, "=") :- v(x), v(y), x = y.
pair(x, y, "!=") :- v(x), v(y), x != y.
.decl ends(x: KIND, y: KIND, lo: KIND, hi: KIND)
ends(x, y, min(x, y), max(x, y)) :- v(x), v(y).
.decl least(k: number, x: KIND <min>)
least(1, x) :- v(x).
.decl greatest(k: number, x: KIND <max>)
greatest(1, x) :- v(x).
.decl both(k: number, x: KIND <min>, y: KIND <max>)
both(1, x, x) :- v(x).
.decl one(k: number, x: KIND) choice-domain k
one(1, x) :- v(x).
.decl top(k: number, x: KIND)
top(1, x) :- v(x).
top(k, x) <= top(k, y) :- x < y.
.decl chain(x: KIND, y: KIND <min>)
chain(x, x) :- v(x).
chain(x, y) :- chain(_, y), v(x).
.decl climb(x: KIND, y: KIND <max>)
climb(x, x) :- v(x).
climb(x, min(y, z)) :- climb(_, y), v(x), v(z).
.decl apart(x: KIND, lo: KIND <min>, hi: KIND <max>)
apart(x, x, x) :- v(x).
apart(x, y, z) :- apart(_, y, z), v(x).
"""


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2 if JIT_DISABLED else 8)
@given(seed=st.integers(0, 2**32))
def test_oracle_one_order_of_numbers_everywhere(kind: str, seed: int) -> None:
    rng = Random(seed)
    program = deltafix.Program.parse(ORDER.replace("KIND", kind))
    names = [relation.name for relation in program.relations]
    script = [
        [(rng.choice("+-"), "v", (value(rng, kind),)) for _ in range(rng.choice([1, 1, 3]))]
        for _ in range(EPOCHS)
    ]
    held: set[tuple] = set()
    with deltafix.connect(program, strategy=rng.choice(list(STRATEGIES))) as db:
        for epoch in script:
            with db.transaction(missing="ignore") as tx:
                for sign, name, row in epoch:
                    (tx.insert if sign == "+" else tx.delete)(name, [row])
                    kept = tuple(map(plain, row))
                    held = held | {kept} if sign == "+" else held - {kept}
            db.check_invariants()
            expected = evaluate(program, {"v": held})
            for name in names:
                assert set(db.rows(name)) == expected[name], name
            assert db.rows("v") == sorted(held, key=lambda row: order(row[0]))
            for row in held:
                assert db.select("v", row) == [row]
                assert db.query("v(x)") == db.rows("v")


def plain(x: object) -> object:
    """A value as columns hold it: one zero, one NaN."""
    return wrap(x, "float") if isinstance(x, float) else x


@pytest.mark.parametrize("edge", [-(2**31), 2**30, 2**63 - 1, -(2**63)])
def test_a_number_that_is_computed_meets_the_same_one_given(edge: int) -> None:
    """Beside each edge between the ways in which the engine writes numbers."""
    text = """
    .decl i(x: number)
    .input i
    .decl o(x: number)
    o(x - 1) :- i(x).
    o(x + 1) :- i(x).
    .decl both(x: number)
    both(x) :- o(x), i(x).
    .decl named(x: number)
    named(x) :- i(x), x = EDGE.
    """.replace("EDGE", str(edge))
    rows = {(wrap(edge + step, "number"),) for step in (-1, 0, 1)}
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("i", rows)
        assert set(db.rows("both")) == rows
        assert db.rows("named") == db.select("i", (edge,)) == [(edge,)]


FIXED = """
.decl v(x: float)
.input v
.decl to(x: float, y: KIND, s: symbol)
to(x, y, s) :- v(x), y = to_KIND(x), s = to_string(y).
.decl step(x: float, y: float, z: float)
step(x, y, z) :- v(x), v(y), z = range(x, y, 1e308).
.decl rest(x: float, y: float, z: float, w: float)
rest(x, y, x / y, x ^ y) :- v(x), v(y).
.decl sums(x: float, y: float, z: float, w: float)
sums(x, y, x + y, x * y) :- v(x), v(y).
"""


@pytest.mark.parametrize("kind", ["number", "unsigned"])
def test_oracle_what_floats_are_turned_into(kind: str) -> None:
    program = deltafix.Program.parse(FIXED.replace("KIND", kind))
    pool = {(plain(x),) for x in CORNERS["float"]} | {(2.5,), (1e19,), (-(2.0**63),)}
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            tx.insert("v", pool)
        expected = evaluate(program, {"v": pool})
        for name in expected:
            assert set(db.rows(name)) == expected[name], name
