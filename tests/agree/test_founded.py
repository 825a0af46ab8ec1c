"""agree_*: recursion through aggregates on data with and without cycles, against plain recursion.

Sees: a cycle that is not noticed, one that is none, a state that a refused epoch leaves changed, an
order of keys that decays over edits, groups that are computed twice, and doors that lead elsewhere.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.judges.oracle import evaluate
from tests.support.amount import cases

import deltafix
from deltafix.datalog.program import Program
from deltafix.engine.beyond.needs import Circle, Needs
from deltafix.errors import CyclicDataError, ProgramError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.rules.dsl import max_of, variables

EDITS = 40 if JIT_DISABLED else 250
SEEDS = cases(2, per=200)

PARTS = """
.decl uses(p: number, q: number, n: number)
.decl price(p: number, e: number)
.decl cost(p: number, e: number)
.decl height(p: number, h: number)
.decl below(p: number, n: number)
.input uses, price
.output cost, height, below
cost(p, e) :- price(p, e), !uses(p, _, _).
cost(p, c) :- uses(p, _, _), c = sum n * e : { uses(p, q, n), cost(q, e) }.
height(p, 0) :- price(p, _), !uses(p, _, _).
height(p, h + 1) :- uses(p, _, _), h = max d : { uses(p, q, _), height(q, d) }.
below(p, s) :- price(p, _), s = sum b + 1 : { uses(p, q, _), below(q, b) }.
"""


def solved(uses: set, price: set) -> dict[str, set]:
    """The rows of all relations, part by part; `uses` has no cycle."""
    of: dict[int, list] = {}
    for p, q, n in uses:
        of.setdefault(p, []).append((q, n))
    parts = {*of, *(q for _, q, _ in uses), *(p for p, _ in price)}
    cost: dict[int, set] = {}
    height: dict[int, int | None] = {}
    below: dict[int, int | None] = {}

    def visit(p: int) -> None:
        if p in cost:
            return
        for q, _ in of.get(p, ()):
            visit(q)
        if p in of:
            bindings = {(q, n, e) for q, n in of[p] for e in cost[q]}
            cost[p] = {sum(n * e for _, n, e in bindings)}
            heights = [height[q] for q, _ in of[p] if height[q] is not None]
            height[p] = max(heights) + 1 if heights else None
        else:
            cost[p] = {e for part, e in price if part == p}
            height[p] = 0 if cost[p] else None
        priced = any(part == p for part, _ in price)
        counted = {(q, n, below[q]) for q, n in of.get(p, ()) if below[q] is not None}
        below[p] = sum(b + 1 for _, _, b in counted) if priced else None

    for part in parts:
        visit(part)
    return {
        "cost": {(p, e) for p, found in cost.items() for e in found},
        "height": {(p, h) for p, h in height.items() if h is not None},
        "below": {(p, b) for p, b in below.items() if b is not None},
    }


def is_cyclic(uses: set) -> bool:
    """Whether a part uses itself: taking away parts that use nothing leaves some."""
    left = {(p, q) for p, q, _ in uses}
    while any(free := [(p, q) for p, q in left if all(q != one for one, _ in left)]):
        left.difference_update(free)
    return bool(left)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_data_with_a_cycle_are_refused_and_nothing_else_is(seed: int, tmp_path: Path) -> None:
    rng = Random(f"cycles {seed}")
    uses: set[tuple] = set()
    price = {(p, rng.randrange(1, 5)) for p in range(9) if rng.random() < 0.8}
    refused = kept = 0
    state = {"path": tmp_path / "state", "fsync": "never"} if seed % 2 else {}
    db = deltafix.connect(PARTS, **state)
    with db.transaction() as tx:
        tx.insert("price", sorted(price))
    for number in range(EDITS):
        after = set(uses)
        for _ in range(rng.choice((1, 1, 2, 6))):
            if after and rng.random() < 0.45:
                after.discard(rng.choice(sorted(after)))
            else:
                p, q = rng.randrange(9), rng.randrange(9)
                if p > q and rng.random() < 0.85:
                    p, q = q, p
                after.add((p, q, rng.randrange(1, 4)))
        try:
            with db.transaction() as tx:
                tx.insert("uses", sorted(after - uses))
                tx.delete("uses", sorted(uses - after))
        except CyclicDataError as error:
            assert is_cyclic(after), (uses, after)
            ways = {(p, q) for p, q, _ in after}
            rows = [row for _, row in error.cycle]
            assert {name for name, _ in error.cycle} <= {"cost", "height", "below"}
            assert rows[0] == rows[-1]
            pairs = pairwise(rows)
            assert all((one[0], two[0]) in ways for one, two in pairs)
            refused += 1
        else:
            assert not is_cyclic(after), (uses, after)
            uses = after
            kept += 1
        db.check_invariants()
        expected = solved(uses, price)
        assert {name: set(db.rows(name)) for name in expected} == expected
        if state and number % 20 == 19:
            db.close()
            db = deltafix.connect(PARTS, **state)
    assert refused > EDITS // 20
    assert kept > EDITS // 4
    db.close()


def test_a_refused_first_epoch_leaves_the_rows_to_be_mended() -> None:
    with deltafix.connect(PARTS) as db:
        with pytest.raises(CyclicDataError), db.transaction() as tx:
            tx.insert("uses", [(1, 2, 1), (2, 1, 1)])
        assert db.rows("uses") == []
        with db.transaction() as tx:
            tx.insert("uses", [(1, 2, 1)])
            tx.insert("price", [(2, 5)])
        assert db.rows("cost") == [(1, 5), (2, 5)]


def test_what_needs_itself_by_every_row_is_refused_with_the_first() -> None:
    text = ".decl e(x: number) .input e .decl a(x: number) .decl b(x: number) "
    with deltafix.connect(text + "a(n) :- e(n), 0 = count : { b(n) }. b(n) :- a(n).") as db:
        assert db.rows("a") == []
        with pytest.raises(CyclicDataError) as caught, db.transaction() as tx:
            tx.insert("e", [(7,)])
        assert "a(7) needs" in str(caught.value)
        assert db.rows("e") == []


def test_a_long_cycle_is_named_by_its_ends() -> None:
    with deltafix.connect(PARTS) as db:
        with db.transaction() as tx:
            tx.insert("uses", [(p, p + 1, 1) for p in range(100)])
        with pytest.raises(CyclicDataError) as caught, db.transaction() as tx:
            tx.insert("uses", [(100, 0, 1)])
        assert "… (90 more) …" in str(caught.value)
        assert len(caught.value.cycle) == 102
        assert len(str(caught.value)) < 800


def test_a_chain_is_computed_once_and_no_further_than_it_changes() -> None:
    size = 60 if JIT_DISABLED else 2_000
    with deltafix.connect(PARTS) as db:
        edges = [(p, p + 1, 1) for p in range(size)]
        Random(1).shuffle(edges)
        with db.transaction() as tx:
            tx.insert("price", [(p, 1) for p in range(size + 1)])
            tx.insert("uses", edges)
        assert db.last_epoch.touched < 40 * size
        assert dict(db.rows("below"))[0] == size
        with db.transaction() as tx:
            tx.insert("price", [(size, 7)])
        # Two prices of the last part: its parent's cost is their sum, and so on up.
        assert len(tx.delta["cost"].added) == size + 1
        assert db.last_epoch.touched < 8 * size
        with db.transaction() as tx:
            tx.insert("uses", [(size // 2, size, 1)])
        assert len(tx.delta["height"].added) == 0  # a second, shorter way down
        assert db.last_epoch.touched < 8 * size
        for p in range(0, size, max(1, size // 20)):
            with db.transaction() as tx:
                tx.insert("price", [(p, 9)])
            assert not tx.delta["cost"].added
            assert db.last_epoch.touched < 20


def test_a_ladder_has_more_ways_than_could_be_followed() -> None:
    size = 12 if JIT_DISABLED else 60
    with deltafix.connect(PARTS) as db:
        with db.transaction() as tx:
            tx.insert("price", [(2 * size, 1)])
            tx.insert("uses", [(2 * n, 2 * n + 1, 1) for n in range(size)])
            tx.insert("uses", [(2 * n, 2 * n + 2, 1) for n in range(size)])
            tx.insert("uses", [(2 * n + 1, 2 * n + 2, 1) for n in range(size)])
        work = db.last_epoch.derivations
        assert dict(db.rows("cost"))[0] == 2**size
        with db.transaction() as tx:
            tx.delete("price", [(2 * size, 1)])
            tx.insert("price", [(2 * size, 3)])
        assert dict(db.rows("cost"))[0] == 3 * 2**size
        assert db.last_epoch.derivations < work


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_needs_stay_in_order_whatever_comes_and_goes(seed: int) -> None:
    rng = Random(f"needs {seed}")
    needs = Needs()
    edges: dict[tuple[int, int], int] = {}
    cycles = undone = 0
    for _ in range(EDITS * 3):
        after = dict(edges)
        for _ in range(rng.choice((1, 1, 2, 5, 30 if len(edges) < 20 else 1))):
            edge = (rng.randrange(25), rng.randrange(25))
            if rng.random() < 0.8:
                edge = (max(edge), min(edge))
            sign = -1 if after.get(edge, 0) and rng.random() < 0.6 else 1
            after[edge] = after.get(edge, 0) + sign
            needs.count((0, (edge[0],)), (0, (edge[1],)), sign)
        after = {edge: count for edge, count in after.items() if count}
        cyclic = is_cyclic({(*edge, 1) for edge in after})
        try:
            needs.settle()
        except Circle as circle:
            assert cyclic
            rows = [node[1][0] for node in circle.nodes]
            assert rows[0] == rows[-1]
            assert all(pair in after for pair in pairwise(rows))
            needs.undo()
            cycles += 1
        else:
            assert not cyclic
            if rng.random() < 0.2:
                needs.undo()
                undone += 1
            else:
                needs.keep()
                edges = after
        found = {(one[1][0], two[1][0]): count for one, two, count in needs.edges()}
        assert found == edges
        places = needs.positions
        assert all(places[0, (two,)] < places[0, (one,)] for one, two in edges)
        assert {node[1][0] for node in places} == {node for edge in edges for node in edge}
    assert cycles > EDITS // 20
    assert undone > EDITS // 20


GUARDED = """
.decl uses(p: number, q: number)
.decl off(p: number)
.decl node(p: number)
.decl height(p: number, h: number)
.decl total(p: number, n: number)
.decl each(p: number, n: number)
.input uses, off, node
.output height, total, each
height(p, 0) :- node(p).
height(p, h + 1) :- node(p), p > 1, !off(p), h = max d : { uses(p, q), height(q, d) }.
each(p, n) :- uses(p, q), total(q, n).
total(p, n + 1) :- node(p), p > 1, !off(p), n = sum m : { each(p, m) }.
"""


@pytest.mark.parametrize("seed", range(2))
def test_oracle_a_group_that_no_rule_asks_for_may_need_itself(seed: int) -> None:
    rng, program = Random(f"guarded {seed}"), Program.parse(GUARDED)
    given: dict[str, set[tuple]] = {"uses": set(), "off": {(3,)}, "node": {(p,) for p in range(7)}}
    refused = looping = 0
    with deltafix.connect(program) as db:
        with db.transaction() as tx:
            for name, rows in given.items():
                tx.insert(name, sorted(rows))
        for _ in range(EDITS):
            name = rng.choice(("uses",) * 6 + ("off", "node"))
            row = tuple(rng.randrange(7) for _ in range(1 + (name == "uses")))
            after = {**given, name: given[name] ^ {row}}
            asked = {p for (p,) in after["node"] - after["off"] if p > 1}
            used = {(p, q, 1) for p, q in after["uses"] if p in asked}
            try:
                with db.transaction() as tx:
                    (tx.delete if row in given[name] else tx.insert)(name, [row])
            except CyclicDataError:
                assert is_cyclic(used), after
                refused += 1
            else:
                assert not is_cyclic(used), after
                given = after
                looping += is_cyclic({(*pair, 1) for pair in given["uses"]})
            db.check_invariants()
            expected = evaluate(program, given)
            for relation in ("height", "total", "each"):
                assert set(db.rows(relation)) == expected[relation]
    assert refused > EDITS // 40
    assert looping > EDITS // 4


LOWEST = ".decl l(x: number, v: number <min>) l(x, v) :- e(x, _), v = sum w : { e(x, y), l(y, w) }."
SAME = ".decl q(x: number, y: number) eqrel q(x, y) :- e(x, y), 0 = count : { q(y, x) }."


@pytest.mark.parametrize(
    ("rules", "through"),
    [
        ("a(n) :- n = count : { a(_) }.", "a -count-> a"),
        ("a(n) :- e(n, _), m = max x : { a(x) }, m > 3.", "a -max-> a"),
        (LOWEST, "l -sum-> l"),
        (SAME, "q -count-> q"),
    ],
)
def test_what_no_data_could_found_is_refused_with_the_way_round(rules: str, through: str) -> None:
    text = f".decl e(x: number, y: number) .input e .decl a(x: number) .decl b(x: number) {rules}"
    with pytest.raises(ProgramError) as caught:
        deltafix.connect(text)
    assert [found.code for found in caught.value.diagnostics] == ["DF140"]
    assert f" inside recursion: {through}\n" in str(caught.value)


def test_rules_in_python_and_their_plan_say_what_needs_what() -> None:
    n, c, h, d, _ = variables("n c h d _")
    with Program() as p:
        child = p.relation("child", n=int, c=int)
        height = p.relation("height", n=int, h=int)
        p.input(child)
        height(n, 0) <= child(_, n) & ~child(n, _)  # noqa: B015
        deeper = max_of(d, child(n, c) & height(c, d))
        height(n, h + 1) <= child(n, _) & (h == deeper)  # noqa: B015
    with deltafix.connect(p) as db:
        with db.transaction() as tx:
            tx.insert("child", [(1, 2), (2, 3), (1, 3)])
        assert db.rows("height") == [(1, 2), (2, 1), (3, 0)]
        assert "[n] needs height[c] :- child(n, c)." in db.plan.show()
        assert "max = 1" in str(db.why("height", (1, 2)))
