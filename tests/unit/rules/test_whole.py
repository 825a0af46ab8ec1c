"""Disjunctions that stay whole: how rules grow, what stands alone, where marks do not count."""

from __future__ import annotations

import pytest
from tests.judges.oracle import evaluate

import deltafix
from deltafix.datalog.program import Program
from deltafix.errors import ProgramError
from deltafix.plan.build import lower
from deltafix.rules.check import typed
from deltafix.rules.whole import MOST

DECLARED = """
.decl p(x: number)
.input p
.decl q(x: number, y: number)
.input q
.decl r(x: number)
.output r
"""


def clauses(text: str) -> list[str]:
    """What the planner makes of a program, one text a clause."""
    return [str(clause) for clause in lower(typed(Program.parse(DECLARED + text))).clauses]


def test_rules_grow_with_their_disjunctions_and_not_with_the_product() -> None:
    counts = {}
    for many in (3, 6, 9):
        names = [f"{side}{n}" for n in range(many) for side in "ab"]
        declared = "".join(f".decl {one}(x: number)\n.input {one}\n" for one in names)
        chosen = ", ".join(
            f"(a{n}(x), y{n} = x ; !a{n}(x), b{n}(x), y{n} = 0)" for n in range(many)
        )
        total = " + ".join(f"y{n}" for n in range(many))
        program = Program.parse(f"{DECLARED}{declared}r({total}) :- p(x), {chosen}.")
        counts[many] = len(lower(typed(program)).clauses)
        rows: dict[str, list[tuple[int, ...]]] = {name: [(1,), (2,)] for name in names}
        rows |= {"p": [(1,), (2,), (3,)], "q": [], "a1": [(1,)], "b0": [(2,)]}
        with deltafix.connect(program) as db:
            for name, given in rows.items():
                with db.transaction() as tx:
                    tx.insert(name, given)
            assert set(db.rows("r")) == evaluate(program, rows)["r"] != set()
            with db.transaction() as tx:
                tx.delete("a0", [(1,)])
                tx.insert("b0", [(1,)])
            rows |= {"a0": [(2,)], "b0": [(1,), (2,)]}
            assert set(db.rows("r")) == evaluate(program, rows)["r"] != set()
            db.check_invariants()
            proof = db.why("r", (many - 1,))  # as the rule says it: each literal has its premise
            below = [(step.relation, step.row) for step in proof.steps[1:]]
            assert sorted(below) == sorted([(f"a{n}", (1,)) for n in range(1, many)]
                                           + [("b0", (1,)), ("p", (1,))])  # fmt: skip
            assert proof.steps[0].absent == ("a0(1) is absent",)
            assert proof.height == 1
    assert counts[9] - counts[6] == counts[6] - counts[3] > 0


def test_few_choices_are_written_out() -> None:
    assert MOST == 4
    made = clauses("r(x) :- (p(x) ; q(x, _)), (p(x) ; q(_, x)).")
    assert len(made) == 4
    assert not any("~" in one for one in made)


def test_a_lone_disjunction_multiplies_nothing() -> None:
    made = clauses(f"r(x) :- p(x), ({' ; '.join(f'q(x, {n})' for n in range(9))}).")
    assert len(made) == 9


def test_what_only_tests_a_variable_has_what_binds_it_in_front() -> None:
    made = clauses("r(x) :- q(x, y), y > 1, (p(x) ; !p(y)), (p(x) ; x = y + 1), (p(y) ; x < 9).")
    assert made[:4] == [
        "~1(x, y) :- q(_, y), y > 1, p(x).",
        "~1(x, y) :- q(x, y), y > 1, !p(y).",
        "~2(x, y) :- q(_, y), y > 1, p(x).",
        "~2(x, y) :- q(_, y), y > 1, x = +(y, 1).",
    ]
    assert made[-1] == "r(x) :- q(x, y), y > 1, ~1(x, y), ~2(x, y), ~3(x, y)."


def test_a_choice_that_needs_anothers_is_written_out() -> None:
    made = clauses("r(x) :- p(x), (p(y) ; q(z, 1)), y = z, (p(x) ; q(x, _)), (p(x) ; q(_, x)).")
    assert sum("~1(x), ~2(x)" in one for one in made if one.startswith("r(x) :- ")) == 2


def test_what_cannot_stand_alone_is_named_when_it_is_too_much() -> None:
    pairs = ", ".join(f"(p(y{n}) ; p(z{n})), y{n} = z{n}" for n in range(13))
    with pytest.raises(ProgramError, match=r"`p\(y0\)` cannot stand alone: it gives .* to `z0`"):
        Program.parse(f"{DECLARED}r(x) :- p(x), {pairs}.")


@pytest.mark.parametrize(
    "body",
    [
        "r(x - 1), (p(x) ; q(x, _)), (p(x) ; q(_, x)), !!( q(x, y), p(y) ; p(x), y = x )",
        "r(x), (p(x) ; q(x, _)), (p(x) ; q(_, x)), 0 < count : { q(x, _) }",
    ],
)
def test_a_recursion_that_is_asked_for_keeps_its_rules(body: str) -> None:
    made = clauses(f"r(x) :- p(x).\nr(x) :- {body}.")
    assert sum(one.startswith("r(x) :- ") for one in made) > MOST


def test_a_function_is_not_called_for_what_the_rest_rules_out() -> None:
    """A disjunction computes its own rows, and yet no more than the rule would."""

    def half(x: int) -> int:
        if x % 2:
            raise ValueError(x)
        return x // 2

    chosen = ", ".join(f"(y{n} = @half(x + {2 * n}) ; y{n} = x)" for n in range(3))
    program = Program.parse(
        f"{DECLARED}.functor half(x: number): number\n"
        f"r(y0 + y1 + y2) :- q(x, _), x % 2 = z, z < 1, {chosen}."
    )
    assert any(clause.asks == 3 for clause in lower(typed(program)).clauses)
    with deltafix.connect(program, functors={"half": half}) as db:
        with db.transaction() as tx:
            tx.insert("q", [(1, 1), (2, 1), (3, 1)])
        even = {"p": [], "q": [(2, 1)]}
        assert set(db.rows("r")) == evaluate(program, even, functors={"half": half})["r"] != set()
