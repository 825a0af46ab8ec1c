"""A reduced stream gives the same batch by batch whether its batches are merged by columns or not.

No Spark session: batches are tables, as the driver gets them.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from deltafix.errors import MissingRowError
from deltafix.reactive import Count, Mean, Median, Min, Sum, merge
from deltafix.spark.reduce import StreamReduce


def _rows(batch):
    keys, values, signs = zip(*batch, strict=True) if batch else ((), (), ())
    return pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.int64()),
            "sign": pa.array(signs, pa.int8()),
        }
    )


def _rows_of(table):
    return sorted(map(repr, zip(*table.to_pydict().values(), strict=True)))


@pytest.mark.parametrize("bad_rows", ["fail", "quarantine"])
@pytest.mark.parametrize("reducer", [Sum(), Count(), Min(), Mean(), Median()], ids=str)
def test_merged_batches_are_those_of_rows(tmp_path, monkeypatch, reducer, bad_rows):
    rng = Random(f"{reducer} {bad_rows}")
    held: Counter = Counter()
    slow = StreamReduce(reducer, tmp_path / "slow", bad_rows=bad_rows)
    fast = StreamReduce(reducer, tmp_path / "fast", bad_rows=bad_rows)
    refused = batch = 0
    for _ in range(25):
        rows = [(rng.choice("abcd"), rng.randrange(4), 1) for _ in range(rng.randrange(1, 9))]
        there = list(held.elements())
        rng.shuffle(there)
        rows += [(*pair, -1) for pair in there[: rng.randrange(len(there) + 1)]]
        rows += [("z", 9, -1)] * (rng.random() < 0.2) + [("a", 1, -99)] * (rng.random() < 0.1)
        rng.shuffle(rows)
        results, errors = [], []
        for stream, few in ((slow, 1 << 40), (fast, 0)):
            monkeypatch.setattr(merge, "_FEW", few)
            try:
                results.append(stream.apply(batch, _rows(rows)))
            except MissingRowError as error:
                errors.append(str(error))
        assert slow.results() == fast.results()
        if errors:
            assert bad_rows == "fail"
            assert len(set(errors)) == 1
            assert len(errors) == 2
            refused += 1
            continue
        one, other = results
        assert _rows_of(other.delta) == _rows_of(one.delta)
        assert _rows_of(other.quarantine) == _rows_of(one.quarantine)
        refused += one.quarantine.num_rows
        sums: Counter = Counter()
        for key, value, sign in rows:
            sums[key, value] += sign
        for pair, count in sums.items():
            if held[pair] + count >= 0:  # otherwise set aside: what was there stays
                held[pair] += count
        by_key: dict = {}
        for (key, value), count in held.items():
            if count:
                by_key.setdefault(key, {})[value] = count
        folded = {key: reducer.finish(reducer.fold(counts)) for key, counts in by_key.items()}
        assert fast.results() == folded
        batch += 1
    assert refused > 0
    assert batch > 10
    again = StreamReduce(reducer, tmp_path / "fast", bad_rows=bad_rows)
    assert again.results() == fast.results()
    assert again.last_batch == batch - 1
