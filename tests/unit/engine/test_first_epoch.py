"""Nothing is evaluated on empty inputs where inputs can bound what follows."""

from __future__ import annotations

import pytest

import deltafix
from deltafix.errors import BudgetError, TransactionError

COUNTING = """
.decl lim(x: number)
.decl n(x: number)
.input lim
.output n
n(0).
n(x + 1) :- n(x), !lim(x).
"""
AGGREGATED = """
.decl lim(x: number)
.decl n(x: number)
.input lim
n(0).
n(x + 1) :- n(x), c = count : { lim(_) }, c = 0.
"""
SUBSUMED = """
.decl lim(x: number)
.decl top(x: number)
.decl n(x: number)
.input lim
top(x) :- lim(x).
top(9999).
top(x) <= top(y) :- y < x.
n(0).
n(x + 1) :- n(x), top(y), x < y.
"""
GIVEN = COUNTING.replace(".input lim\n", "")


@pytest.mark.parametrize("text", [COUNTING, AGGREGATED, SUBSUMED, GIVEN])
def test_what_an_input_bounds_waits_for_the_first_commit(text: str) -> None:
    with deltafix.connect(text, max_rows=100) as db:
        assert repr(db) == "<Database epoch 0: not run yet>"
        with db.transaction() as tx:
            tx.insert("lim", [(5,)])
        assert db.epoch == 1
        assert ("n", (0,)) in [(name, row) for name, part in tx.delta.items() for row in part.added]
        db.check_invariants()
        assert db.count("n") == len(tx.delta["n"].added)


def test_a_reader_before_the_first_commit_sees_the_program_without_inputs() -> None:
    text = COUNTING.replace("!lim(x)", "x < 3, !lim(x)")
    with deltafix.connect(text) as db:
        watched = []
        db.watch("n", watched.append)
        assert db.rows("n") == [(0,), (1,), (2,), (3,)]
        assert (db.epoch, watched) == (0, [])
        with db.transaction() as tx:
            tx.insert("lim", [(1,)])
        assert tx.delta["n"].removed == [(2,), (3,)]
        assert (db.epoch, len(watched)) == (1, 1)


def test_within_the_first_transaction_nothing_holds_yet() -> None:
    with deltafix.connect(COUNTING, max_rows=100) as db:
        with db.transaction() as tx:
            tx.insert("lim", [(2,)])
            with pytest.raises(TransactionError, match="read after the commit"):
                db.rows("n")
        assert db.count("n") == 3


def test_a_first_epoch_that_fails_is_tried_again() -> None:
    with deltafix.connect(COUNTING, max_rows=100) as db:
        for _ in range(2):
            with pytest.raises(BudgetError, match=r"in `n`; .*: bound .* raise max_rows$"):
                db.count("n")
        with pytest.raises(BudgetError), db.transaction() as tx:
            tx.insert("lim", [(200,)])
        assert db.epoch == 0
        with db.transaction() as tx:
            tx.insert("lim", [(2,)])
        assert (db.epoch, db.rows("n")) == (1, [(0,), (1,), (2,)])


def test_a_program_that_only_grows_with_its_inputs_is_run_by_connect() -> None:
    text = ".decl e(x: number) .decl p(x: number) .input e  p(1). p(x) :- e(x)."
    with deltafix.connect(text) as db:
        assert repr(db) == "<Database epoch 0: e: 0, p: 1>"
        with db.transaction() as tx:
            tx.insert("e", [(2,)])
        assert tx.delta["p"].added == [(2,)]


def test_rules_may_change_before_the_first_epoch() -> None:
    with deltafix.connect(COUNTING, max_rows=100) as db:
        with db.transaction() as tx:
            tx.remove_rule("n(x + 1) :- n(x), !lim(x).")
            tx.add_rule("n(x + 2) :- n(x), !lim(x).")
            tx.insert("lim", [(4,)])
        assert db.rows("n") == [(0,), (2,), (4,)]


def test_a_state_folder_waits_likewise(tmp_path) -> None:
    for epoch in range(3):
        with deltafix.connect(COUNTING, tmp_path / "state", max_rows=100) as db:
            assert db.epoch == epoch
            assert "not run yet" in repr(db) or epoch
            with db.transaction() as tx:
                tx.insert("lim", [(5 - epoch,)])
            assert db.count("n") == 6 - epoch


@pytest.mark.parametrize("leaves_image", [True, False])
def test_a_state_without_rows_goes_on_from_what_its_epochs_told(tmp_path, leaves_image) -> None:
    """Its last epoch told of n(0) to n(3), though no row is given: the next one tells what goes."""
    text, state = COUNTING.replace("!lim(x)", "x < 3, !lim(x)"), tmp_path / "state"
    told: set = set()
    for change in ("insert", "delete", "insert"):
        with deltafix.connect(text, state) as db:
            with db.transaction() as tx:
                getattr(tx, change)("lim", [(1,)])
            assert told.isdisjoint(tx.delta["n"].added)
            assert told.issuperset(tx.delta["n"].removed)
            told = (told | {*tx.delta["n"].added}) - {*tx.delta["n"].removed}
            assert sorted(told) == db.rows("n")
            db.compact()  # else the log has edits to go through
        if not leaves_image:
            (state / "image").unlink()


def test_a_question_before_the_first_commit_is_about_the_program_without_inputs() -> None:
    text = COUNTING.replace("!lim(x)", "x < 3, !lim(x)")
    with deltafix.connect(text) as db:
        assert "n(1)" in str(db.why("n(1)"))
