"""agree_*: rules edited among facts, in random programs with every kind of declaration.

Sees: what an edit of rules loses of a program: subsumptions, lattices, functors, types, what
components wrote out; supports, ranks, indexes and the state of strata in Python that an edit leaves
wrong for the next one; anything that an edit leaves behind when it is taken back. After every epoch
all relations are held against the oracle's recomputation of the program as it then is.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.generators.proof_programs import ALL, connect, dressed
from tests.generators.proof_programs import FUNCTORS as PROOFS_OF
from tests.generators.strategies import (
    FOLDS,
    REDUCERS,
    is_large,
    random_program,
    random_script,
    replay,
)
from tests.judges.oracle import evaluate
from tests.judges.proof_checker import Checker
from tests.support.amount import cases

import deltafix
from deltafix.engine.link import Writer
from deltafix.engine.run import STRATEGIES
from deltafix.engine.store import relation_cell
from deltafix.errors import BudgetError, FactError, ProgramError, UnknownRelationError
from deltafix.kernel import layout as at
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.plan import recognise
from deltafix.plan.build import lower, plan_core
from deltafix.plan.cache import Cache
from deltafix.plan.normalize import Core
from deltafix.plan.recognise import renamed, same_rule, with_names
from deltafix.plan.transition import is_same
from deltafix.rules.ast import Program, Rule
from deltafix.rules.check import typed
from deltafix.rules.show import show, show_order, show_rule

PROGRAMS = 3 if JIT_DISABLED else cases(8, per=20)
DECLARED = """
.functor worse(x: number, y: number): number
.type Cost <: number
.lattice Cost<> { Bottom -> -1, Lub -> @worse(_, _) }
.decl top(k: number, c: Cost<>)
.output top
top(k % 2, as(k, Cost)) :- first(k).
.comp Kept<T> {
    .decl all(x: T, y: T)
    .output all
    .decl least(x: T, y: T)
    .output least
    least(x, y) :- all(x, y).
    least(x, y) <= least(x, z) :- z < y.
}
.init kept = Kept<number>
kept.all(x, y) :- first(x), first(y), x != y.
.decl first(x: number) inline
"""
FUNCTORS = {"worse": max}


def _text(program: Program) -> str:
    """The declarations above over the first input relation with a number."""
    name = next((n for n in program.names("input") if "number" in program.column_types(n)), None)
    if name is None:
        return ""
    kinds = program.column_types(name)
    at = kinds.index("number")
    args = ", ".join("x" if place == at else "_" for place in range(len(kinds)))
    return f"{DECLARED}first(x) :- {name}({args})."


def _connected(rng: Random) -> tuple[Program, deltafix.Database]:
    """The next random program that the planner takes, and a database of it."""
    while True:
        program = random_program(rng, rng.choice((1, 2, 3)))
        program = deltafix.Program.parse(show(program) + _text(program))
        try:
            strategy = rng.choice(("auto", *STRATEGIES))
            db = deltafix.connect(program, strategy=strategy, functors=FUNCTORS, reducers=REDUCERS)
        except ProgramError as refused:
            assert {found.code for found in refused.diagnostics} == {"DF171"}
            continue
        if not is_large(db.plan):
            return program, _in_parts(rng, db)


def _started(
    rng: Random, program: Program, db: deltafix.Database
) -> tuple[Program, deltafix.Database]:
    """The program, and a database that begins with a part of its rules, or with all.

    Then rules that come need indexes which are not there, and may come before any row has.
    """
    if rng.random() < 0.4:
        return program, db
    inline = {one.name for one in program.relations if "inline" in one.qualifiers}
    some = [
        rule
        for rule in program.rules
        if not rule.body or rule.heads[0].relation in inline or rng.random() < 0.5
    ]
    part = deltafix.Program.parse(show(replace(program, rules=tuple(some), orders=())))
    strategy = db.strategy
    held = deltafix.connect(part, strategy=strategy, functors=FUNCTORS, reducers=REDUCERS)
    return program, _in_parts(rng, held)


def _with(program: Program, parts: set[str]) -> Program:
    """The program with those of its rules and subsumptions, and what it inlines."""
    inline = {one.name for one in program.relations if "inline" in one.qualifiers}
    rules = (r for r in program.rules if r.heads[0].relation in inline or show_rule(r) in parts)
    orders = (order for order in program.orders if show_order(order) in parts)
    return deltafix.Program.parse(show(replace(program, rules=tuple(rules), orders=tuple(orders))))


def _in_parts(rng: Random, db: deltafix.Database) -> deltafix.Database:
    """Late indexes are filled whole by the lookup that needs one, or part by part by several.

    Where a rule is evaluated from tables, rows may wait for one that is gone through instead.
    """
    cells = db.instance.arena.cells
    cells[at.PARTS_FROM] = rng.choice((0, 0, 5, 1 << 17))
    cells[at.SCAN_FROM] = rng.choice((0, 0, 1 << 14))
    cells[at.SCAN_SHARE] = rng.choice((0, 0, 3))
    return db


def _taken_back(db, parts, held, rows) -> None:
    """Edit rules and rows, and have the epoch fail when it has run: all is as before."""
    plan, program, memory = db.plan.show(), db.program, db.memory()

    def fail() -> None:
        raise BudgetError("at the last moment")

    db._before_commit = fail
    with pytest.raises(BudgetError), db.transaction() as tx:
        for part in parts:
            (tx.remove_rule if part in held else tx.add_rule)(part)
        for sign, name, row in rows:
            (tx.insert if sign == "+" else tx.delete)(name, [row])
    db._before_commit = None
    assert (db.plan.show(), db.program) == (plan, program)
    assert db.memory().keys() == memory.keys()
    db.check_invariants()
    _is_linked_as_new(db)


def _is_linked_as_new(db: deltafix.Database) -> None:
    """The program, of pieces of earlier ones, is the one that its plan alone is linked to."""
    tables = db.instance.linked.tables
    pieces, tables.pieces = tables.pieces, {}
    alone = Writer(db.plan, tables, db.instance.codes).written().program
    tables.pieces = pieces
    assert db.instance.linked.program.tolist() == alone.tolist()


def _is_planned_as_new(db: deltafix.Database) -> None:
    """The plan, of what passes made of earlier rules, is that of the program alone.

    But for the names of hidden relations, of which several may say the same, and for indexes that
    only earlier rules needed.
    """
    alone = renamed(lower(typed(db.program)), db.instance.core, Cache())
    assert {*alone.relations} == {*db.instance.core.relations}
    assert _said(alone) == _said(db.instance.core)
    assert is_same(plan_core(db.instance.core, db.instance.linked.tables.indexes()), db.plan)


def _said(core: Core) -> list[list[str]]:
    """A program's clauses and folds, hidden relations called by what they say."""
    words = recognise._said(core, Cache())
    one = with_names(core, lambda name: f"~{words[name]}" if name in words else name, Cache())
    clauses = [(recognise._form(c), c.rule, c.name, c.asks) for c in one.clauses]
    return [sorted(map(repr, found)) for found in (clauses, one.folds)]


def _explained(rng: Random, delta, was: Program, now: Program, rows: dict) -> None:
    """Ask why rows came and went: the rules and rows named alone do it, and the proof shows how.

    `was` and `rows` are the program and the given rows before.
    """
    changed = [(name, sign, row) for name, part in delta.items() for sign, row in part.signed()]
    for name, sign, row in rng.sample(changed, min(len(changed), 2)):
        cause = delta.why(name, row)
        assert (cause.sign, cause.fact) == (sign, f"{cause.proof.goal.fact}")
        rules = list(was.rules)
        orders = list(was.orders)
        for one, text in cause.rules:
            for said, shown, more in (
                (rules, show_rule, now.rules),
                (orders, show_order, now.orders),
            ):
                if one > 0:
                    said += [part for part in more if shown(replace(part, name="")) == text]
                else:
                    said[:] = [part for part in said if shown(replace(part, name="")) != text]
        program = replace(was, rules=tuple(rules), orders=tuple(orders))
        after = {relation: set(found) for relation, found in rows.items()}
        for one, relation, values in cause.changes:
            there = after.setdefault(relation, set())
            (there.add if one > 0 else there.discard)(values)
        held = evaluate(program, after, functors=FUNCTORS, reducers=FOLDS)[name]
        assert (row in held) == (sign > 0), cause
        state = (program, after) if sign > 0 else (was, rows)
        with deltafix.connect(state[0], functors=FUNCTORS, reducers=REDUCERS) as again:
            with again.transaction() as tx:
                for relation, found in state[1].items():
                    tx.insert(relation, sorted(found))
            Checker.of(again, state[1], FUNCTORS, FOLDS).check(cause.proof)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_oracle_rules_edited_among_facts_equal_recomputation(seed: int) -> None:
    rng, own = Random(f"rules {seed}"), Random(f"programs {seed}")
    program, db = _connected(rng)
    program, db = _started(rng, program, db)
    inline = {one.name for one in program.relations if "inline" in one.qualifiers}
    script = random_script(rng, program, epochs=8, edits=4)
    kept: list[Rule] = []
    for rule in program.rules:
        if rule.heads[0].relation not in inline and not any(same_rule(rule, one) for one in kept):
            kept.append(rule)
    parts = [*map(show_rule, kept), *map(show_order, program.orders)]
    held = {*map(show_rule, db.program.rules), *map(show_order, db.program.orders)} & set(parts)
    changed = 0
    was, held_rows = db.program, dict[str, set[tuple]]()
    with db:
        for epoch, inputs in zip(script, replay(program, script), strict=True):
            before = {name: set(db.rows(name)) for name in db.schemas}
            if rng.random() < 0.3:
                _taken_back(db, rng.sample(parts, min(len(parts), 2)), held, epoch)
                assert {name: set(db.rows(name)) for name in db.schemas} == before
            with db.transaction() as tx:
                edits = rng.sample(parts, min(len(parts), rng.choice((0, 1, 2))))
                if edits and own.random() < 0.3:
                    tx.change_program(_with(program, held ^ set(edits)))
                else:
                    for part in edits:
                        (tx.remove_rule if part in held else tx.add_rule)(part)
                for sign, name, row in epoch:
                    (tx.insert if sign == "+" else tx.delete)(name, [row])
                if edits and rng.random() < 0.5:  # what is there already is not added again
                    tx.add_rule(next(iter(held)))
            held ^= set(edits)
            changed += bool(edits)
            now = db.program
            assert {*map(show_rule, now.rules), *map(show_order, now.orders)} >= held
            expected = evaluate(now, inputs, functors=FUNCTORS, reducers=FOLDS)
            for name in db.schemas:
                assert set(db.rows(name)) == expected[name], name
                assert set(tx.delta[name].added) == expected[name] - before[name]
                assert set(tx.delta[name].removed) == before[name] - expected[name]
            db.check_invariants()
            _is_linked_as_new(db)
            _is_planned_as_new(db)
            if edits and rng.random() < 0.3:
                _explained(rng, tx.delta, was, now, held_rows)
                db.check_invariants()
            was, held_rows = now, inputs
    assert changed


MOVING = """
.decl e(x: number, y: number)
.decl near(k: number, v: number)
.decl dist(k: number, v: number <min>)
.decl span(k: number, lo: number <min>, hi: number <max>)
.decl one(k: number, v: number) choice-domain k
.decl same(x: number, y: number) eqrel
.decl ok(x: number)
.decl odd(x: number)
.decl path(x: number, y: number)
.decl total(n: number)
.input e, near, dist, span, one, same, ok, path
.output near, dist, span, one, same, ok, odd, path, total
near(y, v + 1) :- near(x, v), v < 5, e(x, y).
near(k, v) <= near(k, w) :- w < v.
dist(y, d + y) :- dist(x, d), e(x, y), d < 9.
dist(y, d) :- near(y, d).
span(k, v, v) :- e(k, v).
span(l, v, w) :- span(k, v, w), e(k, l).
one(k, v) :- e(k, v).
same(x, y) :- e(x, y).
ok(x) :- e(x, _), !odd(x).
odd(x) :- e(x, y), !ok(y).
path(x, y) :- e(x, y).
path(x, z) :- path(x, y), e(y, z).
e(x, y) :- path(x, y), x = 3.
total(n) :- n = sum x + y : path(x, y).
total(n) :- n = count : near(_, _).
"""
"""Rules whose edits move relations, with the rows given to them, from kernel to Python and back."""


def is_plain(db: deltafix.Database, name: str) -> bool:
    """Whether a relation lies in a stratum without recursion that the kernel computes."""
    stages = (stage for stage in db.plan.stages if name in stage.relations)
    return all(stage.outside is None and not stage.recursive for stage in stages)


def counted(db: deltafix.Database, name: str) -> int:
    """How many derivations the kernel has counted for the rows of a relation."""
    return relation_cell(db.instance.arena, db.instance.linked.ids[name], at.R_DERIVATIONS)


def _dressed(rng: Random) -> deltafix.Database:
    """A random program with all that a program can have."""
    features = ALL - {"capped", "choosing"}  # their rows depend on how they came to be
    while True:
        program = random_program(rng, rng.choice((2, 3)), features)
        try:
            return connect(dressed(rng, program, features))
        except ProgramError:
            continue


@pytest.mark.parametrize("seed", range(2 * PROGRAMS))
def test_agree_edited_and_built_again(seed: int) -> None:
    """Also demand, inlining, instances, and strata that Python computes.

    Relations come and go with their rules there, and move from the kernel to Python and back. Of
    some rows it is asked why: each step of the proof must follow, and no lower one may be there.
    """
    rng = Random(f"rules beyond {seed}")
    strategy = rng.choice(("auto", *STRATEGIES))
    edited = deltafix.connect(MOVING, strategy=strategy) if seed % 2 else _dressed(rng)
    edited.instance.arena.cells[at.LOOKS] = rng.choice([0, 1, 1000])
    edited.settle()
    program = edited.program
    inline = {one.name for one in program.relations if "inline" in one.qualifiers}
    parts = [show_rule(one) for one in program.rules if one.heads[0].relation not in inline]
    parts = list(dict.fromkeys([*parts, *map(show_order, program.orders)]))
    held, given = set(parts), dict[str, set[tuple]]()
    changed = asked = 0
    for epoch in random_script(rng, program, epochs=12, edits=4):
        before = {name: set(edited.rows(name)) for name in edited.schemas}
        edits = rng.sample(parts, min(len(parts), rng.choice((0, 1, 1, 2))))
        rows = [one for one in epoch if one[1] in edited.schemas]
        try:
            with edited.transaction(missing="ignore") as tx:
                for part in edits:
                    (tx.remove_rule if part in held else tx.add_rule)(part)
                for sign, name, row in rows:
                    (tx.insert if sign == "+" else tx.delete)(name, [row])
        except (FactError, ProgramError, UnknownRelationError):
            assert {name: set(edited.rows(name)) for name in edited.schemas} == before
            edited.check_invariants()
            continue
        held ^= set(edits)
        changed += bool(edits)
        for sign, name, row in rows:
            there = given.setdefault(name, set())
            (there.add if sign == "+" else there.discard)(row)
        edited.check_invariants()
        _is_planned_as_new(edited)
        moved = [(name, sign, row) for name, one in tx.delta.items() for sign, row in one.signed()]
        for name, sign, row in rng.sample(moved, min(len(moved), rng.random() < 0.15)):
            assert tx.delta.why(name, row).sign == sign
        for name in before.keys() - edited.schemas.keys():  # it went with its rules
            assert (tx.delta[name].added, set(tx.delta[name].removed)) == ([], before[name])
        with connect(show(edited.program)) as again:
            with again.transaction() as tx_again:
                for name, found in given.items():
                    tx_again.insert(name, sorted(found))
            for name in again.schemas:
                now = set(edited.rows(name))
                assert now == set(again.rows(name)), name
                assert set(tx.delta[name].added) == now - before.get(name, set())
                assert set(tx.delta[name].removed) == before.get(name, set()) - now
                if is_plain(edited, name):
                    assert counted(edited, name) == counted(again, name), name
            assert again.schemas.keys() == edited.schemas.keys()
            there = [(name, row) for name in edited.schemas for row in edited.rows(name)]
            checker = Checker.of(edited, given, PROOFS_OF, FOLDS)
            for name, row in rng.sample(there, min(len(there), 4)):
                proof = edited.why(name, row)
                assert (proof.goal.relation, proof.goal.row) == (name, row)
                if not seed % 2:
                    checker.check(proof)
                    assert checker.least(proof) in (None, proof.height)
                asked += not proof.goal.is_given
    edited.close()
    assert changed
    assert asked or not seed % 2  # some random programs derive nothing
