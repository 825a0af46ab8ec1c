"""Smallest sets of edits of input rows that make an absent row hold.

Bodies are walked with rows that hold and, for a price of one edit each, input rows that do not:
one edit first, then two, up to a bound. A row that a negation forbids is taken away where it is
given only. Invariant: what is suggested was tried in an epoch that was taken back, and no part of
it is enough; what the bounds cut off is not suggested, so the list may miss some.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

from deltafix.facts.schema import Row
from deltafix.plan.clause import Absent, Clause, Literal, Match
from deltafix.provenance.rows import Bindings, Rows, ground, next_ready, unify, values_of
from deltafix.provenance.search import Fact
from deltafix.provenance.state import Edit, trial

__all__ = ["Repair"]

_ROWS = 64
"""Rows that hold which one literal is tried with; beyond, suggestions differ in a name only."""
_DEPTH = 8
"""Rules under each other that a suggestion may go through."""
_BREAKS = 16

Edits = frozenset[Edit]


class Repair:
    """The search over one state."""

    def __init__(self, rows: Rows, clauses: dict[str, list[Clause]], max_work: int) -> None:
        self.rows = rows
        self.clauses = clauses
        self.max_work = max_work

    def suggestions(
        self, relation: str, row: Row, limit: int, max_edits: int
    ) -> tuple[tuple[Edit, ...], ...]:
        """Up to `limit` sets, smallest first, sorted within a size."""
        found: list[Edits] = []
        tried: set[Edits] = set()
        until = self.rows.looked_at + self.max_work
        for size in range(1, max_edits + 1):
            candidates: set[Edits] = set()
            for edits in self._row(relation, row, frozenset(), size, frozenset()):
                if len(edits) == size:
                    candidates.add(edits)
                if self.rows.looked_at > until or len(candidates) > 50 * limit:
                    break
            for edits in sorted(candidates - tried, key=sorted):
                tried.add(edits)
                if any(smaller <= edits for smaller in found):
                    continue
                if self._works(relation, row, edits):
                    found.append(self._without_spare(relation, row, edits))
                if len(found) == limit:
                    return tuple(map(_ordered, found))
        return tuple(map(_ordered, found))

    def _without_spare(self, relation: str, row: Row, edits: Edits) -> Edits:
        """The set less what it works without: an edit can do more than it was meant for."""
        for edit in sorted(edits):
            if len(edits) > 1 and self._works(relation, row, edits - {edit}):
                edits -= {edit}
        return edits

    def _works(self, relation: str, row: Row, edits: Edits) -> bool:
        with trial(self.rows.state.db, list(_ordered(edits))) as state:
            return state.fact(relation, row) is not None

    def _row(
        self,
        relation: str,
        row: Row,
        edits: Edits,
        size: int,
        above: frozenset[tuple[str, Row]],
    ) -> Iterator[Edits]:
        """Sets of at most `size` edits, `edits` among them, that make a row hold."""
        if self.rows.holds(relation, row) or (1, relation, row) in edits:
            yield edits
            return
        if (relation, row) in above or len(above) == _DEPTH:
            return
        clauses = self.clauses.get(relation, ())
        if not clauses:
            given = relation not in self.rows.words.hidden  # an aggregate's rows are never given
            if given and len(edits) < size and (-1, relation, row) not in edits:
                yield edits | {(1, relation, row)}
            return
        for clause in clauses:
            env = unify(clause.args, row, {})
            if env is not None:
                body = list(clause.body)
                yield from self._body(body, env, edits, size, above | {(relation, row)})

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
        place = self._next(left, env)
        if place is None:
            return
        literal = left[place]
        rest = left[:place] + left[place + 1 :]
        for extended in islice(self.rows.extend(literal, env), _ROWS):
            yield from self._body(rest, extended, edits, size, above)
        if len(edits) >= size:
            return
        if isinstance(literal, Match):
            row = ground(literal, env)
            if row is not None and not self.rows.holds(literal.relation, row):
                for more in self._row(literal.relation, row, edits, size, above):
                    yield from self._body(rest, env, more, size, above)
            elif row is None:
                # Let the rest of the body say which row this should be.
                for after, extended in self._others(rest, env):
                    yield from self._body([literal, *after], extended, edits, size, above)
        elif isinstance(literal, Absent):
            fact = self.rows.state.fact(literal.relation, values_of(literal.args, env))
            if fact is not None:
                for more in self._broken(fact, edits, size):
                    yield from self._body(rest, env, more, size, above)

    def _others(
        self, rest: list[Literal], env: Bindings
    ) -> Iterator[tuple[list[Literal], Bindings]]:
        """What is left after the next literal, and what it binds, if that is something."""
        place = next_ready(rest, env)
        if place is not None and isinstance(rest[place], Match):
            for extended in islice(self.rows.extend(rest[place], env), _ROWS):
                if len(extended) > len(env):
                    yield rest[:place] + rest[place + 1 :], extended

    def _next(self, left: list[Literal], env: Bindings) -> int | None:
        """Tests first, then whole rows, then what is next in the text."""
        for place, literal in enumerate(left):
            if isinstance(literal, Match):
                if ground(literal, env) is not None:
                    return place
            elif next_ready([literal], env) is not None:
                return place
        return next_ready(left, env)

    def _broken(self, fact: Fact, edits: Edits, size: int) -> Iterator[Edits]:
        """Sets of edits with which a row no longer holds: a given row gone from each derivation."""
        state = self.rows.state
        ways: list[list[Edits]] = []
        if state.searcher.is_given(fact):
            ways.append([self._gone(fact)])
        for derivation in state.derivations(fact):
            ways.append(
                [
                    self._gone(part)
                    for part in derivation.body.values()
                    if state.searcher.is_given(part) and not state.derivations(part)
                ]
            )
        for choice in islice(product(*ways), _BREAKS):
            more = edits.union(*choice)
            if len(more) <= size:
                yield more

    def _gone(self, fact: Fact) -> Edits:
        searcher = self.rows.state.searcher
        relation = searcher.names[fact >> 32]
        return frozenset({(-1, relation, self.rows.words.row(relation, searcher.codes(fact)))})


def _ordered(edits: Edits) -> tuple[Edit, ...]:
    """In a stable order: what goes first, then what comes."""
    return tuple(sorted(edits))
