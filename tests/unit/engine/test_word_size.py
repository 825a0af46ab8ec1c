"""Words of 32 bits at every door: what does not fit is refused, whatever it comes in."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deltafix
from deltafix.errors import FunctorError, ProgramError, TypeMismatchError
from deltafix.facts.source import read_input
from deltafix.rules.schemas import row_schemas

PROGRAM = """
.pragma "word-size" "32"
.type Pair = [a: number, b: unsigned]
.type Age <: number
.functor f(x: number): number
.decl n(x: number, y: unsigned)
.decl p(x: Pair)
.decl a(x: Age)
.decl out(x: number)
.input n
out(@f(x)) :- n(x, _).
"""
FITS = [(-(2**31), 0), (2**31 - 1, 2**32 - 1)]
BEYOND = [(2**31, 0), (-(2**31) - 1, 0), (0, 2**32)]


def table(row: tuple) -> pa.Table:
    return pa.table({"x": pa.array([row[0]], pa.int64()), "y": pa.array([row[1]], pa.uint64())})


DOORS: dict[str, Callable[[tuple], Any]] = {
    "rows": lambda row: [row],
    "several rows": lambda row: [(1, 1), row],
    "Arrow": table,
    "numpy": lambda row: np.array([row], dtype=np.int64),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("row", BEYOND, ids=str)
def test_rows_beyond_the_word_are_refused(door: str, row: tuple) -> None:
    with deltafix.connect(PROGRAM, functors={"f": lambda x: x}) as db:
        beyond = pytest.raises(TypeMismatchError, match=r"takes an int from (-2147483648|0) to")
        with beyond, db.transaction() as tx:
            tx.insert("n", DOORS[door](row))
        assert db.rows("n") == []
        with db.transaction() as tx:
            for fits in FITS:
                tx.insert("n", DOORS[door](fits))
        assert set(FITS) <= set(db.rows("n"))


def test_values_inside_others_are_refused_too() -> None:
    with deltafix.connect(PROGRAM, functors={"f": lambda x: x}) as db:
        for relation, row in (("p", ((2**31, 0),)), ("a", (2**31,))):
            with pytest.raises(TypeMismatchError), db.transaction() as tx:
                tx.insert(relation, [row])
        with db.transaction() as tx:
            tx.insert("p", [((2**31 - 1, 2**32 - 1),)])


@pytest.mark.parametrize("data", ["2147483648\t1\n", "1\t1\n1\t4294967296\n", "0x80000000\t1\n"])
@pytest.mark.parametrize("kind", ["file", "gzip", "sqlite"])
def test_files_beyond_the_word_are_refused(tmp_path: Path, data: str, kind: str) -> None:
    schema = row_schemas(deltafix.Program.parse(PROGRAM))["n"]
    parameters = {}
    if kind == "sqlite":
        parameters = {"IO": "sqlite", "dbname": "n.db"}
        with sqlite3.connect(tmp_path / "n.db") as database:
            database.execute("CREATE TABLE n (x, y)")
            rows = [line.split("\t") for line in data.splitlines()]
            database.executemany("INSERT INTO n VALUES (?, ?)", rows)
        database.close()
    else:
        packed = gzip.compress(data.encode()) if kind == "gzip" else data.encode()
        (tmp_path / "n.facts").write_bytes(packed)
        parameters = {"compress": "true"} if kind == "gzip" else {}
    with pytest.raises(TypeMismatchError, match="takes an int from"):
        read_input(schema, parameters, tmp_path)


def test_a_function_beyond_the_word_is_refused() -> None:
    with deltafix.connect(PROGRAM, functors={"f": lambda x: x << 20}) as db:
        with pytest.raises(FunctorError, match="to 2147483647"), db.transaction() as tx:
            tx.insert("n", [(2**20, 0)])
        assert db.rows("out") == []


def test_a_program_asks_how_wide_a_number_is(tmp_path: Path) -> None:
    text = (
        ".decl n(x: number) .decl m(x: symbol)\nn(RAM_DOMAIN_SIZE).\n"
        '#if RAM_DOMAIN_SIZE == 64\nm("wide").\n#else\nm("narrow").\n#endif\n'
    )
    file = tmp_path / "p.dl"
    file.write_text(text)
    found = {}
    for size in (None, 32, 64):
        with deltafix.connect(deltafix.Program.from_file(file, word_size=size)) as db:
            found[size] = (db.rows("n"), db.rows("m"))
    assert found[32] == ([(32,)], [("narrow",)])
    assert found[None] == found[64] == ([(64,)], [("wide",)])
    with deltafix.connect(f'{text}.pragma "word-size" "32"') as db:
        assert (db.rows("n"), db.rows("m")) == found[32]


def test_the_users_word_size_goes_before_the_program_s(tmp_path: Path) -> None:
    file = tmp_path / "p.dl"
    file.write_text('.pragma "word-size" "32"\n.decl n(x: number)\nn(3000000000).\n')
    with pytest.raises(ProgramError, match="does not fit number"):
        deltafix.Program.from_file(file)
    with deltafix.connect(deltafix.Program.from_file(file, word_size=64)) as db:
        assert db.rows("n") == [(3000000000,)]
    with pytest.raises(ValueError, match="one of 32, 64"):
        deltafix.Program.from_file(file, word_size=16)


def test_a_word_size_that_there_is_not_is_refused() -> None:
    with pytest.raises(ProgramError, match=r'DF114.*asks for "33" bits\n.*32 or 64'):
        deltafix.connect('.pragma "word-size" "33"\n.decl n(x: number)\nn(1).\n')
