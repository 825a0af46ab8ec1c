"""Models of the guides against the naive judge: every question, and after every deletion."""

from __future__ import annotations

from random import Random

import pytest
from tests.generators.random_rights import dsl_of
from tests.generators.rights_guides import GUIDES
from tests.judges.rights_oracle import Oracle

import deltafix.rights

CASES = pytest.mark.parametrize("guide", GUIDES, ids=lambda one: one.name.replace(" ", "-"))


def objects_of(guide) -> list[str]:
    """Those of the tuples and answers, and one of each type that nobody names."""
    said = {end.split("#")[0] for user, _, at in (*guide.tuples, *guide.yes, *guide.no)
            for end in (user, at) if not end.endswith(":*")}  # fmt: skip
    return sorted(said | {f"{one['type']}:nobody" for one in guide.model["type_definitions"]})


def subjects_of(guide) -> list[str]:
    usersets = {user for user, _, _ in guide.tuples if "#" in user}
    return sorted({*objects_of(guide), *usersets})


def agree(rights, guide, tuples) -> int:
    """Every check, and lists against the checks; how many hold."""
    judge, held = Oracle(guide.model, tuples), 0
    types = {one["type"]: one.get("relations", {}) for one in guide.model["type_definitions"]}
    objects, subjects = objects_of(guide), subjects_of(guide)
    for relation, at in ((name, one) for one in objects for name in types[one.split(":")[0]]):
        wanted = {user for user in subjects if judge.holds(user, relation, at)}
        found = {user for user in subjects if rights.check(user, relation, at)}
        assert found == wanted, (relation, at)
        held += len(wanted)
        users = rights.list_users(relation, at, "user")
        plain = {user for user in wanted if user.startswith("user:") and "#" not in user}
        if "user:*" in users.users:
            plain = {user for user in subjects if user.startswith("user:")} - plain
            assert plain == {*users.excluded} & {*subjects}
        else:
            assert plain == {*users.users}
    for user in (one for one in subjects if one.startswith("user:")):
        for kind, relations in types.items():
            for relation in relations:
                wanted = [
                    at for at in objects
                    if at.startswith(f"{kind}:") and judge.holds(user, relation, at)
                ]  # fmt: skip
                found = [at for at in rights.list_objects(user, relation, kind) if at in objects]
                assert sorted(found) == wanted, (user, relation, kind)
    return held


@CASES
@pytest.mark.parametrize("kept", [False, True], ids=["searched", "kept"])
def test_oracle_a_guide_answers_as_its_judge_after_every_deletion(guide, kept, warm_kernel) -> None:
    names = [
        f"{one['type']}#{name}"
        for one in guide.model["type_definitions"] for name in one.get("relations", {})
    ]  # fmt: skip
    rng, left = Random(guide.name), list(guide.tuples)
    with deltafix.rights.open(dsl_of(guide.model), materialise=names if kept else ()) as rights:
        rights.write(left)
        before = agree(rights, guide, left)
        while left:
            rights.delete([left.pop(rng.randrange(len(left)))])
            agree(rights, guide, left)
        none = agree(rights, guide, [])
    assert none < before


@CASES
def test_a_guide_gives_the_answers_worked_out_by_hand(guide, warm_kernel) -> None:
    judge = Oracle(guide.model, guide.tuples)
    for form in (guide.model, dsl_of(guide.model)):
        with deltafix.rights.open(form) as rights:
            rights.write(list(guide.tuples))
            for wanted, questions in ((True, guide.yes), (False, guide.no)):
                for question in questions:
                    assert judge.holds(*question) == wanted, question
                    assert rights.check(*question) == wanted, question
            # Each answer of tuples that hold for one question alone.
        with deltafix.rights.open(form) as empty:
            found = [empty.check(*one, contextual=list(guide.tuples)) for one in guide.yes]
            assert all(found)
            assert not any(empty.check(*one, contextual=list(guide.tuples)) for one in guide.no)
