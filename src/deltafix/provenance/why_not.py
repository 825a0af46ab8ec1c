"""Why a row does not hold: how far each rule gets, and what input rows are missing.

An `Attempt` is one rule tried on the row: the longest beginning of its body that some rows fit, and
the first literal that fails after it; of several alternatives the one that gets furthest. A failing
literal that is a row itself is explained in turn, to a bound. Where a rule or an input gives the
row and its relation keeps another, the others are named. Invariant: `held` and `failed` are about
one binding, the first that gets so far; suggestions are `repair`'s, and each was tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import NoSuchFactError
from deltafix.facts.schema import Row, show_row
from deltafix.facts.values import show_value
from deltafix.plan.clause import Absent, Clause, Literal, Match
from deltafix.provenance.proof import Explanation, show_edit
from deltafix.provenance.repair import Repair, rivals
from deltafix.provenance.rows import Bindings, Rows, ground, opened, same_key, unify, values_of
from deltafix.provenance.state import Edit, committed
from deltafix.provenance.ways import Ways
from deltafix.provenance.words import Words

if TYPE_CHECKING:
    from deltafix.engine.database import Database

_RIVALS: Final = 3
"""Rows that are named in the place of one; more say no more."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rule tried on the row.

    Attributes:
        rule: its number; text: the rule as program text.
        held: the literals that hold, with the values put in.
        failed: the first that does not; empty if the rule's head cannot be the row, or if the
            rule derives it (`WhyNot.rivals`).
        below: why the failing literal does not hold, where it is a row and the bound allows.
        is_cut: whether `max_work` ended the attempt; a longer beginning may hold then.
        derives: whether the rule derives the row, and its relation does not keep it.
    """

    rule: int
    text: str
    held: tuple[str, ...]
    failed: str
    below: WhyNot | None = None
    is_cut: bool = False
    derives: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class WhyNot(Explanation):
    """Why a row does not hold.

    Attributes:
        relation, row: the row.
        attempts: one for each rule that derives its relation; none for an input relation.
        suggestions: smallest sets of edits (sign, relation, row) that make it hold, each tried.
        rivals: rows that its relation keeps instead, where it is derived or given.
        is_given: whether it is given, and its relation does not keep it.
    """

    relation: str
    row: Row
    attempts: tuple[Attempt, ...]
    suggestions: tuple[tuple[Edit, ...], ...] = ()
    rivals: tuple[str, ...] = ()
    is_given: bool = False

    def lines(self) -> list[str]:
        """The rules that were tried, and what would make the row hold."""
        return [f"{self.fact} does not hold", *self.tried("  "), *self._advice()]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "fact": self.fact,
            "attempts": [
                {
                    "rule": attempt.rule,
                    "text": attempt.text,
                    "held": list(attempt.held),
                    "failed": attempt.failed,
                    **({"derives": True} if attempt.derives else {}),
                    **({"below": attempt.below.to_dict()} if attempt.below else {}),
                }
                for attempt in self.attempts
            ],
            "suggestions": [[show_edit(edit) for edit in edits] for edits in self.suggestions],
            **({"given": True} if self.is_given else {}),
            **({"rivals": list(self.rivals)} if self.rivals else {}),
        }

    def tried(self, indent: str) -> list[str]:
        """The rules that were tried, each with what holds and what fails."""
        if not self.attempts and not self.is_given:
            return [f"{indent}no rule derives it, and it is not given"]
        lines = [f"{indent}it is given"] if self.is_given else []
        for attempt in self.attempts:
            lines.append(f"{indent}{attempt.text}")
            lines += [f"{indent}  holds  {literal}" for literal in attempt.held]
            failed = attempt.failed or "the rule's head, which cannot be this row"
            if attempt.derives:
                continue
            lines.append(f"{indent}  fails  {failed}{' (bound reached)' if attempt.is_cut else ''}")
            if attempt.below is not None:
                lines += attempt.below.tried(f"{indent}    ")
        if self.rivals:
            lines.append(f"{indent}its relation keeps {', '.join(self.rivals)} instead")
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
            fact = Words.of(db).show_row(relation, row)
            message = f"{fact} holds, so nothing is missing; `why` has its proof"
            raise NoSuchFactError(message, relation=relation, row=row)
        ways = Ways(state)
        explanation = _Search(ways, max_work).explain(relation, row, max_depth, frozenset())
        edits = Repair(ways, max_work).suggestions(relation, row, limit, max_edits) if limit else ()
    return replace(explanation, suggestions=edits)


class _Search:
    def __init__(self, ways: Ways, max_work: int) -> None:
        self.ways = ways
        self.words = ways.words
        self.rows = ways.rows
        self.max_work = max_work

    def explain(
        self, relation: str, row: Row, depth: int, above: frozenset[tuple[str, Row]]
    ) -> WhyNot:
        """One attempt for each rule on a row that does not hold."""
        name = self.words.names[relation]
        above |= {(name, row)}
        best: dict[str, Attempt] = {}
        for clause in self.words.rules_for(relation):
            attempt = self._attempt(clause, row, depth, above)
            other = best.setdefault(attempt.text, attempt)
            if (attempt.derives, len(attempt.held)) > (other.derives, len(other.held)):
                best[attempt.text] = attempt
        attempts, decoded = tuple(best.values()), self.words.decoded(relation, row)
        if relation not in self.words.keeps:
            return WhyNot(name, decoded, attempts)
        is_given = self._is_given(relation, row)
        if not is_given and not any(attempt.derives for attempt in attempts):
            return WhyNot(name, decoded, attempts)
        instead = self._instead(relation, row)
        shown = dict.fromkeys(self.words.show_row(relation, other) for other in instead)
        return WhyNot(name, decoded, attempts, (), tuple(islice(shown, _RIVALS)), is_given)

    def _instead(self, relation: str, row: Row) -> Iterator[Row]:
        """The rows that a relation keeps in the place of one that is derived or given."""
        joined = self.words.joined(relation)
        if joined:
            key = [column for column in range(len(row)) if column not in joined]
            yield from self.rows.fitting(relation, same_key(row, key))
            return
        seen, pending = {row}, [row]
        while pending:  # the rival in one domain of a choice may have one itself in the next
            for node in rivals(self.ways, relation, pending.pop()):
                fact = self.ways.shown(node)
                if fact is None or fact[1] in seen:
                    continue
                seen.add(fact[1])
                if self.rows.holds(*fact):
                    yield fact[1]
                else:
                    pending.append(fact[1])

    def _is_given(self, relation: str, row: Row) -> bool:
        """Whether a row is given to a relation that may not keep it."""
        node = self.ways.node(self.words.plan.given[relation], row)
        return isinstance(node, int) and self.ways.state.searcher.is_given(node)

    def _attempt(
        self, clause: Clause, row: Row, depth: int, above: frozenset[tuple[str, Row]]
    ) -> Attempt:
        words = self.words
        text = words.rule(clause)
        env = unify(clause.args, row, {})
        begun = None if env is None else opened(clause.body, env)
        if begun is None:
            return Attempt(clause.rule, text, (), "")
        body, env = begun
        best = _Prefix(self.rows, self.rows.looked_at + self.max_work)
        best.follow([], [part for part in body if not words.is_guard(part)], env)
        held = tuple(words.held(clause, best.held, best.env))
        failed = best.failed
        if failed is None:
            derives = best.is_whole and words.names[clause.head] in words.keeps
            return Attempt(clause.rule, text, held, "", is_cut=best.is_cut, derives=derives)
        if isinstance(failed, Absent):
            shown = f"not ({words.literal(clause, failed, best.env).removeprefix('nothing fits ')})"
            if failed.relation not in words.hidden:
                row = words.decoded(failed.relation, values_of(failed.args, best.env))
                fact = show_row(words.names[failed.relation], row)
                shown = f"!{fact}: it holds"
            return Attempt(clause.rule, text, held, shown, is_cut=best.is_cut)
        below = self._below(failed, best.env, depth, above)
        reads = words.reads(clause)
        read = reads.get(failed, failed)
        if read is None and isinstance(failed, Match):  # it gives a value that is cut
            read = next(
                part
                for part in reads.values()
                if isinstance(part, Match) and part.relation == failed.relation
            )
        shown = words.literal(clause, read or failed, best.env)
        if isinstance(read, Match) and read.relation in words.folds:
            shown += self._folded(read, best.env)
        return Attempt(clause.rule, text, held, shown, below, best.is_cut)

    def _folded(self, failed: Match, env: Bindings) -> str:
        """What an aggregate is instead, where its group is known."""
        row = ground(failed, env)
        if row is None:
            return ""
        width = len(self.words.folds[failed.relation].group)
        anything = (...,) * (len(row) - width)
        for kept_row in self.rows.fitting(failed.relation, (*row[:width], *anything)):
            folded = self.words.folded(failed.relation, kept_row)
            return f": it is {show_value(folded[0] if len(anything) == 1 else folded)}"
        return ": it has none"

    def _below(
        self, failed: Literal, env: Bindings, depth: int, above: frozenset[tuple[str, Row]]
    ) -> WhyNot | None:
        """The failing literal in turn, if it is one row of a relation with rules."""
        if depth <= 1 or not isinstance(failed, Match) or failed.relation in self.words.hidden:
            return None
        row = ground(failed, env)
        if row is None or (self.words.names[failed.relation], row) in above:
            return None
        if not self.words.rules_for(failed.relation):
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
        self.is_whole = False
        self._longest = -1

    def follow(self, held: list[Literal], left: list[Literal], env: Bindings) -> bool:
        """Follow every binding; True when the bound was reached."""
        index = self.rows.next_asked(left, env)
        if index is None:
            # A whole body: only a relation that does not keep all its rows can lack the head.
            if len(held) > self._longest:
                self._longest, self.held, self.failed, self.env = len(held), held, None, env
                self.is_whole = not left
            return False
        literal = left[index]
        if len(held) > self._longest:
            self._longest = len(held)
            self.held, self.failed, self.env = held, literal, env
        rest = left[:index] + left[index + 1 :]
        for extended in self.rows.extend(literal, env):
            if self.rows.looked_at > self.until:
                self.is_cut = True
                return True
            if self.follow([*held, literal], rest, extended):
                return True
        return False
