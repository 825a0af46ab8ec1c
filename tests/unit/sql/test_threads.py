"""Threads and connections: one is a thread's at a time, and several are each on their own."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import pytest
from tests.threads import elsewhere

import deltafix.sql
from deltafix.errors import SqlOperationalError

SCRIPT = """
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
CREATE MATERIALIZED VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b;
"""


@pytest.mark.parametrize(
    "work",
    [
        lambda db: db.execute("INSERT INTO t VALUES (2, 'y')"),
        lambda db: db.execute("SELECT * FROM t").fetchall(),
        lambda db: db.executemany("INSERT INTO t VALUES (?, ?)", [(2, "y")]),
        lambda db: db.insert("t", [(2, "y")]),
        lambda db: db.replace("t", []),
        lambda db: db.why("SELECT * FROM v"),
        lambda db: db.begin(),
        lambda db: db.commit(),
        lambda db: db.rollback(),
        lambda db: db.compact(),
        lambda db: db.close(),
    ],
)
def test_a_statement_within_another_threads_is_refused(work) -> None:
    """It took a part in that one: rows that were acknowledged went with it, or were read half."""
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT)
        refused: list[Any] = []
        with db.subscribe("v", lambda _: refused.append(elsewhere(lambda: work(db)))):
            db.execute("INSERT INTO t VALUES (1, 'x')")
        assert [type(error) for error in refused] == [SqlOperationalError]
        assert "another thread is using this connection" in str(refused[0])
        assert db.execute("SELECT * FROM t").fetchall() == [(1, "x")]
        assert elsewhere(lambda: db.execute("SELECT * FROM v").fetchall()) == [("x", 1)]


def test_connections_in_threads_do_not_share_what_statements_say() -> None:
    """What is read and planned once is used by all: their values and rows are their own."""
    wrong: list[Any] = []
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        rng = Random(number)
        held: dict[int, str] = {}
        try:
            with deltafix.sql.connect() as db:
                barrier.wait()
                db.execute(SCRIPT)
                for _ in range(60):
                    key, text = rng.randrange(20), rng.choice("xyz") + str(number)
                    if key not in held:
                        db.execute("INSERT INTO t VALUES (?, ?)", (key, text))
                        held[key] = text
                    elif rng.random() < 0.5:
                        db.execute(f"UPDATE t SET b = '{text}' WHERE a = {key}")
                        held[key] = text
                    else:
                        db.execute("DELETE FROM t WHERE a = :key", {"key": key})
                        del held[key]
                    found = dict(db.execute("SELECT a, b FROM t WHERE a >= ?", (0,)).fetchall())
                    counts = dict(db.execute("SELECT * FROM v").fetchall())
                    texts = [*held.values()]
                    if (found, counts) != (held, {one: texts.count(one) for one in texts}):
                        wrong.append((number, found, counts, dict(held)))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
