"""What a proof is made of: nodes, and the ways in which a node holds.

Most nodes are facts of the kernel, by number. The others are what a proof has to go through where
a relation does more than keep what its rules derive:

    Live        a row of a stratum beyond plain recursion, also one that has since been replaced, or
                one of a relation that is not kept (`plan.pipelined`)
    Proposal    a row derived for a relation that joins its rows, before it was joined
    Absence     a row that is not in a falling relation (`plan.depend`), because
    OneOf       one of several nodes holds
    Reached     the values that a chain of pairs leads to in an equivalence

A `Way` is one rule instance, or one step of that kind, with the nodes it rests on; together they
are an and-or graph. Invariant: nodes are values; a way says nothing of what other nodes rest on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from deltafix.facts.schema import Row

if TYPE_CHECKING:
    from deltafix.plan.clause import Clause, Literal
    from deltafix.provenance.covers import Cover
    from deltafix.provenance.rows import Bindings
    from deltafix.provenance.search import Derivation

Fact: TypeAlias = int
"""A fact in the kernel's terms: relation number << 32 | row number."""


class Live(NamedTuple):
    """A row of a stratum beyond plain recursion, or of one that is not kept."""

    relation: str
    row: Row
    kind: str = "live"


class Proposal(NamedTuple):
    """A row derived for a relation that joins what is derived for a key."""

    relation: str
    row: Row
    kind: str = "proposal"


class Absence(NamedTuple):
    """A row that is not in a falling relation: all that could derive it is refuted."""

    relation: str
    row: Row
    kind: str = "absence"


class OneOf(NamedTuple):
    """One of several nodes."""

    nodes: tuple[Node, ...]
    kind: str = "one of"


class Reached(NamedTuple):
    """A chain of pairs of an equivalence from one value to another."""

    relation: str
    row: Row
    kind: str = "reached"


Node: TypeAlias = "Fact | Live | Proposal | Absence | OneOf | Reached"


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One way in which a node holds.

    Attributes:
        premises: the nodes it rests on, in the order of the rule's body.
        cost: 1 for a rule with a body, else 0: what it adds to the height of a proof.
        clause: the rule's clause; None where no rule is at work.
        binding: its variables' values or codes.
        says: what its relation makes of the premises, where no rule is at work.
        literals: of the clause, what each premise stands for.
        is_same: whether the one premise is the same row, before its relation chose among rows.
        cover: of the premises only some are needed; which, it says.
    """

    premises: tuple[Node, ...] = ()
    cost: int = 0
    clause: Clause | None = None
    binding: Derivation | Bindings | None = None
    says: str = ""
    literals: tuple[Literal, ...] = ()
    is_same: bool = False
    cover: Cover | None = None

    def each(self, nodes: Iterable[Node]) -> Iterator[Way | None]:
        """The ways that this one stands for, by these of its premises alone. See `Cover.each`."""
        cover = self.cover
        if cover is None:
            yield self
            return
        for taken in cover.each(nodes):
            if taken is None:
                yield None
            else:
                is_same = len(taken) == 1 and cover.values[taken[0]] == cover.goal
                yield replace(self, premises=taken, is_same=is_same, cover=None)


GIVEN = Way()
"""The row is given."""
