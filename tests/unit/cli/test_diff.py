"""`deltafix diff`: the rows that a change of a program makes, and exit codes for scripts."""

from __future__ import annotations

import pytest

OLD = """\
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
NEW = OLD.replace("edge(y, z).", "edge(y, z), !closed(y).") + (
    ".decl closed(x: number) .input closed\npath(x, x) :- edge(x, _).\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "old.dl").write_text(OLD)
    (tmp_path / "new.dl").write_text(NEW)
    (tmp_path / "edge.facts").write_text("1\t2\n2\t3\n")
    (tmp_path / "closed.facts").write_text("2\n")
    return tmp_path


def test_rows_that_come_and_go_are_printed(deltafix, folder):
    told = deltafix("diff", folder / "old.dl", folder / "new.dl", "-F", folder, "-q")
    assert told.out.splitlines() == ["-path(1, 3)", "+path(1, 1)", "+path(2, 2)"]
    assert (told.code, told.err) == (1, "")


def test_an_input_may_go(deltafix, folder):
    told = deltafix("diff", folder / "new.dl", folder / "old.dl", "-F", folder)
    assert told.out.splitlines() == ["-path(1, 1)", "-path(2, 2)", "+path(1, 3)"]
    assert told.err.endswith("old.dl does not keep closed\n")
    assert told.code == 1


def test_what_becomes_of_named_rules_is_told(deltafix, folder):
    old = OLD.replace("path(x, z)", ".rule step path(x, z)") + ".rule odd path(0, 0).\n"
    new = OLD.replace("path(x, y)", ".rule base path(x, y)", 1) + ".rule odd path(0, 1).\n"
    new = new.replace("path(x, z) :- path(x, y),", ".rule step path(z, y) :- path(z, x),")
    (folder / "old.dl").write_text(old)
    (folder / "new.dl").write_text(new.replace("edge(y, z).", "edge(x, y)."))
    told = deltafix("diff", folder / "old.dl", folder / "new.dl", "-F", folder)
    assert told.err.splitlines() == ["rule odd is another one", "rule base is new"]
    assert told.out.splitlines() == ["-path(0, 0)", "+path(0, 1)", "+path(0, 2)", "+path(0, 3)"]


def test_single_rules_are_compared(deltafix, folder):
    step, back = "path(a, c) :- edge(b, c), path(a, b).", "path(y, x) :- back(x, y)."
    declared = ".decl back(x: number, y: number) .input back"
    (folder / "back.facts").write_text("7\t8\n")
    options = ("diff", folder / "old.dl", "-F", folder, "-q")
    told = deltafix(*options, "--remove", step, "--add", f"{declared} {back}")
    assert told.out.splitlines() == ["-path(1, 3)", "+path(8, 7)"]
    told = deltafix(*options, folder / "new.dl", "--add", back.replace("back", "closed(x), edge"))
    assert told.out.splitlines() == ["-path(1, 3)", "+path(1, 1)", "+path(2, 2)", "+path(3, 2)"]
    told = deltafix(*options, "--remove", back.replace("back", "edge"))
    assert (told.code, told.out) == (2, "")
    assert "no such rule to remove: path(y, x) :- edge(x, y)." in told.err
    told = deltafix(*options, "--add", "path(x, y) :- egde(x, y).")
    assert told.code == 2
    assert "did you mean `edge`?" in told.err
    told = deltafix(*options)
    assert told.code == 2
    assert "name the other program, or rules to --add and --remove" in told.err


def test_no_row_may_change(deltafix, folder):
    same = OLD + "path(a, b) :- path(a, b), edge(a, b).\n"
    (folder / "new.dl").write_text(same)
    told = deltafix("diff", folder / "old.dl", folder / "new.dl", "-F", folder)
    assert (told.code, told.out) == (0, "")
    assert told.err.endswith("no row changes\n")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (OLD.replace("number", "symbol"), "edge(x: number, y: number) is edge(x: symbol"),
        (OLD.replace("edge(y, z)", "edg(y, z)"), "`edg` is not declared"),
    ],
)
def test_what_cannot_be_compared_is_refused(deltafix, folder, new, words):
    (folder / "new.dl").write_text(new)
    told = deltafix("diff", folder / "old.dl", folder / "new.dl", "-F", folder, "-q")
    assert (told.code, told.out) == (2, "")
    assert words in told.err
    assert "Traceback" not in told.err


def test_views_of_two_scripts_are_compared(deltafix, tmp_path):
    script = """CREATE TABLE t (a INTEGER, s TEXT); CREATE TABLE u (a INTEGER);
        CREATE VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s;
        CREATE VIEW {view} AS SELECT {what} FROM t;"""
    old, new = tmp_path / "old.sql", tmp_path / "new.sql"
    old.write_text(script.format(view="w", what="s"))
    (tmp_path / "t.csv").write_text('a,s\n1,x\n2,x\n3,\n4,"\t"\n')
    (tmp_path / "u.csv").write_text("a\n")
    new.write_text(script.format(view="w", what="s").replace("FROM t G", "FROM t WHERE a > 1 G"))
    told = deltafix("diff", old, new, "-F", tmp_path, "-q")
    assert (told.code, told.out, told.err) == (1, "-v\tx\t2\n+v\tx\t1\n", "")
    new.write_text(script.format(view="w", what="s") + "INSERT INTO u VALUES (1);")
    told = deltafix("diff", old, new, "-F", tmp_path)
    assert (told.code, told.out, told.err) == (0, "", "no row changes\n")
    new.write_text(script.format(view="w", what="s, a").replace("AS n", "AS m"))
    told = deltafix("diff", old, new, "-F", tmp_path)
    lines = [
        "-w\tNULL",
        "-w\t\\t",
        "-w\tx",
        "-w\tx",
        "+w\tNULL\t3",
        "+w\t\\t\t4",
        "+w\tx\t1",
        "+w\tx\t2",
    ]
    assert told.out.splitlines() == lines
    assert "v has the columns s TEXT, m BIGINT, not s TEXT, n BIGINT" in told.err
    new.write_text(script.format(view="x", what="s"))
    told = deltafix("diff", old, new, "-F", tmp_path)
    assert told.out.splitlines() == ["+x\tNULL", "+x\t\\t", "+x\tx", "+x\tx"]
    assert told.err.splitlines() == [f"{new} has no w", f"{old} has no x"]
    for wrong in ((old,), (old, tmp_path / "new.dl"), (old, new, "--word-size", "32")):
        assert deltafix("diff", *wrong, "-F", tmp_path).code == 2
