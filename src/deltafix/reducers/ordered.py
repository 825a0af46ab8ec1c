"""Persistent sorted multisets: what exact Min, Max, Median and TopK keep as their accumulator.

One noun: an `Ordered` is a sorted sequence with repetitions that never changes; `add` and
`discard` return another one that shares all but one path. Up to `_LEAF` values it is a single
sorted tuple; above, a tree whose leaves are such tuples and whose branches keep, per child, its
lowest value and its size, and a summary of all their values once it was asked for (`summary`). The
leaves of one that was `deferred` are made when they are first looked at.

Invariant: values ascend along the leaves; no leaf below a branch is empty; sizes add up. Equal
contents are equal, whatever the shape. NaN is above all other numbers, also inside tuples: there it
is kept as `ABOVE`, and given back as NaN.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import nan
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from deltafix.facts.values import ABOVE, with_items

V = TypeVar("V")
_S = TypeVar("_S")
_O = TypeVar("_O", bound="Ordered[Any]")

# Copying 64 references takes about 0.15 µs: below that, levels cost more than they save.
_LEAF = 64
_FAN = 32
_PLAIN = frozenset((int, str, bool, bytes, type(None)))
"""Types whose values are ordered as they are; they are told so without a call."""
_MANY = 32
"""By how much a change is smaller than what it changes if that is not made anew."""
_new = object.__new__


class _Branch(NamedTuple):
    children: tuple[Any, ...]
    lows: tuple[Any, ...]
    sizes: tuple[int, ...]
    summary: list[Any]
    """That of all its values; empty before it was asked for."""


_Read: TypeAlias = Callable[[range], tuple[Any, ...]]


class _Sealed:
    """A tree below a branch that is made when one of its values is asked for.

    `places` are those of its values, and with a step those of its children.
    """

    __slots__ = ("_places", "_read", "_tree", "low", "size")

    def __init__(self, low: Any, places: range, size: int, read: _Read) -> None:
        self.low = low
        self.size = size
        self._places = places
        self._read = read
        self._tree: _Tree | None = None

    def opened(self) -> _Tree:
        """The tree: a leaf, or a branch of what is still closed."""
        if self._tree is None:
            values = self._read(self._places)
            self._tree = values
            if self._places.step > 1:
                self._tree = _branch(self._children(values))
        return self._tree

    def _children(self, lows: tuple[Any, ...]) -> tuple[_Sealed, ...]:
        places, step = self._places, self._places.step
        inner = 1 if step == _LEAF // 2 else step // (_FAN // 2)
        end = places.start + self.size
        return tuple(
            _Sealed(
                low, range(start, min(start + step, end), inner), min(step, end - start), self._read
            )
            for start, low in zip(places, lows, strict=True)
        )


_Tree: TypeAlias = "_Branch | tuple[Any, ...]"
_Summarise: TypeAlias = Callable[[Iterable[Any]], _S]
_Merge: TypeAlias = Callable[[Iterable[_S]], _S]


def _opened(child: Any) -> Any:
    """A child of a branch as a tree: a leaf or a branch."""
    return child.opened() if type(child) is _Sealed else child


def _size(tree: _Tree | _Sealed) -> int:
    if type(tree) is _Sealed:
        return tree.size
    return sum(tree.sizes) if isinstance(tree, _Branch) else len(tree)  # type: ignore[arg-type]


def _low(tree: _Tree | _Sealed) -> Any:
    if type(tree) is _Sealed:
        return tree.low
    return tree.lows[0] if isinstance(tree, _Branch) else tree[0]  # type: ignore[index]


def _branch(children: tuple[Any, ...]) -> _Branch:
    return _Branch(
        children,
        tuple(_low(child) for child in children),
        tuple(_size(child) for child in children),
        [],
    )


def _insert(tree: _Tree, value: Any) -> tuple[Any, ...]:
    """One or two trees of the same height that hold the tree's values and `value`."""
    if not isinstance(tree, _Branch):
        index = bisect_right(tree, value)
        leaf = (*tree[:index], value, *tree[index:])
        if len(leaf) <= _LEAF:
            return (leaf,)
        half = len(leaf) // 2
        return (leaf[:half], leaf[half:])
    index = max(bisect_right(tree.lows, value) - 1, 0)
    parts = _insert(_opened(tree.children[index]), value)
    children = (*tree.children[:index], *parts, *tree.children[index + 1 :])
    if len(children) <= _FAN:
        return (_branch(children),)
    half = len(children) // 2
    return (_branch(children[:half]), _branch(children[half:]))


def _remove(tree: _Tree, value: Any) -> _Tree:
    """The tree without one occurrence of `value`; empty if that was the last. KeyError if none."""
    if not isinstance(tree, _Branch):
        index = bisect_left(tree, value)
        if index == len(tree) or tree[index] != value:
            raise KeyError(value)
        return (*tree[:index], *tree[index + 1 :])
    # The last child whose low is not above the value holds it if any child does: were it only
    # in an earlier one, this child's low would lie above it.
    index = max(bisect_right(tree.lows, value) - 1, 0)
    child = _remove(_opened(tree.children[index]), value)
    middle: tuple[Any, ...] = (child,) if _size(child) else ()
    children = (*tree.children[:index], *middle, *tree.children[index + 1 :])
    return _branch(_joined(children, index)) if children else ()


def _joined(children: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    """Join the child at `index` with its right neighbour when both are small leaves."""
    pair = children[index : index + 2]
    if len(pair) == 2 and sum(map(_size, pair)) <= _LEAF // 2:
        left, right = map(_opened, pair)
        if not isinstance(left, _Branch) and not isinstance(right, _Branch):
            return (*children[:index], left + right, *children[index + 2 :])
    return children


def _between(tree: _Tree, low: int, high: int) -> Iterator[Any]:
    """The values from one place to before another."""
    if not isinstance(tree, _Branch):
        yield from tree[max(low, 0) : max(high, 0)]
        return
    for child, size in zip(tree.children, tree.sizes, strict=True):
        if high <= 0:
            return
        if low < size:
            yield from _between(_opened(child), low, high)
        low, high = low - size, high - size


def _summaries(
    tree: _Tree, low: int, high: int, summarise: _Summarise[_S], merge: _Merge[_S]
) -> list[_S]:
    """Those of the parts that make up the values from one index to before another."""
    if not isinstance(tree, _Branch):
        return [summarise(tree[max(low, 0) : max(high, 0)])]
    is_whole = low <= 0 and high >= sum(tree.sizes)
    if is_whole and tree.summary:
        return tree.summary
    parts: list[_S] = []
    start = 0
    for child, size in zip(tree.children, tree.sizes, strict=True):
        if low < start + size and start < high:
            parts += _summaries(_opened(child), low - start, high - start, summarise, merge)
        start += size
    if is_whole:
        tree.summary.append(merge(parts))
        return tree.summary
    return parts


def _walk(tree: _Tree) -> Iterator[Any]:
    if isinstance(tree, _Branch):
        for child in tree.children:
            yield from _walk(_opened(child))
    else:
        yield from tree


def placed(value: Any) -> Any:
    """A value as it is ordered: NaN as `ABOVE`, inside tuples too; one zero."""
    if isinstance(value, float):
        return ABOVE if value != value else value or 0.0  # noqa: PLR0124  the test for NaN
    if isinstance(value, tuple):
        for item in value:
            kind = type(item)
            if kind in _PLAIN or (kind is float and item and item == item):  # noqa: PLR0124  as above
                continue
            if placed(item) is not item:
                return with_items(value, placed)
    return value


def restored(value: Any) -> Any:
    """The value that `placed` was given, up to the sign of a zero."""
    if value is ABOVE:
        return nan
    if isinstance(value, tuple):
        for item in value:
            if type(item) not in _PLAIN and restored(item) is not item:
                return with_items(value, restored)
    return value


class Ordered(Generic[V]):
    """An immutable sorted multiset with order statistics.

    `add`, `discard`, `place`, `count` and `ordered[i]` cost O(log n); `first(k)`, `last(k)` and
    `between` for k values O(k + log n).
    Values must be comparable with `<`. Raises TypeError for two values that do not compare.
    """

    __slots__ = ("_size", "_tree")
    _kept = staticmethod(placed)
    _given = staticmethod(restored)

    def __init__(self, values: Iterable[V] = ()) -> None:
        items = sorted(map(self._kept, values))
        self._tree: _Tree = _tree_of(items)
        self._size: int = len(items)

    @classmethod
    def of_numbers(cls, values: list[V]) -> Ordered[V]:
        """As `Ordered(values)`, of numbers known not to be NaN."""
        if len(values) > _LEAF:
            return cls(values)
        return _ordered(cls, tuple(sorted(values)), len(values))

    @classmethod
    def deferred(cls, size: int, read: Callable[[range], Iterable[V]]) -> Ordered[V]:
        """As `Ordered(read(range(size)))`, of values that ascend, read where they are looked at.

        O(1), and O(log n) where one is looked at first; `read` gives the values in places.
        """

        def kept(places: range) -> tuple[Any, ...]:
            return tuple(map(cls._kept, read(places)))

        if size <= _LEAF:
            return _ordered(cls, kept(range(size)), size)
        step = _LEAF // 2
        while step * _FAN < size:
            step *= _FAN // 2
        return _ordered(cls, _Sealed(None, range(0, size, step), size, kept).opened(), size)

    def add(self, value: V) -> Ordered[V]:
        """This multiset with one more occurrence of `value`."""
        tree = self._tree
        if isinstance(value, float | tuple):
            value = self._kept(value)
        if type(tree) is tuple and len(tree) < _LEAF:  # the common case, without recursion
            index = bisect_right(tree, value)
            return _ordered(type(self), (*tree[:index], value, *tree[index:]), self._size + 1)
        parts = _insert(tree, value)
        return _ordered(type(self), parts[0] if len(parts) == 1 else _branch(parts), self._size + 1)

    def discard(self, value: V) -> Ordered[V]:
        """This multiset with one occurrence fewer. Raises KeyError if there is none."""
        tree = self._tree
        if isinstance(value, float | tuple):
            value = self._kept(value)
        if type(tree) is tuple:  # the common case, without recursion
            index = bisect_left(tree, value)
            if index == len(tree) or tree[index] != value:
                raise KeyError(value)
            return _ordered(type(self), (*tree[:index], *tree[index + 1 :]), self._size - 1)
        tree = _remove(tree, value)
        while isinstance(tree, _Branch) and len(tree.children) == 1:
            tree = _opened(tree.children[0])
        return _ordered(type(self), tree, self._size - 1)

    def with_all(self, values: Iterable[V]) -> Ordered[V]:
        """This multiset with more values. O(k log k) for k of them, and O(n) where these are many.

        100,000 values into none: 1.2 us each, and 20 added one by one.
        """
        items = sorted(map(self._kept, values))
        if len(items) * _MANY < self._size:
            grown = self
            for item in items:
                grown = grown.add(item)
            return grown
        if self._size:
            items += _walk(self._tree)
            items.sort()
        return _ordered(type(self), _tree_of(items), len(items))

    def without_all(self, values: Iterable[V]) -> Ordered[V]:
        """This multiset with fewer values. As `with_all`. Raises KeyError if one is not there."""
        items = sorted(map(self._kept, values), reverse=True)
        if len(items) * _MANY < self._size:
            shrunk = self
            for item in items:
                shrunk = shrunk.discard(item)
            return shrunk
        rest = []
        for item in _walk(self._tree):
            if items and items[-1] == item:
                items.pop()
            else:
                rest.append(item)
        if items:
            raise KeyError(items[-1])
        return _ordered(type(self), _tree_of(rest), len(rest))

    def moved(self, values: Iterable[V], sign: int) -> Ordered[V]:
        """As `with_all` (`sign` 1) or `without_all` (-1)."""
        return self.with_all(values) if sign > 0 else self.without_all(values)

    def replace(self, old: V, new: V) -> Ordered[V]:
        """As `discard(old).add(new)`, in one copy where it is small. KeyError without `old`."""
        tree = self._tree
        if type(tree) is not tuple:
            return self.discard(old).add(new)
        old, new = self._kept(old), self._kept(new)
        items = list(tree)
        gone = bisect_left(items, old)
        if gone == len(items) or items[gone] != old:
            raise KeyError(old)
        del items[gone]
        insort(items, new)
        return _ordered(type(self), tuple(items), self._size)

    def first(self, count: int) -> list[V]:
        """The `count` lowest values, ascending (all of them, if there are fewer)."""
        return [*self.between(0, count)]

    def last(self, count: int) -> list[V]:
        """The `count` highest values, descending (all of them, if there are fewer)."""
        low = max(self._size - count, 0)
        return [self[index] for index in range(self._size - 1, low - 1, -1)]

    def between(self, low: int, high: int) -> Iterator[V]:
        """The values from the place `low` to before `high`, ascending: those that there are."""
        return map(self._given, _between(self._tree, low, high))

    def summary(self, low: int, high: int, summarise: _Summarise[_S], merge: _Merge[_S]) -> _S:
        """The summary of the values from the index `low` to before `high`: of parts, merged.

        O(log n) once it was asked for. Branches keep theirs, and multisets share branches: all that
        were made of one another are asked with functions that do the same.
        """
        return merge(_summaries(self._tree, low, high, summarise, merge))

    def place(self, value: Any) -> int:
        """How many values are less than this one, which need not be among them."""
        return self._before(value, bisect_left)

    def count(self, value: V) -> int:
        """How often a value is there."""
        return self._before(value, bisect_right) - self._before(value, bisect_left)

    def _before(self, value: Any, bisect: Callable[[Any, Any], int]) -> int:
        value = self._kept(value)
        tree, count = self._tree, 0
        while isinstance(tree, _Branch):
            at = max(bisect(tree.lows, value) - 1, 0)
            count += sum(tree.sizes[:at])
            tree = _opened(tree.children[at])
        return count + bisect(tree, value)

    def lowest(self) -> V | None:
        """The lowest value, None if there is none. O(1)."""
        tree = self._tree
        if type(tree) is tuple:
            return self._given(tree[0]) if tree else None
        value: V = self._given(tree.lows[0])  # type: ignore[union-attr]  # a tuple of another type
        return value

    def highest(self) -> V | None:
        """The highest value, None if there is none. O(log n)."""
        tree = self._tree
        while type(tree) is not tuple:
            tree = _opened(tree.children[-1])  # type: ignore[union-attr]  # as above
        return self._given(tree[-1]) if tree else None

    def __getitem__(self, index: int) -> V:
        """The value at `index` in ascending order; negative ones count from the end."""
        if index < 0:
            index += self._size
        if not 0 <= index < self._size:
            raise IndexError(f"place {index} of {self._size} values")
        tree = self._tree
        while isinstance(tree, _Branch):
            for child, size in zip(tree.children, tree.sizes, strict=True):
                if index < size:
                    tree = _opened(child)
                    break
                index -= size
        value: V = self._given(tree[index])
        return value

    def __iter__(self) -> Iterator[V]:
        return map(self._given, _walk(self._tree))

    def __len__(self) -> int:
        return self._size

    def __deepcopy__(self, _: object) -> Ordered[V]:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ordered):
            return NotImplemented
        if self._tree is other._tree:
            return True
        return self._size == other._size and all(
            mine == theirs
            for mine, theirs in zip(_walk(self._tree), _walk(other._tree), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # an accumulator, never a value

    def __repr__(self) -> str:
        return f"Ordered({list(self)!r})"

    def check_invariants(self) -> None:
        """Raise AssertionError if order, sizes, lows or leaves are wrong. O(n)."""
        values: list[Any] = list(_walk(self._tree))
        if len(values) != self._size:
            raise AssertionError(f"size {self._size}, but {len(values)} values")
        if any(after < before for before, after in pairwise(values)):
            raise AssertionError(f"not ascending: {values}")
        _check(self._tree)


def _check(tree: _Tree) -> None:
    if isinstance(tree, _Branch):
        if not all(_size(child) for child in tree.children):
            raise AssertionError("an empty child below a branch")
        if _branch(tree.children)[:3] != tree[:3] or len(tree.children) > _FAN:
            raise AssertionError("lows or sizes differ from the children")
        for child in tree.children:
            _check(_opened(child))
    elif len(tree) > _LEAF:
        raise AssertionError(f"a leaf of {len(tree)} values")


def _tree_of(items: list[Any]) -> _Tree:
    """A tree of sorted values, its nodes half full. O(n)."""
    if len(items) <= _LEAF:
        return tuple(items)
    step, fan = _LEAF // 2, _FAN // 2
    level: list[Any] = [tuple(items[start : start + step]) for start in range(0, len(items), step)]
    while len(level) > 1:
        level = [_branch(tuple(level[start : start + fan])) for start in range(0, len(level), fan)]
    return level[0]  # type: ignore[no-any-return]


def _ordered(cls: type[_O], tree: _Tree, size: int) -> _O:
    # Not a class method and not __init__: half the time, and every change makes one.
    ordered: _O = _new(cls)
    ordered._tree = tree
    ordered._size = size
    return ordered


def _as_it_is(value: Any) -> Any:
    return value


class Placed(Ordered[V]):
    """One of values that are ordered as they are: no NaN is among them where they differ.

    It looks into none of them: 100,000 tuples are put in and read in a third of the time.
    """

    __slots__ = ()
    _kept = _given = staticmethod(_as_it_is)
