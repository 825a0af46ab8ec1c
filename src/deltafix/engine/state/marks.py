"""Marks: small values that are committed with the rows of an epoch.

A mark is a name and a JSON value: how far a source has been read, which batch an epoch came from.
Invariant: a mark is there exactly if the epoch that set it is, since both are one record of the
log; nothing in the engine reads them.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Marks: TypeAlias = dict[str, Any]
"""Name to value; None stands for a mark that is taken away."""


def set_marks(marks: Marks, changed: Marks) -> None:
    """Bring `marks` up to date with what an epoch set."""
    for name, value in changed.items():
        if value is None:
            marks.pop(name, None)
        else:
            marks[name] = value


def check_mark(value: Any) -> Any:
    """The value as JSON gives it back. Raises TypeError or ValueError for what JSON cannot say."""
    return json.loads(json.dumps(value, allow_nan=False))
