"""Which columns a SELECT has: what is said of `*`, COLUMNS, PIVOT; edits with tables beside."""

from __future__ import annotations

import pytest

import deltafix.sql

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER NOT NULL, s TEXT);
CREATE TABLE u (a INTEGER, c INTEGER, s TEXT);
INSERT INTO t VALUES (1, 2, 3, 'x'), (2, 2, 5, 'y'), (3, 4, 5, NULL);
INSERT INTO u VALUES (2, 7, 'x'), (2, 9, 'y'), (4, NULL, NULL)
"""


def _db(dialect: str = "duckdb") -> deltafix.sql.Connection:
    db = deltafix.sql.connect(dialect=dialect)
    db.execute(TABLES)
    return db


def _names(db: deltafix.sql.Connection, query: str) -> list[str]:
    return [name for name, *_ in db.execute(query).description or ()]


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
def test_columns_of_using_are_in_front_in_other_dialects(dialect: str) -> None:
    db, duck = _db(dialect), _db()
    once = "SELECT * FROM t JOIN u USING (s, a)"
    assert _names(duck, once) == ["id", "a", "b", "s", "c"]
    assert _names(db, once) == ["s", "a", "id", "b", "c"]
    twice = "SELECT * FROM t JOIN u USING (a) JOIN (SELECT 3 AS b, 1 AS z) AS w USING (b)"
    assert _names(db, twice) == ["b", "a", "id", "s", "c", "s", "z"] or dialect == "duckdb"


def test_a_column_that_using_did_not_merge_is_shown() -> None:
    db = _db()
    query = "SELECT * FROM t JOIN u USING (a) JOIN (SELECT 4 AS a, 1 AS z) AS w ON w.z = t.id"
    assert _names(db, query) == ["id", "a", "b", "s", "c", "s", "a", "z"]
    assert db.execute(query).fetchall()[0][-2:] == (4, 1)


@pytest.mark.parametrize(
    ("query", "message", "place"),
    [
        ("SELECT * EXCLUDE (ida) FROM t", "unknown column 'ida'", 19),
        ("SELECT * REPLACE (1 AS nope) FROM t", "unknown column 'nope'", 24),
        ("SELECT * EXCLUDE (a) RENAME (a AS z) FROM t", "'a' is left out", 30),
        ("SELECT * EXCLUDE (a, c, s) FROM u", "no column is left", 8),
        ("SELECT t.*, COLUMNS('nope') FROM t", "no column fits", 21),
        ("SELECT COLUMNS('(') FROM t", "no pattern", 16),
        ("SELECT COLUMNS('a') + COLUMNS('b') FROM t", "two different COLUMNS", 8),
        ("SELECT COLUMNS(['a', 'nope']) FROM t", "unknown column 'nope'", 22),
        ("SELECT COLUMNS(c -> c LIKE 'a%') FROM t", "this COLUMNS", 8),
        ("SELECT * REPLACE (1 AS s) FROM t JOIN u ON t.a = u.a", "2 columns are 's'", 8),
        ("SELECT a AS x, (SELECT MAX(c) FROM u WHERE u.a = x) FROM t", "unknown column 'x'", 50),
        ("PIVOT t ON a USING SUM(b)", "PIVOT without IN", 12),
        ("PIVOT t ON a IN (b) USING SUM(b)", "this value of a PIVOT", 18),
        ("PIVOT t ON a IN (2) USING UPPER(s)", "PIVOT of no aggregate", 27),
        ("UNPIVOT t ON a, nope", "unknown column 'nope'", 17),
        ("UNPIVOT t ON a, s", "column 4 (value) is INTEGER on one side and TEXT on the other", 14),
        ("SELECT * FROM t JOIN u ON t.a = u.a PIVOT (SUM(c) FOR b IN (3))", "PIVOT of a join", 22),
        ("SELECT a, a FROM t UNION BY NAME SELECT a FROM u", "two columns 'a'", 8),
        ("INSERT INTO u BY NAME SELECT 1 AS nope", "unknown column 'nope'", 30),
        ("DELETE FROM t USING nope WHERE t.a = nope.a", "unknown table 'nope'", 21),
        ("UPDATE t SET b = s FROM u WHERE t.a = u.a", "column 's' is ambiguous", 18),
        ("UPDATE t SET b = 1 FROM u RIGHT JOIN t AS w ON u.a = w.a", "RIGHT JOIN beside", 38),
    ],
)
def test_what_is_wrong_is_named_with_its_place(query: str, message: str, place: int) -> None:
    with pytest.raises(deltafix.sql.Error) as refused:
        _db().execute(query)
    assert f"<sql>:1:{place}: " in str(refused.value)
    assert message in str(refused.value)


def test_names_before_are_no_names_in_postgresql() -> None:
    query = "SELECT a AS x, x + 1 AS y FROM t WHERE id = 1"
    assert _db().execute(query).fetchall() == [(2, 3)]
    with pytest.raises(deltafix.sql.ProgrammingError, match="unknown column 'x'"):
        _db("postgres").execute(query)


def test_an_order_is_that_of_what_a_replaced_column_shows() -> None:
    db = _db()
    assert db.execute("SELECT * REPLACE (-b AS b) FROM t ORDER BY b, id").fetchall() == [
        (2, 2, -5, "y"), (3, 4, -5, None), (1, 2, -3, "x")
    ]  # fmt: skip
    assert db.execute("SELECT COLUMNS('^a|b'), s AS z FROM t ORDER BY z").fetchall() == [
        (2, 3, "x"), (2, 5, "y"), (4, 5, None)
    ]  # fmt: skip


def test_a_view_of_all_columns_but_some_keeps_those_it_was_made_with() -> None:
    db = _db()
    db.execute(
        "CREATE VIEW v AS SELECT * EXCLUDE (s) FROM t; CREATE VIEW w AS SELECT COLUMNS('a') FROM t"
    )
    db.execute("ALTER TABLE t ADD COLUMN aa INTEGER")
    assert (_names(db, "SELECT * FROM v"), _names(db, "SELECT * FROM w")) == (
        ["id", "a", "b"],
        ["a"],
    )
    with pytest.raises(deltafix.sql.ProgrammingError, match="read by v, w"):
        db.execute("ALTER TABLE t DROP COLUMN b")


def test_a_row_that_from_would_change_to_different_ones_is_an_error() -> None:
    db = _db()
    with pytest.raises(deltafix.sql.IntegrityError, match=r"different ones: \(1, 2, 3, 'x'\)"):
        db.execute("UPDATE t SET b = u.c FROM u WHERE t.a = u.a")
    assert db.execute("SELECT b FROM t ORDER BY id").fetchall() == [(3,), (5,), (5,)]
    assert db.execute("UPDATE t SET b = t.a FROM u WHERE t.a = u.a").rowcount == 3  # to the same


def test_an_update_beside_tables_comes_again_with_other_parameters() -> None:
    db = _db()
    text = (
        "UPDATE t SET b = u.c + ? FROM u WHERE t.a = u.a AND t.s = u.s AND u.c > ? RETURNING id, b"
    )
    assert db.execute(text, [1, 8]).fetchall() == [(2, 10)]
    assert db.execute(text, [2, 0]).fetchall() == [(1, 9), (2, 11)]
    gone = "DELETE FROM t USING u WHERE t.a = u.a AND u.c = {} RETURNING id"
    assert db.execute(gone.format(8)).fetchall() == []
    assert db.execute(gone.format(9)).fetchall() == [(1,), (2,)]


def test_an_insert_by_name_gives_the_other_columns_their_defaults() -> None:
    db = _db()
    db.execute("ALTER TABLE u ALTER COLUMN s SET DEFAULT 'd'")
    found = db.execute("INSERT INTO u BY NAME SELECT b AS c, id AS a FROM t RETURNING *")
    assert sorted(found) == [(1, 3, "d"), (2, 5, "d"), (3, 5, "d")]


def test_names_of_names_are_bounded_before_they_double_too_often():
    names = ", ".join(f"x{n} + x{n} AS x{n + 1}" for n in range(40))
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE one (a INTEGER NOT NULL); INSERT INTO one VALUES (1)")
        few = names.split(", x6")[0]
        assert db.execute(f"SELECT a AS x0, {few} FROM one").fetchall()[0][-1] == 64
        for query in (
            f"SELECT a AS x0, {names} FROM one",
            f"SELECT SUM(a) AS x0, {names} FROM one",
        ):
            with pytest.raises(deltafix.sql.NotSupportedError, match="in a subquery"):
                db.execute(f"CREATE VIEW v AS {query}")
            with pytest.raises(deltafix.sql.NotSupportedError, match="in a subquery"):
                db.execute(query)
        shared = f"SELECT x6 + x6 AS y FROM (SELECT a AS x0, {few} FROM one) AS t"
        assert db.execute(shared).fetchall() == [(128,)]


@pytest.mark.parametrize(
    ("query", "again"),
    [
        (
            "SELECT id, a + 1 AS x FROM t WHERE x > 3",
            "SELECT id, a + 1 FROM t WHERE a > 2",
        ),
        ("SELECT a + 1 AS b FROM t WHERE b > 3", "SELECT a + 1 AS b FROM t WHERE t.b > 3"),
        ("SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING n > 1", "SELECT 2, 2"),
        ("SELECT a, COUNT(*) AS b FROM t GROUP BY ALL HAVING b > 1", "SELECT 2, 2"),
        (
            "SELECT a AS b, b AS c FROM t GROUP BY a, b HAVING b = 5",
            "SELECT a, 5 FROM t WHERE b = 5",
        ),
        ("SELECT a + 1 AS x, x * 2 AS y FROM t WHERE y = 10", "SELECT 5, 10"),
        ("SELECT * RENAME (a AS q) FROM u WHERE q = 4", "SELECT * FROM u WHERE a = 4"),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT c AS id FROM u WHERE id > 7 AND u.a = t.a)",
            "SELECT id FROM t WHERE a = 2",
        ),
    ],
)
def test_where_and_having_see_the_names_of_select(query: str, again: str) -> None:
    db = _db()
    rows = sorted(db.execute(query).fetchall())
    assert rows
    assert rows == sorted(db.execute(again).fetchall())
    db.execute(f"CREATE VIEW v AS {query}")
    assert sorted(db.execute("SELECT * FROM v").fetchall()) == rows


def test_a_name_of_select_is_told_where_the_dialect_does_not_see_it() -> None:
    having = "SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING n > 1"
    where = "SELECT id, UPPER(s) AS x FROM t WHERE x = 'Y'"
    assert _db("spark").execute(having).fetchall() == [(2, 2)]
    for dialect, query, again in (
        ("spark", where, "repeat it: UPPER(s)"),
        ("postgres", where, "repeat it: UPPER(s)"),
        ("postgres", having, "repeat it: COUNT(*)"),
        ("duckdb", "SELECT id + 1 AS x FROM t WHERE EXISTS (FROM u WHERE a = x)", "it: id + 1"),
    ):
        with pytest.raises(deltafix.sql.ProgrammingError, match="does not see") as told:
            _db(dialect).execute(query)
        assert again in str(told.value)
