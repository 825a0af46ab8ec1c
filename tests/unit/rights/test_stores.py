"""Store files: published examples of models with the answers that are right, and bad files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import deltafix.rights
from deltafix.errors import RightsModelError, RightsTupleError, SourceError
from deltafix.rights import Tuple, read_tuples, run_store

pytestmark = pytest.mark.usefixtures("warm_kernel")

STORES = sorted((Path(__file__).parents[2] / "fixtures" / "rights").glob("*.yaml"))


@pytest.mark.parametrize("kept", [False, True], ids=["searched", "kept"])
@pytest.mark.parametrize("path", STORES, ids=lambda path: path.name.split(".")[0])
def test_an_example_gives_the_answers_that_it_should(path, kept):
    with deltafix.rights.open(path) as opened:
        names = [f"{one.name}#{of.name}" for one in opened.model.types for of in one.relations]
    found = list(run_store(path, materialise=names if kept else ()))
    assert [one for one in found if not one.holds] == []
    assert len(found) > 10


STORE = """
model: |
  model
    schema 1.1
  type user
  type doc
    relations
      define viewer: [user]
tuples:
  - {user: "user:a", relation: viewer, object: "doc:x"}
tests:
  - name: t
    check:
      - {user: "user:a", object: "doc:x", assertions: {viewer: true}}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("viewer: true", "viewer: yes please", "expected true or false"),
        ("check:", "chek:", "test 't' has 'chek'"),
        ("assertions:", "asserts:", "assertions are None"),
        ('object: "doc:x", a', "a", "'object' is None"),
        ("[user]", "[usr]", "unknown type `usr`"),
        ("assertions", "context: now, assertions", "the context is 'now'"),
        ("tests:\n", "tests: 7\nmore:\n", "'tests' is 7"),
        ("  - name: t", "  - 7\n  - name: t", "test 1 is 7"),
        ("model: |", "modell: |", "no text under `model`"),
        ("model: |", "model_file: none.fga\nmore: |", "cannot read"),
        ("tuples:", "tuple_file: none.csv\nmore:", "cannot read"),
        ("tests:", "tests: {", "this is no YAML"),
    ],
)
def test_what_is_not_understood_is_an_error_and_never_passes(tmp_path, old, new, said):
    path = tmp_path / "s.fga.yaml"
    path.write_text(STORE)
    assert [one.holds for one in run_store(path)] == [True]
    assert old in STORE
    path.write_text(STORE.replace(old, new, 1))
    with pytest.raises((RightsTupleError, RightsModelError, SourceError)) as caught:
        list(run_store(path))
    assert said in str(caught.value)


def test_a_model_and_tuples_may_be_files_beside_the_store(tmp_path):
    model = STORE.split("tuples:", maxsplit=1)[0].split("|\n")[1]
    (tmp_path / "m.fga").write_text("\n".join(line[2:] for line in model.splitlines()))
    (tmp_path / "t.json").write_text(
        json.dumps([{"user": "user:a", "relation": "viewer", "object": "doc:x"}])
    )
    tests = STORE.split("tests:")[1]
    path = tmp_path / "s.fga.yaml"
    path.write_text(f"model_file: m.fga\ntuple_files: [t.json]\ntests:{tests}")
    assert [one.holds for one in run_store(path)] == [True]
    path.write_text(f"model_file: m.fga\ntests:{tests}")
    assert [one.holds for one in run_store(path)] == [False]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", 'user,relation,object\nuser:a,viewer,doc:x\n"user:b,c",viewer,doc:x\n'),
        (
            "t.csv",
            "user_type,user_id,user_relation,relation,object_type,object_id\n"
            'user,a,,viewer,doc,x\nuser,"b,c",,viewer,doc,x\n',
        ),
        (
            "t.json",
            '{"tuples": [{"key": {"user": "user:a", "relation": "viewer", "object": "doc:x"}},'
            '["user:b,c", "viewer", "doc:x"]]}',
        ),
        (
            "t.jsonl",
            '["user:a", "viewer", "doc:x"]\n\n'
            '{"user": "user:b,c", "relation": "viewer", "object": "doc:x"}\n',
        ),
        ("t.yaml", '- [user:a, viewer, doc:x]\n- ["user:b,c", viewer, doc:x]\n'),
    ],
)
def test_files_of_tuples_say_the_same(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_tuples(tmp_path / name) == [
        Tuple("user:a", "viewer", "doc:x"), Tuple("user:b,c", "viewer", "doc:x"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.csv", "user,relation\nuser:a,viewer\n", "the header is 'user, relation'"),
        ("t.csv", "user,relation,object\nuser:a,viewer\n", "t.csv:2: 3 columns were expected"),
        ("t.csv", 'user,relation,object\n"user:a"x,viewer,doc:x\n', "t.csv:2:"),
        ("t.csv", "", "the header is ''"),
        ("t.json", "[", "this is no JSON"),
        ("t.json", "7", "has no list of tuples"),
        ("t.json", '[["user:a", "viewer", 7]]', "t.json: tuple 1: "),
        ("t.jsonl", "[1]\n", "t.jsonl:1: "),
        ("t.jsonl", "\n[", "t.jsonl:2: this is no JSON"),
        ("t.yaml", "a: [", "this is no YAML"),
        ("t.txt", "", "tuples are read from .csv, .json"),
    ],
)
def test_a_bad_file_of_tuples_is_named_with_its_place(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises((RightsTupleError, SourceError)) as caught:
        read_tuples(tmp_path / name)
    assert said in str(caught.value)
    assert name in str(caught.value)
    with pytest.raises(SourceError, match="cannot read"):
        read_tuples(tmp_path / "none.csv")


CONDITIONS = """
model: |
  model
    schema 1.1
  type user
  type doc
    relations
      define viewer: [user with until]
  condition until(now: timestamp, end: timestamp) { now < end }
tuples:
  - user: user:a
    relation: viewer
    object: doc:x
    condition: {name: until, context: {end: 2024-02-03T10:00:00Z}}
tests:
  - name: t
    check:
      - {user: "user:a", object: "doc:x", context: {now: 2024-02-03T09:59:59Z}, assertions: {viewer: true}}
      - {user: "user:a", object: "doc:x", context: {now: "2024-02-03T10:00:00Z"}, assertions: {viewer: false}}
    list_objects:
      - {user: "user:a", type: doc, context: {now: 2024-02-03T08:00:00Z}, assertions: {viewer: ["doc:x"]}}
    list_users:
      - object: doc:x
        user_filter: [{type: user}]
        context: {now: 2024-02-03T11:00:00Z}
        assertions: {viewer: {users: []}}
"""  # noqa: E501  as such files are written


def test_a_store_has_contexts_of_tuples_and_of_questions(tmp_path):
    path = tmp_path / "s.fga.yaml"
    path.write_text(CONDITIONS)
    assert [one.holds for one in run_store(path)] == [True] * 4
    path.write_text(CONDITIONS.replace("viewer: false", "viewer: true"))
    assert [one.holds for one in run_store(path)] == [True, False, True, True]
