"""Which rows stand against a row of a relation that does not keep all rows derived for it.

Outside recursion the clauses that `plan.keep` made say it; inside, the relation's merge. Invariant:
a rival is derived or given, and while it is, the row asked about is not its relation's. A join of
several rows may have no rival that could go alone; then the row that stands in its place is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltafix.facts.schema import Row
from deltafix.plan.clause import Absent, Choice, Match, Subsumption
from deltafix.provenance.nodes import Node
from deltafix.provenance.rows import same_key, unify, values_of
from deltafix.provenance.ways import Ways


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
                    found = unify(beaten.args, values_of(literal.args, env), {})
                    if found is None:
                        continue
                    rest = beaten.body[1:]
                    place = next(n for n, part in enumerate(rest) if isinstance(part, Match))
                    for _, matched in ways.rows.solutions(rest, found):
                        node = ways.node(entry, matched[place])
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
