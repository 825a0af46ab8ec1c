"""Recursive views inside the graph: layer 2 as operators of layer 1.

`fixpoint` maintains a program's relations over collections, `Collection.fixpoint` is the same from
one of them, with a program or a step function over edges.

Invariant: all views of one program change in the epoch of their inputs, and an input that is wrong
(an unknown relation, none, two for one) is said before anything joins the graph.

A recursive view feeds collections into the input relations of one program (values are the rows,
whatever their keys, counted) and hands on what changes per relation. When an epoch fails after the
engine committed its part, the opposite transaction takes it back.

A value that some row holds has one number in the kernel; it is free again when the last such row is
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from deltafix import errors
from deltafix.diagnostics import suggest
from deltafix.reactive.changes import Changes, Counts
from deltafix.reactive.collection import Collection
from deltafix.reactive.graph import Graph
from deltafix.reactive.node import Node, contents

if TYPE_CHECKING:
    from deltafix.engine.database import Database
    from deltafix.rules.ast import Program


__all__ = ["FixpointViews", "collection_fixpoint", "fixpoint"]

_REACH = """
.decl edge(source: number, target: number)
.decl root(node: number)
.decl reach(node: number)
.input edge
.input root
.output reach
reach(node) :- root(node).
reach(target) :- reach(source), edge(source, target).
"""


class FixpointViews(Mapping[str, Collection]):
    """The views of one program over collections, by relation name; made by `fixpoint`.

    `database` is the engine behind them: read it (`query`, `last_epoch`, proofs), but do not write
    to it, as its rows belong to the collections.
    """

    def __init__(self, views: dict[str, Collection], database: Database) -> None:
        self._views = views
        self.database = database

    def __getitem__(self, relation: str) -> Collection:
        if relation not in self._views:
            raise unknown_relation(relation, "view", list(self._views))
        return self._views[relation]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


def fixpoint(
    program: Program | str,
    inputs: Mapping[str, Collection] | Collection = MappingProxyType({}),
    *,
    views: Iterable[str] | None = None,
    name: str = "fixpoint",
    **limits: Any,
) -> FixpointViews:
    """Maintain a program's relations over collections.

    Args:
        program: a `deltafix.Program`, or its text.
        inputs: relation name -> the collection whose values are its rows; or one collection whose
            keys are relation names. Relations that the program takes from collections itself
            (`rules.operators.const`) are fed by these.
        views: relations to hand on; those with `.output` by default, or all derived ones if there
            is no `.output`.
        name: how messages call it.
        limits: `strategy`, `max_rows`, `max_rounds`, `timeout`, as for `deltafix.connect`. Over a
            limit the epoch is rolled back in the whole graph.

    Returns:
        relation name -> collection of its rows under the key `()`, each once. All views change in
        the epoch of the inputs. Raises UnknownRelationError, and what `connect` raises.
    """
    from deltafix.engine.connect import connect  # noqa: PLC0415  numba, when first needed

    fed: list[tuple[str | None, Collection]] = (
        [(None, inputs)] if isinstance(inputs, Collection) else [*inputs.items()]
    )
    if not isinstance(program, str) and program.fed:
        for relation, feed in program.fed.items():
            if relation in [name for name, _ in fed]:
                raise errors.ReactiveError(f"relation {relation!r} is fed twice")
            if isinstance(feed, Collection):
                fed.append((relation, feed))
        program = replace(program, fed={})
    if not fed:
        raise errors.ReactiveError(f"{name} needs at least one input collection")
    return _build(connect(program, **limits), None, fed, views, name)


def _build(
    database: Database,
    interner: Interner | None,
    fed: Sequence[tuple[str | None, Collection]],
    views: Iterable[str] | None,
    name: str,
) -> FixpointViews:
    known = list(database.schemas)
    derived = tuple(name for name in _derived(database.program) if name in known)
    chosen = tuple((database.program.names("output") or derived) if views is None else views)
    named = [relation for relation, _ in fed if relation is not None]
    for kind, names in (("relation", named), ("view", chosen)):
        for wanted in names:
            if wanted not in known:
                database.close()
                raise unknown_relation(wanted, kind, known)
    nodes: list[Fixpoint] = []

    def make(graph: Graph) -> Node:
        sources = [(relation, collection._node) for relation, collection in fed]
        nodes.append(Fixpoint(graph, sources, (database, interner), chosen, name))
        return nodes[0]

    (_, first), *others = fed
    root = first._add(make, *(other for _, other in others))
    return FixpointViews(
        {
            relation: root._add(lambda graph, relation=relation: View(graph, nodes[0], relation))  # type: ignore[misc]  # bound per turn
            for relation in chosen
        },
        database,
    )


def _derived(program: Program) -> tuple[str, ...]:
    heads = {head.relation for rule in program.rules for head in rule.heads}
    return tuple(relation.name for relation in program.relations if relation.name in heads)


def collection_fixpoint(
    collection: Collection,
    program: Any,
    inputs: Mapping[str, Collection],
    *,
    relation: str | None,
    view: str | None,
    name: str | None,
) -> Collection:
    """`Collection.fixpoint`: a program, or a step function over edges."""
    if program is None or (callable(program) and not hasattr(program, "relations")):
        return _reach(collection, program, name, inputs)
    fed = dict(inputs)
    if relation is None:
        own = {} if isinstance(program, str) else program.fed
        relation = _only_input(program, {*fed, *own})
    if relation in fed:
        raise errors.ReactiveError(f"relation {relation!r} is fed twice")
    fed[relation] = collection
    views = fixpoint(program, fed, views=None if view is None else (view,), name=name or "fixpoint")
    if view is None and len(views) != 1:
        raise errors.ReactiveError(
            f"the program has {len(views)} views ({', '.join(views)}); say which with view=..."
        )
    return next(iter(views.values()))


def _only_input(program: Any, fed: AbstractSet[str]) -> str:
    """The input relation that no keyword argument feeds, if it is the only one."""
    if isinstance(program, str):
        from deltafix.datalog.program import Program as Text  # noqa: PLC0415  loads the parser

        program = Text.parse(program)
    declared = program.names("input") or tuple(
        relation.name for relation in program.relations if relation.name not in _derived(program)
    )
    free: list[str] = [name for name in declared if name not in fed]
    if len(free) != 1:
        raise errors.ReactiveError(
            f"say which relation this collection feeds with relation=...; free are "
            f"{', '.join(free) or 'none'}"
        )
    return free[0]


def _reach(
    collection: Collection,
    step: Callable[[Any], Any] | None,
    name: str | None,
    inputs: Mapping[str, Collection],
) -> Collection:
    """What can be reached from the values of `roots` along the collection's edges."""
    if list(inputs) != ["roots"]:
        raise errors.ReactiveError(
            "a step function needs roots=..., a collection, and no other; "
            f"given: {', '.join(inputs) or 'none'}"
        )
    label = name or "fixpoint"

    def edges(_: Any, value: Any) -> Iterable[Any]:
        image = value if step is None else step(value)
        pairs = (image,) if isinstance(image, tuple) else image
        return [((), _edge(pair)) for pair in pairs]

    pairs = collection.flat_map(edges, name=f"{label} step")
    from deltafix.engine.connect import connect  # noqa: PLC0415  numba, when first needed

    # A root may itself be a tuple: wrapped, it is a row of one column.
    roots = inputs["roots"].map_values(lambda root: (root,), name=f"{label} roots")
    fed = (("edge", pairs), ("root", roots))
    views = _build(connect(_REACH), Interner(), fed, ("reach",), label)
    return views["reach"]


def _edge(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise errors.ReactiveError(f"a step gives (from, to) pairs, but gave {pair!r}")
    return (pair[0], pair[1])


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
                            errors.ReactiveError(
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
            error = errors.FactError(
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
        except errors.DeltafixError as error:
            raise errors.OperatorError(f"{self.label}: {error}", operator=self.label) from error
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


def unknown_relation(name: str, kind: str, known: list[str]) -> errors.UnknownRelationError:
    """The error for a name that is no relation or view of the program, with what would be."""
    close = suggest(name, known)
    hint = f"; did you mean {close!r}?" if close else f"; known: {', '.join(known) or 'none'}"
    return errors.UnknownRelationError(f"no {kind} is called {name!r}{hint}")


class Interner:
    """value <-> number, with rows counted as holders."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._values: list[Any] = []
        self._holders: list[int] = []
        self._free: list[int] = []

    def take(self, value: Any) -> int:
        """The number of a value, given out now if it has none. O(1)."""
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number] = value
            else:
                number = len(self._values)
                self._values.append(value)
                self._holders.append(0)
            self._numbers[value] = number
        return number

    def value(self, number: int) -> Any:
        """The value that has this number."""
        return self._values[number]

    def hold(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Count these rows of numbers as holders."""
        for row in rows:
            for number in row:
                self._holders[number] += 1

    def release(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Uncount these rows, and free what nobody holds any more."""
        for row in rows:
            for number in row:
                self._holders[number] -= 1
                if not self._holders[number]:
                    self._drop(number)

    def drop_unheld(self) -> None:
        """Free the numbers given out for rows that were taken back."""
        for number in list(self._numbers.values()):
            if not self._holders[number]:
                self._drop(number)

    def _drop(self, number: int) -> None:
        del self._numbers[self._values[number]]
        self._values[number] = None
        self._free.append(number)

    def __len__(self) -> int:
        return len(self._numbers)
