"""Random ON CONFLICT, RETURNING, DEFAULT and CHECK as SQLite has them, and MERGE as DuckDB."""

from __future__ import annotations

import sqlite3
from collections import Counter
from random import Random

import duckdb
import pytest

import deltafix.sql

TABLE = (
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER DEFAULT 7 CHECK (b < 20), "
    "s TEXT UNIQUE DEFAULT NULL, CHECK (a <> 13))"
)
VIEW = "SELECT b, COUNT(*) AS n, MAX(s) AS s FROM t GROUP BY b"
FORMS = (
    "INSERT INTO t VALUES {rows} ON CONFLICT (a) DO UPDATE SET b = excluded.b + t.b",
    "INSERT INTO t VALUES {rows} ON CONFLICT (a) DO UPDATE SET b = b + 1, s = excluded.s "
    "WHERE t.b < 5",
    "INSERT INTO t VALUES {rows} ON CONFLICT (a) DO NOTHING",
    "INSERT INTO t VALUES {rows} ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES {rows} ON CONFLICT (s) DO UPDATE SET b = 0",
    "INSERT INTO t VALUES {rows} ON CONFLICT (a) DO UPDATE SET a = excluded.a + 1 RETURNING *",
    "INSERT INTO t VALUES {rows} ON CONFLICT (a) DO NOTHING RETURNING a, b + 1 AS c",
    "INSERT INTO t (a) VALUES ({key})",
    "DELETE FROM t WHERE b > {key} RETURNING a, b + 1 AS c",
    "UPDATE t SET b = b + 1 WHERE a < {key} RETURNING *",
)


def _statement(random: Random, number: int) -> tuple[str, str]:
    form = random.choice(FORMS)
    # keys are unique at the end of a statement here, in SQLite after each of its rows
    keys = random.sample(range(15), 1 if "SET a" in form else random.randint(1, 2))
    texts = random.sample([*"abcdefgh", f"x{number}", f"y{number}"], len(keys))
    cells = [
        f"({key}, {random.randrange(22)}, {random.choice(('NULL', repr(text)))})"
        for key, text in zip(keys, texts, strict=True)
    ]
    return form, form.format(rows=", ".join(cells), key=random.randrange(15))


@pytest.mark.parametrize("seed", range(3))
def test_oracle_upserts_and_what_they_return_are_those_of_sqlite(seed: int) -> None:
    random = Random(seed)
    seen = Counter[tuple[str, bool]]()
    with deltafix.sql.connect() as db:
        lite = sqlite3.connect(":memory:", isolation_level=None)
        for engine in (db, lite):
            engine.execute(TABLE)
        db.execute(f"CREATE VIEW v AS {VIEW}")
        for number in range(300):
            form, statement = _statement(random, number)
            answers = []
            for engine, refused in ((db, deltafix.sql.IntegrityError), (lite, sqlite3.Error)):
                try:
                    cursor = engine.execute(statement)
                    answers.append(sorted(map(repr, cursor)) if "RETURNING" in form else ["done"])
                except refused:
                    answers.append(["refused"])
            assert answers[0] == answers[1], statement
            seen[form, answers[0] == ["refused"]] += 1
            for query in ("SELECT * FROM t", VIEW):
                mine = db.execute(query.replace(VIEW, "SELECT * FROM v")).fetchall()
                assert sorted(map(repr, mine)) == sorted(map(repr, lite.execute(query))), statement
            if number % 40 == 39:
                for engine in (db, lite):
                    engine.execute("DELETE FROM t WHERE a > 4")
        db.engine.check_invariants()
        lite.close()
    assert len(seen) > 15  # most forms were taken, and refused


MERGED = (
    "CREATE TABLE t (k INTEGER{key}, v INTEGER, d DOUBLE, CHECK (v < 40)); "
    "CREATE TABLE s (k INTEGER, w BIGINT, d DOUBLE)"
)
ON = (
    "ON t.k = s.k", "ON s.k = t.k AND t.v > 2", "ON t.d = s.d", "ON t.k + 1 = s.k", "ON v = w",
    "ON t.k = s.k AND t.k = 3", "USING (k)", "ON t.k < s.k AND w > 6",
)  # fmt: skip
SOURCES = ("s", "s", "(SELECT k, MAX(w) AS w, MIN(d) AS d FROM s GROUP BY k) AS s")
WHENS = (
    "WHEN MATCHED AND w > 5 THEN DELETE", "WHEN MATCHED AND v > w THEN DO NOTHING",
    "WHEN MATCHED AND t.d = s.d THEN DELETE", "WHEN MATCHED THEN UPDATE SET v = w + v, d = s.d",
    "WHEN NOT MATCHED AND w < 7 THEN INSERT (k, v) VALUES (s.k, s.w + 1)",
    "WHEN NOT MATCHED AND d > 1 THEN DO NOTHING",
    "WHEN NOT MATCHED THEN INSERT VALUES (s.k, w, s.d)",
    "WHEN NOT MATCHED BY SOURCE AND v < 4 THEN UPDATE SET v = v + 1",
    "WHEN NOT MATCHED BY SOURCE AND t.k > 5 THEN DELETE",
)  # fmt: skip


@pytest.mark.parametrize("key", ["", " PRIMARY KEY"])
def test_oracle_merged_rows_are_those_of_duckdb(key: str) -> None:
    random = Random(key)
    seen = Counter[tuple[str, bool]]()
    with deltafix.sql.connect() as db, duckdb.connect() as duck:
        for engine in (db, duck):
            engine.execute(MERGED.format(key=key))
        db.execute("CREATE VIEW n AS SELECT v, COUNT(*) AS n, SUM(k) AS k FROM t GROUP BY v")
        for number in range(300):
            rows = [
                f"({random.choice((*range(8), 'NULL'))}, {random.randrange(9)}, "
                f"{random.choice((0.5, 1.5, 2.5, 'NULL', repr('nan') + '::DOUBLE'))})"
                for _ in range(random.randint(1, 4))
            ]
            whens = sorted(random.sample(range(len(WHENS)), random.randint(1, 4)))
            if key and any("DELETE" in WHENS[one] for one in whens):
                # a key that goes and comes is two rows of one key to DuckDB
                whens = [one for one in whens if "INSERT" not in WHENS[one]]
            merge = " ".join([
                f"MERGE INTO t USING {random.choice(SOURCES)}", random.choice(ON),
                *(WHENS[one] for one in whens),
            ])  # fmt: skip
            answers = []
            for engine, refused in ((db, deltafix.sql.IntegrityError), (duck, duckdb.Error)):
                engine.execute(f"DELETE FROM s; INSERT INTO s VALUES {', '.join(rows)}")
                try:
                    cursor = engine.execute(merge)
                    answers.append(str(cursor.rowcount if engine is db else cursor.fetchone()[0]))
                except refused:
                    answers.append("refused")
            assert answers[0] == answers[1], (merge, rows)
            seen.update((WHENS[one], answers[0] == "refused") for one in whens)
            for query, view in (("SELECT * FROM t", "t"), (
                "SELECT v, COUNT(*) AS n, SUM(k) AS k FROM t GROUP BY v", "n",
            )):  # fmt: skip
                mine = db.execute(f"SELECT * FROM {view}").fetchall()
                assert sorted(map(repr, mine)) == sorted(map(repr, duck.execute(query).fetchall()))
            if number % 25 == 24:
                for engine in (db, duck):
                    engine.execute("DELETE FROM t WHERE v > 6 OR k IS NULL")
        db.engine.check_invariants()
    assert len(seen) > 14  # most were taken, and refused


def test_a_merge_by_key_looks_up_its_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER)")
        db.insert("t", [(k, 0) for k in range(1000)])
        read: list[str] = []
        monkeypatch.setattr(db, "rows_of", lambda name: read.append(name) or [])
        merge = (
            "MERGE INTO t USING (SELECT 7 AS k, 3 AS v UNION ALL SELECT 2000, 4) AS s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)"
        )
        assert db.execute(merge).rowcount == 2
        assert "t" not in read
        monkeypatch.undo()
        assert db.execute("SELECT * FROM t WHERE v > 0").fetchall() == [(7, 3), (2000, 4)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("MERGE INTO t USING t ON TRUE WHEN MATCHED THEN DELETE", "two tables are called 't'"),
        (
            "MERGE INTO t USING (SELECT 1 AS c UNION ALL SELECT 1) AS s ON t.a = s.c "
            "WHEN MATCHED THEN UPDATE SET b = 2",
            r"two rows of the source would change one row of the table: \(1, 1, 'a'\)",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS a) AS s ON t.a = s.a WHEN MATCHED AND a = 1 "
            "THEN DELETE",
            "column 'a' is in t and in s",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS c) AS s ON t.a = s.c WHEN MATCHED AND EXISTS "
            "(SELECT 1 FROM t) THEN DELETE",
            "compute it in the query of USING",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS c) AS s ON t.a = s.c WHEN NOT MATCHED THEN DELETE",
            "there is no row to DELETE",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS c) AS s ON t.a = s.c WHEN MATCHED THEN DELETE "
            "WHEN MATCHED AND t.b = 1 THEN DO NOTHING",
            "no row comes to this WHEN MATCHED",
        ),
        (
            "MERGE INTO t USING (SELECT 5 AS c) AS s ON t.a = s.c WHEN NOT MATCHED "
            "THEN INSERT (a, nope) VALUES (c, 1)",
            "unknown column 'nope'",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS c) AS s ON t.a = s.c WHEN MATCHED "
            "THEN UPDATE SET b = 20",
            r"breaks CHECK \(b < 20\)",
        ),
        (
            "MERGE INTO t USING (SELECT 1 AS c) AS s ON t.a = s.c WHEN MATCHED "
            "THEN UPDATE SET b = 2 RETURNING *",
            "RETURNING",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 'q'), (1, 2, 'r') ON CONFLICT (a) DO UPDATE SET b = 1",
            r"two rows of the statement have one key; the second is \(1, 2, 'r'\)",
        ),
        ("INSERT INTO t VALUES (1, 1, 'z') ON CONFLICT (b) DO NOTHING", "its keys are: a; s"),
        ("INSERT INTO t VALUES (1, 1, 'z') ON CONFLICT (a) DO UPDATE SET b = excl.b", "'excl'"),
        ("INSERT INTO t VALUES (2, 1, 'z') RETURNING nope", "unknown column 'nope'"),
        ("INSERT INTO t VALUES (2, 20, 'z')", r"t: \(2, 20, 'z'\) breaks CHECK \(b < 20\)"),
        ("CREATE TABLE x (a INTEGER CHECK (a))", "of INTEGER"),
        ("CREATE TABLE x (a INTEGER DEFAULT 'x')", "DEFAULT: 'x' is no whole number"),
        ("CREATE TABLE x (a DATE DEFAULT CURRENT_DATE)", "is not maintained"),
        ("CREATE TABLE x (a INTEGER COLLATE nocase)", "constraints are NOT NULL, DEFAULT"),
    ],
)
def test_what_cannot_be_is_an_error_and_changes_nothing(statement: str, said: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute(f"{TABLE}; INSERT INTO t VALUES (1, 1, 'a')")
        with pytest.raises(deltafix.sql.Error, match=said):
            db.execute(statement)
        assert db.execute("SELECT * FROM t").fetchall() == [(1, 1, "a")]
        assert "x" not in db.catalog.tables
