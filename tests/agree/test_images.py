"""agree_*: a state opened from an image, one that was derived, and one that was never closed.

Three databases take the same edits. Between epochs the first is closed or killed and opened from
its image, the second is opened from a copy that has none, the third stays open. Sees: anything of
a state that an image leaves out or brings back wrong, and work that opening one should not do.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from tests.oracle import evaluate
from tests.random_extended import BEYOND
from tests.strategies import FEATURES, random_program, random_script, replay

import deltafix
from deltafix.engine.run import STRATEGIES
from deltafix.engine.store import relation_cell
from deltafix.errors import FunctorError, ProgramError
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED

SEEDS = 2 if JIT_DISABLED else 20


def connect(
    rng: Random, features: frozenset[str], path: Path
) -> tuple[deltafix.Database, dict[str, str]]:
    """A database over the next random program that the planner takes, and its options."""
    options = {"strategy": rng.choice(list(STRATEGIES)), "fsync": "never"}
    while True:
        program = random_program(rng, rng.choice([1, 2, 3, 4]), features)
        try:
            return deltafix.connect(program, path, **options), options
        except ProgramError as refused:
            assert {found.code for found in refused.diagnostics} == {"DF171"}
        except FunctorError:
            continue  # functions of Python: their states have no image


def contents(db: deltafix.Database) -> dict[str, object]:
    """What a state holds: its rows, and how many derivations each relation is counted to have."""
    db.settle()
    db.check_invariants()
    counted = {
        name: relation_cell(db._arena, number, at.R_DERIVATIONS)
        for name, number in db._linked.ids.items()
    }
    return {"epoch": db.epoch, "counted": counted, **{name: db.rows(name) for name in db.schemas}}


def opened(db: deltafix.Database, path: Path, how: str, **options: str) -> deltafix.Database:
    """The state of `path` opened again; killed: as it lies there while its writer lives."""
    if how == "closed":
        db.close()
        assert (path / "image").exists()
    else:
        copy = path.with_name(f"{path.name}k")
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("lock"))
        db.close()
        shutil.rmtree(path)
        copy.rename(path)
    imaged = (path / "image").exists()
    found = deltafix.connect(db.program, path, **options)
    assert found.recovered == ()
    if imaged and how == "closed":
        work = found.last_epoch
        assert (work.derivations, work.changed, work.probed) == (0, 0, 0)
    return found


def derived(path: Path, db: deltafix.Database, **options: str) -> deltafix.Database:
    """A copy of a state, opened without its image."""
    copy = path.with_name(f"{path.name}-{db.epoch}")
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("lock", "image"))
    return deltafix.connect(db.program, copy, **options)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("beyond", [False, True])
def test_agree_opened_derived_and_never_closed(seed: int, beyond: bool, tmp_path: Path) -> None:
    rng = Random(f"images {seed} {beyond}")
    features = FEATURES - {"reducers"} | (frozenset(BEYOND) if beyond else frozenset())
    image, options = connect(rng, features, tmp_path / "s")
    program = image.program
    stays = deltafix.connect(program, strategy=options["strategy"])
    stays.settle()
    image.settle()
    others: list[deltafix.Database] = [stays]
    script = random_script(rng, program, epochs=8, edits=rng.choice([1, 3, 6]))
    for epoch, inputs in zip(script, replay(program, script), strict=True):
        deltas = []
        for db in (image, *others):
            with db.transaction() as tx:
                for sign, name, row in epoch:
                    (tx.insert if sign == "+" else tx.delete)(name, [row])
            deltas.append(tx.delta)
        assert all(delta == deltas[0] for delta in deltas)
        turn = rng.choice(["go on", "compact", "closed", "killed"])
        if turn == "compact":
            image.compact()
        elif turn != "go on":
            image = opened(image, tmp_path / "s", turn, **options)
            if not beyond:  # a state that is derived again may choose other rows
                for old in others[1:]:
                    old.close()
                others[1:] = [derived(tmp_path / "s", image, **options)]
        expected = contents(image)
        assert all(contents(db) == expected for db in others)
        if not beyond:
            rows = evaluate(program, inputs)
            assert {name: set(image.rows(name)) for name in image.schemas} == rows
    for db in (image, *others):
        db.close()


GROWN = """
.decl path(x: symbol, y: symbol)
.decl link(x: symbol, y: symbol)
.decl far(x: symbol, n: number)
.input link
path(x, y) :- link(x, y).
path(x, z) :- path(x, y), link(y, z).
far(x, n) :- link(x, _), n = count : { path(x, _) }.
"""


def test_agree_states_that_outgrew_their_tables(tmp_path: Path) -> None:
    """Tables of every size move, and what they leave behind is in no image."""
    rng = Random(5)
    path = tmp_path / "s"
    db = deltafix.connect(GROWN, path, fsync="never")
    db.settle()
    sizes = []
    for count in (10, 200, 600, 20, 0):
        links = [(f"n{rng.randrange(40)}", f"{x} \u00e4" * 3) for x in range(count)]
        links += [(f"n{rng.randrange(40)}", f"n{rng.randrange(40)}") for _ in range(count // 4)]
        gone = db.rows("link")
        with db.transaction() as tx:
            tx.delete("link", gone)
            tx.insert("link", list(dict.fromkeys(links)))
        before = contents(db)
        db.close()
        sizes.append((path / "image").stat().st_size)
        db = deltafix.connect(GROWN, path, fsync="never")
        assert (contents(db), db.recovered) == (before, ())
        assert db.last_epoch.derivations == 0
    db.close()
    assert sizes[0] < 256 << 10
    assert sizes[2] < 4 << 20
