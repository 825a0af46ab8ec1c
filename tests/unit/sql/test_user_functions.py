"""`create_function`: what SQL calls of Python, what it is given and what it may give."""

from __future__ import annotations

from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from functools import cache

import pytest

import deltafix.sql
from deltafix.sql import create_function

CALLS: list[str] = []


def _slug(text: str) -> str:
    CALLS.append(text)
    return text.lower().replace(" ", "-")


def _maybe(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


@pytest.fixture(scope="module", autouse=True)
def made() -> None:
    """The functions, also where other modules' tests come in between."""
    _made()


@cache
def _made() -> None:
    """Once: a name is one function for as long as a process lives."""
    create_function("test_slug", _slug, ["TEXT"], "TEXT")
    create_function(
        "test_tax",
        lambda p, r: round(p * r, 2),
        ["DECIMAL(9, 2)", "DECIMAL(4, 2)"],
        "DECIMAL(12, 2)",
    )
    create_function("test_maybe", _maybe, ["INTEGER", "INTEGER"], "INTEGER", takes_null=True)
    create_function("test_words", lambda text: text.split(), ["TEXT"], "TEXT[]")
    create_function("test_a", lambda s: s["a"], ["STRUCT(a INTEGER, b TEXT)"], "INTEGER")
    create_function("test_next", lambda d: d + timedelta(1), ["DATE"], "DATE")
    create_function("test_half", lambda x: x / 2, ["DOUBLE"], "DOUBLE")
    create_function("test_nothing", lambda text: None, ["TEXT"], "BIGINT")
    create_function("test_breaks", lambda text: {}[text], ["TEXT"], "TEXT")
    create_function("test_other", lambda text: 3, ["TEXT"], "TEXT")


TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT, p DECIMAL(9, 2), d DATE)"
VIEWS = """
CREATE VIEW shown AS SELECT id, test_slug(s) AS k, TEST_TAX(p, 0.19) AS tax, test_words(s) AS w,
    test_maybe(id - 1, 7) AS m, test_half(id) AS h, test_a({'a': id, 'b': s}) AS a,
    test_next(d) AS n, test_nothing(s) AS nothing FROM t WHERE test_slug(s) <> 'x' OR s IS NULL;
CREATE VIEW grouped AS SELECT test_slug(s) AS k, COUNT(*) AS n, SUM(test_tax(p, 0.19)) AS tax
    FROM t GROUP BY test_slug(s) HAVING LENGTH(test_slug(s)) > 1
"""
ROWS = [
    (1, "A b", Decimal(10), date(1969, 12, 31)), (2, None, None, None), (3, "X", Decimal(1), None),
    (4, "a B", Decimal("1.23"), None),
]  # fmt: skip


def test_views_call_functions_of_python_and_follow_edits(tmp_path, warm_kernel):
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        db.execute(TABLE)
        db.execute(VIEWS)
        db.insert("t", ROWS)
        assert db.execute("SELECT * FROM shown").fetchall() == [
            (1, "a-b", Decimal("1.90"), ["A", "b"], 0, 0.5, 1, date(1970, 1, 1), None),
            (2, None, None, None, 1, 1.0, 2, None, None),
            (4, "a-b", Decimal("0.23"), ["a", "B"], 3, 2.0, 4, None, None),
        ]
        db.execute("DELETE FROM t WHERE test_slug(s) = 'a-b' AND id > 1")
        delta = db.delta("grouped")
        assert delta.removed == [("a-b", 2, Decimal("2.13"))]
        assert delta.added == [("a-b", 1, Decimal("1.90"))]
        assert db.execute("SELECT test_maybe(NULL, 2), test_slug(NULL)").fetchall() == [(2, None)]
        seen = len(CALLS)
        db.insert("t", [(5, "A b", None, None)])
        assert len(CALLS) == seen  # the value of this text is remembered
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert db.execute("SELECT * FROM grouped").fetchall() == [("a-b", 2, Decimal("1.90"))]
        db.insert("t", [(6, "new One", None, None)])
        assert db.delta("grouped").added == [("new-one", 1, None)]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_each_dialect_calls_them(dialect, warm_kernel):
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        db.execute("CREATE TABLE t (s TEXT CHECK (test_slug(s) = s))")
        db.execute("INSERT INTO t VALUES ('a-b')")
        with pytest.raises(deltafix.sql.IntegrityError):
            db.execute("INSERT INTO t VALUES ('a b')")


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        ("test_breaks(s)", deltafix.sql.DataError, "TEST_BREAKS('X'): KeyError: 'X'"),
        ("test_other(s)", deltafix.sql.DataError, "TEST_OTHER('X'): 3 is no TEXT"),
        ("test_slug(id)", deltafix.sql.ProgrammingError, "write TEST_SLUG(TEXT)"),
        ("test_slug(s, s)", deltafix.sql.ProgrammingError, "write TEST_SLUG(TEXT)"),
        ("test_slug()", deltafix.sql.ProgrammingError, "write TEST_SLUG(TEXT)"),
        ("test_slugg(s)", deltafix.sql.NotSupportedError, "did you mean TEST_SLUG?"),
    ],
)
def test_what_goes_wrong_is_told_with_the_call_and_changes_nothing(call, kind, said, warm_kernel):
    with closing(deltafix.sql.connect()) as db:
        db.execute(TABLE)
        db.insert("t", [(3, "X", None, None)])
        with pytest.raises(kind) as caught:
            db.execute(f"CREATE VIEW v AS SELECT {call} AS x FROM t")
            db.execute("SELECT * FROM v")
        assert said in str(caught.value)
        assert "v" not in db.catalog.views


@pytest.mark.parametrize(
    ("name", "parameters", "result", "said"),
    [
        ("upper", ["TEXT"], "TEXT", "SQL has a function UPPER"),
        ("list_sum", ["TEXT"], "TEXT", "SQL has a function LIST_SUM"),
        ("select", ["TEXT"], "TEXT", "SQL has a function SELECT"),
        ("test_slug", ["TEXT"], "TEXT", "there is a function TEST_SLUG already"),
        ("a b", ["TEXT"], "TEXT", "'a b' is no name"),
        ("test_new", ["WHAT"], "TEXT", "is not maintained"),
        ("test_new", ["TEXT"], "GEOGRAPHY", "type GEOGRAPHY is not maintained"),
    ],
)
def test_what_cannot_be_a_function_is_refused(name, parameters, result, said):
    with pytest.raises((ValueError, deltafix.sql.NotSupportedError), match=said):
        create_function(name, str, parameters, result)
