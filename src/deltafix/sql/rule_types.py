"""Types of SQL for the rules of a view: what the columns hold that rules define.

A value has the type of the column that it comes from, and what is computed of days, moments and
decimals the type of `rules.logical`. What else is computed, and a constant, is *plain*: a number,
float or text of the engine, and no more is known. A column that holds both is plain; a variable
that is equal to both is what the column says. Invariant: a column has a type that is not plain only
if all of its values are of that type. That a variable is not of two types is checked with these
columns, as of all rules (`rules.infer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, TypeAlias

from deltafix.facts.logical_types import NAMES, constant_of, logical_type
from deltafix.rules.ast import And, Atom, Formula, Not, Or, Rule
from deltafix.rules.functors import SIGNATURES
from deltafix.rules.logical import signatures
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.rules.walk import body_of, subterms, terms_of
from deltafix.sql.builder import Relation
from deltafix.sql.types import (
    BIGINT,
    DOUBLE,
    NULL,
    TEXT,
    SqlType,
    common_type,
    logical_name,
    of_logical,
)

__all__ = ["DECLARED", "Kind", "RuleTypes", "declared_kind", "opened"]


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

DECLARED: Final = (*_PLAIN, *NAMES)
"""The types that `.decl` takes; each also with a question mark, for columns with NULLs."""


def declared_kind(name: str) -> Kind | None:
    """What is known of a column of a type that `.decl` takes; None for any other type."""
    kind = logical_type(name)
    if kind is None:
        return Kind(_PLAIN[name], plain=True) if name in _PLAIN else None
    return Kind(of_logical(kind), kind.nullable, plain=kind.inner in _PLAIN)


@dataclass
class RuleTypes:
    """What the columns of relations hold, those of `tables` and those that rules define.

    Args:
        tables: tables and views, by the names that rules have for them.
        columns: of what the rules define; what `.decl` says of those that have one.
    """

    tables: Mapping[str, Relation]
    columns: dict[str, list[Kind | None]]

    def solve(self, rules: Sequence[Rule]) -> None:
        """Find what the columns hold: the least that all rules, of one head each, say."""
        declared, self.columns = self.columns, {}
        for name, kinds in declared.items():
            self.columns[name] = [kind if kind and not kind.plain else None for kind in kinds]
        self._follow(rules, declared)
        for name, kinds in declared.items():
            mine = self.columns[name]
            mine[:] = (kind or other for kind, other in zip(mine, kinds, strict=True))
        self._follow(rules, declared)

    def _follow(self, rules: Sequence[Rule], declared: Mapping[str, Sequence[Kind | None]]) -> None:
        """Add to the columns what rules say, until none adds anything.

        A column of a type that is `said` is of that type.
        """
        before: object = None
        while before != self.columns:
            before = {name: [*kinds] for name, kinds in self.columns.items()}
            for rule in rules:
                (head,) = rule.heads
                known = self._variables(rule)
                mine, fixed = self.columns[head.relation], declared[head.relation]
                for position, arg in enumerate(head.args[: len(mine)]):
                    kind = fixed[position]
                    if kind is None or kind.plain:
                        mine[position] = _either(mine[position], self._kind(arg, known))

    def _of(self, relation: str) -> Sequence[Kind | None]:
        """What the columns of a relation hold."""
        if relation in self.columns:
            return self.columns[relation]
        columns = self.tables[relation].columns
        return [Kind(column.type, column.nullable, column.type is NULL) for column in columns]

    def _variables(self, rule: Rule) -> _Known:
        """What the variables of a rule hold."""
        known: _Known = {}
        inner: _Known = {}
        self._bind_all(rule.body, known, inner)
        # A variable of an aggregate that the rest of the rule reads, and only the aggregate binds.
        known = {**inner, **known}
        self._bind_all(rule.body, known, inner)
        return known

    def _bind_all(self, formula: Formula, known: _Known, inner: _Known) -> None:
        """Add what a formula that holds says of its variables; to `inner`, of inner scopes."""
        parts = formula.parts if isinstance(formula, And) else (formula,)
        before: object = None
        while before != known:
            before = dict(known)
            for part in parts:
                self._bind_part(part, known, inner)

    def _bind_part(self, part: Formula, known: _Known, inner: _Known) -> None:
        if isinstance(part, Or):
            cases = [dict(known) for _ in part.parts]
            for case, disjunct in zip(cases, part.parts, strict=True):
                self._bind_all(disjunct, case, inner)
            # What some cases alone bind the rest of the rule binds, too, or nobody else reads.
            for name in cases[0]:
                if all(name in case for case in cases):
                    known[name] = reduce(_of_either, (case[name] for case in cases))
            return
        if isinstance(part, And):
            self._bind_all(part, known, inner)
            return
        if isinstance(part, Not):  # what does not hold says nothing of values that are there
            self._bind_all(part.body, dict(known), {})
            return
        for term in terms_of(part):
            for below in subterms(term):
                if isinstance(below, Aggregate):
                    mine = dict(known)
                    self._bind_all(body_of(below), mine, inner)
                    inner.update(mine)
        if isinstance(part, Atom):
            for arg, kind in zip(part.args, self._of(part.relation), strict=False):
                self._bind(arg, kind, known)
            return
        left, right = self._kind(part.left, known), self._kind(part.right, known)
        if part.op == "=":
            self._bind(part.left, right, known)
            self._bind(part.right, left, known)

    def _bind(self, term: Term, kind: Kind | None, known: _Known) -> None:
        """Match a term with a value."""
        if kind is None:
            return
        if isinstance(term, Var):
            known[term.name] = _both(known.get(term.name), kind)
        elif kind.nullable and (field := opened(term)) is not None:
            self._bind(field, replace(kind, nullable=False), known)

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
            return declared_kind(str(named.value)) if isinstance(named, Const) else None
        signature = SIGNATURES.get(term.functor)
        if signature is not None and signature.result in _PLAIN:
            return Kind(_PLAIN[signature.result], plain=True)
        argument_kinds = [self._kind(arg, known) for arg in term.args]
        kinds = [kind for kind in argument_kinds if kind is not None]
        sure = [kind for kind in kinds if not kind.is_open]
        if term.functor in ("min", "max"):
            return next((kind for kind in sure if not kind.plain), next(iter(sure or kinds), None))
        logical = _logical(term, argument_kinds)
        return _computed(next(iter(sure or kinds), None)) if logical is None else logical

    def _aggregate(self, term: Aggregate, known: _Known) -> Kind | None:
        if term.target is None:
            return Kind(BIGINT, plain=True)
        if term.op == "mean":
            return Kind(DOUBLE, plain=True)
        mine = dict(known)
        self._bind_all(body_of(term), mine, {})
        kind = self._kind(term.target, mine)
        is_sum = term.op == "sum" and kind is not None and kind.type.is_decimal
        if term.op in ("min", "max") or is_sum:
            return kind
        return _computed(kind)


def _logical(term: Call, argument_kinds: Sequence[Kind | None]) -> Kind | None:
    """What is computed of values of logical types; None where there is no such value."""
    typed = [kind for kind in argument_kinds if kind is not None and not kind.plain]
    names = {logical_name(kind.type, nullable=False) for kind in typed if not kind.nullable}
    for *given, result in signatures(term.functor, filter(logical_type, names)):
        may_be = map(_may_be, given, term.args, argument_kinds)
        if len(given) == len(argument_kinds) and all(may_be):
            return declared_kind(result)
    return None


def _may_be(name: str, term: Term, kind: Kind | None) -> bool:
    """Whether a value is of a type that rules name."""
    if isinstance(term, Const):
        if isinstance(term.value, int) and name == "number":
            return True
        return constant_of(name, term.value) is not None
    return kind is not None and logical_name(kind.type, nullable=kind.nullable) == name


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


def _either(left: Kind | None, right: Kind | None) -> Kind | None:
    """What is known of what holds values of both, each of which may not be known yet."""
    return left or right if left is None or right is None else _of_either(left, right)


def _of_either(left: Kind, right: Kind) -> Kind:
    """What is known of what holds values of both; where they do not fit checks say so."""
    if NULL in (left.type, right.type):
        return replace(right if left.type is NULL else left, nullable=True)
    if left.type.base != right.type.base or left.nullable != right.nullable:
        return right if left.is_open else left
    shared = _PLAIN[left.type.base]
    if left.type.code == right.type.code:
        shared = common_type(left.type, right.type) or left.type
    plain, is_open = left.plain or right.plain, left.is_open and right.is_open
    return Kind(shared, left.nullable, plain, is_open)


def _both(left: Kind | None, right: Kind) -> Kind:
    """What is known of a value that is equal to both."""
    if left is None:
        return right
    if left.plain != right.plain:
        return right if left.plain else left
    return _of_either(left, right)
