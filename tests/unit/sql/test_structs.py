"""Structs: fields by name, dicts in and out, which columns `s.a` means; judged by DuckDB."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from tests.judges.sql_judge import changes_followed, views_followed

import deltafix.sql
from deltafix.errors import SqlRefusedError
from deltafix.sql.logical import SqlLogical
from deltafix.sql.types import INTEGER, TEXT, array_type, struct_type

TABLE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, s STRUCT(a INTEGER, b VARCHAR), l STRUCT(x INTEGER)[],
                d STRUCT(p DECIMAL(6, 2), i STRUCT(q DATE, r INTEGER[])))
"""
EDITS = (
    """INSERT INTO t VALUES
    (1, ROW(1, 'a'), [ROW(1)], {'p': 1.5, 'i': {'q': '2026-01-31', 'r': [1, NULL]}}),
    (2, {'a': 2, 'b': NULL}, NULL, NULL), (3, NULL, [], {'p': NULL, 'i': NULL}),
    (4, {'b': 'z', 'a': 5}, [{'x': NULL}, NULL], {'p': 2, 'i': {'q': NULL, 'r': []}})""",
    "UPDATE t SET s = {'a': 9, 'b': 'q'} WHERE s.a = 2",
    "INSERT INTO t SELECT id + 10, {'b': s.b, 'a': s.a + 1}, l, d FROM t",
    "DELETE FROM t WHERE s IS NULL OR d.i.q = DATE '2026-01-31'",
)
QUERIES = (
    "SELECT s.a, t.s.b, s['a'] AS c, STRUCT_EXTRACT(s, 'b') AS e, l[1].x, (d).i.q, t.d.i.r[1] f "
    "FROM t",
    "SELECT id FROM t WHERE s = {'a': 1, 'b': 'a'} OR s < {'a': 5, 'b': NULL}",
    "SELECT id, CAST(ROW(id, s.b) AS STRUCT(x INTEGER, y VARCHAR)) AS r, "
    "CAST([ROW(id)] AS STRUCT(z INTEGER)[]) AS l FROM t",
    "SELECT MIN(s) AS l, MAX(s) AS h, COUNT(DISTINCT s) AS n FROM t",
    "SELECT s.b, COUNT(*) AS n, SUM(s.a) AS a FROM t GROUP BY s.b HAVING MAX(s.a) > 1",
    "SELECT s.b AS k, ARRAY_AGG(s ORDER BY s DESC) AS l FROM t GROUP BY s.b",
    "SELECT id, u.e.x FROM t, UNNEST(l) AS u (e)",
    "SELECT id, e.x AS y FROM t CROSS JOIN UNNEST(l) AS u (e)",
    "SELECT one.id, two.id AS other FROM t one JOIN t two ON one.s.a = two.s.a",
    "SELECT STRUCT_PACK(x := s.a, y := id).x AS v, {'a': id}.a AS w, STRUCT_PACK(id).id FROM t",
    "SELECT COALESCE(s, {'a': 0, 'b': ''}) AS s, CASE WHEN id > 1 THEN d END AS d FROM t",
    "SELECT CAST({'b': id, 'a': s.a} AS STRUCT(a DOUBLE, b BIGINT)) AS c FROM t",
    "SELECT DISTINCT s FROM t",
    "SELECT s.a, (SELECT COUNT(*) FROM t AS o WHERE o.id > s.a) AS n FROM t GROUP BY s.a",
    """SELECT t.s.b FROM t GROUP BY t.s.b HAVING EXISTS (SELECT 1 FROM t AS o WHERE o.id < 12 AND
       EXISTS (SELECT 1 FROM t AS i WHERE i.s.b = t.s.b AND i.id > o.id))""",
    "SELECT id, (SELECT MAX(x.s.a) FROM t x WHERE x.id < t.id) AS m FROM t",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY s.b ORDER BY s.a, id) AS n FROM t",
    "WITH c AS (SELECT s AS z, id FROM t) SELECT c.z.a, z.b FROM c",
    "SELECT [s, {'a': 1, 'b': NULL}] AS l, {'a': [s]} AS m FROM t",
    "SELECT (s).a FROM (SELECT {'a': id} AS s FROM t) AS s",
)


@pytest.fixture
def db(warm_kernel: None) -> Iterator[deltafix.sql.Connection]:
    with deltafix.sql.connect() as connection:
        connection.execute(TABLE)
        yield connection


def test_views_of_structs_are_duckdbs(warm_kernel: None) -> None:
    views_followed(TABLE, QUERIES, EDITS)


def test_structs_are_dicts_outside_by_name(db: deltafix.sql.Connection) -> None:
    db.execute("CREATE VIEW v AS SELECT s FROM t")
    db.execute("INSERT INTO t VALUES (?, ?, ?, ?)", [1, {"b": "x", "a": 1}, [{"x": 2}], None])
    assert db.delta("v").added == [({"a": 1, "b": "x"},)]
    db.insert("t", [(n, {"b": "x", "a": n}, None, None) for n in range(2, 400)])
    frame = db.execute("SELECT * FROM t WHERE id > 300").to_arrow()
    ids = pa.array(range(1300, 1300 + frame.num_rows), pa.int32())
    db.insert("t", frame.set_column(0, "id", ids))
    found = db.execute("SELECT id FROM t WHERE s = ? ORDER BY id", [{"a": 399, "b": "x"}])
    assert found.fetchall() == [(399,), (1398,)]
    (reason,) = db.execute("EXPLAIN WHY SELECT * FROM v WHERE s = {'a': 1, 'b': 'x'}").fetchmany(1)
    assert "s = {'a': 1, 'b': 'x'}" in reason[0]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("SELECT s.nope FROM t", 10, "unknown field 'nope'"),
        ("SELECT foo.id FROM t", 8, "unknown table 'foo'"),
        ("SELECT id.a FROM t", 8, "it takes a STRUCT"),
        ("SELECT s.t.id FROM t", 10, "unknown field 't'"),
        ("SELECT main.t.id FROM t", 8, "unknown column 'main'"),
        ("INSERT INTO t VALUES (x.y, NULL, NULL, NULL)", 23, "x.y is a name, not a value"),
        ("UPDATE t SET s.a = 1", 14, "set the whole column"),
        ("UPDATE t SET d.id = 1", 14, "SET of a part of a column"),  # not the column id
        ("UPDATE t SET l[1] = NULL", 14, "SET of a part of a column"),
        ("INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET s.id = 2", 62, "a part of"),
        (
            "MERGE INTO t USING t AS u ON t.id = u.id WHEN MATCHED THEN UPDATE SET u.id = 2",
            71,
            "part",
        ),
        ("SELECT s.* FROM t", 8, "name its fields: s.a, s.b"),
        ("SELECT s.b FROM t GROUP BY s.a", 8, "column s is neither grouped by nor aggregated"),
        ("SELECT s.a.b FROM t", 8, "a field of INTEGER"),
        ("SELECT ROW(1, 2) AS x", 8, "{'name': value}"),
        ("SELECT STRUCT_PACK(1) AS x", 20, "a field without a name"),
        ("SELECT {'a': 1, 'a': 2} AS x", 14, "two fields 'a'"),
        ("CREATE TABLE z (s STRUCT(a INT, a INT))", 17, "two fields 'a'"),
        ("CREATE TABLE z (s STRUCT(a UNION))", 28, "types are SMALLINT"),
        ("SELECT {'a': 1} = {'b': 1} AS x", 14, "two sides of one type"),
        ("SELECT CAST({'a': 1} AS STRUCT(b INT)) AS x", 8, "no cast from STRUCT(a INTEGER)"),
        ("SELECT CAST(s AS TEXT) FROM t", 8, "no cast from STRUCT(a INTEGER, b TEXT)"),
        ("SELECT (id, s) IS NULL AS x FROM t", 9, "compare it with another one"),
        ("SELECT id FROM t WHERE s = 'x'", 24, "nothing else becomes an array or a struct"),
        ("SELECT CAST('x' AS STRUCT(a INT)) AS x", 8, "no cast from TEXT to STRUCT(a INTEGER)"),
        ("INSERT INTO t (id, s) VALUES (9, 'x')", 34, "'x' is no STRUCT(a INTEGER, b TEXT); the"),
        ("UPDATE t SET l = 'x'", 1, "column 'l': 'x' is no STRUCT(x INTEGER)[]; the column"),
        ("CREATE TABLE z (s STRUCT(a INT) DEFAULT 'x')", 41, "'x' is no STRUCT(a INTEGER)"),
        ("INSERT INTO t VALUES (9, {'a': 1}, NULL, NULL)", 32, "TEXT): no value for b"),
        ("INSERT INTO t (id, l) VALUES (9, [{'x': 1, 'y': 2}])", 41, "at [1]: it has no field y"),
        ("INSERT INTO t (id, l) VALUES (9, [{'x': 9876543210}])", 41, "INTEGER at [1].x; that"),
        ("INSERT INTO t VALUES (9, {'a': 'x', 'b': ''}, NULL, NULL)", 32, "'x' is no whole number"),
    ],
)
def test_what_is_no_struct_has_its_place(
    db: deltafix.sql.Connection, text: str, column: int, said: str
) -> None:
    db.insert("t", [(0, {"a": 1, "b": ""}, None, None)])
    with pytest.raises(deltafix.sql.Error) as error:
        db.execute(text)
    assert db.execute("SELECT id FROM t").fetchall() == [(0,)]
    assert f"<sql>:1:{column}: " in str(error.value)
    assert said in str(error.value)


def test_nan_inside_of_a_value_is_equal_to_itself_wherever_values_are_compared(
    warm_kernel: None,
) -> None:
    """Also one that an expression makes: for Python each is another, and equal to none."""
    queries = (
        "SELECT id, NULLIF(f, 'nan') AS a, NULLIF([f + 1], ['nan'::DOUBLE]) AS b FROM t",
        "SELECT id, NULLIF(d, 1.1) AS a, NULLIF(id, 2.0) AS b FROM t",
        "SELECT id FROM t WHERE LIST_CONTAINS([f + 1], 'nan'::DOUBLE)",
        "SELECT id FROM t WHERE ['nan'::DOUBLE] = ANY([[f + 1], [d]])",
        "SELECT id FROM t WHERE {'a': f + 1} IN ({'a': 'nan'::DOUBLE}, NULL)",
        "SELECT GREATEST([f], [d], NULL) AS a, LEAST({'a': f}, {'a': d}) AS b FROM t",
        "SELECT GREATEST([id, NULL], [2]) AS a, LEAST(f + 1, d) AS b FROM t",
        "SELECT COUNT(DISTINCT [f + id]) AS a, MAX([d + f]) AS b FROM t",
    )
    nan = float("nan")
    rows = [(1, nan, 1.1), (2, 0.5, nan), (3, None, 0.0), (4, nan, nan)]
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        for one in (db, duck):
            one.execute("CREATE TABLE t (id INTEGER, f DOUBLE, d DOUBLE)")
            one.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        for place, query in enumerate(queries):
            db.execute(f"CREATE VIEW v{place} AS {query}")
            wanted = sorted(map(repr, duck.execute(query).fetchall()))
            for asked in (query, f"SELECT * FROM v{place}"):
                assert sorted(map(repr, db.execute(asked).fetchall())) == wanted, query
        db.execute("CREATE TABLE m (id INTEGER, l DOUBLE[], f DOUBLE)")
        for on in ("m.l = [t.f + 1]", "m.f = t.f + 1", "{'a': m.f} = {'a': t.f + 1}"):
            db.execute("DELETE FROM m")
            db.insert("m", [(1, [nan], nan), (2, [1.5], 1.5), (3, None, None)])
            db.execute(f"""MERGE INTO m USING (SELECT * FROM t WHERE id < 4) AS t ON {on}
                WHEN MATCHED THEN UPDATE SET id = m.id + 10""")
            found = sorted(db.execute("SELECT id FROM m").fetchall())
            last = 13 if "'" in on else 3  # a field that is NULL is equal to one
            assert found == sorted([(last,), (11,), (12,)]), on


def test_a_cast_that_tries_has_null_in_the_place_of_what_does_not_convert(
    db: deltafix.sql.Connection,
) -> None:
    query = """SELECT TRY_CAST(x AS INTEGER[]) AS a, TRY_CAST({'p': x, 'q': id} AS
        STRUCT(q SMALLINT, p SMALLINT[])) AS b FROM (VALUES (1, ['1', 'x', NULL]), (70000, []),
        (3, NULL)) AS v (id, x)"""
    found = db.execute(query).fetchall()
    with duckdb.connect() as duck:
        assert sorted(found, key=repr) == sorted(duck.execute(query).fetchall(), key=repr)
    assert ([1, None, None], {"q": 1, "p": [1, None, None]}) in found


def test_edits_see_fields_of_both_rows(db: deltafix.sql.Connection) -> None:
    db.execute("INSERT INTO t VALUES (1, {'a': 1, 'b': 'x'}, NULL, NULL)")
    upsert = """INSERT INTO t VALUES (1, {{'a': {}, 'b': 'y'}}, NULL, NULL)
        ON CONFLICT (id) DO UPDATE SET s = EXCLUDED.s WHERE EXCLUDED.s.a > t.s.a"""
    db.execute(upsert.format(1))
    assert db.execute("SELECT s.b FROM t").fetchall() == [("x",)]
    db.execute(upsert.format(2))
    update = "UPDATE t SET s = {'a': t.s.a + 1, 'b': s.b} WHERE t.s.a = 2 RETURNING s.a, t.s.b"
    assert db.execute(update).fetchall() == [(3, "y")]
    db.execute("""MERGE INTO t USING (SELECT 1 AS id, {'b': 'z', 'a': 7} AS v) AS n ON t.id = n.id
        WHEN MATCHED AND n.v.a > t.s.a THEN UPDATE SET s = n.v""")
    assert db.execute("SELECT s FROM t").fetchall() == [({"a": 7, "b": "z"},)]
    assert db.execute("DELETE FROM t WHERE s.a = 7").rowcount == 1


def test_spark_spells_structs_its_own_way(warm_kernel: None) -> None:
    with deltafix.sql.connect(dialect="spark") as db:
        db.execute("""
            CREATE TABLE t (s STRUCT<a: INT, b: ARRAY<STRING>>);
            CREATE VIEW v AS SELECT s.a, s.b[0] AS f, struct(1 AS x, s.a).x AS y FROM t;
            INSERT INTO t VALUES (named_struct('a', 1, 'b', array('x'))), (NULL)
        """)
        assert db.delta("v").added == [(1, "x", 1), (None, None, 1)]
    with deltafix.sql.connect(dialect="postgres") as db, pytest.raises(SqlRefusedError):
        db.execute("SELECT ROW(1, 2) AS r")


def test_there_is_one_type_for_each_in_every_process() -> None:
    for kind in (INTEGER, struct_type((("a", array_type(TEXT)), ("b", INTEGER)))):
        logical = SqlLogical(kind, nullable=True)
        assert copy.deepcopy(logical) == logical
        make, given = kind.__reduce__()
        assert make(*given) is kind


@pytest.mark.parametrize(
    "condition",
    [
        "d = ['2026-01-31']",
        "['2026-01-31'] <> d",
        r"b = ['\xFF']",
        r"s = {'x': '2026-01-31', 'y': '\xFF'}",
        "e = [{'x': '2026-01-31'}]",
        "d IN (['2026-01-31'], ['2026-02-28'])",
        "n = ['1']",
    ],
)
def test_literals_in_quotes_inside_have_the_type_of_what_they_are_compared_with(
    condition: str, warm_kernel: None
) -> None:
    table = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, d DATE[], b BLOB[], s STRUCT(x DATE, y BLOB), "
        "e STRUCT(x DATE)[], n INTEGER[])"
    )
    rows = (
        "INSERT INTO t VALUES (1, ['2026-01-31'], ['\\xFF'], {'x': '2026-01-31', 'y': '\\xFF'}, "
        "[{'x': '2026-01-31'}], [1]), (2, [], [NULL], {'x': NULL, 'y': ''}, NULL, [2])"
    )
    query = f"SELECT id FROM t WHERE {condition}"
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        db.execute(f"{table}; CREATE VIEW v AS {query}; {rows}")
        duck.execute(f"{table}; {rows}")
        wanted = duck.execute(query).fetchall()
        assert len(wanted) == 1
        assert db.execute(query).fetchall() == wanted
        assert db.execute("SELECT * FROM v").fetchall() == wanted


def test_oracle_a_field_beside_a_row_that_is_not_there(warm_kernel: None) -> None:
    tables = (
        "CREATE TABLE s (c STRUCT(f DOUBLE, g INTEGER))",
        "CREATE TABLE u (a INTEGER NOT NULL, f DOUBLE NOT NULL)",
    )
    query = (
        "SELECT s.c.f AS f, u.a AS a, EXISTS (SELECT 1 FROM u AS v WHERE v.a = s.c.g) AS e FROM s "
        "LEFT JOIN u ON s.c.f = u.f WHERE NOT EXISTS (SELECT 1 FROM u AS w WHERE w.a = s.c.g + 1)"
    )
    edits = (
        "INSERT INTO s VALUES ({'f': 2.5, 'g': 4}), ({'f': NULL, 'g': 1}), (NULL)",
        "INSERT INTO u VALUES (4, 0.5), (3, 2.5)",
        "INSERT INTO u VALUES (2, 7.5)",
        "DELETE FROM u WHERE f = 2.5",
        "UPDATE s SET c = {'f': 7.5, 'g': 2}",
    )
    assert changes_followed(tables, query, edits) > 3
