"""Edits of many rows, as codes, beside the same edits row by row: one answer, or one error.

Two connections hear the same statements; in one of them every edit is of many rows. Sees: a
constraint that only one of the two keeps, a row that another statement of the transaction should
have seen, a value that is another one by column, an error that names another row, an edit that is
half undone, and deltas that are not net. What both say is DuckDB's in `test_sql_oracle.py`.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.amount import cases

import deltafix.sql
from deltafix.errors import SqlError
from deltafix.sql import Connection, scans

SEEDS = cases(4, per=20)

KEYS = ("", " PRIMARY KEY", " NOT NULL UNIQUE", " UNIQUE", " UNIQUE")
ACTIONS = (
    "", " ON DELETE CASCADE", " ON DELETE SET NULL", " ON UPDATE CASCADE",
    " ON DELETE CASCADE ON UPDATE CASCADE", " ON DELETE SET NULL ON UPDATE SET NULL",
    " ON DELETE SET DEFAULT", " ON DELETE CASCADE ON UPDATE SET DEFAULT",
)  # fmt: skip
COLUMNS = ("g", "v", "m", "f", "s", "d", "y")
VALUES: dict[str, tuple[str, ...]] = {
    "g": ("NULL", "0", "1", "2", "3"),
    "v": ("0", "1", "-5", "1000000000000", "9223372036854775807"),
    "m": ("NULL", "0", "1.25", "-99.99", "9999.99"),
    "f": ("NULL", "0.0", "-1.5", "1e300", "CAST('nan' AS DOUBLE)"),
    "s": ("NULL", "''", "'a'", "'b'", "'é'"),
    "d": ("NULL", "DATE '2026-02-28'", "DATE '1969-12-31'"),
    "y": ("NULL", "TRUE", "FALSE"),
}
SETS = (
    "g = g + 1", "g = v", "g = id", "v = v + 1", "v = v * 2", "v = 10 / g", "m = m + 0.5",
    "m = v", "m = m * 1.005", "f = f + v", "f = m", "f = v", "s = s || 'x'", "s = UPPER(s)",
    "s = CASE WHEN y THEN s ELSE 'n' END", "d = d + 1", "y = v > 1", "y = NOT y", "g = NULL",
    "v = NULL", "s = 'a'", "m = 1.255", "m = m + 0.01", "d = '2026-01-01'", "v = g, g = v",
)  # fmt: skip
MOVES = (
    "id = id + 1",
    "id = id - 1",
    "id = 7 - id",
    "id = id * 2",
    "id = 3",
    "id = g",
    "id = NULL",
)
CONDITIONS = (
    "", "id > 3", "id <= 4 AND v > 0", "g IS NULL", "g IS NOT NULL AND NOT g = 1", "v + 1 > 2",
    "m < 1", "m + v > 1", "m = g", "f > 0", "f < 1 OR y", "s = 'a'", "s < 'b' OR g = 1",
    "d > DATE '2000-01-01'", "d = '2026-02-28'", "y", "NOT y", "y IS NULL", "10 / g > 1",
    "id BETWEEN 2 AND 5", "id IN (1, 2, 5)", "g IN (1, NULL)", "g NOT IN (0, 2)", "v = id",
    "id IN (SELECT r FROM c)", "g IN (SELECT g FROM t WHERE y)", "v > 5000000000000000000 + g",
    "g IS DISTINCT FROM 1", "v * v > 1", "LENGTH(s) = 1", "1 = 1", "1 = 0", "v > 1.5", "f = g",
)  # fmt: skip


@contextmanager
def _many(count: int) -> Iterator[None]:
    before, scans.MANY = scans.MANY, count
    try:
        yield
    finally:
        scans.MANY = before


class _Pair:
    """Two connections, one of which takes every edit for one of many rows."""

    def __init__(self, random: Random, folder: Path | None) -> None:
        self.random = random
        self.paths = [":memory:" if folder is None else str(folder / name) for name in "ab"]
        self.counts = Counter[str]()
        self.open()
        key, action, own = random.choice(KEYS), random.choice(ACTIONS), random.choice(ACTIONS)
        refers = f" REFERENCES t(id){own}" if key and random.random() < 0.3 else ""
        unique = ", UNIQUE (g, s)" if random.random() < 0.3 else ""
        check = random.choice(("", "", ", CHECK (v < 100000000000000)", ", CHECK (g < id OR y)"))
        self.keyed, self.no_key = bool(key), "NULL" if key == " UNIQUE" else "9"
        self.both(
            f"CREATE TABLE t (id BIGINT{key}, g BIGINT{refers}, v BIGINT NOT NULL, "
            f"m DECIMAL(6, 2), f DOUBLE, s TEXT, d DATE, y BOOLEAN{unique}{check})"
        )
        of = f" REFERENCES t(id){action}" if key else ""
        most = random.choice(("", "", ", CHECK (r < 9)", ", CHECK (r IS NOT NULL)"))
        primary = random.choice(("x BIGINT PRIMARY KEY", "x BIGINT"))
        self.both(f"CREATE TABLE c ({primary}, r BIGINT DEFAULT 1{of}, w INTEGER NOT NULL{most})")
        both = random.choice(((action, action), random.choices(ACTIONS, k=2)))
        twice = [
            f"{name} BIGINT{key and f' REFERENCES t(id){one}'}"
            for name, one in zip("rq", both, strict=True)
        ]
        self.both(f"CREATE TABLE e ({', '.join(twice)})")
        self.both(
            "CREATE MATERIALIZED VIEW a AS SELECT g, COUNT(*) AS n, MIN(v) AS l FROM t GROUP BY g"
        )
        self.both("CREATE MATERIALIZED VIEW b AS SELECT t.s, c.w FROM t JOIN c ON t.id = c.r")
        self.hear()

    def open(self) -> None:
        self.dbs = [deltafix.sql.connect(path) for path in self.paths]
        self.count(self.dbs[1])

    def hear(self) -> None:
        self.told = [[db.subscribe(name) for name in "tceab"] for db in self.dbs]

    def close(self) -> None:
        for db in self.dbs:
            db.close()

    def count(self, db: Connection) -> None:
        """Count the edits that the second one takes in codes."""
        taken = db._take

        def take(edit: Any, **given: Any) -> bool:
            done: bool = taken(edit, **given)
            self.counts["coded" if done else "by row"] += 1
            return done

        db._take = take  # type: ignore[method-assign]

    def both(self, sql: str, run: Callable[[Connection], Any] | None = None) -> None:
        """Have both do the same, and say the same."""
        said = []
        for db, count in zip(self.dbs, (sys.maxsize, 1), strict=True):
            with _many(count):
                try:
                    cursor = db.execute(sql) if run is None else run(db)
                    shown = Counter(cursor.fetchall()) if cursor.description else None
                    said.append(("done", cursor.rowcount, shown))
                except SqlError as error:
                    said.append((type(error).__name__, str(error), getattr(error, "rows", ())))
        assert repr(said[0]) == repr(said[1]), (sql, said)
        self.counts[said[0][0]] += 1
        self.counts["changed"] += said[0][0] == "done" and said[0][1] > 0  # type: ignore[operator]

    def compare(self) -> None:
        for name in "tceab":
            one, two = (repr(db.execute(f"SELECT * FROM {name}").fetchall()) for db in self.dbs)
            assert one == two, name
        heard = [[[repr(one) for one in told] for told in mine] for mine in self.told]
        assert heard[0] == heard[1]
        self.counts["deltas"] += sum(map(len, heard[0]))
        for db in self.dbs:
            db.engine.check_invariants()

    # --- statements ----------------------------------------------------------------------------

    def where(self) -> str:
        found = self.random.choice(CONDITIONS)
        return found and f" WHERE {found}"

    def rows(self, count: int) -> str:
        one = self.random.choice
        first = self.random.randrange(12)
        rows = [
            f"({one((first + n, one(range(9)), self.no_key))}, "
            + ", ".join(one(VALUES[c]) for c in COLUMNS)
            + ")"
            for n in range(count)
        ]
        if count > 1 and self.random.random() < 0.15:
            rows[-1] = f"({first}, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"  # the last one fails
        return ", ".join(rows)

    def statement(self) -> str:
        random, one = self.random, self.random.choice
        kind = random.randrange(15)
        conflict = ""
        if self.keyed and random.random() < 0.5:
            conflict = one((
                " ON CONFLICT (id) DO NOTHING", " ON CONFLICT DO NOTHING",
                " ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                " ON CONFLICT (id) DO UPDATE SET g = t.g + 1, s = excluded.s"
                " WHERE t.v < excluded.v",
                " ON CONFLICT (id) DO UPDATE SET id = excluded.id + 20",
            ))  # fmt: skip
        if kind < 3:
            shown = one(("", "", " RETURNING *"))
            return f"INSERT INTO t VALUES {self.rows(random.choice((1, 3, 8)))}{conflict}{shown}"
        if kind == 3:
            shift = one(("id + 10", "id", "7 - id", "g"))
            return (
                f"INSERT INTO t SELECT {shift}, g, v, m, f, s, d, y FROM t{self.where()}{conflict}"
            )
        if kind == 4:
            return f"INSERT INTO t (id, v, s) SELECT r, SUM(w), 'q' FROM c GROUP BY r{conflict}"
        if kind == 5:
            w = one(("g", "3", "m", "id", "v"))
            return f"INSERT INTO c SELECT v, id, {w} FROM t{self.where()}"
        if kind == 6:
            cells = ", ".join(
                f"({random.randrange(30)}, {random.randrange(8)}, {n})" for n in range(4)
            )
            return f"INSERT INTO c VALUES {cells}"
        if kind == 7:
            return one((
                "DELETE FROM c WHERE w > 1", "UPDATE c SET r = r + 1", "UPDATE c SET r = w",
                "UPDATE c SET w = w + 2147483645",
                "UPDATE c SET r = NULL WHERE w > 2",
                "UPDATE c SET x = x + 1 WHERE w < 3", "TRUNCATE t", "TRUNCATE t CASCADE",
                "TRUNCATE c", "UPDATE e SET r = q", "DELETE FROM e WHERE r = q",
                "INSERT INTO e SELECT id, g FROM t",
                "DELETE FROM c USING t WHERE c.r = t.id AND t.y",
            ))  # fmt: skip
        if kind == 8:
            return one((
                "UPDATE t SET v = n.w FROM (SELECT r, MAX(w) AS w FROM c GROUP BY r) AS n "
                "WHERE n.r = t.id",
                "UPDATE t SET g = c.w FROM c WHERE c.r = t.id",
                "UPDATE t SET m = c.w, s = 'f' FROM c WHERE c.x = t.g",
                "DELETE FROM t USING c WHERE c.w = t.id",
            ))  # fmt: skip
        if kind in (9, 14):
            return self.merge()
        returning = one(("", "", "", " RETURNING id, v"))
        if kind in (10, 11):
            return f"DELETE FROM t{self.where()}{returning}"
        if random.random() < 0.6:
            return f"UPDATE t SET {one(SETS)}{self.where()}{returning}"
        return f"UPDATE t SET {one(MOVES)}{one(('', self.where()))}{returning}"

    def merge(self) -> str:
        one = self.random.choice
        of = one((
            "c", "(SELECT r, MIN(w) AS w, MAX(x) AS x FROM c GROUP BY r)",
            "(SELECT x AS r, w, x FROM c)", "(SELECT id AS r, g AS w, v AS x FROM t)",
            "(SELECT id + 3 AS r, g AS w, 1 AS x FROM t)",
            "(SELECT id + 0.25 AS r, g AS w, v AS x FROM t)",
        ))  # fmt: skip
        on = one((
            "t.id = s.r", "t.id = s.r", "s.r = t.id", "t.id = s.r AND t.g = s.w", "t.g = s.w",
            "t.id = s.r AND s.w > 1", "t.id = s.r AND t.v > 0",
        ))  # fmt: skip
        matched = [
            one((
                "WHEN MATCHED AND s.w > 1 THEN DELETE", "WHEN MATCHED AND t.v < 2 THEN DO NOTHING",
                "WHEN MATCHED AND t.y THEN UPDATE SET s = 'm', g = s.w", "",
                "WHEN MATCHED AND 10 / t.g > 1 THEN UPDATE SET v = 1",
            )),
            one((
                "WHEN MATCHED THEN UPDATE SET v = s.x + 1", "WHEN MATCHED THEN DELETE", "",
                "WHEN MATCHED THEN UPDATE SET id = s.r + 30, g = s.w",
            )),
        ]  # fmt: skip
        rest = [
            one((
                "WHEN NOT MATCHED AND s.w < 3 THEN INSERT (id, v) VALUES (s.r, s.w)",
                "WHEN NOT MATCHED THEN INSERT (id, v, s) VALUES (s.r, s.x, 'n')", "",
                "WHEN NOT MATCHED THEN INSERT (id, g, v) VALUES (s.x + 40, s.r, 0)",
                "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.x, 0)",
            )),
            one((
                "", "", "WHEN NOT MATCHED BY SOURCE AND t.y THEN UPDATE SET v = 0",
                "WHEN NOT MATCHED BY SOURCE AND t.g > 1 THEN DELETE",
            )),
        ]  # fmt: skip
        whens = " ".join(filter(None, (*matched, *rest))) or "WHEN MATCHED THEN DELETE"
        return f"MERGE INTO t USING {of} AS s ON {on} {whens}"

    def anew(self) -> str:
        """A MERGE by which rows go, and others of their keys come."""
        one = "SELECT id{} AS r, id AS x FROM t WHERE v > 0"
        return (
            f"MERGE INTO t USING ({one.format('')} UNION ALL {one.format(' + 100')}) AS s "
            "ON t.id = s.r WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.x, 0)"
        )

    def step(self) -> None:
        if self.random.random() < 0.1:
            rows = [
                (self.random.randrange(40), self.random.randrange(8), n, None if n == 9 else n)
                for n in range(self.random.choice((2, 6, 10)))
            ]
            sql = "INSERT INTO t (id, g, v, m) VALUES (?, ?, ?, ?)"
            if self.keyed:
                sql += self.random.choice(("", " ON CONFLICT (id) DO UPDATE SET v = excluded.v"))
            if self.random.random() < 0.3:
                sql, rows = "UPDATE t SET v = ? + 1 WHERE g = ?", [row[:2] for row in rows]
            self.both(sql, lambda db: db.executemany(sql, rows))
        else:
            self.both(self.statement())


def _play(seed: int, folder: Path | None = None) -> Counter[str]:
    random = Random(seed)
    pair = _Pair(random, folder)
    with closing(pair):
        for _ in range(12):  # of many at once one is wrong, and none is there
            pair.both(f"INSERT INTO t VALUES {pair.rows(1)}")
        for n in range(random.randrange(4)):  # each refers to a row that is there
            pair.both(f"INSERT INTO c SELECT 4 * id + {n}, id, {n} FROM t WHERE id < 9")
        if random.random() < 0.5:
            pair.both("INSERT INTO e SELECT l.id, r.id FROM t l JOIN t r ON l.id < r.id")
        if random.random() < 0.3:
            pair.both(pair.anew())
        for _ in range(12):
            if random.random() < 0.5:
                pair.step()
            else:
                pair.both("BEGIN")
                for _ in range(random.randint(1, 5)):
                    pair.step()
                    if random.random() < 0.2:
                        pair.both("SELECT COUNT(*) FROM a")
                pair.both(random.choice(("COMMIT", "COMMIT", "ROLLBACK")))
            pair.compare()
            if folder is not None and random.random() < 0.3:
                pair.close()
                pair.open()
                pair.hear()
                pair.compare()
    return pair.counts


@pytest.mark.parametrize("group", range(SEEDS))
def test_agree_edits_in_codes_are_those_by_row(group: int) -> None:
    counts = Counter[str]()
    for seed in range(group * 40, group * 40 + 40):
        counts += _play(seed)
    assert counts["changed"] > 300
    assert counts["coded"] > 300
    assert counts["SqlIntegrityError"] > 100
    assert counts["SqlDataError"] > 4
    assert counts["deltas"] > 250


def test_agree_edits_in_codes_are_those_by_row_in_a_state_folder(tmp_path: Path) -> None:
    counts = Counter[str]()
    for seed in range(1000, 1010):
        folder = tmp_path / str(seed)
        folder.mkdir()
        counts += _play(seed, folder)
    assert counts["coded"] > 60
    assert counts["deltas"] > 60


@pytest.mark.parametrize("action", ["DELETE CASCADE", "DELETE SET NULL", "UPDATE CASCADE"])
def test_agree_rows_that_refer_to_nothing_follow_no_row_without_a_key(action: str) -> None:
    script = (
        "CREATE TABLE t (id BIGINT UNIQUE, v BIGINT)",
        f"CREATE TABLE c (x BIGINT PRIMARY KEY, r BIGINT REFERENCES t(id) ON {action})",
        "INSERT INTO t VALUES (NULL, 1), (1, 1), (2, 2)",
        "INSERT INTO c VALUES (1, NULL), (2, 1), (3, 2)",
        "UPDATE t SET id = 5 WHERE v = 1 AND id IS NULL",
        "INSERT INTO t VALUES (NULL, 1)",
        "DELETE FROM t WHERE id = 5 OR id IS NULL" if "UPDATE" in action else "DELETE FROM t",
    )
    lite = sqlite3.connect(":memory:")
    with _many(1), closing(deltafix.sql.connect()) as db, closing(lite):
        lite.execute("PRAGMA foreign_keys = ON")
        for statement in script:
            db.execute(statement)
            lite.execute(statement)
            if "INTO c" in statement or statement.startswith(("UPDATE", "DELETE")):
                for name in "tc":
                    rows = Counter(lite.execute(f"SELECT * FROM {name}").fetchall())
                    assert Counter(db.execute(f"SELECT * FROM {name}").fetchall()) == rows
