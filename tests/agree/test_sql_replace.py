"""CREATE OR REPLACE VIEW: views become others between edits, and are what DuckDB says from then on.

Sees: rows of the query before, a delta that is not their difference, a view behind that is not kept
or is left out of the delta, a definition that a state folder does not have when it is opened again.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import duckdb
import pytest
from tests.generators.random_sql import case_of
from tests.judges.sql_judge import bag, made
from tests.support.amount import some

import deltafix.sql

BEHIND = {
    "r": ("SELECT COUNT(*) AS n FROM a", "SELECT COUNT(*) + 1 AS n FROM b"),
    # computes with a column of whatever type a has, which the engine may hold as that before
    "c": (
        "SELECT COALESCE(c, c) AS c, [c] AS l FROM a AS q (c)",
        "SELECT DISTINCT c FROM a AS q (c) WHERE c = c",
    ),
    "d": ("SELECT CASE WHEN c = c THEN c END AS c FROM c AS q (c)",),
    "s": ("SELECT n FROM r WHERE n > 2", "SELECT SUM(n) AS n FROM r", "SELECT n FROM r"),
    "u": (
        "SELECT * FROM b",
        "SELECT DISTINCT * FROM a",
        "SELECT * FROM a UNION ALL SELECT * FROM a",
    ),
}
# The engine holds several of these alike.
TYPED = (
    *("1", "CAST(1 AS BIGINT)", "CAST(1 AS DECIMAL(6, 2))", "CAST(1 AS DECIMAL(6, 3))"),
    *("DATE '2026-01-31'", "TRUE", "'a'", "['a']", "[1]", "[[1]]", "{'a': 1}", "{'b': 1}"),
)


def _pool(duck: duckdb.DuckDBPyConnection, seed: int) -> list[str]:
    """Queries of the case's tables alone that DuckDB answers."""
    case = case_of(seed, views=8, schemas=False)
    queries = [query for _, query in case.views if not re.search(r"\bv\d", query)]
    return [
        query for query in queries if made(duck, "tried", query) and duck.execute("DROP VIEW tried")
    ]


@pytest.mark.parametrize("group", range(some(4)))
def test_oracle_a_view_that_becomes_another_is_that_of_duckdb(group: int, tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(group * 5, group * 5 + 5):
        random, case = Random(f"replace {seed}"), case_of(seed, views=8, schemas=False)
        path = tmp_path / str(seed) if seed % 2 else ":memory:"
        duck = duckdb.connect(config={"threads": 1})
        db = deltafix.sql.connect(path)
        for table in case.tables:
            db.execute(table)
            duck.execute(re.sub(r", PRIMARY KEY \([^)]*\)", "", table))
        pool = _pool(duck, seed)
        if not pool:
            continue
        views = {"a": pool[0], "b": pool[-1], **{name: some[0] for name, some in BEHIND.items()}}
        for name, query in views.items():
            db.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
        shown = {name: bag(()) for name in views}
        shown = {name: bag(db.execute(f"SELECT * FROM {name}").fetchall()) for name in views}
        for number in range(10):
            if path != ":memory:" and number % 3 == 2:
                db.close()
                db = deltafix.sql.connect(path)
            told = {name: db.subscribe(name) for name in views}
            name = random.choice(sorted(views))
            query = random.choice(BEHIND.get(name) or pool)
            if name not in BEHIND and random.random() < 0.5:
                query = f"SELECT {random.choice(TYPED)} AS c FROM t0"
            try:
                db.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
                views[name] = query
                seen["replaced"] += 1
            except deltafix.sql.ProgrammingError as error:
                assert "could not be kept" in str(error), error
                seen["kept"] += 1
            done = []
            if number < len(case.transactions):
                for statement in case.transactions[number]:
                    if re.search("ON CONFLICT|INSERT OR ", statement):  # DuckDB has no keys here
                        continue
                    try:
                        db.execute(statement)
                        done.append(statement)
                    except deltafix.sql.IntegrityError:
                        continue
            for one in reversed(views):
                duck.execute(f"DROP VIEW IF EXISTS {one}")
            for statement in done:
                duck.execute(statement)
            for one, text in views.items():
                duck.execute(f"CREATE VIEW {one} AS {text}")
                where = seed, number, one
                rows = bag(db.execute(f"SELECT * FROM {one}").fetchall())
                assert rows == bag(duck.execute(f"SELECT * FROM {one}").fetchall()), where
                change = bag(())
                for delta in told[one]:
                    change.update(bag(delta.added))
                    change.subtract(bag(delta.removed))
                before = shown[one].copy()
                before.update(change)
                assert +before == rows, where
                seen["changed"] += sum(map(abs, change.values()))
                shown[one] = rows
            db.engine.check_invariants()
        db.close()
        duck.close()
    assert seen["replaced"] > 20
    assert seen["changed"] > 100


def test_a_process_that_ends_while_a_view_becomes_another_leaves_one_of_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other columns, the rows before go in an epoch of their own."""
    state, moments = tmp_path / "state", []
    with closing(deltafix.sql.connect(state)) as db:
        db.execute("CREATE TABLE t (x INTEGER NOT NULL, y TEXT)")
        db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (2, 'b')")
        db.execute("CREATE VIEW v AS SELECT x FROM t")
        db.execute("CREATE VIEW w AS SELECT COUNT(*) AS n FROM v")
        kind = type(db.engine)
        compact = kind.compact

        def copied(engine: object) -> None:
            moments.append(shutil.copytree(state, tmp_path / f"moment {len(moments)}"))
            compact(engine)
            moments.append(shutil.copytree(state, tmp_path / f"moment {len(moments)}"))

        monkeypatch.setattr(kind, "compact", copied)
        db.execute("CREATE OR REPLACE VIEW v AS SELECT DISTINCT y FROM t")
    moments.append(state)
    assert len(moments) == 3
    for path in moments:
        with closing(deltafix.sql.connect(path)) as db:
            assert db.execute("SELECT * FROM v").fetchall() == [("a",), ("b",)]
            assert db.execute("SELECT * FROM w").fetchall() == [(2,)]
            db.engine.check_invariants()
