"""Tuples with conditions: what a context decides, what stays open, and what is kept meanwhile.

The models with grants for a time, addresses and entitlements are like those of OpenFGA's
documentation; what they answer is what it says.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import deltafix.rights
from deltafix.errors import (
    MissingDependencyError,
    RightsContextError,
    RightsParameterError,
    RightsQuestionError,
    RightsTupleError,
)
from deltafix.rights import Change, ConditionalTuple, conditions
from deltafix.rights.conditions import Conditions, Judge
from deltafix.rights.contexts import MisfitError, checked_context, written
from deltafix.rights.dsl import parse_dsl

GRANTS = """model
  schema 1.1
type user
type document
  relations
    define viewer: [user with non_expired_grant]
condition non_expired_grant(
  current_time: timestamp, grant_time: timestamp, grant_duration: duration
) {
  current_time < grant_time + grant_duration
}
"""
ANNE = {
    "user": "user:anne",
    "relation": "viewer",
    "object": "document:1",
    "condition": {
        "name": "non_expired_grant",
        "context": {"grant_time": "2023-01-01T00:00:00Z", "grant_duration": "10m"},
    },
}
SHIFTS = """model
  schema 1.1
type user
type group
  relations
    define member: [user, user with on_shift, group#member]
type room
  relations
    define closed_to: [user, user:* with at_night, group#member]
    define owner: [user]
    define may_enter: [user, user:*, group#member with on_shift] but not closed_to
    define enters: may_enter or owner
condition on_shift(day: string, days: list<string>) { day in days }
condition at_night(hour: int) { hour < 6 || hour >= 22 }
"""
KEPT = ("room#enters", "room#may_enter", "group#member")
TUPLES = [
    ("user:anne", "member", "group:guards", "on_shift", {"days": ["mon", "tue"]}),
    ("user:bo", "member", "group:guards"),
    ("group:guards#member", "may_enter", "room:vault"),
    ("user:*", "may_enter", "room:hall"),
    ("user:*", "closed_to", "room:hall", "at_night"),
    ("user:cy", "owner", "room:hall"),
]
TUPLES[2] = (*TUPLES[2], "on_shift", {"days": ["mon"]})


@pytest.fixture(params=[(), KEPT, ("group#member",)], ids=["searched", "kept", "some kept"])
def rights(request):
    with deltafix.rights.open(SHIFTS, materialise=request.param) as opened:
        opened.write(TUPLES)
        yield opened
        opened.database.check_invariants()


@pytest.mark.parametrize(
    ("now", "allowed"), [("2023-01-01T00:09:50Z", True), ("2023-01-01T00:10:01Z", False)]
)
def test_a_grant_for_ten_minutes(now, allowed):
    with deltafix.rights.open(GRANTS) as rights:
        rights.write([ANNE])
        context = {"current_time": now}
        assert rights.check("user:anne", "viewer", "document:1", context=context) is allowed
        found = rights.list_objects("user:anne", "viewer", "document", context=context)
        assert found == ["document:1"] * allowed
        users = rights.list_users("viewer", "document:1", "user", context=context).users
        assert users == ["user:anne"] * allowed
        # What is written counts, whatever the question says.
        later = {**context, "grant_duration": "24h"}
        assert rights.check("user:anne", "viewer", "document:1", context=later) is allowed
        with pytest.raises(RightsTupleError, match="takes no 'user'; it takes user with non_exp"):
            rights.write([("user:bo", "viewer", "document:1")])


def test_addresses_in_a_network():
    model = """model
      schema 1.1
    type user
    type document
      relations
        define viewer: [user with in_company_network]
    condition in_company_network(user_ip: ipaddress, cidr: string) { user_ip.in_cidr(cidr) }
    """
    with deltafix.rights.open(model) as rights:
        tuple_ = ("user:anne", "viewer", "document:1")
        rights.write([(*tuple_, "in_company_network", {"cidr": "192.168.0.0/24"})])
        assert rights.check(*tuple_, context={"user_ip": "192.168.0.1"})
        assert not rights.check(*tuple_, context={"user_ip": "192.168.1.1"})
        with pytest.raises(RightsContextError, match=r"`user_ip` is \"nowhere\"; ipaddress takes"):
            rights.check(*tuple_, context={"user_ip": "nowhere"})


def test_entitlements_by_plan_and_use():
    model = """model
      schema 1.1
    type organization
    type plan
      relations
        define subscriber: [organization]
    type feature
      relations
        define plan: [plan with below_limit, plan]
        define access: subscriber from plan
    condition below_limit(used: int, limit: int) { used < limit }
    """
    with deltafix.rights.open(model, materialise=["feature#access"]) as rights:
        delta = rights.write(
            [
                ("organization:acme", "subscriber", "plan:team"),
                ("plan:team", "plan", "feature:seats", "below_limit", {"limit": 10}),
                ("plan:team", "plan", "feature:issues"),
            ]
        )
        assert delta.changes("feature#access") == [
            Change(1, "organization:acme", "access", "feature:issues"),
            Change(1, "organization:acme", "access", "feature:issues", possible=True),
            Change(1, "organization:acme", "access", "feature:seats", possible=True),
        ]
        acme = "organization:acme"
        assert rights.list_objects(acme, "access", "feature", context={"used": 9}) == [
            "feature:issues",
            "feature:seats",
        ]
        assert rights.list_objects(acme, "access", "feature", context={"used": "10"}) == [
            "feature:issues"
        ]
        assert rights.check(acme, "access", "feature:issues")
        with pytest.raises(RightsParameterError, match="`below_limit` needs used"):
            rights.check(acme, "access", "feature:seats")


def test_answers_that_rest_on_nothing_open_need_no_context(rights):
    assert rights.check("user:cy", "enters", "room:hall")
    assert rights.check("user:bo", "member", "group:guards")
    assert not rights.check("user:dan", "member", "group:guards")
    assert rights.list_objects("user:dan", "owner", "room") == []


def test_a_missing_parameter_is_named_by_its_condition(rights):
    with pytest.raises(RightsParameterError) as caught:
        rights.check("user:bo", "enters", "room:vault")
    assert caught.value.values["parameters"] == {"on_shift": ["day"]}
    assert "check(user:bo, enters, room:vault)" in str(caught.value)
    assert 'context={"day": ...}' in str(caught.value)
    for ask in (
        lambda: rights.list_objects("user:bo", "enters", "room"),
        lambda: rights.list_users("enters", "room:vault", "user"),
        lambda: rights.why("user:bo", "enters", "room:vault"),
    ):
        with pytest.raises(RightsParameterError, match="needs day"):
            ask()


def test_a_context_that_is_asked_for_has_every_missing_parameter():
    text = GRANTS.replace("user with non_expired_grant", "user with levels, user with tagged")
    text = text[: text.index("condition")] + (
        "condition levels(level: int, tags: list<string>) { level > 1 && 'x' in tags }\n"
        "condition tagged(tags: list<string>, day: string) { day in tags }\n"
    )
    with deltafix.rights.open(text) as rights:
        for name in ("levels", "tagged"):
            rights.write([ConditionalTuple("user:anne", "viewer", "document:1", name)])
        with pytest.raises(RightsParameterError) as caught:
            rights.check("user:anne", "viewer", "document:1")
        message = str(caught.value)
        given = message.partition("context=`")[2] or message.partition("context=")[2]
        named = json.loads(given.partition("`")[0].replace("...", "null"))
        assert [*named] == ["level", "tags", "day"]


def test_a_tuple_that_is_not_deleted_by_its_key_is_told_with_its_condition():
    with deltafix.rights.open(SHIFTS) as rights:
        rights.write(
            [
                ("user:anne", "member", "group:g", "on_shift", {"days": ["mon"]}),
                ("user:bo", "member", "group:g"),
            ]
        )
        before = set(rights.tuples())
        for gone, there in (
            (
                ("user:anne", "member", "group:g"),
                'user:anne member group:g with on_shift {"days": ["mon"]}',
            ),
            (
                ("user:anne", "member", "group:g", "on_shift"),
                'user:anne member group:g with on_shift {"days": ["mon"]}',
            ),
            (("user:bo", "member", "group:g", "on_shift"), "user:bo member group:g"),
        ):
            with pytest.raises(RightsTupleError) as caught:
                rights.delete([gone])
            said = f"`{there}` was, and its condition and context are part of it"
            assert said in str(caught.value).replace('":[', '": [')
        with pytest.raises(RightsTupleError) as caught:
            rights.delete([("user:cy", "member", "group:g")])
        assert " was, and" not in str(caught.value)
        assert set(rights.tuples()) == before


def test_conditions_on_members_usersets_and_on_what_is_excluded(rights):
    def may(user, day, hour):
        context = {"day": day, "hour": hour}
        rooms = rights.list_objects(f"user:{user}", "enters", "room", context=context)
        for room in ("room:hall", "room:vault"):
            asked = (f"user:{user}", "enters", room)
            assert rights.check(*asked, context=context) == (room in rooms)
            found = rights.list_users("enters", room, "user", context=context)
            assert found.has(f"user:{user}") == (room in rooms)
        return [room.removeprefix("room:") for room in rooms]

    assert may("anne", "mon", 12) == ["hall", "vault"]
    assert may("anne", "tue", 12) == ["hall"]  # a guard, but guards enter the vault on Monday
    assert may("bo", "mon", 23) == ["vault"]
    assert may("cy", "sun", 23) == ["hall"]
    assert may("dan", "sun", 5) == []
    assert may("dan", "sun", 6) == ["hall"]
    assert rights.list_users("enters", "room:hall", "user", context={"hour": 3}).users == [
        "user:cy"
    ]
    everyone = rights.list_users("enters", "room:hall", "user", context={"hour": 12})
    assert everyone.users == ["user:*"]


def test_why_names_the_condition_and_its_context(rights):
    proof = rights.why("user:anne", "enters", "room:vault", context={"day": "mon"})
    leaves = {(step.row, step.tests) for step in proof.leaves}
    assert leaves == {
        (("group:guards#member", "room:vault"), ('on_shift holds with {"days":["mon"]}',)),
        (("user:anne", "group:guards"), ('on_shift holds with {"days":["mon","tue"]}',)),
    }


def test_expand_leaves_out_what_does_not_hold_and_marks_what_is_open(rights):
    assert rights.expand("member", "group:guards").users == ("user:anne with on_shift", "user:bo")
    found = rights.expand("member", "group:guards", context={"day": "tue"})
    assert found.users == ("user:anne", "user:bo")
    found = rights.expand("member", "group:guards", context={"day": "sun"})
    assert found.users == ("user:bo",)


def test_contextual_tuples_may_have_conditions(rights):
    more = [("user:zed", "member", "group:guards", "on_shift", {"days": ["fri"]})]
    asked = ("user:zed", "member", "group:guards")
    assert rights.check(*asked, contextual=more, context={"day": "fri"})
    assert not rights.check(*asked, contextual=more, context={"day": "mon"})
    assert not rights.check(*asked, context={"day": "fri"})
    found = rights.list_objects(
        "user:zed", "member", "group", contextual=more, context={"day": "fri"}
    )
    assert found == ["group:guards"]
    again = [TUPLES[0]]
    assert rights.check("user:anne", *asked[1:], contextual=again, context={"day": "tue"})


def test_what_is_kept_says_what_is_sure_and_what_is_possible():
    with deltafix.rights.open(SHIFTS, materialise=["room#may_enter"]) as rights:
        delta = rights.write([("user:*", "may_enter", "room:hall")])
        assert delta.changes() == [
            Change(1, "user:*", "may_enter", "room:hall"),
            Change(1, "user:*", "may_enter", "room:hall", possible=True),
        ]
        delta = rights.write([("user:*", "closed_to", "room:hall", "at_night")])
        assert delta.changes() == [Change(-1, "user:*", "may_enter", "room:hall")]
        delta = rights.write([("user:anne", "closed_to", "room:hall")])
        assert delta.changes() == [
            Change(1, "user:anne", "may_enter", "room:hall", excepted=True, possible=True)
        ]
        assert str(delta.changes()[0]) == "+possibly except user:anne may_enter room:hall"
        delta = rights.delete([("user:*", "closed_to", "room:hall", "at_night", "{}")])
        assert delta.changes() == [
            Change(1, "user:*", "may_enter", "room:hall"),
            Change(1, "user:anne", "may_enter", "room:hall", excepted=True),
        ]
        rights.database.check_invariants()


def test_tuples_come_in_every_form_and_go_as_they_came(rights):
    one = ("user:zed", "member", "group:guards", "on_shift", '{"days": ["fri"]}')
    shown = ConditionalTuple(*one[:4], '{"days":["fri"]}')
    assert rights.write([one]).added == [shown]
    keys = ("user", "relation", "object", "condition", "context")
    for form in (
        shown,
        dict(zip(keys, (*one[:4], {"days": ["fri"]}), strict=True)),
        {**dict(zip(keys, one[:3], strict=False)),
         "condition": {"name": "on_shift", "context": {"days": ["fri"]}}},
    ):  # fmt: skip
        assert not rights.write([form])
    other = ("user:zed", "member", "group:guards")
    table = pa.table(dict(zip(keys, zip(one, (*other, None, None), strict=True), strict=True)))
    assert rights.write(table).added == [other]
    assert shown in set(rights.tuples())
    assert set(rights.delete(table).removed) == {shown, other}
    with pytest.raises(RightsTupleError, match="cannot delete `user:zed member group:guards with"):
        rights.delete([one])


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"days": "mon"}, 'parameter `days` is "mon"; list<string> takes an array'),
        ({"days": [1]}, "parameter `days[0]` is 1; string takes a text"),
        ({"dys": []}, "no parameter 'dys'; it has day, days"),
        ([], "it takes an object"),
        ("{", "is no JSON"),
        ({"days": ["x" * 40_000]}, "characters as JSON"),
        ({"days": ["x"] * 2_000}, "more than 1,000 values"),
        ({"days": [float("nan")]}, "is no JSON"),
        ({"days": [object()]}, "is no JSON"),
        ({1: 2}, "a name that is no text"),
        ('{"days": ' + "[" * 60 + "]" * 60 + "}", "more than 20 lists and objects"),
    ],
)
def test_a_context_that_does_not_fit_is_no_tuple(rights, context, said):
    before = set(rights.tuples())
    with pytest.raises(RightsTupleError) as caught:
        rights.write([("user:zed", "member", "group:guards", "on_shift", context)])
    assert said in str(caught.value)
    assert set(rights.tuples()) == before


def test_questions_that_are_none(rights):
    with pytest.raises(RightsContextError, match="it takes an object"):
        rights.check("user:bo", "enters", "room:vault", context=[1])
    with pytest.raises(RightsTupleError, match="a question has no condition"):
        rights.batch_check([TUPLES[0]])
    with pytest.raises(RightsQuestionError):
        rights.check("user:bo", "entrs", "room:vault", context={})


def test_a_model_whose_parameters_change_says_which_tuples_do_not_fit(rights):
    with pytest.raises(RightsTupleError, match="condition `on_shift` has no parameter 'days'"):
        rights.change_model(SHIFTS.replace("days", "dates"))
    stricter = SHIFTS.replace("hour < 6", "hour < 8")
    asked = ("user:dan", "enters", "room:hall")
    assert rights.check(*asked, context={"hour": 7})
    rights.change_model(stricter)
    assert not rights.check(*asked, context={"hour": 7})


def test_tuples_with_conditions_outlive_the_process(tmp_path):
    with deltafix.rights.open(SHIFTS, tmp_path / "state", materialise=KEPT) as rights:
        rights.write(TUPLES)
        before = set(rights.tuples())
    with deltafix.rights.open(SHIFTS, tmp_path / "state", materialise=KEPT) as rights:
        assert set(rights.tuples()) == before
        assert rights.check("user:anne", "enters", "room:vault", context={"day": "mon"})
        rights.database.check_invariants()


# --- values and expressions ----------------------------------------------------------------------


def judged(parameters, expression, context, stored="{}"):
    text = (
        "model schema 1.1 type user type d relations define r: [user with c] "
        f"condition c({parameters}) {{ {expression} }}"
    )
    judge = Judge(Conditions(parse_dsl(text)), context)
    return judge.verdict("c", stored), judge


@pytest.mark.parametrize(
    ("parameters", "expression", "context", "verdict"),
    [
        ("a: int", "a == -1", {"a": "-1"}, True),
        ("a: int", "a == 3", {"a": 3.0}, True),
        ("a: uint", "a == 1u", {"a": "1"}, True),
        ("a: double", "a > 2.4", {"a": "2.5"}, True),
        ("a: bool", "a", {"a": "true"}, True),
        ("a: bytes", "size(a) == 2", {"a": "é"}, True),
        ("a: duration", "a == duration('5400s')", {"a": "1h30m"}, True),
        ("a: duration", "a < duration('0s')", {"a": "-1.5ms"}, True),
        ("a: timestamp", "a.getHours() == 9", {"a": "2024-02-03T10:00:00+01:00"}, True),
        ("a: timestamp, b: timestamp", "a < b",
         {"a": "2024-02-03T10:00:00.000001Z", "b": "2024-02-03T10:00:00.000002Z"}, True),
        ("a: ipaddress", "a == ipaddress('::1')", {"a": "::1"}, True),
        ("a: list<int>", "a.exists(x, x > 2)", {"a": [1, "3"]}, True),
        ("a: map<list<int>>", "a.k[0] == 1 && 'k' in a", {"a": {"k": [1]}}, True),
        ("a: any", "a.k == 'v' && a.n[1] == 2.5", {"a": {"k": "v", "n": [1, 2.5]}}, True),
        ("a: string", "a.matches('^[a-c]+$') && a.startsWith('ab')", {"a": "abc"}, True),
        ("a: int, b: bool", "b || a > 3", {"b": True}, True),
        ("a: int, b: bool", "a > 3 || b", {"b": True}, True),
        ("a: int, b: bool", "a > 3 && b", {"b": False}, False),
        ("a: int, b: bool", "a > 3 || b", {"b": False}, None),
        ("a: int", "a > 3", {"a": True}, None),
        ("a: int", "a > 3", {"a": 3.5}, None),
        ("a: int", "a > 3", {"a": 2**63}, None),
        ("a: uint", "a > 3u", {"a": -1}, None),
        ("a: duration", "a > duration('1s')", {"a": "1d"}, None),
        ("a: duration", "a > duration('1s')", {"a": "1ns"}, None),
        ("a: timestamp", "a == a", {"a": "2024-02-03"}, None),
        ("a: timestamp", "a == a", {"a": "2024-02-03T10:00:00.1234567Z"}, None),
        ("a: timestamp", "a == a", {"a": "2024-13-03T10:00:00Z"}, None),
        ("a: int", "1 / a == 1", {"a": 0}, None),
        ("a: int", "a", {"a": 1}, None),
        ("a: int", "a == 'x' || a.matches('(')", {"a": 1}, None),
        ("a: string", "a.matches('(')", {"a": "("}, None),
    ],
)  # fmt: skip
def test_verdicts(parameters, expression, context, verdict):
    found, judge = judged(parameters, expression, context)
    assert found is verdict
    assert judge.undecided == (verdict is None)
    if verdict is None:
        assert str(judge.error("q"))


def test_an_evaluation_ends():
    for parameters, expression, context in (
        ("a: list<int>", "a.all(x, a.all(y, a.all(z, x + y + z >= 0)))", {"a": list(range(900))}),
        ("a: string", "a + a + a == a", {"a": "x" * 15_000}),
    ):
        found, judge = judged(parameters, expression, context)
        assert found is None
        assert "more than 20,000 steps" in str(judge.error("q"))
        assert type(judge.error("q")) is RightsContextError


def test_the_same_context_is_the_same_text():
    (condition,) = parse_dsl(GRANTS).conditions
    one, other = ANNE["condition"]["context"], dict(reversed(ANNE["condition"]["context"].items()))
    assert written(condition, one) == written(condition, json.dumps(other))
    assert checked_context(None) == {}
    with pytest.raises(MisfitError, match="is no JSON"):
        checked_context('{"a": NaN}')


def test_without_the_library_a_model_with_conditions_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "celpy", None)
    conditions._environment.cache_clear()
    with pytest.raises(MissingDependencyError, match=r"deltafix\[conditions\]"):
        deltafix.rights.open(GRANTS)
    deltafix.rights.open("model schema 1.1 type user").close()
