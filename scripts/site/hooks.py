"""Hooks of the site's build: `<!-- generated: NAME -->` on a line of its own becomes its part.

Invariant: an unknown name stops the build. The parts are `parts.PARTS`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from parts import PARTS

__all__ = ["generated", "on_page_markdown"]

_MARK = re.compile(r"^<!-- generated: ([a-z0-9-]+) -->$", re.M)


def generated(markdown: str) -> str:
    """A page with its marks replaced. Raises LookupError for a name that is no part."""

    def part(mark: re.Match[str]) -> str:
        if mark[1] not in PARTS:
            raise LookupError(f"no generated part {mark[1]!r}; one of {', '.join(PARTS)}")
        return PARTS[mark[1]]()

    return _MARK.sub(part, markdown)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by the builder for every page."""
    return generated(markdown)
