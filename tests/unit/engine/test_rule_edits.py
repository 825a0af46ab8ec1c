"""Rules edited in a transaction: equal to a rebuild, and without a trace where they are refused."""

from __future__ import annotations

from random import Random

import pytest
from tests.oracle import evaluate

import deltafix
from deltafix.errors import BudgetError, FactError, ProgramError, TransactionError
from deltafix.rules.ast import Program

GRAPH = """
.decl edge(x: symbol, y: symbol)
.decl path(x: symbol, y: symbol)
.input edge
path(x, y) :- edge(x, y).
"""
ORDER = "path(x, y) <= path(x, z) :- y < z."
STEP = "path(x, z) :- path(x, y), edge(y, z)."


@pytest.fixture
def db() -> deltafix.Database:
    db = deltafix.connect(GRAPH)
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c")])
    return db


def test_a_rule_added_and_removed_says_what_changed(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.add_rule(STEP)
        tx.insert("edge", [("c", "d")])
    assert tx.delta.show().split("\n") == [
        '+edge("c", "d")', '+path("a", "c")', '+path("a", "d")', '+path("b", "d")',
        '+path("c", "d")',
    ]  # fmt: skip
    with db.transaction() as tx:
        tx.delete("edge", [("b", "c")])
    assert sorted(tx.delta["path"].removed) == [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")]
    with db.transaction() as tx:
        tx.remove_rule(STEP)
    assert db.rows("path") == db.rows("edge")
    assert db.epoch == 4
    db.check_invariants()


def test_a_new_relation_may_come_with_its_rule(db: deltafix.Database) -> None:
    with db.transaction() as tx:
        tx.add_rule(".decl end(x: symbol)\nend(y) :- edge(_, y), !edge(y, _).")
    assert tx.delta["end"].added == [("c",)]


@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (lambda tx: tx.add_rule("path(x, y) :- edg(x, y)."), ProgramError, "<rule>:1:15"),
        (lambda tx: tx.add_rule("path(x, y) :- edge(x"), ProgramError, "<rule>:1"),
        (lambda tx: tx.remove_rule(STEP), FactError, "no such rule"),
        (lambda tx: tx.remove_rule(ORDER), FactError, "no such rule"),
    ],
)
def test_a_refused_rule_leaves_no_trace(db, edit, error, words) -> None:
    before = (db.epoch, db.rows("path"), db.program)
    with pytest.raises(error, match=words), db.transaction() as tx:
        tx.insert("edge", [("c", "d")])
        edit(tx)
    assert (db.epoch, db.rows("path"), db.program) == before
    db.check_invariants()


def test_a_rule_over_budget_leaves_no_trace() -> None:
    with deltafix.connect(GRAPH, max_rows=30) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(f"n{i}", f"n{i + 1}") for i in range(20)])
        with pytest.raises(BudgetError, match="max_rows=30"), db.transaction() as tx:
            tx.add_rule(STEP)
        assert db.count("path") == 20


def test_a_state_folder_keeps_its_rules(tmp_path) -> None:
    with (
        deltafix.connect(GRAPH, tmp_path / "state") as db,
        pytest.raises(TransactionError, match="changed program"),
        db.transaction() as tx,
    ):
        tx.add_rule(STEP)


def test_oracle_random_rule_edits_equal_recomputation() -> None:
    rules = [
        STEP,
        "path(x, y) :- path(y, x).",
        "path(x, x) :- edge(x, _), !edge(x, x).",
        "edge(x, x) :- edge(_, x).",
    ]
    rng = Random(3)
    held: set[str] = set()
    edges: set[tuple[str, str]] = set()
    with deltafix.connect(GRAPH) as db:
        for _ in range(25):
            rule = rng.choice(rules)
            edge = (rng.choice("abcd"), rng.choice("abcd"))
            before = {name: set(db.rows(name)) for name in db.schemas}
            with db.transaction() as tx:
                (tx.remove_rule if rule in held else tx.add_rule)(rule)
                (tx.delete if edge in edges else tx.insert)("edge", [edge])
            held ^= {rule}
            edges ^= {edge}
            program = db.program
            assert isinstance(program, Program)
            expected = evaluate(program, {"edge": edges})
            for name in db.schemas:
                assert set(db.rows(name)) == expected[name]
                assert set(tx.delta[name].added) == expected[name] - before[name]
                assert set(tx.delta[name].removed) == before[name] - expected[name]
