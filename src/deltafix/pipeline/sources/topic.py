"""A topic of Kafka, whoever reads it: which records an epoch takes, and what they say.

Marks: `kafka/<input>` = {partition: next offset}; `kafka/<input>/topic` = the topic's id, which the
broker gives it when it is made. Each poll asks which offsets there are and takes a range of each
partition, at most `limit` records in all; nothing is kept in a consumer group: the offsets are
committed with the rows. Invariant: a partition's records are taken in offset order, each once, and
none is passed over in silence; those of a topic that was made anew are not taken for the others.

How the broker is asked and read is the subclass's: `deltafix.pipeline.sources.kafka` in this
process, `deltafix.spark.sources.kafka` on Spark's executors. The marks are the same, so a state may
go from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from deltafix.errors import OffsetError
from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit, judged
from deltafix.pipeline.debezium import decode_envelopes
from deltafix.pipeline.decode import json_values, records_table
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Signed
from deltafix.pipeline.sources.single import Single

Ranges = Mapping[str, tuple[int, int]]
"""Partition to (first offset, offset behind the last)."""


_ANEW: Final = "give the new topic a pipeline with a state of its own"


class TopicSource(Single):
    """A source of a Kafka topic; subclasses add `_there`, `_identity`, `_take` and `close`.

    Args:
        given: as for `Single`.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._origin = f"input {self.name}: topic {self.values['topic']}"
        self._where = f"{self._origin} at {self.values['servers']}"

    def poll(self, state: State, limit: int) -> Portion | None:
        """The records behind the offsets that are in."""
        mark = f"kafka/{self.name}"
        done: dict[str, int] = state.marks.get(mark, {})
        offsets = self._there()
        known, identity = state.marks.get(f"{mark}/topic"), self._identity()
        if known is not None and identity not in ("", known):
            raise OffsetError(
                f"{self._origin}: it was made anew since it was read; {_ANEW}",
                input=self.name, topic=self.values["topic"],
            )  # fmt: skip
        starts = self._starts(done, offsets)
        waiting = {name: offsets[name][1] - start for name, start in starts.items()}
        shares = share(waiting, limit)
        ranges = {name: (starts[name], starts[name] + many) for name, many in shares.items()}
        ends = {name: end for name, (_, end) in ranges.items()}
        if ends == {name: done.get(name) for name in ends}:
            return None
        # So many count towards the epoch's bound until it is known how many rows they are.
        records = sum(shares.values())
        portion = Portion(self.name, policy=self.policy, more=shares != waiting, read=records)
        portion.marks[mark] = {**done, **ends}
        if identity and known is None:
            portion.marks[f"{mark}/topic"] = identity
        some = {name: bounds for name, bounds in ranges.items() if bounds[0] < bounds[1]}
        if some:
            self._take(portion, some, list(offsets), state)
        return portion

    def _there(self) -> Ranges:
        """The offsets that the broker has. Raises TopicError."""
        raise NotImplementedError

    def _identity(self) -> str:
        """The topic's id; empty where the broker has none (before Kafka 2.8). Raises TopicError."""
        raise NotImplementedError

    def _take(
        self, portion: Portion, ranges: Ranges, partitions: Sequence[str], state: State
    ) -> None:
        """Have a portion say what the records of these ranges say; `partitions` are all."""
        raise NotImplementedError

    def _starts(self, done: Mapping[str, int], offsets: Ranges) -> dict[str, int]:
        """Where each partition goes on. Raises OffsetError where it cannot."""
        starts = {}
        for name in offsets.keys() | done.keys():
            first, end = offsets.get(name, (0, -1))
            start = done.get(name, first)
            if start > end:
                message = (
                    f"{self._origin}, partition {name}: it ends before offset "
                    f"{start}, up to which it was read, so it was made anew; {_ANEW}"
                )
                raise OffsetError(message, input=self.name, partition=name)
            if start < first and self.values["lost"] == "fail":
                raise self._gone(name, start, first)
            starts[name] = max(start, first)
        return starts

    def _gone(self, partition: str, start: int, first: int) -> OffsetError:
        """The error for records that are gone from `start` up to the `first` that is there."""
        message = (
            f"{self._origin}, partition {partition}: offsets {start} to "
            f"{first - 1} are gone before they were read (retention); what they said is "
            "lost to this state. Make the state anew from a source that has all, or go "
            'on without them with lost = "skip"'
        )
        return OffsetError(message, input=self.name, partition=partition)


def decode_records(
    schema: Schema,
    values: Sequence[str | bytes | None],
    options: Mapping[str, Any],
    origin: str,
    keys: Sequence[str | bytes | None] = (),
) -> Signed:
    """Records' values (JSON text; None for tombstones) as signed rows; `keys` are theirs."""
    exact = any(column.logical is not None for column in schema.columns)
    texts = ["null" if text is None else text for text in values]
    parsed, bad = json_values(texts, origin, exact=exact)
    keying = Keying.of(options)
    columns, merges = options["columns"], bool(options["duplicates"] or keying.key)
    if options["envelope"] == "debezium":
        known = dict(json_values([text or "" for text in keys], origin)[0]) if keying.key else {}
        signed = decode_envelopes(
            schema, parsed, origin, columns=columns, keying=keying, merges=merges,
            keys=[known.get(position) for position in range(len(keys))],
        )  # fmt: skip
    else:
        beside = [name for name in (options["sign"], *keying.sequence) if name]
        expected = [*(columns or schema.names), *beside]
        records = (record for record in parsed if record[1] is not None)
        judge = partial(judged, schema, columns)
        decoded = records_table(records, origin, expected, judge, unit="message")
        bad.extend(decoded.bad)
        table = decoded.table
        if columns or {*table.column_names} <= {*expected}:
            # Each record is by itself: what it does not name is NULL, whatever others name.
            for name in {*expected} - {*table.column_names}:
                table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
        names = choose(schema, table.column_names, columns, beside, origin, merges=merges)
        signed = fit(
            schema,
            table,
            names,
            origin,
            sign=options["sign"],
            keying=keying,
            messages=decoded.positions,
        )
    signed.bad.extend(bad)
    return signed


def share(waiting: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many records to take of each partition: in all at most `limit`, evenly. O(n log n)."""
    shares = {}
    left = limit
    for index, name in enumerate(
        sorted(waiting, key=lambda partition: (waiting[partition], int(partition)))
    ):
        shares[name] = min(waiting[name], left // (len(waiting) - index))
        left -= shares[name]
    return shares
