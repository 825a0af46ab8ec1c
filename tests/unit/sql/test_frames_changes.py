"""What a change does to the values of a window: what walks of all differ by, and no more work."""

from __future__ import annotations

import random
from collections import Counter
from math import inf, nan
from typing import Any

import pytest
from tests.support.amount import cases

from deltafix.reducers.extremes import Max, Min
from deltafix.reducers.numeric import Sum
from deltafix.reducers.ordered import Ordered
from deltafix.reducers.ways import Way
from deltafix.sql import frames, partitions
from deltafix.sql.frames import Frame
from deltafix.sql.offsets import measure
from deltafix.sql.partitions import Function, Windowed
from deltafix.sql.reducers import First, Mode
from deltafix.sql.types import BIGINT

WAYS = (
    Way(nullable=True),
    Way(nullable=True, descending=True),
    Way(nullable=True, nulls_first=True),
)
NUMBER = Way(nullable=False, is_plain=True)
SEEDS = cases(4, per=20)
ENDS = (None, -70, -3, -1, 0, 1, 2, 40)


def _frames(draw: random.Random, way: Way) -> Frame:
    """A frame whose start is not after its end."""
    kind: Any = draw.choice(("ROWS", "GROUPS", "RANGE"))
    start, end = sorted((draw.choice(ENDS[1:]), draw.choice(ENDS[1:])))
    low: int | None = draw.choice((None, start, start))
    high: int | None = draw.choice((None, end, end))
    key = frames.Key(*measure(BIGINT), way) if kind == "RANGE" else None
    exclude = draw.choice(("", "", "CURRENT ROW", "GROUP", "TIES"))
    return Frame(kind, low, high, key, exclude)


def _function(draw: random.Random, way: Way) -> tuple[Function, int]:
    """A function, and how many arguments it takes."""
    kind = draw.choice(
        ("rank", "rank", "shift", "nth", "sum", "sum", "extreme", "extreme", "united")
    )
    if kind == "rank":
        name = draw.choice(
            ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
        )
        return frames.ranking(name, draw.choice((1, 3, 50)), draw.choice((None, 1, 5, 90))), 0
    ignores = draw.random() < 0.3
    if kind == "shift":
        return frames.shifted(draw.choice((-70, -2, -1, 0, 1, 3)), ignores=ignores), 2
    frame = _frames(draw, way)
    if kind == "nth":
        return frames.nth(frame, draw.choice((-1, 1, 2, 65)), ignores=ignores), 1
    distinct = draw.random() < 0.3
    if kind == "extreme":
        last = draw.random() < 0.5
        return frames.extreme(frame, Max() if last else Min(), last=last), 1
    if kind == "sum":
        return frames.aggregated(frame, Sum(), draw.choice((0, 1)), distinct=distinct), 1
    return frames.united(frame, str, None, distinct=distinct), 1


def _row(draw: random.Random, number: int, width: int, spread: int) -> tuple[Any, ...]:
    values = [None if draw.random() < 0.2 else (draw.randrange(-3, 4),) for _ in range(width)]
    key = None if draw.random() < 0.1 else (draw.randrange(spread),)
    return (key, *values, number)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_law_the_changes_of_a_window_are_those_that_two_walks_differ_by(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(partitions, "SMALL", (64, 1)[seed % 2])
    for _ in range(6):
        way = draw.choice(WAYS)
        function, width = _function(draw, way)
        reducer = Windowed([way], [draw.choice((NUMBER, Way(nullable=False)))], width, function)
        spread = draw.choice((3, 40, 10_000))
        count = draw.choice((40, 200, 700))
        rows = [_row(draw, number, width, spread) for number in range(count)]
        acc = reducer.gather(reducer.initial, rows, 1)
        for number in range(12):
            gone = draw.sample(rows, draw.choice((0, 1, 1, 2, 5)))
            new = [
                _row(draw, count + 9 * number + n, width, spread)
                for n in range(draw.choice((0, 1, 1, 2, 5)))
            ]
            if draw.random() < 0.2 and gone:  # an update in place
                new.append((*gone[0][:1], *_row(draw, 0, width, 9)[1:-1], gone[0][-1]))
            if not (gone or new):
                continue
            if draw.random() < 0.5:
                after = reducer.gather(reducer.gather(acc, new, 1), gone, -1)
            else:
                after = acc
                for row in new:
                    after = reducer.add(after, row)
                for row in gone:
                    after = reducer.remove(after, row)
            went, came = map(set, reducer.changes(acc, after, new + gone))
            was, now = set(reducer.finish(acc)), set(reducer.finish(after))
            assert (went - came, came - went) == (was - now, now - was), (function, new, gone)
            rows = [row for row in rows if row not in gone] + new
            acc = after
            whole = reducer.gather(reducer.initial, rows, 1)
            assert ([*acc.kept], [*acc.groups]) == ([*whole.kept], [*whole.groups])


@pytest.mark.parametrize("seed", range(8))
def test_the_changes_of_the_first_rows_are_those_that_two_lists_differ_by(seed: int) -> None:
    draw = random.Random(seed)
    values = [*range(40), 0.5, -inf, inf, nan]
    for _ in range(20):
        offset, limit = draw.choice((0, 0, 1, 7)), draw.choice((None, 0, 1, 3, 10, 60))
        way = Way(nullable=False, descending=draw.random() < 0.5)
        reducer = First([way, Way(nullable=False)], offset, limit)
        rows = [(draw.choice(values), n) for n in range(draw.choice((0, 3, 30, 200)))]
        acc = reducer.gather(reducer.initial, rows, 1)
        for number in range(12):
            gone = draw.sample(rows, min(len(rows), draw.randrange(3)))
            new = [(draw.choice(values), 200 + 3 * number + n) for n in range(draw.randrange(3))]
            after = reducer.gather(reducer.gather(acc, new, 1), gone, -1)
            went, came = (set(map(repr, one)) for one in reducer.changes(acc, after, new + gone))
            was, now = (set(map(repr, reducer.finish(one))) for one in (acc, after))
            assert (went - came, came - went) == (was - now, now - was)
            rows = [row for row in rows if row not in gone] + new
            acc = after


SUM = frames.aggregated(Frame("ROWS", -6, 0), Sum(), 1)
RUNNING = frames.aggregated(Frame("RANGE", None, 0), Sum(), 1)
WEEK = frames.aggregated(
    Frame("RANGE", -6, 0, frames.Key(*measure(BIGINT), Way(nullable=False))), Sum(), 1
)


@pytest.mark.parametrize("at", [19_998, 30_000])
@pytest.mark.parametrize(
    ("function", "width", "most"),
    [
        (frames.shifted(-1), 2, 3),
        (frames.shifted(2), 2, 5),
        (SUM, 1, 10),
        (WEEK, 1, 10),
        (RUNNING, 1, 3),
        (frames.ranking("row_number"), 0, 2),
        (frames.ranking("rank"), 0, 2),
        (frames.ranking("dense_rank"), 0, 2),
        (frames.ranking("dense_rank", most=100), 0, 0),
        (frames.nth(Frame("RANGE", None, 0), 1), 1, 2),
        (frames.nth(Frame("ROWS", -3, 3), -1), 1, 9),
        (frames.nth(Frame("RANGE", None, 0), -1, ignores=True), 1, 2),
    ],
)
def test_a_change_near_the_end_of_a_large_partition_looks_at_few_rows(
    function: Function, width: int, most: int, at: int
) -> None:
    reducer = Windowed([NUMBER], [NUMBER], width, function)
    rows = [(n, *((n % 7,) for _ in range(width)), n) for n in range(20_000)]
    acc = reducer.gather(reducer.initial, rows, 1)
    new = (at, *((3,) for _ in range(width)), 20_000)
    after = reducer.add(acc, new)
    looked: list[int] = []
    between = Ordered.between

    def counted(kept: Any, low: int, high: int) -> Any:
        looked.append(high - low)
        return between(kept, low, high)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ordered, "between", counted)
        went, came = reducer.changes(acc, after, [new])
    assert bool(most) <= len(set(came) - set(went)) <= most
    assert sum(looked) < 400


LAST = frames.extreme(Frame("RANGE", None, 0), Max(), last=True)
FIRST = frames.extreme(Frame("ROWS", None, 2), Min(), last=False)
AHEAD = frames.extreme(Frame("ROWS", 1, None), Max(), last=True)


@pytest.mark.parametrize("count", [2_000, 20_000])
@pytest.mark.parametrize(
    ("function", "gone", "new", "most"),
    [
        (LAST, (1_000, (6,), 1_000), (1_000, (0,), 1_000), 0),
        (LAST, (1_000, (6,), 1_000), (1_000, (9,), 1_000), 0),  # another was as high before
        (LAST, (3, (9,), 3), (3, (0,), 3), 3),  # up to the first that is higher again
        (FIRST, (1_000, (6,), 1_000), (1_000, (0,), 1_000), 0),
        (AHEAD, (1_000, (6,), 1_000), (1_000, (0,), 1_000), 0),
        (frames.ranking("row_number"), (1_000, 1_000), (1_004.5, 1_000), 5),
        (frames.ranking("rank"), (1_000, 1_000), (995, 1_000), 6),
        (frames.ranking("dense_rank"), (1_000, 1_000), (1_004.5, 1_000), 5),
        (frames.ranking("ntile", 4), (1, 1), (10**6, 1), 4),
    ],
)
def test_a_change_looks_at_the_rows_that_have_a_new_value_and_few_more(
    function: Function, gone: tuple[Any, ...], new: tuple[Any, ...], most: int, count: int
) -> None:
    width = len(gone) - 2
    reducer = Windowed([NUMBER], [NUMBER], width, function)
    rows = [(n, *((10 if n == 5 else n % 7,) for _ in range(width)), n) for n in range(count)]
    rows[gone[-1]] = gone
    acc = reducer.gather(reducer.initial, rows, 1)
    after = reducer.add(reducer.remove(acc, gone), new)
    looked: list[int] = []
    between = Ordered.between

    def counted(kept: Any, low: int, high: int) -> Any:
        looked.append(high - low)
        return between(kept, low, high)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ordered, "between", counted)
        went, came = reducer.changes(acc, after, [gone, new])
    assert len(set(came) - set(went)) <= most
    assert bool(most) == bool(set(came) ^ set(went))
    assert sum(looked) < 400
    assert set(reducer.finish(after)) - set(reducer.finish(acc)) == set(came) - set(went)


@pytest.mark.parametrize("seed", range(12))
def test_an_extreme_of_a_frame_is_what_its_rows_add_up_to(seed: int) -> None:
    draw, last = random.Random(seed), seed % 2 == 0
    way = draw.choice(WAYS)
    frame = _frames(draw, way)
    extreme = Max() if last else Min()
    functions = (
        frames.extreme(frame, extreme, last=last), frames.aggregated(frame, extreme, 1)
    )  # fmt: skip
    rows = [_row(draw, number, 1, 30) for number in range(90)]
    rows[3] = (*rows[3][:1], (nan,), rows[3][-1])
    shown = [Windowed([way], [NUMBER], 1, one) for one in functions]
    found, wanted = (map(repr, one.finish(one.gather(one.initial, rows, 1))) for one in shown)
    assert [*found] == [*wanted]


def test_the_first_rows_change_by_few_however_many_they_are() -> None:
    reducer = First([Way(nullable=False)] * 2, 10, 10_000)
    acc = reducer.gather(reducer.initial, [(n, n) for n in range(20_000)], 1)
    after = reducer.add(acc, (50, -1))
    assert reducer.changes(acc, after, [(50, -1)]) == ([(10_009, 10_009)], [(50, -1)])
    assert reducer.changes(after, acc, [(50, -1)]) == ([(50, -1)], [(10_009, 10_009)])


@pytest.mark.parametrize("seed", range(4))
def test_the_most_frequent_value_follows_each_change(seed: int) -> None:
    draw, mode = random.Random(seed), Mode()
    held = [draw.choice((*range(9), 0.5, nan)) for _ in range(300)]
    acc = mode.gather(mode.initial, held, 1)
    for _ in range(60):
        come = [draw.choice((*range(9), nan)) for _ in range(draw.choice((1, 2, 9)))]
        gone = draw.sample(held, draw.choice((1, 2, 9)))
        acc = mode.gather(mode.gather(acc, come, 1), gone, -1)
        held += come
        for one in gone:
            held.remove(one)
        counts = Counter(held)
        most = [one for one, count in counts.items() if count == max(counts.values())]
        least = min(most, key=lambda one: (one != one, one))  # noqa: PLR0124  NaN is above all
        assert repr(mode.finish(acc)) == repr(least)
        assert repr(mode.finish(mode.gather(mode.initial, held, 1))) == repr(least)
