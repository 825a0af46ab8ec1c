"""Python's cyclic garbage collector, held back while what stays alive grows, and seldom otherwise.

Large runs allocate what stays: facts, supports that point at each other, fragments of files. Full
collections would walk all of it again each time it grew by a quarter and find nothing; that was 30
to 50 % of a tabled evaluation (bench/notes/zz-tabling.md). What a run drops is mostly freed by
reference counts at once; the rest waits for the first collection after it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def seldom() -> None:
    """Collect after 20,000 new objects, and not 700: for a process that is ours, from its start.

    Of the dead code of this tree a fifth of the processor's time were 5,184 collections; it is 102
    now, in the same memory.
    """
    gc.set_threshold(20_000, 10, 10)


@contextmanager
def held_back() -> Iterator[None]:
    """Let no cyclic collection start inside the block; as before afterwards.

    The switch is the process's: another thread's collections wait too.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
