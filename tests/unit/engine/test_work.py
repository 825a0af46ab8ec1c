"""The work an epoch does, not its answer: lost incrementality fails here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from tests.judges.derivation_counts import derivation_counts

import deltafix
from deltafix import Program
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError
from deltafix.kernel import layout
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.plan.build import plan
from deltafix.rules.check import typed

REACH = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl reach(x: number)
.input edge
.input root
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
"""


def chain(length: int, strategy: str = "wavefront") -> deltafix.Database:
    db = deltafix.connect(REACH, strategy=strategy)
    with db.transaction() as tx:
        tx.insert("root", [(0,)])
        tx.insert("edge", [(i, i + 1) for i in range(length)])
    return db


@pytest.mark.parametrize("length", [10, 1000])
def test_an_edit_at_the_end_costs_the_same_on_a_chain_of_any_length(length: int) -> None:
    with chain(length) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(length, length + 1)])
        inserted = db.last_epoch
        with db.transaction() as tx:
            tx.delete("edge", [(length, length + 1)])
        deleted = db.last_epoch
    assert (inserted.changed, inserted.derivations, inserted.retracted) == (2, 1, 0)
    assert (deleted.changed, deleted.touched, deleted.retracted, deleted.revived) == (2, 2, 1, 0)


@pytest.mark.parametrize("strategy", ["wavefront", "recompute"])
def test_rows_below_a_recursion_that_is_empty_are_not_looked_at(strategy: str) -> None:
    with deltafix.connect(REACH, strategy=strategy) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(i, i + 1) for i in range(1000)])
        cells = db.instance.arena.cells
        assert cells[layout.C_TRIED] + cells[layout.C_PROBED] == 0
        with db.transaction() as tx:
            tx.insert("root", [(997,)])
        assert sorted(tx.delta["reach"].added) == [(997,), (998,), (999,), (1000,)]
        assert cells[layout.C_TRIED] + cells[layout.C_PROBED] < 20


def test_an_edge_between_facts_that_hold_changes_nothing_above() -> None:
    with chain(100) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(10, 90)])
        assert tx.delta["reach"].added == []
        assert db.last_epoch.derivations == 1
        with db.transaction() as tx:
            tx.delete("edge", [(89, 90)])
        # 90 is held up by the shortcut: nobody is retracted.
        assert db.last_epoch.retracted == 0
        assert not tx.delta["reach"]


def test_a_stratum_whose_input_did_not_change_is_not_visited() -> None:
    text = """
    .decl a(x: number)
    .decl b(x: number)
    .decl p(x: number)
    .decl q(x: number)
    .input a
    .input b
    p(x) :- a(x).
    q(x) :- b(x).
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("a", [(1,)])
        assert tx.delta["p"].added == [(1,)]
        assert (db.last_epoch.strata_run, db.last_epoch.strata_skipped) == (2, 2)


def test_a_change_that_nets_to_nothing_stops_where_it_nets() -> None:
    text = """
    .decl e(x: number, y: number)
    .decl has(x: number)
    .decl top(x: number)
    .input e
    has(x) :- e(x, _).
    top(x) :- has(x).
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("e", [(1, 1), (1, 2)])
        with db.transaction() as tx:
            tx.delete("e", [(1, 1)])
        assert not tx.delta["has"]
        assert db.last_epoch.strata_run == 2  # e and has, not top


def test_the_wave_revives_what_the_others_retract() -> None:
    """A ladder: two parallel chains with rungs; one side's first edge goes.

    Retract-first takes the whole side down before it finds the rungs; the wave revives the first
    node of it at the rung's rank, and what hangs on it never falls.
    """
    rungs = 30
    figures = {}
    for strategy in ("wavefront", "deletes_first", "dred"):
        with deltafix.connect(REACH, strategy=strategy) as db:
            with db.transaction() as tx:
                tx.insert("root", [(0,)])
                tx.insert("edge", [(0, 1), (0, 2)])
                tx.insert("edge", [(2 * i + 1, 2 * i + 3) for i in range(rungs)])
                tx.insert("edge", [(2 * i + 2, 2 * i + 4) for i in range(rungs)])
                tx.insert("edge", [(2 * i + 1, 2 * i + 2) for i in range(rungs)])
            with db.transaction() as tx:
                tx.delete("edge", [(0, 2)])
            assert not tx.delta["reach"]
            figures[strategy] = db.last_epoch.retracted
            assert db.last_epoch.retracted == db.last_epoch.revived
    assert figures["wavefront"] <= 2
    assert figures["deletes_first"] >= figures["wavefront"]
    assert figures["dred"] > rungs


def test_derivations_are_counted_by_rule() -> None:
    with chain(5) as db:
        assert dict(db.last_epoch.rules) == {0: 1, 1: 5}


CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.input edge
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""


def clique(size: int) -> deltafix.Database:
    db = deltafix.connect(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", [(i, (i + 1) % size) for i in range(size)])
    return db


def test_a_wave_that_costs_more_than_recomputing_is_abandoned() -> None:
    """A ring of pairs: cutting it takes down half of them, each with many derivations."""
    figures = {}
    size = 12 if JIT_DISABLED else 24
    for patience in (10**9, 0):
        with clique(size) as db:
            db.instance.arena.cells[layout.PATIENCE] = patience
            whole = db.last_epoch
            with db.transaction() as tx:
                tx.delete("edge", [(size - 1, 0)])
            assert db.count("path") == size * (size - 1) // 2
            assert len(tx.delta["path"].removed) == size * size - size * (size - 1) // 2
            db.check_invariants()
            figures[patience] = db.last_epoch
            with db.transaction() as tx:
                tx.insert("edge", [(size - 1, 0)])
            assert db.count("path") == size * size
            db.check_invariants()
    assert (figures[10**9].abandoned, figures[0].abandoned) == (0, 1)
    assert figures[0].derivations < figures[10**9].derivations
    assert figures[0].derivations <= 2 * whole.derivations


@pytest.mark.parametrize("strategy", ["wavefront", "local", "dred"])
def test_a_row_is_derived_again_from_the_literal_with_the_most_known_columns(
    strategy: str,
) -> None:
    text = """
    .decl s(x: number, y: number) .decl q(x: number, w: number, z: number)
    .decl r(x: number, y: number, w: number, z: number) .decl p(x: number, y: number)
    p(x, y) :- s(x, y).
    p(x, y) :- p(w, y), q(x, w, z), r(x, y, w, z).
    """
    with deltafix.connect(text, strategy=strategy) as db:
        with db.transaction() as tx:
            tx.insert("q", [(1, 2, 7), (2, 1, 7), *((1, w, 7) for w in range(10, 3010))])
            tx.insert("r", [(1, 5, 2, 7), (2, 5, 1, 7)])
        for row in ((1, 5), (2, 5)):
            with db.transaction() as tx:
                tx.insert("s", [row])
        with db.transaction() as tx:
            tx.delete("s", [(1, 5)])
        assert "p" not in tx.delta  # it was suspect, and derived again
        assert db.last_epoch.revived + db.last_epoch.reranked >= 1
        assert db.last_epoch.probed <= 30


def test_atoms_that_share_nothing_are_tests_and_no_product() -> None:
    text = """
    .decl a(x: number) .decl b(x: number, y: number) .decl c(x: number) .input a, b, c
    .decl any(x: number) .decl far(x: number)
    any(1) :- a(_), b(_, _), c(_).
    far(x) :- a(x), a(x), b(_, _), c(y), y > 3.
    """
    rows = range(300)
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("a", [(x,) for x in rows])
            tx.insert("b", [(x, x) for x in rows])
            tx.insert("c", [(x,) for x in rows])
        assert (db.count("any"), db.count("far")) == (1, 300)
        assert db.last_epoch.derivations <= 5 * len(rows)
        with db.transaction() as tx:
            tx.insert("c", [(999,)])
        assert db.last_epoch.derivations <= 3  # one more witness is nothing new
        with db.transaction() as tx:
            tx.delete("c", [(x,) for x in (*rows, 999)])
        assert (db.count("any"), db.count("far")) == (0, 0)


def test_a_part_that_reads_its_own_recursion_is_a_test_too() -> None:
    text = """
    .decl a(x: number)
    .decl seed(x: number)
    .decl on(x: number)
    .decl even(x: number)
    .input a, seed
    on(x) :- seed(x).
    on(x) :- a(x), on(_).
    even(x) :- seed(x), even(y), y > 3, even(z), z > 3.
    even(x) :- a(x).
    """
    size = 200
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("a", [(x,) for x in range(size)])
            tx.insert("seed", [(-1,)])
        assert db.count("on") == db.count("even") == size + 1
        # A product would derive size * size rows.
        assert db.last_epoch.derivations <= 8 * size
        with db.transaction() as tx:
            tx.delete("seed", [(-1,)])
        assert db.count("on") == 0
        db.check_invariants()
        with db.transaction() as tx:
            tx.insert("seed", [(7,)])
        assert db.count("on") == size
        proof = db.why("on(5)")
        assert [step.fact for step in proof.steps] == ["on(5)", "a(5)", "on(7)", "seed(7)"]
        assert db.why_not("on(300)").suggestions == (((1, "a", (300,)),), ((1, "seed", (300,)),))


@pytest.mark.parametrize(
    ("body", "most"),
    [
        (", ".join(["e(x0, x200)"] * 200), 2),
        (", ".join(["e(x0, x200)", *["e(_, _)"] * 199]), 8),
        (", ".join(f"e(x{i}, x{i + 1})" for i in range(200)), 200 * (200 + 64)),
    ],
)
def test_planning_a_long_body_makes_few_nodes(body: str, most: int) -> None:
    text = f".decl e(x: number, y: number) .decl o(x: number, y: number)  o(x0, x200) :- {body}."
    made = plan(typed(Program.parse(text)))
    variants = [variant for stage in made.stages for variant in stage.lower]
    assert sum(len(variant.nodes) for variant in variants) <= most


def test_rows_displaced_by_better_ones_are_not_met_again() -> None:
    """Both halves of a path improve at each step: what they were before must not be joined."""
    text = """
    .decl edge(x: number, y: number, w: number)
    .input edge
    .decl dist(x: number, y: number, w: number <min>)
    dist(x, y, w) :- edge(x, y, w).
    dist(x, z, v + w) :- dist(x, y, v), dist(y, z, w).
    """
    length, middle, end = 12, 100, 200
    edges = []
    for step in range(length):
        shortcut = 10 * (length - step)  # the longer way is the cheaper one, each time
        edges += [(step, step + 1, 1), (step, middle, shortcut)]
        edges += [(middle + step, middle + step + 1, 1), (middle + step, end, shortcut)]
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("edge", edges)
        report = db.last_epoch
    # Seven rows looked at for each derivation; nineteen where displaced rows stay in the index.
    assert report.probed < 10 * report.derivations


def test_the_first_rows_of_a_view_cost_what_they_come_from() -> None:
    """A view that is empty over inputs that are not: what is new is looked at, not the inputs."""
    text = """
    .decl a(x: number)
    .input a
    .decl b(x: number, y: number)
    .input b
    .decl large(x: number, y: number)
    large(x, y) :- a(x), b(x, y), y > 1000.
    """
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("a", [(x,) for x in range(1000)])
            tx.insert("b", [(x, x) for x in range(1000)])
        assert db.last_epoch.probed <= 1000  # the first rows are loaded: each pair is met once
        with db.transaction() as tx:
            tx.insert("b", [(5, 1001)])
        assert tx.delta["large"].added == [(5, 1001)]
        assert db.last_epoch.probed <= 1


@pytest.mark.parametrize("strategy", ["wavefront", "local"])
def test_the_derivations_that_hold_are_counted_through_all_edits(strategy: str) -> None:
    """What a recomputation would find: it decides when a wave is given up."""

    def counted(db: deltafix.Database) -> int:
        return relation_cell(
            db.instance.arena, db.instance.linked.ids["path"], layout.R_DERIVATIONS
        )

    rng = Random(strategy)
    held: set[tuple[int, int]] = set()
    with deltafix.connect(CLOSURE, strategy=strategy) as db:
        for _ in range(12):
            edges = {(rng.randrange(7), rng.randrange(7)) for _ in range(3)}
            with db.transaction() as tx:
                tx.delete("edge", edges & held)
                tx.insert("edge", edges - held)
            held ^= edges
            with deltafix.connect(CLOSURE) as fresh:
                with fresh.transaction() as tx:
                    tx.insert("edge", held)
                assert counted(db) == counted(fresh)


POINTS_TO = """
.decl addr(p: number, o: number) .input addr
.decl copy(p: number, q: number) .input copy
.decl load(p: number, q: number) .input load
.decl pt(p: number, o: number)
pt(p, o) :- addr(p, o).
pt(p, o) :- load(p, q), pt(q, r), pt(r, o).
pt(p, o) :- copy(p, q), pt(q, o).
"""


@contextmanager
def hub(*copies: tuple[int, int]) -> Iterator[deltafix.Database]:
    """0 loads 40 pointers to 40 targets each, of which one alone points to 1.

    Whoever looks for what makes `pt(0, 1)` true looks at every target of every pointer.
    """
    pointers, targets = range(100, 140), range(200, 240)
    with deltafix.connect(POINTS_TO) as db:
        with db.transaction() as tx:
            tx.insert("addr", [(q, r) for q in pointers for r in targets])
            tx.insert("addr", [(50, 51), (51, 1), *((r, 3) for r in targets)])
            tx.insert("addr", [(r, 1) for r in range(300, 360)])
            tx.insert("load", [(0, 50), *((0, q) for q in pointers)])
            tx.insert("copy", list(copies))
        assert db.contains("pt", (0, 1))
        yield db


def test_a_suspect_without_any_derivation_is_not_searched_for() -> None:
    with hub() as db:
        with db.transaction() as tx:
            tx.delete("load", [(0, 50)])
        assert tx.delta["pt"].removed == [(0, 1)]
        assert db.last_epoch.probed < 20
        assert (db.last_epoch.retracted, db.last_epoch.reranked) == (1, 0)
        db.check_invariants()


def test_a_suspect_that_is_dear_to_search_for_waits_for_the_end_of_the_wave() -> None:
    """`pt(0, 1)` and `pt(2, 1)` hold each other up, and fall; `pt(4, 1)` has another reason."""
    probed = {}
    for looks in (0, 100):
        with hub((0, 2), (2, 0), (0, 4), (4, 0)) as db:
            with db.transaction() as tx:
                tx.insert("copy", [(4, 6), (6, 7)])
            with db.transaction() as tx:
                tx.insert("addr", [(7, 1)])
            db.instance.arena.cells[layout.LOOKS] = looks
            with db.transaction() as tx:
                tx.delete("load", [(0, 50)])
            assert list(tx.delta["pt"].removed) == []
            db.check_invariants()
            with db.transaction() as tx:
                tx.delete("addr", [(7, 1)])
            removed = [(p, 1) for p in (0, 2, 4, 6, 7)]
            assert sorted(tx.delta["pt"].removed) == removed
            assert db.last_epoch.abandoned == 0
            db.check_invariants()
            probed[looks] = db.last_epoch.probed
            with db.transaction() as tx:
                tx.insert("load", [(0, 50)])
            assert sorted(tx.delta["pt"].added) == [(p, 1) for p in (0, 2, 4)]
            db.check_invariants()
    assert probed[100] * 2 < probed[0], probed


def test_an_epoch_that_is_taken_back_puts_back_what_counts_all_derivations() -> None:
    """Of `pt(51, 1)` that count alone changes: no support of it, nor its rank."""
    with hub((0, 2), (2, 0)) as db:
        counts = derivation_counts(db)
        edits = {"copy": [(51, 0)], "addr": [(70, 71), (70, 72)]}
        db.instance.arena.cells[layout.MAX_ROUNDS] = 1
        with pytest.raises(BudgetError), db.transaction() as tx:
            for name, rows in edits.items():
                tx.insert(name, rows)
        assert derivation_counts(db) == counts
        db.check_invariants()
        db.instance.arena.cells[layout.MAX_ROUNDS] = 0
        with db.transaction() as tx:
            for name, rows in edits.items():
                tx.insert(name, rows)
        assert derivation_counts(db)["pt"][51, 1] == counts["pt"][51, 1] + 1
        assert db.last_epoch.touched == 6  # three rows given, three derived: not that one


@pytest.mark.parametrize(
    "order", ["a(k, x), b(k, y), y > 6, y < 8", "y < 8, b(k, y), a(k, x), 6 < y"]
)
def test_a_rule_starts_from_where_it_has_least_to_look_at(order: str) -> None:
    """From `a`, the smaller one, it would look at all rows of `b` for each of its own."""
    text = ".decl a(k: number, x: number) .input a .decl b(k: number, y: number) .input b"
    with deltafix.connect(
        f"{text} .decl r(x: number, y: number) .output r r(x, y) :- {order}."
    ) as db:
        with db.transaction() as tx:
            tx.insert("a", [(0, x) for x in range(3000)])
            tx.insert("b", [(0, y) for y in range(5000)])
        assert db.rows("r") == [(x, 7) for x in range(3000)]
        assert db.last_epoch.probed < 10_000
        db.check_invariants()


@pytest.mark.parametrize(("asked", "starts"), [(20, "few"), (3000, "many")])
def test_a_lookup_that_finds_nothing_is_work(asked: int, starts: str) -> None:
    """Each row of `many` looked up in `few` costs more than to go through `many` for few rows.

    If not so few ask for it, its index would be filled, and that costs more again.
    """
    text = ".decl many(x: number, k: number) .input many .decl few(k: number) .input few"
    with deltafix.connect(text) as db:
        cells = db.instance.arena.cells
        cells[layout.SCAN_FROM] = 0
        with db.transaction() as tx:
            tx.insert("many", [(n, n % 4000) for n in range(5000)])
            tx.insert("few", [(3990 + n,) for n in range(asked)])
        with db.transaction() as tx:
            tx.add_rule(".decl r(x: number) .output r")
            tx.add_rule("r(x) :- many(x, k), few(k).")
        assert db.rows("r") == [(n,) for n in range(5000) if 3990 <= n % 4000 < 3990 + asked]
        ids = db.instance.linked.ids
        variant = db.instance.linked.program[cells[layout.S_START]]
        trigger = db.instance.linked.program[variant + layout.V_TRIGGER]
        assert trigger == ids[starts]
        assert (cells[layout.C_TRIED] < 200) == (starts == "few")


@pytest.mark.skipif(JIT_DISABLED, reason="20,000 rows, in Python")
@pytest.mark.parametrize("above", [-1, 17000, 30000])
def test_rows_that_comparisons_drop_are_read_and_stop_for_cancelling(above: int) -> None:
    # A rule that is added is evaluated from the whole table: rows that it drops are no tasks.
    text = ".decl e(x: number, y: number)\n.decl n(y: number)\n.input e\n.input n"
    with deltafix.connect(text) as db:
        with db.transaction() as tx:
            tx.insert("e", [(n, n % 7) for n in range(20_000)])
            tx.insert("n", [(3,), (5,)])
        with db.transaction() as tx:
            tx.add_rule(f".decl p(x: number)\n.output p\np(x) :- n(y), e(x, y), z = x * 2, z > 6,"
                        f" x > {above}.")  # fmt: skip
        wanted = {n for n in range(4, 20_000) if n % 7 in (3, 5) and n > above}
        assert {x for (x,) in db.rows("p")} == wanted
        assert db.last_epoch.derivations == len(wanted)
        number = db.instance.linked.ids["e"]
        assert relation_cell(db.instance.arena, number, layout.R_NOW) == 20_000
        if above == 30000:  # from all rows of one of the two
            assert db.instance.arena.cells[layout.C_TRIED] == 20_000
            assert db.instance.arena.cells[layout.QUOTA] > 0
        db.check_invariants()
