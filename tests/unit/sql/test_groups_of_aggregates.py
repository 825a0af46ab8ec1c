"""GROUP BY: its groups are read off an aggregate of theirs, where it has a value for each."""

from __future__ import annotations

import random

import duckdb
import pytest

import deltafix.sql
from deltafix.sql import Connection

ROWS = 200


@pytest.fixture
def db() -> Connection:
    db = deltafix.sql.connect()
    db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, g TEXT NOT NULL, x BIGINT NOT NULL, n INT)")
    db.insert("t", [(n, "abc"[n % 3], n, None if n % 3 else n) for n in range(ROWS)])
    return db


@pytest.mark.parametrize(
    ("value", "derived"),
    [
        ("COUNT(*)", 3),  # the rows of the view: those of the table are read
        ("COUNT(*), SUM(x), AVG(x)", 3),
        ("MIN(x)", 3),  # a group that has a least value, or a sum, has a row
        ("SUM(x)", 3),
        ("SUM(x + 1)", ROWS + 3),  # what is computed is kept, by row
        ("BIT_XOR(x)", 3),
        ("SUM(n), MIN(n), COUNT(n), AVG(n)", 3),  # NULLs are passed over
        ("SUM(n + 1)", ROWS + 3),
    ],
)
def test_a_group_is_derived_once_and_not_by_each_of_its_rows(
    db: Connection, value: str, derived: int
) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT g, {value} FROM t GROUP BY g")
    assert len(db.execute("SELECT * FROM v").fetchall()) == 3
    assert db.engine.last_epoch.derivations == derived
    db.engine.check_invariants()


def test_a_group_comes_and_goes_with_its_rows(db: Connection) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
    db.execute("INSERT INTO t VALUES (-1, 'd', 1, 1)")
    assert db.delta("v").added == [("d", 1)]
    db.execute("DELETE FROM t WHERE g = 'a' OR a = -1")
    assert [row[0] for row in db.delta("v").removed] == ["a", "d"]
    assert not db.delta("v").added
    (why,) = db.why("SELECT * FROM v WHERE g = 'b'")
    assert str(why).count("t: a = ") > 1
    db.engine.check_invariants()


def test_the_columns_of_groups_stand_in_the_order_of_the_view(db: Connection) -> None:
    """There are more than ten of them: g10 is before g2, where names are sorted."""
    names = [f"c{n}" for n in range(12)]
    db.execute(f"CREATE TABLE w ({', '.join(f'{one} BIGINT NOT NULL' for one in names)}, x BIGINT)")
    rows = [tuple((n + place) % (place + 2) for place in range(12)) for n in range(30)]
    db.insert("w", [(*row, 1) for row in rows])
    for value in ("SUM(x)", "COUNT(x)", "COUNT(*)"):
        db.execute(f"CREATE VIEW o AS SELECT {value} AS n, {', '.join(names)} FROM w GROUP BY ALL")
        found = db.execute("SELECT * FROM o").fetchall()
        assert sorted(found) == sorted((rows.count(row), *row) for row in {*rows})
        db.execute("DELETE FROM w WHERE c11 = 3")
        assert all(row[-1] != 3 for row in db.execute("SELECT * FROM o").fetchall())
        db.execute("DROP VIEW o")
        db.insert("w", [(*row, 1) for row in rows if row[-1] == 3])


COUNTED = {
    "duckdb": "COUNT(DISTINCT (a, b)) AS n, COUNT(DISTINCT (b, s)) FILTER (WHERE a > 0) AS m",
    "postgres": "COUNT(DISTINCT (a, b)) AS n, COUNT(DISTINCT (b, s)) FILTER (WHERE a > 0) AS m",
    "spark": "COUNT(DISTINCT a, b) AS n, COUNT(DISTINCT b, s) FILTER (WHERE a > 0) AS m",
}


@pytest.mark.parametrize("dialect", COUNTED)
def test_rows_of_values_are_counted_as_duckdb_counts_them(dialect) -> None:
    """With NULLs in them; but Spark's `DISTINCT a, b` counts rows without any."""
    draw, texts = random.Random(dialect), ("x", "y", None)
    wanted = f"SELECT g, {COUNTED['duckdb']} FROM t GROUP BY g"
    if dialect == "spark":
        wanted = wanted.replace(") AS n", ") FILTER (WHERE a + b IS NOT NULL) AS n")
        wanted = wanted.replace("WHERE a > 0", "WHERE a > 0 AND b IS NOT NULL AND s IS NOT NULL")
    with deltafix.sql.connect(dialect=dialect) as db, duckdb.connect() as duck:
        table = "CREATE TABLE t (id INTEGER, g INTEGER, a INTEGER, b INTEGER, s TEXT)"
        db.execute(table)
        duck.execute(table)
        db.execute(f"CREATE VIEW v AS SELECT g, {COUNTED[dialect]} FROM t GROUP BY g")
        for step in range(12):
            rows = [
                (10 * step + n, n % 2, *draw.choices((0, 1, None), k=2), draw.choice(texts))
                for n in range(4)
            ]
            for one in (db, duck):
                one.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
                one.execute(f"DELETE FROM t WHERE id % 7 = {step % 7}")
            found = db.execute("SELECT * FROM v").fetchall()
            assert sorted(found) == sorted(duck.execute(wanted).fetchall())
