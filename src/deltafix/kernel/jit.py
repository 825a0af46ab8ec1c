"""What the kernel's functions are marked with, and what they are compiled from.

Invariant: a function marked by `kernel` stays plain Python. `compiler` turns all of them into one
object file, `native` loads that, and `entries` has what Python calls; with NUMBA_DISABLE_JIT=1 the
plain functions themselves are called. Importing this, or any marked function, imports no numba.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
BOUNDS_CHECKED = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")

MARKED: dict[Callable[..., Any], str] = {}
"""Function to signature, callees before their callers."""

if JIT_DISABLED:
    # Wrap-around is the kernel's arithmetic; numpy's scalars would warn about each.
    np.seterr(over="ignore", divide="ignore", invalid="ignore")


def kernel(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function of the kernel. `signature` is one letter an argument: `"i:ALPii"`.

    Letters: A arena as int32, L arena (or another table) as int64, P program or rows as int32,
    i int64, b boolean, f float64, v (result) void.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        MARKED[function] = signature
        return function

    return mark


def prefetch(array: Any, index: int) -> None:
    """Ask for the cache line of `array[index]`; a hint, never a fault, no result.

    Compiled, it is one instruction (`compiler`); measured: docs/kernel.md, "Prefetch".
    """


@cache
def sources_digest() -> str:
    """SHA-256 of all kernel sources, and of whether bounds are checked, in hex."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    digest.update(str(BOUNDS_CHECKED).encode())
    return digest.hexdigest()
