"""Arithmetic and conditions: the engine's in views, Python's in a SELECT of rows.

A view wraps around at 64 bits and asks Python where that may matter, has a 0 where a value is NULL,
and conditions that are 1 or 0; the SELECT of one table computes each row in Python. Both give the
same value, or both refuse.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from decimal import Context, Decimal
from itertools import product
from random import Random
from typing import Any

import duckdb
import pytest
from tests.support.amount import cases

import deltafix.sql

EXPRESSIONS = cases(30)
COLUMNS = {
    "a": ("SMALLINT", (0, 1, -1, 7, 32767, -32768)),
    "b": ("INTEGER", (0, 3, -2, 99_999, 2**31 - 1, -(2**31))),
    "c": ("BIGINT", (0, 5, -4, 2**31, 3_037_000_500, -(2**32), 2**62, 2**63 - 1, -(2**63))),
    "d": ("DECIMAL(15, 2)", ("0", "1.05", "-104949.50", "30370004.99", "9999999999999.99")),
    "e": ("DECIMAL(18, 6)", ("0.000001", "-3.5", "999999999999.999999")),
    "f": ("DECIMAL(4, 4)", ("0.0001", "-0.0700", "0.9999")),
    "g": ("DECIMAL(38, 6)", ("0", "1", "-0.000001", "7", f"{10**32 - 1}.999999", f"-{10**31}.5")),
}
CASTS = ("BIGINT", "INTEGER", "DECIMAL(18, 2)", "DECIMAL(18, 2)", "DECIMAL(24, 3)")
TEXTS = ("x", "y")
PATTERNS = ("'x'", "'%'", "'%y%'", "'_'", "'z%'", "'%!_' ESCAPE '!'", "NULL", "y", "''")
REALS = (0.0, 1.5, -2.25, 1e308, 5e-324, float("inf"), float("nan"))
OTHERS = dict.fromkeys(TEXTS, ("TEXT", ("x", "y", "z"))) | {
    "t": ("BOOLEAN", (True, False)),
    "r": ("DOUBLE", REALS),
}


def _expression(random: Random, depth: int) -> str:
    if depth <= 0 or random.random() < 0.15:
        return random.choice((*COLUMNS, *COLUMNS, "1", "-1", "100", "0.5", "2.25"))
    one, two = _expression(random, depth - 1), _expression(random, depth - 1)
    kind = random.random()
    if kind < 0.12:
        return f"CASE WHEN {_condition(random, depth - 1)} THEN {one} ELSE {two} END"
    if kind < 0.15:
        return f"CASE WHEN {_condition(random, depth - 1)} THEN {one} END"
    if kind < 0.2:
        return f"CASE a WHEN 1 THEN {one} WHEN 7 THEN {two} ELSE {random.choice('bcd')} END"
    if kind < 0.26:
        return f"(- {one})"
    if kind < 0.34:
        return f"CAST({one} AS {random.choice(CASTS)})"
    if kind < 0.44:
        return f"COALESCE({one}, {two})"
    if kind < 0.52:
        op, by = random.choice(("//", "%")), random.choice(("7", "-3", "100", "1", "-1", "b", "0"))
        return f"({random.choice((one, 'a', 'b', 'c', 'ABS(c)'))} {op} {by})"
    if kind < 0.58:
        calls = (f"ABS({one})", f"GREATEST({one}, {two})", f"LEAST({one}, {two}, a)")
        return random.choice(calls)
    return f"({one} {random.choice('+-**')} {two})"


def _condition(random: Random, depth: int) -> str:
    kind = random.random()
    if depth > 0 and kind < 0.4:
        one, two = _condition(random, depth - 1), _condition(random, depth - 1)
        return f"({one} {random.choice(('AND', 'OR'))} {random.choice(('', 'NOT '))}{two})"
    one, two = _expression(random, depth - 1), random.choice((*COLUMNS, "7", "-1", "0.5"))
    column, text = random.choice((*COLUMNS,)), random.choice((*TEXTS, "'x'", "'y'"))
    last = random.choice(("'y'", "'z'", "NULL"))
    return random.choice(
        (
            f"{one} {random.choice(('=', '<>', '<', '<=', '>', '>='))} {two}",
            f"{column} {random.choice(('=', '<>', '<', '<=', '>', '>='))} {two}",
            f"{random.choice(TEXTS)} {random.choice(('=', '<>'))} {text}",
            f"{random.choice((*COLUMNS, *TEXTS))} IS {random.choice(('', 'NOT '))}NULL",
            f"{column} BETWEEN {random.choice((*COLUMNS, '-1'))} AND {two}",
            f"{column} IN (1, 7, {random.choice(('0', '-2', 'NULL'))})",
            f"{random.choice(TEXTS)} NOT IN ('x', {last})",
            f"{random.choice(TEXTS)} {random.choice(('', 'NOT '))}LIKE {random.choice(PATTERNS)}",
            f"{random.choice(('STARTS_WITH', 'CONTAINS'))}({random.choice(TEXTS)}, {text})",
            random.choice(("t", "NOT t", "t IS NULL", "t = (a > 0)")),
            f"{_real(random, depth - 1)} {random.choice('<>=')} {random.choice('rabcdef')}",
        )
    )


def _real(random: Random, depth: int) -> str:
    """A float, whose zeros are one in a view."""
    if depth <= 0 or random.random() < 0.2:
        casts = ("CAST(b AS DOUBLE)", "CAST(d AS DOUBLE)", "CAST(-f AS DOUBLE)")
        return random.choice(("r", "r", "a", "b", "c", "d", "e", "f", "1.5", "2e0", *casts))
    return f"({_real(random, depth - 1)} {random.choice('+-*/')} {_real(random, depth - 1)})"


def _shown(random: Random) -> str:
    """A number, a truth or a text, of columns."""
    kind = random.random()
    if kind < 0.1:
        return f"({_real(random, 3)} + r)"
    if kind < 0.6:
        return _expression(random, 3)
    if kind < 0.8:
        return _condition(random, 2)
    texts = (*TEXTS, "'x'", "NULL")
    if kind < 0.9:
        return f"COALESCE({random.choice(TEXTS)}, {random.choice(texts)})"
    one, two = random.choice(texts), random.choice(TEXTS)
    return f"CASE WHEN {_condition(random, 2)} THEN {one} ELSE {two} END"


def _row(random: Random, nullable: set[str]) -> tuple[Any, ...]:
    found = []
    for name, (kind, values) in (COLUMNS | OTHERS).items():
        value = None if name in nullable and random.random() < 0.3 else random.choice(values)
        is_number = isinstance(value, str) and kind != "TEXT"
        found.append(Decimal(value) if is_number else value)
    return tuple(found)


def told(rows: list[tuple[Any, ...]]) -> list[Any]:
    """The last value of each row; NaN as one that is equal to itself."""
    return ["nan" if row[-1] != row[-1] else row[-1] for row in rows]


def test_oracle_expressions_of_views_are_those_of_rows() -> None:
    random = Random(64)
    values = refused = played = nulls = native = 0
    while played < EXPRESSIONS:
        shown = f"SELECT id, {_shown(random)} AS x FROM t"
        all_of = random.choice((0, 0, 1))
        nullable = {name for name in COLUMNS | OTHERS if all_of or random.random() < 0.3}
        columns = ", ".join(
            f"{name} {kind}{'' if name in nullable else ' NOT NULL'}"
            for name, (kind, _) in (COLUMNS | OTHERS).items()
        )
        with deltafix.sql.connect() as rows, deltafix.sql.connect() as views:
            for db in (rows, views):
                db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
            try:
                views.execute(f"CREATE VIEW v AS {shown}")
            except deltafix.sql.ProgrammingError:
                continue  # a product of more digits than a DECIMAL has
            played += 1
            native += "~" in "".join(one.name for one in views.catalog.program().functors)
            for number in range(12):
                row = (number, *_row(random, nullable))
                rows.execute("DELETE FROM t")
                rows.insert("t", [row])
                try:
                    wanted = rows.execute(shown).fetchall()
                except deltafix.sql.DataError:
                    refused += 1
                    with pytest.raises(deltafix.sql.DataError):
                        views.insert("t", [row])
                    continue
                views.insert("t", [row])
                values += 1
                nulls += wanted[0][1] is None
                found = views.execute("SELECT * FROM v WHERE id = ?", [number]).fetchall()
                assert (shown, row, told(found)) == (shown, row, told(wanted))
    assert values > EXPRESSIONS
    assert refused > EXPRESSIONS // 3
    assert nulls > EXPRESSIONS // 2
    assert native > EXPRESSIONS // 3


LEAST = -(2**63)


@pytest.mark.parametrize("one", ["-1", "CASE WHEN a > 0 THEN -1 ELSE 1 END", "(0 - 1)"])
def test_the_least_number_has_no_negative(one: str) -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, c BIGINT NOT NULL)")
        db.execute(f"CREATE VIEW v AS SELECT c * {one} AS x, {one} * c AS y FROM t")
        with pytest.raises(deltafix.sql.DataError, match="9223372036854775808 is no BIGINT"):
            db.insert("t", [(1, LEAST)])
        db.insert("t", [(1, LEAST + 1)])
        assert db.execute("SELECT * FROM v").fetchall() == [(-LEAST - 1, -LEAST - 1)]


def test_long_expressions_are_computed_too() -> None:
    """Written out as terms, a CASE would double with each WHEN, and a sum nest with each column."""
    for count in (9, 60):
        cases = " ".join(f"WHEN a = {n} THEN {n % 2} - c" for n in range(count))
        total = " + ".join(["c", "a"] * count)
        with deltafix.sql.connect() as db:
            db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, c BIGINT NOT NULL)")
            db.execute(f"CREATE VIEW v AS SELECT CASE {cases} ELSE c END AS x, {total} AS y FROM t")
            db.insert("t", [(n, 100 * n) for n in range(count + 1)])
            wanted = [((n % 2) - 100 * n, 101 * n * count) for n in range(count)]
            wanted.append((100 * count, 101 * count * count))
            assert sorted(db.execute("SELECT * FROM v").fetchall()) == sorted(wanted)


def test_decimals_of_different_scales_compare_exactly_beyond_18_digits() -> None:
    most, tiny = Decimal("9999999999999999.99"), Decimal("0.000000000000000001")
    with deltafix.sql.connect() as db:
        db.execute(
            """
            CREATE TABLE t (x DECIMAL(18, 2) PRIMARY KEY, y DECIMAL(18, 18), n BIGINT);
            CREATE VIEW more AS SELECT x FROM t WHERE x > y;
            CREATE VIEW same AS SELECT a.x FROM t AS a JOIN t AS b ON a.x = b.y;
            CREATE VIEW small AS SELECT x FROM t WHERE x < 0.000001 OR NOT y <= 2;
            CREATE VIEW whole AS SELECT a.x FROM t AS a, t AS b WHERE a.x = b.n AND b.n <= b.y
            """
        )
        db.insert(
            "t", [(most, tiny, 2**63 - 1), (Decimal(5), None, 5), (Decimal(0), Decimal(0), 0)]
        )
        found = {
            name: [x for (x,) in db.execute(f"SELECT * FROM {name}").fetchall()]
            for name in ("more", "same", "small", "whole")
        }
    assert found == {
        "more": [most],
        "same": [Decimal(0)],
        "small": [Decimal(0)],
        "whole": [Decimal(0)],
    }


@pytest.mark.parametrize(
    "shown",
    [
        "COALESCE(b, a + a)",
        "COALESCE(NULL, b, CAST(s AS INTEGER))",
        "COALESCE(b, a % 0)",
        "CASE WHEN b = 1 THEN b ELSE a + a END",
        "COALESCE(b, CASE WHEN a > 0 THEN a * a ELSE 0 END)",
    ],
)
def test_what_is_not_asked_for_is_no_error(shown: str) -> None:
    made = "CREATE TABLE t (a INTEGER, b INTEGER, s TEXT)"
    query = f"SELECT {shown} AS x FROM t"
    with deltafix.sql.connect() as db, duckdb.connect() as judge:
        db.execute(made)
        db.execute(f"CREATE VIEW v AS {query}")
        judge.execute(made)
        for one in (db, judge):
            one.execute("INSERT INTO t VALUES (2147483647, 1, 'x')")
        wanted = judge.execute(query).fetchall()
        assert db.execute("SELECT * FROM v").fetchall() == wanted
        assert db.execute(query).fetchall() == wanted
        with pytest.raises(deltafix.sql.DataError):
            db.execute("INSERT INTO t VALUES (2147483647, NULL, 'x')")


NUMBERS = (
    0, 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 2**53, 2**53 + 1, 10**18 - 1, -5,
)  # fmt: skip
FRACTIONS = tuple(map(Decimal, ("0.00", "0.01", "-0.01", "9007199254740993.00", "1.50")))
LONG = tuple(
    map(Decimal, ("0.0000", "1", "-0.0001", f"{10**34 - 1}.9999", f"-{10**30}.5", f"{2**63}", "7"))
)
FLOATS = (0.0, 2.0**63, -(2.0**63), 2.0**53, 1e300, 0.5)


def _long(random: Random) -> str:
    """A number near to one that columns have, often with more digits than a type has."""
    others = (100, 2**63, 2**64, 10**30, 10**34 - 1, 10**38, 10**45)
    whole = abs(random.choice((*NUMBERS, *others))) + random.choice((0, 0, 1))
    rest = random.choice(("", "", "", ".0", ".0000", ".00000000000000000001", ".010", ".5"))
    zeros = random.choice(("", "", "", "000"))
    return f"{random.choice(('', '-'))}{zeros}{whole}{rest}"


def _digits(number: Decimal) -> int:
    """How many a DECIMAL has, behind the point and before it."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digits) + max(exponent, 0), -exponent)


TESTS: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = (
    ("{x} = {n}", operator.eq),
    ("{n} = {x}", operator.eq),
    ("{x} <> {n}", operator.ne),
    ("{x} < {n}", operator.lt),
    ("{n} >= {x}", operator.le),
    ("{x} > {n}", operator.gt),
    ("{x} >= ({n})", operator.ge),
    ("{x} IN (7, {n})", lambda x, n: x in (7, n)),
    ("{x} NOT IN ({n}, 7.5)", lambda x, n: x not in (7.5, n)),
    ("{x} BETWEEN 0 AND {n}", lambda x, n: 0 <= x <= n),
    ("NOT ({x} BETWEEN {n} AND 0 OR {x} = 1)", lambda x, n: not (n <= x <= 0 or x == 1)),
    ("{x} IS NOT DISTINCT FROM {n}", operator.eq),
    ("CASE {x} WHEN {n} THEN TRUE ELSE FALSE END", operator.eq),
    ("NULLIF({x}, {n}) IS NOT NULL", operator.ne),
)


def test_oracle_comparisons_with_numbers_of_any_digits_are_exact() -> None:
    """In a SELECT of rows, in a view, and of the rows that a DELETE takes; as parameters, too."""
    random, seen = Random(19), Counter[object]()
    columns = "c BIGINT NOT NULL, n BIGINT, d DECIMAL(18, 2), f DOUBLE, w DECIMAL(38, 4)"
    rows = [
        (id_, c, random.choice((*NUMBERS, None)), d, random.choice(FLOATS), random.choice(LONG))
        for id_, (c, d) in enumerate(product(NUMBERS, FRACTIONS))
    ]
    with closing(deltafix.sql.connect()) as db:
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
        db.insert("t", rows)
        for played in range(4 * EXPRESSIONS):
            place = random.randint(1, 5)
            text, test = random.choice(TESTS)
            shown, x = _long(random), "cndfw"[place - 1]
            number: Any = Decimal(shown)
            if x == "f":
                number = float(number)
            wanted = {row[0] for row in rows if row[place] is not None and test(row[place], number)}
            where = text.format(x=x, n=shown)
            found = [db.execute(f"SELECT id FROM t WHERE {where}").fetchall()]
            given = [int(shown)] if "." not in shown else []
            if x != "f" and _digits(number) <= 38:  # beside a DOUBLE it is rounded
                given += [number, number.normalize(Context(prec=100))]
            asked = f"SELECT id FROM t WHERE {text.format(x=x, n='?')}"
            found += [db.execute(asked, [one]).fetchall() for one in given]
            seen["given"] += len(given)
            db.execute(f"CREATE VIEW v AS SELECT id FROM t WHERE {where}")
            found.append(db.execute("SELECT * FROM v").fetchall())
            db.execute(f"DROP VIEW v; BEGIN; DELETE FROM t WHERE {where}")
            left = {row for (row,) in db.execute("SELECT id FROM t").fetchall()}
            db.execute("ROLLBACK")
            assert left == {row[0] for row in rows} - wanted, (played, where)
            for one in found:
                assert {row for (row,) in one} == wanted, (played, where)
            seen[bool(wanted), len(wanted) < len(rows)] += 1
            seen[len(shown) > 20] += 1
    assert seen[True, True] > EXPRESSIONS
    assert seen[True] > EXPRESSIONS
    assert seen["given"] > 2 * EXPRESSIONS


def test_oracle_whole_numbers_are_bigints_to_the_last() -> None:
    """What DuckDB takes for a BIGINT is one; beyond is an error where a value has to be one."""
    for number in (-(2**63), -(2**63) + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30):
        for asked in (
            f"INSERT INTO t VALUES ({number}, 0)",
            f"INSERT INTO t VALUES (0, {number})",
            f"UPDATE t SET c = {number}",
            f"UPDATE t SET f = {number}",
            f"ALTER TABLE t ADD COLUMN z BIGINT DEFAULT {number}",
            f"UPDATE t SET c = - CAST({abs(number) - 1} AS BIGINT) - 1",
        ):
            answers = list[Any]()
            for engine in (deltafix.sql.connect(), duckdb.connect()):
                with closing(engine) as db:
                    db.execute("CREATE TABLE t (c BIGINT, f DOUBLE)")
                    db.execute("INSERT INTO t VALUES (5, 5)")
                    try:
                        db.execute(asked)
                    except (deltafix.sql.DataError, duckdb.ConversionException):
                        answers.append("error")
                    answers.append(sorted(db.execute("SELECT * FROM t").fetchall()))
            half = len(answers) // 2
            assert answers[:half] == answers[half:], asked


@pytest.mark.parametrize("shown", ["9" * 39, "-" + "9" * 39, "9" * 300])
def test_a_whole_number_of_more_digits_than_a_decimal_has_is_no_value(shown: str) -> None:
    with closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (c BIGINT)")
        for query in (
            f"SELECT {shown} AS x", f"SELECT c + {shown} AS x FROM t", f"SELECT ABS({shown}) AS x",
            f"CREATE VIEW v AS SELECT COALESCE(c, {shown}) AS x FROM t", f"SELECT [{shown}] AS x",
            f"SELECT {shown} AS x FROM t UNION ALL SELECT c FROM t",
        ):  # fmt: skip
            with pytest.raises(deltafix.sql.DataError, match=f"{shown} is no DECIMAL"):
                db.execute(query)
        casts = ("TRY_CAST({} AS BIGINT)", "CAST({} AS DOUBLE)", "CAST({} AS TEXT)")
        query = ", ".join(f"{cast.format(shown)} AS x{n}" for n, cast in enumerate(casts))
        assert db.execute(f"SELECT {query}").fetchall() == [(None, float(shown), shown)]


def test_a_fraction_of_more_digits_than_a_decimal_has_is_a_double() -> None:
    for shown in ("3.14159265358979323846264338327950288419", f"-2.{'0' * 38}", f"{10**38}.5"):
        with closing(deltafix.sql.connect()) as db:
            db.execute(f"CREATE VIEW v AS SELECT {shown} AS x, 2 * {shown} AS y")
            for query in (f"SELECT {shown} AS x, 2 * {shown} AS y", "SELECT * FROM v"):
                assert db.execute(query).fetchall() == [(float(shown), 2 * float(shown))]


@pytest.mark.parametrize(
    "shown", [f"{2**63}", f"-{2**63 + 1}", "9" * 38, "3.14159265358979323846", f"-{2**63}.0", "0.1"]
)
def test_a_number_of_more_than_64_bits_is_a_decimal(shown: str) -> None:
    exact = Decimal(shown)
    with closing(deltafix.sql.connect()) as db:
        db.execute(f"CREATE VIEW v AS SELECT {shown} AS x, -({shown}) AS y, [{shown}] AS z")
        wanted = [(exact, exact.copy_negate(), [exact])]
        assert db.execute("SELECT * FROM v").fetchall() == wanted
        assert db.execute(f"SELECT {shown}, -({shown}), [{shown}]").fetchall() == wanted
        assert db.execute("SELECT ?, -?, [?]", [exact] * 3).fetchall() == wanted
