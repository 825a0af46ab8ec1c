"""What a step of a recursion cannot compute ends a transaction where its row holds, and only there.

Sees: an error for a row that the transaction itself takes away (a wave joins what is new with rows
that nobody knows to hold), an error that is swallowed, a state that is not as before; and the same
of UNION ALL that does not end.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TypeAlias

import pytest

import deltafix.sql
from deltafix.engine.run import STRATEGIES

Edge: TypeAlias = tuple[int, int]

TABLES = (
    "CREATE TABLE start (x INT NOT NULL PRIMARY KEY)",
    "CREATE TABLE g (a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (a, b))",
)
REACHED = """CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r (x) AS (
    SELECT x FROM start UNION
    SELECT g.b + CASE WHEN (r.x + 2 * g.b) % 7 = 0 THEN 2147483647 ELSE 0 END
    FROM r JOIN g ON r.x = g.a
) SELECT x FROM r"""
WAYS = """CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r (x, n) AS (
    SELECT x, 0 FROM start UNION ALL SELECT g.b, r.n + 1 FROM r JOIN g ON r.x = g.a
) SELECT x, n FROM r"""


def _reached(start: set[int], edges: set[Edge]) -> Counter[tuple[int, ...]] | None:
    """What `REACHED` has; None where a row has no value."""
    found, todo = set(start), [*start]
    while todo:
        x = todo.pop()
        for b in [b for a, b in edges if a == x]:
            y = b + (2147483647 if (x + 2 * b) % 7 == 0 else 0)
            if y > 2147483647:
                return None
            if y not in found:
                found.add(y)
                todo.append(y)
    return Counter((x,) for x in found)


def _ways(start: set[int], edges: set[Edge]) -> Counter[tuple[int, ...]] | None:
    """What `WAYS` has; None where it does not end."""
    found, last, steps = Counter[tuple[int, ...]](), Counter(start), 0
    while last:
        if steps > len(edges):  # more steps than there are nodes to go to
            return None
        found.update({(x, steps): count for x, count in last.items()})
        step = Counter[int]()
        for x, count in last.items():
            step.update({b: count for a, b in edges if a == x})
        last, steps = step, steps + 1
    return found


@pytest.mark.parametrize("strategy", [*STRATEGIES, "auto"])
@pytest.mark.parametrize("view", ["a value", "an end"])
def test_agree_a_recursion_fails_for_what_holds_alone(view: str, strategy: str) -> None:
    text, oracle, nodes = (REACHED, _reached, 9) if view == "a value" else (WAYS, _ways, 6)
    seen = Counter[str]()
    for seed in range(12):
        random = Random(f"{view} {seed}")
        with deltafix.sql.connect(strategy=strategy) as db:
            for one in (*TABLES, text):
                db.execute(one)
            start, edges = set[int](), set[Edge]()
            for _ in range(25):
                starts = {random.randrange(nodes) for _ in range(random.choice((0, 0, 1, 2)))}
                pairs = {
                    (random.randrange(nodes), random.randrange(nodes))
                    for _ in range(random.choice((1, 2, 3, 4)))
                }
                expected = oracle(start ^ starts, edges ^ pairs)
                db.execute("BEGIN")
                for x in sorted(starts):
                    edit = (
                        "DELETE FROM start WHERE x = ?"
                        if x in start
                        else "INSERT INTO start VALUES (?)"
                    )
                    db.execute(edit, (x,))
                for pair in sorted(pairs):
                    edit = (
                        "DELETE FROM g WHERE a = ? AND b = ?"
                        if pair in edges
                        else "INSERT INTO g VALUES (?, ?)"
                    )
                    db.execute(edit, pair)
                try:
                    db.execute("COMMIT")
                except deltafix.sql.DataError as error:
                    assert expected is None, f"seed {seed}: {error}"
                    seen["error"] += 1
                else:
                    assert expected is not None, f"seed {seed}: no error"
                    start, edges = start ^ starts, edges ^ pairs
                    seen["rows"] += 1
                    seen["abandoned"] += db.engine.last_epoch.abandoned
                assert Counter(db.execute("SELECT * FROM v").fetchall()) == oracle(start, edges)
            db.engine.check_invariants()
    assert min(seen["error"], seen["rows"]) > 50
    if strategy in {"wavefront", "local", "inserts_first"}:
        assert seen["abandoned"]
