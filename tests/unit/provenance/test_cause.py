"""The cause chain of an epoch, by example."""

from __future__ import annotations

import json

import pytest

import deltafix
from deltafix.errors import ExplanationError, NoSuchFactError

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl bad(x: symbol)
.decl path(x: symbol, y: symbol)
.decl clean(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
clean(x, y) :- path(x, y), !(bad(x), bad(_)).
"""


@pytest.fixture
def db() -> deltafix.Database:
    db = deltafix.connect(PROGRAM)
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")])
        tx.insert("bad", [("b",)])
    return db


def edit(db, insert=(), delete=()):
    with db.transaction() as tx:
        for relation, row in delete:
            tx.delete(relation, [row])
        for relation, row in insert:
            tx.insert(relation, [row])
    return tx.delta


def test_a_row_appears_by_the_new_rows_of_its_proof(db):
    delta = edit(db, insert=[("edge", ("d", "e")), ("edge", ("x", "y"))])
    cause = delta.why('path("a", "e")')
    assert cause.changes == ((1, "edge", ("d", "e")),)
    assert str(cause) == (
        'path("a", "e") appeared because of\n'
        '  +edge("d", "e")\n'
        "its proof:\n"
        '+path("a", "e")  [path(x, z) :- path(x, y), edge(y, z).]\n'
        '├──  path("a", "d")  [path(x, z) :- path(x, y), edge(y, z).]\n'
        '│   ├──  path("a", "c")  [path(x, y) :- edge(x, y).]\n'
        '│   │   └──  edge("a", "c")  [given]\n'
        '│   └──  edge("c", "d")  [given]\n'
        '└── +edge("d", "e")  [given]'
    )
    assert delta["path"].why(("a", "e")) == cause


def test_a_row_vanishes_by_all_that_broke_its_proofs(db):
    gone = [("edge", ("a", "b")), ("edge", ("a", "c")), ("bad", ("b",))]
    cause = edit(db, delete=gone).why("path", ("a", "d"))
    assert set(cause.changes) == {(-1, "edge", ("a", "b")), (-1, "edge", ("a", "c"))}
    assert cause.sign == -1
    assert cause.marks[0] == "-"
    assert cause.proof.goal.fact == 'path("a", "d")'


def test_a_new_row_can_make_one_vanish_through_a_negation(db):
    cause = edit(db, insert=[("bad", ("a",)), ("bad", ("d",))]).why('clean("a", "d")')
    assert cause.changes == ((1, "bad", ("a",)),)
    assert cause.proof.goal.absent == ('nothing fits bad("a"), bad(_)',)


def test_a_row_gone_can_make_one_appear_through_a_negation(db):
    cause = edit(db, delete=[("bad", ("b",))]).why('clean("b", "d")')
    assert cause.changes == ((-1, "bad", ("b",)),)
    assert json.loads(cause.show("json"))["changes"] == ['-bad("b")']
    assert "appeared because of" in cause._repr_html_()


def test_given_rows_of_a_relation_with_rules_are_input_changes_too(db):
    delta = edit(db, insert=[("path", ("p", "q"))])
    assert delta.why('clean("p", "q")').changes == ((1, "path", ("p", "q")),)
    delta = edit(db, delete=[("path", ("p", "q"))])
    assert delta.why('clean("p", "q")').changes == ((-1, "path", ("p", "q")),)


def test_a_choice_that_moved_is_explained_from_what_was_chosen_before():
    db = deltafix.connect("""
    .decl e(x: number, y: number)
    .decl pick(x: number, y: number) choice-domain y
    pick(1, 1).
    pick(x, y) :- pick(_, x), e(x, y).
    """)
    with db.transaction() as tx:
        tx.insert("e", [(1, 2), (1, 3), (2, 4), (3, 4)])
    delta = edit(db, delete=[("e", (2, 4))], insert=[("e", (4, 5))])
    assert delta["pick"].removed == [(2, 4)]
    assert delta.why("pick(3, 4)").changes == ((-1, "e", (2, 4)),)
    assert delta.why("pick(2, 4)").changes == ((-1, "e", (2, 4)),)
    assert [s.fact for s in delta.why("pick(2, 4)").proof.steps][:2] == ["pick(2, 4)", "pick(1, 2)"]
    db.check_invariants()
    assert set(db.rows("pick")) == {(1, 1), (1, 2), (1, 3), (3, 4), (4, 5)}
    # A question leaves no wish behind: what is chosen stays.
    edit(db, insert=[("e", (2, 4))])
    assert db.contains("pick", (3, 4))


def test_the_database_is_as_before(db):
    delta = edit(db, delete=[("edge", ("a", "b"))])
    report, rows = db.last_epoch, db.rows("path")
    delta.why('path("a", "b")')
    assert (db.last_epoch, db.rows("path"), db.epoch) == (report, rows, 2)
    db.check_invariants()
    assert db.apply(delta.inverse()).inverse() == delta


def test_a_bound_on_trials_gives_a_cause_that_says_so(db):
    with db.transaction() as tx:
        tx.delete("edge", db.rows("edge"))
    cause = tx.delta.why('path("a", "d")', max_trials=1)
    assert not cause.is_smallest
    assert "perhaps fewer" in str(cause)
    assert tx.delta.why('path("a", "d")').is_smallest


def test_what_cannot_be_explained_says_why(db):
    old = edit(db, insert=[("edge", ("d", "e"))])
    with pytest.raises(NoSuchFactError, match="did not change in epoch 2"):
        old.why('path("a", "b")')
    edit(db, insert=[("edge", ("e", "f"))])
    with pytest.raises(ExplanationError, match="epoch 2, the database is at epoch 3"):
        old.why('path("a", "e")')
    with pytest.raises(ExplanationError, match="not made by a transaction"):
        deltafix.Delta.of({"edge": ([("a", "b")], [])}).why('edge("a", "b")')


def test_rules_that_came_and_went_are_causes(db):
    with db.transaction() as tx:
        tx.add_rule("path(y, x) :- path(x, y).")
        tx.add_rule("path(x, x) :- edge(x, _).")
        tx.insert("edge", [("d", "e"), ("x", "y")])
    cause = tx.delta.why('path("b", "a")')
    assert (cause.sign, cause.changes) == (1, ())
    assert cause.rules == ((1, "path(y, x) :- path(x, y)."),)
    assert cause.lines()[:3] == [
        'path("b", "a") appeared because of',
        "  rule +path(y, x) :- path(x, y).",
        "its proof:",
    ]
    assert cause.to_dict()["changes"] == ["rule +path(y, x) :- path(x, y)."]
    # A rule and a row together, neither to spare; a row alone; a row given beside the rules.
    both = tx.delta.why('path("y", "x")')
    assert both.rules == ((1, "path(y, x) :- path(x, y)."),)
    assert both.changes == ((1, "edge", ("x", "y")),)
    assert [step.fact for step in both.proof.leaves] == ['edge("x", "y")']
    alone = tx.delta.why('path("x", "y")')
    assert (alone.rules, alone.changes) == ((), ((1, "edge", ("x", "y")),))
    with db.transaction() as tx:
        tx.replace_rule("path(x, x) :- edge(x, _).", "path(x, x) :- edge(x, _), edge(_, x).")
        tx.remove_rule("path(y, x) :- path(x, y).")
    report, rows = db.last_epoch, db.rows("path")
    gone = tx.delta.why("path", ("x", "x"))
    assert (gone.sign, gone.changes) == (-1, ())
    assert gone.rules == ((-1, "path(x, x) :- edge(x, _)."),)
    assert gone.proof.goal.text == "path(x, x) :- edge(x, _)."
    assert (report, rows) == (db.last_epoch, db.rows("path"))
    db.check_invariants()


def test_a_program_that_was_changed_as_a_whole_is_taken_apart(db):
    text, far = db.program.show(), ".decl far(x: symbol) .output far  far(y) :- path(_, y)"
    with db.transaction() as tx:
        tx.change_program(f"{text}{far}, !edge(_, y).")
    assert dict(tx.delta) == {}
    with db.transaction() as tx:
        tx.change_program(f"{text}{far}.")
    cause = tx.delta.why('far("b")')
    assert cause.rules == ((1, "far(y) :- path(_, y)."),)
    assert cause.proof.goal.fact == 'far("b")'
