"""What is being done just now, in words: told where work is long, heard by whoever asked.

    with heard(lambda what, done, of: print(what)):
        db.apply(delta)        # "path: 1,000,000 rows (stratum 2 of 3)", about ten times a second

Invariant: where nobody asked, a teller pays for looking that up and for nothing else. A hearer is
the calling context's (`contextvars`): other threads tell it nothing. Words are for people, and
no part of the interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Hearer: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much: 0 of 0 if unknown."""

_HEARER: ContextVar[Hearer | None] = ContextVar("_HEARER", default=None)


@contextmanager
def heard(by: Hearer) -> Iterator[None]:
    """Call `by` with what is told inside the block, in place of whoever heard before."""
    token = _HEARER.set(by)
    try:
        yield
    finally:
        _HEARER.reset(token)


def hearer() -> Hearer | None:
    """Who hears, for a teller whose words cost something to find."""
    return _HEARER.get()


def tell(what: str, done: int = 0, of: int = 0) -> None:
    """Say what is being done, and how much of how much is done; "": what was told last is done.

    `done` and `of` have one unit, which is the teller's: from them whoever hears may say how long
    the rest takes. Words alone leave them as they were told;
    where all is done they are forgotten.
    """
    hearer = _HEARER.get()
    if hearer is not None:
        hearer(what, done, of)
