"""What a database is asked about its rows; answered by `provenance`, a layer above this one.

The module that answers is named by text and loaded at the first question, so that imports go
downwards only and a database that is never asked loads nothing. Invariant: a question changes
nothing that a reader or a later epoch could see.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload
from weakref import ref

from deltafix.errors import ExplanationError
from deltafix.facts.schema import Row

if TYPE_CHECKING:
    from deltafix.engine.changes import Edited
    from deltafix.provenance.proof import Proof
    from deltafix.provenance.why_not import WhyNot

_ANSWERS = "deltafix.provenance.ask"


def answer(question: str, *args: Any, **options: Any) -> Any:
    """Have the layer above answer a question."""
    return getattr(import_module(_ANSWERS), question)(*args, **options)


def cause_in(known: ref[Any], edited: Edited, *args: Any, **options: Any) -> Any:
    """Answer `Delta.why` of a delta of a database, which that does not keep alive."""
    database = known()
    if database is None:
        raise ExplanationError("the database of this delta is gone")
    return answer("cause", database, edited, *args, **options)


class Questions:
    """The questions of a `Database`."""

    @overload
    def why(
        self,
        fact: str,
        row: Row | None = None,
        *,
        all: Literal[False] = False,
        limit: int = 10,
        max_steps: int = 10_000,
        max_work: int = 2_000_000,
    ) -> Proof: ...

    @overload
    def why(
        self,
        fact: str,
        row: Row | None = None,
        *,
        all: Literal[True],
        limit: int = 10,
        max_steps: int = 10_000,
        max_work: int = 2_000_000,
    ) -> list[Proof]: ...

    def why(
        self,
        fact: str,
        row: Row | None = None,
        *,
        all: bool = False,  # noqa: A002  reads as a question: why(fact, all=True)
        limit: int = 10,
        max_steps: int = 10_000,
        max_work: int = 2_000_000,
    ) -> Proof | list[Proof]:
        """Why a row holds: `db.why('path("a", "c")')` or `db.why("path", ("a", "c"))`.

        Answers with a proof of least height (rules on the longest way down to a given row); of
        those, one with few steps. Found when asked, from ranks and indexes: the facts that it
        could rest on are searched breadth first. Where no index of the plan leads from a rule's
        head to its body, rows are chained for it, once an epoch: O(rows of that relation).

        Args:
            fact: one row as program text, or the name of its relation.
            row: its values, where `fact` is a name.
            all: give a list of different proofs, by height; in each, a fact has one derivation.
            limit: at most so many.
            max_steps: facts that a proof may have.
            max_work: rows and derivations to look at; beyond, a proof by rank is given, and its
                `is_smallest` is False.

        Raises:
            NoSuchFactError: the row does not hold.
            ProofBoundError: the proof has more than `max_steps` facts.
            ProgramError, UnknownRelationError, FactError: the text or the row does not fit.
        """
        given = {"limit": limit, "max_steps": max_steps, "max_work": max_work}
        proofs: Proof | list[Proof] = answer("why", self, fact, row, several=all, **given)
        return proofs

    def why_not(
        self,
        fact: str,
        row: Row | None = None,
        *,
        limit: int = 5,
        max_depth: int = 3,
        max_edits: int = 3,
        max_work: int = 100_000,
    ) -> WhyNot:
        """Why a row does not hold, rule by rule, and which input rows would make it hold.

        For each rule that could derive it: the longest beginning of its body that some rows fit,
        and the first literal that fails, explained in turn. Suggestions are smallest sets of
        edits of input rows; each was tried in an epoch that was taken back.

        Args:
            fact: one row as program text, or the name of its relation.
            row: its values, where `fact` is a name.
            limit: at most so many suggestions.
            max_depth: how far failing literals are explained in turn.
            max_edits: edits in a suggestion.
            max_work: bindings to look at, for the rules and for the suggestions each.

        Raises:
            NoSuchFactError: the row holds.
            TransactionError: this thread has a transaction open.
            ProgramError, UnknownRelationError, FactError: the text or the row does not fit.
        """
        bounds = {"max_depth": max_depth, "max_edits": max_edits, "max_work": max_work}
        explanation: WhyNot = answer("why_not", self, fact, row, limit=limit, **bounds)
        return explanation

    def step_from_delta(
        self, relation: str, rows: Iterable[Row], *, through: Iterable[str] = ()
    ) -> list[Row]:
        """The rows of a relation that its rules derive at once from some of its own rows, sorted.

        Each has a derivation that uses one of `rows`; all else is as the last committed epoch left
        it. Without recursion nothing follows. O(instances found), through the plan's indexes.

        Args:
            relation: the relation.
            rows: rows of it that hold.
            through: relations that it is mutually recursive with, whose rows are followed on.

        Raises:
            NoSuchFactError: a row does not hold.
            ExplanationError: the rules negate or aggregate these relations, so that what follows
                from a row depends on the others.
            UnknownRelationError, FactError: the relation or the rows do not fit.
        """
        derived: list[Row] = answer("step_from_delta", self, relation, rows, through)
        return derived

    def derivation_count(self, relation: str, row: Row) -> int:
        """In how many ways the rules derive a row: their instances, those that use the row too.

        0 for a row that is given and not derived. O(1) without recursion, where maintenance counts
        them; in a recursive relation, and where disjunctions of a rule are planned by themselves,
        O(instances) through the plan's indexes.

        Raises NoSuchFactError for a row that does not hold, UnknownRelationError, FactError.
        """
        count: int = answer("derivation_count", self, relation, row)
        return count
