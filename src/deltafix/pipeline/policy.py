"""What to do with rows that are late, twice there, or not there: the named options.

    late        apply | ignore | bad    a version below the highest one committed, less `lateness`
    duplicates  ignore | count | bad    a row put in that is there
    missing     ignore | bad            a row taken out that is not there

`bad` rows fail the epoch or go to the quarantine (`bad_rows`). Invariant: duplicates and missing
rows are judged on the net change of an epoch, so a row taken out and put in again is neither.
`count` keeps how often a row was put in beside it, in a relation of its own (`COUNTS`). The highest
version is kept per relation, which is per input: a pipeline refuses a second input of a relation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.engine.transaction import Transaction
from deltafix.facts.arrow import rows_from_table, to_numpy
from deltafix.facts.schema import Row
from deltafix.pipeline.signed import CAME, SIGN, VERSION, Bad, Signed, net, plain

__all__ = ["COUNTS", "Policy", "RecheckError", "apply", "late_rows"]

COUNTS = "__times"
"""Appended to a relation's name: its rows that were put in more than once, and how often."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The options of one input; `quarantine` says where bad rows go."""

    late: str = "apply"
    duplicates: str = "ignore"
    missing: str = "bad"
    lateness: int = 0
    quarantine: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any], default: str) -> Policy:
        """From the values of a section; `default` is the pipeline's `bad_rows`."""
        chosen = {name: values[name] for name in ("late", "duplicates", "missing", "lateness")
                  if name in values}  # fmt: skip
        return cls(**chosen, quarantine=(values.get("bad_rows") or default) == "quarantine")


def late_rows(policy: Policy, signed: Signed, high: int | None) -> int | None:
    """Take late rows out of `signed`, as the policy says; returns the highest version by now."""
    if VERSION not in signed.table.column_names:
        return high
    versions = signed.table.column(VERSION)
    top = pc.max(versions).as_py()
    if high is not None and policy.late != "apply":
        late = pc.less(versions, high - policy.lateness)
        if policy.late == "bad" and pc.any(late).as_py():
            reason = f"late: its version is below {high - policy.lateness}"
            for row in signed.table.filter(late).to_pylist():
                signed.bad.append(Bad(reason, signed.schema.relation, row))
        signed.table = signed.table.filter(pc.invert(late))
    return high if top is None or (high is not None and top < high) else top


class RecheckError(Exception):
    """Some row to take away is not there: which one is worth looking for, row by row.

    Never leaves the pipeline: the epoch is rolled back and applied with `careful`.
    """


def apply(
    tx: Transaction,
    signed: Signed,
    policy: Policy,
    times: dict[Row, int] | None,
    *,
    careful: bool = True,
) -> tuple[int, int]:
    """Apply signed rows to the open transaction; returns (rows given, rows taken away).

    What the policy calls bad is moved to `signed.bad` and not applied. `times` holds, for
    `duplicates = "count"`, how often rows were put in that were put in more than once; it is
    brought up to date. Without `careful`, missing rows are noticed by their count and raise
    RecheckError: looking at every row costs more than taking it away.
    """
    schema = signed.schema
    if times is not None:
        return _counted(tx, signed, policy, times)
    counted = policy.duplicates == "bad" or not signed.ordered
    changes = net(schema, signed.table, counted=counted)
    if policy.duplicates == "bad":
        changes = _strict(tx, signed, changes, policy)
    rows = tx.coded(schema.relation, changes.select(list(schema.names)))
    given = to_numpy(changes.column(SIGN)) > 0
    # A row that came and went within the epoch was there to be taken out.
    came = np.zeros(len(rows), dtype=np.bool_)
    if not counted:
        came = ~given & (to_numpy(changes.column(CAME).cast(pa.int8())) > 0)
    gone = ~given & ~came
    strict = policy.duplicates != "bad" and policy.missing == "bad"
    if strict and careful:
        absent = np.zeros(len(rows), dtype=np.bool_)
        absent[gone] = ~tx.given(schema.relation, rows.where(gone))
        _set_aside(signed, changes, absent, _ABSENT)
    new = tx.insert(schema.relation, rows.where(given))
    old = tx.delete(schema.relation, rows.where(gone))
    if strict and not careful and old < np.count_nonzero(gone):
        raise RecheckError
    return new, old + tx.delete(schema.relation, rows.where(came))


_ABSENT = "delete of a row that is not there"
_THERE = "insert of a row that is there"


def _strict(tx: Transaction, signed: Signed, changes: pa.Table, policy: Policy) -> pa.Table:
    """The net changes that leave every row there once or not at all."""
    rows = changes.select(list(signed.schema.names))
    held = tx.given(signed.schema.relation, rows).astype(np.int64)
    after = held + to_numpy(changes.column(SIGN))
    _set_aside(signed, changes, after > 1, _THERE)
    keep = (after <= 1) | (held == 0)
    if policy.missing == "bad":
        _set_aside(signed, changes, after < 0, _ABSENT)
        keep &= after >= 0
    return changes.filter(pa.array(keep))


def _set_aside(
    signed: Signed, changes: pa.Table, odd: np.ndarray[Any, np.dtype[np.bool_]], reason: str
) -> None:
    """Add the rows under the mask to the bad ones, a row told twice once."""
    if odd.any():
        names = list(signed.schema.names)
        rows = plain(signed.schema, changes.select(names).filter(pa.array(odd)))
        once = rows.group_by(names, use_threads=False).aggregate([])
        signed.bad.extend(Bad(reason, signed.schema.relation, row) for row in once.to_pylist())


def _counted(
    tx: Transaction, signed: Signed, policy: Policy, times: dict[Row, int]
) -> tuple[int, int]:
    """Rows as a bag: a row holds while it was put in more often than taken out."""
    schema = signed.schema
    changes = net(schema, signed.table, counted=True)
    rows = changes.select(list(schema.names))
    counts = to_numpy(changes.column(SIGN)).tolist()
    held = tx.given(schema.relation, rows).tolist()
    beside = schema.relation + COUNTS
    given, gone, old, new = [], [], [], []
    for row, count, there in zip(rows_from_table(rows), counts, held, strict=True):
        before = times.get(row, 1) if there else 0
        after = before + count
        if after < 0:
            if policy.missing == "bad":
                named = dict(zip(schema.names, row, strict=True))
                signed.bad.append(Bad(_ABSENT, schema.relation, named))
                continue
            after = 0
        if before > 1:
            old.append((*row, before))
            del times[row]
        if after > 1:
            new.append((*row, after))
            times[row] = after
        if after and not before:
            given.append(row)
        elif before and not after:
            gone.append(row)
    tx.delete(beside, old)
    tx.insert(beside, new)
    return tx.insert(schema.relation, given), tx.delete(schema.relation, gone)
