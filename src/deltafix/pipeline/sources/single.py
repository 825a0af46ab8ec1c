"""What sources of one relation have in common: the section they were made from, and two moves.

`fit` brings a table's columns to the relation's; `whole` makes a portion of what differs between
all rows of a table and what is given. Invariant: what an input's section says is read here once;
how far the source is (its marks) is its own business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.schema import Schema
from deltafix.pipeline.columns import choose, fit
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.portion import Portion, State, difference_with
from deltafix.pipeline.signed import SIGN, Signed

CHANGE, COMMIT = "_change_type", "_commit_version"
"""Columns of a change feed, of Delta tables and of Spark alike: what happened, and when."""

FEED = (CHANGE, COMMIT, "_commit_timestamp")
"""All columns that a change feed adds to the table's."""


class Single:
    """A source of one relation; subclasses add `poll` and `close`.

    Args:
        name: the input.
        schema: the relation.
        values: the input's section.
        policy: its policies.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        values: Mapping[str, Any],
        policy: Policy,
    ) -> None:
        self.name = name
        self.relations = (schema.relation,)
        self.schema = schema
        self.values = values
        self.policy = policy

    @property
    def lenient(self) -> Policy:
        """For rows that may be in already: neither there twice nor missing is an error."""
        return Policy(missing="ignore", quarantine=self.policy.quarantine)

    @property
    def diffing(self) -> Policy:
        """For what differs from the rows given, which count or replace each other as they do."""
        duplicates = "count" if self.policy.duplicates == "count" else "ignore"
        keying = Keying(self.policy.keying.key)
        return replace(self.lenient, duplicates=duplicates, keying=keying)

    def fit(self, table: pa.Table, origin: str, sign: str | int) -> Signed:
        """A table's rows as signed rows, columns of a feed left aside. Raises DriftError."""
        source_columns = [name for name in table.column_names if name not in FEED]
        names = self.choose(source_columns, self.policy.keying.sequence, origin)
        return fit(self.schema, table, names, origin, sign=sign, keying=self.policy.keying)

    @property
    def merges(self) -> bool:
        """Whether it is said what rows are that differ only in columns left out."""
        tells_apart = self.values["duplicates"] or self.policy.keying.key
        return bool(tells_apart) or self.values.get("mode") == "snapshot"

    def choose(
        self, source_columns: Sequence[str], beside: Sequence[str], origin: str
    ) -> list[str]:
        """The source's columns for the relation's. Raises DriftError."""
        columns = self.values["columns"]
        return choose(self.schema, source_columns, columns, beside, origin, merges=self.merges)

    def whole(self, state: State, table: pa.Table, origin: str, limit: int) -> Portion:
        """At most `limit` of the changes that make the rows given those of the table.

        `more` tells whether some are left; bad rows come with the last.
        """
        signed = self.fit(table, origin, 1)
        changes = difference_with(state, signed, self.policy)
        more = changes.num_rows > limit
        part = Signed(self.schema, changes.slice(0, limit), [] if more else signed.bad)
        return Portion(self.name, [part], more=more, policy=self.diffing)


def out_before_in(signed: Signed) -> Signed:
    """Rows of one version, those to take out first: a version is a set of changes, not a list."""
    out = pc.less(signed.table.column(SIGN), 0)
    signed.table = pa.concat_tables([signed.table.filter(out), signed.table.filter(pc.invert(out))])
    return signed
