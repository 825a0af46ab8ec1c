"""Ranks of rows in shards: Lamport clocks, with some bits of a row's hash behind.

A shard's clock jumps past every rank it hears of and goes up by one each round; rows that come in
one round are ordered by their hashes, so that they need not wait for each other's votes when one
of them goes. Invariant: a row's rank depends on its values and the clock only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deltafix.spark.hashing import Hashes
from deltafix.spark.shards.layout import Derived

RANK_BITS = 8
"""Bits of a rank that are a row's hash; the others are the clock."""


def rank_rows(hashes: Hashes, clock: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ranks of rows with these hashes that come when the clock stands so."""
    order = hashes & np.uint64((1 << RANK_BITS) - 1)
    ranks: np.ndarray[Any, np.dtype[np.int64]] = (clock << RANK_BITS) | order.astype(np.int64)
    return ranks


def ranked_parts(made: Derived) -> list[str]:
    """The local relations of a recursive one that carry ranks, behind its columns."""
    if not made.ranked:
        return []
    return [made.part("vote"), made.part("now"), *(copy.name for copy in made.within)]
