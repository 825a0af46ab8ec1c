"""Whether a pipeline file can run: its inputs are there, its outputs fit, its rules are the same.

Each input is asked for its next rows, as a run would. Invariant: nothing is written, and no session
of Spark is started; what only Spark can tell is said to be unchecked. What rows mean beside those
that are in is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltafix.engine.state.marks import Marks
from deltafix.facts.arrow import arrow_schema
from deltafix.facts.schema import Schema
from deltafix.pipeline.augment import augment
from deltafix.pipeline.change import cones, what_changed
from deltafix.pipeline.config import Config, schemas_of
from deltafix.pipeline.keeper import peek_marks
from deltafix.pipeline.maintainer import CONES
from deltafix.pipeline.manifest import read_manifest
from deltafix.pipeline.portion import Lookable
from deltafix.pipeline.quarantine import refused
from deltafix.pipeline.sources.registry import ON_SPARK, TABLES, additions, make_source
from deltafix.pipeline.targets.registry import make_target, place_of
from deltafix.rules.tables import TableProgram

__all__ = ["check"]


@dataclass(frozen=True, slots=True)
class _Peek:
    """What sources see: where they are, and no rows."""

    marks: Marks
    schemas: Mapping[str, Schema]

    def to_arrow(self, relation: str) -> pa.Table:
        """No rows of a relation."""
        return arrow_schema(self.schemas[relation]).empty_table()

    def select(self, relation: str, pattern: Any) -> list[Any]:
        """None."""
        return []


def check(config: Config) -> Iterator[str]:
    """A line per input and output. Raises what running would raise, as far as it can be told."""
    schemas = schemas_of(config.program)
    program = augment(config.program, additions(config))
    peek = _Peek(peek_marks(config.state), schemas_of(program))
    local = config.values["runner"] == "local"
    for one in config.inputs:
        fed = ", ".join(schemas[name].show() for name in one.relations)
        if one.source in (ON_SPARK if local else (*ON_SPARK, *TABLES)):
            yield f"input {one.name}: {one.source} to {fed} (looked at when it runs)"
            continue
        with closing(make_source(config, one, schemas)) as source:
            if isinstance(source, Lookable):
                said = source.look(peek)
                yield f"input {one.name}: {one.source} {one.values['table']} to {fed} ({said})"
                continue
            portion = source.poll(peek, 1)
        bad = [] if portion is None else [*portion.bad, *(b for s in portion.signed for b in s.bad)]
        if portion is not None and bad and not portion.policy.quarantine:
            raise refused(one.name, bad, "it would fail the next epoch")
        said = "nothing new" if portion is None else "has something to say"
        said += f", {len(bad):,} rows of it are to be set aside" if bad else ""
        place = one.values.get("path") or one.values["table"]
        yield f"input {one.name}: {one.source} {place} to {fed} ({said})"
    noted = peek.marks.get(CONES)
    is_sql = isinstance(config.program, TableProgram)
    change = what_changed(noted, cones(program), is_sql=is_sql) if noted else None
    for output in config.outputs:
        manifest = read_manifest(output.path)
        at = "new" if manifest is None else f"at epoch {manifest.epoch}"
        target = make_target(output, schemas[output.relation], "")
        if target is None:
            yield f"output {output.relation}: {output.path} ({at})"
        else:
            yield f"output {output.relation}: {output.sink} {place_of(output)} ({at})"
    if change:
        yield f"the rules have changed ({change.show()}); {change.ways}"
    yield f"{config.path}: ok"
