"""Every change action keeps every law it has fields for: sampled, or at all points of a carrier."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import strategies as st

from deltafix.changes import (
    ChangeAction,
    SetChange,
    Tagged,
    booleans,
    disjoint_union,
    empty_action,
    full_action,
    integers,
    maps,
    multiset,
    multisets,
    naturals,
    pointwise,
    product,
    sets,
    words,
)
from deltafix.changes.instances import boolean_algebra, join_action, meet_action, semiautomaton
from deltafix.changes.sets import all_set_changes, all_subsets
from deltafix.errors import LawError
from deltafix.testing import check_change_action

LETTERS = ("a", "b", "c")
subsets = st.frozensets(st.sampled_from(LETTERS))
set_changes = st.tuples(subsets, subsets).map(lambda p: SetChange(p[0] - p[1], p[1] - p[0]))
counts = st.dictionaries(st.sampled_from(LETTERS), st.integers(-2, 2)).map(multiset)
small = st.integers(-5, 5)
texts = st.lists(st.sampled_from(LETTERS), max_size=3).map(tuple)
int_maps = st.dictionaries(st.sampled_from(LETTERS), small.filter(bool))
functions = st.lists(small, min_size=3, max_size=3).map(lambda ys: lambda x: ys[x])
endos = st.lists(st.integers(0, 2), min_size=3, max_size=3).map(lambda ys: lambda x: ys[x])

SAMPLED: dict[str, tuple[ChangeAction[Any, Any], Any, Any]] = {
    "naturals": (naturals(), st.integers(0, 9), st.integers(0, 9)),
    "integers": (integers(), small, small),
    "sets": (sets(LETTERS), subsets, set_changes),
    "multisets": (multisets(), counts, counts),
    "words": (words(), texts, texts),
    "maps": (maps(integers(), 0), int_maps, int_maps),
    "product": (
        product(integers(), sets()),
        st.tuples(small, subsets),
        st.tuples(small, set_changes),
    ),
    "disjoint union": (
        disjoint_union(integers(), sets()),
        st.one_of(small.map(lambda n: Tagged(0, n)), subsets.map(lambda values: Tagged(1, values))),
        st.tuples(small, set_changes),
    ),
    "pointwise": (pointwise(integers(), range(3)), functions, functions),
    "full": (full_action(range(3)), st.integers(0, 2), endos),
    "semiautomaton": (
        semiautomaton(lambda state, letter: (2 * state + ord(letter)) % 7),
        st.integers(0, 6),
        texts,
    ),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_laws_hold_at_sampled_points(name: str) -> None:
    action, values, changes = SAMPLED[name]
    report = check_change_action(action, values=values, changes=changes, max_examples=25)
    assert not report.exhaustive
    assert ("minus_law" in report.laws) == action.complete
    assert report.points >= len(report.laws)


subsets_of_two = list(all_subsets("ab"))
EXHAUSTIVE: dict[str, tuple[ChangeAction[Any, Any], Any, Any, int]] = {
    "booleans": (booleans(), [False, True], [(False, False), (True, False), (False, True)], 7),
    "sets of two": (sets("ab"), subsets_of_two, list(all_set_changes("ab")), 7),
    "empty": (
        empty_action(zero=0, combine=lambda d, e: (d + e) % 3),
        ["x", "y"],
        [0, 1, 2],
        7,
    ),
    "union only": (
        join_action("unions", bottom=frozenset(), join=operator.or_, leq=operator.le),
        subsets_of_two,
        subsets_of_two,
        7,
    ),
    "intersection only": (
        meet_action("meets", top=frozenset("ab"), meet=operator.and_, leq=operator.le),
        subsets_of_two,
        subsets_of_two,
        7,
    ),
    "four bits": (
        boolean_algebra(
            "masks",
            bottom=0,
            join=operator.or_,
            meet=operator.and_,
            complement=lambda bits: 3 & ~bits,
        ),
        range(4),
        [(p, q) for p in range(4) for q in range(4) if not p & q],
        7,
    ),
}


@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_laws_hold_at_every_point_of_a_finite_carrier(name: str) -> None:
    action, values, changes, at_least = EXHAUSTIVE[name]
    report = check_change_action(action, values=values, changes=changes)
    assert report.exhaustive
    assert len(report.laws) >= at_least
    # the law with the most variables alone has |changes|³ points
    assert report.points > len(list(changes)) ** 3


def test_changes_of_an_action_are_an_action_again() -> None:
    """Section 2.1: (ΔA, ΔA, +), so changes to changes need no further work."""
    changes = list(all_set_changes("ab"))
    assert check_change_action(sets("ab").changes_action(), values=changes, changes=changes)


BROKEN: dict[str, tuple[ChangeAction[Any, Any], Any, Any, str, str]] = {
    "action_identity": (
        ChangeAction(name="off by one", zero=1, combine=operator.add, apply=operator.add),
        small,
        small,
        "action_identity",
        "off by one breaks the law action_identity (`a ⊕ 0 = a`): the zero change turns 0 into 1; "
        "it must change nothing",
    ),
    "monoid_associative": (
        ChangeAction(name="minus", zero=0, combine=operator.sub, apply=lambda a, _: a),
        [0, 1],
        [0, 1],
        "monoid_left_identity",
        "minus breaks the law monoid_left_identity (`0 + d = d`): the zero change, then (1), "
        "combine into (-1)",
    ),
    "action_composes": (
        ChangeAction(
            name="last wins",
            zero=frozenset(),
            combine=operator.or_,
            apply=lambda a, d: d or a,
        ),
        subsets,
        subsets,
        "action_composes",
        "last wins breaks the law action_composes (`a ⊕ (d + e) = (a ⊕ d) ⊕ e`): from {}, the "
        "change ({'a'}) and then ({'b'}) lead to {'b'}, but the two combined into ({'a', 'b'}) "
        "lead to {'a', 'b'}",
    ),
    "minus_law": (
        ChangeAction(
            name="swapped",
            zero=0,
            combine=operator.add,
            apply=operator.add,
            minus=lambda to, frm: frm - to,
        ),
        small,
        small,
        "minus_law",
        "swapped breaks the law minus_law (`a ⊕ (b ⊖ a) = b`): the difference from 0 to 1 is "
        "given as (-1), but applying it to 0 gives -1",
    ),
    "values_closed": (
        ChangeAction(
            name="stock",
            zero=0,
            combine=operator.add,
            apply=operator.add,
            is_value=lambda n: isinstance(n, int) and n >= 0,
        ),
        st.integers(0, 5),
        small,
        "values_closed",
        "stock breaks the law values_closed (`a ⊕ d` is a value again): (-1) turns 0 into -1, "
        "not a value of stock",
    ),
    "change_order_sound": (
        ChangeAction(
            name="upside down",
            zero=0,
            combine=operator.add,
            apply=operator.add,
            leq=operator.le,
            change_leq=operator.ge,
        ),
        small,
        small,
        "change_order_sound",
        "upside down breaks the law change_order_sound (`d ⊑ e` implies `a ⊕ d ≤ a ⊕ e`; vacuous "
        "without both orders): (0) counts as below (-1), but they turn 0 into 0 and -1",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_action_is_found_with_the_smallest_sentence(name: str) -> None:
    action, values, changes, law, sentence = BROKEN[name]
    with pytest.raises(LawError) as caught:
        check_change_action(action, values=values, changes=changes)
    assert caught.value.law == law
    assert str(caught.value) == sentence


def test_the_printed_monoid_without_its_repair_breaks_composition() -> None:
    """(p, q) + (r, s) needs `p ∧ ¬s`: joining the halves alone forgets which change came last."""
    naive = ChangeAction[frozenset[str], tuple[frozenset[str], frozenset[str]]](
        name="joined halves",
        zero=(frozenset(), frozenset()),
        combine=lambda d, e: (d[0] | e[0], d[1] | e[1]),
        apply=lambda a, d: (a | d[0]) - d[1],
    )
    pairs = [(c.added, c.removed) for c in all_set_changes("a")]
    with pytest.raises(LawError, match="action_composes") as caught:
        check_change_action(naive, values=list(all_subsets("a")), changes=pairs)
    assert len(caught.value.example) == 3
