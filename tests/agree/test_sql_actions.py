"""Random tables with ON UPDATE and ON DELETE, and random statements, as SQLite has them.

Sees: a row that does not follow the key it refers to, through chains, composite keys and references
of a table to itself, one that follows twice, and a refused statement that leaves something behind.
MERGE, which SQLite has not, is judged by the UPDATE or DELETE it stands for.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

import pytest

import deltafix.sql

COLUMNS = "abcd"
KEYS = (("a",), ("b",), ("b", "c"), ("c", "a"))
ACTIONS = ("CASCADE", "CASCADE", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION", "")


_Rows: TypeAlias = dict[str, list[tuple[int | None, ...]]]


class _Made(NamedTuple):
    """A table: its keys, the primary key first, what refers to what, and how it is written."""

    name: str
    keys: list[tuple[str, ...]]
    foreign: list[tuple[list[str], str, tuple[str, ...]]]
    sql: str


def _table(random: Random, name: str, others: list[_Made]) -> _Made:
    keys = random.sample(KEYS, random.randint(1, 3))
    primary = keys[0]
    parts = [
        f"{one} INT{' NOT NULL' * (one in primary)} DEFAULT {random.choice('0123')}"
        if one in primary or random.random() < 0.3
        else f"{one} INT"
        for one in COLUMNS
    ]
    parts += [
        f"{'UNIQUE' if place else 'PRIMARY KEY'} ({', '.join(key)})"
        for place, key in enumerate(keys)
    ]
    foreign = []
    free = random.sample(COLUMNS, len(COLUMNS))
    for _ in range(random.choice((1, 2, 3, 4))):
        target = random.choice((*others * 2, _Made(name, keys, [], "")))
        key = random.choice(target.keys)
        mine = free[: len(key)]
        # Of two references to one table it is not said which acts first. A column that is a part
        # both of a reference and of the key of one table is changed twice there, row by row.
        if len(mine) < len(key) or target.name in {one for _, one, _ in foreign}:
            continue
        if target.name == name and set(mine) & set(key):
            continue
        free = free[len(key) :]
        said = ""
        for event in ("DELETE", "UPDATE"):
            action = random.choice(ACTIONS)
            if action == "SET NULL" and set(mine) & set(primary):
                action = "CASCADE"
            said += f" ON {event} {action}" * bool(action)
        foreign.append((mine, target.name, key))
        parts.append(
            f"FOREIGN KEY ({', '.join(mine)}) REFERENCES {target.name} ({', '.join(key)}){said}"
        )
    return _Made(name, keys, foreign, f"CREATE TABLE {name} ({', '.join(parts)})")


def _statement(random: Random, tables: list[_Made], rows: _Rows) -> tuple[str, str]:
    """A statement that mostly meets the rows there are, and what SQLite runs for it."""
    table = random.choice(tables)
    name, keys, foreign, made = table

    def number(*, null: bool = True) -> str:
        found: str = random.choice((*"0123456789", *["NULL"] * 2 * null))
        return found

    def row() -> str:
        cells = {one: number(null=one not in keys[0]) for one in COLUMNS}
        for mine, target, key in foreign:
            there = cells
            if rows[target]:
                found = map(_cell, random.choice(rows[target]))
                there = dict(zip(COLUMNS, found, strict=True))
            if random.random() < 0.95:
                cells |= {one: there[two] for one, two in zip(mine, key, strict=True)}
            elif not set(mine) & set(keys[0]):
                cells |= dict.fromkeys(mine, "NULL")
        return f"({', '.join(cells.values())})"

    one = random.choice(random.choice(keys) if random.random() < 0.8 else COLUMNS)
    two = random.choice(COLUMNS)
    wanted, there = number(null=random.random() < 0.2), number(null=False)
    if rows[name] and random.random() < 0.9:
        there = _cell(random.choice(rows[name])[COLUMNS.index(two)])
    kind = random.random() * (1 if len(rows[name]) > 1 else 0.7)
    if kind < 0.35:
        values = sorted({row() for _ in range(random.choice((1, 1, 2)))})
        both = f"INSERT INTO {name} VALUES {', '.join(values)}"
    elif kind < 0.7:
        more = f", {two} = {number()}" if two != one and random.random() < 0.4 else ""
        both = f"UPDATE {name} SET {one} = {wanted}{more} WHERE {two} = {there}"
    elif kind < 0.8 and not re.search(rf"REFERENCES {name} [^)]*\)[^,)]*ON UPDATE SET NULL", made):
        # of such a table SQLite 3.40 takes an upsert that refers to no row
        key = ", ".join(random.choice(keys))
        to = random.choice((wanted, f"excluded.{two}"))
        both = f"INSERT INTO {name} VALUES {row()} ON CONFLICT ({key}) DO UPDATE SET {one} = {to}"
    elif kind < 0.9:
        then = f"UPDATE SET {one} = x.n" if random.random() < 0.8 else "DELETE"
        mine = (
            f"MERGE INTO {name} USING (VALUES ({there}, {wanted})) AS x (k, n) "
            f"ON {name}.{two} = x.k WHEN MATCHED THEN {then}"
        )
        if then == "DELETE":
            return mine, f"DELETE FROM {name} WHERE {two} = {there}"
        return mine, f"UPDATE {name} SET {one} = {wanted} WHERE {two} = {there}"
    elif kind < 0.95:
        # beyond all there are: SQLite compares keys with those of rows that it has yet to change
        top = max(row[COLUMNS.index(one)] or 0 for row in (*rows[name], (1,) * 4)) % 10**8 + 1
        both = f"UPDATE {name} SET {one} = {one} + {top} WHERE {two} >= {there}"
    else:
        both = f"DELETE FROM {name} WHERE {one} = {there}"
    return both, both


def _cell(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def _rows(engine: Any, tables: list[_Made]) -> _Rows:
    found = {one.name: list(engine.execute(f"SELECT * FROM {one.name}")) for one in tables}
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def judge(seed: int, path: str | Path, statements: int) -> Counter[str]:
    """Run random statements over random tables in both; what was seen."""
    random = Random(f"actions {seed}")
    seen = Counter[str]()
    tables: list[_Made] = []
    for name in ("p", "q", "r", "s"):
        tables.append(_table(random, name, tables))
    lite = sqlite3.connect(":memory:", isolation_level=None)
    lite.execute("PRAGMA foreign_keys = ON")
    db = deltafix.sql.connect(path)
    for one in tables:
        db.execute(one.sql)
        lite.execute(one.sql.replace("RESTRICT", "NO ACTION"))  # which is what it is here
    db.execute(
        "CREATE VIEW v AS SELECT q.a, COUNT(*) AS n FROM q LEFT JOIN p ON p.b = q.b GROUP BY q.a"
    )
    before = _rows(lite, tables)
    for number in range(statements):
        mine, theirs = _statement(random, tables, before)
        if random.random() < 0.1:
            mine = theirs = random.choice(("COMMIT", "ROLLBACK")) if db.in_transaction else "BEGIN"
        answers = []
        for engine, statement, refused in (
            (db, mine, deltafix.sql.IntegrityError),
            (lite, theirs, sqlite3.IntegrityError),
        ):
            try:
                engine.execute(statement)
                answers.append("done")
            except refused as error:
                answers.append("refused")
                said = str(error)
        found = _rows(lite, tables)
        schema = "\n".join(one.sql for one in tables)
        assert len({*answers}) == 1, (number, mine, answers, said, schema, before)
        assert _rows(db, tables) == found, (number, mine, schema, before)
        verb = mine.split()[0]
        seen[f"{verb} {answers[0]}"] += 1
        others = [one.name for one in tables if f" {one.name} " not in mine[:20]]
        seen[f"{verb} acts"] += any(before[one] != found[one] for one in others)
        before = found
        if path != ":memory:" and not db.in_transaction and number % 40 == 39:
            db.close()
            db = deltafix.sql.connect(path)
    db.rollback()
    db.engine.check_invariants()
    db.close()
    lite.close()
    return seen


def test_oracle_rows_follow_the_keys_they_refer_to_as_in_sqlite(tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(14):
        seen += judge(seed, tmp_path / "state" if seed == 8 else ":memory:", 70)
    for verb in ("UPDATE", "INSERT"):
        assert seen[f"{verb} done"] > 50
        assert seen[f"{verb} refused"] > 20
    assert seen["MERGE done"] > 5
    assert sum(seen[f"{verb} acts"] for verb in ("UPDATE", "INSERT", "MERGE")) > 5


def _dump(random: Random, tables: list[_Made], before: _Rows) -> _Rows:
    """Rows of tables that mostly hold together, some of them those there were."""
    found: _Rows = {}
    for name, _, foreign, _ in tables:
        kept = [row for row in before[name] if random.random() < 0.6]
        found[name] = kept
        for _ in range(random.randint(0, 3)):
            cells = {one: random.randint(0, 30) for one in COLUMNS}
            for mine, target, key in foreign:
                there = found[target]
                if there and random.random() < 0.95:
                    values = dict(zip(COLUMNS, random.choice(there), strict=True))
                    cells |= {one: values[two] for one, two in zip(mine, key, strict=True)}
            kept.append(tuple(cells.values()))
    return found


def test_whole_tables_are_replaced_at_once_or_not_at_all() -> None:
    """Beside SQLite, which has all rows and is then asked what refers to none."""
    seen = Counter[str]()
    for seed in range(50):
        random = Random(f"dumps {seed}")
        tables: list[_Made] = []
        for name in ("p", "q", "r"):
            tables.append(_table(random, name, tables))
        names = [one.name for one in tables]
        with deltafix.sql.connect() as db:
            for one in tables:
                db.execute(one.sql)
            db.execute("CREATE VIEW v AS SELECT p.a, q.b FROM p JOIN q ON p.b = q.b")
            before = _rows(db, tables)
            for _ in range(40):
                dump = _dump(random, tables, before)
                said = random.sample(names, random.choice((1, 2, 2, 3)))
                dump = {name: dump[name] if name in said else before[name] for name in names}
                lite = sqlite3.connect(":memory:")
                for one in tables:
                    lite.execute(one.sql)
                try:
                    for name, rows in dump.items():
                        lite.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", rows)
                    holds = not lite.execute("PRAGMA foreign_key_check").fetchall()
                except sqlite3.IntegrityError:
                    holds = False
                lite.close()
                try:
                    count = db.replace_all({name: dump[name] for name in said})
                    answer = "done"
                except deltafix.sql.IntegrityError as error:
                    answer = "refused"
                    assert error.table in names
                    assert all(place < len(dump[error.table]) for place in error.rows)
                now = _rows(db, tables)
                acted = answer == "done" and any(
                    now[one] != before[one] for one in {*names} - {*said}
                )
                if answer == "done":
                    assert {one: now[one] for one in said} == {
                        one: sorted(dump[one], key=repr) for one in said
                    }
                    assert count == sum(len({*before[one]} ^ {*now[one]}) for one in said)
                else:
                    assert now == before
                assert (answer == "done") == holds or acted, (seed, said, dump, before, tables)
                seen[f"{answer}{' acts' * acted}"] += 1
                before = now
            db.engine.check_invariants()
    assert seen["done"] > 100
    assert seen["refused"] > 100
    assert seen["done acts"] > 2


SHIFTED = "UPDATE t SET a = CASE a WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE a - 1 END"


def test_keys_change_places_and_every_row_follows_once() -> None:
    with deltafix.sql.connect() as db:
        db.execute(
            """CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER UNIQUE, of INTEGER,
                 FOREIGN KEY (of) REFERENCES t (a) ON UPDATE CASCADE);
            CREATE TABLE l (a INTEGER PRIMARY KEY REFERENCES t ON UPDATE CASCADE);
            CREATE TABLE m (a INTEGER PRIMARY KEY REFERENCES t ON UPDATE CASCADE);
            CREATE TABLE n (k INTEGER PRIMARY KEY, a INTEGER,
                 FOREIGN KEY (a) REFERENCES l ON UPDATE CASCADE,
                 FOREIGN KEY (a) REFERENCES m ON UPDATE CASCADE);
            INSERT INTO t VALUES (1, 10, 2), (2, 20, 2), (4, 40, 1), (5, 50, 4);
            INSERT INTO l VALUES (1), (2), (4), (5);
            INSERT INTO m VALUES (1), (2), (4), (5);
            INSERT INTO n VALUES (10, 1), (20, 2), (40, 4), (50, 5)"""
        )
        assert db.execute(SHIFTED).rowcount == 4
        found = [*db.execute("SELECT * FROM t ORDER BY b")]
        assert found == [(2, 10, 1), (1, 20, 1), (3, 40, 2), (4, 50, 3)]
        assert [*db.execute("SELECT * FROM n ORDER BY k")] == [(10, 2), (20, 1), (40, 3), (50, 4)]


def test_a_row_that_takes_the_key_of_one_that_goes_keeps_its_own() -> None:
    with deltafix.sql.connect() as db:
        db.execute(
            """CREATE TABLE t (a INTEGER PRIMARY KEY);
            CREATE TABLE n (k INTEGER PRIMARY KEY,
                 a INTEGER REFERENCES t ON UPDATE CASCADE ON DELETE CASCADE);
            INSERT INTO t VALUES (1), (2);
            INSERT INTO n VALUES (10, 1), (20, 2);
            MERGE INTO t USING (VALUES (1, NULL), (2, 1)) AS s (a, b) ON t.a = s.a
              WHEN MATCHED AND s.b IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.b"""
        )
        assert [*db.execute("SELECT * FROM t")] == [(1,)]
        assert [*db.execute("SELECT * FROM n")] == [(20, 1)]


def test_a_null_that_follows_into_a_column_without_is_refused() -> None:
    with deltafix.sql.connect() as db:
        db.execute(
            """CREATE TABLE t (a INTEGER PRIMARY KEY, u INTEGER UNIQUE);
            CREATE TABLE n (u INTEGER NOT NULL REFERENCES t (u) ON UPDATE CASCADE);
            INSERT INTO t VALUES (1, 7);
            INSERT INTO n VALUES (7)"""
        )
        with pytest.raises(deltafix.sql.IntegrityError, match=r"make n\.u NULL"):
            db.execute("UPDATE t SET u = NULL")
        assert [*db.execute("SELECT * FROM t")] == [(1, 7)]
