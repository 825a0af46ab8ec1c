"""Records of a topic without a broker: what their values say, and offsets that go on."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from deltafix.errors import DriftError
from deltafix.facts.schema import Schema
from deltafix.spark.pipeline.policy import Policy
from deltafix.spark.pipeline.sources.kafka import KafkaTopic, decode_records

EDGE = Schema.of("edge", ["x", "n"], ["symbol", "number"])
OPTIONS: dict[str, Any] = {
    "servers": "127.0.0.1:9092", "topic": "edges", "partitions": 2, "columns": None,
    "envelope": "sign", "sign": "sign", "version": "",
}  # fmt: skip


def rows(signed) -> list:
    return list(zip(*(one.to_pylist() for one in signed.table.columns), strict=True))


def test_records_with_a_sign() -> None:
    values = ['{"x": "a", "n": 1, "sign": 1}', None, "{", '{"x": "b", "n": 2, "sign": "-"}']
    signed = decode_records(EDGE, values, OPTIONS, "topic edges")
    assert rows(signed) == [("a", 1, 1), ("b", 2, -1)]
    assert [bad.origin for bad in signed.bad] == ["topic edges, line 3"]
    assert rows(decode_records(EDGE, [None], OPTIONS, "topic edges")) == []
    with pytest.raises(DriftError, match="lacks 'n'"):
        decode_records(EDGE, ['{"x": "a", "sign": 1}'], OPTIONS, "topic edges")


def test_records_with_envelopes() -> None:
    after = {"op": "c", "before": None, "after": {"x": "a", "n": 1}}
    values = [json.dumps(after), None, json.dumps({**after, "op": "d", "before": after["after"]})]
    signed = decode_records(EDGE, values, {**OPTIONS, "envelope": "debezium"}, "topic edges")
    assert rows(signed) == [("a", 1, 1), ("a", 1, -1)]
    assert signed.bad == []


class State:
    def __init__(self, **marks: Any) -> None:
        self.marks = marks


def test_offsets_go_on_behind_what_was_read(monkeypatch) -> None:
    asked = []

    def read(self, done, limit) -> pa.Table:
        asked.append((self._starts(done), limit))
        value = '{"x": "a", "n": 1, "sign": 1}'
        return pa.table(
            {
                "partition": [0, 1, 0],
                "offset": [4, 0, 5],
                "value": [value] * 3,
                "stamp": [3.0, 2.0, 9.0],
            }
        )

    monkeypatch.setattr(KafkaTopic, "_read", read)
    topic = KafkaTopic("edge", EDGE, OPTIONS, Policy())
    portion = topic.poll(State(), 3)
    assert portion is not None
    assert (portion.marks, portion.rows, portion.more) == (
        {"kafka/edge": {"0": 6, "1": 1}},
        3,
        True,
    )
    assert portion.stamp == 2.0
    topic.poll(State(**portion.marks), 7)
    assert asked == [({"0": -2, "1": -2}, 3), ({"0": 6, "1": 1}, 7)]
    topic.close()
