"""Loads by columns: they leave what the engine's supersteps leave, and the engine goes on from it.

Sees: derivations missed or invented by the joins, ranks that let a cycle hold itself up, votes
that the engine made from a load's files does not have.
"""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.spark.test_shards_agree import CLOSURE, SAME_GENERATION, agree, edits, random_edits

import deltafix
from deltafix.facts.delta import Delta
from deltafix.spark.hashing import Heavy
from deltafix.spark.shards import ShardedDatabase, columns, database, here, resident
from deltafix.spark.shards.bulkrules import bulk_rules
from deltafix.spark.shards.core import prepare
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.localize import localize

MIXED = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl reach(x: number)
.decl pair(x: number, y: number)
.decl dead(x: number)
.decl any()
.decl found(x: number, y: number)
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y), x != 3.
pair(x, y) :- edge(x, y), reach(x).
pair(x, z) :- pair(x, y), pair(y, z).
dead(x) :- edge(x, _), !reach(x).
any() :- dead(_).
found(x, 5) :- edge(x, x), any().
found(x, y) :- edge(x, y), edge(y, x), x < y, !pair(x, y).
reach(9). edge(9, 1).
"""
PROGRAMS = {
    "closure": (CLOSURE, {"edge": 2}),
    "same generation": (SAME_GENERATION, {"up": 2, "same": 2}),
    "mixed": (MIXED, {"edge": 2, "root": 1, "dead": 1, "pair": 2}),
}


def general(program: deltafix.Program, heavy: tuple[int, ...] = ()) -> Layout:
    return localize(prepare(program), heavy)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every epoch that derives everything is a load, and is counted."""
    done: Counter[str] = Counter()
    real = database.Attempt.load

    def counted(attempt: database.Attempt) -> bool:
        loaded = real(attempt)
        done["loaded" if loaded else "refused"] += 1
        return loaded

    monkeypatch.setattr(database, "LOAD", 0)
    monkeypatch.setattr(database, "plan_layout", general)
    monkeypatch.setattr(database.Attempt, "load", counted)
    return done


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_agree_loads_then_changes_then_a_restart_then_more(
    name: str, shards: int, loads: Counter[str], tmp_path: Path
) -> None:
    text, relations = PROGRAMS[name]
    program = deltafix.Program.parse(text)
    one = deltafix.connect(program)
    script = random_edits(Random(f"{name} {shards}"), relations, 7, 8)
    with ShardedDatabase(program, shards=shards, state=tmp_path, executor="recompute") as db:
        agree(program, script[:2], db, one)
    assert loads["loaded"] >= 2
    with ShardedDatabase(program, shards=shards, state=tmp_path, executor="driver") as db:
        before = loads.total()
        agree(program, script[2:6], db, one)
        assert loads.total() == before, "a change of a state that has rows is the engines'"
        check_engines(db)
    with ShardedDatabase(program, shards=shards, state=tmp_path, executor="recompute") as db:
        agree(program, script[6:], db, one)


@pytest.mark.parametrize("name", PROGRAMS)
def test_agree_loads_of_which_half_of_all_keys_are_shared(
    name: str, loads: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "plan_layout", lambda program, _=(): general(program, (0,)))
    monkeypatch.setattr(Heavy, "rows", lambda self, hashes: hashes & np.uint64(64) > 0)
    test_agree_loads_then_changes_then_a_restart_then_more(name, 3, loads, tmp_path)


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_agree_engines_of_a_load_are_made_by_threads_and_a_change_finds_them(
    name: str, wait: bool, loads: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_WARMED", 0)
    made: Counter[int] = Counter()
    real = here.warm

    def counted(spec: resident.Spec, number: int, *rest: Any) -> None:
        assert threading.current_thread() is not threading.main_thread()
        made[number] += 1
        real(spec, number, *rest)

    monkeypatch.setattr(here, "warm", counted)
    text, relations = PROGRAMS[name]
    program = deltafix.Program.parse(text)
    one = deltafix.connect(program)
    script = random_edits(Random(name), relations, 7, 8)
    with ShardedDatabase(program, shards=3, state=tmp_path, executor="recompute") as db:
        agree(program, script[:1], db, one)
    assert loads["loaded"] >= 1
    made.clear()
    with ShardedDatabase(program, shards=3, state=tmp_path, executor="driver") as db:
        db._is_cold = True  # as the load has left it
        db.warm(wait=wait)
        for epoch in script[1:4]:
            delta = Delta.of(edits(program, epoch), one.schemas.values())
            assert db.apply(delta) == one.apply(delta)
            assert db.work.loads == 0
        assert made == {0: 1, 1: 1, 2: 1}
        check_engines(db)
        made.clear()
        agree(program, script[4:], db, one)  # which forgets them: a change has them made, too
        check_engines(db)
    assert made[0] > 1


def test_engines_that_are_being_made_are_given_up_when_a_database_closes(
    loads: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_WARMED", 0)
    begun, told = threading.Event(), threading.Event()
    asked: list[int] = []
    real = here.warm

    def stopped(spec: resident.Spec, number: int, files: Any, begin: Any) -> None:
        def held(shard: resident.Shard) -> None:
            begin(shard)
            begun.set()
            told.wait(60)

        asked.append(number)
        real(spec, number, files, held)

    monkeypatch.setattr(here, "warm", stopped)
    monkeypatch.setattr(here.os, "cpu_count", lambda: 1)
    rows = {"edge": ([(n, n + 1) for n in range(200)], [])}
    with ShardedDatabase(CLOSURE, shards=3, state=tmp_path, executor="driver") as db:
        db.apply(Delta.of(rows, db.schemas.values()))
        asked.clear()
        begun.clear()
        db.warm()
        assert isinstance(db._warming, here.Making)
        (thread,) = db._warming._threads
        assert begun.wait(60)
        threading.Timer(0.2, told.set).start()
    assert not thread.is_alive()
    assert asked == [0], "the others were not begun"
    assert not any(key[0] == str(tmp_path) for key in resident._RESIDENTS)


def check_engines(db: ShardedDatabase) -> None:
    for number in range(db.shards):
        resident._RESIDENTS[db._spec.key(number)].shard.db.check_invariants()


def test_a_load_leaves_the_rows_votes_and_ranks_that_supersteps_leave(
    loads: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CLOSURE.replace("path(x, y), edge(y, z)", "edge(x, y), path(y, z)")
    rng = np.random.default_rng(7)
    edges = [tuple(row) for row in np.unique(rng.integers(0, 40, (90, 2)), axis=0).tolist()]
    cut = edges[::9]
    left, work = {}, {}
    for way, least in (("columns", 0), ("supersteps", 1 << 40)):
        monkeypatch.setattr(database, "LOAD", least)
        with ShardedDatabase(text, shards=3, state=tmp_path / way, executor="driver") as db:
            db.apply(Delta.of({"edge": (edges, [])}))
            work[way] = db.work
            left[way] = [
                {name: sorted(one.db.rows(name)) for name in db.layout.types if one.db.count(name)}
                for one in (shard_of_files(db, number) for number in range(3))
            ]
            assert db.apply(Delta.of({"edge": ([], cut)}))["path"].removed
            check_engines(db)
    assert left["columns"] == left["supersteps"]
    # Supersteps know what was given, and end with the step that finds nothing left to do.
    first, *between, last = work["columns"].actions
    assert (first, between, last) == ("apply", work["supersteps"].actions, "commit")
    # Votes are a set where they arrive; columns may send one in two blocks.
    steps = work["supersteps"].messages
    assert 0 < steps <= work["columns"].messages <= 1.1 * steps
    assert (loads["loaded"], loads["refused"]) == (2, 0), "its epoch 0, and the load itself"


def shard_of_files(db: ShardedDatabase, number: int) -> resident.Shard:
    resident.forget(db._spec.folder)
    return resident._stand_on(db._spec, number, db._manifest.files[number])[0].shard


@pytest.mark.parametrize(
    "rules",
    [
        ".decl r(x: number, n: number)\nr(x, n) :- edge(x, _), n = count : { edge(x, _) }.",
        ".decl r(x: number)\nr(x + 1) :- edge(x, _).\nr(y) :- r(x), edge(x, y).",
        ".decl s(x: symbol)\n.decl r(x: symbol)\nr(x) :- s(x), edge(_, _).",
    ],
)
def test_programs_with_more_than_numbers_and_comparisons_are_left_to_the_engine(
    rules: str,
) -> None:
    program = deltafix.Program.parse(f".decl edge(x: number, y: number)\n{rules}")
    assert bulk_rules(general(program)) is None


def test_seen_gives_each_row_once_whatever_the_batches() -> None:
    rng = np.random.default_rng(3)
    seen, known = columns.Seen(), set()
    for size in (1, 50, 3, 400, 2, 2, 900, 7):
        batch = rng.integers(-3, 25, (size, 2))
        rows = [tuple(row) for row in batch.tolist()]
        fresh = seen.add((batch[:, 0].copy(), batch[:, 1].copy()))
        found = list(zip(*(column.tolist() for column in fresh), strict=True))
        assert sorted(found) == sorted(set(rows) - known)
        known |= set(rows)


def test_run_meets_what_a_nested_loop_meets_in_blocks_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(4)
    table = rng.integers(0, 6, (60, 3))
    probes = rng.integers(-1, 7, (20, 2))
    run = columns.Run(tuple(table[:, n].copy() for n in range(3)))
    keys = tuple(probes[:, n].copy() for n in range(2))
    expected = Counter(
        (n, int(row[0]))
        for n, probe in enumerate(probes)
        for row in table
        if (row[2], row[1]) == tuple(probe)
    )
    for block in (1, 4, 1 << 22):
        monkeypatch.setattr(columns, "BLOCK", block)
        met = Counter(
            pair
            for which, rows in run.meet((2, 1), keys, 20, [0])
            for pair in zip(which.tolist(), rows[0].tolist(), strict=True)
        )
        assert met == expected
    assert run.has((2, 1), keys, 20).tolist() == [n in {k for k, _ in expected} for n in range(20)]
