"""Collections: key -> multiset of values, and the operators that derive one from another.

Two nouns: an `InputCollection` is where changes enter (`Collection.input`), a `Collection` is any
node of the graph that grows from there. A collection's life:

1. *Built* by an operator over others; filled at once from what they hold.
2. *Kept up to date* by one pass per epoch (see `graph`).
3. *Read* by key, as a whole, or by `subscribe`: net changes, once per epoch.

Invariant: at any time outside a pass a collection holds what its operator says of the current
inputs. Values and keys must be hashable, and must not be changed after they were put in; functions
must be pure.

Reading changes nothing but what is kept for it, and sees the last committed epoch, also inside a
transaction. A user function of an operator may not read its own graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from deltafix.errors import ReactiveError, ReducerError, TransactionError
from deltafix.facts.values import require_callback
from deltafix.reactive.changes import Changes, summed
from deltafix.reactive.delta import CollectionDelta, Subscription
from deltafix.reactive.graph import EpochPass, Graph
from deltafix.reactive.joins import Join, SemiJoin, SetOperation
from deltafix.reactive.node import Node
from deltafix.reactive.operators import Filter, InputNode, Mapper, Merge, label_of
from deltafix.reactive.reduce import Drift, Reduce, Spread
from deltafix.reducers.extremes import TopK
from deltafix.reducers.reducer import Field, Reducer
from deltafix.rules.feed import Feed

if TYPE_CHECKING:
    import pyarrow as pa

    from deltafix.reactive.inputs import InputCollection
    from deltafix.reactive.lazy import LazyCall, LazyCollection


class Readable:
    """key -> multiset of values, to be read; the base of `Collection`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def _kept(self) -> Node:
        if self._node.graph._running:
            raise TransactionError("a user function of an operator may not read its own graph")
        self._node.keep()
        return self._node

    def values(self, key: Any) -> list[Any]:
        """The values at a key, repeated as often as they occur; empty if there are none.

        The first read by key of a collection that keeps no state makes it keep one: O(contents)
        then, O(values of the key) afterwards.
        """
        counts = self._kept().at(key)
        return [value for value, count in counts.items() for _ in range(count)]

    def get(self, key: Any, default: Any = None) -> Any:
        """The only value at a key, or `default` if there is none.

        Raises ReactiveError if there are several: read them with `values`.
        """
        counts = self._kept().at(key)
        if not counts:
            return default
        if len(counts) > 1 or next(iter(counts.values())) > 1:
            raise ReactiveError(
                f"{self._node.label} has {sum(counts.values())} values at key {key!r}; use values()"
            )
        return next(iter(counts))

    def __contains__(self, key: Any) -> bool:
        return bool(self._kept().at(key))

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Every (key, value), repeated as often as it occurs. O(contents)."""
        for key, value, count in self._rows():
            for _ in range(count):
                yield key, value

    def _rows(self) -> Iterator[tuple[Any, Any, int]]:
        return self._node.rows()

    def to_dict(self) -> dict[Any, list[Any]]:
        """Each key with the list of its values, repeated as often as they occur. O(contents)."""
        contents: dict[Any, list[Any]] = {}
        for key, value in self.items():
            contents.setdefault(key, []).append(value)
        return contents

    def __len__(self) -> int:
        """How many values there are in all, repetitions included. O(contents)."""
        return sum(count for _, _, count in self._rows())

    def subscribe(
        self, fn: Callable[[CollectionDelta], Any], *, initial: bool = False
    ) -> Subscription:
        """Call `fn(delta)` after every epoch that changes this collection, once, with net changes.

        `initial=True` first calls it with everything there is. An error in `fn` rises from the
        commit as SubscriberError, after the epoch stands and all others were told. `fn` may commit
        to the graph: that is an epoch of its own, told after this one.

        Raises TypeMismatchError for what cannot be called.
        """
        require_callback(fn, "a CollectionDelta")
        node = self._node
        if initial:
            rows = summed(self._rows())
            if rows:
                fn(CollectionDelta(node.graph.epoch, rows))

        def tell(epoch: int, changes: Changes) -> None:
            fn(CollectionDelta(epoch, changes))

        node.subscribers.append(tell)
        return Subscription(node, tell)

    @property
    def epoch(self) -> int:
        """How many epochs the graph has committed."""
        return self._node.graph.epoch

    @property
    def last_epoch(self) -> EpochPass:
        """What the graph's last epoch did: which operators were visited, what was recomputed."""
        return self._node.graph.last_epoch

    @property
    def visits(self) -> int:
        """In how many epochs this operator was visited at all."""
        return self._node.visits

    @property
    def drifts(self) -> list[Drift]:
        """What `reduce(..., verify=...)` has found."""
        return list(self._node.drifts) if isinstance(self._node, Reduce) else []

    def explain(self) -> str:
        """The operators this collection comes from, as an indented tree, sources below."""
        lines: list[str] = []

        def walk(node: Node, depth: int) -> None:
            lines.append("  " * depth + node.label)
            for source in node.sources:
                walk(source, depth + 1)

        walk(self._node, 0)
        return "\n".join(lines)

    def check_invariants(self) -> None:
        """Compare every operator of the graph with its recomputation; for tests. O(contents)."""
        self._node.graph.check_invariants()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.label}>"

    def to_arrow(self) -> pa.Table:
        """Columns `key`, `value`, `count`; keys and values must be of types Arrow can infer."""
        import pyarrow as pa  # noqa: PLC0415  not loaded before it is asked for

        rows = list(self._rows())
        columns: Mapping[str, list[Any]] = {
            "key": [row[0] for row in rows],
            "value": [row[1] for row in rows],
            "count": [row[2] for row in rows],
        }
        return pa.table(dict(columns))


class Collection(Readable, Feed):
    """A derived key -> multiset of values. Make one with `Collection.input` or an operator.

    Sizes below: Δ is what changes in the operator's inputs in one epoch.
    """

    @staticmethod
    def input(
        *,
        key: type | tuple[type, ...] | None = None,
        value: type | tuple[type, ...] | None = None,
        name: str = "input",
    ) -> InputCollection:
        """A collection that is filled from outside, by transactions.

        Args:
            key: the type (or types) a key must have; anything hashable by default.
            value: the same for values.
            name: how messages call it.
        """
        from deltafix.reactive.inputs import InputCollection  # noqa: PLC0415  it subclasses us

        return InputCollection(InputNode(Graph(), name), key, value)

    def _add(self, make: Callable[[Graph], Node], *others: Collection) -> Collection:
        """Build a node over this and other collections, in one graph."""
        for other in others:
            if not isinstance(other, Collection):
                raise ReactiveError(f"expected a Collection, not {type(other).__name__}: {other!r}")
        graph = self._node.graph
        for other in others:
            graph.absorb(other._node.graph)
        graph.check_idle()
        known = len(graph.nodes)
        try:
            node = make(graph)
        except BaseException:
            del graph.nodes[known:]  # a node that could not be filled was never there
            raise
        node.connect()
        return Collection(node)

    def map(self, fn: Callable[[Any, Any], Any], *, name: str | None = None) -> Collection:
        """Turn each (key, value) into other pairs.

        `fn(key, value)` returns one `(key, value)` tuple, or any other iterable (a list, a
        generator) of such tuples. Equal pairs add up. O(Δ).
        """

        def pairs(key: Any, value: Any) -> Iterable[Any]:
            image = fn(key, value)
            return (image,) if type(image) is tuple else image

        return self._mapper(pairs, name or label_of("map", fn))

    def flat_map(
        self, fn: Callable[[Any, Any], Iterable[tuple[Any, Any]]], *, name: str | None = None
    ) -> Collection:
        """Turn each (key, value) into the pairs that `fn` returns or yields. O(Δ)."""
        return self._mapper(fn, name or label_of("flat_map", fn))

    def map_values(self, fn: Callable[[Any], Any], *, name: str | None = None) -> Collection:
        """Replace each value by `fn(value)`; keys stay. O(Δ)."""
        return self._mapper(
            lambda key, value: ((key, fn(value)),), name or label_of("map_values", fn)
        )

    def group(self, by: Callable[[Any, Any], Any], *, name: str | None = None) -> Collection:
        """Key each value by `by(key, value)` instead. O(Δ)."""
        return self._mapper(
            lambda key, value: ((by(key, value), value),), name or label_of("group", by)
        )

    def _mapper(self, pairs: Callable[[Any, Any], Iterable[Any]], label: str) -> Collection:
        return self._add(lambda graph: Mapper(graph, self._node, pairs, label))

    def filter(self, test: Callable[[Any, Any], Any], *, name: str | None = None) -> Collection:
        """Keep the values for which `test(key, value)` is true. O(Δ)."""
        label = name or label_of("filter", test)
        return self._add(lambda graph: Filter(graph, self._node, test, label))

    def slice(self, start: Any = None, stop: Any = None, *, name: str | None = None) -> Collection:
        """Keep the keys with `start <= key < stop`; None leaves that side open. O(Δ)."""

        def inside(key: Any, _: Any) -> bool:
            return (start is None or start <= key) and (stop is None or key < stop)

        label = name or f"slice({start!r}, {stop!r})"
        return self._add(lambda graph: Filter(graph, self._node, inside, label))

    def reduce(
        self,
        reducer: Reducer[Any, Any, Any],
        *,
        verify: Literal["sample", "all"] | None = None,
        sample: float = 0.01,
        name: str | None = None,
    ) -> Collection:
        """One value per key that has values: what the reducer makes of its multiset.

        `verify="sample"` recomputes every `1 / sample`-th touched key and compares; a difference
        is a `ReducerDriftWarning`, counted in `last_epoch.drifted` and listed in `drifts`.
        O(Δ), plus O(values of the key) per recomputation of a partial reducer.
        """
        if not isinstance(reducer, Reducer):
            hint = "; call it to make one" if isinstance(reducer, type) else ""
            raise ReducerError(
                f"reduce needs a reducer such as Sum('amount'), not {reducer!r}{hint}"
            )
        if verify not in (None, "sample", "all") or not 0 < sample <= 1:
            raise ReducerError(
                f"verify must be None, 'sample' or 'all' and 0 < sample <= 1, "
                f"not {verify!r} and {sample!r}"
            )
        label = name or f"reduce({reducer.name})"
        return self._add(
            lambda graph: Reduce(graph, self._node, reducer, label, verify=verify, sample=sample)
        )

    def top_k(
        self, k: int, by: Field = None, *, largest: bool = True, name: str | None = None
    ) -> Collection:
        """Each key's `k` greatest values by a field, as values of their own. O(Δ (log n + k))."""
        kept = self.reduce(TopK(k, by, largest=largest), name=f"{name or f'top_k({k})'} order")
        source = kept._node
        if not isinstance(source, Reduce):
            raise ReactiveError(f"{source.label} is no reduction")
        return kept._add(lambda graph: Spread(graph, source, name or f"top_k({k})"))

    def join(
        self,
        other: Collection,
        combine: Callable[[Any, Any, Any], Any] | None = None,
        *,
        name: str | None = None,
    ) -> Collection:
        """Per key, every pair of a value here and one there: `combine(key, left, right)`.

        Pairs by default. Multiplicities multiply. O(Δ times the values it meets at its key).
        """
        label = name or label_of("join", combine)
        return self._add(lambda graph: Join(graph, self._node, other._node, combine, label), other)

    def semi_join(self, other: Collection, *, name: str = "semi_join") -> Collection:
        """The values whose key has a value in `other`."""
        return self._semi(other, present=True, name=name)

    def anti_join(self, other: Collection, *, name: str = "anti_join") -> Collection:
        """The values whose key has no value in `other`."""
        return self._semi(other, present=False, name=name)

    def _semi(self, other: Collection, *, present: bool, name: str) -> Collection:
        return self._add(
            lambda graph: SemiJoin(graph, self._node, other._node, present=present, label=name),
            other,
        )

    def merge(self, *others: Collection, name: str = "merge") -> Collection:
        """All values of all collections, multiplicities added (`a + b`). O(Δ)."""
        return self._add(
            lambda graph: Merge(graph, (self._node, *(other._node for other in others)), name),
            *others,
        )

    def union(self, *others: Collection, name: str = "union") -> Collection:
        """Each value that any of the collections has at its key, once (`a | b`). O(Δ)."""
        return self._set(any, others, name)

    def intersection(self, *others: Collection, name: str = "intersection") -> Collection:
        """Each value that all of the collections have at its key, once (`a & b`). O(Δ)."""
        return self._set(all, others, name)

    def difference(self, *others: Collection, name: str = "difference") -> Collection:
        """Each value here that none of the others has at that key, once (`a - b`). O(Δ)."""
        return self._set(lambda has: has[0] and not any(has[1:]), others, name)

    def distinct(self, *, name: str = "distinct") -> Collection:
        """Each value once per key, however often it occurs. O(Δ)."""
        return self._set(any, (), name)

    def _set(
        self, holds: Callable[[Any], bool], others: tuple[Collection, ...], name: str
    ) -> Collection:
        return self._add(
            lambda graph: SetOperation(
                graph, (self._node, *(other._node for other in others)), holds, name
            ),
            *others,
        )

    def __add__(self, other: Collection) -> Collection:
        return self.merge(other)

    def __or__(self, other: Collection) -> Collection:
        return self.union(other)

    def __and__(self, other: Collection) -> Collection:
        return self.intersection(other)

    def __sub__(self, other: Collection) -> Collection:
        return self.difference(other)

    def lazy(
        self, fn: Callable[[LazyCall], Iterable[Any]], *, name: str | None = None
    ) -> LazyCollection:
        """`fn(call)` for the keys somebody reads, kept up to date while they are read.

        `fn` gives the values at `call.key`, from `call.values` and from its own results at other
        keys, `call.ask(key)`; keys that wait for each other raise LazyCycleError with the cycle.
        To follow changes in their own size it has `call.changes`, `call.changes_of(key)` and what
        it left itself in `call.kept`. See `LazyCall`. Nothing is computed before a key is read or
        watched. An epoch costs the keys that asked, however indirectly, for what changed.
        """
        from deltafix.reactive.lazy import Lazy, LazyCollection  # noqa: PLC0415  it subclasses us

        label = name or label_of("lazy", fn)
        built = self._add(lambda graph: Lazy(graph, self._node, fn, label))
        return LazyCollection(built._node)

    def fixpoint(
        self,
        program: Any,
        *,
        relation: str | None = None,
        view: str | None = None,
        name: str | None = None,
        **inputs: Collection,
    ) -> Collection:
        """A recursive view over this and other collections; see `deltafix.reactive.fixpoint`.

        `program` is a `deltafix.Program`, its text, or a step function. With a program, this
        collection feeds the input relation `relation` and each keyword argument the relation of
        its name; the result holds the rows of the output relation `view`. Both may be left out
        where only one is possible. With a step function `step(value) -> (from, to)` pairs (or None
        for values that are pairs), the result is what can be reached from the values of `roots`.
        All rows are values; the result's only key is `()`.
        """
        from deltafix.reactive.fixpoint import collection_fixpoint  # noqa: PLC0415  loads engine

        return collection_fixpoint(self, program, inputs, relation=relation, view=view, name=name)
