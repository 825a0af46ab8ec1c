"""What is being done just now, in words: told where work is long, heard by whoever asked.

    with heard(print):
        db.apply(delta)        # "path: 1,000,000 rows (stratum 2 of 3)", about ten times a second

Invariant: where nobody asked, a teller pays for looking that up and for nothing else. A hearer is
the calling context's (`contextvars`): other threads tell it nothing. Words are for people, and
no part of the interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_HEARER: ContextVar[Callable[[str], None] | None] = ContextVar("_HEARER", default=None)


@contextmanager
def heard(by: Callable[[str], None]) -> Iterator[None]:
    """Call `by` with what is told inside the block, in place of whoever heard before."""
    token = _HEARER.set(by)
    try:
        yield
    finally:
        _HEARER.reset(token)


def hearer() -> Callable[[str], None] | None:
    """Who hears, for a teller whose words cost something to find."""
    return _HEARER.get()


def tell(what: str) -> None:
    """Say what is being done; "" that what was told last is done."""
    hearer = _HEARER.get()
    if hearer is not None:
        hearer(what)
