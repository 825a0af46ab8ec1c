"""Functions of arrays of random arguments, as DuckDB, PostgreSQL and Spark compute them.

Sees: a function that gives another value, is an error where there is a value, or has a value where
that is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.judges.sql_judge import plain
from tests.support.amount import cases

import deltafix.sql

SEEDS = cases(2, per=20)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A, E: arrays of numbers and their elements; S, T: of texts; N: places and counts
POOLS = {
    "duckdb": {
        "A": "[3,NULL,1]|[]|NULL::INTEGER[]|[1,1]|[2]|[NULL]::INTEGER[]|[5,2,9,1,2]|[NULL,NULL,7]",
        "E": "1|2|NULL|7|NULL::INTEGER",
        "S": "['b','a','b']|[]::VARCHAR[]|NULL::VARCHAR[]|['',NULL]|['B','é','a']",
        "T": "'a'|''|NULL::TEXT|','",
        "D": "['nan'::DOUBLE,0.5,-0.0]|[NULL::DOUBLE]|[1.5,0.0,'nan'::DOUBLE,'inf'::DOUBLE]",
        "L": "[[1],[],NULL]|[[2,NULL],[1]]|NULL::INTEGER[][]|[]::INTEGER[][]",
        "N": "0|1|-1|3|NULL|5",
        "O": "'ASC'|'DESC'",
        "U": "'NULLS FIRST'|'NULLS LAST'",
    },
    "postgres": {
        "A": "ARRAY[3,NULL,1]|ARRAY[]::INTEGER[]|NULL::INTEGER[]|ARRAY[1,1]|ARRAY[5,2,9,1,2]",
        "E": "1|2|NULL::INTEGER|7",
        "S": "ARRAY['b','a','b']|ARRAY[]::TEXT[]|NULL::TEXT[]|ARRAY['',NULL]",
        "T": "'a'|''|NULL::TEXT|','",
    },
    "spark": {
        "A": "ARRAY(3,NULL,1)|CAST(ARRAY() AS ARRAY<INT>)|CAST(NULL AS ARRAY<INT>)|ARRAY(1,1)|"
        "ARRAY(5,2,9,1,2)|CAST(ARRAY(NULL) AS ARRAY<INT>)",
        "E": "1|2|CAST(NULL AS INT)|7",
        "S": "ARRAY('b','a','b')|CAST(NULL AS ARRAY<STRING>)|ARRAY('',NULL)",
        "T": "'a'|''|','",
        "L": "ARRAY(ARRAY(1),ARRAY(2,NULL))|ARRAY(ARRAY(1),NULL)",
        "N": "0|1|-1|3|5",
    },
}
FORMS = {
    "duckdb": (
        *("LIST_SORT({A})", "ARRAY_SORT({S})", "LIST_SORT({D})", "LIST_SORT({L})"),
        *("LIST_SORT({A},{O})", "LIST_SORT({A},{O},{U})", "LIST_REVERSE_SORT({A})"),
        *("LIST_REVERSE_SORT({D})", "LIST_SORT({D},{O},{U})", "LIST_UNIQUE({A})"),
        *(
            "LIST_UNIQUE({D})",
            "ARRAY_UNIQUE({S})",
            "LIST_POSITION({A},{E})",
            "LIST_INDEXOF({S},{T})",
        ),
        *(
            "ARRAY_POSITION({A},{E})",
            "LIST_HAS_ANY({A},{A})",
            "LIST_HAS_ALL({A},{A})",
            "{A} && {A}",
        ),
        *("{A} @> {A}", "{A} <@ {A}", "ARRAY_HAS_ANY({S},{S})", "ARRAY_HAS_ALL({S},{S})"),
        *("LIST_CONCAT({A},{A})", "LIST_CAT({A},{A})", "ARRAY_CONCAT({S},{S})", "({A}) || ({A})"),
        *("LIST_CONCAT({A},{A},{A})", "LIST_APPEND({A},{E})", "ARRAY_APPEND({S},{T})"),
        *("ARRAY_PUSH_BACK({A},{E})", "LIST_PREPEND({E},{A})", "ARRAY_PREPEND({E},{A})"),
        *("LIST_REVERSE({A})", "ARRAY_REVERSE({S})", "LIST_SUM({A})"),
        *("LIST_AVG({A})", "LIST_MIN({A})", "LIST_MAX({D})", "LIST_MAX({S})", "LIST_MIN({L})"),
        *("LIST_COUNT({A})", "LIST_FIRST({A})", "LIST_LAST({S})", "ARRAY_POP_BACK({A})"),
        *("LIST_PRODUCT({A})", "LIST_PRODUCT({D})", "LIST_MEDIAN({A})", "LIST_MEDIAN({D})"),
        *("LIST_STDDEV_POP({A})", "LIST_VAR_SAMP({A})", "LIST_BIT_OR({A})", "LIST_BIT_AND({A})"),
        *(
            "LIST_BIT_XOR({A})",
            "LIST_ANY_VALUE({S})",
            "LIST_STRING_AGG({S})",
            "LIST_MODE([2,{N},2])",
        ),
        *("LIST_BOOL_AND([(x > {N}) for x in {A}])", "LIST_BOOL_OR([(x > 2) for x in {A}])"),
        *(f"LIST_AGGREGATE({{A}},'{one}')" for one in ("sum", "min", "stddev", "count", "mean")),
        *("LIST_AGGR({A},'median')", "ARRAY_AGGREGATE({S},'string_agg','-')"),
        *("ARRAY_POP_FRONT({A})", "ARRAY_TO_STRING({S},{T})", "ARRAY_TO_STRING({A},'-')"),
        *("FLATTEN({L})", "RANGE({N})", "RANGE({N},{N})", "RANGE({N},{N},{N})"),
        *("GENERATE_SERIES({N})", "GENERATE_SERIES({N},{N})", "GENERATE_SERIES({N},{N},{N})"),
        *("LIST_SORT(LIST_DISTINCT({A}))", "LIST_SORT(ARRAY_DISTINCT({S}))"),
        *("LIST_SORT(LIST_INTERSECT({A},{A}))", "LIST_SORT(LIST_DISTINCT({D}))"),
        *("LIST_CONTAINS({A},{E})", "LIST_HAS({S},{T})", "ARRAY_CONTAINS({A},{E})"),
        *("[x * {N} for x in {A} if x > {N}]", "[s || {T} for s in {S}]"),
        *("[x + i for x, i in {A} if i <> {N}]", "[[y for y in x if y > 1] for x in {L}]"),
        *("LIST_REDUCE({A}, lambda x, y: x + y)", "LIST_REDUCE({A}, lambda x, y: x * 2 + y, {N})"),
        *("LIST_REDUCE({S}, lambda x, y: y || x, {T})", "LIST_REDUCE({A}, lambda x, y: x + 0.5)"),
        *("LIST_REDUCE({A}, lambda x, y, i: COALESCE(x, 0) + COALESCE(y, 0) * i)",),
        *("ARRAY_REDUCE({L}, lambda x, y: LIST_CONCAT(x, y), [0])",),
        *("LIST_TRANSFORM({A}, lambda x: x * 2 + {N})", "LIST_FILTER({A}, lambda x: x > {N})"),
        *("LIST_TRANSFORM({S}, lambda s: s || {T})", "ARRAY_TRANSFORM({A}, lambda x: x)"),
        *("LIST_FILTER({S}, lambda s: s IS NULL OR s <> {T})", "LIST_APPLY({D}, lambda d: d + 1)"),
        *(
            "LIST_TRANSFORM({A}, lambda x, i: COALESCE(x, 0) * i)",
            "LIST_TRANSFORM({A}, lambda Xy: xY + Xy)",
        ),
        *("LIST_FILTER({S}, lambda s, i: i > 1)", "LIST_FILTER({L}, lambda x: LEN(x) > 0)"),
        "LIST_TRANSFORM({L}, lambda x: LIST_FILTER(x, lambda y: y >= LEN(x)))",
        "LIST_TRANSFORM({A}, lambda x: CASE WHEN x > 1 THEN 'a' END)",
        "LIST_TRANSFORM(LIST_FILTER({A}, lambda x: x > 1), lambda x: -x)",
        "LIST_TRANSFORM({L}, lambda x: LIST_TRANSFORM(x, lambda x: x + 1))",
        "ARRAY_FILTER({A}, lambda x: x = {E})",
    ),
    "postgres": (
        *("ARRAY_APPEND({A},{E})", "ARRAY_PREPEND({E},{A})", "ARRAY_CAT({A},{A})", "{A} || {A}"),
        *("ARRAY_POSITION({A},{E})", "ARRAY_REMOVE({A},{E})", "ARRAY_TO_STRING({S},{T})"),
        *(
            "{A} @> {A}",
            "{A} <@ {A}",
            "{S} && {S}",
            "ARRAY_CAT({S},{S})",
            "ARRAY_TO_STRING({A},'-')",
        ),
    ),
    "spark": (
        *("ARRAY_SORT({A})", "SORT_ARRAY({A})", "SORT_ARRAY({S},FALSE)", "ARRAY_DISTINCT({A})"),
        *("ARRAY_UNION({A},{A})", "ARRAY_INTERSECT({A},{A})", "ARRAY_EXCEPT({A},{A})"),
        *("ARRAYS_OVERLAP({A},{A})", "ARRAY_POSITION({A},{E})", "ARRAY_APPEND({A},{E})"),
        *("ARRAY_PREPEND({A},{E})", "ARRAY_JOIN({S},{T})", "ARRAY_MAX({A})", "ARRAY_MIN({S})"),
        *("ARRAY_REMOVE({A},{E})", "REVERSE({A})", "FLATTEN({L})", "CONCAT({A},{A})"),
        *("{A} || {A}", "SEQUENCE({N},6)", "CONCAT({A},{A},{A})"),
        *("REDUCE({A}, 0, (a, x) -> a + x)", "AGGREGATE({A}, 1, (a, x) -> a * x, a -> a > 9)"),
        *("TRANSFORM({A}, x -> x * 2)", "TRANSFORM({A}, (x, i) -> COALESCE(x, 0) + i)"),
        *("FILTER({A}, x -> x > 1)", "FILTER({S}, (s, i) -> i > 0)", "FILTER({L}, x -> x[0] < 2)"),
    ),
}


def calls(seed: int, dialect: str, each: int) -> Iterator[tuple[str, str]]:
    """The form of a call, and the call."""
    random, pools = Random(f"lists {dialect} {seed}"), POOLS[dialect]
    for form in FORMS[dialect]:
        for _ in range(each):
            yield (
                form,
                re.sub(r"\{(\w)\}", lambda one: random.choice(pools[one[1]].split("|")), form),
            )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_oracle_functions_of_arrays_are_those_of_duckdb(seed: int) -> None:
    seen = Counter[str]()
    with closing(deltafix.sql.connect()) as db, duckdb.connect() as duck:
        for form, call in calls(seed, "duckdb", 10):
            try:
                wanted = duck.execute(f"SELECT {call}").fetchall()[0][0]
            except duckdb.Error:
                with pytest.raises(deltafix.sql.DatabaseError):
                    db.execute(f"SELECT {call} AS x")
                seen["error"] += 1
                continue
            assert plain(db.execute(f"SELECT {call} AS x").fetchall()[0][0]) == plain(wanted), call
            seen[form] += wanted is not None
    assert min(seen[form] for form in FORMS["duckdb"]) > 0


def test_oracle_functions_of_arrays_are_those_of_postgres(postgres: str) -> None:
    import psycopg

    seen = Counter[str]()
    with (
        closing(deltafix.sql.connect(dialect="postgres")) as db,
        psycopg.connect(postgres, autocommit=True) as server,
    ):
        for form, call in calls(0, "postgres", 12):
            found = db.execute(f"SELECT {call} AS x").fetchall()[0][0]
            wanted = server.execute(f"SELECT {call}").fetchall()[0][0]
            assert plain(found) == plain(wanted), call
            seen[form] += wanted is not None
    assert min(seen[form] for form in FORMS["postgres"]) > 0


@pytest.mark.spark
def test_oracle_functions_of_arrays_are_those_of_spark(spark: SparkSession) -> None:
    kept: list[tuple[str, Any]] = []
    with closing(deltafix.sql.connect(dialect="spark")) as db:
        for _, call in calls(0, "spark", 10):
            kept.append((call, db.execute(f"SELECT {call} AS x").fetchall()[0][0]))
    shown = ", ".join(f"{call} AS c{place}" for place, (call, _) in enumerate(kept))
    (row,) = spark.sql(f"SELECT {shown}").collect()
    for (call, found), wanted in zip(kept, row, strict=True):
        assert plain(found) == plain(wanted), call
