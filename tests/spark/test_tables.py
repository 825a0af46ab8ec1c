"""Tables as outputs of a Spark that has no jars for them, and whose session is used."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from deltafix.errors import SinkError
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import OutputConfig
from deltafix.spark.session import spark_session
from deltafix.spark.sources.live import LiveSpark
from deltafix.spark.tables import on_tables

pytestmark = pytest.mark.spark

VIEW = Schema.of("view", ["x"], ["number"])


def test_tables_without_their_jars_say_what_is_missing(spark, tmp_path) -> None:
    live = LiveSpark()
    for sink, more in (("delta", {"path": str(tmp_path)}), ("iceberg", {"catalog": "lake"})):
        values: dict[str, Any] = {"mode": "merge", "options": {"type": "hadoop"}, "table": "db.t"}
        one = OutputConfig("view", tmp_path / "log", sink=sink, values={**values, **more})
        target = on_tables(live)(one, VIEW, "state")
        assert target is not None
        with pytest.raises(
            SinkError, match=rf'this Spark has no {sink.title()}; .*jars.packages = "'
        ):
            target.epoch()
    live.close()
    assert spark.range(3).count() == 3


def test_a_session_that_is_active_in_another_thread_is_used_and_stays(spark) -> None:
    found: list[object] = []

    def look() -> None:
        with spark_session() as session:
            found.append(session is spark and session.range(3).count())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [3]
    assert spark.range(4).count() == 4
