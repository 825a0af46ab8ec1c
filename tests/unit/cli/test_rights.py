"""`deltafix rights`: questions to a model and its tuples, answers by exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "rights"
MODEL = EXAMPLE / "model.fga"
TUPLES = ("-t", EXAMPLE / "tuples.csv")
STORE = Path(__file__).parents[2] / "fixtures" / "rights" / "slack.fga.yaml"


def test_a_check_answers_by_word_and_exit_code(deltafix):
    done = deltafix("rights", "check", MODEL, "user:bo", "can_read", "document:roadmap", *TUPLES)
    assert done == (0, "yes\n", "")
    done = deltafix("rights", "check", MODEL, "user:dana", "can_read", "document:roadmap", *TUPLES)
    assert done == (1, "no\n", "")


def test_lists_are_lines(deltafix):
    done = deltafix("rights", "list-objects", MODEL, "user:bo", "can_read", "document", *TUPLES)
    assert done == (0, "document:handbook\ndocument:roadmap\n", "")
    done = deltafix("rights", "list-users", MODEL, "can_read", "document:handbook", *TUPLES)
    assert done == (0, "user:*\nexcept user:zed\n", "")
    done = deltafix(
        "rights", "list-users", MODEL, "viewer", "folder:plans", "group#member", *TUPLES
    )
    assert done.out.split() == [
        f"group:{n}#member" for n in ("compilers", "engineering", "interns")
    ]


def test_why_and_expand_print_trees_and_json(deltafix):
    question = ("user:bo", "can_read", "document:roadmap")
    done = deltafix("rights", "why", MODEL, *question, *TUPLES)
    assert done.code == 0
    assert "user:bo is not blocked of document:roadmap" in done.out
    done = deltafix("rights", "why", MODEL, *question, *TUPLES, "--format", "json")
    assert json.loads(done.out)["steps"][0]["row"] == ["user:bo", "document:roadmap"]
    done = deltafix("rights", "why", MODEL, "user:dana", *question[1:], *TUPLES)
    assert (done.code, done.out) == (2, "")
    assert "error[DF681]: user:dana is not can_read of document:roadmap" in done.err
    assert "why-not says where each way ends" in done.err
    absent = ("rights", "why-not", MODEL, "user:dana", *question[1:], *TUPLES)
    done = deltafix(*absent)
    assert done.out.startswith("user:dana is not can_read of document:roadmap  [line ")
    assert "  excluded: user:dana is viewer and blocked of document:roadmap\n" in done.out
    found = json.loads(deltafix(*absent, "--format", "json").out)
    assert (found["relation"], found["excluded"], found["cut"]) == ("can_read", True, False)
    nobody = ("rights", "why-not", MODEL, "user:nobody", *question[1:], *TUPLES)
    assert "no tuple user:nobody member group:compilers\n" in deltafix(*nobody).out
    assert "[not followed: the limit]" in deltafix(*nobody, "--limit", 1).out
    done = deltafix("rights", "why-not", MODEL, *question, *TUPLES)
    assert (done.code, done.out) == (2, "")
    assert "error[DF681]: user:bo is can_read of document:roadmap; why has the proof" in done.err
    done = deltafix(
        "rights", "expand", MODEL, "viewer", "folder:plans", *TUPLES, "--format", "json"
    )
    assert json.loads(done.out)["parts"][0]["users"] == ["group:engineering#member"]
    done = deltafix("rights", "expand", MODEL, "viewer", "folder:plans", *TUPLES)
    assert "    group:engineering#member\n" in done.out


def test_validate_counts_or_says_what_is_wrong(deltafix, tmp_path):
    done = deltafix("rights", "validate", MODEL, *TUPLES)
    assert done == (0, "", "4 types, 12 relations, 13 tuples\n")
    assert deltafix("rights", "validate", MODEL, "-q") == (0, "", "")
    (tmp_path / "m.fga").write_text(MODEL.read_text().replace("blocked from", "bloked from"))
    done = deltafix("rights", "validate", tmp_path / "m.fga")
    assert done.code == 2
    assert "m.fga:16:45: error[DF741]: unknown relation of folder `bloked`" in done.err
    assert "did you mean `blocked`?" in done.err
    (tmp_path / "t.csv").write_text("user,relation,object\nuser:a,can_read,document:x\n")
    done = deltafix("rights", "validate", MODEL, "-t", tmp_path / "t.csv")
    assert done.code == 2
    assert "it takes no tuples: define can_read: viewer but not blocked" in done.err
    lines = ["user:a,viewer,document:x", "user:a,viewr,document:x", "user:a", "user:b,viewer,x"]
    (tmp_path / "t.csv").write_text("\n".join(["user,relation,object", *lines, ""]))
    (tmp_path / "t.jsonl").write_text('["user:a", "viewer", "document:x"]\n["a"]\n')
    (tmp_path / "t.json").write_text('[["user:a", "viewer", "document:x"], ["b", "viewer", "c"]]')
    given = [part for end in ("csv", "jsonl", "json") for part in ("-t", tmp_path / f"t.{end}")]
    done = deltafix("rights", "validate", MODEL, *given)
    assert (done.code, done.out) == (2, "")
    said = [line.removeprefix(f"error[DF743]: {tmp_path}/") for line in done.err.splitlines()]
    places = (
        "t.csv:3: tuple `",
        "t.csv:4: 3 columns",
        "t.csv:5: ",
        "t.jsonl:2: ",
        "t.json: tuple 2: ",
    )
    assert all(one.startswith(place) for one, place in zip(said, places, strict=True)), said
    (tmp_path / "t.jsonl").write_text('["a", "b", "c"]\n' * 30)
    done = deltafix("rights", "validate", MODEL, "-t", tmp_path / "t.jsonl")
    assert done.err.endswith("\nand 10 more tuples\n")
    done = deltafix("rights", "validate", tmp_path / "none.fga")
    assert done.code == 2
    none = tmp_path / "none.fga"
    assert done.err == f"error[DF300]: cannot read {none}: No such file or directory\n"


def test_a_store_file_brings_its_tuples_and_tests(deltafix, tmp_path):
    done = deltafix("rights", "check", STORE, "user:amy", "viewer", "channel:marketing")
    assert done == (0, "yes\n", "")
    assert deltafix("rights", "test", STORE) == (0, "17 of 17 assertions hold\n", "")
    wrong = tmp_path / "wrong.fga.yaml"
    wrong.write_text(STORE.read_text().replace("viewer: false", "viewer: true", 1))
    done = deltafix("rights", "test", STORE, wrong)
    assert done.code == 1
    assert done.out == (
        f"{wrong}: who sees and writes where: check user:catherine viewer channel:marketing\n"
        "  expected true\n"
        "  found    false\n"
        "33 of 34 assertions hold\n"
    )


@pytest.mark.parametrize(
    "arguments", [("check", MODEL), ("chek", MODEL), ("list-users", MODEL, "a")]
)
def test_a_wrong_command_line_is_an_error(deltafix, arguments):
    done = deltafix("rights", *arguments)
    assert done.code == 2
    assert "Traceback" not in done.err


@pytest.mark.parametrize("name", ["t.csv", "t.yaml", "t.jsonl", "t.json"])
def test_a_file_of_tuples_beside_the_model_is_told_its_option(deltafix, name):
    for command in ("check", "why", "list-users", "list-objects"):
        done = deltafix("rights", command, MODEL, name, "user:a", "viewer", "channel:b")
        assert done.code == 2
        assert f"{name} is a file; tuples are given by --tuples {name}" in " ".join(
            done.err.replace("│", " ").split()
        )


CONDITIONS = """model
  schema 1.1
type user
type document
  relations
    define viewer: [user with in_office, user]
condition in_office(ip: ipaddress, office: string) { ip.in_cidr(office) }
"""


def test_conditions_take_a_context(deltafix, tmp_path):
    (tmp_path / "m.fga").write_text(CONDITIONS)
    (tmp_path / "t.csv").write_text(
        "user,relation,object,condition_name,condition_context\n"
        'user:anne,viewer,document:x,in_office,"{""office"": ""10.1.0.0/16""}"\n'
        "user:bo,viewer,document:x,,\n"
    )
    (tmp_path / "t.json").write_text(
        json.dumps(
            [
                {
                    "user": "user:anne",
                    "relation": "viewer",
                    "object": "document:x",
                    "condition": {"name": "in_office", "context": {"office": "10.1.0.0/16"}},
                },
                {"user": "user:bo", "relation": "viewer", "object": "document:x"},
            ]
        )
    )
    inside, outside = ("--context", '{"ip": "10.1.2.3"}'), ("--context", '{"ip": "10.2.0.0"}')
    for tuples in (tmp_path / "t.csv", tmp_path / "t.json"):
        given = (tmp_path / "m.fga", "-t", tuples)

        def asked(command, *words, given=given):
            return deltafix("rights", command, given[0], *words, *given[1:])

        question = ("user:anne", "viewer", "document:x")
        assert asked("check", *question, *inside) == (0, "yes\n", "")
        assert asked("check", *question, *outside) == (1, "no\n", "")
        done = asked("check", *question)
        assert (done.code, done.out) == (2, "")
        assert "error[DF746]" in done.err
        assert "`in_office` needs ip" in done.err
        done = asked("check", *question, "--context", "{")
        assert (done.code, done.out) == (2, "")
        assert "error[DF745]: the context is no JSON" in done.err
        users = ("viewer", "document:x")
        assert asked("list-users", *users, *inside) == (0, "user:anne\nuser:bo\n", "")
        assert asked("list-users", *users, *outside) == (0, "user:bo\n", "")
        objects = ("user:anne", "viewer", "document")
        assert asked("list-objects", *objects, *inside) == (0, "document:x\n", "")
        assert "user:anne with in_office" in asked("expand", *users).out
        assert "in_office holds with" in asked("why", *question, *inside).out


def test_modules_are_opened_by_their_manifest(deltafix, tmp_path):
    (tmp_path / "fga.mod").write_text("schema: '1.2'\ncontents: [core.fga, docs.fga]\n")
    (tmp_path / "core.fga").write_text("module core type user type team")
    (tmp_path / "docs.fga").write_text(
        "module docs extend type team relations define member: [user]"
    )
    done = deltafix("rights", "validate", tmp_path / "fga.mod")
    assert done == (0, "", "2 types, 1 relation, 0 tuples\n")
    (tmp_path / "docs.fga").write_text("module docs extend type tem relations define a: [user]")
    done = deltafix("rights", "validate", tmp_path / "fga.mod")
    assert done.code == 2
    assert "docs.fga:1:25: error[DF741]: unknown type `tem`" in done.err
