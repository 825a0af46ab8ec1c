"""Access rights against the naive evaluator: random models, random tuples, every question.

Half of the models have conditions; each state is asked in a context, and what rests on a condition
that is open in it has no answer, from whatever it is kept.
"""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa
import pytest
from tests.generators.random_rights import (
    CONTEXTS,
    IDS,
    conditional,
    dsl_of,
    every_tuple,
    goals,
    negation_depth,
    objects,
    random_model,
)
from tests.judges.rights_oracle import Oracle, verdict
from tests.support.amount import cases

import deltafix.rights
from deltafix.errors import RightsContextError, RightsModelError, RightsParameterError
from deltafix.rights import Tuple

EPOCHS = 4
CASES = cases(3)


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
    names = ("user", "relation", "object", "condition", "context")
    rows = [(*one, None, None)[:5] for one in tuples]
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))


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
            row = (one.user, one.relation, one.object, one.excepted, one.possible)
            assert (row in self.rows) == (one.sign < 0), one
            (self.rows.add if one.sign > 0 else self.rows.discard)(row)

    def has(self, user, relation, at, possible):
        kind = user.split(":")[0]
        if (user, relation, at, False, possible) in self.rows:
            return True
        everyone = (f"{kind}:*", relation, at, False, possible) in self.rows
        return everyone and (user, relation, at, True, possible) not in self.rows


def refused(context, ask, *question):
    """The question has no answer in this context: parameters are missing, or one is none."""
    with pytest.raises(RightsContextError) as error:
        ask(*question, context=context)
    if context.get("flag") != "maybe":
        assert isinstance(error.value, RightsParameterError)
        assert all(error.value.values["parameters"].values())


def judge(model, tuples, opened, replica, random):
    context = random.choice(CONTEXTS)
    oracle, (kept, searched) = Oracle(model, tuples, context), opened
    users = subjects(model, random)
    asked = [(user, name, at) for user in users for name, at in goals(model)]
    truth = {one: oracle.holds(*one) for one in asked}
    decided = [one for one in asked if truth[one] is not None]
    right = [truth[one] for one in decided]
    undecided = [one for one in asked if truth[one] is None]
    for rights in (kept, searched):
        assert rights.batch_check(decided, context=context) == right
        for one in random.sample(decided, 20):
            assert rights.check(*one, context=context) == truth[one]
        for one in random.sample(undecided, min(20, len(undecided))):
            refused(context, rights.check, *one)
    whatever, open_ = Oracle(model, tuples), conditional(model)
    for user, name, at in asked:
        if "#" not in user:
            possible = (at.split(":")[0], name) in open_
            for hopeful in (False, True):
                found = replica.has(user, name, at, possible and hopeful)
                assert found == whatever.bound(hopeful, user, name, at), (user, name, at, hopeful)
    listed(model, oracle, context, (users, kept, searched))
    in_context(model, tuples, random.choice(opened), random)
    true = [one for one in asked if truth[one]]
    for one in random.sample(true, min(8, len(true))):
        explained(model, oracle, kept, one, context)
    lacking = [one for one in decided if not truth[one]]
    named = {given[:3] for given in tuples if len(given) > 3}  # their conditions do not hold
    unmet = [one for one in lacking if one in named]
    some = [random.sample(ones, min(8, len(ones))) for ones in (lacking, unmet)]
    for question in (*some[0], *some[1]):
        not_explained(model, oracle, kept, (question, context), random)
    return len(true), len(undecided)


def listed(model, oracle, context, asked):
    known, kept, searched = asked
    relations = sorted({(name, at.split(":")[0]) for name, at in goals(model)})
    for name, kind in relations:
        places = [f"{kind}:{at}" for at in IDS[kind]]
        for user in known:
            holds = {at: oracle.holds(user, name, at) for at in sorted(places)}
            for rights in (kept, searched):
                if None in holds.values():
                    refused(context, rights.list_objects, user, name, kind)
                    continue
                found = rights.list_objects(user, name, kind, context=context)
                assert found == [at for at in holds if holds[at]], (user, name, kind)
        for at in places:
            for users in ("user", "bot", "group", "group#g0"):
                of, _, within = users.partition("#")
                every = [f"{of}:{one}{'#' if within else ''}{within}" for one in (*IDS[of], "new")]
                holds = {user: oracle.holds(user, name, at) for user in every}
                for rights in (kept, searched):
                    if None in holds.values():
                        refused(context, rights.list_users, name, at, users)
                        continue
                    found = rights.list_users(name, at, users, context=context)
                    for user, has in holds.items():
                        assert found.has(user) == has, (user, name, at, found)


def in_context(model, tuples, rights, random):
    """Some tuples more, for one question."""
    more = random.sample(every_tuple(model), 3)
    context = {"x": random.randint(0, 4), "limit": 2, "flag": random.random() < 0.5}
    given = {"contextual": more, "context": context}
    oracle = Oracle(model, [*tuples, *more], context)
    user = random.choice(subjects(model, random))
    asked = [(user, name, at) for name, at in goals(model)]
    right = [oracle.holds(*one) for one in asked]
    assert None not in right
    assert rights.batch_check(asked, **given) == right
    name, at = random.choice([one[1:] for one in asked])
    kind = at.split(":")[0]
    found = rights.list_objects(user, name, kind, **given)
    right = [f"{kind}:{one}" for one in IDS[kind] if oracle.holds(user, name, f"{kind}:{one}")]
    assert found == sorted(right)
    users = rights.list_users(name, at, "user", **given)
    for one in [*IDS["user"], "new"]:
        assert users.has(f"user:{one}") == oracle.holds(f"user:{one}", name, at)


def explained(model, oracle, rights, question, context):
    user, name, at = question
    proof = rights.why(*question, context=context)
    assert (proof.goal.relation, *proof.goal.row) == (name, user, at)
    leaves = {(step.row[0], step.relation, step.row[1]) for step in proof.leaves}
    assert leaves <= oracle.tuples
    assert proof.height == oracle.heights(user, objects())[name, at]
    if negation_depth(model) < 2:  # then what is excluded needs tuples, and fewer of them help
        assert Oracle(model, leaves).holds(*question), proof
    assert all(place > above for above, s in enumerate(proof.steps) for place in s.premises)


def not_explained(model, oracle, rights, asked, random):
    """What a refusal says is so: in each of its steps, and of the tuples that it misses."""
    question, context = asked
    root = rights.why_not(*question, context=context)
    user, name, at = question
    assert (root.user, root.relation, root.object) == (user, name, at)
    waiting, steps = [root], []
    while waiting:
        steps.append(waiting.pop())
        waiting += steps[-1].below
    known = {(one.relation, one.object) for one in steps if not one.is_known}
    for one in steps:
        if "(" not in one.relation:
            assert oracle.holds(one.user, one.relation, one.object) is False, root
        assert all(oracle.holds(user, part, one.object) for part in one.held if "(" not in part)
        plain = {tuple(tuple_) for tuple_ in one.missing if isinstance(tuple_, Tuple)}
        assert not plain & oracle.tuples
        for unmet in one.unmet:
            assert verdict(*unmet.tuple[3:], context) is False
            assert unmet.tuple in oracle.given
            assert unmet.tuple[2] == one.object
            assert unmet.context.items() <= context.items()
            assert not unmet.context.keys() & json.loads(unmet.tuple.context)
        shown = {named.tuple for named in one.unmet}
        for tuple_ in one.missing:
            there = {given for given in oracle.given if given[:4] == tuple_[:4]}
            assert len(tuple_) == 3 or {given for given in there if len(given) > 3} <= shown
        assert not one.is_known or (one.relation, one.object) in known
        assert not one.is_excluded or not one.below
    assert not any(one.is_cut for one in steps)
    # A tuple that is missing right here is one that would do, whatever else there is.
    would = [one for one in root.missing if isinstance(one, Tuple)]
    if not root.held and would:
        more = random.choice(would)
        assert Oracle(model, oracle.tuples | {tuple(more)}, context).holds(*question), root
    short = rights.why_not(*question, context=context, limit=1)
    assert (short.missing, short.held) == (root.missing, root.held)
    assert all(one.is_cut or one.is_known for one in short.below)


FOUND = (16, 18, 106)
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
    replica, there, heard, held = Replica(), set(), [], 0
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
        held += judge(model, there, (kept, searched), replica, random)[0]
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
