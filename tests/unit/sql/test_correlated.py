"""LATERAL, and correlated subqueries that are computed whole: as in DuckDB, and the work done.

Random ones are in `tests/agree/test_sql_oracle.py`.
"""

from __future__ import annotations

import pytest
from tests.judges.sql_judge import changes_followed

import deltafix.sql

TABLES = (
    "CREATE TABLE t (id INTEGER, a INTEGER, b INTEGER, s TEXT)",
    "CREATE TABLE u (a INTEGER, c INTEGER, s TEXT)",
)
EDITS = (
    "INSERT INTO t VALUES (1, 1, 2, 'a'), (2, NULL, 1, 'b'), (3, 2, 3, NULL), (4, 1, 1, 'a')",
    "INSERT INTO u VALUES (1, 1, 'a'), (1, 1, 'a'), (1, 2, 'b'), (2, NULL, NULL), (NULL, 3, 'a')",
    "INSERT INTO t VALUES (5, 2, 0, 'c'), (1, 1, 2, 'a')",
    "INSERT INTO u VALUES (2, 1, 'b'), (2, 3, 'b'), (1, NULL, 'c')",
    "DELETE FROM u WHERE c = 1",
    "UPDATE t SET a = 1 WHERE id > 2",
    "DELETE FROM t WHERE id = 1",
)
LATERAL = {
    "plain": "SELECT u.c AS x FROM u WHERE u.a = t.a",
    "a value": "SELECT t.a + 1 AS x",
    "distinct": "SELECT DISTINCT u.c AS x FROM u WHERE u.a = t.a",
    "counted": "SELECT COUNT(*) AS x FROM u WHERE u.a = t.a",
    "counted, HAVING": "SELECT COUNT(*) AS x FROM u WHERE u.a = t.a HAVING MAX(u.c) > t.b",
    "grouped": "SELECT u.s AS x, COUNT(*) AS n FROM u WHERE u.a >= t.a GROUP BY u.s",
    "grouped by the outer": "SELECT t.s AS x, MAX(u.c) AS n FROM u WHERE u.a <> t.a GROUP BY t.s",
    "rolled up": "SELECT u.s AS x, SUM(u.c + t.b) AS n FROM u WHERE u.a = t.a GROUP BY ROLLUP (s)",
    "sorted": "SELECT u.c AS x FROM u WHERE u.a = t.a ORDER BY u.c NULLS LAST LIMIT 1 OFFSET 1",
    "ranked": "SELECT *, ROW_NUMBER() OVER (ORDER BY c NULLS LAST, s NULLS LAST) AS x FROM u "
    "WHERE u.a = t.a",
    "qualified": "SELECT c AS x FROM u WHERE u.a = t.a "
    "QUALIFY DENSE_RANK() OVER (ORDER BY c NULLS LAST) = 1",
    "unnested": "SELECT UNNEST([t.a, t.b]) AS x",
    "joined": "SELECT o.id AS x FROM u LEFT JOIN t AS o ON o.a = u.a AND o.id <> t.id "
    "WHERE u.a = t.a GROUP BY o.id",
    "nested": "SELECT u.c AS x, m.y FROM u, LATERAL (SELECT COUNT(DISTINCT w.c) AS y FROM u AS w "
    "WHERE w.c <= u.c) AS m WHERE u.a = t.a",
    "not correlated": "SELECT MAX(c) AS x FROM u",
}
QUERIES = (
    *(f"SELECT t.id, l.* FROM t, LATERAL ({one}) AS l" for one in LATERAL.values()),
    *(
        f"SELECT t.id, l.x FROM t LEFT JOIN LATERAL ({one}) AS l ON TRUE"
        for one in LATERAL.values()
    ),
    "SELECT t.id, l.y FROM t LEFT JOIN LATERAL (SELECT u.s, COUNT(*) AS n FROM u WHERE u.a >= t.a "
    "GROUP BY u.s) AS l (x, y) ON l.y > 1 AND l.x >= t.s",
    "SELECT t.id, l.c, m.x FROM t, LATERAL (SELECT u.c FROM u WHERE u.a = t.a) AS l, "
    "LATERAL (SELECT MAX(u.c) AS x FROM u WHERE u.c < l.c LIMIT 1) AS m",
    "SELECT t.id, l.y FROM t JOIN u ON u.a = t.a CROSS JOIN LATERAL (SELECT SUM(w.c) AS y "
    "FROM u AS w WHERE w.c <= u.c AND w.a = t.a GROUP BY w.s) AS l",
    "SELECT id FROM t WHERE EXISTS "
    "(SELECT c FROM u WHERE u.a = t.a GROUP BY c HAVING COUNT(*) > 1)",
    "SELECT id FROM t WHERE a > 1 OR NOT EXISTS (SELECT c FROM u WHERE u.a = t.a GROUP BY c "
    "HAVING COUNT(*) > 1)",
    "SELECT id FROM t WHERE b IN (SELECT COUNT(*) FROM u WHERE u.a = t.a GROUP BY u.s)",
    "SELECT id FROM t WHERE b NOT IN (SELECT MAX(c) FROM u WHERE u.a = t.a GROUP BY u.s)",
    "SELECT id FROM t WHERE NOT (b NOT IN (SELECT MAX(c) FROM u WHERE u.a = t.a GROUP BY u.s))",
    "SELECT id, (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC NULLS LAST LIMIT 1) AS x FROM t",
    "SELECT id, (SELECT COUNT(DISTINCT c) FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT id, (SELECT SUM(c) FROM u WHERE u.a = t.a HAVING COUNT(*) > 1) AS x FROM t",
    "SELECT s, COUNT(*) AS n, (SELECT COUNT(DISTINCT c) FROM u WHERE u.s = t.s) AS x FROM t "
    "GROUP BY s",
    "SELECT s FROM t GROUP BY s HAVING COUNT(*) > "
    "(SELECT COUNT(DISTINCT c) FROM u WHERE u.s = t.s)",
    "SELECT id FROM t WHERE b > (SELECT COUNT(DISTINCT u.s) FROM u WHERE u.a = t.a OR t.a IS NULL)",
    "SELECT id FROM t WHERE EXISTS (SELECT o.b FROM t AS o WHERE o.a = t.a GROUP BY o.b HAVING "
    "EXISTS (SELECT c FROM u WHERE u.c = o.b GROUP BY c HAVING COUNT(*) > 0))",
    # set operations; RIGHT and FULL JOIN; in ON, and inside subqueries that only join
    "SELECT t.id, l.x FROM t, LATERAL (SELECT u.c AS x FROM u WHERE u.a = t.a UNION SELECT "
    "t.b) AS l",
    "SELECT t.id, l.x FROM t, LATERAL (SELECT u.c AS x FROM u WHERE u.a = t.a UNION ALL "
    "SELECT t.b) AS l",
    "SELECT t.id, l.x FROM t LEFT JOIN LATERAL (SELECT u.c AS x FROM u WHERE u.a = t.a EXCEPT "
    "SELECT t.b) AS l ON TRUE",
    "SELECT t.id, l.x FROM t, LATERAL (SELECT u.c AS x FROM u WHERE u.a = t.a EXCEPT ALL "
    "SELECT o.b FROM t AS o WHERE o.id <= t.id) AS l",
    "SELECT t.id, l.x FROM t, LATERAL (SELECT u.c AS x FROM u WHERE u.a = t.a INTERSECT ALL "
    "SELECT o.b FROM t AS o WHERE o.id <= t.id) AS l",
    "SELECT t.id, l.x FROM t, LATERAL (SELECT u.c AS x FROM u WHERE u.a = t.a INTERSECT "
    "SELECT o.b FROM t AS o) AS l",
    "SELECT t.id, l.x FROM t, LATERAL (SELECT u.c AS x FROM u WHERE u.a = t.a UNION ALL "
    "SELECT t.b ORDER BY x DESC NULLS LAST LIMIT 2) AS l",
    "SELECT t.id FROM t WHERE EXISTS (SELECT u.c FROM u WHERE u.a = t.a EXCEPT SELECT t.b)",
    "SELECT t.id FROM t WHERE t.b IN (SELECT u.c FROM u WHERE u.a = t.a UNION SELECT t.a)",
    "SELECT t.id FROM t WHERE t.b NOT IN (SELECT u.c FROM u WHERE u.a = t.a UNION SELECT t.a)",
    "SELECT t.id, (SELECT u.c AS x FROM u WHERE u.a = t.a UNION ALL SELECT t.b ORDER BY x "
    "NULLS LAST LIMIT 1) AS y FROM t",
    "SELECT t.id, l.x FROM t, LATERAL ((SELECT u.c AS x FROM u WHERE u.a = t.a EXCEPT SELECT "
    "t.b) UNION ALL SELECT COUNT(*) FROM u WHERE u.a = t.b) AS l",
    "SELECT t.id, l.n FROM t, LATERAL (SELECT COUNT(*) AS n FROM (SELECT u.c FROM u WHERE u.a "
    "= t.a UNION SELECT t.b) AS q) AS l",
    "SELECT t.id, l.x, l.y FROM t, LATERAL (SELECT u.c AS x, o.b AS y FROM u FULL JOIN t AS o "
    "ON o.a = u.a AND o.id < t.id) AS l",
    "SELECT t.id, l.x, l.y FROM t, LATERAL (SELECT u.c AS x, o.b AS y FROM u RIGHT JOIN t AS "
    "o ON o.a = u.a AND u.c < t.b) AS l",
    "SELECT t.id, l.x, l.y FROM t LEFT JOIN LATERAL (SELECT u.c AS x, o.b AS y FROM u FULL "
    "JOIN t AS o ON o.a = u.a WHERE u.a = t.a) AS l ON TRUE",
    "SELECT t.id, (SELECT COUNT(*) FROM u FULL JOIN t AS o ON o.a = u.a AND o.b = t.b) AS n FROM t",
    "SELECT t.id, (SELECT COUNT(*) FROM u FULL JOIN t AS o ON o.a = u.a WHERE o.b = t.b) AS n "
    "FROM t",
    "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM u RIGHT JOIN t AS o ON o.a = u.a WHERE "
    "u.a = t.a AND o.id <> t.id)",
    "SELECT t.id FROM t WHERE t.b IN (SELECT u.c FROM u FULL JOIN t AS o USING (a) WHERE a = t.a)",
    "SELECT t.id, l.a, l.n FROM t, LATERAL (SELECT a, COUNT(*) AS n FROM u FULL JOIN t AS o "
    "USING (a) WHERE o.id <> t.id GROUP BY a) AS l",
    "SELECT t.id, l.n FROM t, LATERAL (SELECT COUNT(u.c) AS n FROM u FULL JOIN t AS o ON o.a "
    "= u.a AND o.id = t.id FULL JOIN u AS v ON v.a = u.a AND v.c = t.b) AS l",
    "SELECT t.id, u.c FROM t JOIN u ON EXISTS (SELECT s FROM u AS w WHERE w.a = t.a GROUP BY "
    "s HAVING COUNT(*) > 1)",
    "SELECT t.id, u.c FROM t LEFT JOIN u ON u.a = t.a AND u.c < (SELECT COUNT(DISTINCT w.c) "
    "FROM u AS w WHERE w.a = t.b)",
    "SELECT t.id, u.c FROM t LEFT JOIN u ON u.a = t.a AND EXISTS (SELECT w.s FROM u AS w "
    "WHERE w.a = u.c GROUP BY w.s HAVING COUNT(*) > 1)",
    "SELECT t.id, u.c FROM t FULL JOIN u ON u.a = t.a AND t.b < (SELECT COUNT(DISTINCT w.c) "
    "FROM u AS w WHERE w.a = t.a)",
    "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND EXISTS (SELECT w.b "
    "FROM t AS w WHERE w.b >= u.c AND w.a = t.b GROUP BY w.b HAVING COUNT(*) > 0))",
    "SELECT t.id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c IN (SELECT "
    "MAX(w.b) FROM t AS w WHERE w.a = t.a GROUP BY w.s))",
    "SELECT t.id, (SELECT SUM(u.c) FROM u WHERE u.a = t.a AND EXISTS (SELECT w.b FROM t AS w "
    "WHERE w.a = u.a AND w.b <> t.b GROUP BY w.b)) AS x FROM t",
    "SELECT t.id FROM t WHERE t.a > (SELECT COUNT(*) FROM u WHERE u.c < (SELECT "
    "COUNT(DISTINCT w.c) FROM u AS w WHERE w.a = t.a))",
    "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 "
    "FROM u AS v WHERE v.a = u.a AND EXISTS (SELECT w.b FROM t AS w WHERE w.a = v.a AND w.b = "
    "t.b GROUP BY w.b)))",
    # compared with what is NULL where there are no rows, and with what is not
    *(
        f"SELECT id FROM t WHERE {condition}"
        for condition in (
            "b > (SELECT MIN(c) FROM u WHERE u.a = t.a)",
            "NOT b > (SELECT MAX(c) FROM u WHERE u.a = t.a)",
            "b <= 0.5 * (SELECT SUM(c) + 1 FROM u WHERE u.a = t.a)",
            "(SELECT AVG(c) FROM u WHERE u.a = t.a) <> b OR id > 2",
            "(b > (SELECT SUM(c) FROM u WHERE u.a = t.a)) IS NULL",
            "b < (SELECT COUNT(c) + 2 FROM u WHERE u.a = t.a)",
            "b > (SELECT COALESCE(MAX(c), 0) FROM u WHERE u.a = t.a)",
            "b > COALESCE((SELECT MAX(c) FROM u WHERE u.a = t.a), 0)",
            "b IS DISTINCT FROM (SELECT MAX(c) FROM u WHERE u.a = t.a)",
            "b + (SELECT COUNT(*) FROM u WHERE a = t.a) > 1 - (SELECT MIN(c) FROM u WHERE a = t.a)",
            "id + 2 > ALL (SELECT MAX(c) FROM u WHERE u.a = t.a)",
            "s || '' <= (SELECT MAX(s) FROM u WHERE u.a = t.a)",
        )
    ),
)


@pytest.mark.parametrize(
    ("condition", "rules"),
    [
        ("b > 0.5 * (SELECT SUM(c) FROM u WHERE u.a = t.a)", 1),
        ("b > (SELECT SUM(c) FROM u WHERE u.a = t.a)", 1),
        ("b > COALESCE((SELECT SUM(c) FROM u WHERE u.a = t.a), 0)", 2),
        ("CAST(s AS INTEGER) > (SELECT SUM(c) FROM u WHERE u.a = t.a)", 2),
    ],
)
def test_rows_without_rows_inside_have_no_rule_where_none_of_them_fits(
    condition: str, rules: int, warm_kernel: None
) -> None:
    """But where something else in the comparison may fail: it may fail for them, too."""
    with deltafix.sql.connect() as db:
        columns = "id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b INTEGER NOT NULL, s TEXT NOT NULL"
        db.execute(f"CREATE TABLE t ({columns})")
        db.execute("CREATE TABLE u (a INTEGER NOT NULL, c INTEGER NOT NULL)")
        db.execute(f"CREATE VIEW v AS SELECT id FROM t WHERE {condition}")
        heads = [c.head for stage in db.engine.plan.stages for c in stage.clauses]
        assert heads.count("v") == rules


@pytest.mark.parametrize(
    ("condition", "asks"),
    [
        ("p.brand = 'x'", True),
        ("p.brand LIKE 'x%' AND p.size >= 0", True),
        ("p.brand IN ('x', 'z')", True),
        ("p.id IN (SELECT a FROM few WHERE b = 1)", True),  # columns that can be NULL
        ("p.size >= 0", False),
        ("p.active", False),
        ("p.brand NOT LIKE 'y%'", False),
        ("p.brand = p.name", False),
        ("p.brand || '' = 'x'", False),  # what computes may fail
    ],
)
def test_only_groups_that_the_rows_around_ask_for_are_kept(
    condition: str, asks: bool, warm_kernel: None
) -> None:
    """Where a condition says by itself that it asks for few of them."""
    with deltafix.sql.connect() as db:
        columns = "brand TEXT NOT NULL, name TEXT, size INTEGER, active BOOLEAN"
        db.execute(f"CREATE TABLE p (id INTEGER PRIMARY KEY, {columns})")
        db.execute("CREATE TABLE l (id INTEGER PRIMARY KEY, p INTEGER NOT NULL, n INTEGER)")
        db.execute("CREATE TABLE few (a INTEGER, b INTEGER)")
        less = "l.n < (SELECT AVG(n) FROM l AS o WHERE o.p = p.id)"
        query = f"SELECT l.id FROM p, l WHERE l.p = p.id AND {condition} AND {less}"
        db.execute(f"CREATE VIEW v AS {query}")
        db.execute("BEGIN")
        db.insert("p", [(n, "xy"[n > 9], "xz"[n > 9], n, True) for n in range(1000)])
        db.insert("few", [(n, n // 5) for n in range(100)])
        db.insert("l", [(n, n % 1000, n % 13) for n in range(5000)])
        db.execute("COMMIT")
        groups = db.engine.last_epoch.touched - 1000 - 100 - 5000
        found = db.execute("SELECT * FROM v").fetchall()
        assert found
        assert groups - len(found) < 50 if asks else groups >= 1000
        db.execute("INSERT INTO l VALUES (5000, 500, 0)")
        assert (db.engine.last_epoch.touched == 1) is asks


@pytest.mark.parametrize(
    ("condition", "python"),
    [
        ("b > (SELECT AVG(c) FROM u)", False),
        ("b <= 0.5 * (SELECT AVG(c) FROM u WHERE u.a = t.a) + 1", False),
        ("NOT (b = (SELECT MAX(c) FROM u) OR a > (SELECT AVG(c) FROM u))", False),
        ("s <= (SELECT MAX(s) FROM u)", True),  # an order of texts
    ],
)
def test_numbers_are_compared_with_a_subquery_without_python(
    condition: str, python: bool, warm_kernel: None
) -> None:
    with deltafix.sql.connect() as db:
        for table in TABLES:
            db.execute(table)
        db.execute(f"CREATE VIEW v AS SELECT id FROM t WHERE {condition}")
        called = [one for one in db.catalog.views["v"].builder.functions if one.startswith("v.")]
        assert bool(called) is python
    assert changes_followed(TABLES, f"SELECT id FROM t WHERE {condition}", EDITS) > 1


@pytest.mark.parametrize("query", QUERIES)
def test_oracle_they_are_those_of_duckdb(query: str, warm_kernel: None) -> None:
    assert changes_followed(TABLES, query, EDITS) > 1


@pytest.mark.parametrize(
    ("query", "column", "way_out"),
    [
        ("SELECT 1 FROM t, (SELECT u.c FROM u WHERE u.a = t.a) AS l", 49, "write LATERAL (SELECT"),
        ("SELECT 1 FROM t RIGHT JOIN LATERAL (SELECT 1) AS l ON TRUE", 44, "CROSS JOIN or LEFT"),
        ("SELECT 1 FROM t, LATERAL (SELECT q FROM u) AS l", 34, "there is: a, b, c, id, s"),
        ("SELECT 1 FROM t, LATERAL (SELECT c FROM u) AS l (x, y)", 34, "one name"),
        ("SELECT 1 FROM t, LATERAL (SELECT MAX(c), q FROM u WHERE a = t.a) AS l", 42, "there is"),
        ("SELECT (SELECT c FROM u WHERE u.a = t.a GROUP BY c) FROM t", 16, "aggregate it"),
        (
            "WITH RECURSIVE p (x) AS (SELECT 1 UNION SELECT l.n FROM p, LATERAL (SELECT COUNT(*) "
            "AS n FROM u WHERE u.a = p.x GROUP BY u.s) AS l) SELECT * FROM p",
            76,
            "move it out of the recursive part",
        ),
    ],
)
def test_what_cannot_be_said_has_its_place(query: str, column: int, way_out: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute(";".join(TABLES))
        with pytest.raises(deltafix.sql.DatabaseError) as caught:
            db.execute(f"CREATE VIEW v AS {query}")
        assert way_out in str(caught.value)
        assert caught.value.diagnostics[0].span.column == 17 + column, str(caught.value)
        db.execute("CREATE VIEW v AS SELECT 1 AS x")


def test_an_aggregate_without_groups_has_a_row_in_a_correlated_union() -> None:
    """DuckDB 2.0 loses it, though it shows it where the aggregate is all of the subquery."""
    with deltafix.sql.connect() as db:
        db.execute(";".join(TABLES))
        db.execute(
            "CREATE VIEW v AS SELECT t.id, l.x FROM t, "
            "LATERAL (SELECT t.b AS x UNION SELECT MAX(u.c) FROM u WHERE u.c < t.b) AS l"
        )
        db.execute("INSERT INTO t VALUES (1, 1, 2, 'a')")
        assert db.execute("SELECT * FROM v").fetchall() == [(1, 2), (1, None)]
        db.execute("INSERT INTO u VALUES (1, 1, 'a'), (2, 2, 'b')")
        assert db.execute("SELECT * FROM v").fetchall() == [(1, 1), (1, 2)]


def test_an_edit_costs_its_own_rows_of_the_domain() -> None:
    with deltafix.sql.connect() as db:
        db.execute(";".join(TABLES))
        db.execute(
            "CREATE VIEW v AS SELECT t.id, l.x FROM t, LATERAL (SELECT u.c AS x FROM u "
            "WHERE u.a = t.a ORDER BY u.c DESC NULLS LAST LIMIT 1) AS l"
        )
        db.insert("t", [(n, n % 500, 0, None) for n in range(1000)])
        db.insert("u", [(n % 500, n, None) for n in range(2000)])
        assert db.execute("SELECT COUNT(*) FROM v").fetchone() == (1000,)
        db.execute("INSERT INTO u VALUES (7, 9999, NULL)")
        assert db.delta("v").added == [(7, 9999), (507, 9999)]
        assert db.engine.last_epoch.derivations < 40


def test_why_a_row_of_a_lateral_is_there() -> None:
    with deltafix.sql.connect() as db:
        db.execute(";".join(TABLES))
        db.execute(
            "CREATE VIEW v AS SELECT t.id, l.n FROM t, "
            "LATERAL (SELECT COUNT(DISTINCT c) AS n FROM u WHERE u.a = t.a) AS l"
        )
        db.execute("INSERT INTO t VALUES (1, 1, 2, 'a'); INSERT INTO u VALUES (1, 5, 'a')")
        lines = [line for (line,) in db.execute("EXPLAIN WHY SELECT * FROM v WHERE id = 1")]
        assert lines[0] == "v: id = 1 AND n = 1"
        assert any("t: id = 1" in line for line in lines)


NAMED = (
    "SELECT id, b AS x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = x)",
    "SELECT id, b AS c FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = c)",
    "SELECT id, b AS x FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = x AND EXISTS "
    "(SELECT 1 FROM u AS w WHERE w.c = x))",
    "SELECT id, b AS x FROM t AS w WHERE w.a IN (SELECT w.a FROM u AS w WHERE w.c <> x)",
    "SELECT id, a AS c, ROW_NUMBER() OVER (PARTITION BY b ORDER BY id, a, s) AS n FROM t "
    "QUALIFY n = 1 AND EXISTS (SELECT 1 FROM u WHERE c = 3)",
    "SELECT id, b AS x, ROW_NUMBER() OVER (PARTITION BY b ORDER BY id, a, s) AS n FROM t "
    "QUALIFY n = 1 AND EXISTS (SELECT 1 FROM u WHERE u.c = x)",
    "SELECT (SELECT MAX(a) FROM u) AS x, COUNT(*) AS n FROM t GROUP BY (SELECT MAX(a) FROM u)",
    "SELECT SUM((SELECT MIN(x.a) FROM u AS x WHERE x.a >= a)) AS s, "
    "SUM((SELECT MIN(x.a) FROM u AS x WHERE x.a >= t.a)) AS r FROM t",
    "SELECT LAG((SELECT MIN(x.a) FROM u AS x WHERE x.a >= a)) OVER (ORDER BY id, b, s) AS s, "
    "LAG((SELECT MIN(x.a) FROM u AS x WHERE x.a >= t.a)) OVER (ORDER BY id, b, s) AS r FROM t",
)


@pytest.mark.parametrize("query", NAMED)
def test_oracle_a_name_in_a_subquery_is_first_a_column_of_it(query: str, warm_kernel: None) -> None:
    assert changes_followed(TABLES, query, EDITS) > 1


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("duckdb", "SELECT id, a + b AS x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = x)"),
        ("postgres", "SELECT id, b AS x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = x)"),
        ("duckdb", "SELECT id, a AS x FROM t AS w WHERE EXISTS (SELECT 1 FROM u AS w WHERE "
         "w.c = x)"),
        ("duckdb", "SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING EXISTS "
         "(SELECT 1 FROM u WHERE c = n)"),
    ],
)  # fmt: skip
def test_a_name_of_select_that_a_subquery_does_not_see_is_said_with_what_to_write(
    dialect: str, query: str
) -> None:
    with deltafix.sql.connect(dialect=dialect) as db:
        for one in TABLES:
            db.execute(one)
        with pytest.raises(deltafix.sql.DatabaseError, match="repeat it"):
            db.execute(query)


GUARDED = (
    "SELECT id, x FROM t, UNNEST([CAST(s AS INTEGER)]) AS k (x) WHERE REGEXP_MATCHES(s, '^[0-9]$')",
    "SELECT id, x FROM t LEFT JOIN UNNEST([CAST(s AS INTEGER), a + b]) AS k (x) ON x > 1 "
    "WHERE s < 'a' AND x <> 7",
    "SELECT id, COUNT(*) AS n FROM t, UNNEST([CAST(s AS INTEGER), 2]) AS k (x) "
    "WHERE s < 'a' AND x > 1 GROUP BY id",
    "SELECT id, x FROM t, LATERAL (SELECT CAST(t.s AS INTEGER) + u.c AS x FROM u) AS l "
    "WHERE t.s < 'a'",
    "SELECT id, x, y FROM t, LATERAL (SELECT CAST(s AS INTEGER) AS x) AS l, "
    "LATERAL (SELECT CAST(x || t.s AS INTEGER) AS y) AS m WHERE t.s < 'a' AND x < 9",
)


@pytest.mark.parametrize("query", GUARDED)
def test_oracle_where_leaves_rows_out_before_from_computes(query: str, warm_kernel: None) -> None:
    edits = (
        "INSERT INTO t VALUES (1, 1, 2, '1'), (2, 1, 2, 'x'), (3, NULL, 1, NULL), (4, 2, 9, '7')",
        "INSERT INTO u VALUES (1, 1, 'a'), (2, 3, 'b')",
        "UPDATE t SET s = '12' WHERE id = 4",
        "UPDATE t SET s = 'y' WHERE id = 1",
        "DELETE FROM u WHERE c = 1",
    )
    assert changes_followed(TABLES, query, edits) > 1


def test_what_is_compared_by_no_equality_is_chosen_before(warm_kernel: None) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE q (a INT PRIMARY KEY, b INT)")
        db.executemany("INSERT INTO q VALUES (?, ?)", [(n, n % 97) for n in range(2000)])
        db.execute("CREATE VIEW v AS SELECT a FROM q WHERE b >= ALL (SELECT b FROM q WHERE a < 90)")
        db.execute("INSERT INTO q VALUES (5000, 91), (5001, 1)")
        assert db.engine.last_epoch.probed < 1000
        found = db.execute("SELECT a FROM v ORDER BY a DESC LIMIT 1").fetchall()
        assert found == [(5000,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM p GROUP BY a, b.y HAVING COUNT(*) < (SELECT d FROM q WHERE q.b = p.b.y "
        "ORDER BY d DESC LIMIT 1)",
        "SELECT p.b.y, (SELECT d FROM q WHERE q.b = p.b.y ORDER BY d LIMIT 1) AS d "
        "FROM p GROUP BY p.b.y",
        "SELECT p.b.y AS y FROM p GROUP BY p.b.y HAVING EXISTS (SELECT 1 FROM q GROUP BY d "
        "HAVING MIN(q.b) = p.b.y)",
    ],
)
def test_a_subquery_reads_the_field_that_the_query_around_is_grouped_by(query: str) -> None:
    changes = changes_followed(
        (
            "CREATE TABLE p (a INTEGER, b STRUCT(x INTEGER, y INTEGER))",
            "CREATE TABLE q (b INTEGER, d INTEGER)",
        ),
        query,
        (
            "INSERT INTO p VALUES (1, {'x': 1, 'y': 2}), (1, {'x': 1, 'y': 2})",
            "INSERT INTO p VALUES (2, {'x': 3, 'y': 4})",
            "INSERT INTO q VALUES (2, 5), (2, 1), (4, 0), (NULL, 9)",
            "INSERT INTO p VALUES (2, {'x': 3, 'y': 4}), (3, NULL)",
            "UPDATE q SET d = 7 WHERE b = 4",
            "DELETE FROM q WHERE d = 1",
        ),
    )
    assert changes
