"""A Kafka topic through Spark's connector: Debezium envelopes, or JSON objects with a sign.

Mark: `kafka/<input>` = {partition: next offset}. Each poll is a batch read of the offsets from
there on, at most `limit` records; nothing is kept in a consumer group or a checkpoint of Spark's:
the offsets are committed with the rows. Invariant: a partition's records are taken in offset order.
The connector is no part of PySpark: put its jars into Spark's, or name the package by
`spark.jars.packages` in `spark-defaults.conf`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.spark.pipeline.columns import choose, fit
from deltafix.spark.pipeline.debezium import decode_envelopes
from deltafix.spark.pipeline.decode import json_values, records_table
from deltafix.spark.pipeline.policy import Policy
from deltafix.spark.pipeline.portion import Portion, State
from deltafix.spark.pipeline.signed import Signed
from deltafix.spark.pipeline.sources.live import LiveSpark

__all__ = ["KafkaTopic", "decode_records"]


class KafkaTopic:
    """A source of a Kafka topic (`source = "kafka"`)."""

    def __init__(
        self, name: str, schema: Schema, values: Mapping[str, Any], policy: Policy
    ) -> None:
        self.name = name
        self.relations = (schema.relation,)
        self._schema = schema
        self._values = values
        self._policy = policy
        self._live = LiveSpark()

    def poll(self, state: State, limit: int) -> Portion | None:
        """The records behind the offsets that are in."""
        mark = f"kafka/{self.name}"
        done: dict[str, int] = state.marks.get(mark, {})
        records = self._read(done, limit)
        if not records.num_rows:
            return None
        offsets = dict(done)
        for partition, offset in zip(
            records.column("partition").to_pylist(),
            records.column("offset").to_pylist(),
            strict=True,
        ):
            offsets[str(partition)] = max(offsets.get(str(partition), 0), offset + 1)
        portion = Portion(self.name, policy=self._policy, more=records.num_rows >= limit)
        origin = f"topic {self._values['topic']}"
        values = records.column("value").to_pylist()
        portion.signed.append(decode_records(self._schema, values, self._values, origin))
        portion.stamp = min(records.column("stamp").to_pylist())
        portion.marks[mark] = offsets
        return portion

    def close(self) -> None:
        """Stop the session, if it was started here."""
        self._live.close()

    def _read(self, done: Mapping[str, int], limit: int) -> pa.Table:
        from pyspark.errors import PySparkException  # noqa: PLC0415  Spark is an extra

        topic = self._values["topic"]
        try:
            reader = (
                self._live.session()
                .read.format("kafka")
                .option("kafka.bootstrap.servers", self._values["servers"])
                .option("assign", json.dumps({topic: list(map(int, self._starts(done)))}))
                .option("startingOffsets", json.dumps({topic: self._starts(done)}))
            )
            return (
                reader.load()
                .selectExpr(
                    "partition", "offset", "cast(value as string) value",
                    "cast(timestamp as double) stamp",
                )
                .orderBy("offset", "partition")
                .limit(limit)
                .toArrow()
            )  # fmt: skip
        except PySparkException as error:
            reason = str(error).strip().split("\n", 1)[0]
            message = (
                f"input {self.name}: topic {topic} at {self._values['servers']}: {reason}; Spark's "
                "Kafka connector must be among its jars (spark.jars.packages)"
            )
            raise PipelineError(message, input=self.name, topic=topic) from error

    def _starts(self, done: Mapping[str, int]) -> dict[str, int]:
        """Where each partition goes on; one that is new begins at its beginning (-2)."""
        partitions = map(str, range(self._values["partitions"]))
        return {partition: done.get(partition, -2) for partition in partitions}


def decode_records(
    schema: Schema, values: list[str | None], options: Mapping[str, Any], origin: str
) -> Signed:
    """Records' values (JSON text; None for tombstones) as signed rows."""
    parsed, bad = json_values(["null" if text is None else text for text in values], origin)
    version = options["version"]
    if options["envelope"] == "debezium":
        signed = decode_envelopes(
            schema, parsed, origin, columns=options["columns"], version=version
        )
    else:
        decoded = records_table([pair for pair in parsed if pair[1] is not None], origin)
        bad.extend(decoded.bad)
        beside = [name for name in (options["sign"], version) if name]
        table = decoded.table
        if not table.num_columns:
            names = [*(options["columns"] or schema.names), *beside]
            table = pa.table({name: pa.array([], pa.string()) for name in names})
        names = choose(schema, table.column_names, options["columns"], beside, origin)
        signed = fit(schema, table, names, origin, sign=options["sign"], version=version)
    signed.bad.extend(bad)
    return signed
