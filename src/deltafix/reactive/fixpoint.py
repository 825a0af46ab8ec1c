"""Recursive views inside the graph: layer 2 as operators of layer 1.

`fixpoint` maintains a program's relations over collections, `Collection.fixpoint` is the same from
one of them, with a program or a step function over edges. The operators themselves are in
`fixpoint_node`.

Invariant: all views of one program change in the epoch of their inputs, and an input that is wrong
(an unknown relation, none, two for one) is said before anything joins the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from deltafix.errors import ReactiveError
from deltafix.reactive.collection import Collection
from deltafix.reactive.fixpoint_node import Fixpoint, View, unknown_relation
from deltafix.reactive.graph import Graph
from deltafix.reactive.interner import Interner
from deltafix.reactive.node import Node

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
                raise ReactiveError(f"relation {relation!r} is fed twice")
            if isinstance(feed, Collection):
                fed.append((relation, feed))
        program = replace(program, fed={})
    if not fed:
        raise ReactiveError(f"{name} needs at least one input collection")
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
    made: list[Fixpoint] = []

    def make(graph: Graph) -> Node:
        sources = [(relation, collection._node) for relation, collection in fed]
        made.append(Fixpoint(graph, sources, (database, interner), chosen, name))
        return made[0]

    (_, first), *others = fed
    root = first._add(make, *(other for _, other in others))
    return FixpointViews(
        {
            relation: root._add(lambda graph, relation=relation: View(graph, made[0], relation))  # type: ignore[misc]  # bound per turn
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
        raise ReactiveError(f"relation {relation!r} is fed twice")
    fed[relation] = collection
    views = fixpoint(program, fed, views=None if view is None else (view,), name=name or "fixpoint")
    if view is None and len(views) != 1:
        raise ReactiveError(
            f"the program has {len(views)} views ({', '.join(views)}); say which with view=..."
        )
    return next(iter(views.values()))


def _only_input(program: Any, fed: AbstractSet[str]) -> str:
    """The input relation that no keyword argument feeds, if it is the only one."""
    if isinstance(program, str):
        from deltafix.datalog.program import Program as Text  # noqa: PLC0415  loads the parser

        program = Text.parse(program)
    declared = program.names("input") or tuple(
        one.name for one in program.relations if one.name not in _derived(program)
    )
    free: list[str] = [one for one in declared if one not in fed]
    if len(free) != 1:
        raise ReactiveError(
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
        raise ReactiveError(
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
        raise ReactiveError(f"a step gives (from, to) pairs, but gave {pair!r}")
    return (pair[0], pair[1])
