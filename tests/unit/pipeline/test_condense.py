"""Rows said in fewer words are judged as the rows were, however they are cut before."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from tests.judges.oracle_inputs import Judged, Message, Options

from deltafix.pipeline.condense import PLACE, condense
from deltafix.pipeline.keyed import Keying
from deltafix.pipeline.policy import Policy
from deltafix.pipeline.signed import SIGN

Said = list[tuple[int, str, int]]  # place, row, sign


def table(said: Said) -> pa.Table:
    places, rows, signs = zip(*said, strict=True) if said else ((), (), ())
    return pa.table(
        {"x": pa.array(rows, pa.string()), SIGN: pa.array(signs, pa.int64()),
         PLACE: pa.array(places, pa.int64())}
    )  # fmt: skip


def read(found: pa.Table) -> Said:
    rows = found.to_pylist()
    return [(row[PLACE], row["x"], row[SIGN]) for row in rows]


def judged(said: Said, held: Counter, options: Options) -> tuple[Counter, Counter]:
    judge = Judged(times=Counter(held))
    for _, row, sign in said:
        for _ in range(abs(sign)):
            judge.take(Message(((1 if sign > 0 else -1, (row,)),)), options)
    return judge.times, judge.aside


@pytest.mark.parametrize("sequence", [0, 1, 2])
def test_oracle_a_key_keeps_the_words_that_may_count(sequence) -> None:
    rng = Random(f"keys {sequence}")
    names = [f"s{place}" for place in range(sequence)]
    policy = Policy(keying=Keying(("x",), tuple(names)))
    kinds = {"x": pa.string(), "n": pa.int64(), **dict.fromkeys((*names, SIGN, PLACE), pa.int64())}
    for _ in range(100):
        said = []
        for place in range(rng.randrange(20)):
            sign = rng.choice((1, 1, -1))
            row = {"x": rng.choice("abc"), "n": rng.randrange(3) if sign > 0 else 0}
            at = {name: rng.choice((-(1 << 63), 0, 1)) for name in names}
            said.append({**row, **at, SIGN: sign, PLACE: place})
        cuts = [0, *sorted(rng.randrange(len(said) + 1) for _ in range(2)), len(said)]
        tables = [pa.Table.from_pylist(said[a:b], pa.schema(kinds)) for a, b in pairwise(cuts)]
        rng.shuffle(tables)

        def net(table):
            return condense(table, ["x", "n"], "said", policy, keys=["x"], sequence=names)

        found = net(pa.concat_tables([net(one) for one in tables])).to_pylist()
        wanted = []
        for key in "abc":
            own = [one for one in said if one["x"] == key]
            rank = {one[PLACE]: [*(one[name] for name in names), one[SIGN]] for one in own}
            if not sequence:
                wanted += own[-1:]
                continue
            tops = [one for one in own if rank[one[PLACE]] == max(rank.values())]
            wanted += {one["n"]: one for one in reversed(tops)}.values()
        assert found == sorted(wanted, key=lambda one: one[PLACE])


@pytest.mark.parametrize("missing", ["bad", "ignore"])
@pytest.mark.parametrize("duplicates", ["ignore", "bad", "count"])
def test_oracle_fewer_words_are_judged_alike(missing, duplicates) -> None:
    rng = Random(f"condense {missing} {duplicates}")
    policy = Policy(missing=missing, duplicates=duplicates)
    options = Options(missing=missing, duplicates=duplicates)
    for _ in range(100):
        said = [(place, rng.choice("abc"), rng.choice((1, 1, -1, -1, 2, -3)))
                for place in range(rng.randrange(14))]  # fmt: skip
        held = Counter({(row,): rng.choice((1, 1, 3) if duplicates == "count" else (1,))
                        for row in "abc" if rng.random() < 0.5})  # fmt: skip
        cuts = [0, *sorted(rng.randrange(len(said) + 1) for _ in range(2)), len(said)]
        parts = [condense(table(said[a:b]), ["x"], "said", policy) for a, b in pairwise(cuts)]
        rng.shuffle(parts)
        whole = read(condense(pa.concat_tables(parts), ["x"], "said", policy))
        assert judged(whole, held, options) == judged(said, held, options)
        words = Counter(row for _, row, _ in whole)
        assert max(words.values(), default=0) <= 3
        if (missing, duplicates) == ("ignore", "ignore"):
            assert max(words.values(), default=0) <= 1
        assert len({place for place, _, _ in whole}) == len(whole)


def test_sums_and_whole_tables() -> None:
    said = [(3, "a", -1), (0, "a", 1), (1, "b", 2), (2, "c", -1), (4, "b", 1)]
    found = condense(table(said), ["x"], "sum", Policy())
    assert read(found) == [(1, "b", 3), (2, "c", -1)]
    found = condense(table(said), ["x"], "whole", Policy())
    assert read(found) == [(1, "b", 1), (2, "c", -1)]
    assert condense(table([]), ["x"], "said", Policy()).num_rows == 0
