"""Aggregates as folds: what ranges over the body, and how the rule sees the value.

    r(x, n) :- p(x), n = sum v : { q(x, v, _) }.

becomes a hidden relation with a row for each binding of the aggregate's body (or the body's own
relation, where the body is one plain atom), a `Fold` of it into `~k(x, n)`, and two clauses:

    r(x, n) :- p(x), ~k(x, n).        r(x, n) :- p(x), !~j(x), n = 0.

The second, for groups without rows (`~j` lists the others), only for `count` and `sum`.
Invariant: a binding of the body's own variables is counted once for each of the outer ones, `_`
ranges like a variable, and bindings of alternatives with different variables of their own differ.
What the functions `count`, `sum`, … mean is the executor's.
"""

from __future__ import annotations

from dataclasses import replace
from types import UnionType
from typing import TYPE_CHECKING

from deltafix.facts.logical_types import logical_type
from deltafix.facts.values import OPTIONAL, BaseType, Value
from deltafix.plan.clause import Absent, Clause, Code, Compare, Fold, Literal, Match, Slot
from deltafix.plan.constructed import field_types
from deltafix.plan.narrow import NARROW, cut
from deltafix.rules.apart import own_names
from deltafix.rules.ast import And, Atom, Comparison, Formula, FunctorDecl, Or, Program
from deltafix.rules.infer import term_type
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard
from deltafix.rules.walk import alternatives, body_of, is_constructor

if TYPE_CHECKING:
    from deltafix.plan.clause import Argument
    from deltafix.plan.flatten import Flattening

_EMPTY = frozenset(("count", "sum"))
"""Aggregates that have a value, 0, for a group without rows."""
_ZERO: dict[BaseType, Value] = {"number": 0, "unsigned": 0, "float": 0.0, "symbol": ""}


def literals(
    outer: Flattening, term: Aggregate, target: Slot | Call
) -> tuple[tuple[Literal, ...], ...]:
    """The literals that bind `target` to the aggregate's value: one group per alternative.

    A record that is a target has a column for each of its fields: no value is made of these.
    """
    shared = tuple(Slot(name) for name in sorted(outer.shared(term)))
    kind = term_type(term, outer.types, outer.program)
    source, group, value, folded = _source(outer, term, shared)
    types = tuple(outer.types[slot.name] for slot in shared)
    if isinstance(target, Call):
        kinds = field_types(outer, target)
        name = outer.draft.hide((*types, *kinds))
        fields: list[Argument | None] = []
        for arg, of in zip(target.args, kinds, strict=True):
            if isinstance(arg, Var):
                outer.types[arg.name] = of
            fields.append(None if isinstance(arg, Wildcard) else outer.argument(arg, of))
        outer.draft.folds.append(Fold(name, source, group, value, term.op, fields=folded))
        return ((Match(name, (*shared, *fields)),),)
    name = outer.draft.hide((*types, kind))
    wraps = term.op == "sum" or term.op.startswith("@@")
    if outer.program.word_size == NARROW and wraps and kind in ("number", "unsigned"):
        whole = outer.fresh(kind)
        matches: tuple[Literal, ...] = (
            Match(name, (*shared, whole)),
            *cut(outer, target, whole, kind),
        )
    else:
        matches = (Match(name, (*shared, target)),)
    if term.op not in _EMPTY or not shared:
        reducer = _reducer(outer.program, term)
        details = (reducer.most, reducer.scale, reducer.kept) if reducer else _bound(term)
        fold = Fold(name, source, group, value, term.op, None, folded, *details)
        outer.draft.folds.append(replace(fold, is_real=_is_real(outer, term, fold.way)))
        return (matches,)
    present = outer.draft.hide(types)
    is_real = _is_real(outer, term, term.op)
    fold = Fold(name, source, group, value, term.op, present, (), *_bound(term), is_real=is_real)
    outer.draft.folds.append(fold)
    zero = Compare("=", kind, target, Code(_ZERO[kind], kind))
    return (matches, (Absent(present, shared), zero))


def _bound(term: Aggregate) -> tuple[int | None, int | None]:
    """The greatest total of a sum of decimals, and how many of its digits are behind the point."""
    kind = logical_type(term.kind)
    return (None, None) if kind is None else (10**kind.digits - 1, kind.scale)


def is_opened(program: Program, term: Aggregate, pattern: Call) -> bool:
    """Whether `term = pattern` gives the fields of a reducer's result names, or asks for some."""
    return _is_users(program, term) and _is_flat(pattern, Var | Wildcard | Const)


def _is_users(program: Program, term: Aggregate) -> bool:
    """Whether Python folds it."""
    reducer = _reducer(program, term)
    return reducer is not None and (reducer.most, reducer.scale, reducer.kept) == (None, None, "")


def _is_flat(term: Term | None, kinds: type | UnionType) -> bool:
    """Whether it is a record of several fields, all of such terms."""
    return (
        isinstance(term, Call)
        and term.functor.startswith("[")
        and len(term.args) > 1
        and all(isinstance(arg, kinds) for arg in term.args)
    )


def _fields(outer: Flattening, term: Aggregate) -> list[str] | None:
    """The variables of a record that a user's reducer takes; it is not made. None: of no other."""
    if not (_is_users(outer.program, term) and _is_flat(term.target, Var)):
        return None
    return [arg.name for arg in term.target.args if isinstance(arg, Var)]  # type: ignore[union-attr]


def _source(
    outer: Flattening, term: Aggregate, shared: tuple[Slot, ...]
) -> tuple[str, tuple[int, ...], int | None, tuple[int, ...]]:
    """The relation to fold, its group columns, and its value column or those of its fields."""
    named = _Naming(outer).formula(body_of(term), "_")
    cases = alternatives(named)
    counted = _counted(outer.program, term)
    plain = _plain(outer, term, shared, cases)
    if plain is not None:
        return plain
    around = {slot.name for slot in shared}
    names = [tuple(sorted(own_names(And(case)) - around)) for case in cases]
    if counted is not None:
        names = [tuple(name for name in own if name in counted) for own in names]
    columns = [Slot(name) for name in sorted({n for own in names for n in own})]
    tags = list(dict.fromkeys(names))
    types = [outer.types[slot.name] for slot in (*shared, *columns)]
    if columns and len(tags) > 1:
        types.append("number")
    value = None
    folded: tuple[int, ...] = ()
    fields = _fields(outer, term)
    if fields is not None and {*map(Slot, fields)} <= {*shared, *columns}:
        folded = tuple((*shared, *columns).index(Slot(name)) for name in fields)
    elif isinstance(term.target, Var) and Slot(term.target.name) in (*shared, *columns):
        value = (*shared, *columns).index(Slot(term.target.name))
    elif term.target is not None:
        value = len(types)
        types.append(term_type(term.target, outer.types, outer.program))
    hidden = outer.draft.hide(types)
    for case, own in zip(cases, names, strict=True):
        inner = outer.inner()
        inner.known = frozenset(slot.name for slot in shared)  # the target is not: it is found here
        for _ in inner.bodies(case):
            _clause(outer, inner, term, hidden, (shared, columns, own, tags, len(types)))
        outer.values = inner.values
    return hidden, tuple(range(len(shared))), value, folded


def _clause(
    outer: Flattening,
    inner: Flattening,
    term: Aggregate,
    hidden: str,
    shape: tuple[tuple[Slot, ...], list[Slot], tuple[str, ...], list[tuple[str, ...]], int],
) -> None:
    """One clause of the hidden relation that is folded."""
    shared, columns, names, tags, width = shape
    args: list[Argument] = [*shared]
    for slot in columns:  # a variable that this alternative lacks
        kind = outer.types[slot.name]
        args.append(slot if slot.name in names else Code(_ZERO.get(kind), kind))
    if columns and len(tags) > 1:
        args.append(Code(tags.index(names), "number"))
    base = inner.body
    if term.target is not None and len(args) < width:
        of = term_type(term.target, outer.types, outer.program)
        args.append(inner.argument(term.target, of))
    for _ in inner.folded():
        body = outer.grounded(term, hidden, args, inner.body)
        outer.draft.clauses.append(Clause(hidden, tuple(args), body, outer.number))
    inner.body = base


def _reducer(program: Program, term: Aggregate) -> FunctorDecl | None:
    """The declaration of a reducer."""
    return next((functor for functor in program.functors if f"@@{functor.name}" == term.op), None)


def _is_real(outer: Flattening, term: Aggregate, way: str) -> bool:
    """Whether floats are added up."""
    if term.target is None or way not in ("sum", "mean"):
        return False
    kind = term_type(term.target, outer.types, outer.program)
    return OPTIONAL.get(kind, kind) == "float"


def _is_by_value(program: Program, term: Aggregate) -> bool:
    """Whether it makes no difference how often a value occurs."""
    reducer = _reducer(program, term)
    return (reducer.kept if reducer else term.op) in ("min", "max")


def _counted(program: Program, term: Aggregate) -> frozenset[str] | None:
    """The variables by whose values bindings are counted; None: by all of the body's own."""
    if _is_by_value(program, term):
        return frozenset()
    if term.over is None:
        return None
    return frozenset(variable.name for variable in term.over if isinstance(variable, Var))


def _plain(
    outer: Flattening,
    term: Aggregate,
    shared: tuple[Slot, ...],
    cases: tuple[tuple[Formula, ...], ...],
) -> tuple[str, tuple[int, ...], int | None, tuple[int, ...]] | None:
    """The body's own relation, where it is one atom over distinct variables, each row one binding.

    It may equate those with one another, or with what the group is of.
    """
    wanted = [slot.name for slot in shared]
    fields = _fields(outer, term)
    if isinstance(term.target, Var):
        wanted.append(term.target.name)
    elif fields is not None:
        wanted += fields
    elif term.target is not None:
        return None
    atom = _unified(cases[0], frozenset(wanted)) if len(cases) == 1 else None
    if atom is None:
        return None
    names = [arg.name if isinstance(arg, Var) else None for arg in atom.args]
    if None in names or len(set(names)) < len(names) or not set(wanted) <= set(names):
        return None
    if term.over is not None and not _is_by_value(outer.program, term):
        key = outer.program.relation(atom.relation).key or range(len(names))
        if not {names[column] for column in key} <= {
            *wanted,
            *(_counted(outer.program, term) or ()),
        }:
            return None
    positions = tuple(names.index(name) for name in wanted)
    group, value = positions[: len(shared)], positions[len(shared) :]
    if term.target is None:
        return atom.relation, group, None, ()
    if fields is not None:
        return atom.relation, group, None, value
    return atom.relation, group, value[0], ()


def _unified(case: tuple[Formula, ...], kept: frozenset[str]) -> Atom | None:
    """The one atom of a case, with one name for variables that the rest of it equates.

    None where there are other atoms or tests. Equal values have one code, floats too.
    """
    atoms = [part for part in case if isinstance(part, Atom)]
    if len(atoms) != 1:
        return None
    (atom,) = atoms
    names: dict[str, str] = {}

    def name_of(var: Var) -> str:
        name = var.name
        while name in names:
            name = names[name]
        return name

    for part in case:
        if part is atom:
            continue
        if not (
            isinstance(part, Comparison)
            and part.op == "="
            and isinstance(part.left, Var)
            and isinstance(part.right, Var)
        ):
            return None
        alias, other = name_of(part.left), name_of(part.right)
        if alias in kept:
            alias, other = other, alias
        if alias != other:
            names[alias] = other
    args = (Var(name_of(arg)) if isinstance(arg, Var) else arg for arg in atom.args)
    return replace(atom, args=tuple(args))


class _Naming:
    """Wildcards of an aggregate's own body, outside negations, as variables of their own."""

    def __init__(self, outer: Flattening) -> None:
        self.outer = outer

    def formula(self, formula: Formula, path: str) -> Formula:
        """The formula with names; the same place has the same name in every alternative."""
        if isinstance(formula, Atom):
            kinds = self.outer.program.column_types(formula.relation)
            args = tuple(
                self.term(arg, f"{path}.{column}", kind)
                for column, (arg, kind) in enumerate(zip(formula.args, kinds, strict=True))
            )
            return replace(formula, args=args)
        if isinstance(formula, (And, Or)):
            parts = (self.formula(part, f"{path}.{n}") for n, part in enumerate(formula.parts))
            return replace(formula, parts=tuple(parts))
        return formula

    def term(self, term: Term, path: str, kind: BaseType) -> Term:
        """A column or a field of a record with names."""
        if isinstance(term, Wildcard):
            self.outer.types[path] = kind
            return Var(path)
        if isinstance(term, Call) and is_constructor(term):
            kinds = field_types(self.outer, term)
            fields = enumerate(zip(term.args, kinds, strict=True))
            named = tuple(self.term(arg, f"{path}.{n}", of) for n, (arg, of) in fields)
            return replace(term, args=named)
        return term
