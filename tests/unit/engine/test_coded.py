"""Rows of codes as integers: which are equal, and where others stand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from deltafix.engine.coded import distinct, numbered, places_among
from deltafix.kernel.values import NIL

CODES = (0, 1, 2, NIL, NIL - 1, -1, -(1 << 31))


@pytest.mark.parametrize("width", range(1, 7))
def test_rows_are_equal_where_their_numbers_are(width: int) -> None:
    """Whatever the column in which they differ."""
    rng, met = Random(width), 0
    for _ in range(200):
        pool = [[rng.choice(CODES) for _ in range(width)] for _ in range(4)]
        for row in list(pool):  # one column is another one
            pool.append([*row])
            pool[-1][rng.randrange(width)] = rng.choice(CODES)
        rows, others = ([rng.choice(pool) for _ in range(rng.randint(1, 12))] for _ in range(2))
        one, two = (np.array(side, np.int32) for side in (rows, others))
        mine, theirs = (part.tolist() for part in numbered(one, two))
        both = list(zip(rows + others, mine + theirs, strict=True))
        assert all((a == b) == (m == n) for a, m in both for b, n in both)
        once = distinct(two)
        assert sorted(once.tolist()) == sorted(map(list, {*map(tuple, others)}))
        places = places_among(one, once).tolist()
        known = once.tolist()
        assert places == [known.index(row) if row in known else -1 for row in rows]
        met += sum(place >= 0 for place in places)
    assert met > 200
