"""Truth that travels: undefined premises below, derivations that come and go above; the work."""

import pytest

from deltafix.errors import BudgetError
from deltafix.tabling import Tables
from deltafix.tabling.update import STRATEGIES

from .paper import answers

UNDEFINED = ":- table u/0.\nu :- \\+ u.\n"


def truth(tables: Tables, goal: str) -> dict[str, str]:
    return {str(solution): solution.truth for solution in tables.query(goal)}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("text", "goal", "edit"),
    [
        ("p(X) :- u, d(X). :- dynamic d/1.", "p(1)", (["d(1)"], [])),
        ("p :- u. p :- d. d.", "p", ([], ["d"])),
        ("w :- a, g. a :- e. a :- u. e. :- dynamic g/0.", "w", (["g"], ["e"])),
    ],
    ids=["a derivation completed", "a true derivation lost", "both, a component apart"],
)
def test_what_stands_on_an_undefined_premise_is_undefined(strategy, text, goal, edit):
    insert, delete = edit
    tables = Tables(UNDEFINED + text, strategy=strategy)
    before = truth(tables, goal)
    assert before in ({}, {goal: "true"})
    delta = tables.update(insert=insert, delete=delete)
    tables.check_invariants()
    assert truth(tables, goal) == {goal: "undefined"}
    assert delta.lines() == [f"{goal}: {'~' if before else '+'}{goal}"]
    tables.update(insert=delete, delete=insert)
    tables.check_invariants()
    assert truth(tables, goal) == before


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s != "scratch"])
def test_only_what_stands_on_a_change_is_valued_anew(strategy):
    tables = Tables(
        UNDEFINED
        + """
        reach(X) :- start(X).
        reach(X) :- u, X = 0.
        reach(Y) :- reach(X), e(X, Y).
        seen(X) :- node(X), \\+ reach(X).
        next(X) :- u, d(X).
        next(X) :- node(X).
        node(1). node(60).
        :- dynamic start/1, d/1, e/2.
        """
        + "".join(f"e({n}, {n + 1}). " for n in range(50)),
        strategy=strategy,
    )
    for goal in ("reach(X)", "seen(X)", "next(X)"):
        list(tables.query(goal))
    assert set(truth(tables, "reach(X)").values()) == {"undefined"}
    steps = [
        (["e(50, 51)"], 1),  # one position more at the end of the chain
        (["e(49, 51)"], 1),
        (["node(7)"], 2),  # reach(7), a new call, and seen(7); all of next is true as yet
        (["d(3)"], 1),
        (["node(8)"], 3),  # and next(8): something in next is undefined now
        (["start(48)"], 4),  # 48 to 51 are true
        (["f(1)"], 0),
    ]
    for insert, valued in steps:
        tables.update(insert=insert)
        tables.check_invariants()
        assert tables.last.valued == valued, insert
    for insert, valued in reversed(steps):
        tables.update(delete=insert)
        tables.check_invariants()
        assert tables.last.valued <= valued, insert
    assert answers(tables, "seen(X)") == ["seen(1)", "seen(60)"]


def test_a_game_is_valued_from_the_change_backwards():
    """Positions 0 to 40 in a row; the far end wins or loses, and the near end hears of it."""
    tables = Tables(
        ":- table win/1.\nwin(X) :- move(X, Y), \\+ win(Y).\n"
        + "".join(f"move({n}, {n + 1}). " for n in range(40))
    )
    odd = [f"win({n})" for n in range(40) if n % 2]
    assert sorted(answers(tables, "win(X)")) == sorted(odd)
    tables.insert("move(39, 41)", "move(41, 39)")
    tables.check_invariants()
    assert tables.last.valued <= 3
    tables.insert("move(0, 50)")
    assert tables.last.valued <= 1
    tables.update(insert=["move(40, 42)"], delete=["move(0, 50)"])
    tables.check_invariants()
    assert truth(tables, "win(41)") == {"win(41)": "undefined"}
    tables.delete("move(38, 39)")
    assert truth(tables, "win(39)") == {"win(39)": "undefined"}


def test_an_update_that_fails_leaves_consumers_before_the_facts_they_wait_for():
    """Dropping an index entry and bringing it back made another one, which nobody waited on."""
    text = """
    :- table p/1, n/1.
    :- dynamic e/1, go/0.
    p(X) :- e(X).
    n(0).
    n(Y) :- go, n(X), Y is X + 1.
    e(1).
    """
    for strategy in STRATEGIES:
        tables = Tables(text, max_answers=100)
        assert answers(tables, "p(1)") == ["p(1)"]
        assert answers(tables, "n(X)") == ["n(0)"]
        with pytest.raises(BudgetError):
            tables.update(insert=["go"], delete=["e(1)"], strategy=strategy)
        tables.check_invariants()
        assert tables.delete("e(1)").lines() == ["p(1): -p(1)"]
        with pytest.raises(BudgetError):
            tables.update(insert=["go", "e(1)"], strategy=strategy)
        tables.check_invariants()
        assert tables.insert("e(1)").lines() == ["p(1): +p(1)"]
