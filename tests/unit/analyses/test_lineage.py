"""The lineage of small trees, one idea each, found by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.generators.lineage_views import Trees

from deltafix.analyses.job import Job
from deltafix.analyses.lineage import LINEAGE
from deltafix.analyses.lineage.facts import INPUTS

PROGRAM = LINEAGE.load_program()


@pytest.fixture(scope="module")
def trees() -> Iterator[Trees]:
    with Job(LINEAGE) as job:
        yield Trees(job)
        job.check_invariants()


def test_the_program_declares_the_inputs_that_the_extractor_fills() -> None:
    assert PROGRAM.warnings == ()
    assert set(PROGRAM.names("input")) == set(INPUTS)
    for name, columns in INPUTS.items():
        assert tuple(a.name for a in PROGRAM.relation(name).attributes) == columns
    assert set(LINEAGE.views) == set(PROGRAM.names("output"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a, b + c AS n FROM r", ["a r.a value", "n r.b value", "n r.c value"]),
        ("SELECT 1 AS one, COUNT(*) FROM r", []),
        ("SELECT * FROM s", ["a s.a value", "d s.d value"]),
        ("SELECT s.* FROM r JOIN s ON r.a = s.a WHERE b > 1", [
            "(rows) r.a join", "(rows) r.b filter", "(rows) s.a join", "a s.a value", "d s.d value",
        ]),
        ("SELECT * FROM r JOIN s USING (a)", [
            "(rows) r.a join", "(rows) s.a join",
            "a r.a value", "a s.a value", "b r.b value", "c r.c value", "d s.d value",
        ]),
        ("SELECT a, d FROM r NATURAL JOIN s", [
            "(rows) r.a join", "(rows) s.a join", "a r.a value", "a s.a value", "d s.d value",
        ]),
        ("SELECT CASE WHEN a > 1 THEN b ELSE c END AS k FROM r", [
            "k r.a condition", "k r.b value", "k r.c value",
        ]),
        ("SELECT SUM(a) OVER (PARTITION BY b ORDER BY c) AS k FROM r", [
            "k r.a value", "k r.b window", "k r.c window",
        ]),
        ("SELECT SUM(a) OVER w AS k FROM r WINDOW w AS (PARTITION BY b)", [
            "k r.a value", "k r.b window",
        ]),
        ("SELECT SUM(a) FILTER (WHERE b > 1) AS k FROM r", ["k r.a value", "k r.b condition"]),
        ("SELECT b, MAX(a) AS m FROM r GROUP BY b HAVING MIN(c) > 1 ORDER BY m", [
            "(rows) r.a order", "(rows) r.b group", "(rows) r.c filter",
            "b r.b value", "m r.a value",
        ]),
        ("SELECT b, c, COUNT(*) FROM r GROUP BY 1, 2 ORDER BY 3, 1", [
            "(rows) r.b group", "(rows) r.b order", "(rows) r.c group",
            "b r.b value", "c r.c value",
        ]),
        ("SELECT id, o.x FROM o JOIN s USING (id)", [
            "(rows) o.id join", "id o.id value", "x o.x value",
        ]),
        ("SELECT (SELECT MAX(d) FROM s WHERE s.a = r.b) AS m FROM r", [
            "m r.b condition", "m s.a condition", "m s.d value",
        ]),
        ("SELECT a FROM r WHERE EXISTS (SELECT d FROM s WHERE s.a = b)", [
            "(rows) r.b filter", "(rows) s.a filter", "a r.a value",
        ]),
        ("SELECT a FROM r WHERE b IN (SELECT d FROM s)", [
            "(rows) r.b filter", "(rows) s.d filter", "a r.a value",
        ]),
        ("SELECT n FROM (SELECT a AS n FROM r WHERE b > 1) AS q", [
            "(rows) r.b filter", "n r.a value",
        ]),
        ("WITH q AS (SELECT a AS n, b FROM r), p AS (SELECT n + b AS m FROM q) SELECT m FROM p", [
            "m r.a value", "m r.b value",
        ]),
        ("WITH q(x, y, z) AS (SELECT * FROM r) SELECT y FROM q", ["y r.b value"]),
        ("WITH r AS (SELECT a AS b FROM r) SELECT b FROM r", ["b r.a value"]),
        ("WITH RECURSIVE q(n) AS (SELECT a FROM r UNION ALL SELECT n + d FROM q JOIN s ON n = s.a)"
         " SELECT n FROM q", [
            "(rows) r.a join", "(rows) s.a join", "(rows) s.d join", "n r.a value", "n s.d value",
        ]),
        ("SELECT a, b FROM r UNION ALL SELECT * FROM s", [
            "a r.a value", "a s.a value", "b r.b value", "b s.d value",
        ]),
        ("SELECT a FROM r EXCEPT SELECT d FROM s", ["(rows) s.d filter", "a r.a value"]),
        ("SELECT q.n FROM r CROSS JOIN LATERAL (SELECT d + r.b AS n FROM s) AS q", [
            "n r.b value", "n s.d value",
        ]),
        ("SELECT n FROM (VALUES (1, 2)) AS q(n, m)", []),
        ("SELECT r.a AS a, s.a AS a FROM r, s", ["a r.a value", "a s.a value"]),
        ("SELECT q.* FROM r AS q", ["a r.a value", "b r.b value", "c r.c value"]),
        ("SELECT COUNT(q) AS n FROM s AS q", ["n s.a value", "n s.d value"]),
        ("SELECT a + 1 AS a, a AS k FROM r", ["a r.a value", "k r.a value"]),
        ("SELECT a FROM (r JOIN s USING (a)) WHERE d = 1", [
            "(rows) r.a join", "(rows) s.a join", "(rows) s.d filter", "a r.a value", "a s.a value",
        ]),
    ],
)  # fmt: skip
def test_what_flows_into_a_view(trees: Trees, query: str, expected: list[str]) -> None:
    assert trees.flows(f"CREATE VIEW v AS {query}") == expected


@pytest.mark.parametrize(
    ("dialect", "query", "expected"),
    [
        ("duckdb", "SELECT * EXCLUDE (a) REPLACE (b + c AS c) FROM r", [
            "b r.b value", "c r.b value", "c r.c value",
        ]),
        ("snowflake", "SELECT * RENAME (a AS k) FROM s", ["D S.D value", "K S.A value"]),
        ("snowflake", "SELECT a + 1 AS n, n * 2 AS m FROM r", ["M R.A value", "N R.A value"]),
        ("spark", "SELECT k FROM r LATERAL VIEW EXPLODE(b) t AS k", ["k r.b value"]),
        ("bigquery", "SELECT x, q.a FROM r AS q, UNNEST(q.c) AS x", ["a r.a value", "x r.c value"]),
        ("tsql", "SELECT q.n FROM r CROSS APPLY (SELECT r.b AS n) AS q", ["n r.b value"]),
        ("postgres", "SELECT g.n FROM r, generate_series(1, r.b) AS g(n)", ["n r.b value"]),
        ("duckdb", "SELECT d, a FROM s UNION ALL BY NAME SELECT a, d FROM s", [
            "a s.a value", "d s.d value",
        ]),
    ],
)  # fmt: skip
def test_what_only_some_dialects_have(
    trees: Trees, dialect: str, query: str, expected: list[str]
) -> None:
    assert trees.flows(f"CREATE VIEW v AS {query}", dialect) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE v AS SELECT a AS x, b AS y FROM r",
        "CREATE OR REPLACE MATERIALIZED VIEW v (x, y) AS SELECT a, b FROM r",
        "CREATE TABLE v (x INT, y INT); INSERT INTO v SELECT a, b FROM r",
        "CREATE TABLE v (y INT, x INT); INSERT INTO v (x, y) SELECT a, b FROM r",
        "CREATE TABLE v (x INT, y INT); INSERT INTO v WITH q AS (SELECT a, b FROM r) TABLE q",
        "CREATE TABLE v (x INT, y INT); WITH q AS (SELECT a, b FROM r) INSERT INTO v TABLE q",
        "SELECT a AS x, b AS y INTO v FROM r",
    ],
)
def test_every_way_to_make_or_fill_a_table(trees: Trees, statement: str) -> None:
    if "TABLE q" in statement:
        statement = statement.replace("TABLE q", "SELECT * FROM q")
    assert trees.flows(statement) == ["x r.a value", "y r.b value"]


@pytest.mark.parametrize(
    ("dialect", "statement", "expected"),
    [
        (
            "snowflake",
            "INSERT ALL INTO v VALUES (k) INTO w VALUES (b) SELECT a AS k, b FROM r",
            "X",
        ),
        ("clickhouse", "CREATE MATERIALIZED VIEW m TO v AS SELECT a AS x FROM r", "x"),
        ("postgres", "WITH d AS (DELETE FROM r RETURNING a, b) INSERT INTO v SELECT a FROM d", "x"),
        ("tsql", "SELECT 1\nGO\nINSERT INTO v\nSELECT a FROM r\nGO", "x"),
    ],
)
def test_fillings_that_only_some_dialects_have(
    trees: Trees, dialect: str, statement: str, expected: str
) -> None:
    found = trees.flows(f"CREATE TABLE v (x INT);\n{statement}", dialect)
    assert [row.lower() for row in found] == ["x r.a value"]
    assert found[0].startswith(expected)


def test_update_and_merge_flow_by_name(trees: Trees) -> None:
    made = "CREATE TABLE v (a INT, x INT, y INT);"
    update = "UPDATE v SET x = s.d FROM s WHERE v.a = s.a"
    assert trees.flows(made + update) == ["(rows) s.a filter", "(rows) v.a filter", "x s.d value"]
    merge = (
        "MERGE INTO v USING s ON v.a = s.a WHEN MATCHED AND s.d > 1 THEN UPDATE SET x = s.d"
        " WHEN NOT MATCHED THEN INSERT (a, y) VALUES (s.a, s.d)"
    )
    assert trees.flows(made + merge) == [
        "(rows) s.a join", "(rows) s.d filter", "(rows) v.a join",
        "a s.a value", "x s.d value", "y s.d value",
    ]  # fmt: skip


SHOP = {
    "raw.sql": "CREATE TABLE raw.orders (id INT, who INT, cents INT, note TEXT);"
    "CREATE TABLE raw.people (id INT, name TEXT);",
    "staging.sql": "CREATE VIEW orders AS SELECT *, cents / 100 AS euros FROM raw.orders",
    "mart.sql": "CREATE TABLE spent AS SELECT p.name, SUM(euros) AS total FROM orders o"
    " JOIN raw.people p ON p.id = o.who GROUP BY p.name",
}


def test_closures_over_several_files(trees: Trees) -> None:
    assert trees.rows("feeds", SHOP) == ["orders spent", "raw.orders orders", "raw.people spent"]
    assert trees.rows("comes_from", SHOP, without=("orders",)) == [
        "spent name raw.people name",
        "spent total orders euros",
        "spent total raw.orders cents",
    ]
    assert trees.rows("origin", SHOP, without=("orders",)) == [
        "spent name raw.people name",
        "spent total raw.orders cents",
    ]
    assert [r for r in trees.rows("impact", SHOP) if r.startswith("raw.orders who ")] == [
        "raw.orders who orders who",
        "raw.orders who spent (rows)",
    ]
    assert trees.rows("unread", SHOP) == [
        "orders cents", "orders id", "orders note", "spent name", "spent total",
    ]  # fmt: skip


def test_a_dropped_column_that_a_statement_only_names_reaches_it(trees: Trees) -> None:
    text = "CREATE TABLE t (a INT, b INT); CREATE VIEW v AS WITH q AS (SELECT b FROM t)"
    assert trees.rows("impact", f"{text} SELECT a FROM t") == [
        "t a v (rows)",
        "t a v a",
        "t b v (rows)",
    ]


def test_names_that_nobody_has(trees: Trees) -> None:
    tree = {
        "t.sql": "CREATE TABLE t (a INT); CREATE TABLE u (a INT)",
        "v.sql": "CREATE VIEW v AS SELECT t.gone, lost, a FROM t JOIN u ON t.a = u.a JOIN (SELECT 1"
        " AS one) AS q ON one = t.a",
        "w.sql": "CREATE VIEW w AS SELECT x, elsewhere.* FROM outside",
    }
    assert trees.rows("unknown_column", tree) == ["v gone t", "v lost "]
    assert trees.rows("ambiguous", tree) == ["v a t", "v a u"]
    assert trees.rows("unknown_table", tree) == ["w elsewhere", "w outside"]
    assert [row for row in trees.rows("flows", tree) if row.startswith("w ")] == [
        "w x outside x value"
    ]


def test_columns_of_tables_that_nobody_declares_are_asked_for_through_stars(trees: Trees) -> None:
    tree = {
        "a.sql": "CREATE VIEW a AS SELECT * FROM outside",
        "b.sql": "CREATE VIEW b AS WITH q AS (SELECT * FROM a) SELECT x, y AS z FROM q",
    }
    assert trees.rows("flows", tree) == [
        "a * outside * value", "a x outside x value", "a y outside y value",
        "b x a x value", "b z a y value",
    ]  # fmt: skip
    assert trees.rows("origin", tree, without=("a",)) == ["b x outside x", "b z outside y"]


def test_alter_table_and_like(trees: Trees) -> None:
    text = (
        "CREATE TABLE t (a INT, b INT); ALTER TABLE t ADD COLUMN c INT;"
        "ALTER TABLE t DROP COLUMN a; ALTER TABLE t RENAME COLUMN b TO d;"
        "CREATE TABLE l (LIKE t); CREATE VIEW v AS SELECT * FROM t"
    )
    assert trees.rows("flows", text) == ["v c t c value", "v d t d value"]
    assert trees.rows("unread", text) == ["l c", "l d", "v c", "v d"]


def test_identifiers_fold_as_the_dialect_says(trees: Trees) -> None:
    text = 'CREATE TABLE T (Aa INT, "Bb" INT); CREATE VIEW v AS SELECT AA, "Bb", bb FROM t'
    assert trees.rows("flows", text) == ["v Bb t Bb value", "v aa t aa value"]
    assert trees.rows("unknown_column", text) == ["v bb "]
    loud = "-- deltafix: dialect=snowflake\n"
    assert trees.rows("flows", loud + text) == ["V AA T AA value", "V Bb T Bb value"]


def test_which_table_a_name_means(trees: Trees) -> None:
    tree = {
        "a.sql": "CREATE TABLE x.t (a INT); CREATE TABLE y.t (b INT); CREATE TABLE x.u (a INT)",
        "near.sql": "SET search_path TO y; CREATE VIEW near AS SELECT * FROM t",
        "far.sql": "CREATE VIEW far AS SELECT * FROM u",
        "whole.sql": "CREATE VIEW whole AS SELECT x.u.a, u.a AS k FROM db.x.u",
        "both.sql": "CREATE VIEW two AS SELECT a, b FROM t",
    }
    assert trees.rows(
        "flows", {**tree, "near.sql": tree["near.sql"].replace("SET", "/* */ SET")}
    ) == [
        "far a x.u a value",
        "two a x.t a value",
        "two b y.t b value",
        "whole a x.u a value",
        "whole k x.u a value",
        "y.near b y.t b value",
    ]
    assert trees.rows("ambiguous_table", tree) == ["t x.t", "t y.t"]


def test_definitions_that_rest_on_themselves_end(trees: Trees) -> None:
    text = "CREATE TABLE t AS SELECT *, 1 AS one FROM t; INSERT INTO u SELECT * FROM t;"
    tree = {"a.sql": text + "CREATE TABLE t (a INT)", "b.sql": "CREATE VIEW u AS SELECT * FROM t"}
    found = trees.rows("flows", tree)
    assert "t a t a value" in found
    assert "u one t one value" in found
