"""`deltafix why`, `why-not`, and the shell's words for them."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from tests.generators.proof_programs import KINDS, KINDS_ABSENT, KINDS_FACTS, KINDS_PRESENT
from tests.judges.proof_checker import INTERNAL

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.dl").write_text(PROGRAM)
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\na\td\nd\tc\n")
    return tmp_path


def test_why_prints_a_tree(deltafix, folder):
    done = deltafix("why", folder / "program.dl", "-F", folder, 'path("a", "b")')
    assert done.out == (
        'path("a", "b")  [path(x, y) :- edge(x, y).]\n└── edge("a", "b")  [given]\n'
    )
    assert (done.code, done.err) == (0, "")


def test_facts_are_found_without_their_folder_or_it_is_said(
    deltafix, folder, monkeypatch, tmp_path_factory
):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    said = f"note: facts are read from {folder}; -F names another folder\n"
    done = deltafix("why", folder / "program.dl", 'path("a", "c")', "--count")
    assert (done.code, done.out, done.err) == (0, "2\n", said)
    (folder / "edge.facts").unlink()
    done = deltafix("why-not", folder / "program.dl", 'path("a", "c")')
    assert (
        done.err == "note: no facts are read, here or beside the program; -F names their folder\n"
    )
    (folder / "program.dl").write_text(PROGRAM.replace(".input edge", 'edge("a", "c").'))
    assert deltafix("why", folder / "program.dl", 'path("a", "c")').err == ""


def test_derivations_are_counted_and_followed(deltafix, folder):
    asked = (folder / "program.dl", "-F", folder)
    assert deltafix("why", *asked, 'path("a", "c")', "--count").out == "2\n"
    assert deltafix("step", *asked, 'path("a", "b"), path("a", "d")').out == 'path("a", "c")\n'
    absent = deltafix("step", *asked, 'path("c", "a")')
    assert (absent.code, absent.out) == (2, "")
    assert 'path("c", "a") does not hold' in absent.err


@pytest.mark.parametrize("form", ["dot", "svg"])
def test_why_draws(deltafix, folder, form):
    question = ("why", folder / "program.dl", "-F", folder, 'path("a", "b")', "--format", form)
    assert deltafix(*question).out.startswith({"dot": "digraph", "svg": "<svg"}[form])


def test_why_lists_proofs(deltafix, folder):
    question = ("why", folder / "program.dl", "-F", folder, 'path("a", "c")', "--all")
    assert deltafix(*question).out.count("path(x, z) :-") == 2
    assert deltafix(*question, "--limit", 1).out.count("path(x, z) :-") == 1
    data = json.loads(deltafix(*question, "--format", "json").out)
    assert [proof["height"] for proof in data] == [2, 2]


def test_why_not_prints_attempts_and_suggestions(deltafix, folder):
    done = deltafix("why-not", folder / "program.dl", "-F", folder, 'path("c", "a")', "--limit", 1)
    assert done.out.splitlines()[0] == 'path("c", "a") does not hold'
    assert done.out.splitlines()[-1] == 'it would hold with  +edge("c", "a")'
    question = ("why-not", folder / "program.dl", "-F", folder, 'path("c", "a")')
    assert json.loads(deltafix(*question, "--format", "json").out)["suggestions"]


@pytest.mark.parametrize(
    ("command", "fact", "wanted"),
    [
        ("why", 'path("c", "a")', "error[DF681]: path"),
        ("why", 'path("c", X)', "column `y` has no value"),
        ("why", 'pth("c", "a")', "did you mean 'path'"),
        ("why-not", 'path("a", "c")', "error[DF681]: path"),
        ("why-not", "path(", "error"),
    ],
)
def test_a_bad_question_is_exit_code_2(deltafix, folder, command, fact, wanted):
    done = deltafix(command, folder / "program.dl", "-F", folder, fact)
    assert done.code == 2
    assert wanted in done.err
    assert done.out == ""


def test_the_shell_answers_why(deltafix, folder, monkeypatch):
    lines = 'why path("a", "b")\nwhy-not path("c", "a")\nwhy path("c", "a")\n'
    monkeypatch.setattr("sys.stdin", StringIO(lines))
    done = deltafix("shell", folder / "program.dl", "-F", folder)
    assert '└── edge("a", "b")  [given]' in done.out
    assert 'it would hold with  +edge("c", "a")' in done.out
    assert "does not hold, so it has no proof" in done.err


@pytest.mark.parametrize(("command", "facts"), [("why", KINDS_PRESENT), ("why-not", KINDS_ABSENT)])
def test_every_kind_of_relation_is_answered_in_every_form(deltafix, tmp_path, command, facts):
    (tmp_path / "program.dl").write_text(KINDS)
    (tmp_path / "e.facts").write_text("".join(f"{x}\t{y}\n" for x, y in KINDS_FACTS))
    forms = {"why": ("text", "json", "dot", "svg"), "why-not": ("text", "json")}[command]
    for place, fact in enumerate(facts):
        form = forms[place % len(forms)]
        done = deltafix(
            command, tmp_path / "program.dl", "-F", tmp_path, fact, "--format", form, "-q"
        )
        assert (done.code, done.err) == (0, ""), fact
        if form == "json":
            assert json.loads(done.out)
        if form != "svg":
            assert not INTERNAL.search(done.out), done.out
