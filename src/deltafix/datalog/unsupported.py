"""Constructs of Soufflé's language that deltafix reads but does not run yet, one row each.

Invariant: such a construct is parsed far enough to be refused by name, once per program, and never
shows up as a confusing syntax error. Supporting one means deleting its row and its parsing stub.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["UNSUPPORTED", "Unsupported"]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """How a construct is refused: code, words, what to do instead, and how hard."""

    code: str
    what: str
    help: str
    severity: str = "error"


UNSUPPORTED: Final[dict[str, Unsupported]] = {
    "record": Unsupported(
        "DF150", "records are not supported yet", "give each field its own column"
    ),
    "adt": Unsupported(
        "DF151", "algebraic data types are not supported yet", "give each branch its own relation"
    ),
    "eqrel": Unsupported(
        "DF153",
        "eqrel relations are not supported yet",
        "add the rules r(y, x) :- r(x, y) and r(x, z) :- r(x, y), r(y, z)",
    ),
    "subsumption": Unsupported(
        "DF154",
        "subsumption (`<=` between heads) is not supported yet",
        "use a min or max aggregate",
    ),
    "choice": Unsupported(
        "DF155", "choice-domain is not supported yet", "choose with a min or max aggregate"
    ),
    "lattice": Unsupported("DF156", "lattices are not supported yet", "use a min or max aggregate"),
    "functor": Unsupported(
        "DF157",
        "user-defined functors and aggregates are not supported yet",
        "compute the values before inserting the rows",
    ),
    "generator": Unsupported(
        "DF158",
        "the functors `range`, `autoinc` and `ord` are not supported yet",
        "give the values as rows of an input relation",
    ),
    "plan": Unsupported(
        "DF159",
        ".plan has no effect: deltafix chooses the join order while it runs",
        "remove the line, or leave it for Soufflé",
        "warning",
    ),
}
