"""Names of columns that come from outside are compared as SQL compares names: without capitals."""

from __future__ import annotations

import random
from dataclasses import make_dataclass
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import deltafix.sql
from deltafix.facts.logical import as_columns
from deltafix.sql.files import take_in

COLUMNS = {
    "id": ("INTEGER", [1, 2, 3]),
    "full name": ("VARCHAR", ["a", None, ""]),
    "born": ("DATE", [date(2026, 1, 31), None, date(1999, 12, 1)]),
    "cost": ("DECIMAL(6, 2)", [Decimal("1.50"), Decimal("-2.00"), None]),
    "is_on": ("BOOLEAN", [True, False, None]),
}


def capitals(rng, name):
    """The name with some letters large."""
    return "".join(rng.choice((letter, letter.upper())) for letter in name)


def opened(rng):
    """A table whose columns are declared in some capitals."""
    db = deltafix.sql.connect()
    declared = ", ".join(f'"{capitals(rng, n)}" {kind}' for n, (kind, _) in COLUMNS.items())
    db.execute(f"CREATE TABLE t ({declared})")
    return db


@pytest.mark.parametrize("seed", range(6))
def test_capitals_make_no_other_column(tmp_path, warm_kernel, seed):
    rng = random.Random(seed)
    names = {name: capitals(rng, name) for name in rng.sample([*COLUMNS], len(COLUMNS))}
    frame = pa.table({names[name]: pa.array(COLUMNS[name][1]) for name in names})
    rows = frame.to_pylist()
    wanted = sorted(zip(*(values for _, values in COLUMNS.values()), strict=True))
    csv.write_csv(frame, tmp_path / "t.csv")
    parquet.write_table(frame, tmp_path / "t.parquet")
    ways = {
        "csv": lambda db: take_in(db, "t", tmp_path / "t.csv"),
        "parquet": lambda db: take_in(db, "t", tmp_path / "t.parquet"),
        "frame": lambda db: db.insert("t", frame),
        "replace": lambda db: db.replace("t", frame),
        "dicts": lambda db: db.insert("t", rows),
        "tuples": lambda db: db.insert(
            "t", [tuple(row.values()) for row in rows], columns=[*names.values()]
        ),
        "named": lambda db: db.insert("t", frame, columns=[capitals(rng, n) for n in COLUMNS]),
    }
    for way, fill in ways.items():
        with opened(rng) as db:
            fill(db)
            assert sorted(db.execute("SELECT * FROM t").fetchall()) == wanted, way


def test_objects_of_a_dataclass_too(warm_kernel):
    item = make_dataclass("Item", ["Id", "Born"])
    with opened(random.Random(0)) as db:
        db.insert("t", [item(7, date(2026, 1, 1))])
        assert db.execute("SELECT id, born FROM t").fetchall() == [(7, date(2026, 1, 1))]


@pytest.mark.parametrize(
    ("names", "columns", "found"),
    [
        (["Id", "NAME"], ["id", "name"], ["id", "name"]),
        (["id", "Id"], ["id"], ["id", "Id"]),  # one is written so, and the other is another
        (["Id", "ID"], ["id"], ["id", "id"]),  # neither is: whoever asks refuses two
        (["Id", "x"], ["id"], ["id", "x"]),
        (["id", "ID"], ["ID"], ["id", "ID"]),
        (["id", "Id"], ["Id", "id"], ["id", "Id"]),
        (["ID"], ["Id", "id"], ["ID"]),  # PostgreSQL has both, and it is neither
        ([], ["id"], []),
    ],
)
def test_a_name_is_one_column_or_none(names, columns, found):
    assert as_columns(names, columns) == found


@pytest.mark.parametrize("rows", [[{"Id": 1, "ID": 2}], pa.table({"Id": [1], "ID": [2]})])
def test_a_column_that_is_given_twice_is_refused(warm_kernel, rows):
    with opened(random.Random(0)) as db:
        with pytest.raises(deltafix.sql.ProgrammingError, match="column 'id' is given twice"):
            db.insert("t", rows)
        assert db.execute("SELECT * FROM t").fetchall() == []


def test_postgres_tells_quoted_capitals_apart(tmp_path, warm_kernel):
    (tmp_path / "t.csv").write_text("Id,id\n1,2\n")
    with deltafix.sql.connect(dialect="postgres") as db:
        db.execute('CREATE TABLE t (id INTEGER, "Id" INTEGER)')
        take_in(db, "t", tmp_path / "t.csv")
        assert db.execute('SELECT "Id", id FROM t').fetchall() == [(1, 2)]


def test_what_is_computed_has_the_name_of_no_argument() -> None:
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)")
        shown = "COUNT(*), UPPER('a'), 1 + id, CAST(id AS TEXT), (MAX(s)), -2, 7, 'x', ('y')"
        names = ["count", "column_2", "column_3", "id", "max", "column_6", "7", "x", "column_9"]
        read = db.execute(f"SELECT {shown} FROM t GROUP BY id").description
        assert [name for name, *_ in read or ()] == names
        db.execute(f"CREATE VIEW v AS SELECT {shown} FROM t GROUP BY id")
        assert [name for name, *_ in db.execute("SELECT * FROM v").description or ()] == names
        with pytest.raises(deltafix.sql.Error, match="two columns are called 'count'") as caught:
            db.execute("CREATE VIEW w AS SELECT COUNT(*), COUNT(id) FROM t")
        assert "AS count_2" in str(caught.value)
