"""Why a row does not hold: how far each rule gets, and what input rows are missing.

An `Attempt` is one clause tried on the row: the longest beginning of its body that some rows fit,
and the first literal that fails after it. A failing literal that is a row itself is explained in
turn, to a bound. Invariant: `held` and `failed` are about one binding, the first that gets so far;
suggestions are `repair`'s, and each was tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltafix.errors import NoSuchFactError
from deltafix.facts.schema import Row, show_row
from deltafix.plan.clause import Absent, Clause, Literal, Match
from deltafix.provenance.explanation import Explanation, show_edit
from deltafix.provenance.program import clauses_of
from deltafix.provenance.repair import Repair
from deltafix.provenance.rows import Bindings, Rows, ground, next_ready, unify, values_of
from deltafix.provenance.state import Edit, committed
from deltafix.provenance.words import Words

if TYPE_CHECKING:
    from deltafix.engine.database import Database

__all__ = ["Attempt", "WhyNot", "why_not"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rule tried on the row.

    Attributes:
        rule: its number; text: the rule as program text.
        held: the literals that hold, with the values put in.
        failed: the first that does not; empty if the rule's head cannot be the row.
        below: why the failing literal does not hold, where it is a row and the bound allows.
        is_cut: whether `max_work` ended the attempt; a longer beginning may hold then.
    """

    rule: int
    text: str
    held: tuple[str, ...]
    failed: str
    below: WhyNot | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class WhyNot(Explanation):
    """Why a row does not hold.

    Attributes:
        relation, row: the row.
        attempts: one for each rule that derives its relation; none for an input relation.
        suggestions: smallest sets of edits (sign, relation, row) that make it hold, each tried.
    """

    relation: str
    row: Row
    attempts: tuple[Attempt, ...]
    suggestions: tuple[tuple[Edit, ...], ...] = ()

    def lines(self) -> list[str]:
        """The rules that were tried, and what would make the row hold."""
        return [f"{self.fact} does not hold", *self._tried("  "), *self._advice()]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "fact": self.fact,
            "attempts": [
                {
                    "rule": one.rule,
                    "text": one.text,
                    "held": list(one.held),
                    "failed": one.failed,
                    **({"below": one.below.to_dict()} if one.below else {}),
                }
                for one in self.attempts
            ],
            "suggestions": [[show_edit(edit) for edit in edits] for edits in self.suggestions],
        }

    def _tried(self, indent: str) -> list[str]:
        if not self.attempts:
            return [f"{indent}no rule derives it, and it is not given"]
        lines = []
        for one in self.attempts:
            lines.append(f"{indent}{one.text}")
            lines += [f"{indent}  holds  {literal}" for literal in one.held]
            failed = one.failed or "the rule's head, which cannot be this row"
            lines.append(f"{indent}  fails  {failed}{' (bound reached)' if one.is_cut else ''}")
            if one.below is not None:
                lines += one.below._tried(f"{indent}    ")
        return lines

    def _advice(self) -> list[str]:
        return [
            f"it would hold with  {'  '.join(show_edit(edit) for edit in edits)}"
            for edits in self.suggestions
        ]


def why_not(
    db: Database,
    relation: str,
    row: Row,
    *,
    limit: int,
    max_depth: int,
    max_edits: int,
    max_work: int,
) -> WhyNot:
    """Explain an absent row of the last committed epoch; see `Database.why_not`."""
    with committed(db) as state:
        if state.fact(relation, row) is not None:
            shown = show_row(relation, row)
            message = f"{shown} holds, so nothing is missing; `why` has its proof"
            raise NoSuchFactError(message, relation=relation, row=row)
        search = _Search(Rows(state, Words.of(db)), max_work)
        found = search.explain(relation, row, max_depth, frozenset())
        repair = Repair(search.rows, search.clauses, max_work)
        edits = repair.suggestions(relation, row, limit, max_edits) if limit else ()
    return WhyNot(found.relation, found.row, found.attempts, edits)


class _Search:
    def __init__(self, rows: Rows, max_work: int) -> None:
        self.rows = rows
        self.max_work = max_work
        self.clauses: dict[str, list[Clause]] = {}
        for stage in rows.state.db.plan.stages:
            for clause in clauses_of(stage):
                self.clauses.setdefault(clause.head, []).append(clause)

    def explain(
        self, relation: str, row: Row, depth: int, above: frozenset[tuple[str, Row]]
    ) -> WhyNot:
        """The attempts of every clause on a row that does not hold."""
        above |= {(relation, row)}
        attempts = [
            self._attempt(clause, row, depth, above)
            for clause in self.clauses.get(relation, ())
            if not self.rows.words.is_intake(clause)
        ]
        return WhyNot(relation, row, tuple(attempts))

    def _attempt(
        self, clause: Clause, row: Row, depth: int, above: frozenset[tuple[str, Row]]
    ) -> Attempt:
        words = self.rows.words
        text = words.rule(clause)
        env = unify(clause.args, row, {})
        if env is None:
            return Attempt(clause.rule, text, (), "")
        best = _Prefix(self.rows, self.rows.looked_at + self.max_work)
        best.follow([], list(clause.body), env)
        held = tuple(words.literal(literal, best.env) for literal in best.held)
        failed = best.failed
        if failed is None:  # head values that only a computation decides
            return Attempt(clause.rule, text, held, "", is_cut=best.is_cut)
        if isinstance(failed, Absent):
            row_there = values_of(failed.args, best.env)
            shown = f"!{show_row(failed.relation, row_there)}: it holds"
            if failed.relation in words.hidden:
                shown = f"not ({words.literal(failed, best.env).removeprefix('nothing fits ')})"
            return Attempt(clause.rule, text, held, shown, is_cut=best.is_cut)
        below = self._below(failed, best.env, depth, above)
        return Attempt(clause.rule, text, held, words.literal(failed, best.env), below, best.is_cut)

    def _below(
        self, failed: Literal, env: Bindings, depth: int, above: frozenset[tuple[str, Row]]
    ) -> WhyNot | None:
        """The failing literal in turn, if it is one row of a relation with rules."""
        if depth <= 1 or not isinstance(failed, Match) or failed.relation not in self.clauses:
            return None
        row = ground(failed, env)
        if row is None or (failed.relation, row) in above:
            return None
        return self.explain(failed.relation, row, depth - 1, above)


class _Prefix:
    """The longest beginning of a body that some rows fit, found depth first."""

    def __init__(self, rows: Rows, until: int) -> None:
        self.rows = rows
        self.until = until
        self.held: list[Literal] = []
        self.failed: Literal | None = None
        self.env: Bindings = {}
        self.is_cut = False
        self._longest = -1

    def follow(self, held: list[Literal], left: list[Literal], env: Bindings) -> bool:
        """Follow every binding; True when the bound was reached."""
        place = next_ready(left, env)
        if place is None:
            return False
        literal = left[place]
        if len(held) > self._longest:
            self._longest = len(held)
            self.held, self.failed, self.env = held, literal, env
        rest = left[:place] + left[place + 1 :]
        for extended in self.rows.extend(literal, env):
            if self.rows.looked_at > self.until:
                self.is_cut = True
                return True
            if self.follow([*held, literal], rest, extended):
                return True
        return False
