"""Lanes: threads that share a load give what one gives, and leave nothing behind."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from random import Random
from unittest.mock import Mock, patch

import pytest
from tests.generators.colliding import colliding
from tests.support.interrupt import Interrupt

import deltafix
from deltafix.engine import lanes
from deltafix.engine.store import records_of, relation_cell
from deltafix.errors import BudgetError, CancelledError
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED

NODES = 8 if JIT_DISABLED else 24
RULES = """
.decl edge(x: number, y: number)  .input edge
.decl mark(x: number)             .input mark
.decl path(x: number, y: number)  .output path
.decl from(x: number, y: number)  .output from
.decl deep(x: number, y: number)  .output deep
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z), !mark(z).
from(x, y) :- mark(x), edge(x, y).
from(x, z) :- from(x, y), edge(y, z), path(z, _).
deep(x, w) :- path(x, y), edge(y, z), path(z, w), x != w.
"""


ENTERED = {"sorted": (1, 1 << 20), "in ranges or by tallies": (1, 0), "row by row": (1 << 20, 0)}
"""Rows from which `kernel.enter` enters them into indexes, and from which in parts and by key."""
FROM = [0, 0]


@pytest.fixture(autouse=True, params=ENTERED.values(), ids=ENTERED.keys())
def _entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How rows that are taken up, or that a late index has yet to get, enter indexes."""
    FROM[:] = request.param
    monkeypatch.setattr(lanes, "_MANY", FROM[0])
    monkeypatch.setattr(lanes, "_AT_ONCE", 100 * FROM[1])


def load(edges, *, lanes: int, cells: int = 4000, share: int = 1, **settings) -> deltafix.Database:
    """The rules' rows of some edges, by so many lanes from the first row on."""
    db = deltafix.connect(RULES, **settings)
    for cell, value in (
        (at.LANES, lanes), (at.SHARE_FROM, share), (at.BATCH_FROM, 0), (at.BATCH_CELLS, cells),
        (at.AHEAD_FROM, 0), (at.SPLIT_FROM, FROM[1]), (at.TALLY_FROM, FROM[1]),
        (at.MOST_QUEUED, FROM[1] or 11),
    ):  # fmt: skip
        db.instance.arena.cells[cell] = value
    with db.transaction() as tx:
        tx.insert("edge", edges)
        tx.insert("mark", [(x,) for x in range(0, NODES, 5)])
    return db


def graph(seed: str) -> list[tuple[int, int]]:
    rng = Random(seed)
    return sorted({(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(2 * NODES)})


def supports(db: deltafix.Database) -> tuple[Counter[object], Counter[object]]:
    """The supports of `path`: as the tables have them, and counted from rows and their ranks."""
    arena, number = db.instance.arena, db.instance.linked.ids["path"]
    start, stride = (relation_cell(arena, number, cell) for cell in (at.R_ROWS, at.R_STRIDE))
    held, ranks = Counter(), {}
    for place, record in enumerate(records_of(arena, number).tolist()):
        word = int(arena.cells[(start + place * stride) // 2])
        if word & at.NOW:
            row = tuple(record[at.COLS : at.COLS + 2])
            held[row], ranks[row] = record[at.SUPPORT], word >> at.RANK_SHIFT
    counted = Counter(db.rows("edge"))
    marked = {x for (x,) in db.rows("mark")}
    for (x, y), left in ranks.items():
        for (other, z), right in ranks.items():
            if other == y and z not in marked:
                counted[x, z] += max(left, right) < ranks[x, z]
    return held, counted


@pytest.mark.parametrize("cells", [1, 4000, 6 << 14])
@pytest.mark.parametrize("count", [1, 2, 3, *([] if JIT_DISABLED else [16])])
def test_lanes_give_what_one_thread_gives(count: int, cells: int) -> None:
    edges = graph(f"{count} {cells}")
    rng = Random(count)
    with (
        load(edges, lanes=0) as single,
        patch.object(lanes, "open_round", wraps=lanes.open_round) as rounds,
        load(edges, lanes=count, cells=cells) as shared,
    ):
        assert rounds.call_count > 3
        assert shared.last_epoch.derivations == single.last_epoch.derivations
        assert shared.last_epoch.rules == single.last_epoch.rules
        assert shared.last_epoch.taken == single.last_epoch.taken
        for _ in range(3 if JIT_DISABLED else 12):
            shared.check_invariants()
            for name in ("path", "from", "deep"):
                assert shared.rows(name) == single.rows(name)
            edit = rng.choice(edges)
            for db in (single, shared):
                with db.transaction() as tx:
                    (tx.delete if edit in db.rows("edge") else tx.insert)("edge", [edit])


def test_threads_share_an_index_where_fewer_are_left() -> None:
    with patch.object(lanes, "entering", wraps=lanes.entering) as entering:
        load(graph("parts"), lanes=3).close()
    shared = {call.args[-2:] for call in entering.call_args_list if call.args[-1] == 3}
    assert shared == ({(0, 3), (1, 3), (2, 3)} if lanes._MANY == 1 else set())


def test_an_index_in_which_most_rows_have_one_key_is_shared_too() -> None:
    edges = [(x, 0) for x in range(1, 500)]
    with (
        patch.object(lanes, "entering", wraps=lanes.entering) as entering,
        load(edges, lanes=4) as db,
    ):
        db.check_invariants()
        assert sorted(db.rows("path")) == edges
        assert any(call.args[-1] > 1 for call in entering.call_args_list) == (lanes._MANY == 1)


def test_a_stop_for_the_clock_counts_no_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_SECONDS", -1.0)
    monkeypatch.setattr(lanes, "_QUOTA", 1)
    names = ("begin_counting", "close_round", "lend")
    with (
        patch.multiple(lanes, **{n: Mock(wraps=getattr(lanes, n)) for n in names}),
        load(graph("clock"), lanes=2, cells=6 << 20) as db,
    ):
        counts, rounds = lanes.begin_counting.call_count, lanes.close_round.call_count
        assert 5 < rounds <= counts < lanes.lend.call_count // 8
        held, counted = supports(db)
        assert held == counted


@pytest.mark.parametrize("count", [2, 5])
def test_supports_are_those_of_the_ranks(count: int) -> None:
    with load(graph("supports"), lanes=count, cells=300) as db:
        held, counted = supports(db)
        assert len(held) > NODES
        assert held == counted


@pytest.mark.skipif(JIT_DISABLED, reason="hashing 200,000 numbers is slow there")
def test_keys_of_one_hash_are_kept_apart_in_lanes() -> None:
    nodes = [*chain.from_iterable(colliding())]
    rng = Random(9)
    edges = sorted({(rng.choice(nodes), rng.choice(nodes)) for _ in range(2 * len(nodes))})
    with load(edges, lanes=0) as single, load(edges, lanes=3) as shared:
        shared.check_invariants()
        for name in ("path", "from", "deep"):
            assert shared.rows(name) == single.rows(name)
        assert len(shared.rows("path")) > len(nodes)


def test_lanes_order_symbols_and_compare_wide_numbers() -> None:
    """Where their bytes and patterns lie is said by addresses, which are others in a lane."""
    rng = Random(4)
    words = ["".join(rng.choice("abé") for _ in range(rng.randrange(12))) for _ in range(40)]
    rows = sorted({(a, b, rng.choice([3, 1 << 40, -(1 << 35)])) for a in words for b in words[:9]})
    text = """
    .decl up(a: symbol, b: symbol, n: number) .input up
    .decl far(a: symbol, b: symbol)
    far(a, b) :- up(a, b, n), a < b, n >= 1099511627776.
    far(a, c) :- far(a, b), up(b, c, n), a <= c, n < 0.
    """
    found = []
    for count in (0, 3):
        with (
            patch.object(lanes, "open_round", wraps=lanes.open_round) as rounds,
            deltafix.connect(text) as db,
        ):
            for cell, value in ((at.LANES, count), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0)):
                db.instance.arena.cells[cell] = value
            with db.transaction() as tx:
                tx.insert("up", rows)
            found.append(db.rows("far"))
            assert (rounds.call_count > 1) == (count > 0)
    wide = {(a, b) for a, b, n in rows if a < b and n > 3}
    assert found[0] == found[1]
    assert set(found[0]) >= wide
    assert len(found[0]) > len(wide) > 20


def test_few_rows_and_strata_that_make_values_are_not_shared() -> None:
    with patch.object(lanes, "open_round", wraps=lanes.open_round) as rounds:
        load(graph("few"), lanes=4, share=1 << 20).close()
        made = deltafix.connect(
            ".decl n(x: number) .input n .decl m(x: number) m(x + 1) :- n(x). m(x) :- n(x), n(x)."
        )
        for cell, value in ((at.LANES, 4), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0)):
            made.instance.arena.cells[cell] = value
        with made.transaction() as tx:
            tx.insert("n", [(x,) for x in range(50)])
        assert made.count("m") == 51
    assert rounds.call_count == 0


@pytest.mark.parametrize(
    ("bounds", "message"),
    [({"max_rows": 60}, "max_rows=60"), ({"max_rounds": 40}, "max_rounds=40")],
)
def test_bounds_hold_in_lanes(bounds: dict[str, int], message: str) -> None:
    ring = [(x, (x + 1) % 20) for x in range(20)]
    with deltafix.connect(RULES, **bounds) as db:
        for cell, value in ((at.LANES, 3), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0)):
            db.instance.arena.cells[cell] = value
        with pytest.raises(BudgetError, match=message), db.transaction() as tx:
            tx.insert("edge", ring)
        assert db.instance.arena.cells[at.SHARED] == 0
        assert db.rows("path") == []
        with db.transaction() as tx:
            tx.insert("edge", ring[:4])
        assert db.count("path") == 10
        db.check_invariants()


def test_what_a_thread_raises_ends_the_epoch_when_all_have_stopped() -> None:
    """Ctrl-C among others: no thread is left in the arena, and the state is as before."""
    edges = graph("raises")
    for call in (1, 3) if JIT_DISABLED else (1, 3, 8):
        running, calls = [], []
        real = lanes.maintain

        def broken(*args, real=real, calls=calls, running=running, call=call):
            running.append(1)
            try:
                calls.append(1)
                if len(calls) == call:
                    raise KeyboardInterrupt
                return real(*args)
            finally:
                running.pop()

        with deltafix.connect(RULES) as db:
            for cell, value in ((at.LANES, 3), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0)):
                db.instance.arena.cells[cell] = value
            with (
                patch.object(lanes, "maintain", broken),
                pytest.raises(KeyboardInterrupt),
                db.transaction() as tx,
            ):
                tx.insert("edge", edges)
            assert running == []
            assert (db.rows("edge"), db.rows("path")) == ([], [])
            with db.transaction() as tx:
                tx.insert("edge", edges)
            db.check_invariants()
            with load(edges, lanes=0) as single:
                single.transaction().delete("mark", single.rows("mark"))
                assert db.count("edge") == single.count("edge")


@pytest.mark.skipif(JIT_DISABLED, reason="a table of this size takes minutes there")
def test_threads_share_the_growth_of_a_large_key_table() -> None:
    """And the pairs are those that a search from each node finds."""
    nodes, rng = 600, Random(8)
    edges = {(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(3 * nodes)}
    after: dict[int, list[int]] = {x: [] for x in range(nodes)}
    for x, y in edges:
        after[x].append(y)
    wanted = set()
    for x in range(nodes):
        reached, waiting = set(after[x]), after[x][:]
        while waiting:
            for y in after[waiting.pop()]:
                if y not in reached:
                    reached.add(y)
                    waiting.append(y)
        wanted |= {(x, y) for y in reached}
    text = """
        .decl edge(x: number, y: number)  .input edge
        .decl path(x: number, y: number)  .output path
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
    """
    spread = Mock(wraps=lanes.spread_part)
    with deltafix.connect(text, threads=3) as db, patch.object(lanes, "spread_part", spread):
        with db.transaction() as tx:
            tx.insert("edge", sorted(edges))
        assert spread.call_count >= 3
        assert set(db.rows("path")) == wanted
        db.check_invariants()


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Ctrl-C is Python's: PySpark's handler asks a session, which tests before may have ended."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("step", ["count_zone", "place_heads", "place_zone", "enter_keys"])
def test_an_interrupt_between_the_steps_of_a_round_leaves_whole_tables(step: str) -> None:
    """In relations that had rows, so that each new one is taken out by itself."""
    edges = graph(step)
    with load(edges[:12], lanes=3) as db:
        before = {name: db.rows(name) for name in ("edge", "path", "from", "deep")}
        real, raised = getattr(lanes, step), []

        def broken(*args):
            found = real(*args)
            if not raised and len(args) > 2:
                raised.append(step)
                os.kill(os.getpid(), signal.SIGINT)
            return found

        with patch.object(lanes, step, broken):
            try:
                with db.transaction() as tx:
                    tx.insert("edge", edges[12:])
            except KeyboardInterrupt:
                assert {name: db.rows(name) for name in before} == before
                db.check_invariants()
        with db.transaction() as tx:
            tx.insert("edge", edges)
        db.check_invariants()
        with load(edges, lanes=0) as single:
            assert all(db.rows(name) == single.rows(name) for name in before)


@pytest.mark.parametrize("module", ["lanes", "threads"])
def test_an_interrupt_at_any_line_leaves_no_thread_in_the_arena(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At lines all over an epoch, in relations that had rows."""
    edges, running = graph(module), []
    half = len(edges) // 2

    def count_calls(real):
        def counted(*args):
            running.append(1)
            try:
                return real(*args)
            finally:
                running.pop()

        return counted

    for name in ("maintain", "sort_keys", "enter_keys", "count_zone", "place_zone"):
        monkeypatch.setattr(lanes, name, count_calls(getattr(lanes, name)))
    with load(edges[:half], lanes=3) as db:
        before = {name: db.rows(name) for name in ("edge", "path", "from", "deep")}
        whole = Interrupt(1 << 40, f"engine/{module}.py")
        with load(edges[:half], lanes=3) as twin, whole, twin.transaction() as tx:
            tx.insert("edge", edges[half:])
        lines = (1 << 40) - whole.after
        assert lines > 100
        for line in range(0, lines, -(-lines // (4 if JIT_DISABLED else 25))):
            interrupt = Interrupt(line, f"engine/{module}.py")
            with pytest.raises(KeyboardInterrupt), interrupt, db.transaction() as tx:
                tx.insert("edge", edges[half:])
            assert running == []
            assert db.instance.arena.cells[at.JOBS] == db.instance.arena.cells[at.SHARED] == 0
            assert {name: db.rows(name) for name in before} == before
            db.check_invariants()
        with db.transaction() as tx:
            tx.insert("edge", edges[half:])
        with load(edges, lanes=0) as single:
            assert all(db.rows(name) == single.rows(name) for name in before)


def test_rows_for_which_there_is_no_room_are_forgotten() -> None:
    with deltafix.connect(RULES) as db:
        for cell, value in ((at.LANES, 3), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0)):
            db.instance.arena.cells[cell] = value
        with (
            patch.object(lanes, "place_heads", side_effect=MemoryError("no room")),
            pytest.raises(MemoryError, match="no room"),
            db.transaction() as tx,
        ):
            tx.insert("edge", graph("room"))
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        assert db.rows("path") == [(1, 2), (1, 3), (2, 3)]
        db.check_invariants()


def test_a_round_can_be_cancelled() -> None:
    with deltafix.connect(RULES) as db:
        for cell, value in ((at.LANES, 2), (at.SHARE_FROM, 1), (at.BATCH_FROM, 0)):
            db.instance.arena.cells[cell] = value
        real = lanes.place_heads

        def place(*args):
            db.cancel()
            return real(*args)

        with (
            patch.object(lanes, "place_heads", place),
            pytest.raises(CancelledError),
            db.transaction() as tx,
        ):
            tx.insert("edge", graph("cancel"))
        assert db.rows("path") == []
        db.check_invariants()


def test_threads_are_at_least_one_and_bound_the_lanes() -> None:
    with pytest.raises(ValueError, match="threads=0: at least 1"):
        deltafix.connect(RULES, threads=0)
    with deltafix.connect(RULES, threads=1) as db:
        assert db.instance.arena.cells[at.LANES] == 1
        db.compact()
        assert db.instance.arena.cells[at.LANES] == 1
