"""An explanation of a plan as text, for people and golden files.

Invariant: says everything that the explanation's JSON says, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltafix.plan.explain import Explanation


def tell(explanation: Explanation) -> str:
    """The explanation as lines, each with its newline."""
    lines = [line for relation in explanation["relations"] for line in _relation(relation)]
    for number, stratum in enumerate(explanation["strata"], start=1):
        lines.append("")
        lines.extend(_stratum(number, stratum))
    return "".join(f"{line}\n" for line in lines)


def _relation(relation: dict[str, Any]) -> Iterator[str]:
    rows = "" if relation["rows"] is None else f", {_count(relation['rows'], 'row')}"
    hidden = ", made by the planner" if relation["hidden"] else ""
    keeps = f", {relation['keeps']}" if relation["keeps"] else ""
    yield f"relation {relation['name']}({', '.join(relation['types'])}){hidden}{keeps}{rows}"
    for index in relation["indexes"]:
        keys = "" if index["keys"] is None else f", {_count(index['keys'], 'key')}"
        yield f"  index on {_columns(index['columns'])}{keys}; serves"
        yield from (f"    {use}" for use in index["serves"] or ["groups of an aggregate"])


def _stratum(number: int, stratum: dict[str, Any]) -> Iterator[str]:
    recursive = " (recursive)" if stratum["recursive"] else ""
    yield f"stratum {number}: {', '.join(stratum['relations'])}{recursive}"
    if stratum["pipelined"]:
        yield "  its rows go into aggregates as they are derived, and are not kept"
    yield from (f"  {line}" for line in stratum["fold"])
    if stratum["outside"]:
        yield "  outside the kernel:"
        yield from (f"    {line}" for line in stratum["outside"])
    for rule in stratum["rules"]:
        named = f" {rule['name']}" if rule["name"] else ""
        yield f"  rule {rule['rule']}{named}: {rule['clause']}"
        for delta in rule["deltas"]:
            yield f"    {delta['occasion']}: {delta['rule']}"
            for step in delta["steps"]:
                yield from (f"      {line}" for line in _step(step))


def _step(step: dict[str, Any]) -> Iterator[str]:
    number = step["node"]
    for check in step["checks"]:
        yield f"{number}: check {check}"
    options = step["options"]
    if not options:
        yield f"{number}: emit"
    if len(options) > 1:
        yield f"{number}: join whichever has the fewest rows for the binding"
    for option in options:
        how = f"by {_columns(option['by'])}" if option["by"] else "by scan"
        estimate = option["estimate"]
        about = "" if estimate is None else f", about {_count(estimate, 'row')}"
        line = f"{option['state']} {option['join']} {how}{about}, then {option['then']}"
        yield f"   {line}" if len(options) > 1 else f"{number}: join {line}"


def _columns(columns: list[int]) -> str:
    return f"column{'' if len(columns) == 1 else 's'} {', '.join(map(str, columns))}"


def _count(number: float, noun: str) -> str:
    shown = f"{int(number):,}" if number == int(number) else f"{number:,.1f}"
    return f"{shown} {noun}{'' if number == 1 else 's'}"
