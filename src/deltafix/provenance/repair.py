"""Smallest sets of edits of input rows that make an absent row hold.

Bodies are walked with rows that hold and, for a price of one edit each, input rows that do not:
one edit first, then two, up to a bound. A row that stands against it, under a negation or in a
relation that does not keep all rows, is taken away by what each of its ways rests on. Invariant:
what is suggested was tried in an epoch that was taken back, and no part of it is enough; what the
bounds cut off is not suggested, so the list may miss some. Columns of records that nothing looks at
are `nil`, which is SQL's NULL; other ones that nothing says leave a row without a suggestion.

A rival of a row stands against it in a relation that does not keep all rows derived for it: while
it is there, the row is not. A join of several rows may have no rival that could go alone; then the
row that stands in its place is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice, product

from deltafix.facts.schema import Row
from deltafix.facts.values import row_order
from deltafix.plan.clause import (
    Absent,
    Argument,
    Choice,
    Code,
    Literal,
    Match,
    Slot,
    Subsumption,
    slots_of,
)
from deltafix.provenance.nodes import GIVEN, Node, Way
from deltafix.provenance.rows import (
    Bindings,
    ground,
    next_ready,
    opened,
    same_key,
    tests_first,
    unify,
    values_of,
)
from deltafix.provenance.state import Edit, trial
from deltafix.provenance.ways import Ways

_ROWS = 64
"""Rows that hold which one literal is tried with; beyond, suggestions differ in a name only."""
_DEPTH = 8
"""Rules under each other that a suggestion may go through."""
_BREAKS = 16

Edits = frozenset[Edit]


class Repair:
    """The search over one state."""

    def __init__(self, ways: Ways, max_work: int) -> None:
        self.ways = ways
        self.words = ways.words
        self.rows = ways.rows
        self.until = self.rows.looked_at + max_work
        self._depths: dict[Edit, int] = {}  # how many rows it is below the one that is asked about

    def suggestions(
        self, relation: str, row: Row, limit: int, max_edits: int
    ) -> tuple[tuple[Edit, ...], ...]:
        """Up to `limit` sets, smallest first; within a size what is near before what is far."""
        suggested: dict[Edits, None] = {}
        tried: set[Edits] = set()
        for size in range(1, max_edits + 1):
            candidates: set[Edits] = set()
            for edits in self._row(relation, row, frozenset(), size, frozenset()):
                if len(edits) == size:
                    candidates.add(edits)
                if len(candidates) > 50 * limit:
                    break
            for edits in sorted(candidates - tried, key=self._ordered_set):
                if any(smaller <= edits for smaller in suggested):
                    continue
                enough = self._enough(relation, row, edits, tried)
                if enough is not None:
                    suggested[enough] = None
                if len(suggested) == limit:
                    break
            if len(suggested) == limit:
                break
        in_order = sorted(suggested, key=lambda edits: (len(edits), self._ordered_set(edits)))
        return tuple(self._decoded(edits) for edits in in_order)

    def _enough(self, relation: str, row: Row, edits: Edits, tried: set[Edits]) -> Edits | None:
        """A least part of a set that is enough: an edit can do more than it was meant for."""
        for size in range(1, len(edits) + 1):
            for part in map(frozenset, combinations(self._ordered(edits), size)):
                if part in tried:
                    continue
                tried.add(part)
                if self._works(relation, row, part):
                    return part
        return None

    def _works(self, relation: str, row: Row, edits: Edits) -> bool:
        with trial(self.ways.state.db, list(self._decoded(edits))) as state:
            return state.fact(relation, row) is not None

    def _decoded(self, edits: Edits) -> tuple[Edit, ...]:
        """Edits in order, of rows as users have them."""
        decoded = self.words.decoded
        return tuple((sign, name, decoded(name, row)) for sign, name, row in self._ordered(edits))

    def _row(
        self,
        relation: str,
        row: Row,
        edits: Edits,
        size: int,
        above: frozenset[tuple[str, Row]],
    ) -> Iterator[Edits]:
        """Sets of at most `size` edits, `edits` among them, that may make a row hold."""
        name = self.words.names[relation]
        self.rows.looked_at += 1
        if self.rows.holds(relation, row) or (1, name, row) in edits:
            yield edits
            return
        if (name, row) in above or len(above) == _DEPTH or self.rows.looked_at > self.until:
            return
        for begun in self._against(relation, row, edits, size):
            yield from self._derived(relation, row, begun, size, above | {(name, row)})

    def _derived(
        self,
        relation: str,
        row: Row,
        edits: Edits,
        size: int,
        above: frozenset[tuple[str, Row]],
    ) -> Iterator[Edits]:
        """Sets of edits with which a rule derives a row, or with which it is given."""
        entry = self.words.plan.given.get(relation)
        if entry is not None and self.rows.holds(entry, row):
            yield edits  # derived or given already: only its rivals are in the way
        for wanted in islice(self._pairs(relation, row), _ROWS):
            yield from self._by_rules(relation, wanted, edits, size, above)

    def _by_rules(
        self,
        relation: str,
        row: Row,
        edits: Edits,
        size: int,
        above: frozenset[tuple[str, Row]],
    ) -> Iterator[Edits]:
        name = self.words.names[relation]
        clauses = self.words.rules_for(relation)
        if not clauses and name in self.ways.state.db.schemas:
            if len(edits) < size and (-1, name, row) not in edits:
                yield self._noted(edits | {(1, name, row)}, edits, above)
            return
        for clause in clauses:
            env = unify(clause.args, row, {})
            begun = None if env is None else opened(clause.body, env)
            if begun is not None:
                body = [part for part in begun[0] if not self.words.is_guard(part)]
                yield from self._body(body, begun[1], edits, size, above)

    def _noted(self, more: Edits, edits: Edits, above: frozenset[tuple[str, Row]]) -> Edits:
        """The edits, of which those that came are noted to be so far below."""
        for edit in more - edits:
            self._depths[edit] = min(len(above), self._depths.get(edit, len(above)))
        return more

    def _pairs(self, relation: str, row: Row) -> Iterator[Row]:
        """The row; in an equivalence also the pairs that would make one class of two."""
        yield row
        if self.words.keeps.get(relation) != "eqrel":
            return
        classes = [
            [value, *(other for _, other in self.rows.fitting(relation, (value, ...)))]
            for value in row
        ]
        for pair in product(*classes):
            for candidate in (pair, pair[::-1]):
                if candidate != row:
                    yield candidate

    def _against(self, relation: str, row: Row, edits: Edits, size: int) -> Iterator[Edits]:
        """Sets of edits with which nothing stands against a row of its relation any more."""
        begun: list[Edits] = [edits]
        for rival in dict.fromkeys(rivals(self.ways, relation, row)):
            begun = [
                more for edit_set in begun for more in self._gone(rival, edit_set, size, _DEPTH)
            ][:_BREAKS]
        yield from dict.fromkeys(begun)

    def _body(
        self,
        left: list[Literal],
        env: Bindings,
        edits: Edits,
        size: int,
        above: frozenset[tuple[str, Row]],
    ) -> Iterator[Edits]:
        if not left:
            yield edits
            return
        index = tests_first(left, env)
        if index is None or self.rows.looked_at > self.until:
            return
        literal = left[index]
        rest = left[:index] + left[index + 1 :]
        for extended in islice(self.rows.extend(literal, env), _ROWS):
            yield from self._body(rest, extended, edits, size, above)
        if len(edits) >= size:
            return
        if isinstance(literal, Match):
            row = self._meant(literal, rest, env)
            if row is not None and not self.rows.holds(literal.relation, row):
                for more in self._row(literal.relation, row, edits, size, above):
                    yield from self._body(rest, env, more, size, above)
            elif row is None:
                # Let the rest of the body say which row this should be.
                for after, extended in self._others(rest, env):
                    yield from self._body([literal, *after], extended, edits, size, above)
        elif isinstance(literal, Absent):
            node = self.ways.node(literal.relation, values_of(literal.args, env))
            if node is not None:
                for more in islice(self._gone(node, edits, size, _DEPTH), _BREAKS):
                    yield from self._body(rest, env, self._noted(more, edits, above), size, above)

    def _meant(self, literal: Match, rest: list[Literal], env: Bindings) -> Row | None:
        """The one row that a literal means; `nil` for records that nothing else looks at."""
        row = ground(literal, env)
        schema = self.ways.state.db.schemas.get(self.words.names[literal.relation])
        if row is not None or schema is None or schema.arity != len(literal.args):
            return row
        bound = {*env, *(slot for other in rest for slot in slots_of(other))}
        args: list[Argument | None] = []
        for arg, column in zip(literal.args, schema.columns, strict=True):
            is_free = arg is None or (isinstance(arg, Slot) and arg not in bound)
            has_nil = column.shape is not None and column.shape.has_nil
            args.append(Code(None, column.type) if is_free and has_nil else arg)
        return ground(replace(literal, args=tuple(args)), env)

    def _others(
        self, rest: list[Literal], env: Bindings
    ) -> Iterator[tuple[list[Literal], Bindings]]:
        """What is left after the next literal, and what it binds, if that is something."""
        index = next_ready(rest, env)
        if index is not None and isinstance(rest[index], Match):
            for extended in islice(self.rows.extend(rest[index], env), _ROWS):
                if len(extended) > len(env):
                    yield rest[:index] + rest[index + 1 :], extended

    def _gone(self, node: Node, edits: Edits, size: int, depth: int) -> Iterator[Edits]:
        """Sets of edits, `edits` among them, with which a node holds in none of its ways."""
        begun: list[Edits] = [edits]
        ways = (choice for way in self.ways.of(node) for choice in way.each(way.premises))
        for way in islice(ways, _ROWS):
            if way is None:
                continue
            begun = [
                more
                for edit_set in begun
                for more in (
                    self._taken(node, edit_set, size)
                    if way is GIVEN
                    else self._broken(way, edit_set, size, depth)
                )
            ]
            begun = list(dict.fromkeys(begun))[:_BREAKS]
        yield from begun

    def _taken(self, node: Node, edits: Edits, size: int) -> Iterator[Edits]:
        """The edits and the one that takes a given row away."""
        fact = self.ways.shown(node)
        if fact is not None:
            more = edits | {(-1, *fact)}
            if len(more) <= size:
                yield more

    def _broken(self, way: Way, edits: Edits, size: int, depth: int) -> Iterator[Edits]:
        """Sets of edits with which one of the premises of a way does not hold."""
        for premise in way.premises if depth else ():
            yield from islice(self._gone(premise, edits, size, depth - 1), _BREAKS)

    def _ordered(self, edits: Edits) -> tuple[Edit, ...]:
        """In a stable order: what goes first, then what comes."""
        return tuple(sorted(edits, key=self._key))

    def _ordered_set(self, edits: Edits) -> tuple[int, list[object]]:
        far = max(self._depths.get(edit, 0) for edit in edits)
        return far, [self._key(edit) for edit in self._ordered(edits)]

    def _key(self, edit: Edit) -> tuple[int, str, Row]:
        sign, relation, row = edit
        order = row_order(self.words.types[relation])
        return sign, relation, row if order is None else order(row)


def rivals(ways: Ways, relation: str, row: Row) -> Iterator[Node]:
    """The rivals of a row, whether or not it is derived itself; some more than once."""
    if relation in ways.words.entries:
        yield from _in_clauses(ways, relation, row)
    elif relation in ways.words.keeps:
        yield from _in_merge(ways, relation, row)


def _in_clauses(ways: Ways, relation: str, row: Row) -> Iterator[Node]:
    """`r(x) :- raw(x), !beaten(x).` and `beaten(x) :- raw(x), raw(y), ….`: the rows `y`.

    A choice of several domains is a chain of these: what one leaves is what the next looks at.
    """
    clauses, entry = ways.words.clauses, ways.words.entries[relation]
    stage = relation
    while stage != entry:
        before = entry
        for clause in clauses[stage]:
            env = unify(clause.args, row, {}) or {}
            for literal in clause.body:
                if isinstance(literal, Match):
                    before = literal.relation
                if not isinstance(literal, Absent):
                    continue
                for beaten in clauses[literal.relation]:
                    binding = unify(beaten.args, values_of(literal.args, env), {})
                    if binding is None:
                        continue
                    rest = beaten.body[1:]
                    index = next(n for n, part in enumerate(rest) if isinstance(part, Match))
                    for _, matched in ways.rows.solutions(rest, binding):
                        node = ways.node(entry, matched[index])
                        if node is not None:
                            yield node
        stage = before


def _in_merge(ways: Ways, relation: str, row: Row) -> Iterator[Node]:
    merge = ways.words.merges[relation]
    width = len(ways.words.types[relation])
    if isinstance(merge, Subsumption):
        for order in merge.orders:
            env = unify(order.less, row, {})
            if env is None:
                continue
            body = (Match(relation, order.more), *order.body)
            for _, matched in ways.rows.solutions(body, env):
                if matched[0] != row and (node := ways.node(relation, matched[0])) is not None:
                    yield node
        return
    keys = merge.keys if isinstance(merge, Choice) else (merge.key(width),)
    for key in keys:
        for other in ways.rows.fitting(relation, same_key(row, key)):
            if other != row and (node := ways.node(relation, other)) is not None:
                yield node
