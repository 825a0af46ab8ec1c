"""Where a pipeline stands, read from its files without opening it: it may be running.

Invariant: nothing is locked and nothing is written. Figures of a running pipeline may be an epoch
apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deltafix.diagnostics import plural
from deltafix.pipeline.config import Config, InputConfig
from deltafix.pipeline.journal import Journal
from deltafix.pipeline.keeper import EXECUTOR, peek_marks, shards_head
from deltafix.pipeline.manifest import read_manifest
from deltafix.pipeline.quarantine import Quarantine
from deltafix.pipeline.targets.registry import place_of


def status(config: Config) -> Iterator[str]:
    """Lines for people: the last epoch, each input, each output, the quarantine.

    Raises StateError, SinkError for files that are damaged.
    """
    last = Journal(config.state).last()
    if last is None:
        yield f"{config.state}: no epoch yet"
    else:
        when = datetime.fromtimestamp(last["time"], UTC).isoformat(timespec="seconds")
        yield f"{config.state}: epoch {last['epoch']}, at {when}, touched {last['touched']:,}"
    marks = peek_marks(config.state)
    if EXECUTOR in marks:
        yield f"executor {marks[EXECUTOR]}"
    head = shards_head(config.state)
    if head is not None:
        yield f"{head['shards']} shards with about {head['given']:,} given rows"
    for input_ in config.inputs:
        yield f"input {input_.name}: {_position(input_, marks)}"
    for output in config.outputs:
        manifest = read_manifest(output.path)
        if manifest is None:
            yield f"output {output.relation}: nothing yet"
            continue
        rows = sum(delta.rows for delta in manifest.deltas)
        via = "" if output.sink == "parquet" else f"{output.sink} {place_of(output)}, "
        shown = (
            f"{via}epoch {manifest.epoch}, {plural(rows, 'signed row')} from epoch {manifest.floor}"
        )
        if manifest.snapshot is not None:
            kept = manifest.snapshot
            shown += f", snapshot of epoch {kept.last} with {plural(kept.rows, 'row')}"
        yield f"output {output.relation}: {shown}"
    for name, count in Quarantine(config.state / "quarantine").counts().items():
        yield f"quarantine {name}: {plural(count, 'row')} in {config.state / 'quarantine'}"


def _position(input_: InputConfig, marks: dict[str, Any]) -> str:
    begun = _begun(input_, marks)
    for kind in ("files", "by_file"):
        prefix = f"{kind}/{input_.name}/"
        read = sum(mark.startswith(prefix) for mark in marks)
        if read > bool(begun):
            return f"{plural(read - bool(begun), 'file')} read{begun}"
    for kind in ("snapshot", "delta", "feed", "version", "stream", "kafka"):
        value = marks.get(f"{kind}/{input_.name}")
        if value is not None:
            return f"{kind} {value[0] if isinstance(value, list) else value}{begun}"
    requests = marks.get(f"http/{input_.name}")
    if requests:
        return f"{plural(requests, 'request')}"
    followed = marks.get(f"postgres/{input_.name}")
    if followed:
        return f"changes up to {followed['at']}"
    return begun.removeprefix(", ") or "nothing read yet"


def _begun(input_: InputConfig, marks: dict[str, Any]) -> str:
    """The file that is read in part, and how much of it; at most one is."""
    for mark, value in marks.items():
        kind, _, rest = mark.partition("/")
        name, _, file = rest.partition("/")
        if name != input_.name:
            continue
        if kind == "files" and file and value[2] > 0:
            return f", {file} in part: {value[2]:,} of its {plural(value[4], 'row')}"
        if kind == "by_file" and len(value) > 2:
            return f", {file} in part: {plural(value[2], 'row')} still to come"
        if kind == "part":
            return f", {value[0]} in part: {plural(value[1], 'change')} still to come"
    return ""
