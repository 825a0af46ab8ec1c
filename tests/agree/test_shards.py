"""Shards against one engine, row for row and epoch for epoch: the superstep function without Spark.

Sees: derivations found twice or nowhere, cycles that hold themselves up across shards, rows that
land in the wrong shard, state that files do not bring back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np
import pytest
from tests.agree.test_beyond import FUNCTORS, PROGRAMS
from tests.agree.test_reducers_in_rules import RECORDS, Ends
from tests.generators.strategies import FEATURES, REDUCERS, random_program, random_script
from tests.support.amount import cases

import deltafix
from deltafix.errors import ProgramError, TypeMismatchError
from deltafix.facts.delta import Delta
from deltafix.spark.hashing import Heavy
from deltafix.spark.shards import ShardedDatabase, database, resident
from deltafix.spark.shards import epoch as shards_epoch
from deltafix.spark.shards.core import prepare
from deltafix.spark.shards.files import read_journal
from deltafix.spark.shards.localize import localize
from deltafix.spark.shards.shard import Shard
from deltafix.store.folder import folder_at

RUNS = cases(2, per=20)
ACCESS = Path(__file__).parents[2] / "examples" / "access-control"
CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
ROOTED = """
.decl edge(x: symbol, y: symbol)
.decl root(r: symbol)
.decl reach(r: symbol, y: symbol)
.decl size(r: symbol, n: number)
reach(r, r) :- root(r).
reach(r, y) :- reach(r, x), edge(x, y), !root(y).
size(r, n) :- root(r), n = count : { reach(r, _) }.
size("none", 0).
"""
REACH = """
.decl edge(x: number, y: number)
.decl root(x: number)
.decl reach(x: number)
.decl dead(x: number)
.decl any()
reach(x) :- root(x).
reach(y) :- reach(x), edge(x, y).
dead(x) :- edge(x, _), !reach(x).
any() :- dead(_).
"""
SAME_GENERATION = """
.decl up(x: number, y: number)
.decl same(x: number, y: number)
same(x, y) :- up(x, p), up(y, p), x != y.
same(x, y) :- up(x, a), same(a, b), up(y, b).
"""


GUARDED = """
.decl up(x: number, n: number)
.decl stop(a: number, b: number, c: number)
.input up, stop
.output up
up(x, n + 1) :- up(x, n), !(!stop(x, n, n) ; stop(_, (n + 1) % 3, 3)), n < 6.
"""
"""What the negated group is asked for follows from the rows given to `up`, too."""

WORDS = """
.pragma "word-size" "32"
.decl pair(x: number, y: number)
.decl product(x: number, y: number)
.decl total(x: number, s: number)
.decl bits(x: number, f: float)
.decl grown(x: number)
product(x + y, x * y * 700000000) :- pair(x, y).
total(x, s) :- pair(x, _), s = sum y * 900000000 : { pair(x, y) }.
bits(x, as(y * 1000000, float)) :- pair(x, y).
grown(x) :- pair(x, _).
grown(x * 3) :- grown(x), x > 0, x < 2000000000.
"""


def edits(program: deltafix.Program, epoch: list[tuple[str, str, tuple]]) -> dict:
    net: dict[str, dict[tuple, int]] = {}
    for sign, name, row in epoch:
        rows = net.setdefault(name, {})
        rows[row] = rows.get(row, 0) + (1 if sign == "+" else -1)
    return {
        name: ([r for r, n in rows.items() if n > 0], [r for r, n in rows.items() if n < 0])
        for name, rows in net.items()
    }


def agree(
    program: deltafix.Program, script: list, shards: ShardedDatabase, one: deltafix.Database
) -> None:
    """Run a script on both; every epoch's delta is the same, also of shards made from files.

    So is the order of the strata, whose answer would come in any order: with more supersteps.
    """
    for number, epoch in enumerate(script):
        if number % 2:
            resident.forget(str(shards._folder))
        delta = Delta.of(edits(program, epoch), one.schemas.values())
        expected = one.apply(delta)
        found = shards.apply(delta)
        assert found == expected, (program.show(), epoch, shards.work)
        assert found.epoch == shards.epoch == expected.epoch
        # Lowest first, and each to its end: what a later one sends down would be done twice.
        strata = [int(one.split()[1]) for one in shards.work.actions if " " in one]
        sends = [one for one in shards.work.actions if one.startswith("send")]
        assert strata == sorted(strata), shards.work
        assert len(sends) == len(set(sends)), shards.work
    for name in one.schemas:
        assert shards.rows(name) == one.rows(name)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every shard leave images, as large ones do on Spark's workers; how many were taken up.

    Files are joined all the time, which is when images are left. Each is what its files make.
    """
    taken: list[int] = []
    take_up = resident.take_up

    def counted(about: Sequence[object], wanted: Sequence[str], shard: Shard) -> list[str]:
        files = take_up(about, wanted, shard)
        taken.append(len(files))
        if files:
            twin, made = (Shard(shard.layout, shard.number, shard.shards) for _ in range(2))
            assert take_up(about, wanted, twin) == files
            journals = [read_journal(folder_at(str(about[0])), name) for name in files]
            fresh = max(n for n, journal in enumerate(journals) if journal.fresh or not n)
            made.replay(journals[fresh:])
            assert twin.clock == made.clock
            for name in shard.layout.types:
                assert twin.db.rows(name) == made.db.rows(name)
        return files

    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    monkeypatch.setattr(resident, "_IMAGED", 0)
    monkeypatch.setattr(shards_epoch, "_COMPACT", 0)
    monkeypatch.setattr(resident, "take_up", counted)
    return taken


def random_edits(rng: Random, relations: dict[str, int], size: int, epochs: int) -> list:
    """Inserts, then mixed edits, over a few values a column."""
    present: dict[str, set[tuple]] = {name: set() for name in relations}
    script = []
    for number in range(epochs):
        epoch = []
        for _ in range(size * 3 if number == 0 else rng.choice([1, 2, size])):
            name = rng.choice([*relations])
            rows = sorted(present[name])
            if number and rows and rng.random() < 0.6:
                row = rng.choice(rows)
                present[name].discard(row)
                epoch.append(("-", name, row))
            else:
                row = tuple(rng.randrange(size) for _ in range(relations[name]))
                if row not in present[name]:
                    present[name].add(row)
                    epoch.append(("+", name, row))
        script.append(epoch)
    return script


@pytest.mark.parametrize(
    ("shards", "general", "executor"),
    [
        (2, False, "driver"),
        (4, False, "recompute"),
        (2, True, "recompute"),
        (2, True, "driver"),
        (4, True, "driver"),
        (3, "shared", "driver"),
        (4, "shared", "recompute"),
    ],
)
def test_agree_random_programs_in_shards(
    shards: int,
    general: bool | Literal["shared"],
    executor: Literal["driver", "recompute"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`general`: without the layouts that need no shuffle; `shared`: half of all keys are heavy."""
    if general:
        heavy = (0,) if general == "shared" else ()
        monkeypatch.setattr(
            database, "plan_layout", lambda program, _=(): localize(prepare(program), heavy)
        )
        monkeypatch.setattr(Heavy, "rows", lambda self, hashes: hashes & np.uint64(64) > 0)
    agree_random(Random(f"shards {shards} {general} {executor}"), shards, executor, tmp_path)


def agree_random(
    rng: Random, shards: int, executor: Literal["driver", "recompute"], tmp_path: Path
) -> None:
    """Random programs of every feature, and scripts for them."""
    run = 0
    while run < RUNS:
        # Every other one without functions: only such shards leave images.
        features = FEATURES if run % 2 else FEATURES - {"reducers"}
        program = random_program(rng, rng.choice([2, 3, 4]), features)
        if "ord(" in program.show():  # refused by name: a symbol's number is one engine's own
            continue
        used = {name: how for name, how in REDUCERS.items() if f"@@{name}" in program.show()}
        try:
            one = deltafix.connect(program, reducers=used)
        except ProgramError:
            continue
        if (
            len(one.instance.core.clauses) > 150
        ):  # cut for shards they are 5 to 15 times as many: minutes
            continue
        script = random_script(rng, program, epochs=5, edits=rng.choice([2, 5]))
        state = tmp_path / str(run)
        with ShardedDatabase(
            program, shards=shards, state=state, executor=executor, reducers=used
        ) as db:
            agree(program, script, db, one)
        run += 1


@pytest.mark.parametrize(
    "rules",
    [
        "r(x) :- x = 0, !(x = 1, y = 2, !r(y)).",
        "r(1). r(2). r(x) <= r(y) :- x <= y.",
        "r(1). r(x + 1) :- r(x), x < 4. r(x) <= r(y) :- y <= x.",
    ],
)
def test_agree_what_no_input_bounds_is_derived_before_there_are_inputs(
    rules: str, tmp_path: Path
) -> None:
    program = deltafix.Program.parse(f".decl in0(x: number) .input in0 .decl r(x: number) {rules}")
    one = deltafix.connect(program)
    assert prepare(program).bounded is one.plan.bounded is False
    with ShardedDatabase(program, shards=2, state=tmp_path) as db:
        agree(program, [[("+", "in0", (1,))]], db, one)


def test_agree_records_that_a_reducer_takes_and_gives(tmp_path: Path) -> None:
    program = deltafix.Program.parse(RECORDS)
    script = random_script(Random(9), program, epochs=8, edits=4)
    used = {"ends": Ends(2)}
    with (
        deltafix.connect(program, reducers=used) as one,
        ShardedDatabase(program, shards=3, state=tmp_path, reducers=used) as db,
    ):
        agree(program, script, db, one)


@pytest.mark.parametrize("name", PROGRAMS)
def test_agree_strata_in_one_place(name: str, tmp_path: Path) -> None:
    program = deltafix.Program.parse(PROGRAMS[name])
    functors = FUNCTORS if "@either" in PROGRAMS[name] else {}
    rng = Random(name)
    with (
        deltafix.connect(program, functors=functors) as one,
        ShardedDatabase(program, shards=3, state=tmp_path, functors=functors) as db,
    ):
        agree(program, random_script(rng, program, epochs=6, edits=4), db, one)


MAGIC = """
.pragma "magic-transform" "reach"
.type Pair = [a: number, b: symbol]
.decl edge(x: number, y: number) .decl ask(x: number) .decl name(x: number, s: symbol)
.decl reach(x: number, y: number) .decl told(p: Pair) .decl twice(x: number) inline
.decl same(x: number, y: number) eqrel
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
twice(x) :- edge(x, y), edge(y, x).
same(x, y) :- ask(x), reach(x, y), !twice(x).
told([y, s]) :- same(x, y), name(x, s).
.input edge, ask, name
.output told, same
"""


def test_agree_magic_inline_equivalence_and_records_together(tmp_path: Path) -> None:
    program = deltafix.Program.parse(MAGIC)
    rng = Random(21)
    with (
        deltafix.connect(program) as one,
        ShardedDatabase(program, shards=3, state=tmp_path) as db,
    ):
        assert db.layout.shuffles
        agree(program, random_script(rng, program, epochs=4, edits=20), db, one)
        assert db.rows("told")


@pytest.mark.parametrize(
    ("text", "relations", "shuffles"),
    [
        (CLOSURE, {"edge": 2}, False),
        (REACH, {"edge": 2, "root": 1}, True),
        (SAME_GENERATION, {"up": 2, "same": 2}, True),
        (GUARDED, {"up": 2, "stop": 3}, True),
    ],
)
def test_agree_known_programs_under_deletes(
    text: str, relations: dict[str, int], shuffles: bool, tmp_path: Path
) -> None:
    rng = Random(text)
    program = deltafix.Program.parse(text)
    script = random_edits(rng, relations, 7, 7)
    with ShardedDatabase(program, shards=3, state=tmp_path) as db:
        assert db.layout.shuffles is shuffles
        agree(program, script, db, deltafix.connect(program))
        if not shuffles:
            assert (db.work.supersteps, db.work.messages) == (1, 0)


@pytest.mark.parametrize(("shards", "general"), [(2, False), (3, True)])
def test_agree_random_programs_whose_shards_are_taken_up_from_images(
    shards: int, general: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: list[int]
) -> None:
    test_agree_random_programs_in_shards(shards, general, "driver", tmp_path, monkeypatch)
    assert sum(map(bool, images)) >= 2 * RUNS, "a shard is made from its image where there is one"


@pytest.mark.parametrize("text", [CLOSURE, REACH, SAME_GENERATION])
def test_agree_deletes_in_shards_taken_up_from_images(
    text: str, tmp_path: Path, images: list[int]
) -> None:
    relations = {"up": 2, "same": 2} if "up" in text else {"edge": 2}
    relations |= {"root": 1} if "root" in text else {}
    program = deltafix.Program.parse(text)
    script = random_edits(Random(f"images {text}"), relations, 7, 12)
    with ShardedDatabase(program, shards=3, state=tmp_path / "state") as db:
        agree(program, script, db, deltafix.connect(program))
    assert any(images)


def test_an_image_that_is_not_of_a_shards_files_or_damaged_is_not_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: list[int]
) -> None:
    monkeypatch.setattr(resident, "_IMAGED", 10**9)  # else who replays files leaves a new one
    edges = [(n, n + 1) for n in range(50)]
    with ShardedDatabase(REACH, shards=1, state=tmp_path / "state") as db:
        db.apply(Delta.of({"root": ([(0,)], []), "edge": (edges, [])}))
        db.compact()
        (told,) = (tmp_path / "local").glob("deltafix-*/told")

        def taken_up() -> bool:
            resident.forget(str(db._folder))
            del images[:]
            assert db.rows("reach") == [(n,) for n in range(51)]
            (files,) = images
            return bool(files)

        assert taken_up()
        (image,) = [path for path in told.parent.iterdir() if path != told]
        text, data = told.read_text(), image.read_bytes()
        for other in ("", "[]", "{}", text.replace("epoch-", "EPOCH-"), text.replace("clock", "c")):
            told.write_text(other)
            assert not taken_up()
        more = json.loads(text)
        told.write_text(json.dumps({**more, "clock": more["clock"] + 1}))
        assert not taken_up(), "the image is sealed under what is told of it"
        told.write_text(json.dumps({**more, "image": "../../state"}))
        assert not taken_up()
        told.write_text(text)
        for place in (0, 40, len(data) // 2, len(data) - 1):
            image.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            assert not taken_up()
        image.write_bytes(data[:-1])
        assert not taken_up()
        image.unlink()
        assert not taken_up()
        db.compact()  # leaves another
        assert taken_up()


def test_agree_words_of_32_bits(tmp_path: Path) -> None:
    program = deltafix.Program.parse(WORDS)
    script = random_edits(Random(WORDS), {"pair": 2}, 6, 5)
    with ShardedDatabase(program, shards=3, state=tmp_path) as db:
        agree(program, script, db, deltafix.connect(program))
        with pytest.raises(TypeMismatchError, match="to 2147483647"):
            db.apply(Delta.of({"pair": ([(2**31, 0)], [])}))


def test_agree_symbols_aggregates_and_facts_split_by_the_kept_column(tmp_path: Path) -> None:
    program = deltafix.Program.parse(ROOTED)
    one = deltafix.connect(program)
    with ShardedDatabase(program, shards=4, state=tmp_path) as db:
        assert not db.layout.shuffles
        assert db.rows("size") == one.rows("size") == [("none", 0)]  # who reads, has it derived
        for change in (
            {"root": ([("a",), ("b",)], []), "edge": ([("a", "c"), ("c", "d"), ("b", "a")], [])},
            {"edge": ([("d", "c")], [("a", "c")]), "size": ([("z", 7)], [])},
            {"root": ([], [("a",)]), "size": ([], [("z", 7), ("none", 0)])},
        ):
            delta = Delta.of(change, one.schemas.values())
            with one.transaction(missing="ignore") as tx:
                for name, (added, removed) in change.items():
                    tx.delete(name, removed)
                    tx.insert(name, added)
            assert db.apply(delta) == tx.delta
        assert db.rows("size") == one.rows("size") == [("b", 2), ("none", 0)]


def test_shards_a_cycle_across_shards_does_not_hold_itself_up(tmp_path: Path) -> None:
    ring = [(n, (n + 1) % 6) for n in range(6)]
    with ShardedDatabase(REACH, shards=4, state=tmp_path) as db:
        db.apply(Delta.of({"root": ([(9,)], []), "edge": ([*ring, (9, 0), (9, 3)], [])}))
        assert db.rows("reach") == [(n,) for n in (0, 1, 2, 3, 4, 5, 9)]
        gone = db.apply(Delta.of({"edge": ([], [(9, 0)])}))
        assert gone["reach"].removed == []
        gone = db.apply(Delta.of({"edge": ([], [(9, 3)])}))
        assert gone["reach"].removed == [(n,) for n in range(6)]
        assert db.rows("any") == [()]


def test_shards_work_follows_the_change_and_not_the_state(tmp_path: Path) -> None:
    chain = [(n, n + 1) for n in range(200)]
    with ShardedDatabase(REACH, shards=2, state=tmp_path) as db:
        db.apply(Delta.of({"root": ([(0,)], []), "edge": (chain, [])}))
        loaded = db.work.messages
        db.apply(Delta.of({"edge": ([(150, 170)], [])}))
        assert db.work.messages <= 4 < loaded
        db.apply(Delta.of({"edge": ([], [(190, 191)])}))
        assert db.work.messages <= 2 * 20
        assert db.rows("reach")[-1] == (190,)


def test_shards_take_one_step_for_rules_that_do_not_need_one_another(tmp_path: Path) -> None:
    """A step is a job of Spark: the strata of this epoch were 34 of them, one after another."""
    program = deltafix.Program.from_file(ACCESS / "access.dl")
    rows = {
        name: [tuple(line.split(",")[1:]) for line in text.read_text().splitlines()[1:]]
        for name in ("member", "inside", "grant", "deny")
        for text in (ACCESS / "in" / name).glob("*.csv")
    }
    with ShardedDatabase(program, shards=2, state=tmp_path) as db:
        db.apply(Delta.of({name: (found, []) for name, found in rows.items()}))
        gone = db.apply(Delta.of({"member": ([], [("bo", "compilers")])}))
        assert {row[0] for row in gone["can_read"].removed} == {"bo"}
        steps = db.work.actions
        # Recursive ones first; then users, four joins of three steps, rights and denials, the view.
        assert [one.split()[0] for one in steps if one[:4] == "send"] == ["send"] * 7
        assert [one for one in steps if one == "apply"] == ["apply"] == steps[-1:]
        assert len({one.split()[1] for one in steps[:-1]}) == 8


def test_shards_come_back_from_their_files(tmp_path: Path) -> None:
    rng = Random("files")
    program = deltafix.Program.parse(REACH)
    one = deltafix.connect(program)
    script = random_edits(rng, {"edge": 2, "root": 1}, 7, 8)
    for number, epoch in enumerate(script):
        with ShardedDatabase(program, shards=2, state=tmp_path) as db:
            assert db.epoch == number
            agree(program, [epoch], db, one)
            resident.forget(str(tmp_path))  # another worker would know nothing
            assert db.rows("reach") == one.rows("reach")
    # Nothing is written before the first changes, or where there are none.
    assert len(list(tmp_path.glob("epoch-*"))) == sum(map(bool, script)) < len(script)


ENDLESS = """
.decl lim(x: number) .decl n(x: number)
.input lim
n(0). n(x + 1) :- n(x), !lim(x).
"""


def test_shards_derive_nothing_before_inputs_that_bound_it(tmp_path: Path) -> None:
    schema = deltafix.connect(ENDLESS).schemas.values()
    for _ in range(2):  # a folder in which nothing was derived yet can be opened again
        with ShardedDatabase(ENDLESS, shards=2, state=tmp_path) as db:
            assert db.epoch == 0
    with ShardedDatabase(ENDLESS, shards=2, state=tmp_path) as db:
        found = db.apply(Delta.of({"lim": ([(3,)], [])}, schema))
        assert (found.epoch, found["n"].added) == (1, [(0,), (1,), (2,), (3,)])
        found = db.apply(Delta.of({"lim": ([(1,)], [])}, schema))
        assert found["n"].removed == [(2,), (3,)]
