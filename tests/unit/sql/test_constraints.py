"""ADD and DROP CONSTRAINT, ALTER COLUMN: what is refused and how, names, state folders, interrupts.

Random ones, with edits and views, are in `tests/agree/test_sql_constraints.py`.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from tests.judges.sql_judge import states_during

import deltafix.sql

MADE = """
CREATE TABLE t (id INTEGER, a INTEGER, s TEXT DEFAULT 'x', f DOUBLE);
CREATE TABLE u (k INTEGER PRIMARY KEY, n INTEGER UNIQUE, CHECK (n > 0));
CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
CREATE VIEW w AS SELECT k, (SELECT n FROM u AS o WHERE o.k = u.k) AS m FROM u;
INSERT INTO t VALUES (1, 2, 'p', 1.5), (2, 2, 'q', NULL), (2, NULL, '7', 0.5);
INSERT INTO u VALUES (2, 5), (3, NULL);
"""


def _all(db: deltafix.sql.Connection) -> dict[str, list[str]]:
    return {
        name: [str(made.declaration), *sorted(map(repr, db.execute(f"SELECT * FROM {name}")))]
        for name, made in db.catalog.relations.items()
    }


WRONG = {
    "t ADD PRIMARY KEY (id)": "(2, 2, 'q', NULL) and (2, NULL, '7', 0.5) have one PRIMARY KEY (id)",
    "t ADD PRIMARY KEY (a)": "(2, None, '7', 0.5) has no value for a, which is NOT NULL",
    "u ADD CONSTRAINT p PRIMARY KEY (n)": "two primary keys",
    "t ADD UNIQUE (a)": "(1, 2, 'p', 1.5) and (2, 2, 'q', NULL) have one UNIQUE (a)",
    "t ADD CHECK (a <> id)": "(2, 2, 'q', NULL) breaks CHECK (a <> id)",
    "t ADD CHECK (10 // (id - 2) < 0)": "CHECK (10 // (id - 2) < 0): ",
    "t ADD FOREIGN KEY (id) REFERENCES u": "(id) of a row is (1), which u has not",
    "t ADD FOREIGN KEY (a) REFERENCES u (n, k)": "refers to no key of u",
    "t ADD FOREIGN KEY (s) REFERENCES u": "s is TEXT and k of u is INTEGER",
    "t ADD FOREIGN KEY (a) REFERENCES q": "unknown table 'q'",
    "t ADD UNIQUE (q)": "unknown column 'q'",
    "t ADD CHECK (q > 1)": "unknown column 'q'",
    "t ADD CHECK (s > 1)": "CAST(... AS ...)",
    "t ADD UNIQUE (a) NOT VALID": "NOT VALID is not maintained",
    "t ADD UNIQUE (f), RENAME TO q": "RENAME beside other actions",
    "t DROP CONSTRAINT t_key": "unknown constraint 't_key'",
    "u DROP CONSTRAINT u_pkey": "w reads u, and could not be kept: a scalar subquery",
    "t ALTER COLUMN a SET NOT NULL": "(2, None, '7', 0.5) has no value for a, which is NOT NULL",
    "u ALTER COLUMN k DROP NOT NULL": "k is in the PRIMARY KEY of u",
    "t ALTER COLUMN q SET NOT NULL": "unknown column 'q'",
    "t ALTER COLUMN a SET DEFAULT 'x'": "DEFAULT: 'x' is no whole number",
    "t ALTER COLUMN a SET DATA TYPE BIGINT": "a is read by v",
    "t ALTER COLUMN s TYPE INTEGER": "DEFAULT: 'x' is no whole number",
    "t ALTER COLUMN f TYPE INTEGER USING LENGTH(q)": "unknown column 'q'",
    "t ALTER COLUMN f TYPE TIME": "no cast from DOUBLE to TIME",
    "t ALTER COLUMN f TYPE DECIMAL(2, 2)": "(1, 2, 'p', 1.5): 1.5 is no DECIMAL(2, 2)",
    "u ALTER COLUMN n TYPE TEXT": "n is read by w",
}


@pytest.mark.parametrize("alter", WRONG)
def test_what_cannot_be_altered_is_refused_and_changes_nothing(alter: str) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        before = _all(db)
        with pytest.raises(deltafix.sql.DatabaseError) as caught:
            db.execute(f"ALTER TABLE {alter}")
        text = str(caught.value)
        assert WRONG[alter] in text
        assert f"1 | ALTER TABLE {alter}\n" in text  # its place is in the statement
        assert _all(db) == before
        db.execute("INSERT INTO t VALUES (2, 2, 'q', NULL); ALTER TABLE t ADD CHECK (id > 0)")
        db.engine.check_invariants()


def test_an_error_points_at_what_is_wrong_in_the_statement() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        for alter, column in (
            ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1 AND q > 2)", 49),
            ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (a, b)", 59),
            ("ALTER TABLE t DROP CONSTRAINT q", 31),
            ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 'x'", 42),
        ):
            with pytest.raises(deltafix.sql.DatabaseError) as caught:
                db.execute(alter)
            assert caught.value.diagnostics[0].span.column == column, caught.value


def test_constraints_without_a_name_have_that_of_postgresql() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(
            """CREATE TABLE t (a INTEGER UNIQUE CHECK (a > 0), b INTEGER, c INTEGER CHECK (c < b),
              CHECK (a < 9), PRIMARY KEY (b, c), UNIQUE (c, b), CONSTRAINT mine UNIQUE (b),
              FOREIGN KEY (c) REFERENCES t (a), CHECK (b + c <> 7))"""
        )
        with pytest.raises(deltafix.sql.ProgrammingError) as caught:
            db.execute("ALTER TABLE t DROP CONSTRAINT nothing")
        names = (
            "mine, t_a_check, t_a_check1, t_a_key, t_c_b_key, t_c_fkey, t_check, t_check1, t_pkey"
        )
        assert f"there is: {names}" in str(caught.value)
        with pytest.raises(deltafix.sql.ProgrammingError, match="'mine' already"):
            db.execute("ALTER TABLE t ADD CONSTRAINT mine CHECK (a > 1)")
        with pytest.raises(deltafix.sql.ProgrammingError, match="t refers to t_a_key, by t_c_fkey"):
            db.execute("ALTER TABLE t DROP CONSTRAINT t_a_key")
        db.execute("ALTER TABLE t DROP CONSTRAINT IF EXISTS nothing")
        db.execute("ALTER TABLE t DROP CONSTRAINT t_a_key CASCADE")
        for name in ("t_a_check", "t_a_check", "t_pkey", "mine", "t_c_b_key", "t_check"):
            db.execute(f"ALTER TABLE t DROP CONSTRAINT {name}")
        db.execute("INSERT INTO t VALUES (-1, 1, 1), (-1, 1, 1), (100, 3, 5)")
        with pytest.raises(deltafix.sql.IntegrityError, match="column 'b'"):
            db.execute("INSERT INTO t VALUES (1, NULL, 1)")  # it was of the key
        with pytest.raises(deltafix.sql.IntegrityError, match="CHECK"):
            db.execute("INSERT INTO t VALUES (1, 3, 4)")
        assert len(db.execute("SELECT * FROM t").fetchall()) == 3


def test_columns_change_their_types_as_in_duckdb() -> None:
    rows = "(1, '7', 1.5, DATE '2026-01-31'), (2, NULL, 2.5, NULL), (3, ' 12', -0.4, '1969-12-31')"
    with closing(deltafix.sql.connect()) as db, closing(duckdb.connect()) as duck:
        for one in (db, duck):
            one.execute("CREATE TABLE t (id INTEGER, s TEXT, f DOUBLE, d DATE)")
            one.execute(f"INSERT INTO t VALUES {rows}")
            for alter in (
                "s TYPE INTEGER",
                "s SET DATA TYPE BIGINT USING s * 3 + id",
                "f TYPE DECIMAL(6, 2)",
                "d TYPE TIMESTAMP",
                "id TYPE TEXT USING 'no ' || CAST(id AS TEXT)",
                "id SET DEFAULT 'none'",
                "f SET NOT NULL",
            ):
                one.execute(f"ALTER TABLE t ALTER COLUMN {alter}")
            one.execute("INSERT INTO t (s, f) VALUES (4000000000, 7)")
        assert sorted(map(repr, db.execute("SELECT * FROM t"))) == (
            sorted(map(repr, duck.execute("SELECT * FROM t").fetchall()))
        )


def test_tables_refer_to_each_other_in_a_circle_and_to_later_ones(tmp_path: Path) -> None:
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        db.execute(
            """CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER);
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM a;
            CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a);
            INSERT INTO a VALUES (1, NULL), (2, NULL); INSERT INTO b VALUES (5, 1), (6, 2);
            ALTER TABLE a ADD CONSTRAINT to_b FOREIGN KEY (b) REFERENCES b ON DELETE CASCADE;
            UPDATE a SET b = 5 WHERE id = 2"""
        )
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        with pytest.raises(deltafix.sql.IntegrityError, match="which b has not"):
            db.execute("UPDATE a SET b = 7")
        with pytest.raises(deltafix.sql.IntegrityError, match="which a would lose"):
            db.execute("DELETE FROM b WHERE id = 5")  # a 2 would go, to which b 6 refers
        db.execute("DELETE FROM b")
        assert db.execute("SELECT * FROM n").fetchall() == [(1,)]
        with pytest.raises(deltafix.sql.ProgrammingError, match="b is referred to by a"):
            db.execute("DROP TABLE b")
        db.execute("ALTER TABLE a DROP CONSTRAINT to_b; DROP TABLE b")
        db.engine.check_invariants()


KEPT = ("t ADD UNIQUE (f)", "t ALTER COLUMN s SET NOT NULL", "t ADD CHECK (id < 3)")


@pytest.mark.parametrize("alter", KEPT)
def test_a_process_that_ends_inside_of_it_has_changed_all_or_nothing(
    alter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    with closing(deltafix.sql.connect(state)) as db:
        db.execute(MADE)
        copies = states_during(db, f"ALTER TABLE {alter}", state, monkeypatch)
        rows = [*db.execute("SELECT * FROM t")]
    holds = []
    for copy in (*copies, state):
        with closing(deltafix.sql.connect(copy)) as again:
            assert [*again.execute("SELECT * FROM t")] == rows
            assert sorted(again.execute("SELECT * FROM v"), key=repr) == [(2, 2), (None, 1)]
            again.engine.check_invariants()
            try:
                again.execute("INSERT INTO t VALUES (9, 9, NULL, 0.5)")
                holds.append(False)
            except deltafix.sql.IntegrityError:
                holds.append(True)
    assert holds == sorted(holds)
    assert not holds[0]
    assert holds[-1]


def test_an_interrupt_leaves_the_catalog_that_the_engine_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        before, kind = _all(db), type(db.engine)

        def broken(self: object) -> object:
            raise KeyboardInterrupt

        monkeypatch.setattr(kind, "transaction", broken)
        with pytest.raises(KeyboardInterrupt):
            db.execute("ALTER TABLE t ADD CHECK (id < 3)")
        monkeypatch.undo()
        assert _all(db) == before
        db.execute("INSERT INTO t VALUES (4, 4, 'q', NULL)")
        with pytest.raises(deltafix.sql.IntegrityError, match=r"\(4, 4, 'q', NULL\) breaks CHECK"):
            db.execute("ALTER TABLE t ADD CHECK (id < 3)")


def test_what_changes_the_catalog_alone_leaves_the_engine_as_it_is() -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute(MADE)
        told, epoch = db.subscribe("v"), db.engine.last_epoch
        db.execute("ALTER TABLE t ADD CHECK (id > 0); ALTER TABLE t ALTER f SET DEFAULT 2")
        assert db.engine.last_epoch.derivations == 0
        assert epoch is not None
        db.execute("INSERT INTO t (id, a) VALUES (5, 2)")
        assert [(one.removed, one.added) for one in told] == [([(2, 2)], [(2, 3)])]
        assert (5, 2, "x", 2.0) in [*db.execute("SELECT * FROM t")]


@pytest.mark.parametrize(
    ("query", "reads"),
    [
        ("SELECT t.b FROM t JOIN (SELECT * FROM u) AS d ON d.c = t.b", False),
        ("SELECT d.* FROM t JOIN u AS d ON d.c = t.b", False),
        ("SELECT COUNT(*) AS n FROM t", False),
        ("SELECT * FROM t JOIN u ON u.c = t.b", True),
        ("SELECT t.* FROM t JOIN u ON u.c = t.b", True),
        ("SELECT d.b FROM (SELECT * FROM t) AS d", True),
        ("WITH w AS (SELECT * FROM t) SELECT b FROM w", True),
    ],
)
def test_a_column_is_read_by_the_star_of_its_own_table(query: str, reads: bool) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE u (c INTEGER)")
        db.execute(f"CREATE VIEW v AS {query}")
        if reads:
            with pytest.raises(deltafix.sql.ProgrammingError, match="a is read by v"):
                db.execute("ALTER TABLE t ALTER COLUMN a TYPE TEXT")
        else:
            db.execute("ALTER TABLE t ALTER COLUMN a TYPE TEXT")
            db.execute("INSERT INTO t VALUES ('x', 1); INSERT INTO u VALUES (1)")
            assert len(db.execute("SELECT * FROM v").fetchall()) == 1


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_a_varchar_refuses_longer_texts_and_is_none_longer_after_alter(dialect: str) -> None:
    with deltafix.sql.connect(dialect=dialect) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR(3))")
        db.execute("INSERT INTO t VALUES (1, 'a\U0001f600c'), (2, NULL)")
        for edit in ("INSERT INTO t VALUES (3, 'abcd')", "UPDATE t SET v = v || 'd' || v"):
            with pytest.raises(deltafix.sql.IntegrityError, match=r"CHECK \(LENGTH\(v\) <= 3\)"):
                db.execute(edit)
        with pytest.raises(deltafix.sql.IntegrityError, match="<= 3"):
            db.executemany(
                "INSERT INTO t VALUES (?, ?)", [(n, "abcd"[: n % 5]) for n in range(9, 999)]
            )
        db.execute("ALTER TABLE t ADD COLUMN w VARCHAR(2)")
        db.execute("ALTER TABLE t RENAME COLUMN v TO u")
        for edit in ("UPDATE t SET w = 'abc'", "UPDATE t SET u = 'abcd'"):
            with pytest.raises(deltafix.sql.IntegrityError, match="CHECK"):
                db.execute(edit)
        assert db.execute("SELECT * FROM t ORDER BY id").fetchall() == [
            (1, "a\U0001f600c", None), (2, None, None),
        ]  # fmt: skip
