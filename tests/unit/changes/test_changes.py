"""Single behaviours of the algebra's parts: what is refused, what is printed, what is kept."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType

import pytest

from deltafix.changes import (
    Definition,
    Interpretation,
    SetChange,
    System,
    Tagged,
    booleans,
    disjoint_union,
    evaluate,
    integers,
    maps,
    multiset,
    multisets,
    naturals,
    product,
    sets,
    simplify,
)
from deltafix.changes.counted import conjunction_terms
from deltafix.changes.evaluate import holds
from deltafix.changes.formula import (
    BOTTOM,
    TOP,
    Aggregate,
    And,
    Constant,
    Exists,
    Forall,
    Not,
    Or,
    Relation,
    Test,
    conjunction,
    disjunction,
    exists,
    free_variables,
    relation_names,
)
from deltafix.changes.formula_derivative import differentiate, next_of
from deltafix.changes.laws import show
from deltafix.errors import ChangeError, IncompleteActionError

R, S = Relation("R", ("x",)), Relation("S", ("x", "y"))


def test_a_set_change_cannot_add_and_remove_the_same_element() -> None:
    with pytest.raises(ChangeError, match="adds and removes 2 at once"):
        SetChange.of([1, 2], [2, 3])


def test_set_changes_combine_in_time_order() -> None:
    first, second = SetChange.of([1], [2]), SetChange.of([2], [1])
    assert first.then(second) == second
    assert second.then(first) == first
    assert SetChange.of([1]).then(SetChange.of([3], [2])) == SetChange.of([1, 3], [2])
    assert len(first) == 2
    assert not SetChange()


def test_a_typed_set_change_can_be_written_out() -> None:
    assert SetChange[int]() == SetChange()


def test_sets_know_their_universe_and_refuse_other_elements() -> None:
    action = sets("ab")
    assert action.is_value(frozenset("a"))
    assert not action.is_value(frozenset("z"))
    assert not action.is_change(SetChange.of("z"))
    assert not action.is_value({"a"})
    assert not sets().is_change(3)


def test_an_incomplete_action_says_why_there_is_no_difference() -> None:
    with pytest.raises(IncompleteActionError, match="need not be a change from 5 to 3"):
        naturals().difference(3, 5)
    assert integers().difference(3, 5) == -2


def test_booleans_have_three_changes_and_turn_on_or_off() -> None:
    action = booleans()
    assert action.apply(False, (True, False)) is True
    assert action.apply(True, (False, True)) is False
    assert not action.is_change((True, True))
    assert action.combine((True, False), (False, True)) == (False, True)


def test_multisets_cancel_to_nothing() -> None:
    action = multisets()
    some = multiset("aab")
    assert action.apply(some, multiset({"a": -2, "c": 1})) == {"b": 1, "c": 1}
    assert action.difference(multiset(""), some) == {"a": -2, "b": -1}
    assert not action.is_value({"a": 0})


def test_maps_drop_defaults_so_that_equal_maps_compare_equal() -> None:
    action = maps(integers(), 0)
    assert action.apply({"a": 1}, {"a": -1, "b": 2}) == {"b": 2}
    assert action.combine({"a": 1}, {"a": -1}) == {}
    assert action.difference({"b": 2}, {"a": 1}) == {"a": -1, "b": 2}


def test_values_of_combined_actions_are_recognised() -> None:
    both = product(integers(), sets())
    assert both.is_value((1, frozenset()))
    assert not both.is_value((1,))
    assert not both.is_change((1, 2))
    union = disjoint_union(integers(), sets())
    assert union.is_value(Tagged(1, frozenset()))
    assert not union.is_value(Tagged(2, 1))
    assert not union.equal(Tagged(0, 1), Tagged(1, 1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (frozenset({2, 1}), "{1, 2}"),
        (SetChange.of([1], [2]), "add {1}, remove {2}"),
        (MappingProxyType({"b": 1, "a": 2}), "{'a': 2, 'b': 1}"),
        ((1,), "(1,)"),
        (Tagged(0, 3), "left 3"),
        (len, "len"),
    ],
)
def test_values_are_shown_the_same_way_every_time(value, text) -> None:
    assert show(value) == text


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (And(R, Or(R, S)), "R(x) ∧ (R(x) ∨ S(x, y))"),
        (Not(And(R, Not(S))), "¬(R(x) ∧ ¬S(x, y))"),
        (Exists("y", S), "∃y.S(x, y)"),
        (Forall("y", Or(R, S)), "∀y.(R(x) ∨ S(x, y))"),
        (Relation("S", ("x", Constant(3)), "down"), "↓S(x, 3)"),
        (Not(Test("=", "x", Constant("a"))), "¬(x = 'a')"),
        (Aggregate("n", "count", "p", ("y",), TOP, S), "n = count(p)(y | ⊤ | S(x, y))"),
        (conjunction(), "⊤"),
        (disjunction(), "⊥"),
        (exists(("x", "y"), S), "∃x.∃y.S(x, y)"),
    ],
)
def test_formulae_print_as_one_writes_them(formula, text) -> None:
    assert str(formula) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (And(R, TOP), R),
        (And(R, BOTTOM), BOTTOM),
        (Or(R, BOTTOM), R),
        (Or(S, Or(R, TOP)), TOP),
        (And(R, And(S, R)), And(R, S)),
        (And(R, Not(R)), BOTTOM),
        (Or(Not(R), And(S, Not(Not(R)))), Or(Not(R), And(S, R))),
        (Or(R, Not(R)), TOP),
        (Not(Not(R)), R),
        (Not(TOP), BOTTOM),
        (And(R, Or(R, S)), R),
        (Or(And(R, S), R), R),
        (Exists("z", R), R),
        (Forall("y", And(S, TOP)), Forall("y", S)),
        (Exists("x", BOTTOM), BOTTOM),
        (Test("=", "x", "x"), TOP),
        (Test("<", "x", "x"), BOTTOM),
        (Aggregate("n", "sum", "p", (), TOP, And(S, S)), Aggregate("n", "sum", "p", (), TOP, S)),
    ],
)
def test_simplify(before, after) -> None:
    assert simplify(before) == after
    assert simplify(after) == after


def test_unknown_comparisons_and_aggregates_are_refused_with_the_valid_ones() -> None:
    with pytest.raises(ChangeError, match=r"'~' is not a comparison; valid are = != < <= > >="):
        Test("~", "x", "y")
    with pytest.raises(ChangeError, match="'avg' is not an aggregate; valid are count, sum"):
        Aggregate("n", "avg", "p", (), TOP, S)


def test_evaluating_names_what_is_missing() -> None:
    given = Interpretation((1,), {"R": frozenset()})
    with pytest.raises(ChangeError, match="free variable 'y' is not in the schema"):
        evaluate(S, ("x",), given)
    with pytest.raises(ChangeError, match=r"reads relation 'S', which has no value; .*: R"):
        evaluate(S, ("x", "y"), given)


def test_repeated_variables_and_constants_select() -> None:
    given = Interpretation((1, 2), {"S": frozenset({(1, 1), (1, 2)})})
    assert evaluate(Relation("S", ("x", "x")), ("x",), given) == {(1,)}
    assert evaluate(Relation("S", ("x", Constant(2))), ("x",), given) == {(1,)}


@pytest.mark.parametrize(
    ("function", "want"),
    [("count", {(2,)}), ("sum", {(4,)}), ("min", {(1,)}), ("max", {(3,)})],
)
def test_aggregates_and_aggregates_of_nothing(function, want) -> None:
    some = Interpretation(tuple(range(5)), {"S": frozenset({(0, 1), (1, 3)})})
    none = Interpretation(tuple(range(5)), {"S": frozenset()})
    formula = Aggregate("r", function, "p", ("y",), TOP, Relation("S", ("y", "p")))
    assert evaluate(formula, ("r",), some) == want
    empty = {(0,)} if function in ("count", "sum") else frozenset()
    assert evaluate(formula, ("r",), none) == empty


def test_definitions_that_are_not_monotone_are_refused_by_name() -> None:
    odd = Definition("win", ("x",), Exists("y", And(S, Not(Relation("win", ("y",))))))
    with pytest.raises(ChangeError, match="'win' reads 'win' under an odd number of negations"):
        System((odd,), (1,))
    count = Aggregate("x", "count", "p", (), TOP, Relation("win", ("p",)))
    with pytest.raises(ChangeError, match="'win' aggregates over 'win'"):
        System((Definition("win", ("x",), count),), (1,))
    with pytest.raises(ChangeError, match="defined more than once"):
        System((Definition("a", ("x",), R), Definition("a", ("x",), R)), (1,))
    with pytest.raises(ChangeError, match="variable 'y' is neither in the schema nor bound"):
        System((Definition("a", ("x",), S),), (1,))


def test_delta_rules_are_of_the_literals_that_change_and_of_nothing_else() -> None:
    terms = conjunction_terms([R, Test("<", "x", "y"), Not(S), TOP])
    assert [(term.pivot, term.flips) for term in terms] == [(0, False), (2, True)]
    with pytest.raises(ChangeError, match="is no literal"):
        conjunction_terms([R, Or(R, S)])


def test_importing_the_algebra_loads_neither_hypothesis_nor_z3_nor_numba() -> None:
    code = (
        "import sys, deltafix.changes, deltafix.testing, deltafix.changes.symbolic; "
        "print([m for m in ('hypothesis', 'z3', 'numba', 'numpy', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Xor:
    """What a caller might take for a formula: it has parts, and its own idea of a value."""

    left, right = R, R


@pytest.mark.parametrize("wrap", [lambda f: f, Not, lambda f: And(R, f), lambda f: Exists("y", f)])
@pytest.mark.parametrize(
    "use",
    [
        simplify,
        differentiate,
        next_of,
        free_variables,
        relation_names,
        lambda f: evaluate(f, ("x",), Interpretation((0, 1), {"R": frozenset({(0,)})})),
        lambda f: holds(f, {"x": 1}, Interpretation((0, 1), {"R": frozenset({(1,)})})),
        lambda f: System((Definition("d", ("x",), f),), (0, 1)),
    ],
)
def test_an_unknown_construct_is_an_error_wherever_a_formula_is_expected(use, wrap) -> None:
    with pytest.raises(ChangeError, match="Xor"):
        use(wrap(Xor()))


def test_an_unknown_state_of_a_relation_is_an_error() -> None:
    with pytest.raises(ChangeError, match="'later' is not a state; valid are now, up, down, next"):
        Relation("R", ("x",), "later")  # type: ignore[arg-type]


def test_a_system_refuses_relations_that_it_does_not_read_or_define() -> None:
    system = System((Definition("d", ("x",), R),), (0, 1))
    given = {"R": frozenset({(0,)})}
    for wrong in ({"Q": frozenset({(0,)})}, {"d": frozenset({(0,)})}):
        with pytest.raises(ChangeError, match="those are: R"):
            system.solve(wrong)
        with pytest.raises(ChangeError, match="those are: R"):
            system.maintain(given, {name: SetChange.of([(1,)]) for name in wrong}, {})
    with pytest.raises(ChangeError, match="those are: d"):
        system.maintain(given, {}, given)
