"""Texts as BOOLEANs, of every way they are written, as DuckDB, PostgreSQL and Spark read them.

Sees: a word that one system takes and the dialect does not, or the other way round, or as another
value; a file of CSV that is read by other words than a CAST. All words are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import deltafix.sql
from deltafix.sql.files import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORDS = ("true", "false", "yes", "no", "on", "off", "1", "0", "2", "-1", "01", "null", "maybe", "")


def texts() -> Iterator[str]:
    """Each word and what it begins with, in small, capital and mixed letters, between blanks."""
    for word in sorted({one[:end] for one in WORDS for end in range(len(one) + 1)}):
        yield from {word, word.upper(), word.capitalize(), f" {word}", f"{word} "}


def truth(read: Callable[[str], bool | None], text: str) -> bool | str | None:
    try:
        return read(text)
    except (deltafix.sql.DataError, duckdb.Error):
        return "error"


def agree(
    dialect: str, wanted: Callable[[str], bool | str | None], misfit: str | None = "error"
) -> None:
    """Each text is read as wanted; `misfit` is what a CAST makes of one that is no BOOLEAN."""
    found = set()
    with closing(deltafix.sql.connect(dialect=dialect)) as db:
        for text in texts():
            ours = truth(lambda one: _first(db, f"SELECT CAST('{one}' AS BOOLEAN) AS x"), text)
            assert ours == wanted(text), (dialect, text)
            found.add(ours)
            tried = _first(db, f"SELECT TRY_CAST('{text}' AS BOOLEAN) AS x")
            assert tried == (None if ours == misfit else ours), (dialect, text)
    assert found == {True, False, misfit}


def _first(db: deltafix.sql.Connection, query: str) -> bool | None:
    return db.execute(query).fetchall()[0][0]  # type: ignore[no-any-return]


def test_oracle_truth_is_that_of_duckdb() -> None:
    with duckdb.connect() as duck:

        def read(text: str) -> bool | None:
            (row,) = duck.execute(f"SELECT CAST('{text}' AS BOOLEAN)").fetchall()
            return row[0]  # type: ignore[no-any-return]

        agree("duckdb", lambda text: truth(read, text))


def test_oracle_truth_in_a_file_is_that_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    kinds = "header=true, columns={'n': 'INTEGER', 'ok': 'BOOLEAN'}"
    taken = 0
    with duckdb.connect() as duck, closing(deltafix.sql.connect()) as db:
        db.execute("CREATE TABLE t (n INTEGER, ok BOOLEAN)")
        for text in texts():
            path.write_text(f"n,ok\n1,{text}\n2,\n")
            try:
                wanted = duck.execute(f"SELECT * FROM read_csv('{path}', {kinds})").fetchall()
            except duckdb.Error:
                continue
            db.execute("DELETE FROM t")
            take_in(db, "t", path)
            assert sorted(db.execute("SELECT * FROM t").fetchall()) == wanted, text
            taken += 1
    assert taken > 20


def test_oracle_truth_is_that_of_postgres(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as server:

        def read(text: str) -> bool | str | None:
            try:
                (row,) = server.execute(f"SELECT CAST('{text}' AS BOOLEAN)").fetchall()
            except psycopg.Error:
                return "error"
            return row[0]  # type: ignore[no-any-return]

        agree("postgres", read)


@pytest.mark.spark
def test_oracle_truth_is_that_of_spark(spark: SparkSession) -> None:
    every = sorted(set(texts()))
    shown = ", ".join(f"TRY_CAST('{one}' AS BOOLEAN) AS c{n}" for n, one in enumerate(every))
    (row,) = spark.sql(f"SELECT {shown}").collect()
    wanted = dict(zip(every, row, strict=True))
    agree("spark", lambda text: wanted[text], misfit=None)  # its CAST tries
