"""WITH RECURSIVE ... UNION ALL without a bound: what it has, where it ends, what is refused.

Sees: a recursion that ends and is refused, one that does not end and is not found out, and a
column that decides the next steps and is taken for one that does not.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import deltafix.errors
import deltafix.sql
from deltafix.engine.functors import Functors
from deltafix.sql.endings import MOST_STEPS

TABLES = (
    "CREATE TABLE g (a INT, b INT); INSERT INTO g VALUES (1, 2), (1, 2), (2, 3), (1, 3), (3, 9)"
)


def _both(query: str, edits: tuple[str, ...] = ()) -> Any:
    """The rows of a query in a view after edits; DuckDB's are the same."""
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        db.execute(TABLES)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        duck.execute(TABLES)
        for edit in edits:
            db.execute(edit)
            duck.execute(edit)
        found = Counter(db.execute("SELECT * FROM v").fetchall())
        assert found == Counter(duck.execute(query).fetchall())
        return found


def _endless(query: str) -> str:
    with deltafix.sql.connect() as db:
        db.execute(TABLES)
        with pytest.raises(deltafix.sql.DataError, match="does not end") as error:
            db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert db.execute("SELECT COUNT(*) FROM g").fetchall() == [(5,)]
        return str(error.value)


@pytest.mark.parametrize("step", [  # what a step reads under a name that is not the column's
    "SELECT r.x, g.b, r.d + 1 FROM r JOIN g ON r.y = g.a",
    "SELECT x, b, d + 1 FROM g, r WHERE y = a",
    "SELECT r.x, g.b, r.d + 1 AS k FROM r JOIN g ON r.y = g.a WHERE k < 4",
    "SELECT q.p, g.b, q.k + 1 FROM r AS q(p, o, k) JOIN g ON q.o = g.a WHERE q.k < 5",
    "SELECT r.x + 1, r.y, r.d + 1 FROM r WHERE r.x * 2 < 9",
    "SELECT r.x, g.b, r.d * 2 FROM r, LATERAL (SELECT b FROM g WHERE g.a = r.y AND r.d < 9) AS g",
    "SELECT r.y, g.b, r.d FROM r JOIN g ON r.y = g.a",
    "SELECT r.d, r.x, r.y FROM r WHERE r.x > 0 AND r.y > r.x AND r.d < r.x",
    "SELECT r.x - 1, r.x, r.x FROM r WHERE CASE WHEN r.x > -3 THEN r.y IS NOT NULL END",
    "SELECT q.x, q.b, q.d + 1 FROM r JOIN g ON r.y = g.a, LATERAL (SELECT r.x, g.b, r.d) AS q",
    "(SELECT r.x, g.b, r.d + 1 FROM r JOIN g ON r.y = g.a)",
])  # fmt: skip
def test_a_recursion_that_ends_has_every_way(step: str) -> None:
    query = (
        f"WITH RECURSIVE r (x, y, d) AS (SELECT a, b, 0 FROM g UNION ALL {step}) SELECT * FROM r"
    )
    before = _both(query)
    edits = ("INSERT INTO g VALUES (0, 1), (3, 4)", "DELETE FROM g WHERE a = 2")
    assert _both(query, edits) != before


def test_a_way_may_be_written_down_and_look_for_itself() -> None:
    query = """WITH RECURSIVE r (y, way) AS (SELECT b, [a, b] FROM g UNION ALL
        SELECT g.b, list_append(r.way, g.b) FROM r JOIN g ON r.y = g.a
        WHERE NOT list_contains(r.way, g.b)) SELECT y, len(way) FROM r"""
    assert max(n for _, n in _both(query, ("INSERT INTO g VALUES (9, 1), (2, 1)",))) == 4


@pytest.mark.parametrize(("step", "says"), [
    ("SELECT r.x, g.a, r.d + 1 FROM r JOIN g ON r.y >= g.a", "comes back to y = "),
    ("SELECT r.x, r.y, r.d + 1 FROM r", "where it began, whatever its rows are"),
    ("SELECT r.x, 4 - r.y, r.d + 1 FROM r WHERE r.y < 4", "comes back to y = "),
    ("SELECT r.x, (r.y + 1) % 40, r.d + 1 FROM r WHERE r.y >= 0", "comes back to y = "),
    ("SELECT r.x, g.b, r.d + 1 FROM r LEFT JOIN g ON r.y = g.a", "comes back to y = None"),
    ("SELECT r.x, r.y, r.d + 1 FROM r WHERE r.d <> -1 AND r.x = 2", f"after {MOST_STEPS:,} steps"),
])  # fmt: skip
def test_a_recursion_that_does_not_end_is_found_out(step: str, says: str) -> None:
    query = (
        f"WITH RECURSIVE r (x, y, d) AS (SELECT a, b, 0 FROM g UNION ALL {step}) SELECT * FROM r"
    )
    message = _endless(query)
    assert says in message
    assert "the recursion r by UNION ALL" in message


@pytest.mark.parametrize("size", [9, 12, 60])
def test_a_cycle_is_found_out_in_its_first_lap(size: int) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE g (x INT, y INT)")
        db.execute("""CREATE VIEW v AS WITH RECURSIVE r (a, y) AS (SELECT x, y FROM g WHERE x = 0
            UNION ALL SELECT r.a, g.y FROM r JOIN g ON g.x = r.y) SELECT * FROM r""")
        edges = [(n, n + 1) for n in range(size - 1) for _ in range(1 + (n < 8))]
        db.insert("g", pa.table({"x": [x for x, _ in edges], "y": [y for _, y in edges]}))
        rows = db.execute("SELECT COUNT(*) FROM v").fetchall()
        with pytest.raises(deltafix.sql.DataError, match=r"comes back to y = \d"):
            db.execute(f"INSERT INTO g VALUES ({size - 1}, 0)")
        assert db.engine.last_epoch.derivations < 10 * rows[0][0] + 100
        assert db.execute("SELECT COUNT(*) FROM v").fetchall() == rows


def test_a_recursion_stops_for_all_paths_of_a_step_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[int] = []
    plain = Functors.reply

    def counted(self: Functors) -> None:
        stops.append(1)
        plain(self)

    monkeypatch.setattr(Functors, "reply", counted)
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE g (x INT, y INT)")
        db.execute("""CREATE VIEW v AS WITH RECURSIVE r (x, n) AS (SELECT 0, 0 UNION ALL
            SELECT g.y, r.n + 1 FROM r JOIN g ON g.x = r.x) SELECT * FROM r""")
        layers = [(4 * n + i, 4 * n + 4 + j) for n in range(5) for i in range(4) for j in range(4)]
        db.insert("g", layers)
        assert Counter(db.execute("SELECT n FROM v").fetchall()) == {(n,): 4**n for n in range(6)}
        assert len(stops) < 60


def test_a_path_that_grows_is_ended_by_the_timeout() -> None:
    with deltafix.sql.connect(timeout=0.2) as db:
        db.execute("CREATE TABLE g (x INT, y INT)")
        db.execute("""CREATE VIEW v AS WITH RECURSIVE r (y, way) AS (
            SELECT y, [x] FROM g UNION ALL SELECT g.y, list_append(r.way, g.y) FROM r
            JOIN g ON g.x = r.y WHERE NOT list_contains(r.way, -1)) SELECT * FROM r""")
        with pytest.raises(deltafix.errors.BudgetError, match=r"timeout=0\.2 s, in view 'v'"):
            db.execute("INSERT INTO g VALUES (1, 2), (2, 1)")
        assert db.execute("SELECT * FROM g").fetchall() == []


def test_an_edit_that_makes_a_cycle_is_undone_and_said() -> None:
    with deltafix.sql.connect() as db:
        db.execute(TABLES)
        db.execute("""CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r (x, d) AS (
            SELECT b, 0 FROM g WHERE a = 1 UNION ALL SELECT g.b, d + 1 FROM r JOIN g ON g.a = r.x
        ) SELECT * FROM r""")
        before = Counter(db.execute("SELECT * FROM v").fetchall())
        with pytest.raises(
            deltafix.sql.DataError, match=r"x = \d.*in view 'v'.*rolled back"
        ) as said:
            db.execute("INSERT INTO g VALUES (9, 2)")
        assert "1 | INSERT INTO g VALUES (9, 2)" in str(said.value)
        assert Counter(db.execute("SELECT * FROM v").fetchall()) == before
        db.execute("BEGIN; DELETE FROM g WHERE a = 3; INSERT INTO g VALUES (9, 2); COMMIT")
        assert Counter(db.execute("SELECT x FROM v").fetchall()) == {(2,): 2, (3,): 3}


@pytest.mark.parametrize("ended", ["execute", "commit", "with", "insert"])
def test_what_ends_a_transaction_in_python_says_it_in_the_words_of_sql(ended: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute(TABLES)
        db.execute("""CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r (x) AS (
            SELECT a FROM g UNION ALL SELECT g.b FROM r JOIN g ON g.a = r.x) SELECT * FROM r""")
        before = db.execute("SELECT COUNT(*) FROM v").fetchall()
        if ended != "insert":
            db.execute("BEGIN; INSERT INTO g VALUES (9, 1)")
        with pytest.raises(deltafix.sql.DataError, match=r"in view 'v'.*rolled back"):
            if ended == "execute":
                db.execute("COMMIT")
            elif ended == "commit":
                db.commit()
            elif ended == "with":
                with db:
                    pass
            else:
                db.insert("g", pa.table({"a": [9], "b": [1]}))
        assert db.execute("SELECT COUNT(*) FROM v").fetchall() == before


@pytest.mark.parametrize("step", [
    "SELECT DISTINCT r.x, g.b FROM r JOIN g ON r.y = g.a",
    "SELECT r.x, q.y FROM r JOIN r AS q ON r.y = q.x",
    "SELECT q.x, g.b FROM (SELECT DISTINCT x, y FROM r) AS q JOIN g ON q.y = g.a",
    "SELECT g.a, g.b FROM g WHERE EXISTS (SELECT 1 FROM r WHERE r.y = g.a)",
])  # fmt: skip
def test_a_step_whose_ways_are_not_those_of_the_recursion_is_refused(step: str) -> None:
    query = f"WITH RECURSIVE r (x, y) AS (SELECT a, b FROM g UNION ALL {step}) SELECT * FROM r"
    with deltafix.sql.connect() as db:
        db.execute(TABLES)
        with pytest.raises(deltafix.sql.NotSupportedError, match="UNION ALL"):
            db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
