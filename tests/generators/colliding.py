"""Numbers whose hashes as keys of the kernel's tables are the same."""

from __future__ import annotations

from functools import cache

import numpy as np

from deltafix.kernel.keys import hash_words

__all__ = ["colliding"]


@cache
def colliding() -> list[list[int]]:
    """Groups of numbers below 200,000, each of one hash; some ten pairs of 31 bits."""
    found: dict[int, list[int]] = {}
    for number in range(200_000):
        found.setdefault(hash_words(np.array([number]), 0, 1), []).append(number)
    return [group for group in found.values() if len(group) > 1]
