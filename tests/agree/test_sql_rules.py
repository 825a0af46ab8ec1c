"""A view in SQL feeds rules, and what they derive a table: judged by DuckDB, in one query."""

from __future__ import annotations

from contextlib import closing
from random import Random

import duckdb
import pytest

import deltafix
import deltafix.sql
from sql_judge import bag

TABLE = "CREATE TABLE mail (sender TEXT, receiver TEXT, n INTEGER)"
VIEWS = """
CREATE VIEW wrote AS SELECT DISTINCT sender, receiver FROM mail
    WHERE sender IS NOT NULL AND receiver IS NOT NULL AND n > 0;
CREATE TABLE circle (a TEXT, b TEXT, PRIMARY KEY (a, b));
CREATE VIEW size AS SELECT a, COUNT(*) AS n, MIN(b) AS first FROM circle GROUP BY a
"""
RULES = """
.decl wrote(a: symbol, b: symbol)  .input wrote
.decl circle(a: symbol, b: symbol)  .output circle
circle(a, b) :- wrote(a, b), wrote(b, a).
circle(a, c) :- circle(a, b), circle(b, c).
"""
JUDGE = """
WITH RECURSIVE w AS (SELECT DISTINCT sender AS a, receiver AS b FROM mail
        WHERE sender IS NOT NULL AND receiver IS NOT NULL AND n > 0),
    k AS (SELECT w.a, w.b FROM w JOIN w v ON w.a = v.b AND w.b = v.a),
    c (a, b) AS (SELECT a, b FROM k UNION SELECT c.a, k.b FROM c JOIN k ON k.a = c.b)
SELECT a, COUNT(*) AS n, MIN(b) AS first FROM c GROUP BY a
"""


def edit(rng: Random) -> str:
    one, two = (rng.choice(("NULL", "''", "'a'", "'b'", "'ç'", "'d'")) for _ in "ab")
    if rng.random() < 0.7:
        return f"INSERT INTO mail VALUES ({one}, {two}, {rng.randrange(-1, 4)}), ({two}, {one}, 1)"
    if rng.random() < 0.5:
        return f"UPDATE mail SET n = 1 - n, receiver = {one} WHERE sender = {two}"
    return f"DELETE FROM mail WHERE sender = {one} OR receiver = {two}"


@pytest.mark.parametrize("seed", range(4))
def test_oracle_views_feed_rules_and_rules_views(seed: int, warm_kernel: None) -> None:
    rng, changed = Random(f"rules {seed}"), 0
    with (
        closing(deltafix.sql.connect()) as db,
        closing(deltafix.connect(deltafix.Program.parse(RULES))) as rules,
        closing(duckdb.connect()) as duck,
    ):

        def to_rules(change: deltafix.sql.ViewDelta) -> None:
            with rules.transaction() as tx:
                tx.delete("wrote", change.removed)
                tx.insert("wrote", change.added)

        def to_sql(change: deltafix.RelationDelta[tuple[str, str]]) -> None:
            db.begin()
            db.executemany("DELETE FROM circle WHERE a = ? AND b = ?", change.removed)
            db.insert("circle", change.added)
            db.commit()

        db.execute(TABLE)
        db.execute(VIEWS)
        duck.execute(TABLE)
        db.subscribe("wrote", to_rules)
        rules.watch("circle", to_sql)
        before = bag([])
        for _ in range(25):
            statement = edit(rng)
            db.execute(statement)
            duck.execute(statement)
            found = bag(db.execute("SELECT * FROM size"))
            assert found == bag(duck.execute(JUDGE).fetchall()), statement
            changed += found != before
            before = found
    assert changed > 5
