"""Tables of PostgreSQL under views of SQL: what its own query says of them, after random changes.

Two tables with columns of every type that SQL has, NULLs, long values that updates leave as they
were, values that a type here does not have; rows told by key, or whole. Invariant: after each run
every view is what PostgreSQL answers to the same query over the rows that fit, in SQL's types, and
the deltas of its output lead to it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from json import dumps
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors
from tests.support.amount import cases

from deltafix.errors import DriftError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_deltas, read_view
from deltafix.pipeline.runner import Pipeline

SEEDS = 1 if JIT_DISABLED else cases(3)
LONG = "".join(Random("long").choices("abcdefghijklmnopqrstuvwxyz", k=3000))

KEYS: dict[str, list[Any]] = {
    "INTEGER": [1, 2, 3, 4, 5],
    "TEXT": ["1", "[2]", "nil", "", "x,"],
    "DATE": ["2026-01-01", "1969-12-31", "2000-02-29", "2026-01-02"],
    "NUMERIC(4, 1)": ["0.0", "-1.5", "2", "7.0"],
    "UUID": [
        "00000000-0000-0000-0000-000000000000",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{7fffffffffffffffffffffffffffffff}",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ],
    "TIMESTAMP WITH TIME ZONE": ["2026-01-01 00:00:00+00", "1960-01-01 12:00:00.5+00"],
}
PART = (
    "id KEY, kind TEXT NOT NULL, made DATE, at TIMESTAMP, sent TIMESTAMP WITH TIME ZONE, "
    "price NUMERIC(9, 2), weight DOUBLE PRECISION, ok BOOLEAN, note TEXT, many BIGINT, "
    "data BYTEA, owner UUID, tags JSONB, place JSON, PRIMARY KEY (id)"
)
OURS = {"JSONB": "TEXT[]", "JSON": "STRUCT(a TEXT, b DOUBLE PRECISION[])"}
"""The types of what a server has as JSON."""
LINE = "day DATE NOT NULL, amount NUMERIC(6, 1) NOT NULL, part KEY, sure BOOLEAN NOT NULL"
VIEWS = {
    "all_parts": "SELECT id, kind, made, at, sent, price, weight, ok, note, many, data, "
    "owner, tags, place FROM part",
    "told": "SELECT part.id, line.day, line.amount, part.sent FROM part "
    "JOIN line ON part.id = line.part WHERE line.sure OR part.ok IS NULL",
    "worth": "SELECT kind, sum(price) AS price, count(note) AS notes, max(sent) AS sent, "
    "bool_or(ok) AS ok, count(DISTINCT owner) AS owners FROM part GROUP BY kind",
}
VALUES: dict[str, list[Any]] = {
    "kind": ["a", "b", "", 'q"\n,'],
    "made": [None, "2026-02-28", "0001-01-01", "9999-12-31", "infinity", "0044-03-15 BC"],
    "at": [None, "2026-02-28 23:59:59.999999", "1969-12-31 23:59:59.5", "-infinity"],
    "sent": [None, "2026-06-30 12:00:00.25+05:30", "1970-01-01 00:00:00+00"],
    "price": [None, "0.00", "-1234567.89", "12.30", "NaN"],
    "weight": [None, 0.1, -0.0, 1e300, float("inf")],
    "ok": [None, True, False],
    "note": [None, "", "NULL", "nil", "[5]", LONG + "1", LONG + "2"],
    "many": [None, 2**63 - 1, -(2**63), 7],
    "data": [None, b"", b"\x00\xff" * 2000, b"\\x27" * 1500],
    "owner": [None, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000000000000000000000000001"],
    "tags": [None, "[]", '["", null, "x"]', dumps([LONG, '"\n', None])],
    "place": [None, '{"a": null, "b": null}', dumps({"a": LONG, "b": [0.1, None, -2e300]})],
}
FIT = (
    "isfinite(coalesce(made, 'epoch')) AND coalesce(made, 'epoch') >= '0001-01-01' "
    "AND isfinite(coalesce(at, 'epoch')) AND coalesce(price, 0) <> 'NaN'"
)
"""Which rows of `part` have values that the types have here."""
MISFITS = ("infinity", "-infinity", "0044-03-15 BC", "NaN")

Row = tuple[Any, ...]


class Tables:
    """Two tables, a pipeline that follows them, and what PostgreSQL says of them."""

    def __init__(self, uri: str, folder: Path, rng: Random, name: str) -> None:
        self.rng, self.folder, self.name = rng, folder, name
        self.db = psycopg.connect(uri, autocommit=True)
        self.db.execute("SET TimeZone = 'UTC'")
        self.key = rng.choice(list(KEYS))
        self.values = {"id": KEYS[self.key], **VALUES}
        part, line = (one.replace("KEY,", f"{self.key},") for one in (PART, LINE))
        ours = re.sub("|".join(OURS), lambda found: OURS[found[0]], part)
        self.db.execute(f"CREATE TABLE {name}_part ({part})")
        self.db.execute(f"CREATE TABLE {name}_line ({line})")
        for one in ("note", "data", "tags", "place"):
            self.db.execute(f"ALTER TABLE {name}_part ALTER {one} SET STORAGE EXTERNAL")
        self.db.execute(f"ALTER TABLE {name}_line REPLICA IDENTITY FULL")
        self.is_keyed = rng.random() < 0.7
        if not self.is_keyed:
            self.db.execute(f"ALTER TABLE {name}_part REPLICA IDENTITY FULL")
        else:  # of a row that was set aside the server does not tell again what is long
            fits = rng.random() < 0.5
            self.values = {
                name: [v for v in some if v not in MISFITS] if fits else [*filter(_is_short, some)]
                for name, some in self.values.items()
            }
        text = [f"CREATE TABLE part ({ours})", f"CREATE TABLE line ({line})"]
        text += [f"CREATE VIEW {view} AS {query}" for view, query in VIEWS.items()]
        (folder / "views.sql").write_text(";\n".join(text) + ";\n")
        self.toml = folder / "pipeline.toml"
        limit = rng.choice([1, 4, 1000])
        source = 'source = "postgres"\ndsn = "{}"\ntable = "{}"\nslot = "{}"\ntimeout = 5\n'
        told = {"part": 'key = "id"' if self.is_keyed else "", "line": 'duplicates = "ignore"'}
        inputs = [
            f"[input.{table}]\n" + source.format(uri, f"{name}_{table}", f"{name}_{table}") + more
            for table, more in told.items()
        ]
        outputs = [
            f'[output.{view}]\npath = "out/{view}"'
            + ('\nduplicates = "count"' if view == "told" else "")
            for view in VIEWS
        ]
        head = (
            '[pipeline]\nprogram = "views.sql"\ndialect = "postgres"\nstate = "state"\n'
            f'runner = "local"\nrows_per_epoch = {limit}\nbad_rows = "quarantine"'
        )
        self.toml.write_text("\n".join([head, *inputs, *outputs]) + "\n")

    def close(self) -> None:
        for table in ("part", "line"):
            with suppress(errors.UndefinedObject):
                self.db.execute("SELECT pg_drop_replication_slot(%s)", [f"{self.name}_{table}"])
            self.db.execute(f"DROP TABLE {self.name}_{table}")
        self.db.close()

    # --- changes -------------------------------------------------------------------------------

    def transaction(self) -> None:
        self.db.execute("BEGIN")
        for _ in range(self.rng.randrange(1, 6)):
            self.change_part() if self.rng.random() < 0.7 else self.change_line()
        self.db.execute("COMMIT" if self.rng.random() < 0.9 else "ROLLBACK")

    def change_part(self) -> None:
        rng, table = self.rng, f"{self.name}_part"
        values = {
            name: rng.choice(some) if rng.random() < 0.6 else some[rng.randrange(min(2, len(some)))]
            for name, some in self.values.items()
        }
        kind = rng.random()
        if kind < 0.4:
            names = ", ".join(values)
            marks = ", ".join(["%s"] * len(values))
            query = f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"
            self.db.execute(query, list(values.values()))
        elif kind < 0.75:
            one = rng.choice([name for name in values if name != "id"])
            self.db.execute(f"UPDATE {table} SET {one} = %s WHERE id = %s",
                            [values[one], values["id"]])  # fmt: skip
        elif kind < 0.85:
            query = (
                f"UPDATE {table} SET id = %s WHERE id = %s AND NOT EXISTS "
                f"(SELECT 1 FROM {table} WHERE id = %s)"
            )
            other = rng.choice(self.values["id"])
            self.db.execute(query, [other, values["id"], other])
        elif kind < 0.97:
            self.db.execute(f"DELETE FROM {table} WHERE id = %s", [values["id"]])
        else:
            self.db.execute(f"TRUNCATE {table}")

    def change_line(self) -> None:
        rng, table = self.rng, f"{self.name}_line"
        row = [rng.choice(["2026-01-01", "2026-02-28"]), rng.choice(["1.5", "-20.0"]),
               rng.choice([None, *self.values["id"]]), rng.random() < 0.7]  # fmt: skip
        kind = rng.random()
        if kind < 0.5:  # two equal rows would be one here: `duplicates = "ignore"`
            query = (
                f"INSERT INTO {table} SELECT %s::date, %s::numeric, %s::{self.key}, %s::boolean "
                f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE day = %s AND amount = %s "
                f"AND part IS NOT DISTINCT FROM %s::{self.key} AND sure = %s)"
            )
            self.db.execute(query, [*row, *row])
        elif kind < 0.7:
            query = f"UPDATE {table} SET day = day + 1 WHERE amount = %s"
            self.db.execute(query, [row[1]])
        else:
            self.db.execute(
                f"DELETE FROM {table} WHERE part IS NOT DISTINCT FROM %s::{self.key}", [row[2]]
            )

    # --- what must hold --------------------------------------------------------------------------

    def run(self) -> int:
        with Pipeline(read_config(self.toml)) as pipeline:
            return len(list(pipeline.drain()))

    def check(self) -> int:
        """Views and deltas are PostgreSQL's; how many rows were compared."""
        compared = 0
        for view, query in VIEWS.items():
            fit = f"FROM (SELECT * FROM {self.name}_part WHERE {FIT}) part"
            theirs = query.replace("FROM part", fit)
            theirs = theirs.replace("JOIN line", f"JOIN {self.name}_line line")
            wanted = Counter(map(_hashed, self.db.execute(theirs).fetchall()))
            if view == "told":
                wanted = Counter((*row, many) for row, many in wanted.items())
            folder = self.folder / "out" / view
            found = read_view(folder)[1]
            assert Counter(_rows(found)) == wanted, view
            net: Counter[Row] = Counter()
            for *row, sign, _ in _rows(read_deltas(folder)):
                net[tuple(row)] += sign
                assert net[tuple(row)] in (0, 1)
            assert +net == wanted
            compared += len(wanted)
        return compared


def _is_short(value: Any) -> bool:
    return not isinstance(value, str | bytes) or len(value) < 1000


def _rows(table: Any) -> Iterator[Row]:
    if table is None:  # nothing was written yet
        return iter(())
    return map(_hashed, zip(*(column.to_pylist() for column in table.columns), strict=True))


def _hashed(row: Row) -> Row:
    """What sets hold, UUIDs as the texts that outputs have."""
    shown = (repr(one) if isinstance(one, list | dict) else one for one in row)
    return tuple(str(one) if isinstance(one, UUID) else one for one in shown)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_agree_with_postgres_on_views_of_its_tables(seed, memory, postgres, judged) -> None:
    tables = Tables(postgres, memory, Random(f"views {seed}"), f"v{os.getpid()}_{seed}")
    compared = epochs = 0
    try:
        for _ in range(12):
            for _ in range(tables.rng.randrange(4)):
                tables.transaction()
            epochs += tables.run()
            compared += tables.check()
    finally:
        tables.close()
    assert epochs
    assert compared
    judged["rows of views beside PostgreSQL"] += compared


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        ("boolean", "INTEGER", "column 'x' is of type boolean, but 'x' is INTEGER"),
        ("timestamp with time zone", "TIMESTAMP", "of type timestamp with time zone, but"),
        ("integer", "TEXT", "of type integer, but 'x' is TEXT"),
        ("integer", "UUID", "of type integer, but 'x' is UUID"),
        ("date", "BOOLEAN", "of type date, but 'x' is BOOLEAN"),
        ("integer[]", "INTEGER[]", r"integer\[\], .*; such values of a server are not read"),
    ],
)
def test_a_column_of_another_type_is_refused_by_name(theirs, ours, said, memory, postgres) -> None:
    name = f"w{os.getpid()}"
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, x {theirs})")
        try:
            (memory / "views.sql").write_text(
                f"CREATE TABLE t (id INTEGER PRIMARY KEY, x {ours});"
                "CREATE VIEW v AS SELECT * FROM t;"
            )
            toml = memory / "pipeline.toml"
            toml.write_text(
                '[pipeline]\nprogram = "views.sql"\nstate = "state"\nrunner = "local"\n'
                f'[input.t]\nsource = "postgres"\ndsn = "{postgres}"\ntable = "{name}"\n'
                f'slot = "{name}"\nkey = "id"\n[output.v]\npath = "out/v"\n'
            )
            with Pipeline(read_config(toml)) as pipeline, pytest.raises(DriftError, match=said):
                list(pipeline.drain())
        finally:
            with suppress(errors.UndefinedObject):
                db.execute("SELECT pg_drop_replication_slot(%s)", [name])
            db.execute(f"DROP TABLE {name}")
            db.execute(f"DROP PUBLICATION IF EXISTS {name}")
