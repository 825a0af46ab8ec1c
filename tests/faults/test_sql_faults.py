"""A state folder of SQL, killed at every step: what is committed is there, what is not is gone.

The script is a list of texts, each one transaction or one definition, some of which read or define
inside an open transaction, so that its steps are in the log before it commits; one is aborted by
the error of a view. DuckDB says what each of them leaves. Invariant asserted after every kill: the
tables, views and rows are those behind the last acknowledged text or the one at work, and the rest
of the script goes on from there.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path

import duckdb
import pytest
from tests.faults.killing import left_by_kills
from tests.support.amount import every

import deltafix.sql

pytestmark = pytest.mark.usefixtures("warm_kernel")

VIEW = "CREATE {} VIEW total AS SELECT b, COUNT(*) AS n, SUM(a) AS s FROM bag GROUP BY b"
SCRIPT = (
    "CREATE TABLE bag (a INTEGER, b VARCHAR)",
    "CREATE TABLE item (k INTEGER PRIMARY KEY, v DOUBLE DEFAULT 0.5, CHECK (k < 100))",
    "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (NULL, 'y'), (3, NULL)",
    VIEW,
    "CREATE {} VIEW square AS SELECT a * a AS q FROM bag",
    "BEGIN; INSERT INTO item VALUES (1, 2.5), (2, NULL); INSERT INTO item (k) SELECT a FROM bag "
    "WHERE a = 3; UPDATE item SET v = v + 1 WHERE k IN (SELECT k FROM item WHERE k < 3); COMMIT",
    "CREATE {} VIEW both_ AS SELECT total.b, item.v FROM total JOIN item ON item.k = total.n",
    "BEGIN; DELETE FROM bag WHERE a = 1; INSERT INTO bag SELECT n, b FROM total; "
    "UPDATE bag SET a = 7 WHERE b IN (SELECT b FROM total); ROLLBACK",
    "BEGIN; INSERT INTO bag VALUES (8, 'p'); INSERT INTO bag SELECT n, b FROM total; "
    "CREATE {} VIEW extra AS SELECT k FROM item; INSERT INTO bag VALUES (65536, 'q'); "
    "SELECT * FROM square; COMMIT",
    "BEGIN; INSERT INTO bag VALUES (4, 'z'); INSERT INTO bag SELECT n, b FROM total; COMMIT",
    "BEGIN; INSERT INTO bag VALUES (5, 'd'); DROP VIEW both_; DROP TABLE item; "
    "CREATE TABLE item (w VARCHAR); INSERT INTO item SELECT b FROM total; "
    "CREATE {} VIEW both_ AS SELECT w FROM item; ALTER TABLE bag ADD COLUMN c INTEGER DEFAULT 2; "
    "INSERT INTO bag VALUES (6, 'e', 3); SELECT * FROM total; ROLLBACK",
    "BEGIN; INSERT INTO bag VALUES (5, 'd'); DROP VIEW both_; CREATE TABLE extra (x BIGINT); "
    "INSERT INTO extra SELECT n FROM total; ALTER TABLE item ADD COLUMN c INTEGER DEFAULT 2; "
    "CREATE {} VIEW both_ AS SELECT c, x FROM item JOIN extra ON k = x; COMMIT",
    "DROP VIEW both_",
    "DROP TABLE item",
    "CREATE TABLE item (w VARCHAR UNIQUE)",
    "INSERT INTO item SELECT b FROM total",
)
NAMES = ("bag", "item", "total", "both_", "extra", "square")
EVERY = every(9, fuzz=3)  # steps from one kill to the next of its mode


def state_of(db) -> dict[str, Counter]:
    """The rows of all there is."""
    found = {}
    for name in NAMES:
        try:
            found[name] = Counter(db.execute(f"SELECT * FROM {name}").fetchall())
        except (duckdb.CatalogException, deltafix.sql.ProgrammingError):
            continue
    return found


def execute(db, text: str) -> None:
    """Run a text; one that a view's error aborts is rolled back."""
    try:
        db.execute(text)
    except (duckdb.OutOfRangeException, deltafix.sql.DataError):
        db.execute("ROLLBACK")


@cache
def wanted() -> list[dict[str, Counter]]:
    """What DuckDB has before the script and after each text."""
    with duckdb.connect() as duck:
        found = [state_of(duck)]
        for text in SCRIPT:
            execute(duck, text.format(""))
            found.append(state_of(duck))
    return found


def play(db: deltafix.sql.Connection, first: int, acknowledge) -> None:
    for number, text in enumerate(SCRIPT[first:], first):
        execute(db, text.format("MATERIALIZED"))
        acknowledge(number + 1)


def run(folder: Path) -> None:
    """What is killed: the script, and how much of it was acknowledged."""
    with closing(deltafix.sql.connect(folder / "state")) as db:
        play(db, 0, lambda number: (folder / "told").write_text(str(number)))


def test_reopened_between_any_two_texts_everything_is_there(tmp_path):
    for number, text in enumerate(SCRIPT):
        with closing(deltafix.sql.connect(tmp_path / "state")) as db:
            assert state_of(db) == wanted()[number]
            execute(db, text.format("MATERIALIZED"))
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert state_of(db) == wanted()[-1]
        with pytest.raises(deltafix.sql.IntegrityError):
            db.execute("INSERT INTO item VALUES ('x')")


@pytest.mark.parametrize(("first", "mode"), [(0, "die"), (4, "tear"), (8, "late")])
def test_a_kill_at_any_step_loses_nothing_committed_and_keeps_nothing_else(tmp_path, first, mode):
    inside = 0
    played = tmp_path / "played"
    played.mkdir()
    for at, folder in left_by_kills(run, played, first, EVERY, mode).items():
        told = folder / "told"
        acknowledged = int(told.read_text()) if told.exists() else 0
        inside += _left_open(folder / "state")
        with closing(deltafix.sql.connect(folder / "state")) as db:
            found = state_of(db)
            ends = (acknowledged + 1, acknowledged)
            there = [n for n in ends if wanted()[n : n + 1] == [found]]
            assert there, (at, acknowledged, found)
            if at % 2:
                play(db, there[0], lambda number: None)
                assert state_of(db) == wanted()[-1]
    assert at > 30
    assert inside  # some ended inside a transaction whose epochs were in the log


def _left_open(state: Path) -> bool:
    log = state / "log"
    return log.exists() and b"sql undo" in log.read_bytes()


def test_what_was_open_at_the_end_of_a_process_is_taken_back(tmp_path):
    pid = os.fork()
    if pid == 0:
        db = deltafix.sql.connect(tmp_path / "state")
        play(db, 0, lambda number: None)
        db.execute("BEGIN; INSERT INTO bag VALUES (9, 'q'); DELETE FROM bag WHERE b = 'z'")
        db.execute("SELECT * FROM total")
        os._exit(0)
    os.waitpid(pid, 0)
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert state_of(db) == wanted()[-1]
        assert not [name for name in db.engine.marks if name.startswith("sql undo")]


def test_a_definition_with_parameters_is_refused_in_a_folder(tmp_path):
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        db.execute(SCRIPT[0])
        with pytest.raises(deltafix.sql.NotSupportedError, match="parameters"):
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM bag WHERE a = ?", [1])
