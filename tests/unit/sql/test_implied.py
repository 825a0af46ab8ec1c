"""What an OR over several tables requires of one of them is asked before they are joined."""

from __future__ import annotations

import duckdb
import pytest

import deltafix.sql

TABLES = """
CREATE TABLE site (id INTEGER PRIMARY KEY, kind VARCHAR, size INTEGER);
CREATE TABLE visit (id INTEGER PRIMARY KEY, site INTEGER NOT NULL, who VARCHAR, spent INTEGER);
"""
SITES = [(n, (None, "a", "b", "c", "d")[n % 5], n % 7 or None) for n in range(60)]
VISITS = [(n, n * 7 % 60, ("x", None, "y", "z")[n % 4], n % 11 or None) for n in range(600)]
QUERY = "SELECT v.id, kind, who FROM visit v JOIN site s ON v.site = s.id WHERE {}"


def _probed(condition: str) -> int:
    """Rows that a view with this condition looks at to be made; its rows are DuckDB's."""
    query = QUERY.format(condition)
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        for engine in (db, duck):
            engine.execute(TABLES)
            engine.executemany("INSERT INTO site VALUES (?, ?, ?)", SITES)
            engine.executemany("INSERT INTO visit VALUES (?, ?, ?, ?)", VISITS)
        db.execute(f"CREATE MATERIALIZED VIEW answer AS {query}")
        found = sorted(db.execute("SELECT * FROM answer").fetchall(), key=repr)
        assert found == sorted(duck.execute(query).fetchall(), key=repr)
        return db._db.last_epoch.probed


@pytest.mark.parametrize(
    "condition",
    [
        "kind = 'a' AND who = 'x' OR kind = 'b' AND who = 'y'",
        "(kind = 'a' OR kind = 'b') AND who = 'x' OR who IN ('y') AND kind IN ('b', NULL)",
        "s.kind = 'a' AND v.who = 'x' AND spent > 3 OR kind = 'b' AND who = 'y' AND id_of IS NULL",
    ],
)
def test_a_side_that_cannot_be_true_is_known_before_the_join(condition: str) -> None:
    condition = condition.replace("id_of", "spent")
    whole = _probed("length(kind || who) = 2")
    assert _probed(condition) < whole * 0.6


@pytest.mark.parametrize(
    "condition",
    [
        "kind = 'a' AND who = 'x' OR spent = 4",
        "kind = 'a' AND who = 'x' OR NOT (kind = 'b' AND who = 'y')",
        "kind IS NULL AND who = 'x' OR kind = 'b' AND who IS NULL",
        "NOT (kind = 'a' AND who = 'x' OR kind = 'b' AND who = 'y')",
        "(kind = 'a' AND who = 'x' OR kind = 'b' AND who = 'y') IS NULL",
        "kind = 'a' AND 10 / size > 2 OR kind = 'b' AND who IN (SELECT who FROM visit)",
    ],
)
def test_an_or_of_other_forms_means_what_it_says(condition: str) -> None:
    assert _probed(condition) > 0


@pytest.mark.parametrize(
    "absorbed", ["EXISTS (SELECT 1 FROM nowhere)", "nothing = 1", "a IN (SELECT d FROM u)"]
)
def test_what_an_or_makes_no_use_of_is_read_all_the_same(absorbed: str) -> None:
    where = f"(a < b AND {absorbed}) OR a < b"
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE u (d INTEGER, e INTEGER)")
        if "no" in absorbed:
            with pytest.raises(deltafix.sql.ProgrammingError, match="unknown"):
                db.execute(f"CREATE VIEW v AS SELECT a FROM t WHERE {where}")
            return
        db.execute(f"CREATE VIEW v AS SELECT a FROM t WHERE {where}")
        with pytest.raises(deltafix.sql.ProgrammingError, match="read by v"):
            db.execute("ALTER TABLE u DROP COLUMN d")
