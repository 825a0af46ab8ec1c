"""Names behind an alias, `AS q (a, b)`: they are for the first columns, and no two are alike."""

from __future__ import annotations

import pytest
from tests.judges.sql_judge import changes_followed

import deltafix.sql

TABLES = ("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)", "CREATE TABLE u (k INTEGER)")
EDITS = (
    "INSERT INTO t VALUES (1, 2, 3), (2, 1, 3), (NULL, 1, 1), (2, 2, 2)",
    "INSERT INTO u VALUES (1), (2), (NULL)",
    "UPDATE t SET b = 3 WHERE a = 2",
    "DELETE FROM t WHERE c = 3",
)
ITEMS = (
    "t AS q (b, a)", "t AS q (b, c, a)", "(SELECT a, b FROM t) AS q (b, a)",
    "((SELECT a, b FROM t) AS q (b, a))", "((SELECT a, b FROM t) AS p (b, a)) AS q",
    "((SELECT a, b FROM t) AS p (b, x)) AS q (b, a)", "(((SELECT a, b FROM t) AS q (b, a)))",
    "t PIVOT (MIN(c) AS m FOR b IN (1 AS x)) AS q (b, a)",
    "(t UNPIVOT (v FOR n IN (b, c))) AS q (b, n, a)",
    "(t AS q (b, a))", "(t AS p (b, x)) AS q (b, a)", "(t) AS q (b, a)",
    "((SELECT a, b FROM t) AS p UNPIVOT (v FOR n IN (b))) AS q (b, n, a)",
)  # fmt: skip


@pytest.mark.parametrize("item", ITEMS)
def test_oracle_names_behind_an_alias_are_the_first_columns(item: str, warm_kernel: None) -> None:
    query = f"SELECT q.a, q.b, u.k FROM {item} LEFT JOIN u ON u.k = q.b WHERE q.a <> 7"
    assert changes_followed(TABLES, query, EDITS) > 1


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("t AS q (b)", "b"),
        ("(SELECT a, b FROM t) AS q (b)", "b"),
        ("((SELECT a, b FROM t) AS p) AS q (b)", "b"),
        ("(SELECT a, b FROM t) AS q (x, x)", "x"),
        ("u, LATERAL (SELECT t.a, t.b AS a FROM t WHERE t.c = u.k) AS q", "a"),
        ("u, LATERAL (SELECT t.a, t.b FROM t WHERE t.c = u.k) AS q (b)", "b"),
        ("UNNEST([1], [2]) AS q (x, x)", "x"),
        ("UNNEST([1]) WITH ORDINALITY AS q (ordinality)", "ordinality"),
    ],
)
def test_two_columns_of_one_name_are_an_error(item: str, name: str) -> None:
    with deltafix.sql.connect() as db:
        for one in TABLES:
            db.execute(one)
        with pytest.raises(deltafix.sql.ProgrammingError) as caught:
            db.execute(f"CREATE VIEW v AS SELECT * FROM {item}")
        assert f"two columns are called '{name}'" in str(caught.value)
        assert "give all columns names behind the alias" in str(caught.value)
