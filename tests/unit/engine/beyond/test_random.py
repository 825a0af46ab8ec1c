"""Programs of every kind under random edits, against iteration from nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from tests.judges.beyond_oracle import arguments, body
from tests.unit.engine.beyond.driver import Driver

from deltafix.engine.beyond.epoch import Epoch
from deltafix.engine.beyond.facts import Fact
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.plan.clause import Choice, Dominance, Lattice, LatticeColumn, Merge, Subsumption

RUNS = 3 if JIT_DISABLED else 10


def lattice(join: str, column: int, least: int | None = None) -> Lattice:
    return Lattice((LatticeColumn(column, join, least),))


def order(less: str, more: str, condition: str) -> Dominance:
    return Dominance(arguments(less), arguments(more), body(condition), 0)


def flat(a: int, b: int) -> int:
    """The flat lattice of numbers: equal or -1 (any)."""
    return a if a == b else -1


def flat_plus(a: int, b: int) -> int:
    return -1 if a == -1 or b == -1 else (a + b) % 5


FUNCTORS = {"@flat": flat, "@plus": flat_plus, "@or": lambda a, b: a | b}
NEAREST = Subsumption((order("x, d", "x, e", "e < d"),))

PROGRAMS: dict[str, tuple[str, dict[str, Merge], list[str]]] = {
    "treeP": (
        """
        tree(x) :- p(x), !~1(x).
        ~1(x) :- child(x, y), !tree(y).
        """,
        {},
        ["p", "p", "child", "child", "tree"],
    ),
    "two refuters": (
        """
        a(x) :- p(x), !~1(x).
        b(x) :- q(x, y), a(y).
        ~1(x) :- c(x, y), !a(y), !b(y).
        """,
        {},
        ["p", "p", "q", "c", "c"],
    ),
    "one row refutes twice": (
        """
        a(x) :- p(x), !~1(x).
        ~1(x) :- c(x, y, z), !a(y), !a(z).
        """,
        {},
        ["p", "p", "c", "c", "a"],
    ),
    "nested groups": (
        """
        a(x) :- p(x), !~1(x).
        ~1(x) :- c(x, y), !~2(y).
        ~2(y) :- d(y, z), a(z).
        ~2(y) :- e(y).
        a(x) :- a(y), d(y, x).
        """,
        {},
        ["p", "c", "d", "d", "e"],
    ),
    "two absences": (
        """
        a(x) :- e(x, y), !~1(x), !~1(y).
        ~1(x) :- c(x, y), !a(y), !l(x).
        l2(x) :- a(x), l(x).
        a(x) :- l2(y), e(y, x).
        """,
        {},
        ["e", "e", "c", "l"],
    ),
    "constants": (
        """
        a(0).
        a(1) :- !~1(1).
        a(2) :- !l(2).
        ~1(1) :- !a(2).
        ~1(x) :- c(x), !a(0).
        a(x) :- c(x), !~1(x).
        """,
        {},
        ["c", "l", "a"],
    ),
    "joins with itself": (
        """
        t(x, y) :- e(x, y).
        t(x, z) :- t(x, y), t(y, z), !~1(z).
        t(x, x) :- t(x, y), t(y, x), t(x, y).
        ~1(z) :- f(z, w), !t(z, w).
        """,
        {},
        ["e", "e", "f"],
    ),
    "shortest path": (
        """
        dist(x, d) :- root(x), d = 0 + 0.
        dist(y, e) :- dist(x, d), edge(x, y, w), e = d + w.
        """,
        {"dist": lattice("min", 1)},
        ["root", "edge", "edge", "edge", "dist"],
    ),
    "all pairs": (
        """
        far(x, y, w) :- edge(x, y, w).
        far(x, z, c) :- far(x, y, a), far(y, z, b), c = a + b.
        """,
        {"far": lattice("min", 2)},
        ["edge"],
    ),
    "widest path": (
        """
        wide(x, 9) :- root(x).
        wide(y, c) :- wide(x, d), edge(x, y, w), c = min(d, w).
        near(y) :- wide(y, d), d > 1.
        wide(x, 2) :- near(y), link(y, x).
        """,
        {"wide": lattice("max", 1)},
        ["root", "edge", "edge", "edge", "link"],
    ),
    "its own former value": (
        """
        v(x, d) :- start(x, d).
        v(x, e) :- v(x, d), step(x, s), f = d - s, e = max(f, 0).
        v(y, d) :- v(x, d), link(x, y).
        """,
        {"v": lattice("min", 1)},
        ["start", "step", "link", "link"],
    ),
    "constant propagation": (
        """
        v(x, c) :- set(x, c).
        v(y, c) :- move(x, y), v(x, c).
        v(z, c) :- add(x, y, z), v(x, a), v(y, b), c = @plus(a, b).
        """,
        {"v": lattice("@flat", 1)},
        ["set", "set", "move", "move", "add"],
    ),
    "sets as bits": (
        """
        v(x, c) :- set(x, c).
        v(y, c) :- move(x, y), v(x, c).
        s(x) :- v(x, 7).
        v(x, 3) :- s(y), move(y, x).
        """,
        {"v": lattice("@or", 1, 0)},
        ["set", "set", "move", "move"],
    ),
    "two joined columns": (
        """
        r(x, d, d) :- set(x, d).
        r(y, c, e) :- r(x, a, b), edge(x, y, w), f = a + w, c = min(f, 5), e = max(b, w).
        """,
        {"r": Lattice((LatticeColumn(1, "min"), LatticeColumn(2, "max")))},
        ["set", "edge", "edge"],
    ),
    "height": (
        """
        tall(n, 0) :- node(n).
        tall(n, h) :- child(n, c), tall(c, k), g = k + 1, h = min(g, 6).
        """,
        {"tall": lattice("max", 1)},
        ["node", "child", "child", "node"],
    ),
    "subsumption": (
        """
        dist(x, 0) :- root(x).
        dist(y, e) :- dist(x, d), edge(x, y, w), e = d + w.
        """,
        {"dist": NEAREST},
        ["root", "edge", "edge", "edge", "dist"],
    ),
    "its own former row": (
        """
        v(x, d) :- start(x, d).
        v(x, e) :- v(x, d), step(x, s), f = d - s, e = max(f, 0).
        v(y, d) :- v(x, d), link(x, y).
        """,
        {"v": Subsumption((order("x, d", "x, e", "e < d"),))},
        ["start", "step", "link", "link"],
    ),
    "two costs": (
        """
        r(x, 0, 0) :- root(x).
        r(y, c, d) :- r(x, a, b), edge(x, y, v, w), c = a + v, d = b + w, c < 9, d < 9.
        """,
        {
            "r": Subsumption(
                (
                    order("x, a, b", "x, c, d", "c <= a, d < b"),
                    order("x, a, b", "x, c, d", "c < a, d <= b"),
                )
            )
        },
        ["root", "edge", "edge"],
    ),
    "an order that changes": (
        """
        r(x, y) :- e(x, y).
        r(z, y) :- r(x, y), link(x, z).
        """,
        {"r": Subsumption((order("x, y", "x, z", "better(z), !better(y)"),))},
        ["e", "e", "link", "link", "better"],
    ),
    "spanning tree": (
        """
        tree(x, x) :- root(x).
        tree(x, y) :- tree(_, x), edge(x, y).
        """,
        {"tree": Choice(((1,),))},
        ["root", "edge", "edge", "edge", "tree"],
    ),
    "matching": (
        """
        pair(x, y) :- edge(x, y), open(x).
        open(y) :- pair(x, y).
        open(x) :- root(x).
        """,
        {"pair": Choice(((0,), (1,)))},
        ["root", "edge", "edge", "edge"],
    ),
}
WEIGHTS = {"all pairs": range(1, 4), "shortest path": range(3), "subsumption": range(3)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_epoch_equals_iteration_from_nothing(name: str) -> None:
    text, merges, edited = PROGRAMS[name]
    rng = Random(name)
    epochs = 0
    for _ in range(RUNS):
        driver = Driver(text, merges, FUNCTORS)
        driver.step()
        values = rng.choice([2, 3, 4])
        for _ in range(14):
            edits = driver.random_edits(
                rng, rng.choice([1, 1, 2, 5]), values, edited, WEIGHTS.get(name)
            )
            if rng.random() < 0.3:
                before = driver.state()
                driver.edit(*edits)
                driver.stratum.undo()
                driver.stratum.check_invariants()
                driver.put_back(before)
                driver.compare()
            driver.step(*edits)
            epochs += 1
    assert epochs == 14 * RUNS


class StopError(Exception):
    pass


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_that_fails_at_any_point_is_undone(name: str) -> None:
    text, merges, edited = PROGRAMS[name]
    rng = Random(f"stop {name}")
    stopped = 0
    for _ in range(RUNS):
        driver = Driver(text, merges, FUNCTORS)
        driver.step(*driver.random_edits(rng, 6, 4, edited, WEIGHTS.get(name)))
        epoch = driver.stratum._epoch
        note = type(epoch).note
        for _ in range(6):
            left = rng.randrange(8)

            def failing(self: Epoch, fact: Fact, note: Callable = note) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise StopError
                note(self, fact)

            before = driver.state()
            edits = driver.random_edits(rng, 4, 4, edited, WEIGHTS.get(name))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(epoch), "note", failing)
                with suppress(StopError):
                    driver.edit(*edits)
            stopped += left < 0
            driver.stratum.undo()
            driver.stratum.check_invariants()
            driver.put_back(before)
            driver.compare()
            driver.step(*edits)
    assert stopped > RUNS
