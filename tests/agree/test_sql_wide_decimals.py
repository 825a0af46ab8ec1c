"""DECIMALs of 19 to 38 digits: values and types as DuckDB has them, to the last digit.

Sees: a digit that is lost on the way (Python's own decimals are rounded to 28), another type, an
order that is not that of the numbers, a value that goes and leaves something behind. Where DuckDB
rounds, Python's fractions are asked.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import closing
from decimal import Context
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pytest
from tests.judges.sql_judge import changes_followed
from tests.support.amount import cases

import deltafix.sql

ALL = Context(prec=100)
CASES = cases(30)
COLUMNS = {
    "w": "DECIMAL(38, 4)",
    "v": "DECIMAL(20, 0)",
    "u": "DECIMAL(38, 30)",
    "n": "DECIMAL(10, 2)",
    "b": "BIGINT",
    "i": "INTEGER",
}
WIDE = ("w", "v", "u")
TABLE = f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})"


def _number(random: Random, name: str) -> str:
    """A value of a column: small, of all digits, or near to where a sum has one more."""
    digits, _, scale = COLUMNS[name].removeprefix("DECIMAL(").rstrip(")").partition(", ")
    if not scale:
        return str(random.choice((0, 1, -1, 7, 2**31 - 1, -(2**31))))
    most = 10 ** int(digits) - 1
    drawn = random.randrange(10 ** random.randint(1, int(digits)))
    whole = random.choice((0, 1, 10 ** int(scale), most, most // 2 + 1, drawn, drawn, drawn))
    return f"{ALL.scaleb(random.choice((1, -1)) * whole, -int(scale)):f}"


def _expression(random: Random, depth: int) -> str:
    """A wide decimal."""
    if depth <= 0 or random.random() < 0.2:
        return random.choice((*WIDE, "12345678901234567890.25", "CAST(n AS DECIMAL(22, 2))"))
    one = _expression(random, depth - 1)
    other = random.choice((_expression(random, depth - 1), "n", "b", "i", "1", "-1.5"))
    left, right = random.choice(((one, other), (other, one)))
    kind = random.randrange(12)
    if kind < 6:
        return f"({left} {random.choice('+-+-*%')} {right})"
    return (
        f"(- {one})",
        f"ABS({one})",
        f"ROUND({one}, {random.randint(-2, 6)})",
        f"{random.choice(('CEIL', 'FLOOR', 'TRUNC'))}({one})",
        f"CAST({one} AS DECIMAL({random.choice(('38, 2', '38, 10', '24, 0', '19, 4'))}))",
        f"CASE WHEN {left} {random.choice(('<', '=', '>='))} {right} THEN {one} END",
    )[kind - 6]


def _answer(engine: Any, query: str) -> tuple[Any, str]:
    """The value and its type; for an error its name."""
    try:
        found = engine.execute(query)
        return found.fetchone()[0], str(found.description[0][1])
    except (deltafix.sql.DataError, deltafix.sql.ProgrammingError):
        return None, "error"
    except duckdb.ConversionException:  # it casts what it compares
        return None, "no order" if "CASE" in query else "error"
    except (duckdb.OutOfRangeException, duckdb.InvalidInputException):
        return None, "error"


def test_oracle_expressions_have_duckdbs_values_and_types() -> None:
    """In a SELECT of a row, and in a view; an error where DuckDB has one."""
    random, seen = Random(38), Counter[str]()
    for _ in range(10 * CASES):
        shown = _expression(random, 3)
        row = ", ".join(
            "NULL" if random.random() < 0.1 else _number(random, name) for name in COLUMNS
        )
        with closing(deltafix.sql.connect()) as db, closing(duckdb.connect()) as duck:
            for engine in (db, duck):
                engine.execute(TABLE)
                engine.execute(f"INSERT INTO t VALUES ({row})")
            right, kind = _answer(duck, f"SELECT {shown} AS x FROM t")
            found, ours = _answer(db, f"SELECT {shown} AS x FROM t")
            said = f"{shown} of {row}"
            if kind in ("no order", "DOUBLE"):  # it rounds, or does not compare: we do neither
                seen[kind] += 1
            elif (kind == "error") is not (ours == "error") and right is None is found:
                seen["beside NULL"] += 1  # something else is none of a type
            elif kind == "error" or ours == "error":
                assert kind == ours, f"{said}: {right}, {found}"
                seen["error"] += 1
            else:
                assert (repr(found), ours.replace(" ", "")) == (repr(right), kind), said
                seen["NULL" if found is None else "value"] += 1
                seen["long"] += found is not None and len(found.as_tuple().digits) > 28
            try:
                db.execute(f"CREATE VIEW x AS SELECT {shown} AS x FROM t")
                kept = db.execute("SELECT * FROM x").fetchone()[0]
            except (deltafix.sql.DataError, deltafix.sql.ProgrammingError):
                assert ours == "error", said
            else:
                assert (ours, repr(kept)) == (ours, repr(found)), said
    assert seen["value"] > 4 * CASES
    assert seen["long"] > CASES // 2
    assert seen["error"] > CASES // 2
    assert seen["NULL"] > CASES // 2


TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, w DECIMAL(38, 4), n DECIMAL(10, 2))",
    "CREATE TABLE o (k DECIMAL(38, 4) PRIMARY KEY, b BIGINT, v DECIMAL(25, 2) NOT NULL)",
)
QUERIES = (
    "SELECT g, SUM(w) AS s, COUNT(w) AS c, MIN(w) AS a, MAX(w) AS z FROM t GROUP BY g",
    "SELECT SUM(w) AS s, SUM(DISTINCT w) AS d, COUNT(DISTINCT w) AS c FROM t",
    "SELECT g, SUM(w) FILTER (WHERE n > 0) AS s, MAX(w) FILTER (WHERE w < 0) FROM t GROUP BY g",
    "SELECT w, COUNT(*) AS c, SUM(CAST(n AS DECIMAL(38, 2))) AS s FROM t GROUP BY w",
    "SELECT g, QUANTILE_DISC(w, 0.3) AS q, ARRAY_AGG(w ORDER BY w DESC, id) AS l FROM t GROUP BY g",
    "SELECT g, ARG_MAX(id, w * 2 + id) AS i, FIRST(w ORDER BY w, id) AS f FROM t GROUP BY g",
    "SELECT g, SUM(w) AS s FROM t GROUP BY g HAVING SUM(w) > 5",
    "SELECT DISTINCT w FROM t",
    "SELECT id, w FROM t ORDER BY w DESC NULLS LAST, id LIMIT 3",
    "SELECT DISTINCT ON (g) g, w FROM t ORDER BY g, w NULLS LAST, id",
    "SELECT id, SUM(w) OVER (PARTITION BY g ORDER BY id) AS s FROM t",
    "SELECT id, RANK() OVER (ORDER BY w DESC), LAG(w, 1, 0.5) OVER (ORDER BY w, id) FROM t",
    "SELECT id, SUM(w) OVER (ORDER BY w RANGE BETWEEN 2.5 PRECEDING AND 1 FOLLOWING) AS s FROM t",
    "SELECT id, MAX(w) OVER (ORDER BY id ROWS 2 PRECEDING) AS m FROM t QUALIFY m = w",
    "SELECT t.id, o.b FROM t JOIN o ON t.w = o.k",
    "SELECT t.id, o.k FROM t LEFT JOIN o ON t.w > o.k AND t.g = o.b",
    "SELECT t.id, o.k FROM t JOIN o ON t.n = o.k",
    "SELECT t.id, o.k FROM t JOIN o ON t.n = o.v OR t.w = o.b",
    "SELECT k, b FROM (SELECT w AS k FROM t) AS x FULL JOIN o USING (k)",
    "SELECT v, id FROM (SELECT id, n AS v FROM t) AS x FULL JOIN o USING (v)",
    "SELECT b, id FROM (SELECT id, n AS b FROM t) AS x FULL JOIN o USING (b)",
    "SELECT id FROM t WHERE w IN (SELECT k FROM o) OR w NOT IN (1, 2.25, -0.0001)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.v < t.w AND o.b <= t.w)",
    "SELECT id FROM t WHERE w = (SELECT MAX(k) FROM o WHERE o.b = t.g)",
    "SELECT t.id, o.k FROM t ASOF JOIN o ON t.w >= o.k",
    "SELECT id FROM t WHERE (w, g) IN (SELECT k, b FROM o) OR (w, n) = (1.5, 7)",
    "SELECT id, (SELECT SUM(v * 2) FROM o WHERE o.k <= t.w) AS s FROM t",
    "SELECT w AS x FROM t UNION SELECT v FROM o UNION SELECT n FROM t",
    "SELECT w AS x FROM t EXCEPT SELECT k FROM o",
    "SELECT n AS x FROM t INTERSECT SELECT v FROM o",
    "SELECT b AS x FROM o UNION ALL SELECT n FROM t",
    "SELECT id, CASE WHEN w < n THEN w WHEN n IS NULL THEN 7 ELSE n END AS x FROM t",
    "SELECT id, COALESCE(w, n, g) AS x, GREATEST(w, n) AS y, NULLIF(w, n) AS z FROM t",
    "SELECT id, w BETWEEN n AND 1000 AS x, w IS DISTINCT FROM n AS y, w = 1.5 AS z FROM t",
    "SELECT id, [w, n] AS l, {'a': w, 'b': g} AS s FROM t WHERE {'a': w} <> {'a': CAST(2 AS "
    "DECIMAL(38, 4))}",
    "SELECT g, LIST_SUM(LIST(w ORDER BY id)) AS s, LIST_SORT(LIST(w ORDER BY id)) AS l FROM t "
    "WHERE w IS NOT NULL GROUP BY g",
    "SELECT g, CAST(SUM(w) AS TEXT) AS s, CAST(MIN(w) AS TEXT) || '!' AS m FROM t GROUP BY g",
    "WITH RECURSIVE r(w, d) AS (SELECT k, 0 FROM o UNION SELECT w + 1, d + 1 FROM r WHERE d < 2) "
    "SELECT * FROM r",
    "SELECT * FROM t PIVOT (SUM(w) AS s FOR g IN (0, 1) GROUP BY n)",
    "SELECT GROUPING(g) AS x, g, w, COUNT(*) AS c FROM t GROUP BY ROLLUP (g, w)",
)
VALUES = (
    *("0", "1.5", "2.25", "-0.0001", "0.0001", "7", "98765432109876543210.1234"),
    *("98765432109876543210.1235", "-1234567890123456789012345678.5", "NULL"),
)
NARROW = ("0", "1.5", "2.25", "7")


def _edits(random: Random, count: int) -> list[str]:
    found, ids, keys = list[str](), 0, set[str]()
    for _ in range(count):
        form, w, n = random.randrange(7), random.choice(VALUES), random.choice(NARROW)
        if form == 0:
            found.append(f"DELETE FROM t WHERE w {random.choice('<>=')} {w}")
        elif form == 1:
            found.append(f"UPDATE t SET w = w + {n} WHERE g = {random.randrange(3)}")
        elif form == 2:
            found.append(f"UPDATE t SET w = {w}, n = {n} WHERE id % 4 = {random.randrange(4)}")
        elif form == 3 and w not in keys and w != "NULL":
            keys.add(w)
            found.append(f"INSERT INTO o VALUES ({w}, {random.randrange(3)}, {n})")
        elif form == 4:
            found.append(f"UPDATE o SET v = v + 12345678901234567890.5 WHERE b = {ids % 3}")
        else:
            rows = [
                f"({ids + k}, {random.randrange(3)}, {random.choice(VALUES)}, {n})"
                for k in range(random.randint(1, 4))
            ]
            ids += len(rows)
            found.append(f"INSERT INTO t VALUES {', '.join(rows)}")
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_oracle_views_follow_edits_of_wide_decimals(query: str) -> None:
    random = Random(query)
    assert changes_followed(TABLES, query, _edits(random, 60)) > 2


def test_oracle_means_and_their_like_are_rounded_once() -> None:
    random, seen = Random(3), Counter[str]()
    calls = "AVG(w), MEDIAN(w), QUANTILE_CONT(w, 0.25), VAR_POP(w), PRODUCT(w), AVG(DISTINCT w)"
    with closing(deltafix.sql.connect()) as db:
        for one in TABLES:
            db.execute(one)
        db.execute(f"CREATE VIEW v AS SELECT {_named(calls)} FROM t")
        for edit in _edits(random, 12 * CASES):
            db.execute(edit)
            values = [Fraction(one) for (one,) in db.execute("SELECT w FROM t WHERE w IS NOT NULL")]
            found = db.execute("SELECT * FROM v").fetchone()
            if not values:
                assert found == (None,) * 6
                continue
            mean, distinct = sum(values) / len(values), {*values}
            deviation = sum((one - mean) ** 2 for one in values) / len(values)
            product = Fraction(1)
            for one in values:
                product *= one
            wanted = (
                mean, _quantile(values, Fraction(1, 2)), _quantile(values, Fraction(1, 4)),
                deviation, product, sum(distinct) / len(distinct),
            )  # fmt: skip
            assert found == tuple(map(_nearest, wanted)), values
            seen["large"] += abs(mean) > 10**18
    assert seen["large"] > CASES


def _named(calls: str) -> str:
    places = iter(range(9))
    return ", ".join(f"{one}) AS c{next(places)}" for one in calls.rstrip(")").split("), "))


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _quantile(values: list[Fraction], share: Fraction) -> Fraction:
    ranked, place = sorted(values), share * (len(values) - 1)
    low = int(place)
    return ranked[low] + (ranked[min(low + 1, len(ranked) - 1)] - ranked[low]) * (place - low)
