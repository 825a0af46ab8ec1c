"""Rules for those who think in sets: `const union join filter project lfp`.

A *set* here is a choice of bodies with the terms each gives: `{(terms) | body}`. Operators
rearrange such comprehensions; only `lfp` adds a relation, with one rule per body, to the program
whose `with` block is open. Invariant: no operator evaluates anything; the result is a program like
any other, so its incremental form comes from the same derivation (the source's section 5).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from deltafix.errors import ProgramError
from deltafix.facts.schema import Value
from deltafix.rules.ast import And, Atom, Comparison, Formula, Rule, conjunction
from deltafix.rules.builder import Relation, current_builder
from deltafix.rules.expressions import FormulaExpr, Operand, TermExpr, term_of
from deltafix.rules.functors import SIGNATURES
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.rules.walk import Leaf, map_formula, map_rule, map_term

_fresh = itertools.count(1)
_TYPES: Final = {int: "number", float: "float", str: "symbol"}


@dataclass(frozen=True, slots=True)
class Rows:
    """A set of rows as alternatives `(terms, body)`; `types` are the columns' type names.

    `types` is None while the columns are not known yet: the argument of `lfp`'s function in its
    first, column-finding call.
    """

    types: tuple[str, ...] | None
    alternatives: tuple[tuple[tuple[Term, ...], Formula], ...]


Source: TypeAlias = Rows | Relation

_UNKNOWN: Final = Rows(None, ())


def _rows(source: Source) -> Rows:
    if isinstance(source, Rows):
        return source
    terms = tuple(Var(f"{column.name}'{next(_fresh)}") for column in source.attributes)
    types = tuple(column.type for column in source.attributes)
    return Rows(types, ((terms, Atom(source.name, terms)),))


def _plain(name: str) -> str:
    """A variable's own name: what stands behind `'` only keeps two uses of a set apart."""
    return name.split("'", 1)[0]


def _apart(terms: tuple[Term, ...], body: Formula) -> tuple[tuple[Term, ...], Formula]:
    """The same alternative with variables no other one has: a set may be used twice."""
    names: dict[str, str] = {}

    def leaf(term: Leaf) -> Term:
        if not isinstance(term, Var):
            return term
        if term.name not in names:
            names[term.name] = f"{_plain(term.name)}'{next(_fresh)}"
        return Var(names[term.name])

    return tuple(map_term(term, leaf) for term in terms), map_formula(body, leaf)


def const(rows: Iterable[Sequence[Value] | Value]) -> Rows:
    """Exactly these rows; a bare value is a row of one column."""
    found = []
    types: tuple[str, ...] | None = None
    for row in rows:
        values = row if isinstance(row, tuple | list) else (row,)
        here = tuple(_TYPES.get(type(value), "") for value in values)
        if types not in (None, here):
            raise TypeError(f"the rows of const differ: {types} and {here} in {row!r}")
        types = here
        found.append((tuple(map(term_of, values)), And(())))
    if types is None:
        raise ValueError("const wants at least one row: the columns follow from it")
    return Rows(types, tuple(found))


def union(*sources: Source) -> Rows:
    """Rows of any of the sources, which have the same columns."""
    parts = [part for part in map(_rows, sources) if part.types is not None]
    if not parts:
        return _UNKNOWN
    for part in parts[1:]:
        if part.types != parts[0].types:
            raise TypeError(f"union of different columns: {parts[0].types} and {part.types}")
    return Rows(parts[0].types, tuple(a for part in parts for a in part.alternatives))


def join(
    left: Source,
    right: Source,
    *,
    on: Iterable[tuple[int, int]],
    project: Callable[..., Operand | tuple[Operand, ...]] | None = None,
) -> Rows:
    """Pairs of rows that agree on columns `on` (left position, right position), projected.

    Without `project` a row is the left row followed by the right one. `project` takes one argument
    per column, left then right, and gives a term or a tuple of terms.
    """
    one, two, pairs = _rows(left), _rows(right), tuple(on)
    if one.types is None or two.types is None:
        return _UNKNOWN
    for a, b in pairs:
        if not (0 <= a < len(one.types) and 0 <= b < len(two.types)):
            raise ValueError(
                f"join on {(a, b)}: positions go to {len(one.types) - 1} and {len(two.types) - 1}"
            )
    found = []
    for (left_terms, left_body), (right_terms, right_body) in itertools.product(
        one.alternatives, two.alternatives
    ):
        mine, body = _apart(left_terms, left_body)
        theirs, other = _apart(right_terms, right_body)
        equal = [Comparison("=", mine[a], theirs[b]) for a, b in pairs]
        found.append(((*mine, *theirs), conjunction((body, other, *equal))))
    both = Rows((*one.types, *two.types), tuple(found))
    return both if project is None else _project(both, project)


def filter_(test: Callable[..., FormulaExpr], source: Source) -> Rows:
    """Rows for which `test` holds: a function from one term per column to a body."""
    rows = _rows(source)
    if rows.types is None:
        return _UNKNOWN
    found = []
    for terms, body in rows.alternatives:
        extra = test(*map(TermExpr, terms))
        if not isinstance(extra, FormulaExpr):
            raise TypeError(f"filter's function gave {extra!r}: it gives a comparison or an atom")
        found.append((terms, conjunction((body, extra.formula))))
    return Rows(rows.types, tuple(found))


def project(source: Source, to: Callable[..., Operand | tuple[Operand, ...]]) -> Rows:
    """`to` of every row: a function from one term per column to a term or a tuple of terms."""
    return _project(_rows(source), to)


def _project(rows: Rows, to: Callable[..., Operand | tuple[Operand, ...]]) -> Rows:
    if rows.types is None:
        return _UNKNOWN
    found = []
    types: tuple[str, ...] | None = None
    for terms, body in rows.alternatives:
        given = to(*map(TermExpr, terms))
        new = tuple(map(term_of, given if isinstance(given, tuple) else (given,)))
        known = {
            term.name: kind
            for term, kind in zip(terms, rows.types, strict=True)
            if isinstance(term, Var)
        }
        constants = {id(term): kind for term, kind in zip(terms, rows.types, strict=True)}
        types = tuple(constants.get(id(term)) or _type(term, known) for term in new)
        found.append((new, body))
    return Rows(types if types is not None else (), tuple(found))


def _type(term: Term, known: dict[str, str]) -> str:
    """The type name of a projected term."""
    if isinstance(term, Var) and term.name in known:
        return known[term.name]
    if isinstance(term, Const):
        return term.type or _TYPES[type(term.value)]
    if isinstance(term, Call) and term.functor in SIGNATURES:
        result = SIGNATURES[term.functor].result
        if result in ("number", "unsigned", "float", "symbol"):
            return result
        inner = [_type(arg, known) for arg in term.args if not isinstance(arg, Const)]
        return inner[0] if inner else _type(term.args[0], known)
    if isinstance(term, Aggregate):
        return {"count": "number", "mean": "float"}.get(term.op) or _type(
            term.target or Const(0), known
        )
    raise ProgramError(f"the type of {term!r} is not known here: project columns of the source")


def lfp(function: Callable[[Rows], Source], *, name: str | None = None) -> Relation:
    """The least set `s` with `s = function(s)`, as a relation of the open program.

    `function` is called twice: once to learn the columns (from the parts that do not need `s`),
    once to write the rules. Raises ProgramError when every part needs `s`.
    """
    builder = current_builder()
    found = function(_UNKNOWN)
    types = _rows(found).types
    if types is None:
        raise ProgramError("lfp needs a part that does not use its argument: union(base, ...)")
    if name is None:
        taken = {relation.name for relation in builder.relations}
        name = next(n for n in (f"lfp_{i}" for i in itertools.count(1)) if n not in taken)
    relation = builder.declare(name, {f"c{i}": kind for i, kind in enumerate(types)})
    for terms, body in _rows(function(_rows(relation))).alternatives:
        head = Atom(name, terms)
        builder.rules.append(_tidy(Rule((head,), body)))
    return relation


def _tidy(rule: Rule) -> Rule:
    """The rule as one would write it: joined columns share a variable, and names are plain."""
    parts = rule.body.parts if isinstance(rule.body, And) else (rule.body,)
    same: dict[str, Term] = {}
    kept: list[Formula] = []

    def leaf(term: Leaf) -> Term:
        while isinstance(term, Var) and term.name in same:
            followed = same[term.name]
            if not isinstance(followed, Var):
                return followed
            term = followed
        return term

    for part in parts:
        if isinstance(part, Comparison) and part.op == "=" and part.span is None:
            left, right = map_term(part.left, leaf), map_term(part.right, leaf)
            if isinstance(right, Var):
                if left != right:
                    same[right.name] = left
                continue
            if isinstance(left, Var):
                same[left.name] = right
                continue
        kept.append(part)
    tidy = map_rule(Rule(rule.heads, conjunction(kept), rule.span), leaf)
    names: dict[str, str] = {}

    def rename(term: Leaf) -> Term:
        if not isinstance(term, Var):
            return term
        if term.name not in names:
            plain = _plain(term.name)
            tries = (plain, *(f"{plain}{i}" for i in range(2, len(names) + 3)))
            names[term.name] = next(name for name in tries if name not in names.values())
        return Var(names[term.name], term.span)

    return map_rule(tidy, rename)
