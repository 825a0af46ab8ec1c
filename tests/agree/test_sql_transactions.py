"""Random transactions of definitions and edits, committed or rolled back, as DuckDB has them.

DuckDB runs the statements one by one, and for a ROLLBACK again all that was committed, since it
takes not every mixture in one transaction. Some views cannot be computed of some rows, which DuckDB
says when it is asked for them. Sees: a definition that ROLLBACK, an error, an interrupt or the end
of a process leaves half of, rows that do not come back with their table, a transaction that is
aborted where every view can be computed, or goes on where one cannot, or of which a part is
committed, and a subscriber who is told something else at COMMIT than the difference between before
and after.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import duckdb
import pytest
from tests.judges.sql_judge import Bag, bag
from tests.support.amount import some
from tests.support.interrupt import Interrupt

import deltafix.sql
from deltafix.errors import SqlAbortedError

QUERIES = (
    *("SELECT {a} AS p FROM {t}", "SELECT {a} AS p, COUNT(*) AS n FROM {t} GROUP BY {a}"),
    *("SELECT ABS({a}) AS p FROM {t}", "SELECT COALESCE({b}, {a}, 7) AS p FROM {t}"),
    "SELECT DISTINCT {b} AS p FROM {t}",
    "SELECT {a} AS p, {b} AS q FROM {t} WHERE {a} IS NOT NULL",
    "SELECT x.{a} AS p, y.{c} AS q FROM {t} AS x JOIN {u} AS y ON x.{a} = y.{c}",
    "SELECT {a} AS p FROM {t} WHERE NOT EXISTS (SELECT 1 FROM {u} WHERE {u}.{c} IS NULL)",
    "SELECT {a} AS p FROM {t} UNION ALL SELECT {c} FROM {u}",
    "SELECT {a} + 2147483643 - 2147483640 AS p FROM {t}",
    "SELECT CAST({a} * 7000 AS SMALLINT) AS p FROM {t}",
)


class _Script:
    """Statements for deltafix and DuckDB; every column is an INTEGER, or becomes a BIGINT."""

    def __init__(self, seed: int, path: str | Path) -> None:
        self.random, self.path = Random(f"transactions {seed}"), path
        self.seen = Counter[str]()
        self.db = deltafix.sql.connect(path)
        self.duck = duckdb.connect(config={"threads": 1})
        self.history: list[str] = []
        self.since: list[str] = []
        self.count = 0
        self.copies: list[str | Path] = []  # of the folder, within the transaction
        self.told: dict[str, deltafix.sql.Subscription] = {}
        self.called: dict[str, str] = {}  # what was there at BEGIN, by what it is called now
        for name in ("a", "b"):
            self.run(f"CREATE TABLE {name} ({name}1 INTEGER PRIMARY KEY, {name}2 INTEGER)")
        self.run("CREATE TABLE c (c1 INTEGER, c2 INTEGER)")
        self.run("CREATE VIEW v AS SELECT c1 + 2147483643 - 2147483640 AS p FROM c")
        self.commit()

    # --- what there is ---------------------------------------------------------------------------

    def columns(self, name: str) -> list[str]:
        return [one.name for one in self.db.catalog.relations[name].columns]

    def rows(self) -> dict[str, Bag]:
        found = {}
        for name in self.db.catalog.relations:
            found[name] = bag(self.db.execute(f"SELECT * FROM {name}").fetchall())
            listed = ", ".join(self.columns(name))
            wanted = bag(self.duck.execute(f"SELECT {listed} FROM {name}").fetchall())
            assert found[name] == wanted, (name, self.since)
        shown = "SELECT table_name FROM information_schema.tables"
        assert {name for (name,) in self.duck.execute(shown).fetchall()} == {*found}
        return found

    # --- statements ------------------------------------------------------------------------------

    def run(self, sql: str) -> None:
        """A statement that deltafix takes is run by DuckDB; one that it refuses changes nothing."""
        kind = " ".join(sql.split()[:2])
        interrupt = Interrupt(self.random.randrange(4000), "sql")
        interrupts = self.db.in_transaction and self.random.random() < 0.06
        try:
            if interrupts:
                with interrupt:
                    self.db.execute(sql)
            else:
                self.db.execute(sql)
        except deltafix.sql.DatabaseError:
            if self.db.aborted is not None:
                self.aborted(kind)
            else:
                self.seen[f"{kind} refused"] += 1
            return
        except KeyboardInterrupt:
            self.seen["interrupted"] += 1
            if self.db.aborted is not None:
                self.ends()
            elif self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self.back()
            return
        self.seen[kind] += 1
        words = sql.split()
        if words[0] == "DROP":
            self.called.pop(words[2], None)
        elif words[3:5] == ["RENAME", "TO"]:
            self.seen[f"renamed {words[2] in self.called}"] += 1
            if words[2] in self.called:
                self.called[words[5]] = self.called.pop(words[2])
        self.since.append(sql)
        self.duck.execute(sql.replace(" CASCADE", ""))

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def edit(self) -> None:
        name = self.random.choice([*self.db.catalog.tables])
        columns = self.columns(name)
        one, two = self.random.choice(columns), self.random.choice(columns)
        first, second = self.random.randrange(8), self.random.randrange(4)
        values = ", ".join(str(self.random.choice((0, 1, 2, 3, 4, 5, "NULL"))) for _ in columns[1:])
        views = [v for v in self.db.catalog.relations if len(self.columns(v)) == len(columns)]
        other = self.random.choice(views)
        listed = ", ".join((str(first), values)[: len(columns)])
        merge = f"MERGE INTO {name} USING (SELECT {first} AS x) AS s ON {name}.{two} = s.x"
        found = (f"UPDATE SET {one} = {second}", "DELETE", "DO NOTHING")
        upserts = ()
        if self.db.catalog.tables[name].keys:
            change = f"UPDATE SET {columns[-1]} = excluded.{columns[-1]}"
            upserts = (
                f"INSERT INTO {name} VALUES ({listed}) ON CONFLICT DO NOTHING",
                f"INSERT INTO {name} VALUES ({listed}) ON CONFLICT ({columns[0]}) DO {change}",
            )
        self.run(self.random.choice((
            *[f"INSERT INTO {name} VALUES ({listed})"] * 4,
            *upserts,
            f"{merge} WHEN MATCHED THEN {self.random.choice(found)} "
            f"WHEN NOT MATCHED THEN INSERT VALUES ({listed})",
            f"INSERT INTO {name} SELECT * FROM {other}",
            f"UPDATE {name} SET {one} = {second} WHERE {two} = {first}",
            f"DELETE FROM {name} WHERE {one} = {second}",
        )))  # fmt: skip

    def query(self) -> str:
        t, u = (self.random.choice([*self.db.catalog.relations]) for _ in "tu")
        a, b = (self.random.choice(self.columns(t)) for _ in "ab")
        c = self.random.choice(self.columns(u))
        return self.random.choice(QUERIES).format(t=t, u=u, a=a, b=b, c=c)

    def define(self) -> None:
        tables, views = [*self.db.catalog.tables], [*self.db.catalog.views]
        kinds = ("table", "view", "view", "replace", "replace", "again", "drop", *["alter"] * 4)
        kind = self.random.choice(kinds)
        table, fresh = self.random.choice(tables), self.name()
        if kind == "table":
            key = self.random.choice(("", " PRIMARY KEY"))
            self.run(f"CREATE TABLE {fresh} ({fresh}1 INTEGER{key}, {fresh}2 INTEGER)")
        elif kind == "view" or not views:
            self.run(f"CREATE VIEW {fresh} AS {self.query()}")
        elif kind == "replace":
            self.run(f"CREATE OR REPLACE VIEW {self.random.choice(views)} AS {self.query()}")
        elif kind == "again":
            name = self.random.choice(views)
            self.run(f"DROP VIEW {name}")
            if name not in self.db.catalog.views and self.db.in_transaction:
                self.run(f"CREATE VIEW {name} AS {self.query()}")
        elif kind == "drop":
            name = self.random.choice([*tables[1:], *views])
            self.run(f"DROP {'VIEW' if name in views else 'TABLE'} {name}")
        else:
            self.alter(table, fresh)

    def alter(self, table: str, fresh: str) -> None:
        column = self.random.choice(self.columns(table))
        read = {one for view in self.db.catalog.views.values() for one in view.reads}
        renames = ()
        if table not in read:  # DuckDB's views do not follow
            renames = (f"RENAME TO {fresh}", f"RENAME COLUMN {column} TO {fresh}")
            if self.random.random() < 0.6:
                self.run(f"ALTER TABLE {table} RENAME TO {fresh}")
                return
        how = self.random.choice((
            *(f"ADD COLUMN {fresh} INTEGER", f"ADD COLUMN {fresh} INTEGER DEFAULT 2"),
            *(f"DROP COLUMN {column}", f"ALTER COLUMN {column} TYPE BIGINT", *renames),
            *(f"ALTER COLUMN {column} SET NOT NULL", f"ALTER COLUMN {column} DROP NOT NULL"),
        ))  # fmt: skip
        table_keys = self.db.catalog.tables[table].keys
        keys = {position for key in table_keys for position in key.positions}
        if how.split()[0] in ("ADD", "RENAME") or self.columns(table).index(column) not in keys:
            self.run(f"ALTER TABLE {table} {how}")

    # --- transactions ----------------------------------------------------------------------------

    def is_broken(self) -> bool:
        """Whether some view cannot be computed."""
        shown = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        for (name,) in self.duck.execute(shown).fetchall():
            try:
                self.duck.execute(f"SELECT * FROM {name}").fetchall()
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                return True
        return False

    def aborted(self, by: str) -> None:
        """It is undone, refuses everything, and nothing of it is ever committed."""
        assert self.is_broken(), self.since
        self.seen[f"{by} aborts"] += 1
        self.ends()
        self.back()

    def ends(self) -> None:
        """A transaction that is aborted, by an error or an interrupt."""
        db, name, said = self.db, self.random.choice("abc"), "by an error: "
        self.seen["aborted"] += 1
        for _ in range(3):
            refused = self.random.choice((
                *("BEGIN", "SELECT 1", f"SELECT * FROM {name}", "EXPLAIN SELECT 1"),
                f"INSERT INTO {name} VALUES (99, 0)",
                *(f"CREATE TABLE new{name} (a INTEGER)", f"DROP TABLE {name}"),
                *(f"DELETE FROM {name}", f"ALTER TABLE {name} RENAME TO new", f"TRUNCATE {name}"),
            ))  # fmt: skip
            with pytest.raises(SqlAbortedError, match=said):
                db.execute(refused)
            with pytest.raises(SqlAbortedError, match=said):
                self.random.choice((
                    *(db.begin, db.compact, lambda: db.insert(name, [(99, 0)])),
                    lambda: db.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(99, 0)]),
                    *(lambda: db.replace(name, []), lambda: db.why(f"SELECT * FROM {name}")),
                ))()  # fmt: skip
            assert db.in_transaction
        if self.path != ":memory:":
            self.copied()
        how = self.random.choice(("ROLLBACK", "COMMIT", db.rollback, db.commit, db.__exit__))
        try:
            with Interrupt(self.random.choice((10**9, self.random.randrange(60))), "sql"):
                if isinstance(how, str):
                    db.execute(how)
                else:
                    how(*((ValueError,) if how == db.__exit__ else ()))
            assert how not in ("COMMIT", db.commit)
        except SqlAbortedError as error:
            assert "nothing was committed" in str(error)
            assert how in ("COMMIT", db.commit)
        except KeyboardInterrupt:
            assert (db.aborted is not None) is db.in_transaction
            db.rollback()
        assert not db.in_transaction
        assert db.aborted is None

    def copied(self) -> None:
        """What a process that ends here leaves in its folder."""
        self.copies.append(shutil.copytree(self.path, f"{self.path} {self.seen['copied']}"))
        self.seen["copied"] += 1

    def back(self) -> None:
        """DuckDB is what it was at BEGIN."""
        self.called = {name: name for name in self.told}
        self.since.clear()
        self.duck.close()
        self.duck = duckdb.connect(config={"threads": 1})
        for sql in self.history:
            self.duck.execute(sql.replace(" CASCADE", ""))

    def commit(self) -> None:
        self.history += self.since
        self.since.clear()

    def transaction(self) -> None:
        before = self.rows()
        self.told = {name: self.db.subscribe(name) for name in before}
        self.called = {name: name for name in before}
        heard = list[deltafix.sql.ViewDelta]()
        close = self.db.watch(heard.extend)
        self.db.execute("BEGIN")
        for _ in range(self.random.randrange(2, 9)):
            if not self.db.in_transaction:
                break
            (self.define if self.random.random() < 0.5 else self.edit)()
            if self.random.random() < 0.3 and self.db.in_transaction:
                try:
                    self.rows()
                except deltafix.sql.DataError:
                    self.aborted("SELECT")
        assert not heard
        if self.path != ":memory:":
            self.copied()
        commits = self.db.commits
        if not self.db.in_transaction:
            pass
        elif self.random.random() < 0.5:
            try:
                self.db.execute("COMMIT")
                self.seen["committed"] += 1
                self.commit()
            except deltafix.sql.DataError:
                self.seen["COMMIT refused"] += 1
                assert self.is_broken()
                assert not self.db.in_transaction
                self.back()
        else:
            self.db.execute("ROLLBACK")
            self.seen["rolled back"] += 1
            self.back()
        after = self.rows()
        if self.db.commits == commits:
            assert after == before
        by = {one.view: one for one in heard}
        if self.db.commits > commits:
            there = before.keys() & after.keys()  # a view that went and came again is there, too
            self.called = {**{name: name for name in there}, **self.called}
        for name, old in self.called.items():
            deltas = [*self.told[old]]
            assert self.told[old].view == name
            assert len(deltas) == (before[old] != after[name]), (name, deltas)
            for one in (*deltas, *([by[name]] if name in by else ())):
                change = bag(one.added), bag(one.removed)
                assert change == (after[name] - before[old], before[old] - after[name])
                assert one.view == name
                self.seen["told"] += 1
                self.seen["followed"] += name != old
        made = (after.keys() - before.keys()) & {*self.db.catalog.tables}
        for name in made if self.db.commits > commits else ():
            if self.columns(name)[0] == f"{name}1":  # never called otherwise
                assert after[name] == bag(by[name].added if name in by else ())
                self.seen["made"] += 1
        self.db.engine.check_invariants()
        close()
        for copy in self.copies:
            with closing(deltafix.sql.connect(copy)) as other:
                found = {
                    name: bag(other.execute(f"SELECT * FROM {name}").fetchall())
                    for name in other.catalog.relations
                }
                assert found == before
                other.engine.check_invariants()
            self.seen["ended"] += 1
        self.copies.clear()

    def all(self, count: int) -> Counter[str]:
        for number in range(count):
            if self.random.random() < 0.2:
                self.edit()
                self.commit()
            self.transaction()
            if self.path != ":memory:" and number % 3 == 2:
                self.db.close()
                self.db = deltafix.sql.connect(self.path)
        self.db.close()
        self.duck.close()
        return self.seen


@pytest.mark.parametrize("group", range(some(2)))
def test_oracle_definitions_and_edits_of_a_transaction_are_there_or_not(
    group: int, tmp_path: Path
) -> None:
    seen = Counter[str]()
    for seed in range(group * 10, group * 10 + 10):
        seen += _Script(seed, tmp_path / f"{seed}" if seed % 2 else ":memory:").all(10)
    kinds = ("CREATE TABLE", "CREATE VIEW", "CREATE OR", "ALTER TABLE", "INSERT INTO", "MERGE INTO")
    for kind in (*kinds, "told"):
        assert seen[kind] > 1, (kind, seen)
    for kind in ("committed", "rolled back", "ended", "DROP VIEW", "made", "followed", "aborted"):
        assert seen[kind], (kind, seen)
    assert seen["COMMIT refused"] + seen["SELECT aborts"] + seen["CREATE VIEW aborts"], seen


def test_a_subscription_goes_on_under_the_new_name_of_its_table() -> None:
    """Before the engine is asked for anything, and behind an error of another one's callback."""

    def fails(_: object) -> None:
        raise RuntimeError("a callback's own")

    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        told = db.subscribe("t")
        db.execute("ALTER TABLE t RENAME TO u; CREATE TABLE t (b TEXT); INSERT INTO t VALUES ('q')")
        db.execute("INSERT INTO u VALUES (1)")
        assert [(one.view, one.added) for one in told] == [("u", [(1,)])]
        told.close()
        broken = db.subscribe("u", fails)
        told = db.subscribe("u")
        with pytest.raises(RuntimeError):
            db.execute("INSERT INTO u VALUES (2)")
        broken.close()
        db.execute("ALTER TABLE u RENAME TO w")
        db.execute("INSERT INTO w VALUES (3)")
        assert [(one.view, one.added) for one in told] == [("u", [(2,)]), ("w", [(3,)])]
