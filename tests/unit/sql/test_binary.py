"""Binary values: literals of each dialect, functions, bytes in and out; judged by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from tests.judges.sql_judge import views_followed

import deltafix.sql
from deltafix.errors import SourceError, SqlDataError, SqlProgrammingError, SqlRefusedError
from deltafix.sql import binary
from deltafix.sql.files import take_in, write_view

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB, c BYTEA NOT NULL DEFAULT '\\x00', s TEXT)"
EDITS = (
    r"INSERT INTO t VALUES (1, '\x00\xFF', 'ab', 'x'), (2, NULL, '\x61b', 'é'), (3, '', '', NULL)",
    r"INSERT INTO t (id, b) VALUES (4, '\x5C\x27'), (5, '\x00')",
    r"UPDATE t SET b = c || '\xAA'::BLOB WHERE b < '\x01' OR b IS NULL",
    r"DELETE FROM t WHERE c IN ('ab') AND id = 1",
)
QUERIES = (
    r"SELECT b, c, b || c AS d FROM t",
    r"SELECT id FROM t WHERE b = '\x00' OR c > '\x61'::BLOB OR b BETWEEN 'a' AND 'b'",
    "SELECT c, COUNT(*) AS n, MIN(b) AS l, MAX(b) AS h, COUNT(DISTINCT b) AS d FROM t GROUP BY c",
    "SELECT OCTET_LENGTH(c) AS n, HEX(b) AS h, UNHEX('0aF') AS u, ENCODE(s) AS e FROM t",
    "SELECT DECODE(c) AS s, CAST(b AS VARCHAR) AS v, HEX(s) AS h FROM t",
    r"SELECT COALESCE(b, '\x61'::BLOB) AS b, GREATEST(b, c) AS g FROM t",
    "SELECT NULLIF(c, 'ab'::BLOB) AS n, CASE WHEN id > 2 THEN b ELSE c END AS e FROM t",
    "SELECT x.id, y.id AS other FROM t x JOIN t y ON x.b = y.c",
    "SELECT c AS k, ARRAY_AGG(b ORDER BY b DESC) AS l, MODE(c) AS m FROM t GROUP BY c",
    "SELECT id, e FROM (SELECT id, [b, c, 'x'::BLOB] AS l FROM t) AS q, UNNEST(q.l) AS u (e)",
    "SELECT {'a': b, 'n': id} AS s, CAST([s] AS BLOB[]) AS l FROM t WHERE s = 'x' OR s IS NULL",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY b DESC, id) AS n FROM t",
    "SELECT DISTINCT b FROM t UNION SELECT c FROM t",
    "SELECT id FROM t WHERE b IN (SELECT c FROM t)",
    r"SELECT TRY_CAST(s AS BLOB) AS b, TRY_CAST('\x' AS BLOB) AS n FROM t",
    "SELECT b, c FROM t ORDER BY b DESC NULLS LAST, c, id LIMIT 2",
)


@pytest.fixture
def db(warm_kernel: None) -> Iterator[deltafix.sql.Connection]:
    with deltafix.sql.connect() as connection:
        connection.execute(TABLE)
        yield connection


def test_views_of_bytes_are_duckdbs(warm_kernel: None) -> None:
    views_followed(TABLE, QUERIES, EDITS)


@pytest.mark.parametrize(
    ("dialect", "kind", "written", "wanted"),
    [
        ("duckdb", "BLOB", r"'\x00a\xFF'::BLOB", b"\x00a\xff"),
        ("postgres", "BYTEA", r"'\x0061ff'::bytea", b"\x00a\xff"),
        ("postgres", "BYTEA", r"'\000a\\'::bytea", b"\x00a\\"),
        ("spark", "BINARY", "X'0061FF'", b"\x00a\xff"),
        ("spark", "BINARY", "CAST('é' AS BINARY)", "é".encode()),
    ],
)
def test_a_dialect_writes_bytes_as_it_does(
    warm_kernel: None, dialect: str, kind: str, written: str, wanted: bytes
) -> None:
    with deltafix.sql.connect(dialect=dialect) as db:
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, b {kind})")
        db.execute("CREATE VIEW v AS SELECT b, LENGTH(b) AS n FROM t")
        db.execute(f"INSERT INTO t VALUES (1, {written})")
        db.execute("INSERT INTO t VALUES (2, ?)", [wanted])
        assert (
            db.execute("SELECT b, n FROM v WHERE b = ?", [wanted]).fetchall()
            == [(wanted, len(wanted))] * 2
        )
        # what a proof says of a row finds it
        (line, *_) = db.execute("EXPLAIN WHY SELECT * FROM t WHERE id = 1").fetchall()
        _, said = line[0].split(": ", 1)
        assert db.execute(f"SELECT id FROM t WHERE {said}").fetchall() == [(1,)]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", binary.FILES])
def test_law_bytes_as_text_are_read_again(dialect: str) -> None:
    values = [bytes(range(256)), b"", b"\\x41", b"'\"\\", b"abc", b"\\\\"]
    for value in values:
        text = binary.to_text(dialect)(value)
        assert binary.from_text(dialect)(text) == value
    with duckdb.connect() as duck:
        for value in values:
            (text,) = duck.execute("SELECT CAST(?::BLOB AS VARCHAR)", [value]).fetchone() or ("",)
            assert binary.to_text("duckdb")(value) == text


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("duckdb", "é"),
        ("duckdb", "\\"),
        ("duckdb", "\\x1"),
        ("postgres", "\\x1"),
        ("postgres", "\\9"),
        (binary.FILES, "ab"),
        (binary.FILES, "\\x0 1"),
    ],
)
def test_text_that_is_none_is_refused(dialect: str, text: str) -> None:
    with pytest.raises(ValueError, match="is no BLOB"):
        binary.from_text(dialect)(text)


def test_what_bytes_are_not_is_told(db: deltafix.sql.Connection) -> None:
    with pytest.raises(SqlDataError, match=r"'ab' is no BLOB; the column takes bytes"):
        db.insert("t", [(1, "ab", b"", None)])
    with pytest.raises(SqlDataError, match=r"is no BLOB: .* other text is ASCII"):
        db.execute("INSERT INTO t (id, b) VALUES (1, 'é')")
    with pytest.raises(SqlProgrammingError, match="no cast from BLOB to INTEGER"):
        db.execute("SELECT CAST(b AS INTEGER) FROM t")
    with pytest.raises(SqlProgrammingError, match="of BLOB and TEXT"):
        db.execute("SELECT id FROM t WHERE b = s")
    with pytest.raises(SqlRefusedError, match="BLOB"):
        db.execute("CREATE TABLE u (b BINARY(3))")
    db.execute(r"INSERT INTO t (id, b) VALUES (1, '\xFF')")
    with pytest.raises(SqlDataError, match=r"\\xff is no text in UTF-8"):
        db.execute("SELECT DECODE(b) FROM t")


def test_arrow_has_them_as_binary(db: deltafix.sql.Connection) -> None:
    values = [b"\x00", None, b"a"] * 100
    for start, kind in enumerate((pa.binary(), pa.large_binary(), pa.binary(1))):
        numbers = range(start * 300, start * 300 + 300)
        column = pa.array(values, kind)
        table = pa.table({"id": numbers, "b": column, "c": column.fill_null(b"z")})
        db.insert("t", table, ["id", "b", "c"])
    assert db.execute("SELECT b, c, COUNT(*) AS n FROM t GROUP BY b, c").fetchall() == [
        (b"\x00", b"\x00", 300),
        (b"a", b"a", 300),
        (None, b"z", 300),
    ]
    db.insert("t", [(900 + n, bytearray(b"\x01"), memoryview(b"m"), None) for n in range(400)])
    assert db.execute("SELECT DISTINCT b, c FROM t WHERE id >= 900").fetchall() == [(b"\x01", b"m")]


def test_files_of_csv_have_hexadecimal_digits(db: deltafix.sql.Connection, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id,b,c,s\n1,\\x00ff,\\x,x\n2,,\\x61,""\n')
    take_in(db, "t", tmp_path / "t.csv")
    rows = db.execute("SELECT * FROM t")
    assert rows.fetchall() == [(1, b"\x00\xff", b"", "x"), (2, None, b"a", "")]
    table = db.execute("SELECT b, c, [c] AS l FROM t").to_arrow()
    write_view(table, "v", tmp_path)
    assert (tmp_path / "v.csv").read_text().splitlines() == [
        '"b","c","l"',
        r'"\x00ff","\x","[""\\x""]"',
        r',"\x61","[""\\x61""]"',
    ]
    (tmp_path / "t.csv").write_text("id,b,c,s\n3,\\x,\\x,x\n4,ab,\\x61,x\n")
    with pytest.raises(SourceError, match=r"t.csv:3: 'ab' in column 'b' is no BLOB; it is written"):
        take_in(db, "t", tmp_path / "t.csv")
