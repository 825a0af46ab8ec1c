"""Tables of a Spark catalog: their change feed where the catalog has one, else snapshots.

`mode = "changes"` reads the first time the whole table and later `spark.read.changes` from the
version behind the last one read (Spark 4.2 and newer; the catalog must implement a changelog).
`mode = "snapshot"` diffs the whole table at each poll, with any catalog. Marks: `table/<input>` =
[version, rows taken of what follows]. Spark reads; nothing is kept in a checkpoint of Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.spark.pipeline.columns import choose, fit
from deltafix.spark.pipeline.policy import Policy
from deltafix.spark.pipeline.portion import Portion, State
from deltafix.spark.pipeline.signed import Signed
from deltafix.spark.pipeline.sources.live import LiveSpark
from deltafix.spark.pipeline.sources.snapshot import difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkTable"]

_TYPE, _VERSION, _TIME = "_change_type", "_commit_version", "_commit_timestamp"


class SparkTable:
    """A source of a table of Spark's catalog (`source = "table"`)."""

    def __init__(
        self, name: str, schema: Schema, values: Mapping[str, Any], policy: Policy
    ) -> None:
        self.name = name
        self.relations = (schema.relation,)
        self._schema = schema
        self._table = str(values["table"])
        self._columns = values["columns"]
        self._version = str(values["version"])
        self._policy = policy
        self._changes = values["mode"] == "changes"
        self._live = LiveSpark()

    def poll(self, state: State, limit: int) -> Portion | None:
        """What changed since the last version, or since the last look."""
        mark = f"table/{self.name}"
        done = state.marks.get(mark)
        if self._changes and done is not None:
            return self._feed(done, limit, mark)
        spark = self._live.session()
        rows = self._read(lambda: spark.read.table(self._table).toArrow())
        signed = self._fit(rows, 1)
        held = state.to_arrow(self._schema.relation)
        changes = difference(self._schema, held, signed.table.select(list(self._schema.names)))
        whole = changes.num_rows <= limit
        policy = Policy(missing="ignore", quarantine=self._policy.quarantine)
        portion = Portion(self.name, policy=policy, more=not whole)
        portion.signed.append(
            Signed(self._schema, changes.slice(0, limit), signed.bad if whole else [])
        )
        if self._changes and whole:
            # Versions up to this one are in the rows just read, or come again as no-ops.
            portion.marks[mark] = [self._latest(spark), 0]
        return portion if changes.num_rows or signed.bad or portion.marks else None

    def close(self) -> None:
        """Stop the session, if it was started here."""
        self._live.close()

    def _feed(self, done: list[int], limit: int, mark: str) -> Portion | None:
        version, taken = done
        spark = self._live.session()
        table = self._read(
            lambda: (
                spark.read.option("startingVersion", str(version + 1))
                .changes(self._table)
                .toArrow()
            )
        )
        if not table.num_rows:
            return None
        order = [(_VERSION, "ascending"), (_TYPE, "ascending")]  # delete before insert
        table = table.sort_by([*order, *((name, "ascending") for name in self._named(table))])
        signed = self._fit(table, _TYPE)
        part = signed.table.slice(taken, limit)
        after = taken + part.num_rows
        whole = after >= signed.table.num_rows
        portion = Portion(self.name, policy=self._policy, more=not whole)
        portion.signed.append(Signed(self._schema, part, [] if taken else signed.bad))
        last = int(pc.max(table.column(_VERSION)).as_py())
        portion.marks[mark] = [last, 0] if whole else [version, after]
        return portion

    def _latest(self, spark: SparkSession) -> int:
        table = self._read(
            lambda: (
                spark.read.option("startingVersion", "0")
                .changes(self._table)
                .selectExpr(f"max({_VERSION}) as v")
                .toArrow()
            )
        )
        found = table.column(0)[0].as_py()
        return -1 if found is None else int(found)

    def _named(self, table: pa.Table) -> list[str]:
        return [name for name in table.column_names if name not in (_TYPE, _VERSION, _TIME)]

    def _fit(self, table: pa.Table, sign: str | int) -> Signed:
        origin = f"input {self.name}: table {self._table}"
        beside = [self._version] if self._version else []
        names = choose(self._schema, self._named(table), self._columns, beside, origin)
        return fit(self._schema, table, names, origin, sign=sign, version=self._version)

    def _read(self, read: Any) -> pa.Table:
        from pyspark.errors import PySparkException  # noqa: PLC0415  Spark is an extra

        try:
            return read()
        except PySparkException as error:
            hint = (
                '; mode = "snapshot" diffs the whole table where a catalog has no change feed'
                if self._changes
                else ""
            )
            message = f"input {self.name}: table {self._table}: {_first_line(error)}{hint}"
            raise PipelineError(message, input=self.name, table=self._table) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
