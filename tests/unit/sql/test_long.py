"""Statements of many parts, and of parts inside parts: the work grows as they do.

Counted are the rules that a query becomes, the atoms in them, the nodes that are compiled and how
often: what doubles with each level, or is looked at anew for each part, is seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise

import pytest

import deltafix.sql
from deltafix.sql import query as queries
from deltafix.sql.scalar import Scalars


@pytest.fixture
def db() -> Iterator[deltafix.sql.Connection]:
    with closing(deltafix.sql.connect()) as found:
        found.execute("CREATE TABLE t (a INTEGER, f DOUBLE, s TEXT)")
        found.execute("INSERT INTO t VALUES (1, 0.5, 'x'), (NULL, NULL, NULL), (5, 2, 'yz')")
        yield found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many nodes were compiled, and SELECTs made rules of."""
    done = {"nodes": 0, "selects": 0}

    def counted(of: object, name: str, key: str) -> None:
        real = getattr(of, name)

        def count(*args: object, **options: object) -> object:
            done[key] += 1
            return real(*args, **options)

        monkeypatch.setattr(of, name, count)

    counted(Scalars, "_compiled", "nodes")
    counted(queries, "plain", "selects")
    return done


def alone(depth: int) -> str:
    """NOT IN inside NOT IN, of queries that read nothing of those around."""
    query = "SELECT a FROM t"
    for _ in range(depth):
        query = f"SELECT a FROM t WHERE a NOT IN ({query})"
    return query


def correlated(depth: int, level: int = 0) -> str:
    """The same, of queries that each read the one around."""
    where = f" AND t{level}.s = t{level - 1}.s" if level else ""
    inner = f"t{level}.a NOT IN ({correlated(depth, level + 1)})" if level < depth else "TRUE"
    return f"SELECT t{level}.a FROM t AS t{level} WHERE {inner}{where}"


@pytest.mark.parametrize("nested", [alone, correlated])
def test_not_in_inside_of_not_in_adds_as_much_with_each_level(
    nested: Callable[[int], str], db: deltafix.sql.Connection, work: dict[str, int]
) -> None:
    rules, atoms, selects = [], [], []
    for depth in (3, 6, 9, 12):
        before = work["selects"]
        found = [rule for (rule,) in db.execute(f"EXPLAIN {nested(depth)}").fetchall()]
        rules.append(len(found))
        atoms.append(sum(rule.count("(") for rule in found))
        selects.append(work["selects"] - before)
    assert len({b - a for a, b in pairwise(rules)}) == 1
    assert len({b - a for a, b in pairwise(atoms)}) == 1
    assert selects[-1] <= 12 * 12
    assert len(db.execute(nested(12)).fetchall()) in {0, 1, 2, 3}


def test_a_side_of_union_all_adds_no_column(
    db: deltafix.sql.Connection, work: dict[str, int]
) -> None:
    db.execute("CREATE TABLE k (a INTEGER PRIMARY KEY, s TEXT); INSERT INTO k VALUES (1, 'x')")
    widths = {}
    for count in (2, 300):
        sides = ("SELECT a FROM t", "SELECT a FROM k", "SELECT k.a FROM k JOIN t ON k.a <= t.a")
        query = " UNION ALL ".join(sides[n % 3] for n in range(count))
        db.execute(f"CREATE VIEW v{count} AS {query}")
        widths[count] = len(db.catalog.relations[f"v{count}"].all_columns)
    assert widths[300] <= widths[2] + 2
    before = work["selects"]
    assert len(db.execute("SELECT * FROM v300").fetchall()) == 100 * 3 + 100 * 1 + 100 * 2
    assert work["selects"] - before <= 1


@pytest.mark.parametrize(
    ("part", "between", "wanted"),
    [
        ("s", " || ", lambda a, f, s, n: None if s is None else s * n),
        ("a", " + ", lambda a, f, s, n: None if a is None else a * n),
        ("f", " + ", lambda a, f, s, n: None if f is None else f * n),
        ("CAST(a AS DECIMAL(4, 1))", " - ", lambda a, f, s, n: None if a is None else a * (2 - n)),
        ("s = 'x'", " OR ", lambda a, f, s, n: None if s is None else s == "x"),
        ("a < 5", " AND ", lambda a, f, s, n: None if a is None else a < 5),
    ],
)
def test_a_chain_may_have_a_thousand_parts(
    part: str,
    between: str,
    wanted: Callable[..., object],
    db: deltafix.sql.Connection,
    work: dict[str, int],
) -> None:
    rows = db.execute("SELECT * FROM t").fetchall()
    for count in (4, 1000):
        before = work["nodes"]
        chain = between.join([part] * count)
        db.execute(f"CREATE VIEW v{count} AS SELECT {chain} AS x FROM t")
        assert work["nodes"] - before <= 6 * count
        found = [one for (one,) in db.execute(f"SELECT * FROM v{count}").fetchall()]
        assert sorted(found, key=repr) == sorted((wanted(*row, count) for row in rows), key=repr)


@pytest.mark.parametrize(("op", "joint", "wanted"), [("<>", "AND", 1), ("=", "OR", 5)])
def test_a_condition_may_have_as_many(
    op: str, joint: str, wanted: int, db: deltafix.sql.Connection
) -> None:
    test = f" {joint} ".join(f"a {op} {k}" for k in range(2, 700))
    db.execute(f"CREATE VIEW v AS SELECT a FROM t WHERE {test}")
    assert db.execute("SELECT * FROM v").fetchall() == [(wanted,)]


@pytest.mark.parametrize(
    "expression", ["1 + ({})", "f * ({})", "CASE WHEN a = 1 THEN 2 ELSE {} END", "COALESCE(a, {})"]
)
def test_the_type_of_a_part_is_found_once(
    expression: str, db: deltafix.sql.Connection, work: dict[str, int]
) -> None:
    nodes = []
    for depth in (4, 8, 16):
        text = "a + 1"
        for _ in range(depth):
            text = expression.format(text)
        before = work["nodes"]
        db.execute(f"EXPLAIN SELECT {text} AS x FROM t")
        nodes.append(work["nodes"] - before)
    assert nodes[2] - nodes[1] <= 2 * (nodes[1] - nodes[0]) + 4
