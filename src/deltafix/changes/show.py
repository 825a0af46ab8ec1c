"""Values and changes in words, for counter-examples.

Invariant: the same value is always shown the same way (sets sorted, no ids), so a sentence can
be pinned in a test. Values this module does not know are shown by `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltafix.changes.combined import Tagged
from deltafix.changes.sets import SetChange


def show(value: object) -> str:
    """One line of text for a value or a change."""
    match value:
        case frozenset() | set():
            return "{" + ", ".join(sorted(map(show, value))) + "}"
        case SetChange():
            return f"add {show(value.added)}, remove {show(value.removed)}"
        case Mapping():
            entries = sorted(f"{show(k)}: {show(v)}" for k, v in value.items())
            return "{" + ", ".join(entries) + "}"
        case tuple():
            inner = ", ".join(map(show, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case Tagged():
            return f"{'left' if value.side == 0 else 'right'} {show(value.value)}"
        case _ if callable(value):
            return getattr(value, "__name__", None) or "a function"
        case _:
            return repr(value)
