"""Operators without memory: input, map, filter, group, slice, merge.

Invariant: each is linear, so the change of its output is the same function applied to the change
of its input. A user function must give the same answer for the same key and value every time, as
it is called again when the value leaves; a kept output notices if it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from deltafix.errors import ReactiveError
from deltafix.facts.values import settled
from deltafix.reactive.changes import Changes, Counts, State, add_change, negated
from deltafix.reactive.graph import Graph
from deltafix.reactive.node import Node, guarded, rows_of


def label_of(operator: str, function: object = None) -> str:
    """How messages call an operator: its kind and the name of its function."""
    if function is None:
        return operator
    return f"{operator}({getattr(function, '__name__', None) or repr(function)})"


class InputNode(Node):
    """Where changes enter; its state is what the user put there."""

    def __init__(self, graph: Graph, label: str) -> None:
        super().__init__(graph, (), label)
        self.kept: State = State()

    def visit(self) -> Changes:
        changes: Changes = self.inbox[0]
        if isinstance(changes, dict):
            self.kept.apply(changes)
        else:
            self.kept.adopt(changes.after)
        return changes

    def rollback(self) -> None:
        if isinstance(self.out, dict):
            self.kept.apply(negated(self.out))
        elif self.out is not None:
            self.kept.disown()

    def commit(self) -> None:
        self.kept.settle()

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        return self.kept.rows()


class Filter(Node):
    """Keeps the values for which `test(key, value)` is true."""

    def __init__(
        self, graph: Graph, source: Node, test: Callable[[Any, Any], Any], label: str
    ) -> None:
        super().__init__(graph, (source,), label)
        self._test = test

    def visit(self) -> Changes:
        out: dict[Any, Counts] = {}
        test = self._test
        for key, counts in self.inbox[0].items():
            passed: Counts = {}
            for value, count in counts.items():
                try:
                    if test(key, value):
                        passed[value] = count
                except Exception as error:
                    raise guarded(self, error, key, value) from error
            if passed:
                out[key] = passed
        return out

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for key, value, count in self.sources[0].rows():
            try:
                passed = self._test(key, value)
            except Exception as error:
                raise guarded(self, error, key, value) from error
            if passed:
                yield key, value, count


class Mapper(Node):
    """Turns each (key, value) into any number of (key, value) pairs, by a function that lists them.

    Map, flat_map, map_values and group are this node with different readings of the user function.
    """

    def __init__(
        self,
        graph: Graph,
        source: Node,
        pairs: Callable[[Any, Any], Iterable[Any]],
        label: str,
    ) -> None:
        super().__init__(graph, (source,), label)
        self._pairs = pairs

    def _images(self, key: Any, value: Any) -> list[tuple[Any, Any]]:
        try:
            images = list(self._pairs(key, value))
            for image in images:
                if type(image) is not tuple or len(image) != 2:
                    raise ReactiveError(
                        f"the function must give (key, value) pairs, but gave {image!r}"
                    )
                hash(image)
            images = [settled(image) for image in images]
        except Exception as error:
            raise guarded(self, error, key, value) from error
        return images

    def visit(self) -> Changes:
        out: dict[Any, Counts] = {}
        images = self._images
        for key, counts in self.inbox[0].items():
            for value, count in counts.items():
                for new_key, new_value in images(key, value):
                    add_change(out, new_key, new_value, count)
        return out

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for key, value, count in self.sources[0].rows():
            for new_key, new_value in self._images(key, value):
                yield new_key, new_value, count


class Merge(Node):
    """The multiset sum of its sources: every value of every one, as often as it occurs in all."""

    def __init__(self, graph: Graph, sources: Sequence[Node], label: str = "merge") -> None:
        super().__init__(graph, sources, label)

    def visit(self) -> Changes:
        changed = [changes for changes in self.inbox if changes is not None]
        if len(changed) == 1:
            return rows_of(changed[0])
        out: dict[Any, Counts] = {}
        for changes in changed:
            for key, counts in changes.items():
                for value, count in counts.items():
                    add_change(out, key, value, count)
        return out

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for source in self.sources:
            yield from source.rows()
