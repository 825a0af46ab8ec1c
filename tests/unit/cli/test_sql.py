"""`deltafix sql`, and `deltafix run` of a script of SQL."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from io import StringIO
from operator import itemgetter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltafix.cli.main import BROKEN_PIPE

SCRIPT = """
CREATE TABLE edge (x INTEGER, y TEXT);
CREATE MATERIALIZED VIEW texts AS SELECT y, COUNT(*) AS n FROM edge GROUP BY y;
"""


def test_a_script_shows_results_and_changes(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text(SCRIPT)
    (tmp_path / "edit.sql").write_text("INSERT INTO edge VALUES (1, 'a\tb'), (2, NULL), (3, NULL)")
    files = (tmp_path / "views.sql", tmp_path / "edit.sql")
    done = deltafix("sql", *files, "-c", "SELECT 1, NULL, TRUE")
    assert (done.code, done.err) == (0, "")
    assert done.out == "+texts\ta\\tb\t1\n+texts\tNULL\t2\n1\tNULL\ttrue\n"


def test_a_view_that_is_made_again_is_shown_once(deltafix):
    make = "CREATE VIEW v AS SELECT a FROM t"
    script = f"""
        CREATE TABLE t (a INTEGER); {make}; INSERT INTO t VALUES (1);
        DROP VIEW v; {make}; INSERT INTO t VALUES (2);
        BEGIN; DROP VIEW v; {make}; INSERT INTO t VALUES (3); COMMIT;
        BEGIN; DROP VIEW v; ROLLBACK; INSERT INTO t VALUES (4);
        CREATE OR REPLACE VIEW v AS SELECT a FROM t WHERE a > 1; INSERT INTO t VALUES (5);
        BEGIN; CREATE VIEW w AS SELECT 9 AS b FROM t; ROLLBACK;
        CREATE VIEW w AS SELECT -a AS b FROM t; INSERT INTO t VALUES (6)
    """
    done = deltafix("sql", "-c", script)
    wanted = ["+v\t1", "+v\t2", "+v\t3", "+v\t4", "-v\t1", "+v\t5", "+v\t6", "+w\t-6"]
    assert (done.code, done.out.splitlines()) == (0, wanted)


@pytest.mark.parametrize("piped", [True, False])
def test_what_stands_on_standard_input_beside_files_is_noted(
    deltafix, tmp_path, monkeypatch, piped
):
    script = tmp_path / "views.sql"
    script.write_text("SELECT 1")
    for text in ("", "SELECT 2"):
        given = tmp_path / "given.sql"
        given.write_text(text)
        read, write = os.pipe()
        os.write(write, text.encode())
        os.close(write)
        with open(read if piped else given) as standard_input:
            monkeypatch.setattr("sys.stdin", standard_input)
            done = deltafix("sql", script)
            assert (done.code, done.out) == (0, "1\n")
            assert ("note: standard input was not run" in done.err) == bool(text)
            assert deltafix("sql", script, "-q") == (0, "1\n", "")
            assert standard_input.read() == text
        if not piped:
            os.close(read)


def test_a_reader_of_changes_that_goes_away_is_no_error(warm_kernel) -> None:
    make = "CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT a FROM t"
    load = "INSERT INTO t SELECT * FROM range(100000)"
    command = [sys.executable, "-m", "deltafix", "sql", "-c", make, "-c", load]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == BROKEN_PIPE


def test_null_an_empty_text_and_one_that_says_null_are_told_apart(deltafix) -> None:
    done = deltafix("sql", "-c", "SELECT NULL, '', 'NULL', '\\NULL', [NULL, 'NULL']")
    assert done.out == 'NULL\t\t\\NULL\t\\\\NULL\t[null, "NULL"]\n'


def test_arrays_and_structs_are_json_in_rows_and_in_deltas(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text("""
        CREATE TABLE t (a INTEGER[][], s STRUCT(x DATE, y VARCHAR));
        CREATE VIEW v AS SELECT a, s FROM t;
        INSERT INTO t VALUES ([[1, NULL], []], {'x': '2026-01-31', 'y': 'é'})
    """)
    done = deltafix("sql", tmp_path / "views.sql", "-c", "SELECT * FROM t")
    line = '[[1, null], []]\t{"x": "2026-01-31", "y": "é"}\n'
    assert (done.code, done.out) == (0, f"+v\t{line}{line}")


VALUES = """
    CREATE TABLE t (a INTEGER, b TEXT, d DATE, ns INTEGER[], x DECIMAL(4, 2));
    CREATE VIEW v AS SELECT a FROM t;
    INSERT INTO t VALUES (1, 'x,"y\nz\u2028', DATE '2020-01-01', [1, NULL], 1.5),
        (2, '', NULL, [], NULL), (3, NULL, NULL, NULL, NULL)"""


def test_rows_as_csv_are_those_of_a_file_and_stand_alone(deltafix, tmp_path):
    done = deltafix("sql", "--format", "csv", "-c", VALUES, "-c", "SELECT * FROM t ORDER BY a")
    assert (done.code, done.err) == (0, "")
    header, first, *_ = csv.reader(StringIO(done.out, newline=""))
    assert header == ["a", "b", "d", "ns", "x"]
    assert first == ["1", 'x,"y\nz\u2028', "2020-01-01", "[1, null]", "1.50"]
    (tmp_path / "t.csv").write_text(done.out)
    script = tmp_path / "t.sql"
    script.write_text(VALUES.partition(";")[0])
    ask = ("--format", "csv", "-c", "SELECT * FROM t ORDER BY a")
    assert deltafix("sql", script, "-F", tmp_path, *ask) == (0, done.out, "")


def test_rows_as_json_are_a_line_each(deltafix):
    done = deltafix("sql", "--format", "json", "-c", VALUES, "-c", "SELECT * FROM t ORDER BY a")
    nothing = {"b": None, "d": None, "ns": None, "x": None}
    assert [json.loads(line) for line in done.out.split("\n")[:-1]] == [
        {"a": 1, "b": 'x,"y\nz\u2028', "d": "2020-01-01", "ns": [1, None], "x": "1.50"},
        {"a": 2, "b": "", "d": None, "ns": [], "x": None},
        {"a": 3, **nothing},
    ]
    refused = deltafix("sql", "--format", "json", "-c", "SELECT 1 AS a, 2 AS a")
    assert (refused.code, refused.out) == (2, "")
    assert "two columns 'a' are one in JSON" in refused.err


def test_statements_may_be_given_several_times(deltafix):
    create, insert = "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1), (2)"
    done = deltafix("sql", "-c", create, "-c", insert, "-c", "SELECT COUNT(*) FROM t")
    assert (done.code, done.out, done.err) == (0, "2\n", "")
    done = deltafix("sql", "-c", create, "-c", "SELECT b FROM t", "-c", "SELECT 3")
    assert (done.code, done.out) == (2, "")
    assert "-c:1:8: error[DF721]: unknown column 'b'" in done.err


@pytest.mark.parametrize("text", ["NA", "null", "\\N", " NaN"])
def test_how_null_is_written_is_said_where_a_value_looks_like_one(deltafix, tmp_path, text):
    """R writes NA, PostgreSQL \\N: columns of numbers refuse them."""
    (tmp_path / "views.sql").write_text(SCRIPT)
    (tmp_path / "edge.csv").write_text(f"x,y\n1,a\n{text},b\n")
    done = deltafix("sql", tmp_path / "views.sql", "-F", tmp_path)
    said = f"edge.csv:3: {text!r} in column 'x' is no INTEGER; NULL is an empty field\n"
    assert (done.code, done.err.endswith(said)) == (2, True)
    (tmp_path / "edge.csv").write_text("x,y\n1,a\n,b\n")
    assert deltafix("sql", tmp_path / "views.sql", "-F", tmp_path).code == 0


def test_a_state_folder_keeps_views_from_one_run_to_the_next(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text(SCRIPT)
    folder = ("--state", tmp_path / "state")
    assert deltafix("sql", tmp_path / "views.sql", *folder).code == 0
    done = deltafix("sql", "-c", "INSERT INTO edge VALUES (1, 'a'), (2, 'a')", *folder)
    assert (done.code, done.out) == (0, "+texts\ta\t2\n")
    done = deltafix("sql", "-c", "SELECT * FROM texts", *folder)
    assert (done.code, done.out) == (0, "a\t2\n")


RIGHTS = """
CREATE TABLE member (who TEXT, team TEXT);
CREATE VIEW teams AS SELECT team, COUNT(*) AS n FROM member GROUP BY team;
INSERT INTO member VALUES ('eve', 'b');
"""


def test_a_script_is_run_into_a_state_once_and_then_compared(deltafix, tmp_path):
    script, more, state = (tmp_path / name for name in ("rights.sql", "more.sql", "state"))
    script.write_text(RIGHTS)
    more.write_text("CREATE VIEW large AS SELECT team FROM teams WHERE n > 1; SELECT 1 AS one")
    folder = tmp_path / "d"
    folder.mkdir()
    ask = ("--state", state, "-F", folder)
    (folder / "member.csv").write_text("who,team\nada,a\n")
    done = deltafix("sql", script, *ask)
    assert (done.code, sorted(done.out.splitlines())) == (
        0,
        ["+teams\ta\t1", "+teams\tb\t1", "-teams\tb\t1"],
    )
    (folder / "member.csv").write_text("who,team\nada,a\nbo,a\n")
    done = deltafix("sql", script, *ask)
    again = f"note: rows are those of {state}, which has the tables and views of {{}}; "
    again += "the script is not run again\n"
    assert done == (0, "-teams\ta\t1\n+teams\ta\t2\n", again.format(script))  # and no eve
    # A second script may build on the tables of the first, in the same run or in another one.
    assert deltafix("sql", script, more, *ask) == (0, "1\n", again.format(script))
    for files in ([more], [script, more], [more, script]):
        done = deltafix("sql", *files, *ask)
        assert done == (0, "", "".join(map(again.format, files)))
    # What differs is told, and nothing is run.
    for text, says in (
        (RIGHTS.replace("TEXT)", "TEXT, since DATE)"), f"only {script} has column since DATE"),
        (RIGHTS + "CREATE VIEW x AS SELECT who FROM member;", f"{state} has no view x, which"),
    ):
        script.write_text(text)
        done = deltafix("sql", script, *ask)
        assert (done.code, done.out) == (2, "")
        assert says in done.err
    done = deltafix("sql", "--state", state, "-c", "SELECT who FROM member ORDER BY who")
    assert done.out == "ada\nbo\n"


def test_a_script_that_fails_leaves_nothing_in_a_state_and_can_be_mended(deltafix, tmp_path):
    script, state = tmp_path / "rights.sql", tmp_path / "state"
    script.write_text(f"{RIGHTS} INSERT INTO member VALUES (1, 2, 3)")
    assert deltafix("sql", script, "--state", state).code == 2
    script.write_text(RIGHTS)
    assert deltafix("sql", script, "--state", state) == (0, "+teams\tb\t1\n", "")
    script.write_text(f"{RIGHTS} INSERT INTO member VALUES ('bo', 'b')")
    assert "not run again" in deltafix("sql", script, "--state", state).err


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE IF NOT EXISTS t (a INTEGER); INSERT INTO t VALUES (1)",
        "DROP TABLE IF EXISTS t; CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t VALUES (1)",
    ],
)
def test_a_script_that_can_be_run_again_is(deltafix, tmp_path, text):
    script, state = tmp_path / "t.sql", tmp_path / "state"
    script.write_text(text)
    assert deltafix("sql", "--state", state, "-c", "CREATE TABLE t (a INTEGER)").code == 0
    for _ in range(2):
        assert deltafix("sql", script, "--state", state) == (0, "", "")
    assert deltafix("sql", "--state", state, "-c", "SELECT COUNT(*) FROM t").out == "2\n"


def test_a_script_with_transactions_of_its_own_is_run_as_it_says(deltafix, tmp_path):
    script, state = tmp_path / "dump.sql", tmp_path / "state"
    script.write_text("BEGIN; CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1); COMMIT")
    assert deltafix("sql", script, "--state", state) == (0, "", "")
    done = deltafix("sql", script, "--state", state)
    assert done.code == 2  # a part of it may be there: nobody can tell that it was run
    assert "there is a table or view 't' already" in done.err
    assert "write IF NOT EXISTS to leave it as it is" in done.err
    assert "DROP TABLE t, which takes its rows away" in done.err


def test_tables_of_a_state_become_their_files_by_the_difference(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text("""
        CREATE TABLE team (name TEXT PRIMARY KEY);
        CREATE TABLE person (id INTEGER PRIMARY KEY, team TEXT REFERENCES team, born DATE);
        CREATE VIEW sizes AS SELECT team, COUNT(*) AS n FROM person GROUP BY team""")
    team, person = tmp_path / "team.csv", tmp_path / "person.csv"
    both = ("-F", tmp_path, "--state", tmp_path / "state")
    team.write_text("name\na\nb\n")
    person.write_text("id,team,born\n1,a,\n2,b,2026-01-31\n")
    done = deltafix("sql", tmp_path / "views.sql", *both)
    assert (done.code, done.out, done.err) == (0, "+sizes\ta\t1\n+sizes\tb\t1\n", "")
    team.write_text("name\nc\nb\n")
    person.write_text("id,team,born\n1,c,\n2,b,2026-01-31\n3,b,\n")
    done = deltafix("sql", *both, "-c", "SELECT COUNT(*) FROM person")
    assert (done.code, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == [
        *("+sizes\tb\t2", "+sizes\tc\t1", "-sizes\ta\t1", "-sizes\tb\t1", "3")
    ]
    for table, text, said in (
        (person, "id,team,born\n1,c,\n2,zz,\n", "person.csv:3: person: (team) of a row is ('zz')"),
        (
            person,
            "id,team,born\n1,c,1977\n",
            "'1977' in column 'born' is no DATE; write 2026-01-31",
        ),
        (team, "name\nc\n", "which team would lose"),
    ):
        before = table.read_text()
        table.write_text(text)
        done = deltafix("sql", *both, "-c", "SELECT 1")
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        table.write_text(before)
    done = deltafix("sql", "--state", tmp_path / "state", "-c", "SELECT * FROM sizes")
    assert sorted(done.out.splitlines()) == ["b\t2", "c\t1"]


def test_what_never_ends_is_bounded(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text("""
        CREATE TABLE edge (x INTEGER, y INTEGER);
        CREATE VIEW far AS WITH RECURSIVE far (x, n) AS (
            SELECT x, 0 FROM edge UNION SELECT y, n + 1 FROM far JOIN edge USING (x))
        SELECT * FROM far;""")
    (tmp_path / "edge.csv").write_text("x,y\n1,1\n")
    script = (tmp_path / "views.sql", "-F", tmp_path)
    for bound in (("--max-rows", "500"), ("--max-rounds", "500"), ("--timeout", "0.2")):
        for command in ("run", "sql"):
            done = deltafix(command, *script, *bound)
            assert (done.code, done.out) == (2, "")
            assert "error[DF410]" in done.err
    for option in (("--word-size", "32"), ("--profile",), ("--strict",), ("-M", "A=1")):
        done = deltafix("run", *script, *option)
        assert (done.code, done.out) == (2, "")
        assert "a script of SQL is run with" in " ".join(done.err.replace("│", " ").split())


def test_an_error_names_the_file_and_ends_the_run(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text(SCRIPT + "SELECT z FROM edge;\nSELECT 1;")
    done = deltafix("sql", tmp_path / "views.sql")
    assert (done.code, done.out) == (2, "")
    assert "views.sql:4:8: error[DF721]: unknown column 'z'" in done.err
    assert "Traceback" not in done.err
    none = tmp_path / "none.sql"
    for command in ("sql", "run", "watch", "serve"):
        done = deltafix(command, none)
        assert (done.code, done.err.splitlines()[-1]) == (
            2, f"error[DF300]: cannot read {none}: No such file or directory",
        )  # fmt: skip


def test_a_value_that_a_view_cannot_compute_is_told_where_the_view_is_made(deltafix, tmp_path):
    script, facts = tmp_path / "views.sql", tmp_path / "data"
    facts.mkdir()
    (facts / "t.csv").write_text("id,s\n1,5\n2,x\n")
    table = "CREATE TABLE t (id INTEGER, s TEXT);\n"
    script.write_text(f"{table}CREATE VIEW v AS\n  SELECT CAST(s AS INTEGER) AS n FROM t;")
    done = deltafix("run", script, "-F", facts)
    assert done.code != 0
    assert f"{script}:2:1: error[DF724]: 'x' is no whole number, in view 'v'" in done.err
    assert "2 | CREATE VIEW v AS" in done.err


def test_run_reads_tables_and_writes_views(deltafix, tmp_path, monkeypatch):
    (tmp_path / "views.sql").write_text(SCRIPT)
    (tmp_path / "edge.csv").write_text('y,x\na,1\n,2\n"",3\n')
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    written = (tmp_path / "out" / "texts.csv").read_text()
    assert sorted(written.splitlines()) == ['"",1', '"a",1', '"y","n"', ",1"]
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert done.out.startswith("-- texts")
    monkeypatch.chdir(tmp_path)
    done = deltafix("run", "views.sql")
    assert (done.code, done.out) == (0, "")
    assert done.err == "note: the views are here, as <view>.csv; -D - prints them\n"
    assert (tmp_path / "texts.csv").read_text() == written


EVERY = {
    "BOOLEAN": "(TRUE), (FALSE), (NULL)",
    "INTEGER": "(-1), (NULL)",
    "DECIMAL(9, 2)": "(1.50), (-0.05), (NULL)",
    "DOUBLE": "(1.5), (1e300), ('NaN'), ('-Infinity'), (NULL)",
    "VARCHAR": "('true'), (''), ('a\"b,c'), ('NULL'), (NULL)",
    "DATE": "(DATE '2026-01-02'), (NULL)",
    "TIMESTAMP": "(TIMESTAMP '2026-01-02 03:04:05.000006'), (NULL)",
    "TIMESTAMPTZ": "(TIMESTAMPTZ '2026-01-02 03:04:05+02'), (NULL)",
    "BLOB": "('\\x00'), (NULL)",
    "BOOLEAN[]": "([TRUE, NULL]), ([]), (NULL)",
    "STRUCT(a BOOLEAN, b VARCHAR)": "({'a': FALSE, 'b': 'x'}), (NULL)",
}


@pytest.mark.parametrize("kind", EVERY)
def test_a_view_that_was_written_is_a_table_that_is_read_with_the_same_rows(
    deltafix, tmp_path, kind
):
    made = f"CREATE TABLE t (a {kind}, n INTEGER NOT NULL);"
    view = "CREATE VIEW v AS SELECT a, n FROM t;"
    rows = ", ".join(f"({one}, {n})" for n, one in enumerate(_values(EVERY[kind])))
    (tmp_path / "first.sql").write_text(f"{made} {view} INSERT INTO t VALUES {rows};")
    (tmp_path / "again.sql").write_text(f"{made} {view}")
    done = deltafix("run", tmp_path / "first.sql", "-F", tmp_path, "-D", tmp_path / "one")
    assert done.code == 0, done.err
    written = (tmp_path / "one" / "v.csv").read_text()
    (tmp_path / "one" / "v.csv").rename(tmp_path / "one" / "t.csv")
    done = deltafix("run", tmp_path / "again.sql", "-F", tmp_path / "one", "-D", tmp_path / "two")
    assert done.code == 0, done.err
    assert (tmp_path / "two" / "v.csv").read_text() == written
    shown = [
        deltafix("sql", tmp_path / name, *more, "-q", "-c", "SELECT * FROM v ORDER BY n").out
        for name, more in (("first.sql", ()), ("again.sql", ("-F", tmp_path / "one")))
    ]
    assert shown[0] == shown[1]
    if kind == "BOOLEAN":
        assert sorted(written.splitlines()) == ['"a","n"', ",2", "false,1", "true,0"]


def _values(listed):
    return [one.strip("()") for one in re.split(r"(?<=\)), (?=\()", listed)]


BESIDE = "note: not read, of no table, in {}: edges.csv (did you mean `edge`?)\n"


@pytest.mark.parametrize("command", [("run", "-D", "-"), ("sql",), ("sql", "-q")])
def test_a_table_without_rows_and_without_a_file_is_refused_by_run_and_sql(
    deltafix, tmp_path, command
):
    script, folder = tmp_path / "rights.sql", tmp_path / "q"
    folder.mkdir()
    script.write_text("""
        CREATE TABLE member (who TEXT); CREATE TABLE deny (who TEXT);
        CREATE VIEW may AS SELECT who FROM member EXCEPT SELECT who FROM deny;""")
    (folder / "member.csv").write_text("who\nada\n")
    name, *options = command
    done = deltafix(name, script, "-F", folder, *options)
    assert (done.code, done.out) == (2, "")  # not ada, who may be denied
    assert f"table deny has no rows: no deny.parquet and no deny.csv in {folder}; one" in done.err
    (folder / "deny").mkdir()
    assert f"{folder / 'deny'} is a folder" in deltafix(name, script, "-F", folder, *options).err
    (folder / "deny.csv").write_text("who\n")
    assert deltafix(name, script, "-F", folder, *options).code == 0


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_table_may_be_a_folder_of_part_files_as_spark_writes_it(deltafix, tmp_path, kind):
    import duckdb

    folder = tmp_path / "lake"
    parts = folder / "t"
    parts.mkdir(parents=True)
    rows = [(number, number % 7) for number in range(30)]
    for part in range(3):
        values = ", ".join(map(str, rows[part::3]))
        duckdb.sql(
            f"COPY (FROM (VALUES {values}) AS v (a, b)) TO '{parts}/part-{part}.{kind}' "
            f"(FORMAT {kind})"
        )
    (parts / "_SUCCESS").touch()
    (parts / ".part-0.crc").touch()
    script = tmp_path / "v.sql"
    script.write_text("""
        CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER);
        CREATE VIEW v AS SELECT b, COUNT(*) AS n, SUM(a) AS s FROM t GROUP BY b;""")
    asked = "SELECT b, COUNT(*) AS n, SUM(a) AS s FROM {} GROUP BY b ORDER BY b"
    wanted = duckdb.sql(asked.format(f"'{parts}/part-*.{kind}'")).fetchall()
    shown = deltafix("sql", script, "-F", folder, "-q", "-c", asked.format("t"))
    assert shown == (0, "".join(f"{b}\t{n}\t{s}\n" for b, n, s in wanted), "")
    state = ("--state", tmp_path / "state", "-F", folder)
    assert deltafix("sql", script, *state, "-q").code == 0
    (parts / f"part-2.{kind}").unlink()
    changed = deltafix("sql", script, *state).out.splitlines()
    assert len([line for line in changed if line[0] == "-"]) == 7
    duckdb.sql(f"COPY (SELECT 1 AS a, 9 AS b) TO '{parts}/part-3.{kind}' (FORMAT {kind})")
    place = "part-3.csv:2" if kind == "csv" else "part-3.parquet, row 1"
    assert f"{parts}/{place}: t: PRIMARY" in deltafix("sql", script, "-F", folder, "-q").err
    (parts / "_temporary").mkdir()
    assert "is being written" in deltafix("sql", script, "-F", folder, "-q").err
    (parts / "_temporary").rmdir()
    (parts / "day=1").mkdir()
    assert "part files lie side by side" in deltafix("sql", script, "-F", folder, "-q").err
    (folder / f"t.{kind}").touch()
    assert f"has t.{kind} and t, and a table has one" in deltafix("run", script, "-F", folder).err


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_table_of_a_state_keeps_its_rows_where_its_file_is_missing(deltafix, tmp_path, quiet):
    folder, state = tmp_path / "d", tmp_path / "state"
    folder.mkdir()
    both = ("--state", state, "-F", folder)
    assert deltafix("sql", "--state", state, "-c", SCRIPT).code == 0
    (folder / "edges.csv").write_text("x,y\n1,a\n")
    lacks = f"note: no edge.parquet and no edge.csv in {folder}; table edge"
    beside = "" if quiet else BESIDE.format(folder)
    done = deltafix("sql", *both, "-c", "SELECT * FROM texts", *quiet)
    assert done == (0, "", f"{lacks} has no rows\n{beside}")
    (folder / "edges.csv").rename(folder / "edge.csv")
    (folder / "texts.csv").write_text("y,n\n")  # as `run` writes it: of a view
    done = deltafix("sql", *both, "-c", "SELECT y FROM texts", *quiet)
    assert (done.code, done.out, done.err) == (0, "a\n" if quiet else "+texts\ta\t1\na\n", "")
    (folder / "edge.csv").unlink()
    done = deltafix("sql", *both, "-c", "SELECT y FROM texts", *quiet)
    assert done == (0, "a\n", f"{lacks} keeps its 1 row\n")


def test_a_table_that_nothing_fills_is_an_error_of_a_run(deltafix, tmp_path):
    script, folder = tmp_path / "views.sql", tmp_path / "d"
    folder.mkdir()
    script.write_text(SCRIPT)
    done = deltafix("run", script, "-F", folder, "-D", "-")
    assert (done.code, done.out) == (2, "")
    assert f"table edge has no rows: no edge.parquet and no edge.csv in {folder}" in done.err
    (folder / "edges.csv").write_text("x,y\n")
    assert "did you mean `edges.csv`?" in deltafix("run", script, "-F", folder, "-D", "-").err
    script.write_text(f"CREATE TABLE edges (x INTEGER, y TEXT); {SCRIPT}")
    other = deltafix("run", script, "-F", folder, "-D", "-").err
    assert "table edge has no rows" in other
    assert "edges.csv" not in other  # it is the file of another table
    script.write_text(f"{SCRIPT}; INSERT INTO edge VALUES (1, 'a');")
    done = deltafix("run", script, "-F", folder, "-D", "-")
    note = f"note: no edge.parquet and no edge.csv in {folder}; table edge keeps its 1 row\n"
    assert (done.code, done.err) == (0, f"{note}{BESIDE.format(folder)}")
    script.write_text(SCRIPT)
    (folder / "edge.csv").write_text("x,y\n")
    assert deltafix("run", script, "-F", folder, "-D", "-").code == 0


def test_a_file_that_does_not_fit_is_refused(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text(SCRIPT)
    (tmp_path / "edge.csv").write_text("x\n1\n")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (2, "")
    assert "has no column 'y'; it has x" in done.err
    (tmp_path / "edge.csv").write_text("x;y\n1;2\n")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert 'there is ";" between names; write the file with commas' in done.err
    (tmp_path / "edge.csv").write_text("x,y\none,two\n")
    assert "edge.csv" in deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x,y\n1,a\n\nten,b\n", "edge.csv:4: 'ten' in column 'x' is no INTEGER"),
        ("x,y\n1,a\nNA,b\n", "edge.csv:3: 'NA' in column 'x' is no INTEGER\n"),
        ('x,y\n1,"a\nb"\n99999999999,b\n', "edge.csv:4: '99999999999' in column 'x' is no INTEGER"),
        ("x,y\n1,a\n,b\n", "edge.csv:3: no value for 'x', which is NOT NULL"),
        (
            'x,y\n1,"a\n"\n\n2,b\n1,b\n',
            "edge.csv:6: edge: PRIMARY KEY (x) has a row with (1) already; the row is (1, 'b'), ",
        ),
        ('x,y\n1,"a\n"\n\n2,b\n1,b\n', "edge.csv:2 has (1, 'a\\n')"),
        ("x,y\n1,a\n2,no\n", "edge.csv:3: edge: (2, 'no') breaks CHECK (y <> 'no')\n"),
        (
            'x,y\n1,"a\nb"\n\n1,a,2\n',
            "edge.csv:5: expected 2 values (x, y), as the first line has, found 3: '1,a,2'",
        ),
        (
            "x,y\r1,a\r1\r",
            "edge.csv:3: expected 2 values (x, y), as the first line has, found 1: '1'",
        ),
        ("x,y\n1," + 90 * "a" + ",\n", "found 3: '1," + 57 * "a" + "…"),
        ("", "edge.csv is empty; its first line is to name the columns: x,y"),
        ('x,y\n1,"a\n2,b\n', "edge.csv:2: not RFC 4180: a quote in it has no end"),
        (b"x,y\n1,a\n2,\xe9\n", "edge.csv:3: byte 0xe9 is not UTF-8 text"),
        (b"x,\xe9\n1,a\n", "edge.csv:1: byte 0xe9 is not UTF-8 text"),
        ("x,y\n1,a\n".encode("utf-16"), "edge.csv:1: byte 0xff is not UTF-8 text"),
        ("x,y,x\n1,2,3\n", "edge.csv has two columns 'x'"),
        ("x, y\n1,2\n", "it has x,  y: the name ' y' has blanks around it; write the header"),
    ],
)
def test_a_wrong_value_is_told_by_line_and_column_of_its_file(deltafix, tmp_path, text, said):
    script = SCRIPT.replace("x INTEGER", "x INTEGER NOT NULL PRIMARY KEY")
    (tmp_path / "views.sql").write_text(script.replace("y TEXT", "y TEXT CHECK (y <> 'no')"))
    (tmp_path / "edge.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "INSERT" not in done.err


def test_values_may_have_line_breaks_and_a_header_may_stand_alone(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text(SCRIPT)
    many = 200_000  # more than a block of Arrow
    text = "x,y\n" + "".join(f'{number},"a\n{number % 7}"\n' for number in range(many))
    (tmp_path / "edge.csv").write_text(text)
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", tmp_path)
    assert (done.code, done.err) == (0, "")
    with (tmp_path / "texts.csv").open(newline="") as stream:
        written = list(csv.DictReader(stream))
    assert [(one["y"], int(one["n"])) for one in sorted(written, key=itemgetter("y"))] == [
        (f"a\n{rest}", len(range(rest, many, 7))) for rest in range(7)
    ]
    (tmp_path / "edge.csv").write_text("x,y")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (0, '-- texts\n"y","n"\n')


def test_a_row_that_refers_to_none_or_meets_one_of_the_script_is_told_by_line(deltafix, tmp_path):
    keyed = "CREATE TABLE t (k INTEGER PRIMARY KEY, above INTEGER REFERENCES t (k));"
    (tmp_path / "views.sql").write_text(keyed + "INSERT INTO t VALUES (1, NULL);")
    for rows, said in (
        (
            "2,\n3,7\n4,7\n",
            "(above) of a row is (7), which t has not; the row is (3, 7)",
        ),
        (
            "2,\n1,2\n",
            "PRIMARY KEY (k) has a row with (1) already; the row is (1, 2)\n",
        ),
    ):
        (tmp_path / "t.csv").write_text(f"k,above\n{rows}")
        done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
        assert (done.code, done.out) == (2, "")
        assert f"t.csv:3: t: {said}" in done.err


def test_a_column_that_the_table_has_not_is_told_and_two_files_are_refused(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text(SCRIPT)
    (tmp_path / "edge.csv").write_text("x,y,z\n1,a,2\n")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out.splitlines()[2]) == (0, '"a",1')
    assert done.err.endswith("edge.csv: table edge has no column z\n")
    (tmp_path / "edge.parquet").touch()
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (2, "")
    assert "edge.parquet and edge.csv, and a table has one file" in done.err


ARRAYS = """
CREATE TABLE t (id INTEGER, tags VARCHAR[]);
CREATE VIEW v AS SELECT id, tag FROM t, UNNEST(tags) AS u (tag) ORDER BY id, tag;
CREATE VIEW w AS SELECT tag, ARRAY_AGG(id ORDER BY id) AS ids FROM v GROUP BY tag;
"""


def test_a_run_reads_arrays_from_parquet_and_csv_as_it_writes_them(deltafix, tmp_path) -> None:
    (tmp_path / "views.sql").write_text(ARRAYS)
    table = pa.table(
        {"id": [1, 2], "tags": pa.array([["a", "b"], ["a"]], pa.large_list(pa.string()))}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert done.code == 0, done.err
    assert '"a","[1, 2]"\n"b","[1]"\n' in done.out
    (tmp_path / "t.parquet").unlink()
    (tmp_path / "t.csv").write_text('id,tags\n1,"[""a"", ""b""]"\n2,"[""a""]"\n3,[]\n4,\n')
    again = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (again.code, again.out) == (0, done.out), again.err


@pytest.mark.parametrize("text", ["a", '"[""a"", 1]"', '"{""a"": 1}"', '"[[""a""]]"', '"[""a"""'])
def test_a_text_of_csv_that_is_no_array_is_refused_with_its_line(deltafix, tmp_path, text) -> None:
    (tmp_path / "views.sql").write_text(ARRAYS)
    (tmp_path / "t.csv").write_text(f"id,tags\n1,[]\n2,{text}\n")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (2, "")
    plain = text[1:-1].replace('""', '"') or text
    assert f"t.csv:3: {plain!r} in column 'tags' is no TEXT[]; it is written as JSON" in done.err


DECIMALS = "CREATE TABLE t (d DECIMAL(6, 2)); CREATE MATERIALIZED VIEW v AS SELECT d FROM t;"
NOT_ROUNDED = "; what a file says is not rounded, as INSERT rounds it\n"


@pytest.mark.parametrize(
    ("value", "way_out"),
    [
        ("1.234", NOT_ROUNDED), ("-12e-3", NOT_ROUNDED), ("9999.999", "\n"), ("10000", "\n"),
        ("1e5", "\n"), ("nan", "; NULL is an empty field\n"), ("abc", "\n"), ("1_0.125", "\n"),
    ],
)  # fmt: skip
def test_a_decimal_of_csv_is_not_rounded_and_the_error_says_where_insert_is(
    deltafix, tmp_path, value, way_out
) -> None:
    (tmp_path / "views.sql").write_text(DECIMALS)
    (tmp_path / "t.csv").write_text(f"d\n1.23\n{value}\n")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"t.csv:3: {value!r} in column 'd' is no DECIMAL(6, 2){way_out}")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.array(["1.23", "1.234"]).cast(pa.decimal128(9, 3)), f"1.234 in{{}}{NOT_ROUNDED}"),
        (pa.array([1.23, 1.234]), f"1.234 in{{}}{NOT_ROUNDED}"),
        (pa.array(["1.23", "1.234"]), f"'1.234' in{{}}{NOT_ROUNDED}"),
        (pa.array(["1.23", "abc"]), "'abc' in{}\n"),
        (pa.array(["1.23", "1e5"]), "'1e5' in{}\n"),
        (pa.array([1, 12345]), "12345 in{}\n"),
        (pa.array([None, math.nan]), "nan in{}\n"),
    ],
)
def test_a_decimal_of_parquet_that_does_not_fit_is_told_as_one_of_csv(
    deltafix, tmp_path, values, said
) -> None:
    (tmp_path / "views.sql").write_text(DECIMALS)
    pq.write_table(pa.table({"d": values}), tmp_path / "t.parquet")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (2, "")
    said = said.format(" column 'd' is no DECIMAL(6, 2)")
    assert done.err.endswith(f"t.parquet, row 2: {said}")
    assert "error[DF300]" in done.err


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 9999]), pa.array([1.0, None, 9999.0]), pa.array(["1", None, "9999"]),
        pa.array(["1", None, "9999"]).cast(pa.decimal128(12, 5)),
    ],
)  # fmt: skip
def test_numbers_of_parquet_that_a_decimal_holds_are_taken_whatever_their_type(
    deltafix, tmp_path, values
) -> None:
    (tmp_path / "views.sql").write_text(DECIMALS)
    pq.write_table(pa.table({"d": values}), tmp_path / "t.parquet")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()[2:]) == ["", "1.00", "9999.00"]


@pytest.mark.parametrize(
    ("declared", "values", "said"),
    [
        ("INTEGER", pa.array([1, 2**40]), ", row 2: 1099511627776 in column 'd' is no INTEGER\n"),
        (
            "DATE", pa.array(["2026-02-29"]),
            ", row 1: '2026-02-29' in column 'd' is no DATE; write 2026-01-31\n",
        ),
        ("DECIMAL(6, 2)", pa.array([True]), ": column 'd' is bool, and no DECIMAL(6, 2)\n"),
        (
            "TEXT[]", pa.array(["[]", "a"]),
            ", row 2: 'a' in column 'd' is no TEXT[]; it is written as JSON: [1, null], or "
            '{"a": "x"}, its quotes doubled\n',
        ),
        ("BOOLEAN", pa.array([7]), ": column 'd' is int64, and no BOOLEAN\n"),
        (
            "TIMESTAMP", pa.array([0, 2**55], pa.timestamp("ms")),
            ", row 2: <value out of range: 36028797018963968> in column 'd' is no TIMESTAMP\n",
        ),
        (
            "DATE", pa.array([0, 86_400_000_000, 1], pa.timestamp("us")),
            ", row 3: 1970-01-01 00:00:00.000001 in column 'd' is no DATE\n",
        ),
        (
            "DECIMAL(6, 2)[]", pa.array([[1.25], [None, 1.234]]),
            ", row 2: [null, 1.234] in column 'd' is no DECIMAL(6, 2)[]\n",
        ),
    ],
)  # fmt: skip
def test_any_value_of_parquet_that_its_column_does_not_hold_has_a_place(
    deltafix, tmp_path, declared, values, said
) -> None:
    (tmp_path / "views.sql").write_text(DECIMALS.replace("DECIMAL(6, 2)", declared))
    pq.write_table(pa.table({"d": values}), tmp_path / "t.parquet")
    done = deltafix("run", tmp_path / "views.sql", "-F", tmp_path, "-D", "-")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"t.parquet{said}")


@pytest.mark.parametrize("command", ["fmt", "shell", "why", "why-not", "step"])
def test_a_command_that_reads_rules_says_how_sql_is_asked(deltafix, tmp_path, command):
    (tmp_path / "views.sql").write_text(SCRIPT)
    done = deltafix(command, tmp_path / "views.sql")
    assert (done.code, done.out) == (2, "")
    assert f"views.sql is SQL, and `deltafix {command}` reads rules; use " in done.err


def test_rules_are_not_run_as_sql(deltafix, tmp_path):
    done = deltafix("sql", tmp_path / "rights.dl")
    assert (done.code, done.out) == (2, "")
    said = re.sub(r"[\s│]+", "", done.err)  # it stands in a box
    assert re.sub(r"\s", "", f"rights.dl is a program of rules: `deltafix run {tmp_path}") in said


def test_what_was_run_before_a_command_that_fails_stays(deltafix, tmp_path):
    state = ("--state", tmp_path / "state")
    commands = (
        "-c",
        "CREATE TABLE t (a INTEGER)",
        "-c",
        "INSERT INTO t VALUES (1)",
        "-c",
        "SELECT nope",
    )
    assert deltafix("sql", *state, *commands).code == 2
    assert deltafix("sql", *state, "-c", "SELECT * FROM t").out == "1\n"
    told = " ".join(deltafix("sql", "--help").out.replace("│", " ").split())
    assert "what was run before one that fails stays" in told


def test_why_is_asked_of_views_over_files_as_the_refusal_says(deltafix, tmp_path):
    """It named a command that could not read the files."""
    (tmp_path / "views.sql").write_text(SCRIPT)
    (tmp_path / "edge.csv").write_text("x,y,z\n1,a,0\n2,a,0\n")
    told = deltafix("why", tmp_path / "views.sql", "texts(a, 2)").err
    assert "`deltafix sql SCRIPT.sql -F FOLDER -c 'EXPLAIN WHY SELECT" in told
    question = "EXPLAIN WHY SELECT * FROM texts WHERE y = 'a'"
    done = deltafix("sql", tmp_path / "views.sql", "-F", tmp_path, "-c", question)
    assert done.code == 0
    assert done.out.startswith("+texts\ta\t2\ntexts: y = 'a' AND n = 2\n")
    assert "edge: x = 1 AND y = 'a'" in done.out
    assert "table edge has no column z" in done.err


def test_views_are_watched_as_the_files_of_tables_change(deltafix, tmp_path, monkeypatch):
    (tmp_path / "views.sql").write_text(SCRIPT + "CREATE VIEW all_of AS SELECT * FROM edge;")
    edge = tmp_path / "edge.csv"
    edge.write_text("x,y\n1,a\n")
    looks = iter(
        [
            lambda: edge.write_text("x,y\n1,a\n2,\n3,b\n"),
            lambda: None,
            lambda: edge.write_text("x,y\nx,a\n"),
            lambda: None,
            lambda: edge.write_text("x,y\n2,\n"),
            lambda: None,
        ]
    )
    monkeypatch.setattr("deltafix.cli.sql.sleep", lambda _: next(looks)())
    ask = ("watch", tmp_path / "views.sql", "-F", tmp_path)
    done = deltafix(*ask, "-r", "texts", "--epochs", 2)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "+texts\ta\t1"
    assert sorted(lines[1:3]) == ["+texts\tNULL\t1", "+texts\tb\t1"]
    assert sorted(lines[3:]) == ["-texts\ta\t1", "-texts\tb\t1"]
    assert "watching 1 file, Ctrl-C ends" in done.err
    assert "edge.csv:2:1: error[DF300]: 'x' in column 'x' is no INTEGER\n" in done.err
    assert done.err.endswith("its rows stay as they were\n")
    for words, said in (
        (("-r", "text"), "no view 'text'; there are: texts, all_of"),
        (("--word-size", 32), "is watched with"),
        (("--all",), "is watched with"),
    ):
        refused = deltafix(*ask, *words)
        assert refused.code == 2
        assert said in " ".join(refused.err.split()), refused.err


def test_the_plan_of_views_is_that_of_their_rules(deltafix, tmp_path):
    (tmp_path / "views.sql").write_text(SCRIPT)
    done = deltafix("plan", tmp_path / "views.sql")
    assert (done.code, done.err) == (0, "")
    assert "texts" in done.out
    assert "count" in done.out
    assert "texts(" in deltafix("plan", "--stage", "typed", tmp_path / "views.sql").out
    done = deltafix("plan", tmp_path / "views.sql", "-F", tmp_path)
    assert done.code == 2
    assert "without --fact-dir" in done.err
