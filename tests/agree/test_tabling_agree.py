"""Random tabled programs under random edits of facts and rules, by all strategies.

Incremental tables must agree with fresh ones, with a ground alternating fixpoint, and with the
naive oracle over the demand-transformed program; deltas must be net and exact; an update that is
stopped must leave no trace. A failure names its seed: `play(seed, mode)` repeats it.
"""

from collections import Counter

import pytest
from tests.support.amount import some

import deltafix
from deltafix.tabling import Tables, open_tables

from .tabling_programs import contents, play, play_routes


def played(seeds: range, mode: str, *, oracle_too: bool = False) -> Counter[str]:
    epochs: Counter[str] = Counter()
    for seed in seeds:
        epochs += play(seed, mode, oracle_too=oracle_too)
    return epochs


def test_oracle_function_free_programs():
    assert played(range(12), "flat", oracle_too=True)["compared"] >= 60


@pytest.mark.parametrize("first", [12, 112][: some(2)])
def test_agree_function_free_programs(first):
    epochs = played(range(first, first + 100), "flat")
    assert epochs["compared"] >= 500
    assert epochs["stopped"] >= 20
    assert epochs["valued"] == 0  # nothing is delayed, so no truth is looked for


@pytest.mark.parametrize("first", [0, 14][: some(2)])
def test_agree_programs_over_terms(first):
    epochs = played(range(first, first + 14), "terms")
    assert epochs["compared"] >= 50
    assert epochs["stopped"] >= 3


@pytest.mark.parametrize("first", [0, 100][: some(2)])
def test_oracle_programs_with_negation(first):
    epochs = played(range(first, first + 100), "negation")
    assert epochs["compared"] >= 500
    assert epochs["undefined"] >= 3


@pytest.mark.parametrize("first", [0, 100, 200][: some(3)])
def test_oracle_layers_over_games(first):
    epochs = played(range(first, first + 100), "layered")
    assert epochs["compared"] >= 500
    assert epochs["undefined"] >= 200
    assert 100 <= epochs["valued"] <= epochs["compared"] / 2


@pytest.mark.parametrize("first", [0, 20][: some(2)])
def test_oracle_graphs_whose_calls_come_to_be_of_one_component(first):
    epochs = played(range(first, first + 20), "graphs")
    assert epochs["compared"] >= 90


def test_agree_what_the_engine_refuses_when_it_plans_stays_on_the_term_route():
    assert play_routes(5468, deltafix.connect) == {"term": 4}


@pytest.mark.parametrize("seed", [52, 100, 101, 102, 103])
def test_agree_kernel_route_and_term_route(seed):
    assert play_routes(seed, deltafix.connect) == {"kernel": 4}


def test_agree_kernel_route_until_negation_is_not_stratified():
    assert play_routes(32, deltafix.connect) == {"kernel": 3, "term": 1}


def test_agree_an_even_number_of_negations_inside_recursion_is_left_to_the_term_route():
    """The engine would have the least fixpoint of one of the two; here both are undefined."""
    text = """
    p(X) :- f(X), e(X, X), \\+ q(X).
    q(X) :- f(X), \\+ p(X).
    over(X) :- q(X).
    f(a). f(b). e(b, b).
    """
    term, auto = Tables(text), open_tables(text, engine="auto", connect=deltafix.connect)
    routes, undefined = [], 0
    for edit in ({"insert": ["e(a, a)"]}, {"delete": ["q(A) :- f(A), \\+ p(A)"]}):
        for goal in ("p(X)", "q(X)", "over(X)"):
            assert contents(term, goal) == contents(auto, goal)
            undefined += sum(one.truth == "undefined" for one in term.query(goal))
        routes.append(auto.route)
        assert auto.update(**edit).lines() == term.update(**edit).lines()
    auto.close()
    assert routes == ["term", "term"]
    assert undefined == 3 + 6
