"""The rows of a window's partition, sorted, and what a change of some does to the values of others.

Nouns: a `Windowed` reducer keeps the rows of a partition sorted; a `Function` gives values for some
of them (`sql.frames` has them all); a `Partition` is what it is given. Invariant: the values follow
from the rows alone; rows that ORDER BY leaves equal are peers, and are sorted by what tells them
apart.

A load walks each partition once. A change costs the rows whose values it may change and the rows
that these see, where the function says which they are (`Function.reach`): one of 50,000 rows that
show LAG or the mean of seven takes 0.4 ms, a walk 200. Otherwise, and in small partitions, all are
walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, groupby, zip_longest
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from deltafix.reducers.aggregate import (
    Changes,
    Columnar,
    Gathers,
    Loaded,
    Several,
    SortedRows,
    UserReducer,
    read_from,
)
from deltafix.reducers.ordered import Ordered, Placed, placed
from deltafix.reducers.ways import Way, ranked
from deltafix.sql.reducers import SMALL
from deltafix.sql.sweeps import Sweep, Swept

__all__ = ["TOP", "Bounds", "Function", "Partition", "Windowed"]

_NEAR: Final = 8
"""How many rows on either side are looked at first."""


class _Top:
    """What is above all that can stand in its place."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True


TOP: Final = _Top()


@dataclass(frozen=True)
class Partition:
    """Rows of a partition that stand together in its order: all, or those around a change.

    `rows` are they as they are kept, of a `whole` that begins with `before` others; places are
    counted from the first of `rows`. `asked` are the places whose values are wanted, `total` is
    what all rows of the whole add up to (`Function.total`), `groups` has each of its groups of
    peers once (`Function.by_group`), and `split` is where arguments begin and have ended in a row.
    """

    rows: Sequence[Any]
    whole: Ordered[Any]
    before: int
    asked: range
    total: Any
    groups: Ordered[Any]
    split: tuple[int, int]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def args(self) -> list[Any]:
        """What the function is given of each row."""
        return [*self._args(self.rows)]

    @cached_property
    def keys(self) -> list[Any]:
        """What each row is sorted by."""
        end = self.split[0]
        return [row[:end] for _, _, row in self.rows]

    @cached_property
    def peers(self) -> list[tuple[int, int]]:
        """For each row where its peers begin and where they have ended."""
        spans: list[tuple[int, int]] = []
        for _, peers in groupby(self.rows, key=itemgetter(0)):
            start, size = len(spans), sum(1 for _ in peers)
            spans += [(start, start + size)] * size
        return spans

    @property
    def groups_before(self) -> int:
        """How many groups of peers come before these rows, which begin with a whole one."""
        return self.groups.place(self.rows[0][:1]) if self.rows else 0

    @property
    def beyond(self) -> int:
        """How many rows of the whole are not among these."""
        return len(self.whole) - len(self.rows)

    def others(self) -> Iterator[Any]:
        """The arguments of those."""
        after = self.before + len(self.rows)
        before = self.whole.between(0, self.before)
        return self._args(chain(before, self.whole.between(after, len(self.whole))))

    def at(self, index: int) -> Any:
        """The arguments of a row of the whole."""
        if 0 <= index < len(self.rows):
            return self.args[index]
        return next(self._args([self.whole[self.before + index]]))

    def _args(self, rows: Iterable[Any]) -> Iterator[Any]:
        start, end = self.split
        return (row[start:end] for _, _, row in rows)


Bounds: TypeAlias = Iterable[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Function:
    """What a window function computes.

    Attributes:
        values: the value of each row that is asked for, as the engine has it.
        reach: for each row, where the rows that decide its value begin and have ended; both only
            ascend. None: all rows decide.
        opens: whether all rows before, or all rows after, decide, too: as the numbers and totals
            that a `Partition` has of them.
        ends: how many of the first rows, and of the last, decide the values of all.
        by_peers: whether it matters which rows are peers.
        by_group: whether of all rows before only the number of their groups of peers decides.
        settles: whether, seen from a change, all values behind a row are as they were where that of
            the row is. Then a change costs the rows up to there, not all that `opens` speaks of.
        steps: where values rise, of so many rows, if that alone decides.
        total: what rows are added up by, where rows beyond those at hand decide.
        most: how many of the first rows have a value that is asked for; with `by_peers` their peers
            have, too.
        sweep: the values of all rows of many partitions, by column.
        swept_totals: what the rows of one of these, by number, add up to.
    """

    values: Callable[[Partition], Iterable[Any]]
    reach: Callable[[Partition], Bounds] | None = None
    opens: tuple[bool, bool] = (False, False)
    ends: tuple[int, int] = (0, 0)
    by_peers: bool = True
    by_group: bool = False
    settles: bool = False
    steps: Callable[[int], Sequence[int]] | None = None
    total: UserReducer | None = None
    most: int | None = None
    sweep: Swept | None = None
    swept_totals: Callable[[Sweep], Callable[[int], Any]] | None = None


class _Row(tuple[Any, ...]):
    """A row behind what sorts it, which decides.

    But while an epoch is read: then what an update took away is still there, and any order will do.
    """

    __slots__ = ()

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return _placed(self) < _placed(other)

    def __gt__(self, other: tuple[Any, ...]) -> bool:
        return _placed(other) < _placed(self)


def _placed(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is None, placed(value)) for value in row]


class Rows(NamedTuple):
    """The rows of a partition, sorted; what they add up to; the keys of their groups of peers."""

    kept: Ordered[Any]
    total: Any
    groups: Ordered[Any]


class Windowed(Gathers, Several, Columnar):
    """A window function: for each row of a partition what tells it apart, and its value.

    A row is its sort keys (`ways`), then `width` arguments, which may be NULL, then
    what tells it apart (`rest`).
    """

    def __init__(
        self,
        ways: Sequence[Way],
        rest: Sequence[Way],
        width: int,
        function: Function,
    ) -> None:
        self._split = len(ways), len(ways) + width
        self._width = len(rest) + 1
        self.sorts = [*enumerate(ways), *enumerate(rest, len(ways) + width)]
        self._by = ranked(ways)
        self._rest = ranked(rest)
        self._function = function
        total = function.total
        self.initial = Rows(Placed(), None if total is None else total.initial, Placed())

    def add(self, acc: Rows, value: Any, /) -> Rows:
        """With one more row."""
        key = self._key(value)
        groups = acc.groups
        if self._function.by_group and not _has(acc.kept, key):
            groups = groups.add(key[:1])
        return Rows(acc.kept.add(key), self._total(acc.total, [value], 1), groups)

    def remove(self, acc: Rows, value: Any, /) -> Rows:
        """With one row fewer."""
        key = self._key(value)
        kept, groups = acc.kept.discard(key), acc.groups
        if self._function.by_group and not _has(kept, key):
            groups = groups.discard(key[:1])
        return Rows(kept, self._total(acc.total, [value], -1), groups)

    def gather(self, acc: Rows, values: list[Any], sign: int, /) -> Rows:
        """With these rows, too, or without them."""
        if self._function.by_group and len(values) * SMALL < len(acc.kept):
            return reduce(self.add if sign > 0 else self.remove, values, acc)
        kept = acc.kept.moved(map(self._key, values), sign)
        return Rows(kept, self._total(acc.total, values, sign), self._groups(kept))

    def load(self, rows: SortedRows, /) -> Loaded | None:
        """The rows of many partitions, each with its value."""
        function, sweep = self._function, Sweep(rows, self._split, self._width)
        values = None if function.sweep is None else function.sweep(sweep)
        if values is None:
            return None
        shown, most = sweep.index, function.most
        if most is not None:
            number = sweep.group if function.by_group else sweep.index
            number = sweep.peers[0] if function.by_peers and not function.by_group else number
            shown = np.flatnonzero(number - number[sweep.begin] < most)
        past, starts = self._split[1], rows.starts
        results = [rows.codes(n)[shown] for n in range(past, past + self._width - 1)]
        all_firsts = sweep.firsts if function.by_group else starts
        totals = None
        if function.total is not None:
            assert function.swept_totals is not None  # noqa: S101  it had values
            totals = function.swept_totals(sweep)

        def acc(partition: int) -> Rows:  # as long as it is not asked for, what it reads is kept
            start, end = starts[partition : partition + 2].tolist()
            total, groups = self.initial.total, self.initial.groups
            kept = Placed.deferred(end - start, read_from(rows, range(start, end), self._key))
            if function.by_group:
                low, high = np.searchsorted(all_firsts, (start, end)).tolist()
                firsts = all_firsts[low:high].tolist()
                groups = Placed.deferred(high - low, read_from(rows, firsts, self._peer_key))
            if totals is not None:
                total = totals(partition)
            return Rows(kept, total, groups)

        return Loaded(acc, shown=(shown, [*results, values[shown]]))

    def finish(self, acc: Rows, /) -> list[Any]:
        """The rows of the partition, each with its value."""
        return self._shown(acc, 0, self._size(acc))

    def changes(self, before: Rows, after: Rows, values: list[Any], /) -> Changes:
        """What a result loses and gains where these rows came or went.

        The rows that they may concern lie between the same keys before and after, so a row that
        stays as it is stands in both lists or in none.
        """
        went: list[Any] = []
        came: list[Any] = []
        spans = self._spans((before, after), values)
        for low, high in spans:
            went += self._between(before, low, high)
            came += self._between(after, low, high)
        return _differing(went, came) if len(spans) == 1 else (went, came)

    def _key(self, value: Any) -> Any:
        """What is kept of a row: it decides the order."""
        start, end = self._split
        return (self._by(value[:start]), self._rest(value[end:]), _Row(value))

    def _peer_key(self, value: Any) -> Any:
        """What is kept of a group of peers."""
        return (self._by(value[: self._split[0]]),)

    def _total(self, total: Any, rows: Sequence[Any], sign: int) -> Any:
        reducer = self._function.total
        if reducer is not None:
            start, end = self._split
            step = reducer.add if sign > 0 else reducer.remove
            for row in rows:
                total = step(total, row[start:end])
        return total

    def _groups(self, kept: Ordered[Any]) -> Ordered[Any]:
        """The keys of the groups of peers, if they are asked for. O(rows)."""
        if not self._function.by_group:
            return self.initial.groups
        return Placed((by,) for by, _ in groupby(kept, key=itemgetter(0)))

    def _size(self, acc: Rows) -> int:
        """How many rows have a value that is asked for."""
        most, kept = self._function.most, acc.kept
        if most is None or most >= len(kept):
            return len(kept)
        if self._function.by_group:
            groups = acc.groups
            return kept.place((*groups[most - 1], TOP)) if most < len(groups) else len(kept)
        return kept.place((kept[most - 1][0], TOP)) if self._function.by_peers else most

    def _between(self, acc: Rows, low: Any, high: Any) -> list[Any]:
        """The rows from one key to another, each with its value."""
        size = self._size(acc)
        begin = 0 if low is None else acc.kept.place(low)
        end = size if high is None else min(acc.kept.place((*high, TOP)), size)
        return self._shown(acc, begin, end) if begin < end else []

    def _shown(self, acc: Rows, begin: int, end: int) -> list[Any]:
        """The rows from one place to before another, each with its value."""
        rows = self._around(acc, begin, end)
        past = self._split[1]
        asked = rows.rows[rows.asked.start : rows.asked.stop]
        values = self._function.values(rows)
        return [(*row[past:], value) for (_, _, row), value in zip(asked, values, strict=True)]

    def _around(self, acc: Rows, begin: int, end: int) -> Partition:
        """Rows whose values are asked for, among those that decide them."""
        (is_open, is_open_after), reach = self._function.opens, self._function.reach
        size, near = self._size(acc), _NEAR
        while True:
            rows = self._slice(acc, begin, end, size if reach is None else near)
            if reach is None or len(rows) == size:
                return rows
            bounds = [*reach(rows)][rows.asked.start : rows.asked.stop]
            (low, high), (last_low, last_high) = bounds[0], bounds[-1]
            # what reaches the end of these rows may have been cut there
            is_begun = rows.before == 0 or (high if is_open else low) > 0
            past = last_low if is_open_after else last_high
            if is_begun and (rows.before + len(rows) == size or past < len(rows)):
                return rows
            near *= 4

    def _slice(self, acc: Rows, begin: int, end: int, near: int) -> Partition:
        """The rows from one place to before another, and so many around, with their peers."""
        kept, size = acc.kept, self._size(acc)
        low, high = max(begin - near, 0), min(end + near, size)
        if self._function.by_peers and low < high:
            low = low and kept.place(kept[low][:1])
            high = size if high == size else kept.place((kept[high - 1][0], TOP))
        rows = [*kept] if high - low == len(kept) else [*kept.between(low, high)]
        asked = range(begin - low, end - low)
        return Partition(rows, kept, low, asked, acc.total, acc.groups, self._split)

    # --- what a change may concern ---

    def _spans(self, states: tuple[Rows, Rows], values: list[Any]) -> Sequence[tuple[Any, Any]]:
        """The first and the last key of the rows that changed rows may concern, for each of these.

        None stands for the first or the last row that there is.
        """
        everything = [(None, None)]
        head, tail = self._function.ends
        size = max(self._size(acc) for acc in states)
        if self._function.reach is None or size < SMALL * len(values):
            return everything
        keys = sorted(map(self._key, values))
        for kept in (acc.kept for acc in states):
            last = len(kept) - tail
            if kept.place(keys[0]) < head or (tail and kept.place(keys[-1]) >= last):
                return everything
        is_open, is_open_after = self._function.opens
        if self._function.by_group:
            before, after = (acc.kept for acc in states)
            is_open = any(_has(before, key) is not _has(after, key) for key in keys)
        spans = self._stepped(states)
        settled: Any = None
        if is_open or is_open_after:
            near, far = (keys[0], keys[-1]) if is_open else (keys[-1], keys[0])
            keys = [near]
            if self._function.settles:
                settled = self._settled(states, far, is_behind=is_open)
        for key in keys:
            ends = [end for acc in states for end in self._span(acc, key)]
            if ends:
                low, high = min(ends), max(ends)
                spans.append((settled if is_open_after else low, settled if is_open else high))
        return spans

    def _stepped(self, states: tuple[Rows, Rows]) -> list[tuple[Any, Any]]:
        """The first and the last key of the rows that each step has left, or come to."""
        steps = self._function.steps
        if steps is None:
            return []
        before, after = ([acc.kept[index] for index in steps(len(acc.kept))] for acc in states)
        last, new_last = (acc.kept[-1] for acc in states)
        moves = [
            (old or last, new or new_last) for old, new in zip_longest(before, after) if old != new
        ]
        return [(min(move), max(move)) for move in moves]

    def _settled(self, states: tuple[Rows, Rows], key: Any, *, is_behind: bool) -> Any:
        """The key of the nearest row behind this one, or before, whose value is as it was.

        Of those that see all that there is up to this key. None: all to the end have new values.
        """
        skip, near = 0, _NEAR
        while True:
            before, after = (
                self._beyond(acc, key, skip, near, is_behind=is_behind) for acc in states
            )
            for (row, saw, old), (_, sees, new) in zip(before, after, strict=False):
                if saw and sees and placed(old) == placed(new):
                    return row
            if min(len(before), len(after)) < near:
                return None
            skip, near = skip + near, near * 4

    def _beyond(
        self, acc: Rows, key: Any, skip: int, near: int, *, is_behind: bool
    ) -> list[tuple[Any, bool, Any]]:
        """Rows behind a key and its peers, or before: key, whether it sees all up there, value."""
        by_peers, reach = self._function.by_peers, self._function.reach
        assert reach is not None  # noqa: S101  all rows decide otherwise
        size = self._size(acc)
        if is_behind:
            index = acc.kept.place((key[0], TOP) if by_peers else (*key, TOP))
            begin, end = index + skip, min(index + skip + near, size)
        else:
            index = acc.kept.place(key[:1] if by_peers else key)
            begin, end = max(index - skip - near, 0), min(index - skip, size)
        if begin >= end:
            return []
        rows = self._around(acc, begin, end)
        edge = index - rows.before
        asked = slice(rows.asked.start, rows.asked.stop)
        sees = [high >= edge if is_behind else low <= edge for low, high in reach(rows)]
        values = [*zip(rows.rows[asked], sees[asked], self._function.values(rows), strict=True)]
        return values if is_behind else values[::-1]

    def _span(self, acc: Rows, key: Any) -> tuple[Any, ...]:
        """The first and the last key of the rows that one may concern; none if there is none."""
        (is_open, is_open_after), reach = self._function.opens, self._function.reach
        assert reach is not None  # noqa: S101  all rows decide otherwise
        size, near = self._size(acc), _NEAR
        index = min(acc.kept.place(key), size)
        while True:
            rows = self._slice(acc, index, index, near)
            if not len(rows):
                return ()
            at = rows.asked.start
            bounds = [(min(low, n), max(high, n + 1)) for n, (low, high) in enumerate(reach(rows))]
            is_begun = is_open_after or rows.before == 0 or bounds[0][1] < at
            is_ended = is_open or rows.before + len(rows) == size or bounds[-1][0] > at
            if is_begun and is_ended:
                within = [
                    n
                    for n, (low, high) in enumerate(bounds)
                    if (is_open or low <= at) and (is_open_after or high >= at)
                ]
                return tuple(rows.rows[n] for n in (within[:1] + within[-1:]))
            near *= 4


def _has(kept: Ordered[Any], key: Any) -> bool:
    """Whether a row has peers among these."""
    return kept.place(key[:1]) < kept.place((key[0], TOP))


def _differing(went: list[Any], came: list[Any]) -> Changes:
    """Two lists of different rows without what both begin and end with."""
    most = min(len(went), len(came))
    pairs = enumerate(zip(went, came, strict=False))
    start = next((n for n, (old, new) in pairs if old != new), most)
    pairs = enumerate(zip(reversed(went), reversed(came), strict=False))
    end = min(next((n for n, (old, new) in pairs if old != new), most), most - start)
    return went[start : len(went) - end], came[start : len(came) - end]
