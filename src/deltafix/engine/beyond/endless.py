"""Values that get better without end: a best value that rests on a worse one of its own key.

Where values follow from others by what is added to them alone (`RelationDecl.shifts`), the way from
a key's value to a better one of it can be gone again from that one: it is no matter of time. Asked
when values have got better many times (`best.OFTEN`). Invariant: what is refused has no fixpoint;
what has one is never refused, since the way is found, not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltafix.engine.beyond.best import BestRows
from deltafix.engine.beyond.facts import Fact
from deltafix.engine.beyond.wiring import Wiring, premises
from deltafix.errors import EndlessDataError
from deltafix.facts.schema import Row, show_row
from deltafix.plan.clause import Clause

_Fact = tuple[str, Row]


def require_end(wiring: Wiring, clauses: Sequence[Clause], doubted: Fact) -> None:
    """Raise EndlessDataError if a fact that this one follows from rests on a worse one of its key.

    O(derivations).
    """
    least: dict[_Fact, tuple[int, tuple[_Fact, ...]]] = {}
    for clause in clauses:
        for row, rank, body in premises(wiring, clause):
            known = least.get((clause.head, row))
            if known is None or rank < known[0]:  # ranks only fall on the way
                least[clause.head, row] = rank, body
    rows = doubted.home
    assert isinstance(rows, BestRows)  # noqa: S101  which alone doubts
    way: dict[Any, Fact] = {rows.key(doubted.row): doubted}
    body = least.get((rows.name, doubted.row), (0, ()))[1]
    while len(body) == 1:  # each value follows from one other
        (premise,) = body
        if premise[0] == rows.name:
            fact = rows.facts.by_row[premise[1]]
            better = way.setdefault(rows.key(fact.row), fact)
            if rows.better(better, fact):
                raise _endless(better, fact, list(way.values()))
        body = least.get(premise, (0, ()))[1]


def _endless(better: Fact, worse: Fact, way: list[Fact]) -> EndlessDataError:
    """The error for a value that follows from a worse one of its key; `way` has those between."""
    name = better.home.name
    cycle = [(name, fact.row) for fact in (*way[way.index(better) :], worse)]
    shown = " from ".join(show_row(*name_and_row) for name_and_row in (cycle[0], cycle[-1]))
    message = (
        f"a best value follows from a worse one of its key, {shown}, and so gets better without "
        "end; rolled back: leave out the rows on the way round"
    )
    return EndlessDataError(message, tuple(cycle), relations=(name,))
