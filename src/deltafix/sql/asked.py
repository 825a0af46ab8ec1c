"""Which groups of a correlated aggregate the rows around ask for.

    WHERE p.brand = 'x' AND l.quantity < (SELECT AVG(quantity) FROM l WHERE l.part = p.id)

is an aggregate for each part that is in `l`, though few are of the brand. So these are a relation,
`asked(id) :- p(id, 'x')`, which the rows that are aggregated join: magic sets (Bancilhon, Maier,
Sagiv, Ullman 1986) of one literal. Invariant: what is asked follows from literals around that stand
beside the aggregate, and no test of it can fail; so where the value is read its group is there.
It is done where a test says by itself that few rows pass: a column equal to a constant, IN, LIKE. A
range or a truth value may hold of nearly all, and each row that is aggregated would be looked up
for nothing. Not here: programs of rules, whose `magic` relations are `rules.passes.magic`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from deltafix.rules.ast import And, Atom, Comparison, Formula, conjunction
from deltafix.rules.terms import Call, Const, Term, Var
from deltafix.rules.walk import is_constructor, occurrences, subterms
from deltafix.sql.types import BOOLEAN

if TYPE_CHECKING:
    from deltafix.sql.builder import Builder

__all__ = ["asked"]


def asked(builder: Builder, around: Iterable[Formula], inside: Iterable[Formula]) -> list[Atom]:
    """Literals that say which groups of an aggregate over `inside` are read `around` it.

    One for each literal of a table or view there that few rows pass. O(literals around, squared).
    """
    tables = {relation.name: relation for relation in builder.tables.values()}
    together = conjunction(around)
    literals = together.parts if isinstance(together, And) else (together,)
    atoms = [literal for literal in literals if isinstance(literal, Atom)]
    bound = {arg for atom in atoms for arg in atom.args}
    groups = [var for var in map(Var, occurrences(inside)) if var in bound]
    same = _equated(literals)
    found = []
    for atom in atoms:
        if atom.relation not in tables:
            continue  # it may be part of the recursion that this is a step of
        columns = dict(zip(atom.args, tables[atom.relation].all_columns, strict=True))
        tests, defined = _tests(columns, literals)
        for term, held in defined.items():
            if isinstance(term, Call) and held in columns:  # a column that is not NULL, opened
                bare = replace(columns[held], nullable=False)
                columns |= {arg: bare for arg in term.args if isinstance(arg, Var)}
        many = {var for var, column in columns.items() if column.type is BOOLEAN}
        if not any(_is_rare(test, columns.keys() - many, defined) for test in tests):
            continue
        key = {
            var: next(own for own in (var, *columns) if own in columns and same(own) == same(var))
            for var in groups
            if same(var) in map(same, columns)
        }
        if key:
            shown = [columns[own] for own in key.values()]
            relation = builder.once(shown, [*key.values()], [atom, *tests])
            found.append(Atom(relation.name, tuple(key)))
    return found


def _equated(literals: Iterable[Formula]) -> Callable[[Term], Term]:
    """One of the variables that literals equate with one, the same for all of them."""
    others: dict[Term, Term] = {}

    def same(term: Term) -> Term:
        while term in others:
            term = others[term]
        return term

    for part in literals:
        if isinstance(part, Comparison) and part.op == "=":
            left, right = same(part.left), same(part.right)
            if left != right and isinstance(left, Var) and isinstance(right, Var):
                others[left] = right
    return same


def _tests(
    columns: Iterable[Term], literals: Iterable[Formula]
) -> tuple[list[Comparison], dict[Term, Term]]:
    """The literals that test columns alone and cannot fail; what their own variables stand for."""
    known = {term.name for term in columns if isinstance(term, Var)}
    tests, defined = list[Comparison](), dict[Term, Term]()
    for part in literals:
        if not isinstance(part, Comparison) or not (_is_safe(part.left) and _is_safe(part.right)):
            continue
        for side, other in ((part.left, part.right), (part.right, part.left)):
            is_new = isinstance(side, Var) or is_constructor(side)
            if part.op == "=" and is_new and occurrences(other).keys() <= known:
                known |= occurrences(side).keys()
                defined.setdefault(side, other)
        if occurrences(part).keys() <= known:
            tests.append(part)
    return tests, defined


def _is_safe(term: Term) -> bool:
    """Whether a term has a value whatever its variables hold (`sql.conditions.Flags`)."""
    return all(
        part.functor.startswith(_SAFE) if isinstance(part, Call) else isinstance(part, Var | Const)
        for part in subterms(term)
    )


_SAFE: Final = ("@~", "[", "lor", "land", "lnot")


def _is_rare(test: Comparison, columns: Set[Term], defined: Mapping[Term, Term]) -> bool:
    """Whether a test says that few rows pass it."""
    if test.op == "=":
        sides = (test.left, test.right)
        return any(side in columns for side in sides) and not all(map(occurrences, sides))
    return test.op == "!=" and test.right == Const(0, "number") and _is_flag(test.left, defined)


def _is_flag(term: Term, defined: Mapping[Term, Term]) -> bool:
    """Whether a truth says by itself that it is one of few: LIKE, and equality with a constant."""
    term = defined.get(term, term)
    if not isinstance(term, Call):
        return False
    if term.functor in ("lor", "land"):
        sides = (_is_flag(arg, defined) for arg in term.args)
        return all(sides) if term.functor == "lor" else any(sides)
    return term.functor.startswith(_RARE) and isinstance(term.args[1], Const)


_RARE: Final = ("@~like_", "@~same_")
