"""Rows judged where they are: what an input says of a row, asked of the shard that is its seat.

    signed rows --`said`--> the seats of their rows --`judge`--> net changes for all copies

The judge is the pipeline's (`pipeline.policy`); a `Seat` tells it what is given, and keeps what it
edits instead of doing it: the changes go to every copy with the epoch's first messages. Invariant:
all that is said of a row comes to one seat, in its order (`PLACE`), and how often it is there lies
beside it (`Layout.beside`); so shards together judge as one transaction would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deltafix.engine.transaction import Transaction
from deltafix.facts.arrow import rows_from_table, table_from_rows
from deltafix.facts.schema import Schema
from deltafix.pipeline.condense import PLACE
from deltafix.pipeline.policy import Bools, Policy, bad_rows, judge
from deltafix.pipeline.quarantine import BAD_ROWS
from deltafix.pipeline.signed import SIGN, Signed, plain
from deltafix.pipeline.times import COUNTS, Times
from deltafix.spark.shards.layout import Layout
from deltafix.spark.shards.step import Verdict
from deltafix.spark.shards.wire import Batch, fold, signed, table_schema

if TYPE_CHECKING:
    from deltafix.engine.database import Database

__all__ = ["SAID", "Seat", "said"]

SAID = "said "
"""Begins the name of a batch of rows that are to be judged; then comes the relation."""


def said(layout: Layout, rows: Signed) -> Batch:
    """Signed rows as they go to their seats, the first of them at place 0."""
    relation = rows.schema.relation
    types = layout.types[layout.given[relation][0].name]
    table = plain(rows.schema, rows.table)
    columns = [table.column(name) for name in rows.schema.names]
    fields = [*table_schema(types)][: len(types)]
    beside = {SIGN: table.column(SIGN).cast(pa.int64()), PLACE: np.arange(table.num_rows)}
    table = pa.table(columns, schema=pa.schema(fields))
    for name, column in beside.items():
        table = table.append_column(pa.field(name, pa.int64(), nullable=False), pa.array(column)
                                    if isinstance(column, np.ndarray) else column)  # fmt: skip
    return Batch(SAID + relation, table)


class Seat:
    """The given rows of one shard, as `pipeline.policy` asks for them and changes them."""

    def __init__(self, layout: Layout, db: Database, names: Mapping[str, tuple[str, ...]]) -> None:
        self._layout = layout
        self._db = db
        self._names = names
        self._edits: dict[str, list[pa.Table]] = {}
        self._tx: Transaction | None = None

    def judge(self, relation: str, tables: list[pa.Table], policy: Policy) -> Verdict:
        """Judge what is said of the rows of a relation."""
        table = pa.concat_tables(tables).sort_by(PLACE)
        schema = self._schema(relation)
        rows = Signed(schema, table.rename_columns([*schema.names, SIGN, PLACE]))
        times = None
        if policy.duplicates == "count":
            times = Times(rows_from_table(self._db.to_arrow(self._local(relation + COUNTS))))
        self._tx = self._db.transaction(missing="ignore")
        try:
            judged = judge(self, rows, policy, times)
        finally:
            self._tx.rollback()
        places = rows.table.column(PLACE).to_numpy()
        bad = [
            (reason, int(place), one.row)
            for reason, odd in judged.aside
            for place, one in zip(places[odd[:BAD_ROWS]], bad_rows(rows, reason, odd[:BAD_ROWS]),
                                  strict=True)
        ]  # fmt: skip
        beyond = sum(len(odd) for _, odd in judged.aside) - len(bad)
        return Verdict(judged.new, judged.old, bad, beyond)

    def edits(self) -> Iterator[Batch]:
        """What was judged to be a change, for each copy of its relation."""
        for relation, tables in self._edits.items():
            net = fold(tables)
            for copy in self._layout.given[relation]:
                yield Batch(copy.name, net)

    # --- as the judge sees it ------------------------------------------------------------------

    def coded(self, relation: str, rows: pa.Table) -> _Rows:
        """Rows by which masks choose."""
        return _Rows(self._plain(relation, rows))

    def given(self, relation: str, rows: Any) -> Bools:
        """Which of the rows are given, here."""
        assert self._tx is not None  # noqa: S101  a judgement is on
        return self._tx.given(self._local(relation), self._plain(relation, rows))

    def given_rows(self, relation: str, keys: pa.Table | None = None) -> pa.Table:
        """The given rows of a relation by keys: what keyed inputs ask, which shards refuse."""
        raise NotImplementedError

    def insert(self, relation: str, rows: Any) -> int:
        """Keep rows to give, where they are not given; how many."""
        return self._keep(relation, rows, 1)

    def delete(self, relation: str, rows: Any) -> int:
        """Keep rows to take away, where they are given; how many."""
        return self._keep(relation, rows, -1)

    def _keep(self, relation: str, rows: Any, sign: int) -> int:
        table = self._plain(relation, rows)
        if not table.num_rows:
            return 0
        held = self.given(relation, table)
        table = table.filter(pa.array(held if sign < 0 else ~held))
        if table.num_rows:
            types = self._layout.types[self._local(relation)]
            self._edits.setdefault(relation, []).append(signed(table, types, sign))
        return int(table.num_rows)

    def _plain(self, relation: str, rows: Any) -> pa.Table:
        """Rows with the columns of their local relation."""
        if isinstance(rows, _Rows):
            return rows.table
        types = self._layout.types[self._local(relation)]
        names = [f"c{n}" for n in range(len(types))]
        if isinstance(rows, pa.Table):
            return rows if rows.column_names == names else rows.rename_columns(names)
        return table_from_rows(Schema.of(relation, names, types), rows)

    def _local(self, relation: str) -> str:
        return self._layout.seat(relation).name

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
