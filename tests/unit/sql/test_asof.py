"""ASOF JOIN: as DuckDB has it, where no two rows on the right are as near as each other."""

from __future__ import annotations

import random
from math import inf, nan
from typing import Any

import pytest
from tests.judges.sql_judge import changes_followed

import deltafix.sql
from deltafix.reducers.ways import Way, ranked
from deltafix.sql import asof
from deltafix.sql.asof import NearestRows

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, k TEXT, ts TIMESTAMP, n INT)",
    "CREATE TABLE u (k TEXT, ts TIMESTAMP, p INT, m INT)",
)
EDITS = (
    "INSERT INTO t VALUES (1, 'a', '2026-01-01 10:00:00', 1), (2, 'a', '2026-01-01 11:00:00', 2), "
    "(3, 'b', '2026-01-01 10:30:00', 3), (4, NULL, '2026-01-01 10:30:00', 4), (5, 'a', NULL, 5)",
    "INSERT INTO u VALUES ('a', '2026-01-01 09:00:00', 10, 1), "
    "('a', '2026-01-01 10:30:00', 11, 3), ('b', '2026-01-01 11:00:00', 12, 2), "
    "('a', NULL, 13, NULL)",
    "INSERT INTO u VALUES ('b', '2026-01-01 08:00:00', 14, 5), ('a', '2026-01-01 11:00:00', 15, 6)",
    "UPDATE t SET ts = '2026-01-01 12:00:00' WHERE id = 3",
    "DELETE FROM u WHERE p = 15",
    "UPDATE u SET k = 'b' WHERE p = 10",
)
QUERIES = (
    "SELECT t.id, u.p FROM t ASOF JOIN u ON t.k = u.k AND t.ts >= u.ts",
    "SELECT t.id, u.p FROM t ASOF LEFT JOIN u ON t.k = u.k AND u.ts <= t.ts",
    "SELECT t.id, u.p FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.ts > u.ts",
    "SELECT t.id, u.p FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.ts <= u.ts",
    "SELECT t.id, u.p FROM t ASOF JOIN u ON t.k = u.k AND t.ts < u.ts",
    "SELECT id, k, ts, p FROM t ASOF JOIN u USING (k, ts)",
    "SELECT k, ts, id, n, p, m FROM t ASOF LEFT JOIN u USING (k, ts)",
    "SELECT t.id, x.p FROM t ASOF JOIN u AS x ON t.n >= x.m",
    "SELECT t.id, x.p, y.id AS i FROM t ASOF JOIN u AS x ON n >= m JOIN t AS y ON y.n = x.m",
    "SELECT t.k, COUNT(*) AS n, SUM(u.p) AS s FROM t ASOF LEFT JOIN u "
    "ON t.k = u.k AND t.ts >= u.ts WHERE t.id > 1 GROUP BY t.k",
    "SELECT t.id, (SELECT SUM(u.p) FROM t AS w ASOF JOIN u ON w.k = u.k AND w.ts >= u.ts "
    "WHERE w.n <= t.n) AS s FROM t",
    "SELECT t.id, u.p FROM t ASOF LEFT JOIN u ON t.k || 'x' = u.k || 'x' AND t.n * 2.5 >= u.m",
    "SELECT id, p FROM t ASOF JOIN (SELECT k AS kk, ts AS a, p FROM u WHERE p > 10) AS w "
    "ON k = kk AND ts >= a",
)


@pytest.mark.parametrize("query", QUERIES)
def test_oracle_it_is_that_of_duckdb(query: str, warm_kernel: None) -> None:
    assert changes_followed(TABLES, query, EDITS) > 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 1 FROM t ASOF JOIN u ON t.k = u.k", "without one inequality"),
        ("SELECT 1 FROM t ASOF JOIN u ON t.ts > u.ts AND t.n > u.m", "without one inequality"),
        ("SELECT 1 FROM t ASOF JOIN u", "without one inequality"),
        ("SELECT 1 FROM t ASOF JOIN u ON ts >= u.ts", "ambiguous"),
        ("SELECT 1 FROM t ASOF RIGHT JOIN u ON t.ts >= u.ts", "ASOF RIGHT JOIN"),
        ("SELECT 1 FROM t ASOF JOIN u USING (k, q)", "unknown column 'q'"),
        ("SELECT 1 FROM t ASOF JOIN u ON t.ts >= u.ts AND t.n + u.m = 3", "this in ON"),
        ("SELECT 1 FROM t ASOF JOIN u ON t.ts >= u.ts AND t.n <> u.m", "this in ON"),
        ("SELECT 1 FROM t ASOF JOIN u ON t.ts >= u.p", "TIMESTAMP"),
        (
            "SELECT 1 FROM t ASOF JOIN LATERAL (SELECT t.n AS m) AS l ON t.n >= l.m",
            "ASOF JOIN with",
        ),
    ],
)
def test_what_it_has_no_meaning_for_is_an_error(query: str, said: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute(";".join(TABLES))
        with pytest.raises(deltafix.sql.DatabaseError, match=said):
            db.execute(f"CREATE VIEW v AS {query}")


def test_conditions_of_one_side_choose_its_rows(warm_kernel: None) -> None:
    inner = "SELECT t.id, u.p FROM t ASOF JOIN (SELECT * FROM u WHERE p > 10) AS u "
    for side, query in (
        ("", f"{inner} ON t.k = u.k AND t.ts >= u.ts WHERE t.id > 1"),
        ("LEFT", "SELECT id, CASE WHEN id > 1 THEN p END AS p FROM t ASOF LEFT JOIN "
         "(SELECT k AS kk, ts AS a, p FROM u WHERE p > 10) AS w ON k = kk AND ts >= a"),
    ):  # fmt: skip
        on = "t.k = u.k AND t.ts >= u.ts AND u.p > 10 AND t.id > 1"
        with deltafix.sql.connect() as db:
            db.execute(";".join((*TABLES, *EDITS[:3])))
            db.execute(f"CREATE VIEW a AS SELECT t.id, u.p FROM t ASOF {side} JOIN u ON {on}")
            db.execute(f"CREATE VIEW b AS {query}")
            for edit in EDITS[3:]:
                db.execute(edit)
                found = sorted(db.execute("SELECT * FROM a").fetchall(), key=str)
                assert found == sorted(db.execute("SELECT * FROM b").fetchall(), key=str) != []


def _naive(values: list[tuple[Any, ...]], way: Way, *, is_strict: bool) -> set[str]:
    """The nearest rows, one place after another."""
    by = ranked([way])
    found = set()
    for at in {repr(one[0]): one[0] for one in values if one[1]}.values():
        here = by((at,))
        before = [one for one in values if not one[1]]
        before = [
            one for one in before
            if by(one[:1]) < here or (by(one[:1]) == here and not is_strict)
        ]  # fmt: skip
        last = [one for one in before if not any(by(one[:1]) < by(two[:1]) for two in before)]
        if last:
            found.add(repr((at, min(one[2] for one in last))))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_nearest_rows_are_those_of_a_walk_and_their_changes_what_two_differ_by(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asof, "SMALL", (64, 0)[seed % 2])
    draw = random.Random(seed)
    for _ in range(10):
        way = Way(nullable=False, descending=draw.random() < 0.5)
        is_strict = draw.random() < 0.5
        reducer = NearestRows(way, [Way(nullable=False)], is_strict=is_strict)
        places = draw.choice(([*range(4)], [*range(50)], [0.5, -inf, inf, nan, 2.0]))
        drawn = ((draw.choice(places), draw.randrange(2), draw.randrange(9)) for _ in range(40))
        values = [*dict.fromkeys((at, asked, 0 if asked else row) for at, asked, row in drawn)]
        held: list[tuple[Any, ...]] = []
        acc: Any = reducer.initial
        while values:
            come = [values.pop() for _ in range(min(len(values), draw.choice((1, 1, 2, 9))))]
            gone = draw.sample(held, min(len(held), draw.randrange(2)))
            after = reducer.gather(acc, come, 1)
            for one in gone:
                after = reducer.remove(after, one)
            held = [one for one in held + come if one not in gone]
            went, came = (set(map(repr, one)) for one in reducer.changes(acc, after, come + gone))
            was, now = (set(map(repr, reducer.finish(one))) for one in (acc, after))
            assert now == _naive(held, way, is_strict=is_strict)
            assert (went - came, came - went) == (was - now, now - was)
            acc = after


def test_a_row_costs_what_is_asked_for_up_to_the_next_one() -> None:
    number = Way(nullable=False, is_plain=True)
    reducer = NearestRows(number, [number], is_strict=False)
    asked = [(n, 1, 0) for n in range(20_000)]
    acc = reducer.gather(reducer.initial, [*asked, *((n, 0, n) for n in range(0, 20_000, 10))], 1)
    after = reducer.add(acc, (55, 0, -1))
    went, came = reducer.changes(acc, after, [(55, 0, -1)])
    assert [one for one in came if one not in went] == [(at, -1) for at in range(55, 60)]
    assert len(came) == len(went) == 6
