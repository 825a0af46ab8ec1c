"""What a look says, in the fewest words that are judged alike: done wherever the rows are.

    said    rows one after another: of each row its first word, its last, and how often it was said
            again while it was there or was not, as far as the policy tells these apart
    sum     rows in no order: signs of a row are summed
    said, with a key: of each key the words that may count (`keyed.highest`)
    whole   all rows of a relation (+1) beside those that are given (-1): what is both is no change

Invariant: `policy.apply` of a condensed table does, and sets aside, what it does of the table; a
table condensed in parts and then as a whole is the same as condensed at once. `PLACE` is where a
row stands among all, so that parts come in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from deltafix.facts.arrow import to_numpy
from deltafix.facts.groups import group_columns
from deltafix.pipeline.keyed import highest
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.signed import SIGN

How = Literal["said", "sum", "whole"]

PLACE: Final = "+/- place"
"""The column of places (int64), each once."""

_Ints = np.ndarray[Any, np.dtype[np.int64]]


def condense(
    table: pa.Table,
    names: list[str],
    how: How,
    policy: Policy,
    *,
    keys: Sequence[str] = (),
    sequence: Sequence[str] = (),
) -> pa.Table:
    """The rows of a table with `SIGN` and `PLACE`, in fewer; by place. O(n log n).

    `keys` and `sequence` are the columns of the policy's, where it has a key.
    """
    if not table.num_rows:
        return table
    table = by_place(table)
    if keys:
        return highest(table, names, keys, sequence)
    groups, starts = group_columns([table.column(name) for name in names])
    signs = to_numpy(table.column(SIGN)).astype(np.int64)[groups]
    words = {"sum": _sums, "whole": _whole}.get(how, _counted if _counts(policy) else _said)
    # Up to three words of each row; none is said where there is nothing to say.
    said = words(signs, starts, policy)
    weights = np.zeros(table.num_rows, np.int64)
    for number, word in enumerate(said):
        at = np.flatnonzero(word)
        weights[groups[starts[at] + number]] = word[at]
    kept = np.flatnonzero(weights)
    rows = table.take(pa.array(kept)) if len(kept) < table.num_rows else table
    where = rows.column_names.index(SIGN)
    sign = rows.schema.field(where).with_type(pa.int64())
    return rows.set_column(where, sign, pa.array(weights[kept]))


def by_place(table: pa.Table) -> pa.Table:
    """The rows in the order of their places. O(n) where they are in a few runs of it."""
    positions = to_numpy(table.column(PLACE))
    if (positions[1:] >= positions[:-1]).all():
        return table
    return table.take(pa.array(np.argsort(positions, kind="stable")))


def _counts(policy: Policy) -> bool:
    return policy.duplicates == "count"


def _sums(signs: _Ints, starts: _Ints, policy: Policy) -> list[_Ints]:
    del policy
    return [np.add.reduceat(signs, starts)]


def _whole(signs: _Ints, starts: _Ints, policy: Policy) -> list[_Ints]:
    del policy
    low, high = np.minimum.reduceat(signs, starts), np.maximum.reduceat(signs, starts)
    return [(np.sign(low) + np.sign(high)) // 2]


def _counted(signs: _Ints, starts: _Ints, policy: Policy) -> list[_Ints]:
    """How far the sum went below zero, and what it was in the end."""
    del policy
    totals = np.add.reduceat(signs, starts)
    sums = np.cumsum(signs)
    before = np.concatenate([[0], sums])[starts]
    low = np.minimum(0, np.minimum.reduceat(sums, starts) - before)
    first = np.where(low < 0, low, totals)
    return [first, np.where(low < 0, totals - low, 0)]


def _said(signs: _Ints, starts: _Ints, policy: Policy) -> list[_Ints]:
    """The first word and the last, and between them how often a word was said again."""
    ends = np.append(starts[1:], len(signs)) - 1
    plus = signs > 0
    first, last = plus[starts], plus[ends]
    if policy.duplicates != "bad" and policy.missing != "bad":
        return [np.where(last, 1, -1)]
    changed = np.concatenate([[True], plus[1:] != plus[:-1]])
    changed[starts] = True
    again = np.abs(signs) - changed
    ups = np.add.reduceat(np.where(plus, again, 0), starts)
    downs = np.add.reduceat(np.where(plus, 0, again), starts)
    ups = ups if policy.duplicates == "bad" else np.zeros_like(ups)
    downs = downs if policy.missing == "bad" else np.zeros_like(downs)
    same, opposite = np.where(first, ups, downs), np.where(first, downs, ups)
    way = np.where(first, 1, -1)
    # Where it ends as it began, what was said again of the other word stands in between.
    between = (first != last) | (opposite > 0)
    return [
        way * (1 + same),
        np.where(between, -way * (1 + opposite), 0),
        np.where(between & (first == last), way, 0),
    ]
