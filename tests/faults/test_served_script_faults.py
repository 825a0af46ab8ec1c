"""A script of SQL run into a state folder as one transaction, killed at every step: all or nothing.

Invariant asserted after every kill: the folder has no table at all, and the script can be run into
it, or it has every table, view and row of the script, which DuckDB gives.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from tests.faults.killing import left_by_kills

import deltafix.sql
from deltafix.cli.scripts import run_script

pytestmark = pytest.mark.usefixtures("warm_kernel")

SCRIPT = """
CREATE TABLE k (n INTEGER PRIMARY KEY);
INSERT INTO k VALUES (1), (2), (3);
CREATE VIEW twice AS SELECT n, n * 2 AS m FROM k;
CREATE TABLE t (n INTEGER REFERENCES k (n), s VARCHAR);
INSERT INTO t SELECT m, 'even' FROM twice WHERE m < 4;
UPDATE t SET s = 'two' WHERE n = 2;
ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 7;
INSERT INTO t VALUES (3, 'x', 1);
CREATE VIEW total AS SELECT s, SUM(w) AS w FROM t GROUP BY s;
"""
NAMES = ("k", "twice", "t", "total")


def run(folder: Path) -> None:
    """What is killed."""
    with closing(deltafix.sql.connect(folder / "state")) as db:
        run_script(db, SCRIPT, "made.sql", whole=True)


def state_of(db) -> dict[str, Counter]:
    return {name: Counter(db.execute(f"SELECT * FROM {name}").fetchall()) for name in NAMES}


def wanted() -> dict[str, Counter]:
    with duckdb.connect() as duck:
        duck.execute(SCRIPT)
        return state_of(duck)


@pytest.mark.parametrize(("first", "mode"), [(0, "die"), (2, "tear"), (4, "late")])
def test_a_script_that_is_killed_is_in_its_folder_whole_or_not_at_all(tmp_path, first, mode):
    ends = Counter()
    played = tmp_path / "played"
    played.mkdir()
    for at, folder in left_by_kills(run, played, first, 5, mode).items():
        with closing(deltafix.sql.connect(folder / "state")) as db:
            is_made = bool(db.catalog.definitions)
            ends[is_made] += 1
            if not is_made:
                run_script(db, SCRIPT, "made.sql", whole=True)
            assert state_of(db) == wanted(), at
    assert ends[False] > 3
