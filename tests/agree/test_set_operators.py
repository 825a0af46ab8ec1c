"""agree_*: set operators, with the incremental form and the derivation count derived for each.

Incremental fixpoint computation, section 5.2, asks both of every primitive: the step from a delta
(what a change of one operand adds) and the count of a row's derivations (for deletion). Here they
are the planner's delta rules, and the derivations that an epoch makes and breaks.
Sees: an operator whose delta rules miss an operand, or count a derivation twice.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

import deltafix
from deltafix.plan.explain import explain
from deltafix.rules.comprehension import FixpointRelation
from deltafix.rules.operators import (
    aggregate,
    const,
    difference,
    filter_,
    join,
    lfp,
    product,
    project,
    union,
)


class Operator(NamedTuple):
    name: str
    build: Callable
    """The set, of the relations r(a) and e(a, b)."""
    steps: list[str]
    """The step from a delta, for each operand that can change."""
    derivations: Callable
    """The derivations (row, from what), from the rows of r, those of e, and the result."""
    recursive: bool = False


OPERATORS = [
    Operator(
        "const",
        lambda r, e: const([(7,), (8,)]),
        [],
        lambda r, e, s: {((7,), "const"), ((8,), "const")},
    ),
    Operator(
        "union",
        lambda r, e: union(r, project(e, lambda a, b: b)),
        ["Δs(a) :- Δr(a).", "Δs(b) :- Δe(a, b)."],
        lambda r, e, s: {*((row, "r") for row in r), *(((b,), a) for a, b in e)},
    ),
    Operator(
        "join",
        lambda r, e: join(e, r, on=[(0, 0)], project=lambda u, v, _: v),
        ["Δs(b) :- Δe(a, b), new r(a).", "Δs(b) :- old e(a, b), Δr(a)."],
        lambda r, e, s: {((b,), a) for a, b in e if (a,) in r},
    ),
    Operator(
        "filter",
        lambda r, e: filter_(lambda a, b: a < b, e),
        ["Δs(a, b) :- Δe(a, b), a < b."],
        lambda r, e, s: {(row, "e") for row in e if row[0] < row[1]},
    ),
    Operator(
        "project",
        lambda r, e: project(e, lambda a, b: b),
        ["Δs(b) :- Δe(a, b)."],
        lambda r, e, s: {((b,), a) for a, b in e},
    ),
    Operator(
        "product",
        lambda r, e: product(r, r),
        ["Δs(a, a2) :- Δr(a), new r(a2).", "Δs(a, a2) :- old r(a), Δr(a2)."],
        lambda r, e, s: {(a + b, "r r") for a in r for b in r},
    ),
    Operator(
        "difference",
        lambda r, e: difference(project(e, lambda a, b: b), r),
        ["Δs(b) :- Δe(a, b), new !r(b).", "Δs(b) :- old e(a, b), Δ!r(b)."],
        lambda r, e, s: {((b,), a) for a, b in e if (b,) not in r},
    ),
    Operator(
        "aggregate",
        lambda r, e: aggregate(e, "max", 1, by=[0]),
        [
            "Δgroup_1(a) :- Δe(a, b).",
            "Δs(a, max) :- Δgroup_1(a), new ~1(a, max).",
            "Δs(a, max) :- old group_1(a), Δ~1(a, max).",
        ],
        lambda r, e, s: {
            *((None, (a, b)) for a, b in e),  # of the groups
            *(((a, max(b for c, b in e if c == a)), "group") for a, _ in e),
        },
    ),
    Operator(
        "lfp",
        lambda r, e: lambda s: union(r, join(e, s, on=[(0, 0)], project=lambda u, v, _: v)),
        ["Δs(a) :- Δr(a).", "Δs(b) :- Δe(a, b), new s(a).", "Δs(b) :- old e(a, b), Δs(a)."],
        lambda r, e, s: {*((row, "r") for row in r), *(((b,), a) for a, b in e if (a,) in s)},
        recursive=True,
    ),
    Operator(
        "lfp of a join with itself",
        lambda r, e: lambda s: union(e, join(s, s, on=[(1, 0)], project=lambda a, b, _, c: (a, c))),
        [
            "Δs(a, b) :- Δe(a, b).",
            "Δs(c0, c1) :- Δs(c0, c12), new s(c12, c1).",
            "Δs(c0, c1) :- old s(c0, c12), Δs(c12, c1).",
        ],
        lambda r, e, s: {
            *((row, "e") for row in e),
            *(((a, d), b) for a, b in s for c, d in s if b == c),
        },
        recursive=True,
    ),
]


def program_of(operator: Operator) -> tuple[deltafix.Program, FixpointRelation]:
    with deltafix.Program() as program:
        r, e = program.relation("r", a=int), program.relation("e", a=int, b=int)
        made = operator.build(r, e)
        return program, lfp(made if callable(made) else lambda _: made, name="s")


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.name)
def test_the_step_from_a_delta_is_derived(operator):
    program, s = program_of(operator)
    with deltafix.connect(program) as db:
        plan = explain(db.plan)
    found = [one["rule"] for stratum in plan["strata"] for rule in stratum["rules"]
             for one in rule["deltas"] if one["rule"].startswith("Δ")]  # fmt: skip
    assert found == operator.steps
    assert str(s.step_from_delta).splitlines() == [step for step in found if "Δs(" in step[1:]]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.name)
def test_oracle_every_derivation_is_counted_once(operator):
    rng = Random(operator.name)
    program, s = program_of(operator)
    with deltafix.connect(program) as db:
        rows = {"r": set(), "e": set()}
        counted = operator.derivations(set(), set(), set())
        for _ in range(40):
            with db.transaction() as tx:
                kept, rows = rows, {}
                for name, width in (("r", 1), ("e", 2)):
                    gone = {row for row in kept[name] if rng.random() < 0.2}
                    new = {tuple(rng.choices(range(5), k=width)) for _ in range(rng.randint(0, 2))}
                    tx.delete(name, sorted(gone))
                    tx.insert(name, sorted(new))
                    rows[name] = (kept[name] - gone) | new
            result = set(db.rows("s"))
            before, counted = counted, operator.derivations(rows["r"], rows["e"], result)
            made_and_broken = len(before ^ counted)
            if operator.recursive and not all(kept[name] <= rows[name] for name in rows):
                assert db.last_epoch.derivations >= made_and_broken  # what came back counts too
            else:
                assert db.last_epoch.derivations == made_and_broken
            assert {row for row, _ in counted if row is not None} == result
            for row in result:
                assert s.derivation_count(db, row) == sum(head == row for head, _ in counted)
            some = {row for row in result if rng.random() < 0.3}
            without = operator.derivations(rows["r"], rows["e"], result - some)
            follows = {row for row, _ in counted - without}
            assert s.step_from_delta(db, sorted(some)) == sorted(follows)
