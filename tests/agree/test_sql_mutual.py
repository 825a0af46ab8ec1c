"""WITH RECURSIVE whose expressions read each other, judged by DuckDB, which has one at a time.

There each is one expression with a tag for each of them: the same least relation.
"""

from __future__ import annotations

from contextlib import closing
from random import Random

import duckdb
import pytest
from tests.judges.sql_judge import bag

import deltafix.sql

TABLE = "CREATE TABLE edge (x INTEGER, y INTEGER, c VARCHAR)"
CASES = {
    "odd and even": (
        """WITH RECURSIVE odd (x, y) AS (
            SELECT x, y FROM edge UNION SELECT even.x, e.y FROM even JOIN edge e ON e.x = even.y),
        even (x, y) AS (SELECT DISTINCT odd.x, e.y FROM odd JOIN edge e ON e.x = odd.y)
        SELECT x, y, 1 AS k FROM odd UNION ALL SELECT x, y, 0 FROM even""",
        """WITH RECURSIVE w (k, x, y) AS (SELECT 1, x, y FROM edge UNION
            SELECT 1 - k, w.x, e.y FROM w JOIN edge e ON e.x = w.y) SELECT x, y, k FROM w""",
    ),
    "calls that match": (  # a word of a grammar: an opening, a middle, an end
        """WITH RECURSIVE opened (x, y) AS (
            SELECT x, y FROM edge WHERE c = 'a'
            UNION SELECT ended.x, e.y FROM ended JOIN edge e ON e.x = ended.y WHERE e.c = 'a'),
        middle (x, y) AS (
            SELECT y, y FROM edge WHERE c IS NULL
            UNION SELECT o.x, e.y FROM opened o JOIN edge e ON e.x = o.y WHERE e.c = 'b'
            UNION SELECT m.x, e.y FROM middle m JOIN edge e ON e.x = m.y WHERE e.c IS NULL),
        ended (x, y) AS (
            SELECT DISTINCT m.x, e.y FROM middle m JOIN edge e ON e.x = m.y WHERE e.c <> 'a')
        SELECT o.x, o.y, COUNT(DISTINCT m.y) AS n FROM opened o LEFT JOIN middle m ON m.x = o.x
        GROUP BY o.x, o.y""",
        """WITH RECURSIVE w (k, x, y) AS (
            SELECT 'o', x, y FROM edge WHERE c = 'a'
            UNION SELECT 'm', y, y FROM edge WHERE c IS NULL
            UNION (SELECT CASE WHEN k = 'e' THEN 'o' WHEN k = 'o' THEN 'm'
                    WHEN e.c IS NULL THEN 'm' ELSE 'e' END, w.x, e.y
                FROM w JOIN edge e ON e.x = w.y
                WHERE (k = 'e' AND e.c = 'a') OR (k = 'o' AND e.c = 'b')
                OR (k = 'm' AND (e.c IS NULL OR e.c <> 'a'))))
        SELECT o.x, o.y, COUNT(DISTINCT m.y) AS n
        FROM (SELECT x, y FROM w WHERE k = 'o') o
        LEFT JOIN (SELECT x, y FROM w WHERE k = 'm') m ON m.x = o.x GROUP BY o.x, o.y""",
    ),
    "a wider type comes back": (
        """WITH RECURSIVE a (v) AS (SELECT x FROM edge UNION SELECT v FROM b WHERE v < 3),
        b (v) AS (SELECT DISTINCT v + 0.5 FROM a WHERE v < 3) SELECT v FROM a""",
        """WITH RECURSIVE w (k, v) AS (SELECT 'a', x::DECIMAL(12, 1) FROM edge UNION
            (SELECT CASE k WHEN 'a' THEN 'b' ELSE 'a' END,
                (CASE k WHEN 'a' THEN v + 0.5 ELSE v END)::DECIMAL(12, 1) FROM w WHERE v < 3))
        SELECT v FROM w WHERE k = 'a'""",
    ),
    "one that comes later, and reads nothing": (
        """WITH RECURSIVE a (x) AS (
            SELECT y FROM late UNION SELECT e.y FROM a JOIN edge e ON e.x = a.x),
        late AS (SELECT y FROM edge WHERE c = 'b') SELECT x FROM a""",
        """WITH RECURSIVE a (x) AS (SELECT y FROM edge WHERE c = 'b'
            UNION SELECT e.y FROM a JOIN edge e ON e.x = a.x) SELECT x FROM a""",
    ),
}  # fmt: skip


def edits(seed: int) -> list[str]:
    rng = Random(f"mutual {seed}")
    found = []
    for _ in range(12):
        x, y = (rng.choice(("NULL", 1, 2, 3, 4, 5)) for _ in "xy")
        c = rng.choice(("NULL", "'a'", "'b'", "'c'"))
        found.append(
            f"INSERT INTO edge VALUES ({x}, {y}, {c})"
            if rng.random() < 0.65
            else f"DELETE FROM edge WHERE x = {rng.randrange(1, 6)}"
        )
    return found


@pytest.mark.parametrize("name", CASES)
def test_oracle_expressions_that_read_each_other(name: str, warm_kernel: None) -> None:
    ours, theirs = CASES[name]
    changed = 0
    for seed in range(6):
        with closing(deltafix.sql.connect()) as db, closing(duckdb.connect()) as duck:
            db.execute(TABLE)
            duck.execute(TABLE)
            db.execute(f"CREATE VIEW v AS {ours}")
            before = bag(db.execute("SELECT * FROM v"))
            for edit in edits(seed):
                db.execute(edit)
                duck.execute(edit)
                found = bag(db.execute("SELECT * FROM v"))
                assert found == bag(duck.execute(theirs).fetchall()), edit
                delta = db.delta("v")
                assert (bag(delta.added), bag(delta.removed)) == (found - before, before - found)
                assert found == bag(db.execute(ours))
                changed += found != before
                before = found
            db.engine.check_invariants()
    assert changed > 10


@pytest.mark.parametrize(
    ("query", "message", "help_"),
    [
        ("WITH RECURSIVE a AS (SELECT x FROM b UNION SELECT x FROM b WHERE x > 1), "
         "b AS (SELECT DISTINCT x FROM a) SELECT * FROM a",
         "a has no part to begin with", "must not read a or b"),
        ("WITH RECURSIVE a AS (SELECT x FROM edge UNION ALL SELECT x FROM b), "
         "b AS (SELECT DISTINCT x FROM a) SELECT * FROM a", "UNION ALL in a and b", "write UNION"),
        ("WITH RECURSIVE a AS (SELECT x FROM edge UNION SELECT x FROM b), "
         "b AS (SELECT x FROM a) SELECT * FROM a", "recursion without UNION", "SELECT DISTINCT"),
        ("WITH RECURSIVE a AS (SELECT x FROM edge UNION SELECT x FROM b), b AS (SELECT DISTINCT y "
         "AS x FROM edge WHERE y NOT IN (SELECT x FROM a)) SELECT * FROM a",
         "negates", "move it out"),
        ("WITH a AS (SELECT x FROM b), b AS (SELECT x FROM edge) SELECT * FROM a",
         "unknown table 'b'", "there is"),
        ("WITH a AS (SELECT x FROM edge), a AS (SELECT y FROM edge) SELECT * FROM a",
         "two common table expressions are called 'a'", "name them apart"),
    ],
)  # fmt: skip
def test_what_is_no_least_relation_is_refused(
    query: str, message: str, help_: str, warm_kernel: None
) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE edge (x INTEGER NOT NULL, y INTEGER NOT NULL)")
        with pytest.raises(deltafix.sql.Error) as caught:
            db.execute(f"CREATE VIEW v AS {query}")
    assert message in str(caught.value)
    assert help_ in str(caught.value)


LATER = "WITH RECURSIVE a AS (SELECT x FROM b), b AS (SELECT 2 AS x) SELECT x FROM a"


@pytest.mark.parametrize(("dialect", "found"), [("duckdb", 1), ("spark", 1), ("postgres", 2)])
def test_a_name_that_a_table_has_is_the_tables_but_in_postgres(
    dialect: str, found: int, warm_kernel: None
) -> None:
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        db.execute("CREATE TABLE b (x INTEGER); INSERT INTO b VALUES (1)")
        db.execute(f"CREATE VIEW v AS {LATER}")
        assert db.execute("SELECT x FROM v").fetchall() == [(found,)]


def test_oracle_a_name_of_postgres(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres) as server:
        server.execute("CREATE TEMP TABLE b (x INTEGER)")
        server.execute("INSERT INTO b VALUES (1)")
        assert server.execute(LATER).fetchall() == [(2,)]
