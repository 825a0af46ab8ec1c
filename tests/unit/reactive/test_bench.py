"""The reducer bench runs, and its contenders agree."""

from __future__ import annotations

import dataclasses
import gc

import pytest
from bench.reactive import Figures, disagreements, run


@pytest.fixture(scope="module")
def results():
    """Its collector runs before each load: what tests hold by now need not be walked each time."""
    gc.collect()
    gc.freeze()
    return run(rows=3000, keys=300, edits=200, peers=False)


def test_contenders_end_with_the_same_answers(results):
    figures = [one for one in results if isinstance(one, Figures)]
    assert len(figures) == 5
    assert disagreements(results) == []
    assert all(
        one.p50_us > 0 and one.first_us > 0 and one.load_rows_per_second > 0 for one in figures
    )


def test_a_contender_that_ends_elsewhere_is_named(results):
    wrong = dataclasses.replace(results[-1], name="other", answer=(0, 0))
    assert any("other ends with (0, 0)" in line for line in disagreements([*results, wrong]))
