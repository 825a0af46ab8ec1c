"""Statements that come again, against the same ones read and planned each time.

Sees: a literal taken for a value that says more (a type, a place, a text beside DATE), a plan that
outlives its table or the types it was made for, and an error that points into another text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from tests.support.amount import cases

import deltafix.sql
from deltafix.errors import SqlError
from deltafix.sql import again, connection, parsing
from deltafix.sql.parameters import written

SEEDS = cases(3, per=20)

TABLES = (
    "CREATE TABLE t (k INTEGER PRIMARY KEY, n BIGINT, x DECIMAL(6, 2), f DOUBLE, s TEXT, d DATE, "
    "m TIMESTAMP, b BOOLEAN NOT NULL DEFAULT TRUE, w DECIMAL(38, 6), CHECK (n <> 13))",
    "CREATE TABLE u (k INTEGER REFERENCES t (k) ON DELETE CASCADE, s TEXT)",
)
ALTERED = (
    "ALTER TABLE t ALTER COLUMN n TYPE TEXT",
    "ALTER TABLE t ALTER COLUMN s SET NOT NULL",
    "ALTER TABLE u ADD COLUMN z INTEGER DEFAULT 7",
    "ALTER TABLE t RENAME COLUMN f TO g",
)

WHOLE = ("0", "1", "2", "3", "7", "13", "-1", "- 2", "2147483648", "-2147483648", "1_0", "1e1")
LONG = (
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809",
    "12345678901234567890123", "1.00000000000000000001", "- 3.14159265358979323846",
)  # fmt: skip
LITERALS = {
    "k": (*WHOLE[:7], "'4'", "1.0"),
    "n": (*WHOLE, *LONG, "1 + 4"),
    "x": ("1.5", "-2.25", "3", "12345.678", "'1.25'", "0.005", "99999", *LONG),
    "f": ("1.5", "1e-3", "-0.0", "2", "'nan'", "12345678901234567890.5", *LONG),
    "s": (
        "'a'",
        "''",
        "'it''s'",
        "'--'",
        "'?'",
        "'b''",
        "5",
        "'\\n'",
        "E'a'",
        "'x' || 'y'",
        "'a' 'b'",
    ),
    "d": ("'2026-01-31'", "DATE '2026-02-01'", "'2026-02-30'", "'2026-01-31'::DATE"),
    "m": ("'2026-01-31 10:20:30'", "TIMESTAMP '2026-01-31 00:00:00'", "'x'"),
    "b": ("TRUE", "FALSE", "'true'", "1"),
    "w": ("1.5", f"-{10**31}.123456", f"- {10**31}.000001", f"{10**32 - 1}", "9" * 40, *LONG),
}
NONE = ("NULL", "DEFAULT", "/* 5 */ NULL", "NULL -- '6\n")


def _value(random: Random, column: str) -> str:
    """A literal; most are of one form, so that texts come again."""
    one = random.choice(NONE) if random.random() < 0.1 else random.choice(LITERALS[column])
    return one if random.random() < 0.4 else random.choice(LITERALS[column][:3])


def _condition(shape: Random, random: Random) -> str:
    column = shape.choice("knxfsdmw")
    one = _value(random, column)
    return shape.choice(
        (
            f"{column} = {one}",
            f"{column} = {one}",
            f"k = {_value(random, 'k')} AND NOT {column} = {one}",
            f"{column} < {one} OR (k = {_value(random, 'k')})",
            f"n + {_value(random, 'k')} > k * {_value(random, 'k')}",
            f"{column} IN ({one}, {_value(random, column)})",
            f"{column} BETWEEN {one} AND {_value(random, column)}",
            f"s LIKE {_value(random, 's')}",
            f"d + INTERVAL '{random.randint(1, 3)}' DAY > m",
            f"d + {random.randint(1, 3)} > m",
            f'"k" = {_value(random, "k")}',
            f"k IN (SELECT k FROM u WHERE s = {_value(random, 's')})",
        )
    )


def statement(shape: Random, random: Random) -> str:
    """An INSERT, UPDATE or DELETE; those of one shape differ in literals."""
    chosen = shape.random()
    if chosen < 0.4:
        columns = shape.choice(("knxfsdmbw", "knxfsdmbw", "kn", "ks", "knxs", "sk"))
        rows = ", ".join(
            f"({', '.join(_value(random, one) for one in columns)})"
            for _ in range(shape.choice((1, 1, 1, 2)))
        )
        more = shape.choice(
            (
                "", "", "", " RETURNING n, s", " ON CONFLICT DO NOTHING",
                f" ON CONFLICT (k) DO UPDATE SET n = excluded.n + {_value(random, 'k')}",
            )
        )  # fmt: skip
        named = "" if len(columns) == 9 else f" ({', '.join(columns)})"
        return f"INSERT INTO t{named} VALUES {rows}{more}"
    if chosen < 0.5:
        return f"INSERT INTO u VALUES ({_value(random, 'k')}, {_value(random, 's')})"
    where = f" WHERE {_condition(shape, random)}"
    if chosen < 0.75:
        column = shape.choice("knxfsdmw")
        change = shape.choice((_value(random, column), f"{column} + {_value(random, 'k')}"))
        return f"UPDATE t SET {column} = {change}{where}"
    if chosen < 0.8:
        return f"UPDATE nowhere SET a = {_value(random, 'k')} WHERE k = {_value(random, 'k')}"
    return f"DELETE FROM {shape.choice(('t', 't', 'u'))}{where}"


@contextmanager
def _read_each_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(connection, "remembered", parsing.statements)
        yield


def _outcome(db: Any, sql: str, parameters: Any = ()) -> Any:
    try:
        found = db.execute(sql, parameters)
    except SqlError as error:
        return type(error), str(error)
    return found.rowcount, [] if found.description is None else found.fetchall()


def _tables(db: Any) -> list[Any]:
    return [sorted(map(repr, db.execute(f"SELECT * FROM {one}").fetchall())) for one in "tu"]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_agree_a_text_that_comes_again_with_other_literals(monkeypatch, dialect) -> None:
    random = Random(dialect)
    done = refused = 0
    again._form.cache_clear()
    for case in range(6):
        with (
            deltafix.sql.connect(dialect=dialect) as db,
            deltafix.sql.connect(dialect=dialect) as other,
        ):
            for one in TABLES:
                db.execute(one)
                other.execute(one)
            for turn in range(120):
                if random.random() < 0.05:
                    sql = random.choice((*ALTERED, "BEGIN", "COMMIT", "ROLLBACK", "DELETE FROM t"))
                else:
                    sql = statement(Random(f"{case} {random.randrange(12)}"), random)
                found = _outcome(db, sql)
                with _read_each_time(monkeypatch):
                    assert found == _outcome(other, sql), (case, turn, sql)
                done += found[0] == 1
                refused += found[0] in SqlError.__subclasses__()
            db.commit()
            other.commit()
            assert _tables(db) == _tables(other), case
    assert done > 60
    assert refused > 60
    assert 2 * again._form.cache_info().hits > again._form.cache_info().misses


VALUES = (
    0, 1, 2, -3, 2**31, -(2**62), True, False, None, 1.5, -0.0, float("inf"), "a", "", "it's", "4",
    "2026-01-31",
    "\ud800", Decimal("1.50"), Decimal("-2"), Decimal("NaN"), date(2026, 1, 31),
    datetime(2026, 1, 31, 10, 20), datetime(2026, 1, 31, tzinfo=UTC), b"\0", [1, 2], {"a": 1},
    2**63, 2**70,
)  # fmt: skip
FITTING: dict[str, tuple[Any, ...]] = {
    "k": (0, 1, 2, 3),
    "n": (4, -5, 2**40, None, True),
    "x": (Decimal("1.25"), 3, "2.5", None),
    "f": (1.5, 2, -0.0, Decimal("0.5")),
    "s": ("a", "", "it's", None),
    "d": (date(2026, 1, 31), "2026-02-01", None),
    "m": (datetime(2026, 1, 31, 10, 20), "2026-01-31", date(2026, 1, 31)),
}
WITH_PARAMETERS = (
    ("INSERT INTO t (k, n, s) VALUES (?, ?, ?)", "kns"),
    ("INSERT INTO t (k, x, f) VALUES (?, ? + 1, -?)", "kxf"),
    (
        "INSERT INTO t (k, d, m) VALUES (?, ?, ?) ON CONFLICT (k) DO UPDATE SET n = ?, d = ?",
        "kdmnd",
    ),
    ("UPDATE t SET n = ?, s = ? WHERE k = ?", "nsk"),
    ("UPDATE t SET x = x + ?, d = d + ? WHERE NOT (k <> ? OR f > ?)", "xkkf"),
    ("UPDATE t SET m = ? WHERE d = ? OR m = ?", "mdm"),
    ("UPDATE t SET s = ? || s WHERE k IN (?, ?) AND s LIKE ?", "skks"),
    ("DELETE FROM t WHERE n = ? AND s = ?", "ns"),
    ("DELETE FROM t WHERE k = ? RETURNING k + ?", "kk"),
)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_a_parameter_is_what_a_literal_of_its_value_is(seed) -> None:
    random = Random(seed)
    done = Counter[str]()
    with deltafix.sql.connect() as db, deltafix.sql.connect() as other:
        for one in TABLES:
            db.execute(one)
            other.execute(one)
        for turn in range(600):
            sql, columns = random.choice(WITH_PARAMETERS)
            given = [
                random.choice(FITTING[one] if random.random() < 0.9 else VALUES) for one in columns
            ]
            found = _outcome(db, sql, given)
            parts = sql.split("?")
            try:
                literals = [f" {written(one, 'duckdb').sql('duckdb')}" for one in given]
            except ValueError:
                assert found[0] in SqlError.__subclasses__(), (turn, sql, given)
                continue
            inline = "".join(part + one for part, one in zip(parts, [*literals, ""], strict=True))
            wanted = _outcome(other, inline)
            assert found[0] == wanted[0], f"{turn} {sql} {given} {found} {wanted}"
            done[sql] += found[0] == 1
        assert _tables(db) == _tables(other)
    assert len(+done) == len(WITH_PARAMETERS)


def test_a_plan_is_of_the_table_that_has_its_name_now() -> None:
    insert, change = "INSERT INTO t VALUES (?, ?)", "UPDATE t SET b = ? WHERE a = ?"
    with deltafix.sql.connect() as db, deltafix.sql.connect() as other:
        other.execute("CREATE TABLE t (b INTEGER, a TEXT)")
        for kind, value in (("INTEGER", 5), ("DECIMAL(4, 1)", Decimal(5)), ("DOUBLE", 5.0)):
            db.execute(f"CREATE TABLE t (a INTEGER PRIMARY KEY, b {kind})")
            for key in range(3):
                db.execute(insert, (key, 1))
                db.execute(change, (5, key))
                other.execute(insert, (0, str(key)))
                other.execute(change, (key, "2"))
            assert db.execute("SELECT b FROM t").fetchall() == [(value,)] * 3
            db.execute("DROP TABLE t")
        found = Counter(other.execute("SELECT a, b FROM t").fetchall())
        assert found == {("0", 0): 3, ("1", 0): 3, ("2", 2): 3}
