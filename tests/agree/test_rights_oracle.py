"""Access rights against the naive evaluator: random models, random tuples, every question."""

from __future__ import annotations

import os
from random import Random

import pyarrow as pa
import pytest

import deltafix.rights
from deltafix.errors import RightsModelError
from deltafix.rights import Tuple
from random_rights import (
    IDS,
    dsl_of,
    every_tuple,
    goals,
    negation_depth,
    objects,
    random_model,
)
from rights_oracle import Oracle

EPOCHS = 4
CASES = int(os.environ.get("DELTAFIX_EXAMPLES", "4"))


def valid_model(random):
    """A random model that is one, in JSON."""
    while True:
        model = random_model(random)
        try:
            deltafix.rights.open(model).close()
        except RightsModelError:
            continue
        return model


def as_table(tuples):
    return pa.table(dict(zip(Tuple._fields, zip(*tuples, strict=True), strict=True)))


def edits(random, allowed, there):
    """Tuples to write and to delete, some of either no change."""
    size = random.choice((2, 4, 12)) if there else 16  # enough at first for something to follow
    written = random.sample(allowed, min(len(allowed), random.randint(size // 2, size)))
    public = [one for one in allowed if one[0].endswith(":*")]
    written += random.sample(public, min(len(public), 2)) if size > 4 else []
    gone = random.sample(sorted(there), min(len(there), random.randint(0, size // 2)))
    return written, [one for one in gone if one not in written]


def subjects(model, random):
    usersets = [f"{at}#{name}" for name, at in goals(model)]
    return [*objects(), "user:new", "user:*", "bot:*", *random.sample(usersets, 10)]


class Replica:
    """What a watcher knows: the view, from changes alone."""

    def __init__(self):
        self.rows = set()

    def take(self, delta):
        for one in delta.changes():
            row = (one.user, one.relation, one.object, one.excepted)
            assert (row in self.rows) == (one.sign < 0), one
            (self.rows.add if one.sign > 0 else self.rows.discard)(row)

    def has(self, user, relation, at):
        kind = user.split(":")[0]
        if (user, relation, at, False) in self.rows:
            return True
        everyone = (f"{kind}:*", relation, at, False) in self.rows
        return everyone and (user, relation, at, True) not in self.rows


def judge(model, tuples, opened, replica, random):
    oracle, (kept, searched) = Oracle(model, tuples), opened
    users = subjects(model, random)
    asked = [(user, name, at) for user in users for name, at in goals(model)]
    right = [oracle.holds(*one) for one in asked]
    truth = dict(zip(asked, right, strict=True))
    for rights in (kept, searched):
        assert rights.batch_check(asked) == right
        for user, name, at in random.sample(asked, 20):
            assert rights.check(user, name, at) == truth[user, name, at]
    for (user, name, at), holds in truth.items():
        if "#" not in user:
            assert replica.has(user, name, at) == holds, (user, name, at)
    listed(model, truth, kept, searched)
    in_context(model, tuples, random.choice(opened), random)
    for user, name, at in random.sample([one for one in asked if truth[one]], min(8, sum(right))):
        explained(model, oracle, kept, (user, name, at))
    lacking = [one for one in asked if not truth[one]]
    for question in random.sample(lacking, min(8, len(lacking))):
        refused(model, oracle, kept, question, random)
    return sum(right)


def listed(model, truth, kept, searched):
    relations = sorted({(name, at.split(":")[0]) for name, at in goals(model)})
    known = sorted({user for user, _, _ in truth})
    for name, kind in relations:
        places = [f"{kind}:{at}" for at in IDS[kind]]
        for user in known:
            right = [at for at in sorted(places) if truth[user, name, at]]
            assert kept.list_objects(user, name, kind) == right, (user, name, kind)
            assert searched.list_objects(user, name, kind) == right, (user, name, kind)
        for at in places:
            for users in ("user", "bot", "group", "group#g0"):
                found = kept.list_users(name, at, users)
                assert found == searched.list_users(name, at, users)
                of, _, within = users.partition("#")
                for one in [*IDS[of], *(["new"] if of == "user" else "")]:
                    user = f"{of}:{one}{'#' if within else ''}{within}"
                    if user in known:
                        assert found.has(user) == truth[user, name, at], (user, name, at, found)


def in_context(model, tuples, rights, random):
    """Some tuples more, for one question."""
    more = random.sample(every_tuple(model), 3)
    oracle = Oracle(model, [*tuples, *more])
    user = random.choice(subjects(model, random))
    asked = [(user, name, at) for name, at in goals(model)]
    right = [oracle.holds(*one) for one in asked]
    assert rights.batch_check(asked, contextual=more) == right
    name, at = random.choice([one[1:] for one in asked])
    kind = at.split(":")[0]
    found = rights.list_objects(user, name, kind, contextual=more)
    right = [f"{kind}:{one}" for one in IDS[kind] if oracle.holds(user, name, f"{kind}:{one}")]
    assert found == sorted(right)
    users = rights.list_users(name, at, "user", contextual=more)
    for one in [*IDS["user"], "new"]:
        assert users.has(f"user:{one}") == oracle.holds(f"user:{one}", name, at)


def explained(model, oracle, rights, question):
    user, name, at = question
    proof = rights.why(*question)
    assert (proof.goal.relation, *proof.goal.row) == (name, user, at)
    leaves = {(step.row[0], step.relation, step.row[1]) for step in proof.leaves}
    assert leaves <= oracle.tuples
    assert proof.height == oracle.heights(user, objects())[name, at]
    if negation_depth(model) < 2:  # then what is excluded needs tuples, and fewer of them help
        assert Oracle(model, leaves).holds(*question), proof
    assert all(place > above for above, s in enumerate(proof.steps) for place in s.premises)


def refused(model, oracle, rights, question, random):
    """What a refusal says is so: in each of its steps, and of the tuples that it misses."""
    root = rights.why_not(*question)
    user, name, at = question
    assert (root.user, root.relation, root.object) == (user, name, at)
    waiting, steps = [root], []
    while waiting:
        steps.append(waiting.pop())
        waiting += steps[-1].below
    known = {(one.relation, one.object) for one in steps if not one.is_known}
    for one in steps:
        if "(" not in one.relation:
            assert not oracle.holds(one.user, one.relation, one.object), root
        assert all(oracle.holds(user, part, one.object) for part in one.held if "(" not in part)
        assert not {tuple(tuple_) for tuple_ in one.missing} & oracle.tuples
        assert not one.is_known or (one.relation, one.object) in known
        assert not one.is_excluded or not one.below
    assert not any(one.is_cut for one in steps)
    # A tuple that is missing right here is one that would do, whatever else there is.
    if not root.held and root.missing:
        more = random.choice(root.missing)
        assert Oracle(model, oracle.tuples | {tuple(more)}).holds(*question), root
    short = rights.why_not(*question, limit=1)
    assert (short.missing, short.held) == (root.missing, root.held)
    assert all(one.is_cut or one.is_known for one in short.below)


FOUND = (106,)
"""Seeds that found a fault once."""


@pytest.mark.parametrize("seed", [*range(CASES), *FOUND])
def test_oracle_every_question_after_every_transaction_of_random_models(seed):
    random = Random(seed)
    model = valid_model(random)
    allowed = every_tuple(model)
    names = sorted({f"{at.split(':')[0]}#{name}" for name, at in goals(model)})
    kept = deltafix.rights.open(dsl_of(model), materialise=names)
    few = random.sample(names, random.randint(0, 2))
    searched = deltafix.rights.open(model, materialise=few)
    assert kept.model == searched.model
    replica, there, held, heard = Replica(), set(), 0, []
    kept.watch(names[0], heard.append)
    for _ in range(EPOCHS):
        written, gone = edits(random, allowed, there)
        heard.clear()
        before = set(there)
        for rights in (kept, searched):
            with rights.transaction() as tx:
                tx.write(written if rights is kept else as_table(written))
                tx.delete(gone)
            there = (before | set(written)) - set(gone)
            assert set(tx.delta.added) == there - before
            assert set(tx.delta.removed) == before - there
            if rights is kept:
                replica.take(tx.delta)
                told = [one.changes(names[0]) for one in heard]
                assert told == ([tx.delta.changes(names[0])] if tx.delta.changes(names[0]) else [])
        assert set(kept.tuples()) == there
        held += judge(model, there, (kept, searched), replica, random)
    kept.database.check_invariants()
    assert held > 0
    other = valid_model(random)
    gone = [one for one in there if one not in every_tuple(other)]
    names = sorted({f"{at.split(':')[0]}#{name}" for name, at in goals(other)})
    for rights, whole in ((kept, names), (searched, ())):
        with rights.transaction() as tx:
            tx.delete(gone)
            tx.change_model(other, materialise=whole)
        if rights is kept:
            replica.take(tx.delta)
            rights.database.check_invariants()
    judge(other, there - set(gone), (kept, searched), replica, random)
