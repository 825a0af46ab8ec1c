"""Batches that come with an identity, as Spark's do: each is applied once, whatever happens.

A batch is known by its query, its number, and a `Name`: the run that numbers it, and where its
sources were. Marks: `query/<query>` = the last batch: its number and name, its epochs, from which
epoch on it is handed out, and, while it is taken in parts, how many rows of each relation are in;
`query/<query>/<number>` = the same of those before; `handed` = the last epoch that was handed out.
Invariant: a batch that is in is not applied again, and one that was taken in part goes on where it
was: its rows are sorted, so the same batch has the same parts. Numbers follow each other; a gap, a
number that comes again under another name, and another run are refused. What batches hand out, one
after another, is each epoch of the state once, those that opening made included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import PipelineError
from deltafix.facts.schema import Schema
from deltafix.pipeline.epoch import Epoch
from deltafix.pipeline.maintainer import Maintainer
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.signed import SIGN, Signed, plain

KEPT = 100
"""Of so many batches the epochs are remembered; Spark replays only its last one."""

_HANDED = "handed"


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch says of a relation, net: changes, or what differs from all that is given."""

    signed: Signed
    whole: bool = False


class Name(NamedTuple):
    """What tells a batch from others of its number.

    Attributes:
        run: who numbers the batches (a checkpoint of Spark's); empty if the caller does.
        offsets: where the batch's sources were.
    """

    run: str = ""
    offsets: str = ""


class Batches:
    """The batches of one query: policies by relation, `limit` bounds the rows of an epoch."""

    def __init__(
        self,
        maintainer: Maintainer,
        query: str,
        *,
        policies: Mapping[str, Policy],
        limit: int,
    ) -> None:
        self._maintainer = maintainer
        self._query = query
        self._mark = f"query/{query}"
        self._policies = policies
        self._limit = limit

    @property
    def last(self) -> int:
        """The number of the last batch that is in wholly; -1 before the first."""
        mark = self._maintainer.db.marks.get(self._mark)
        return -1 if mark is None else int(mark["batch"]) - (0 if mark["done"] is None else 1)

    @property
    def handed(self) -> int:
        """The last epoch that was handed out, by any query of this state."""
        return int(self._maintainer.db.marks.get(_HANDED, 0))

    def require_run(self, run: str | None, last: int) -> None:
        """Raise PipelineError unless a run that has finished batches up to `last` goes on here.

        `run` is None for one that has not begun.
        """
        mark = self._maintainer.db.marks.get(self._mark)
        if mark is not None and mark["name"][0] != (run or ""):
            raise self._refused(
                f"its batches up to {mark['batch']} were numbered by another run (a checkpoint "
                "that was deleted, or another one): what this run reads could have been taken "
                "before, or lost in between. Put the checkpoint back; or, if nothing of what it "
                "reads is in and nothing is missing, give it another query name"
            )
        if last > self.last:
            raise self._refused(
                f"its run has finished batch {last}, but of its batches this state has "
                f"{'none' if self.last < 0 else f'those up to {self.last}'}: the state is new or "
                "was put back from an older copy; put back the checkpoint of that time too"
            )

    def find(self, batch: int, name: Name = Name()) -> tuple[int, int] | None:  # noqa: B008
        """(first, last epoch) that a batch hands out, if it is in wholly; else None.

        Raises PipelineError for a batch that cannot be: a gap before it, another name than it
        had, or so old that it is not remembered.
        """
        mark = self._maintainer.db.marks.get(self._mark)
        if mark is None:
            if name.run and batch:
                raise self._refused(f"its first batch here is {batch}: those before are not in")
            return None
        if mark["name"][0] != name.run:
            self.require_run(name.run, -1)
        if batch > mark["batch"] + (mark["done"] is None):
            raise self._refused(
                f"batch {batch} follows batch {self.last}: those between them are not in; number "
                "them one after another"
            )
        if batch > mark["batch"]:
            return None
        if batch < mark["batch"]:
            mark = self._maintainer.db.marks.get(f"{self._mark}/{batch}")
        if mark is None:
            raise self._refused(
                f"batch {batch} was before the last {KEPT}, of which the epochs are remembered "
                f"(the last is {self.last}); the delta logs have all by epoch"
            )
        if mark["name"] != list(name):
            raise self._refused(
                f"batch {batch} is in, but its sources were elsewhere when it was taken: the "
                "checkpoint was put back from an older copy, and its rows are not those"
            )
        return None if mark["done"] is not None else (int(mark["from"]), int(mark["last"]))

    def apply(
        self,
        batch: int,
        rows: Mapping[str, Rows],
        name: Name = Name(),  # noqa: B008  it is immutable
    ) -> list[Epoch]:
        """Apply a batch, as one epoch or several; returns them.

        Of one that is in wholly, all that it hands out, as `replayed`. Raises what `find` and what
        `Maintainer.commit` raise; epochs before that stand, and the same batch goes on behind them.
        """
        seen = self.find(batch, name)
        if seen is not None:
            numbers = range(seen[0], seen[1] + 1)
            return [Epoch(number, batch=(self._query, batch), replayed=True) for number in numbers]
        mark = self._maintainer.db.marks.get(self._mark)
        part = mark if mark is not None and mark["batch"] == batch else None
        done: dict[str, int] = dict(part["done"]) if part else {}
        waiting = [self._ordered(net) for net in rows.values()]
        digest = _digest([signed for signed in waiting if not rows[signed.schema.relation].whole])
        if part:
            if part["digest"] != digest:
                raise self._refused(
                    f"batch {batch} was taken in part, and has other rows now: the rest of it is "
                    "not known; give it as it was"
                )
            for signed in waiting:
                signed.bad.clear()  # they went with the first part
                if not rows[signed.schema.relation].whole:  # else it is a difference already
                    signed.table = signed.table.slice(done.get(signed.schema.relation, 0))
        begun = {
            "batch": batch,
            "name": list(name),
            "from": part["from"] if part else self.handed + 1,
            "digest": digest,
        }
        epochs: list[Epoch] = []
        while True:
            portions, waiting = self._next(waiting, done)
            begun |= {"last": self._maintainer.epoch + 1, "done": done if waiting else None}
            marks = self._marks(begun)
            epochs.append(
                self._maintainer.commit(portions, marks=marks, batch=(self._query, batch))
            )
            if not waiting:
                return epochs

    def _marks(self, begun: Mapping[str, Any]) -> dict[str, Any]:
        marks: dict[str, Any] = {self._mark: dict(begun)}
        before = self._maintainer.db.marks.get(self._mark)
        if before is not None and before["batch"] != begun["batch"]:
            marks[f"{self._mark}/{before['batch']}"] = before
            marks[f"{self._mark}/{before['batch'] - KEPT + 1}"] = None
        if begun["done"] is None:
            marks[_HANDED] = begun["last"]
        return marks

    def _refused(self, reason: str) -> PipelineError:
        return PipelineError(f"query {self._query}: {reason}", query=self._query)

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
            portions.append(Portion(name, [part], policy=self._policies[name]))
            done[name] = done.get(name, 0) + taken.num_rows
            if taken.num_rows < signed.table.num_rows:
                rest.append(Signed(signed.schema, signed.table.slice(taken.num_rows), []))
        for portion in portions:
            portion.more = bool(rest)
        return portions, rest

    def _ordered(self, rows: Rows) -> Signed:
        """The net changes in an order that depends on nothing but them."""
        table = rows.signed.table
        if not rows.whole:
            schema = rows.signed.schema
            table = _sorted(schema, table, self._policies[schema.relation])
        return Signed(rows.signed.schema, table, list(rows.signed.bad))


def _digest(parts: Sequence[Signed]) -> str:
    """What tells sorted changes from others."""
    state = hashlib.blake2b(digest_size=16)
    for part in sorted(parts, key=lambda signed: signed.schema.relation):
        table = part.table.combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        state.update(part.schema.relation.encode())
        state.update(sink.getvalue())
    return state.hexdigest()


def _sorted(schema: Schema, table: pa.Table, policy: Policy) -> pa.Table:
    """Net changes in an order that depends on nothing but them, rows to take out first."""
    changes = plain(schema, table)
    order = [(name, "ascending") for name in (SIGN, *schema.names, *policy.keying.versions)]
    changes = changes.sort_by(order)
    if policy.duplicates == "ignore":
        signs = pc.sign(changes.column(SIGN)).cast(pa.int8())
        sign_index = changes.column_names.index(SIGN)
        changes = changes.set_column(sign_index, SIGN, signs)
    return changes
