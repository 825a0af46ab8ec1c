"""`.limitsize`: an epoch that would leave more rows in a recursion fails and changes nothing."""

from __future__ import annotations

import pytest

import deltafix
from deltafix.errors import BudgetError, ProgramError

PROGRAM = """
.decl e(x: number, y: number)
.input e
.decl p(x: number, y: number)
.output p
.limitsize p(n=3)
p(x, y) :- e(x, y).
p(x, z) :- p(x, y), e(y, z).
"""


def test_an_epoch_over_the_limit_is_rolled_back() -> None:
    with deltafix.connect(PROGRAM) as db:
        with db.transaction() as tx:
            tx.insert("e", [(1, 2), (2, 3)])
        assert db.count("p") == 3
        with (
            pytest.raises(BudgetError, match=r"`p` has 6 rows, \.limitsize allows n=3"),
            db.transaction() as tx,
        ):
            tx.insert("e", [(3, 4)])
        assert db.rows("p") == [(1, 2), (1, 3), (2, 3)]
        assert db.rows("e") == [(1, 2), (2, 3)]
        with db.transaction() as tx:  # one out, one in: as many as before
            tx.delete("e", [(2, 3)])
            tx.insert("e", [(2, 4)])
        assert db.rows("p") == [(1, 2), (1, 4), (2, 4)]
        db.check_invariants()


def test_a_recursion_without_an_end_meets_the_limit() -> None:
    endless = ".decl n(x: number) .limitsize n(n=5) n(0). n(x + 1) :- n(x)."
    with pytest.raises(BudgetError, match=r"`n` has \d+ rows, \.limitsize allows n=5"):
        deltafix.connect(endless)


def test_a_limit_without_recursion_has_no_effect_and_a_warning() -> None:
    text = ".decl e(x: number) .input e .decl p(x: number) .limitsize p(n=2) p(x) :- e(x)."
    (found,) = deltafix.Program.parse(text).warnings
    assert (found.code, found.message) == (
        "DF159",
        ".limitsize has no effect: `p` is not recursive",
    )
    with deltafix.connect(text) as db, db.transaction() as tx:
        tx.insert("e", [(1,), (2,), (3,)])
    assert tx.delta["p"].added == [(1,), (2,), (3,)]


def test_the_limit_stays_when_rules_change() -> None:
    with (
        deltafix.connect(PROGRAM) as db,
        pytest.raises(BudgetError, match="limitsize"),
        db.transaction() as tx,
    ):
        tx.insert("e", [(1, 2), (2, 3)])
        tx.add_rule("p(y, x) :- e(x, y).")


@pytest.mark.parametrize("given", ["", "(n=-1)", "(n=many)", "(m=3)", f'(n="{"9" * 5000}")'])
def test_a_limit_is_a_number(given: str) -> None:
    with pytest.raises(ProgramError, match=r"DF114.*\n.*\n.*\n.*write `\.limitsize n\(n=1000\)`"):
        deltafix.Program.parse(f".decl n(x: number) .limitsize n{given}")


GROWS = {
    "n(x + 1) :- n(x), x < 100000.": True,
    "n(y) :- n(x), z = x * 2, y = z, x < 100000.": True,
    "n(y) :- n(x), e(x, y), x + y > 0.": False,
    "n(y) :- n(x), e(x, z), y = z.": False,
    "n(x) :- e(x, y). n(z + 1) :- e(_, z).": False,
}


@pytest.mark.parametrize(("rules", "grows"), GROWS.items())
def test_a_recursion_is_bounded_where_it_computes_values_that_no_row_had(rules, grows) -> None:
    text = f".decl e(x: number, y: number)\n.decl n(x: number)\n.output n\nn(1).\n{rules}"
    assert any(stage.may_grow for stage in deltafix.connect(text).plan.stages) is grows


def test_a_record_that_is_taken_apart_grows_nothing_and_one_that_is_made_does() -> None:
    text = """
        .type List = [head: number, tail: List]
        .decl n(x: List)
        .output n
        n([1, nil]).
    """
    for rule, grows in (("n(t) :- n([_, t]).", False), ("n([2, t]) :- n(t).", True)):
        grown = deltafix.Program.parse(text + rule)
        if grows:
            with pytest.raises(BudgetError, match=r"max_recursion=1000 facts, in `n`; .*: bound"):
                deltafix.connect(grown, max_recursion=1000)
        else:
            assert deltafix.connect(grown, max_recursion=1000).count("n") == 2
