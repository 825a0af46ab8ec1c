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
        return [relation.name for relation in program.relations if relation.name in wrote]
    return [relation.name for relation in program.relations]


def arrows(config: Config) -> Iterator[tuple[str, str]]:
    """(from, to), each once: from `from SOURCE PLACE` by relations to `to SINK PLACE`.

    O(rules x relations).
    """
    for input_ in config.inputs:
        for relation in input_.relations:
            yield f"from {_origin(input_, config)}", relation
    written = relations(config.program)
    wrote = frozenset(written)
    leads: dict[str, dict[str, None]] = {}
    for edge in dependencies(config.program):
        leads.setdefault(edge.body, {})[edge.head] = None
    for start in written:
        seen: set[str] = set()
        waiting = [*leads.get(start, ())]
        while waiting:
            reached = waiting.pop(0)
            if reached in seen:
                continue
            seen.add(reached)
            if reached in wrote:
                yield start, reached
            else:
                waiting += leads.get(reached, ())
    for output in config.outputs:
        yield output.relation, f"to {_target(output, config)}"


def _origin(input_: InputConfig, config: Config) -> str:
    named = (input_.values.get(key) for key in ("path", "table", "topic", "query"))
    return f"{input_.source} {_near(str(next(filter(None, named), input_.name)), config)}"


def _target(output: OutputConfig, config: Config) -> str:
    location = str(output.path) if output.sink == "parquet" else place_of(output)
    return f"{output.sink} {_near(location, config)}"


def _near(location: str, config: Config) -> str:
    """A place below the pipeline file's folder as it is seen from there."""
    folder = f"{config.path.resolve().parent}{os.sep}"
    return location.removeprefix(folder)
