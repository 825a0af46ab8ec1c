"""Loads: they leave what supersteps leave, and engines made of their files go on from it.

Sees: rows that a load takes to hold and no vote does, or the other way round, ranks that let a
cycle hold itself up, votes that an engine made from a load's files does not have.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from tests.agree.test_shards import (
    CLOSURE,
    SAME_GENERATION,
    agree,
    agree_random,
    edits,
    random_edits,
)

import deltafix
from deltafix.facts.delta import Delta
from deltafix.spark.hashing import Heavy
from deltafix.spark.shards import ShardedDatabase, database, here, resident
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
VALUES = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl dist(x: number, n: number)
.decl best(x: number, n: number)
.decl short(x: number, n: number)
.decl named(s: symbol, x: number)
.decl degree(x: number, n: number)
.decl busy(n: number)
.decl half(x: number, f: float)
dist(x, 0) :- root(x).
dist(y, n + 1) :- dist(x, n), edge(x, y), n < 5.
best(x, n) :- dist(x, _), n = min m : { dist(x, m) }.
short(x, 0) :- root(x).
short(y, n + 1) :- short(x, n), edge(x, y).
short(x, n) <= short(x, m) :- m <= n.
named(cat("n", to_string(x)), y) :- best(x, _), edge(x, y).
named(s, z) :- named(s, y), edge(y, z).
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
busy(n) :- n = max d : { degree(_, d) }.
half(x, as(n, float) / 2.0) :- degree(x, n), !short(x, n).
"""
PROGRAMS = {
    "closure": (CLOSURE, {"edge": 2}),
    "same generation": (SAME_GENERATION, {"up": 2, "same": 2}),
    "mixed": (MIXED, {"edge": 2, "root": 1, "dead": 1, "pair": 2}),
    "values": (VALUES, {"edge": 2, "root": 1}),
}


def general(program: deltafix.Program, heavy: tuple[int, ...] = ()) -> Layout:
    return localize(prepare(program), heavy)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every epoch that derives everything is a load, and is counted."""
    done: Counter[str] = Counter()
    real = database.Attempt.load

    def counted(attempt: database.Attempt, given: Collection[str] | None) -> bool:
        loaded = real(attempt, given)
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


@pytest.mark.parametrize("executor", ["driver", "recompute"])
@pytest.mark.parametrize("shards", [2, 4])
def test_agree_random_programs_that_are_loaded(
    shards: int, executor: Literal["driver", "recompute"], loads: Counter[str], tmp_path: Path
) -> None:
    agree_random(Random(f"loads {shards} {executor}"), shards, executor, tmp_path)
    assert loads["loaded"]
    assert not loads["refused"]


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


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_load_takes_the_steps_of_single_epochs_and_leaves_the_same_rows_votes_and_ranks(
    name: str, heavy: bool, loads: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if heavy:
        monkeypatch.setattr(database, "plan_layout", lambda program, _=(): general(program, (0,)))
        monkeypatch.setattr(Heavy, "rows", lambda self, hashes: hashes & np.uint64(64) > 0)
    text, relations = PROGRAMS[name]
    program = deltafix.Program.parse(text)
    schemas = deltafix.connect(program).schemas.values()
    first, *more = random_edits(Random(f"{name} {heavy}"), relations, 12, 4)
    found = {}
    for way, least in (("load", 0), ("epoch", 1 << 40)):
        monkeypatch.setattr(database, "LOAD", least)
        with ShardedDatabase(program, shards=3, state=tmp_path / way, executor="driver") as db:
            delta = db.apply(Delta.of(edits(program, first), schemas))
            work = replace(db.work, loads=0, bytes=0)  # engines are made for an epoch
            left = [
                {name: sorted(one.db.rows(name)) for name in db.layout.types if one.db.count(name)}
                for one in (shard_of_files(db, number) for number in range(3))
            ]
            later = [db.apply(Delta.of(edits(program, epoch), schemas)) for epoch in more]
            check_engines(db)
        found[way] = (delta, left, work, later)
    for load, epoch in zip(found["load"], found["epoch"], strict=True):
        assert load == epoch
    assert found["load"][2].messages
    assert loads["loaded"] in (1, 2), "perhaps of epoch 0, and the load itself"
    assert not loads["refused"]


def shard_of_files(db: ShardedDatabase, number: int) -> resident.Shard:
    resident.forget(db._spec.folder)
    return resident._stand_on(db._spec, number, db._manifest.files[number])[0].shard
