"""DECIMALs of 19 to 38 digits as keys, in constraints, edits, rules and errors.

Their arithmetic and aggregates are judged in `tests/agree/test_sql_wide_decimals.py`, the doors
that they go through in `test_doors.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import deltafix.sql
from deltafix.facts.wide import as_number, as_text
from deltafix.sql.casts import from_text
from deltafix.sql.types import Column, SqlType, decimal_type
from deltafix.web.json_values import read_sql, write_sql

MOST = 10**38 - 1
TABLES = f"""
CREATE TABLE a (
    k DECIMAL(38, 0) PRIMARY KEY, w DECIMAL(30, 5) UNIQUE CHECK (w <> 12345678901234567890.5),
    d DECIMAL(38, 2) DEFAULT 98765432109876543210.12
);
CREATE TABLE b (
    id INTEGER PRIMARY KEY, k DECIMAL(38, 0) REFERENCES a (k) ON DELETE CASCADE, p DECIMAL(18, 2)
);
INSERT INTO a (k, w) VALUES ({MOST}, 1), ({MOST - 1}, 2);
INSERT INTO b VALUES (1, {MOST - 1}, 9999999999999999.99), (2, NULL, 0.02);
CREATE VIEW v AS SELECT k, w, d FROM a WHERE w > 1;
"""
BASED = 0x1234567890ABCDEF12
DEFAULT = Decimal("98765432109876543210.12")


@pytest.fixture
def db() -> Iterator[deltafix.sql.Connection]:
    with closing(deltafix.sql.connect()) as found:
        found.execute(TABLES)
        yield found


def rows(db: deltafix.sql.Connection, query: str) -> list[tuple[Any, ...]]:
    return db.execute(query).fetchall()


def test_texts_sort_as_their_numbers_do() -> None:
    numbers = sorted(sign * 10**n + one for n in range(39) for sign in (1, -1) for one in (-1, 0))
    numbers = [one for one in numbers if abs(one) <= MOST]
    assert sorted(map(as_text, numbers)) == list(map(as_text, numbers))
    assert [as_number(as_text(one)) for one in numbers] == numbers


def test_keys_tell_the_last_digit_apart(db: deltafix.sql.Connection) -> None:
    assert rows(db, f"SELECT w FROM a WHERE k = {MOST}") == [(Decimal("1.00000"),)]
    db.execute(f"INSERT INTO a VALUES ({MOST}, 3, 4) ON CONFLICT (k) DO UPDATE SET w = a.w + 7")
    db.execute("INSERT OR IGNORE INTO a VALUES (?, 9, 9)", [MOST - 1])
    db.execute(
        f"MERGE INTO a USING (SELECT CAST({MOST} AS DECIMAL(38, 0)) AS x) AS s ON a.k = s.x "
        "WHEN MATCHED THEN UPDATE SET d = d + 0.01 WHEN NOT MATCHED THEN INSERT (k) VALUES (x)"
    )
    assert rows(db, "SELECT * FROM a ORDER BY k DESC") == [
        (Decimal(MOST), Decimal("8.00000"), DEFAULT + Decimal("0.01")),
        (Decimal(MOST - 1), Decimal("2.00000"), DEFAULT),
    ]
    db.execute(f"DELETE FROM a WHERE k < {MOST}")
    assert rows(db, "SELECT id FROM b ORDER BY id") == [(2,)]
    assert rows(db, "SELECT w FROM v") == [(Decimal("8.00000"),)]
    db.engine.check_invariants()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"INSERT INTO a (k) VALUES ({MOST})", f"has a row with \\({MOST}\\) already"),
        ("INSERT INTO a (k, w) VALUES (5, 12345678901234567890.50)", "breaks CHECK"),
        ("INSERT INTO a (k, w) VALUES (5, 2.000)", "UNIQUE \\(w\\) has a row with \\(2.00000\\)"),
        (f"INSERT INTO b VALUES (3, {MOST - 2}, 1)", f"is \\({MOST - 2}\\), which a has not"),
        (f"INSERT INTO a (k) VALUES ({MOST + 1})", f"{MOST + 1} is no DECIMAL"),
        ("UPDATE a SET d = d * 1000000000000000000", "which is no DECIMAL\\(38, 2\\)"),
        ("UPDATE a SET d = d / 2", 'decimal.Decimal\\("49382716054938270000.00"\\)'),
        (f"SELECT k + w FROM a WHERE k = {MOST}", f"{MOST} \\+ 1.00000 is {MOST + 1}.00000, which"),
        ("SELECT CAST(k AS BIGINT) FROM a", "is no BIGINT"),
        ("SELECT k * 0.1 * w * w * d * d * d FROM a", "is no DECIMAL"),
        ("SELECT SUM(k) FROM a", f"SUM is {2 * MOST - 1}, which is no DECIMAL\\(38, 0\\)"),
        ("SELECT SUM(p) FROM b", r"SUM\(CAST\(... AS DECIMAL\(38, 2\)\)\) has room"),
        ("SELECT p + 1 FROM b", r"which is no DECIMAL\(18, 2\): CAST\(... AS DECIMAL\(38, 2\)\)"),
        ("SELECT w + s FROM a, (SELECT 'x' AS s) AS y", r"\+ of DECIMAL\(30, 5\) and TEXT"),
        ("CREATE TABLE c (x DECIMAL(39, 0))", "1 to 38 digits"),
        ("CREATE TABLE c (x DECIMAL(20, 21))", "no more behind the point"),
        ("CREATE TABLE c (x HUGEINT)", r"DECIMAL\(38, 0\)"),
        ("ALTER TABLE b ALTER COLUMN k TYPE DECIMAL(18, 2)", "both columns have one type"),
    ],
)
def test_what_has_no_value_is_an_error_and_changes_nothing(
    db: deltafix.sql.Connection, statement: str, said: str
) -> None:
    before = rows(db, "SELECT * FROM a"), rows(db, "SELECT * FROM v")
    with pytest.raises(deltafix.sql.Error, match=said):
        db.execute(statement)
    assert (rows(db, "SELECT * FROM a"), rows(db, "SELECT * FROM v")) == before


def test_the_way_out_of_a_sum_is_one(db: deltafix.sql.Connection) -> None:
    sums = "SUM(CAST(p AS DECIMAL(38, 2))) AS s, SUM(CAST(id AS DECIMAL(38, 0))) AS n"
    db.execute(f"CREATE VIEW s AS SELECT {sums} FROM b")
    assert rows(db, "SELECT * FROM s") == [(Decimal("10000000000000000.01"), Decimal(3))]
    db.execute("UPDATE b SET p = -p WHERE id = 1")
    assert rows(db, "SELECT * FROM s") == [(Decimal("-9999999999999999.97"), Decimal(3))]
    wide = "CAST(p AS DECIMAL(38, 2))"
    assert rows(db, f"SELECT {wide} - 1 FROM b WHERE id = 1") == [
        (Decimal("-10000000000000000.99"),)
    ]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_sum_has_as_many_digits_below_zero_as_above(
    db: deltafix.sql.Connection, sign: int
) -> None:
    db.execute("CREATE TABLE p (p DECIMAL(18, 2)); CREATE VIEW s AS SELECT SUM(p) AS s FROM p")
    most = sign * Decimal("9999999999999999.99")
    db.insert("p", [(most,)])
    with pytest.raises(deltafix.sql.Error, match=r"10000000000000000\.00, which is no DECIMAL"):
        db.insert("p", [(sign * Decimal("0.01"),)])
    assert rows(db, "SELECT * FROM s") == [(most,)]


def test_columns_become_wider_and_narrower(db: deltafix.sql.Connection) -> None:
    for kind in ("DECIMAL(38, 4)", "DECIMAL(22, 3)", "DECIMAL(18, 2)"):
        db.execute(f"ALTER TABLE b ALTER COLUMN p TYPE {kind}")
        assert rows(db, "SELECT p FROM b ORDER BY p") == [
            (Decimal("0.02"),),
            (Decimal("9999999999999999.99"),),
        ]
        assert db.execute("SELECT p FROM b").description[0][1] == kind  # type: ignore[index]
    db.execute("ALTER TABLE b ADD COLUMN z DECIMAL(38, 3) DEFAULT -12345678901234567890.125")
    assert rows(db, "SELECT DISTINCT z FROM b") == [(Decimal("-12345678901234567890.125"),)]


def test_why_a_row_is_there_is_said_in_all_digits(db: deltafix.sql.Connection) -> None:
    (first, second) = rows(db, f"EXPLAIN WHY SELECT * FROM v WHERE k = {MOST - 1}")
    assert f"'{MOST - 1}' AS DECIMAL(38, 0)" in first[0]
    condition = second[0].strip().removeprefix("a: ")
    assert rows(db, f"SELECT k FROM a WHERE {condition}") == [(Decimal(MOST - 1),)]


def test_rules_hand_on_wide_decimals(db: deltafix.sql.Connection) -> None:
    db.execute("CREATE VIEW r AS RULES $$ r(k, i) :- a(k, _, _), b(i, [k], _). $$")
    assert rows(db, "SELECT * FROM r") == [(Decimal(MOST - 1), 1)]
    for rule, kind, said in (
        ('r2("zz") :- b(_, _, _).', "DECIMAL(38, 0)", "'zz' is no DECIMAL\\(38, 0\\)"),
        ("r2(k) :- a(k, _, _).", "DECIMAL(20, 0)", r"is no DECIMAL\(20, 0\)"),
    ):
        with pytest.raises(deltafix.sql.DataError, match=said):
            db.execute(f"CREATE VIEW r2 (x {kind}) AS RULES $$ {rule} $$")


def test_a_durable_database_has_them_again(tmp_path: Path) -> None:
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        db.execute(TABLES)
        before = rows(db, "SELECT * FROM a"), rows(db, "SELECT * FROM v")
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert (rows(db, "SELECT * FROM a"), rows(db, "SELECT * FROM v")) == before
        db.execute("UPDATE a SET w = w + 10")
        assert rows(db, "SELECT w FROM v ORDER BY w") == [(Decimal(11),), (Decimal(12),)]


def test_json_has_all_digits() -> None:
    column = Column("w", decimal_type(38, 2))
    for value in (Decimal(f"{MOST // 100}.99"), Decimal("-0.01"), Decimal("0.00"), None):
        assert read_sql(write_sql(value), column) == value
    assert write_sql(Decimal(f"-{MOST}")) == f"-{MOST}"


@pytest.mark.parametrize(
    ("dialect", "query", "found"),
    [
        ("postgres", "ROUND(k, 12)", Decimal("12345678901234567890.012345678900")),
        ("spark", "ROUND(k, 12)", Decimal("12345678901234567890.0123456789")),
        ("postgres", "k * n", Decimal("18518518351851851835.018518518350")),
        ("spark", "k * n", Decimal("18518518351851851835.018518518350")),
        ("postgres", "12345678901234567890 + n", Decimal("12345678901234567891.50")),
        ("spark", "CAST(k % 100 AS INT)", 90),
        ("postgres", "CAST(k % 100 AS INT)", 90),
        ("postgres", "CAST('0x1234567890abcdef12' AS NUMERIC(38, 0))", Decimal(BASED)),
    ],
)  # fmt: skip
def test_dialects_have_them_their_way(dialect: Any, query: str, found: Any) -> None:
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        db.execute("CREATE TABLE t (k NUMERIC(38, 10), n NUMERIC(8, 2))")
        db.execute("INSERT INTO t VALUES (12345678901234567890.0123456789, 1.5)")
        ((value,),) = rows(db, f"SELECT {query} FROM t")
        assert repr(value) == repr(found)


@pytest.mark.parametrize(
    "kind", [decimal_type(8, 2), decimal_type(38, 2)], ids=lambda kind: kind.name
)
def test_no_door_cuts_the_last_of_many_digits(kind: SqlType) -> None:
    whole = f"1.{'0' * 100}"
    assert from_text(whole, kind) == 1
    for text in (f"{whole}1", "1e999999", "1e-999999", "9" * 120):
        with pytest.raises(OverflowError, match=f"is no {re.escape(kind.name)}"):
            from_text(text, kind)
        assert not kind.holds(Decimal(text))
    assert not kind.holds(Decimal("sNaN"))


def test_a_float_beyond_every_decimal_is_told_in_each_dialect() -> None:
    for dialect in ("duckdb", "postgres"):
        with closing(deltafix.sql.connect(dialect=dialect)) as db:  # type: ignore[arg-type]
            for kind in ("DECIMAL(8, 2)", "DECIMAL(38, 2)"):
                query = f"SELECT CAST(CAST(1e300 AS DOUBLE PRECISION) AS {kind})"
                with pytest.raises(deltafix.sql.DataError, match=r"1e\+300 is no DECIMAL"):
                    db.execute(query)
