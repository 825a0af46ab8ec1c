"""Dead code by the naive evaluator: the judge of the rules and of the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.judges import oracle

from deltafix.analyses.dead_code import DEAD_CODE, UNUSED
from deltafix.analyses.dead_code.policy import policy_facts

PROGRAM = DEAD_CODE.load_program()
WITH_UNUSED = UNUSED.load_program()


def evaluate(
    tree: Mapping[str, str],
    policies: Iterable[str] = ("tests",),
    also: Iterable[str] = (),
    more: Iterable[tuple[str, Any]] = (),
) -> dict[str, set[Any]]:
    """Every relation of the program over a tree of path -> source; `also`: unused kinds.

    `more` are facts beside those of the tree.
    """
    analysis, program = (UNUSED, WITH_UNUSED) if also else (DEAD_CODE, PROGRAM)
    facts: dict[str, set[Any]] = {"also": {(kind,) for kind in also}} if also else {}
    for relation, row in (*policy_facts(policies), *more):
        facts.setdefault(relation, set()).add(row)
    for path, text in tree.items():
        fragment = analysis.extract(path, text.encode(), "")
        assert fragment.error is None, fragment.error
        for relation, row in fragment.facts:
            facts.setdefault(relation, set()).add(row)
    return oracle.evaluate(program, facts)


def dead(tree: Mapping[str, str], policies: Iterable[str] = ("tests",)) -> list[str]:
    """The view `dead`, sorted."""
    return sorted(row[0] for row in evaluate(tree, policies)["dead"])
