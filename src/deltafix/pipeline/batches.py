"""Batches that come with an identity, as Spark's do: each is applied once, whatever happens.

Marks: `query/<query>` = the last batch: its id, its epochs, and how many rows of each relation are
in while it is taken in parts; `query/<query>/<id>` = [first, last epoch] of those before.
Invariant: a batch that is in is not applied again, and a batch that was taken in part goes on where
it was: its rows are sorted, so the same batch has the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.fold import net_sums
from deltafix.pipeline.maintainer import Maintainer
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.signed import SIGN, Signed, plain
from deltafix.pipeline.sources.snapshot import difference

__all__ = ["KEPT", "Batches", "Rows"]

KEPT = 100
"""Of so many batches the epochs are remembered; Spark replays only its last one."""

_CHANGE = "_change_type"
_BESIDE = ("_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch says of a relation: a table, and whether it is all of it or its changes."""

    table: pa.Table
    whole: bool = False


class Batches:
    """The batches of one query. `limit` bounds the rows of an epoch."""

    def __init__(
        self, maintainer: Maintainer, query: str, *, policy: Policy, limit: int, sign: str = "sign"
    ) -> None:
        self._maintainer = maintainer
        self._query = query
        self._mark = f"query/{query}"
        self._policy = policy
        self._limit = limit
        self._sign = sign

    @property
    def last(self) -> int:
        """The id of the last batch that is in wholly; -1 before the first."""
        mark = self._maintainer.db.marks.get(self._mark)
        return -1 if mark is None else int(mark["batch"]) - (0 if mark["done"] is None else 1)

    def epochs_of(self, batch: int) -> tuple[int, int] | None:
        """(first, last epoch) of a batch that is in wholly; None if it is not.

        Raises PipelineError for one that is so old that its epochs are not remembered.
        """
        if batch > self.last:
            return None
        mark = self._maintainer.db.marks[self._mark]
        if mark["batch"] == batch:
            return int(mark["first"]), int(mark["last"])
        found = self._maintainer.db.marks.get(f"{self._mark}/{batch}")
        if found is None:
            message = (
                f"query {self._query}: batch {batch} was before the last {KEPT}, of which the "
                f"epochs are remembered (the last is {self.last}); the delta logs have all by epoch"
            )
            raise PipelineError(message, query=self._query, batch=batch)
        return int(found[0]), int(found[1])

    def apply(self, batch: int, rows: Mapping[str, Rows]) -> list[Epoch]:
        """Apply a batch, as one epoch or several; returns them, those that were in as `replayed`.

        Raises DriftError for columns that are not the relation's, and what `Maintainer.commit`
        raises; epochs before that stand, and the same batch goes on behind them.
        """
        seen = self.epochs_of(batch)
        if seen is not None:
            numbers = range(seen[0], seen[1] + 1)
            return [Epoch(one, batch=(self._query, batch), replayed=True) for one in numbers]
        mark = self._maintainer.db.marks.get(self._mark)
        part = mark if mark is not None and mark["batch"] == batch else None
        done: dict[str, int] = dict(part["done"]) if part else {}
        first = int(part["first"]) if part else self._maintainer.epoch + 1
        waiting = [self._signed(name, one, done.get(name, 0)) for name, one in rows.items()]
        epochs: list[Epoch] = []
        while True:
            portions, waiting = self._next(waiting, done)
            last = self._maintainer.epoch + 1
            marks = self._marks(batch, first, last, done if waiting else None)
            epochs.append(
                self._maintainer.commit(portions, marks=marks, batch=(self._query, batch))
            )
            if not waiting:
                return epochs

    def _marks(
        self, batch: int, first: int, last: int, done: Mapping[str, int] | None
    ) -> dict[str, Any]:
        marks: dict[str, Any] = {
            self._mark: {"batch": batch, "first": first, "last": last, "done": done},
            f"{self._mark}/{batch - KEPT}": None,
        }
        before = self._maintainer.db.marks.get(self._mark)
        if before is not None and before["batch"] != batch:
            marks[f"{self._mark}/{before['batch']}"] = [before["first"], before["last"]]
        return marks

    def _next(
        self, waiting: Sequence[Signed], done: dict[str, int]
    ) -> tuple[list[Portion], list[Signed]]:
        """The portions of the next epoch, and what stays; notes in `done` what they hold."""
        left = self._limit
        portions, rest = [], []
        for signed in waiting:
            name = signed.schema.relation
            taken = signed.table.slice(0, left)
            left -= taken.num_rows
            part = Signed(signed.schema, taken, signed.bad)
            portions.append(Portion(name, [part], policy=self._policy))
            done[name] = done.get(name, 0) + taken.num_rows
            if taken.num_rows < signed.table.num_rows:
                rest.append(Signed(signed.schema, signed.table.slice(taken.num_rows), []))
        for portion in portions:
            portion.more = bool(rest)
        return portions, rest

    def _signed(self, name: str, rows: Rows, done: int) -> Signed:
        """The net signed rows of a relation, sorted, behind those that are in."""
        db = self._maintainer.db
        schema = db.schemas[name]
        table = rows.table
        origin = f"input {name}: the batch"
        sign: str | int = 1
        if not rows.whole:
            sign = _CHANGE if _CHANGE in table.column_names else self._sign
            sign = sign if sign in table.column_names else 1
        beside = [sign] if isinstance(sign, str) else []
        found = [one for one in table.column_names if one not in _BESIDE]
        signed = fit(schema, table, choose(schema, found, None, beside, origin), origin, sign=sign)
        if rows.whole:
            # What is in of a batch taken in part is in the difference already.
            signed.table = difference(
                schema, db.to_arrow(name), signed.table.select(list(schema.names))
            )
            return signed
        signed.table = _sorted(schema, signed.table, self._policy.duplicates).slice(done)
        if done:
            signed.bad.clear()  # they went with the first part
        return signed


def _sorted(schema: Schema, table: pa.Table, duplicates: str) -> pa.Table:
    """Net changes in an order that depends on nothing but them, rows to take out first."""
    changes = plain(schema, net_sums(table, schema.names, SIGN))
    order = [(SIGN, "ascending"), *((name, "ascending") for name in schema.names)]
    changes = changes.sort_by(order)
    if duplicates == "ignore":
        signs = pc.sign(changes.column(SIGN)).cast(pa.int8())
        place = changes.column_names.index(SIGN)
        changes = changes.set_column(place, SIGN, signs)
    return changes
