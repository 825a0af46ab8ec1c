"""The questions as a database asks them: text or row in, explanation out.

What `engine.questions` calls by name. Invariant: a question is read and checked in full before
any work is done for it.

Rule instances, in both directions (what follows at once from rows, and how often a row does), are
bindings of a whole body in the committed state. Bodies are joined through the plan's indexes, the
literal that fewest rows fit next; each instance is counted once, whichever of its rows it was
reached from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from deltafix.engine.literals import read_ground
from deltafix.engine.store import relation_cell, rows_of_group
from deltafix.errors import ExplanationError, FactError, NoSuchFactError
from deltafix.facts.schema import Pattern, Row, Schema
from deltafix.facts.values import sorted_rows
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Words as Codes
from deltafix.plan.clause import Absent, Clause, Match
from deltafix.provenance import cause as causes
from deltafix.provenance import why as proofs
from deltafix.provenance.nodes import Fact
from deltafix.provenance.proof import Proof
from deltafix.provenance.rows import LiveRows, unify, values_of
from deltafix.provenance.state import State, committed
from deltafix.provenance.why_not import WhyNot
from deltafix.provenance.why_not import why_not as absence
from deltafix.provenance.words import Words

if TYPE_CHECKING:
    from deltafix.engine.changes import Edited
    from deltafix.engine.database import Database
    from deltafix.facts.delta import Delta


def fact_of(
    db: Database, fact: str, row: Row | None, schemas: Mapping[str, Schema] | None = None
) -> tuple[str, Row]:
    """The relation and the checked row that a question names, of other schemas if given.

    The row is one of users', as all that explanations show; the search has the engine's.
    """
    known = db.schemas if schemas is None else schemas
    if row is None:
        return read_ground(fact, known)
    schema = known.get(fact) or db.instance.schema(fact)
    (checked,) = schema.check_rows([row])
    return fact, checked


def why(
    db: Database,
    fact: str,
    row: Row | None,
    *,
    several: bool,
    limit: int,
    max_steps: int,
    max_work: int,
) -> Proof | list[Proof]:
    """See `Database.why`."""
    _require_positive(limit=limit, max_steps=max_steps, max_work=max_work)
    relation, checked = fact_of(db, fact, row)
    (held,) = db.instance.schema(relation).encoded([checked])
    answers = proofs.why(
        db,
        relation,
        held,
        limit=limit if several else None,
        max_steps=max_steps,
        max_work=max_work,
    )
    return answers if several else answers[0]


def why_not(
    db: Database,
    fact: str,
    row: Row | None,
    *,
    limit: int,
    max_depth: int,
    max_edits: int,
    max_work: int,
) -> WhyNot:
    """See `Database.why_not`."""
    _require_positive(max_depth=max_depth, max_work=max_work)
    _require_positive(least=0, limit=limit, max_edits=max_edits)
    relation, checked = fact_of(db, fact, row)
    (held,) = db.instance.schema(relation).encoded([checked])
    return absence(
        db,
        relation,
        held,
        limit=limit,
        max_depth=max_depth,
        max_edits=max_edits,
        max_work=max_work,
    )


def cause(
    db: Database,
    edited: Edited,
    delta: Delta,
    fact: str,
    row: Row | None,
    *,
    max_trials: int,
) -> causes.Cause:
    """See `Delta.why`."""
    _require_positive(max_trials=max_trials)
    relation, checked = fact_of(db, fact, row, delta.schemas)
    return causes.cause(db, edited, delta, (relation, checked), max_trials=max_trials)


def _require_positive(least: int = 1, **bounds: int) -> None:
    for name, bound in bounds.items():
        if bound < least:
            raise FactError(f"{name}={bound}; it must be at least {least}", value=bound)


class IndexedRows(LiveRows):
    """The rows of a state by the indexes of its plan; what they do not serve is looked through."""

    def most(self, relation: str, pattern: Pattern) -> int:
        """How many rows `fitting` may look at."""
        if self.sees_live(relation) or ... not in pattern:
            return super().most(relation, pattern)
        group = self._group(relation, pattern)
        if group is not None:
            return len(group)
        instance = self.state.db.instance
        return relation_cell(instance.arena, instance.linked.ids[relation], at.R_WAS)

    def _slice(self, relation: str, pattern: Pattern) -> Codes:
        group = self._group(relation, pattern)
        return super()._slice(relation, pattern) if group is None else group

    def _group(self, relation: str, pattern: Pattern) -> Codes | None:
        """The rows that fit, by the widest index for them; None where there is none."""
        instance = self.state.db.instance
        types = self.words.types[relation]
        known: dict[int, int] = {}
        for column, value in enumerate(pattern):
            if value is not ...:
                code = instance.codes.known(types[column], value)
                if code is None:
                    return np.empty((0, len(types)), np.int32)
                known[column] = code
        usable = [c for c in instance.plan.indexes[relation] if c and set(c) <= known.keys()]
        if not usable:
            return None
        index = max(usable, key=len)
        key = tuple(known[column] for column in index)
        mask = self.state.mask
        group = rows_of_group(instance.arena, instance.linked, relation, index, key, mask=mask)
        for column, code in known.items():
            group = group[group[:, column] == code]
        return group


class Held:
    """The rows that clauses see: of the strata beyond plain recursion each sees its own live."""

    def __init__(self, state: State, words: Words) -> None:
        self.words = words
        self._state = state
        self._seen: dict[int | None, IndexedRows] = {}

    def by(self, clause: Clause) -> IndexedRows:
        """What one clause sees."""
        stratum = self.words.strata.get(clause.head)
        rows = self._seen.get(stratum)
        if rows is None:
            rows = self._seen[stratum] = IndexedRows(self._state, self.words, stratum)
        return rows


def step_from_delta(
    db: Database, relation: str, rows: Iterable[Row], through: Iterable[str]
) -> list[Row]:
    """See `Database.step_from_delta`."""
    schema = db.instance.schema(relation)
    followed = {relation, *(db.instance.schema(name).relation for name in through)}
    wanted = schema.encoded(schema.check_rows(list(rows)))
    with committed(db) as state:
        for row in wanted:
            _require(state, relation, row)
        heads = _step(Held(state, Words.of(db)), relation, wanted, followed)
    return sorted_rows(schema.types, schema.decoded(heads))


def _step(held: Held, relation: str, rows: Iterable[Row], followed: set[str]) -> dict[Row, None]:
    """The rows of `relation` that follow, other followed relations' rows being followed first."""
    clauses = _clauses(held.words, followed)
    heads: dict[Row, None] = {}
    pending = [(relation, row) for row in rows]
    seen = set(pending)
    while pending:
        source, row = pending.pop()
        for name, rules in clauses.items():
            for head in _heads(held, rules, source, row):
                if name == relation:
                    heads[head] = None
                elif (name, head) not in seen:
                    seen.add((name, head))
                    pending.append((name, head))
    return heads


def _heads(held: Held, clauses: list[Clause], source: str, row: Row) -> Iterator[Row]:
    """The head of each instance that has a row in its body."""
    for clause in clauses:
        for index, literal in enumerate(clause.body):
            if index < clause.asks:  # it says what is asked for, and is no reason
                continue
            if isinstance(literal, Match) and held.words.names[literal.relation] == source:
                env = unify(literal.args, row, {})
                rest = (*clause.body[:index], *clause.body[index + 1 :])
                for binding, _ in () if env is None else held.by(clause).solutions(rest, env):
                    yield values_of(clause.args, binding)


def _clauses(words: Words, followed: set[str]) -> dict[str, list[Clause]]:
    """The clauses of the followed relations, and of the hidden ones through which they read them.

    A hidden relation is a part of a rule (a disjunction that stands alone, a negated group, an
    aggregate). Raises where one is reached by negation or through an aggregate.
    """
    clauses = {name: words.rules_for(name) for name in sorted(followed)}
    pending = [read for rules in clauses.values() for read in _reads(words, rules, "")]
    seen = set(pending)
    while pending:
        name, how = pending.pop()
        if how and words.names[name] in followed:
            raise ExplanationError(
                f"the rules of {', '.join(sorted(followed))} {how} {name!r}: what follows from one "
                "row depends on the others, so there is no step from a delta"
            )
        if name not in words.hidden:
            continue
        if not how:
            clauses[name] = words.clauses[name]
        fold = words.folds.get(name)
        below = _reads(words, words.clauses[name], how)
        for read in (*below, *(() if fold is None else ((fold.source, how or "aggregate"),))):
            if read not in seen:
                seen.add(read)
                pending.append(read)
    return clauses


def _reads(words: Words, clauses: Iterable[Clause], how: str) -> Iterator[tuple[str, str]]:
    """What clauses read, and how the rule does: not what only says that they are asked for."""
    for clause in clauses:
        for literal in clause.body[clause.asks :]:
            if isinstance(literal, Absent):
                yield literal.relation, how or "negate"
            elif isinstance(literal, Match) and not words.is_guard(literal):
                yield literal.relation, how


def derivation_count(db: Database, relation: str, row: Row) -> int:
    """See `Database.derivation_count`."""
    schema = db.instance.schema(relation)
    (checked,) = schema.encoded(schema.check_rows([row]))
    with committed(db) as state:
        fact = _require(state, relation, checked)
        held = Held(state, Words.of(db))
        clauses = held.words.rules_for(relation)
        if clauses and _counts_all(db, held.words, relation):
            return state.searcher.support(fact)
        return _count(held, clauses, checked)


def _count(held: Held, clauses: Iterable[Clause], row: Row) -> int:
    """In how many ways clauses derive a row: a disjunction that stands alone counts its own.

    Recursion is as deep as disjunctions stand in each other.
    """
    count = 0
    for clause in clauses:
        env = unify(clause.args, row, {})
        for _, matched in () if env is None else held.by(clause).solutions(clause.said, env):
            ways = 1
            for index, part in matched.items():
                read = clause.said[index]
                assert isinstance(read, Match)  # noqa: S101  the kind that matches rows
                if _is_part(held.words, read.relation):
                    ways *= _count(held, held.words.clauses[read.relation], part)
            count += ways
    return count


def _is_part(words: Words, relation: str) -> bool:
    """Whether a relation that a clause reads is a disjunction of its rule, by itself."""
    others = words.given.keys() | words.folds.keys() | words.ranges | words.domains | words.demands
    return relation in words.hidden and relation not in others


def _counts_all(db: Database, words: Words, relation: str) -> bool:
    """Whether a row's support is of all its derivations, not only of those of lower rank."""
    stage = next(stage for stage in db.plan.stages if relation in stage.relations)
    elsewhere = words.copies.keys() | words.entries.keys() | words.merges.keys()
    if stage.recursive or stage.outside is not None or relation in elsewhere:
        return False
    bodies = (part for clause in words.clauses[relation] for part in clause.body)
    return not any(
        isinstance(literal, Match) and _is_part(words, literal.relation) for literal in bodies
    )


def _require(state: State, relation: str, row: Row) -> Fact:
    """The fact of a row that holds."""
    fact = state.fact(relation, row)
    if fact is None:
        shown = Words.of(state.db).show_row(relation, row)
        raise NoSuchFactError(
            f"{shown} does not hold; `why_not` (`deltafix why-not`) says what is missing"
        )
    return fact
