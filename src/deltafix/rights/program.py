"""A model's graph as rules: input relations for tuples, and views of the relations that are kept.

For each kind of user that a kept node can have (`user` below), there are up to four relations:

    document#viewer|user      (user, object): a user who is named somewhere, and may
    document#viewer|user:*    (object): everyone who is not named may
    document#viewer|?user     (user, object): a user who is named somewhere: by a tuple that counts
    document#viewer|-user     (user, object): everyone may, but not this user

Invariant: a user who is not named at an object may what `user:*` may there; so the views are as
large as what tuples name, never users times objects. Where nothing is excluded or intersected,
being named is enough, and `|?user` is `|user`.

Where tuples with conditions are below a node, tuples alone do not decide it, but they say between
what it lies. Its view holds what is so whatever the conditions are: tuples with one count for
nothing, and in what is excluded they all count. A second view, its `possible`, holds what is so for
some: tuples with conditions count, and none in what is excluded. Its relations have `~` for `|`.
Both are maintained; a question that lies between them is searched in its context.

Nothing is derived for other nodes: they are searched (`search`). For that search each input
relation has an index on each of its columns, and one on both but the context; rules that read
`asked` and `asked both`, which stay empty, are there to ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deltafix.rights.graph import Graph, Leaf, Node
from deltafix.rules.ast import (
    Atom,
    Attribute,
    Directive,
    Formula,
    Not,
    Program,
    RelationDecl,
    Rule,
    conjunction,
    disjunction,
)
from deltafix.rules.terms import Var

_USER, _OBJECT, _VIA, _CONTEXT = Var("user"), Var("object"), Var("via"), Var("context")
_ASKED, _BOTH, _FOUND = "asked", "asked both", "found"


@dataclass(frozen=True, slots=True)
class View:
    """The relations of a kept node for one type of users; an empty name: none can have rows.

    `possible`: the view of what some conditions allow; None where there are no conditions.
    """

    node: int
    type: str
    holds: str
    everyone: str
    named: str
    excepted: str = ""
    possible: View | None = None

    @property
    def both(self) -> tuple[View, ...]:
        """This view and its `possible`."""
        return (self,) if self.possible is None else (self, self.possible)


def program_of(graph: Graph, kept: Iterable[int]) -> tuple[Program, dict[tuple[int, str], View]]:
    """The program that keeps some nodes, and the views of these and of all that they rest on.

    O(rules).
    """
    kept = set(kept)
    views = _views(graph, graph.below(kept), kept)
    rules = [
        rule
        for view in views.values()
        for sure, variant in zip((True, False), view.both, strict=False)
        for rule in _Rules(graph, views, variant, sure=sure).all()
    ]
    sources = graph.sources()
    declared = [_declared(name, source.columns) for name, source in sources.items()]
    inputs = [relation.name for relation in declared]
    every = [variant for view in views.values() for variant in view.both]
    for view in every:
        for name in dict.fromkeys((view.holds, view.named, view.excepted)):
            if name:
                declared.append(_declared(name, ("user", "object")))
        if view.everyone:
            declared.append(_declared(view.everyone, ("object",)))
    wide = {name: source.columns for name, source in sources.items() if len(source.columns) > 1}
    for view in every:
        if view.node in kept:
            wide |= {name: ("user", "object") for name in (view.holds, view.excepted) if name}
    both = ("user", "object")
    declared += [_declared(_ASKED, ("user",)), _declared(_BOTH, both), _declared(_FOUND, both)]
    for name, columns in wide.items():
        atom = Atom(name, tuple(map(Var, columns)))
        demands = [Atom(_ASKED, (Var(column),)) for column in columns if column != "context"]
        if len(columns) == 3:
            demands.append(Atom(_BOTH, (_USER, _OBJECT)))
        for demand in demands:
            rules.append(Rule((Atom(_FOUND, atom.args[:2]),), conjunction([demand, atom])))
    directives = tuple(Directive("input", name) for name in (*inputs, _ASKED, _BOTH))
    return Program(tuple(declared), tuple(rules), directives), views


def _declared(name: str, columns: Iterable[str]) -> RelationDecl:
    return RelationDecl(name, tuple(Attribute(column, "symbol") for column in columns))


def _views(graph: Graph, nodes: list[int], kept: set[int]) -> dict[tuple[int, str], View]:
    named = _named(graph, nodes)
    views: dict[tuple[int, str], View] = {}
    for number in nodes:
        node = graph.nodes[number]
        label = node.label if node.name else f"{node.label}/{number}"
        public = {kind.removesuffix(":*") for kind in node.subjects if kind.endswith(":*")}
        for kind in sorted(named[number] | public):
            variant: View | None = None
            for mark in "~|" if node.is_conditional else "|":
                holds = f"{label}{mark}{kind}" if kind in named[number] else ""
                everyone = f"{label}{mark}{kind}:*" if kind in public else ""
                among = f"{label}{mark}?{kind}" if holds and node.negates else holds
                excepted = f"{label}{mark}-{kind}" if among and everyone and node.negates else ""
                variant = View(
                    number,
                    kind,
                    holds,
                    everyone,
                    among,
                    excepted if number in kept else "",
                    variant,
                )
            assert variant is not None  # noqa: S101  there is a mark
            views[number, kind] = variant
    return views


def _named(graph: Graph, nodes: list[int]) -> dict[int, set[str]]:
    """The types of users that tuples can name on the way to each node; they may be excluded."""
    named: dict[int, set[str]] = {number: set() for number in nodes}
    grows = True
    while grows:
        grows = False
        for number in nodes:
            node = graph.nodes[number]
            types = {leaf.type for leaf in node.leaves if leaf.kind == "user"}
            for target in node.below:
                types |= named[target]
            if node.kind != "union":
                needed = [graph.nodes[target] for target in node.needed]
                types = {kind for kind in types if all(part.may_have(kind) for part in needed)}
            if not types <= named[number]:
                named[number] |= types
                grows = True
    return named


class _Rules:
    """The rules of one view: of what is sure, or of what is possible."""

    def __init__(
        self, graph: Graph, views: dict[tuple[int, str], View], view: View, *, sure: bool
    ) -> None:
        self.view = view
        self.views = views
        self.graph = graph
        self.sure = sure
        self.node: Node = graph.nodes[view.node]

    def _below(self, number: int, *, excluded: bool = False) -> View | None:
        """The view of a node below: what it may be is excluded from what is sure."""
        view = self.views.get((number, self.view.type))
        if view is None or self.sure is not excluded:
            return view
        return view.possible or view

    def all(self) -> Iterator[Rule]:
        """Those of each of its relations."""
        if self.node.kind == "union":
            for leaf in self.node.leaves:
                if not (leaf.condition and self.sure):
                    yield from self._leaf(leaf)
        elif self.node.kind == "and":
            yield from self._intersection()
        else:
            yield from self._exclusion()
        view = self.view
        if view.excepted:
            body = [self._pair(view.named), Atom(view.everyone, (_OBJECT,))]
            yield self._rule(view.excepted, [*body, Not(self._pair(view.holds))])

    # --- unions ------------------------------------------------------------------------------

    def _leaf(self, leaf: Leaf) -> Iterator[Rule]:
        view = self.view
        if leaf.kind == "user":
            if leaf.type == view.type:
                yield from self._given([self._tuples(leaf, _USER, _OBJECT)])
        elif leaf.kind == "everyone":
            if leaf.type == view.type:
                source = self._tuples(leaf, _OBJECT)
                yield self._all([source])
                if view.named != view.holds:
                    yield self._rule(view.holds, [self._pair(view.named), source])
        else:
            for target in leaf.targets:
                below = self._below(target)
                if below is not None:
                    yield from self._target(leaf, below)

    def _target(self, leaf: Leaf, below: View) -> Iterator[Rule]:
        view = self.view
        at = _OBJECT if leaf.kind == "computed" else _VIA
        edge = [] if leaf.kind == "computed" else [self._tuples(leaf, _VIA, _OBJECT)]
        if below.holds:
            holds = Atom(below.holds, (_USER, at))
            if view.named == view.holds:
                yield self._rule(view.holds, [*edge, holds])
            else:
                yield self._rule(view.named, [*edge, Atom(below.named, (_USER, at))])
                yield self._rule(view.holds, [*edge, holds])
        if below.everyone:
            yield self._all([*edge, Atom(below.everyone, (at,))])
            if view.named != view.holds:
                body = [self._pair(view.named), *edge, self._unnamed(below, at)]
                yield self._rule(view.holds, body)

    def _given(self, body: list[Formula]) -> Iterator[Rule]:
        for name in dict.fromkeys((self.view.named, self.view.holds)):
            yield self._rule(name, body)

    def _unnamed(self, below: View, at: Var) -> Formula:
        """Everyone may at `at`, the user too; where the user is named, other rules say so."""
        everyone = Atom(below.everyone, (at,))
        if below.named == below.holds:
            return everyone
        return conjunction([everyone, Not(Atom(below.named, (_USER, at)))])

    # --- intersections and exclusions ----------------------------------------------------------

    def _intersection(self) -> Iterator[Rule]:
        view = self.view
        parts = [self._below(number) for number in self.node.operands]
        views_ = [part for part in parts if part is not None]
        if len(views_) < len(parts):
            return
        if view.named:
            # Named at the whole: named at one part, and no part is out of reach.
            for index, part in enumerate(views_):
                if part.named:
                    rest = [other_part for other, other_part in enumerate(views_) if other != index]
                    reach = [self._reached(other_part) for other_part in rest]
                    yield self._rule(view.named, [self._pair(part.named), *reach])
            may = [self._may(part) for part in views_]
            yield self._rule(view.holds, [self._pair(view.named), *may])
        if view.everyone:
            yield self._all([Atom(part.everyone, (_OBJECT,)) for part in views_])

    def _exclusion(self) -> Iterator[Rule]:
        view = self.view
        base = self._below(self.node.operands[0])
        assert base is not None  # noqa: S101  what is had is had of it
        excluded = self._below(self.node.operands[1], excluded=True)
        if view.named:
            if base.named:
                yield self._rule(view.named, [self._pair(base.named)])
            if base.everyone and excluded is not None and excluded.named:
                body = [self._pair(excluded.named), Atom(base.everyone, (_OBJECT,))]
                yield self._rule(view.named, body)
            may_not = [] if excluded is None else self._may_not(excluded)
            yield self._rule(view.holds, [self._pair(view.named), self._may(base), *may_not])
        if view.everyone:
            everyone: list[Formula] = [Atom(base.everyone, (_OBJECT,))]
            if excluded is not None and excluded.everyone:
                everyone.append(Not(Atom(excluded.everyone, (_OBJECT,))))
            yield self._all(everyone)

    def _reached(self, part: View) -> Formula:
        ways: list[Formula] = [self._pair(part.named)] if part.named else []
        if part.everyone:
            ways.append(Atom(part.everyone, (_OBJECT,)))
        return disjunction(ways)

    def _may(self, part: View) -> Formula:
        ways: list[Formula] = [self._pair(part.holds)] if part.holds else []
        if part.everyone:
            ways.append(self._unnamed(part, _OBJECT) if part.named else self._every(part))
        return disjunction(ways)

    def _may_not(self, part: View) -> list[Formula]:
        literals: list[Formula] = [Not(self._pair(part.holds))] if part.holds else []
        if part.everyone:
            nobody: Formula = Not(self._every(part))
            if part.named and part.named != part.holds:
                nobody = disjunction([nobody, self._pair(part.named)])
            literals.append(nobody)
        return literals

    # --- words -------------------------------------------------------------------------------

    @staticmethod
    def _tuples(leaf: Leaf, *terms: Var) -> Atom:
        return Atom(leaf.source, (*terms, _CONTEXT) if leaf.condition else terms)

    @staticmethod
    def _every(part: View) -> Atom:
        return Atom(part.everyone, (_OBJECT,))

    @staticmethod
    def _pair(name: str) -> Atom:
        return Atom(name, (_USER, _OBJECT))

    @staticmethod
    def _rule(head: str, body: Iterable[Formula]) -> Rule:
        return Rule((Atom(head, (_USER, _OBJECT)),), conjunction(body))

    def _all(self, body: Iterable[Formula]) -> Rule:
        return Rule((Atom(self.view.everyone, (_OBJECT,)),), conjunction(body))
