"""Types of SQL for the rules of a view: what the columns hold that rules define.

A value has the type of the column that it comes from. What is computed, and a constant, is *plain*:
a number, float or text of the engine, and no more is known. A column that holds both is plain; a
variable that is equal to both is what the column says. Invariants: a column has a type that is not
plain only if all of its values come from columns of that type; where the engine holds two values
alike that SQL tells apart (days and whole numbers, say) and neither is plain, no variable is both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, TypeAlias

from deltafix.diagnostics import Diagnostic, Span
from deltafix.rules.apart import plain_name
from deltafix.rules.ast import And, Atom, Formula, Not, Or, Rule
from deltafix.rules.functors import SIGNATURES
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.rules.walk import body_of, subterms, terms_of
from deltafix.sql.builder import Relation
from deltafix.sql.types import BIGINT, DOUBLE, NULL, NULLABLE_TYPES, TEXT, SqlType, common_type

__all__ = ["DECLARED", "Kind", "RuleTypes", "opened"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of a value.

    Attributes:
        plain: the engine's type is all that is known.
        is_open: a whole number as it is written, which may be a float.
    """

    type: SqlType
    nullable: bool = False
    plain: bool = False
    is_open: bool = False


_Known: TypeAlias = dict[str, Kind]
"""What the variables of a rule hold, those of which something is known."""

_PLAIN: Final = {"number": BIGINT, "float": DOUBLE, "symbol": TEXT}
_NIL: Final = Kind(NULL, nullable=True, plain=True)

DECLARED: Final = {
    **{base: Kind(kind, plain=True) for base, kind in _PLAIN.items()},
    **{
        one.name: Kind(_PLAIN[one.branches[0].fields[0].type], nullable=True, plain=True)
        for one in NULLABLE_TYPES
    },
}
"""The types that `.decl` takes, and what is known of a value of each."""


@dataclass
class RuleTypes:
    """What the columns of relations hold, those of `tables` and those that rules define.

    Args:
        tables: tables and views, by the names that rules have for them.
        columns: of what the rules define; what `.decl` says of those that have one.
    """

    tables: Mapping[str, Relation]
    columns: dict[str, list[Kind | None]]
    wrong: list[Diagnostic] = field(default_factory=list)
    """Where values would be two things at once, once all is known."""

    def solve(self, rules: Sequence[Rule]) -> None:
        """Find what the columns hold: the least that all rules, of one head each, say."""
        said, self.columns = self.columns, {}
        for name, kinds in said.items():
            self.columns[name] = [None] * len(kinds)
        self._follow(rules)
        for name, kinds in said.items():
            mine = self.columns[name]
            mine[:] = (one or other for one, other in zip(mine, kinds, strict=True))
        self._follow(rules)
        for rule in rules:
            (head,) = rule.heads
            self._bind_all(rule.body, {}, {}, tell=True)
            known = self._variables(rule)
            for arg, kind in zip(head.args, self.columns[head.relation], strict=False):
                found = self._kind(arg, known)
                self._require_alike(kind, found, arg.span, f"a column of `{head.relation}` is")

    def _follow(self, rules: Sequence[Rule]) -> None:
        """Add to the columns what rules say, until none adds anything."""
        before: object = None
        while before != self.columns:
            before = {name: [*kinds] for name, kinds in self.columns.items()}
            for rule in rules:
                (head,) = rule.heads
                known = self._variables(rule)
                mine = self.columns[head.relation]
                for place, arg in enumerate(head.args[: len(mine)]):
                    mine[place] = _either(mine[place], self._kind(arg, known))

    def _of(self, relation: str) -> Sequence[Kind | None]:
        """What the columns of a relation hold."""
        if relation in self.columns:
            return self.columns[relation]
        columns = self.tables[relation].columns
        return [Kind(one.type, one.nullable, one.type is NULL) for one in columns]

    def _variables(self, rule: Rule) -> _Known:
        """What the variables of a rule hold."""
        known: _Known = {}
        inner: _Known = {}
        self._bind_all(rule.body, known, inner, tell=False)
        # A variable of an aggregate that the rest of the rule reads, and only the aggregate binds.
        known = {**inner, **known}
        self._bind_all(rule.body, known, inner, tell=False)
        return known

    def _bind_all(self, formula: Formula, known: _Known, inner: _Known, *, tell: bool) -> None:
        """Add what a formula that holds says of its variables; to `inner`, of inner scopes."""
        parts = formula.parts if isinstance(formula, And) else (formula,)
        before: object = None
        while before != known:
            before = dict(known)
            for part in parts:
                self._bind_part(part, known, inner, tell=tell)

    def _bind_part(self, part: Formula, known: _Known, inner: _Known, *, tell: bool) -> None:
        if isinstance(part, Or):
            cases = [dict(known) for _ in part.parts]
            for case, one in zip(cases, part.parts, strict=True):
                self._bind_all(one, case, inner, tell=tell)
            # What some cases alone bind the rest of the rule binds, too, or nobody else reads.
            for name in [one for one in cases[0] if all(one in case for case in cases)]:
                known[name] = reduce(_of_either, (case[name] for case in cases))
            return
        if isinstance(part, And):
            self._bind_all(part, known, inner, tell=tell)
            return
        if isinstance(part, Not):  # what does not hold says nothing of values that are there
            self._bind_all(part.body, dict(known), {}, tell=tell)
            return
        for term in terms_of(part):
            for below in subterms(term):
                if isinstance(below, Aggregate):
                    mine = dict(known)
                    self._bind_all(body_of(below), mine, inner, tell=tell)
                    inner.update(mine)
        if isinstance(part, Atom):
            for arg, kind in zip(part.args, self._of(part.relation), strict=False):
                self._bind(arg, kind, known, tell=tell)
            return
        left, right = self._kind(part.left, known), self._kind(part.right, known)
        if tell:
            self._require_alike(left, right, part.span, "what is compared is")
        if part.op == "=":
            self._bind(part.left, right, known, tell=tell)
            self._bind(part.right, left, known, tell=tell)

    def _bind(self, term: Term, kind: Kind | None, known: _Known, *, tell: bool) -> None:
        """Match a term with a value."""
        if kind is None:
            return
        if isinstance(term, Var):
            if tell:
                said = f"`{plain_name(term.name)}` is"
                self._require_alike(known.get(term.name), kind, term.span, said)
            known[term.name] = _both(known.get(term.name), kind)
        elif kind.nullable and (field := opened(term)) is not None:
            self._bind(field, replace(kind, nullable=False), known, tell=tell)

    def _require_alike(
        self, one: Kind | None, other: Kind | None, span: Span | None, said: str
    ) -> None:
        if one is None or other is None or one.plain or other.plain:
            return
        if any(told.span == span for told in self.wrong):
            return  # what was told first says what the columns say
        if one.type.base == other.type.base and one.type.code != other.type.code:
            message = f"{said} both {one.type.name} and {other.type.name}"
            hint = (
                "the engine holds both alike: compute one from the other, as numbers "
                "(days, microseconds, units of the last digit), or CAST in a view"
            )
            self.wrong.append(Diagnostic("DF120", message, span, hint))

    def _kind(self, term: Term, known: _Known) -> Kind | None:
        """What a term holds; None where that is not known yet."""
        if isinstance(term, Var):
            return known.get(term.name)
        if isinstance(term, Const):
            return _constant(term)
        if isinstance(term, Aggregate):
            return self._aggregate(term, known)
        if not isinstance(term, Call):
            return None
        field = opened(term)
        if field is not None:
            inner = self._kind(field, known)
            return None if inner is None else replace(inner, nullable=True)
        if term.functor == "as":
            named = term.args[1]
            base = str(named.value) if isinstance(named, Const) else ""
        else:
            signature = SIGNATURES.get(term.functor)
            base = "" if signature is None else signature.result
        if base in _PLAIN:
            return Kind(_PLAIN[base], plain=True)
        kinds = [kind for arg in term.args if (kind := self._kind(arg, known)) is not None]
        sure = [one for one in kinds if not one.is_open]
        return _computed(next(iter(sure or kinds), None))

    def _aggregate(self, term: Aggregate, known: _Known) -> Kind | None:
        if term.target is None:
            return Kind(BIGINT, plain=True)
        if term.op == "mean":
            return Kind(DOUBLE, plain=True)
        mine = dict(known)
        self._bind_all(body_of(term), mine, {}, tell=False)
        found = self._kind(term.target, mine)
        return found if term.op in ("min", "max") else _computed(found)


def opened(term: Term) -> Term | None:
    """The value in a nullable place that a term says, `[x]`; None for any other term."""
    if isinstance(term, Call) and term.functor == "[]" and len(term.args) == 1:
        return term.args[0]
    return None


def _constant(term: Const) -> Kind | None:
    if term.value is None:
        return _NIL
    if isinstance(term.value, str):
        return Kind(TEXT, plain=True)
    if isinstance(term.value, float):
        return Kind(DOUBLE, plain=True)
    return Kind(BIGINT, plain=True, is_open=True) if term.type is None else None


def _computed(kind: Kind | None) -> Kind | None:
    """What is computed of a value."""
    if kind is None or kind.type is NULL:
        return None
    return Kind(_PLAIN[kind.type.base], plain=True, is_open=kind.is_open)


def _either(one: Kind | None, other: Kind | None) -> Kind | None:
    """What is known of what holds values of both, each of which may not be known yet."""
    return one or other if one is None or other is None else _of_either(one, other)


def _of_either(one: Kind, other: Kind) -> Kind:
    """What is known of what holds values of both; where they do not fit checks say so."""
    if NULL in (one.type, other.type):
        return replace(other if one.type is NULL else one, nullable=True)
    if one.type.base != other.type.base or one.nullable != other.nullable:
        return other if one.is_open else one
    shared = _PLAIN[one.type.base]
    if one.type.code == other.type.code:
        shared = common_type(one.type, other.type) or one.type
    plain, is_open = one.plain or other.plain, one.is_open and other.is_open
    return Kind(shared, one.nullable, plain, is_open)


def _both(one: Kind | None, other: Kind) -> Kind:
    """What is known of a value that is equal to both."""
    if one is None:
        return other
    if one.plain != other.plain:
        return other if one.plain else one
    return _of_either(one, other)
