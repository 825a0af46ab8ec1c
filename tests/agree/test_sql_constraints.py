"""Random scripts of ADD and DROP CONSTRAINT and ALTER COLUMN under edits and views, by SQLite.

Sees: a constraint that is taken though a row breaks it, one that does not hold afterwards or still
holds, a row or a view that changes with it, and a state that is another one when it is opened
again. SQLite, which has none of these statements, copies the rows into a table that is made so.
"""

from __future__ import annotations

import copy
import re
import sqlite3
from collections import Counter
from pathlib import Path
from random import Random

import deltafix.sql

COLUMNS = {
    "t": {"id": "INT", "a": "INT", "b": "INT", "s": "TEXT", "x": "INT"},
    "u": {"k": "INT", "n": "INT", "s": "TEXT"},
}
VIEWS = {
    "v": "SELECT a, COUNT(*) AS n FROM t GROUP BY a",
    "w": "SELECT t.a, u.s FROM t LEFT JOIN u ON u.k = t.b",
    "y": "SELECT a FROM v WHERE n > 1",
    "z": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.n = t.id)",
}
POOL = {
    "t": {
        "t_pkey": "PRIMARY KEY (id)",
        "t_a_key": "UNIQUE (a)",
        "t_b_s_key": "UNIQUE (b, s)",
        "t_x_key": "UNIQUE (x)",
        "t_a_check": "CHECK (a < 4)",
        "t_check": "CHECK (a IS NULL OR b >= a)",
        "t_a_fkey": "FOREIGN KEY (a) REFERENCES u (k)",
        "t_b_fkey": "FOREIGN KEY (b) REFERENCES u (n) ON DELETE CASCADE",
    },
    "u": {
        "u_pkey": "PRIMARY KEY (k)",
        "u_n_key": "UNIQUE (n)",
        "u_s_check": "CHECK (s <> '2')",
        "u_n_fkey": "FOREIGN KEY (n) REFERENCES t (id) ON DELETE CASCADE",
    },
}
"""Constraints by the names that PostgreSQL gives those without one."""
TARGET = re.compile(r"REFERENCES (\w) \((\w+)\)")


class _Table:
    """A table as it should be: what is said of its columns, and its constraints by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.types = dict(COLUMNS[name])
        self.required = set[str]()
        self.defaults = dict[str, str]()
        self.constraints = dict[str, str]()

    def sql(self) -> str:
        primary = " ".join(c for c in self.constraints.values() if c.startswith("PRIMARY"))
        parts = [
            f"{one} {kind}"
            + f" DEFAULT {self.defaults.get(one)}" * (one in self.defaults)
            + " NOT NULL" * (one in self.required or f"({one})" in primary)
            for one, kind in self.types.items()
        ]
        return f"CREATE TABLE {self.name} ({', '.join((*parts, *self.constraints.values()))})"

    def has_key(self, column: str) -> bool:
        keys = (f"PRIMARY KEY ({column})", f"UNIQUE ({column})")
        return any(one in keys for one in self.constraints.values())


class _Script:
    """Statements for deltafix, and tables made anew for SQLite."""

    def __init__(self, seed: int, path: str | Path) -> None:
        self.random = Random(f"constraints {seed}")
        self.path = path
        self.seen = Counter[str]()
        self.db = deltafix.sql.connect(path)
        self.lite = sqlite3.connect(":memory:", isolation_level=None)
        self.lite.execute("PRAGMA legacy_alter_table = ON")
        self.lite.execute("PRAGMA foreign_keys = ON")
        self.tables = {name: _Table(name) for name in COLUMNS}
        self.said = self.last = ""
        for table in self.tables.values():
            self.db.execute(table.sql())
            self.lite.execute(table.sql())
        for name, query in VIEWS.items():
            self.db.execute(f"CREATE VIEW {name} AS {query}")
            self.lite.execute(f"CREATE VIEW {name} AS {query}")
        self.told = {name: self.db.subscribe(name) for name in VIEWS}

    def taken(self, sql: str) -> bool:
        self.last = sql
        try:
            self.db.execute(sql)
        except (deltafix.sql.IntegrityError, deltafix.sql.ProgrammingError) as error:
            self.said = str(error)
            return False
        except deltafix.sql.DataError as error:
            self.said = str(error)
            return False
        return True

    def remade(self, tables: dict[str, _Table], values: dict[str, str]) -> bool:
        """Have SQLite these tables with the rows there are; whether they keep the constraints."""
        self.lite.execute("PRAGMA foreign_keys = OFF")
        self.lite.execute("BEGIN")
        try:
            for name in VIEWS:
                self.lite.execute(f"DROP VIEW {name}")
            for name, table in tables.items():
                self.lite.execute(f"ALTER TABLE {name} RENAME TO old")
                self.lite.execute(table.sql())
                shown = ", ".join(values.get(one, one) for one in table.types)
                self.lite.execute(f"INSERT INTO {name} SELECT {shown} FROM old")
                self.lite.execute("DROP TABLE old")
            for name, query in VIEWS.items():
                self.lite.execute(f"CREATE VIEW {name} AS {query}")
            is_sound = not self.lite.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.IntegrityError:
            is_sound = False
        self.lite.execute("COMMIT" if is_sound else "ROLLBACK")
        self.lite.execute("PRAGMA foreign_keys = ON")
        return is_sound

    def alter(self) -> None:
        tables = copy.deepcopy(self.tables)
        name = self.random.choice("ttu")
        table, values, meant = tables[name], dict[str, str](), True
        column = self.random.choice([*table.types])
        kind = self.random.choice(("add",) * 4 + ("drop", "drop", "required", "default", "type"))
        if kind == "add":
            free = [one for one in POOL[name] if one not in table.constraints]
            if not free:
                return
            added = self.random.choice(free)
            rule = POOL[name][added]
            said = rule if self.random.random() < 0.5 else f"CONSTRAINT {added} {rule}"
            sql = f"ADD {said}"
            for target, key in TARGET.findall(rule):
                meant = tables[target].has_key(key)
            table.constraints[added] = rule
        elif kind == "drop":
            gone = self.random.choice([*POOL[name]])
            cascade = self.random.choice(("", " CASCADE"))
            sql = f"DROP CONSTRAINT {gone}{cascade}"
            rule = table.constraints.pop(gone, "")
            meant = bool(rule)
            if rule.startswith("PRIMARY"):
                table.required.add(rule.removesuffix(")")[-1] if name == "u" else "id")
            for other in tables.values():
                for one, text in [*other.constraints.items()]:
                    for target, key in TARGET.findall(text):
                        if target == name and not table.has_key(key):
                            meant &= bool(cascade)
                            del other.constraints[one]
                            self.seen["referred to"] += 1
        elif kind == "required":
            is_required = self.random.random() < 0.6
            sql = f"ALTER COLUMN {column} {'SET' if is_required else 'DROP'} NOT NULL"
            primary = any(c == f"PRIMARY KEY ({column})" for c in table.constraints.values())
            meant = is_required or not primary
            (table.required.add if is_required else table.required.discard)(column)
        elif kind == "default":
            value = self.random.choice(("1", "3"))
            sql = f"ALTER {column} DROP DEFAULT"
            table.defaults.pop(column, None)
            if self.random.random() < 0.6:
                text = table.types[column] == "TEXT"
                table.defaults[column] = f"'{value}'" if text else value
                sql = f"ALTER COLUMN {column} SET DEFAULT {table.defaults[column]}"
        else:
            table = tables["t"]
            name, column = "t", "x"
            if column in table.defaults:
                return
            to = self.random.choice(("INT", "TEXT", "BIGINT"))
            sql = f"ALTER x TYPE {to}"
            values["x"] = f"CAST(x AS {to})"
            if self.random.random() < 0.4:
                sql, values["x"] = f"{sql} USING LENGTH(x || s)", f"CAST(LENGTH(x || s) AS {to})"
                if table.types["x"] != "TEXT":
                    sql = sql.replace("x || s", "CAST(x AS TEXT) || s")
            table.types["x"] = to
        before = self.rows()
        taken = self.taken(f"ALTER TABLE {name} {sql}")
        right = meant and self.remade(tables, values)
        assert taken == right, (sql, taken, self.said, meant, before)
        if taken:
            self.tables = tables
        else:
            assert self.rows() == before
        self.seen[f"{kind} {taken}"] += 1

    def edit(self) -> None:
        name = self.random.choice("ttu")
        table = self.tables[name]

        def value(column: str) -> str:
            found = self.random.choice((*"0123456", "NULL"))
            return f"'{found}'" if table.types[column] == "TEXT" and found != "NULL" else found

        one, two = (self.random.choice([*table.types]) for _ in range(2))
        some = [one for one in table.types if self.random.random() < 0.85] or [one]
        insert = f"INSERT INTO {name} ({', '.join(some)}) VALUES ({', '.join(map(value, some))})"
        update = f"UPDATE {name} SET {one} = {value(one)} WHERE {two} = {value(two)}"
        sql = self.random.choice(
            (insert, insert, insert, update, f"DELETE FROM {name} WHERE {one} = 3")
        )
        sql = sql.replace("= 3", "= '3'") if table.types[one] == "TEXT" else sql
        taken = self.taken(sql)
        try:
            self.lite.execute(sql)
            right = True
        except sqlite3.IntegrityError:
            right = False
        assert taken == right, (sql, taken, self.said, [t.sql() for t in self.tables.values()])
        self.seen[f"{sql[:6]} {taken}"] += 1

    def rows(self) -> dict[str, list[str]]:
        return {
            name: sorted(map(repr, self.db.execute(f"SELECT * FROM {name}")))
            for name in (*COLUMNS, *VIEWS)
        }

    def run(self, steps: int) -> Counter[str]:
        for step in range(steps):
            (self.alter if self.random.random() < 0.4 else self.edit)()
            for name, rows in self.rows().items():
                right = sorted(map(repr, self.lite.execute(f"SELECT * FROM {name}")))
                assert rows == right, (name, self.last)
            if self.path != ":memory:" and step % 12 == 11:
                self.db.close()
                self.db = deltafix.sql.connect(self.path)
        self.db.engine.check_invariants()
        self.db.close()
        self.lite.close()
        return self.seen


def test_oracle_constraints_come_and_go_as_if_the_tables_were_made_so(tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(9):
        seen += _Script(seed, tmp_path / f"{seed}" if seed in {4, 7} else ":memory:").run(60)
    for kind in ("add", "drop", "required", "type"):
        assert seen[f"{kind} True"] > 3, seen
        assert seen[f"{kind} False"] > 1, seen
    assert seen["default True"] > 5
    assert seen["INSERT False"] > 20
    assert seen["referred to"] > 0
