"""An opened model: tuples in, questions answered, changes out, and what is refused."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import deltafix
import deltafix.rights
from deltafix.errors import (
    NoSuchFactError,
    RightsModelError,
    RightsQuestionError,
    RightsTupleError,
    StateError,
    SubscriberError,
    TransactionError,
)
from deltafix.rights import Change, Tuple

pytestmark = pytest.mark.usefixtures("warm_kernel")

MODEL = """
model
  schema 1.1
type user
type bot
type group
  relations
    define member: [user, group#member]
type folder
  relations
    define parent: [folder]
    define viewer: [user, user:*, group#member] or viewer from parent
type document
  relations
    define parent: [folder]
    define blocked: [user, group#member]
    define viewer: [user, bot] or viewer from parent
    define can_read: viewer but not blocked
"""
TUPLES = [
    ("user:anne", "member", "group:core"),
    ("group:core#member", "member", "group:all"),
    ("group:all#member", "viewer", "folder:a"),
    ("folder:a", "parent", "folder:b"),
    ("folder:b", "parent", "document:x"),
    ("bot:ci", "viewer", "document:x"),
]
KEPT = ("document#can_read", "group#member")


@pytest.fixture(params=[(), KEPT, ("folder#viewer",)], ids=["searched", "kept", "some kept"])
def rights(request):
    with deltafix.rights.open(MODEL, materialise=request.param) as opened:
        opened.write(TUPLES)
        yield opened
        opened.database.check_invariants()


def test_a_check_goes_through_folders_and_groups(rights):
    assert rights.check("user:anne", "can_read", "document:x")
    assert rights.check("bot:ci", "can_read", "document:x")
    assert rights.check("group:core#member", "can_read", "document:x")
    assert not rights.check("user:bo", "can_read", "document:x")
    assert not rights.check("user:anne", "can_read", "document:unheard-of")
    assert not rights.check("user:*", "can_read", "document:x")
    rights.write([("group:core#member", "blocked", "document:x")])
    assert not rights.check("user:anne", "can_read", "document:x")


def test_everyone_may_but_who_is_blocked(rights):
    rights.write([("user:*", "viewer", "folder:b"), ("user:bo", "blocked", "document:x")])
    assert rights.check("user:nobody-knows", "can_read", "document:x")
    assert rights.check("user:*", "can_read", "document:x")
    assert not rights.check("user:bo", "can_read", "document:x")
    found = rights.list_users("can_read", "document:x", "user")
    assert found == (["user:*"], ["user:bo"])
    assert found.has("user:carl")
    assert not found.has("user:bo")
    assert not found.has("bot:other")
    assert rights.list_objects("user:carl", "can_read", "document") == ["document:x"]
    assert rights.list_objects("user:bo", "can_read", "document") == []


def test_contextual_tuples_hold_for_one_question(rights):
    question = ("user:bo", "can_read", "document:x")
    joins = [("user:bo", "member", "group:new"), ("group:new#member", "member", "group:core")]
    assert rights.check(*question, contextual=joins)
    assert not rights.check(*question)
    blocked = [("user:anne", "blocked", "document:x")]
    assert not rights.check("user:anne", "can_read", "document:x", contextual=blocked)
    assert rights.list_objects("user:bo", "can_read", "document", contextual=joins) == [
        "document:x"
    ]
    assert "user:bo" in rights.list_users("can_read", "document:x", "user", contextual=joins).users
    assert rights.why(*question, contextual=joins).height == 7
    assert "user:bo" in str(rights.expand("member", "group:new", contextual=joins))
    again = [*joins, *TUPLES, joins[0]]  # those that are there already, and one twice
    assert rights.check(*question, contextual=again)
    with pytest.raises(RightsTupleError, match="takes no 'bot'"):
        rights.check(*question, contextual=[("bot:ci", "member", "group:core")])


def test_a_proof_has_tuples_and_lines_of_the_model(rights):
    assert rights.why("user:anne", "can_read", "document:x").show() == (
        'can_read("user:anne", "document:x")  [line 18: define can_read: viewer but not blocked]\n'
        '├── viewer("user:anne", "document:x")  [line 17: define viewer: [user, bot] or viewer '
        "from parent]\n"
        '│   ├── parent("folder:b", "document:x")  [given]\n'
        '│   └── viewer("user:anne", "folder:b")  [line 12: define viewer: [user, user:*, '
        "group#member] or viewer from parent]\n"
        '│       ├── parent("folder:a", "folder:b")  [given]\n'
        '│       └── viewer("user:anne", "folder:a")  [line 12: define viewer: [user, user:*, '
        "group#member] or viewer from parent]\n"
        '│           ├── viewer("group:all#member", "folder:a")  [given]\n'
        '│           └── member("user:anne", "group:all")  [line 8: define member: [user, '
        "group#member]]\n"
        '│               ├── member("group:core#member", "group:all")  [given]\n'
        '│               └── member("user:anne", "group:core")  [line 8: define member: [user, '
        "group#member]]\n"
        '│                   └── member("user:anne", "group:core")  [given]\n'
        "└── user:anne is not blocked of document:x"
    )
    with pytest.raises(NoSuchFactError, match="user:bo is not can_read of document:x"):
        rights.why("user:bo", "can_read", "document:x")


def test_expand_shows_the_definition_with_the_tuples_of_one_object(rights):
    found = rights.expand("can_read", "document:x")
    assert [part.users for part in found.parts] == [("document:x#viewer",), ("document:x#blocked",)]
    assert str(rights.expand("viewer", "document:x")) == (
        "or: [user, bot] or viewer from parent\n"
        "  users: [user, bot]\n"
        "    bot:ci\n"
        "  usersets: viewer from parent\n"
        "    folder:b#viewer"
    )
    assert rights.expand("viewer", "folder:a").to_dict()["parts"][0] == {
        "kind": "users", "text": "[user, user:*, group#member]", "users": ["group:all#member"],
    }  # fmt: skip


def test_deltas_and_watches_say_who_gained_and_lost_what():
    with deltafix.rights.open(MODEL, materialise=KEPT) as rights:
        heard, tuples = [], []
        with rights.watch("document#can_read", heard.append):
            rights.watch(None, lambda delta: tuples.append(delta.added))
            delta = rights.write(TUPLES)
            assert delta.added == sorted(map(Tuple._make, TUPLES))
            assert heard[0].changes("document#can_read") == [
                Change(1, "bot:ci", "can_read", "document:x"),
                Change(1, "user:anne", "can_read", "document:x"),
            ]
            rights.write([("user:zed", "viewer", "folder:unrelated")])
            rights.write([("user:zed", "viewer", "folder:unrelated")])  # there already
            assert (len(heard), len(tuples)) == (1, 2)
            delta = rights.delete([("user:anne", "member", "group:core")])
            assert delta.show() == (
                "-user:anne member group:core\n"
                "-user:anne can_read document:x\n"
                "-user:anne member group:all\n"
                "-user:anne member group:core"
            )
        rights.write([("user:*", "viewer", "folder:b"), ("user:bo", "blocked", "document:x")])
        assert len(heard) == 2
        delta = rights.delete([("user:bo", "blocked", "document:x")])
        assert delta.changes() == [Change(-1, "user:bo", "can_read", "document:x", True)]
        assert str(delta.changes()[0]) == "-except user:bo can_read document:x"
        rights.watch(None, lambda _: 1 / 0)
        with pytest.raises(SubscriberError, match="ZeroDivisionError"):
            rights.write([("user:eve", "viewer", "folder:b")])
        assert rights.check("user:eve", "viewer", "folder:b")


def test_nothing_is_derived_for_what_is_not_kept():
    with deltafix.rights.open(MODEL) as rights:
        rights.write(TUPLES)
        assert rights.database.last_epoch.derivations == 0
    with deltafix.rights.open(MODEL, materialise=["group#member"]) as rights:
        rights.write(TUPLES)
        assert rights.database.last_epoch.changed == len(TUPLES) + 2
        rights.write([("user:zed", "viewer", "document:y")])
        assert rights.database.last_epoch.derivations == 0


def test_what_the_model_does_not_allow_is_refused_and_nothing_is_written(rights):
    before = set(rights.tuples())
    for bad, said in [
        (("bot:ci", "member", "group:core"), "takes no 'bot'; it takes user, group#member"),
        (("user:*", "member", "group:core"), "takes no 'user:*'"),
        (("folder:a#viewer", "member", "group:core"), "takes no 'folder#viewer'"),
        (("user:a", "can_read", "document:x"), "it takes no tuples: define can_read"),
        (("user:a", "membr", "group:core"), "no relation 'membr' (did you mean 'member'?)"),
        (("usr:a", "member", "group:core"), "no type 'usr' in the model"),
        (("user:a", "member", "grop:core"), "did you mean 'group'?"),
        (("user", "member", "group:core"), "names no user"),
        (("user:a b", "member", "group:core"), "names no user: names have no space in them"),
        (("user:a", "member", "group:a\tb"), "and this has '\\t'; write `document:roadmap`"),
        (("user:a", "member", "group:*"), "names no object"),
        (("user:a", "member", "group:x#member"), "names no object"),
        (("group:*#member", "member", "group:x"), "names no user"),
        (("group:x#", "member", "group:x"), "names no user"),
        (("user:a", "member"), "is no tuple"),
        ({"user": "user:a", "relation": "member"}, "is no tuple"),
        ({"user": "user:a", "relation": "member", "object": "group:x", "condition": {"a": 1}},
         "is no tuple"),
    ]:  # fmt: skip
        with pytest.raises(RightsTupleError) as caught:
            rights.write([("user:fine", "member", "group:core"), bad])
        assert said in str(caught.value)
        if isinstance(bad, tuple) and len(bad) == 3:
            table = pa.table(
                dict(zip(("user", "relation", "object"), zip(*[bad], strict=True), strict=True))
            )
            with pytest.raises(RightsTupleError) as columns:
                rights.write(table)
            assert said in str(columns.value)
    assert set(rights.tuples()) == before
    with pytest.raises(RightsTupleError, match="no such tuple was written"):
        rights.delete([TUPLES[0], ("user:zed", "member", "group:core")])
    assert set(rights.tuples()) == before
    assert not rights.delete([("user:zed", "member", "group:core")], missing="ignore")


def test_questions_that_the_model_does_not_have_are_refused(rights):
    for user, relation, at, said in [
        ("user:anne", "can_raed", "document:x", "did you mean 'can_read'?"),
        ("user:anne", "can_read", "documant:x", "did you mean 'document'?"),
        ("usr:anne", "can_read", "document:x", "did you mean 'user'?"),
        ("group:core#membr", "can_read", "document:x", "did you mean 'member'?"),
        ("anne", "can_read", "document:x", "names no user"),
        ("user:anne", "can_read", "document:*", "names no object"),
    ]:
        with pytest.raises(RightsQuestionError) as caught:
            rights.check(user, relation, at)
        assert said in str(caught.value)
    with pytest.raises(RightsQuestionError, match="no type 'usr'"):
        rights.list_users("can_read", "document:x", "usr")
    with pytest.raises(RightsQuestionError, match="has no relation 'viewr'"):
        rights.list_objects("user:anne", "viewr", "document")
    with pytest.raises(RightsQuestionError, match='materialise=\\["document#viewer"\\]'):
        rights.watch("document#viewer", print)
    with pytest.raises(RightsQuestionError, match="write `document#viewer`"):
        deltafix.rights.open(MODEL, materialise=["document"])


def test_a_table_is_read_by_columns_and_is_as_tuples_are(rights):
    more = [
        *[(f"user:u{n}", "member", f"group:g{n % 7}") for n in range(100)],
        *[(f"group:g{n}#member", "viewer", "folder:b") for n in range(7)],
        ("user:*", "viewer", "folder:a"),
        ("user:with:colons", "viewer", "document:y/1.2"),
    ]
    columns = dict(zip(("user", "relation", "object"), zip(*more, strict=True), strict=True))
    table = pa.table(columns)
    table = table.set_column(1, "relation", table["relation"].dictionary_encode())
    with rights.transaction() as tx:
        assert tx.write(table) == len(more)
    assert set(rights.tuples()) == {*TUPLES, *more}
    assert rights.check("user:u50", "can_read", "document:x")
    rights.delete(table)
    assert set(rights.tuples()) == set(TUPLES)
    assert len(rights) == len(TUPLES)
    with pytest.raises(RightsTupleError, match="has no column 'object'"):
        rights.write(table.drop_columns(["object"]))
    with pytest.raises(RightsTupleError, match="column 'user' of the tuples is int64"):
        rights.write(pa.table({"user": [1], "relation": ["a"], "object": ["b"]}))


def test_a_transaction_is_whole_and_seen_when_it_is_committed(rights):
    question = ("user:anne", "can_read", "document:x")
    with rights.transaction() as tx:
        tx.delete([TUPLES[0]])
        tx.write([("user:bo", "member", "group:core")])
        assert rights.check(*question)  # the last committed state
        assert not rights.check("user:bo", "can_read", "document:x")
        with pytest.raises(TransactionError):
            rights.write([TUPLES[0]])
    assert not rights.check(*question)
    assert rights.check("user:bo", "can_read", "document:x")
    with pytest.raises(ZeroDivisionError), rights.transaction() as tx:
        tx.write([TUPLES[0]])
        raise ZeroDivisionError
    assert not rights.check(*question)
    tx = rights.transaction()
    tx.write([TUPLES[0]])
    tx.rollback()
    tx = rights.transaction()
    tx.write(Tuple._make(TUPLES[0]))
    assert tx.commit().added == [TUPLES[0]]
    assert rights.check(*question)


def test_a_model_changes_while_it_is_open(rights):
    question = ("user:anne", "can_read", "document:x")
    looser = MODEL.replace("viewer but not blocked", "viewer")
    rights.write([("group:all#member", "blocked", "document:x")])
    assert not rights.check(*question)
    kept = rights.materialised
    delta = rights.change_model(looser)
    assert rights.materialised == kept
    assert rights.check(*question)
    gained = [Change(1, "user:anne", "can_read", "document:x")]
    assert delta.changes("document#can_read") == (gained if "document#can_read" in kept else [])
    narrow = looser.replace("[user, group#member]\n    define viewer", "[user]\n    define viewer")
    with pytest.raises(RightsTupleError, match="`group:all#member blocked document:x`"):
        rights.change_model(narrow)
    assert rights.check(*question, contextual=[("group:core#member", "blocked", "document:y")])
    with rights.transaction() as tx:
        tx.delete([("group:all#member", "blocked", "document:x")])
        tx.change_model(narrow, materialise=["document#can_read"])
        with pytest.raises(RightsTupleError, match="write tuples before"):
            tx.write([TUPLES[0]])
    assert rights.materialised == ("document#can_read",)
    assert rights.list_users("can_read", "document:x", "user").users == ["user:anne"]
    with pytest.raises(RightsModelError):
        rights.change_model("model")
    assert rights.check(*question)


def test_tuples_outlive_the_process_and_follow_the_model(tmp_path):
    folder = tmp_path / "state"
    with deltafix.rights.open(MODEL, folder, materialise=KEPT) as rights:
        rights.write(TUPLES)
    with deltafix.rights.open(MODEL, folder, materialise=KEPT) as rights:
        assert rights.check("user:anne", "can_read", "document:x")
        epoch = rights.database.epoch
    with deltafix.rights.open(MODEL, folder, materialise=KEPT) as rights:
        assert rights.database.epoch == epoch  # nothing to bring over
    with deltafix.rights.open(MODEL, folder) as rights:
        assert rights.materialised == ()
        assert set(rights.tuples()) == set(TUPLES)
    other = MODEL.replace("[user, bot] or", "[user] or")
    with pytest.raises(RightsTupleError, match="bot:ci viewer document:x"):
        deltafix.rights.open(other, folder)
    with deltafix.rights.open(MODEL, folder) as rights:
        rights.delete([TUPLES[-1]])
    with deltafix.rights.open(other, folder, materialise=KEPT) as rights:
        assert rights.list_objects("user:anne", "can_read", "document") == ["document:x"]
    text = ".decl a(x: symbol) .input a"
    with deltafix.connect(text, tmp_path / "other") as db, db.transaction() as tx:
        tx.insert("a", [("b",)])
    with pytest.raises(StateError):
        deltafix.rights.open(MODEL, tmp_path / "other")


def test_readers_see_whole_transactions_while_another_thread_writes():
    with deltafix.rights.open(MODEL, materialise=["group#member"]) as rights:
        rights.write(TUPLES)
        pair = [("user:bo", "member", "group:core"), ("user:bo", "blocked", "document:x")]
        seen, ended = [], threading.Event()

        def read():
            while not ended.is_set():
                seen.append(rights.check("user:bo", "can_read", "document:x"))
            seen.append(rights.check("user:anne", "can_read", "document:x"))

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(100):
            rights.write(pair)
            rights.delete(pair)
        ended.set()
        reader.join()
        assert seen.pop()
        assert not any(seen)  # both tuples or none: bo never reads


def test_long_chains_need_no_stack():
    chain = [(f"folder:{n}", "parent", f"folder:{n + 1}") for n in range(1500)]
    with deltafix.rights.open(MODEL) as rights:
        rights.write([*chain, ("user:anne", "viewer", "folder:0")])
        assert rights.check("user:anne", "viewer", "folder:1500")
        assert not rights.check("user:bo", "viewer", "folder:1500")
        assert rights.list_users("viewer", "folder:1500", "user").users == ["user:anne"]
        assert len(rights.list_objects("user:anne", "viewer", "folder")) == 1501
        proof = rights.why("user:anne", "viewer", "folder:1500")
        assert proof.height == 1501
        assert proof.show().count("\n") == 3_001


def test_what_is_found_while_something_excluded_is_decided_is_told_to_who_waits():
    # Deciding `g1`, which a part of `g2` excludes, finds that it holds; another part waits for it.
    model = """
model
  schema 1.1
type user
type group
  relations
    define g0: [user, group#g0]
    define g1: g0 or (g0 and g0)
    define g2: g1 or (g0 but not g1)
"""
    with deltafix.rights.open(model) as rights:
        rights.write([("user:anne", "g0", "group:x")])
        assert rights.check("user:anne", "g2", "group:x")
        assert rights.check("group:x#g0", "g2", "group:x")
        assert rights.list_users("g2", "group:x", "user").users == ["user:anne"]
        assert rights.why("user:anne", "g2", "group:x").height == 3


@pytest.mark.parametrize("kept", [(), ("document#can", "document#seen")], ids=["searched", "kept"])
def test_exclusions_lie_inside_each_other_and_beside_everyone(kept):
    model = """
model
  schema 1.1
type user
type document
  relations
    define viewer: [user, user:*]
    define banned: [user, user:*]
    define pardoned: [user]
    define listed: [user]
    define can: viewer but not (banned but not pardoned)
    define seen: listed or (viewer but not banned)
"""
    everyone = ("user:*", "viewer", "document:x")
    with deltafix.rights.open(model, materialise=kept) as rights:
        rights.write([
            ("user:anne", "viewer", "document:x"),
            ("user:bo", "viewer", "document:x"),
            ("user:*", "banned", "document:x"),
            ("user:anne", "pardoned", "document:x"),
        ])  # fmt: skip
        assert rights.check("user:anne", "can", "document:x")
        assert not rights.check("user:bo", "can", "document:x")
        assert rights.list_users("can", "document:x", "user") == (["user:anne"], [])
        assert rights.list_objects("user:anne", "can", "document") == ["document:x"]
        rights.delete([("user:*", "banned", "document:x")])
        rights.write([("user:bo", "banned", "document:x")])
        assert rights.list_objects("user:new", "seen", "document", contextual=[everyone]) == [
            "document:x"
        ]
        assert rights.list_users("seen", "document:x", "user", contextual=[everyone]) == (
            ["user:*"], ["user:bo"],
        )  # fmt: skip
        proof = rights.why("user:anne", "seen", "document:x")
        assert proof.goal.absent == ("user:anne is not banned of document:x",)
        assert proof.height == 2
        userset = "document:x#can"
        assert rights.list_users("can", "document:x", "document#can").users == [userset]


def test_why_not_of_a_chain_longer_than_python_nests_ends_and_says_so():
    model = """
model
  schema 1.1
type user
type folder
  relations
    define parent: [folder]
    define viewer: [user] or viewer from parent
"""
    with deltafix.rights.open(model) as opened:
        opened.write([(f"folder:{n + 1}", "parent", f"folder:{n}") for n in range(5_000)])
        found = opened.why_not("user:ada", "viewer", "folder:0", limit=10_000)
        text, steps = str(found), 0
        while found.below:
            (found,) = found.below
            steps += 1
        assert (found.is_cut, steps) == (True, 100)
        assert text.endswith("user:ada is not viewer of folder:100  [not followed: the limit]")
