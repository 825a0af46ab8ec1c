"""Rows judged where they are: what an input says of a row, asked of the shard that is its seat.

    signed rows --`frames.Said`--> the seats of their rows --`judge`--> net changes for all copies

The judge is the pipeline's (`pipeline.policy`); a `Seat` tells it what is given, its edits too,
and takes them back in the end: the changes go to every copy with the epoch's first messages.
Invariant: all that is said of a row, or of a key, comes to one seat, in its order (`PLACE`), where
how often it is there lies too (`Layout.beside`, `Layout.by_key`); so shards judge together as one
transaction would. A policy that asks for nothing but whether a row is given can be judged at every
copy of it (`judges_in_place`): all say the same, and nothing needs to be sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltafix.facts.arrow import rows_from_table, table_from_rows
from deltafix.facts.schema import Schema
from deltafix.pipeline.condense import PLACE
from deltafix.pipeline.keyed import drop_tombstones
from deltafix.pipeline.policy import Bools, Policy, bad_rows, judge
from deltafix.pipeline.quarantine import BAD_ROWS
from deltafix.pipeline.signed import Signed
from deltafix.pipeline.times import COUNTS, Times
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.step import Verdict
from deltafix.spark.wire import Batch, fold, signed

if TYPE_CHECKING:
    from deltafix.engine.database import Database

SAID = "said "
"""Begins the name of a batch of rows that are to be judged; then comes the copy that judges."""


def judges_in_place(policy: Policy) -> bool:
    """Whether every copy of a relation can judge what is said of its rows."""
    return not policy.keying.key and policy.duplicates != "count"


class Seat:
    """The given rows of a shard, as `pipeline.policy` asks for and changes them. Close it."""

    def __init__(self, layout: Layout, db: Database, names: Mapping[str, tuple[str, ...]]) -> None:
        self._layout = layout
        self._db = db
        self._names = names
        self._edits: dict[tuple[str, str], list[pa.Table]] = {}
        self._judging: dict[str, str] = {}
        self._tx = db.transaction(missing="ignore")

    def judge(self, relation: str, tables: list[pa.Table], policy: Policy, local: str) -> Verdict:
        """Judge what is said of the rows of a relation by those of a copy."""
        self._judging[relation] = local
        table = pa.concat_tables(tables).sort_by(PLACE)
        schema = self._schema(relation)
        names = [*schema.names, *table.column_names[schema.arity :]]
        rows = Signed(schema, table.rename_columns(names))
        times = None
        if policy.duplicates == "count":
            times = Times(rows_from_table(self._db.to_arrow(self._local(relation + COUNTS))))
        judged = judge(self, rows, policy, times)
        positions = rows.table.column(PLACE).to_numpy()
        bad = [
            (reason, int(position), bad_row.row)
            for reason, odd in judged.aside
            for position, bad_row in zip(
                positions[odd[:BAD_ROWS]], bad_rows(rows, reason, odd[:BAD_ROWS]), strict=True
            )
        ]
        beyond = sum(len(odd) for _, odd in judged.aside) - len(bad)
        return Verdict(judged.new, judged.old, bad, beyond)

    def drop_tombstones(self, relation: str, below: int) -> None:
        """Forget deletes of keys whose sequence is below."""
        drop_tombstones(self, relation, below)

    def close(self) -> None:
        """Take back what was edited to judge the rows behind it."""
        self._tx.rollback()

    def edits(self, *, in_place: bool) -> Iterator[Batch]:
        """What was judged to be a change, by the copy that judged or by relation."""
        for (relation, local), tables in self._edits.items():
            yield Batch(local if in_place else relation, fold(tables))

    # --- as the judge sees it ------------------------------------------------------------------

    def coded(self, relation: str, rows: pa.Table) -> _Rows:
        """Rows by which masks choose."""
        return _Rows(self._plain(relation, rows))

    def given(self, relation: str, rows: Any) -> Bools:
        """Which of the rows are given, here."""
        return self._tx.given(self._local(relation), self._plain(relation, rows))

    def given_rows(self, relation: str, keys: pa.Table | None = None) -> pa.Table:
        """The given rows of a relation, here, by keys."""
        names = list(self._names[relation])
        if keys is not None:
            keys = keys.rename_columns([f"c{names.index(column)}" for column in keys.column_names])
        rows: pa.Table = self._tx.given_rows(self._local(relation), keys)
        return rows.rename_columns(names)

    def insert(self, relation: str, rows: Any) -> int:
        """Give rows, where they are not given; how many."""
        return self._edit(relation, rows, 1)

    def delete(self, relation: str, rows: Any) -> int:
        """Take rows away, where they are given; how many."""
        return self._edit(relation, rows, -1)

    def _edit(self, relation: str, rows: Any, sign: int) -> int:
        table = self._plain(relation, rows)
        if not table.num_rows:
            return 0
        held = self.given(relation, table)
        table = table.filter(pa.array(held if sign < 0 else ~held))
        if table.num_rows:
            local = self._local(relation)
            (self._tx.insert if sign > 0 else self._tx.delete)(local, table)
            rows = signed(table, self._layout.types[local], sign)
            self._edits.setdefault((relation, local), []).append(rows)
        return int(table.num_rows)

    def _plain(self, relation: str, rows: Any) -> pa.Table:
        """Rows with the columns of their local relation."""
        if isinstance(rows, _Rows):
            return rows.table
        types = self._layout.types[self._local(relation)]
        names = [f"c{n}" for n in range(len(types))]
        if isinstance(rows, pa.Table):
            if rows.column_names == names:
                return rows
            return rows.select(list(self._names[relation])).rename_columns(names)
        return table_from_rows(Schema.of(relation, names, types), rows)

    def _local(self, relation: str) -> str:
        return self._judging.get(relation) or self._layout.seat(relation).name

    def _schema(self, relation: str) -> Schema:
        names = self._names[relation]
        return Schema.of(relation, names, self._layout.types[self._local(relation)])


@dataclass(frozen=True, slots=True)
class _Rows:
    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def where(self, mask: Bools) -> _Rows:
        """The rows under a mask."""
        return _Rows(self.table.filter(pa.array(mask)))
