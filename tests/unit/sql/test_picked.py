"""PRODUCT, FIRST, LAST and ANY_VALUE: as DuckDB has them, and where floats end."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judges.sql_judge import changes_followed

import deltafix.sql
from deltafix.sql.reducers import Product

EDITS = (
    "INSERT INTO t VALUES (1, NULL, 1, 1.5, 2.5, 'a'), (1, 5, 2, 2, 1.1, 'b'), "
    "(1, 6, 3, NULL, NULL, NULL), (2, NULL, 4, NULL, NULL, NULL)",
    "INSERT INTO t VALUES (2, -3, 5, -0.5, 100, 'c'), (2, 0, 6, 0, 0, 'd'), "
    "(3, 2, 7, 1e300, -1, 'e'), (3, 3, 8, 1e300, 2, 'f')",
    "DELETE FROM t WHERE a = 0 OR b = 8",
    "UPDATE t SET a = 7, s = 'z' WHERE b IN (1, 7)",
    "DELETE FROM t",
)
QUERIES = (
    "SELECT g, FIRST(a ORDER BY b) AS x, LAST(a ORDER BY b) AS y, "
    "ANY_VALUE(a ORDER BY b DESC) AS z FROM t GROUP BY g",
    "SELECT g, PRODUCT(a) AS x, PRODUCT(f) AS y, PRODUCT(p) AS z, PRODUCT(DISTINCT a) AS d "
    "FROM t GROUP BY g",
    "SELECT FIRST(s ORDER BY b DESC, a) FILTER (WHERE a > 1) AS x, "
    "LAST(s ORDER BY a NULLS FIRST, b) AS y, PRODUCT(a) FILTER (WHERE a > 0) AS z FROM t",
    "SELECT b, PRODUCT(a) OVER (PARTITION BY g ORDER BY b) AS x FROM t",
    "SELECT g, (SELECT LAST(o.a ORDER BY o.b) FROM t AS o WHERE o.g = t.g) AS x FROM t",
    "SELECT g, LAST(s ORDER BY b) AS x FROM t GROUP BY ROLLUP (g) HAVING PRODUCT(b) > 1",
    "SELECT g, FIRST(DISTINCT a ORDER BY a NULLS FIRST) AS x FROM t GROUP BY g",
    "SELECT LAST([a, b] ORDER BY b) AS x, FIRST({'p': p} ORDER BY b) AS y FROM t",
)


@pytest.mark.parametrize("query", QUERIES)
def test_oracle_they_are_those_of_duckdb(query: str, warm_kernel: None) -> None:
    table = "CREATE TABLE t (g INT, a INT, b INT, f DOUBLE, p DECIMAL(6, 2), s TEXT)"
    assert changes_followed([table], query, EDITS) > 2


NUMBERS = st.floats(allow_subnormal=True) | st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(NUMBERS, max_size=12), st.lists(NUMBERS, max_size=6), st.integers(0, 3))
def test_law_a_product_is_exact_whatever_came_and_went(
    kept: list[float], gone: list[float], scale: int
) -> None:
    if scale:
        kept, gone = [[one for one in some if isinstance(one, int)] for some in (kept, gone)]
    product = Product(scale)
    acc = product.initial
    for one in (*gone, *kept):
        acc = product.add(acc, one)
    for one in gone:
        acc = product.remove(acc, one)
    found = product.finish(acc)
    if any(math.isnan(one) for one in kept) or (0 in kept and any(map(math.isinf, kept))):
        assert math.isnan(found)
        return
    negative = sum(one < 0 for one in kept) % 2
    if any(map(math.isinf, kept)):
        assert found == (-math.inf if negative else math.inf)
        return
    exact = Fraction(1)
    for one in kept:
        exact *= Fraction(one) / 10**scale
    try:
        right = float(exact)
    except OverflowError:
        right = -math.inf if negative else math.inf
    assert found == right


def test_rows_that_order_by_leaves_equal_are_sorted_by_their_values() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        db.execute(
            "CREATE VIEW v AS SELECT FIRST(a ORDER BY b) AS x, LAST(a ORDER BY b) AS y, "
            "ANY_VALUE(a) AS z FROM t"
        )
        db.execute("INSERT INTO t VALUES (3, 1), (2, 1), (5, 1), (NULL, 1)")
        assert db.execute("SELECT * FROM v").fetchall() == [(2, None, 2)]
        db.execute("DELETE FROM t WHERE a IS NULL OR a = 2")
        assert db.execute("SELECT * FROM v").fetchall() == [(3, 5, 3)]
