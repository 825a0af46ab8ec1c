"""Dates, moments and decimals through every door: parameters, files, Arrow, subscriptions."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

import deltafix.sql
from deltafix.plan.build import lower
from deltafix.rules.check import typed
from deltafix.sql.files import read_table
from deltafix.sql.types import DATE, TIMESTAMP, TIMESTAMPTZ, Column, decimal_type, decode, encode

TABLE = "CREATE TABLE t (d DATE, m TIMESTAMP, z TIMESTAMPTZ, p DECIMAL(8, 2))"
ROWS: list[tuple[Any, ...]] = [
    (
        date(2026, 1, 31),
        datetime(2026, 1, 31, 10, 20, 30, 500000),
        datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))),
        Decimal("1.50"),
    ),
    (date(1, 1, 1), datetime.max, datetime.min.replace(tzinfo=UTC), Decimal("-999999.99")),
    (None, None, None, None),
]
MOMENTS = {
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(),
    TIMESTAMPTZ: st.datetimes(timezones=st.just(UTC)),
    decimal_type(8, 2): st.decimals("-999999.99", "999999.99", places=2),
    decimal_type(18, 18): st.decimals(-1, 1, places=18).filter(lambda value: abs(value) < 1),
    decimal_type(38, 2): st.integers(1 - 10**38, 10**38 - 1).map(
        lambda whole: Context(prec=40).scaleb(whole, -2)
    ),
}


@pytest.mark.parametrize("kind", MOMENTS, ids=lambda kind: kind.name)
def test_law_values_come_back_and_keep_their_order(kind: Any) -> None:
    column = Column("x", kind, nullable=False)

    @given(MOMENTS[kind], MOMENTS[kind])
    def holds(one: Any, other: Any) -> None:
        codes = [encode(value, kind, nullable=False) for value in (one, other)]
        assert [decode(code, column) for code in codes] == [one, other]
        assert (codes[0] < codes[1]) == (one < other)

    holds()


def test_rows_of_every_type_go_in_by_parameters_and_come_out_as_deltas() -> None:
    with deltafix.sql.connect() as db:
        db.execute(TABLE)
        db.execute("CREATE VIEW v AS SELECT * FROM t")
        changes = db.subscribe("v")
        db.cursor().executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS)
        (change,) = changes
        assert sorted(change.added, key=str) == sorted(ROWS, key=str)
        for name, place in zip("dmzp", range(4), strict=True):
            value = ROWS[0][place]
            (found,) = db.execute(f"SELECT * FROM t WHERE {name} = ?", [value]).fetchall()
            assert found == ROWS[0]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_and_arrow_keep_them(suffix: str, tmp_path: Path) -> None:
    with deltafix.sql.connect() as db:
        db.execute(TABLE)
        db.insert("t", ROWS[:1] + ROWS[2:])
        table = db.execute("SELECT * FROM t").to_arrow()
        types = [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(8, 2)]
        assert table.schema.types == types
        path = tmp_path / f"t.{suffix}"
        (parquet.write_table if suffix == "parquet" else csv.write_csv)(table, path)
        columns = db.catalog.tables["t"].relation.columns
        rows = list(
            zip(*(one.to_pylist() for one in read_table(path, columns)[0].columns), strict=True)
        )
        assert sorted(rows, key=str) == sorted(ROWS[:1] + ROWS[2:], key=str)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO t VALUES ('2026-02-30', NULL, NULL, 1)", "is no DATE; write 2026-01-31"),
        ("INSERT INTO t VALUES (NULL, NULL, NULL, 1234567)", r"1234567 is no DECIMAL\(8, 2\)"),
        ("UPDATE t SET m = '2026-01-01 00:00:00+02'", "has a zone, and TIMESTAMP has none"),
        ("INSERT INTO t (d) VALUES (DATE '9999-12-31' + 1)", "date value out of range"),
        ("SELECT p * 99999999999999.99 FROM t", r"is no DECIMAL\(18, 4\)"),
        ("SELECT d + INTERVAL '9999' YEAR FROM t", "is not between 1 and 9999"),
        ("SELECT p % 0.00 FROM t", "division by zero"),
        ("SELECT d + d FROM t", "a DATE and whole days, or an INTERVAL"),
        ("SELECT d + INTERVAL 'x' DAY FROM t", "a whole number of YEAR"),
        ("CREATE TABLE x (a DECIMAL(39, 2))", "a DECIMAL has 1 to 38 digits"),
        ("SELECT EXTRACT(JULIAN FROM m) FROM t", "parts are YEAR"),
        ("SELECT SUM(d) FROM t", "SUM of DATE"),
    ],
)
def test_what_has_no_value_is_an_error_and_changes_nothing(statement: str, said: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute(TABLE)
        db.insert("t", ROWS[:1])
        with pytest.raises(deltafix.sql.Error, match=said):
            db.execute(statement)
        assert db.execute("SELECT * FROM t").fetchall() == ROWS[:1]
        assert "x" not in db.catalog.tables


QUOTED = """
CREATE TABLE q (a INTEGER, f DOUBLE, b BOOLEAN, p DECIMAL(6, 2), s TEXT);
INSERT INTO q VALUES ('7', 'nan', 'true', '1.50', '7'), (8, 1.5, FALSE, 2, '8');
"""


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("a = '7'", [7]),
        ("'8' <= a", [8]),
        ("a IN ('7', '9')", [7]),
        ("a BETWEEN '8' AND '9'", [8]),
        ("f = 'nan'", [7]),
        ("b = 'false'", [8]),
        ("p > '1.50'", [8]),
        ("s = '7'", [7]),
        ("a IS NOT DISTINCT FROM '7'", [7]),
        ("a = '7.5'", [8]),  # as DuckDB reads it
    ],
)
def test_a_literal_in_quotes_has_the_type_of_the_column_beside_it(
    where: str, found: list[int]
) -> None:
    with deltafix.sql.connect() as db:
        db.execute(f"{QUOTED} CREATE MATERIALIZED VIEW v AS SELECT a FROM q WHERE {where}")
        for source in (f"q WHERE {where}", "v"):
            assert db.execute(f"SELECT a FROM {source}").fetchall() == [(one,) for one in found]
        db.execute("UPDATE q SET a = '9', b = 'f' WHERE a = '8'")
        assert db.execute("SELECT a, b FROM q WHERE a > '7'").fetchall() == [(9, False)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT a FROM q WHERE a = 'x'", "'x' is no whole number"),
        ("SELECT a FROM q WHERE a = '7 5'", "'7 5' is no whole number"),
        ("INSERT INTO q (b) VALUES ('maybe')", "'maybe' is no BOOLEAN"),
        ("UPDATE q SET p = '12345'", r"12345 is no DECIMAL\(6, 2\)"),
        ("SELECT a FROM q WHERE s = 7", "of TEXT and INTEGER"),
        ("CREATE MATERIALIZED VIEW v AS SELECT a FROM q WHERE a = 'x'", "'x' is no whole number"),
    ],
)
def test_a_literal_in_quotes_that_is_none_of_the_columns_type_is_an_error(
    statement: str, said: str
) -> None:
    with deltafix.sql.connect() as db:
        db.execute(QUOTED)
        with pytest.raises(deltafix.sql.Error, match=said):
            db.execute(statement)
        assert db.execute("SELECT a FROM q ORDER BY a").fetchall() == [(7,), (8,)]
        assert "v" not in db.catalog.views


def test_whole_columns_are_what_single_values_are() -> None:
    table = f"{TABLE[:-1]}, n SMALLINT, b BIGINT NOT NULL, f DOUBLE, s TEXT NOT NULL, o BOOLEAN)"
    more = [(7, 2**63 - 1, 0.5, "a", True), (-32768, -5, math.nan, "", False)]
    more.append((None, 0, None, "b", None))
    rows = [(*one, *two) for one in ROWS for two in more] * 40
    with deltafix.sql.connect() as single, deltafix.sql.connect() as many:
        for db in (single, many):
            db.execute(table)
        for first in range(0, len(rows), 9):
            single.insert("t", rows[first : first + 9])
        many.insert("t", rows)
        wanted = single.execute("SELECT * FROM t")
        frame = wanted.to_arrow()
        assert str(many.execute("SELECT * FROM t").fetchall()) == str(wanted.fetchall())
        assert many.execute("DELETE FROM t").rowcount == len(rows)
        frames = (frame, frame.slice(5, 300), polars.from_arrow(frame), frame.to_batches()[0])
        for given in frames:
            many.insert("t", given)
            found = many.execute("SELECT * FROM t").to_arrow()
            shown = given.to_arrow() if isinstance(given, polars.DataFrame) else given
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, shown.to_pylist()))
            many.execute("DELETE FROM t")
        many.insert("t", frame.select(["s", "b"]))
        assert many.execute("SELECT COUNT(*) FROM t WHERE d IS NULL").fetchall() == [(len(rows),)]


BAD = {
    "INTEGER": ([1, 2**31], "2147483648 is no INTEGER"),
    "SMALLINT NOT NULL": ([1, None], "NULL in a column that is NOT NULL"),
    "DECIMAL(4, 2)": ([Decimal("1.5"), Decimal("123.45")], "no DECIMAL"),
    "TEXT": ([1, 2], "1 is no TEXT"),
    "DATE": ([datetime(2026, 1, 1), datetime(2026, 1, 2, 3)], "is no DATE"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("framed", [False, True])
def test_a_column_with_a_bad_value_names_it_and_nothing_is_inserted(
    kind: str, framed: bool
) -> None:
    values, said = BAD[kind]
    with deltafix.sql.connect() as db:
        db.execute(f"CREATE TABLE t (x {kind}, k INTEGER UNIQUE)")
        numbers = range(300)
        column = [values[0]] * 299 + [values[1]]
        rows = list(zip(column, numbers, strict=True))
        with pytest.raises(deltafix.sql.DatabaseError, match=said.replace("(", ".")):
            db.insert("t", pa.table({"x": column, "k": numbers}) if framed else rows)
        assert db.execute("SELECT * FROM t").fetchall() == []


@pytest.mark.parametrize("value", [0.35, 12.0, "0.35", float("nan"), 1e9, "a"])
def test_what_is_no_decimal_is_told_what_would_be_one(value: float | str) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER, c DECIMAL(4, 2))")
        frame = pa.table({"k": [1], "c": [value]})
        for give in (
            lambda: db.insert("t", [(1, value)]),
            lambda: db.insert("t", frame),
            lambda: db.execute("INSERT INTO t VALUES (1, ?)", [value]),
        )[: 3 if isinstance(value, float) else 2]:  # a text is one of SQL, in a statement
            with pytest.raises(deltafix.sql.DatabaseError) as error:
                give()
            said = str(error.value)
            assert ("a float is only near" in said) == isinstance(value, float)
        number = re.search(r'Decimal\("(.*)"\)', said)
        if number is None:
            assert value in ("a", 1e9) or math.isnan(float(value))
            return
        db.insert("t", [(1, Decimal(number[1]))])
        ((digits, scale),) = re.findall(r"pyarrow\.decimal128\((\d), (\d)\)", said)
        decimals = pc.cast(frame["c"], pa.decimal128(int(digits), int(scale)))
        db.insert("t", frame.set_column(1, "c", decimals))
        assert db.execute("SELECT DISTINCT c FROM t").fetchall() == [(Decimal(str(value)),)]


def test_moments_of_arrow_that_python_has_not_are_refused() -> None:
    far = pa.array([0, 10_000_000], pa.int32()).cast(pa.date32())
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (d DATE, m TIMESTAMP, z TIMESTAMPTZ)")
        utc = datetime(2026, 1, 2, 3, tzinfo=UTC)
        for unit in ("s", "us", "ns"):
            plain = pa.array([utc.replace(tzinfo=None), None], pa.timestamp(unit))
            zoned = pa.array([utc, None], pa.timestamp(unit, "Asia/Tokyo"))
            assert db.insert("t", pa.table({"m": plain, "z": zoned})) == 2
            shown = "SELECT d, m, z FROM t WHERE m IS NOT NULL"
            assert db.execute(shown).fetchall() == [(None, utc.replace(tzinfo=None), utc)]
            for name, other in (("m", zoned), ("z", plain)):
                with pytest.raises(deltafix.sql.DataError, match="is no TIMESTAMP"):
                    db.insert("t", pa.table({name: other}))
            db.execute("DELETE FROM t")
        long = pa.array([0, 2**62], pa.int64())
        tiny = pa.array([0, 1001], pa.int64()).cast(pa.timestamp("ns"))
        for name, column in (
            ("d", far), ("m", long.cast(pa.timestamp("us"))), ("m", tiny),
            ("z", long.cast(pa.timestamp("us", "UTC"))),
        ):  # fmt: skip
            with pytest.raises(deltafix.sql.DataError, match=f"column '{name}'"):
                db.insert("t", pa.table({name: column}))
        assert db.execute("SELECT * FROM t").fetchall() == []


def test_a_column_that_is_given_twice_is_an_error() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (x INTEGER, y INTEGER)")
        for rows, columns in ((twice, ()), (twice, ["x"]), ([(1, 2)], ["x", "x"])):
            with pytest.raises(deltafix.sql.ProgrammingError, match="'x' is given twice"):
                db.insert("t", rows, columns)
        assert db.execute("SELECT * FROM t").fetchall() == []


def test_keys_of_many_rows_are_checked_at_once_and_nulls_are_no_key() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER UNIQUE)")
        db.insert("t", [(n,) for n in range(300)] + [(None,), (None,)])
        with pytest.raises(deltafix.sql.IntegrityError, match="299"):
            db.insert("t", pa.table({"k": range(299, 900)}))
        with pytest.raises(deltafix.sql.ProgrammingError, match="did you mean 'k'"):
            db.insert("t", pa.table({"kk": [1]}))
        assert db.execute("SELECT COUNT(*) FROM t").fetchall() == [(302,)]
        assert db.insert("t", pa.table({"k": range(300, 900)})) == 600
        assert db.replace("t", pa.table({"k": range(1, 900)})) == 3  # 0 and two NULLs leave


def test_rules_grow_with_aggregates_and_not_with_their_combinations() -> None:
    """An aggregate that may be NULL has two cases: twelve in one rule would be 4,096 rules."""
    counts = {}
    for many in (3, 6, 12):  # at two all are written out
        with deltafix.sql.connect() as db:
            columns = [f"c{n}" for n in range(many)]
            db.execute(f"CREATE TABLE t (k TEXT, {', '.join(f'{one} INTEGER' for one in columns)})")
            sums = ", ".join(f"SUM({one}) AS s{one}" for one in columns)
            db.execute(f"CREATE VIEW v AS SELECT k, {sums} FROM t GROUP BY k")
            db.execute(f"INSERT INTO t VALUES ('a', {', '.join(map(str, range(many)))})")
            db.execute(f"INSERT INTO t VALUES ('a', {', '.join(['NULL'] * many)})")
            assert db.execute("SELECT * FROM v").fetchall() == [("a", *range(many))]
            db.execute("DELETE FROM t WHERE c0 = 0")
            assert db.execute("SELECT * FROM v").fetchall() == [("a", *[None] * many)]
            counts[many] = len(lower(typed(db.catalog.program())).clauses)
    assert counts[12] - counts[6] == 2 * (counts[6] - counts[3])


@pytest.mark.parametrize(
    ("shown", "joins", "where"),
    [
        ("u{n}.w AS w{n}", "LEFT JOIN u{n} ON t.c{n} = u{n}.k", ""),
        ("c{n} > (SELECT MIN(k) FROM u{n}) AS x{n}", "", ""),
        ("c{n}", "", "(c{n} > 1 OR EXISTS (SELECT 1 FROM u{n} WHERE k = c{n}))"),
    ],
    ids=["left joins", "conditions as columns", "ORs"],
)
def test_rules_grow_with_choices_and_not_with_their_product(
    shown: str, joins: str, where: str
) -> None:
    """Each has two choices or three; DuckDB says what is right."""
    counts = {}
    for many in (3, 5, 10):
        each = range(many)
        script = [
            f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(f'c{n} INTEGER' for n in each)})",
            *(f"CREATE TABLE u{n} (k INTEGER PRIMARY KEY, w INTEGER)" for n in each),
            f"CREATE VIEW v AS SELECT id, {', '.join(shown.format(n=n) for n in each)} FROM t "
            f"{' '.join(joins.format(n=n) for n in each)}"
            + (f" WHERE {' AND '.join(where.format(n=n) for n in each)}" if where else ""),
        ]
        for row in range(4):
            values = ((row + n) % 4 for n in each)
            cells = ", ".join("NULL" if one == 3 else str(one) for one in values)
            script.append(f"INSERT INTO t VALUES ({row}, {cells})")
        script.append(f"INSERT INTO t VALUES (9, {', '.join('2' for _ in each)})")
        script += [f"INSERT INTO u{n} VALUES (0, NULL), (1, {n})" for n in each]
        edits = ["DELETE FROM u0 WHERE k = 0", "UPDATE t SET c1 = 1 WHERE id < 9", "DELETE FROM u2"]
        with deltafix.sql.connect() as db, duckdb.connect() as judge:
            for line in script:
                db.execute(line)
                judge.execute(line)
            for line in ("SELECT 1", *edits):
                db.execute(line)
                judge.execute(line)
                rows = db.execute("SELECT * FROM v ORDER BY id").fetchall()
                assert rows == judge.execute("SELECT * FROM v ORDER BY id").fetchall() != []
            counts[many] = len(lower(typed(db.catalog.program())).clauses)
    assert 2 * (counts[10] - counts[5]) == 5 * (counts[5] - counts[3]) > 0


@pytest.mark.parametrize("framed", [False, True])
def test_many_rows_wait_by_column_for_the_transaction_and_are_seen_in_it(framed: bool) -> None:
    def given(rows: list[tuple[object, ...]], *names: str) -> object:
        return pa.table(list(map(list, zip(*rows, strict=True))), names) if framed else rows

    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, boss INTEGER REFERENCES t)")
        db.execute("CREATE TABLE f (x DOUBLE UNIQUE)")
        db.execute("CREATE TABLE b (k INTEGER)")
        db.execute(
            "CREATE VIEW lone AS SELECT t.k FROM t LEFT JOIN b ON b.k = t.k WHERE b.k IS NULL"
        )
        seen = db.subscribe("lone")
        db.execute("BEGIN")
        db.insert("t", given([(n, max(n - 1, 0)) for n in range(300)], "k", "boss"))
        db.insert("b", given([(n,) for n in range(299)], "k"))
        assert db.engine.epoch == 1  # they came together
        db.execute("DELETE FROM b WHERE k = 0")
        with pytest.raises(deltafix.sql.IntegrityError, match=r"\(boss\) of a row is \(900\)"):
            db.insert("t", given([(n, n - 1) for n in range(901, 1200)], "k", "boss"))
        with pytest.raises(deltafix.sql.IntegrityError, match=r"PRIMARY KEY \(k\) has a row with"):
            db.insert("t", given([(n, None) for n in range(500, 900)] + [(7, None)], "k", "boss"))
        db.insert("t", given([(n, 299) for n in range(300, 600)], "k", "boss"))
        db.execute("INSERT INTO t VALUES (600, 599)")
        with pytest.raises(deltafix.sql.IntegrityError, match="which t would lose"):
            db.execute("DELETE FROM t WHERE k = 299")
        db.execute("COMMIT")
        (change,) = seen
        assert [row for (row,) in change.added] == [0, *range(299, 601)]
        db.execute("BEGIN")
        db.insert("b", given([(n,) for n in range(700, 1000)], "k"))
        db.rollback()
        assert db.execute("SELECT COUNT(*) FROM b").fetchall() == [(298,)]
        for twice in ((0.0, -0.0), (float("nan"), -float("nan"))):
            values = [(float(n),) for n in range(1, 300)] + [(one,) for one in twice]
            with pytest.raises(deltafix.sql.IntegrityError, match="UNIQUE"):
                db.insert("f", given(values, "x"))
        db.engine.check_invariants()
