"""oracle_*: proofs, suggestions and causes on random programs, against recomputation.

Sees: a proof that does not derive its fact, one that is not lowest, a leaf that is not needed, a
suggestion or a cause that has no such effect.
"""

from __future__ import annotations

from random import Random

from tests.oracle import evaluate
from tests.oracle_rules import Case, World
from tests.oracle_scopes import cases_of
from tests.strategies import CORE, random_program, random_script, replay

import deltafix
from deltafix.errors import ProgramError
from deltafix.kernel.jit import JIT_DISABLED

POSITIVE = CORE - {"aggregates", "negation", "groups"}
PROGRAMS = 3 if JIT_DISABLED else 40


def loaded(rng: Random, features: frozenset[str]) -> tuple[deltafix.Database, dict]:
    """A database over a random program, after a random script, and its input facts."""
    while True:
        try:
            db = deltafix.connect(random_program(rng, rng.choice([2, 3, 4]), features))
        except ProgramError:
            continue
        script = random_script(rng, db.program, epochs=3, edits=5)
        *_, inputs = replay(db.program, script)
        for epoch in script:
            with db.transaction() as tx:
                for sign, name, row in epoch:
                    (tx.insert if sign == "+" else tx.delete)(name, [row])
        return db, inputs


def heights(program, inputs) -> dict[tuple[str, tuple], int]:
    """The least height of every fact, by rounds: 0 for given rows and facts of the text."""
    world = World(program, {}, {})
    facts = {r.name: set(inputs.get(r.name, ())) for r in program.relations}
    for rule in program.rules:
        if rule.is_fact:
            for name, row in Case(world, rule, ()).derive(facts):
                facts[name].add(row)
    found = {(name, row): 0 for name, rows in facts.items() for row in rows}
    cases = [Case(world, rule, parts) for rule in program.rules for parts in cases_of(rule.body)]
    for height in range(1, 1000):
        new = {fact for case in cases for fact in case.derive(facts) if fact not in found}
        if not new:
            return found
        for name, row in new:
            found[name, row] = height
            facts[name].add(row)
    raise AssertionError("no fixpoint")


def steps_hold(program, proof) -> None:
    """Each step follows by its rule from its premises alone, which stand behind it."""
    world = World(program, {}, {})
    for place, step in enumerate(proof.steps):
        assert all(premise > place for premise in step.premises)
        if step.is_given:
            continue
        rule = program.rules[step.rule]
        facts = {r.name: set() for r in program.relations}
        for premise in step.premises:
            facts[proof.steps[premise].relation].add(proof.steps[premise].row)
        heads = {h for parts in cases_of(rule.body) for h in Case(world, rule, parts).derive(facts)}
        assert (step.relation, step.row) in heads


def test_oracle_a_proof_is_lowest_and_its_leaves_alone_derive_the_fact():
    rng = Random("proofs")
    asked = unique = 0
    for _ in range(PROGRAMS):
        db, inputs = loaded(rng, POSITIVE)
        with db:
            expected = heights(db.program, inputs)
            facts = rng.sample(sorted(expected), min(8, len(expected)))
            for name, row in facts:
                proof = db.why(name, row)
                assert proof.is_smallest
                assert proof.height == expected[name, row], db.program.show()
                steps_hold(db.program, proof)
                leaves: dict = {}
                for leaf in proof.leaves:
                    leaves.setdefault(leaf.relation, set()).add(leaf.row)
                assert row in evaluate(db.program, leaves)[name]
                asked += 1
                if len(db.why(name, row, all=True, limit=2)) == 1:
                    for leaf in proof.leaves:
                        less = {k: set(v) for k, v in inputs.items()}
                        less[leaf.relation].discard(leaf.row)
                        assert row not in evaluate(db.program, less)[name]
                        unique += 1
    assert asked > 2 * PROGRAMS
    assert unique > PROGRAMS


def test_oracle_all_proofs_differ_and_hold():
    rng = Random("all proofs")
    several = 0
    for _ in range(PROGRAMS // 2):
        db, inputs = loaded(rng, POSITIVE)
        with db:
            expected = heights(db.program, inputs)
            for name, row in rng.sample(sorted(expected), min(4, len(expected))):
                proofs = db.why(name, row, all=True, limit=6)
                assert proofs[0].height == expected[name, row]
                assert [p.height for p in proofs] == sorted(p.height for p in proofs)
                assert len(set(proofs)) == len(proofs)
                for proof in proofs:
                    steps_hold(db.program, proof)
                several += len(proofs) > 1
    assert several > 0


def test_oracle_suggestions_work_and_nothing_of_them_is_to_spare():
    rng = Random("suggestions")
    tried = 0
    for _ in range(PROGRAMS):
        db, inputs = loaded(rng, CORE)
        with db:
            derived = [name for name in db.schemas if name not in inputs]
            for name in derived * 3:
                row = tuple(
                    rng.choice("abcd") if kind == "symbol" else rng.randrange(5)
                    for kind in db.schemas[name].types
                )
                if db.contains(name, row):
                    continue
                found = db.why_not(name, row, limit=3, max_edits=2, max_work=3000)
                rules = [r for r in db.program.rules for h in r.heads if h.relation == name]
                assert len(found.attempts) >= len(rules)
                for edits in found.suggestions:
                    for kept in (edits, *([e for e in edits if e != out] for out in edits)):
                        changed = {k: set(v) for k, v in inputs.items()}
                        for sign, relation, edited in kept:
                            rows = changed.setdefault(relation, set())
                            (rows.add if sign > 0 else rows.discard)(edited)
                        holds = row in evaluate(db.program, changed)[name]
                        assert holds == (len(kept) == len(edits)), db.program.show()
                    tried += 1
            db.check_invariants()
    assert tried > PROGRAMS // 4


def test_oracle_a_cause_alone_has_the_effect():
    rng = Random("causes")
    explained = 0
    for _ in range(PROGRAMS):
        db, before = loaded(rng, CORE)
        with db:
            names = list(before)
            with db.transaction(missing="ignore") as tx:
                for name in names:
                    rows = sorted(before[name])
                    tx.delete(name, rng.sample(rows, min(2, len(rows))))
                    new = tuple(
                        rng.choice("abcd") if kind == "symbol" else rng.randrange(5)
                        for kind in db.schemas[name].types
                    )
                    tx.insert(name, [new])
            delta = tx.delta
            changed = [(name, s, row) for name, part in delta.items() for s, row in part.signed()]
            for name, sign, row in rng.sample(changed, min(4, len(changed))):
                cause = delta.why(name, row)
                after = {k: set(v) for k, v in before.items()}
                for what, relation, edited in cause.changes:
                    (after[relation].add if what > 0 else after[relation].discard)(edited)
                assert (row in evaluate(db.program, after)[name]) == (sign > 0), db.program.show()
                assert cause.sign == sign
                explained += 1
            db.check_invariants()
    assert explained > PROGRAMS
