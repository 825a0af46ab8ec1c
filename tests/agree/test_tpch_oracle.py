"""TPC-H's 22 queries as views of one database, against DuckDB evaluating the same SQL.

After each transaction (refreshes, edits of single rows, updates of several tables, half a table
that goes and comes back) every view is DuckDB's, and the one before with its delta is the one
after. `make fuzz` plays more transactions. Views are there before the tables are loaded,
or made over them, when few rows may ask for a table that has no index yet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import duckdb
import pytest
from bench.tpch.data import MANY, QUERIES, TABLES, Script, decided, generated, schema
from tests.support.amount import cases

import deltafix.sql
from deltafix.kernel import layout

TRANSACTIONS = max(18, cases(18))  # fewer change no row of five of the views
SCALE, ORDERS = 0.01, 3

Row = tuple[Any, ...]


def _sorted(rows: Iterable[Row]) -> list[Row]:
    """Rows in an order in which those of two engines stand side by side: exact values first."""

    def key(row: Row) -> list[str]:
        exact = [str(one) for one in row if not isinstance(one, float)]
        return exact + [f"{one:+.6e}" for one in row if isinstance(one, float)]

    return sorted(rows, key=key)


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):  # DuckDB's means and quotients
        return math.isclose(one, two, rel_tol=1e-12)
    return bool(one == two)


def _agree(found: Sequence[Row], wanted: Sequence[Row]) -> bool:
    pairs = zip(_sorted(found), _sorted(wanted), strict=False)
    return len(found) == len(wanted) and all(
        _same(*cells) for one, two in pairs for cells in zip(one, two, strict=True)
    )


@pytest.mark.parametrize("is_loaded", [False, True], ids=["views, then rows", "rows, then views"])
def test_oracle_tpch_views_and_deltas_are_duckdbs(tmp_path: Any, is_loaded: bool) -> None:
    tables = generated(SCALE, tmp_path)
    names = {table: tables[table].column_names for table in TABLES}
    script = Script(tables, seed=1)
    duck = duckdb.connect(config={"threads": 1})
    duck.execute(schema())
    changed = Counter[str]()
    rows = 0
    with deltafix.sql.connect() as db:
        db.execute(schema())
        db.engine.instance.arena.cells[layout.SCAN_FROM] = 500
        for step in ("rows", "views") if is_loaded else ("views", "rows"):
            if step == "views":
                for name, query in QUERIES.items():
                    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                continue
            db.execute("BEGIN")
            for table in TABLES:
                db.insert(table, tables[table])
                duck.register("arrow", tables[table])
                duck.execute(f"INSERT INTO {table} SELECT * FROM arrow")
            db.execute("COMMIT")
        assert (db.engine.instance.arena.cells[layout.ASIDE_ROW] > 0) == is_loaded
        shown = {n: [c[0] for c in db.execute(f"SELECT * FROM {n}").description] for n in QUERIES}
        asked = {name: decided(query, shown[name]) for name, query in QUERIES.items()}
        told = {name: db.subscribe(name) for name in QUERIES}
        before: dict[str, Counter[Row]] = {}
        for number, edits in enumerate([[], *islice(script.transactions(ORDERS), TRANSACTIONS)]):
            db.execute("BEGIN")
            duck.execute("BEGIN")
            for edit in edits:
                if len(edit.added) >= MANY and not edit.removed:
                    frame = script.frame(edit)
                    db.insert(edit.table, frame)
                    duck.register("frame", frame)
                    duck.execute(f"INSERT INTO {edit.table} SELECT * FROM frame")
                    continue
                for statement, values in edit.statements(names[edit.table]):
                    db.execute(statement, values)
                    duck.execute(statement, values)
            db.execute("COMMIT")
            duck.execute("COMMIT")
            for name, query in asked.items():
                found = db.execute(f"SELECT * FROM {name}").fetchall()
                wanted = duck.execute(query).fetchall()
                assert _agree(found, wanted), (number, name, edits, found, wanted)
                after = Counter(found)
                for delta in told[name]:
                    assert not set(delta.added) & set(delta.removed)
                    changed[name] += 1
                    there = before[name]
                    there.subtract(delta.removed)
                    there.update(delta.added)
                    rows += len(delta.removed) + len(delta.added)
                    assert there == after, (number, name, edits)
                assert before.get(name, after) == after, (number, name, edits)
                before[name] = after
        db.engine.check_invariants()
    assert [name for name in QUERIES if not changed[name]] == []
    assert rows > TRANSACTIONS
