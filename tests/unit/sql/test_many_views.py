"""Views made and dropped one after another: what is planned and linked is what a statement says."""

from __future__ import annotations

from typing import Any

import pytest

import deltafix.sql
from deltafix.engine import rule_edits
from deltafix.engine.database import Database
from deltafix.engine.link import Writer
from deltafix.sql import catalog

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER NOT NULL, s TEXT);
INSERT INTO t VALUES (1, 2, 3, 'x'), (2, 2, 8, 'y'), (3, NULL, 150, NULL)
"""
VIEWS = (
    "SELECT a, COUNT(*) AS n, SUM(b) AS x FROM t WHERE b > {0} GROUP BY a",
    "SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING SUM(b) > {0}",
    "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM t AS o WHERE o.a = t.a AND o.b > {0})",
    "SELECT t.id, o.b FROM t LEFT JOIN t AS o ON t.a = o.a AND o.b > {0}",
)


def _made(engine: Database) -> int:
    """How much of the last edit of rules the planner had not made before."""
    assert engine.instance.cache is not None
    return engine.instance.cache.misses


@pytest.fixture
def wrote(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the linker writes: relations of strata, and heads of the variants in them."""
    found: list[str] = []
    stage, variant = Writer.stage, Writer.variant

    def of_stage(self: Writer, one: Any, *rest: Any) -> Any:
        found.extend(one.relations)
        return stage(self, one, *rest)

    def of_variant(self: Writer, home: Any, one: Any) -> Any:
        found.append(one.clause.head)
        return variant(self, home, one)

    monkeypatch.setattr(Writer, "stage", of_stage)
    monkeypatch.setattr(Writer, "variant", of_variant)
    return found


@pytest.mark.parametrize("query", VIEWS)
def test_the_hundredth_view_costs_what_the_tenth_did(query: str, wrote: list[str]) -> None:
    db = deltafix.sql.connect()
    db.execute(TABLES)
    engine, work, words = db.engine, {}, {}
    for number in range(1, 101):
        wrote.clear()
        db.execute(f"CREATE VIEW v{number} AS {query.format(number)}")
        work[f"{number}"], words[number] = _made(engine), len(wrote)
    assert 0 < work["100"] <= 2 * work["10"]
    assert 0 < words[100] <= words[10]
    db.execute("DROP VIEW v50")  # the rules behind it have other numbers now
    assert _made(engine) <= work["10"]
    db.execute("CREATE TABLE u (a INTEGER)")
    assert _made(engine) <= work["10"]
    db.execute(f"CREATE OR REPLACE VIEW v7 AS {query.format(1000)}")
    assert _made(engine) <= 2 * work["10"]
    for number in (1, 49, 51, 100):
        shown = db.execute(f"SELECT * FROM v{number}").fetchall()
        alone = db.execute(query.format(number)).fetchall()
        assert sorted(map(repr, shown)) == sorted(map(repr, alone))
    db.execute("INSERT INTO t VALUES (4, 2, 60, 'z')")
    shown, alone = (db.execute(one).fetchall() for one in ("SELECT * FROM v51", query.format(51)))
    assert sorted(map(repr, shown)) == sorted(map(repr, alone))
    engine.check_invariants()


def test_the_hundredth_rule_costs_what_the_tenth_did(wrote: list[str]) -> None:
    text = ".decl e(x: number, y: number) .input e\n"
    text += "\n".join(f".decl r{n}(x: number, y: number) .output r{n}" for n in range(101))
    db, work, words = deltafix.connect(deltafix.Program.parse(text)), {}, {}
    rules = [
        f"r{n}(x, y) :- e(x, z), r{n}(z, y). r{n}(x, y) :- e(x, y), !e(y, {n})." for n in range(101)
    ]
    for number, rule in enumerate(rules):
        wrote.clear()
        with db.transaction() as tx:
            tx.add_rule(rule)
        work[number], words[number] = _made(db), len(wrote)
    assert 0 < work[100] <= 2 * work[10]
    assert 0 < words[100] <= words[10]
    with db.transaction() as tx:
        tx.remove_rule(rules[50])
        tx.insert("e", [(1, 2), (2, 3)])
    assert _made(db) <= work[10]
    assert set(db.rows("r51")) == {(1, 2), (2, 3), (1, 3)}
    assert not db.rows("r50")
    db.check_invariants()


def test_a_view_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[int] = []

    def noted(lower: Any) -> Any:
        def lowered(checked: Any, *rest: Any) -> Any:
            rules.append(len(checked.rules))
            return lower(checked, *rest)

        return lowered

    for module in (catalog, rule_edits):
        monkeypatch.setattr(module, "lower", noted(module.lower))
    with deltafix.sql.connect() as db:
        db.execute(TABLES)
        before = db.execute("SELECT COUNT(*) FROM t").fetchone()
        db.execute(f"CREATE VIEW v AS {VIEWS[0].format(1)}")
        assert len(rules) == 1
        db.execute(f"CREATE VIEW w AS {VIEWS[2].format(1)}; CREATE VIEW x AS SELECT * FROM w")
        assert len(rules) == 2
        assert before == (3,)


def test_a_table_is_looked_up_by_its_key_and_what_else_is_known_is_compared() -> None:
    # A table had an index by its key with each column that a view compared, and a row a word more.
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE shop (id INT PRIMARY KEY, town TEXT NOT NULL, open BOOL NOT NULL)")
        db.execute("CREATE TABLE sale (shop INT NOT NULL, town TEXT NOT NULL, price INT NOT NULL)")
        db.execute("CREATE VIEW home AS SELECT id, price FROM sale s JOIN shop ON id = s.shop"
                   " AND shop.town = s.town WHERE open")  # fmt: skip
        db.execute("INSERT INTO shop VALUES (1, 'a', true), (2, 'b', true), (3, 'a', false)")
        db.execute("INSERT INTO sale VALUES (1, 'a', 5), (1, 'b', 6), (2, 'b', 7), (3, 'a', 8)")
        assert sorted(db.execute("SELECT * FROM home").fetchall()) == [(1, 5), (2, 7)]
        assert all(1 not in index for index in db.engine.plan.indexes["shop"])
        assert (0,) in db.engine.plan.indexes["shop"]


def test_a_load_is_not_copied_for_a_delta_that_a_view_made_after_it_has_taken_the_place_of() -> (
    None
):
    with deltafix.sql.connect() as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
        db.execute("SELECT * FROM t")
        db.insert("t", [(n, n % 5) for n in range(1000)])
        assert len(db.delta("t").added) == 1000
        db.insert("t", [(n, n % 5) for n in range(1000, 2000)])
        (changes,) = (step.epoch._changes for step in db._last)
        db.execute("CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM t GROUP BY b")
        assert sorted(db.execute("SELECT * FROM v").fetchall()) == [(n, 400) for n in range(5)]
        assert changes._sides is None
        assert not db.delta("t")
        assert not db.delta("v")
        db.execute("INSERT INTO t VALUES (-1, 1)")
        assert changes._sides is not None  # it is held here, and only for that
        assert (db.delta("v").removed, db.delta("v").added) == ([(1, 400)], [(1, 401)])
