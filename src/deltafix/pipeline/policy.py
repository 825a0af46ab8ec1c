"""What to do with rows that are late, twice there, or not there: the named options.

    late        apply | ignore | bad    its version is below the highest of the rows before it in
                                        its partition, less `lateness`
    duplicates  ignore | count | bad    put in, while it is there
    missing     ignore | bad            taken out, while it is not there

Invariant: a row is judged by the rows that its input said before it and by nothing else, so it does
not matter how they are cut into files, looks and epochs (`oracle_inputs` says the same in
plain Python), nor who keeps the rows: a transaction or the shards (`Rows`). `bad` rows fail the
epoch or go to the quarantine (`bad_rows`); what happens to a row that is not applied changes
nothing for those behind it. The highest version is kept per relation, which is per input (a
pipeline refuses a second input of a relation), and of a topic per partition: those have an order
each and none together, so a mark for all of them would depend on how polls cut them. Of rows that
replace each other by their key (`keyed`), none is there twice or missing; they are late by their
sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.arrow import rows_from_table, to_numpy
from deltafix.facts.groups import group_columns
from deltafix.facts.logical import to_logical
from deltafix.facts.schema import Schema
from deltafix.pipeline.keyed import NO_KEY, Keying, Rows, replace
from deltafix.pipeline.signed import SIGN, VERSION, Bad, Signed, plain
from deltafix.pipeline.times import COUNTS, Times

Highs = Mapping[str, int | None]
"""The highest version so far by partition, None for one without rows; "" where there are none."""


def high_mark(relation: str) -> str:
    """The mark with the `Highs` of a relation's input."""
    return f"high/{relation}"


def lowest(highs: Highs) -> int | None:
    """The version that every partition has reached; None while one has no rows."""
    known = [high for high in highs.values() if high is not None]
    return min(known) if known and len(known) == len(highs) else None


@dataclass(frozen=True, slots=True)
class Policy:
    """The options of one input; `quarantine` says where bad rows go."""

    late: str = "apply"
    duplicates: str = "ignore"
    missing: str = "bad"
    lateness: int = 0
    quarantine: bool = False
    keying: Keying = NO_KEY

    @classmethod
    def of(cls, values: Mapping[str, Any], default: str) -> Policy:
        """From the values of a section; `default` is the pipeline's `bad_rows`."""
        chosen = {name: values[name] for name in ("late", "duplicates", "missing", "lateness")
                  if values.get(name)}  # fmt: skip
        aside = (values.get("bad_rows") or default) == "quarantine"
        return cls(**chosen, quarantine=aside, keying=Keying.of(values))


def late_rows(policy: Policy, signed: Signed, high: int | None) -> int | None:
    """Take late rows out of `signed`, as the policy says; returns the highest version by now.

    All rows are of one partition, whose highest version was `high`.
    """
    if not signed.has_versions or not signed.good:
        return high
    versions = to_numpy(signed.table.column(VERSION)).astype(np.int64)
    highs = np.maximum.accumulate(versions)
    if high is not None:
        highs = np.maximum(highs, high)
    if policy.late != "apply":
        # The difference of two int64, one not below the other, always fits a uint64.
        behind = highs.astype(np.uint64) - versions.astype(np.uint64)
        late = behind > policy.lateness
        if policy.late == "bad" and late.any():
            limits = (int(high) - policy.lateness for high in highs[late])
            rows = _said(signed.schema, signed.table.filter(pa.array(late)), policy.keying.key)
            for index, limit, row in zip(np.flatnonzero(late), limits, rows, strict=True):
                reason = f"late: its version is below {limit}"
                signed.bad.append(Bad(reason, signed.place(int(index)), row))
        signed.keep(~late)
    return int(highs[-1])


def _said(schema: Schema, table: pa.Table, key: Sequence[str]) -> list[dict[str, Any]]:
    """Signed rows by column, as users have them; of deletes by a key, what they say: the key."""
    deletes = pa.array((to_numpy(table.column(SIGN)) < 0) & bool(key))
    short = Schema(schema.relation, tuple(c for c in schema.columns if c.name in key))
    beside = [c.name for c in schema.columns if c.name not in key]
    gone = table.filter(deletes).drop_columns(beside)
    sides = [(schema, table.filter(pc.invert(deletes))), (short, gone)]
    whole, keys = (iter(to_logical(of, plain(of, rows)).to_pylist()) for of, rows in sides)
    return [next(keys if is_delete else whole) for is_delete in deletes.to_pylist()]


class RecheckError(Exception):
    """Some row to take away is not there: which one is worth looking for, row by row.

    Never leaves the pipeline: the epoch is rolled back and applied with `careful`.
    """


_ABSENT = "delete of a row that is not there"
_THERE = "insert of a row that is there"
REASONS = (_THERE, _ABSENT)
"""In the order in which rows are set aside."""


class Judged(NamedTuple):
    """What became of signed rows.

    Attributes:
        new: rows that are given now and were not before.
        old: rows that are not given any more.
        aside: what is bad, by reason: places in the table, each as often as it is set aside.
    """

    new: int
    old: int
    aside: Sequence[tuple[str, Ints]] = ()


def apply(
    tx: Rows, signed: Signed, policy: Policy, times: Times | None, *, careful: bool = True
) -> tuple[int, int]:
    """As `judge`; what is bad is moved to `signed.bad`. Returns (rows new, rows gone)."""
    judged = judge(tx, signed, policy, times, careful=careful)
    for reason, indices in judged.aside:
        signed.bad.extend(bad_rows(signed, reason, indices))
    return judged.new, judged.old


def bad_rows(signed: Signed, reason: str, indices: Ints) -> list[Bad]:
    """The rows at these places of a table as bad ones."""
    columns = signed.table.select(list(signed.schema.names)).take(pa.array(indices))
    rows = to_logical(signed.schema, plain(signed.schema, columns)).to_pylist()
    return [Bad(reason, signed.place(i), row) for i, row in zip(indices, rows, strict=True)]


def judge(
    tx: Rows, signed: Signed, policy: Policy, times: Times | None, *, careful: bool = True
) -> Judged:
    """Apply signed rows, one after another, to the given ones.

    `times` tells, for `duplicates = "count"`, how often rows are there. Without `careful`, missing
    rows are noticed by their count where that is possible, and raise RecheckError: looking at every
    row costs more than taking it away. O(n log n).
    """
    if not signed.table.num_rows:
        return Judged(0, 0)
    if policy.keying.key:
        return Judged(*replace(tx, signed, policy.keying))
    grouped = _Grouped(signed)
    if times is not None:
        return _count(tx, grouped, policy, times)
    rows = tx.coded(grouped.relation, grouped.rows)
    last = grouped.plus[grouped.ends]
    first = grouped.plus[grouped.starts]
    strict = policy.missing == "bad"
    ask = np.full(len(rows), policy.duplicates == "bad")
    out = ~first & ~last  # what `delete` counts, if nothing of it is put in on the way
    if strict:
        ask |= ~first & (last | careful)
    held = np.zeros(len(rows), dtype=np.bool_)
    if ask.any():
        held[ask] = tx.given(grouped.relation, rows.where(ask))
    counted = out & ~ask
    if policy.duplicates == "bad":
        grouped.set_aside(grouped.again(held, plus=True), _THERE)
    if strict:
        # Rows that are not asked for are taken to be there, and their count tells.
        grouped.set_aside(grouped.again(held | counted, plus=False), _ABSENT)
    new = tx.insert(grouped.relation, rows.where(last))
    old = tx.delete(grouped.relation, rows.where(counted))
    if strict and old < np.count_nonzero(counted):
        raise RecheckError
    old += tx.delete(grouped.relation, rows.where(~last & ~counted))
    return Judged(new, old, grouped.aside)


def _count(tx: Rows, grouped: _Grouped, policy: Policy, times: Times) -> Judged:
    """Rows as a bag: a row holds while it was put in more often than taken out."""
    held = tx.given(grouped.relation, grouped.rows)
    rows = rows_from_table(grouped.rows)
    before = np.array(
        [times.of(row) if is_held else 0 for row, is_held in zip(rows, held, strict=True)], np.int64
    )
    # As much as the sum was below zero on the way was not there to be taken out.
    sums = np.cumsum(grouped.signs)
    start = np.concatenate([[0], sums[grouped.ends[:-1]]])
    low = before - start + np.minimum.reduceat(sums, grouped.starts)
    after = before - start + sums[grouped.ends] + np.maximum(0, -low)
    if policy.missing == "bad" and (low < 0).any():
        level = np.repeat(before - start, grouped.ends - grouped.starts + 1) + sums
        grouped.set_aside(_below(level, grouped.starts), _ABSENT)
    edits = times.change(rows, before.tolist(), after.tolist())
    beside = grouped.relation + COUNTS
    tx.delete(beside, edits.old)
    tx.insert(beside, edits.new)
    new = tx.insert(
        grouped.relation, [rows[at] for at in np.flatnonzero((after > 0) & (before == 0))]
    )
    old = tx.delete(
        grouped.relation, [rows[at] for at in np.flatnonzero((after == 0) & (before > 0))]
    )
    return Judged(new, old, grouped.aside)


def _below(level: Ints, starts: Ints) -> Ints:
    """By how much each of the sums, group by group, is below zero and below all before it."""
    short = np.maximum(0, -level)
    for start, end in zip(starts, [*starts[1:], len(level)], strict=True):
        short[start:end] = np.maximum.accumulate(short[start:end])
    before = np.zeros_like(short)
    before[1:] = short[:-1]
    before[starts] = 0
    more: Ints = short - before
    return more


Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


class _Grouped:
    """Signed rows with what is said of each row brought together, in order.

    Attributes:
        relation: its name.
        rows: each distinct row once.
        signs: what is said, row by row, in the order of `rows`.
        plus: whether those put rows in.
        starts: where among them a row's begin.
        ends: the place of a row's last.
        aside: what is bad, as `Judged` has it.
    """

    def __init__(self, signed: Signed) -> None:
        names = list(signed.schema.names)
        table = signed.table
        self.relation = signed.schema.relation
        self._order, self.starts = group_columns([table.column(name) for name in names])
        self.ends = np.concatenate([self.starts[1:], [table.num_rows]]) - 1
        self.signs = to_numpy(table.column(SIGN)).astype(np.int64)[self._order]
        self.plus = self.signs > 0
        self.rows = table.select(names).take(pa.array(self._order[self.starts]))
        self.aside: list[tuple[str, Ints]] = []

    def again(self, held: Bools, *, plus: bool) -> Ints:
        """How often each of `signs` says what is so already; `held` tells it of distinct rows."""
        before = np.concatenate([[False], self.plus[:-1]])
        before[self.starts] = held
        times = np.abs(self.signs) - (self.plus != before)
        return np.where(self.plus == plus, times, 0)

    def set_aside(self, times: Ints, reason: str) -> None:
        """Add rows to the bad ones, each as often as it says."""
        odd = np.flatnonzero(times)
        if not len(odd):
            return
        again = np.repeat(self._order[odd], times[odd])
        again.sort()  # as they were said
        self.aside.append((reason, again))
