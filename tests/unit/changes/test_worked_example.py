"""The tables and derivations that the change-action source prints, with its exact numbers."""

from __future__ import annotations

from deltafix.changes import PRECISE, Definition, SetChange, System, differentiate
from deltafix.changes.formula import Aggregate, And, Exists, Not, Or, Relation, Test

TC = Definition(
    "tc",
    ("x", "y"),
    Or(
        Relation("e", ("x", "y")),
        Exists("z", And(Relation("e", ("x", "z")), Relation("tc", ("z", "y")))),
    ),
)
CHAIN = {"e": frozenset({(1, 2), (2, 3), (3, 4)})}


def _pairs(*texts: str) -> frozenset[tuple[int, int]]:
    return frozenset((int(text[0]), int(text[1])) for text in texts)


def test_section_1_naive_iterations_of_tc() -> None:
    """Each iterate contains the last: (1, 2) is deduced again at every one."""
    system = System((TC,), (1, 2, 3, 4))
    table = [system.iteration(CHAIN, n).get("tc", frozenset()) for n in range(5)]
    assert table == [
        _pairs(),
        _pairs("12", "23", "34"),
        _pairs("12", "23", "34", "13", "24"),
        _pairs("12", "23", "34", "13", "24", "14"),
        _pairs("12", "23", "34", "13", "24", "14"),
    ]


def test_section_1_semi_naive_iterations_of_tc() -> None:
    """The table of Δtc and tc: each fact is found in exactly one round."""
    run = System((TC,), (1, 2, 3, 4)).solve(CHAIN)
    nothing = SetChange[tuple[int, int]]()
    table = [
        (at.number, at.change.get("tc", nothing).added, at.value.get("tc", frozenset()))
        for at in run.rounds
    ]
    assert table == [
        (0, _pairs("12", "23", "34"), _pairs()),
        (1, _pairs("13", "24"), _pairs("12", "23", "34")),
        (2, _pairs("14"), _pairs("12", "23", "34", "13", "24")),
        (3, _pairs(), _pairs("12", "23", "34", "13", "24", "14")),
    ]


E1 = {"e": _pairs("12", "23", "34", "56")}
DELTA_E = {"e": SetChange(_pairs("45"), _pairs("23"))}


def test_section_6_table_of_changes_to_tc() -> None:
    """Iterations 1 to 3 of δw, as printed: additions to ↑, additions to ↓, as above."""
    system = System((TC,), (1, 2, 3, 4, 5, 6))
    old = system.solve(E1).value
    run = system.maintain(E1, DELTA_E, old, from_old=True)
    rows, so_far = [], SetChange[tuple[int, int]]()
    for at in run.rounds:
        now = at.change["tc"]
        rows.append((now.added - so_far.added, now.removed - so_far.removed))
        so_far = now
    assert rows == [
        (_pairs("45", "46"), _pairs("23", "24")),
        (_pairs("35", "36"), _pairs("13", "14")),
        (_pairs(), _pairs()),
    ]
    assert run.value["tc"] == SetChange(
        _pairs("35", "36", "45", "46"), _pairs("13", "14", "23", "24")
    )


def test_section_6_result_with_the_row_the_source_leaves_out() -> None:
    """The source prints tc before and after without (3, 4), though the edge 3 → 4 is in both."""
    system = System((TC,), (1, 2, 3, 4, 5, 6))
    old = system.solve(E1).value
    printed_before = _pairs("12", "13", "14", "23", "24", "56")
    printed_after = _pairs("12", "35", "36", "45", "46", "56")
    assert old["tc"] == printed_before | _pairs("34")
    new = system.action.apply(old, system.maintain(E1, DELTA_E, old).value)
    assert new["tc"] == printed_after | _pairs("34")
    assert new == system.recompute(system.action.apply(E1, DELTA_E))


def test_section_6_derivative_of_tc() -> None:
    change = differentiate(TC.body, changing=frozenset({"tc"}))
    assert str(TC) == "tc(x, y) ← e(x, y) ∨ ∃z.(e(x, z) ∧ tc(z, y))"
    assert str(change.up) == "∃z.(e(x, z) ∧ ↑tc(z, y))"
    assert str(change.down) == ("¬e(x, y) ∧ ∃z.(e(x, z) ∧ ↓tc(z, y)) ∧ ¬∃z.(e(x, z) ∧ X(tc(z, y)))")


TREE = Definition(
    "treeP",
    ("x",),
    And(
        Relation("p", ("x",)),
        Not(Exists("y", And(Relation("child", ("x", "y")), Not(Relation("treeP", ("y",)))))),
    ),
)


def test_section_4_derivative_of_tree_p() -> None:
    change = differentiate(TREE.body, changing=frozenset({"treeP"}))
    assert str(change.up) == (
        "p(x) ∧ ∃y.(child(x, y) ∧ ↑treeP(y)) ∧ ¬∃y.(child(x, y) ∧ ¬X(treeP(y)))"
    )
    assert str(change.down) == "p(x) ∧ ∃y.(child(x, y) ∧ ↓treeP(y))"


def test_tree_p_is_maintained_beyond_horn_clauses() -> None:
    """Recursion under two negations: a leaf fails and is mended."""
    system = System((TREE,), tuple(range(6)), rules=PRECISE)
    child = frozenset({(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)})
    given = {"child": child, "p": frozenset((n,) for n in range(6))}
    all_hold = system.solve(given).value
    assert sorted(all_hold["treeP"]) == [(n,) for n in range(6)]
    breaks = {"p": SetChange.of((), [(3,)])}
    broken = system.maintain(given, breaks, all_hold, from_old=True)
    assert broken.value["treeP"] == SetChange.of((), [(0,), (1,), (3,)])
    after = system.action.apply(given, breaks)
    mended = system.maintain(
        after,
        {"p": SetChange.of([(3,)])},
        system.action.apply(all_hold, broken.value),
        from_old=True,
    )
    assert mended.value["treeP"] == SetChange.of([(0,), (1,), (3,)])
    assert len(broken.rounds) == len(mended.rounds) == 4


def test_section_4_recursive_height_of_a_tree() -> None:
    """`height` recurses through max; not monotone, it iterates to the answer."""
    child = Relation("child", ("n", "c"))
    leaf = And(Not(Exists("c", child)), Test("=", "h", "zero"))
    inner = Exists(
        "k",
        And(
            Aggregate("k", "max", "p", ("c",), child, Relation("height", ("c", "p"))),
            Relation("succ", ("k", "h")),
        ),
    )
    body = Or(Exists("zero", And(Relation("zero", ("zero",)), leaf)), inner)
    system = System((Definition("height", ("n", "h"), body),), (0, 1, 2, 3), monotone=False)
    given = {
        "child": frozenset({(0, 1), (0, 2), (2, 3)}),
        "zero": frozenset({(0,)}),
        "succ": frozenset({(0, 1), (1, 2), (2, 3)}),
    }
    assert system.solve(given).value == {"height": frozenset({(0, 2), (1, 0), (2, 1), (3, 0)})}
