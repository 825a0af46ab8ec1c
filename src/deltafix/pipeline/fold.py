"""Net sums of signed rows, by sorting one integer a row.

Invariant: `net_sums` gives each distinct row once, in the order of first appearance, with the sum
of its signs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from deltafix.facts.arrow import to_numpy
from deltafix.facts.groups import group_columns


def net_sums(table: pa.Table, names: Sequence[str], sign: str) -> pa.Table:
    """The columns `names` of each distinct row, and `sign` (int64) its sum; zeros left out.

    The columns hold no nulls. O(n log n).
    """
    if not table.num_rows:
        return table.select(list(names)).append_column(sign, pa.array([], pa.int64()))
    signs = to_numpy(table.column(sign)).astype(np.int64)
    places, starts = group_columns([table.column(name) for name in names])
    totals = np.add.reduceat(signs[places], starts)
    firsts = np.minimum.reduceat(places, starts)
    kept = totals != 0
    firsts, totals = firsts[kept], totals[kept]
    again = np.argsort(firsts)
    rows = table.select(list(names)).take(pa.array(firsts[again]))
    return rows.append_column(sign, pa.array(totals[again]))
