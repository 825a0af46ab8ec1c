"""TRUNCATE: PostgreSQL's meaning, under views, foreign keys, transactions and state folders.

Random ones are in `tests/agree/test_sql_oracle.py`, against SQLite and DuckDB.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import deltafix.sql

MADE = """
CREATE TABLE a (k INTEGER PRIMARY KEY, up INTEGER REFERENCES a);
CREATE TABLE b (k INTEGER PRIMARY KEY, a INTEGER REFERENCES a ON DELETE SET NULL);
CREATE TABLE c (b INTEGER NOT NULL REFERENCES b ON DELETE CASCADE);
CREATE TABLE d (x INTEGER);
CREATE VIEW v AS SELECT a.k, COUNT(*) AS n FROM a JOIN b ON b.a = a.k GROUP BY a.k;
INSERT INTO a VALUES (1, NULL), (2, 1);
INSERT INTO b VALUES (10, 1), (20, 1), (30, 2);
INSERT INTO c VALUES (10), (10), (20);
INSERT INTO d VALUES (1), (1), (NULL);
"""


def _counts(db: deltafix.sql.Connection) -> list[int]:
    return [db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in "abcdv"]


def test_all_rows_go_and_the_views_follow() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        told = db.subscribe("v")
        assert db.execute("TRUNCATE c, d").rowcount == 6
        assert _counts(db) == [2, 3, 0, 0, 2]
        assert [*told] == []
        assert db.execute("TRUNCATE TABLE b, c RESTRICT").rowcount == 3
        assert [(one.removed, one.added) for one in told] == [([(1, 2), (2, 1)], [])]
        assert db.execute("TRUNCATE a, b, a, c").rowcount == 2
        assert _counts(db) == [0, 0, 0, 0, 0]


def test_cascade_empties_what_refers_and_on_delete_does_not_act() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        assert db.execute("TRUNCATE a CASCADE").rowcount == 8
        assert _counts(db) == [0, 0, 0, 3, 0]
        db.execute("INSERT INTO a VALUES (1, 1); INSERT INTO d VALUES (7)")
        assert _counts(db) == [1, 0, 0, 4, 0]


def test_a_table_that_another_refers_to_is_not_emptied_alone_though_there_are_no_rows() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        with pytest.raises(deltafix.sql.ProgrammingError) as caught:
            db.execute("TRUNCATE d, a")
        text = str(caught.value)
        assert "<sql>:1:13" in text
        assert "b refers to a" in text
        assert "write TRUNCATE d, a, b, or CASCADE" in text
        assert _counts(db) == [2, 3, 3, 3, 2]
        db.execute("DELETE FROM c; DELETE FROM b")
        with pytest.raises(deltafix.sql.ProgrammingError, match="b refers to a"):
            db.execute("TRUNCATE a RESTRICT")
        with pytest.raises(deltafix.sql.ProgrammingError, match="v is a view"):
            db.execute("TRUNCATE v")
        assert _counts(db) == [2, 0, 0, 3, 0]


@pytest.mark.parametrize("folder", [True, False])
def test_a_transaction_takes_it_back(folder: bool, tmp_path: Path) -> None:
    path = tmp_path / "state" if folder else ":memory:"
    with closing(deltafix.sql.connect(path)) as db:
        db.execute(MADE)
        db.execute("BEGIN; INSERT INTO d VALUES (9); TRUNCATE a CASCADE; TRUNCATE d")
        db.execute("INSERT INTO a VALUES (5, 5)")
        assert _counts(db) == [1, 0, 0, 0, 0]
        with pytest.raises(deltafix.sql.IntegrityError):
            db.execute("INSERT INTO b VALUES (1, 1)")
        assert _counts(db) == [1, 0, 0, 0, 0]
        db.execute("ROLLBACK")
        assert _counts(db) == [2, 3, 3, 3, 2]
        db.execute("BEGIN; TRUNCATE a CASCADE; INSERT INTO a VALUES (5, 5); COMMIT")
        assert [*db.execute("SELECT * FROM a")] == [(5, 5)]
        db.engine.check_invariants()
    if folder:
        with closing(deltafix.sql.connect(path)) as db:
            assert _counts(db) == [1, 0, 0, 3, 0]


def test_an_interrupt_inside_of_it_rolls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        add, calls = db._pending.add_coded, [0]

        def broken(*given: object) -> None:
            calls[0] += 1
            if calls[0] == 3:
                raise KeyboardInterrupt
            add(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(db._pending, "add_coded", broken)
        with pytest.raises(KeyboardInterrupt):
            db.execute("TRUNCATE a CASCADE")
        monkeypatch.undo()
        assert _counts(db) == [2, 3, 3, 3, 2]
        assert db.execute("TRUNCATE a CASCADE").rowcount == 8
