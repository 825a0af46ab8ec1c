"""Two tables of PostgreSQL that are changed at random, and a pipeline that follows them.

Transactions insert, update, move keys, delete, truncate, roll back, use savepoints, and go on two
at a time. What the tables hold is noted with each commit, so that `check_epoch` can tell what each
relation must hold at its input's mark, and `check` what follows from all of it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import errors
from tests.judges.oracle import evaluate
from tests.support.pipelines import TEXT, Row, rows_of, shards_here, signed

import deltafix
from deltafix.engine.database import Database
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_deltas, read_view
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.sources.replication import position

LONG = "".join(Random("long").choices("abcdefghijklmnopqrstuvwxyz", k=3000))
TEAMS = ["a", "b", "", 'q"\n,', None, LONG + "1", LONG + "2"]

MEMBER = [
    # Of a long text that an update leaves as it is, the message says nothing.
    ("who text PRIMARY KEY, team text, note int", 'columns = ["who", "team"]\nkey = "who"'),
    ("who text, team text", 'duplicates = "count"'),
]
GRANT = [
    ("team text, doc int, PRIMARY KEY (team, doc)", 'key = ["team", "doc"]'),
    ("team text, doc numeric, PRIMARY KEY (team, doc)", ""),
    ("team text, doc text", 'duplicates = "count"'),
    ("team text, doc bigint, note float8", 'columns = ["team", "doc"]\nduplicates = "count"'),
]


class World:
    """Two tables of a database, changed at random; `history` is what they held from where on."""

    def __init__(self, uri: str, folder: Path, rng: Random, name: str) -> None:
        self.rng, self.folder, self.name = rng, folder, name
        self.db = psycopg.connect(uri, autocommit=True)
        self.other = psycopg.connect(uri, autocommit=True)
        self.eye = psycopg.connect(uri, autocommit=True)
        for db in (self.db, self.other):
            db.execute("SET lock_timeout = '20ms'")
        self.member, member = rng.choice(MEMBER)
        self.grant, grant = rng.choice(GRANT)
        self.keyed = "PRIMARY" in self.member
        self.make("member", self.member, full=not self.keyed)
        self.make("grant", self.grant, full="key" not in grant)
        self.db.execute(f'ALTER TABLE "{name}_member" ALTER team SET STORAGE EXTERNAL')
        self.busy = False
        self.history: list[tuple[int, dict[str, Counter[Row]]]] = [(-1, self.rows())]
        limit = rng.choice([1, 3, 10, 1000])
        self.whole = limit == 1000
        (folder / "access.dl").write_text(TEXT)
        self.toml = folder / "pipeline.toml"
        self.toml.write_text(
            f'[pipeline]\nprogram = "access.dl"\nstate = "state"\nrunner = "local"\n'
            f'rows_per_epoch = {limit}\nbad_rows = "quarantine"\n'
            f"[input.member]\n{self.section(uri, 'member')}\n{member}\n"
            f"[input.grant]\n{self.section(uri, 'grant')}\n{grant}\n"
            '[output.can]\npath = "out/can"\n[output.stands]\npath = "out/stands"\nmode = "delta"\n'
        )
        self.program = deltafix.Program.parse(TEXT)
        self.options: dict[str, Any] = {} if rng.random() < 0.7 else {"keep": shards_here}

    def open(self) -> Pipeline:
        """The pipeline, opened."""
        return Pipeline(read_config(self.toml), **self.options)

    def section(self, uri: str, table: str) -> str:
        return (
            f'source = "postgres"\ndsn = "{uri}"\ntable = "{self.name}_{table}"\n'
            f'slot = "{self.name}_{table}"\ntimeout = 5'
        )

    def make(self, table: str, columns: str, *, full: bool) -> None:
        self.db.execute(f'CREATE TABLE "{self.name}_{table}" ({columns})')
        if full:
            self.db.execute(f'ALTER TABLE "{self.name}_{table}" REPLICA IDENTITY FULL')

    def close(self) -> None:
        for db in (self.db, self.other):
            db.close()
        for name in ("member", "grant"):
            for _ in range(50):
                with suppress(errors.UndefinedObject):
                    try:
                        self.eye.execute(
                            "SELECT pg_drop_replication_slot(%s)", [f"{self.name}_{name}"]
                        )
                    except errors.ObjectInUse:
                        continue
                break
            self.eye.execute(f'DROP TABLE "{self.name}_{name}"')
        self.eye.close()

    # --- transactions ----------------------------------------------------------------------------

    def meanwhile(self) -> None:
        """Some transactions, of which one may be left open."""
        for _ in range(self.rng.randrange(1, 4)):
            self.transaction()

    def transaction(self) -> None:
        """A transaction of one connection; or a part of one of the other."""
        if self.rng.random() < 0.3:
            self.part_of_other()
            return
        self.db.execute("BEGIN")
        try:
            for _ in range(self.rng.randrange(1, 5)):
                if self.rng.random() < 0.2:
                    self.savepoint()
                else:
                    self.change(self.db)
        except errors.Error:
            self.db.execute("ROLLBACK")
            return
        self.end(self.db)

    def part_of_other(self) -> None:
        if not self.busy:
            self.other.execute("BEGIN")
            self.busy = True
        try:
            self.change(self.other)
        except errors.Error:
            self.other.execute("ROLLBACK")
            self.busy = False
            return
        if self.rng.random() < 0.4:
            self.settle()

    def settle(self) -> None:
        """End the transaction that is open."""
        if self.busy:
            self.busy = False
            self.end(self.other)

    def savepoint(self) -> None:
        self.db.execute("SAVEPOINT here")
        self.change(self.db)
        self.db.execute(self.rng.choice(["ROLLBACK TO here", "RELEASE here"]))

    def end(self, db: psycopg.Connection) -> None:
        if self.rng.random() < 0.2:
            db.execute("ROLLBACK")
            return
        (at,) = self.eye.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        db.execute("COMMIT")
        self.history.append((position(at), self.rows()))

    def change(self, db: psycopg.Connection) -> None:
        rng = self.rng
        if rng.random() < 0.04 and db is self.db:  # a copy would wait for one that is open
            tables = rng.choice([["member"], ["grant"], ["member", "grant"]])
            names = ", ".join(f'"{self.name}_{table}"' for table in tables)
            db.execute(f"TRUNCATE {names}")
        elif rng.random() < 0.6:
            self.change_member(db)
        else:
            self.change_grant(db)

    def change_member(self, db: psycopg.Connection) -> None:
        rng, table = self.rng, f'"{self.name}_member"'
        who, team, kind = rng.choice("abcdef"), rng.choice(TEAMS), rng.random()
        if kind < 0.4 and self.keyed:
            query = f"INSERT INTO {table} (who, team) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            db.execute(query, [who, team])
        elif kind < 0.4:
            db.execute(f"INSERT INTO {table} VALUES (%s, %s)", [who, team])
        elif kind < 0.55:
            db.execute(f"UPDATE {table} SET team = %s WHERE who = %s", [team, who])
        elif kind < 0.7 and self.keyed:
            db.execute(f"UPDATE {table} SET note = %s WHERE who = %s", [rng.randrange(9), who])
        elif kind < 0.85:
            query = f"UPDATE {table} SET who = %s WHERE who = %s"
            db.execute(query, [rng.choice("abcdefgh"), who])
        else:
            db.execute(f"DELETE FROM {table} WHERE who = %s", [who])

    def change_grant(self, db: psycopg.Connection) -> None:
        rng, table = self.rng, f'"{self.name}_grant"'
        docs: list[Any] = [0, 1, 2, 3]
        docs += [1.5] if "numeric" in self.grant else []
        docs += ["x", None] if "doc text" in self.grant else []
        team, doc, kind = rng.choice("abc"), rng.choice(docs), rng.random()
        if kind < 0.5:
            db.execute(
                f"INSERT INTO {table} (team, doc) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                [team, doc if "doc text" not in self.grant or doc is None else str(doc)],
            )
        elif kind < 0.7:
            values = [rng.choice("abc"), team]
            db.execute(f"UPDATE {table} SET team = %s WHERE team = %s", values)
        else:
            query = f"DELETE FROM {table} WHERE team = %s AND doc::text = %s"
            db.execute(query, [team, str(doc)])

    # --- what must hold --------------------------------------------------------------------------

    def rows(self) -> dict[str, Counter[Row]]:
        """What the tables hold that fits the relations."""
        query = f'SELECT who, team FROM "{self.name}_member"'
        member = [row for row in self.eye.execute(query) if None not in row]
        grant = []
        for team, doc in self.eye.execute(f'SELECT team, doc::text FROM "{self.name}_grant"'):
            if doc is not None and doc.isdigit():
                grant.append((team, int(doc)))
        return {"member": Counter(member), "grant": Counter(grant)}

    def held(self, at: int) -> dict[str, Counter[Row]]:
        """What they held at a position."""
        return [rows for since, rows in self.history if since < at][-1]

    def check_epoch(self, pipeline: Pipeline) -> bool:
        """Each relation is its table at its mark; whether all have one."""
        db = pipeline.maintainer.db
        marks = {name: db.marks.get(f"postgres/{name}") for name in ("member", "grant")}
        if any(mark is None or "until" in mark for mark in marks.values()):
            return False
        ats = {name: position(mark["at"]) for name, mark in marks.items()}
        for name, at in ats.items():
            # A table of which nothing is told has an older mark than the other.
            wanted = self.held(max(ats.values()) if self.whole else at)[name]
            assert set(db.rows(name)) == set(wanted), (name, ats)
            if f"{name}__times" in db.schemas:
                times = {row[:-1]: row[-1] for row in db.rows(f"{name}__times")}
                assert times == {row: many for row, many in wanted.items() if many > 1}
        return True

    def check(self, pipeline: Pipeline) -> None:
        """All is as the tables are now."""
        now = {name: set(rows) for name, rows in self.rows().items()}
        wanted = evaluate(self.program, now)
        db = pipeline.maintainer.db
        if isinstance(db, Database):
            db.check_invariants()
        assert {name: set(db.rows(name)) for name in wanted} == wanted
        for name in ("can", "stands"):
            folder, view = self.folder / "out" / name, set()
            for sign, row, _ in signed(read_deltas(folder)):
                assert (row in view) == (sign < 0)
                (view.remove if sign < 0 else view.add)(row)
            assert view == wanted[name]
            assert rows_of(read_view(folder)[1]) == view
