"""WITH RECURSIVE ... USING KEY: what follows from the order of steps is refused, at its place."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import deltafix.sql

TABLE = "CREATE TABLE e (a INTEGER, b INTEGER, w INTEGER)"
STEP = "SELECT e.b, r.d + e.w FROM r JOIN e ON e.a = r.x"


def _query(key: str = "x, MIN(d)", step: str = STEP) -> str:
    return (
        f"WITH RECURSIVE r (x, d) USING KEY ({key}) AS (SELECT 1, 0 UNION {step}) SELECT * FROM r"
    )


def _error(query: str, dialect: str = "duckdb") -> deltafix.sql.Error:
    """The error of a view, at a place, with a way out; it is the same for a SELECT."""
    with deltafix.sql.connect(dialect=dialect) as db:
        db.execute(TABLE)
        with pytest.raises(deltafix.sql.Error) as caught:
            db.execute(f"CREATE VIEW v AS {query}")
        with pytest.raises(type(caught.value)):
            db.execute(query)
        assert list(db.catalog.views) == []
        assert "help: " in str(caught.value)
        return caught.value


@pytest.mark.parametrize(
    ("key", "said", "column"),
    [
        ("x", "the last d, which follows from the order", 36),
        ("x, SUM(d)", "SUM in USING KEY", 39),
        ("x, LAST(d)", "LAST in USING KEY", 39),
        ("x, MIN(d) FILTER (WHERE d > 1)", "FILTER in USING KEY", 43),
        ("x, ARG_MIN(d, x)", "this ARG_MIN in USING KEY", 39),
    ],
)
def test_what_the_order_of_steps_decides_is_refused(key: str, said: str, column: int) -> None:
    found = _error(_query(key))
    assert isinstance(found, deltafix.sql.NotSupportedError)
    assert said in str(found)
    assert found.diagnostics[0].span.column == column + len("CREATE VIEW v AS ")


def test_the_way_out_of_a_last_row_is_the_sql_that_works() -> None:
    found = str(_error(_query("x")))
    assert "write" not in found.partition("help: ")[2]
    assert "USING KEY (x, MIN(d))" in found
    with deltafix.sql.connect() as db:
        db.execute(TABLE)
        db.execute("INSERT INTO e VALUES (1, 2, 5), (2, 3, 1), (1, 3, 9), (3, 1, 1)")
        assert db.execute(_query()).fetchall() == [(1, 0), (2, 5), (3, 6)]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("x, MIN(d + 1)", "an aggregate in USING KEY is of a column"),
        ("x, MIN(z)", "unknown column 'z'"),
        ("y, MIN(d)", "unknown column 'y'"),
        ("x, x, MIN(d)", "names 'x' twice"),
        ("x, MIN(d) AS x", "names 'd' twice, or another column by it"),
        ("MIN(x), MIN(d)", "USING KEY without a key"),
    ],
)
def test_a_key_that_means_nothing_is_an_error(key: str, said: str) -> None:
    found = _error(_query(key))
    assert isinstance(found, deltafix.sql.ProgrammingError)
    assert said in str(found)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (f"{STEP} WHERE r.d > 3", "a condition that a better d may make false"),
        ("SELECT e.b, -r.d FROM r, e", "a step whose d is not as good where d is better"),
        ("SELECT e.b, r.d * e.w FROM r, e", "a step whose d"),
        ("SELECT e.b, COALESCE(r.d + e.w, 0) FROM r, e", "a step whose d"),
        ("SELECT e.b, GREATEST(r.d + e.w, e.a) FROM r, e", "a step whose d"),
        ("SELECT r.d, 0 FROM r", "a step whose x"),
        ("SELECT e.b, 0 FROM r JOIN e ON e.a = r.d", "a condition"),
        ("SELECT e.b, 0 FROM r LEFT JOIN e ON e.a < r.d", "a condition"),
        ("SELECT x, d FROM r NATURAL JOIN (SELECT 1 AS x, 2 AS d) AS q", "a condition"),
        ("SELECT x, d FROM r JOIN (SELECT 1 AS d) AS q USING (d)", "a condition"),
        ("SELECT l.b, 0 FROM r, LATERAL (SELECT b FROM e WHERE a = r.d) AS l", "a condition"),
        ("SELECT x, 0 FROM r WHERE EXISTS (SELECT 1 FROM e WHERE e.a = r.d)", "a condition"),
        ("SELECT e.b, r.d FROM e LEFT JOIN r ON e.a = r.x", "r in this place of a step"),
        ("SELECT e.b, r.d FROM r RIGHT JOIN e ON e.a = r.x", "r in this place of a step"),
        ("SELECT s.x, s.d FROM (SELECT x, d FROM r) AS s", "r in this place of a step"),
        ("SELECT r.x, q.d FROM r JOIN recurring.r AS q ON q.x = r.x", "this step of USING KEY"),
        ("SELECT q.y, q.z FROM r AS q (y, z)", "other names of the columns"),
        ("SELECT e.b, MIN(r.d) FROM r JOIN e ON e.a = r.x GROUP BY e.b", "GROUP BY in a step"),
        ("(SELECT DISTINCT ON (e.b) e.b, r.d FROM r, e ORDER BY 1, 2)", "ORDER BY in a step"),
        ("SELECT * FROM r", "* in a step of USING KEY"),
        ("SELECT e.b, r.d FROM r JOIN recurring.e ON e.a = r.x", "recurring.e here"),
    ],
)
def test_a_step_that_better_values_may_not_make_better_is_refused(step: str, said: str) -> None:
    found = _error(_query(step=step))
    assert isinstance(found, deltafix.sql.NotSupportedError)
    assert said in str(found)


def test_a_step_may_not_read_what_the_best_row_alone_tells() -> None:
    query = (
        "WITH RECURSIVE r (x, d, p) USING KEY (x, MIN(d), ARG_MIN(p, d)) AS (SELECT 1, 0, 1 UNION "
        "SELECT e.b, r.d + e.w, r.p FROM r JOIN e ON e.a = r.x) SELECT * FROM r"
    )
    assert "a step that reads p is not maintained" in str(_error(query))


@pytest.mark.parametrize("word", ["", "recurring."])
def test_using_key_has_its_place(word: str) -> None:
    plain = f"WITH RECURSIVE r (x, d) USING KEY (x, MIN(d)) AS (SELECT a, b FROM {word}e) SELECT 1"
    assert "which is not recursive" in str(_error(plain))
    assert "which DuckDB alone has" in str(_error(_query(), "postgres"))
    both = (
        "WITH RECURSIVE r (x, d) USING KEY (x, MIN(d)) AS (SELECT 1, 0 UNION SELECT x, d FROM s), "
        "s (x, d) AS (SELECT 2, 0 UNION SELECT x, d FROM r) SELECT * FROM r"
    )
    assert "in r and s, which read each other" in str(_error(both))


def test_a_view_goes_on_from_its_state_folder_and_has_proofs(tmp_path: Path) -> None:
    with closing(deltafix.sql.connect(tmp_path / "s")) as db:
        db.execute(TABLE)
        db.execute(f"CREATE VIEW v AS {_query()}")
        db.execute("INSERT INTO e VALUES (1, 2, 5), (2, 3, 1), (1, 3, 9), (3, 1, 1)")
    with closing(deltafix.sql.connect(tmp_path / "s")) as db:
        assert db.execute("SELECT * FROM v").fetchall() == [(1, 0), (2, 5), (3, 6)]
        proof = "\n".join(
            str(one) for (one,) in db.execute("EXPLAIN WHY SELECT * FROM v WHERE x = 3")
        )
        assert "e: a = 1 AND b = 2 AND w = 5" in proof
        assert "e: a = 2 AND b = 3 AND w = 1" in proof
        db.execute("DELETE FROM e WHERE w = 5")
        assert db.execute("SELECT * FROM v").fetchall() == [(1, 0), (3, 9)]
        db.execute("DELETE FROM e WHERE a = 1")
        assert db.execute("SELECT * FROM v").fetchall() == [(1, 0)]  # 3 does not hold itself up


def test_sums_of_floats_end_at_infinity() -> None:
    start = "SELECT 1, CAST(0 AS DOUBLE)"
    query = _query().replace("SELECT 1, 0", start)
    with deltafix.sql.connect() as db:
        db.execute(TABLE.replace("w INTEGER", "w DOUBLE"))
        db.execute(f"CREATE VIEW v AS {query}")
        weights = [(1, 2, float("-inf")), (2, 1, 5.0), *((1, n, -1.0 * n) for n in range(3, 60))]
        db.insert("e", [*weights, *((n, 1, -1e308) for n in range(3, 60))])
        assert {d for _, d in db.execute("SELECT * FROM v").fetchall()} == {float("-inf")}
