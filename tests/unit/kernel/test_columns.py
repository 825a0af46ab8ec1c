"""Sets and indexes of rows of 64-bit numbers, against Python's own, whatever the hashes are.

Sees: rows that share a hash taken for one, rows lost when a set grows, matches lost where a block
ends. Runs also as plain Python and with bounds checked (.ci/run).
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from deltafix.kernel.entries import add_rows, group_rows, hash_rows, meet_rows, place_rows

WEAK = (1 << 31, 3, 1)
"""How many different hashes there are at most."""


def words(rows: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1).view(np.int32)


def hashes_of(rows: list[tuple[int, ...]], weak: int) -> np.ndarray:
    out = np.empty(len(rows), np.int64)
    hash_rows(words(rows), out, len(rows), 2 * len(rows[0]))
    return out % weak


def random_rows(rng: Random, count: int, arity: int) -> list[tuple[int, ...]]:
    # Numbers that differ in their upper words only, too.
    numbers = [-1, 0, 1, 2, 1 << 32, (1 << 32) + 1, -(1 << 63), (1 << 63) - 1]
    return [tuple(rng.choice(numbers) for _ in range(arity)) for _ in range(count)]


@pytest.mark.parametrize("weak", WEAK)
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_a_set_takes_each_row_once_and_keeps_it_when_it_grows(weak: int, arity: int) -> None:
    rng = Random(f"set {weak} {arity}")
    held, used, known = np.zeros(400 * 2 * arity, np.int32), 0, list[tuple[int, ...]]()
    slots = np.zeros(801, np.int64)
    for size in (1, 30, 2, 100, 17):
        rows = random_rows(rng, size, arity)
        out = np.empty(size, np.int64)
        given = hashes_of(rows, weak)
        new = add_rows(held, slots, words(rows), given, out, size, 2 * arity, used)
        fresh = [row for row in dict.fromkeys(rows) if row not in known]
        assert [rows[place] for place in out[:new]] == fresh
        known += fresh
        used += new
        slots = np.zeros(rng.choice([801, 1203]), np.int64)
        place_rows(slots, hashes_of(known, weak), used)
    stored = held.view(np.int64)[: used * arity].reshape(used, arity)
    assert [tuple(row) for row in stored.tolist()] == known
    assert np.count_nonzero(slots) == len(known)


@pytest.mark.parametrize("weak", WEAK)
@pytest.mark.parametrize("room", [150, 500])
def test_probes_meet_the_rows_of_their_key_in_blocks_of_any_size(weak: int, room: int) -> None:
    rng = Random(f"index {weak} {room}")
    keys, probes = random_rows(rng, 120, 2), random_rows(rng, 120, 2)
    order, starts = np.empty(len(keys), np.int64), np.zeros(32, np.int64)
    group_rows(hashes_of(keys, weak), starts, order, len(keys))
    assert sorted(order.tolist()) == [*range(len(keys))]
    assert (starts[0], starts[-1]) == (0, len(keys))
    inside = words([keys[place] for place in order])
    which, place, told = (np.empty(n, np.int64) for n in (room, room, 1))
    begin, met, blocks = 0, Counter[tuple[int, int]](), 0
    while begin < len(probes):
        asked = hashes_of(probes, weak)
        end = meet_rows(
            inside, starts, words(probes), asked, which, place, told, begin, len(probes), 4
        )
        assert end > begin
        begin = end
        blocks += 1
        for probe, found in zip(which[: told[0]], order[place[: told[0]]], strict=True):
            met[int(probe), int(found)] += 1
    wanted = [(p, k) for p, one in enumerate(probes) for k, key in enumerate(keys) if one == key]
    assert met == Counter(wanted)
    assert blocks > 1 or room == 500


def test_a_probe_whose_bucket_does_not_fit_is_left() -> None:
    keys = [(7,)] * 5
    starts, order = np.zeros(2, np.int64), np.empty(5, np.int64)
    group_rows(hashes_of(keys, WEAK[0]), starts, order, 5)
    which, place, told = (np.empty(n, np.int64) for n in (4, 4, 1))
    asked = hashes_of([(7,)], WEAK[0])
    left = meet_rows(words(keys), starts, words([(7,)]), asked, which, place, told, 0, 1, 2)
    assert (left, told[0]) == (0, 0)
