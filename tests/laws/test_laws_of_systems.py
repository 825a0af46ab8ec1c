"""Recursive definitions over formulae: each answer maintained is the one computed from nothing."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltafix.changes import PRECISE, STANDARD, Definition, SetChange, System
from deltafix.changes.formula import And, Exists, Forall, Formula, Not, Or, Relation
from deltafix.errors import ChangeError

UNIVERSE = (0, 1, 2)
EDGE, ROOT = Relation("e", ("x", "y")), Relation("root", ("y",))


def _step(name: str) -> Formula:
    return Exists("x", And(Relation(name, ("x",)), EDGE))


REACH = Definition("reach", ("y",), Or(ROOT, _step("reach")))
EVEN = Definition("even", ("y",), Or(ROOT, _step("odd")))
ODD = Definition("odd", ("y",), _step("even"))
CLOSURE = Definition(
    "closure",
    ("x", "y"),
    Or(EDGE, Exists("z", And(Relation("closure", ("x", "z")), Relation("closure", ("z", "y"))))),
)
TREE = Definition(
    "tree", ("x",), Forall("y", Or(Not(EDGE), And(ROOT, Not(Not(Relation("tree", ("y",)))))))
)
SYSTEMS = [(REACH,), (EVEN, ODD), (CLOSURE,), (TREE,), (REACH, CLOSURE, TREE)]

edges = st.frozensets(st.tuples(st.sampled_from(UNIVERSE), st.sampled_from(UNIVERSE)))
roots = st.frozensets(st.tuples(st.sampled_from(UNIVERSE)))


@st.composite
def edits(draw: st.DrawFn) -> tuple[dict[str, frozenset], dict[str, SetChange]]:
    before = {"e": draw(edges), "root": draw(roots)}
    after = {"e": draw(edges), "root": draw(roots)}
    names = draw(st.sets(st.sampled_from(["e", "root"])))
    return before, {n: SetChange(after[n] - before[n], before[n] - after[n]) for n in names}


@pytest.mark.parametrize("rules", [STANDARD, PRECISE], ids=["standard", "precise"])
@pytest.mark.parametrize("definitions", SYSTEMS, ids=lambda ds: " ".join(d.name for d in ds))
@settings(max_examples=25)
@given(edit=edits())
def test_oracle_maintained_systems_equal_recomputed_ones(definitions, rules, edit) -> None:
    system = System(definitions, UNIVERSE, rules)
    before, change = ({name: of[name] for name in of.keys() & system.given} for of in edit)
    old = system.solve(before).value
    assert old == system.recompute(before)
    new = system.action.apply(old, system.maintain(before, change, old).value)
    assert new == system.recompute(system.action.apply(before, change))


@settings(max_examples=60)
@given(edits())
def test_from_the_old_answer_it_ends_at_a_fixpoint_no_smaller_or_says_that_it_never_ends(
    edit,
) -> None:
    before, change = edit
    system = System((REACH,), UNIVERSE)
    old, after = system.solve(before).value, system.action.apply(before, change)
    right = system.recompute(after).get("reach", frozenset())
    try:
        run = system.maintain(before, change, old, from_old=True)
    except ChangeError:
        assert old["reach"] - right  # only where something has to go
        return
    reached = system.action.apply(old, run.value)
    assert system.consequence(after).function(reached) == reached
    assert right <= reached.get("reach", frozenset())


def test_the_safe_start_is_every_row() -> None:
    system = System((CLOSURE,), UNIVERSE)
    assert system.every_row("closure") == frozenset(product(UNIVERSE, repeat=2))
    run = system.maintain({"e": frozenset()}, {}, {})
    assert run.rounds[0].value == {"closure": SetChange(frozenset(), system.every_row("closure"))}
