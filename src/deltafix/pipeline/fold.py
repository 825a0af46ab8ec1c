"""Net sums of signed rows, by sorting one integer a row.

Invariant: `net_sums` gives each distinct row once, in the order of first appearance, with the sum
of its signs; rows that have no code (`facts.groups`) are grouped by Arrow, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltafix.facts.arrow import to_numpy
from deltafix.facts.groups import code_rows, group_rows

__all__ = ["net_sums"]


def net_sums(table: pa.Table, names: Sequence[str], sign: str) -> pa.Table:
    """The columns `names` of each distinct row, and `sign` (int64) its sum; zeros left out.

    The columns hold no nulls. O(n log n).
    """
    coded = code_rows([table.column(name) for name in names])
    if coded is None:
        # Arrow's groups come in no order that it promises.
        placed = table.append_column("", pa.array(np.arange(table.num_rows)))
        sums = placed.group_by(list(names)).aggregate([(sign, "sum"), ("", "min")])
        sums = sums.filter(pc.not_equal(sums.column(f"{sign}_sum"), 0)).sort_by("_min")
        return sums.select([*names, f"{sign}_sum"]).rename_columns([*names, sign])
    signs = to_numpy(table.column(sign)).astype(np.int64)
    places, starts = group_rows(coded)
    totals = np.add.reduceat(signs[places], starts)
    firsts = np.minimum.reduceat(places, starts)
    kept = totals != 0
    firsts, totals = firsts[kept], totals[kept]
    again = np.argsort(firsts)
    rows = table.select(list(names)).take(pa.array(firsts[again]))
    return rows.append_column(sign, pa.array(totals[again]))
