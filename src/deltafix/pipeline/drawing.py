"""A pipeline as a graph: where rows come from, which relations they go through, where they end.

Invariant: every relation that somebody wrote is there, and one leads to another if and only if
rules lead there without passing a third one; relations that SQL makes for itself are passed
through. Only the pipeline file and its program are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from deltafix.pipeline.config import Config, InputConfig, OutputConfig
from deltafix.pipeline.targets.registry import place_of
from deltafix.rules.ast import Program
from deltafix.rules.strata import dependencies
from deltafix.rules.tables import TableProgram

__all__ = ["arrows", "relations"]


def relations(program: Program) -> list[str]:
    """The relations that somebody wrote, in their order: those of rules, or tables and views."""
    if isinstance(program, TableProgram):
        wrote = {*program.tables, *program.views, *program.bags}
        return [one.name for one in program.relations if one.name in wrote]
    return [one.name for one in program.relations]


def arrows(config: Config) -> Iterator[tuple[str, str]]:
    """(from, to), each once: from `from SOURCE PLACE` by relations to `to SINK PLACE`.

    O(rules x relations).
    """
    for fed in config.inputs:
        for relation in fed.relations:
            yield f"from {_origin(fed, config)}", relation
    written = relations(config.program)
    wrote = frozenset(written)
    leads: dict[str, dict[str, None]] = {}
    for edge in dependencies(config.program):
        leads.setdefault(edge.body, {})[edge.head] = None
    for start in written:
        seen: set[str] = set()
        waiting = [*leads.get(start, ())]
        while waiting:
            one = waiting.pop(0)
            if one in seen:
                continue
            seen.add(one)
            if one in wrote:
                yield start, one
            else:
                waiting += leads.get(one, ())
    for output in config.outputs:
        yield output.relation, f"to {_target(output, config)}"


def _origin(one: InputConfig, config: Config) -> str:
    named = (one.values.get(key) for key in ("path", "table", "topic", "query"))
    return f"{one.source} {_near(str(next(filter(None, named), one.name)), config)}"


def _target(one: OutputConfig, config: Config) -> str:
    place = str(one.path) if one.sink == "parquet" else place_of(one)
    return f"{one.sink} {_near(place, config)}"


def _near(place: str, config: Config) -> str:
    """A place below the pipeline file's folder as it is seen from there."""
    folder = f"{config.path.resolve().parent}{os.sep}"
    return place.removeprefix(folder)
