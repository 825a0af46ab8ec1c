"""agree_*: a state opened from an image, one that was derived, and one that was never closed.

Three databases take the same edits, of rows and of rules. Between epochs the first is closed or
killed and opened from its image, the second is opened from a copy that has none, the third stays
open. Sees: anything of a state that an image leaves out or brings back wrong, and work that opening
one should not do.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from tests.generators.random_extended import BEYOND
from tests.generators.strategies import FEATURES, is_large, random_program, random_script
from tests.judges.oracle import evaluate
from tests.support.amount import cases

import deltafix
from deltafix.engine.run import STRATEGIES
from deltafix.engine.store import relation_cell
from deltafix.errors import FactError, FunctorError, ProgramError, UnknownRelationError
from deltafix.facts.delta import Delta
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.rules.ast import Program
from deltafix.rules.show import show_order, show_rule

SEEDS = 2 if JIT_DISABLED else cases(4, per=20)


def connect(
    rng: Random, features: frozenset[str], path: Path
) -> tuple[deltafix.Database, dict[str, str]]:
    """A database over the next random program that the planner takes, and its options."""
    options = {"strategy": rng.choice(list(STRATEGIES)), "fsync": "never"}
    while True:
        program = random_program(rng, rng.choice([1, 2, 3, 4]), features)
        try:
            db = deltafix.connect(program, path, **options)
        except ProgramError as refused:
            assert {found.code for found in refused.diagnostics} == {"DF171"}
            continue
        except FunctorError:
            continue  # functions of Python: their states have no image
        if not is_large(db.plan):
            return db, options
        db.close()
        shutil.rmtree(path)


def contents(db: deltafix.Database) -> dict[str, object]:
    """What a state holds: its rows, and how many derivations each relation is counted to have."""
    db.settle()
    db.check_invariants()
    python = {name for one in db.plan.stages if one.outside is not None for name in one.relations}
    counted = {
        name: relation_cell(db.instance.arena, db.instance.linked.ids[name], at.R_DERIVATIONS)
        for name in db.schemas  # hidden relations have other names where rules were edited
        if name not in python  # where nothing counts, but may have before an edit
    }
    return {"epoch": db.epoch, "counted": counted, **{name: db.rows(name) for name in db.schemas}}


def opened(
    db: deltafix.Database, path: Path, how: str, by: Program, **options: str
) -> deltafix.Database:
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
    found = deltafix.connect(by, path, **options)
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


def parts_of(program: Program) -> list[str]:
    """The rules that can be taken out and put back, as text, each once."""
    inline = {one.name for one in program.relations if "inline" in one.qualifiers}
    rules = [show_rule(one) for one in program.rules if one.heads[0].relation not in inline]
    return list(dict.fromkeys([*rules, *map(show_order, program.orders)]))


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("beyond", [False, True])
def test_agree_opened_derived_and_never_closed(seed: int, beyond: bool, tmp_path: Path) -> None:
    rng = Random(f"images {seed} {beyond}")
    features = FEATURES - {"reducers"} | (frozenset(BEYOND) if beyond else frozenset())
    image, options = connect(rng, features, tmp_path / "s")
    program = base = image.program
    stays = deltafix.connect(program, strategy=options["strategy"])
    stays.settle()
    image.settle()
    others: list[deltafix.Database] = [stays]
    parts = parts_of(program)
    held, given = set(parts), dict[str, set[tuple]]()
    for epoch in random_script(rng, program, epochs=10, edits=rng.choice([1, 3, 6])):
        turned = rng.sample(parts, min(len(parts), rng.choice([0, 0, 1, 2])))
        deltas = []
        for db in (image, *others):
            try:
                with db.transaction(missing="ignore") as tx:
                    for part in turned:
                        (tx.remove_rule if part in held else tx.add_rule)(part)
                    rows = [one for one in epoch if one[1] in db.schemas]
                    for sign, name, row in rows:
                        (tx.insert if sign == "+" else tx.delete)(name, [row])
            except (FactError, ProgramError, UnknownRelationError) as refused:
                deltas.append(type(refused))
            else:
                deltas.append(tx.delta)
        assert all(delta == deltas[0] for delta in deltas)
        if not isinstance(deltas[0], Delta):
            continue
        held ^= set(turned)
        for sign, name, row in rows:
            there = given.setdefault(name, set())
            (there.add if sign == "+" else there.discard)(row)
        turn = rng.choice(["go on", "compact", "closed", "killed"])
        if turn == "compact":
            rng.choice((image, stays)).compact()
        elif turn != "go on":
            base = rng.choice((image.program, base))  # with either of which it has the edits
            image = opened(image, tmp_path / "s", turn, base, **options)
            if not beyond:  # a state that is derived again may choose other rows
                for old in others[1:]:
                    old.close()
                others[1:] = [derived(tmp_path / "s", image, **options)]
        expected = contents(image)
        assert all(contents(db) == expected for db in others)
        if not beyond:
            now = evaluate(image.program, given)
            assert {name: set(image.rows(name)) for name in image.schemas} == {
                name: now[name] for name in image.schemas
            }
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
