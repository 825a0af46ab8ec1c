"""Delta tables through the package `deltalake`, in this process: no Spark, no jars.

The first poll diffs the table, at the version it has then, with what is given; later ones read
the change feed, version by version. Marks: `delta/<input>` = [version, rows of the next one taken],
and `delta/<input>/start` = the version of a first read taken in parts. Invariant: versions
are taken in order, each wholly before the next; in one version, rows go out before rows come in,
and in one order however often it is read.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltafix.errors import MissingDependencyError, PipelineError
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import SIGN, Signed, plain
from deltafix.pipeline.sources.single import CHANGE, Single, out_before_in


class DeltaTable(Single):
    """A source of a Delta table with a change feed (`source = "delta"`)."""

    def poll(self, state: State, limit: int) -> Portion | None:
        """The rest of the first version, or rows of the next."""
        mark = f"delta/{self.name}"
        done = state.marks.get(mark)
        if done is None:
            return self._first(state, limit, mark)
        version, taken = done
        latest = int(self._table(None).version())
        if latest < version:
            message = (
                f"{self._origin} is at version {latest}, but was read up to {version}: it was made "
                "anew; name a new state, or the table that it was"
            )
            raise PipelineError(message, input=self.name, version=latest)
        if latest == version:
            return None
        signed = self._changes(version + 1)
        if taken or signed.table.num_rows > limit:
            # It is read again for each part, and the package gives its rows in any order.
            order = [(name, "ascending") for name in (SIGN, *self.schema.names)]
            signed.table = plain(self.schema, signed.table).sort_by(order)
        part = signed.table.slice(taken, limit)
        after = taken + part.num_rows
        whole = after >= signed.table.num_rows
        portion = Portion(self.name, policy=self.policy, more=not whole or version + 1 < latest)
        portion.signed.append(Signed(self.schema, part, [] if taken else signed.bad))
        portion.marks[mark] = [version + 1, 0] if whole else [version, after]
        return portion

    def close(self) -> None:
        """Nothing is held."""

    @property
    def _origin(self) -> str:
        return f"input {self.name}: {self.values['path']}"

    def _first(self, state: State, limit: int, mark: str) -> Portion:
        table = self._table(state.marks.get(f"{mark}/start"))
        try:
            rows = pa.table(table.scan())  # what reads Parquet alone knows no deletion vectors
        except Exception as error:
            message = f"{self._origin} cannot be read: {error}"
            raise PipelineError(message, input=self.name, path=self.values["path"]) from error
        portion = self.whole(state, rows, self._origin, limit)
        version = int(table.version())
        portion.marks[f"{mark}/start"] = version if portion.more else None
        if not portion.more:
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
                f"{self._origin} has no change feed for version {version}: {error}; set "
                "delta.enableChangeDataFeed on the table, or read it as snapshots"
            )
            raise PipelineError(message, input=self.name, version=version) from error
        # Its text may be of Arrow's newer kinds, which signs are not told from.
        kind = table.column(CHANGE).cast(pa.string())
        table = table.set_column(table.column_names.index(CHANGE), CHANGE, kind)
        return out_before_in(self.fit(table, self._origin, CHANGE))

    def _table(self, version: int | None) -> Any:
        try:
            from deltalake import DeltaTable as Table  # noqa: PLC0415  an optional package
            from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415
        except ImportError as error:
            message = f"input {self.name} needs deltalake: pip install 'deltafix[delta]'"
            raise MissingDependencyError(message, extra="delta") from error
        try:
            return Table(self.values["path"], version=version)
        except TableNotFoundError as error:
            message = f"{self._origin} is no Delta table: {error}"
            raise PipelineError(message, input=self.name, path=self.values["path"]) from None
