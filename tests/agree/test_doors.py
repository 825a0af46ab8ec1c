"""agree_*: random rows of random types, in by each door and out by each: the same rows.

A table of SQL, and a relation of rules, take rows of Python, of Arrow, of frames and of files, and
give them back so. Sees: a value that one door cuts, rounds or loses, a text that is another one or
NULL after a file, an error that is none of ours. The types one by one, with the values at their
ends, are `tests/unit/sql/test_doors.py`'s.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import closing
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.generators.sql_values import (
    drawn_float,
    drawn_kind,
    drawn_names,
    drawn_number,
    drawn_scalar,
    drawn_text,
    drawn_value,
    in_arrow,
    told,
)
from tests.support.amount import cases

import deltafix
import deltafix.sql
from deltafix.errors import FactError
from deltafix.facts.sink import write_output
from deltafix.facts.source import read_input
from deltafix.facts.values import Branch
from deltafix.rules.schemas import row_schemas
from deltafix.sql.cursor import arrow_type
from deltafix.sql.files import take_in, write_view
from deltafix.sql.parameters import written
from deltafix.sql.types import INTERVAL
from deltafix.web.json_values import read_sql, write_sql

SEEDS = cases(6, per=10)
Rows = list[tuple[Any, ...]]


def one_zero(value: Any) -> Any:
    """A value as it comes out: there is one zero of floats, and one NaN."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    if isinstance(value, Branch):
        return ["$", value.name, *map(one_zero, value.fields)]
    if isinstance(value, dict):
        return {name: one_zero(part) for name, part in value.items()}
    return [*map(one_zero, value)] if isinstance(value, list | tuple) else value


def same(rows: Any) -> list[Any]:
    """Rows in the order of their first column, to be compared."""
    return [told(one_zero(row)) for row in sorted(rows, key=lambda row: row[0])]


def rows_of(table: pa.Table) -> Rows:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class SqlTable:
    """A random schema, rows of it, and databases that have the schema."""

    def __init__(self, seed: int, folder: Path) -> None:
        random = Random(seed)
        names = drawn_names(random, random.choice((1, 2, 3)))
        self.folder = folder
        self.columns = [
            f"{name} {drawn_kind(random)}{' NOT NULL' * (random.random() < 0.25)}" for name in names
        ]
        with closing(self.made()) as db:
            columns = db.catalog.tables["t"].relation.columns
        self.names = [column.name for column in columns]
        self.kinds = [column.type for column in columns[1:]]
        self.rows: Rows = [
            (number, *(drawn_value(random, c.type, nullable=c.nullable) for c in columns[1:]))
            for number in range(random.choice((1, 3, 300)))
        ]

    def made(self, path: str | Path = ":memory:") -> deltafix.sql.Connection:
        db = deltafix.sql.connect(path)
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(self.columns)})")
        db.execute("CREATE VIEW w AS SELECT * FROM t")
        return db

    @property
    def table(self) -> pa.Table:
        """The rows as Arrow's, made without the engine."""
        kinds = [pa.int32(), *map(arrow_type, self.kinds)]
        columns = zip(*self.rows, strict=True)
        arrays = [pa.array(in_arrow(c), kind) for c, kind in zip(columns, kinds, strict=True)]
        return pa.Table.from_arrays(arrays, self.names)

    @property
    def is_framed(self) -> bool:
        """Whether frames and files of Parquet have such values: none has months."""
        return not any(kind.has(INTERVAL) for kind in self.kinds)


def by_parameters(db: deltafix.sql.Connection, given: SqlTable) -> None:
    db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(given.names))})", given.rows)


def by_literals(db: deltafix.sql.Connection, given: SqlTable) -> None:
    for row in given.rows[:20]:
        values = ", ".join(written(value, "duckdb").sql("duckdb") for value in row)
        db.execute(f"INSERT INTO t VALUES ({values})")
    db.insert("t", given.rows[20:])


def by_slices(db: deltafix.sql.Connection, given: SqlTable) -> None:
    db.insert("t", given.table.slice(1))
    db.insert("t", given.table.slice(0, 1))


def by_parquet(db: deltafix.sql.Connection, given: SqlTable) -> None:
    pq.write_table(given.table, given.folder / "t.parquet")
    take_in(db, "t", given.folder / "t.parquet")


def by_duckdb(db: deltafix.sql.Connection, given: SqlTable) -> None:
    """A file that DuckDB writes: names of fields have their capitals there."""
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        columns = (one.removesuffix(" NOT NULL") for one in given.columns)
        duck.execute(f"CREATE TABLE t (id INTEGER, {', '.join(columns)})")
        duck.register("given", given.table)
        duck.execute("INSERT INTO t SELECT * FROM given")
        duck.execute(f"COPY t TO '{given.folder / 't.parquet'}'")
    take_in(db, "t", given.folder / "t.parquet")


def by_csv(db: deltafix.sql.Connection, given: SqlTable) -> None:
    write_view(given.table, "t", given.folder)
    take_in(db, "t", given.folder / "t.csv")


SQL_IN: dict[str, Callable[[deltafix.sql.Connection, SqlTable], Any]] = {
    "rows": lambda db, given: db.insert("t", given.rows),
    "row by row": lambda db, given: [db.insert("t", [row]) for row in given.rows],
    "dicts": lambda db, given: db.insert(
        "t", [dict(zip(given.names, row, strict=True)) for row in given.rows]
    ),
    "parameters": by_parameters,
    "literals": by_literals,
    "Arrow": lambda db, given: db.insert("t", given.table),
    "slices": by_slices,
    "CSV": by_csv,
}
FRAMED: dict[str, Callable[[deltafix.sql.Connection, SqlTable], Any]] = {
    "polars": lambda db, given: db.insert("t", pl.from_arrow(given.table)),
    "pandas": lambda db, given: db.insert("t", given.table.to_pandas(types_mapper=pd.ArrowDtype)),
    "Parquet": by_parquet,
    "Parquet of DuckDB": by_duckdb,
}


def goes_out(db: deltafix.sql.Connection, given: SqlTable, wanted: list[Any]) -> None:
    """What is asked, told and written of a view is what was given."""
    columns = db.catalog.tables["t"].relation.columns
    found = db.execute("SELECT * FROM w").fetchall()
    assert same(found) == wanted
    sent = json.loads(json.dumps([[write_sql(value) for value in row] for row in found]))
    read = [[read_sql(v, c) for v, c in zip(row, columns, strict=True)] for row in sent]
    assert same(read) == wanted
    if not given.is_framed:
        return
    wanted = same(map(in_arrow, given.rows))
    assert same(rows_of(db.execute("SELECT * FROM w").to_arrow())) == wanted
    assert same(rows_of(db.delta("w").to_arrow().select(given.names))) == wanted
    assert same(db.execute("SELECT * FROM w").to_polars().rows()) == wanted


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_rows_of_sql_by_every_door(seed: int, tmp_path: Path) -> None:
    given = SqlTable(seed, tmp_path)
    wanted = same(given.rows)
    with closing(given.made()) as db:
        db.insert("t", given.rows)
        goes_out(db, given, wanted)
    for door, put in (SQL_IN | (FRAMED if given.is_framed else {})).items():
        with closing(given.made()) as db:
            told_of = db.subscribe("w")
            put(db, given)
            assert same(db.execute("SELECT * FROM w").fetchall()) == wanted, door
            assert same(row for change in told_of for row in change.added) == wanted, door
            assert db.replace("t", given.rows) == 0, door
            for (line,) in db.execute("EXPLAIN WHY SELECT * FROM w WHERE id < 9").fetchall():
                of, _, row = line.strip().partition(": ")
                assert len(db.execute(f"SELECT id FROM {of} WHERE {row}").fetchall()) == 1, line
            db.execute("DELETE FROM t")
            assert db.execute("SELECT * FROM w").fetchall() == [], door
    with closing(given.made(tmp_path / "state")) as db:
        db.insert("t", given.rows)
    with closing(deltafix.sql.connect(tmp_path / "state")) as db:
        assert same(db.execute("SELECT * FROM w").fetchall()) == wanted


RECORDS = """
.type List = [head: number, tail: List]
.type Pair = [a: float, b: symbol]
.type Wide = [u: unsigned, p: Pair]
.type Tree = Leaf {v: Pair} | Node {l: Tree, r: Tree} | Nil {}
"""
BASES = ("number", "unsigned", "float", "symbol")
OPTIONAL = ("number", "float", "symbol")
LOGICAL = (
    *("boolean", "date", "time", "timestamp", "timestamptz", "blob", "uuid", "decimal(9, 4)"),
    *("decimal(18, 18)", "decimal(19, 0)", "decimal(38, 19)"),
)
KINDS = (*BASES, *LOGICAL, *(f"{one}?" for one in (*OPTIONAL, *LOGICAL)))
RECORD_KINDS = ("List", "Pair", "Wide", "Tree")
FORMS: tuple[dict[str, str], ...] = (
    {},
    {"delimiter": ","},
    {"delimiter": "::"},
    {"headers": "true"},
    {"rfc4180": "true"},
    {"rfc4180": "true", "delimiter": ";", "headers": "true"},
    {"compress": "true"},
    {"IO": "jsonfile"},
    {"IO": "jsonfile", "format": "object"},
    {"IO": "sqlite", "dbname": "r.db"},
)


def of_rules(random: Random, kind: str, depth: int = 3) -> Any:
    """A value of a type of rules."""

    def part(name: str) -> Any:
        return of_rules(random, name, depth - 1)

    if kind.endswith("?"):
        return None if random.random() < 0.3 else of_rules(random, kind[:-1])
    if kind in ("number", "unsigned"):
        return drawn_number(random, 64, signed=kind == "number")
    if kind == "float":
        return drawn_float(random)
    if kind == "symbol":
        return random.choice((drawn_text(random), "nil", '"nil"'))
    if kind not in RECORD_KINDS:
        return drawn_scalar(random, kind)
    if kind == "Tree":
        name = random.choice(("Nil", "Leaf", "Node") if depth else ("Nil",))
        fields = {"Nil": (), "Leaf": ("Pair",), "Node": ("Tree", "Tree")}[name]
        return Branch(name, tuple(map(part, fields)))
    if depth == 0 or random.random() < 0.3:
        return None
    fields = {"List": ("number", "List"), "Pair": ("float", "symbol"), "Wide": ("unsigned", "Pair")}
    return tuple(map(part, fields[kind]))


def frames(rows: pa.Table, folder: Path) -> dict[str, Any]:
    pq.write_table(rows, folder / "r.parquet")
    return {
        "Arrow": rows,
        "pieces": pa.concat_tables([rows.slice(1), rows.slice(0, 1)]),
        "Parquet": pq.read_table(folder / "r.parquet"),
        "pandas": rows.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(rows),
    }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_rows_of_rules_by_every_door(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    kinds = [random.choice(KINDS if random.random() < 0.75 else RECORD_KINDS) for _ in range(3)]
    columns = ", ".join(("id: number", *(f"c{n}: {kind}" for n, kind in enumerate(kinds))))
    program = deltafix.Program.parse(
        f"{RECORDS} .decl r({columns}) .input r .decl s({columns}) .output s "
        "s(id, a, b, c) :- r(id, a, b, c)."
    )
    given = [
        (number, *(of_rules(random, kind) for kind in kinds))
        for number in range(random.choice((1, 3, 300)))
    ]
    wanted, schema = same(given), row_schemas(program)["r"]

    def brings(rows: Any, door: object) -> None:
        with deltafix.connect(program) as db:
            with db.transaction() as tx:
                tx.insert("r", rows)
            assert same(db.rows("s")) == wanted, door
            assert same(tx.delta["s"].added) == wanted, door
            with db.transaction() as tx:
                tx.delete("r", given)
            assert db.count("s") == 0, door

    brings(given, "rows")
    with deltafix.connect(program, tmp_path / "state") as db:
        with db.transaction() as tx:
            tx.insert("r", given)
        table = db.to_arrow("r")
    with deltafix.connect(program, tmp_path / "state") as db:
        assert same(db.rows("s")) == wanted
        held = db.rows("r")
    for door, rows in frames(table.select(schema.names), tmp_path).items():
        brings(rows, door)
    refused = 0
    for form in FORMS:
        parameters = {"filename": "r.data", **form} if "dbname" not in form else form
        try:
            write_output(schema, parameters, held, tmp_path, StringIO())
        except FactError as error:  # without quotes a text cannot hold every character
            assert "rfc4180" in str(error)
            refused += 1
            continue
        brings(read_input(schema, parameters, tmp_path), form)
    assert refused <= 5
