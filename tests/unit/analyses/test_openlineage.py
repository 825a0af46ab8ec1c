"""Lineage as events of OpenLineage: the shape of the specification, and the rows of the views."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from tests.generators.lineage_trees import Tree

from deltafix.analyses.job import Job
from deltafix.analyses.lineage import LINEAGE
from deltafix.analyses.lineage.openlineage import events

NOW = datetime.fromisoformat("2024-05-06T07:08:09+00:00")
Event = dict[str, Any]
Flow = tuple[str, str, str, str, str]
SUBTYPES = {
    "FILTER": "filter", "JOIN": "join", "GROUP_BY": "group", "SORT": "order", "WINDOW": "window",
    "CONDITIONAL": "condition", None: "value",
}  # fmt: skip


def told(job: Job) -> list[Event]:
    return [json.loads(json.dumps(one)) for one in events(job, "db://here", NOW)]


def check_shape(event: Event) -> None:
    """What the specification requires of a run event."""
    keys = {"eventType", "eventTime", "run", "job", "inputs", "outputs", "producer", "schemaURL"}
    assert event.keys() == keys
    assert event["eventType"] in {"START", "COMPLETE"}
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert UUID(event["run"]["runId"]).version == 4
    assert event["schemaURL"].endswith("/2-0-2/OpenLineage.json#/$defs/RunEvent")
    for one in (event["job"], *event["inputs"], *event["outputs"]):
        assert one["namespace"] == "db://here"
        assert one["name"]
    for output in event["outputs"]:
        for facet in output.get("facets", {}).values():
            assert facet.keys() == {"_producer", "_schemaURL", "fields", "dataset"}
            assert facet["_producer"] == event["producer"]


def flows_of(event: Event) -> Iterator[Flow]:
    """The flows that the facet of an event tells."""
    for output in event["outputs"]:
        facet = output.get("facets", {}).get("columnLineage", {"fields": {}, "dataset": []})
        sides = [("(rows)", facet["dataset"])]
        sides += [(column, one["inputFields"]) for column, one in facet["fields"].items()]
        for column, sources in sides:
            for one in sources:
                assert one["namespace"] == "db://here"
                for kind in one["transformations"]:
                    how = SUBTYPES[kind.get("subtype")]
                    assert kind["type"] == ("DIRECT" if how == "value" else "INDIRECT")
                    yield output["name"], column, one["name"], one["field"], how


@pytest.mark.parametrize("seed", range(12))
def test_events_tell_the_flows_of_random_trees_and_nothing_else(seed: int) -> None:
    tree = Tree(seed, indirect=True)
    with Job(LINEAGE) as job:
        for _ in range(3):
            files = tree.files()
            gone = [path for path in job.fragments if path not in files]
            job.update([LINEAGE.extract(p, t.encode(), "") for p, t in files.items()], gone)
            sources = defaultdict(set)
            for source, target in job.rows("feeds"):
                sources[target].add(source)
            flows = [row for row in job.rows("flows") if not {row[1], row[3]} & {"*", "()"}]
            found = told(job)
            for event in found:
                check_shape(event)
            starts, ends = found[::2], found[1::2]
            assert {one["eventType"] for one in starts} == {"START"}
            assert {one["eventType"] for one in ends} == {"COMPLETE"}
            assert [one["run"] for one in starts] == [one["run"] for one in ends]
            assert len({one["run"]["runId"] for one in ends}) == len(ends)
            inputs = {one["job"]["name"]: {i["name"] for i in one["inputs"]} for one in ends}
            assert inputs == sources
            assert sorted(row for one in ends for row in flows_of(one)) == sorted(flows)
            tree.edit()


def test_what_is_not_a_column_and_who_is_not_a_table() -> None:
    text = """
    CREATE TABLE known (a INT, b INT);
    INSERT INTO target SELECT * FROM elsewhere;
    UPDATE known SET a = a + 1 WHERE b > 0;
    CREATE VIEW v AS SELECT CASE WHEN a > 0 THEN b END AS c, count(*) AS n FROM known ORDER BY a;
    SELECT c FROM v;
    """
    with Job(LINEAGE) as job:
        job.update([LINEAGE.extract("q.sql", text.encode(), "")])
        ends = {one["job"]["name"]: one for one in told(job)[1::2]}
    for event in ends.values():
        check_shape(event)
    query = next(name for name in ends if name.startswith("q.sql#"))
    assert set(ends) == {"target", "known", "v", query}
    assert ends["target"]["outputs"] == [{"namespace": "db://here", "name": "target"}]
    assert [one["name"] for one in ends["target"]["inputs"]] == ["elsewhere"]
    assert set(flows_of(ends["known"])) == {
        ("known", "a", "known", "a", "value"),
        ("known", "(rows)", "known", "b", "filter"),
    }
    assert set(flows_of(ends["v"])) == {
        ("v", "c", "known", "a", "condition"),
        ("v", "c", "known", "b", "value"),
        ("v", "(rows)", "known", "a", "order"),
    }
    assert [one["name"] for one in ends[query]["inputs"]] == ["v"]
    assert ends[query]["outputs"] == []
