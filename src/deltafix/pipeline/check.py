"""Whether a pipeline file can run: its inputs are there, its outputs fit, its rules are the same.

Each input is asked for its next rows, as a run would, of files up to `LOOKED` of them. Invariant:
nothing is written, and no session of Spark is started; what is not looked at is said. What rows
mean beside those that are in is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from deltafix.engine.state.marks import Marks, set_marks
from deltafix.facts.arrow import arrow_schema
from deltafix.facts.schema import Schema
from deltafix.pipeline.augment import augment
from deltafix.pipeline.config import Config, schemas_of
from deltafix.pipeline.keeper import peek
from deltafix.pipeline.maintainer import compared
from deltafix.pipeline.portion import Lookable, Source
from deltafix.pipeline.quarantine import refused
from deltafix.pipeline.sink import ParquetSink
from deltafix.pipeline.sources.registry import ON_SPARK, TABLES, additions, make_source
from deltafix.pipeline.targets.registry import make_target, place_of
from deltafix.store.folder import folder_at

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


LOOKED: Final = 10_000
"""So many rows that wait in the files of an input are looked at, in whole files."""


def check(config: Config) -> Iterator[str]:
    """A line per input and output. Raises what running would raise, as far as it can be told."""
    schemas = schemas_of(config.program)
    added = additions(config)
    there = peek(config.state)
    found = compared(config.program, added, folder_at(config.state), there)
    seen = _Peek(there.marks, schemas_of(augment(config.program, added)))
    local = config.values["runner"] == "local"
    for one in config.inputs:
        fed = ", ".join(schemas[name].show() for name in one.relations)
        if one.source in (ON_SPARK if local else (*ON_SPARK, *TABLES)):
            yield f"input {one.name}: {one.source} to {fed} (not looked at: Spark reads it)"
            continue
        with closing(make_source(config, one, schemas)) as source:
            if isinstance(source, Lookable):
                said, place = source.look(seen), one.values["table"]
            else:
                said = _said(source, seen, LOOKED if one.source in _IN_FILES else 1)
                place = one.values.get("path") or one.values["table"]
        yield f"input {one.name}: {one.source} {place} to {fed} ({said})"
    for output in config.outputs:
        schema = schemas[output.relation]
        sink = ParquetSink(schema, output.path, there.name, keeps_snapshot=False)
        at = "new" if sink.is_new else f"at epoch {sink.manifest.epoch}"
        target = make_target(output, schema, "")
        if target is None:
            yield f"output {output.relation}: {output.path} ({at})"
        else:
            where = f"{output.sink} {place_of(output)}"
            yield f"output {output.relation}: {where} ({at}; the target is not looked at)"
    if found.is_asked:
        yield f"the rules have changed ({found.change.show()}); {found.change.ways}"
    yield f"{config.path}: ok"


_IN_FILES: Final = ("files", "snapshot")


def _said(source: Source, seen: _Peek, most: int) -> str:
    """What a source has to say, file after file, up to so many rows. Raises what `poll` raises."""
    rows = bad = 0
    more = True
    while more and rows < most:
        portion = source.poll(seen, most - rows)
        if portion is None:
            more = False
            break
        wrong = [*portion.bad, *(b for signed in portion.signed for b in signed.bad)]
        if wrong and not portion.policy.quarantine:
            raise refused(source.name, wrong, "it would fail the next epoch")
        rows, bad = rows + portion.rows, bad + len(wrong)
        more = portion.more
        marks = dict(seen.marks)
        set_marks(marks, portion.marks)
        seen = _Peek(marks, seen.schemas)
    if not (rows or bad or more):
        return "nothing new"
    said = f"has something to say; looked at {'the first ' if more else ''}{rows:,} rows"
    return said + (f", {bad:,} of them are to be set aside" if bad else "")
