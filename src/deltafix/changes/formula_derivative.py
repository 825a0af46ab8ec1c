"""Symbolic derivatives of formulae: ↑T, ↓T and X(T), each a formula again.

Three nouns: a `Rule` (↑, ↓ and X of one kind of formula), a table of them (`STANDARD`, `PRECISE`),
and `Differentiation` (a table with the set of relations that change). Invariant: if each relation's
change is a disjoint pair, then so is (↑T, ↓T), and `X(T) = (T ∨ ↑T) ∧ ¬↓T`; `symbolic` proves
it rule by rule. Nothing is evaluated here, and nothing simplified unless asked for. What the engine
runs counts derivations besides: `conjunction`.

`STANDARD` is the source's figure, extended by ∀, tests and aggregates. It is precise (adds only
what was absent, removes only what was present) wherever relations' changes are, except where a
rule is marked imprecise: ↑∨, ↑∃, ↓∀, ↑aggregate. `PRECISE` pays for the extra conjuncts.

Source: Fixing incremental computation, figure "Upwards and downwards formula derivatives".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from deltafix.changes.formula import (
    BOTTOM,
    Aggregate,
    And,
    Connected,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Relation,
    State,
    Test,
    Truth,
    children,
    exists,
    with_parts,
)
from deltafix.changes.simplify import simplify
from deltafix.errors import ChangeError


@dataclass(frozen=True, slots=True)
class FormulaChange:
    """The two halves of a formula's derivative, as formulae."""

    up: Formula
    down: Formula

    def __str__(self) -> str:
        return f"↑ {self.up}\n↓ {self.down}"


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of formula changes: ↑, ↓ and X of it, from those of its parts.

    `*_precise`: precise if the parts' derivatives are.
    """

    up: Callable[[Any, Differentiation], Formula]
    down: Callable[[Any, Differentiation], Formula]
    next: Callable[[Any, Differentiation], Formula]
    up_precise: bool = True
    down_precise: bool = True


Rules: TypeAlias = Mapping[type, Rule]


@dataclass(frozen=True, slots=True)
class Differentiation:
    """Derivatives under one rule table; `changing` names the relations that change (None: all)."""

    rules: Rules
    changing: frozenset[str] | None = None

    def changes(self, name: str) -> bool:
        """Whether the relation of that name changes."""
        return self.changing is None or name in self.changing

    def up(self, formula: Formula) -> Formula:
        """↑formula: what is added."""
        return self._rule(formula).up(formula, self)

    def down(self, formula: Formula) -> Formula:
        """↓formula: what is removed."""
        return self._rule(formula).down(formula, self)

    def next(self, formula: Formula) -> Formula:
        """X(formula), pushed inwards: the formula with every changing relation read as next.

        Equal to `(T ∨ ↑T) ∧ ¬↓T`, which is the source's definition, by the derivative law.
        """
        return self._rule(formula).next(formula, self)

    def _rule(self, formula: Formula) -> Rule:
        try:
            return self.rules[type(formula)]
        except KeyError:
            raise ChangeError(f"no derivative rule for {type(formula).__name__}") from None


def _relation_next(formula: Relation, d: Differentiation) -> Formula:
    if formula.state != "now":
        raise ChangeError(
            f"{formula} is itself part of a derivative; differentiate a formula whose "
            "relations are all read now"
        )
    return replace(formula, state="next") if d.changes(formula.name) else formula


def _relation(state: State) -> Callable[[Relation, Differentiation], Formula]:
    def rule(formula: Relation, d: Differentiation) -> Formula:
        _relation_next(formula, d)  # refuses a symbol that is not read now
        if not d.changes(formula.name):
            return BOTTOM
        return Relation(formula.name, formula.args, state)

    return rule


def _never(_: Formula, __: Differentiation) -> Formula:
    return BOTTOM


# X(T ∧ U) = X(T) ∧ X(U), and so for all others: X goes inwards
def _within(formula: Formula, d: Differentiation) -> Formula:
    return with_parts(formula, map(d.next, children(formula)))


# ↑(T ∧ U) = (↑T ∧ X(U)) ∨ (X(T) ∧ ↑U)
def _and_up(f: And, d: Differentiation) -> Formula:
    return Or(And(d.up(f.left), d.next(f.right)), And(d.next(f.left), d.up(f.right)))


# ↓(T ∧ U) = (↓T ∧ U) ∨ (T ∧ ↓U)
def _and_down(f: And, d: Differentiation) -> Formula:
    return Or(And(d.down(f.left), f.right), And(f.left, d.down(f.right)))


# ↑(T ∨ U) = ↑T ∨ ↑U                                   (imprecise: T may hold where U is added)
def _or_up(f: Or, d: Differentiation) -> Formula:
    return Or(d.up(f.left), d.up(f.right))


# ↑(T ∨ U) = (↑T ∧ ¬U) ∨ (¬T ∧ ↑U)
def _or_up_precise(f: Or, d: Differentiation) -> Formula:
    return Or(And(d.up(f.left), Not(f.right)), And(Not(f.left), d.up(f.right)))


# ↓(T ∨ U) = (↓T ∧ ¬X(U)) ∨ (¬X(T) ∧ ↓U)
def _or_down(f: Or, d: Differentiation) -> Formula:
    return Or(And(d.down(f.left), Not(d.next(f.right))), And(Not(d.next(f.left)), d.down(f.right)))


# ↑∃x.T = ∃x.↑T                                        (imprecise: another x may have held before)
def _exists_up(f: Exists, d: Differentiation) -> Formula:
    return Exists(f.variable, d.up(f.body))


# ↑∃x.T = ∃x.↑T ∧ ¬∃x.T
def _exists_up_precise(f: Exists, d: Differentiation) -> Formula:
    return And(Exists(f.variable, d.up(f.body)), Not(f))


# ↓∃x.T = ∃x.↓T ∧ ¬∃x.X(T)
def _exists_down(f: Exists, d: Differentiation) -> Formula:
    return And(Exists(f.variable, d.down(f.body)), Not(d.next(f)))


# ↑∀x.T = ∃x.↑T ∧ ∀x.X(T)
def _forall_up(f: Forall, d: Differentiation) -> Formula:
    return And(Exists(f.variable, d.up(f.body)), d.next(f))


# ↓∀x.T = ∃x.↓T                                        (imprecise: ∀x.T may not have held before)
def _forall_down(f: Forall, d: Differentiation) -> Formula:
    return Exists(f.variable, d.down(f.body))


# ↓∀x.T = ∃x.↓T ∧ ∀x.T
def _forall_down_precise(f: Forall, d: Differentiation) -> Formula:
    return And(Exists(f.variable, d.down(f.body)), f)


def _members_change(f: Aggregate, d: Differentiation) -> Formula:
    """Some member of the group comes or goes.

    The source prints only `∃vs.(T ∧ ↑U)` as the guard, which misses groups that lose members or
    whose domain changes (`tests/laws/test_proofs.py`).
    """
    members = And(f.domain, f.body)
    return exists((*f.over, f.value), Or(d.up(members), d.down(members)))


# ↑agg = (a member comes or goes) ∧ X(agg)             (imprecise: the result may be the same)
def _aggregate_up(f: Aggregate, d: Differentiation) -> Formula:
    return And(_members_change(f, d), d.next(f))


# ↑agg = (a member comes or goes) ∧ X(agg) ∧ ¬agg
def _aggregate_up_precise(f: Aggregate, d: Differentiation) -> Formula:
    return And(_aggregate_up(f, d), Not(f))


# ↓agg = (a member comes or goes) ∧ agg ∧ ¬X(agg)
def _aggregate_down(f: Aggregate, d: Differentiation) -> Formula:
    return And(_members_change(f, d), And(f, Not(d.next(f))))


def _connected(side: Literal["up", "down"]) -> Callable[[Connected, Differentiation], Formula]:
    """What the connective itself says, of the parts' derivatives; checked when it was made."""

    def rule(f: Connected, d: Differentiation) -> Formula:
        def read(part: Formula, state: State) -> Formula:
            return {"now": _as_it_is, "up": d.up, "down": d.down, "next": d.next}[state](part)

        return f.in_place(side, read)

    return rule


def _as_it_is(part: Formula) -> Formula:
    return part


STANDARD: Rules = MappingProxyType(
    {
        Truth: Rule(_never, _never, _within),
        Test: Rule(_never, _never, _within),
        Relation: Rule(_relation("up"), _relation("down"), _relation_next),
        And: Rule(_and_up, _and_down, _within),
        Or: Rule(_or_up, _or_down, _within, up_precise=False),
        Not: Rule(lambda f, d: d.down(f.body), lambda f, d: d.up(f.body), _within),
        Exists: Rule(_exists_up, _exists_down, _within, up_precise=False),
        Forall: Rule(_forall_up, _forall_down, _within, down_precise=False),
        Aggregate: Rule(_aggregate_up, _aggregate_down, _within, up_precise=False),
        Connected: Rule(
            _connected("up"), _connected("down"), _within, up_precise=False, down_precise=False
        ),
    }
)
"""The source's rules, with ∀ dual to ∃, rigid tests, and a repaired rule for aggregates."""

PRECISE: Rules = MappingProxyType(
    {
        **STANDARD,
        Or: Rule(_or_up_precise, _or_down, _within),
        Exists: Rule(_exists_up_precise, _exists_down, _within),
        Forall: Rule(_forall_up, _forall_down_precise, _within),
        Aggregate: Rule(_aggregate_up_precise, _aggregate_down, _within),
    }
)
"""Every rule precise: the derivative is least in the kernel order if relations' changes are."""


def differentiate(
    formula: Formula,
    *,
    changing: frozenset[str] | None = None,
    rules: Rules = STANDARD,
    simplified: bool = True,
) -> FormulaChange:
    """The derivative of a formula, as two formulae over the same schema.

    Args:
        formula: Its relations must all be read `now`.
        changing: Names of the relations that change; None means all may.
        rules: `STANDARD` or `PRECISE`, or a table of one's own.
        simplified: Whether the two halves are simplified.

    Raises:
        ChangeError: A relation is read in another state, or a kind of formula has no rule.
    """
    d = Differentiation(rules, changing)
    up, down = d.up(formula), d.down(formula)
    return FormulaChange(simplify(up), simplify(down)) if simplified else FormulaChange(up, down)


def next_of(formula: Formula) -> Formula:
    """X(formula): its value after the change, where every relation may change."""
    return Differentiation(STANDARD, None).next(formula)
