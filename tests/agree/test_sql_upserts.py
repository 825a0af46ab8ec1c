"""ON CONFLICT, RETURNING, DEFAULT and CHECK against SQLite: random statements over one table."""

from __future__ import annotations

import sqlite3
from collections import Counter
from random import Random

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


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "INSERT INTO t VALUES (1, 1, 'q'), (1, 2, 'r') ON CONFLICT (a) DO UPDATE SET b = 1",
            r"two rows of the statement have one key; the second is \(1, 2, 'r'\)",
        ),
        ("INSERT INTO t VALUES (1, 1, 'z') ON CONFLICT (b) DO NOTHING", "its keys are: a; s"),
        ("INSERT INTO t VALUES (1, 1, 'z') ON CONFLICT (a) DO UPDATE SET b = excl.b", "'excl'"),
        ("INSERT INTO t VALUES (2, 1, 'z') RETURNING nope", "unknown column 'nope'"),
        ("INSERT INTO t VALUES (2, 20, 'z')", r"t: \(2, 20, 'z'\) breaks CHECK \(b < 20\)"),
        ("CREATE TABLE x (a INTEGER CHECK (a))", "of INTEGER"),
        ("CREATE TABLE x (a INTEGER DEFAULT 'x')", "DEFAULT: 'x' is no INTEGER"),
        ("CREATE TABLE x (a DATE DEFAULT CURRENT_DATE)", "is not maintained"),
        ("CREATE TABLE x (a INTEGER REFERENCES t (a))", "constraints are NOT NULL, DEFAULT"),
    ],
)
def test_what_cannot_be_is_an_error_and_changes_nothing(statement: str, said: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute(f"{TABLE}; INSERT INTO t VALUES (1, 1, 'a')")
        with pytest.raises(deltafix.sql.Error, match=said):
            db.execute(statement)
        assert db.execute("SELECT * FROM t").fetchall() == [(1, 1, "a")]
        assert "x" not in db.catalog.tables
