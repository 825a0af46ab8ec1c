"""Random statements over tables that refer to each other and to themselves, as SQLite has them.

Sees: a row that refers to none, an edit refused though nothing is lost by it, and a refused
or interrupted statement that leaves something behind, in transactions, for tables made anew in
them, and in a state that is opened again.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.support.amount import cases
from tests.support.interrupt import Interrupt

import deltafix.sql

TABLES = (
    "CREATE TABLE p (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, boss INTEGER REFERENCES p)",
    "CREATE TABLE c (k INTEGER PRIMARY KEY, p INTEGER REFERENCES p (id), "
    "w INTEGER REFERENCES p(u))",
    "CREATE TABLE q (x INTEGER, y TEXT, PRIMARY KEY (x, y))",
    "CREATE TABLE d (p INTEGER NOT NULL, a INTEGER, b TEXT, "
    "FOREIGN KEY (a, b) REFERENCES q (x, y), "
    "CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p ON DELETE NO ACTION)",
)
OTHERS = (
    "CREATE TABLE c (k INTEGER NOT NULL UNIQUE, p INTEGER NOT NULL REFERENCES p (id), "
    "w INTEGER, UNIQUE (w, p))",
    "CREATE TABLE d (p INTEGER PRIMARY KEY, a INTEGER REFERENCES p (u), b TEXT UNIQUE)",
)
"""What two of them may become, with other keys."""
NAMES = ("p", "c", "q", "d")
SEEDS = cases(8, per=5)
FEWEST, MOST = 200, 1000
"""Statements of a seed."""
ROWS = (
    "INSERT INTO p VALUES (0, 0, NULL), (1, 1, 0), (2, 2, 1), (3, 3, 1), (4, 4, NULL)",
    "INSERT INTO q VALUES (0, 'a'), (1, 'a'), (2, 'a'), (2, 'b'), (3, 'b')",
    "INSERT INTO c VALUES (0, 0, 4), (1, 3, NULL), (2, 2, 2), (3, NULL, 1)",
    "INSERT INTO d VALUES (3, 0, 'a'), (3, 0, 'a'), (4, 2, 'b'), (2, NULL, 'b')",
)
FRAMED = re.compile(r"INSERT INTO (\w+) VALUES (.*)")
VIEW = "SELECT p.id, COUNT(*) AS n FROM p JOIN c ON c.p = p.id GROUP BY p.id"


def _statement(random: Random) -> str:
    def number() -> str:
        return random.choice((*"01234", *["NULL"] * 3))

    def text() -> str:
        return random.choice(("'a'", "'b'", "NULL"))

    n, key = number, str(random.randrange(6))
    rows = {
        "p": lambda: f"({random.randrange(6)}, {n()}, {n()})",
        "c": lambda: f"({random.randrange(9)}, {n()}, {n()})",
        "q": lambda: f"({random.randrange(4)}, {random.choice(('{a}', '{b}'))})".format(
            a="'a'", b="'b'"
        ),
        "d": lambda: f"({random.randrange(6)}, {n()}, {text()})",
    }
    name = random.choice(NAMES)
    cells = {rows[name]() for _ in range(random.choice((1, 1, 2, 3)))}
    return random.choice((
        *[f"INSERT INTO {name} VALUES {', '.join(sorted(cells))}"] * 6,
        *[f"DELETE FROM {random.choice(('p WHERE id', 'c WHERE k', 'd WHERE p'))} = {key}"] * 2,
        f"DELETE FROM {random.choice(('p WHERE id > ', 'q WHERE x >= ', 'c WHERE p > '))}{key}",
        f"UPDATE p SET id = {key} WHERE id = {random.randrange(6)}",
        f"UPDATE p SET boss = {n()}, u = {n()} WHERE id = {key}",
        f"UPDATE c SET p = {n()}, w = {n()} WHERE k < {key}",
        f"UPDATE q SET x = x + {random.choice((0, 1, 10))} WHERE y = 'a' AND x = {key}",
        f"UPDATE d SET a = {n()}, b = {text()} WHERE p = {key}",
    ))  # fmt: skip


def _frame(name: str, rows: list[tuple[object, ...]]) -> pa.Table:
    """Rows by column, which are checked another way."""
    names = {"p": "id u boss", "c": "k p w", "q": "x y", "d": "p a b"}[name].split()
    kinds = [pa.string() if name in "qd" and at == len(names) - 1 else pa.int64()
             for at in range(len(names))]  # fmt: skip
    return pa.table(list(map(pa.array, zip(*rows, strict=True), kinds)), names)


def _rows(engine: Any) -> list[list[str]]:
    return [sorted(map(repr, engine.execute(f"SELECT * FROM {name}"))) for name in NAMES]


def _follow(db: deltafix.sql.Connection, lite: sqlite3.Connection, statement: str) -> None:
    """Have SQLite where an interrupted statement left us: before it, behind it, or rolled back."""
    if db.aborted is not None:
        assert db.aborted == "interrupted"
        db.rollback()
    mine = _rows(db)
    if db.in_transaction == lite.in_transaction:
        if mine != _rows(lite):
            lite.execute(statement)
    elif db.in_transaction:
        lite.execute("BEGIN")
    else:
        done = statement == "COMMIT" and mine == _rows(lite)
        lite.execute("COMMIT" if done else "ROLLBACK")
    assert db.in_transaction == lite.in_transaction, statement
    assert mine == _rows(lite), statement


def _tables(random: Random, tables: Sequence[str], *, act: bool) -> list[str]:
    """Tables, some of whose references act where what they refer to goes."""
    kinds = ("", " ON DELETE CASCADE", " ON DELETE CASCADE", " ON DELETE SET NULL")
    found = []
    for table in tables:
        parts = re.split(r"(REFERENCES \w+(?: ?\([^)]*\))?)(?: ON DELETE NO ACTION)?", table)
        for place in range(1, len(parts), 2) if act else ():
            kind = random.choice(kinds)
            if re.search(r"CONSTRAINT|\bp INTEGER NOT NULL $", parts[place - 1]):
                kind = random.choice(kinds[:2])  # it is NOT NULL
            parts[place] += kind + random.choice(("", " ON UPDATE CASCADE"))
        found.append("".join(parts))
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_oracle_references_are_kept_as_sqlite_keeps_them(seed: int, tmp_path: Path) -> None:
    random = Random(f"foreign {seed}")
    path = tmp_path / "state" if seed % 2 else ":memory:"
    seen = Counter[tuple[str, bool]]()
    db = deltafix.sql.connect(path)
    lite = sqlite3.connect(":memory:", isolation_level=None)
    lite.execute("PRAGMA foreign_keys = ON")
    for engine in (db, lite):
        for statement in (*_tables(Random(seed), TABLES, act=seed > 2), *ROWS):
            engine.execute(statement)
    db.execute(f"CREATE VIEW v AS {VIEW}")
    is_open = False
    kept: dict[str, list[str]] = {}
    for number in range(MOST):
        # what an interrupt comes in depends on what ran before in this process: on until one acted
        if number >= FEWEST and (seed < 3 or seen["acted", False]):
            break
        if random.random() < 0.06:
            table = random.choice(_tables(random, (TABLES[1], TABLES[3], *OTHERS), act=seed > 2))
            again = f"DROP TABLE {table[13]}; {table}"
            db.execute(f"DROP VIEW v; {again}; CREATE VIEW v AS {VIEW}")
            for one in again.split("; "):
                lite.execute(one)
            seen["defined", is_open] += 1
        statement = random.choice(("COMMIT", "ROLLBACK")) if is_open else "BEGIN"
        if random.random() < 0.85:
            statement = random.choice((ROWS[2], ROWS[3], *[_statement(random)] * 10))
        else:
            is_open = not is_open
        given = FRAMED.fullmatch(statement) if random.random() < 0.5 else None
        lines, folder = random.choice(((3.2, "sql"), (4.2, "")))
        is_likely = random.random() < 0.15
        interrupt = Interrupt(int(10 ** random.uniform(0, lines)) if is_likely else 10**9, folder)
        answers = []
        for engine, refused in ((db, deltafix.sql.IntegrityError), (lite, sqlite3.Error)):
            try:
                if engine is db and given is not None:
                    rows = lite.execute(f"VALUES {given[2]}").fetchall()
                    with interrupt:
                        db.insert(given[1], _frame(given[1], rows))
                elif engine is db:
                    with interrupt:
                        db.execute(statement)
                elif interrupt.came:
                    _follow(db, lite, statement)
                else:
                    engine.execute(statement)
                answers.append("done")
            except refused:
                answers.append("refused")
            except KeyboardInterrupt:
                answers.append("interrupted")
        if interrupt.came:
            seen["interrupted", is_open] += 1
            assert answers == ["interrupted", "done"]
            is_open = db.in_transaction
            continue
        assert answers[0] == answers[1], (number, statement)
        said = "framed" if given is not None else " ".join(statement.split()[:3])
        seen[said, answers[0] == "refused"] += 1
        before = kept
        kept = {n: sorted(map(repr, lite.execute(f"SELECT * FROM {n}"))) for n in NAMES}
        others = [n for n in NAMES if f" {n} " not in statement and before.get(n) != kept[n]]
        seen["acted", False] += bool(others) and statement.startswith("DELETE")
        # not after each: reading makes what waits an epoch
        for query in (
            (*(f"SELECT * FROM {n}" for n in NAMES), VIEW) if random.random() < 0.6 else ()
        ):
            mine = db.execute(query.replace(VIEW, "SELECT * FROM v")).fetchall()
            assert sorted(map(repr, mine)) == sorted(map(repr, lite.execute(query))), statement
        if path != ":memory:" and not is_open and number % 40 == 39:
            db.close()
            db = deltafix.sql.connect(path)
    db.rollback()
    db.engine.check_invariants()
    db.close()
    lite.close()
    assert len(seen) > 15  # most were taken, and refused
    assert seen["framed", True] > 5
    assert seen["framed", False] > 1
    assert seen["defined", True] > 1
    assert seen["interrupted", True] > 0
    assert seed < 3 or seen["acted", False] > 0


def test_references_are_looked_up_and_not_searched() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)")
        db.execute("CREATE TABLE c (k INTEGER PRIMARY KEY, p INTEGER REFERENCES p)")
        db.insert("p", [(n,) for n in range(2000)])
        db.insert("c", [(n, n // 2) for n in range(2000)])
        relation = db.catalog.tables["c"].relation
        assert relation.indexes == ((0,), (1,))
        db.execute("DELETE FROM p WHERE id = 1500")
        with pytest.raises(deltafix.sql.IntegrityError, match=r"c has a row with \(p\) = \(9\)"):
            db.execute("DELETE FROM p WHERE id = 9")
        assert db.execute("SELECT COUNT(*) FROM p").fetchall() == [(1999,)]


@pytest.mark.parametrize(
    ("column", "message", "hint"),
    [
        ("a TEXT REFERENCES p", "a is TEXT and id of p is INTEGER", "one type"),
        ("a INTEGER REFERENCES p (u)", "refers to no key of p", "in this order: id"),
        ("a INTEGER REFERENCES o", "unknown table 'o'", "there is: p"),
        ("a INTEGER NOT NULL REFERENCES p ON UPDATE SET DEFAULT", "has no DEFAULT", "CASCADE"),
        ("a INTEGER NOT NULL REFERENCES p ON DELETE SET NULL", "which is NOT NULL", "CASCADE"),
        ("a INTEGER REFERENCES p DEFERRABLE", "DEFERRABLE", "can neither go"),
        ("a INTEGER, FOREIGN KEY (b) REFERENCES p", "unknown column 'b'", "there is: a"),
        ("a INTEGER, b INTEGER, FOREIGN KEY (a, b) REFERENCES p", "refers to no key", "id"),
    ],
)
def test_a_reference_that_means_nothing_is_refused(column: str, message: str, hint: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, u INTEGER)")
        with pytest.raises(deltafix.sql.DatabaseError) as caught:
            db.execute(f"CREATE TABLE c ({column})")
        assert message in str(caught.value)
        assert hint in str(caught.value)
        db.execute("CREATE TABLE c (a INTEGER REFERENCES p)")
        with pytest.raises(deltafix.sql.ProgrammingError, match="p is referred to by c"):
            db.execute("DROP TABLE p")
        db.execute("DROP TABLE c; DROP TABLE p")
