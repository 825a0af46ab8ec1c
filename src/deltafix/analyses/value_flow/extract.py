"""From one file's bytes to its fragment: what names mean, and what happens to values.

    bytes -> ast -> names (dead_code) + value flow (functions, statements, …) -> Fragment

Invariant: as `dead_code.extract`: pure, total, and nothing of the file is run.
"""

from __future__ import annotations

import ast

from deltafix.analyses.dead_code.extract import Definitions, extract
from deltafix.analyses.facts import Fragment
from deltafix.analyses.value_flow.functions import Functions
from deltafix.analyses.value_flow.inputs import FLOW, NAMES

_STATED = frozenset({*NAMES, *FLOW})


def extract_flow(path: str, data: bytes, prefix: str = "") -> Fragment:
    """As `dead_code.extract.extract`: the facts of one file; never raises for bad content."""
    fragment = extract(path, data, prefix, reader=_Reader)
    if fragment.error is not None:
        return fragment
    facts = [fact for fact in fragment.facts if fact[0] in _STATED]
    return Fragment.of(path, facts, fragment.places)


class _Reader(Definitions):
    """Adds the flow of values to what names mean."""

    def run(self, tree: ast.Module) -> Fragment:
        """Read a whole module; call once."""
        names = super().run(tree)
        flow = Functions(self.module).run(tree)
        return Fragment.of(self.path, [*names.facts, *flow], names.places)
