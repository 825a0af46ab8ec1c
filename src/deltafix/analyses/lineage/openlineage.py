"""Lineage as run events of OpenLineage, for catalogues that collect them.

    one table or query of its own    a job of that name, with one run: START, then COMPLETE
    feeds, flows into it             inputs of the job
    flows to its columns             `columnLineage` of the output: fields
    flows to its `(rows)`            `columnLineage` of the output: dataset

Invariant: an event says no more than the views do. What stands for columns that the tree does not
declare (`*`), for a table function (`()`) or for the rows of a source is no field: its table is
among the inputs, and that is all that is said. Nothing ran: times and run ids are those of the
writing. The shapes are those of OpenLineage 2-0-2; nothing here sends or prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from deltafix.analyses.job import Job
from deltafix.analyses.lineage.facts import FUNCTION, ROWS

_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACET = f"{_SPEC}/facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet"
_NO_FIELD = {ROWS, FUNCTION, "*"}
_INDIRECT = {
    "filter": "FILTER",
    "join": "JOIN",
    "group": "GROUP_BY",
    "order": "SORT",
    "window": "WINDOW",
    "condition": "CONDITIONAL",
}

_Fields = Mapping[str, Mapping[tuple[str, str], set[str]]]  # column -> (table, column) -> how


def events(job: Job, namespace: str, time: datetime) -> Iterator[dict[str, Any]]:
    """Two run events for each table that something is read for, by name. O(flows log flows).

    Args:
        job: of `LINEAGE`.
        namespace: of the jobs and of all tables.
        time: when, with a time zone.
    """
    inputs: dict[str, set[str]] = defaultdict(set)
    for source, target in job.rows("feeds"):
        inputs[str(target)].add(str(source))
    fields: dict[str, dict[str, dict[tuple[str, str], set[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(set))
    )
    for target, column, source, origin, how in (map(str, row) for row in job.rows("flows")):
        inputs[target].add(source)
        if column not in _NO_FIELD - {ROWS} and origin not in _NO_FIELD:
            fields[target][column][source, origin].add(how)
    queries = {str(table) for table, kind in job.rows("table") if kind == "query"}
    producer = f"pkg:pypi/deltafix@{version('deltafix')}"
    for target, sources in sorted(inputs.items()):
        output = _dataset(namespace, target)
        if fields[target]:
            lineage = {"_producer": producer, "_schemaURL": _FACET}
            lineage |= _lineage(namespace, fields[target])
            output["facets"] = {"columnLineage": lineage}
        event = {
            "eventTime": time.isoformat(),
            "run": {"runId": str(uuid4())},
            "job": {"namespace": namespace, "name": target},
            "producer": producer,
            "schemaURL": _EVENT,
        }
        yield {"eventType": "START", **event, "inputs": [], "outputs": []}
        yield {
            "eventType": "COMPLETE",
            **event,
            "inputs": [_dataset(namespace, source) for source in sorted(sources)],
            "outputs": [] if target in queries else [output],
        }


def _dataset(namespace: str, table: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": table}


def _lineage(namespace: str, fields: _Fields) -> dict[str, Any]:
    """`fields`, what each column comes from, and `dataset`, what decides which rows there are."""
    inputs = {
        column: [
            {
                **_dataset(namespace, table),
                "field": field,
                "transformations": [_transformation(part, column) for part in sorted(how)],
            }
            for (table, field), how in sorted(sources.items())
        ]
        for column, sources in sorted(fields.items())
    }
    rows = inputs.pop(ROWS, [])
    return {
        "fields": {column: {"inputFields": sources} for column, sources in inputs.items()},
        "dataset": rows,
    }


def _transformation(how: str, column: str) -> dict[str, str]:
    if how != "value":
        return {"type": "INDIRECT", "subtype": _INDIRECT[how]}
    return {"type": "DIRECT" if column != ROWS else "INDIRECT"}
