"""`deltafix check`: findings with their place, as text and as data."""

from __future__ import annotations

import json

import pytest

GOOD = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
BAD = ".decl edge(x: symbol, y: symbol)\nedge(x y).\n"


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "good.dl").write_text(GOOD)
    (tmp_path / "bad.dl").write_text(BAD)
    return tmp_path


def test_a_good_program_is_summed_up(deltafix, programs):
    shown = deltafix("check", programs / "good.dl")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.endswith("good.dl: ok: 2 relations, 2 rules, 1 recursive stratum\n")


def test_a_bad_program_shows_line_column_and_caret(deltafix, programs):
    shown = deltafix("check", programs / "bad.dl")
    assert shown.code == 2
    first, text, caret = shown.out.splitlines()[:3]
    assert "bad.dl:2:8: error[DF103]: " in first
    assert text == "2 | edge(x y)."
    assert caret.index("^") == text.index("y")


def test_several_programs_are_all_checked(deltafix, programs):
    shown = deltafix("check", programs / "bad.dl", programs / "good.dl")
    assert shown.code == 2
    assert "1 error" in shown.out
    assert "good.dl: ok" in shown.out


def test_a_script_of_sql_is_checked_too(deltafix, programs):
    views = programs / "views.sql"
    views.write_text(
        "CREATE TABLE t (x INTEGER);\nCREATE VIEW v AS SELECT x FROM t;\n"
        "INSERT INTO t VALUES (1);\nSELECT * FROM v;\n"
    )
    shown = deltafix("check", views, programs / "good.dl")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"{views}: ok: 1 table, 1 view\n")
    views.write_text("CREATE TABLE t (x INTEGER);\nCREATE VIEW v AS\n  SELECT y FROM t;\n")
    shown = deltafix("check", views)
    assert (shown.code, shown.err) == (2, "")
    first, text, caret = shown.out.splitlines()[:3]
    assert first == f"{views}:3:10: error[DF721]: unknown column 'y'"
    assert caret.index("^") == text.index("y")
    assert shown.out.splitlines()[-1] == f"{views}: 1 error"
    (found,) = json.loads(deltafix("check", "--format", "json", views).out)
    assert (found["path"], found["line"], found["code"]) == (str(views), 3, "DF721")
    views.write_text("SELECT 1 / 2")
    assert deltafix("check", "--dialect", "postgres", views).code == 0
    assert "cannot read" in deltafix("check", programs / "none.sql").err


def test_every_statement_of_a_script_is_checked(deltafix, programs):
    views = programs / "views.sql"
    views.write_text(
        "CREATE TABLE t (x INTEGER);\n"
        "CREATE VIEW lost AS SELECT y FROM t;\n"
        "CREATE VIEW SELECT;\n"
        "CREATE VIEW follows AS SELECT y FROM lost;\n"  # of what is lost nothing is said
        "CREATE VIEW again AS SELECT * FROM follows;\n"
        "CREATE VIEW other AS SELECT * FROM nowhere;\n"
    )
    found = json.loads(deltafix("check", "--format", "json", views).out)
    assert [one["line"] for one in found] == [2, 3, 6]
    shown = deltafix("check", views)
    assert (shown.code, shown.out.splitlines()[-1]) == (2, f"{views}: 3 errors")
    views.write_text(
        "CREATE TABLE t (x INTEGER);\n"
        "CREATE VIEW v AS SELECT x + 1 AS y FROM t;\n"
        "BEGIN; INSERT INTO t VALUES (2147483647);\n"
        "SELECT * FROM v;\n"
        "INSERT INTO t VALUES (1); COMMIT;\n"  # nor of what an error has aborted
        "SELECT z FROM t;\n"
    )
    found = json.loads(deltafix("check", "--format", "json", views).out)
    assert [one["line"] for one in found] == [4, 6]
    views.write_text("CREATE TABLE t (x INTEGER);\nSELECT 'open FROM t;\n")
    (found,) = json.loads(deltafix("check", "--format", "json", views).out)
    assert (found["line"], found["column"]) == (2, 8)
    assert found["message"] == "syntax: ' is not closed"


def test_findings_as_json(deltafix, programs):
    shown = deltafix("check", "--format", "json", programs / "bad.dl", programs / "good.dl")
    assert shown.code == 2
    (found,) = json.loads(shown.out)
    place = (found["line"], found["column"], found["severity"], found["code"])
    assert place == (2, 8, "error", "DF103")
    assert json.loads(deltafix("check", "--format", "json", programs / "good.dl").out) == []


def test_a_program_that_cannot_be_read_is_an_error_of_the_user(deltafix, tmp_path):
    ended = deltafix("check", tmp_path / "none.dl")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error[DF300]: cannot read program")


@pytest.mark.parametrize(
    ("rule", "column", "what"),
    [
        ("p(x + 1) :- p(x), !( e(_, z), z < x ).", 35, "the negated group tests `x`"),
        ("p(x + 1) :- p(x), d(q), !( q = [x + 1, _] ).", 28, "the negated group tests `q`"),
        # The domain of `y` says nothing of the sum, which the recursion alone has.
        (
            "p(y) :- p(x), p(y), s = sum x : { e(_, _) }, _m = max 0 : { e(_, _), s >= y }.",
            70,
            "the aggregate tests `s`",
        ),
    ],
)
def test_what_only_the_planner_refuses_is_found_without_a_run(
    deltafix, tmp_path, rule, column, what
):
    program = tmp_path / "p.dl"
    program.write_text(
        ".type Pair = [x: number, y: number] .decl d(p: Pair)\n"
        f".decl e(x: number, y: number)\n.decl p(x: number)\np(1).\n{rule}\n"
    )
    checked, ran = deltafix("check", program), deltafix("run", program)
    assert checked.code == ran.code == 2
    assert f"{program}:5:{column}: error[DF171]: {what}" in ran.err
    assert ran.err.rstrip() in checked.out
