"""Random tabled programs under random edits of facts and rules, by all strategies.

Incremental tables must agree with fresh ones, with a ground alternating fixpoint, and with the
naive oracle over the demand-transformed program; deltas must be net and exact.
"""

import pytest

import deltafix

from .tabling_programs import play, play_routes


@pytest.mark.parametrize("seed", range(12))
def test_oracle_function_free_programs(seed):
    assert play(seed, "flat", oracle_too=True) >= 3


@pytest.mark.parametrize("seed", range(14))
def test_agree_programs_over_terms(seed):
    assert play(seed, "terms") >= 0


@pytest.mark.parametrize("seed", range(16))
def test_oracle_programs_with_negation(seed):
    assert play(seed, "negation") >= 3


@pytest.mark.parametrize("seed", [52, 100, 101, 102, 103, 239])
def test_agree_kernel_route_and_term_route(seed):
    assert play_routes(seed, deltafix.connect) == 4
