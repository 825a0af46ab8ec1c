"""The operators of a recursive view: `Fixpoint` runs the engine, `View` picks a relation of it.

`Fixpoint` feeds collections into the input relations of one program, run by the engine, and hands
on what changes per relation. A collection's values are the rows, whatever their keys: tuples as
wide as the relation, plain values for a relation of one column. Repetitions are counted, so a row
leaves the program when its last copy does: two files may contribute the same edge.

Invariant: the engine holds the rows whose count is positive. When an epoch fails after the engine
committed its part, the opposite transaction takes it back. Maintenance itself is the engine's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltafix.diagnostics import suggest
from deltafix.errors import (
    DeltafixError,
    FactError,
    OperatorError,
    ReactiveError,
    UnknownRelationError,
)
from deltafix.reactive.changes import Changes, Counts
from deltafix.reactive.graph import Graph
from deltafix.reactive.interner import Interner
from deltafix.reactive.node import Node, contents

if TYPE_CHECKING:
    from deltafix.engine.database import Database


class Fixpoint(Node):
    """One engine over several collections; its output is keyed by relation name."""

    routes_by_key = True

    def __init__(
        self,
        graph: Graph,
        sources: Sequence[tuple[str | None, Node]],
        engine: tuple[Database, Interner | None],
        views: tuple[str, ...],
        label: str,
    ) -> None:
        super().__init__(graph, [source for _, source in sources], label)
        self.database, self._interner = engine
        self.views = views
        self._relations = tuple(relation for relation, _ in sources)
        self._counts: dict[str, dict[Any, int]] = {name: {} for name in self.database.schemas}
        self._undo: list[tuple[dict[Any, int], Any, int]] = []
        self._committed: list[tuple[str, list[Any], list[Any]]] = []
        self.inbox = [contents(source) for source in self.sources]
        try:
            self.visit()
        except BaseException:
            self.database.close()
            raise
        self.commit()
        self.inbox = [None] * len(self.sources)

    def _turned(self) -> dict[str, dict[Any, int]]:
        """Count the rows of the inbox; per relation, the touched rows and their old counts."""
        touched: dict[str, dict[Any, int]] = {}
        for port, changes in enumerate(self.inbox):
            for key, change in (changes or {}).items():
                relation = self._relations[port] or key
                if relation not in self._counts:
                    error = unknown_relation(str(relation), "relation", list(self._counts))
                    raise self.failed(error, key, next(iter(change)))
                counts, old = self._counts[relation], touched.setdefault(relation, {})
                for value, count in change.items():
                    row = self._row(relation, key, value)
                    before = counts.get(row, 0)
                    old.setdefault(row, before)
                    self._undo.append((counts, row, before))
                    if before + count < 0:
                        raise self.failed(
                            ReactiveError(
                                f"it leaves {relation} but never came; the operators before must "
                                "give the same for the same key and value every time"
                            ),
                            key,
                            value,
                        )
                    if before + count:
                        counts[row] = before + count
                    else:
                        counts.pop(row, None)
        return touched

    def _row(self, relation: str, key: Any, value: Any) -> tuple[Any, ...]:
        """A value as a row of a relation; OperatorError if it is not as wide."""
        row: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
        schema = self.database.schemas[relation]
        if len(row) != schema.arity:
            width = schema.arity
            error = FactError(
                f"it has {len(row)} value{'s' * (len(row) != 1)}, but {schema.show()} takes {width}"
            )
            raise self.failed(error, key, value)
        return row

    def visit(self) -> Changes:
        moves = []
        for relation, touched in self._turned().items():
            counts = self._counts[relation]
            came = [row for row, before in touched.items() if not before and row in counts]
            went = [row for row, before in touched.items() if before and row not in counts]
            if came or went:
                moves.append((relation, self._given(came), self._given(went)))
        if not moves:
            return {}
        try:
            with self.database.transaction() as tx:
                for relation, came, went in moves:
                    tx.delete(relation, went)
                    tx.insert(relation, came)
        except DeltafixError as error:
            raise OperatorError(f"{self.label}: {error}", operator=self.label) from error
        self._committed = moves
        out: dict[Any, Counts] = {}
        for relation, delta in tx.delta.items():
            if relation in self.views:
                counts = dict.fromkeys(map(self._value, delta.removed), -1)
                counts.update(dict.fromkeys(map(self._value, delta.added), 1))
                if counts:
                    out[relation] = counts
        return out

    def _given(self, rows: list[Any]) -> list[Any]:
        """Rows as the engine takes them."""
        if self._interner is None:
            return rows
        take = self._interner.take
        return [tuple(take(value) for value in row) for row in rows]

    def _value(self, row: tuple[Any, ...]) -> Any:
        """A row of the engine as a value of a collection."""
        if self._interner is not None:
            row = tuple(self._interner.value(number) for number in row)
        return row[0] if len(row) == 1 else row

    def rollback(self) -> None:
        for counts, row, before in reversed(self._undo):
            if before:
                counts[row] = before
            else:
                counts.pop(row, None)
        self._undo.clear()
        moves, self._committed = self._committed, []
        if moves:
            with self.database.transaction() as tx:
                for relation, came, went in moves:
                    tx.delete(relation, came)
                    tx.insert(relation, went)
        if self._interner is not None:
            self._interner.drop_unheld()

    def commit(self) -> None:
        self._undo.clear()
        moves, self._committed = self._committed, []
        if self._interner is not None:
            for _, came, _ in moves:
                self._interner.hold(came)
            for _, _, went in moves:
                self._interner.release(went)

    def rows(self) -> Iterator[tuple[Any, Any, int]]:
        for view in self.views:
            for row in self.database.rows(view):
                yield view, self._value(row), 1

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        """From scratch, in an engine of its own."""
        from deltafix.engine.connect import connect  # noqa: PLC0415  numba, when first needed

        with connect(self.database.program) as fresh:
            with fresh.transaction() as tx:
                for port, source in enumerate(self.sources):
                    rows: dict[str, dict[Any, None]] = {}
                    for key, value, _ in source.rows():
                        relation = self._relations[port] or key
                        rows.setdefault(relation, {})[self._row(relation, key, value)] = None
                    for relation, given in rows.items():
                        tx.insert(relation, self._given(list(given)))
            for view in self.views:
                for row in fresh.rows(view):
                    yield view, self._value(row), 1

    def check_invariants(self) -> None:
        """Raise AssertionError if the views differ from those of a fresh engine."""
        self.database.check_invariants()
        held, fresh = set(self.rows()), set(self.compute())
        if held != fresh:
            raise AssertionError(f"{self.label} has {held - fresh} too much, lacks {fresh - held}")


class View(Node):
    """One relation of a fixpoint, under the key `()`."""

    def __init__(self, graph: Graph, source: Fixpoint, relation: str) -> None:
        super().__init__(graph, (source,), relation)
        self.route = relation

    def visit(self) -> Changes:
        return {(): self.inbox[0][self.route]}

    def compute(self) -> Iterator[tuple[Any, Any, int]]:
        for relation, value, count in self.sources[0].rows():
            if relation == self.route:
                yield (), value, count


def unknown_relation(name: str, kind: str, known: list[str]) -> UnknownRelationError:
    """The error for a name that is no relation or view of the program, with what would be."""
    close = suggest(name, known)
    hint = f"; did you mean {close!r}?" if close else f"; known: {', '.join(known) or 'none'}"
    return UnknownRelationError(f"no {kind} is called {name!r}{hint}")
