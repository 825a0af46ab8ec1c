"""A query that is asked again is planned once, and has the rows and errors of now."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from deltafix import sql
from deltafix.errors import SqlError
from deltafix.sql import reading

SUMS = "SELECT b, SUM(a) AS s FROM t JOIN u USING (b) GROUP BY b ORDER BY b"


@pytest.fixture
def db() -> sql.Connection:
    made = sql.connect()
    made.execute("CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE u (b INTEGER)")
    made.execute("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2); INSERT INTO u VALUES (1), (2)")
    return made


def test_a_query_is_planned_once_and_has_the_rows_of_now(db: sql.Connection) -> None:
    with patch.object(reading, "rows", wraps=reading.rows) as compiled:
        assert db.execute(SUMS).fetchall() == [(1, 3), (2, 3)]
        db.execute("INSERT INTO t VALUES (10, 2); DELETE FROM u WHERE b = 1")
        assert db.execute(SUMS).fetchall() == [(2, 13)]
        assert compiled.call_count == 1
        assert db.execute(f"{SUMS} LIMIT 0").fetchall() == []
        assert compiled.call_count == 2


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ALTER COLUMN a TYPE DOUBLE",
        "DROP TABLE t; CREATE TABLE t (b INTEGER, a DOUBLE); INSERT INTO t VALUES (1, 3), (2, 3)",
        "ALTER TABLE t RENAME TO w; CREATE VIEW t AS SELECT a + 0.5e0 - 0.5e0 AS a, b FROM w",
    ],
)
def test_it_is_planned_anew_over_other_relations(db: sql.Connection, change: str) -> None:
    first = db.execute(SUMS)
    assert [type(s) for _, s in first.fetchall()] == [int, int]
    db.execute(change)
    again = db.execute(SUMS).fetchall()
    assert again == [(1, 3), (2, 3)]
    assert [type(s) for _, s in again] == [float, float]


def test_parameters_are_no_part_of_what_is_kept(db: sql.Connection) -> None:
    text = "SELECT b, COUNT(*) FROM t WHERE a > ? GROUP BY b ORDER BY b"
    assert db.execute(text, (1,)).fetchall() == [(1, 1), (2, 1)]
    assert db.execute(text, (2.5,)).fetchall() == [(2, 1)]
    assert db.execute(text, (0,)).fetchall() == [(1, 2), (2, 1)]


def test_an_error_stands_where_the_query_of_now_does(db: sql.Connection) -> None:
    wrong = "SELECT b, SUM(a) / 0 % 0, CAST('x' || b AS INTEGER) AS n FROM t GROUP BY b"
    for text in (wrong, f"SELECT 1;\n\n{wrong}", wrong):
        with pytest.raises(SqlError) as raised:
            db.execute(text)
        assert f":{text.count(chr(10)) + 1}:" in str(raised.value)


def test_few_are_kept(db: sql.Connection) -> None:
    for n in range(50):
        assert db.execute(f"SELECT COUNT(*) FROM t WHERE a <> {n + 20}").fetchall() == [(3,)]
    assert len(db.asked) == 32


def test_the_order_of_a_view_is_that_of_now(db: sql.Connection) -> None:
    """Of equal columns: what the text is the same for has another tree."""
    for way in ("a", "a DESC", "b DESC, a"):
        db.execute(f"CREATE OR REPLACE VIEW v AS SELECT a, b FROM t ORDER BY {way}")
        wanted = db.execute(f"SELECT a, b FROM t ORDER BY {way}").fetchall()
        assert db.execute("SELECT a, b FROM v").fetchall() == wanted
        query = "SELECT v.a, u.b FROM v JOIN u USING (b) ORDER BY v.a"
        assert db.execute(query).fetchall() == [(1, 1), (2, 1), (3, 2)]


def test_a_long_query_is_kept_too(db: sql.Connection) -> None:
    query = " UNION ALL ".join(["SELECT a FROM t"] * 1000)
    for _ in range(2):
        assert len(db.execute(query).fetchall()) == 3000
    assert len(db.asked) == 1
