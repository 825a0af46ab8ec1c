"""Delta tables through the package `deltalake`, in the driver: no Spark, no jars.

The first poll diffs the table, at the version it has then, with what is given; later ones read
the change feed, version by version. Marks: `delta/<input>` = [version, rows of the next one taken],
and `delta/<input>/start` = the version of a first read taken in parts. Invariant: versions
are taken in order, each wholly before the next; in one version, rows go out before rows come in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import MissingDependencyError, PipelineError
from deltafix.facts.schema import Schema
from deltafix.spark.pipeline.columns import choose, fit
from deltafix.spark.pipeline.policy import Policy
from deltafix.spark.pipeline.portion import Portion, State
from deltafix.spark.pipeline.signed import SIGN, Signed
from deltafix.spark.pipeline.sources.snapshot import difference

__all__ = ["DeltaTable"]

_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


class DeltaTable:
    """A source of a Delta table with a change feed (`source = "delta"`)."""

    def __init__(
        self, name: str, schema: Schema, values: Mapping[str, Any], policy: Policy
    ) -> None:
        self.name = name
        self.relations = (schema.relation,)
        self._schema = schema
        self._path = str(values["path"])
        self._columns = values["columns"]
        self._version_column = str(values["version"])
        self._policy = policy

    def poll(self, state: State, limit: int) -> Portion | None:
        """The rest of the first version, or rows of the next."""
        mark = f"delta/{self.name}"
        done = state.marks.get(mark)
        if done is None:
            return self._first(state, limit, mark)
        version, taken = done
        latest = int(self._table(None).version())
        if latest <= version:
            return None
        signed = self._changes(version + 1)
        part = signed.table.slice(taken, limit)
        after = taken + part.num_rows
        whole = after >= signed.table.num_rows
        portion = Portion(self.name, policy=self._policy, more=not whole or version + 1 < latest)
        portion.signed.append(Signed(self._schema, part, [] if taken else signed.bad))
        portion.marks[mark] = [version + 1, 0] if whole else [version, after]
        return portion

    def close(self) -> None:
        """Nothing is held."""

    def _first(self, state: State, limit: int, mark: str) -> Portion:
        start = state.marks.get(f"{mark}/start")
        table = self._table(start)
        signed = self._fit(table.to_pyarrow_table(), 1)
        held = state.to_arrow(self._schema.relation)
        changes = difference(self._schema, held, signed.table.select(list(self._schema.names)))
        whole = changes.num_rows <= limit
        policy = Policy(missing="ignore", quarantine=self._policy.quarantine)
        portion = Portion(self.name, policy=policy, more=not whole)
        bad = signed.bad if whole else []
        portion.signed.append(Signed(self._schema, changes.slice(0, limit), bad))
        version = int(table.version())
        portion.marks[f"{mark}/start"] = None if whole else version
        if whole:
            portion.marks[mark] = [version, 0]
        return portion

    def _changes(self, version: int) -> Signed:
        """The signed rows of one version, rows to take out first."""
        try:
            reader = self._table(None).load_cdf(
                starting_version=version, ending_version=version, allow_out_of_range=True
            )
            table = pa.table(reader.read_all())
        except Exception as error:
            message = (
                f"input {self.name}: {self._path} has no change feed for version {version}: "
                f"{error}; set delta.enableChangeDataFeed on the table, or read it as snapshots"
            )
            raise PipelineError(message, input=self.name, version=version) from error
        kind = table.column("_change_type").cast(pa.string())
        signed = self._fit(table, "_change_type", kind)
        out = pc.less(signed.table.column(SIGN), 0)
        signed.table = pa.concat_tables(
            [signed.table.filter(out), signed.table.filter(pc.invert(out))]
        )
        return signed

    def _fit(self, table: pa.Table, sign: str | int, kind: Any = None) -> Signed:
        origin = f"input {self.name}: {self._path}"
        found = [name for name in table.column_names if name not in _FEED]
        beside = [self._version_column] if self._version_column else []
        names = choose(self._schema, found, self._columns, beside, origin)
        if kind is not None:
            table = table.select([*names, *beside]).append_column("_change_type", kind)
        return fit(self._schema, table, names, origin, sign=sign, version=self._version_column)

    def _table(self, version: int | None) -> Any:
        try:
            from deltalake import DeltaTable as Table  # noqa: PLC0415  an optional package
            from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415
        except ImportError as error:
            message = f"input {self.name} needs deltalake: pip install 'deltafix[delta]'"
            raise MissingDependencyError(message, extra="delta") from error
        try:
            return Table(self._path, version=version)
        except TableNotFoundError as error:
            message = f"input {self.name}: {self._path} is no Delta table: {error}"
            raise PipelineError(message, input=self.name, path=self._path) from None
