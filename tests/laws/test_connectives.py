"""Connectives of one's own: what is refused, that the rules are what runs, formulae with them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from tests.generators.random_sets import CONNECTIVES, REDUCERS
from tests.judges.formula_laws import (
    formula_derivative_law,
    next_law,
    precise_law,
    simplify_law,
)

import deltafix
from deltafix.changes import PRECISE, STANDARD, Interpretation, SetChange, connective
from deltafix.changes.formula import (
    BOTTOM,
    And,
    Connected,
    Connective,
    Exists,
    Not,
    Or,
    Relation,
    Test,
    disjunction,
)
from deltafix.errors import ChangeError, FunctorError, LawError, ReducerError
from deltafix.reactive import Holds, check_reducer
from deltafix.rules.operators import connected, lfp


def either(t, u):
    return Or(t.now, u.now)


@pytest.mark.parametrize(
    ("up", "down", "said"),
    [
        # as if ∨ were ∧: what the other part still holds is removed
        (
            None,
            lambda t, u: Or(t.down, u.down),
            "where t holds and stays, u holds and goes, it goes, by its rules, but it stays",
        ),
        (
            lambda t, u: BOTTOM,
            None,
            "where t does not hold and stays, u does not hold and comes, it stays, by its rules",
        ),
        # the part that stays is not looked at after the change
        (
            None,
            lambda t, u: And(t.down, u.down),
            "where t does not hold and stays, u holds and goes, it stays, by its rules, but",
        ),
        (lambda t, u: Or(t.up, u.up), lambda t, u: Not(Or(t.next, u.next)), None),
    ],
)
def test_rules_that_are_no_derivative_are_refused_with_the_smallest_case(up, down, said) -> None:
    if said is None:  # more than must go is removed, which is a derivative as well
        assert connective("either", either, up=up, down=down).name == "either"
        return
    with pytest.raises(LawError, match="either breaks the law derivative_law") as refused:
        connective("either", either, up=up, down=down)
    assert said in str(refused.value)


def test_what_is_no_connective_is_refused() -> None:
    with pytest.raises(ChangeError, match="nothing has 0 parts; 1 to 5 are valid"):
        connective("nothing", lambda: BOTTOM)
    with pytest.raises(
        ChangeError, match=r"what holds reads ↑t\(\); it may read the parts t, u, each now"
    ):
        connective("early", lambda t, u: Or(t.up, u.now))
    with pytest.raises(ChangeError, match=r"↑ reads r\(\)"):
        connective("other", either, up=lambda t, u: Relation("r", ()))
    with pytest.raises(ChangeError, match=r"↓ is x < y; valid are ∧, ∨, ¬, ⊤ and ⊥"):
        connective("other", either, down=lambda t, u: Test("<", "x", "y"))
    neither = connective("neither", lambda t, u: Not(Or(t.now, u.now)))
    with pytest.raises(ReducerError, match="neither holds where none of its parts does"):
        Holds(neither)
    with pytest.raises(ReducerError, match=r"either has no part 2; there are 0 \(t\), 1 \(u\)"):
        REDUCERS["either"].add(REDUCERS["either"].initial, 2)


@pytest.mark.parametrize("table", list(product((False, True), repeat=4)))
def test_every_connective_of_two_parts_follows_from_what_it_means(table) -> None:
    def holds(t, u):
        cases = zip(product((False, True), repeat=2), table, strict=True)
        return disjunction(
            *(
                And(t.now if a else Not(t.now), u.now if b else Not(u.now))
                for (a, b), there in cases
                if there
            )
        )

    made = connective("made", holds)
    if not table[0]:
        assert check_reducer(Holds(made), [0, 1])


@pytest.mark.parametrize("name", CONNECTIVES)
def test_oracle_formulae_with_connectives_keep_the_laws(name) -> None:
    made, _ = CONNECTIVES[name]
    rng = Random(name)
    leaves = [Relation("R", ("x",)), Exists("y", Relation("S", ("x", "y"))), Relation("T", ("x",))]
    for _ in range(60):
        parts = [Not(one) if rng.random() < 0.3 else one for one in leaves]
        formula = Connected(made, tuple(parts[: len(made.parameters)]))
        if rng.random() < 0.4:
            formula = Or(Not(formula), Connected(CONNECTIVES["either"][0], (formula, parts[2])))
        relations, changes = {}, {}
        for relation, width in (("R", 1), ("S", 2), ("T", 1)):
            every = list(product((0, 1), repeat=width))
            relations[relation] = frozenset(row for row in every if rng.random() < 0.5)
            added = {row for row in every if rng.random() < 0.4} - relations[relation]
            gone = {row for row in relations[relation] if rng.random() < 0.4}
            changes[relation] = SetChange.of(added, gone)
        at = Interpretation((0, 1), relations, changes)
        for verdict in (
            formula_derivative_law(formula, ("x",), at, STANDARD),
            formula_derivative_law(formula, ("x",), at, PRECISE),
            next_law(formula, ("x",), at),
            simplify_law(formula, ("x",), at),
        ):
            assert verdict, verdict.sentence
        derived = Connected(CONNECTIVES["two_of"][0], tuple(leaves))
        verdict = precise_law(derived, ("x",), at, PRECISE)
        assert verdict, verdict.sentence


def _program() -> deltafix.Program:
    with deltafix.Program() as program:
        a, b = program.relation("a", x=int), program.relation("b", x=int)
        lfp(lambda _: connected(CONNECTIVES["either"][0], a, b), name="out")
    return program


def _after_one_of_two_goes(reducer: Holds) -> list:
    with deltafix.connect(_program(), reducers={"either": reducer}) as db:
        with db.transaction() as tx:
            tx.insert("a", [(1,), (2,)])
            tx.insert("b", [(1,)])
        with db.transaction() as tx:
            tx.delete("a", [(1,), (2,)])
        return sorted(db.rows("out"))


def test_the_engine_runs_the_rules_and_not_what_the_connective_means() -> None:
    right = CONNECTIVES["either"][0]
    assert _after_one_of_two_goes(Holds(right)) == [(1,)]
    unchecked = Connective(
        right.name, right.parameters, right.holds, right.up, Relation("t", (), "down")
    )
    assert _after_one_of_two_goes(Holds(unchecked)) == []


def test_a_connective_is_asked_for_when_connecting_and_takes_sets_of_the_same_columns() -> None:
    with pytest.raises(FunctorError, match="either"):
        deltafix.connect(_program())
    with deltafix.Program() as program:
        a, b = program.relation("a", x=int), program.relation("b", x=str)
        with pytest.raises(TypeError, match="either of different columns"):
            connected(CONNECTIVES["either"][0], a, b)
        with pytest.raises(TypeError, match="either has 2 parts, and was given 1 sets"):
            connected(CONNECTIVES["either"][0], a)
        with pytest.raises(deltafix.errors.ProgramError, match=r"connected\.t goes over 'out'"):
            lfp(lambda s: connected(CONNECTIVES["either"][0], s, a), name="out")


def test_the_same_connective_in_text() -> None:
    program = deltafix.Program.parse(
        """
        .functor two_of(part: number): number
        .decl seen(by: number, x: number)
        .input seen
        .decl trusted(x: number)
        .output trusted
        trusted(x) :- seen(_, x), 1 = @@two_of by : { seen(by, x) }.
        """
    )
    with deltafix.connect(program, reducers=REDUCERS) as db:
        with db.transaction() as tx:
            tx.insert("seen", [(0, 7), (2, 7), (1, 8)])
        assert db.rows("trusted") == [(7,)]
        with db.transaction() as tx:
            tx.delete("seen", [(0, 7)])
            tx.insert("seen", [(1, 7)])
        assert not tx.delta["trusted"]
        with pytest.raises(FunctorError, match="two_of has no part 3"), db.transaction() as tx:
            tx.insert("seen", [(3, 7)])
        assert db.rows("trusted") == [(7,)]
