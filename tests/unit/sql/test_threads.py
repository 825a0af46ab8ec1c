"""Threads and connections: one is a thread's at a time, and several are each on their own."""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import closing
from random import Random
from typing import Any

import pytest
from tests.support.threads import elsewhere

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


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_forked_child_has_the_rows_of_its_fork(tmp_path, is_kept) -> None:
    """Edits large enough for threads of the kernel are made before, behind and in the child."""
    where = tmp_path / "state" if is_kept else ":memory:"
    rng, held = Random(5), dict[int, str]()

    def edit(db: deltafix.sql.Connection) -> None:
        first = max(held, default=0) + 1
        rows = [(first + n, rng.choice("xyz")) for n in range(20_000)]
        db.execute("BEGIN; DELETE FROM t WHERE a % 3 = 0")
        db.insert("t", rows)
        db.execute("COMMIT")
        for key in [key for key in held if key % 3 == 0]:
            del held[key]
        held.update(rows)

    def is_right(db: deltafix.sql.Connection) -> bool:
        found = dict(db.execute("SELECT a, b FROM t").fetchall())
        return found == held and dict(db.execute("SELECT * FROM v").fetchall()) == Counter(
            held.values()
        )

    with closing(deltafix.sql.connect(where)) as db:
        db.execute(SCRIPT)
        for _ in range(3):
            edit(db)
            child = os.fork()
            if child == 0:
                wrong = 1
                try:
                    wrong = 2 * (not is_right(db))
                    if is_kept:
                        try:
                            edit(db)
                            wrong |= 4
                        except deltafix.sql.Error:
                            pass
                    else:
                        edit(db)
                        wrong |= 8 * (not is_right(db))
                finally:
                    os._exit(wrong)
            edit(db)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert is_right(db)
