"""Whether a pipeline file can run: its inputs are there, its outputs fit, its rules are the same.

Invariant: nothing is written, and no session of Spark is started; what only Spark can tell is said
to be unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltafix.pipeline.augment import augment
from deltafix.pipeline.change import cones, peek_marks, what_changed
from deltafix.pipeline.config import Config, schemas_of
from deltafix.pipeline.maintainer import CONES
from deltafix.pipeline.manifest import read_manifest
from deltafix.pipeline.sources.registry import ON_SPARK, by_file, counted, make_source

__all__ = ["check"]


def check(config: Config) -> Iterator[str]:
    """A line per input and output. Raises what running would raise, as far as it can be told."""
    schemas = schemas_of(config.program)
    program = augment(config.program, by_file(config), counted(config))
    for one in config.inputs:
        fed = ", ".join(schemas[name].show() for name in one.relations)
        if one.source in ON_SPARK:
            yield f"input {one.name}: {one.source} to {fed} (looked at when it runs)"
            continue
        make_source(config, one, schemas)
        yield f"input {one.name}: {one.source} {one.values['path']} to {fed}"
    noted = peek_marks(config.state).get(CONES)
    change = what_changed(noted, cones(program)) if noted else None
    for output in config.outputs:
        manifest = read_manifest(output.path)
        at = "new" if manifest is None else f"at epoch {manifest.epoch}"
        yield f"output {output.relation}: {output.path} ({at})"
    if change:
        yield f"the rules have changed: {change.show()}; run with --on-change rebuild"
    yield f"{config.path}: ok"
