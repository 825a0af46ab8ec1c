"""A plan explained: delta rules, join options with estimates, indexes and what they serve.

Nouns: `Statistics` are a relation's rows and the distinct keys of its indexes; an explanation is
plain data (dicts, lists, numbers, text) that prints as JSON, and as text by `plan.tell`.
Invariant: it lists what the executor is given, nothing else; estimates are rows divided by keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from deltafix.plan.clause import Absent, Literal, Match, Relation
from deltafix.plan.ir import Node, Plan, Sees, Stage, Variant, Way

Explanation: TypeAlias = dict[str, Any]
"""JSON-ready: `relations` and `strata`, see docs/reference/plan.md."""

_STATES = {
    Sees.LOWER_BEFORE: "old",
    Sees.SAME_BEFORE: "old",
    Sees.LOWER_AFTER: "new",
    Sees.SAME_AFTER: "new",
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rows of a relation, and distinct keys of each of its indexes, by key columns."""

    rows: int
    keys: Mapping[tuple[int, ...], int]


def explain(plan: Plan, statistics: Mapping[str, Statistics] | None = None) -> Explanation:
    """The explanation of a plan. Linear in the plan.

    Args:
        plan: what is run.
        statistics: by relation; without them there are no estimates (None in their place).
    """
    known = statistics or {}
    serves: dict[tuple[str, tuple[int, ...]], dict[str, None]] = {}
    for variant, way in _ways(plan):
        if 0 < len(way.by) < len(way.match.args):
            use = f"{way.match} in rule {variant.clause.rule + 1}, {_occasion(variant)}"
            serves.setdefault((way.match.relation, way.by), {})[use] = None
    shown = [stage for stage in plan.stages if _runs(stage)]
    return {
        "relations": [
            _relation(relation, plan, known.get(relation.name), serves)
            for relation in plan.relations
        ],
        "strata": [_stratum(stage, known) for stage in shown],
    }


def _runs(stage: Stage) -> bool:
    return bool(stage.lower or stage.same or stage.const or stage.outside)


def _variants(stage: Stage) -> tuple[Variant, ...]:
    return (*stage.const, *stage.lower, *stage.same, *stage.rederive)


def _ways(plan: Plan) -> Iterator[tuple[Variant, Way]]:
    for stage in plan.stages:
        for variant in _variants(stage):
            for node in variant.nodes:
                for option in node.candidates:
                    yield variant, option.way


def _relation(
    relation: Relation,
    plan: Plan,
    known: Statistics | None,
    serves: Mapping[tuple[str, tuple[int, ...]], Mapping[str, None]],
) -> dict[str, Any]:
    return {
        "name": relation.name,
        "types": list(relation.types),
        "hidden": relation.hidden or "{" in relation.name,
        "keeps": None if relation.merge is None else str(relation.merge),
        "rows": None if known is None else known.rows,
        "indexes": [
            {
                "columns": list(columns),
                "keys": None if known is None else known.keys.get(columns),
                "serves": list(serves.get((relation.name, columns), ())),
            }
            for columns in plan.indexes[relation.name]
        ],
    }


def _stratum(stage: Stage, known: Mapping[str, Statistics]) -> dict[str, Any]:
    outside = stage.outside
    rules: dict[str, dict[str, Any]] = {}
    for variant in _variants(stage):
        text = str(variant.clause)
        entry = rules.setdefault(
            f"{variant.clause.rule} {text}",
            {
                "rule": variant.clause.rule + 1,
                "name": variant.clause.name,
                "clause": text,
                "deltas": [],
            },
        )
        entry["deltas"].append(_delta(variant, known))
    return {
        "relations": list(stage.relations),
        "recursive": stage.recursive,
        "pipelined": stage.is_pipelined,
        "outside": [] if outside is None or outside.in_kernel else outside.show(),
        "fold": outside.show() if outside is not None and outside.in_kernel else [],
        "rules": list(rules.values()),
    }


def _delta(variant: Variant, known: Mapping[str, Statistics]) -> dict[str, Any]:
    return {
        "occasion": _occasion(variant),
        "changed": variant.relation if variant.trigger is not None else None,
        "rule": _delta_rule(variant),
        "steps": [_step(n, node, known) for n, node in enumerate(variant.nodes)],
    }


def _occasion(variant: Variant) -> str:
    """When the variant is run, in words."""
    if variant.trigger is None:
        return "at the start"
    if variant.trigger < 0:
        head = f"{variant.clause.head}({', '.join(map(str, variant.clause.args))})"
        return f"to derive {head} again"
    return f"when {variant.clause.body[variant.trigger]} changes"


def _delta_rule(variant: Variant) -> str:
    """The clause with the changed literal marked and the state that each other one sees."""
    clause, trigger = variant.clause, variant.trigger
    head = f"{clause.head}({', '.join(map(str, clause.args))})"
    if trigger is None or trigger < 0:
        return str(clause)
    states: dict[int | Literal, Sees] = {}
    for node in variant.nodes:
        states.update({option.way.literal: option.sees for option in node.candidates})
        states.update({check.literal: check.sees for check in node.checks})
    body = []
    for position, literal in enumerate(clause.body):
        if position == trigger:
            body.append(f"Δ{literal}")
        elif isinstance(literal, (Match, Absent)):
            seen = states[position if isinstance(literal, Match) else literal]
            body.append(f"{_STATES[seen]} {literal}")
        else:
            body.append(str(literal))
    return f"Δ{head} :- {', '.join(body)}."


def _step(number: int, node: Node, known: Mapping[str, Statistics]) -> dict[str, Any]:
    return {
        "node": number,
        "checks": [str(check.literal) for check in node.checks],
        "options": [
            {
                "join": str(option.way.match),
                "by": list(option.way.by),
                "state": _STATES[option.sees],
                "estimate": _estimate(option.way, known.get(option.way.match.relation)),
                "then": option.child,
            }
            for option in node.candidates
        ],
    }


def _estimate(way: Way, known: Statistics | None) -> float | None:
    """Rows that a binding meets on average."""
    if known is None:
        return None
    if not way.by:
        return float(known.rows)
    if len(way.by) == len(way.match.args):
        return min(1.0, float(known.rows))
    keys = known.keys.get(way.by, 0)
    return round(known.rows / keys, 2) if keys else 0.0
