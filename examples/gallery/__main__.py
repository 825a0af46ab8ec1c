"""`python examples/gallery [word]`: list the views, or tell the stories of those it names."""

from __future__ import annotations

import sys
from itertools import chain

import aggregates
import business
import enriched
import history
import sets
import windows
from view import tell

import graphs

GROUPS = (aggregates, enriched, sets, windows, history, graphs, business)


def main(words: list[str]) -> int:
    """Print the gallery; 2 if a word names no view."""
    for group in GROUPS if not words else ():
        print((group.__doc__ or "").partition("\n")[0])
        for view in group.VIEWS:
            print(f"  {view.name}  ({view.tool})")
    for word in words:
        named = [view for view in chain.from_iterable(g.VIEWS for g in GROUPS) if word in view.name]
        if not named:
            print(f"no view is called {word!r}; run without a word for the list", file=sys.stderr)
            return 2
        for view in named:
            print(tell(view))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
