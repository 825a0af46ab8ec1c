"""How many cases random tests take: one knob for `make test`, CI and `make fuzz`.

Invariant: a test draws the same cases in the same order however many it takes, so those of CI are
the first of those of `make test`, and these of `make fuzz`.
"""

from __future__ import annotations

import os

FUZZED = "DELTAFIX_EXAMPLES" in os.environ
"""Whether `make fuzz` runs the tests."""


def cases(usual: int, *, per: int = 1, fuzz: int = 0) -> int:
    """How many a test takes: `usual`, half of it in CI, and at least one.

    `make fuzz` takes `fuzz` of them, or one for each `per` examples that it is asked for.
    """
    if FUZZED:
        return max(usual, fuzz or int(os.environ["DELTAFIX_EXAMPLES"]) // per)
    return some(usual)


def some(usual: int) -> int:
    """How many a test takes that `make fuzz` runs as `make test` does; half of them in CI."""
    return (usual + 1) // 2 if "CI" in os.environ and not FUZZED else usual


def every(usual: int, *, fuzz: int) -> int:
    """Of cases in a row each how manieth is taken: half as many in CI."""
    return fuzz if FUZZED else usual * 2 if "CI" in os.environ else usual
