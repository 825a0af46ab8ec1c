"""A state folder of SQL under random transactions, killed, torn and damaged, beside DuckDB.

Groups are large enough for the next values of `min` and `max` and for exact sums to be kept, values
are missing, infinite or NaN, views and a column come and go, and between transactions the folder is
closed, compacted or opened anew, by its image or without. A view that comes again may call another
function by the name of the one before. Invariant asserted after every kill: all tables and views
are those behind the last acknowledged transaction or the one at work, and what follows goes on from
there, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random

import duckdb
import pytest
from tests.faults.killing import left_by_kills
from tests.judges.sql_judge import Bag, bag
from tests.support.amount import every

import deltafix.sql

pytestmark = pytest.mark.usefixtures("warm_kernel")

TRANSACTIONS = 14
EVERY = every(23, fuzz=7)  # steps from one kill to the next
COLUMNS = {
    "id": "BIGINT", "g": "BIGINT", "v": "BIGINT", "f": "DOUBLE", "h": "DOUBLE",
    "d": "DECIMAL(12, 2)",
}  # fmt: skip
QUERIES = (
    "SELECT g, MIN(v) AS a, MAX(f) AS b, SUM(h) AS c, AVG(h) AS d, COUNT(d) AS e FROM m GROUP BY g",
    "SELECT MIN(f) AS a, MAX(d) AS b, SUM(h) AS c, SUM(v) AS d, COUNT(DISTINCT h) AS e FROM m",
    "SELECT g, MAX(v) FILTER (WHERE h > 0) AS a, SUM(DISTINCT h) AS b, MIN(d) AS c FROM m "
    "WHERE f IS NOT NULL GROUP BY g HAVING COUNT(*) > 2",
    "SELECT x.g, MAX(y.f) AS a, SUM(y.h) AS b FROM m x JOIN m y ON x.v = y.id GROUP BY x.g",
    "SELECT h, MIN(f) AS a, MAX(g) AS b, AVG(v) AS c FROM m GROUP BY h",
    "SELECT g, MIN(v) AS a, MAX(f) AS b, SUM(h) AS c, COUNT(*) AS d FROM m GROUP BY g",
    "SELECT g, AVG(h) AS a, MIN(d) AS b FROM m WHERE h > 0 GROUP BY g HAVING COUNT(*) > 2",
    "SELECT x.g, MAX(y.f) AS a FROM m x JOIN m y ON x.v = y.id GROUP BY x.g",
    "SELECT id, SUM(v) OVER (PARTITION BY g ORDER BY id ROWS 2 PRECEDING) AS a FROM m WHERE d > 0",
    "SELECT REVERSE(v::VARCHAR) AS a, COUNT(*) AS b, LENGTH(id::VARCHAR) AS c FROM m GROUP BY 1, 3",
    "SELECT id, REPLACE(d::VARCHAR, '.', '-') AS a, REVERSE(g::VARCHAR) AS b FROM m WHERE g > 0",
)
OTHERS = ("REVERSE", "MD5", "TRIM")
"""What a view calls in the place of the first of them."""
VALUES = {
    "v": lambda rng: str(rng.choice((rng.randrange(-60, 60), rng.randrange(1 << 40)))),
    "f": lambda rng: rng.choice(
        (f"{rng.randrange(900)}.25", "1e300", "-1e300", "'nan'::DOUBLE", "'inf'::DOUBLE", "5e-324")
    ),
    "h": lambda rng: rng.choice(
        (f"{rng.randrange(-99, 99)}.5",) * 9 + ("-0.0", "'-inf'::DOUBLE", "'nan'::DOUBLE")
    ),
    "d": lambda rng: rng.choice((f"{rng.randrange(99)}.05", "9999999999.99", "-9999999999.99")),
}


@cache
def script_of(seed: int) -> list[list[str]]:
    """Transactions, each a list of statements; the last one says how it ends."""
    rng = Random(f"kills {seed}")
    ids, views, wide = list[int](), set[int](), False
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    script = [[f"CREATE TABLE m ({columns})", "COMMIT"]]

    def value(column: str) -> str:
        return "NULL" if rng.random() < 0.2 else VALUES[column](rng)

    def insert() -> str:
        count = rng.choice((1, 3, 150))
        first = (ids[-1] if ids else 0) + 1
        ids.extend(range(first, first + count))
        rows = (
            f"({n}, {rng.choice(('NULL', *'00012'))}, {', '.join(map(value, VALUES))})"
            for n in range(first, first + count)
        )
        return f"INSERT INTO m (id, g, v, f, h, d) VALUES {', '.join(rows)}"

    for number in range(TRANSACTIONS):
        statements, kept = list[str](), (list(ids), set(views), wide)
        for _ in range(rng.randint(1, 3)):
            kind = rng.random()
            if number == 0 or kind < 0.35:
                statements.append(insert())
            elif kind < 0.55:
                best = rng.choice(("v", "f", "h", "d"))
                way = rng.choice(("<", ">"))
                least = VALUES[best](rng)
                statements.append(f"DELETE FROM m WHERE {best} {way} {least} AND id % 3 > 0")
            elif kind < 0.7:
                column = rng.choice([*VALUES])
                statements.append(
                    f"UPDATE m SET {column} = {value(column)} WHERE id % 7 = {rng.randrange(7)}"
                )
            elif kind < 0.93:
                at = rng.randrange(len(QUERIES))
                if at in views:
                    views.remove(at)
                    statements.append(f"DROP VIEW w{at}")
                else:
                    views.add(at)
                    query = QUERIES[at].replace(OTHERS[0], rng.choice(OTHERS))
                    statements.append(f"CREATE {{}}VIEW w{at} AS {query}")
            else:
                wide = not wide
                what = "ADD COLUMN e DOUBLE DEFAULT 0.5" if wide else "DROP COLUMN e"
                statements.append(f"ALTER TABLE m {what}")
            if rng.random() < 0.3:
                statements.append("SELECT COUNT(*) FROM m")
        if rng.random() < 0.15:
            ids, views, wide = kept
            statements.append("ROLLBACK")
        else:
            statements.append("COMMIT")
        script.append(statements)
    return script


def beside(seed: int, number: int) -> str:
    """What is done with the folder before a transaction."""
    return Random(f"beside {seed} {number}").choice(("", "", "", "open", "open", "compact"))


def state_of(db) -> dict[str, Bag]:
    """The rows of all there is."""
    found = {}
    for name in ("m", *(f"w{n}" for n in range(len(QUERIES)))):
        try:
            found[name] = bag(db.execute(f"SELECT * FROM {name}").fetchall())
        except (duckdb.CatalogException, deltafix.sql.ProgrammingError):
            continue
    return found


@cache
def wanted(seed: int) -> list[dict[str, Bag]]:
    """What DuckDB has before the script and after each transaction."""
    with duckdb.connect() as duck:
        found = [state_of(duck)]
        for statements in script_of(seed):
            transact(duck, statements, "")
            found.append(state_of(duck))
    return found


def transact(db, statements: list[str], materialized: str) -> None:
    for statement in ("BEGIN", *statements):
        db.execute(statement.format(materialized))


def play(folder: Path, seed: int, first: int) -> Iterator[int]:
    """The rest of a script, each transaction told once it is acknowledged."""
    db = deltafix.sql.connect(folder / "state")
    try:
        for number, statements in enumerate(script_of(seed)[first:], first):
            doing = beside(seed, number)
            if doing == "compact":
                db.compact()
            elif doing == "open":
                db.close()
                db = deltafix.sql.connect(folder / "state")
            transact(db, statements, "MATERIALIZED ")
            yield number + 1
    finally:
        db.close()


def run(folder: Path, seed: int) -> None:
    """What is killed: the script, and how much of it was acknowledged."""
    for number in play(folder, seed, 0):
        (folder / "told").write_text(str(number))


@pytest.mark.parametrize(("seed", "mode"), [(0, "die"), (1, "tear"), (2, "late"), (3, "tear")])
def test_oracle_a_kill_at_any_step_leaves_what_was_acknowledged(tmp_path, seed, mode) -> None:
    played = tmp_path / "played"
    played.mkdir()
    copies = left_by_kills(lambda folder: run(folder, seed), played, seed, EVERY, mode)
    for at, folder in copies.items():
        told = folder / "told"
        acknowledged = int(told.read_text()) if told.exists() else 0
        with closing(deltafix.sql.connect(folder / "state")) as db:
            found = state_of(db)
            db.engine.check_invariants()
        right = wanted(seed)
        there = [n for n in (acknowledged + 1, acknowledged) if right[n : n + 1] == [found]]
        assert there, (at, acknowledged)
        for _ in play(folder, seed, there[0]):
            pass
        with closing(deltafix.sql.connect(folder / "state")) as db:
            assert state_of(db) == right[-1]
            db.engine.check_invariants()
    assert len(copies) > 3


@pytest.mark.parametrize("seed", range(5, 9))
def test_oracle_a_damaged_image_is_told_and_derived_again(tmp_path, seed) -> None:
    rng, told = Random(seed), 0
    (tmp_path / "state").mkdir()
    right = wanted(seed)
    for number, statements in enumerate(script_of(seed)):
        with closing(deltafix.sql.connect(tmp_path / "state")) as db:
            assert state_of(db) == right[number], number
            transact(db, statements, "MATERIALIZED ")
            db.engine.check_invariants()
        image = tmp_path / "state" / "image"
        if image.exists() and rng.random() < 0.6:
            data = bytearray(image.read_bytes())
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            image.write_bytes(data)
            with closing(deltafix.sql.connect(tmp_path / "state")) as db:
                assert any("derived without an image" in one for one in db.engine.recovered)
                assert state_of(db) == right[number + 1], number
            told += 1
    assert told > 3
