"""`deltafix watch`, and the folder of fact files behind it."""

from __future__ import annotations

import random
import sys

import pytest

import deltafix as library
from deltafix.engine.follow import FactFolder, ProgramFile

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
    (tmp_path / "edge.facts").write_text("a\tb\n")
    return tmp_path


def write(path, text):
    # A new version every time, even where the clock of the file system is coarse.
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def test_a_changed_file_is_an_epoch_once_it_is_at_rest(folder):
    messages: list[str] = []
    with library.connect(PROGRAM) as db:
        files = FactFolder(db, folder, messages.append)
        assert files.load()["path"].added == [("a", "b")]
        assert files.poll() is None
        write(folder / "edge.facts", "a\tb\nb\tc\n")
        assert files.poll() is None  # seen, but it may still be written to
        delta = files.poll()
        assert delta["path"].added == [("a", "c"), ("b", "c")]
        assert files.poll() is None
        assert db.epoch == 2
    assert messages == []


def test_a_bad_file_is_told_once_and_its_rows_stay(folder):
    messages: list[str] = []
    with library.connect(PROGRAM) as db:
        files = FactFolder(db, folder, messages.append)
        files.load()
        write(folder / "edge.facts", "a\tb\textra\n")
        assert [files.poll() for _ in range(4)] == [None] * 4
        assert len(messages) == 1
        assert "edge.facts" in messages[0]
        assert "stay as they were" in messages[0]
        assert db.rows("path") == [("a", "b")]
        (folder / "edge.facts").unlink()
        assert [files.poll() for _ in range(3)] == [None] * 3
        assert "edge.facts is gone" in messages[1]
        write(folder / "edge.facts", "x\ty\n")
        files.poll()
        delta = files.poll()
        assert (delta["path"].added, delta["path"].removed) == ([("x", "y")], [("a", "b")])


def test_a_saved_program_is_an_epoch_that_says_what_its_views_gained_and_lost(folder):
    messages: list[str] = []
    path = folder / "program.dl"
    with library.connect(PROGRAM) as db:
        program = ProgramFile(path)
        files = FactFolder(db, folder, messages.append, program=program)
        assert files.paths == (path, folder / "edge.facts")
        files.load()
        write(path, PROGRAM + "path(y, x) :- edge(x, y).\n")
        assert files.poll() is None
        delta = files.poll()
        assert dict(delta) == {"path": delta["path"]}
        assert delta["path"].added == [("b", "a"), ("b", "b")]
        # Both at once, and an input that only the new program has.
        (folder / "also.facts").write_text("z\n")
        write(path, PROGRAM + ".decl also(x: symbol)\n.input also\npath(x, x) :- also(x).\n")
        write(folder / "edge.facts", "a\tc\n")
        files.poll()
        delta = files.poll()
        assert (delta["path"].added, delta["edge"].removed) == ([("a", "c")], [("a", "b")])
        assert delta["path"].removed == [("a", "b"), ("b", "a"), ("b", "b")]
        files.poll()
        assert files.poll() is None
        assert db.rows("path") == [("a", "c"), ("z", "z")]
        write(path, PROGRAM + "path(x, y) :- edg(x, y).\n")
        assert [files.poll() for _ in range(3)] == [None] * 3
        assert len(messages) == 1
        assert "error[DF110]" in messages[0]
        assert "the rules stay as they were" in messages[0]
        write(path, PROGRAM)
        files.poll()
        assert files.poll()["path"].removed == [("z", "z")]
        assert "also" not in db.schemas
        write(folder / "edge.facts", "x\ty\n")
        files.poll()
        assert files.poll()["path"].added == [("x", "y")]
        db.check_invariants()


def test_files_that_a_program_includes_are_followed_too(folder):
    messages: list[str] = []
    path, rules, more = folder / "program.dl", folder / "rules.dl", folder / "more.dl"
    declared, ruled = PROGRAM.split("path(x, y)", 1)
    path.write_text(f'{declared}#include "rules.dl"\n')
    rules.write_text(f"path(x, y){ruled}")
    with library.connect(library.Program.from_file(path)) as db:
        files = FactFolder(db, folder, messages.append, program=ProgramFile(path))
        assert files.paths == (path, rules, folder / "edge.facts")
        files.load()
        assert files.poll() is None
        write(rules, f"path(x, y){ruled}path(y, x) :- edge(x, y).\n")
        assert files.poll() is None  # it may still be written to
        assert files.poll()["path"].added == [("b", "a"), ("b", "b")]
        assert files.edit.paths == (rules,)
        # A file that is not there yet is looked for; one that it includes is followed from then on.
        write(rules, f'path(x, y){ruled}#include "more.dl"\n')
        assert [files.poll() for _ in range(3)] == [None] * 3
        assert len(messages) == 1
        assert "cannot include 'more.dl'" in messages[0]
        write(more, "path(x, y) :- edge(x y).\n")
        assert [files.poll() for _ in range(3)] == [None] * 3
        assert "more.dl:1:" in messages[1]
        write(more, "path(x, x) :- edge(x, _).\n")
        assert files.poll() is None
        assert files.poll()["path"].removed == [("b", "a"), ("b", "b")]
        assert files.paths[:3] == (path, rules, more)
        # One that is not included any more is not.
        write(rules, f"path(x, y){ruled}")
        files.poll()
        assert files.poll()["path"].removed == [("a", "a")]
        write(more, "")
        assert [files.poll() for _ in range(3)] == [None] * 3
        assert len(messages) == 2
        db.check_invariants()


def test_a_row_that_two_files_state_stays_until_both_drop_it(tmp_path):
    program = '.decl r(x: symbol)\n.input r(filename="one.facts")\n.input r(filename="two.facts")\n'
    (tmp_path / "one.facts").write_text("a\nb\n")
    (tmp_path / "two.facts").write_text("b\n")
    with library.connect(program) as db:
        files = FactFolder(db, tmp_path, print)
        files.load()
        write(tmp_path / "one.facts", "a\n")
        files.poll()
        files.poll()
        assert db.rows("r") == [("a",), ("b",)]
        write(tmp_path / "two.facts", "c\n")
        files.poll()
        files.poll()
        assert db.rows("r") == [("a",), ("c",)]


@pytest.mark.parametrize("seed", range(4))
def test_a_version_brings_the_difference_to_the_last_so_edits_stay(folder, seed):
    rng, nodes = random.Random(seed), "abcde"
    with library.connect(PROGRAM) as db:
        files = FactFolder(db, folder, lambda _: None)
        files.load()
        stated, given, stayed = {("a", "b")}, {("a", "b")}, 0
        for _ in range(30):
            rows = {(rng.choice(nodes), rng.choice(nodes)) for _ in range(rng.randrange(5))}
            if rng.random() < 0.5:
                new, old = rows, stated
                stated = rows
                write(folder / "edge.facts", "".join(f"{x}\t{y}\n" for x, y in sorted(rows)))
                look(files)
                given = (given - (old - new)) | (new - old)
                stayed += not given <= stated
            else:
                gone = {row for row in given if rng.random() < 0.3}
                with db.transaction() as tx:
                    tx.delete("edge", list(gone))
                    tx.insert("edge", list(rows - gone))
                given = (given - gone) | (rows - gone)
            assert set(db.rows("edge")) == given
        assert stayed


def look(files):
    """Once it is seen, and once it is at rest."""
    files.poll()
    return files.poll()


def test_a_problem_stands_until_another_version_of_its_file_is_taken(folder):
    messages: list[str] = []
    path, facts = folder / "program.dl", folder / "edge.facts"
    with library.connect(PROGRAM) as db:
        files = FactFolder(db, folder, messages.append, program=ProgramFile(path))
        files.load()
        assert files.problems == ()
        write(facts, "a\tb\tc\n")
        write(path, PROGRAM + "path(x) :- edge(x, _).\n")
        look(files)
        assert [one.path for one in files.problems] == [path, facts]
        for one, kept in zip(files.problems, ("the rules", "its rows"), strict=True):
            assert str(one.path) in one.text
            assert one.kept == f"{kept} stay as they were"
        assert messages == [str(one) for one in files.problems]
        write(facts, "a\n")  # another one in the same file
        look(files)
        found = files.problems[1]
        assert "found 1 value: ['a']" in found.text
        write(path, PROGRAM)
        look(files)
        assert files.problems == (found,)
        write(facts, "a\tb\n")  # what it was before is another version, too
        look(files)
        assert files.problems == ()
        assert len(messages) == 3
        facts.unlink()
        look(files)
        assert "is gone" in files.problems[0].text
        write(path, PROGRAM.replace(".input edge\n", ""))  # nobody looks at it any more
        look(files)
        assert files.problems == ()
        assert db.rows("path") == []


def test_a_file_that_was_refused_is_read_again_under_other_rules(folder):
    messages: list[str] = []
    (folder / "one.facts").write_text("1;2\n")
    program = '.decl r(x: number, y: number)\n.input r(filename="one.facts", delimiter=",")\n'
    path = folder / "program.dl"
    path.write_text(program.replace(',"', ';"'))
    with library.connect(library.Program.from_file(path)) as db:
        files = FactFolder(db, folder, messages.append, program=ProgramFile(path))
        files.load()
        write(folder / "one.facts", "1,2\n3,4\n")
        look(files)
        assert "one.facts" in files.problems[0].text
        write(path, program)  # its directive is another one
        look(files)
        files.poll()
        assert files.problems == ()
        assert db.rows("r") == [(1, 2), (3, 4)]
        # What stays wrong is not told again.
        write(folder / "one.facts", "x,2\n")
        look(files)
        count = len(messages)
        write(path, program + ".decl s(x: number)\ns(x) :- r(x, _).\n")
        look(files)
        files.poll()
        assert (len(files.problems), len(messages)) == (1, count)
        assert db.rows("s") == [(1,), (3,)]
        write(path, program + ".decl s(x: number)\ns(y) :- r(_, y).\n")
        look(files)
        assert files.edit.changed == {"s": (2, 2)}
        assert [str(one) for one in files.edit.rules] == [
            "rule -s(x) :- r(x, _).", "rule +s(y) :- r(_, y).",
        ]  # fmt: skip
        assert (files.edit.epoch, files.edit.paths) == (db.epoch, (path,))


def test_a_file_that_was_too_much_for_the_rules_is_taken_under_other_ones(folder):
    path = folder / "program.dl"
    rows = [(f"{n}", f"{n + 1}") for n in range(30)]
    with library.connect(PROGRAM, max_rows=70) as db:
        files = FactFolder(db, folder, lambda _: None, program=ProgramFile(path))
        files.load()
        write(folder / "edge.facts", "".join(f"{a}\t{b}\n" for a, b in rows))
        look(files)
        assert [one.path.name for one in files.problems] == ["edge.facts"]
        write(path, PROGRAM.replace("path(x, z) :- path(x, y), edge(y, z).", ""))
        look(files)
        files.poll()
        assert (files.problems, sorted(db.rows("path"))) == ((), sorted(rows))


def test_files_whose_rows_go_over_the_budget_have_a_problem_each_and_are_tried_again(folder):
    messages: list[str] = []
    program = PROGRAM + ".decl more(x: symbol)\n.input more\n"
    (folder / "more.facts").write_text("x\n")
    with library.connect(program, max_rows=50) as db:
        files = FactFolder(db, folder, messages.append)
        files.load()
        write(folder / "edge.facts", "".join(f"{n}\t{n + 1}\n" for n in range(30)))
        write(folder / "more.facts", "y\n")  # they are one epoch
        look(files)
        assert {one.path.name for one in files.problems} == {"edge.facts", "more.facts"}
        assert all("max_rows=50" in one.text for one in files.problems)
        assert db.rows("more") == [("x",)]
        write(folder / "edge.facts", "a\tc\n")
        delta = look(files)
        assert (files.problems, db.rows("more")) == ((), [("y",)])
        assert (delta["edge"].added, delta["more"].added) == ([("a", "c")], [("y",)])
        db.check_invariants()


def test_the_command_prints_signed_rows(deltafix, folder, monkeypatch):
    looks = []

    def edit(_seconds):
        looks.append(len(looks))
        assert len(looks) < 10
        if len(looks) == 2:
            write(folder / "edge.facts", "b\tc\n")

    monkeypatch.setattr("deltafix.cli.watch.sleep", edit)
    done = deltafix("watch", folder / "program.dl", "-F", folder, "--epochs", 1)
    assert done.out == '+path("a", "b")\n-path("a", "b")\n+path("b", "c")\n'
    assert "watching 2 files" in done.err
    assert done.code == 0
    assert len(looks) == 3


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_warnings_are_told_when_they_are_new(deltafix, folder, monkeypatch, quiet):
    program = folder / "program.dl"
    doubtful = ".decl far(x: symbol)\nfar(x) :- edge(x, b).\n"
    write(program, doubtful + PROGRAM)
    texts = iter([
        "\n" + PROGRAM + doubtful,  # it stands elsewhere
        "\n" + PROGRAM + doubtful + doubtful.replace("far", "near"),
        PROGRAM,
        PROGRAM + "broken(:",
        PROGRAM + doubtful,
        "\n" + PROGRAM + doubtful + 'edge("x", "y").\n',
    ])  # fmt: skip
    counts = []

    def edit(_seconds):
        if not len(counts) % 3:
            write(program, next(texts))
        counts.append(sys.stderr.getvalue().count("warning[DF160]"))

    monkeypatch.setattr("deltafix.cli.watch.sleep", edit)
    done = deltafix("watch", program, "-F", folder, "--epochs", 5, *quiet)
    assert done.code == 0, done.err
    checked = deltafix("check", program).out.count("warning[DF160]")
    assert checked == 1
    expected = [checked, checked, 2 * checked, 2 * checked, 2 * checked, 3 * checked]
    assert counts[::3] == ([0] * 6 if quiet else expected)
    assert done.err.count("warning[DF160]") == (0 if quiet else 3 * checked)


def test_a_relation_that_is_not_there_is_exit_code_2(deltafix, folder):
    done = deltafix("watch", folder / "program.dl", "-F", folder, "-r", "pth")
    assert done.code == 2
    assert "did you mean 'path'" in done.err
