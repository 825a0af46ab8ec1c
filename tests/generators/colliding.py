"""Numbers whose hashes as keys of the kernel's tables are the same."""

from __future__ import annotations

from functools import cache

import numpy as np

from deltafix.kernel.keys import hash_words

__all__ = ["colliding"]


@cache
def colliding(most: int = 200_000, least_hash: int = 0) -> list[list[int]]:
    """Groups of numbers below `most`, each of one hash; of 200,000 some ten pairs of 31 bits."""
    hashes = hash_words([np.arange(most)], 0, 1)
    order = np.argsort(hashes, kind="stable")
    ends = np.flatnonzero(np.diff(hashes[order])) + 1
    groups = np.split(order, ends)
    return [g.tolist() for g in groups if len(g) > 1 and hashes[g[0]] >= least_hash]
