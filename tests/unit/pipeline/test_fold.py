"""Net sums by sorting agree with counting, for every kind of column, and with Arrow's grouping."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from deltafix.facts import groups
from deltafix.pipeline.signed import net_sums

DRAW = {
    "small": lambda rng: rng.randrange(-3, 4),
    "wide": lambda rng: rng.choice([-(2**63), 2**63 - 1, 0, 7]),
    "text": lambda rng: rng.choice(["", "a", "ä", "aa"]),
    "float": lambda rng: rng.choice([0.5, -1.0, 1e300]),
    "bool": lambda rng: rng.random() < 0.5,
}


@pytest.mark.parametrize("kinds", [["small"], ["text", "small"], ["wide", "text"], [*DRAW]])
def test_agree_with_counting_in_order_of_first_appearance(kinds, monkeypatch) -> None:
    rng = Random(f"fold {kinds}")
    for size in (0, 1, 5, 200):
        rows = [tuple(DRAW[kind](rng) for kind in kinds) for _ in range(size)]
        signs = [rng.choice([-2, -1, 1, 1, 3]) for _ in rows]
        sums: Counter = Counter()
        for row, sign in zip(rows, signs, strict=True):
            sums[row] += sign
        wanted = [(*row, count) for row, count in sums.items() if count]
        columns = dict(zip(kinds, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
        table = pa.table({**{kind: columns.get(kind, []) for kind in kinds}, "+": signs})
        if rows:
            assert (
                list(zip(*net_sums(table, kinds, "+").to_pydict().values(), strict=True)) == wanted
            )
            with monkeypatch.context() as patch:
                patch.setattr(groups, "_ROOM", 0)
                grouped = net_sums(table, kinds, "+").to_pydict()
            assert list(zip(*grouped.values(), strict=True)) == wanted
        else:
            assert net_sums(table, kinds, "+").num_rows == 0
