"""What errors of SQL say: the names that were written, what is near, and where it is."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

import pandas as pd
import polars as pl
import pytest

import deltafix.sql
from deltafix.engine import rule_edits
from deltafix.errors import InternalError
from deltafix.sql import catalog

TABLES = """
CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT, ts TIMESTAMP, val INTEGER);
CREATE TABLE d (id INTEGER, name TEXT);
CREATE TABLE dec (p DECIMAL(4, 2))
"""


def _told(query: str, dialect: str = "duckdb") -> tuple[str, int, str]:
    """What is said of a query, which column of it is underlined first, and the help."""
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        db.execute(TABLES)
        db.execute("INSERT INTO c VALUES (7, 'a', '2020-01-01', 7)")
        with pytest.raises(deltafix.sql.Error) as caught:
            db.execute(query)
        (found,) = caught.value.diagnostics
        return found.message, found.span.column, found.help or ""


@pytest.mark.parametrize(
    ("dialect", "query", "name"),
    [
        ("duckdb", "SELECT JULIAN(ts) FROM c", "JULIAN"),
        ("spark", "SELECT MAP(1, val) FROM c", "MAP"),
        ("spark", "SELECT to_date(id, 'yyyy-MM-dd') FROM c", "to_date of INTEGER"),
        ("postgres", "SELECT APPROX_COUNT_DISTINCT(id) FROM c", "APPROX_COUNT_DISTINCT"),
        ("postgres", "SELECT APPROX_QUANTILE(val, 0.5) FROM c", "APPROX_QUANTILE"),
        ("duckdb", "SELECT [x + 1 FOR x IN 1] FROM c", "a list comprehension of INTEGER"),
        ("duckdb", "SELECT LIST_REDUCE([1], x -> x) FROM c", "LIST_REDUCE of this"),
        ("duckdb", "SELECT STRING_AGG(val, ',') FROM c", "STRING_AGG of INTEGER"),
        ("duckdb", "SELECT JSON_OBJECT('a', name) FROM c", "JSON_OBJECT"),
    ],
)
def test_a_function_is_called_what_the_text_calls_it(dialect: str, query: str, name: str) -> None:
    assert name in _told(query, dialect)[0]


@pytest.mark.parametrize(
    ("query", "help_"),
    [
        ("SELECT uper(name) FROM c", "did you mean UPPER?"),
        ("SELECT hash(name) FROM c", "`SQL, construct by construct` has all functions"),
        ("SELECT id FROM c WHERE id LIKE '1%'", "CAST(... AS TEXT) is the text of INTEGER"),
        ("SELECT TO_TIMESTAMP(name) FROM c", "it takes seconds since 1970"),
        ("SELECT EPOCH_MS(0.5) FROM c", "it takes a whole number"),
        ("INSERT INTO c (id) SELECT name FROM c", "write CAST(... AS INTEGER)"),
        ("INSERT INTO c BY NAME SELECT TRUE AS id", "write CAST(... AS INTEGER)"),
        ("SELECT id FROM c WHERE COUNT(*) > 1", "aggregates stand in SELECT and HAVING"),
        ("SELECT ROW_NUMBER() AS n FROM c", "write ROW_NUMBER(...) OVER ("),
        ("SELECT id FROM c ORDER BY rank()", "write rank(...) OVER ("),
        ("SELECT LAG(id) FROM c", "write LAG(...) OVER ("),
        ("SELECT id FROM c WHERE LEAD(id) > 1", "write LEAD(...) OVER ("),
        ("SELECT JSON_ARRAY_LENGTH(name) FROM c", "which is a TEXT"),
        ("SELECT LIST_RESIZE([1], 2) FROM c", "LIST_SORT"),
        ("SELECT DATE_JULIAN(ts) FROM c", "DATE_TRUNC"),
        ("SELECT QUANTILE_CONT(val, [0.25, 0.75]) FROM c", "once for each"),
        ("CREATE TABLE j (x JSON)", "keep it as TEXT"),
        ("CREATE TABLE j (x FLOAT)", "write DOUBLE"),
        ("CREATE TABLE j (x HUGEINT)", "DECIMAL(38, 0)"),
        ("CREATE TABLE j (x GEOGRAPHY)", "types are SMALLINT"),
        ("CREATE TABLE j (x integr)", "did you mean INTEGER?"),
        ("CREATE TABLE j (x varchr(9))", "did you mean VARCHAR?"),
        ("CREATE TABLE j (x decimel(18, 2)[])", "did you mean DECIMAL?"),
        ("CREATE TABLE c (x INTEGER)", "DROP TABLE c, which takes its rows away"),
        ('SELECT id FROM c WHERE name = "ada"', "; a text takes single quotes: 'ada'"),
        ('SELECT id FROM c WHERE name = "nam"', "'name'?; a text takes single quotes: 'nam'"),
        ("CREATE TABLE j AS SELECT id FROM c", "INSERT INTO ... SELECT"),
        ("CREATE FUNCTION j(x) AS x + 1", "create_function"),
    ],
)
def test_help_is_about_what_was_written(query: str, help_: str) -> None:
    assert help_ in _told(query)[2]


@pytest.mark.parametrize(
    ("dialect", "kind", "help_"),
    [("postgres", "CHAR(3)", "VARCHAR(9)"), ("spark", "DECIMAL", "DECIMAL(18, 4)")],
)
def test_a_type_of_a_dialect_has_a_way_out(dialect: str, kind: str, help_: str) -> None:
    assert help_ in _told(f"CREATE TABLE j (x {kind})", dialect)[2]


@pytest.mark.parametrize(
    ("query", "underlined"),
    [
        ("CREATE VIEW w AS SELECT c.id, d.id FROM c JOIN d ON c.id = d.id", "d.id FROM"),
        (
            "MERGE INTO c USING d ON c.id = d.id WHEN MATCHED THEN DELETE RETURNING id",
            "RETURNING",
        ),
        ("INSERT INTO c VALUES (1, NULL, NULL, 2), (NULL, 'a', NULL, 1)", "NULL, 'a'"),
        ("SELECT id FROM c WHERE id = 7 AND ts > '2020-13-01'", "'2020"),
        ("DELETE FROM c WHERE ts BETWEEN '2020-13-01' AND '2020-11-01'", "'2020-13"),
        ("SELECT id FROM c WHERE val > 'x'", "'x'"),
        ("SELECT id FROM c WHERE val > 'x' OR name = 'x'", "SELECT"),  # which one is not known
        ("CREATE TABLE j (a INTEGR, b TEXT)", "INTEGR"),
        ("CREATE TABLE j (integr integr)", "integr)"),
        ("CREATE TABLE j (a STRUCT(b TXT[]))", "TXT"),
        ("SELECT CAST(name AS decimel(18, 2)) FROM c", "decimel"),
        ("CREATE TABLE j (a JSON)", "JSON"),
    ],
)
def test_what_is_wrong_is_underlined(query: str, underlined: str) -> None:
    assert _told(query)[1] == query.index(underlined) + 1


@pytest.mark.parametrize(
    ("rows", "said", "help_"),
    [
        ([(1, 1, 1.0, True)], "1 is no TEXT; the column takes str", ""),
        ([(1, "a", 1.0, 1)], "1 is no BOOLEAN; the column takes bool", ""),
        ([(1, "a", "1.0", True)], "'1.0' is no DOUBLE; the column takes float, int or ", ""),
        ([(1.0, "a", 1, True)], "1.0 is no INTEGER", "by df.astype({'id': 'Int64'})"),
        ([(1.5, "a", 1, True)], "1.5 is no INTEGER", ""),
        (pd.DataFrame({"id": [1, None]}), "1.0 is no INTEGER", "df.astype({'id': 'Int64'})"),
        (pl.LazyFrame({"id": [1]}), "not as LazyFrame", "call .collect()"),
    ],
)
def test_a_value_of_python_that_is_none_is_told_with_what_is(rows, said: str, help_: str) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (id INTEGER, name TEXT, d DOUBLE, b BOOLEAN)")
        with pytest.raises(deltafix.sql.Error) as caught:
            db.insert("t", rows)
        (found,) = caught.value.diagnostics
        assert said in found.message
        assert help_ in (found.help or "")
        assert bool(found.help) == bool(help_)


@pytest.mark.parametrize("values", ["(7, 'y', 'x')", "(7, 'y', ?)"])
def test_a_value_of_an_insert_is_told_with_its_column(values: str) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (id INTEGER, name TEXT, num INTEGER)")
        with pytest.raises(deltafix.sql.DataError) as caught:
            db.execute(f"INSERT INTO t VALUES {values}", ("x",) if "?" in values else ())
        (found,) = caught.value.diagnostics
        assert found.message == "column 'num': 'x' is no whole number"
        assert found.span.column == 22 + values.index("?" if "?" in values else "'x'")


def test_a_frame_of_pandas_is_taken_as_its_error_says() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (id INTEGER)")
        db.insert("t", pd.DataFrame({"id": [1, None]}).astype({"id": "Int64"}))
        assert db.execute("SELECT id FROM t").fetchall() == [(1,), (None,)]


def test_of_many_tables_it_is_said_that_there_are_more() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("; ".join(f"CREATE TABLE some{n} (x INTEGER)" for n in range(23)))
        with pytest.raises(deltafix.sql.ProgrammingError, match="and 3 others"):
            db.execute("SELECT * FROM quite")


def test_spark_is_told_of_its_type_without_a_zone() -> None:
    naive = datetime(2026, 1, 1)
    with closing(deltafix.sql.connect(dialect="spark")) as db:
        db.execute("CREATE TABLE t (x TIMESTAMP); CREATE TABLE n (x TIMESTAMP_NTZ)")
        with pytest.raises(deltafix.sql.DataError, match="TIMESTAMP_NTZ"):
            db.insert("t", [(naive,)])
        with pytest.raises(deltafix.sql.DataError, match="TIMESTAMP_NTZ"):
            db.execute("INSERT INTO t VALUES (?)", [naive])
        assert db.insert("n", [(naive,)]) == 1


def test_insert_or_replace_and_or_ignore_are_upserts_by_the_key() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(f"{TABLES}; CREATE TABLE two (a INTEGER PRIMARY KEY, b INTEGER UNIQUE)")
        db.execute("INSERT INTO c VALUES (1, 'a', NULL, 7)")
        db.execute("INSERT OR REPLACE INTO c (id, name) VALUES (1, 'b'), (2, 'x')")
        assert sorted(db.execute("SELECT id, name, val FROM c").fetchall()) == [
            (1, "b", 7), (2, "x", None),
        ]  # fmt: skip
        db.execute("INSERT OR IGNORE INTO c (id, name) VALUES (2, 'y'), (3, 'z')")
        assert db.execute("SELECT name FROM c WHERE id > 1 ORDER BY id").fetchall() == [
            ("x",), ("z",),
        ]  # fmt: skip
    for query, said in (
        ("INSERT OR REPLACE INTO d VALUES (1, 'a')", "no key"),
        ("INSERT OR IGNORE INTO d VALUES (1, 'a')", "no key"),
    ):
        assert said in _told(query)[0]
    assert (
        "ON CONFLICT (id) DO UPDATE" in _told("INSERT OR REPLACE INTO c VALUES (1)", "postgres")[2]
    )


@pytest.mark.parametrize("statement", ["CREATE VIEW w AS", "CREATE OR REPLACE VIEW v AS"])
def test_a_view_whose_rules_have_no_plan_is_refused_at_once(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise InternalError("plan: none")

    for begun in (False, True):
        db = deltafix.sql.connect()
        db.execute("CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT a FROM t")
        if begun:
            db.execute("INSERT INTO t VALUES (1)")
        with monkeypatch.context() as patched:
            patched.setattr(rule_edits if begun else catalog, "lower", none)
            with pytest.raises(InternalError):
                db.execute(
                    f"{statement} WITH RECURSIVE r AS (SELECT a FROM t UNION "
                    "SELECT a + 1 FROM r WHERE a < 3) SELECT * FROM r"
                )
        db.execute("INSERT INTO t VALUES (2)")
        assert db.execute("SELECT * FROM v WHERE a = 2").fetchall() == [(2,)]
        assert [*db.catalog.views] == ["v"]


@pytest.mark.parametrize(
    ("query", "said", "help_"),
    [
        ("SELECT id FROM c GROUP BY 1.50", "a place is a whole number", "name a column"),
        ("SELECT id FROM c ORDER BY 2", "ORDER BY 2, but 1 columns", "count them"),
        ("SELECT COUNT(c) FROM c", "'c' is a table", "COUNT(*) counts rows, COUNT(c.id) those"),
        ("SELECT d FROM c JOIN d USING (id)", "'d' is a table", "name a column, as d.id"),
        (
            "SELECT id FROM c GROUP BY id HAVING EXISTS (SELECT 1 FROM d WHERE d.id = MAX(c.val))",
            "MAX(c.val) in a subquery is about rows of the query around it", "AS m",
        ),
        (
            "SELECT name FROM c GROUP BY name HAVING (SELECT MAX(c.val) FROM d) > 1",
            "MAX(c.val) in a subquery is about rows of the query around it", "AS m",
        ),
        ("SELECT SUM(val) FROM c WHERE SUM(val) > 1", "where there are single rows", "HAVING"),
        ("SELECT x FROM c, LATERAL (SELECT vall AS x)", "unknown column 'vall'", "mean 'val'?"),
        ("SELECT x FROM c, LATERAL (SELECT c.vall AS x FROM d)", "column 'vall'", "mean 'val'?"),
        (
            "SELECT x FROM c, LATERAL (VALUES (val), ('x')) AS l (x)",
            "VALUES: column 1 (col0) is INTEGER in one row and TEXT in another", "CAST",
        ),
        (
            "SELECT x FROM c, LATERAL (VALUES (val, 1), (id)) AS l (x, y)",
            "VALUES of 2 and 1 columns", "as many values",
        ),
        ("SELECT id FROM c UNION SELECT id, name FROM c", "UNION of 1 and 2", "both sides"),
        ("SELECT MAX(val, 2) FROM c", "MAX with a number of rows", "LIMIT n"),
        ("CREATE TABLE x (a INT GENERATED ALWAYS AS IDENTITY)", "GENERATED ALWAYS AS ID", "BIGINT"),
        ("CREATE TEMP TABLE x (a INTEGER)", "with TEMPORARY", "without it"),
        ("CREATE TABLE x (a SERIAL)", "type SERIAL", "give each row its number"),
        ("SELECT AGE(ts) FROM c", "AGE(TIMESTAMP)", "AGE(later, earlier)"),
        ("SELECT val + ALL (SELECT id FROM d) FROM c", "ALL by itself", "x = ALL (SELECT ...)"),
        ("INSERT INTO dec VALUES (CAST(0.5 AS DOUBLE))", "0.5 is no", "CAST(... AS DECIMAL(4, 2))"),
        (
            "WITH r AS (SELECT id FROM d UNION SELECT id + 1 FROM r) SELECT * FROM r",
            "no table 'r' yet", "WITH RECURSIVE",
        ),
        (
            "WITH RECURSIVE r AS (SELECT id FROM d UNION BY NAME SELECT id FROM r) SELECT * FROM r",
            "BY NAME", "in one order",
        ),
        (
            """WITH RECURSIVE r (x, m) USING KEY (x, MAX(m)) AS (SELECT id, val FROM c UNION
            SELECT d.id, LEAST(r.m, 3) FROM r JOIN d ON d.id = r.x) SELECT * FROM r""",
            "not as good", "ask m IS NOT NULL",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_is_called_what_was_written(query: str, said: str, help_: str) -> None:
    message, _, help_said = _told(query)
    assert said in message
    assert help_ in help_said or help_ in message


@pytest.mark.parametrize("edit", ["{}", "BEGIN; {}; COMMIT"])
def test_a_value_that_a_view_cannot_compute_is_told_with_the_view(edit: str) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE c (name TEXT, day DATE)")
        db.execute("CREATE VIEW counted AS SELECT COUNT(*) AS n FROM c")
        db.execute("CREATE VIEW whole AS SELECT CAST(name AS INTEGER) AS n FROM c")
        db.execute("CREATE VIEW later AS SELECT day + INTERVAL 1 DAY AS d FROM c")
        for values, said in (("'x', NULL", "whole"), ("'1', '9999-12-31'", "later")):
            statement = f"INSERT INTO c VALUES ({values})"
            with pytest.raises(deltafix.sql.DataError, match=f", in view '{said}'; the trans"):
                db.execute(edit.format(statement))
        assert db.execute("SELECT n FROM counted").fetchall() == [(0,)]


def test_why_may_stand_around_its_query() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(
            "CREATE TABLE c (a INTEGER); CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM c GROUP BY a"
        )
        db.execute("INSERT INTO c VALUES (1), (1)")
        asked = "SELECT * FROM v WHERE a = 1 AND n = {}"
        for words, n in (("EXPLAIN WHY", 2), ("EXPLAIN WHY NOT", 3)):
            bare = db.execute(f"{words} {asked.format(n)}").fetchall()
            assert bare == db.execute(f"{words} ({asked.format(n)})").fetchall() != []


@pytest.mark.parametrize(
    ("asked", "place", "width"),
    [
        ("SELECT a, CAST(s AS INTEGER) AS n FROM t", 11, len("CAST(s")),
        ("SELECT a FROM t WHERE s::INTEGER > a", 23, 1),
        ("SELECT CAST(s AS INTEGER) AS d, CAST(a AS TEXT) || s AS x FROM t", 8, len("CAST(s")),
        ("SELECT CAST(s AS INTEGER) + CAST(s AS BIGINT) AS n FROM t", 1, None),
        ("CREATE VIEW v AS SELECT CAST(s AS INTEGER) AS n FROM t", 25, len("CAST(s")),
    ],
)
def test_a_cast_that_fails_is_underlined_where_it_alone_can_have(asked, place, width) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, s TEXT); INSERT INTO t VALUES (1, 'x')")
        with pytest.raises(deltafix.sql.DataError, match="'x' is no ") as caught:
            db.execute(asked).fetchall()
    (span,) = (one.span for one in caught.value.diagnostics)
    assert (span.column, span.end - span.start) == (place, width or len(asked))


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
@pytest.mark.parametrize(
    "asked",
    ["SELECT FROM t", "SELECT a FROM t WHERE EXISTS (SELECT FROM t)", "select distinct\nfrom t"],
)
def test_a_select_without_columns_is_postgresqls_alone(dialect, asked) -> None:
    with deltafix.sql.connect(dialect=dialect) as db:
        db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        if dialect == "postgres":
            assert len(db.execute(asked).fetchall()) == 1
            return
        with pytest.raises(deltafix.sql.ProgrammingError, match="SELECT without columns"):
            db.execute(asked)


@pytest.mark.parametrize(
    ("asked", "place", "said"),
    [
        ("SELECT * FROM member.csv", 15, "'member.csv' is a file, and queries read tables"),
        ("CREATE TABLE x (id INT AUTO_INCREMENT)", 17, "give each row its number"),
        ("CREATE TABLE x (id INT GENERATED ALWAYS AS IDENTITY)", 17, "give each row its number"),
        ("CREATE TABLE x (id INT COLLATE nocase)", 17, "the constraint COLLATE nocase of id is"),
        ("DELETE t WHERE a = 1", 8, "write DELETE FROM"),
        ("UPDATE t a = 1", 12, "is SET missing before 'a'?"),
        ("INSERT INTO t (a) (1)", 20, "is VALUES missing before"),
        ("SELECT a, COUNT(*) FROM t GROUP a", 33, "is BY missing before 'a'?"),
        ("SELECT a FROM t JOIN t AS u t.a = u.a", 29, "is ON missing before 't'?"),
        ("SELECT TOP 3 a FROM t", 12, "write LIMIT and the number at the end"),
        ("SELECT `a` FROM t", 10, "a name stands in double quotes"),
        ("# first\nSELECT 1", 1, "a comment begins with --"),
        ("CREATE TABEL q (a INT)", 1, "did you mean CREATE TABLE?"),
        ("SELECT a t WHERE a = 1", 18, "there is no FROM here"),
    ],
)
def test_a_newcomers_mistake_is_told_with_what_to_write(asked, place, said, capsys, caplog) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        with pytest.raises(deltafix.sql.Error) as caught:
            db.execute(asked)
    assert said in str(caught.value)
    assert caught.value.diagnostics[0].span.column == place
    assert not caplog.records  # sqlglot says nothing beside it
