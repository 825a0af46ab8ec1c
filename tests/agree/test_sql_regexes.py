"""Regular expressions of random patterns and texts, as DuckDB, PostgreSQL and Spark have them.

Sees: a value that is another one there, an error where there is a value, and a value where there is
an error. What a dialect's pattern means in RE2 is known for some only: the others are refused, so
there the rest is counted, and has to be the larger part of what plain pieces make.
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

import deltafix.sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = (
    *("", "a", "abc", "baac", "aXbXc", "hello wORLD, 3x", "é ü", "xxaxx", "a,b,,c", "2026-01-31"),
    *("a\nb\n", "ab12cd345", "ababab", "aabab", "ÉéE", "bb-aa-7", "ab\r\n", "a\u2028", "😀a😀"),
)
PIECES = (
    *("a", "b", "B", "[a-c]", "\\d", "\\w", "\\s", ".", "(a)", "(b|c)", "(\\d+)", "x*", "a+", "a?"),
    *("^", "$", "|", "[^a]", "(?:a|b)", "é", ",", "(?i)", "-", "(a*)*", "{2}", "*?", "(", "ab?"),
    *("(a?[ab]?)", "b{1,2}", "(?:ab)*", "\\.", "[^,]*", "(.*)", "([^-]*)", "(b?)", "[A-Z]", "\\n"),
    *("É", "]", "}", "+", "(a|ab)", "(?:(a)|b)+", "[^x]+?", "\\r", "[[:alpha:]]", "%", "_"),
)
OWN = {
    "duckdb": ("\\b", "\\pL", "\\z", "(?s)", "[[:^digit:]]"),
    "postgres": ("\\y", "\\Y", "\\m", "\\Z", "(?c)", "[]a]"),
    "spark": ("\\z", "\\b", "\\Q", "\\u0061", "[a&&b]", "\\p{L}"),
}
PUT = {
    "duckdb": ("", "x", "[\\1]", "\\0\\0", "\\2-\\1", "\\\\", "\\q", "$1", "é"),
    "postgres": ("", "x", "[\\1]", "<\\&>", "\\2-\\1", "\\\\", "\\q", "$1", "é", "\\"),
    "spark": ("", "x", "[$1]", "<$0>", "$2-$1", "\\\\", "\\q", "\\$1", "é", "$", "$11"),
}
FORMS = {
    "duckdb": (
        *("REGEXP_MATCHES({T},{P})", "REGEXP_MATCHES({T},{P},{O})", "REGEXP_FULL_MATCH({T},{P})"),
        *("REGEXP_FULL_MATCH({T},{P},{O})", "{T} ~ {P}", "{T} !~ {P}", "{T} ~* {P}"),
        *("{T} SIMILAR TO {P}", "REGEXP_REPLACE({T},{P},{R})", "REGEXP_REPLACE({T},{P},{R},'g')"),
        *("REGEXP_REPLACE({T},{P},{R},{O})", "REGEXP_EXTRACT({T},{P})", "REGEXP_ESCAPE({T})"),
        *("REGEXP_EXTRACT({T},{P},{N})", "REGEXP_EXTRACT({T},{P},{N},{O})"),
        *("REGEXP_EXTRACT_ALL({T},{P})", "REGEXP_EXTRACT_ALL({T},{P},{N})"),
        *("STRING_SPLIT_REGEX({T},{P})", "REGEXP_SPLIT_TO_ARRAY({T},{P})"),
    ),
    "postgres": (
        *("{T} ~ {P}", "{T} !~ {P}", "{T} ~* {P}", "{T} !~* {P}", "{T} SIMILAR TO {P}"),
        *("REGEXP_REPLACE({T},{P},{R})", "REGEXP_REPLACE({T},{P},{R},'g')"),
        *("REGEXP_REPLACE({T},{P},{R},'gi')", "REGEXP_SUBSTR({T},{P})", "REGEXP_COUNT({T},{P})"),
        *("REGEXP_INSTR({T},{P})", "REGEXP_SPLIT_TO_ARRAY({T},{P})", "REGEXP_MATCH({T},{P})"),
        "SUBSTRING({T} FROM {P})",
        "REGEXP_LIKE({T},{P},'i')",
    ),
    "spark": (
        *("{T} RLIKE {P}", "{T} NOT RLIKE {P}", "REGEXP_LIKE({T},{P})", "REGEXP_SUBSTR({T},{P})"),
        *("REGEXP_REPLACE({T},{P},{R})", "REGEXP_COUNT({T},{P})", "REGEXP_INSTR({T},{P})"),
        *("SPLIT({T},{P})", "SPLIT({T},{P},{N})", "REGEXP_EXTRACT({T},{P},{N})"),
        *("REGEXP_EXTRACT({T},{P})", "REGEXP_EXTRACT_ALL({T},{P},{N})"),
    ),
}


def calls(seed: int, dialect: str, count: int) -> Iterator[tuple[str, str]]:
    """The form of a call, and the call."""
    random = Random(f"regexes {dialect} {seed}")
    own = (*PIECES, *OWN[dialect])

    def quoted(text: str) -> str:
        if dialect == "spark":
            text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        return f"'{text}'"

    parts = {
        "T": lambda: quoted(random.choice(TEXTS)),
        "P": lambda: quoted("".join(random.choice(own) for _ in range(random.randint(0, 4)))),
        "R": lambda: quoted(random.choice(PUT[dialect])),
        "O": lambda: quoted(random.choice(("i", "g", "gi", "s", "c", "l", "m", "", "x", "ic"))),
        "N": lambda: str(random.randint(-1, 3)),
    }
    for _ in range(count):
        form = random.choice(FORMS[dialect])
        yield form, re.sub(r"\{(\w)\}", lambda found: parts[found[1]](), form)


def answer(db: deltafix.sql.Connection, call: str) -> Any:
    """What a call gives; an error as one."""
    try:
        ((found,),) = db.execute(f"SELECT {call} AS x").fetchall()
    except (deltafix.sql.ProgrammingError, deltafix.sql.NotSupportedError) as error:
        return error
    return plain(found)


@pytest.mark.parametrize("seed", range(3))
def test_oracle_regular_expressions_are_those_of_duckdb(seed: int) -> None:
    seen = Counter[str]()
    with closing(deltafix.sql.connect()) as db, duckdb.connect() as duck:
        for form, call in calls(seed, "duckdb", 500):
            found = answer(db, call)
            try:
                wanted = plain(duck.execute(f"SELECT {call}").fetchall()[0][0])
            except duckdb.Error:
                assert isinstance(found, deltafix.sql.ProgrammingError), call
                seen["error"] += 1
                continue
            if "EXTRACT_ALL" in form and wanted == () and isinstance(found, Exception):
                assert "group" in str(found)  # which DuckDB does not see where nothing is found
                continue
            assert found == wanted, call
            seen[form] += 1
    assert seen["error"] > 50
    assert seen.keys() >= {*FORMS["duckdb"]}


@pytest.mark.parametrize("seed", range(2))
def test_oracle_regular_expressions_are_those_of_postgres(seed: int, postgres: str) -> None:
    import psycopg

    seen = Counter[str]()
    with (
        closing(deltafix.sql.connect(dialect="postgres")) as db,
        psycopg.connect(postgres, autocommit=True) as server,
    ):
        for form, call in calls(seed, "postgres", 800):
            found = answer(db, call)
            if isinstance(found, Exception):
                seen["refused"] += 1
                continue
            theirs = re.sub("'(?=,| )", '\' COLLATE "C"', call, count=1)
            assert found == plain(server.execute(f"SELECT {theirs}").fetchall()[0][0]), theirs
            seen[form] += 1
    assert seen["refused"] < seen.total() / 2
    assert seen.keys() >= {*FORMS["postgres"]}


@pytest.mark.spark
def test_oracle_regular_expressions_are_those_of_spark(spark: SparkSession) -> None:
    seen, kept = Counter[str](), list[tuple[str, Any]]()
    with closing(deltafix.sql.connect(dialect="spark")) as db:
        for form, call in calls(0, "spark", 800):
            found = answer(db, call)
            if isinstance(found, Exception):
                seen["refused"] += 1
                continue
            kept.append((call, found))
            seen[form] += 1
    for start in range(0, len(kept), 50):
        part = kept[start : start + 50]
        shown = ", ".join(f"{call} AS c{place}" for place, (call, _) in enumerate(part))
        (row,) = spark.sql(f"SELECT {shown}").collect()
        for (call, found), wanted in zip(part, row, strict=True):
            assert found == plain(wanted), call
    assert seen["refused"] < seen.total() * 0.6
    assert seen.keys() >= {*FORMS["spark"]}


def test_a_pattern_may_be_computed_and_may_be_null() -> None:
    query = (
        "SELECT s, p, s ~ p AS m, REGEXP_REPLACE(s, p, '<\\0>', 'g') AS r, "
        "STRING_SPLIT_REGEX(s, p) AS l, REGEXP_EXTRACT(s, p) AS e FROM t"
    )
    rows = "('abc', 'b'), ('abc', NULL), (NULL, 'a'), ('aab', 'a*'), ('2026-11', '\\d+')"
    with closing(deltafix.sql.connect()) as db, duckdb.connect() as duck:
        for one in (db, duck):
            one.execute("CREATE TABLE t (s TEXT, p TEXT)")
        db.execute(f"CREATE VIEW v AS {query}")
        for one in (db, duck):
            one.execute(f"INSERT INTO t VALUES {rows}")
        found = [tuple(map(plain, row)) for row in db.execute("SELECT * FROM v").fetchall()]
        wanted = [tuple(map(plain, row)) for row in duck.execute(query).fetchall()]
        assert Counter(found) == Counter(wanted)
        with pytest.raises(deltafix.sql.DataError, match="missing"):
            db.execute("INSERT INTO t VALUES ('a', '(')")
        assert len(db.execute("SELECT * FROM v").fetchall()) == len(wanted)


@pytest.mark.parametrize(
    ("dialect", "expression", "place", "why"),
    [
        ("duckdb", "REGEXP_REPLACE(s, 'a(?=b)', '')", 26, "invalid perl operator"),
        ("duckdb", "REGEXP_REPLACE(s, 'a', '\\1')", 26, "group 1 of a pattern with 0"),
        ("duckdb", "REGEXP_MATCHES(s, 'a', 'q')", 26, "no option"),
        ("duckdb", "s ~ '(a{500}){500}'", 12, "repetition"),
        ("postgres", "s ~ '(a)\\1'", 12, "linear"),
        ("postgres", "s ~ 'a(?=b)'", 12, "not at the front"),
        ("postgres", "REGEXP_REPLACE(s, 'a.*?', '')", 26, "without `?`"),
        ("postgres", "REGEXP_REPLACE(s, '(a|ab)c', '\\1')", 26, "groups hold"),
        ("postgres", "s ~ '[[.a.]]'", 12, "collation"),
        ("postgres", "s ~ 'a{256}'", 12, "255 are the most"),
        ("postgres", "s SIMILAR TO '(?:a)'", 21, "no group"),
        ("spark", "REGEXP_REPLACE(s, 'a$', '')", 26, "write \\\\z"),
        ("spark", "s RLIKE '\\\\bword'", 16, "not one of"),
        ("spark", "s RLIKE '[a&&b]'", 16, "in brackets"),
        ("spark", "REGEXP_REPLACE(s, 'a*', '')", 26, "empty text"),
        ("spark", "REGEXP_EXTRACT(s, 'a')", 26, "group 1"),
    ],
)
def test_what_would_mean_another_thing_is_refused_where_it_stands(
    dialect: str, expression: str, place: int, why: str
) -> None:
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        db.execute("CREATE TABLE t (s STRING)" if dialect == "spark" else "CREATE TABLE t (s TEXT)")
        with pytest.raises(deltafix.sql.ProgrammingError, match=why) as caught:
            db.execute(f"SELECT {expression} AS x FROM t")
    assert f":1:{place}:" in str(caught.value)


def test_a_pattern_that_backtracks_for_ever_does_not() -> None:
    with closing(deltafix.sql.connect()) as db:
        ((found,),) = db.execute(
            "SELECT REGEXP_MATCHES(REPEAT('a', 20000), '^(a*)*(a|a)*b') AS x"
        ).fetchall()
    assert found is False
