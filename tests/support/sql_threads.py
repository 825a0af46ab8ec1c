"""A connection of SQL that is served while several threads use it, and the judge of what they got.

A play: writers in threads hold the server's lock from BEGIN to the end, and insert, merge, delete,
read inside, make views and columns and drop them, commit or roll back; one thread posts edits, as
lines and as the page does; followers read a relation by pages, follow its changes, lose the
connection, and go on from the last token they were told. Of each committed epoch DuckDB, which is
told the same statements, says what the relations had.

Invariants: what a follower has made of its deltas is, at every token, what DuckDB had in that
epoch, and stays that until the epoch of the next token; what a statement reads inside a transaction
is what DuckDB reads in its own. Nothing waits for time; a seed decides what is tried, not how the
threads are woven.
"""

from __future__ import annotations

import http.client
import json
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import duckdb
from tests.judges.sql_judge import Bag, bag
from tests.servers.served import Door, events, running
from tests.support.threads import Failure, often_switched

import deltafix.sql
from deltafix.web.feed import Limits
from deltafix.web.server import Server

__all__ = ["SqlPlay"]

TABLES = (
    "CREATE TABLE t (a INTEGER{}, b TEXT, c INTEGER)",
    "CREATE TABLE u (a INTEGER, d DOUBLE)",
)
QUERIES = (
    "SELECT b, COUNT(*) AS n, SUM(c) AS s, MIN(c) AS least FROM t GROUP BY b",
    "SELECT t.a, t.b, u.d FROM t LEFT JOIN u ON u.a = t.c",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "SELECT a, MAX(d) AS most, AVG(d) AS mean FROM u GROUP BY a",
    "WITH RECURSIVE r (x, y) AS (SELECT a, c FROM t UNION "
    "SELECT r.x, t.c FROM r JOIN t ON t.a = r.y) SELECT x, y FROM r",
    "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM t",
    "SELECT d, a FROM u UNION ALL SELECT NULL, c FROM t",
)
VIEWS = 4
"""The first so many queries are views from the start; others come and go."""


@dataclass
class SqlPlay:
    """Writers, a poster and followers of one served connection.

    Args:
        seed: decides what each thread tries.
        commits: transactions of each writer.
        epochs: how many a server keeps of a relation; with few, followers begin anew.
        path: a folder for its state; None for memory.
    """

    seed: object
    writers: int = 2
    followers: int = 6
    commits: int = 40
    epochs: int = 1000
    path: Path | None = None
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def run(self) -> list[Failure]:
        """Play and judge."""
        self._held: dict[int, dict[str, Bag]] = {}
        self._told: list[tuple[str, list[tuple[int, Bag]]]] = []
        self._noted: list[tuple[str, list[Any]]] = []
        self._page = ""  # what the page was given, while it edits
        self._over = threading.Event()
        where = ":memory:" if self.path is None else str(self.path)
        with closing(deltafix.sql.connect(where)) as self._db, duckdb.connect() as self._duck:
            for table in TABLES:
                self._db.execute(table.format(" PRIMARY KEY"))
                self._duck.execute(table.format(""))
            for number, query in enumerate(QUERIES[:VIEWS]):
                self._both(f"CREATE {{}}VIEW v{number} AS {query}")
            limits = Limits(epochs=self.epochs, heartbeat=0.02)
            server = Server(self._db, port=0, writable=True, title="play", limits=limits)
            self._door, self._lock = Door(server), server.lock
            self._note()
            source = server._feed.source
            editing, source.editing = source.editing, lambda: self._editing(editing)
            works = [partial(self._write, number) for number in range(self.writers)]
            works += [self._post]
            others = [partial(self._follow, number) for number in range(self.followers)]
            with running(server), often_switched():
                threads = [
                    threading.Thread(target=self._guarded, args=(work,)) for work in works + others
                ]
                for thread in threads:
                    thread.start()
                for thread in threads[: len(works)]:
                    thread.join()
                self._over.set()
                server.stop()
                for thread in threads[len(works) :]:
                    thread.join()
            self._db.engine.check_invariants()
        if self.path is not None:
            with closing(deltafix.sql.connect(where)) as self._db:
                self._compare("open again", self._held[max(self._held)])
        self._judge()
        return self.failures

    def _fail(self, door: str, detail: str) -> None:
        self.failures.append(Failure(door, detail[:2000]))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # whatever ends a thread is a finding
            trace = reversed(traceback.extract_tb(error.__traceback__)[-6:])
            where = " < ".join(f"{one.name}:{one.lineno}" for one in trace)
            self._fail("a thread", f"{type(error).__name__}: {error} ({where})")

    # --- writers: the lock is held -------------------------------------------------------------

    def _both(self, sql: str, values: list[Any] | None = None) -> bool:
        """Run a statement here, and if it is taken, in DuckDB."""
        try:
            self._db.execute(sql.format("MATERIALIZED "), values or ())
        except (deltafix.sql.IntegrityError, deltafix.sql.ProgrammingError):
            self.counts["refused"] += 1
            return False
        self._duck.execute(sql.format(""), values)
        return True

    def _note(self) -> None:
        """What DuckDB has in the epoch that was just committed; it is what a SELECT shows."""
        names = self._db.catalog.relations
        held = {name: bag(self._duck.execute(f"SELECT * FROM {name}").fetchall()) for name in names}
        self._held[self._db.engine.epoch] = held
        self._compare("a commit", held)

    def _compare(self, door: str, held: dict[str, Bag]) -> None:
        for name, rows in held.items():
            found = bag(self._db.execute(f"SELECT * FROM {name}").fetchall())
            if found != rows:
                self._fail(door, f"{name}: {found - rows} too many, {rows - found} missing")

    def _write(self, number: int) -> None:
        rng = Random(f"writer {self.seed} {number}")
        for _ in range(self.commits):
            with self._lock:
                is_one = rng.random() < 0.3
                if not is_one:
                    self._both("BEGIN")
                for _ in range(1 if is_one else rng.randint(1, 5)):
                    self._both(self._statement(rng))
                    if not is_one and rng.random() < 0.3:
                        name = rng.choice([*self._db.catalog.relations])
                        query = f"SELECT * FROM {name}"
                        rows = bag(self._duck.execute(query).fetchall())
                        self._compare("within a transaction", {name: rows})
                if not is_one:
                    self._both(end := rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))
                    self.counts[end] += 1
                if rng.random() < 0.05:
                    self._db.compact()
                self._note()

    def _statement(self, rng: Random) -> str:
        """A definition, or an edit."""
        known = self._db.catalog.relations
        if rng.random() < 0.15:
            name = f"w{rng.randrange(3)}"
            if name in known:
                return f"DROP VIEW {name}"
            return f"CREATE {{}}VIEW {name} AS {rng.choice(QUERIES)}"
        if rng.random() < 0.08:
            is_wide = len(known["u"].columns) > 2
            column = "DROP COLUMN e" if is_wide else "ADD COLUMN e INTEGER DEFAULT 7"
            return f"ALTER TABLE u {column}"
        return self._edit(rng)

    def _edit(self, rng: Random) -> str:
        def one(of: str) -> str:
            small = str(rng.randrange(12))
            return rng.choice({
                "a": (small,), "b": ("'x'", "'y'", "'z'", "NULL"), "c": (small, small, "NULL"),
                "d": ("0.5", "1.5", "-2.0", "NULL"),
            }[of])  # fmt: skip

        def cells(of: str) -> str:
            return ", ".join(f"({', '.join(map(one, of))})" for _ in range(rng.randint(1, 3)))

        return rng.choice((
            f"INSERT INTO t VALUES {cells('abc')}", f"INSERT INTO t VALUES {cells('abc')}",
            f"INSERT INTO u (a, d) VALUES {cells('cd')}",
            f"DELETE FROM t WHERE c = {one('a')}", f"DELETE FROM u WHERE a < {one('a')}",
            f"UPDATE t SET b = {one('b')}, c = {one('c')} WHERE a = {one('a')}",
            f"UPDATE u SET d = d + 0.5 WHERE a = {one('a')}",
            "MERGE INTO t USING (SELECT a AS k, COUNT(*) AS n FROM u WHERE a IS NOT NULL "
            "GROUP BY a) AS s ON t.a = s.k WHEN MATCHED AND s.n > 1 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET c = s.n WHEN NOT MATCHED THEN INSERT (a, c) "
            "VALUES (s.k, s.n)",
            "INSERT INTO u (a, d) SELECT c, 0.5 FROM t", "TRUNCATE u",
        ))  # fmt: skip

    # --- edits by HTTP -------------------------------------------------------------------------

    @contextmanager
    def _editing(self, editing: Callable[[], Any]) -> Iterator[Any]:
        """The server's transaction, whose edits DuckDB is told when it is committed."""
        self._noted = []
        with editing() as tx:
            yield _Noting(tx, self._noted)
        if self._page:
            self._noted.append((self._page, []))
        for sql, values in self._noted:
            self._duck.execute(sql, values)
        self._note()
        self.counts["posted"] += 1

    def _post(self) -> None:
        rng = Random(f"poster {self.seed}")
        for _ in range(self.commits):
            if rng.random() < 0.3:
                self._page = self._edit(rng)
                body = json.dumps({"sign": "sql", "facts": self._page})
                status, _ = self._door("POST", "api/edit", body)
                self._page = ""
                self.counts[f"page {status}"] += 1
                continue
            edits = []
            for _ in range(rng.randint(1, 4)):
                row = {"a": rng.randrange(12)}
                verb = rng.choice(("insert", "insert", "update", "delete"))
                if verb != "delete":
                    row |= {"b": rng.choice("xyz"), "c": rng.choice((None, 1, 2))}
                edits.append({verb: "t", "row": row})
            if rng.random() < 0.3:
                edits = [{"insert": "u", "row": {"a": 5, "d": 0.5}}, edits[0]]
            status, said = self._door.edit(*edits)
            if status not in (200, 400):
                self._fail("edits", f"{edits}: {status}, {said}")
            self.counts[f"edits {status}"] += 1

    # --- followers -----------------------------------------------------------------------------

    def _follow(self, number: int) -> None:
        rng = Random(f"follower {self.seed} {number}")
        while not self._over.is_set():
            with suppress(OSError, http.client.HTTPException):  # the server has ended
                self._follow_one(rng)

    def _follow_one(self, rng: Random) -> None:
        """One relation, over connections that are lost, until its place is gone."""
        _, found = self._door("GET", "live/relations")
        name = rng.choice([one["name"] for one in found["relations"]])
        read = self._pages(rng, name)
        if read is None:
            return
        rows, place = read
        seen: list[tuple[int, Bag]] = [(_epoch(place), _bag(rows))]
        self._told.append((name, seen))
        while not self._over.is_set():
            line, answer = self._door.open(
                "GET", f"live/changes/{name}", headers={"Last-Event-ID": place}
            )
            stream = events(answer)
            try:
                if answer.status == 404:  # dropped meanwhile
                    return
                heard = False
                for kind, at, told in islice(stream, rng.randint(1, 12)):
                    heard = True
                    if kind == "gone":
                        self.counts["gone"] += 1
                        return
                    place = at
                    if kind == "delta":
                        state = Counter(seen[-1][1])
                        state.update(_bag(told["added"]))
                        state.subtract(_bag(told["removed"]))
                        seen.append((_epoch(place), state))
                        self.counts["deltas"] += 1
                if not (heard or self._over.is_set()):
                    self._fail("a stream", f"{name} after {place}: it ended, and told nothing")
            finally:
                line.close()
                answer.close()
            self.counts["resumed"] += 1
            if rng.random() < 0.4:
                return

    def _pages(self, rng: Random, name: str) -> tuple[list[Any], str] | None:
        """All rows by pages, as of one epoch, and its token; None where it is gone."""
        rows, after, limit = [], "", rng.choice((3, 1000))
        while True:
            status, page = self._door("GET", f"live/rows/{name}?limit={limit}{after}")
            if status != 200:
                if status not in (404, 410):
                    self._fail("rows", f"{name}: {status}, {page}")
                return None
            rows += page["rows"]
            if page["next"] is None:
                self.counts["read"] += 1
                return rows, page["id"]
            after = f"&after={page['next']}"

    # --- the judge -----------------------------------------------------------------------------

    def _judge(self) -> None:
        epochs = sorted(self._held)
        for name, seen in self._told:
            for place, (epoch, state) in enumerate(seen):
                last = place + 1 == len(seen)
                before = [one for one in epochs if one <= epoch][-1:]
                until = [] if last else [one for one in epochs if epoch < one < seen[place + 1][0]]
                for one in (*before, *until):
                    right = self._held[one].get(name)
                    self.counts["judged"] += 1
                    if right is None or +state != right or min(state.values(), default=1) < 0:
                        detail = f"{name} at {epoch}, as of {one}: {+state}; right: {right}"
                        self._fail("a follower", detail)


class _Noting:
    """Edits of a request, noted as statements."""

    def __init__(self, tx: Any, noted: list[tuple[str, list[Any]]]) -> None:
        self._tx, self._noted = tx, noted

    def insert(self, name: str, row: dict[str, Any]) -> int:
        done: int = self._tx.insert(name, row)
        sql = f"INSERT INTO {name} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        self._noted.append((sql, [*row.values()]))
        return done

    def update(self, name: str, row: dict[str, Any]) -> int:
        done: int = self._tx.update(name, row)
        sql = f"UPDATE {name} SET b = ?, c = ? WHERE a = ?"
        self._noted.append((sql, [row[one] for one in "bca"]))
        return done

    def delete(self, name: str, row: dict[str, Any]) -> int:
        done: int = self._tx.delete(name, row)
        self._noted.append((f"DELETE FROM {name} WHERE a = ?", [row["a"]]))
        return done


def _epoch(place: str) -> int:
    return int(place.rpartition(".")[2])


def _bag(rows: list[dict[str, Any]]) -> Bag:
    return bag(row.values() for row in rows)
