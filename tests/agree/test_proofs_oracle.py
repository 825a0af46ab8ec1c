"""oracle_*: proofs, suggestions and causes on random programs, against recomputation.

Sees: a proof that does not derive its fact, or derives it from itself, or by another rule; one that
is not lowest; a leaf that is not given or not needed; a suggestion or a cause that has no such
effect, or is larger than needed; a name that only the engine uses.
"""

from __future__ import annotations

import json
from itertools import combinations
from random import Random

from tests.generators.proof_programs import (
    ALL,
    FOLDS,
    FUNCTORS,
    POSITIVE,
    copy_of,
    edited,
    joining,
    loaded,
    random_values,
    tall,
)
from tests.judges.oracle import evaluate
from tests.judges.oracle_rules import Facts
from tests.judges.proof_checker import INTERNAL, Checker
from tests.support.amount import cases

import deltafix
from deltafix.facts.schema import show_row
from deltafix.kernel.jit import JIT_DISABLED

PROGRAMS = 3 if JIT_DISABLED else cases(15)


def judge(db: deltafix.Database, inputs: Facts) -> Checker:
    return Checker.of(db, inputs, FUNCTORS, FOLDS)


def told(db: deltafix.Database, inputs: Facts) -> str:
    """What a failure needs to be seen again."""
    return f"{db.program.source}\n{inputs}"


def sample(rng: Random, facts: list, count: int) -> list:
    return rng.sample(facts, min(count, len(facts)))


def rows_of(db: deltafix.Database) -> list[tuple[str, tuple]]:
    return [(name, row) for name in db.schemas for row in db.rows(name)]


def test_oracle_every_step_of_every_proof_follows_by_the_rule_it_cites(judged):
    rng = Random("every kind")
    asked = derived = several = 0
    for _ in range(3 * PROGRAMS):
        db, inputs = loaded(rng, ALL)
        with db:
            checker = judge(db, inputs)
            for name, row in sample(rng, rows_of(db), 12):
                proof = db.why(name, row)
                try:
                    checker.check(proof)
                    assert proof.is_smallest
                    checker.check_least(proof)
                    others = db.why(name, row, all=True, limit=3)
                    assert others, "no proof among all"
                    for other in others:
                        checker.check(other)
                        assert other.height >= proof.height, "lower than the lowest"
                    for work in (1, 40):
                        hurried = db.why(name, row, max_work=work)
                        checker.check(hurried)
                        assert hurried.height >= proof.height
                        assert hurried.height == proof.height or not hurried.is_smallest
                except AssertionError as failed:
                    message = f"{failed}\n{name}{row}\n{proof}\n{told(db, inputs)}"
                    raise AssertionError(message) from failed
                asked += 1
                judged["proofs replayed"] += 3 + len(others)
                derived += not proof.goal.is_given
                several += len(others) > 1
    assert asked > 10 * PROGRAMS
    assert derived > 5 * PROGRAMS
    assert several > PROGRAMS


def test_oracle_tall_proofs_are_lowest_or_say_that_they_may_not_be(judged):
    rng = Random("tall")
    heights = []
    for _ in range(PROGRAMS):
        db, inputs = tall(rng)
        with db:
            checker = judge(db, inputs)
            for name, row in sample(rng, rows_of(db), 8):
                for work in (None, 1, 30, 300):
                    proof = db.why(name, row, **({} if work is None else {"max_work": work}))
                    checker.check(proof)
                    least = checker.least(proof)
                    told_of = f"{name}{row} least {least}\n{proof}\n{told(db, inputs)}"
                    assert proof.is_smallest or work is not None, told_of
                    if least is not None:
                        assert proof.height >= least, told_of
                        assert proof.height == least or not proof.is_smallest, told_of
                    judged["proofs replayed"] += 1
                heights.append(proof.height)
    assert max(heights) >= 8


def test_oracle_a_proofs_leaves_alone_derive_the_fact(judged):
    rng = Random("proofs")
    asked = unique = 0
    for _ in range(PROGRAMS):
        db, inputs = loaded(rng, POSITIVE)
        with db:
            for name, row in sample(rng, rows_of(db), 8):
                proof = db.why(name, row)
                check_leaves(db, proof, name, row)
                asked += 1
                if len(db.why(name, row, all=True, limit=2)) == 1:
                    check_needed(db, inputs, proof, name, row)
                    unique += 1
    assert asked > 2 * PROGRAMS
    assert unique > PROGRAMS


def test_oracle_a_joined_row_has_a_lowest_proof_and_all_the_others(judged):
    rng = Random("joining")
    several = proposed = 0
    for _ in range(2 * PROGRAMS):
        db, inputs = joining(rng)
        with db:
            checker = judge(db, inputs)
            for name, row in sample(rng, rows_of(db), 8):
                proof = db.why(name, row)
                told_of = f"{name}{row}\n{proof}\n{told(db, inputs)}"
                try:
                    checker.check(proof)
                    assert proof.is_smallest
                    checker.check_least(proof)
                    others = db.why(name, row, all=True, limit=4)
                    for other in others:
                        checker.check(other)
                        check_leaves(db, other, name, row)
                    assert [other.height for other in others] == sorted(o.height for o in others)
                    assert others[0].height == proof.height
                    assert len(set(others)) == len(others)
                    for work in (1, 40):
                        hurried = db.why(name, row, max_work=work)
                        checker.check(hurried)
                        assert hurried.height == proof.height or not hurried.is_smallest
                except AssertionError as failed:
                    raise AssertionError(f"{failed}\n{told_of}") from failed
                judged["proofs replayed"] += 3 + len(others)
                several += len(others) > 1
                proposed += any(step.proposed for step in proof.steps)
    assert min(several, proposed) > PROGRAMS


def check_leaves(db: deltafix.Database, proof, name: str, row: tuple) -> None:
    """The leaves of a proof alone derive the row, or more than it where rows are joined."""
    leaves: Facts = {}
    for leaf in proof.leaves:
        leaves.setdefault(leaf.relation, set()).add(leaf.row)
    alone = evaluate(db.program, leaves, functors=FUNCTORS)[name]
    assert row in alone, f"{leaves} alone do not derive it"


def check_needed(db: deltafix.Database, inputs: Facts, proof, name: str, row: tuple) -> None:
    """Without a leaf of the only proof the row does not hold."""
    for leaf in proof.leaves:
        less = {k: set(v) for k, v in inputs.items()}
        less[leaf.relation].discard(leaf.row)
        assert row not in evaluate(db.program, less, functors=FUNCTORS)[name], f"without {leaf}"


def test_oracle_all_proofs_differ_and_come_lowest_first(judged):
    rng = Random("different proofs")
    several = 0
    for _ in range(PROGRAMS if JIT_DISABLED else max(15, PROGRAMS)):
        db, inputs = loaded(rng, POSITIVE)
        with db:
            checker = judge(db, inputs)
            for name, row in sample(rng, rows_of(db), 4):
                proofs = db.why(name, row, all=True, limit=6)
                assert proofs[0].height == checker.least(proofs[0])
                assert [p.height for p in proofs] == sorted(p.height for p in proofs)
                assert len(set(proofs)) == len(proofs)
                for proof in proofs:
                    checker.check(proof)
                judged["proofs replayed"] += len(proofs)
                several += len(proofs) > 1
    assert several > 0


def holds_after(db: deltafix.Database, inputs: Facts, edits, name: str, row: tuple) -> bool:
    """Whether a row holds in a second database with some edits of input rows."""
    changed = {k: set(v) for k, v in inputs.items()}
    for sign, relation, at in edits:
        rows = changed.setdefault(relation, set())
        (rows.add if sign > 0 else rows.discard)(at)
    with copy_of(db, changed) as again:
        return again.contains(name, row)


def shrunk(rng: Random, db: deltafix.Database, inputs: Facts) -> tuple[Facts, list]:
    """The input facts after some of them were deleted, and the rows that vanished with them."""
    left = {name: set(rows) for name, rows in inputs.items()}
    with db.transaction() as tx:
        for name, rows in left.items():
            for row in sample(rng, db.rows(name), 2):
                if row in rows:
                    tx.delete(name, [row])
                    rows.discard(row)
    removed = [(name, row) for name, part in tx.delta.items() for row in part.removed]
    return left, removed


def check_absence(db: deltafix.Database, found, data: dict, above: frozenset = frozenset()) -> None:
    """Each rule once, no row explained by itself, rivals that hold; and JSON says the same."""
    shown = found.show()
    assert (found.relation, found.row) not in above, shown
    assert len({one.text for one in found.attempts}) == len(found.attempts), shown
    replaced = found.is_given or any(one.derives for one in found.attempts)
    assert replaced == bool(found.rivals), shown
    if found.relation in db.schemas:  # an inline one is not kept
        rows = db.rows(found.relation)
        assert set(found.rivals) <= {show_row(found.relation, row) for row in rows}
    assert data["fact"] == found.fact
    assert (data.get("given", False), data.get("rivals", [])) == (
        found.is_given,
        list(found.rivals),
    )
    for one, told in zip(found.attempts, data["attempts"], strict=True):
        assert (told["rule"], told["text"], told["failed"]) == (one.rule, one.text, one.failed)
        assert (told["held"], told.get("derives", False)) == (list(one.held), one.derives)
        assert ("below" in told) == (one.below is not None)
        if one.below is not None:
            check_absence(db, one.below, told["below"], above | {(found.relation, found.row)})


def test_oracle_suggestions_work_and_nothing_of_them_is_to_spare(judged):
    rng = Random("suggestions")
    tried = 0
    for _ in range(PROGRAMS):
        db, inputs = loaded(rng, ALL)
        with db:
            # What a choice keeps within recursion rests on the order of edits: no copy has it.
            is_free = "tree" not in db.program.source
            inputs, vanished = shrunk(rng, db, inputs)
            absent = [(name, random_values(rng, db.schemas[name].types)) for name in db.schemas]
            for name, row in [*sample(rng, vanished, 4), *sample(rng, absent, 4)]:
                if row is None or db.contains(name, row):
                    continue
                found = db.why_not(name, row, limit=3, max_depth=4, max_edits=2, max_work=3000)
                assert not INTERNAL.search(found.show()), found.show()
                check_absence(db, found, json.loads(found.show("json")))
                for edits in found.suggestions:
                    assert 0 < len(edits) <= 2
                    if not is_free:
                        continue
                    parts = [p for n in range(len(edits)) for p in combinations(edits, n)]
                    for part in (edits, *parts):
                        worked = holds_after(db, inputs, part, name, row)
                        assert worked == (part == edits), f"{found}\n{part}\n{told(db, inputs)}"
                    tried += 1
                    judged["repairs applied"] += 1
            db.check_invariants()
    assert tried > PROGRAMS


def test_oracle_a_cause_alone_has_the_effect(judged):
    rng = Random("causes")
    explained = 0
    for _ in range(PROGRAMS):
        db, before = loaded(rng, ALL)
        with db:
            was = judge(db, before)
            now = {name: set(rows) for name, rows in before.items()}
            with db.transaction() as tx:
                for sign, name, row in edited(rng, db.program, now):
                    (tx.insert if sign > 0 else tx.delete)(name, [row])
            delta = tx.delta
            edits = {(s, n, r) for n in now for s, r in changes(before[n], now[n])}
            changed = [(n, s, row) for n, part in delta.items() for s, row in part.signed()]
            for name, sign, row in sample(rng, changed, 4):
                cause = delta.why(name, row)
                told_of = f"{cause}\n{edits}\n{told(db, before)}"
                assert cause.sign == sign
                assert set(cause.changes) <= edits, told_of
                assert not INTERNAL.search(cause.show()), told_of
                if "tree" not in db.program.source:
                    assert holds_after(db, before, cause.changes, name, row) == (sign > 0), told_of
                    assert holds_after(db, before, (), name, row) == (sign < 0), told_of
                    if sign > 0:
                        after = {n: set(rows) for n, rows in before.items()}
                        for one, relation, at in cause.changes:
                            (after[relation].add if one > 0 else after[relation].discard)(at)
                        with copy_of(db, after) as there:
                            judge(there, after).check(cause.proof)
                    else:
                        was.check(cause.proof)
                explained += 1
                judged["causes replayed"] += 1
            db.check_invariants()
    assert explained > PROGRAMS


def changes(before: set, after: set) -> list[tuple[int, tuple]]:
    return [*((1, row) for row in after - before), *((-1, row) for row in before - after)]


DOMAINS = ("x", "x, y", "y, y", "x, y, z", "(x, y), z", "z, (x, z), y")


def test_oracle_a_row_that_a_choice_drops_has_rivals_and_repairs_that_work(judged):
    rng = Random("several domains")
    asked = mended = 0
    for number in range(2 * PROGRAMS):
        domains = DOMAINS[number % len(DOMAINS)]
        db = deltafix.connect(f"""
            .decl i(x: number, y: number, z: number)
            .input i
            .decl g(x: number, y: number, z: number) choice-domain {domains}
            g(x, y, z) :- i(x, y, z).
        """)
        rows = {tuple(rng.randrange(3) for _ in "xyz") for _ in range(rng.randint(3, 9))}
        with db:
            with db.transaction() as tx:
                tx.insert("i", rows)
            kept = db.rows("g")
            for row in sample(rng, sorted(rows - set(kept)), 4):
                found = db.why_not("g", row)
                told_of = f"{domains}: {row} of {rows}, kept {kept}\n{found.show()}"
                assert found.rivals, told_of
                assert set(found.rivals) <= {show_row("g", one) for one in kept}, told_of
                for edits in found.suggestions:
                    assert holds_after(db, {"i": rows}, edits, "g", row), told_of
                    judged["repairs applied"] += 1
                asked += 1
                mended += bool(found.suggestions)  # it may take more edits than are tried
    assert asked > 2 * PROGRAMS
    assert mended > PROGRAMS
