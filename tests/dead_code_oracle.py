"""Dead code by the naive evaluator: the judge of the rules and of the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import oracle
from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.policy import policy_facts

PROGRAM = DEAD_CODE.load_program()


def evaluate(tree: Mapping[str, str], policies: Iterable[str] = ("tests",)) -> dict[str, set[Any]]:
    """Every relation of the dead-code program over a tree of path -> source."""
    facts: dict[str, set[Any]] = {}
    for relation, row in policy_facts(policies):
        facts.setdefault(relation, set()).add(row)
    for path, text in tree.items():
        fragment = extract(path, text.encode())
        assert fragment.error is None, fragment.error
        for relation, row in fragment.facts:
            facts.setdefault(relation, set()).add(row)
    return oracle.evaluate(PROGRAM, facts)


def dead(tree: Mapping[str, str], policies: Iterable[str] = ("tests",)) -> list[str]:
    """The view `dead`, sorted."""
    return sorted(row[0] for row in evaluate(tree, policies)["dead"])
