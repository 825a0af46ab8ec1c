"""`IO=sqlite`: what is written reads back equal, and what is not a relation is said to be none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.errors import FactError, SinkError, SourceError, TypeMismatchError
from deltafix.facts.schema import Schema
from deltafix.facts.sink import write_output
from deltafix.facts.source import read_input
from deltafix.facts.sqlite import read_table, write_table

EDGE = Schema.of("edge", ["x", "y"], ["number", "number"])
MIXED = Schema.of('odd "name.of', ["n", 'u"', "f", "s"], ["number", "unsigned", "float", "symbol"])
ANY = Schema.of("any", [], [])
SQLITE = {"IO": "sqlite", "dbname": "d/facts.db"}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**64 - 1),
        st.floats(allow_nan=False),
        TEXT,
    ),
    max_size=5,
)


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_what_is_written_reads_back_equal(tmp_path_factory, rows) -> None:
    path = tmp_path_factory.mktemp("db") / "a.db"
    write_table(path, MIXED, rows)
    assert read_table(path, MIXED) == rows


def test_a_value_that_is_no_number_survives(tmp_path) -> None:
    schema = Schema.of("f", ["x"], ["float"])
    write_table(tmp_path / "a.db", schema, [(float("nan"),), (float("-inf"),)])
    (one,), (two,) = read_table(tmp_path / "a.db", schema)
    assert one != one  # noqa: PLR0124  only NaN differs from itself
    assert two == float("-inf")


def test_directives_name_a_database_below_the_folder(tmp_path) -> None:
    assert write_output(EDGE, SQLITE, [(1, 2)], tmp_path, StringIO()) == tmp_path / "d" / "facts.db"
    assert read_input(EDGE, SQLITE, tmp_path) == [(1, 2)]
    assert read_input(EDGE, {"IO": "sqlite", "filename": "d/facts.db"}, tmp_path) == [(1, 2)]
    for act in (
        lambda: read_input(EDGE, {"IO": "sqlite", "dbname": "../a.db"}, tmp_path),
        lambda: write_output(EDGE, {"IO": "sqlite", "dbname": "/a.db"}, [], tmp_path, StringIO()),
    ):
        with pytest.raises(SourceError, match="leaves the folder"):
            act()
    with pytest.raises(FactError, match=r"IO=sqlite wants a database: dbname="):
        read_input(EDGE, {"IO": "sqlite"}, tmp_path)


def test_a_table_is_made_anew_and_others_stay(tmp_path) -> None:
    path = tmp_path / "a.db"
    write_table(path, EDGE, [(1, 2), (3, 4)])
    write_table(path, ANY, [()])
    write_table(path, EDGE, [(5, 6)])
    assert read_table(path, EDGE) == [(5, 6)]
    assert read_table(path, ANY) == [()]
    write_table(path, ANY, [])
    assert read_table(path, ANY) == []


def test_a_view_serves_as_input_and_gives_way_to_output(tmp_path) -> None:
    path = tmp_path / "a.db"
    run(
        path,
        "CREATE TABLE t (a, b)",
        "INSERT INTO t VALUES (1, '2')",
        "CREATE VIEW edge AS SELECT * FROM t",
    )
    assert read_table(path, EDGE) == [(1, 2)]
    write_table(path, EDGE, [(3, 4)])
    assert read_table(path, EDGE) == [(3, 4)]


def test_a_write_that_fails_leaves_the_table(tmp_path) -> None:
    path = tmp_path / "a.db"
    write_table(path, EDGE, [(1, 2)])

    def rows():
        yield (3, 4)
        raise FactError("the source broke")

    with pytest.raises(FactError, match="the source broke"):
        write_table(path, EDGE, rows())
    assert read_table(path, EDGE) == [(1, 2)]


@pytest.mark.parametrize(
    ("create", "error", "message"),
    [
        ("CREATE TABLE other (x)", SourceError, "no such table: edge"),
        ("CREATE TABLE edge (x)", FactError, r"has 1 column, edge\(x: number, y: number\) has 2"),
        ("CREATE TABLE edge AS SELECT 1, 'a'", TypeMismatchError, "edge:1: column 'y' is 'a'"),
        ("CREATE TABLE edge AS SELECT 1, 1.5", TypeMismatchError, "column 'y' is '1.5'"),
        ("CREATE TABLE edge AS SELECT 1, NULL", FactError, "edge:1: column 'y' is NULL"),
        ("CREATE TABLE edge AS SELECT 1, x'00'", FactError, "column 'y' is bytes"),
    ],
)
def test_tables_that_are_not_the_relation(tmp_path, create, error, message) -> None:
    run(tmp_path / "a.db", create)
    with pytest.raises(error, match=message):
        read_table(tmp_path / "a.db", EDGE)


def test_files_that_are_no_databases(tmp_path) -> None:
    (tmp_path / "a.db").write_text("not a database, but long enough to be looked at" * 9)
    with pytest.raises(SourceError, match="not a database"):
        read_table(tmp_path / "a.db", EDGE)
    with pytest.raises(SinkError, match="not a database"):
        write_table(tmp_path / "a.db", EDGE, [])
    with pytest.raises(SourceError, match="no such database for edge"):
        read_table(tmp_path / "none.db", EDGE)
    with pytest.raises(SinkError, match="cannot be written"):
        write_table(tmp_path / "a.db" / "b.db", EDGE, [])
    assert not (tmp_path / "none.db").exists()
