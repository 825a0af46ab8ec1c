"""The generators that everything else is judged with keep their own promises."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from tests.generators.random_extended import GROUPS
from tests.generators.strategies import (
    FEATURES,
    FOLDS,
    programs_with_scripts,
    random_program,
    random_script,
    replay,
)
from tests.judges.oracle import evaluate

from deltafix.datalog.program import Program
from deltafix.rules.check import typed

MARKS = {
    "aggregates": (" : {",),
    "negation": ("!in", "!r"),
    "groups": ("!(",),
    "disjunction": (" ; ",),
    "arithmetic": (" % ", " + 1", " - 1", "min(", "max("),
    "symbols": ("symbol",),
    "wildcards": ("_",),
    "comparisons": (" != ", " <= ", " > "),
    "best": ("<min>", "<max>"),
    "branches": ("Leaf",),
    "choice": ("choice-domain",),
    "equivalence": ("eqrel",),
    "founded": ("hup(",),
    "floats": ("float",),
    "parity": ("even(",),
    "range": ("range(",),
    "records": ("pair(",),
    "reducers": ("@@xor",),
    "repeats": ("far",),
    "strings": ("cat(", "strlen(", "match("),
    "subsumption": ("kept(",),
}


@cache
def sources(features: frozenset[str], count: int) -> str:
    seeds = (Random(seed) for seed in range(count))
    return "".join(random_program(rng, 4, features).source or "" for rng in seeds)


@given(programs_with_scripts())
@settings(max_examples=60, deadline=None)
def test_every_edit_of_a_script_changes_something(pair: tuple) -> None:
    program, script = pair
    present: dict[str, set[tuple]] = {name: set() for name in program.names("input")}
    for epoch, after in zip(script, replay(program, script), strict=True):
        for sign, name, row in epoch:
            assert len(row) == program.relation(name).arity
            assert (row in present[name]) == (sign == "-")
            (present[name].remove if sign == "-" else present[name].add)(row)
        assert after == present


def test_a_seed_gives_the_same_program_and_script() -> None:
    one, two = Random(7), Random(7)
    program = random_program(one, 5)
    assert program == random_program(two, 5)
    assert random_script(one, program) == random_script(two, program)


@pytest.mark.parametrize("feature", sorted(MARKS))
def test_a_feature_appears_when_asked_for_and_only_then(feature: str) -> None:
    def shown(text: str) -> bool:
        return any(mark in text for mark in MARKS[feature])

    assert shown(sources(FEATURES, 80))
    alone = {
        "groups": {*GROUPS, "negation"},
        "aggregates": {"reducers"},
        "arithmetic": set(GROUPS) | {"range", "strings"},
        "comparisons": {
            *GROUPS,
            "groups",
            "arithmetic",
            "repeats",
            "strings",
            "untrue",
            "witnesses",
        },
        "disjunction": {"groups"},
        "negation": set(GROUPS) | {"groups", "strings"},
        "symbols": {"strings"},
        "wildcards": set(GROUPS)
        | {"founded", "disjunction", "aggregates", "strings", "repeats", "groups"},
    }
    without = FEATURES - {feature} - alone.get(feature, set())
    assert not shown(sources(without, 80))


def test_random_programs_recurse_derive_and_change() -> None:
    rng = Random(1)
    recursive = derived = changed = 0
    for _ in range(25):
        program = random_program(rng, 4)
        recursive += any(stratum.recursive for stratum in typed(program).strata)
        results = [
            evaluate(program, i, reducers=FOLDS)
            for i in replay(program, random_script(rng, program, 4))
        ]
        views = [{name: r[name] for name in program.names("output")} for r in results]
        derived += any(any(view.values()) for view in views)
        changed += any(one != two for one, two in pairwise(views))
    assert recursive >= 6
    assert derived >= 15
    assert changed >= 10


def test_the_oracle_refuses_what_does_not_stratify() -> None:
    program = Program.parse(".decl a(x: number) .decl b(x: number) a(x) :- b(x), !b(x).")
    rule = program.rules[0]
    twisted = type(rule)((type(rule.heads[0])("b", rule.heads[0].args),), rule.body)
    data = Program(program.relations, (rule, twisted))
    with pytest.raises(ValueError, match="inside recursion"):
        evaluate(data, {})


def test_the_oracle_stops_on_a_program_that_never_ends() -> None:
    program = Program.parse(".decl a(x: number) a(0). a(x + 1) :- a(x).")
    with pytest.raises(RuntimeError, match="no fixpoint after 20 rounds"):
        evaluate(program, {}, max_rounds=20)
